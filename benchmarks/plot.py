# SPDX-License-Identifier: Apache-2.0
"""Time over size, one small plot for each collective (across) and each transport and number of ranks (down), as SVG;
ratios over size, one plot for each transport and number of ranks; bars beside each other; values over seconds."""
import math

WIDTH, HEIGHT, LEFT, TOP, GAP_X, GAP_Y = 230, 150, 60, 70, 50, 60
COLORS = ("#c0392b", "#2471a3", "#1e8449", "#b9770e", "#7d3c98", "#566573", "#16a085")


def size_name(size):
    for unit in ("", "K", "M", "G"):
        if size < 1024:
            return f"{size}{unit}"
        size //= 1024
    return f"{size}T"


def time_name(us):
    return f"{us:g} us" if us < 1000 else f"{us / 1000:g} ms"


def panel(x, y, rows, names, title):
    """One plot with logarithmic axes. rows: {bytes: {library: us}}."""
    sizes = sorted(rows)
    times = [t for row in rows.values() for t in row.values() if t > 0]
    if not times:
        return []
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    high = max(high, low + 1)
    first, last = math.log2(sizes[0]), max(math.log2(sizes[-1]), math.log2(sizes[0]) + 1)

    def across(size):
        return x + (math.log2(size) - first) / (last - first) * WIDTH

    def down(us):
        return y + HEIGHT - (math.log10(us) - low) / (high - low) * HEIGHT

    out = [f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="#fff" stroke="#888"/>',
           f'<text x="{x}" y="{y - 8}" font-weight="bold">{title}</text>']
    for decade in range(low, high + 1):
        at = down(10.0 ** decade)
        out += [f'<line x1="{x}" x2="{x + WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>',
                f'<text x="{x - 6}" y="{at + 4:.1f}" text-anchor="end">{time_name(10.0 ** decade)}</text>']
    for size in sizes[::max(1, len(sizes) // 4)]:
        out.append(f'<text x="{across(size):.1f}" y="{y + HEIGHT + 16}" text-anchor="middle">{size_name(size)}</text>')
    for index, name in enumerate(names):
        points = [(across(s), down(rows[s][name])) for s in sizes if rows[s].get(name, 0) > 0]
        if not points:
            continue
        color, thick = COLORS[index % len(COLORS)], 2.4 if index == 0 else 1.3
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{thick}"/>')
        out += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="{thick}" fill="{color}"/>' for px, py in points]
    return out


def write_svg(path, names, medians, collectives):
    """medians: {(transport, ranks, collective, bytes): {library: us}}"""
    rows = sorted({key[:2] for key in medians})
    width = LEFT + len(collectives) * (WIDTH + GAP_X) + 20
    height = TOP + len(rows) * (HEIGHT + GAP_Y)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
           'font-size="11">', f'<rect width="{width}" height="{height}" fill="#fff"/>']
    for index, name in enumerate(names):
        x = LEFT + index * 110
        out += [f'<line x1="{x}" x2="{x + 24}" y1="22" y2="22" stroke="{COLORS[index % len(COLORS)]}" '
                'stroke-width="3"/>', f'<text x="{x + 30}" y="26">{name}</text>']
    for down, (transport, ranks) in enumerate(rows):
        for across, collective in enumerate(collectives):
            points = {k[3]: v for k, v in medians.items() if k[:3] == (transport, ranks, collective)}
            if points:
                out += panel(LEFT + across * (WIDTH + GAP_X), TOP + down * (HEIGHT + GAP_Y), points, names,
                             f"{collective}, {ranks} ranks, {transport}")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out + ["</svg>", ""]))


def ratio_panel(x, y, curves, names, title):
    """Ratios over size with logarithmic axes, 1 marked. curves: {name: {bytes: ratio}}."""
    sizes = sorted({size for points in curves.values() for size in points})
    most = max(2.0, *(max(r, 1 / r) for points in curves.values() for r in points.values()))
    first, last = math.log2(sizes[0]), max(math.log2(sizes[-1]), math.log2(sizes[0]) + 1)
    wide, high = 2 * WIDTH, 2 * HEIGHT

    def place(size, ratio):
        return (x + (math.log2(size) - first) / (last - first) * wide,
                y + high / 2 * (1 - math.log(ratio) / math.log(most)))

    out = [f'<rect x="{x}" y="{y}" width="{wide}" height="{high}" fill="#fff" stroke="#888"/>',
           f'<text x="{x}" y="{y - 8}" font-weight="bold">{title}</text>']
    for ratio in (r for r in (0.125, 0.25, 0.5, 1, 2, 4, 8) if 1 / most <= r <= most):
        at = place(sizes[0], ratio)[1]
        out += [f'<line x1="{x}" x2="{x + wide}" y1="{at:.1f}" y2="{at:.1f}" '
                f'stroke="{"#333" if ratio == 1 else "#ddd"}"/>',
                f'<text x="{x - 6}" y="{at + 4:.1f}" text-anchor="end">{ratio:g}</text>']
    for size in sizes[::max(1, len(sizes) // 6)]:
        out.append(f'<text x="{place(size, 1)[0]:.1f}" y="{y + high + 16}" '
                   f'text-anchor="middle">{size_name(size)}</text>')
    for index, name in enumerate(names):
        places = [place(size, ratio) for size, ratio in sorted(curves.get(name, {}).items())]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in places)
        out.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[index % len(COLORS)]}" stroke-width="1.6"/>')
        out += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2" fill="{COLORS[index % len(COLORS)]}"/>'
                for px, py in places]
    return out


def write_ratios(path, cells, collectives):
    """Best peer / tutti. cells: {(transport, ranks, collective): {bytes: ratio}}"""
    runs = sorted({key[:2] for key in cells})
    width, height = LEFT + 2 * (2 * WIDTH + GAP_X) + 20, TOP + (len(runs) + 1) // 2 * (2 * HEIGHT + GAP_Y)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
           'font-size="11">', f'<rect width="{width}" height="{height}" fill="#fff"/>']
    for index, name in enumerate(collectives):
        x = LEFT + index * 130
        out += [f'<line x1="{x}" x2="{x + 24}" y1="22" y2="22" stroke="{COLORS[index % len(COLORS)]}" '
                'stroke-width="3"/>', f'<text x="{x + 30}" y="26">{name}</text>']
    for index, (transport, ranks) in enumerate(runs):
        curves = {c: cells[transport, ranks, c] for c in collectives if (transport, ranks, c) in cells}
        out += ratio_panel(LEFT + index % 2 * (2 * WIDTH + GAP_X), TOP + index // 2 * (2 * HEIGHT + GAP_Y), curves,
                           collectives, f"best peer / tutti, {ranks} ranks, {transport}: above 1 tutti is faster")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out + ["</svg>", ""]))


def frame(x, y, width, height, top, title):
    """The box of a plot whose values begin at 0, with lines at quarters of the greatest value."""
    out = [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="#fff" stroke="#888"/>',
           f'<text x="{x}" y="{y - 12}" font-weight="bold">{title}</text>']
    for quarter in range(5):
        at = y + height - height * quarter / 4
        out += [f'<line x1="{x}" x2="{x + width}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>',
                f'<text x="{x - 6}" y="{at + 4:.1f}" text-anchor="end">{top * quarter / 4:.3g}</text>']
    return out


def legend(names, y):
    out = []
    for index, name in enumerate(names):
        x = LEFT + index * 140
        out += [f'<line x1="{x}" x2="{x + 24}" y1="{y}" y2="{y}" stroke="{COLORS[index % len(COLORS)]}" '
                'stroke-width="3"/>', f'<text x="{x + 30}" y="{y + 4}">{name}</text>']
    return out


def save_svg(path, width, height, parts):
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                              'font-family="sans-serif" font-size="11">',
                              f'<rect width="{width}" height="{height}" fill="#fff"/>', *parts, "</svg>", ""]))


def write_bars(path, title, groups):
    """Bars beside each other. groups: {name: [value at place 0, 1, ...]}, as many of each."""
    wide, high, places = 3 * WIDTH, 2 * HEIGHT, max(map(len, groups.values()))
    top = 1.05 * max(max(values) for values in groups.values())
    out = frame(LEFT, TOP, wide, high, top, title) + legend(groups, 22)
    each = wide / places
    thick = 0.8 * each / len(groups)
    for index, values in enumerate(groups.values()):
        for place, value in enumerate(values):
            tall = high * value / top
            out.append(f'<rect x="{LEFT + place * each + 0.1 * each + index * thick:.1f}" y="{TOP + high - tall:.1f}" '
                       f'width="{thick:.1f}" height="{tall:.1f}" fill="{COLORS[index % len(COLORS)]}"/>')
    out += [f'<text x="{LEFT + (place + 0.5) * each:.1f}" y="{TOP + high + 16}" text-anchor="middle">{place}</text>'
            for place in range(places)]
    save_svg(path, LEFT + wide + 20, TOP + high + GAP_Y // 2, out)


def write_curves(path, title, curves, unit="s"):
    """Values over time. curves: {name: [(time, value)]}"""
    wide, high = 3 * WIDTH, 2 * HEIGHT
    points = [point for curve in curves.values() for point in curve]
    first, last, top = min(p[0] for p in points), max(p[0] for p in points), 1.05 * max(p[1] for p in points)
    out = frame(LEFT, TOP, wide, high, top, title) + legend(curves, 22)
    step = next(one for one in (1, 2, 5, 10, 20, 50, 100, 200, 500, 10 ** 9) if (last - first) / one <= 12)
    for mark in range(math.ceil(first / step) * step, math.floor(last) + 1, step):
        at = LEFT + (mark - first) / (last - first) * wide
        out.append(f'<text x="{at:.1f}" y="{TOP + high + 16}" text-anchor="middle">{mark} {unit}</text>')
    for index, curve in enumerate(curves.values()):
        places = " ".join(f"{LEFT + (x - first) / (last - first) * wide:.1f},{TOP + high * (1 - value / top):.1f}"
                          for x, value in curve)
        out.append(f'<polyline points="{places}" fill="none" stroke="{COLORS[index % len(COLORS)]}" '
                   'stroke-width="1.6"/>')
    save_svg(path, LEFT + wide + 20, TOP + high + GAP_Y // 2, out)
