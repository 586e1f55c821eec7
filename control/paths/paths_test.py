#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""paths_test.py PATHS LAB UDPFLOW SOURCE: tutti-paths; with root, over Linux routers that
are set up by what it prints."""
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

PATHS, LAB, UDPFLOW, SOURCE = map(os.path.abspath, sys.argv[1:5])
EXAMPLES = os.path.join(SOURCE, "examples", "fabric")
NAME = f"p{os.getpid()}"
DSCP = 26
FABRIC = f"name: {NAME}\nhosts: 4\nnics: 2\nleaves: 2\nspines: 2\nipv6: false\n"
VENDORS = ("sonic", "cisco", "ruijie", "arista", "linux", "frr")
GOLDEN = os.path.join(SOURCE, "control", "paths", "vendors.golden")
OWNED = os.path.join(EXAMPLES, "owned.yaml")


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

    def written(self, node):
        """The one file that acl wrote for a switch, which goes when the test has read it."""
        found = [name for name in os.listdir(self.folder.name) if name.rpartition(".")[0] == node]
        self.assertEqual(len(found), 1, found)
        path = os.path.join(self.folder.name, found[0])
        kept = os.path.join(self.folder.name, "read")
        os.rename(path, kept)
        return kept

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
        fabric = self.fabric("name: six\nhosts: 2\nnics: 1\nleaves: 2\nspines: 3\nuplinks: 2\nipv6: false\n")
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
            self.paths("acl", fabric, "--vendor", vendor, "--out", self.folder.name)
            with open(self.written("l0"), encoding="utf-8") as file:
                self.assertNotRegex(file.read(), "(?i)dscp")
        one = self.paths("acl", self.file, "--vendor", "cisco", "--node", "s0")
        self.assertEqual(one, "")  # one way down: nothing to do

    def test_counters_are_compared(self):
        def counters(*sent):
            return json.dumps({"links": [{"name": f"l{leaf}.u{u}", "up": {"bytes": n}}
                                         for leaf in (0, 1) for u, n in enumerate(sent)]})
        shares = ("verify", self.file, "--within", "2")
        self.assertIn("planned  50.00%, seen  50.00%", self.paths(*shares, given=counters(1000, 1000)))
        self.paths(*shares, given=counters(1009, 991))
        self.assertIn("DIFFERS", self.paths(*shares, code=1, given=counters(1100, 900)))
        self.paths("verify", self.file, "--within", "11", given=counters(1100, 900))
        self.assertIn("nothing was sent", self.paths("verify", self.file, given=counters(0, 0)))
        self.assertIn("link l0.u1", self.paths("verify", self.file, code=1, given=counters(5)))
        self.assertIn("link l0.u0", self.paths("verify", self.file, code=1, given=counters(-5, 5)))
        for text in ("", "{", "[]", '{"links": 3}', '{"links": [3, {"name": "l0.u0", "up": []}]}'):
            self.paths("verify", self.file, code=1, given=text)

    def test_lanes_that_take_what_they_can_are_healthy(self):
        """By default shares are not judged; that a planned uplink is empty, or another is used, is."""
        def sent(up, down):
            rows = {"swp49": up[0], "swp50": up[1], "swp51": up[2]}
            metric = "node_network_transmit_bytes_total"
            return "".join(f'{metric}{{device="{port}",instance="{leaf}.example.org:9100"}} {n}\n'
                           for leaf, rates in (("rack1", rows), ("rack2", dict(zip(rows, down))))
                           for port, n in rates.items())
        down = sent((5, 5, 5), (5, 5, 5)).replace('{device="swp51",instance="rack1', '{device="gone",instance="rack1')
        self.assertIn("link rack1.u2 (port swp51 of rack1)", self.paths("verify", OWNED, code=1, given=down))
        self.paths("verify", self.owned(("rate: 200gbit", "down: true")), given=down)
        said = self.paths("verify", OWNED, given=sent((4000, 440000, 555000), (5, 5, 5)))
        self.assertIn("rack1.u0    planned  25.00%, seen   0.40%", said)
        self.assertIn("Shares are not judged", said)
        self.assertIn("DIFFERS: planned lanes are missing",
                      self.paths("verify", OWNED, code=1, given=sent((4, 440000, 555000), (5, 5, 5))))
        self.assertIn("no lane is planned here",
                      self.paths("verify", OWNED, "--lanes", "1", code=1, given=sent((5, 5, 5), (5, 5, 5))))

    def test_counters_of_others_are_read(self):
        def verify(files, *words, code=0):
            for name, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(self.folder.name, name)), exist_ok=True)
                with open(os.path.join(self.folder.name, name), "w", encoding="utf-8") as file:
                    file.write(text)
            return self.paths("verify", OWNED, "--lanes", "12", "--within", "0", *words,
                              *(os.path.join(self.folder.name, name) for name in files if name[0] == "a"), code=code)
        ports = ("swp49", "swp50", "swp51")
        exporter = "# HELP x\nup 1\n" + "".join(
            f'node_network_transmit_bytes_total{{device="{port}"}} {n}e+12\n' for port, n in zip(ports, (1, 1, 2)))
        metric = "interfaces_interface_state_counters_out_octets"
        gnmi = "".join(f'{metric}{{source="rack2:57400",interface_name="{port}"}} 7\n' for port in ports)
        quoted = exporter.replace("device", "job=\"a, \\\"b}\",device")
        self.assertIn("rack1.u2    planned  50.00%, seen  50.00%",
                      verify({"a/rack1.prom": quoted, "a/x.prom": gnmi}))
        database = {"COUNTERS_PORT_NAME_MAP": {"type": "hash", "value": {p: f"oid:0x{p}" for p in ports}},
                    **{f"COUNTERS:oid:0x{p}": {"type": "hash", "value": {"SAI_PORT_STAT_IF_OUT_OCTETS": str(n)}}
                       for p, n in zip(ports, (5, 5, 10))}}
        answers = "\n".join(json.dumps({"source": "rack2:57400", "timestamp": 1, "updates": [
            {"Path": f"interfaces/interface[name={port}]/state/counters",
             "values": {"interfaces/interface/state/counters": {"in-octets": "1", "out-octets": f"{2 ** 64 - 1}"}}}]})
            for port in ports)
        self.assertIn("rack1.u2    planned  50.00%, seen  50.00%",
                      verify({"a/rack1.json": json.dumps(database), "a/gnmi.json": answers}))
        events = [{"name": "it", "tags": {"interface_name": port, "source": "rack2"},
                   "values": {"/interfaces/interface/state/counters/out-octets": 7}} for port in ports]
        verify({"a/rack1.json": json.dumps(database), "a/gnmi.json": json.dumps(events)})
        walk = "".join(f"IF-MIB::ifName.{n} = STRING: {port}\nIF-MIB::ifHCOutOctets.{n} = Counter64: 9\n"
                       for n, port in enumerate(ports))
        numbers = "".join(f'iso.3.6.1.2.1.31.1.1.1.1.{n} = STRING: "{port}"\n'
                          f".1.3.6.1.2.1.31.1.1.1.10.{n} = Counter64: {n // 2 * 5 + 5}\n"
                          for n, port in enumerate(ports))
        both = (f"SNMPv2-MIB::sysName.0 = STRING: rack2.example.org\n{walk}"
                f'iso.3.6.1.2.1.1.5.0 = STRING: "rack1"\n{numbers}')
        verify({"a/all.walk": both})
        later = both.replace("64: 9", "64: 1009").replace("64: 5", "64: 5005").replace("64: 10\n", "64: 10010\n")
        verify({"a/all.walk": later, "b/all.walk": both}, "--before", os.path.join(self.folder.name, "b"))
        self.assertIn("link rack1.u0: its counter went back from 5005 to 5 bytes",
                      verify({"a/all.walk": both, "b/all.walk": later}, "--before",
                             os.path.join(self.folder.name, "b"), code=1))
        for text, says in (("IF-MIB::ifHCOutOctets.x = Counter64: 9\n", ":1: the object has no number"),
                           ("\nIF-MIB::ifHCOutOctets.1 = Counter64: -9\n", ":2: the counter has no number of bytes"),
                           ('ifHCOutOctets{ifName="a} 5', ":1: a label has no end"),
                           ("ifHCOutOctets 5", ":1: the counter names no port"),
                           ('ifHCOutOctets{ifName="a"} NaN', ":1: the counter has no number"),
                           ("{} {", ":1: the counters are no JSON"),
                           ('[{"tags": {}, "values": {"out-octets": 5}}]', "tells no interface"),
                           ('{"updates": [{"Path": "interface[name=a]", "values": {"x": {"m:out-octets": "-5"}}}]}',
                            "out-octets of a is no number"),
                           ("\0\1", ":1: there is a zero byte"), ("hello\n", "it has no counters")):
            self.assertIn(says, verify({"a/rack1.prom": text}, code=1), text)

    def owned(self, *changes):
        """The example with other words."""
        with open(OWNED, encoding="utf-8") as file:
            text = file.read()
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new, 1)
        return self.fabric(text)

    def test_what_is_impossible_is_said_with_its_line(self):
        self.assertIn("nothing is impossible", self.paths("check", OWNED))
        self.assertIn("nothing is impossible", self.paths("check", self.file))
        for name in ("pod", "lab8"):
            self.assertIn("nothing is impossible", self.paths("check", os.path.join(EXAMPLES, f"{name}.yaml")))
        self.assertIn("yaml:14: note: leaf rack2: 1 of 4 uplinks are down",
                      self.paths("check", os.path.join(EXAMPLES, "unequal.yaml")))
        for line, old, new, says in (
                (13, "port: swp50", "port: swp49", "port swp49 of rack1 is used on line 12 already"),
                (26, "port: swp1, address: 10.82", "port: swp50, address: 10.82",
                 "port swp50 of rack2 is used on line 19"),
                (19, "spine_port: swp4", "spine_port: swp1", "port swp1 of spine1 is used on line 12 already"),
                (31, "10.82.0.12", "10.81.0.12", "address 10.81.0.12 is used on line 30 already"),
                (12, "192.168.81.1}", "192.168.81.0}", "next_hop 192.168.81.0 is the leaf's own address"),
                (12, "192.168.81.1}", "192.168.81.9}",
                 "next_hop 192.168.81.9 is not in the network of 192.168.81.0/31"),
                (13, "81.2/31, next_hop: 192.168.81.3", "81.2/24, next_hop: 192.168.81.1", "is that of line 12, too"),
                (18, "port: swp49, spine_port: swp3", "spine_port: swp3", "is known on one link alone"),
                (13, ", next_hop: 192.168.81.3", "", "no next_hop for IPv4, but the uplink on line 14 has one"),
                (9, "ranges: 16 ", "ranges: 2  ",
                 "leaf rack1: 3 uplinks need as many ranges of ports, and the switch holds 2"),
                (31, "mlx5_1, leaf: rack2, port: swp2", "mlx5_0, leaf: rack2, port: swp2",
                 "node02 has two NICs with the name mlx5_0"),
                (9, "rate: 200gbit", "rate: 99999mbit", "its uplinks that are up need 299999 shares"),
                (18, "vendor: linux", "vendor: sonic", "the leaf's end has no IPv4 address but a link-local one"),
                (18, "vendor: linux", "vendor: cisco", "cisco switches take no link-local next hop"),
                (25, "port: swp1, address: 10.81", "address: 10.81",
                 "the port of rack1 where node01's mlx5_0 is has no name"),
                (9, "    prefixes: [10.81.0.0/16]\n", "", "what is behind it is not told"),
                (12, "spine_port: swp1, address: 192.168.81.0", "address: 192.168.81.0",
                 "the port of spine1 has no name"),
                (7, "next_hop: 192.168.81.1", "vrf: v, next_hop: 192.168.81.1", "3 of its 4 links have no vrf"),
        ):
            said = self.paths("check", self.owned((old, new)), code=1)
            self.assertRegex(said, rf"\.yaml:{line}: [^\n]*" + re.escape(says), (old, new))
        two, other = "{spine: spine2, port: swp51, spine_port: swp", "{spine: spine1, port: swp51, spine_port: swp2"
        apart = self.owned(*[("{spine: spine1", "{spine: spine2")] * 2, (f"{two}1", f"{two}9"), (f"{two}2", other))
        said = self.paths("check", apart, code=1)
        self.assertIn(":15: leaf rack2: there is no way to leaf rack1", said)
        down = self.paths("check", self.owned(*[("fe80::1\"}", "fe80::1\", down: true}")] * 3), code=1)
        self.assertIn(":15: leaf rack2: 2 NICs are at it, and none of its uplinks is up", down)

        alike = self.owned(("- name: rack2", "- name: spine2"), *[("leaf: rack2", "leaf: spine2")] * 2)
        self.assertIn("a leaf and a spine have the name spine2", self.paths("acl", alike, code=1))

    def test_rates_and_counts_of_uplinks_are_planned(self):
        said = self.paths("plan", OWNED)
        self.assertIn("node02   TUTTI_IB_LANES=4 TUTTI_PATHS=4:1,3:1", said)
        self.assertRegex(said, r"rack1\.u2 0xE000-0xFFFF +4 +50\.00%  swp51")
        self.assertIn("rack1: 2 NICs x 4 lanes cover 3 uplinks, all alike", said)
        lanes = re.findall(r"^(\S+) +\S+ +(rack\d) +\d+ +\d+ +0x\w+ +(\d+) +(\S+)$", said, re.M)
        self.assertEqual(len(lanes), 16)
        self.paths("acl", OWNED, "--out", self.folder.name)
        rules = {}
        for leaf in ("rack1", "rack2"):
            with open(self.written(leaf), encoding="utf-8") as file:
                rules[leaf] = re.findall(r"udp sport (\d+)-(\d+) udp dport 4791 meta mark set 71(\d\d)", file.read())
        for nic, leaf, port, uplink in lanes:  # what the process does, what the switch does, and what the plan says
            marks = {int(mark) for first, last, mark in rules[leaf] if int(first) <= int(port) <= int(last)}
            self.assertEqual(marks, {int(uplink.rpartition("u")[2])}, (nic, port))
        down = self.paths("plan", self.owned(("rate: 200gbit", "down: true")))
        self.assertRegex(down, r"rack1\.u2 +is down")
        self.assertIn("node01   TUTTI_IB_LANES=4 TUTTI_PATHS=2:0,3:0", down)

    def test_bonded_nics_are_half_at_each_leaf(self):
        said = self.paths("plan", os.path.join(EXAMPLES, "unequal.yaml"))
        self.assertRegex(said, r"rack1-left\.u0 +0xC000-0xCFFF +2 +25\.00%")
        self.assertRegex(said, r"rack1-right\.u2 +0xE000-0xFFFF +4 +50\.00%")

    def test_both_families_and_removal(self):
        dual = "name: dual\nhosts: 2\nnics: 1\nleaves: 2\nspines: 1\nuplinks: 2\n"
        fabric = self.fabric(dual)
        for vendor in VENDORS:
            leaf = self.paths("acl", fabric, "--vendor", vendor, "--node", "l0")
            self.assertEqual(len(re.findall(r"\b49152[- ]57343\b", leaf)), 2, vendor)
            self.assertIn("fd20:0:1::1", leaf)
            gone = self.paths("acl", fabric, "--vendor", vendor, "--node", "l0", "--remove")
            self.assertNotIn("49152", gone)
            for name in set(re.findall(r"\btutti6?-u\d\b|TUTTI6?\|U\d|fwmark \d+", leaf)):
                self.assertIn(name, gone, vendor)
            spine = self.paths("acl", fabric, "--vendor", vendor, "--node", "s0")
            gone = self.paths("acl", fabric, "--vendor", vendor, "--node", "s0", "--remove")
            for address in ("fd20:1:1::", "172.16.1.2"):
                self.assertIn(address, spine, vendor)
                self.assertIn(address, gone, vendor)
            self.assertIn("tutti-1", gone)

    def test_lines_of_vendors_are_as_they_were(self):
        """No parser of these grammars is at hand: a line that changes is seen, and read by somebody."""
        fabric = self.fabric("name: dual\nhosts: 2\nnics: 1\nleaves: 2\nspines: 1\nuplinks: 2\n")
        with open(GOLDEN, encoding="utf-8") as file:
            kept = file.read()
        said = kept.partition("==== ")[0]
        for vendor in ("sonic", "cisco", "ruijie", "arista"):
            for node, *remove in (("l0",), ("s0",), ("l0", "--remove"), ("s0", "--remove")):
                words = ("--node", node, *remove)
                said += f"==== {vendor} {' '.join(words)}\n" + self.paths("acl", fabric, "--vendor", vendor, *words)
        if os.environ.get("TUTTI_TEST_GOLDEN") == "write":
            with open(GOLDEN, "w", encoding="utf-8") as file:
                file.write(said)
        self.assertEqual(said, kept)

    @unittest.skipUnless(importlib.util.find_spec("ciscoconfparse2"), "needs ciscoconfparse2 of PyPI")
    def test_blocks_speak_of_what_is_there(self):
        """ciscoconfparse2 knows blocks and their lines, and no grammar of these lines. Each block has lines; each name
        of a list, a class, a map or a VRF is that of a block; removal takes each of these away."""
        from ciscoconfparse2 import CiscoConfParse
        fabric = self.fabric("name: dual\nhosts: 2\nnics: 1\nleaves: 2\nspines: 1\nuplinks: 2\n")
        made = re.compile(r"^(?:ip(?:v6)? access-list(?: extended)?|class-map type pbr match-any|policy-map type pbr|"
                          r"route-map|vrf context|vrf instance|(?:no )?ip vrf) (\S+)")
        told = re.compile(r"(?:match ip(?:v6)? (?:address|access-group)|class|policy route-map|pbr input|vrf member|"
                          r"vrf forwarding|^ vrf(?! member| forwarding)|route vrf) (\S+)")
        for vendor, syntax in (("cisco", "nxos"), ("ruijie", "ios"), ("arista", "ios")):
            for node in ("l0", "s0"):
                both = [self.paths("acl", fabric, "--vendor", vendor, "--node", node, *more).splitlines()
                        for more in ((), ("--remove",))]
                blocks = [[(one.text, [line.text for line in one.all_children])
                           for one in CiscoConfParse(lines, syntax=syntax).find_objects(r"^\S")] for lines in both]
                names = {found[1] for head, _ in blocks[0] if (found := made.match(head))}
                used = {found[1] for head, lines in blocks[0] for line in (head, *lines)
                        if (found := told.search(line))}
                self.assertEqual(sum(1 + len(lines) for _, lines in blocks[0]), len(both[0]), "lines outside of blocks")
                self.assertTrue(names and names == used, (vendor, node, names ^ used))
                gone = {name for head, _ in blocks[1] if head.startswith("no ")
                        for name in head.split() if name in names}
                self.assertEqual(gone, names, (vendor, node))
                empty = [head for head, lines in blocks[0] if not lines and
                         re.match(r"interface|route-map|ip(v6)? access-list|class-map|policy-map", head)]
                self.assertEqual(empty, [], vendor)

    def test_a_refused_fabric_writes_no_file(self):
        folder = os.path.join(self.folder.name, "rules")
        self.paths("acl", self.owned(("    prefixes: [10.82.0.0/16]\n", "")), "--out", folder, code=1)
        self.assertEqual(os.listdir(folder), [])
        self.assertEqual(sorted(self.paths("acl", OWNED, "--out", folder).split()),
                         ["rack1.sh", "rack2.sh", "spine1.sh"])
        self.assertIn("Not a directory", self.paths("acl", OWNED, "--out", OWNED, code=1))
        self.assertIn("making the folder", self.paths("acl", OWNED, "--out", "/no/where", code=1))

    @unittest.skipUnless(shutil.which("vtysh"), "needs FRR's vtysh")
    def test_frr_takes_its_lines(self):
        """vtysh -C parses a configuration, and needs no daemon."""
        lab = self.fabric("name: dual\nhosts: 2\nnics: 1\nleaves: 2\nspines: 1\nuplinks: 2\n")
        for remove in ((), ("--remove",)):
            said = self.paths("acl", lab, "--vendor", "frr", *remove)
            blocks = re.findall(r"<<'END'\nconfigure terminal\n(.*?)end\nEND\n", said, re.S)
            self.assertEqual(len(blocks), 2 + 8)
            path = os.path.join(self.folder.name, "frr.conf")
            for text, code in (("".join(blocks), 0), (blocks[0].replace("table", "tabel"), 2)):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                done = subprocess.run(["vtysh", "-C", "-f", path], capture_output=True, text=True, timeout=20)
                self.assertEqual(done.returncode, code, done.stdout + done.stderr + text)

    def test_leaves_without_hosts_need_no_lanes(self):
        said = self.paths("plan", self.fabric("name: bare\nhosts: 2\nnics: 1\nleaves: 4\nspines: 2\n"), "--lanes", "2")
        self.assertIn("l1: no NICs\n", said)

    def test_more_lanes_than_links_have(self):
        self.assertNotIn("are more than", self.paths("plan", self.file, "--lanes", "32"))
        said = self.paths("plan", self.file, "--lanes", "33")
        self.assertIn("2 NICs x 33 lanes of a host are more than the 64", said)

    def test_options_may_stand_before_the_file(self):
        self.assertEqual(self.paths("plan", "--lanes", "2", self.file), self.paths("plan", self.file, "--lanes", "2"))
        self.assertIn("tutti paths plan FILE", self.paths("plan", "--help"))

    def test_wrong_use_is_named(self):
        self.assertIn("check, plan, acl, verify or import?", self.paths("fly", self.file, code=2))
        self.assertIn("which FILE?", self.paths("plan", "--lanes", "2", code=2))
        said = self.paths("acl", self.file, "--vendor", "cisko", code=2)
        self.assertEqual(said.count("sonic"), 1, said)  # once, in one sentence
        self.assertIn("sonic, cisco", self.paths("acl", self.file, "--vendor", "cisko", code=2))
        self.assertIn("a leaf", self.paths("acl", self.file, "--vendor", "cisco", "--node", "h0", code=2))
        self.assertIn("whose switch is l0?", self.paths("acl", self.file, code=1))
        said = self.paths("acl", self.file, "--vendor", "sonic", code=1)
        self.assertIn("2 switches have a document of JSON each", said)
        for words in ((), ("plan",), ("plan", self.file, "--lanes", "0"), ("plan", self.file, "--lanes", "4x"),
                      ("verify", self.file, "--before", "."), ("draw", self.file),
                      ("acl", self.file, "--vendor", "linux", "--dscp", "64"),
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
        sinks = []
        for host, nic in ((host, nic) for host in (2, 3) for nic in (0, 1)):
            packets = 50 * sum(row[0] == f"h{host - 2}.n{nic}" for row in lanes)
            words = ("sink", addresses[f"h{host}.n{nic}"], "4791", str(packets), "10000")
            if packets:
                sinks.append(subprocess.Popen([LAB, "run", "-n", NAME, f"h{host}", "--", UDPFLOW, *words],
                                              stdout=subprocess.PIPE, text=True))
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
        judge = ("verify", self.file, "--lanes", "2", "--within", "2")
        self.assertIn("planned  50.00%", self.paths(*judge, given=counters))
        # Ports of one share alone: everything takes one uplink, and is seen to.
        self.lab("counters", "-n", NAME, "--zero")
        self.send([row for row in self.lanes(2) if row[3] == "l0.u1"])
        counters = self.lab("counters", "-n", NAME, "--json")
        self.assertIn("seen 100.00% DIFFERS", self.paths(*judge, code=1, given=counters))


def commands_of_the_page():
    """The block of docs/operate/paths.md that leads from a fabric to a verified plan."""
    with open(os.path.join(SOURCE, "docs", "operate", "paths.md"), encoding="utf-8") as file:
        block = file.read().partition("## From a fabric to a verified plan")[2].partition("\n## ")[0]
    return [line.strip() for line in block.splitlines() if line.startswith("    ")]


@unittest.skipUnless(may_make_a_lab(), "needs root, network namespaces, iproute2 and nftables")
class Owned(Paths):
    """examples/fabric/owned.yaml as namespaces: routers by ECMP, until they are told what acl prints."""

    def inside(self, node, *words, **more):
        done = subprocess.run(["ip", "netns", "exec", NAME + node, *words], capture_output=True, text=True, timeout=30,
                              **more)
        self.assertEqual(done.returncode, 0, (node, words, done.stdout, done.stderr))
        return done.stdout

    def batch(self, lines, *options):
        done = subprocess.run(["ip", *options, "-batch", "-"], input="\n".join(lines), capture_output=True, text=True,
                              timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)

    def make(self):
        with open(OWNED, encoding="utf-8") as file:
            text = file.read()
        leaf, host, self.nics, links, nodes = None, None, {}, [], {}
        for line in re.sub("#.*", "", text).splitlines():
            name = re.search(r"- name: (\S+)", line)
            if name:
                leaf = host = name[1]
            word = dict((key, value.strip('"')) for key, value in re.findall(r"(\w+): ([^,}]+)", line))
            if "next_hop" in word:
                links.append((leaf, word["port"], word["spine"], word["spine_port"]))
                own, far = nodes.setdefault(leaf, []), nodes.setdefault(word["spine"], [])
                local = word["next_hop"].startswith("fe80")
                bits, via = ("/64 nodad", "via inet6") if local else ("", "via")
                own.append(f"addr add {word['address']}{bits} dev {word['port']}")
                far.append(f"addr add {word['next_hop']}{bits or '/31'} dev {word['spine_port']}")
                own.append(f"route append 0.0.0.0/0 {via} {word['next_hop']} dev {word['port']}")
                far.append(f"route append 10.{leaf.replace('rack', '8')}.0.0/16 {via} "
                           f"{word['address'].partition('/')[0]} dev {word['spine_port']}")
            elif word.get("leaf"):
                nic = f"{host}{word['name']}"
                self.nics[f"{host}.{word['name']}"] = nic, word["address"]
                links.append((word["leaf"], word["port"], nic, "nic"))
                nodes.setdefault(word["leaf"], []).append(f"route add {word['address']} dev {word['port']}")
                nodes[nic] = [f"addr add {word['address']}/32 dev nic", 
                              f"route add default via 10.8{word['leaf'][-1]}.0.1 dev nic onlink"]
        self.addCleanup(self.batch, [f"netns del {NAME}{node}" for node in nodes])
        self.batch([f"netns add {NAME}{node}" for node in nodes])
        for node in nodes:
            self.inside(node, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1",
                        "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0",
                        "net.ipv4.conf.all.ignore_routes_with_linkdown=0")
        self.batch([f"link add {port} netns {NAME}{node} type veth peer name {far_port} netns {NAME}{far}"
                    for node, port, far, far_port in links])
        for node, lines in nodes.items():
            ports = [end[at + 1] for end in links for at in (0, 2) if end[at] == node]
            more = [f"addr add 10.8{node[-1]}.0.1/32 dev lo"] if node.startswith("rack") else []
            self.batch(["link set lo up", *(f"link set {port} up" for port in ports), *more, *lines], "-n", NAME + node)

    def send(self, rows):
        """50 packets of each lane, from the NICs of one leaf to the other host's NIC at the other leaf."""
        to = {nic: f"{'node02' if nic.startswith('node01') else 'node01'}.mlx5_{1 - int(nic[-1])}" for nic in self.nics}
        wanted = {nic: 50 * sum(to[row_nic] == nic for row_nic, _ in rows) for nic in self.nics}
        sinks = [subprocess.Popen(["ip", "netns", "exec", NAME + self.nics[nic][0], UDPFLOW, "sink",
                                   self.nics[nic][1], "4791", str(packets), "10000"], stdout=subprocess.PIPE, text=True)
                 for nic, packets in wanted.items() if packets]
        for sink in sinks:
            self.assertEqual(sink.stdout.readline().strip(), "ready")
        for nic, (name, address) in self.nics.items():
            ports = [port for row_nic, port in rows if row_nic == nic]
            self.inside(name, "sh", "-ec", "\n".join(
                f"{UDPFLOW} send {address} {self.nics[to[nic]][1]} 4791 {port} {port} 50 1000 0" for port in ports))
        heard = sum(int(re.findall(r"\d+", sink.communicate(timeout=30)[0])[0]) for sink in sinks)
        self.assertEqual(heard, 50 * len(rows))

    def tool(self, name, text):
        path = os.path.join(self.folder.name, "bin", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)

    def test_the_page_leads_to_a_verified_plan(self):
        self.make()
        self.tool("tutti", f'shift; exec {PATHS} "$@"')
        # What an exporter of the switch would say, from the kernel's counters.
        self.tool("curl", f"""leaf=$(echo "$2" | sed 's,http://,,; s,:.*,,')
ip netns exec {NAME}$leaf sh -c 'cd /sys/class/net; for port in swp*; do
echo "node_network_transmit_bytes_total{{device=\\"$port\\"}} $(cat $port/statistics/tx_bytes)"; done'""")
        # Not all kernels have virtual routers: without them a spine chooses the way down by a hash.
        routers = subprocess.run(["ip", "netns", "exec", f"{NAME}spine1", "ip", "link", "add", "vrf0", "type", "vrf",
                                  "table", "99"], capture_output=True).returncode == 0
        path = f"{self.folder.name}/bin:{os.environ['PATH']}"
        for command in commands_of_the_page():
            words, _, remark = command.partition("  #")
            where = remark.strip().partition("on ")[2]
            at = ["ip", "netns", "exec", NAME + where] if where else []
            if where.startswith("spine") and not routers:
                continue
            if command.startswith("#"):
                with open(os.path.join(self.folder.name, "plan.txt"), encoding="utf-8") as file:
                    self.rows = re.findall(r"^(node\S+) +\S+ +rack\d +\d+ +\d+ +0x\w+ +(\d+) ", file.read(), re.M)
                self.assertEqual(len(self.rows), 4 * 12)
                self.send(self.rows)
                continue
            done = subprocess.run([*at, "bash", "-ec", words], cwd=self.folder.name, capture_output=True, text=True,
                                  timeout=30, env={**os.environ, "PATH": path, "OWNED": OWNED})
            self.assertEqual(done.returncode, 0, (command, done.stdout, done.stderr))
            if "verify" in command:
                self.assertEqual(done.stdout.count("planned"), 6, done.stdout)
                # A next hop that is down: the lanes of that uplink take another one.
                self.inside("spine1", "ip", "link", "set", "swp1", "down")
                deadline = time.monotonic() + 20
                while "linkdown" not in self.inside("rack1", "ip", "route", "show", "table", "7100"):
                    self.assertLess(time.monotonic(), deadline)
                self.send([row for row in self.rows if row[1] == "49152" and row[0].endswith("mlx5_0")])
                self.inside("spine1", "ip", "link", "set", "swp1", "up")
        for leaf in ("rack1", "rack2"):
            self.assertNotIn("fwmark", self.inside(leaf, "ip", "rule") + self.inside(leaf, "ip", "-6", "rule"))
            self.assertNotIn("tutti", self.inside(leaf, "nft", "list", "tables"))
        self.assertNotIn("tutti", self.inside("spine1", "ip", "link"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
