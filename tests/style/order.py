#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The order of the files inside a folder, as src/LAYERS has it, and names of functions that stand in several files.

    order.py [ROOT]          what is wrong, one line each, and how often each rule is broken; exit status 1 if any is
    order.py --calls FOLDER  which file of the folder calls what of which other, for writing a row
"""
import collections
import os
import re
import sys

OPAQUE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
# The head of a function, up to its brace, or of a table of functions, at the left edge.
FUNCTION = re.compile(r"^([A-Za-z_][\w \t\n*()]*?[ \t\n*])([A-Za-z_]\w*)\(([^;{}]*)\)\s*\n\{", re.M)
TABLE = re.compile(r"^const struct \w+ (\w+)(?:\[\w*\])? = \{", re.M)
NOT_NAMES = {"__attribute__", "if", "for", "while", "switch", "return", "sizeof"}
# A word that is no member of a struct and no struct's name: those may have the name of a function.
WORD = re.compile(r"(?<![\w.])(?<!->)(?<!struct )[A-Za-z_]\w*\b")
# A macro with arguments: its file, and what is in it.
MACRO = re.compile(r"^#define (\w+)\([^)]*\)((?:[^\n]*\\\n)*[^\n]*)", re.M)
UMBRELLA = 150  # lines of a header that most files of a folder include
APART = re.compile(r".*(_test|_fuzz)$|.*_testing|failover_")  # tests, and what only they are made of


def read(root, folder, name):
    with open(os.path.join(root, folder, name), encoding="utf-8") as file:
        return file.read()


def sources(root, folder):
    """Name without ending -> text without comments and strings, of the folder's C files but tests."""
    where = os.path.join(root, folder)
    found = {}
    for name in sorted(os.listdir(where)):
        stem, ending = os.path.splitext(name)
        if ending == ".c" and not APART.match(stem):
            found[stem] = OPAQUE.sub(" ", read(root, folder, name))
    return found


def macros(root, folder):
    """Macro of the folder's headers -> words in it: who uses it calls what it calls."""
    found = {}
    for name in os.listdir(os.path.join(root, folder)):
        if name.endswith(".h"):
            with open(os.path.join(root, folder, name), encoding="utf-8") as file:
                for macro, body in MACRO.findall(OPAQUE.sub(" ", file.read())):
                    found[macro] = set(WORD.findall(body))
    return found


def functions(text):
    """(name, is it static?) of each function that the text defines."""
    for match in FUNCTION.finditer(text):
        head = match.group(1)
        if match.group(2) not in NOT_NAMES and head.strip():
            yield match.group(2), bool(re.search(r"\bstatic\b", head))


def calls(root, folder):
    """File -> other file -> names of it that the first one uses."""
    texts, inside = sources(root, folder), macros(root, folder)
    owner = collections.defaultdict(set)
    for stem, text in texts.items():
        for name in [name for name, static in functions(text) if not static] + TABLE.findall(text):
            owner[name].add(stem)
    used = collections.defaultdict(lambda: collections.defaultdict(set))
    for stem, text in texts.items():
        own = {name for name, _ in functions(text)} | set(TABLE.findall(text))
        words = set(WORD.findall(text))
        words |= {word for macro in words & set(inside) for word in inside[macro]}
        for word in words - own:
            for other in owner.get(word, set()) - {stem}:
                used[stem][other].add(word)
    return texts, used


def rows(root):
    """Folder -> list of groups of files, lowest first: the rows of src/LAYERS with a slash."""
    table = {}
    with open(os.path.join(root, "src/LAYERS"), encoding="utf-8") as file:
        for line in file:
            name, colon, groups = line.split("#")[0].partition(":")
            if colon and name.strip().endswith("/"):
                table.setdefault(name.strip().rstrip("/"), []).extend(
                    group.split() for group in groups.split("|") if group.split())
    return table


def check_order(root):
    for folder, groups in rows(root).items():
        texts, used = calls(root, folder)
        place = {stem: at for at, group in enumerate(groups) for stem in group}
        for stem in sorted(set(texts) - set(place)):
            yield f"src/LAYERS: {folder}/ has no place for {stem}.c"
        for stem in sorted(set(place) - set(texts)):
            yield f"src/LAYERS: {folder}/ names {stem}.c, which is not there"
        for stem in sorted(used):
            for other, names in sorted(used[stem].items()):
                if place.get(other, -1) > place.get(stem, len(groups)):
                    yield (f"{folder}/{stem}.c: calls {', '.join(sorted(names))} of {other}.c, "
                           f"which src/LAYERS puts above it")


def cycles(edges):
    """Sets of files that call one another in a circle."""
    def reached(start):
        seen, todo = set(), [start]
        while todo:
            more = set(edges.get(todo.pop(), ())) - seen
            seen |= more
            todo += more
        return seen
    far = {stem: reached(stem) for stem in edges}
    return {frozenset(other for other in far[stem] if stem in far.get(other, ())) for stem in far if stem in far[stem]}


def check_circles(root):
    """Files of one group have no order, but do not call one another in a circle either."""
    for folder in rows(root):
        for circle in cycles(calls(root, folder)[1]):
            yield f"{folder}/: {', '.join(stem + '.c' for stem in sorted(circle))} call one another in a circle"


def check_headers(root):
    """No header for all: of a folder with an order, none of more than 150 lines that most of its files include."""
    for folder in rows(root):
        texts = [read(root, folder, stem + ".c") for stem in sources(root, folder)]
        for name in sorted(name for name in os.listdir(os.path.join(root, folder)) if name.endswith(".h")):
            users = sum(f'"{folder.removeprefix("src/")}/{name}"' in text for text in texts)
            lines = read(root, folder, name).count("\n")
            if lines > UMBRELLA and 2 * users > len(texts):
                yield f"{folder}/{name}: {lines} lines, which {users} of {len(texts)} files include: one header a file"


def check_names(root):
    """No name of a static function stands in two files of src. Others are alternatives of which one is built."""
    where = collections.defaultdict(set)
    for folder, _, names in os.walk(os.path.join(root, "src")):
        for stem, text in (sources(root, folder) if any(n.endswith(".c") for n in names) else {}).items():
            path = os.path.relpath(os.path.join(folder, stem + ".c"), root)
            for name, static in functions(text):
                where[name].add((path, static))
    for name, places in sorted(where.items()):
        if len(places) > 1 and any(static for _, static in places):
            yield f"{name}() is a function of {', '.join(sorted(path for path, _ in places))}: one name, one function"


TAG = re.compile(r"^[ \t]*(?:(?:typedef|static|extern|const) )*(?:struct|enum|union) (\w+) \{", re.M)
TAGGED = ("src", "fabric", "cli", "control", "compat", "emulation")
NOT_OURS = re.compile(r"CU[a-z]|cuda[A-Z]")  # the driver's, which two folders declare for themselves


def check_tags(root):
    """No struct, union or enumeration has the name of one in another file."""
    where = collections.defaultdict(set)
    for top in TAGGED:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                stem, ending = os.path.splitext(name)
                if ending not in (".c", ".h", ".cuh") or APART.match(stem) or folder.endswith("/tests"):
                    continue
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    for tag in TAG.findall(OPAQUE.sub(" ", file.read())):
                        where[tag].add(os.path.relpath(path, root))
    for tag, paths in sorted(where.items()):
        if len(paths) > 1 and not NOT_OURS.match(tag):
            yield f"{tag} is a struct or enumeration of {', '.join(sorted(paths))}: one name, one thing"


# Where a function may be used; whose functions are looked at.
CALLERS = ("src", "fabric", "cli", "emulation", "compat", "control", "bindings", "examples", "benchmarks", "tests")
LOOKED_AT = ("src", "fabric", "cli", "control")
PROTOTYPE = re.compile(r"^[A-Za-z_][\w \t\n*]*?[ \t\n*](\w+)\([^;{}]*\)[^;{}]*;", re.M)


def check_callers(root):
    """A function that is not static is used somewhere, a test included: else nobody needs it."""
    used, found = collections.Counter(), []
    for top in CALLERS:
        for folder, below, names in os.walk(os.path.join(root, top)):
            below[:] = [name for name in below if not name.startswith(("build", "."))]
            for name in sorted(names):
                if not name.endswith((".c", ".h", ".cc", ".cpp", ".cu", ".cuh", ".tbl")):
                    continue
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    text = OPAQUE.sub(" ", file.read())
                own = [function for function in functions(text) if name.endswith(".c")]
                used.update(re.findall(r"\b[A-Za-z_]\w*\b", text))
                used.subtract(word for word, _ in own)
                used.subtract(PROTOTYPE.findall(text) if name.endswith(".h") else ())
                if top in LOOKED_AT and not APART.match(os.path.splitext(name)[0]):
                    path = os.path.relpath(os.path.join(folder, name), root)
                    found += [(word, path) for word, static in own if not static]
    for word, path in found:
        if used[word] <= 0 and word != "main" and not word.startswith("tutti_"):
            yield f"{path}: nobody calls {word}()"


# What stands in front of each brace, or of what else ends it: a function's head, if it ends in a parenthesis.
HEAD = re.compile(r"([^;{}]*)([;{}])")


def check_defined(root):
    """A function that a header declares is defined somewhere."""
    declared, defined = {}, set()
    for top in CALLERS:
        for folder, below, names in os.walk(os.path.join(root, top)):
            below[:] = [name for name in below if not name.startswith(("build", "."))]
            for name in sorted(name for name in names if name.endswith((".c", ".h", ".cc", ".cpp", ".cu", ".cuh"))):
                text = OPAQUE.sub(" ", read(root, folder, name))
                heads = [head for head, end in HEAD.findall(text) if end == "{" and head.rstrip().endswith(")")]
                defined.update(word for head in heads for word in re.findall(r"(\w+)\(", head))
                for match in PROTOTYPE.finditer(text) if name.endswith(".h") else ():
                    if not match.group(0).startswith("typedef"):
                        declared[match.group(1)] = os.path.relpath(os.path.join(folder, name), root)
    for word, path in sorted(declared.items()):
        if word not in defined:
            yield f"{path}: nothing defines {word}()"


# Code that asks of which kind an operation is, in place of calling what the row of its kind has.
KINDS = re.compile(r"\bop->kind\s*[!=]=|\bswitch\s*\(\s*op->kind\b|[!=]=\s*&op_\w+|(?<![\w.>])&op_\w+\s*[!=]=")
# The GPU executor knows nothing of staging, which is an executor of its own.
STAGED = re.compile(r"\bgpu(?:->|\.)staged\b")


def check_seams(root, pattern, wrong):
    for folder, _, names in os.walk(os.path.join(root, "src")):
        for name in sorted(name for name in names if name.endswith((".c", ".h"))):
            path = os.path.relpath(os.path.join(folder, name), root)
            text = OPAQUE.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), read(root, folder, name))
            for match in pattern.finditer(text):
                yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match.group(0)}: {wrong}"


def check_kinds(root):
    """Whatever depends on the kind of an operation is a function of the kind's row (engine/op_kind.h)."""
    return check_seams(root, KINDS, "what depends on the kind is a function in the row of the kind")


def check_staged(root):
    return check_seams(root, STAGED, "staging is an executor of its own")


# What is counted, and the check that finds it.
CHECKS = (("calls up, or without a place", check_order), ("circles of files", check_circles),
          ("umbrella headers", check_headers), ("function names in two files", check_names),
          ("struct names in two files", check_tags), ("functions that nobody calls", check_callers),
          ("functions that nothing defines", check_defined),
          ("questions for the kind of an operation", check_kinds), ("uses of gpu->staged", check_staged))


def check_all(root):
    for _, check in CHECKS:
        yield from check(root)


def show(root, folder):
    _, used = calls(root, folder)
    for stem in sorted(used):
        for other, names in sorted(used[stem].items()):
            print(f"{stem} -> {other}: {' '.join(sorted(names))}")


def main():
    if sys.argv[1:2] in (["-h"], ["--help"]):
        return print(__doc__)
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    if sys.argv[1:2] == ["--calls"]:
        return show(root, sys.argv[2])
    root = sys.argv[1] if len(sys.argv) > 1 else root
    found = [(name, list(check(root))) for name, check in CHECKS]
    for _, complaints in found:
        print(*complaints, sep="\n", end="\n" if complaints else "")
    for name, complaints in found:
        print(f"{len(complaints):6} {name}")
    return any(complaints for _, complaints in found)


if __name__ == "__main__":
    sys.exit(main())
