#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each sentence that docs/operate/errors.md quotes is one that the library prints: a format string of src, whose
conversions stand for anything of their kind.

    errors.py [ROOT]       exit status 1, and a line for each sentence that no format prints
    errors.py --self-test  reads a small page and small code, and expects what is wrong
"""
import os
import re
import sys

PAGE = "docs/operate/errors.md"
LEAST = 20  # sentences on the page
LETTERS = 8  # of a format, beside its conversions: one of fewer prints nearly everything
STRING = r'"(?:\\.|[^"\\\n])*"'
STRINGS = re.compile(rf"{STRING}(?:\s*{STRING})*")
COMMENT = re.compile(rf"({STRING})|//[^\n]*|/\*.*?\*/", re.S)
CONVERSION = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|z|j|t)?([diuxXcsfgepm%])")
PRINTS = {"d": r"-?\d+", "i": r"-?\d+", "u": r"\d+", "x": "[0-9a-f]+", "X": "[0-9A-F]+", "c": ".",
          "f": r"-?\d+(?:\.\d+)?", "g": r"-?[\d.e+-]+", "p": r"0x[0-9a-f]+", "%": "%"}
QUOTED = re.compile(r"^### .*\n\n((?:    .*\n)+)", re.M)


def formats(text):
    """The format strings of C, with neighbours joined."""
    for match in STRINGS.finditer(COMMENT.sub(lambda found: found.group(1) or " ", text)):
        joined = "".join(part[1:-1] for part in re.findall(STRING, match.group(0)))
        yield joined.replace('\\"', '"')


def pattern(text):
    """What a format prints, and its longest word for a first look; None for one with too few letters."""
    words = CONVERSION.split(text)[::2]
    if sum(letter.isalpha() for word in words for letter in word) < LETTERS:
        return None
    kinds = CONVERSION.findall(text) + [""]
    return max(words, key=len), "".join(
        re.escape(word) + (PRINTS.get(kind, ".*") if kind else "") for word, kind in zip(words, kinds))


def sentences(page):
    return [" ".join(block.split()) for block in QUOTED.findall(page)]


def check(page, code):
    patterns = {found for text in code for one in formats(text) if (found := pattern(one))}
    for sentence in sentences(page):
        if not any(word in sentence and re.fullmatch(whole, sentence) for word, whole in patterns):
            yield f"{PAGE}: the code prints no such sentence: {sentence}"


def sources(root):
    for folder, _, names in os.walk(os.path.join(root, "src")):
        for name in sorted(names):
            if name.endswith((".c", ".h")) and "_test" not in name:
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    yield file.read()


def self_test():
    code = ['/* "a comment prints nothing" */ f("rank %d has \\"%s\\" in " // why\n "%zu bytes%s", a); g("%s: %s")']
    page = "### Title\n\n    {}\n\n- text\n"
    cases = [("rank 1 has \"x y\"\n    in 4 bytes", 0), ("rank 1 has \"x\" in 4 bytes; more", 0),
             ("rank one has \"x\" in 4 bytes", 1), ("rank 1 had \"x\" in 4 bytes", 1), ("a: b", 1),
             ("a comment prints nothing", 1)]
    wrong = [text for text, count in cases if len(list(check(page.format(text), code))) != count]
    return [f"judged wrongly: {text}" for text in wrong]


def main():
    if sys.argv[1:2] in (["-h"], ["--help"]):
        return print(__doc__)
    if sys.argv[1:] == ["--self-test"]:
        found = self_test()
    else:
        root = sys.argv[1] if sys.argv[1:] else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
        with open(os.path.join(root, PAGE), encoding="utf-8") as file:
            page = file.read()
        found = list(check(page, sources(root)))
        if len(sentences(page)) < LEAST:
            found.append(f"{PAGE}: {len(sentences(page))} sentences, fewer than {LEAST}")
    print("\n".join(found), end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
