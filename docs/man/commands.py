# SPDX-License-Identifier: Apache-2.0
"""Pages of section 1 out of the program's own help texts."""
import re
import subprocess

import roff

SOURCE = "the help text"
OPTION = re.compile(r"^ {2,6}(-\S.*?)(?: {2,}(\S.*))?$")


def run(tutti, *args):
    return subprocess.run([tutti, *args], capture_output=True, text=True, check=False)


def output(tutti, *args):
    done = run(tutti, *args)
    if done.returncode:
        raise SystemExit(f"{tutti} {' '.join(args)}: exit status {done.returncode}: {done.stderr}")
    return done.stdout


def version(tutti):
    return output(tutti, "version").split()[1]


def split_usage(text):
    """The usage lines, without "Usage: " and its indent, and the other lines."""
    lines = text.split("\n")
    count = 1
    while lines[count].startswith("       tutti "):
        count += 1
    return [line[len("Usage: "):] for line in lines[:count]], lines[count:]


def synopsis(lines):
    page = []
    for number, line in enumerate(lines):
        page += ([".br"] if number else []) + [f".B {roff.escape(line)}"]
    return page


def body(lines):
    """Options become tagged paragraphs; deeper lines go on with the option before; indented others stay as they are."""
    page, in_option = [".SH DESCRIPTION"], False
    for line in lines:
        option = OPTION.match(line)
        if option:
            page += [".TP", f".B {roff.escape(option.group(1).strip())}", roff.escape(option.group(2) or "")]
            in_option = True
        elif not line.strip():
            page.append(".PP")
            in_option = False
        elif in_option and line.startswith("     "):
            page.append(roff.escape(line.strip()))
        elif line.startswith("  "):
            page += roff.verbatim([line.rstrip()])
        else:
            page += [".PP", roff.escape(line)] if in_option else [roff.escape(line)]
            in_option = False
    return page


def page(name, summary, number, text):
    usage, rest = split_usage(text)
    return roff.text(roff.head(name, 1, summary, number, SOURCE) + synopsis(usage) + body(rest))


def is_away(done):
    """The command is a program of its own, and that was not built here."""
    return done.returncode == 1 and "it is not beside this program" in done.stderr


def pages(tutti):
    """Files of section 1 and their contents; None for those of programs that were not built."""
    overview, number = output(tutti, "help"), version(tutti)
    made = {"tutti.1": page("tutti", "collective communication: run, measure, look", number, overview)}
    for name, summary in re.findall(r"^  ([a-z]+) +(\S.*)$", overview, re.M):
        if name in ("help", "version"):
            continue
        away = is_away(run(tutti, "help", name))
        made[f"tutti-{name}.1"] = None if away else page(f"tutti-{name}", summary, number, output(tutti, "help", name))
    return made


def options_of(page_text):
    tags = re.findall(r"^\.B (-.*)$", page_text.replace("\\-", "-"), re.M)
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z_-]*", "\n".join(tags)))
