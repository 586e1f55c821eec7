#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the manual pages below docs/man: of commands (man1) out of the program's help texts, where nobody has written
one by hand, and of calls (man3) out of the comments of the public header.

    generate.py TUTTI [FOLDER]           writes the pages, of which FOLDER, this script's own, has man1 and man3
    generate.py --check TUTTI [FOLDER]   exit status 1, naming them, if pages are missing, stale or too many, or
                                         if one written by hand lacks an option of the help text

Pages of commands that were not built here (tutti agent needs libraries) stay as they are.
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True  # the folder may be for reading alone

import calls
import commands
import roff

HERE = os.path.dirname(os.path.abspath(__file__))
HEADER = os.path.join(HERE, "..", "..", "include", "tutti", "tutti.h")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def by_hand(path):
    """The text of a page that was not made here, or None."""
    text = read(path) if os.path.exists(path) else roff.MARK
    return None if roff.MARK.split("{", maxsplit=1)[0] in text else text


def strange(made, folder):
    """Pages that were made here, of what is no more. Other programs' may be written by hand."""
    paths = [os.path.join(folder, name) for name in sorted(set(os.listdir(folder)) - set(made))]
    return [path for path in paths if not by_hand(path)]


def differences(made, folder):
    yield from (f"{path}: there is no such command or call" for path in strange(made, folder))
    for name in sorted(made):
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            yield f"{path}: is missing"
        elif made[name] is None:
            continue
        elif by_hand(path):
            shown = by_hand(path).replace("\\-", "-")
            options = sorted(commands.options_of(made[name]))
            yield from (f"{path}: does not explain {option}" for option in options if option not in shown)
        elif read(path) != made[name]:
            yield f"{path}: is stale"


def write(made, folder):
    os.makedirs(folder, exist_ok=True)
    for name, page in made.items():
        path = os.path.join(folder, name)
        if page is None or by_hand(path):
            continue
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)
    for path in strange(made, folder):
        os.remove(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("tutti")
    parser.add_argument("folder", nargs="?", default=HERE)
    options = parser.parse_args()
    folder = options.folder
    sections = {"man1": commands.pages(options.tutti), "man3": calls.pages(HEADER, commands.version(options.tutti))}
    away = [name for made in sections.values() for name, page in made.items() if page is None]
    if away:
        print("not built here, and left as they are:", *away)
    if not options.check:
        for section, made in sections.items():
            write(made, os.path.join(folder, section))
        return 0
    complaints = []
    for section, made in sections.items():
        complaints += differences(made, os.path.join(folder, section))
    print(*complaints, "run: make docs" if complaints else "all pages are fresh", sep="\n")
    return bool(complaints)


if __name__ == "__main__":
    sys.exit(main())
