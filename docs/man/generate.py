#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes manual pages docs/man/*.1 from the program's own help texts, where nobody has written one by hand.

    generate.py TUTTI FOLDER           writes the pages
    generate.py --check TUTTI FOLDER   exit status 1, naming them, if pages are missing, stale or too many, or if a page
                                       written by hand lacks an option of the help text
"""
import os
import re
import subprocess
import sys

MARK = "Made by docs/man/generate.py from the help text. Do not edit."
OPTION = re.compile(r"^ {2,6}(-\S.*?)(?: {2,}(\S.*))?$")


def output(tutti, *args):
    return subprocess.run([tutti, *args], check=True, capture_output=True, text=True).stdout


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def head(name, summary, version, synopsis):
    page = [".\\\" SPDX-License-Identifier: Apache-2.0", f".\\\" {MARK}", f".TH {name.upper()} 1 \"\" \"tutti {version}\" \"tutti\"",
            ".SH NAME", f"{escape(name)} \\- {escape(summary)}", ".SH SYNOPSIS"]
    for number, line in enumerate(synopsis):
        page += ([".br"] if number else []) + [f".B {escape(line)}"]
    return page


def split_usage(text):
    """The usage lines, without "Usage: " and its indent, and the other lines."""
    lines = text.split("\n")
    count = 1
    while lines[count].startswith("       tutti "):
        count += 1
    return [line[len("Usage: "):] for line in lines[:count]], lines[count:]


def body(lines):
    """Options become tagged paragraphs; deeper lines go on with the option before; indented others stay as they are."""
    page, in_option = [".SH DESCRIPTION"], False
    for line in lines:
        option = OPTION.match(line)
        if option:
            page += [".TP", f".B {escape(option.group(1).strip())}", escape(option.group(2) or "")]
            in_option = True
        elif not line.strip():
            page.append(".PP")
            in_option = False
        elif in_option and line.startswith("     "):
            page.append(escape(line.strip()))
        elif line.startswith("  "):
            page += [".nf", escape(line.rstrip()), ".fi"]
        else:
            page += [".PP", escape(line)] if in_option else [escape(line)]
            in_option = False
    return page


def pages(tutti):
    overview = output(tutti, "help")
    version = output(tutti, "version").split()[1]
    synopsis, rest = split_usage(overview)
    made = {"tutti.1": head("tutti", "collective communication: run, measure, look", version, synopsis) + body(rest)}
    for name, summary in re.findall(r"^  ([a-z]+) +(\S.*)$", overview, re.M):
        if name in ("help", "version"):
            continue
        synopsis, rest = split_usage(output(tutti, "help", name))
        made[f"tutti-{name}.1"] = head(f"tutti-{name}", summary, version, synopsis) + body(rest)
    return {name: re.sub(r"(\.PP\n)+", ".PP\n", "\n".join(page).rstrip("\n") + "\n").removesuffix(".PP\n") for name, page in made.items()}


def by_hand(path):
    """The text of a page that was not made here, or None."""
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return None if MARK in text else text


def options_of(page):
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z_-]*", "\n".join(re.findall(r"^\.B (-.*)$", page.replace("\\-", "-"), re.M))))


def differences(made, folder):
    present = {name for name in os.listdir(folder) if name.endswith(".1")}
    for name in sorted(present | set(made)):
        path = os.path.join(folder, name)
        if name not in made:
            yield f"{path}: there is no such command"
        elif name not in present:
            yield f"{path}: is missing"
        elif by_hand(path):
            shown = by_hand(path).replace("\\-", "-")
            yield from (f"{path}: does not explain {o}" for o in sorted(options_of(made[name])) if o not in shown)
        else:
            with open(path, encoding="utf-8") as file:
                if file.read() != made[name]:
                    yield f"{path}: is stale"


def main():
    check = sys.argv[1] == "--check"
    tutti, folder = sys.argv[1 + check:3 + check]
    made = pages(tutti)
    if check:
        complaints = list(differences(made, folder))
        print(*complaints, "run: docs/man/generate.py build/bin/tutti docs/man" if complaints else "all pages are fresh", sep="\n")
        return bool(complaints)
    for name, page in made.items():
        if by_hand(os.path.join(folder, name)):
            continue
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
