# SPDX-License-Identifier: Apache-2.0
"""Becomes a program if a Python has the modules that it needs; else says so,
and ends with the status of a test that is skipped.

needs.py MODULE[,MODULE...] PROGRAM [ARGUMENTS]: PYTHON among these is the Python that has them: the one of the folder
build-torch, build-mpi4py or build-mypy, which `make torch` and so on fill, or the one that runs this; with
CHECK_FRAMEWORKS=1 also that of build-frameworks, which `make frameworks` fills.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.abspath(__file__)) + "/../../.."
LOOK = ("import importlib.util, sys; "
        "sys.exit(any(importlib.util.find_spec(name) is None for name in sys.argv[1].split(',')))")
WORDS = set(re.split(r"[,.]", sys.argv[1]))
FOLDERS = [name for name in ("torch", "mpi4py", "mypy") if name in WORDS]
LAST = ["frameworks"] if os.environ.get("CHECK_FRAMEWORKS") else []


def python_of(name):
    return os.path.join(os.path.normpath(ROOT), f"build-{name}", "bin", "python")


for python in (*map(python_of, FOLDERS), sys.executable, *map(python_of, LAST)):
    if os.path.exists(python) and subprocess.run([python, "-c", LOOK, sys.argv[1]],
                                                 stderr=subprocess.DEVNULL).returncode == 0:
        program = [python if argument == "PYTHON" else argument for argument in sys.argv[2:]]
        os.execv(program[0], program)
print(f"SKIPPED: {sys.executable} has not all of {sys.argv[1]}"
      + ("" if LAST else "; CHECK_FRAMEWORKS=1 looks into build-frameworks, too, which `make frameworks` fills"))
sys.exit(77)
