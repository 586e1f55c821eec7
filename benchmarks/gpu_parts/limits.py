# SPDX-License-Identifier: Apache-2.0
"""limits: what the GPUs, their copy engines and their driver can do without any library, measured by
benchmarks/gpu_limits, built beforehand."""
import json
import os
import tempfile

from .run import Budget, run, say, table, tail

PARTS = ("copies", "stores", "latency", "calls", "waits")


def add_arguments(parser):
    parser.add_argument("--program", help="path of gpu_limits (gpu_limits in the folder of --tests)")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=[], help="only these of its parts (all)")
    parser.add_argument("--most", default="256M", help="bytes of the longest copy (256M)")


def read(path):
    """What the program has left, or None."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def judge(done, found):
    """What is wrong, as sentences."""
    said = [sentence for part in (found or {}).get("parts", []) for sentence in part["complaints"]]
    if not found:
        said.append("it has left no tables")
    elif not found["complete"]:
        said.append("it has not run all its parts")
    if done.status:
        said.append(f"exit status {done.status}" + (" (past its limit)" if done.status == 124 else ""))
    return said


def show(found):
    lines = []
    for part in (found or {}).get("parts", []):
        for one in part["tables"]:
            lines += [one["title"] + ":", "", table(one["heads"], one["rows"])]
        lines += [sentence + ".\n" for sentence in part["notes"]]
    return "\n".join(lines)


def main(options, results):
    program = os.path.abspath(options.program or os.path.join(options.tests, "gpu_limits"))
    limit = Budget(options.budget).limit(options.limit)
    results.data.update(found=None, said=[])
    if not os.path.exists(program):
        results.data["said"] = [f"there is no {program}: docs/reference/benchmarks.md says how it is built"]
        say(f"limits: {results.data['said'][0]}")
        results.save()
        return 1
    say(f"limits: at most {limit:.0f} s")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "limits.json")
        own = max(limit - 2, 1)  # it ends by itself first, and has then said where it was
        done = run([program, "--json", path, "--gpus", str(min(options.gpus, 4)), "--most", options.most,
                    "--limit", f"{own:.0f}", *options.only], None, limit)
        found = read(path)
    said = judge(done, found)
    results.data.update(found=found, said=said, seconds=round(done.seconds, 1))
    results.save(complete=not said)
    print(show(found))
    for sentence in said:
        print("FAILED", sentence)
    if said:
        print(tail(done.text()))
    return len(said)
