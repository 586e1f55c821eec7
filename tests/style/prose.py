#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the sentences that people read against docs/style/rules, which also says where they are.

    prose.py [ROOT]       checks; exit status 1 and one line for each violation: file, line, rule, sentence
    prose.py --self-test  plants each violation in a small page and expects it to be found

Pages are Markdown: code, commands and links' targets are no prose. Manual pages are roff. Of C strings of five words
and more are read: error sentences and help texts. Of Python it is what argparse is given as help. Of comments of C, C++
and CUDA all is read but code and drawings. Wants Debian's python3-markdown-it; without it the test is skipped.
"""
import ast
import os
import re
import sys
import tempfile

import errors

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
STRING_END = re.compile(r"(?<=[.?!:;])[\"')]*\s+|\\n")  # of a sentence in a string of C
NO_PROSE = re.compile(r"<[a-z]|[{}]|\b(?:CREATE|PRAGMA|INSERT|SELECT|UPDATE|LISTEN)\b|https?:")  # of a string
LEAST = 5  # words of a string that is prose
# A comment of C, or a string or character, in which no comment begins. Lines of // that follow one another are one.
COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*(.*?)\*/|//([^\n]*(?:\n[ \t]*//[^\n]*)*)', re.S)
MARGIN = re.compile(r"\n[ \t]*(?:\*|//)?[ \t]?")  # before each line of a comment but the first
TAG = re.compile(r"\s*(?:SPDX-|clang-format |NOLINT)")  # a comment for a program
EMPTY = re.compile(r"(\n[ \t]*\n)")  # between paragraphs of a comment
INDENTED = re.compile(r"\n*(?:  |.*\n  )")
NO_COMMENT = re.compile(r"[;{}]\s*(?:\n|$)")  # in a comment that holds code
HELP = {"help", "description", "epilog"}  # what argparse prints
ASKED = {"first", "never", "term", "unit"}  # kinds of rules of a sentence
ASKED_FIRST = ASKED - {"unit"} | {"begin"}  # of the first of a comment
RATIO = re.compile(r"\b(ratios?|times)\b", re.I)
SHOWN = 60  # characters of a sentence in a message


class Rules:
    """The table, read."""

    def __init__(self, text):
        self.limits, self.patterns, self.openings = {}, [], []
        self.places = {kind: [] for kind in READERS}
        self.names, self.explained = set(), None
        for number, line in enumerate(text.splitlines(), 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            kind, rest = line.split(None, 1)
            if kind == "limit":
                name, most = rest.split()
                self.limits[name] = int(most)
            elif kind in self.places:
                self.places[kind] += rest.split()
            elif kind == "names":
                self.names.update(rest.split())
            elif kind == "abbreviations":
                self.explained = rest
            elif kind == "opening":
                folder, pattern = rest.split(None, 1)
                self.openings.append((folder, re.compile(pattern, re.S)))
            elif kind == "unit":
                self.patterns.append((kind, re.compile(rest, re.I), "a unit is missing", rest))
            elif kind in ("first", "begin", "never", "term") and ": " in rest:
                pattern, advice = rest.split(": ", 1)
                begin = r"\b" if kind in ("never", "term") else r"\W*"
                self.patterns.append((kind, re.compile(begin + pattern, re.I), advice, pattern))
            else:
                raise ValueError(f"{RULES}:{number}: no rule: {line}")

    def learn(self, root):
        """The abbreviations of the page that explains them: the first cell of each row."""
        if self.explained:
            for row in re.findall(r"^\| ([A-Z0-9, ]+) \|", read(root, self.explained), re.M):
                self.names.update(row.split(", "))

    def paths(self, root, kind):
        """The files of a kind; a place that is not there is an error."""
        for place in self.places[kind]:
            full = os.path.join(root, place)
            if os.path.isfile(full):
                yield place
                continue
            if not os.path.isdir(full):
                raise ValueError(f"{RULES}: there is no {place}")
            for folder, names, files in os.walk(full):
                names[:] = sorted(name for name in names if not name.startswith((".", "build")))
                for name in sorted(files):
                    path = os.path.relpath(os.path.join(folder, name), root)
                    if ENDINGS[kind].search(path):
                        yield path


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


def wrong_with(rules, sentence, asked=ASKED):
    """What the rules say against a sentence."""
    words = len(WORD.findall(ROW.sub("N", sentence)))
    if words > rules.limits["words"]:
        yield f"{words} words, of {rules.limits['words']} at most"
    for kind, pattern, advice, _ in rules.patterns:
        if kind not in asked or kind == "unit" and RATIO.search(sentence):
            found = None
        elif kind in ("first", "begin"):
            found = pattern.match(sentence)
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


def check_sentences(rules, path, found, asked=ASKED):
    """`found` has the line and the text of each sentence."""
    for line, sentence in found:
        for wrong in wrong_with(rules, " ".join(sentence.split()), asked):
            yield f"{path}:{line}: {wrong}: {sentence.strip()[:SHOWN]}"


def manual_blocks(text):
    """(line, text) of each paragraph of a manual page."""
    block, first, code = [], 0, False
    for number, line in enumerate(text.splitlines() + [""], 1):
        code = line.startswith(".nf") or code and not line.startswith(".fi")
        if code or line.startswith(".") or not line.strip():
            if block:
                yield first, " ".join(block)
            block = []
        else:
            first = first if block else number
            block.append(re.sub(r"\\f.", "", line).replace("\\-", "-").replace("\\&", ""))


def check_manual(rules, path, text):
    for first, block in manual_blocks(text):
        yield from check_sentences(rules, path, ((first, sentence) for _, sentence in sentences(first, block)))


def check_strings(rules, path, text):
    for string in errors.formats(text):
        words = errors.CONVERSION.sub("N", string)
        if len(re.findall(r"[A-Za-z][a-z']+", words)) < LEAST or " " not in words or NO_PROSE.search(words):
            continue
        word = string.split("\\n")[0].split("%")[0][:SHOWN]
        line = text.count("\n", 0, max(text.find(word), 0)) + 1
        yield from check_sentences(rules, path, ((line, sentence) for sentence in STRING_END.split(words)))


def constant(node):
    """The text of a string, with N for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.BinOp):
        return constant(node.left) + constant(node.right)
    if isinstance(node, ast.JoinedStr):
        return "".join(constant(value) or "N" for value in node.values)
    return ""


def check_options(rules, path, text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.keyword) and node.arg in HELP:
            yield from check_sentences(rules, path, sentences(node.value.lineno, constant(node.value)))


def comments(text):
    """(line, text, does it begin a comment before code) of each paragraph. An indented one is code, or a drawing."""
    for found in COMMENT.finditer(text):
        inside = found.group(1) or found.group(2)
        if not inside or TAG.match(inside):
            continue
        begin = found.start()
        line = text.count("\n", 0, begin) + 1
        trails = text[text.rfind("\n", 0, begin) + 1:begin].strip()
        words = re.sub(r"`[^`]*`", "CODE", MARGIN.sub("\n", inside))
        if NO_COMMENT.search(words) or trails and len(WORD.findall(words)) < LEAST:
            continue
        begins = not trails
        for paragraph in EMPTY.split(words):
            if paragraph.strip() and not INDENTED.match(paragraph):
                yield line, paragraph, begins
                begins = False
            line += paragraph.count("\n")


def check_comments(rules, path, text):
    """A number there may lack its unit: the name or the declaration beside the comment says it."""
    for first, paragraph, begins in comments(text):
        for sentence in sentences(first, paragraph):
            yield from check_sentences(rules, path, [sentence], ASKED_FIRST if begins else ASKED - {"unit"})
            begins = False


READERS = {"pages": check_page, "manual": check_manual, "strings": check_strings, "options": check_options,
           "comments": check_comments}
ENDINGS = {"pages": re.compile(r"\.md$"), "manual": re.compile(r"\.[1-9]$"), "options": re.compile(r"\.py$"),
           "strings": re.compile(r"^(?!.*(_test\.|/tests?/)).*\.(c|h|tbl|cu|cuh)$"),
           "comments": re.compile(r"\.(c|h|tbl|cu|cuh|cc|cpp|hpp)$")}


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def check(root):
    rules = Rules(read(root, RULES))
    rules.learn(root)
    for kind, check_text in READERS.items():
        for path in rules.paths(root, kind):
            yield from check_text(rules, path, read(root, path))


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


# Planted in other kinds of files: the kind, the text, what is found.
BEYOND = [
    ("manual", ".SH A\nIt goes so\nlong.\n.nf\nIt goes as long as it may.\n.fi\n", 'x:2: "so long"'),
    ("strings", 'f("there is no such thing as %d: %s", 1, "as long as");\n', "x:1:"),
    ("strings", 'f(1);\ng("rank %d waits " "as long as it may");\n', 'x:2: "as long as"'),
    ("strings", 'f("a " "word ' + "and a word " * 10 + 'ends");\n', "33 words"),
    ("strings", '/* "it goes as long as it may" */ f("CREATE TABLE such things are no prose");\n', None),
    ("options", 'f(help="it goes as long " f"as {it} may")\n', 'x:1: "as long as"'),
    ("options", 'f(name="it goes as long as it may")\n', None),
    ("comments", "int a;\n/*\n * A rank goes\n * so long. And\n */\n", 'x:2: "so long"'),
    ("comments", "/*\n * A\n *\n *   such a drawing\n *\n * B. A rank goes so long.\n */\n", 'x:6: "so long"'),
    ("comments", "/* Who comes last waits. */\n", "begin with the noun"),
    ("comments", "/* Word " + "and a word " * 10 + "ends. */\n", "32 words"),
    ("comments", "int a;\n    // A rank goes\n    // so long.\n", 'x:2: "so long"'),
    ("comments", "/* It is over. */\nint a; /* it is over, and gone for good */\n/* An end. It is over. */\n",
     'x:1: "It": name the thing'),
    ("comments", "int a; /* of such words that trail code */\n", 'x:1: "such"'),
    ("comments", "int a; /* such a one */\n", None),
    ("comments", 'f("/* such words */"); /* f(so_long);\n */\n', None),
    ("comments", "/* SPDX-License-Identifier: such */ /* A rank waits at most 30. */\n", None),
]


def self_test_beyond(rules, used):
    for kind, text, wanted in BEYOND:
        found = list(READERS[kind](rules, "x", text))
        used |= {advice for _, _, advice, _ in rules.patterns if any(advice in line for line in found)}
        if bool(found) != bool(wanted) or wanted and (len(found) != 1 or wanted not in found[0]):
            yield f"planted {text!r}, wanted {wanted!r}, found {found}"


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
    failed += self_test_beyond(rules, used)
    failed += [f"nothing planted for: {source}" for _, _, advice, source in rules.patterns if advice not in used]
    for text, good in (("# A\n\nFor a reader. It answers all.\n", True), ("# A\n\nThe page.\n", False)):
        if bool(list(check_page(rules, "docs/page.md", text))) == good:
            failed.append(f"an opening was judged wrongly: {text!r}")
    with tempfile.TemporaryDirectory() as lone:
        os.makedirs(os.path.join(lone, "docs/style"))
        with open(os.path.join(lone, RULES), "w", encoding="utf-8") as file:
            file.write("limit words 28\nlimit columns 120\npages gone.md\n")
        try:
            list(check(lone))
            failed.append("a file that is gone was not missed")
        except ValueError:
            pass
    return failed


def main():
    if sys.argv[1:2] in (["-h"], ["--help"]):
        return print(__doc__)
    here = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    if sys.argv[1:] == ["--self-test"]:
        found = self_test(here)
        print("\n".join(found) or f"{len(PLANTED) + len(BEYOND)} planted texts judged rightly")
    else:
        try:
            found = list(check(sys.argv[1] if sys.argv[1:] else here))
        except ValueError as error:
            found = [str(error)]
        print("\n".join(found), end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
