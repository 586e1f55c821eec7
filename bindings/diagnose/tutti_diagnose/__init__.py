# SPDX-License-Identifier: Apache-2.0
"""`tutti-diagnose FOLDER`: who is to blame, from the dumps of a job's ranks. The program beside this file does all."""
import os
import sys

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tutti-diagnose")


def main():
    os.execv(PROGRAM, ["tutti-diagnose", *sys.argv[1:]])
