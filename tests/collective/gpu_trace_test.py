#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_trace_test.py TUTTI GPU_HANG DRIVER_FOLDER: communicators on GPUs of the stand-in driver get stuck;
tutti trace says why."""
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TUTTI = HANG = DRIVER = ""
EMULATOR = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))  # of a build for another processor
DEADLINE = 150


class Job:
    """Three ranks in a scene, and their black boxes."""

    def __init__(self, scene, **settings):
        self.place = tempfile.TemporaryDirectory(prefix="tutti-gpu-trace-")
        path = os.environ.get("LD_LIBRARY_PATH", "")
        env = dict(os.environ, TUTTI_TRACE_DIR=self.place.name, TUTTI_TEST_GPU="1",
                   LD_LIBRARY_PATH=f"{DRIVER}:{path}", **settings)
        self.ranks = subprocess.Popen([*EMULATOR, TUTTI, "run", "-n", "3",
                                       "--timeout", "250", "--", *EMULATOR, HANG, scene, self.place.name],
                                      env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.say("go")
        self.say("end")
        if self.ranks.poll() is None:
            self.ranks.kill()
        self.ranks.wait()
        self.ranks.stdout.close()
        self.place.cleanup()

    def say(self, word):
        with open(os.path.join(self.place.name, word), "w", encoding="utf-8"):
            pass

    def trace(self, *options):
        done = subprocess.run([*EMULATOR, TUTTI, "trace", "--dead", "--dir", self.place.name, *options],
                              capture_output=True, text=True, timeout=DEADLINE, check=False)
        assert done.returncode in (0, 4), done.stderr  # 4: no process has come so far
        return done.stdout

    def see(self, right, ended=False):
        """What tutti trace --json says once right(it) holds."""
        end = time.monotonic() + DEADLINE
        while True:
            seen = json.loads(self.trace("--json"))
            if right(seen):
                return seen
            if time.monotonic() > end or (self.ranks.poll() is not None and not ended):
                raise AssertionError("not seen in time:\n" + self.trace())
            time.sleep(0.05)

    def end(self):
        """What the ranks printed: they must end well."""
        self.say("go")
        out, _ = self.ranks.communicate(timeout=DEADLINE)
        assert self.ranks.returncode == 0, out
        return out


def worlds(seen):
    """The communicator as each rank's process sees it, by rank."""
    comms = [comm for process in seen["processes"] for comm in process["communicators"] if comm["name"] == "world"]
    return {comm["rank"]: comm for comm in comms}


def blames(kind, rank):
    return lambda seen: [(one["kind"], one["rank"]) for one in seen["verdict"]] == [(kind, rank)]


def text_of(seen):
    return seen["verdict"][0]["text"]


def says(kind, rank, pattern):
    """Ranks begin to wait, and are seen to have done what came before, one after another."""
    return lambda seen: blames(kind, rank)(seen) and re.search(pattern, text_of(seen))


class Stuck(unittest.TestCase):
    def test_rank_that_does_not_come(self):
        for blocks in ({}, {"TUTTI_P2P_DISABLE": "1"}):
            with Job("late", **blocks) as job:
                seen = job.see(says("behind", 1, r"rank 1 \(process \d+\) has "
                                    r"not called allreduce #(\d+) and is waited for by ranks 0 2 in "
                                    r"allreduce #\1 of communicator world, for .*; its last: allreduce #\d+, done"))
                ranks = worlds(seen)
                for rank in (0, 2):
                    last = ranks[rank]["operations"][-1]
                    self.assertTrue(last["device"] and last["collective"] == "allreduce" and last["count"] == 1000
                                    and last["bytes"] == 4000)
                    self.assertEqual((last["type"], last["op"], last["root"], last["end_ns"]),
                                     ("uint32", "sum", None, None))
                    self.assertEqual(ranks[1]["operations"][-1]["seq"] + 1, last["seq"])
                waiting = job.see(lambda seen: all(worlds(seen)[rank]["operations"][-1]["state"] == "running"
                                                   for rank in (0, 2)))
                self.assertTrue(blames("behind", 1)(waiting))
                job.end()

    def test_gpu_that_does_not_come(self):
        with Job("busy") as job:
            seen = job.see(lambda seen: blames("still", 2)(seen) and "is waited for by ranks 0 1" in text_of(seen))
            self.assertIn("whose GPU has not been seen to come to allreduce #", text_of(seen))
            states = [worlds(seen)[rank]["operations"][-1]["state"] for rank in range(3)]
            self.assertEqual(states, ["running", "running", "issued"])
            job.end()

    def test_message_that_is_not_sent(self):
        with Job("unsent") as job:
            seen = job.see(says("behind", 1, "is waited for by rank 0 in recv #1"))
            last = worlds(seen)[0]["operations"][-1]
            self.assertEqual((last["root"], last["sends_to"], last["receives_from"]), (1, [], [1]))
            job.end()

    def test_signal_that_is_not_sent(self):
        def waits(seen):
            operations = worlds(seen)[0]["operations"] if 0 in worlds(seen) else []
            return [op for op in operations if op["collective"] == "wait_signal"]

        with Job("unsignalled") as job:
            last, = waits(job.see(waits))
            self.assertEqual((last["root"], last["sends_to"], last["receives_from"]), (1, [], [1]))
            self.assertIsNone(last["end_ns"])
            job.end()

    def test_ring_that_is_open(self):
        ways = ({"TUTTI_COPY_FROM": "0"},
                {"TUTTI_CTA_POLICY": "zero", "TUTTI_COPY_STAGE": "64K"})
        for way, settings in zip(("exchange", "copy"), ways):
            with Job("ring", **settings) as job:
                right = says("behind", 2, r"is waited for by ranks? (0|0 1) in group #1 of communicator world")
                seen = job.see(lambda seen: right(seen) and worlds(seen)[0]["operations"][-1]["algorithm"])
                last = worlds(seen)[0]["operations"][-1]
                self.assertEqual((last["sends_to"], last["receives_from"], last["algorithm"]), ([1], [2], way))
                self.assertIn("sends to 1, receives from 2", job.trace())
                job.end()

    def test_rank_that_is_killed(self):
        with Job("late") as job:
            seen = job.see(blames("behind", 1))
            pids = {comm["rank"]: process["pid"] for process in seen["processes"] for comm in process["communicators"]}
            # the others give up soon, and then nobody waits for it any more
            for pid in (job.ranks.pid, pids[0], pids[2]):
                os.kill(pid, signal.SIGSTOP)
            os.kill(pids[1], signal.SIGKILL)
            job.see(lambda seen: ("dead", 1) in [(one["kind"], one["rank"]) for one in seen["verdict"]])

    def test_rank_that_gives_up(self):
        with Job("abort") as job:
            job.see(says("behind", 1,
                         r"is waited for by ranks 0 2 in allreduce #\d+ .*; its last: allreduce #\d+, done"))
            job.say("go")
            job.see(lambda seen: all(comm["state"] == "failed"
                                     and comm["culprit"] == 1 and comm["operations"][-1]["state"] == "failed"
                                     for rank, comm in worlds(seen).items() if rank != 1))
            job.say("end")
            job.end()


class Life(unittest.TestCase):
    def check_rank(self, comm, way, device, host):
        self.assertEqual(comm["memory"]["device"]["bytes"], device)
        self.assertEqual(comm["memory"]["pinned"]["bytes"] + comm["memory"]["host"]["bytes"], host)
        self.assertEqual(sum(comm["memory"]["device"]["for"].values()), device)
        self.assertEqual(comm["captured"], 2)
        last = comm["operations"][-1]
        self.assertEqual((last["collective"], last["state"]), ("barrier", "done"))
        self.assertGreater(last["gpu_begin_ns"], 0)
        self.assertLess(last["gpu_end_ns"] - last["gpu_begin_ns"], 3600 * 10**9)
        self.assertEqual([op["state"] for op in comm["operations"][-3:-1]], ["captured"] * 2)
        self.assertTrue(all(op["state"] == "done" and op["device"] for op in comm["operations"][:-3]
                            if op["collective"] == "allreduce"))
        self.assertEqual(comm["operations"][-4]["algorithm"], way)
        numbers = [op["seq"] for op in comm["operations"]]
        self.assertEqual(numbers, sorted(set(numbers)))

    def check(self, settings, rows, way="lines"):
        with Job("life", **settings) as job:
            told = {}
            while len(told) < 3:
                line = job.ranks.stdout.readline()
                self.assertTrue(line, "the ranks have ended")
                if " memory " in line:
                    rank, device, host = map(int, line.split(" memory ")[1].split())
                    told[rank] = (device, host)
            seen = json.loads(job.trace("--json"))
            self.assertEqual(seen["verdict"], [])
            for rank, comm in worlds(seen).items():
                self.check_rank(comm, way, *told[rank])
                held = {name for place in comm["memory"].values() for name in place["for"]}
                self.assertEqual(held, set(rows))
            text = job.trace()
            self.assertIn("2 calls went into graphs", text)
            self.assertIn("    memory: device ", text)
            job.end()

    def test_devices(self):
        self.check({"TUTTI_COPY_PROCESSES": "0"}, ("window", "bulk", "mailbox", "tables"))

    def test_staging(self):
        self.check({"TUTTI_COPY_PROCESSES": "1", "TUTTI_COPY_STAGE": "64K"},
                   ("window", "staging", "bulk", "mailbox", "tables"))

    def test_host_windows(self):
        self.check({"TUTTI_P2P_DISABLE": "1"}, ("mailbox", "host windows", "tables"), "bulk")


if __name__ == "__main__":
    TUTTI, HANG, DRIVER = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
