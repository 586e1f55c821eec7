# SPDX-License-Identifier: Apache-2.0
"""`tutti diagnose` on the Flight Recorder's dumps of jobs of plain PyTorch over Gloo, which know nothing of tutti.

torch_dumps.py TUTTI [--all] [--pythons PYTHON,...]

Each job has 4 ranks, copies of one process that has imported PyTorch. Without --pythons: the first that is there of
those that `make torch-versions` fetched; with --all each. Exit status 77: no PyTorch is there.
"""
import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import timedelta

RANKS, DEADLINE, TIMEOUT = 4, 120, 3
# What one rank does in its last step, which rank, what the exit status may be, and what must be said
CASES = {
    "nothing": (None, {0}, "nothing wrong was found: 4 processes, 3 communicators"),
    "stays": (2, {5}, "rank 2 has not called allreduce #9 and is waited for by ranks 0 1 3 in allreduce #9"),
    "stays until all fail": (1, {5}, "rank 1 has not called allreduce #9 and is waited for by ranks 0 2 3"),
    "calls another": (3, {5}, "rank 3 called broadcast of 10 float, ranks 0 1 2 called allreduce of 10 float"),
    "leaves one out": (1, {5}, "has left out a call: after barrier in default_pg came allreduce of 10 elements in 1"),
    "dies": (1, {4, 5}, "rank 1 (it left no dump)|these ranks have no dump: 1"),
}


# ---- A rank ----

def dump(folder, rank):
    from torch._C import _distributed_c10d

    with open(f"{folder}/.{rank}", "wb") as file:
        file.write(_distributed_c10d._dump_fr_trace(True, False, False))
    os.rename(f"{folder}/.{rank}", f"{folder}/trace_rank_{rank}")


def step(case, rank, pair):
    import torch
    import torch.distributed as dist

    ones = torch.ones(10)
    if case != "leaves one out":
        dist.all_reduce(ones, group=pair)
    if case == "dies":
        os._exit(1)
    if case in ("stays", "stays until all fail"):
        time.sleep(DEADLINE)
    if case == "calls another":
        dist.broadcast(ones, 0)
    else:
        dist.all_reduce(ones)
    if rank < 2:
        (dist.send if rank else dist.recv)(ones, 1 - rank)
    dist.barrier()


def rank_of_job(case, rank, folder, asked):
    """Dumps whenever it is asked to, while its main thread may be in a call."""
    import threading
    import torch.distributed as dist

    def answer():
        while os.read(asked, 1):
            dump(folder, rank)

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=RANKS,
                            timeout=timedelta(seconds=TIMEOUT if case == "stays until all fail" else DEADLINE))
    pair = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
    for _ in range(4):
        step("", rank, pair)
    threading.Thread(target=answer, daemon=True).start()
    with open(f"{folder}/ready_{rank}", "w", encoding="ascii"):
        pass
    with contextlib.suppress(RuntimeError):
        step(case if rank == CASES[case][0] else "", rank, pair)
    with open(f"{folder}/over_{rank}", "w", encoding="ascii"):
        pass
    time.sleep(DEADLINE)


# ---- A job ----

class Job:
    def __init__(self, case, folder):
        self.case, self.folder, self.pids, self.pipes = case, folder, [], []
        for rank in range(RANKS):
            reader, writer = os.pipe()
            self.pipes.append(writer)
            self.pids.append(os.fork())
            if self.pids[-1] == 0:
                with contextlib.suppress(BaseException):
                    rank_of_job(case, rank, folder, reader)
                os._exit(1)
            os.close(reader)

    def has(self, name, ranks=range(RANKS)):
        return all(os.path.exists(f"{self.folder}/{name}_{rank}") for rank in ranks)

    def come(self):
        """All ranks have begun their last step; and what must be over is."""
        culprit = CASES[self.case][0]
        over = {"nothing": range(RANKS), "stays until all fail": set(range(RANKS)) - {culprit}}.get(self.case, ())
        return self.has("ready") and self.has("over", over) and (self.case != "dies" or not self.lives(culprit))

    def ask(self):
        """A dump of each rank that lives."""
        for rank in range(RANKS):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.folder}/trace_rank_{rank}")
        living = [rank for rank in range(RANKS) if self.lives(rank)]
        for rank in living:
            os.write(self.pipes[rank], b"x")
        while not self.has("trace_rank", [rank for rank in living if self.lives(rank)]):
            time.sleep(0.05)

    def lives(self, rank):
        with open(f"/proc/{self.pids[rank]}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"

    def end(self):
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for pipe in self.pipes:
            os.close(pipe)


def diagnose(tutti, job):
    dumps = [f"{job.folder}/trace_rank_{rank}" for rank in range(RANKS)]
    done = subprocess.run([tutti, "diagnose", *filter(os.path.exists, dumps)], capture_output=True, text=True,
                          timeout=DEADLINE, check=False)
    return done.returncode, done.stdout + done.stderr


def right(case, status, said):
    _, statuses, words = CASES[case]
    return status in statuses and any(word in said for word in words.split("|"))


def check(tutti, case):
    """Looks again and again: a rank that waits must have waited for 2 s."""
    end = time.monotonic() + DEADLINE
    with tempfile.TemporaryDirectory(prefix="tutti-dumps-") as folder:
        job = Job(case, folder)
        try:
            while not job.come() and time.monotonic() < end:
                time.sleep(0.05)
            status, said = None, "not all ranks came"
            while job.come() and time.monotonic() < end and not right(case, status, said):
                job.ask()
                status, said = diagnose(tutti, job)
        finally:
            job.end()
    if not right(case, status, said):
        sys.exit(f"{case}: status {status}: {said}")
    print(f"{case}: {said.splitlines()[0]}", flush=True)


def jobs(tutti):
    os.environ.update(TORCH_FR_BUFFER_SIZE="2000", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
    import torch
    import torch.distributed  # noqa: F401

    print(f"PyTorch {torch.__version__}", flush=True)
    for case in CASES:
        check(tutti, case)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tutti")
    parser.add_argument("--pythons", default="")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--here", action="store_true", help="with the PyTorch of this Python")
    arguments = parser.parse_args()
    if arguments.here:
        return jobs(arguments.tutti)
    from torch_versions import pythons, version

    found = [python for python in pythons(arguments) if version(python)]
    if not found:
        print("SKIPPED: no PyTorch here: make torch-versions fetches the newest and 2.11")
        return 77
    return max(subprocess.run([python, __file__, "--here", arguments.tutti], check=False).returncode
               for python in found[:None if arguments.all or arguments.pythons else 1])


if __name__ == "__main__":
    sys.exit(main())
