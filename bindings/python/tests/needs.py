# SPDX-License-Identifier: Apache-2.0
"""Becomes a program if this Python has what that needs; else says so, and ends with the status of a test that is skipped.

needs.py MODULE[,MODULE...] PROGRAM [ARGUMENTS]
"""
import importlib.util
import os
import sys

missing = [name for name in sys.argv[1].split(",") if importlib.util.find_spec(name) is None]
if missing:
    print(f"SKIPPED: {sys.executable} has no {', '.join(missing)}")
    sys.exit(77)
os.execv(sys.argv[2], sys.argv[2:])
