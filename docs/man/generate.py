#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the manual pages docs/man/*.1 from the program's own help texts.

    generate.py TUTTI FOLDER           writes the pages
    generate.py --check TUTTI FOLDER   exit status 1, naming them, if pages are missing, stale or too many
"""
import os
import re
import subprocess
import sys

OPTION = re.compile(r"^ {2,6}(-\S.*?)(?: {2,}(\S.*))?$")


def output(tutti, *args):
    return subprocess.run([tutti, *args], check=True, capture_output=True, text=True).stdout


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def head(name, summary, version, synopsis):
    return [f".\\\" SPDX-License-Identifier: Apache-2.0", f".\\\" Made by docs/man/generate.py from the help text. Do not edit.",
            f".TH {name.upper()} 1 \"\" \"tutti {version}\" \"tutti\"", ".SH NAME", f"{escape(name)} \\- {escape(summary)}",
            ".SH SYNOPSIS", f".B {escape(synopsis)}"]


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
    usage, _, rest = overview.partition("\n")
    made = {"tutti.1": head("tutti", "collective communication: run, measure, look", version, usage[len("Usage: "):])
            + body(rest.split("\n"))}
    for name, summary in re.findall(r"^  ([a-z]+) +(\S.*)$", overview, re.M):
        if name in ("help", "version"):
            continue
        usage, _, rest = output(tutti, "help", name).partition("\n")
        made[f"tutti-{name}.1"] = head(f"tutti-{name}", summary, version, usage[len("Usage: "):]) + body(rest.split("\n"))
    return {name: re.sub(r"(\.PP\n)+", ".PP\n", "\n".join(page).rstrip("\n") + "\n").removesuffix(".PP\n") for name, page in made.items()}


def differences(made, folder):
    present = {name for name in os.listdir(folder) if name.endswith(".1")}
    for name in sorted(present | set(made)):
        path = os.path.join(folder, name)
        if name not in made:
            yield f"{path}: there is no such command"
        elif name not in present:
            yield f"{path}: is missing"
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
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
