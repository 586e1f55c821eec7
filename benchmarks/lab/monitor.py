# SPDX-License-Identifier: Apache-2.0
"""What the times of segments cost, by which lanes are watched (TUTTI_TRACE_SEGMENTS), and what they show.

Cost: instructions that watch-bench takes to carry payloads between two links in one process, counted by callgrind with
and without; the same on any machine. The C library is told to copy by vector instructions: what copies bytes by one
instruction is counted as an instruction a byte. What they show: a rate that drops to a tenth for 200 us, by a clock of
its own, in windows of 1, 8 and 32 segments."""
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile

from fabric import Failed
from result import Row

TITLE = "what watching lanes costs, and what it shows"
SIZES = {"64 KiB": 65536, "512 KiB": 524288}
VECTORS = "glibc.cpu.x86_rep_movsb_threshold=0x7fffffff:glibc.cpu.x86_rep_stosb_threshold=0x7fffffff"
LINES = ((100, 64), (100, 512), (400, 64), (400, 512))  # Gbit/s, KiB of a segment
DROP = 200  # us, as in watch_bench.c


def program(bench):
    path = bench.build.path("benchmarks", "watch-bench")
    if not os.path.exists(path):
        raise Failed(f"{path} is not built")
    return path


def script_functions(bench):
    """Names of the functions that stand in for a network, which are not the library's."""
    folder = bench.build.path("benchmarks", "watch-bench.p")
    objects = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".o")]
    said = subprocess.run(["nm", *objects], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r" [tT] ([\w.]+)$", said, re.M))


def count(bench, size, watched):
    """(segments, instructions in all, of the library alone, of copies)"""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "out")
        env = {**os.environ, "TUTTI_TRACE_SEGMENTS": str(int(watched)), "TUTTI_TRACE_DIR": folder,
               "GLIBC_TUNABLES": VECTORS}
        done = subprocess.run(["valgrind", "-q", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=carry",
                               f"--callgrind-out-file={file}", program(bench), "carry", str(size), "direct"], env=env,
                              check=True, capture_output=True, text=True)
        rows = subprocess.run(["callgrind_annotate", "--threshold=100", "--show-percs=no", file], check=True,
                              capture_output=True, text=True).stdout
    found = [(int(number.replace(",", "")), name, where) for number, name, where in
             re.findall(r"^\s*([\d,]+)\s+\S+?:([\w.@]+).*\[(.*)\]$", rows, re.M)]
    foreign = script_functions(bench)
    ours = sum(number for number, name, where in found if where.endswith("watch-bench") and name not in foreign)
    copies = sum(number for number, name, _ in found if "memcpy" in name or "memmove" in name)
    return int(done.stdout), ours, copies


def cost(bench, size):
    """Instructions for each segment: (of watching, of the library without it, of one copy of the segment)"""
    segments, with_it, _ = count(bench, size, True)
    _, without, copies = count(bench, size, False)
    return (with_it - without) / segments, without / segments, copies / segments / 2  # the script copies twice


def drop(bench, gbits, kib):
    with tempfile.TemporaryDirectory() as folder:
        said = subprocess.run([program(bench), "drop", str(gbits), str(kib)], check=True, capture_output=True,
                              text=True, env={**os.environ, "TUTTI_TRACE_DIR": folder}).stdout
    return json.loads(said)


def inside(window):
    return window[1] > 0 and window[0] < DROP


def summary(windows):
    """(the least rate in the drop and elsewhere, of the median one; is one in the drop called slow; how many others)"""
    middle = statistics.median(window[2] for window in windows if not inside(window))
    least = [min(window[2] for window in windows if inside(window) == where) / middle for where in (True, False)]
    return (*least, any(window[3] for window in windows if inside(window)),
            sum(window[3] for window in windows if not inside(window)))


def steps(windows):
    """A curve of us and GB/s that stays level in each window."""
    return [(edge, rate) for begin, end, rate, *_ in windows for edge in (begin, end)]


def draw(bench, found):
    for gbits, kib in LINES[:2]:
        one = found[gbits, kib]
        curves = {f"{size} segment{'s'[:size != '1']}": [point for point in steps(windows) if point[0] > -1200]
                  for size, windows in one["windows"].items()}
        first, last = (curves["8 segments"][place][0] for place in (0, -1))
        curves["counter of 1 s"] = [(first, one["counted_gbs"]), (last, one["counted_gbs"])]
        title = f"GB/s of windows over us: {gbits} Gbit/s, segments of {kib} KiB, a tenth of it from 0 to {DROP} us"
        bench.curves(f"lab-drop-{gbits}-{kib}", title, curves, "us")


def measure(bench):
    if not shutil.which("valgrind"):
        raise Failed("there is no valgrind (package valgrind)")
    rows, costs = [], {}
    for name, size in SIZES.items():
        costs[name] = watching, library, copy = cost(bench, size)
        share = watching / (library + copy)
        bench.say(f"{name}: {watching:.1f} of {library:.0f} and {copy:.0f} instructions a segment")
        rows.append(Row(f"instructions a segment of {name}, of the library's at both ends and one copy of the segment",
                        "11.8 points of CPU (ICCL)", "< 1%", f"{100 * share:.2f}% ({watching:.0f} of {library:.0f} + "
                        f"{copy:.0f}; of the library's alone {100 * watching / library:.1f}%)", share < 0.01))
    found = {line: drop(bench, *line) for line in LINES}
    for (gbits, kib), one in found.items():
        seen = {size: summary(windows) for size, windows in one["windows"].items()}
        counted = abs(1 - one["counted_gbs"] * 8 / gbits)
        text = "; ".join(f"{size}: {100 * least:.0f}% (else {100 * other:.0f}%){', slow' if slow else ''}"
                         f"{f', {false} false' if false else ''}" for size, (least, other, slow, false) in seen.items())
        rows.append(Row(f"a tenth of {gbits} Gbit/s for {DROP} us, segments of {kib} KiB: least window of 1, 8, 32",
                        "", "shown by 8, not by 1 s", f"{text}; counter of 1 s: {100 * (1 - counted):.2f}%",
                        seen["8"][2] and counted < 0.01))
    draw(bench, found)
    bench.keep(instructions=costs, drop=[found[line] for line in LINES])
    return rows
