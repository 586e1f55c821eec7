#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""import_test.py PATHS SOURCE: `tutti paths import` of what other programs know of a network."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

PATHS, SOURCE = map(os.path.abspath, sys.argv[1:3])
EXAMPLES = os.path.join(SOURCE, "examples", "fabric")


class Imports(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tutti-import-")
        self.addCleanup(self.folder.cleanup)

    def paths(self, *words, code=0):
        done = subprocess.run([PATHS, *words], capture_output=True, text=True, timeout=20, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))
        return path

    def test_neighbours_of_hosts_are_imported(self):
        def at(leaf, value, kind="ifname", **more):
            return {"chassis": {leaf: {"id": {"type": "mac", "value": "aa:bb"}}},
                    "port": {"id": {"type": kind, "value": value}, **more}}
        write, sample = self.write, os.path.join(EXAMPLES, "lldp", "node01.json")
        one = write("node02.json", {"lldp": {"interface": {"eth0": at("leaf1", "aa:bb", "mac", descr="Ethernet8")}}})
        said = self.paths("import", sample, one)
        self.assertIn('{"name": "eth1", "leaf": "leaf2", "port": "Ethernet4"}', said)
        self.assertIn('{"name": "eth0", "leaf": "leaf1", "port": "Ethernet8"}', said)
        whole = (said.replace("rate: none", "rate: 1gbit\nspines: [{name: s}]")
                 .replace('- name: "leaf1"', "- name: leaf1\n    uplinks: [{spine: s}]")
                 .replace('- name: "leaf2"', "- name: leaf2\n    uplinks: [{spine: s}]"))
        self.assertIn("node02.eth0", self.paths("plan", write("whole.yaml", whole)))
        with open(sample, encoding="utf-8") as file:
            cut = file.read()[:200]
        for text, says in (
                ("", "it is empty"), (cut, "no JSON"), ("[]", "it is neither"),
                ("\0\1\2", "neither a document of JSON"),
                ("[" * 100000, "no JSON"), ({"lldp": {"interface": 5}}, "it has no neighbours"),
                ({"lldp": {"interface": [{"eth0": 3}]}}, "the switch at an interface tells no name"),
                ({"lldp": {"interface": [{"e 0": at("l", "p")}]}}, '"e 0" cannot be the name of a port'),
                ({"lldp": {"interface": [{"eth0": at("l\"}\nhosts: []", "p")}]}}, "cannot be the name of a device"),
                ({"lldp": {"interface": [{"eth0": at("l", "aa:bb", "mac")}]}}, "tells no name of its port"),
                ({"lldp": {"interface": [{"eth0": at("leaf1", "Ethernet8")}]}},
                 "the far end of leaf1 Ethernet8 is node03 eth0 here, and was node02 eth0 before"),
                ({"lldp": {"interface": [{f"e{n}": at("l", f"p{n}")} for n in range(65)]}}, "more than 64 interfaces"),
                (" " * (5 << 20), "at most 4194304")):
            said = self.paths("import", one, write("node03.json", text), code=1)
            self.assertIn(says, said)
            self.assertNotIn("hosts:\n", said)

    def test_configurations_of_sonic_are_imported(self):
        leaf, spine = (os.path.join(EXAMPLES, "sonic", f"{name}.json") for name in ("leaf1", "spine2"))
        said = self.paths("import", leaf, spine)
        for line in ('prefixes: ["10.91.0.0/24"]',
                     '{"spine": "spine1", "port": "Ethernet48", "spine_port": "Ethernet0", "address": '
                     '["192.168.91.0/31", "fd00:91::/127"], "next_hop": ["192.168.91.1", "fd00:91::1"], "rate": '
                     '"200000mbit"}',
                     '{"spine": "spine2", "port": "PortChannel1", "spine_port": "PortChannel7", "address": '
                     '["192.168.91.2/31", "fd00:91::2/127"], "next_hop": ["192.168.91.3", "fd00:91::3"], '
                     '"vrf": "Vrf2", '
                     '"rate": "400000mbit"}',
                     '{"name": "mlx5_0", "leaf": "leaf1", "port": "Ethernet4", "rate": "100000mbit"}'):
            self.assertIn(f"{line}\n", said)
        self.assertEqual(said.count("spine: ") + said.count('"spine"'), 2)
        alone = self.paths("import", leaf)  # the next hop of a session; the VRF is not known
        self.assertIn('"next_hop": ["192.168.91.3", "fd00:91::3"], "rate": "400000mbit"}', alone)
        fabric = self.write("imported.yaml", said)
        self.assertIn("nothing is impossible", self.paths("check", fabric))
        self.assertIn("TUTTI_PATHS=3:", self.paths("plan", fabric, "--lanes", "6"))  # 1 share, and 2
        with open(leaf, encoding="utf-8") as file:
            whole = json.load(file)
        for key, value, says in (
                ("DEVICE_METADATA", {"localhost": {"type": "ToRRouter"}}, "tells no hostname"),
                ("DEVICE_METADATA", {"localhost": {"hostname": "leaf1", "type": "MgmtToRRouter"}}, "is none of"),
                ("DEVICE_METADATA", {"localhost": {"hostname": "l\n1"}}, '"l?1" cannot be the name of a device'),
                ("DEVICE_METADATA", {"localhost": {"hostname": "spine2", "type": "ToRRouter"}},
                 "the rate of spine2 Ethernet0 is 100000mbit here, and was 200000mbit before"),
                ("DEVICE_NEIGHBOR_METADATA", {"spine2": {"type": "Server"}}, "the kind of spine2 is host here"),
                ("INTERFACE", {"Ethernet48|300.1.1.1/31": {}}, '"300.1.1.1/31" is no address'),
                ("INTERFACE", {"Ethernet48|10.0.0.0/33": {}}, '"10.0.0.0/33" is no address'),
                ("DEVICE_NEIGHBOR", {"Ethernet0": {"name": "node01"}}, '"" cannot be the name of a port'),
                ("DEVICE_NEIGHBOR", {"Ethernet52": {"name": "spine2", "port": "Ethernet4"}},
                 "the far end of leaf1 Ethernet52")):
            self.assertIn(says, self.paths("import", spine, self.write("it.json", {**whole, key: value}), code=1))
        for table in whole:  # tables that are nonsense are none
            said = subprocess.run([PATHS, "import", self.write("it.json", {**whole, table: ["nonsense"]})],
                                  capture_output=True, text=True, timeout=20, check=False)
            self.assertIn(said.returncode, (0, 1), said)

    def test_tables_of_netbox_are_imported(self):
        tables = [os.path.join(EXAMPLES, "netbox", f"{name}.csv")
                  for name in ("cables", "devices", "interfaces", "addresses")]
        said = self.paths("import", *tables)
        self.assertEqual(sorted(said.splitlines()), sorted(self.paths("import", *reversed(tables)).splitlines()))
        for line in ('{"spine": "spine1", "port": "swp49", "spine_port": "swp1", "address": ["192.168.92.0/31"], '
                     '"next_hop": ["192.168.92.1"], "vrf": "plane1", "rate": "200000mbit"}',
                     '{"name": "bond0", "bond": ["rack1", "rack2"], "port": ["swp1", "swp1"], "address": "10.92.0.11", '
                     '"rate": "100000mbit"}', 'prefixes: ["10.92.0.0/24"]',
                     '{"name": "mlx5_0", "leaf": "rack1", "port": "swp2", "address": "10.92.0.12", "rate": '
                     '"100000mbit"}'):
            self.assertIn(f"{line}\n", said)
        self.assertNotIn("oob1", said)
        self.assertNotIn("10.0.0.0", said)
        self.assertIn("nothing is impossible", self.paths("check", self.write("imported.yaml", said)))
        heads = "side_a_device,side_a_name,side_b_device,side_b_name"
        for text, says in (("nonsense\n", "the headings are not those"),
                           ("name,role\nrack1\n", "it.csv:2: it has not as many"),
                           ('name,role\n\n"rack1,Leaf\n', "it.csv:3: it has not as many"),
                           (f"{heads}\nrack1,swp1,node02,mlx5_0\n", "the far end of rack1 swp1 is node02 mlx5_0 here"),
                           ("name,role\nrack1,Spine\n", "the kind of rack1 is spine here, and was leaf before"),
                           ("device,name,speed\nrack1,s p,100000000\n", '"s p" cannot be the name of a port'),
                           ("," * 70, "neither a document of JSON"), ("name,role\na," + "b" * 20000, "not as many")):
            self.assertIn(says, self.paths("import", *tables, self.write("it.csv", text), code=1))
        quoted = self.write("quoted.csv", '\ufeffName,Role\r\n"rack3","a ""leaf"", of\nhall 2"\r\n')
        self.assertIn('- name: "rack3"', self.paths("import", *tables, quoted))
        self.assertIn("no file tells of a leaf", self.paths("import", tables[3], code=1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
