#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the panels of dashboard.json as one picture, from what a Prometheus has: for those who have no Grafana,
and for reports.

    panels.py [--prometheus http://127.0.0.1:9090] [--instance REGEX] [--minutes 10] [--rate 1m] [-o panels.svg]
"""
import argparse
import html
import json
import os
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

COLUMNS, CELL_X, CELL_Y, MARGIN = 24, 46, 30, 12  # Grafana's grid is 24 wide
COLORS = ("#2471a3", "#c0392b", "#1e8449", "#b9770e", "#7d3c98", "#566573", "#117864", "#a04000")
POINTS = 120
NAMES_A_ROW, NAME_Y, MOST_ROWS = 3, 14, 6
DASHES = ("", "6 3", "2 2", "9 3 2 3")  # tell apart curves that have a color in common
UNITS = {"s": "s", "Bps": "B/s", "bytes": "B", "ops": "/s", "none": "", "percentunit": "%"}


class Prometheus:
    def __init__(self, options):
        self.url, self.options = options.prometheus.rstrip("/"), options
        self.end = time.time()
        self.begin = self.end - 60 * options.minutes
        self.step = max((self.end - self.begin) / POINTS, 1)

    def ask(self, way, expression, **more):
        expression = (expression.replace("$__rate_interval", self.options.rate)
                      .replace("$instance", self.options.instance))
        text = urllib.parse.urlencode({"query": expression, **more})
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{way}?{text}", timeout=30) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            sys.exit(f"panels.py: {expression}: {error.read().decode(errors='replace')}")
        except (OSError, ValueError, KeyError) as error:
            sys.exit(f"panels.py: {self.url}: {error}")

    def value_now(self, expression):
        """None: there is none at the end of the picture, whatever there was before."""
        series = self.ask("query", expression, time=self.end)
        return float(series[0]["value"][1]) if series else None

    def over_time(self, expression):
        """[(labels, [(time, value), ...]), ...]"""
        series = self.ask("query_range", expression, start=self.begin, end=self.end, step=self.step)
        return [(one["metric"], [(float(at), float(value)) for at, value in one["values"]]) for one in series]


def legend(pattern, labels):
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), pattern)


def without_the_only_host(curves):
    hosts = {name.split(" ")[0] for name, _ in curves}
    return [(name.partition(" ")[2], points) for name, points in curves] if len(hosts) == 1 else curves


def spell(value, unit):
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if value and unit != "s":
        for prefix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
            if abs(value) >= size:
                return f"{value / size:.3g} {prefix}{UNITS[unit]}"
    if value and unit == "s" and abs(value) < 1:
        return f"{value * 1e3:.3g} ms" if abs(value) >= 1e-3 else f"{value * 1e6:.3g} us"
    return f"{value:.4g} {UNITS[unit]}".strip()


def text(x, y, words, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{html.escape(words)}</text>'


def stat(x, y, width, height, value, unit):
    words = "no data" if value is None else spell(value, unit)
    return [text(x + width / 2, y + height / 2 + 18, words, 'text-anchor="middle" font-size="26"')]


def stroke(number):
    """A curve's line: as many as there are colors times dashes differ."""
    dash = DASHES[number // len(COLORS) % len(DASHES)]
    return (f'fill="none" stroke="{COLORS[number % len(COLORS)]}" stroke-width="1.6" stroke-linecap="round"'
            + (f' stroke-dasharray="{dash}"' if dash else ""))


def pieces(points, step):
    """A curve's points, cut where it has none for longer than a step."""
    out = []
    for at, value in points:
        if not out or at - out[-1][-1][0] > 1.5 * step:
            out.append([])
        out[-1].append((at, value))
    return out


def names(left, top, right, curves):
    """Every curve's name beside a piece of its line; how many more there are, where there is no room."""
    room = NAMES_A_ROW * MOST_ROWS
    shown = len(curves) if len(curves) <= room else room - 1
    out = []
    for number in range(min(len(curves), room)):
        x = left + number % NAMES_A_ROW * (right - left) / NAMES_A_ROW
        y = top + NAME_Y * (number // NAMES_A_ROW)
        if number < shown:
            out += [f'<line x1="{x:.1f}" x2="{x + 18:.1f}" y1="{y - 4:.1f}" y2="{y - 4:.1f}" {stroke(number)}/>',
                    text(x + 23, y, curves[number][0])]
        else:
            out.append(text(x + 23, y, f"and {len(curves) - shown} more", 'fill="#888"'))
    return out


def plot(x, y, width, height, curves, unit, prometheus):
    """Lines over time, from zero, and their names."""
    rows = min(max(-(-len(curves) // NAMES_A_ROW), 1), MOST_ROWS)
    left, top, right, low = x + 62, y + 28, x + width - 10, y + height - 16 - NAME_Y * rows
    most = max((value for _, points in curves for _, value in points), default=0) or 1
    begin, span = prometheus.begin, prometheus.end - prometheus.begin
    out = []
    for part in range(5):
        at = low - (low - top) * part / 4
        out += [f'<line x1="{left}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>',
                text(left - 6, at + 4, spell(most * part / 4, unit), 'text-anchor="end"')]
    for number, (_, points) in enumerate(curves):
        for piece in pieces(points, prometheus.step):
            # A line of one point would not be seen.
            path = " ".join(f"{left + (right - left) * (at - begin) / span:.1f},{low - (low - top) * value / most:.1f}"
                            for at, value in (piece if len(piece) > 1 else piece * 2))
            out.append(f'<polyline points="{path}" {stroke(number)}/>')
    if not curves:
        out.append(text((left + right) / 2, (top + low) / 2, "no data", 'text-anchor="middle" fill="#888"'))
    return out + names(left, low + 18, right, curves)


def panel(what, prometheus):
    place, unit = what["gridPos"], what["fieldConfig"]["defaults"]["unit"]
    x, y = MARGIN + place["x"] * CELL_X, MARGIN + place["y"] * CELL_Y
    width, height = place["w"] * CELL_X - 8, place["h"] * CELL_Y - 8
    if what["type"] == "stat":
        inside = stat(x, y, width, height, prometheus.value_now(what["targets"][0]["expr"]), unit)
    else:
        curves = [(legend(target["legendFormat"], labels), points)
                  for target in what["targets"] for labels, points in prometheus.over_time(target["expr"])]
        inside = plot(x, y, width, height, without_the_only_host(curves), unit, prometheus)
    return [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="#fff" stroke="#aaa"/>',
            text(x + 8, y + 17, what["title"], 'font-weight="bold"'), *inside]


def draw(board, prometheus):
    rows = max(what["gridPos"]["y"] + what["gridPos"]["h"] for what in board["panels"])
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{COLUMNS * CELL_X + 2 * MARGIN}" '
           f'height="{rows * CELL_Y + 2 * MARGIN}" font-family="sans-serif" font-size="11">',
           '<rect width="100%" height="100%" fill="#f4f4f4"/>']
    for what in board["panels"]:
        out += panel(what, prometheus)
    return "\n".join([*out, "</svg>", ""])


def main():
    options = argparse.ArgumentParser(description="Draws the panels of dashboard.json from what a Prometheus has.")
    options.add_argument("--prometheus", default="http://127.0.0.1:9090")
    options.add_argument("--instance", default=".*", help="hosts, as a regular expression")
    options.add_argument("--minutes", type=float, default=10, help="up to now")
    options.add_argument("--rate", default="1m", help="the time over which rates are taken: four scrapes or more")
    options.add_argument("-o", "--output", default="panels.svg")
    options = options.parse_args()
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "dashboard.json"), encoding="utf-8") as file:
        board = json.load(file)
    picture = draw(board, Prometheus(options))
    try:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(picture)
    except OSError as error:
        sys.exit(f"panels.py: cannot write {options.output}: {error.strerror}")


if __name__ == "__main__":
    main()
