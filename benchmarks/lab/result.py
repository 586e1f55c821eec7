# SPDX-License-Identifier: Apache-2.0
"""Rows of the table, and how figures are written."""
import dataclasses
import statistics


@dataclasses.dataclass
class Row:
    what: str
    paper: str
    aim: str
    measured: str
    met: bool | None  # None: nothing is aimed at


def middle(figures):
    return statistics.median(figures)


def spread(figures, form=".1f"):
    """"17.2", or "17.2 (15.0 to 18.1)" where there are several."""
    text = format(middle(figures), form)
    return f"{text} ({min(figures):{form}} to {max(figures):{form}})" if len(figures) > 1 else text


HEAD = ["| | paper | aim | measured (emulated) | |", "|---|---|---|---|---|"]


def table(name, title, rows):
    """Lines of Markdown, below HEAD: the table of docs/reference/bench-lab.md."""
    verdict = {True: "met", False: "**missed**", None: ""}
    return [f"| **{title[:1].upper()}{title[1:]}** (`{name}`) | | | | |",
            *(f"| {row.what} | {row.paper} | {row.aim} | {row.measured} | {verdict[row.met]} |" for row in rows)]
