#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The master's history in a real PostgreSQL, which goes away and comes back.

    postgres_test.py TUTTI FAULTY VERDICTS
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from hosts import TUTTI, HostsTest

VERDICTS = sys.argv.pop(1)
WAITING = 4096  # things that may wait for the server: HISTORY_WAITING
LONG = 150  # seconds until what must happen has happened
BIN = (sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb")) + [shutil.which("initdb") or ""])[0]
# The server does not run as root.
NOBODY = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}


class Server:
    """Listens in a folder of its own, and nowhere else."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="tutti-pg-")
        if NOBODY:
            os.chown(self.folder, NOBODY["user"], NOBODY["group"])
        self.data = os.path.join(self.folder, "data")
        self.process = None
        self.run("initdb", "-D", self.data, "-A", "trust", "-U", "tutti", "--no-sync", "-E", "UTF8", "--locale=C")

    def words(self, name, *words):
        return [os.path.join(os.path.dirname(BIN), name), *words]

    def run(self, name, *words):
        done = subprocess.run(self.words(name, *words), cwd=self.folder, capture_output=True, text=True,
                              timeout=LONG, **NOBODY)
        if done.returncode:
            raise AssertionError(done)
        return done.stdout

    def start(self):
        self.process = subprocess.Popen(self.words("postgres", "-D", self.data, "-k", self.folder,
                                                   "-c", "listen_addresses=",
                                                   "-F"),
                                        cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **NOBODY)

    def stop(self):
        if self.process:
            self.process.send_signal(signal.SIGQUIT)  # at once
            self.process.wait(LONG)
        self.process = None

    def ask(self, text):
        end = time.monotonic() + LONG
        while True:
            try:
                return self.ask_once(text)
            except AssertionError:  # it has not started yet
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def ask_once(self, text):
        return self.run("psql", "-h", self.folder, "-U", "tutti", "-d", "postgres", "-At", "-c", text).strip()

    def url(self):
        return f"postgresql:///postgres?user=tutti&password=secret&host={self.folder.replace('/', '%2F')}"

    def close(self):
        self.stop()
        shutil.rmtree(self.folder)


@unittest.skipUnless(BIN, "no PostgreSQL here")
class PostgresTest(HostsTest):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def tearDown(self):
        super().tearDown()
        self.server.stop()

    def until(self, wanted, ask):
        end = time.monotonic() + LONG
        while (got := ask()) != wanted():
            self.assertLess(time.monotonic(), end, (got, wanted(), [program.text for program in self.programs]))
            time.sleep(0.1)

    def said(self):
        """Verdicts that the master has said to begin, and to be over. On a busy host there are more than the test's."""
        return self.master.text.count(" begins\n"), self.master.text.count(" is over, after ")

    def shown(self):
        verdicts = json.loads(self.page("/history"))
        return len(verdicts), sum(verdict["ended"] is not None for verdict in verdicts)

    def kept(self, job="one"):
        rows = self.server.ask(f"SELECT count(*), count(ended) FROM tutti_verdicts WHERE job = '{job}'").split("|")
        return int(rows[0]), int(rows[1])

    def stop_and_go(self, rank):
        self.ranks[rank].send_signal(signal.SIGSTOP)
        number = self.master.wait(rf"verdict (\d+) begins\nVERDICT: rank {rank} ", LONG).group(1)
        self.ranks[rank].send_signal(signal.SIGCONT)
        self.master.wait(rf"verdict {number} is over", LONG)

    def test_comes_and_goes(self):
        """The server is away when the master begins, and once more; nothing is lost, and nothing is there twice."""
        options = ("--stuck", "1s", "--history", self.server.url(), "--job", "one")
        where = f"{self.server.folder}/postgres"
        self.master = self.start_all(*options)
        self.master.wait(f"the history at {where} cannot be written: connection .*; what is new waits\n", LONG)
        self.server.start()
        self.master.wait(rf"the history at {where} is written again: \d+ waited, 0 were lost\n", LONG)
        self.stop_and_go(2)
        self.until(self.said, self.kept)
        self.assertNotEqual(self.server.ask("SELECT 1 FROM tutti_verdicts WHERE rank = 2 AND host = 'b' AND"
                                            f" ended > began AND verdict->>'pid' = '{self.ranks[2].pid}'"), "")
        self.server.stop()
        self.stop_and_go(0)
        self.master.wait(f"(?s)is written again.*the history at {where} cannot be written: .*; what is new waits\n",
                         LONG)
        self.until(self.said, self.shown)
        self.server.start()
        self.master.wait(r"(?s)is written again.*is written again: \d+ waited, 0 were lost\n", LONG)
        self.until(self.said, self.kept)
        self.assertNotIn("secret", self.master.text)
        self.assertEqual(self.master.end(), 0)
        count = self.kept()[0]
        self.server.ask("UPDATE tutti_verdicts SET ended = NULL")
        other = self.start_master("--history", self.server.url(), "--job", "other")
        self.assertEqual(self.shown(), (0, 0))
        self.assertEqual(other.end(), 0)
        self.assertEqual(self.kept(), (count, 0))
        self.start_master(*options)
        self.until(lambda: (count, count), self.shown)  # a new master ends what one before it left
        self.assertEqual(self.kept(), (count, count))

    def test_overflow(self):
        """While the server is away more comes than may wait: the oldest are lost, and counted, the others are kept."""
        most, given = WAITING + 1, WAITING + 904  # the one that is tried waits nowhere
        process = subprocess.Popen([VERDICTS, self.server.url(), str(given)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "given\n")
        self.assertRegex(process.stderr.readline(), "cannot be written: .*; what is new waits\n$")
        self.server.start()
        again = re.search(r"is written again: (\d+) waited, (\d+) were lost\n", process.stderr.readline())
        waited, lost = int(again.group(1)), int(again.group(2))
        self.assertEqual(waited + lost, given)
        self.assertIn(waited, (WAITING, most))
        self.until(lambda: (waited, 0), lambda: self.kept("flood"))
        self.assertEqual(self.server.ask("SELECT count(DISTINCT rank) FROM tutti_verdicts WHERE job = 'flood' AND"
                                         f" rank >= {given - WAITING}"), str(WAITING))
        _, text = process.communicate("", LONG)
        self.assertEqual(process.returncode, 0)
        self.assertRegex(text, f"of what the history at .* was to hold, {lost} are lost\n$")

    def test_wrong(self):
        """What the server will never take is said, and holds up nothing; what is no URL is refused."""
        done = subprocess.run([TUTTI, "master", "--token", self.token, "--listen", "127.0.0.1:0",
                               "--history", "postgresql://[x"],
                              capture_output=True, text=True, timeout=LONG)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "the URL of the history is none: .*\\[x")
        self.server.start()
        self.server.ask("DROP TABLE IF EXISTS tutti_verdicts")
        self.master = self.start_all("--stuck", "1s", "--history", self.server.url())
        self.until(lambda: "tutti_verdicts", lambda: self.server.ask("SELECT to_regclass('tutti_verdicts')"))
        self.server.ask("ALTER TABLE tutti_verdicts ADD CHECK (rank <> 1)")
        self.stop_and_go(1)
        self.master.wait("the history at .* refuses a verdict: .*violates check constraint", LONG)
        self.ranks[3].send_signal(signal.SIGSTOP)
        self.until(lambda: "t", lambda: self.server.ask("SELECT count(*) > 0 FROM tutti_verdicts WHERE rank = 3"))
        self.assertEqual(self.master.end(), 0)
        self.master.wait(r"of what the history at .* was to hold, [1-9]\d* are lost\n", LONG)


if __name__ == "__main__":
    unittest.main(verbosity=2)
