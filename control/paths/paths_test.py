#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""paths_test.py PATHS LAB UDPFLOW: tutti-paths; with root, over the lab's Linux routers, set up by what it prints."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

PATHS, LAB, UDPFLOW = sys.argv[1:4]
NAME = f"p{os.getpid()}"
DSCP = 26
FABRIC = f"name: {NAME}\nhosts: 4\nnics: 2\nleaves: 2\nspines: 2\nipv6: false\n"
VENDORS = ("sonic", "cisco", "ruijie", "arista", "linux")


class Paths(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = self.fabric(FABRIC)

    def fabric(self, text):
        path = os.path.join(self.folder.name, f"{len(text)}.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def paths(self, *words, code=0, given=""):
        done = subprocess.run([PATHS, *words], input=given, capture_output=True, text=True, timeout=20)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def lanes(self, lanes):
        """(NIC, address, port, uplink) of each lane."""
        rows = re.findall(r"^(h\S+) +(\S+) +l\d+ +\d+ +\d+ +0x\w+ +(\d+) +(\S+)$",
                          self.paths("plan", self.file, "--lanes", str(lanes)), re.M)
        self.assertEqual(len(rows), 8 * lanes)
        return rows


class Planned(Paths):
    def test_ports_lie_in_the_ranges_of_their_uplinks(self):
        lines = json.loads(self.paths("acl", self.file, "--vendor", "sonic", "--node", "l1"))["ACL_RULE"]
        ranges = {f"l1.u{name[-1]}": [int(n) for n in rule["L4_SRC_PORT_RANGE"].split("-")]
                                          for name, rule in lines.items()}
        for nic, _, port, uplink in self.lanes(3):
            if uplink.startswith("l1"):
                self.assertTrue(ranges[uplink][0] <= int(port) <= ranges[uplink][1], (nic, port, uplink))

    def test_processes_are_told_what_the_plan_says(self):
        said = self.paths("plan", self.file, "--lanes", "2")
        told = re.findall(r"^h(\d) +TUTTI_IB_LANES=2 TUTTI_PATHS=2:(\d+),(\d+)$", said, re.M)
        rows = re.findall(r"^h(\d)\.n(\d) +\S+ +l\d+ +(\d+) +0 ", said, re.M)
        self.assertEqual(len(told), 4)
        self.assertEqual({(host, str(nic)): number for host, *numbers in told for nic, number in enumerate(numbers)},
                         {(host, nic): number for host, nic, number in rows})

    def test_too_few_lanes_are_said(self):
        said = self.paths(
    "plan",
    self.fabric("name: few\nhosts: 2\nnics: 1\nleaves: 2\nspines: 8\n"),
    "--lanes",
    "2",
     code=1)
        self.assertIn("l0: 1 NICs x 2 lanes do not cover 8 uplinks", said)

    def test_uneven_lanes_are_said(self):
        said = self.paths("plan", self.fabric("name: odd\nhosts: 2\nnics: 1\nleaves: 2\nspines: 2\n"), "--lanes", "3")
        self.assertIn("l0: 1 NICs x 3 lanes cover 2 uplinks, unevenly: 1 to 2 lanes", said)
        self.assertIn("66.67%", said)

    def test_every_vendor_says_all_ranges_and_next_hops(self):
        fabric = self.fabric("name: six\nhosts: 2\nnics: 1\nleaves: 2\nspines: 3\nuplinks: 2\n")
        for vendor in VENDORS:
            leaf = self.paths("acl", fabric, "--vendor", vendor, "--dscp", "26", "--node", "l0")
            for first, last in ((49152, 51881), (51882, 54612), (54613, 57343),
                                (57344, 60073), (60074, 62804), (62805, 65535)):
                self.assertRegex(leaf, rf"\b{first}[- ]{last}\b", vendor)
            for number in range(6):
                self.assertRegex(leaf, rf"\b172\.16\.0\.{2 * number + 1}\b", vendor)
            self.assertIn("4791", leaf)
            self.assertEqual(len(re.findall(r"(?i)dscp\W+26", leaf)), 6, vendor)
            spine = self.paths("acl", fabric, "--vendor", vendor, "--node", "s1")
            for port in ("l0u2", "l0u3", "l1u2", "l1u3"):
                self.assertRegex(spine, rf"\b{port}\b", vendor)
            self.assertNotRegex(self.paths("acl", fabric, "--vendor", vendor), "(?i)dscp")
        self.assertEqual(
    self.paths(
        "acl",
        self.file,
        "--vendor",
        "cisco",
        "--node",
        "s0"),
         "")  # one way down: nothing to do

    def test_counters_are_compared(self):
        def counters(*sent):
            return json.dumps({"links": [{"name": f"l{leaf}.u{u}", "up": {"bytes": n}}
                                         for leaf in (0, 1) for u, n in enumerate(sent)]})
        self.assertIn("planned  50.00%, seen  50.00%", self.paths("verify", self.file, given=counters(1000, 1000)))
        self.paths("verify", self.file, given=counters(1009, 991))
        self.assertIn("DIFFERS", self.paths("verify", self.file, code=1, given=counters(1100, 900)))
        self.paths("verify", self.file, "--within", "11", given=counters(1100, 900))
        self.assertIn("nothing was sent", self.paths("verify", self.file, given=counters(0, 0)))
        self.assertIn("link l0.u1", self.paths("verify", self.file, code=1, given=counters(5)))
        self.assertIn("link l0.u0", self.paths("verify", self.file, code=1, given=counters(-5, 5)))
        for text in ("", "{", "[]", '{"links": 3}', '{"links": [3, {"name": "l0.u0", "up": []}]}'):
            self.paths("verify", self.file, code=1, given=text)

    def test_leaves_without_hosts_need_no_lanes(self):
        said = self.paths("plan", self.fabric("name: bare\nhosts: 2\nnics: 1\nleaves: 4\nspines: 2\n"), "--lanes", "2")
        self.assertIn("l1: no NICs\n", said)

    def test_more_lanes_than_links_have(self):
        self.assertNotIn("are more than", self.paths("plan", self.file, "--lanes", "4"))
        self.assertIn("2 NICs x 5 lanes of a host are more than the 8", self.paths("plan", self.file, "--lanes", "5"))

    def test_options_may_stand_before_the_file(self):
        self.assertEqual(self.paths("plan", "--lanes", "2", self.file), self.paths("plan", self.file, "--lanes", "2"))
        self.assertIn("Usage: tutti paths plan FILE", self.paths("plan", "--help"))

    def test_wrong_use_is_named(self):
        self.assertIn("plan, acl or verify?", self.paths("fly", self.file, code=2))
        self.assertIn("which FILE?", self.paths("plan", "--lanes", "2", code=2))
        said = self.paths("acl", self.file, "--vendor", "cisko", code=2)
        self.assertEqual(said.count("sonic"), 1, said)  # once, in one sentence
        self.assertIn("sonic, cisco", self.paths("acl", self.file, "--vendor", "cisko", code=2))
        self.assertIn("a leaf", self.paths("acl", self.file, "--vendor", "cisco", "--node", "h0", code=2))
        for words in ((), ("plan",), ("plan", self.file, "--lanes", "0"), ("plan", self.file, "--lanes", "4x"),
                      ("acl", self.file), ("acl", self.file, "--vendor", "linux", "--dscp", "64"), ("draw", self.file),
                      ("plan", self.file, "more"), ("verify", self.file, "--within", "-1")):
            self.paths(*words, code=2)
        self.assertIn("no-such", self.paths("plan", "/no-such.yaml", code=1))
        self.assertIn("tutti help paths", self.paths("plan", self.file, "--lanes", "0", code=2))
        self.assertIn("Did you mean --lanes?", self.paths("plan", self.file, "--lane5", "2", code=2))
        self.assertIn('Did you mean "cisco"?', self.paths("acl", self.file, "--vendor", "cisko", code=2))
        self.assertIn("--within PERCENT", self.paths("--help"))


def may_make_a_lab():
    return os.geteuid() == 0 and all(
        subprocess.run(["unshare", "-mn", "sh", "-c", words], capture_output=True).returncode == 0
        for words in ("ip -V",
                      "nft add table ip x && nft 'add rule ip x y meta mark set 1' || nft list tables | grep -q x"))


@unittest.skipUnless(may_make_a_lab(), "needs root, network namespaces, iproute2 and nftables")
class Steered(Paths):
    def lab(self, *words, **more):
        done = subprocess.run([LAB, *words], capture_output=True, text=True, timeout=60, **more)
        self.assertEqual(done.returncode, 0, (words, done.stdout, done.stderr))
        return done.stdout

    def node(self, node, *words):
        return self.lab("run", "-n", NAME, node, "--", *words)

    def send(self, lanes):
        """From the NICs of leaf l0 to those of l1: 50 packets of 1000 bytes for each lane."""
        addresses = {nic: address for nic, address, _, _ in self.lanes(1)}
        sinks = [subprocess.Popen([LAB, "run", "-n", NAME, f"h{host}",
                                   "--", UDPFLOW, "sink", addresses[f"h{host}.n{nic}"], "4791", "1000000", "1000"],
                                  stdout=subprocess.PIPE, text=True) for host in (2, 3) for nic in (0, 1)]
        for sink in sinks:
            self.assertEqual(sink.stdout.readline().strip(), "ready")
        for nic, address, port, _ in lanes:
            host, number = nic[1:].split(".n")
            if int(host) < 2:
                self.node(f"h{host}", UDPFLOW, "send", address, addresses[f"h{int(host) + 2}.n{number}"], "4791", port,
                          port, "50", "1000", str(DSCP << 2))
        heard = sum(int(re.findall(r"\d+", sink.communicate(timeout=20)[0])[0]) for sink in sinks)
        self.assertEqual(heard, 50 * sum(int(nic[1]) < 2 for nic, *_ in lanes))

    def test_linux_routers_follow_the_plan(self):
        self.addCleanup(subprocess.run, [LAB, "down", NAME], capture_output=True)
        self.lab("up", self.file)
        for leaf in ("l0", "l1"):
            self.node(leaf, "sh", "-ec",
                      self.paths("acl", self.file, "--vendor", "linux", "--dscp", str(DSCP), "--node", leaf))
        self.lab("counters", "-n", NAME, "--zero")
        self.send(self.lanes(2))
        counters = self.lab("counters", "-n", NAME, "--json")
        self.assertIn("planned  50.00%", self.paths("verify", self.file, "--lanes", "2", given=counters))
        # Ports of one share alone: everything takes one uplink, and is seen to.
        self.lab("counters", "-n", NAME, "--zero")
        self.send([row for row in self.lanes(2) if row[3] == "l0.u1"])
        counters = self.lab("counters", "-n", NAME, "--json")
        self.assertIn("seen 100.00% DIFFERS", self.paths("verify", self.file, "--lanes", "2", code=1, given=counters))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
