# SPDX-License-Identifier: Apache-2.0
"""The little of man(7) that the pages need."""
MARK = "Made by docs/man/generate.py from {}. Do not edit."


def escape(text):
    """Text as it stands, of one line. Quotes would end an argument of a macro."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return "\\&" + text if text.startswith((".", "'")) else text


def head(name, section, summary, version, source):
    return [".\\\" SPDX-License-Identifier: Apache-2.0", f".\\\" {MARK.format(source)}",
            f".TH {name.upper()} {section} \"\" \"tutti {version}\" \"tutti\"",
            ".SH NAME", f"{escape(name)} \\- {escape(summary)}", ".SH SYNOPSIS"]


def verbatim(lines):
    return [".nf", *(escape(line) if line else "" for line in lines), ".fi"]


def text(page):
    """The lines of a page as a file. Paragraphs are set apart from paragraphs alone."""
    heads = (".PP", ".SH", ".SS", ".TP")
    around = zip(["", *page], page, [*page[1:], ".SH"])
    return "".join(line.rstrip() + "\n" for before, line, after in around
                   if line != ".PP" or not (before.startswith(".SH") or after.startswith(heads)))
