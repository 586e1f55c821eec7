#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every call that the transport over RDMA verbs makes of libibverbs, or of an adapter's library, has a row in
verbs_calls.tbl, by which a test lets it fail; and every row is about such a call. Usage: verbs_calls_test.py TREE"""
import os
import re
import sys

TREE = sys.argv[1]
SOURCES = os.path.join(TREE, "src", "transport", "verbs")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)


def read(*parts):
    with open(os.path.join(TREE, *parts), encoding="utf-8") as file:
        return COMMENT.sub("", file.read())


def calls():
    """Of the library's table, by name, through a device's own table, and directly."""
    found = {"ibv_" + name for name in re.findall(r"^CALL\([^,]+, (\w+),", read(SOURCES, "library.tbl"), re.M)}
    for name in os.listdir(SOURCES):
        if name.endswith((".c", ".h")) and not name.endswith("_test.c"):
            text = read(SOURCES, name)
            found |= set(re.findall(r'"(_?(?:ibv|mlx5dv)_\w+)"', text))
            found |= {"ibv_" + call for call in re.findall(r"\bops\.(\w+)\(", text)}
            found |= set(re.findall(r"\b(_?(?:ibv|mlx5dv)_\w+)\(", text))
    return found


def main():
    made = calls()
    rows = re.findall(r"^ROW\((\w+), ", read("tests", "conformance", "verbs_calls.tbl"), re.M)
    assert len(made) > 20, f"the sources are not read: {made}"
    assert len(rows) == len(set(rows)), "a row is there twice"
    without, idle = sorted(made - set(rows)), sorted(set(rows) - made)
    assert not without, f"no test lets these calls fail: {', '.join(without)}"
    assert not idle, f"nobody makes these calls: {', '.join(idle)}"
    print(f"{len(rows)} calls, each with a row")


main()
