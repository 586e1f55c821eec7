# SPDX-License-Identifier: Apache-2.0
"""kill: one of four processes is killed, or aborts, in a loop of 1 GiB allreduces. The others must get an error in
time, and their GPUs must go on."""
import os
import signal
import tempfile
import time

from gpu_parts import ranks
from gpu_parts.run import Budget, say, table, tail

FIELDS = ("error after (s)", "aborted after (s)", "rounds before", "GPU works on", "what the library said")


def add_arguments(parser):
    parser.add_argument("--bytes", type=int, default=1 << 30, help="bytes of the allreduce (1 GiB)")
    parser.add_argument("--victim", type=int, help="the rank that is killed (one in the middle)")
    parser.add_argument("--by", default="kill", choices=("kill", "abort"),
                        help="its process is killed, or it calls ncclCommAbort")
    parser.add_argument("--within", type=float, default=35,
                        help="seconds within which the others must have an error (TUTTI_TIMEOUT is 30 s)")
    parser.add_argument("--with-nccl", action="store_true",
                        help="do the same to NCCL (it waits for ever: its ranks are killed at --within)")


class Killer:
    """Kills the victim a second after all ranks are well in their loops, or tells it to abort."""

    def __init__(self, folder, victim, count, by):
        self.folder, self.victim, self.count, self.by, self.seen, self.when = folder, victim, count, by, None, None

    def __call__(self):
        if self.when is not None or not all(os.path.exists(f"{self.folder}/looping.{r}") for r in range(self.count)):
            return
        self.seen = self.seen or time.monotonic()
        if time.monotonic() > self.seen + 1.0:
            self.when = time.monotonic()
            if self.by == "kill":
                os.kill(self.victim.process.pid, signal.SIGKILL)
            else:
                open(os.path.join(self.folder, "abort"), "w", encoding="utf-8").close()


def one(options, folder, limit):
    """(seconds at which the victim died or None, [what each survivor left], jobs)"""
    with tempfile.TemporaryDirectory() as meet:
        arguments = ["--bytes", str(options.bytes), "--victim", str(options.victim),
                     "--limit", str(min(limit, options.within + 40))]
        jobs = ranks.start(options, folder, "loop", arguments, meet)
        killer = Killer(meet, jobs[options.victim], options.gpus, options.by)
        ranks.wait(jobs, limit, grace=options.within + 60, every=killer)
        return killer.when, ranks.outputs(meet, options.gpus), jobs


def judge(options, died, out, job, rank):
    record = {"rank": rank, "status": job.status, "said": out.get("said", ""), "rounds": out.get("rounds", 0)}
    if died and out.get("said"):
        record["noticed"] = out["noticed"] - died
        record["aborted"] = out.get("aborted", float("nan")) - died
    record["works"] = bool(out.get("good"))
    record["computed"] = bool(out.get("computed"))
    record["good"] = job.status == 0 and record["works"] and 0 <= record.get("noticed", -1) <= options.within
    if not record["good"]:
        record["output"] = tail(job.text(), 1200)
    return record


def show(records):
    rows = []
    for r in records:
        works = (("yes, kernel and collective" if r["computed"] else "yes, copies and collective")
                 if r["works"] else "NO")
        times = [f"{r[name]:.3f}" if name in r else "never" for name in ("noticed", "aborted")]
        rows.append([r["rank"], *times, r["rounds"], works, r["said"][:110]])
    return table(["rank", *FIELDS], rows)


def main(options, results):
    options.victim = options.gpus // 2 if options.victim is None else options.victim
    if not 0 <= options.victim < options.gpus or options.gpus < 2:
        say(f"kill: there is no rank {options.victim} of {options.gpus} to kill beside others")
        return 1
    budget, failed = Budget(options.budget), 0
    libraries = options.libraries if options.with_nccl else {"tutti": options.tutti}
    for library, folder in libraries.items():
        limit = budget.limit(options.limit)
        if not limit:
            say(f"kill: no time left for {library}")
            return 1
        say(f"kill: rank {options.victim} of {options.gpus} in allreduces of {options.bytes} bytes, {library}")
        died, outs, jobs = one(options, folder, limit)
        records = [judge(options, died, outs[r], jobs[r], r) for r in range(options.gpus) if r != options.victim]
        results.data[library] = {"killed": died is not None, "survivors": records}
        results.save()
        print(f"{library}:\n{show(records)}")
        bad = [r for r in records if not r["good"]]
        for record in bad:
            print(f"rank {record['rank']}, exit status {record['status']}:\n{record['output']}")
        failed += len(bad) if library == "tutti" else 0
    results.save(complete=not failed)
    return failed
