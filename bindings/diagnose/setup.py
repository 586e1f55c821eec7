# SPDX-License-Identifier: Apache-2.0
"""A wheel around the program of TUTTI_DIAGNOSE, which `make diagnose-wheel` has built: any Python takes it, and
installing compiles nothing. The program is linked statically, so that no version of a C library is asked for."""
import os
import re
import shutil
import subprocess
import sysconfig

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution
from wheel.bdist_wheel import bdist_wheel

PROGRAM = os.environ.get("TUTTI_DIAGNOSE", "")
if not os.access(PROGRAM, os.X_OK):
    raise SystemExit(f"TUTTI_DIAGNOSE=\"{PROGRAM}\" is not the program tutti-diagnose: in tutti's sources, "
                     "`make diagnose-wheel` builds it and makes this wheel")
VERSION = re.fullmatch(r"tutti-diagnose (\S+)\n", subprocess.run(
    [PROGRAM, "--version"], check=True, capture_output=True, text=True).stdout).group(1)


class Build(build_py):
    def run(self):
        super().run()
        shutil.copy(PROGRAM, os.path.join(self.build_lib, "tutti_diagnose", "tutti-diagnose"))


class Wheel(bdist_wheel):
    def get_tag(self):
        machine = sysconfig.get_platform().rsplit("-", 1)[1]
        return "py3", "none", f"manylinux2014_{machine}.musllinux_1_1_{machine}"


class Binary(Distribution):
    def has_ext_modules(self):
        return True


setup(version=VERSION, cmdclass={"build_py": Build, "bdist_wheel": Wheel}, distclass=Binary)
