#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wraps lines of more than 120 columns, comments too: in C as .clang-format says.

    wrap.py PATH...                rewrites files, or all files of folders; lists the lines that it must leave to people
    wrap.py --prove BUILD PATH...  the same, and proves that nothing but the layout changed: each object of the build
    folder that
                                   comes from these paths, or includes them, is compiled before and after (line numbers
                                   left
                                   out) and must be the same, byte for byte; Python must have the same syntax tree. What
                                   differs is put back.

C needs clang-format 14, Python autopep8 (Debian: python3-autopep8).
"""
import argparse
import ast
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap

import check

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
# clang-format goes by the ending: a table of rows is C, and so is what has none of its endings.
PASSES = 3
LANGUAGE = {".tbl": "rows.c", ".cu": "kernel.cpp", ".cuh": "kernel.cpp"}


def run(command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


# ---- how each language is wrapped ----

def wrap_c(path, text):
    """Long lines only, with the statement that each is part of, so that what people have set out stays. What a pass
    breaks may be
    aligned anew by the next."""
    name = LANGUAGE.get(os.path.splitext(path)[1], os.path.basename(path))
    command = ["clang-format", "--style=file", "--assume-filename=" + os.path.join(ROOT, name)]
    for _ in range(PASSES):
        long = check.long_lines(text)
        if not long:
            break
        text = run(command + [f"--lines={number}:{number}" for number in long], text)
    return text


def comment_of(line):
    """(what stands before its words, words) of a line that is nothing but a comment."""
    match = re.match(r"(\s*# ?)(.*)", line)
    return match.groups() if match and not line.startswith("#!") else None


def wrap_comments(text):
    """Long lines of comments in scripts: what does not fit goes to the front of the next line of the same comment."""
    lines, out, rest = text.split("\n"), [], ""
    for index, line in enumerate(lines):
        comment = comment_of(line)
        if not comment or (not rest and len(line) <= check.COLUMNS):
            out.append(line)
            continue
        start, words = comment
        pieces = textwrap.wrap((rest + " " + words).strip(), check.COLUMNS - len(start), break_long_words=False,
                               break_on_hyphens=False)
        after = comment_of(lines[index + 1]) if index + 1 < len(lines) else None
        # Only prose goes on: not a list, a new paragraph or something that is set out.
        joins = after and after[0] == start and re.match(r"[a-z(\"`]", after[1])
        rest = pieces.pop() if joins and len(pieces) > 1 else ""
        out += [start + piece for piece in pieces]
    return "\n".join(out)


def docstrings(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            yield node.body[0]


def wrap_docstrings(text):
    lines = text.split("\n")
    for node in docstrings(ast.parse(text)):
        for index in range(node.lineno - 1, node.end_lineno):
            line = lines[index]
            if len(line) > check.COLUMNS:
                indent = line[:len(line) - len(line.lstrip())]
                lines[index] = "\n".join(textwrap.wrap(line.strip(), check.COLUMNS,
                                                       initial_indent=indent, subsequent_indent=indent,
                                                       break_long_words=False, break_on_hyphens=False))
    return "\n".join(lines)


def wrap_python(path, text):
    try:
        import autopep8
    except ImportError:
        sys.exit(f"{sys.executable} has no autopep8: Debian's python3-autopep8 is for /usr/bin/python3")
    text = autopep8.fix_code(text, {"select": ["E501"], "max_line_length": check.COLUMNS, "aggressive": 1})
    return wrap_docstrings(wrap_comments(text))


def wrapped(path, text):
    if path.endswith(check.C_ENDINGS):
        return wrap_c(path, text)
    return wrap_python(path, text) if path.endswith(".py") else wrap_comments(text)


# ---- proof ----

def meaning(text):
    """Python's syntax tree, whatever white space its documentation has."""
    tree = ast.parse(text)
    for node in docstrings(tree):
        node.value.value = " ".join(node.value.value.split())
    return ast.dump(tree)


def commands(build):
    """Source -> (folder, how to compile it to {OUT} without anything that knows line numbers)."""
    found = {}
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        for entry in json.load(file):
            words = [
    w for w in shlex.split(
        entry["command"]) if not re.match(
            r"-g|-M[DQF]?$|-Werror",
             w) and not w.endswith(".d")]
            for option in ("-o", "-MQ", "-MF"):
                while option in words:
                    at = words.index(option)
                    del words[at:at + 2]
            words = [w for w in words if w != entry["output"]]
            source = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
            found.setdefault(source, (entry["directory"], words +
     ["-g0", "-w", "-Wno-builtin-macro-redefined", "-D__LINE__=1"]))
    return found


def concerned(build, paths):
    """Sources of the build that are among the paths or include one of them, as ninja knows."""
    wanted, found, source = {os.path.join(ROOT, p) for p in paths}, set(), None
    for line in run(["ninja", "-C", build, "-t", "deps"]).split("\n"):
        name = os.path.normpath(os.path.join(build, line.strip())) if line.startswith(" ") else None
        if name is None:
            source = None
        else:
            source = source or name
            if name in wanted:
                found.add(source)
    return found


def compile_one(how):
    folder, words = how
    with tempfile.TemporaryDirectory() as out:
        path = os.path.join(out, "object")
        subprocess.run(words + ["-o", path], cwd=folder, check=True, capture_output=True)
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()


def objects(build, sources):
    table = commands(build)
    sources = sorted(s for s in sources if s in table)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(zip(sources, pool.map(lambda s: compile_one(table[s]), sources)))


# ---- the whole ----

def write(path, text):
    with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
        file.write(text)


def prove(build, before, after):
    """Returns the number of files whose meaning changed; these are put back."""
    changed = [p for p in after if p.endswith(".py") and meaning(before[p]) != meaning(after[p])]
    sources = concerned(build, [p for p in after if not p.endswith(check.SCRIPT_ENDINGS)])
    new = objects(build, sources)
    for path, text in before.items():
        write(path, text)
    old = objects(build, sources)
    for path, text in after.items():
        write(path, before[path] if path in changed else text)
    differing = [s for s in new if new[s] != old[s]]
    print(*[f"{p}: the syntax tree differs: put back" for p in changed],
          *[f"{s}: the object differs" for s in differing], sep="\n")
    if differing:
        for path in after:
            if path.endswith(check.C_ENDINGS):
                write(path, before[path])
        print("all C was put back")
    print(f"{len(new) - len(differing)} of {len(new)} objects and "
          f"{sum(p.endswith('.py') for p in after) - len(changed)} syntax trees are the same")
    return len(changed) + len(differing)


def chosen(paths):
    found = []
    for path in paths:
        path = os.path.relpath(path, ROOT)
        whole = os.path.isdir(os.path.join(ROOT, path))
        found += check.files(ROOT, (path,), check.C_ENDINGS + check.SCRIPT_ENDINGS) if whole else [path]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prove", metavar="BUILD", help="a build folder that is up to date")
    parser.add_argument("paths", nargs="+", metavar="PATH")
    options = parser.parse_args()
    before, after = {}, {}
    for path in chosen(options.paths):
        text = check.read(ROOT, path)
        new = wrapped(path, text)
        if new != text:
            before[path], after[path] = text, new
            write(path, new)
    wrong = prove(os.path.abspath(options.prove), before, after) if options.prove and after else 0
    left = [(p, n) for p in chosen(options.paths) for n in check.long_lines(check.read(ROOT, p))]
    print(*[f"{path}:{number}: still more than {check.COLUMNS} columns" for path,
          number in left], sep="\n", end="\n" if left else "")
    print(f"{len(after)} files rewritten, {len(left)} long lines left")
    return bool(wrong or left)


if __name__ == "__main__":
    sys.exit(main())
