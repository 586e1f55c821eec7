#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wraps long lines of pages, as tests/style/prose.py wants them: paragraphs and items of lists, at 120 columns.

    wrap.py PAGE...      in place; tables, code and headings stay as they are
    wrap.py --self-test  wraps a small page, and expects the same words in the same blocks
"""
import re
import sys
import textwrap

import prose
from markdown_it import MarkdownIt

COLUMNS = 120
PREFIX = re.compile(r"\s*(?:(?:[-*+]|\d+[.)])\s+)*")
MARK = re.compile(r"\s*(?:[-+*>|#]|\d+[.)]|```|~~~|=+$)(?:\s|$)")  # a line that begins so would be another block


def wrap_block(lines):
    prefix = PREFIX.match(lines[0]).group(0)
    text = " ".join([lines[0][len(prefix):].strip(), *(line.strip() for line in lines[1:])])
    for width in range(COLUMNS, COLUMNS // 2, -1):
        wrapped = textwrap.wrap(text, width, initial_indent=prefix, subsequent_indent=" " * len(prefix),
                                break_long_words=False, break_on_hyphens=False)
        if not any(MARK.match(line) for line in wrapped[1:]):
            return wrapped
    return lines


def wrap(text):
    lines = text.split("\n")
    spans = [token.map for token in MarkdownIt("commonmark").enable("table").parse(text)
             if token.type == "paragraph_open"]
    for first, end in reversed(spans):
        if max(map(len, lines[first:end])) > COLUMNS:
            lines[first:end] = wrap_block(lines[first:end])
    return "\n".join(lines)


def self_test():
    long = "word " * 40
    page = (f"# {long}\n\n{long}\n\n- {long}\n  {long}\n- {long}1. {long}\n\n    code {long}\n\n| {long} |\n|---|\n"
            f"| {long} |\n\n{'a' * 60} {'b' * 58} - no list\n")
    done = wrap(page)
    too_long = [line for line in done.split("\n") if len(line) > COLUMNS and not line.startswith(("#", "    ", "|"))]
    before, after = ([block.split() for _, block, _ in prose.blocks(text)] for text in (page, done))
    if too_long or before != after or wrap(done) != done:
        print(f"wrapped wrongly: {too_long}\n{done}")
        return 1
    return 0


def main():
    if sys.argv[1:2] in (["-h"], ["--help"]):
        return print(__doc__)
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(wrap(text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
