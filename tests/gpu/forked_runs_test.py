#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of gpu_tests/forked_runs.py."""
import contextlib
import os
import signal
import sys
import tempfile
import time
import unittest

from gpu_tests import forked_runs
from gpu_parts import run  # gpu_tests says where it is

HERE = os.path.dirname(os.path.abspath(__file__))


class ForkedRuns(unittest.TestCase):
    """Runs that are forked from a process of their own."""

    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        command = [sys.executable, os.path.join(HERE, "forked_runs_job.py")]
        self.parent = forked_runs.Parent(command, dict(os.environ))
        self.addCleanup(self.parent.close)

    def begin(self, name):
        folder = tempfile.mkdtemp(dir=self.temp.name)
        return forked_runs.Forked(self.parent, name, folder, {"COLOUR": "red" + name[:1]})

    def end(self, job):
        until = time.monotonic() + 20
        while job.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        return job.poll()

    def test_ends(self):
        self.assertTrue(self.parent.ready(time.monotonic() + 20))
        jobs = {name: self.begin(name) for name in ("fine", "seven", "raises", "exits", "dies")}
        jobs.update({f"{n} more": self.begin("seven") for n in range(40)})
        ends = {name: self.end(job) for name, job in jobs.items()}
        self.assertEqual([ends[name] for name in ("fine", "seven", "raises", "exits", "dies", "39 more")],
                         [0, 7, 1, 1, -signal.SIGKILL, 7])
        self.assertEqual(jobs["seven"].text(), "seven reds\n")
        self.assertIn("ValueError: no such thing", jobs["raises"].text())
        self.assertIn("a sentence", jobs["exits"].text())

    def test_kill_reaches_grandchildren(self):
        self.assertTrue(self.parent.ready(time.monotonic() + 20))
        job, other = self.begin("hangs"), self.begin("fine")
        self.assertEqual(self.end(other), 0)
        while job.text().count("\n") < 2:
            time.sleep(0.01)
        job.kill()
        self.assertEqual(job.poll(), run.LATE)
        below = int(job.text().split()[-1])
        until = time.monotonic() + 10
        while os.path.exists(f"/proc/{below}") and time.monotonic() < until:
            time.sleep(0.01)
        self.assertFalse(os.path.exists(f"/proc/{below}"))

    def test_it_is_gone(self):
        self.assertTrue(self.parent.ready(time.monotonic() + 20))
        job = self.begin("orphans")
        self.assertEqual(self.end(job), 1)
        job.kill()
        self.assertEqual((job.poll(), self.end(self.begin("fine"))), (1, 1))

    def test_never_ready(self):
        with contextlib.closing(forked_runs.Parent(["sleep", "600"], None)) as loads:
            self.assertFalse(loads.ready(time.monotonic() + 0.1))
        with contextlib.closing(forked_runs.Parent(["true"], None)) as ended:
            self.assertFalse(ended.ready(time.monotonic() + 20))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
