#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""many.py BUILD [--ranks 64,256] [--each 64] [--hosts 8]: real ranks of host memory on this machine join, split into
tensor, pipeline and data parallel groups, reduce once on each communicator, and leave.

Ranks are threads of processes with --each ranks; --hosts cuts the processes into hosts that share no memory. Prints by
step what a process and a rank hold, send and spend. With several numbers of ranks and of --each it fits each figure,
and says what a rank alone in a process, of a job of --of, would have.

--kill: the last rank, alone in a process, is killed. Prints when each other rank knew, and the time from there to the
end of the first reduction without the rank. --shrink: the last rank lives, and the others leave it out.
"""
import argparse
import json
import math
import os
import selectors
import subprocess
import sys
import tempfile
import time

STEPS = ["join", "split", "reduce", "leave"]
# What a process may hold, and a rank send, at most, for --check: none of these grows with the ranks.
BOUNDS = {"join": {"threads": 1, "most_descriptors": 20}, "split": {"threads": 1, "most_descriptors": 60},
          "reduce": {"threads": 1, "most_descriptors": 60}, "leave": {"threads": 0, "most_descriptors": 0}}
# Messages of a process at a loss, in units of the logarithm of its job's ranks: to its links, not from each rank.
LOSS = 3
COUNTERS = ["bootstrap_messages", "bootstrap_bytes", "messages", "lanes"]
# What a process's figures are made of: e ranks of a process, n of the job.
TERMS = {"": lambda e, n: 1.0, "e": lambda e, n: float(e), "n": lambda e, n: float(n), "e n": lambda e, n: 1.0 * e * n,
         "lg n": lambda e, n: math.log2(n), "e lg n": lambda e, n: e * math.log2(n)}
FITTED = [("kib", "memory, KiB", ["", "lg n", "e", "e n"]), ("threads", "threads", [""]),
          ("descriptors", "files", ["", "lg n", "e"]), ("bootstrap_messages", "messages to meet", ["e", "e lg n"]),
          ("bootstrap_bytes", "bytes to meet", ["e n", "e lg n"]),
          ("messages", "messages on lanes", ["e lg n", "e", ""]), ("lanes", "lanes", ["lg n", "", "e"])]


def stand_in(build, host, here):
    """The environment of a process whose ranks have GPUs of the stand-in driver."""
    folder = os.path.join(os.path.abspath(build), "emulation/cuda")
    paths = [folder] + [path for path in [os.environ.get("LD_LIBRARY_PATH")] if path]
    return {"TUTTI_TEST_GPU": "1", "LD_LIBRARY_PATH": ":".join(paths), "TUTTI_EMULATED_GPUS": str(here),
            "TUTTI_EMULATED_HOST": host, "TUTTI_EMULATED_POISON": "0", "TUTTI_EMULATED_PROCESSORS": "8",
            "TUTTI_BLOCKS": "1"}


class Job:
    """Processes of many-rank, which take each step together."""

    def __init__(self, options, ranks, each):
        self.options, self.ranks = options, ranks
        blocks = [(first, min(each, ranks - first)) for first in range(0, ranks, each)]
        if options.kill or options.shrink:  # the last rank has a process of its own
            first, here = blocks.pop()
            blocks += [(first, here - 1)] * (here > 1) + [(ranks - 1, 1)]
        hosts = len(blocks) if options.gpus else min(options.hosts, len(blocks))
        self.each = [here for _, here in blocks]
        self.processes = []
        self.words = tempfile.TemporaryFile("w+")  # thousands of ranks that fail have too much to say
        for number, (first, here) in enumerate(blocks):
            # A process that gets a thousandth of a processor may be silent for a minute.
            host = f"many{number * hosts // len(blocks)}"
            env = {"TUTTI_TIMEOUT": "600s", **os.environ, "TUTTI_HOSTID": host}
            if options.gpus:
                env.update(stand_in(options.build, host, here))
            command = [os.path.join(options.build, "benchmarks/many-rank"), first, here, ranks, options.tensor,
                       options.pipeline, options.communicators]
            self.processes.append(subprocess.Popen(list(map(str, command)), env=env, stdin=subprocess.PIPE,
                                                   stdout=subprocess.PIPE, stderr=self.words, text=True))
        self.empty = self.before = []
        self.read = 0  # of the words

    def say(self, text, to=None):
        for process in self.processes if to is None else [to]:
            process.stdin.write(text + "\n")
            process.stdin.flush()

    def hear(self, step="start"):
        """A line of each process. Every --patience seconds: who is awaited, and what ranks have said meanwhile."""
        told, begun, awaited = {}, time.monotonic(), selectors.DefaultSelector()
        for number, process in enumerate(self.processes):
            awaited.register(process.stdout, selectors.EVENT_READ, number)
        while len(told) < len(self.processes):
            ready = awaited.select(self.options.patience)
            if not ready:
                self.tell_waiting(step, time.monotonic() - begun, [number for number in range(len(self.processes))
                                                                   if number not in told])
            for key, _ in ready:
                line = key.fileobj.readline()
                if not line:
                    self.fail(f"a process of the job ended with {self.processes[key.data].wait()} and said nothing")
                told[key.data] = json.loads(line)
                awaited.unregister(key.fileobj)
                if told[key.data]["said"]:
                    self.fail(told[key.data]["said"])
        awaited.close()
        return [told[number] for number in range(len(self.processes))]

    def tell_waiting(self, step, seconds, awaited):
        self.words.seek(self.read)
        said = self.words.read()
        self.read = self.words.tell()
        lines = said.splitlines()
        who = ", ".join(map(str, awaited[:8])) + (", ..." if len(awaited) > 8 else "")
        print(f"{step}: after {seconds:.0f} s {len(awaited)} of {len(self.processes)} processes have not ended the "
              f"step: {who}; {len(lines)} lines of logs" + "".join(f"\n  {line[:300]}" for line in lines[-3:]),
              flush=True)

    def fail(self, why):
        self.words.seek(0)
        sys.exit("\n".join([why] + self.words.read().splitlines()[:10]))

    def id(self):
        self.say("id", self.processes[0])
        return self.processes[0].stdout.readline().strip()

    def take(self, step, words):
        begun = time.monotonic()
        self.say(words)
        told = self.hear(step)
        mean = {key: sum(each[key] for each in told) / len(told) for key in told[0] if key != "said"}
        was = {key: sum(each[key] for each in self.before) / len(told) for key in mean}
        empty = sum(each["kib"] for each in self.empty) / len(told)
        row = {"step": step, "ranks": self.ranks, "processes": len(told), "each": self.ranks / len(told),
               "seconds": time.monotonic() - begun, "cpu_ms": (mean["cpu_us"] - was["cpu_us"]) / 1e3 / self.ranks
               * len(told), "kib": mean["kib"] - empty, "most_kib": max(each["kib"] for each in told) - empty,
               "threads": mean["threads"] - 1,
               "descriptors": mean["descriptors"] - self.empty[0]["descriptors"],
               "most_descriptors": max(each["descriptors"] for each in told) - self.empty[0]["descriptors"]}
        for key in COUNTERS:
            row[key] = mean[key] - was[key] if step != "leave" else 0
        self.before = told
        self.last = max(each["at"] for each in told)
        return row

    def end(self):
        for process in self.processes:
            process.stdin.close()
        codes = [process.wait(timeout=300) for process in self.processes]
        if any(codes):
            self.fail(f"processes ended with {sorted(set(codes))}")

    def __enter__(self):
        self.empty = self.before = self.hear()
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


def life(options, ranks, each):
    with Job(options, ranks, each) as job:
        rows = []
        for step in STEPS:
            rows.append(job.take(step, f"join {job.id()}" if step == "join" else step))
            print_row(rows[-1])
        job.end()
    return rows


def loss(options, ranks, each):
    """One rank is killed, or left out: seconds until the rest know, and until the rest have reduced without it. Both
    with the processor time of a rank, ms, and messages of a process."""
    row = {"step": "kill" if options.kill else "shrink", "ranks": ranks, "each": each}
    with Job(options, ranks, each) as job:
        for step in STEPS[:3]:
            job.take(step, f"join {job.id()}" if step == "join" else step)
        last = job.processes.pop()
        job.before.pop()
        begun = time.monotonic()
        if options.kill:
            last.kill()
            last.wait()
            learn = job.take("learn", "learn")
            row.update(known_cpu_ms=learn["cpu_ms"], known_messages=learn["messages"],
                       known_seconds=job.last - begun)
            begun = time.monotonic()
        shrink = job.take("shrink", f"shrink {ranks - 1}")
        row.update(shrunk_cpu_ms=shrink["cpu_ms"], shrunk_messages=shrink["messages"],
                   shrunk_seconds=job.last - begun)
        if not options.kill:
            job.processes.append(last)
        job.take("leave", "leave")
        job.end()
    return row


def solve(matrix, right):
    """Gauss, with the largest pivot first; None where the rows say too little."""
    rows = [list(row) + [value] for row, value in zip(matrix, right)]
    size = len(rows)
    for at in range(size):
        best = max(range(at, size), key=lambda row: abs(rows[row][at]))
        rows[at], rows[best] = rows[best], rows[at]
        if abs(rows[at][at]) < 1e-9:
            return None
        for other in range(size):
            if other != at:
                times = rows[other][at] / rows[at][at]
                rows[other] = [a - times * b for a, b in zip(rows[other], rows[at])]
    return [rows[at][size] / rows[at][at] for at in range(size)]


def fit(points, terms):
    """Least squares of relative errors: points are (arguments, value), terms functions of the arguments. Columns are
    scaled: a constant beside millions of bytes counts, too."""
    given = [[term(*arguments) / value for term in terms] for arguments, value in points if value > 0]
    scale = [max(abs(row[i]) for row in given) or 1.0 for i in range(len(terms))]
    weighed = [[value / by for value, by in zip(row, scale)] for row in given]
    square = [[sum(row[i] * row[j] for row in weighed) for j in range(len(terms))] for i in range(len(terms))]
    got = solve(square, [sum(row[i] for row in weighed) for i in range(len(terms))])
    return got and [value / by for value, by in zip(got, scale)]


def fits(options, rows):
    """What a process holds and does in each step, and what one would whose only rank is of a job of --of ranks."""
    found = []
    for step in STEPS[:3] if len({(row["each"], row["ranks"]) for row in rows}) > 1 else []:
        mine = [row for row in rows if row["step"] == step and row["processes"] > 1]  # one alone has no lanes
        for key, name, terms in FITTED:
            points = [((row["each"], row["ranks"]), row[key]) for row in mine if row[key] > 0]
            names, got = list(terms), None
            while names and not got:
                got = fit(points, [TERMS[term] for term in names]) if len(points) >= len(names) else None
                names = names if got else names[:-1]
            if not got:
                continue
            def value(each, ranks, got=got, names=names):
                return sum(by * TERMS[term](each, ranks) for by, term in zip(got, names))
            found.append({"step": step, "what": name, "terms": dict(zip(names, got)),
                          "worst": max(abs(value(*given) / seen - 1) for given, seen in points),
                          "most": max(ranks for (_, ranks), _ in points), "of": value(1, options.of),
                          "largest": points[-1][0], "seen": points[-1][1]})
    return found


def check(rows):
    """Sentences on what is too much. The bootstrap's messages grow with the logarithm of the ranks, its bytes with
    them."""
    bad = []
    for row in rows:
        if row["step"] not in BOUNDS:
            most = LOSS * (row["ranks"] - 1).bit_length()
            bad += [f"loss of one of {row['ranks']} ranks: messages of a process: {row['known_messages']:.0f}, at most "
                    f"{most}"] * (row.get("known_messages", 0) > most)
            continue
        steps, bounds = (row["ranks"] - 1).bit_length(), dict(BOUNDS[row["step"]])
        if row["step"] == "join":
            bounds.update(bootstrap_messages=(4 + 5 * steps) * row["each"],
                          bootstrap_bytes=(4096 + 480 * row["ranks"]) * row["each"])
        bad += [f"{row['step']} of {row['ranks']} ranks: {name} of a process: {row[name]:.0f}, at most {most:.0f}"
                for name, most in bounds.items() if row[name] > most]
    return bad


def print_head():
    print(f"{'':28} {'a rank':>7} {'a process: KiB':>17} {'threads':>7} {'files':>11} "
          f"{'bootstrap: KiB':>17} {'later':>8}")
    print(f"{'step':7} {'ranks':>6} {'each':>5} {'s':>8} {'cpu ms':>7} {'mean':>8} {'most':>8} {'':>7} "
          f"{'mean':>5} {'most':>5} {'messages':>8} {'':>8} {'messages':>8} {'lanes':>5}", flush=True)


def print_row(row):
    print(f"{row['step']:7} {row['ranks']:6} {row['each']:5.0f} {row['seconds']:8.2f} {row['cpu_ms']:7.2f} "
          f"{row['kib']:8.0f} {row['most_kib']:8.0f} {row['threads']:7.0f} "
          f"{row['descriptors']:5.0f} {row['most_descriptors']:5.0f} {row['bootstrap_messages']:8.0f} "
          f"{row['bootstrap_bytes'] / 1024:8.0f} {row['messages']:8.0f} {row['lanes']:5.0f}", flush=True)


def print_fits(options, found):
    if found:
        print(f"\nWhat a process of e ranks has in a job of n, fitted to jobs of up to {found[0]['most']} ranks; how "
              f"far off the worst is; and what a rank alone in its process would have in a job of {options.of}.")
    for row in found:
        parts = " + ".join(f"{by:.{3 if abs(by) < 1000 else 4}g}{' ' + term if term else ''}"
                           for term, by in row["terms"].items()
                           if abs(by * TERMS[term](*row["largest"])) > row["seen"] / 200)
        print(f"{row['step']:7} {row['what']:22} {parts:52} {100 * row['worst']:5.0f} % off  {row['of']:12.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--ranks", default="64", help="numbers of ranks: 64,256 (64)")
    parser.add_argument("--each", default="64", help="ranks of a process: 16,64 (64)")
    parser.add_argument("--hosts", type=int, default=8, help="hosts that the processes are cut into, at most (8)")
    parser.add_argument("--tensor", type=int, default=8, help="ranks of a tensor parallel group (8)")
    parser.add_argument("--pipeline", type=int, default=4, help="stages of the pipeline (4)")
    parser.add_argument("--communicators", type=int, default=4, help="of a rank, the first and its groups, 1 to 10 (4)")
    parser.add_argument("--gpus", action="store_true", help="ranks have GPUs of the stand-in driver; processes are "
                        "hosts, of up to 16 ranks")
    parser.add_argument("--kill", action="store_true", help="one rank is killed")
    parser.add_argument("--shrink", action="store_true", help="one rank is left out")
    parser.add_argument("--check", action="store_true", help="an error where more grows than should")
    parser.add_argument("--of", type=int, default=131072, help="ranks of the job that the fit speaks of (131072)")
    parser.add_argument("--patience", type=float, default=15, help="seconds between words on a step that lasts (15)")
    parser.add_argument("--json", help="file for all figures")
    options = parser.parse_args()
    whats = [(int(ranks), int(each)) for ranks in options.ranks.split(",") for each in options.each.split(",")]
    if options.kill or options.shrink:
        rows = [loss(options, *what) for what in whats]
        found = []
        for row in rows:
            knew = (f"all knew after {row['known_seconds']:.2f} s ({row['known_cpu_ms']:.2f} ms of processor a rank, "
                    f"{row['known_messages']:.0f} messages a process); " if options.kill else "")
            print(f"{row['ranks']} ranks: {knew}from shrink to the first sum: {row['shrunk_seconds']:.2f} s "
                  f"({row['shrunk_cpu_ms']:.2f} ms of processor a rank, {row['shrunk_messages']:.0f} messages a "
                  "process)", flush=True)
    else:
        rows = []
        print_head()
        for what in whats:
            rows += life(options, *what)
        found = fits(options, rows)
        print_fits(options, found)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"rows": rows, "fits": found}, file, indent=1)
    if options.check:
        sys.exit("\n".join(check(rows)) or None)


if __name__ == "__main__":
    main()
