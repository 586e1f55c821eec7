#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the sentences of pages against docs/style/rules, which also says which pages.

    prose.py [ROOT]       checks; exit status 1 and one line for each violation: file, line, rule, sentence
    prose.py --self-test  plants each violation in a small page and expects it to be found

Code, commands and links' targets are no prose. Wants Debian's python3-markdown-it; without it the test is skipped.
"""
import os
import re
import sys
import tempfile

try:
    from markdown_it import MarkdownIt
except ImportError:
    if os.path.exists("/usr/bin/python3") and sys.executable != "/usr/bin/python3" and "TUTTI_PROSE" not in os.environ:
        os.environ["TUTTI_PROSE"] = "again"  # another Python stands first in PATH; the packages are the system's
        os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])
    print("python3-markdown-it is not installed: apt-get install python3-markdown-it")
    sys.exit(77)

RULES = "docs/style/rules"
END = re.compile(r"(?<=[.?!:])[\"')*_]*\s+")
WORD = re.compile(r"[^\W_][\w'./%+-]*")
ROW = re.compile(r"\d[\d.,]*(?: / \d[\d.,]*)+")
CAPITALS = re.compile(r"(?<![\w/.=*-])[A-Z][A-Z0-9]{1,7}(?=(?:'?s)?(?![\w/.*=-]*\w))")
RATIO = re.compile(r"\b(ratios?|times)\b", re.I)
SHOWN = 60  # characters of a sentence in a message


class Rules:
    """The table, read."""

    def __init__(self, text):
        self.limits, self.patterns, self.files, self.openings = {}, [], [], []
        self.names, self.explained = set(), None
        for number, line in enumerate(text.splitlines(), 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            kind, rest = line.split(None, 1)
            if kind == "limit":
                name, most = rest.split()
                self.limits[name] = int(most)
            elif kind == "file":
                self.files.append(rest)
            elif kind == "names":
                self.names.update(rest.split())
            elif kind == "abbreviations":
                self.explained = rest
            elif kind == "opening":
                folder, pattern = rest.split(None, 1)
                self.openings.append((folder, re.compile(pattern, re.S)))
            elif kind == "unit":
                self.patterns.append((kind, re.compile(rest, re.I), "a unit is missing", rest))
            elif kind in ("first", "never", "term") and ": " in rest:
                pattern, advice = rest.split(": ", 1)
                begin = r"\W*" if kind == "first" else r"\b"
                self.patterns.append((kind, re.compile(begin + pattern, re.I), advice, pattern))
            else:
                raise ValueError(f"{RULES}:{number}: no rule: {line}")

    def learn(self, root):
        """The abbreviations of the page that explains them: the first cell of each row."""
        if self.explained:
            for row in re.findall(r"^\| ([A-Z0-9, ]+) \|", read(root, self.explained), re.M):
                self.names.update(row.split(", "))

    def paths(self, root):
        """The pages, and complaints of those that are not there."""
        found = []
        for path in self.files:
            full = os.path.join(root, path)
            if path.endswith("/"):
                found += sorted(os.path.relpath(os.path.join(folder, name), root)
                                for folder, _, names in os.walk(full) for name in names if name.endswith(".md"))
            elif os.path.exists(full):
                found.append(path)
            else:
                raise ValueError(f"{RULES}: there is no {path}")
        return found


def plain(token):
    """An inline token as text that keeps its line ends: code is one word, an image nothing."""
    parts = []
    for child in token.children or []:
        if child.type in ("softbreak", "hardbreak"):
            parts.append("\n")
        elif child.type == "code_inline":
            parts.append("CODE")
        elif child.type == "text":
            parts.append(child.content)
    return "".join(parts)


def blocks(text):
    """(first line, text, is it of a table) of each paragraph, heading and cell."""
    place, table = 0, False
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        table = table if token.type not in ("table_open", "table_close") else token.type == "table_open"
        if token.map:
            place = token.map[0]
        if token.type == "inline":
            yield place + 1, plain(token), table


def sentences(first, text):
    """(line, sentence) of a block."""
    at = 0
    for end in [match.span() for match in END.finditer(text)] + [(len(text), len(text))]:
        sentence = text[at:end[0]]
        if sentence.strip():
            yield first + text.count("\n", 0, at), " ".join(sentence.split())
        at = end[1]


def wrong_with(rules, sentence):
    """What the rules say against a sentence."""
    words = len(WORD.findall(ROW.sub("N", sentence)))
    if words > rules.limits["words"]:
        yield f"{words} words, of {rules.limits['words']} at most"
    for kind, pattern, advice, _ in rules.patterns:
        if kind == "first":
            found = pattern.match(sentence)
        elif kind == "unit" and RATIO.search(sentence):
            found = None
        else:
            found = pattern.search(sentence)
        if found:
            yield f"\"{found.group(0).strip()[:SHOWN]}\": {advice}"


def check_abbreviations(rules, path, text):
    seen = set(rules.names)
    for first, block, _ in blocks(text):
        for word in CAPITALS.findall(block.replace("CODE", "")):
            if word not in seen:
                seen.add(word)
                yield f"{path}:{first}: {word} is explained nowhere: {rules.explained}"


def check_opening(rules, path, text):
    """The first paragraph says for whom the page is, and what it answers."""
    paragraph = next((block for _, block, _ in list(blocks(text))[1:]), "")
    for folder, pattern in rules.openings:
        if path.startswith(folder) and not pattern.match(paragraph):
            yield f"{path}:1: the first paragraph is not \"For ... answers ...\": {paragraph[:SHOWN]}"


def check_page(rules, path, text):
    lines = text.splitlines()
    yield from check_opening(rules, path, text)
    if rules.explained:
        yield from check_abbreviations(rules, path, text)
    for first, block, table in blocks(text):
        if not table:
            for number in range(first, first + block.count("\n") + 1):
                if len(lines[number - 1]) > rules.limits["columns"]:
                    yield f"{path}:{number}: more than {rules.limits['columns']} columns"
        for line, sentence in sentences(first, block):
            for wrong in wrong_with(rules, sentence):
                yield f"{path}:{line}: {wrong}: {sentence[:SHOWN]}"


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def check(root):
    rules = Rules(read(root, RULES))
    rules.learn(root)
    for path in rules.paths(root):
        yield from check_page(rules, path, read(root, path))


# ---- self-test ----

CLEAN = """# A page

For a reader. A rank waits 30 s for its peers; a ratio above 1 is good.
It takes 1.5 s, and with one and two and three and four and five and six and seven and eight 1 / 2 / 3 / 4 / 5 / 6 s.
Who waits for whom? `Who knows such code` is code, and a picture such as this one is allowed.

    Who is in a block of code is no prose, as long as nobody reads it, and such lines may be long. {long}

| a | table's row may be long |
|---|---|
| {long} | x |
"""
PLANTED = [
    ("Fine.\nA word\n" + "and a word " * 10 + "ends.", "page.md:2: 33 words"),
    ("Who comes last waits.", 'page.md:1: "Who comes last waits."'),
    ("Fine. Whoever comes last waits.", "begin with the noun"),
    ("Fine.\n\n- This is a demonstrative.", "page.md:3: \"This is\""),
    ("A rank takes so many bytes.", "say the number"),
    ("It goes so long as it may.", '"so long as"'),
    ("It goes so long.", '"so long"'),
    ("It goes as long as it may.", '"as long as"'),
    ("A rank has such bytes.", '"such"'),
    ("The end thereof.", '"thereof"'),
    ("The end whereof it speaks.", '"whereof"'),
    ("It does so thereby.", '"thereby"'),
    ("It does likewise.", '"likewise"'),
    ("They take 1 s and 2 s respectively.", '"respectively"'),
    ("A word, e.g. this one.", '"e.g."'),
    ("One in the place of two.", '"instead of"'),
    ("It is said that a rank waits.", "name who says it"),
    ("A rank waits at most 30.", "a unit is missing"),
    ("The crew waits.", "workers, or thread group"),
    ("The lobby waits.", "acceptor"), ("A parcel waits.", "passed descriptor"), ("A herald waits.", "signaller"),
    ("Set TUTTI_DIRECT_SLOT to one.", "TUTTI_SHARED_"), ("Set TUTTI_DIRECT_FROM to one.", "TUTTI_PEER_"),
    ("A blackbox waits.", "black box"), ("A fall-back fabric waits.", "staging"),
    ("The QZXW waits.", "QZXW is explained nowhere"),
    ("x" * 121, "page.md:1: more than 120 columns"),
    ("| a |\n|---|\n| as long as it is |", "page.md:3: \"as long as\""),
]


def plant(root, path, text):
    with open(os.path.join(root, path), "w", encoding="utf-8") as file:
        file.write(text)


def self_test(root):
    rules = Rules(read(root, RULES))
    rules.learn(root)
    failed = [f"clean, but: {wrong}" for wrong in check_page(rules, "page.md", CLEAN.format(long="x " * 20 + "x" * 99))]
    used = set()
    for text, wanted in PLANTED:
        found = list(check_page(rules, "page.md", text))
        if len(found) != 1 or wanted not in found[0]:
            failed.append(f"planted {text!r}, wanted {wanted!r}, found {found}")
        used |= {advice for _, _, advice, _ in rules.patterns if any(advice in line for line in found)}
    failed += [f"nothing planted for: {source}" for _, _, advice, source in rules.patterns if advice not in used]
    for text, good in (("# A\n\nFor a reader. It answers all.\n", True), ("# A\n\nThe page.\n", False)):
        if bool(list(check_page(rules, "docs/page.md", text))) == good:
            failed.append(f"an opening was judged wrongly: {text!r}")
    with tempfile.TemporaryDirectory() as lone:
        os.makedirs(os.path.join(lone, "docs/style"))
        plant(lone, "docs/style/page.md", "Who comes last waits.\n")
        plant(lone, RULES, "limit words 28\nlimit columns 120\nfirst who: no\nfile docs/\n")
        if len(list(check(lone))) != 1:
            failed.append("a sentence on a page that nobody lists was not found")
        plant(lone, RULES, "limit words 28\nlimit columns 120\nfile gone.md\n")
        try:
            list(check(lone))
            failed.append("a file that is gone was not missed")
        except ValueError:
            pass
    return failed


def main():
    here = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    if sys.argv[1:] == ["--self-test"]:
        found = self_test(here)
        print("\n".join(found) or f"{len(PLANTED)} planted violations found")
    else:
        try:
            found = list(check(sys.argv[1] if sys.argv[1:] else here))
        except ValueError as error:
            found = [str(error)]
        print("\n".join(found), end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
