#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two jobs on two hosts with two interfaces each: a process of each job owns one, and the busy job borrows the other
one's while that is idle (TUTTI_BORROW). Owner and borrower are killed, and an interface goes down, meanwhile: who is
left has the right bits. Lanes say who borrowed from whom, and the diagnosis names an owner that stands still, and no
borrower. Usage: borrow_test.py SOAK FLOWS TUTTI [SECONDS [SEED]]; with SECONDS another test alone, for this time: two
jobs and a guest with all policies on, borrowing too, beside faults that are drawn."""
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from links import Other, run_alone
from rdma_job import AT_ONCE, BOTH, PATIENCE, Job, disturb, judge

MANY = 64 << 10  # bytes: some segments


class Jobs:
    def __init__(self, other, folder):
        self.other, self.folder, self.begun = other, folder, 0
        self.boxes = os.path.join(folder, "boxes")
        os.mkdir(self.boxes)

    def settings(self):
        self.begun += 1
        return {"TUTTI_BORROW": "2", "TUTTI_TRACE_DIR": self.boxes, "TUTTI_STRIPE": "turns", "TUTTI_IB_LANES": "1",
                "MASTER_PORT": str(29500 + self.begun), "TORCHELASTIC_RUN_ID": f"rdma{self.begun}"}

    def busy(self):
        settings = self.settings()
        return Job(self.other, settings, settings)

    def idle(self):
        """Its ranks exchange a word, and MANY bytes each way once go() is called."""
        settings, stem = self.settings(), os.path.join(self.folder, f"idle{self.begun}")
        with open(f"{stem}.trace", "w", encoding="ascii") as trace:
            trace.write(f"0 0 0 1 {MANY}\n0 0 1 0 {MANY}\n")
        job = Job(self.other, settings, settings, program=[sys.argv[2], f"{stem}.trace", f"{stem}.go", stem])
        job.stem = stem
        return job

    def tell(self, *words):
        done = subprocess.run([sys.argv[3], *words, "--dir", self.boxes], check=False, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def box(self, pid):
        _, said = self.tell("trace", "--json", "--dead")
        return next((box for box in json.loads(said)["processes"] if box["pid"] == pid), {"lanes": []})

    def lanes(self, pid):
        """Of its own box, by interface."""
        return self.box(pid)["lanes"]


def go(job):
    with open(f"{job.stem}.new", "w", encoding="ascii") as file:
        file.write(f"{time.monotonic_ns()}\n")
    os.rename(f"{job.stem}.new", f"{job.stem}.go")


def until(what, is_so, patience=PATIENCE):
    end = time.monotonic() + patience
    while not (found := is_so()):
        assert time.monotonic() < end, what
        time.sleep(0.05)
    return found


def is_ready(job):
    until("the idle job is not ready", lambda: os.path.exists(f"{job.stem}.0"))


def borrows(jobs, busy, owner):
    """Both ranks borrow from the process of the other job that is on their host, by no lane of their own interface."""
    for one, other in zip(busy.ranks, owner.ranks):
        def seen(one=one, other=other):
            return [lane for lane in jobs.lanes(one.pid) if lane["borrowed_bytes"] and
                    lane["borrowed_from"] == other.pid]
        lanes = until(f"process {one.pid} does not borrow from {other.pid}", seen)
        assert not any(lane["own"] for lane in lanes), lanes
        text = jobs.tell("trace", "--lanes")[1]
        assert f"MB borrowed from process {other.pid}" in text, text
        text = jobs.tell("top", "--once")[1]
        assert f"borrowed from process {other.pid}" in text, text


def kill(job):
    for one in job.ranks:
        one.kill()
        one.wait()


def an_owner_is_killed(jobs, busy):
    with jobs.idle() as owner:
        is_ready(owner)
        borrows(jobs, busy, owner)
        kill(owner)
        busy.carries(BOTH)


def an_interface_dies(jobs, busy, owner):
    """Each of the two is borrowed by one job or owned by it; the owner lives on."""
    for link in BOTH:
        jobs.other.set(link, "down")
        busy.carries([one for one in BOTH if one != link], AT_ONCE)
        jobs.other.set(link, "up")
        busy.carries(BOTH)
    assert all(one.poll() is None for one in owner.ranks), "an owner gave up"


def an_owner_stands_still(jobs, busy, owner):
    """Its peer waits for it: that is the owner's own fault, and no borrower's."""
    owner.ranks[1].send_signal(signal.SIGSTOP)
    go(owner)
    named = f"VERDICT: rank 1 (process {owner.ranks[1].pid}) is stopped"
    said = until("the owner is not named", lambda: next((text for code, text in [jobs.tell(
        "diagnose", "--apart", "100ms", "--stuck", "500ms")] if code == 5 and named in text), None))
    verdicts = said.split("NOTE:")[0]  # notes are no faults: an interface was slow for a while on a busy machine
    for one in busy.ranks:
        assert f"process {one.pid}" not in verdicts, said
    busy.carries(["tp0"])
    owner.ranks[1].send_signal(signal.SIGCONT)
    assert [one.wait(PATIENCE) for one in owner.ranks] == [0, 0], owner.text()


def a_borrower_is_killed(jobs, busy, owner):
    """What it had under way on the interface is gone, and the owner sends."""
    kill(busy)
    go(owner)
    assert [one.wait(PATIENCE) for one in owner.ranks] == [0, 0], owner.text()


def gpus(job):
    """A GPU at a switch with each of two interfaces; the job's ranks work on one of the two, and relay by the other."""
    at = [f"pci0000:{switch}0/0000:{switch}0:01.0/0000:{switch}" for switch in (1, 2, 3)]
    return {"SOFTVERBS_DEVICES": ",".join(f"soft_tp{i}=tp{i}@{place}2:00.0" for i, place in enumerate(at)),
            "TUTTI_EMULATED_GPUS": "2", "TUTTI_EMULATED_PCI": ",".join(f"{place}1:00.0" for place in at[:2]),
            "TUTTI_LOCAL_RANK": str(job % 2), "TUTTI_STAGE_SLICE": "64K", "TUTTI_DMABUF_FROM": "4K"}


def everything(jobs):
    """Settings of both ranks: planned ports, places, windows, segments by distance, weights, a backup, borrowing."""
    common = {**jobs.settings(), "TUTTI_LANE_SILENCE": "500ms", "TUTTI_IB_LANES": "2", "TUTTI_STRIPE": "arrival",
              "TUTTI_SEGMENTS": "rack=8K,zone=8K", "TUTTI_QUEUES": "zone=2", "TUTTI_SEGMENT": "32K",
              "TUTTI_BACKUP": "soft_tp2", "SOFTVERBS_DEVICES": "soft_tp0=tp0,soft_tp1=tp1,soft_tp2=tp2",
              **(gpus(jobs.begun) if "TUTTI_TEST_GPU" in os.environ else {})}
    return [{**common, "TUTTI_PATHS": f"4:{rank},{5 - rank},{2 + rank}", "TUTTI_PLACE": f"zone=z,rack={rank}"}
            for rank in (0, 1)]


def policies_at_once(jobs, seconds, seed):
    # lanes that fail all the time would leave all to the backup
    soak = ("--seconds", str(seconds + 1000), "--resets", "10000", "--seed", str(seed))

    def begin(stack):
        ours, theirs = everything(jobs)
        job = stack.enter_context(Job(jobs.other, theirs, ours, soak=soak))
        for rank in (0, 1):  # a process that has no device open hears of no fault
            job.says(f"rank {rank} of 2 joined")
        return job

    chance, counts, end = random.Random(seed), {}, time.monotonic() + seconds
    with contextlib.ExitStack() as stack, contextlib.ExitStack() as guests:
        one, two, guest = begin(stack), begin(stack), begin(guests)
        while time.monotonic() < end:
            faults = [disturb(jobs.other, chance) for _ in range(chance.choice((0, 1, 1, 2)))]
            stopped = chance.choice((None, None, *guest.ranks))
            if stopped:
                stopped.send_signal(signal.SIGSTOP)
                faults.append(("stopped", lambda rank=stopped: rank.send_signal(signal.SIGCONT)))
            time.sleep(chance.uniform(0.05, min(3, seconds / 4)))
            if chance.random() < 0.3:  # while it lends and borrows
                guests.close()
                guest = begin(guests)
                faults.append(("killed", lambda: None))
            for kind, undo in reversed(faults):  # a stopped process hears nothing
                undo()
                counts[kind] = counts.get(kind, 0) + 1
            time.sleep(chance.uniform(0, min(3, seconds / 4)))
            assert all(rank.poll() is None for rank in one.ranks + two.ranks), f"a rank gave up, after {counts}"
        guests.close()
        for job in (one, two):
            job.carries(BOTH)
            for rank in job.ranks:
                assert sum(lane["borrowed_bytes"] for lane in jobs.lanes(rank.pid)), "it has borrowed nothing"
                if "TUTTI_TEST_GPU" in os.environ:
                    assert jobs.box(rank.pid)["counters"]["relayed_bytes"], "it has relayed nothing"
            judge(job)
            print("\n".join(line for line in job.text().splitlines() if "total" in line))
    print(f"seed {seed}: {counts}")


def soak():
    seconds, seed = float(sys.argv[4]), int(sys.argv[5]) if len(sys.argv) > 5 else int(time.time())
    with tempfile.TemporaryDirectory() as folder, Other(["tm0", "tp0", "tp1", "tp2"], seconds + 600) as other:
        policies_at_once(Jobs(other, folder), seconds, seed)


def main():
    with tempfile.TemporaryDirectory() as folder, Other(["tm0", "tp0", "tp1"]) as other:
        jobs = Jobs(other, folder)
        with jobs.busy() as busy:
            an_owner_is_killed(jobs, busy)
            with jobs.idle() as owner:  # another process, by the same interface
                is_ready(owner)
                borrows(jobs, busy, owner)
                an_interface_dies(jobs, busy, owner)
                an_owner_stands_still(jobs, busy, owner)
            judge(busy)
        with jobs.busy() as busy, jobs.idle() as owner:
            is_ready(owner)
            borrows(jobs, busy, owner)
            a_borrower_is_killed(jobs, busy, owner)


run_alone(soak if len(sys.argv) > 4 else main, "Borrowed interfaces")
