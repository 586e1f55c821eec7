#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""needed.py FOLDER [--no-suite SUITE]... [NAME]...: prints for ninja what the tests need that these options of
`meson test` choose: the programs that meson knows of each, and whatever is installed and every library, as tests find
those by their places.

needed.py FOLDER --tags TAG,... [--libraries]: what `meson install --tags TAG,...` needs; every library besides."""
import argparse
import json
import os
import subprocess

LIBRARIES = ("shared library", "shared module")


def introspect(folder, what):
    said = subprocess.run(["meson", "introspect", what, folder], check=True, capture_output=True, text=True)
    return json.loads(said.stdout)


def show(folder, paths):
    print(*sorted(os.path.relpath(path, os.path.abspath(folder)) for path in paths), sep="\n")


def of_tags(folder, tags):
    """Files that meson makes and installs under these tags."""
    plan = introspect(folder, "--install-plan").get("targets", {})
    return {path for path, how in plan.items() if how["tag"] in tags}


def libraries(folder):
    return {path for target in introspect(folder, "--targets") if target["type"] in LIBRARIES
            for path in target["filename"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tags")
    parser.add_argument("--libraries", action="store_true")
    parser.add_argument("folder")
    parser.add_argument("--no-suite", action="append", default=[])
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.tags:
        more = libraries(options.folder) if options.libraries else set()
        show(options.folder, of_tags(options.folder, options.tags.split(",")) | more)
        return
    wanted = set()
    for test in introspect(options.folder, "--tests"):
        suites = {suite.split(":")[-1] for suite in test["suite"]}
        if not suites.intersection(options.no_suite) and (not options.names or test["name"] in options.names):
            wanted.update(test["depends"])
    show(options.folder, {path for target in introspect(options.folder, "--targets")
                          if target["id"] in wanted or target["installed"] or target["type"] in LIBRARIES
                          for path in target["filename"]})


if __name__ == "__main__":
    main()
