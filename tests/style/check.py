#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks of the source tree that no compiler makes. There is no list of exceptions but that of
folders with long lines, which only gets shorter.

    check.py [ROOT]       checks the tree; exit status 1 and one line for each violation
    check.py --self-test  plants each violation in a small tree and expects it to be found
"""
import os
import re
import subprocess
import sys
import tempfile

import order

FUNCTION_LINES = 80
FILE_LINES = 600
CODE = ("src", "fabric", "cli", "emulation", "compat", "control", "bindings", "examples")
LICENSED = CODE + ("include", "tests", "benchmarks")
C_ENDINGS = (".c", ".h", ".cu", ".cuh", ".cc", ".cpp", ".tbl")
SCRIPT_ENDINGS = (".py", ".sh")
COLUMNS = 120
SUBJECT = 72  # characters of a commit's first line
SUBJECTS_SINCE = "2026-11-22T20:00:00Z"  # commits before stand as they are
SPDX = "SPDX-License-Identifier: Apache-2.0"
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|[Ss]tubs?|STUB)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
# A comment, a string, or a character: replaced by blanks so that braces in them do not count.
OPAQUE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
# A file that a text names. One in angle brackets is another project's; one in capitals stands for any.
NAMED = re.compile(
    r"(?<![\w./<*$-])((?:[\w.-]+/)*[A-Za-z_][\w.-]*\.(?:c|h|cu|cuh|tbl|py|sh|md|cc|cpp))\b(?![\w/>*(-]|\.\w)")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


def files(root, folders, endings):
    """Paths below root, relative to it, in a fixed order."""
    found = []
    for folder in folders:
        for where, below, names in os.walk(os.path.join(root, folder)):
            below[:] = [b for b in below if not b.startswith(("build", "__pycache__", "."))]
            found += [os.path.relpath(os.path.join(where, n), root) for n in names if n.endswith(endings)]
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def blank(match):
    text = match.group(0)
    if text.startswith('"'):
        return '"' + " " * (len(text) - 2) + '"'
    return re.sub(r"[^\n]", " ", text)


# ---- one file ----

def check_size(path, text):
    lines = text.count("\n")
    if lines > FILE_LINES:
        yield f"{path}: {lines} lines, more than {FILE_LINES}"


def check_licence(path, text):
    lines = text.split("\n")
    if path.endswith(C_ENDINGS):
        good = lines[0].startswith("/*") and SPDX in lines[0]
    else:
        good = any(line.startswith("#") and SPDX in line for line in lines[:2])
    if not good:
        yield f"{path}:1: the first line is not the licence ({SPDX})"


def check_words(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        match = UNFINISHED.search(line)
        if match:
            yield f"{path}:{number}: the word \"{match.group(0)}\" speaks of unfinished work"


def check_columns(path, text):
    """A row of a table is one line, however long."""
    if not path.endswith(".tbl"):
        for number in long_lines(text):
            yield f"{path}:{number}: more than {COLUMNS} columns"


def long_lines(text):
    return [number for number, line in enumerate(text.split("\n"), 1) if len(line) > COLUMNS]


def functions(text):
    """(first line, last line, lines with #if inside) of each function body of a C file."""
    text = OPAQUE.sub(blank, text)
    depth, start, ifs, before = 0, 0, [], ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("#"):
            if start and re.match(r"\s*#\s*if", line):
                ifs.append(number)
            continue
        if not depth and not before.strip():
            first = number
        for letter in line:
            if letter == "{":
                if depth == 0 and before.rstrip().endswith('"'):
                    before = ""  # extern "C"
                    continue
                if depth == 0 and is_function(before):
                    start = first
                depth += 1
            elif letter == "}":
                depth = max(depth - 1, 0)
                if depth == 0 and start:
                    yield start, number, ifs
                    start, ifs = 0, []
                if depth == 0:
                    before = ""
            elif depth == 0:
                before = "" if letter == ";" else before + letter
                if not before.strip():
                    first = number
        if depth == 0:
            before += " "
            if not before.strip():
                first = number + 1


def is_function(before):
    """Does the text in front of a brace at the outermost level end a function's head?"""
    before = re.sub(r"__attribute__\s*\(\(.*?\)\)", "", before).rstrip()
    return before.endswith(")") and "=" not in before


def check_functions(path, text):
    for first, last, ifs in functions(text):
        if last - first + 1 > FUNCTION_LINES:
            yield f"{path}:{first}: a function of {last - first + 1} lines, more than {FUNCTION_LINES}"
        if path.startswith("src" + os.sep):
            for number in ifs:
                yield f"{path}:{number}: #if inside a function body"


# ---- layers ----

def layers(root):
    """Folder -> folders that it may include, and complaints about the table itself."""
    table, complaints = {}, []
    for number, line in enumerate(read(root, "src/LAYERS").split("\n"), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        name, _, allowed = line.partition(":")
        if name.strip().endswith("/"):
            continue  # an order of files: order.py
        for folder in allowed.split():
            if folder not in table:
                complaints.append(f"src/LAYERS:{number}: {name} names {folder}, which is not above it")
        table[name.strip()] = set(allowed.split())
    return table, complaints


def folder_of(path):
    parts = path.split(os.sep)
    return parts[1] if parts[0] == "src" and len(parts) > 2 else parts[0]


# Where an include names the folder, also that of the file itself: a file may move, and names of headers repeat.
QUALIFIED = ("src/", "fabric/", "cli/", "control/", "compat/", "emulation/", "bindings/")


def check_layers(root, sources):
    table, complaints = layers(root)
    yield from complaints
    inside = {name for name in os.listdir(os.path.join(root, "src")) if os.path.isdir(os.path.join(root, "src", name))}
    for name in sorted(inside - set(table)):
        yield f"src/LAYERS: has no row for src/{name}"
    for path, text in sources:
        mine = folder_of(path)
        for target in INCLUDE.findall(text):
            first = target.split("/")[0]
            beside = os.path.join(root, os.path.dirname(path), target)
            if "/" not in target and path.startswith(QUALIFIED) and os.path.exists(beside):
                yield f"{path}: includes {target} without its folder"
            if ".." in target.split("/"):
                yield f"{path}: includes {target}: a path with .. hides the layer"
            elif first in inside and first != mine and "/" in target and first not in table.get(mine, set()):
                yield f"{path}: includes {target}, but src/LAYERS does not let {mine} use {first}"


def check_cycles(root, sources):
    """No header reaches itself by includes."""
    headers = {path for path, _ in sources if path.endswith(".h")}
    edges = {}
    for path, text in sources:
        if path in headers:
            places = (os.path.dirname(path), "", "src", "include", path.split(os.sep)[0])
            edges[path] = {os.path.normpath(os.path.join(p, t))
                                            for t in INCLUDE.findall(text) for p in places} & headers
    done, way = set(), []

    def visit(path):
        if path in way:
            yield " -> ".join(way[way.index(path):] + [path]) + ": headers include each other"
        elif path not in done:
            way.append(path)
            for target in sorted(edges[path]):
                yield from visit(target)
            way.pop()
            done.add(path)

    for path in sorted(edges):
        yield from visit(path)


# ---- tables ----

# A row of the table, and what produces it, or reads it, in src.
TABLES = (("counters.tbl", "COUNTER", "WIRE_COUNTER_"), ("events.tbl", "EVENT", "WIRE_EVENT_"),
          ("memory.tbl", "MEMORY", "WIRE_MEMORY_"), ("params.tbl", "PARAM", "PARAM_"), ("gpu.tbl", "NUMBER", "NUMBER_"),
          ("gpu.tbl", "THRESHOLD", "PARAM_"))


def check_tables(root, code):
    """No row that nothing feeds. Tests do not count."""
    used = set()
    for path, text in code:
        if path.startswith(("src/", "cli/", "compat/", "control/")) and "_test" not in path:
            used.update(re.findall(r"\b(?:WIRE_COUNTER|WIRE_EVENT|WIRE_MEMORY|PARAM|NUMBER)_\w+", text))
            used.update("PARAM_" + name for name in re.findall(r'"TUTTI_(\w+)"', text))  # what others set, too
    if os.path.exists(os.path.join(root, "src/tables/ways.tbl")):  # limits of rows
        limits = re.findall(r"\b(?:AT|PAST)\((\w+)\)", re.sub(r"(?s)/\*.*?\*/", "", read(root, "src/tables/ways.tbl")))
        used.update("PARAM_" + name for name in limits)
        used.update(re.findall(r"\bNUMBER_\w+", read(root, "src/tables/ways.tbl")))
    for name, macro, prefix in TABLES:
        path = f"src/tables/{name}"
        if not os.path.exists(os.path.join(root, path)):
            continue
        for row in re.findall(rf"^{macro}\((\w+),", read(root, path), re.MULTILINE):
            if prefix + row not in used:
                yield f"{path}: nothing in the code uses the row {row}"


def check_measured(root):
    """The numbers of GPUs' ways: each has a unit, the place where it was measured is there, and no limit of a row of
    ways.tbl is left out."""
    path, notebook, ways = "src/tables/gpu.tbl", "docs/notebook/gpu.md", "src/tables/ways.tbl"
    if not os.path.exists(os.path.join(root, path)):
        return
    headings = set(re.findall(r"^## (.*)$", read(root, notebook), re.MULTILINE)) | {""}
    row = r'^(?:NUMBER|OF_PARAMETER|THRESHOLD)\((\w+),(?: "\w+",)?[^"\n]*"([^"]*)", "([^"]*)"'
    rows = re.findall(row, read(root, path), re.MULTILINE)
    for name, unit, measured in rows:
        if not unit:
            yield f"{path}: {name} has no unit"
        if measured not in headings:
            yield f"{path}: {name} was measured below \"{measured}\", which is no heading of {notebook}"
    for limit in re.findall(r"\b(?:AT|PAST|BYTES)\((\w+)", re.sub(r"(?s)/\*.*?\*/", "", read(root, ways))):
        if limit.replace("NUMBER_", "") not in {name for name, _, _ in rows}:
            yield f"{ways}: {limit} has no row in {path}"


# ---- names of files ----

def comments(path, text):
    """(line number, text) of each line of a comment."""
    if path.endswith(C_ENDINGS):
        for match in OPAQUE.finditer(text):
            if match.group(0).startswith("/"):
                first = text.count("\n", 0, match.start()) + 1
                yield from enumerate(match.group(0).split("\n"), first)
    else:
        for number, line in enumerate(text.split("\n"), 1):
            match = re.search(r"(?:^|\s)#\s(.*)", line)
            if match:
                yield number, match.group(1)


def check_named(root, texts, pages):
    """A file that a comment names, or a page in backquotes, exists: the last parts of its path are enough. A comment
    names a page of docs/understand as docs/NAME.md, too: code need not move with pages."""
    ends = {"docs/" + name for name in understand(root)}
    for path in files(root, LICENSED + ("docs",), ("",)) + os.listdir(root):
        parts = path.split(os.sep)
        ends.update("/".join(parts[i:]) for i in range(len(parts)))
    for path, text in texts:
        for number, line in comments(path, text):
            for name in NAMED.findall(line):
                if name not in ends and not os.path.basename(name).split(".")[0].isupper():
                    yield f"{path}:{number}: there is no file {name}"
    for path, text in pages:
        for number, line in enumerate(text.split("\n"), 1):
            for name in re.findall(r"`([^`\s]+)`", line):
                if NAMED.fullmatch(name) and name not in ends and not os.path.basename(name).split(".")[0].isupper():
                    yield f"{path}:{number}: there is no file {name}"


# ---- commits ----

def check_commits(root):
    """Subjects of the commits of this repository. Without git, or without a repository of its own, there is nothing to
    check."""
    try:
        git = ["git", "-C", root]
        top = subprocess.run(git + ["rev-parse", "--show-toplevel"], capture_output=True,
                             text=True, check=True).stdout.rstrip("\n")
        if not os.path.samefile(top, root):
            return
        log = subprocess.run(git + ["log", "--no-merges", "--since", SUBJECTS_SINCE,
                             "--format=%h %s"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return
    for line in log.stdout.splitlines():
        commit, _, subject = line.partition(" ")
        if len(subject) > SUBJECT:
            yield f"commit {commit}: a subject of {len(subject)} characters, more than {SUBJECT}: {subject}"


# ---- documents ----

UNDERSTAND = "docs/understand"  # the pages of those who want to know how the house works


def understand(root):
    return {os.path.basename(path) for path in files(root, (UNDERSTAND,), (".md",))}


def check_documents(root):
    names, beside = understand(root), set(os.listdir(os.path.join(root, "docs")))
    for name in sorted(names & beside):
        yield f"docs/{name}: {UNDERSTAND} has a page of this name"
    for name in sorted(os.listdir(os.path.join(root, "src"))):
        folder = os.path.join(root, "src", name)
        if os.path.isdir(folder) and os.listdir(folder) and name + ".md" not in names | beside:
            yield f"{UNDERSTAND}/{name}.md: there is no page about src/{name}"
    pages = files(root, ("docs",), (".md",)) + [n for n in os.listdir(root) if n.endswith(".md")]
    for page in pages:
        for target in LINK.findall(read(root, page)):
            if "://" in target or target.startswith("mailto:"):
                continue
            if not os.path.exists(os.path.join(root, os.path.dirname(page), target)):
                yield f"{page}: the link to {target} leads nowhere"


def check(root):
    code = [(path, read(root, path)) for path in files(root, CODE, C_ENDINGS)]
    scripts = [(path, read(root, path)) for path in files(root, CODE, SCRIPT_ENDINGS)]
    for path, text in code + scripts:
        yield from check_size(path, text)
        yield from check_words(path, text)
    licensed = [(path, read(root, path)) for path in files(root, LICENSED, C_ENDINGS + SCRIPT_ENDINGS)]
    for path, text in licensed:
        yield from check_licence(path, text)
        yield from check_columns(path, text)
    pages = [(path, read(root, path))
              for path in files(root, ("docs",), (".md",)) if os.sep + "notebook" + os.sep not in path]
    yield from check_named(root, licensed, pages)
    yield from check_commits(root)
    for path, text in code:
        yield from check_functions(path, text)
    every = code + [(path, read(root, path)) for path in files(root, ("include", "benchmarks"), C_ENDINGS)]
    yield from check_layers(root, every)
    yield from check_cycles(root, every)
    yield from order.check_all(root)
    yield from check_tables(root, code)
    yield from check_measured(root)
    yield from check_documents(root)


# ---- self-test ----

HEAD = f"/* {SPDX} */\n"
ROWS = "low:\nhigh: low\ncli: low\n"
CLEAN = {
    "src/LAYERS": ROWS,
    "src/low/a.h": HEAD + "#ifndef A\n#define A\nint a(void);\n#endif\n",
    "src/low/a.c": HEAD + '#include "low/a.h"\nstruct s {\n    int x;\n};\nint a(void)\n{\n'
                          '    const char *t = "{ #if";\n'
                          "    /* } docs/high.md */\n    return t != 0;\n}\n",
    "src/high/b.c": HEAD + '#include "low/a.h"\nint b(void);\nint b(void)\n{\n    return a();\n}\n',
    "cli/c.c": HEAD + '#include "low/a.h"\n#if 1\nint main(void)\n{\n    return a();\n}\n#endif\n',
    "docs/low.md": "# low\nSee [high](understand/high.md).\n",
    "docs/understand/high.md": "# high\n",
    "tests/t.py": f"#!/usr/bin/env python3\n# {SPDX}\n",
}
LONG = HEAD + "int f(void)\n{\n" + "    g();\n" * FUNCTION_LINES + "}\n"
PLANTED = [
    ({"src/low/up.c": HEAD + '#include "high/b.h"\n'}, "does not let low use high"),
    ({"cli/up.c": HEAD + '#include "high/b.h"\n'}, "does not let cli use high"),
    ({"src/low/up.c": HEAD + '#include "../high/b.h"\n'}, "hides the layer"),
    ({"emulation/lab/x.c": HEAD + '#include "x.h"\n', "emulation/lab/x.h": HEAD}, "x.h without its folder"),
    ({"src/LAYERS": "low: high\nhigh: low\ncli: low\n"}, "which is not above it"),
    ({"src/odd/o.c": HEAD, "docs/odd.md": "# odd\n"}, "has no row for src/odd"),
    ({"src/low/x.h": HEAD + '#include "low/y.h"\n', "src/low/y.h": HEAD + '#include "y2.h"\n',
      "src/low/y2.h": HEAD + '#include "low/x.h"\n'}, "headers include each other"),
    ({"src/LAYERS": ROWS + "src/low/: a | d\n", "src/low/d.c": HEAD + "int d(void)\n{\n    return 0;\n}\n",
      "src/low/a.c": HEAD + '#include "low/a.h"\nint a(void)\n{\n    return d();\n}\n'}, "a.c: calls d of d.c"),
    ({"src/LAYERS": ROWS + "src/low/: a d\n", "src/low/d.c": HEAD + "int d(void)\n{\n    return a();\n}\n",
      "src/low/a.c": HEAD + '#include "low/a.h"\nint a(void)\n{\n    return d();\n}\n'}, "a.c, d.c call one another"),
    ({"src/LAYERS": ROWS + "src/low/: a\n", "src/low/d.c": HEAD + "static int d;\n"}, "has no place for d.c"),
    ({"src/LAYERS": ROWS + "src/low/: a | gone\n"}, "gone.c, which is not there"),
    ({"src/LAYERS": ROWS + "src/low/: a\n", "src/low/a.h": HEAD + "\n" * 151}, "one header a file"),
    ({"src/low/d.c": HEAD + "static int t(void)\n{\n    return 0;\n}\n",
      "src/high/d.c": HEAD + "static int t(void)\n{\n    return 1;\n}\n"}, "t() is a function of"),
    ({"cli/d.h": HEAD + "struct s {\n    int y;\n};\n"}, "s is a struct or enumeration of cli/d.h, src/low/a.c"),
    ({"src/low/d.c": HEAD + "int d(void)\n{\n    return 0;\n}\n", "src/low/d.h": HEAD + "int d(void);\n"},
     "low/d.c: nobody calls d()"),
    ({"src/low/d.h": HEAD + "int d(void);\n"}, "low/d.h: nothing defines d()"),
    *(({"src/low/k.c": HEAD + "static int k(void)\n{\n    " + text + "\n}\n"}, "k.c:4: " + found) for text, found in (
        ("return op->kind == &op_one;", "op->kind =="), ("return op->kind != x;", "op->kind !="),
        ("return what == &op_one;", "== &op_one"), ("return &op_one == what;", "&op_one =="),
        ("switch (op->kind) {}", "switch (op->kind"), ("return gpu->staged;", "gpu->staged"))),
    ({"src/low/long.c": LONG}, "more than 80"),
    ({"src/low/long.c": HEAD + 'extern "C" {\n' + LONG + "}\n"}, "more than 80"),
    ({"src/low/long.c": HEAD + "static int attribute(int a,\n    int b) __attribute__((cold))\n"
      + LONG[LONG.index("{"):]}, "more than 80"),
    ({"src/low/long.cuh": HEAD + "template <class E> DEVICE " + LONG[LONG.index("int f"):]}, "more than 80"),
    ({"src/low/big.cu": HEAD + "\n" * FILE_LINES}, "more than 600"),
    ({"emulation/big.c": HEAD + "\n" * FILE_LINES}, "more than 600"),
    ({"src/low/bare.c": "int x;\n"}, "not the licence"),
    ({"tests/bare.py": "import os\n"}, "not the licence"),
    ({"src/low/w.c": HEAD + "/* TO" + "DO: later */\n"}, "unfinished work"),
    ({"bindings/w.py": f"# {SPDX}\n# a st" + "ub\n"}, "unfinished work"),
    ({"src/low/i.c": HEAD + "int f(void)\n{\n#ifdef A\n    return 1;\n#endif\n    return 0;\n}\n"}, "#if inside"),
    ({"src/tables/events.tbl": "EVENT(UP, \"up\")\n", "docs/tables.md": "# tables\n"},
     "nothing in the code uses the row UP"),
    ({"src/tables/gpu.tbl": 'OF_PARAMETER(X, "bytes", "Nowhere")\n', "src/tables/ways.tbl": "",
      "docs/notebook/gpu.md": "## Somewhere\n", "docs/tables.md": "# tables\n"}, "no heading of"),
    ({"src/tables/gpu.tbl": 'THRESHOLD(X, "1K", 0, "bytes", "Nowhere", "help")\n', "src/tables/ways.tbl": "AT(X)\n",
      "docs/notebook/gpu.md": "## Somewhere\n", "docs/tables.md": "# tables\n"}, "X was measured below \"Nowhere\""),
    ({"src/tables/gpu.tbl": 'THRESHOLD(X, "1K", 0, "bytes", "", "help")\n', "src/tables/ways.tbl": "",
      "docs/notebook/gpu.md": "", "docs/tables.md": "# tables\n"}, "nothing in the code uses the row X"),
    ({"src/tables/gpu.tbl": "", "src/tables/ways.tbl": "AT(X)\n", "docs/notebook/gpu.md": "",
      "docs/tables.md": "# tables\n"}, "X has no row in"),
    ({"docs/low.md": None}, "no page about src/low"),
    ({"docs/understand/low.md": "# low\n"}, "has a page of this name"),
    ({"docs/low.md": "[x](nowhere.md)\n"}, "leads nowhere"),
    ({"src/low/w.c": HEAD + "/* " + "x" * COLUMNS + " */\n"}, "w.c:2: more than 120 columns"),
    ({"tests/w.py": f"# {SPDX}\n" + "x" * (COLUMNS + 1) + "\n"}, "w.py:2: more than 120 columns"),
    ({"src/low/n.c": HEAD + "/* see low/a.h and <other.h>, not\n * low/gone.c */\n"},
     "n.c:3: there is no file low/gone.c"),
    ({"tests/n.sh": f"# {SPDX}\nx=1 #" " as gone.py does; NAME.py is any\n"}, "n.sh:2: there is no file gone.py"),
    ({"docs/low.md": "see `a.h` and `gone.c`\n"}, "low.md:1: there is no file gone.c"),
]


def plant(root, tree):
    for path, text in tree.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        if text is None:
            os.remove(full)
        else:
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)


def found_in(tree):
    with tempfile.TemporaryDirectory() as root:
        plant(root, CLEAN)
        plant(root, tree)
        return list(check(root))


def subjects_are_seen():
    """A commit's subject, in a repository with history; a folder inside another repository has none of its own."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", "-C"]
    with tempfile.TemporaryDirectory() as root:
        plant(root, CLEAN)
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "Say what is done"],
                      ["commit", "-qm", "x" * (SUBJECT + 1), "--allow-empty"]):
            subprocess.run(
    git + [root] + words,
    check=True,
    env=dict(
        os.environ,
         GIT_COMMITTER_DATE="2030-01-01T00:00:00Z"))
        found = list(check_commits(root))
        subprocess.run(git + [root, "commit", "-q", "--amend", "-m", "x" * (SUBJECT + 1), "--allow-empty"], check=True,
                       env=dict(os.environ, GIT_COMMITTER_DATE="2026-01-01T00:00:00Z"))
        return len(found) == 1 and "73 characters" in found[0] and not [
            *check_commits(root), *check_commits(os.path.join(root, "src")), *check_commits("/nonexistent")]


def self_test():
    failed = 0
    if not subjects_are_seen():
        print("subjects: not as expected")
        failed += 1
    clean = found_in({})
    if clean:
        print("the clean tree is refused:", *clean, sep="\n  ")
        failed += 1
    for tree, expected in PLANTED:
        found = found_in(tree)
        if not any(expected in line for line in found):
            print(f"not found: \"{expected}\" in {list(tree)}; found {found}")
            failed += 1
    print(f"{len(PLANTED) + 3 - failed} of {len(PLANTED) + 3} cases as expected")
    return failed != 0


def main():
    if sys.argv[1:2] in (["-h"], ["--help"]):
        return print(__doc__)
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    complaints = list(check(root))
    print(*complaints, sep="\n", end="\n" if complaints else "")
    print(f"{len(complaints)} violations")
    return bool(complaints)


if __name__ == "__main__":
    sys.exit(main())
