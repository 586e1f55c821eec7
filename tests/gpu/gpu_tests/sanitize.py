# SPDX-License-Identifier: Apache-2.0
"""sanitize: all kernels under compute-sanitizer, memcheck and racecheck, a process a GPU;
and nccl-tests' programs in one process."""
import glob
import os
import re
import shutil
import tempfile
import time

from gpu_parts import perf, ranks, run
from gpu_parts.run import Budget, say, tail

PLACES = ("/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer", "/usr/local/cuda*/compute-sanitizer",
          "/opt/nvidia/*/compute-sanitizer")
SUMMARY = re.compile(r"(ERROR|RACECHECK) SUMMARY: (\d+) (errors?|hazards? displayed \((\d+) errors?, (\d+) "
                     r"warnings?\))")
# The library's clocks must not call a peer dead that only crawls.
PATIENCE = {"TUTTI_TIMEOUT": "600s", "TUTTI_INIT_TIMEOUT": "600s"}
CASES = {
    "memcheck, processes": ("memcheck", "all"),
    "racecheck, processes": ("racecheck", "racecheck"),
    "memcheck, one process": ("memcheck", ("all_reduce", "-b 8 -e 1M -f 32 -d float -n 1 -w 0 -c 0".split())),
    "memcheck, alltoall in one process": ("memcheck", ("alltoall", "-b 64 -e 4M -f 64 -n 1 -w 0 -c 0".split())),
    "racecheck, one process": ("racecheck", ("all_reduce", "-b 64 -e 1M -f 128 -n 1 -w 0 -c 0".split())),
}


def add_arguments(parser):
    parser.add_argument("--cases", nargs="*", metavar="WORD",
                        help="only cases whose name begins with one of these: " + "; ".join(CASES))
    parser.add_argument("--sanitizer", default=None, help="path of compute-sanitizer")


def find(options):
    found = options.sanitizer or shutil.which("compute-sanitizer")
    for place in () if found else PLACES:
        found = found or next((path for path in sorted(glob.glob(place + "/compute-sanitizer"))
                               if os.access(path, os.X_OK)), None)
    return found


def summary(text):
    """[(errors, warnings)] of each process that the tool has ended with a summary."""
    found = []
    for match in SUMMARY.finditer(text):
        errors, warnings = ((match.group(2), 0) if match.group(1) == "ERROR"
                            else (match.group(4) or match.group(2), match.group(5) or 0))
        found.append((int(errors), int(warnings)))
    return found


def judge(texts, statuses):
    """What is wrong, as sentences. texts: one for each process that was watched."""
    said = []
    for number, (text, status) in enumerate(zip(texts, statuses)):
        found = summary(text)
        if not found:
            said.append(f"process {number}: the tool gave no summary (exit status {status})")
        elif any(errors for errors, _ in found):
            said.append(f"process {number}: {sum(errors for errors, _ in found)} errors")
        elif status:
            said.append(f"process {number}: exit status {status}" + (" (past its limit)" if status == 124 else ""))
    return said


def watched(tool):
    """The command in front of a program. The library asks the driver questions whose answer is an error code:
    those are not reported."""
    return (tool[0], "--tool", tool[1], "--report-api-errors", "no", "--error-exitcode", "86")


def processes(options, tool, preset, limit, count):
    with tempfile.TemporaryDirectory() as folder:
        before = watched(tool)
        arguments = ["--preset", preset, "--limit", str(max(limit - 10, 5))]
        jobs = ranks.start(options, options.tutti, "exercise", arguments, folder, PATIENCE, before, count)
        ranks.wait(jobs, limit, grace=30)
        points = sum(out.get("points", 0) for out in ranks.outputs(folder, count))
        return [job.text() for job in jobs], [job.status for job in jobs], points


def one_process(options, tool, program, arguments, limit):
    path = os.path.join(options.tests, program + "_perf")
    command = [*watched(tool), path, "-g", "2", *arguments]
    done = run.run(command, run.environment(options.tutti, PATIENCE), limit)
    return [done.text()], [done.status], len(perf.rows(done.text()))


def main(options, results):
    tool = find(options)
    results.data.update(tool=tool, cases=[])
    if not tool:
        say("sanitize: there is no compute-sanitizer (PATH, /usr/local/cuda/bin, --sanitizer)")
        results.save()
        return 1
    budget, failed, ran = Budget(options.budget), 0, 0
    for name, (kind, work) in CASES.items():
        if options.cases and not any(name.startswith(word) for word in options.cases):
            continue
        limit = budget.limit(options.limit)
        if not limit:
            print(f"not run: {name}: no time left")
            continue
        say(f"sanitize: {name}, at most {limit:.0f} s")
        began = time.monotonic()
        if isinstance(work, str):
            texts, statuses, points = processes(options, (tool, kind), work, limit,
                                                min(options.gpus, 2 if kind == "racecheck" else 4))
        else:
            texts, statuses, points = one_process(options, (tool, kind), *work, limit)
        said, sums = judge(texts, statuses), [summary(text) for text in texts]
        lines = [line for text in texts for line in text.splitlines() if line.startswith("=========")]
        results.data["cases"].append({"name": name, "good": not said, "said": said, "summaries": sums, "points": points,
                                      "seconds": round(time.monotonic() - began, 1),
                                      "lines": lines[:60] if said else []})
        results.save()
        ran, failed = ran + 1, failed + bool(said)
        zero = "0 errors" + (f", {sum(w for s in sums for _, w in s)} warnings" if kind == "racecheck" else "")
        print(f"{'FAILED' if said else 'ok    '} {name}: {'; '.join(said) or zero} ({points} points)", flush=True)
        for text in texts if said else ():
            print(tail(text, 1500))
    results.save(complete=not failed and not budget.left_out)
    return failed + (not ran)
