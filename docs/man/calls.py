# SPDX-License-Identifier: Apache-2.0
"""Pages of section 3 out of the public header: one for each call, and libtutti.3 for what all have in common.

What a call does, its shapes, its ownership and its own errors are said by the comment directly in front of it; a
comment below the heading of a part is of all calls of that part; the paragraphs of the first comment ("Shapes.",
"Order.", ...) are of the calls that they concern. calls.tbl adds what the header has no place for.
"""
import os
import re
import textwrap

import roff

SOURCE = "the header"
COMMENT = r"/\*((?:(?!\*/).)*)\*/"
TOKEN = re.compile(rf"/\* -+ (?P<part>.*?) -+ \*/|(?P<call>(?:{COMMENT}\n)?^TUTTI_API [^;]*;)|(?P<note>{COMMENT})|"
                   r"(?P<code>(?:(?!^TUTTI_API )[^/])+|/)", re.S | re.M)
CALL = re.compile(rf"(?:{COMMENT}\n)?TUTTI_API (?P<type>[^;(]*?)(?P<name>tutti_\w+)\((?P<args>[^;]*)\);", re.S)
WIDTH = 78


def plain(comment):
    """Paragraphs of a comment."""
    lines = [re.sub(r"^\s*\* ?", "", line).strip() for line in comment.strip().split("\n")]
    return [" ".join(p.split()) for p in "\n".join(lines).split("\n\n") if p.strip()]


def table():
    """Rows of calls.tbl by the names of their calls."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "calls.tbl"), encoding="utf-8") as file:
        rows = [[part.strip() for part in line.split("|")] for line in file if not line.startswith("#")]
    return {name: rest for name, *rest in rows}


class Call:
    def __init__(self, text, part, rows):
        found = CALL.fullmatch(text)
        self.name, self.type, self.part = found["name"], found["type"], part
        self.args = [" ".join(arg.split()) for arg in found["args"].split(",")]
        if self.name not in rows:
            raise SystemExit(f"docs/man/calls.tbl does not say in short what {self.name} does")
        self.summary, self.shared, self.gives, self.mechanism = rows[self.name]
        self.text, _, mechanism = " ".join(plain(found[1] or "")).partition("Mechanism: ")
        self.mechanism = mechanism or self.mechanism

    def takes(self, *names):
        return any(re.search(rf"\b({'|'.join(names)})\b", arg) for arg in self.args)

    def fails(self):
        return self.type.strip() == "tutti_result_t"

    def prototype(self):
        """Lines of at most WIDTH columns."""
        first = f"{self.type}{self.name}("
        args = ", ".join(arg.replace(" ", "\0") for arg in self.args)
        lines = textwrap.wrap(first.replace(" ", "\0") + args + ");", WIDTH, subsequent_indent=" " * 8)
        return [line.replace("\0", " ") for line in lines]


class Header:
    def __init__(self, path, version):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.name, self.version = os.path.basename(path), version
        opening, body = re.search(rf"{COMMENT}\n#ifndef", text, re.S), text[text.index("extern \"C\""):]
        paragraphs = [p for p in re.split(r"\n\s*\*?\s*\n", opening[1])]
        self.common = {}
        for paragraph in [" ".join(plain(p)) for p in paragraphs][1:]:
            word, _, rest = paragraph.partition(". ")
            self.common[word] = rest
        results = re.search(r"enum tutti_result {(.*?)}", text, re.S)[1]
        self.results = re.findall(r"(TUTTI_\w+) = \d+, */\* (.*?) \*/", results)
        self.rows, self.calls, self.notes, self.code = table(), [], {}, {}
        self.split(body[:body.rindex("#ifdef __cplusplus")])
        texts = {call.name: call.text for call in self.calls}
        for call in self.calls:
            call.text = call.text or texts.get(call.shared) or call.summary[0].upper() + call.summary[1:] + "."

    def split(self, body):
        part, fresh = "Types", True
        for token in TOKEN.finditer(body[body.index("#endif") + len("#endif"):]):
            if token["part"]:
                part, fresh = token["part"], True
            elif token["call"]:
                self.calls.append(Call(token["call"], part, self.rows))
                fresh = False
            elif token["note"] and fresh and part != "Types":
                self.notes[part] = " ".join(plain(token["note"][2:-2]))
            elif token["note"] or token["code"].strip():
                self.code[part] = self.code.get(part, "") + token[0]
                fresh = False
            elif part in self.code and not fresh:
                self.code[part] += token[0]


def prose(text):
    """A line for each sentence, with `names` in italics and calls in bold with their section."""
    for sentence in re.split(r"(?<=\.) +", text.strip()):
        line = re.sub(r"`([^`]*)`", r"\\fI\1\\fR", roff.escape(sentence))
        yield re.sub(r"\b(tutti_\w+)\(\)", r"\\fB\1\\fR(3)", line)


def section(title, *paragraphs):
    lines = [f".SH {title}"]
    for paragraph in paragraphs:
        lines += [*prose(paragraph), ".PP"]
    return lines


def results(header):
    lines = ["TUTTI_SUCCESS, or one of:"]
    for name, meaning in header.results:
        lines += [".TP", f".B {name}", roff.escape(meaning)]
    return lines


def page(header, call):
    """What the header says of one call."""
    lines = roff.head(call.name, 3, call.summary, header.version, SOURCE)
    lines += roff.verbatim([f"#include <tutti/{header.name}>", "", *call.prototype(), "",
                            "cc file.c $(pkg-config --cflags --libs tutti)"])
    note = header.notes.get(call.part) if call.takes("send", "recv") else None
    lines += section("DESCRIPTION", *filter(None, (call.text, note)))
    if call.takes("count", "size", "send_counts", "nranks", "scalar", "device_scalar"):
        lines += section("SHAPES AND UNITS", header.common["Shapes"])
    orders = call.takes("stream") or "group" in call.name
    owned = "{} is the caller's; {} frees it.".format(*call.gives.split(", ")) if call.gives else ""
    if orders or owned:
        lines += section("ORDER AND OWNERSHIP", *filter(None, (header.common["Order"] if orders else "", owned)))
    if call.takes("stream", "config", "buffer"):
        lines += section("DEVICES", header.common["Devices"])
    if call.fails():
        lines += [".SH RETURN VALUE", *results(header), *section("ERRORS", header.common["Errors"])]
    if call.takes("comm", "stream"):
        lines += section("THREADS", header.common["Threads"])
    if call.mechanism:
        lines += section("MECHANISM", f"In the sources of tutti: {call.mechanism}")
    return roff.text(lines + see_also([c.name for c in header.calls if c.part == call.part and c != call], "libtutti"))


def see_also(names, *others):
    entries = [f".BR {roff.escape(name)} (3)," for name in (*others, *names)]
    return [".SH SEE ALSO", *entries, ".BR tutti (1)"]


def overview(header):
    lines = roff.head("libtutti", 3, "collective communication between processes", header.version, SOURCE)
    lines += roff.verbatim([f"#include <tutti/{header.name}>", "", "cc file.c $(pkg-config --cflags --libs tutti)"])
    lines += [".SH DESCRIPTION", "What all calls have in common. Each has a page of its own."]
    for word, text in header.common.items():
        lines += [".TP", f".B {word}", *prose(text)]
    lines += [".SH CALLS"]
    for part in dict.fromkeys(call.part for call in header.calls):
        lines += [f".SS {part}"]
        for call in header.calls:
            lines += [".TP", f".BR {call.name} (3)", roff.escape(call.summary)] if call.part == part else []
    lines += [".SH TYPES"]
    for code in header.code.values():
        lines += [*roff.verbatim(code.strip().split("\n")), ".PP"]
    return roff.text(lines + see_also([]))


def pages(path, version):
    """Files of section 3 and their contents."""
    header = Header(path, version)
    made = {f"{call.name}.3": page(header, call) for call in header.calls}
    return {"libtutti.3": overview(header), **made}
