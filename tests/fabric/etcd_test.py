#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two path masters that share three members of etcd: the one that leads is stopped, woken, and killed, while lanes ask.
Usage: etcd_test.py MASTER AGENT SOURCE_ROOT. TUTTI_ETCD_KILLS=50 is the long way (2)."""
import ipaddress
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks"))
from held_port import hold_port  # noqa: E402

MASTER, AGENT, ROOT = map(os.path.abspath, sys.argv[1:4])
KILLS = int(os.environ.get("TUTTI_ETCD_KILLS", "2"))
ASK, ANSWER, ASK_MAGIC = struct.Struct("<II16s16sHHI"), struct.Struct("<IIHH"), 0x31414C54
TOKEN = "a-tenant-of-the-test"
ENDS = [ipaddress.ip_address("::ffff:" + text).packed for text in ("10.81.0.11", "10.82.0.12")]
BATCH, MOST = 8, 64  # lanes that come at a time; that live


class Process:
    """Has lanes by its connection to the agent: {number: port}, as it heard last."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(60)
        self.socket.connect(path)
        self.lanes, self.next, self.longest = {}, 0, 0.0

    def hear(self, wait=False):
        if not wait and not select.select([self.socket], [], [], 0)[0]:
            return False
        _, number, port, _ = ANSWER.unpack(self.socket.recv(64))
        self.lanes[number] = port
        return True

    def ask(self, count):
        """Every lane has an answer: a port, or that there is none now."""
        wanted = set(range(self.next, self.next + count))
        self.next += count
        began = time.monotonic()
        for number in wanted:
            self.socket.send(ASK.pack(ASK_MAGIC, number, *ENDS, 16, 0, 0))
        while not wanted <= set(self.lanes):
            self.hear(wait=True)
        self.longest = max(self.longest, time.monotonic() - began)


@unittest.skipUnless(shutil.which("etcd"), "needs etcd (Debian: etcd-server)")
class Shared(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-etcd-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name, text in (("tenants", f"red {TOKEN}\n"), ("token", TOKEN)):
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write(text)
        self.start_etcd()
        self.urls = [f"127.0.0.1:{port}" for port in self.ports(2)]
        self.masters = [self.start_master(url) for url in self.urls]
        self.one_leads()
        self.start(AGENT, "--master", ",".join(f"http://{url}" for url in self.urls), "--token", self.path("token"),
                   "--socket", self.path("sock"))

    def ports(self, count):
        """Nobody else gets them before the test is over."""
        found = []
        for _ in range(count):
            held, port = hold_port()
            self.addCleanup(held.close)
            found.append(port)
        return found

    def path(self, name):
        return os.path.join(self.folder, name)

    def until(self, holds):
        end = time.monotonic() + 60
        while not holds():
            self.assertLess(time.monotonic(), end, "this never comes")
            time.sleep(0.1)

    def start(self, *words, line=True):
        program = subprocess.Popen(words, stdout=subprocess.PIPE if line else subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, text=True)

        def stop():
            program.kill()
            program.wait()
            if line:
                program.stdout.close()

        self.addCleanup(stop)
        if line:
            program.stdout.readline()
        return program

    def start_etcd(self):
        ports = self.ports(6)
        cluster = ",".join(f"m{i}=http://127.0.0.1:{ports[3 + i]}" for i in range(3))
        for i in range(3):
            client, peer = (f"http://127.0.0.1:{ports[i + k]}" for k in (0, 3))
            self.start("etcd", "--name", f"m{i}", "--data-dir", self.path(f"m{i}"), "--listen-client-urls", client,
                       "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls",
                       peer, "--initial-cluster", cluster, "--log-level", "error", "--unsafe-no-fsync", line=False)
        self.members = "etcd:" + ",".join(f"http://127.0.0.1:{port}" for port in ports[:3])

    def start_master(self, url):
        return self.start(MASTER, os.path.join(ROOT, "examples", "fabric", "owned.yaml"), "--tenants",
                          self.path("tenants"), "--state", self.members, "--listen", url, "--lease", "600s")

    def metric(self, url, name):
        request = urllib.request.Request(f"http://{url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        try:
            with urllib.request.urlopen(request, timeout=0.5) as answer:
                text = answer.read().decode()
        except OSError:
            return None
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"tutti_paths_{name} "))

    def leader(self):
        leading = [i for i, url in enumerate(self.urls) if self.metric(url, "leads") == 1]
        return leading[0] if len(leading) == 1 else None

    def one_leads(self):
        """The one that leads, once exactly one says so."""
        found = []
        self.until(lambda: found.append(self.leader()) or found[-1] is not None)
        return found[-1]

    def settle(self, processes):
        """Each living lane has a port of its own, and the master that leads knows exactly these lanes."""
        def holds():
            for process in processes:
                while process.hear():
                    pass
            leader = self.leader()
            lanes = sum(len(process.lanes) for process in processes)
            return all(all(process.lanes.values()) for process in processes) and leader is not None and self.metric(
                self.urls[leader], "lanes") == lanes
        self.until(holds)
        ports = [port for process in processes for port in process.lanes.values()]
        self.assertEqual(len(ports), len(set(ports)), "a port has two lanes")

    def test_the_leader_goes(self):
        processes = [Process(self.path("sock")) for _ in range(2)]
        for process in processes:
            self.addCleanup(process.socket.close)
            process.ask(BATCH)
        self.settle(processes)
        for kill in range(KILLS):
            leader = self.one_leads()
            known = {number: port for number, port in processes[0].lanes.items()}
            sleeps = kill % 2 == 0
            self.masters[leader].send_signal(signal.SIGSTOP if sleeps else signal.SIGKILL)
            if not sleeps:
                self.masters[leader].wait()
            for process in processes:
                if process.next < MOST:
                    process.ask(BATCH)  # while nobody leads, or the other one begins to
            self.until(lambda gone=leader: self.metric(self.urls[1 - gone], "leads") == 1)
            if sleeps:
                self.masters[leader].send_signal(signal.SIGCONT)
                self.until(lambda gone=leader: self.metric(self.urls[gone], "leads") == 0)
            else:
                self.masters[leader] = self.start_master(self.urls[leader])
            self.settle(processes)
            for number, port in known.items():
                self.assertEqual(processes[0].lanes[number], port, "a lane that lived has another port")
        if KILLS > 2:
            print(f"{KILLS} leaders went; {sum(len(p.lanes) for p in processes)} lanes; the longest answer took "
                  f"{max(p.longest for p in processes):.2f} s", file=sys.stderr)

    def test_one_without_etcd_gives_nothing(self):
        lonely = self.start(MASTER, os.path.join(ROOT, "examples", "fabric", "owned.yaml"), "--tenants",
                            self.path("tenants"), "--state", "etcd:http://127.0.0.1:1", "--listen", "127.0.0.1:0")
        self.assertIsNone(lonely.poll())
        done = subprocess.run([MASTER, os.path.join(ROOT, "examples", "fabric", "owned.yaml"), "--tenants",
                               self.path("tenants"), "--state", "etcd:members"], capture_output=True, text=True,
                              check=False)
        self.assertIn("want members of etcd", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
