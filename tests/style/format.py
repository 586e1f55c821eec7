#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sees that clang-format has nothing to change in C, C++ and the kernels.

    format.py CLANG_FORMAT [PATH...]           names the places where it has; exit status 1 if there are any
    format.py --fix CLANG_FORMAT [PATH...]     lets it change them

Each PATH is a file or a folder, below the tree's root; without any it is the whole tree. Another version of
clang-format than the one that .clang-format was written for lays out some statements differently: only that one is
asked.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys

import check

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
VERSION = "14"
ENDINGS = (".c", ".h", ".cpp", ".cu", ".cuh")
AT_ONCE = 40  # files in one run


def version_of(program):
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"version (\d+)", said)
    return found.group(1) if found else "?"


def run(command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("clang_format", metavar="CLANG_FORMAT")
    parser.add_argument("paths", nargs="*", metavar="PATH")
    options = parser.parse_args()
    found = version_of(options.clang_format)
    if found != VERSION:
        print(f"SKIPPED: this is clang-format {found}, and the tree's layout is that of {VERSION}")
        return 77
    chosen = [os.path.normpath(path) for path in options.paths] or ["."]
    files = list(check.files(ROOT, check.LICENSED, ENDINGS))
    unknown = [at for at in chosen if at != "." and not any(path == at or path.startswith(at + "/") for path in files)]
    if unknown:
        parser.error(f"{unknown[0]}: no file of C, C++ or CUDA below the root of the tree has this name or folder")
    paths = [path for path in files if any(at == "." or path == at or path.startswith(at + "/") for at in chosen)]
    how = ["-i"] if options.fix else ["--dry-run", "--Werror", "--ferror-limit=1"]
    batches = [paths[i:i + AT_ONCE] for i in range(0, len(paths), AT_ONCE)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        done = list(pool.map(lambda batch: run([options.clang_format, *how, *batch]), batches))
    places = [line for one in done for line in one.stderr.split("\n") if " error: " in line]
    print(*places, sep="\n", end="\n" if places else "")
    failed = any(one.returncode for one in done)
    print(f"{len(paths)} files, {len(places)} of them to be laid out anew" + (": format.py --fix" if places else ""))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
