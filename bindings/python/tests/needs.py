# SPDX-License-Identifier: Apache-2.0
"""Becomes a program if a Python has the modules that it needs; else says so,
and ends with the status of a test that is skipped.

needs.py MODULE[,MODULE...] PROGRAM [ARGUMENTS]: PYTHON among these is the Python that has them: the one of the folder
build-torch, which `make torch` fills, or the one that runs this.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.abspath(__file__)) + "/../../.."
LOOK = ("import importlib.util, sys; "
        "sys.exit(any(importlib.util.find_spec(name) is None for name in sys.argv[1].split(',')))")
PYTHONS = (os.path.join(os.path.normpath(ROOT), "build-torch", "bin", "python"), sys.executable)

for python in PYTHONS if {"torch", "mypy"} & set(re.split(r"[,.]", sys.argv[1])) else PYTHONS[1:]:
    if os.path.exists(python) and subprocess.run([python, "-c", LOOK, sys.argv[1]],
                                                 stderr=subprocess.DEVNULL).returncode == 0:
        program = [python if argument == "PYTHON" else argument for argument in sys.argv[2:]]
        os.execv(program[0], program)
print(f"SKIPPED: {sys.executable} has not all of {sys.argv[1]}")
sys.exit(77)
