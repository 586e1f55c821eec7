#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""needed.py FOLDER [--no-suite SUITE]... [NAME]...: prints for ninja what the tests need that these options of
`meson test` choose: the programs that meson knows of each, and whatever is installed and every library, as tests find
those by their places."""
import argparse
import json
import os
import subprocess

LIBRARIES = ("shared library", "shared module")


def introspect(folder, what):
    said = subprocess.run(["meson", "introspect", what, folder], check=True, capture_output=True, text=True)
    return json.loads(said.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--no-suite", action="append", default=[])
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    wanted = set()
    for test in introspect(options.folder, "--tests"):
        suites = {suite.split(":")[-1] for suite in test["suite"]}
        if not suites.intersection(options.no_suite) and (not options.names or test["name"] in options.names):
            wanted.update(test["depends"])
    for target in introspect(options.folder, "--targets"):
        if target["id"] in wanted or target["installed"] or target["type"] in LIBRARIES:
            print(*(os.path.relpath(path, os.path.abspath(options.folder)) for path in target["filename"]), sep="\n")


if __name__ == "__main__":
    main()
