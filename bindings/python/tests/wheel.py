# SPDX-License-Identifier: Apache-2.0
"""Makes the source distribution and the wheel as `make wheel` does, of the library that was built here, installs the
wheel into an empty environment, and uses it with nothing else in reach. Of the source distribution it is seen that
meson finds all that it names; with TUTTI_TEST_FULL=1 pip compiles and installs it.

wheel.py BUILD ROOT
"""
import ast
import glob
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

PROGRAM = """
import array, sys, tutti, tutti.nccl
assert tutti.__file__.startswith({site!r}), tutti.__file__
assert tutti.nccl.path().startswith({site!r}), tutti.nccl.path()
with tutti.init() as comm:
    ones = array.array("d", [1.0])
    comm.allreduce(ones)
    sys.stdout.write(f"sum {{ones[0]:g}}\\n")
"""
NCCL = """
import ctypes, sys
library, version = ctypes.CDLL(sys.argv[1]), ctypes.c_int()
print(library.ncclGetVersion(ctypes.byref(version)), version.value)
"""
clean = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "PYTHONPATH")}
clean["PIP_NO_INPUT"] = "1"


def run(*command, **more):
    """What it printed; the test ends with what it said where it failed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          env={**clean, **more})
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: {found!r} where {wanted!r} was expected")


def installed(build, root, folder):
    """The library and the programs as `make install` leaves them: their folder."""
    run("make", "-s", "-C", root, "put", f"BUILD={build}", f"PREFIX={folder}")
    options = {o["name"]: o["value"]
               for o in json.loads(run("meson", "introspect", "--buildoptions", build))}
    if options["libdir"] != "lib":
        shutil.copytree(os.path.join(folder, options["libdir"]), os.path.join(folder, "lib"), dirs_exist_ok=True)
    return folder


def check_contents(wheel):
    """Licences of all libraries, and metadata that say whose it is."""
    if platform.libc_ver()[1] == "2.36":  # Red Hat 9 has 2.34: no call that came later is worth more than its users
        expect("the oldest C library", re.search(r"manylinux_2_\d+", wheel).group(), "manylinux_2_34")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
    expect("libraries without a licence's text", sum(name.startswith("tutti.libs/") for name in names),
           sum("/licenses/lib" in name for name in names))
    expect("the licence of tutti", any(name.rpartition("/")[2] == "LICENSE" for name in names), True)
    for field in ("Author: The tutti developers", "Classifier: Operating System :: POSIX :: Linux",
                  "Project-URL: Homepage, https://tutti.invalid"):
        expect(field, field in metadata.splitlines(), True)


def environment(folder):
    run(sys.executable, "-m", "venv", folder)
    return os.path.join(folder, "bin")


def use(env):
    """Two ranks, and NCCL's interface, of what was installed there."""
    program = os.path.join(env, "program.py")
    with open(program, "w", encoding="utf-8") as file:
        file.write(PROGRAM.format(site=os.path.dirname(env)))
    said = run(os.path.join(env, "tutti"), "run", "-n", "2", "--", os.path.join(env, "python"), program)
    expect("two ranks", sorted(said.splitlines()), ["[0] sum 2", "[1] sum 2"])
    expect("MPI's calls", os.path.exists(run(os.path.join(env, "python"), "-m", "tutti.mpi").strip()), True)
    library = run(os.path.join(env, "python"), "-m", "tutti.nccl").strip()
    expect("NCCL's interface", run(os.path.join(env, "python"), "-c", NCCL, library).split()[0], "0")


def constant(file, name):
    """The value that a module gives this name, without running the module."""
    with open(file, encoding="utf-8") as text:
        tree = ast.parse(text.read())
    return next(ast.literal_eval(one.value) for one in tree.body
                if isinstance(one, ast.Assign) and one.targets[0].id == name)


def check_sdist(sdist, folder):
    with tarfile.open(sdist) as archive:
        archive.extractall(folder)
    source, = glob.glob(os.path.join(folder, "tutti-*", "source"))
    configured = os.path.join(folder, "configured")
    run("meson", "setup", "-Dtests=disabled", "-Dagent=disabled", "-Dcuda=disabled", configured, source)
    plan = json.loads(run("meson", "introspect", "--install-plan", configured))["targets"].values()
    setup = os.path.join(os.path.dirname(source), "setup.py")
    carried = tuple(name for names in constant(setup, "CARRIED").values() for name in names)
    tags = constant(setup, "TAGS")
    left = [place["destination"] for place in plan
            if place["tag"] in tags and not os.path.basename(place["destination"]).startswith(carried)]
    expect("targets that are installed but neither built nor carried", left, [])
    if os.environ.get("TUTTI_TEST_FULL"):
        env = environment(os.path.join(folder, "compiled"))
        run(os.path.join(env, "pip"), "install", "-q", sdist, SETUP="-Dcuda=disabled")
        use(env)


def main():
    build, root = sys.argv[1:]
    tools = os.path.join(root, "build-tools", "bin", "python")
    if not os.path.exists(os.path.join(root, "build-tools", "bin", "auditwheel")):
        print("SKIPPED: auditwheel is not here: make wheel-tools")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        prefix = installed(build, root, os.path.join(folder, "installed"))
        made = os.path.join(folder, "made")
        run(tools, os.path.join(root, "bindings", "python", "portable.py"), made, TUTTI_PREFIX=prefix,
            TUTTI_HOMEPAGE="https://tutti.invalid")
        wheel, = glob.glob(os.path.join(made, "tutti-*-py3-none-manylinux_*.whl"))
        sdist, = glob.glob(os.path.join(made, "tutti-*.tar.gz"))
        check_contents(wheel)
        env = environment(os.path.join(folder, "env"))
        run(os.path.join(env, "pip"), "install", "-q", "--no-index", wheel)
        use(env)
        check_sdist(sdist, folder)
        print(f"{os.path.basename(wheel)}: {os.path.getsize(wheel) // 1024} KiB, installed and used")
    return 0


if __name__ == "__main__":
    sys.exit(main())
