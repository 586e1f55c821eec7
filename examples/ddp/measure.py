# SPDX-License-Identifier: Apache-2.0
"""Runs compare.py with 2 and 4 ranks, DDP and FSDP, several rounds in turn, and draws the ratios of what it saw.

    python3 examples/ddp/measure.py [--rounds 3] [--steps 20] [--ranks 2,4] [--note TEXT] [-o ddp.svg]

Takes some minutes. It wants `tutti` and its library in reach, as compare.py does.
"""
import argparse
import html
import json
import os
import shutil
import subprocess
import sys
import tempfile

from compare import middle

COMPARE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compare.py")
LEFT, TOP, WIDE, LINE, MOST = 190, 62, 460, 26, 2.0  # a ratio of MOST is at the right end
COLORS = {"step": "#2471a3", "communication": "#1e8449"}


def measure(options):
    """{(mode, ranks): {"step": ratios, "communication": ratios, "apart": greatest difference of losses}}"""
    seen = {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "seen")
        for _ in range(options.rounds):
            for ranks in options.ranks.split(","):
                subprocess.run([options.tutti, "run", "-n", ranks, "--no-tag", "--", sys.executable, COMPARE, "--modes",
                                options.modes, "--steps", str(options.steps), "--json", path], check=True)
        with open(path, encoding="utf-8") as file:
            for one in map(json.loads, file):
                into = seen.setdefault((one["mode"], one["ranks"]), {"step": [], "communication": [], "apart": 0.0})
                into["step"] += one["step"]
                into["communication"] += one["communication"]
                into["apart"] = max(into["apart"], one["apart"])
    return seen


def text(x, y, words, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{html.escape(words)}</text>'


def place(ratio):
    return LEFT + WIDE * min(ratio, MOST) / MOST


def bar(y, name, what, ratios):
    """From 0 to the median, with a whisker from quartile to quartile."""
    low, median, high = middle(ratios)
    return [text(LEFT - 8, y + 15, name, 'text-anchor="end"'),
            f'<rect x="{LEFT}" y="{y + 3}" width="{place(median) - LEFT:.1f}" height="{LINE - 9}" '
            f'fill="{COLORS[what]}"/>',
            f'<line x1="{place(low):.1f}" x2="{place(high):.1f}" y1="{y + 11}" y2="{y + 11}" stroke="#000"/>',
            text(LEFT + WIDE + 8, y + 15, f"{median:.2f}")]


def draw(seen, note):
    bars = [(f"{mode.upper()}, {ranks} ranks: {what}", what, one[what])
            for (mode, ranks), one in sorted(seen.items()) for what in COLORS]
    low = TOP + LINE * len(bars)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDE + 60}" height="{low + 34}" '
           'font-family="sans-serif" font-size="11">', '<rect width="100%" height="100%" fill="#fff"/>',
           text(12, 20, "Time over tutti as part of the time over Gloo: below 1 tutti is faster",
                'font-size="13" font-weight="bold"'), text(12, 38, note)]
    for part in range(5):
        ratio = MOST * part / 4
        out += [f'<line x1="{place(ratio):.1f}" x2="{place(ratio):.1f}" y1="{TOP - 4}" y2="{low}" '
                f'stroke="{"#c0392b" if ratio == 1 else "#ccc"}"/>',
                text(place(ratio), low + 16, f"{ratio:g}", 'text-anchor="middle"')]
    for number, one in enumerate(bars):
        out += bar(TOP + LINE * number, *one)
    return "\n".join([*out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--modes", default="ddp,fsdp")
    parser.add_argument("--tutti", default=shutil.which("tutti") or "build/bin/tutti")
    parser.add_argument("--note", default="", help="what the picture is to say of the machine")
    parser.add_argument("-o", "--output", default="ddp.svg")
    options = parser.parse_args()
    seen = measure(options)
    print("\n| mode | ranks | step | communication | losses differ by |\n|---|---|---|---|---|")
    for (mode, ranks), one in sorted(seen.items()):
        cells = ["{1:.2f} ({0:.2f} to {2:.2f})".format(*middle(one[what])) for what in COLORS]
        print(f"| {mode.upper()} | {ranks} | {cells[0]} | {cells[1]} | {one['apart']:.0e} |")
    with open(options.output, "w", encoding="utf-8") as file:
        file.write(draw(seen, f"medians and quartiles of {len(next(iter(seen.values()))['step'])} ratios each, "
                              f"{os.cpu_count()} processors {options.note}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
