# SPDX-License-Identifier: Apache-2.0
"""Several processes, one for each GPU, that meet in a folder: of our worker, or of a program on torch.distributed."""
import json
import os
import sys
import tempfile
import time

from held_port import hold_port

from . import run

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
# name, library, environment
VARIANTS = (("nccl", "nccl", {}), ("tutti", "tutti", {}), ("tutti, by kernels", "tutti", {"TUTTI_COPY_PROCESSES": "0"}))


def start(options, library, program, arguments, folder, extra=None, before=(), count=None):
    """worker.py PROGRAM in `count` processes over library/libnccl.so.2. before: a command that runs each of them."""
    count = count or options.gpus
    jobs = []
    for rank in range(count):
        command = [*before, sys.executable, "-m", "gpu_parts.worker", program,
                   "--library", os.path.join(library, "libnccl.so.2"), "--folder", folder,
                   "--rank", str(rank), "--ranks", str(count), *arguments]
        env = {**run.environment(library, extra), **run.of_host(options.hosts, rank, count)}
        env["PYTHONPATH"] = ":".join(filter(None, (ROOT, env.get("PYTHONPATH"))))
        jobs.append(run.Job(command, env))
    return jobs


def free_port():
    """Nobody is given it by chance."""
    held, port = hold_port()
    held.close()
    return port


def start_torch(options, library, program, folder=None, extra=None, preload=True):
    """A Python program (script or -m module, and arguments) on torch.distributed, a process a GPU."""
    port, jobs = free_port(), []
    for rank in range(options.gpus):
        env = {**run.environment(library, extra), **run.of_host(options.hosts, rank, options.gpus)}
        env.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(options.gpus),
                   LOCAL_WORLD_SIZE=str(options.gpus), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                   OMP_NUM_THREADS="4")
        env["PYTHONPATH"] = ":".join(filter(None, (ROOT, os.environ.get("PYTHONPATH"))))
        if preload:
            env["LD_PRELOAD"] = os.path.join(library, "libnccl.so.2")
        jobs.append(run.Job([sys.executable, *program, *(["--folder", folder] if folder else [])], env))
    return jobs


def run_torch(options, library, program, limit, extra):
    """Such a program over the library of that name, to its end: ([output of each rank] or None, complaint)"""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as trace:
        jobs = start_torch(options, options.libraries[library], program, folder,
                           {**extra, "TUTTI_TRACE_DIR": trace}, library == "tutti")
        wait(jobs, limit)
        if any(job.status for job in jobs):
            return None, (f"exit statuses {[job.status for job in jobs]}\n"
                          + run.tail("".join(job.text() for job in jobs), 2500))
        outs = outputs(folder, options.gpus)
    unproved = library == "tutti" and "tutti communicators 0" in outs[0]["served"]
    return outs, "nothing proves that tutti served it: " + outs[0]["served"] if unproved else ""


def in_turns(options, results, budget, variants, program, rounds=1):
    """Such a program over each of the variants (name, library, environment): yields name and outputs. What went wrong
    is among the results, which are saved behind each."""
    for turn in range(rounds):
        for name, library, extra in variants:
            limit = budget.limit(options.limit) if library in options.libraries else 0
            if not limit:
                continue
            run.say(f"{options.part}, round {turn + 1} of {rounds}: {name}")
            outs, complaint = run_torch(options, library, program, limit, extra)
            if outs:
                yield name, outs
            if complaint:
                results.complain(name, library, complaint)
            results.save()


def wait(jobs, limit, grace=20.0, every=None):
    return run.run_all(jobs, limit, grace, every)


def outputs(folder, count):
    """What each worker has left: {} of one that has left nothing."""
    found = []
    for rank in range(count):
        try:
            with open(os.path.join(folder, f"out.{rank}.json"), encoding="utf-8") as file:
                found.append(json.load(file))
        except (OSError, ValueError):
            found.append({})
    return found


class Meet:
    """What the processes of one run say to each other, as files in a folder. Slow (a millisecond) and sure."""

    def __init__(self, folder, rank, count, limit=120.0):
        self.folder, self.rank, self.count, self.limit = folder, rank, count, limit

    def put(self, name, data):
        path = os.path.join(self.folder, name)
        with open(f"{path}.{self.rank}.new", "wb") as file:
            file.write(data)
        os.replace(f"{path}.{self.rank}.new", path)

    def there(self, name):
        return os.path.exists(os.path.join(self.folder, name))

    def get(self, name):
        path, until = os.path.join(self.folder, name), time.monotonic() + self.limit
        while not self.there(name):
            if time.monotonic() > until:
                raise TimeoutError(f"rank {self.rank} has waited {self.limit:.0f} s for {name}")
            time.sleep(0.0005)
        with open(path, "rb") as file:
            return file.read()

    def barrier(self, name, who=None):
        self.put(f"{name}.at.{self.rank}", b"")
        for rank in who or range(self.count):
            self.get(f"{name}.at.{rank}")

    def leave(self, data):
        self.put(f"out.{self.rank}.json", json.dumps(data).encode())
