# SPDX-License-Identifier: Apache-2.0
"""Builds a wheel that carries the C library, the program tutti and NCCL's interface, and a source distribution that
carries their sources. Nothing is compiled at import.

The library is compiled here by meson, unless TUTTI_PREFIX names a folder into which it was installed (as `make build`
does into build/). SETUP has further options of meson, as for `make build`: SETUP=-Dcuda=disabled leaves out the kernels
for GPUs, which take minutes. TUTTI_SYSTEM=1 is for distributions: nothing is carried,
the library and the program are the system's. TUTTI_HOMEPAGE is written into the metadata.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
# A source distribution has the C sources in a folder of its own.
ROOT = HERE / "source" if (HERE / "source").exists() else HERE.parent.parent
SOURCES = ("LICENSE", "meson.build", "meson_options.txt", "include", "src", "control", "cli", "compat")
# What the package carries: tags of what meson installs, and what of it lies where.
TAGS = ("runtime", "compat")
CARRIED = {"lib": ["libtutti.so.0"], "bin": ["tutti"], "lib/tutti": ["libnccl.so.2", "libnccl-net-tutti.so"],
           "lib/tutti/mpi": ["libmpi.so.12"]}
SETUP = ["--buildtype=release", "--prefix=/carried", "--libdir=lib", "-Dtests=disabled", "-Dagent=disabled",
         *os.environ.get("SETUP", "-Dgpu_archs=80,90").split()]


def version() -> str:
    header = (ROOT / "include/tutti/tutti.h").read_text(encoding="utf-8")
    return ".".join(re.search(rf"TUTTI_VERSION_{part} +(\d+)", header).group(1) for part in ("MAJOR", "MINOR", "PATCH"))


def files(build: pathlib.Path) -> list[str]:
    """What ninja is to make. Versions of meson differ in how `meson compile` has a library of another suffix called."""
    said = subprocess.run(["meson", "introspect", "--install-plan", build], check=True, capture_output=True, text=True)
    return [os.path.relpath(file, build) for file, how in json.loads(said.stdout)["targets"].items()
            if how["tag"] in TAGS]


def compiled(where: pathlib.Path) -> pathlib.Path:
    """Builds what is carried below `where`; the folder that it is installed into."""
    build, target = where / "meson", where / "installed"
    shutil.rmtree(build, ignore_errors=True)  # one of an earlier time names a meson that pip had for that time alone
    subprocess.run(["meson", "setup", build, ROOT, *SETUP], check=True)
    subprocess.run(["ninja", "-C", build, *files(build)], check=True)
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--tags", ",".join(TAGS), "--destdir",
                    target], check=True)
    return target / "carried"


class Build(build_py):
    """Puts what is carried into the package."""

    def run(self) -> None:
        super().run()
        if os.environ.get("TUTTI_SYSTEM"):
            return
        prefix = os.environ.get("TUTTI_PREFIX")
        source = (pathlib.Path(prefix) if prefix
                  else compiled(pathlib.Path(self.get_finalized_command("build").build_base).resolve()))
        for folder, names in CARRIED.items():
            into = pathlib.Path(self.build_lib) / "tutti" / "_carried" / folder
            into.mkdir(parents=True, exist_ok=True)
            for name in names:
                shutil.copy(source / folder / name, into)


class Sources(sdist):
    """Adds the C sources, from which pip builds the library."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        target = pathlib.Path(base_dir)
        (target / "source").mkdir()
        for name in SOURCES:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, target / "source" / name,
                                ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
            else:
                shutil.copy(ROOT / name, target / "source" / name)
        (target / "LICENSE").unlink(missing_ok=True)  # a link into the tree
        shutil.copy(ROOT / "LICENSE", target)


class Wheel(bdist_wheel):
    """One wheel for all Pythons of a platform: the library is not an extension of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class Native(Distribution):
    """Says that the wheel is for one platform."""

    def has_ext_modules(self) -> bool:
        return not os.environ.get("TUTTI_SYSTEM")


setup(version=version(), distclass=Native, cmdclass={"build_py": Build, "bdist_wheel": Wheel, "sdist": Sources},
      project_urls={"Homepage": os.environ["TUTTI_HOMEPAGE"]} if os.environ.get("TUTTI_HOMEPAGE") else {})
