# SPDX-License-Identifier: Apache-2.0
"""suite: PyTorch's own suite for back ends (DistributedTest) and accelerate's test scripts, over NCCL and over tutti:
what passes with one must with the other."""
import contextlib
import importlib.util
import os
import re
import sys
import tempfile
import time

from gpu_parts import ranks, run
from gpu_parts.run import Budget, say, table, tail

from . import forked_runs

# Of accelerate.test_utils.scripts; processes at most: one asks for two, another one's own checks fail with more.
SCRIPTS = {"test_script": 2, "test_distributed_data_loop": 2, "test_ops": None, "test_sync": None}
LOADED = 180  # seconds in which what tests need has been loaded, or they do it themselves
UNTOUCHED = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}  # no threads so far
LAST = 10  # seconds before the end of the budget: no program is begun
ENDED = re.compile(r"^(OK|FAILED)\b.*$", re.MULTILINE)
ONE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_suite.py")


def add_arguments(parser):
    parser.add_argument("--at-once", type=int, default=max(1, (os.cpu_count() or 1) // 3),
                        help="programs that run at a time (a third of the processors)")
    parser.add_argument("--spawn", action="store_true",
                        help="each test and each of its ranks loads PyTorch anew, as the suite's own runner has it. "
                             "Otherwise they are forked from a process that has loaded it")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="only these tests and scripts")
    parser.add_argument("--more", action="store_true", help="go on where an earlier call had no more time")


def of_a_run(temp):
    return {"TEMP_DIR": temp, "TUTTI_TRACE_DIR": temp, "INIT_METHOD": f"file://{temp}/init_dir/shared_init_file"}


def environment(options, library, folder, temp):
    extra = {"BACKEND": "nccl", "WORLD_SIZE": str(options.gpus), "OMP_NUM_THREADS": "1", **of_a_run(temp)}
    if library == "tutti":
        extra["LD_PRELOAD"] = os.path.join(folder, "libnccl.so.2")
    return run.environment(folder, extra)


def scripts_of_accelerate():
    """{name: file} of those that this machine has."""
    found = importlib.util.find_spec("accelerate")
    folder = os.path.join(list(found.submodule_search_locations)[0], "test_utils", "scripts") if found else ""
    paths = {name: os.path.join(folder, name + ".py") for name in SCRIPTS}
    return {name: path for name, path in paths.items() if os.path.exists(path)}


def all_names(options):
    with tempfile.TemporaryDirectory() as temp:
        job = run.run([sys.executable, ONE, "--list"], environment(options, "nccl", "", temp), options.limit)
    if job.status:
        raise RuntimeError("the suite cannot be loaded:\n" + tail(job.text()))
    return [line for line in job.text().split() if line.startswith("test_")]


class Parents:
    """A process for each library that has loaded PyTorch's suite. One that could not do so, or whose processes could
    not use GPUs, is none: then tests load it themselves."""

    def __init__(self, options):
        self.temp, self.of = tempfile.TemporaryDirectory(ignore_cleanup_errors=True), {}
        for library, folder in ({} if options.spawn else options.libraries).items():
            env = {**environment(options, library, folder, self.temp.name), **UNTOUCHED}
            self.of[library] = forked_runs.Parent([sys.executable, ONE, "--fork"], env)

    def await_all(self):
        until = time.monotonic() + LOADED
        for library, one in list(self.of.items()):
            if not one.ready(until):
                say(f"suite: nothing is forked over {library} (it said why above, or was not ready after {LOADED} s): "
                    "each test loads PyTorch itself")
                self.of.pop(library).close()

    def close(self):
        for one in self.of.values():
            one.close()
        self.temp.cleanup()


class Try:
    """One test or script over one library. `parent`: the process that it is forked from; None: a program."""

    def __init__(self, options, name, path, library, folder, parent):
        self.name, self.library, self.path = name, library, path
        self.temp = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        if parent and not path:
            self.job = forked_runs.Forked(parent, name, self.temp.name, of_a_run(self.temp.name))
            return
        env = environment(options, library, folder, self.temp.name)
        command = [sys.executable, ONE, name]
        if path:
            count = min(options.gpus, SCRIPTS[name] or options.gpus)
            command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={count}",
                       f"--master-port={ranks.free_port()}", path]
            for variable in ("WORLD_SIZE", "INIT_METHOD"):
                del env[variable]
        self.job = run.Job(command, env)

    def over(self, limit):
        if self.job.poll() is None and time.monotonic() - self.job.began > limit:
            self.job.kill()
        return self.job.poll() is not None

    def record(self):
        text, status = self.job.text(), self.job.status
        ended = ENDED.findall(text)
        self.temp.cleanup()
        skipped = not self.path and "skipped=1" in text and status == 0
        state = "late" if status == run.LATE else "failed" if status else "skipped" if skipped else "passed"
        record = {"name": self.name, "library": self.library, "state": state, "seconds": round(self.job.seconds, 1)}
        if state in ("failed", "late"):
            record.update(status=status, ended=ended[-1:], output=tail(text, 9000))
        return record


def show(records):
    """A row for each that did not pass with both; then the sums."""
    by_name = {}
    for record in records:
        by_name.setdefault(record["name"], {})[record["library"]] = record["state"]
    odd = [[name, states.get("nccl", "-"), states.get("tutti", "-")] for name, states in sorted(by_name.items())
           if {states.get("nccl"), states.get("tutti")} not in ({"passed"}, {"skipped"})]
    sums = []
    for state in ("passed", "skipped", "failed", "late"):
        sums.append([state, *(sum(states.get(library) == state for states in by_name.values())
                              for library in ("nccl", "tutti"))])
    return table(["not passed with both", "NCCL", "tutti"], odd) + "\n" + table(["state", "NCCL", "tutti"], sums)


def worse(records):
    """Names that pass with NCCL and not with tutti."""
    passed = {r["name"] for r in records if r["library"] == "nccl" and r["state"] == "passed"}
    return sorted(r["name"] for r in records
                  if r["library"] == "tutti" and r["state"] in ("failed", "late") and r["name"] in passed)


def take_next(todo, running):
    """Not one whose test runs over another library: some have ports that are always the same. None: there is none."""
    busy = {one.name for one in running}
    at = next((at for at, (name, _, _) in enumerate(todo) if name not in busy), None)
    return None if at is None else todo.pop(at)


def run_them(options, budget, todo, scripts, parents, results):
    """Until nothing of `todo`, [(name, library, folder)], or of the budget is left."""
    running, again = [], set()
    try:
        while todo or running:
            while len(running) < options.at_once and budget.left() > LAST and (taken := take_next(todo, running)):
                name, library, folder = taken
                parent = None if (name, library) in again else parents.of.get(library)
                running.append(Try(options, name, scripts.get(name), library, folder, parent))
            for one in [one for one in running if one.over(min(options.limit, max(1.0, budget.left())))]:
                running.remove(one)
                record = one.record()
                if (record["state"] in ("failed", "late") and (one.name, one.library) not in again
                        and budget.left() > 30):
                    # a second try, a program of its own, tells a fault from the crowd on the machine
                    again.add((one.name, one.library))
                    todo.append((one.name, one.library, options.libraries[one.library]))
                    results.data.setdefault("first tries", []).append(record)
                    continue
                results.data["runs"].append(record)
                results.save()
                if record["state"] in ("failed", "late"):
                    say(f"suite: {one.name} over {one.library}: {record['state']}")
            if not running and budget.left() <= LAST:
                break
            time.sleep(0.05)
    finally:
        run.kill_all([one.job for one in running])


def main(options, results):
    budget = Budget(options.budget)
    records = [record for record in results.data.get("runs", []) if record["state"] != "late"]
    over = {(record["name"], record["library"]) for record in records}
    results.data["runs"] = records
    with contextlib.closing(Parents(options)) as parents:
        scripts = scripts_of_accelerate()
        names = [*scripts, *all_names(options)]  # the longest first
        names = [name for name in names if not options.only or name in options.only]
        if options.quick:
            names = names[::8]
        todo = [(name, library, folder) for name in names for library, folder in options.libraries.items()
                if (name, library) not in over]
        parents.await_all()
        say(f"suite: {len(names)} tests, {len(todo)} runs, {options.at_once} at once")
        run_them(options, budget, todo, scripts, parents, results)
    left = sorted({name for name, _, _ in todo})
    print(show(records))
    bad = worse(records)
    for record in records:
        if record["name"] in bad and record["library"] == "tutti":
            print(f"{record['name']} over tutti: {record['state']}\n{tail(record['output'], 1500)}")
    print(f"{len(bad)} pass with NCCL and not with tutti" + (f"; {len(left)} not run for want of time" if left else ""))
    results.save(complete=not bad and not left)
    return len(bad) + len(left)
