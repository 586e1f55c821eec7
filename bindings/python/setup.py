# SPDX-License-Identifier: Apache-2.0
"""Builds a wheel that carries the C library and the program tutti. Nothing is compiled at import.

The library is compiled here by meson, unless TUTTI_PREFIX names a folder into which it was installed (as `make build`
does into build/). SETUP has further options of meson, as for `make build`: SETUP=-Dcuda=disabled leaves out the kernels
for GPUs, which take minutes. TUTTI_SYSTEM=1 is for distributions: nothing is carried,
the library and the program are the system's.
"""
import os
import pathlib
import re
import shutil
import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution
from wheel.bdist_wheel import bdist_wheel

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Beside the C library nothing of the system's is needed: what else the library and the program use,
# the wheel carries, too.
SYSTEM = re.compile(r"/lib(c|m|dl|rt|pthread)\.so|linux-vdso|ld-linux")
SETUP = ["--buildtype=release", "--prefix=/carried", "--libdir=lib", "-Dtests=disabled",
         "-Dhwloc=disabled", "-Db_ndebug=false", "-Dc_link_args=-Wl,-rpath,$ORIGIN,-rpath,$ORIGIN/../lib",
         *os.environ.get("SETUP", "-Dgpu_archs=80,90").split()]


def version() -> str:
    header = (ROOT / "include/tutti/tutti.h").read_text()
    return ".".join(re.search(rf"TUTTI_VERSION_{part} +(\d+)", header).group(1) for part in ("MAJOR", "MINOR", "PATCH"))


def compiled(where: pathlib.Path) -> pathlib.Path:
    """Builds the library below `where`; the folder that it is installed into."""
    build, target = where / "meson", where / "installed"
    shutil.rmtree(build, ignore_errors=True)  # one of an earlier time names a meson that pip had for that time alone
    subprocess.run(["meson", "setup", build, ROOT, *SETUP], check=True)
    subprocess.run(["meson", "compile", "-C", build], check=True)
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", target], check=True)
    return target / "carried"


def needed(path: pathlib.Path) -> list[str]:
    """Files of the shared libraries that are not every system's."""
    lines = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout.splitlines()
    files = [match.group(1) for line in lines if (match := re.search(r"=> (/\S+)", line))]
    return [file for file in files if not SYSTEM.search(file) and "libtutti" not in file]


class Build(build_py):
    """Puts the library and the program into the package."""

    def run(self) -> None:
        super().run()
        if os.environ.get("TUTTI_SYSTEM"):
            return
        prefix = os.environ.get("TUTTI_PREFIX")
        source = (pathlib.Path(prefix) if prefix
                  else compiled(pathlib.Path(self.get_finalized_command("build").build_base).resolve()))
        carried = pathlib.Path(self.build_lib) / "tutti" / "_carried"
        for folder in ("lib", "bin"):
            (carried / folder).mkdir(parents=True, exist_ok=True)
        library = source / "lib" / "libtutti.so.0"
        for file in (library, *(() if prefix else needed(library))):
            shutil.copy(file, carried / "lib")
        shutil.copy(source / "bin" / "tutti", carried / "bin")


class Wheel(bdist_wheel):
    """One wheel for all Pythons of a platform: the library is not an extension of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class Native(Distribution):
    """Says that the wheel is for one platform."""

    def has_ext_modules(self) -> bool:
        return not os.environ.get("TUTTI_SYSTEM")


setup(version=version(), cmdclass={"build_py": Build, "bdist_wheel": Wheel}, distclass=Native)
