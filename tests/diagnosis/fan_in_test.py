#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Agents that report through other agents: leaves a and b beside a real job, to "row", to "hall", to the master.

    fan_in_test.py TUTTI FAULTY
"""
import http.client
import json
import os
import signal
import subprocess
import time
import unittest

from hosts import TOKEN, TUTTI, HostsTest
from reports import bundle, report

LONG = 150  # seconds until what must happen has happened


class FanInTest(HostsTest):
    def setUp(self):
        super().setUp()
        for host in ("row", "hall"):
            os.mkdir(self.path(host))

    def relay(self, host, to, port=None):
        port = port or self.hold_port()
        relay = self.start(TUTTI, "agent", "--master", to, "--token", self.token, "--host", host,
                           "--dir", self.path(host), "--listen", f"127.0.0.1:{port}")
        relay.url, relay.port = relay.wait(r"Agents report to (\S+)").group(1), port
        return relay

    def leaf(self, host, to):
        return self.start(TUTTI, "agent", "--master", to, "--token", self.token, "--host", host,
                          "--dir", self.path(host))

    def levels(self, *options):
        """A job, its master, and three levels of agents."""
        self.start_job()
        self.master = self.start_master("--stuck", "1s", *options)
        self.hall = self.relay("hall", self.url)
        self.row = self.relay("row", self.hall.url)
        self.leaves = [self.leaf(host, self.row.url) for host in "ab"]
        for host in "ab":
            self.master.wait(f"host {host} reports: 2 processes\n", LONG)
        for leaf in self.leaves:
            leaf.wait("Reporting to", LONG)

    def hosts(self):
        return {host["name"]: host for host in json.loads(self.page("/verdicts"))["hosts"]}

    def until(self, what, *arguments):
        end = time.monotonic() + LONG
        while not what(*arguments):
            self.assertLess(time.monotonic(), end, [program.text for program in self.programs])
            time.sleep(0.05)

    def all_heard(self, *names):
        hosts = self.hosts()
        return all(name in hosts and not hosts[name]["silent"] for name in names)

    def post(self, port, page, body):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG)
        connection.request("POST", page, body, {"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, text.decode("latin-1")

    def test_three_levels(self):
        """A death is told at once, all the way, and named as if its agent spoke to the master."""
        self.levels()
        self.until(self.all_heard, "a", "b", "row", "hall")
        hosts = self.hosts()
        self.assertEqual(hosts["b"]["from"], "127.0.0.1 over row hall")
        self.assertEqual(hosts["row"]["from"], "127.0.0.1 over hall")
        self.assertEqual(hosts["hall"]["from"], "127.0.0.1")
        self.assertLess(abs(hosts["b"]["clock_ahead_seconds"]), 30)
        listener = self.start_listener("b")
        self.ranks[0].kill()
        begun = time.monotonic()
        self.master.wait(rf"VERDICT: rank 0 .*process {self.ranks[0].pid}.*, dead.* ended without a word", LONG)
        print(f"a death was named after {time.monotonic() - begun:.2f} s")
        listener.wait(rf"verdict of rank 0, process {self.ranks[0].pid}: verdict \d+: rank 0 ", LONG)
        self.assertTrue(any(name.endswith(".verdicts") for name in os.listdir(self.path("b"))))
        for program in (*self.leaves, self.row, self.hall, self.master):
            self.assertEqual(program.end(), 0, program.text)
            self.assertNotIn("refused", program.text)
        self.assertFalse(any(name.endswith(".verdicts") for name in os.listdir(self.path("b"))))

    def test_parents_come_and_go(self):
        """The agent in the middle goes and comes, then the master; who reports through them is not started again."""
        self.levels()
        self.row.process.kill()
        self.row.process.wait()
        self.leaves[0].wait(r"127.0.0.1:\d+/bundle: ", LONG)
        self.relay("row", self.hall.url, self.row.port)
        self.leaves[0].wait("Reporting again to", LONG)
        self.master.process.kill()
        self.master.process.wait()
        self.hall.wait(r"127.0.0.1:\d+/bundle: ", LONG)
        self.leaves[0].wait(r"the master refuses \(503\): http://127.0.0.1:\d+/bundle: ", LONG)
        self.master = self.start(TUTTI, "master", "--token", self.token, "--listen", f"127.0.0.1:{self.port}",
                                 "--stuck", "1s")
        self.master.wait("Agents report to")
        self.ranks[3].send_signal(signal.SIGSTOP)
        self.until(self.all_heard, "a", "b", "row", "hall")
        self.master.wait(rf"VERDICT: rank 3 .*process {self.ranks[3].pid}.* is stopped", LONG)

    def test_hostile(self):
        """One that floods, makes up hosts, or sends garbage is refused and named at the master; the others stay."""
        self.levels("--stuck", "60s")  # longer than a rank may have no processor
        self.until(self.all_heard, "a", "b", "row", "hall")
        for page, body, status, sentence in (
                ("/report", b"\x12\xffgarbage", 400, "no report"), ("/bundle", b"\x12\xffgarbage", 400, "no bundle"),
                ("/bundle", b"", 400, "a bundle of version 0, want 1"),
                ("/bundle", bundle([b"garbage"]), 200, "no report"),
                ("/bundle", bundle([report("x")], ["a b"]), 400, "over one without a name"),
                ("/bundle", bundle([report("x")], ["r"] * 9), 400, "do agents report in a circle"),
                ("/bundle", bundle([report("x")], ["r"] * 8), 200, "agents report in a circle"),
                ("/bundle", bundle([b""] * 1025), 400, "a bundle of more than 1024 reports"),
                ("/report", report("a"), 409,
                 "another agent calls its host a, and reports from 127.0.0.1 over row hall")):
            answer = self.post(self.row.port, page, body)
            self.assertEqual(answer[0], status, answer)
            self.assertIn(sentence, answer[1])
        self.until(lambda: self.post(self.row.port, "/report", report("ghost")) == (200, "taken\n"))
        _, text = self.post(self.row.port, "/bundle",
                            bundle(report("flood", number % 100 + 1) for number in range(1000)))
        self.assertIn("more than 20 reports of host flood in a second", text)
        invented = bundle(report(f"invented{number}") for number in range(1024))
        self.until(lambda: "127.0.0.1 has named 1024 hosts, and host invented1023 is one too many"
                   in self.post(self.row.port, "/bundle", invented)[1])
        self.until(lambda: "refused" in self.page("/"))
        self.assertRegex(self.page("/"), r"\nLatest refusal: the agent at 127.0.0.1 says: (the agent at 127.0.0.1 "
                         r"says: )?127.0.0.1 was refused, \d+ times so far: ")
        self.until(self.all_heard, "a", "b", "row", "hall")
        self.assertNotIn(" hang: ", self.master.text)
        status, text = http_get(self.row.port)
        self.assertEqual((status, text), (404, "There is nothing to read here: ask the master\n"))

    def test_circle(self):
        """Agents that report to one another hear so, and nothing hangs."""
        circle = self.relay("row", "http://127.0.0.1:1")
        port = circle.port
        circle.end()
        circle = self.relay("row", f"http://127.0.0.1:{port}", port)
        circle.wait("agents report in a circle: what host row tells has come to host row before", LONG)
        self.assertEqual(circle.end(), 0)

    def test_wrong_options(self):
        for options, code, sentence in (
                (("--listen", "127.0.0.1:0", "--once"), 2, "do not go together"), (("--key", "x"), 2, "go together"),
                (("--listen", "0.0.0.0:0"), 1, "would travel in the clear"), (("--listen", "nonsense"), 1, "--listen"),
                (("--listen", "127.0.0.1:0", "--certificate", "/nonexistent", "--key", "x"), 1, "reading /nonexistent"),
                (("--listen", "192.0.2.1:9", "--plain"), 1, "cannot serve at 192.0.2.1:9")):
            done = subprocess.run([TUTTI, "agent", "--master", "http://127.0.0.1:1", "--token", self.token,
                                   "--host", "x", *options], capture_output=True, text=True, timeout=LONG)
            self.assertEqual(done.returncode, code, (options, done))
            self.assertIn(sentence, done.stderr)


def http_get(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG)
    connection.request("GET", "/", headers={"Authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


if __name__ == "__main__":
    unittest.main(verbosity=2)
