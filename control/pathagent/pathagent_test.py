#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tutti pathmaster and tutti pathagent, as programs. Usage: pathagent_test.py MASTER AGENT PATHS SOURCE_ROOT"""
import ipaddress
import os
import random
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks"))
from held_port import hold_port  # noqa: E402

ASK, ANSWER = struct.Struct("<II16s16sHHI"), struct.Struct("<IIHH")
ASK_MAGIC, ANSWER_MAGIC, AGAIN = 0x31414C54, 0x31474C54, 2
TOKENS = {"red": "red-token-of-a-tenant", "blue": "blue-token-of-a-tenant 4", "boss": "boss-token-of-a-tenant operator"}
RACK1, RACK2 = ("10.81.0.11", "10.81.0.12"), ("10.82.0.11", "10.82.0.12")


def address(text):
    return ipaddress.ip_address("::ffff:" + text).packed


class Process:
    """A process that asks at the agent's socket."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(30)
        self.socket.connect(path)
        CASE.addCleanup(self.socket.close)

    def ask(self, numbers, ends=(RACK1[0], RACK2[1]), flags=0, port=0):
        """{number: port}"""
        for number in numbers:
            self.socket.send(ASK.pack(ASK_MAGIC, number, address(ends[0]), address(ends[1]), 4, port, flags))
        return self.hear(numbers)

    def hear(self, numbers):
        found = {}
        while not set(numbers) <= set(found):
            magic, number, port, _ = ANSWER.unpack(self.socket.recv(64))
            assert magic == ANSWER_MAGIC
            found[number] = port
        return found


class Programs(unittest.TestCase):
    def setUp(self):
        global CASE
        CASE = self
        folder = tempfile.TemporaryDirectory(prefix="tutti-paths-")
        self.addCleanup(folder.cleanup)
        held, port = hold_port()  # for all masters, one after another
        self.addCleanup(held.close)
        self.folder, self.url = folder.name, f"127.0.0.1:{port}"
        self.write("tenants", "".join(f"{name} {rest}\n" for name, rest in TOKENS.items()))
        self.start_master()

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def start(self, *words):
        program = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

        def stop():
            program.kill()
            program.wait()
            program.stdout.close()

        self.addCleanup(stop)
        return program, program.stdout.readline()

    def start_master(self):
        self.master, said = self.start(MASTER, os.path.join(ROOT, "examples", "fabric", "owned.yaml"), "--tenants",
                                       self.path("tenants"), "--state", self.path("state"), "--lease", "600s",
                                       "--listen", self.url)
        self.url = said.split()[3].rstrip(":")[len("http://"):]

    def start_agent(self, tenant="red"):
        self.write(tenant, TOKENS[tenant].split()[0])
        self.start(AGENT, "--master", f"http://{self.url}", "--token", self.path(tenant), "--socket",
                   self.path(f"{tenant}.sock"))
        return self.path(f"{tenant}.sock")

    def say(self, tenant, *words):
        self.write(tenant, TOKENS[tenant].split()[0])
        return subprocess.run([AGENT, "--master", f"http://{self.url}", "--token", self.path(tenant), *words],
                              capture_output=True, text=True, check=False)

    def get(self, page="", token="red", data=None):
        request = urllib.request.Request(f"http://{self.url}/{page}", data)
        if token:
            request.add_header("Authorization", "Bearer " + TOKENS[token].split()[0])
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    def lanes(self):
        """Rows of the state's file, once the master has been killed."""
        database = sqlite3.connect(self.path("state"))
        rows = database.execute("SELECT owner, number, nic_from, nic_to, uplink, side, port FROM lanes").fetchall()
        database.close()
        return rows

    def kill(self):
        self.master.kill()
        self.master.wait()

    def until(self, wanted):
        """Waits for a page that has this text."""
        while wanted not in self.get()[1]:
            pass

    def test_lanes_spread_and_end_with_their_process(self):
        process = Process(self.start_agent())
        ports = process.ask(range(8))
        self.assertEqual(len(set(ports.values())), 8)
        loads = [float(word.rstrip("%")) for line in self.get()[1].splitlines() if ".u" in line for word in line.split()
                 if word.endswith("%")]
        self.assertEqual(max(loads), 75)  # 25 of 100 Gbit/s three times
        self.assertEqual(process.ask([0]), {0: ports[0]})  # asked twice is given once
        self.assertEqual(process.ask([0], flags=AGAIN, port=ports[1]), {0: ports[0]})  # it failed elsewhere
        self.assertNotEqual(process.ask([0], flags=AGAIN, port=ports[0])[0] // 0x1000, ports[0] // 0x1000)
        self.assertTrue(process.ask([9])[9])
        self.assertEqual(process.ask([9], ("10.81.0.11", "10.1.1.1")), {9: 0})
        self.assertEqual(process.ask([9], (RACK1[0], RACK1[1])), {9: 0})  # at one leaf: any port
        process.socket.close()
        self.until("0 lanes of 1 owners")

    def test_a_kill_at_any_time_leaves_nothing_given_twice(self):
        rng, told, wanted = random.Random(47), {}, 0
        path = self.start_agent()
        process = Process(path)
        for turn in range(4):
            for number in range(wanted, wanted + 40):
                process.socket.send(ASK.pack(ASK_MAGIC, number, address(rng.choice(RACK1)), address(rng.choice(RACK2)),
                                             4, 0, 0))
            if turn % 2:
                self.kill()  # with questions under way
            told.update(process.hear(range(wanted, wanted + 40)))
            wanted += 40
            if not turn % 2:
                self.kill()
            rows = self.lanes()
            self.assertEqual(len(rows), len({(row[0], row[1]) for row in rows}))
            self.assertEqual(len(rows), len({(row[2], row[3], row[6]) for row in rows}))
            self.assertGreaterEqual(len(rows), sum(map(bool, told.values())))  # what a process was told is there
            self.start_master()
            while not process.ask([9999])[9999]:
                pass
        self.assertGreater(sum(map(bool, told.values())), 79)

    def test_a_link_that_fails_is_left_by_all(self):
        process = Process(self.start_agent())
        ports = process.ask(range(6))
        here = [number for number, port in ports.items() if 0xC000 <= port < 0xD000]  # the share of u0
        self.assertTrue(here)
        done = self.say("boss", "--link", "rack1.u0=0")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        moved = process.hear(here)  # unasked
        self.assertTrue(all(port >= 0xD000 for port in moved.values()), moved)
        self.kill()
        self.start_master()  # knows of the fault
        self.assertIn("has 0% of its rate", self.get()[1])

    def test_strangers_and_liars_change_nothing(self):
        process = Process(self.start_agent())
        before = process.ask(range(4))
        for token, page, data, status in (("", "", None, 401), ("red", "report", b"x", 404),
                                          ("red", "paths", b"nonsense", 400), ("red", "paths", b"", 400),
                                          ("red", "paths", b"\x08\x01\x12\x04abcd", 400)):
            self.assertEqual(self.get(page, token, data)[0], status, (page, data and data[:20]))
        self.assertIn("red may not say how links are", self.say("red", "--link", "rack1.u0=0").stderr)
        self.assertIn("has no uplink rack9.u0", self.say("boss", "--link", "rack9.u0=0").stderr)
        other = Process(self.start_agent("blue"))  # another tenant's lanes of the same numbers are others
        self.assertEqual(sum(map(bool, other.ask(range(8)).values())), 4)  # as many as blue may have
        other.socket.send(b"nonsense")
        self.assertEqual(other.socket.recv(64), b"")
        self.assertEqual(process.ask(range(4)), before)

    def test_the_page_runs_as_written(self):
        with open(os.path.join(ROOT, "docs", "operate", "pathmaster.md"), encoding="utf-8") as file:
            part = file.read().split("## From a fabric to allocated lanes")[1].split("\n## ")[0]
        self.kill()
        script = ["set -e", "trap 'kill $(jobs -p)' EXIT"]
        for line in part.splitlines():
            if line.startswith("    ") and not line.strip().startswith("#"):
                script.append(line.strip().replace("127.0.0.1:9799", self.url))
                if "pathmaster" in line:
                    script.append(f"until curl -s http://{self.url}/ >it; do :; done")
                if "paths.sock" in line:
                    script.append("until [ -S paths.sock ]; do :; done")
        self.write("tutti", f'#!/bin/sh\nname=$1; shift\ncase $name in pathmaster) exec {MASTER} "$@";; '
                   f'pathagent) exec {AGENT} "$@";; paths) exec {PATHS} "$@";; esac\n')
        os.chmod(self.path("tutti"), 0o755)
        env = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}",
               "OWNED": os.path.join(ROOT, "examples", "fabric", "owned.yaml")}
        done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=self.folder, env=env, capture_output=True,
                              text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("rack1.u0", done.stdout)
        self.assertIn("rack1.u0 has 100% of its rate", done.stdout)

    def test_what_cannot_begin_says_why(self):
        fabric = os.path.join(ROOT, "examples", "fabric", "owned.yaml")
        self.write("bad", "red short\n")
        for words, said in (((fabric, "--tenants", self.path("bad")), "bad:1: want NAME TOKEN"),
                            ((fabric, "--tenants", self.path("none")), "none"),
                            ((fabric, "--tenants", self.path("tenants"), "--state", self.path("state")), "locked"),
                            ((self.path("tenants"), "--tenants", self.path("tenants")), "tenants")):
            done = subprocess.run([MASTER, *words, "--listen", "127.0.0.1:0"], capture_output=True, text=True,
                                  check=False, cwd=self.folder)
            self.assertEqual(done.returncode, 1, done)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    MASTER, AGENT, PATHS, ROOT = (os.path.abspath(path) for path in sys.argv[1:5])
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
