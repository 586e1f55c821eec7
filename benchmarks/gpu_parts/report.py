# SPDX-License-Identifier: Apache-2.0
"""report: the table of aims, filled from what the parts, and those of tests/gpu, have left, and all points:
performance-gpu.md and .svg in the folder of results."""
import os
import sys

from . import beside, comm_setup, groups, late_rank, layers, limits, perf, pipeline, speed
from .run import load_all, size_name, table

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "gpu"))
from gpu_tests import apps, check, kill, nopeer  # noqa: E402

K, M, G = 1 << 10, 1 << 20, 1 << 30
# case, bytes, what: microseconds (at most) or bus GB/s (at least), aim
POINTS = (
    *(("allreduce in a graph", size, "us", aim) for size, aim in ((K, 3.7), (64 * K, 5.5), (256 * K, 7.5))),
    *(("allreduce in a graph", size, "GB/s", aim) for size, aim in ((M, 140), (4 * M, 255), (16 * M, 320))),
    *(("allreduce", size, "GB/s", aim) for size, aim in ((256 * M, 360), (G, 370), (4 * G, 375))),
    *(("send/recv", size, "GB/s", aim) for size, aim in ((M, 80), (16 * M, 340), (256 * M, 387), (4 * G, 391))),
)
ALL = 1 << 60
IN_GRAPH, OTHERS = speed.IN_GRAPH, ("allgather", "reduce-scatter", "broadcast", "alltoall")
# case, least and most bytes, times as fast as NCCL at each size
FASTER = (
    *(("allreduce", *aim) for aim in ((0, 256 * K, 1.5), (M, M, 1.4), (4 * M, 16 * M, 1.3), (64 * M, ALL, 1.02))),
    ("reduce-scatter", M, M, 1.3), ("reduce-scatter", 256 * M, ALL, 1.03), ("reduce", M, ALL, 1),
    ("broadcast", M, ALL, 1.03),
    *((name + IN_GRAPH, 16 * M, ALL, 1.05) for name in ("send/recv", "allgather", "alltoall")),
    *((name, *aim) for name in OTHERS for aim in ((0, 16 * M, 1.5), (32 * M, ALL, 1.05))),
    *((name, 0, 256 * K, 2) for name in ("allreduce", "send/recv", *OTHERS)),
    *((name + kind, 0, ALL, 1) for kind in ("", IN_GRAPH) for name in speed.NAMES.values()),
)
PIPELINE, PIPELINE_LEAST = 1.06, 16 * M  # NCCL's step / tutti's, and messages from where on
PARTS = ("check", "speed", "layers", "pipeline", "apps", "first", "beside", "late", "groups", "nopeer", "kill",
         "sanitize", "limits")


def add_arguments(parser):
    parser.add_argument("--output", help="file of the report (RESULTS/performance-gpu.md)")
    parser.add_argument("--picture", default="performance-gpu.svg",
                        help="its picture, seen from the report (performance-gpu.svg)")


def verdict(met):
    return "-" if met is None else "met" if met else "MISSED"


def line(aim, wanted, nccl, ours, ratio, met):
    return [aim, wanted, nccl, ours, ratio, verdict(met)]


def absent(aim, wanted):
    return line(aim, wanted, "-", "not measured", "-", None)


def point_lines(points):
    for case, size, unit, aim in POINTS:
        name, wanted = f"{case}, {size_name(size)}", f"{aim:g} {unit}"
        pair = points.get(case, {}).get(size, {})
        if "tutti" not in pair:
            yield absent(name, wanted)
            continue
        at = 0 if unit == "us" else 1
        ours, theirs = pair["tutti"][at], pair.get("nccl", (None, None))[at]
        ratio = "-" if theirs is None else f"{pair['nccl'][0] / pair['tutti'][0]:.2f}"
        met = ours <= aim if unit == "us" else ours >= aim
        yield line(name, wanted, "-" if theirs is None else f"{theirs:g} {unit}", f"{ours:g} {unit}", ratio, met)


def ratios(points, case, low, high):
    """[(ratio, bytes)] of the sizes from low to high."""
    return [(pair["nccl"][0] / pair["tutti"][0], size) for size, pair in sorted(points.get(case, {}).items())
            if low <= size <= high and {"nccl", "tutti"} <= set(pair)]


def size_range(low, high):
    if low == high:
        return size_name(low)
    if high == ALL:
        return f"{size_name(low)} and above" if low else "all sizes"
    return f"{size_name(low)} to {size_name(high)}" if low else f"up to {size_name(high)}"


def speed_line(points, case, low, high, aim):
    """The aim holds for each size: the worst is shown beside the mean."""
    found, name = ratios(points, case, low, high), f"{case}, {size_range(low, high)}"
    if not found:
        return absent(name, f">= {aim:g}x")
    worst, size = min(found)
    mean = speed.mean([ratio for ratio, _ in found])
    return line(name, f">= {aim:g}x", "1", f"mean {mean:.2f}, worst {worst:.2f} at {size_name(size)}",
                f"{mean:.2f}", worst >= aim)


def pipeline_line(data):
    found, name = (data or {}).get("found", {}), f"step of a pipeline, messages {size_range(PIPELINE_LEAST, ALL)}"
    steps = [ms["nccl"] / ms["tutti"] for _, nbytes, ms, _ in pipeline.steps(found)
             if nbytes >= PIPELINE_LEAST and {"nccl", "tutti"} <= set(ms)]
    if not steps:
        return absent(name, f">= {PIPELINE:g}x")
    mean = speed.mean(steps)
    return line(name, f">= {PIPELINE:g}x", "1", f"mean {mean:.2f}, worst {min(steps):.2f}", f"{mean:.2f}",
                mean >= PIPELINE)


def first_lines(data):
    both = (data or {}).get("summary", {})
    ours, theirs = both.get("tutti"), both.get("nccl")
    rows = (("init and first collective, 4 processes", "one.init and first", 0.5, 1e-3, "ms"),
            ("memory of a process's first communicator, after 64 MiB", "one.bytes.large", 0.1, M, "MiB"),
            ("memory of a communicator, made", "two.bytes.init", 0.1, M, "MiB"),
            ("memory of a communicator, after its first allreduce", "two.bytes.first", 0.1, M, "MiB"),
            ("memory of a communicator, after 64 MiB", "two.bytes.large", 0.1, M, "MiB"))
    for name, key, share, unit, unit_name in rows:
        wanted = f"{share:g} of NCCL's"
        if not ours or not theirs or key not in ours or key not in theirs:
            yield absent(name, wanted)
            continue
        a, b = theirs[key], ours[key]
        shown = [f"{value / unit:.1f} {unit_name}" for value in (a, b)]
        yield line(name, wanted, *shown, f"{a / b:.2f}" if b > 0 else "-", b <= share * a)


def beside_lines(data):
    found = (data or {}).get("summary", {})
    theirs = found.get("nccl")
    for name, text in beside.CALLS.items():
        ours = {variant: calls[name] for variant, calls in found.items() if variant != "nccl"}
        if not ours:
            yield absent(f"matrix product beside {text}", "< 1%, less than NCCL")
        for variant, value in ours.items():
            limit = theirs[name]["percent"] if theirs else None
            percent = value["percent"]
            met = percent < 1 and (limit is None or percent < limit) if value["outlasted"] else None
            shown = ["-" if limit is None else f"{limit:.2f}%", f"{percent:.2f}%",
                     "-" if not limit or percent <= 0 else f"{limit / percent:.2f}"]
            yield line(f"matrix product beside {text} ({variant})", "< 1%, less than NCCL", *shown, met)


def rate_lines(data):
    """Percent by which a product is slower for each GB/s that is moved beside it."""
    found, wanted = (data or {}).get("summary", {}), "a third of NCCL's"
    each = {variant: {name: one["percent"] / one["busbw_beside"] for name, one in calls.items()}
            for variant, calls in found.items()}
    for name, text in beside.CALLS.items():
        aim = f"% slower for each GB/s beside a product, {text}"
        if not {"nccl", "tutti"} <= set(each):
            yield absent(aim, wanted)
            continue
        theirs, ours = each["nccl"][name], each["tutti"][name]
        met = 3 * ours <= theirs if found["tutti"][name]["outlasted"] else None
        yield line(aim, wanted, f"{theirs:.3f}", f"{ours:.3f}", f"{theirs / ours:.2f}" if ours > 0 else "-", met)


def nopeer_lines(data):
    found = perf.medians((data or {}).get("points", {}))
    for mode, aim in (("host memory", 1.2), ("sockets", 3.0)):
        pair = found.get(mode, {}).get(256 * M, {})
        name, wanted = f"2 GPUs by {mode}, allreduce 256 MiB", f">= {aim:g}x"
        if not {"nccl", "tutti"} <= set(pair):
            yield absent(name, wanted)
            continue
        ratio = pair["nccl"][0] / pair["tutti"][0]
        yield line(name, wanted, f"{pair['nccl'][1]:.1f} GB/s", f"{pair['tutti'][1]:.1f} GB/s",
                   f"{ratio:.2f}", ratio >= aim)


def share(name, records, good):
    bad = [r for r in records if not good(r)]
    shown = f"{len(records) - len(bad)} of {len(records)}"
    return line(name, "all", "-", shown, "-", not bad) if records else absent(name, "all")


def state_lines(data):
    yield share("nccl-tests with checks", (data["check"] or {}).get("runs", []), lambda r: r["good"])
    yield share("checks without peer access", (data["nopeer"] or {}).get("checks", []), lambda r: r["good"])
    ours = [r for r in (data["apps"] or {}).get("runs", []) if r["library"] == "tutti"]
    yield share("PyTorch, CuPy, JAX over tutti", ours, lambda r: not r["said"])
    survivors = (data["kill"] or {}).get("tutti", {}).get("survivors", [])
    yield share("survivors of a killed rank have an error in time and go on", survivors, lambda r: r["good"])
    yield share("compute-sanitizer: 0 errors", (data["sanitize"] or {}).get("cases", []), lambda r: r["good"])


HEADS = ["aim", "wanted", "NCCL", "tutti", "NCCL's time / tutti's", ""]


def aims(data):
    points = perf.medians((data["speed"] or {}).get("points", {}))
    return [*point_lines(points), *(speed_line(points, *aim) for aim in FASTER), pipeline_line(data["pipeline"]),
            *beside_lines(data["beside"]), *rate_lines(data["beside"]), *first_lines(data["first"]),
            *nopeer_lines(data["nopeer"]), *state_lines(data)]


CLASSES = (("up to 256 KiB", 0, 256 * K), ("1 MiB to 16 MiB", M, 16 * M), ("64 MiB and above", 64 * M, 1 << 60))


def means(points):
    """Geometric means of NCCL's time / tutti's, a line for each class of sizes."""
    names = [name for name in points if any(ratios(points, name, low, high) for _, low, high in CLASSES)]
    rows = []
    for text, low, high in CLASSES:
        found = [[ratio for ratio, _ in ratios(points, name, low, high)] for name in names]
        rows.append([text, *(f"{speed.mean(values):.2f}" if values else "" for values in found)])
    return table(["sizes", *names], rows) if names else ""


def details(data):
    lines = []
    if data["first"]:
        lines += ["## Communicators: time and device memory", "", comm_setup.show(data["first"].get("summary", {}))]
    if data["beside"]:
        lines += ["## Beside a matrix product", "", beside.show(data["beside"].get("summary", {})),
                  beside.show_rates(data["beside"].get("rates", {}))]
    if data["late"]:
        lines += ["## A host that comes late", "", late_rank.show(data["late"].get("summary", {}))]
    if data["groups"]:
        lines += ["## Groups of many calls", "", groups.show(data["groups"].get("summary", {}))]
    if data["layers"]:
        lines += ["## A decoder's all-reduces", "", layers.show(data["layers"].get("found", {}))]
    if data["pipeline"]:
        lines += ["## A pipeline", "", pipeline.show(data["pipeline"].get("found", {}), data["pipeline"]["slots"])]
    if data["nopeer"]:
        lines += ["## Without peer access", "", nopeer.show(data["nopeer"].get("points", {}))]
    if (data["kill"] or {}).get("tutti"):
        lines += ["## A killed rank", "", kill.show(data["kill"]["tutti"]["survivors"])]
    if data["apps"]:
        lines += ["## PyTorch, CuPy, JAX", "", apps.show(data["apps"].get("runs", []))]
    if data["check"]:
        lines += ["## Checks", "", check.ways_table(data["check"].get("runs", []))]
    if data["limits"]:
        lines += ["## What the machine can do", "", limits.show(data["limits"].get("found"))]
    short = [part for part in PARTS if data[part] and not data[part].get("complete")]
    return lines + ([f"Not run to their end, or with failures: {', '.join(short)}.", ""] if short else [])


def points_of(every):
    """Speed by processes, and by other forms where measured: text."""
    lines = []
    for part, data in every.items():
        if part.startswith("speed") and data.get("points"):
            lines += ["# All points, " + speed.form_of(data), "", speed.head_of(data), "",
                      speed.text_of(data["points"])]
    return lines


def few(data):
    gpus = (data["speed"] or {}).get("gpus", 4)
    return "" if gpus == 4 else f" The aims are for four GPUs; these are {gpus}."


def main(options, _):
    every = load_all(options.results)
    data = {part: every.get(part) for part in PARTS}
    if not any(data.values()):
        print(f"there is nothing in {options.results}: run the parts first", file=sys.stderr)
        return 1
    rows, points = aims(data), perf.medians((data["speed"] or {}).get("points", {}))
    missed, met = (sum(row[-1] == word for row in rows) for word in ("MISSED", "met"))
    text = ["# tutti and NCCL on GPUs", "",
            "Made by `benchmarks/gpu.py report`. A ratio is NCCL's time / tutti's: above 1 tutti is faster. "
            f"{met} aims met, {missed} missed, {len(rows) - met - missed} not measured.{few(data)}", ""]
    text += details(data) + ["## Means of the ratios", "", means(points), "## Aims", "", table(HEADS, rows)]
    print("\n".join(text))
    path = options.output or os.path.join(options.results, "performance-gpu.md")
    picture = os.path.join(os.path.dirname(path), options.picture)
    if points and speed.picture(data["speed"]["points"], data["speed"].get("gpus", 4), picture):
        text += [f"![NCCL's time / tutti's over size]({options.picture})", ""]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(text + points_of(every)))
    return 0
