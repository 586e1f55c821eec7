# SPDX-License-Identifier: Apache-2.0
"""first: how long four processes take to make a communicator and to end their first collective,
and what it costs in device memory."""
import os
import re
import statistics
import tempfile

from . import ranks
from .run import Budget, say, table, tail

MIB = 1 << 20
TIMES = ("one.init", "one.first", "one.next", "one.large", "two.init", "two.first")
AFTER = ("init", "first", "large")
SPENT = re.compile(r"\[info\] (rank .*(?:made its executor|joined).*)")


def add_arguments(parser):
    parser.add_argument("--rounds", type=int, default=3, help="rounds, NCCL and tutti in turns")


def one(options, folder, limit):
    """([what each rank has left] or None, complaint, what tutti's log says of where the time of making goes)"""
    with tempfile.TemporaryDirectory() as meet:
        level = {"TUTTI_DEBUG": os.environ.get("TUTTI_DEBUG", "info")}
        jobs = ranks.wait(ranks.start(options, folder, "first", ["--limit", "60"], meet, level), limit)
        if any(job.status for job in jobs):
            return None, "\n".join(tail(job.text(), 700) for job in jobs), []
        if {"TUTTI_DEBUG", "NCCL_DEBUG"} & set(os.environ):
            for said in jobs[0].text().splitlines()[:30]:
                say(said)
        spent = [line for job in jobs for line in SPENT.findall(job.text())]
        return ranks.outputs(meet, options.gpus), "", spent


def greatest(outs, kind, *names):
    values = []
    for out in outs:
        value = out[kind]
        for name in names:
            value = value[name]
        values.append(value)
    return max(values)


def summary(rounds):
    """Of one library: {name: median over the rounds of the greatest over the ranks}. Seconds and bytes."""
    found = {}
    for name in TIMES:
        found[name] = statistics.median(greatest(outs, "seconds", name) for outs in rounds)
    found["one.init and first"] = statistics.median(
        max(out["seconds"]["one.init"] + out["seconds"]["one.first"] for out in outs) for outs in rounds)
    for which in ("one", "two"):
        for after in AFTER:
            found[f"{which}.bytes.{after}"] = statistics.median(
                greatest(outs, "bytes", which, after) for outs in rounds)
    found["left"] = statistics.median(greatest(outs, "bytes", "left") for outs in rounds)
    return found


LINES = (("making the first communicator", "one.init", 1e-3, "ms"), ("its first allreduce", "one.first", 1e-3, "ms"),
         ("both", "one.init and first", 1e-3, "ms"), ("the next allreduce", "one.next", 1e-6, "us"),
         ("first allreduce of 64 MiB", "one.large", 1e-3, "ms"),
         ("making a second communicator", "two.init", 1e-3, "ms"), ("its first allreduce", "two.first", 1e-3, "ms"),
         ("memory of the first communicator, made", "one.bytes.init", MIB, "MiB"),
         ("after its first allreduce", "one.bytes.first", MIB, "MiB"), ("after 64 MiB", "one.bytes.large", MIB, "MiB"),
         ("memory of a second one, made", "two.bytes.init", MIB, "MiB"),
         ("after its first allreduce", "two.bytes.first", MIB, "MiB"), ("after 64 MiB", "two.bytes.large", MIB, "MiB"),
         ("left when both are destroyed", "left", MIB, "MiB"))


def show(found):
    """The table of both libraries. A ratio is NCCL's / tutti's."""
    rows = []
    for text, name, unit, unit_name in LINES:
        values = [found.get(library, {}).get(name) for library in ("nccl", "tutti")]
        shown = ["-" if v is None else f"{v / unit:.2f}" for v in values]
        good = None not in values and values[1] > 0
        rows.append([f"{text} ({unit_name})", *shown, f"{values[0] / values[1]:.2f}" if good else "-"])
    return table(["greatest over the ranks, median of the rounds", "NCCL", "tutti", "ratio"], rows)


def main(options, results):
    budget, raw, failed = Budget(options.budget), {}, 0
    results.data.update(rounds=raw, summary={}, complaints=[], spent=[])
    for turn in range(options.rounds):
        for library, folder in options.libraries.items():
            limit = budget.limit(options.limit)
            if not limit:
                continue
            say(f"first, round {turn + 1} of {options.rounds}: {library}")
            outs, complaint, spent = one(options, folder, limit)
            results.data["spent"] = spent or results.data["spent"]
            if outs:
                raw.setdefault(library, []).append(outs)
                results.data["summary"][library] = summary(raw[library])
            else:
                failed += 1
                results.data["complaints"].append(f"{library}: {complaint}")
                say(f"{library} failed:\n{complaint}")
            results.save()
    print(show(results.data["summary"]), *results.data["spent"], sep="\n")
    results.save(complete=not failed and all(len(raw.get(x, [])) == options.rounds for x in options.libraries))
    return failed + ("tutti" not in raw)
