# SPDX-License-Identifier: Apache-2.0
"""apps: PyTorch (DDP, FSDP, tensor, pipeline and context parallel), CuPy and JAX over NCCL and, by LD_PRELOAD,
over tutti, with proof that tutti served them. Quick: over both at once."""
import os
import re
import sys
import tempfile
import time

from gpu_parts import ranks, run
from gpu_parts.run import Budget, say, table, tail

TRAINING = {"ddp": "torch_train.py", "fsdp": "torch_train.py", "fsdp2": "torch_parallel.py", "tp": "torch_parallel.py",
            "pp": "torch_parallel.py", "cp": "torch_parallel.py"}
APPS = (*TRAINING, "cupy", "jax")
LOSS = re.compile(r"(\w+) step (\d+): loss ([0-9.naninf]+)")
FIRST = re.compile(r"first collective after ([0-9.]+) s")
SERVED = re.compile(r"served: tutti communicators (\d+); ncclAllReduce from ([^;\s]+)")
RESULT = re.compile(r"result: (\d+) points, (\d+) wrong")
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # the folder of gpu_tests
TOLERANCE = 1e-4  # of a loss, relative: the orders of summation differ


def add_arguments(parser):
    parser.add_argument("--only", nargs="*", choices=APPS, metavar="APP", help="only these: " + ", ".join(APPS))


def losses(text):
    return {int(step): float(loss) for _, step, loss in LOSS.findall(text)}


def start(options, app, library, folder, trace):
    """The processes of a run."""
    extra = {"TUTTI_TRACE_DIR": trace, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    if app in TRAINING:
        script = os.path.join(ranks.ROOT, TRAINING[app])
        return ranks.start_torch(options, folder, [script, "--mode", app], None, extra, preload=library == "tutti")
    env = run.environment(folder, extra)
    env["PYTHONPATH"] = ":".join(filter(None, (TESTS, ranks.ROOT, env.get("PYTHONPATH"))))
    if library == "tutti":
        env["LD_PRELOAD"] = os.path.join(folder, "libnccl.so.2")
    return [run.Job([sys.executable, "-m", f"gpu_tests.app_{app}", "--gpus", str(options.gpus)], env)]


def run_at_once(options, app, libraries, limit):
    """{library: record} of runs side by side."""
    with tempfile.TemporaryDirectory() as trace:
        runs = {library: start(options, app, library, folder, trace) for library, folder in libraries.items()}
        until = time.monotonic() + limit
        for jobs in runs.values():  # all are looked at, for a run's seconds end where somebody sees its end
            ranks.wait(jobs, max(0.0, until - time.monotonic()),
                       every=lambda: [job.poll() for other in runs.values() for job in other])
    return {library: record_of(app, library, [job.status for job in jobs], "".join(job.text() for job in jobs),
                               max(job.seconds for job in jobs)) for library, jobs in runs.items()}


def record_of(app, library, statuses, text, seconds):
    """What a run has shown, and what is wrong with it by itself."""
    said = [f"exit statuses {statuses}"] if any(statuses) else []
    record = {"app": app, "library": library, "seconds": round(seconds, 1), "said": said}
    served, first, result = SERVED.search(text), FIRST.search(text), RESULT.search(text)
    record["served"] = list(served.groups()) if served else None
    if first:
        record["first"] = float(first.group(1))
    if app in TRAINING:
        record["losses"] = losses(text)
        said += [] if record["losses"] else ["no losses"]
    else:
        record["points"], record["wrong"] = map(int, result.groups()) if result else (0, 0)
        said += ["no result"] if not result else [f"{record['wrong']} wrong results"] * (record["wrong"] > 0)
    if library == "tutti" and not (served and int(served.group(1)) > 0):
        said.append("nothing proves that tutti served it")
    if library == "nccl" and served and int(served.group(1)) > 0:
        said.append("tutti served what NCCL was to")
    if said:
        record["output"] = tail(text, 2500)
    return record


def compare(app, pair):
    """Sentences: how tutti's curve differs from NCCL's."""
    ours, theirs = (pair.get(library, {}).get("losses", {}) for library in ("tutti", "nccl"))
    said = []
    for step in sorted(set(ours) & set(theirs)):
        if not abs(ours[step] - theirs[step]) <= TOLERANCE * abs(theirs[step]):
            said.append(f"{app} step {step}: loss {ours[step]}, with NCCL {theirs[step]}")
    return said


def show(records):
    rows = []
    for r in records:
        curve = r.get("losses") or {}
        what = (f"loss {curve[max(curve)]:.8f} after {max(curve)} steps" if curve
                else f"{r.get('points', 0)} points, {r.get('wrong', 0)} wrong")
        served = f"{r['served'][0]} communicators of tutti" if r["served"] else "-"
        rows.append([r["app"], r["library"], "ok" if not r["said"] else "FAILED: " + "; ".join(r["said"]), what, served,
                     f"{r['first']:.2f}" if "first" in r else "-", r["seconds"]])
    return table(["program", "library", "state", "result", "served by", "first collective (s)", "seconds"], rows)


def main(options, results):
    budget, records, failed = Budget(options.budget), [], 0
    results.data["runs"] = records
    for app in options.only or APPS:
        pair = {}
        # A curve is compared with NCCL's; what is compared with numpy needs no run over NCCL.
        libraries = options.libraries if app in TRAINING or not options.quick else {"tutti": options.tutti}
        turns = [libraries] if options.quick else [{library: folder} for library, folder in libraries.items()]
        for turn in turns:
            names, limit = " and ".join(turn), budget.limit(options.limit)
            if not limit:
                say(f"apps: no time left for {app} over {names}")
                failed += "tutti" in turn
                continue
            say(f"apps: {app} over {names}")
            found = run_at_once(options, app, turn, limit)
            pair.update(found)
            records += found.values()
            results.save()
        if "tutti" in pair:
            pair["tutti"]["said"] += compare(app, pair)
            # What NCCL cannot do here either says nothing about tutti, but is shown.
            failed += bool(pair["tutti"]["said"])
        for record in pair.values():
            if record["said"]:
                print(f"{app} over {record['library']}: "
                      f"{'; '.join(record['said'])}\n{tail(record.get('output', ''), 1500)}", flush=True)
        results.save()
    print(show(records))
    results.save(complete=not failed)
    return failed
