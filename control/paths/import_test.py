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
NO_EXPAT = "built without expat" in subprocess.run(
    [PATHS, "import", os.path.join(EXAMPLES, "sonic", "leaf1.xml")], capture_output=True, text=True, timeout=20,
    check=False).stderr


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

    def leaf_alone(self):
        with open(os.path.join(EXAMPLES, "sonic", "leaf1.json"), encoding="utf-8") as file:
            whole = json.load(file)
        return self.write("alone.json", {key: whole[key] for key in ("DEVICE_METADATA", "PORT")})

    def test_neighbours_of_hosts_are_imported(self):
        def at(leaf, value, kind="ifname", **more):
            return {"chassis": {leaf: {"id": {"type": "mac", "value": "aa:bb"}}},
                    "port": {"id": {"type": kind, "value": value}, **more}}
        write, sample = self.write, os.path.join(EXAMPLES, "lldp", "node01.json")
        one = write("node02.json", {"lldp": {"interface": {"eth0": at("leaf1", "aa:bb", "mac", descr="Ethernet8")}}})
        said = self.paths("import", sample, one)
        self.assertIn('{"name": "eth1", "leaf": "leaf2", "port": "Ethernet4"}', said)
        self.assertIn('{"name": "eth0", "leaf": "leaf1", "port": "Ethernet8"}', said)
        # SONiC tells its alias of a port as the local name, others a number.
        for value, shown in (("etp14", "Ethernet52"), ("516", "Ethernet9")):
            local = {"eth0": at("leaf1", value, "local", descr="Ethernet9")}
            sonic = write("node04.json", {"lldp": {"interface": local}})
            self.assertIn(f'{{"name": "eth0", "leaf": "leaf1", "port": "{shown}"',
                          self.paths("import", sonic, self.leaf_alone()))
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
        # Sessions of hosts in the VLAN, and an alias of two ports, which is none, change nothing.
        more = json.loads(json.dumps(whole))
        for host in ("10.91.0.11", "10.91.0.12"):
            more["BGP_NEIGHBOR"][host] = {"local_addr": "10.91.0.1"}
        more["PORT"]["Ethernet4"]["alias"] = "etp1"
        self.assertEqual(said, self.paths("import", self.write("it.json", more), spine))
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

    @unittest.skipIf(NO_EXPAT, "this build has no expat")
    def test_minigraphs_of_sonic_give_the_fabric_of_their_configuration(self):
        folder = os.path.join(EXAMPLES, "sonic")
        ports, graph, leaf, spine = (os.path.join(folder, name)
                                     for name in ("port_config.ini", "leaf1.xml", "leaf1.json", "spine2.json"))
        with open(graph, encoding="utf-8") as file:
            text = file.read()
        said = self.paths("import", ports, graph, spine)
        with open(leaf, encoding="utf-8") as file:
            config = json.load(file)
        # A switch makes its configuration of the minigraph, and leaves the names of others' ports as they are there.
        for port, far in (("Ethernet48", "etp1"), ("Ethernet52", "etp1"), ("Ethernet56", "etp2")):
            config["DEVICE_NEIGHBOR"][port]["port"] = far
        made = self.write("leaf1.json", config)
        self.assertEqual(said, self.paths("import", made, spine))
        self.assertEqual(sorted(said), sorted(self.paths("import", spine, ports, graph, made)))
        self.assertEqual(said.replace('"etp1"', '"Ethernet0"'), self.paths("import", leaf, spine))
        with open(spine, encoding="utf-8") as file:
            above = json.load(file)
        above["DEVICE_NEIGHBOR"] = {"Ethernet0": {"name": "leaf1", "port": "etp14"},
                                    "Ethernet4": {"name": "leaf1", "port": "etp15"}}
        self.assertEqual(said, self.paths("import", made, self.write("spine2.json", above)))
        self.assertEqual(said, self.paths("import", ports, graph, self.write("spine2.json", above)))
        self.assertEqual(said.count('"spine"'), 2)  # a link whose ports have two names each is one
        self.assertIn("nothing is impossible", self.paths("check", self.write("imported.yaml", said)))
        # Names in the file itself need no port_config.ini, nor do ports that have SONiC's names there.
        inside = text.replace("<Speed>100000", "<SonicName>Ethernet0</SonicName><Speed>100000", 1)
        for number in (2, 13, 14, 15):
            inside = inside.replace(f">etp{number}<", f">Ethernet{4 * number - 4}<")
        inside = inside.replace("etp14;etp15", "Ethernet52;Ethernet56")
        self.assertEqual(self.paths("import", self.write("leaf1.xml", inside)), self.paths("import", ports, graph))

    @unittest.skipIf(NO_EXPAT, "this build has no expat")
    def test_hostile_minigraphs_change_nothing(self):
        folder = os.path.join(EXAMPLES, "sonic")
        ports, graph, spine = (os.path.join(folder, name) for name in ("port_config.ini", "leaf1.xml", "spine2.json"))
        with open(graph, encoding="utf-8") as file:
            text = file.read()
        bomb = '<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c SYSTEM "file:///etc/passwd">]><a>&b;&c;</a>'
        for new, says in (
                (bomb, "it.xml:1: a document type (<!DOCTYPE) is not read"), ("<a>&b;</a>", "undefined entity"),
                ("<a>" * 31, "more than 30 elements in each other"),
                ("<a>" + "<b/>" * 100000 + "</a>", "more than 100000 elements"),
                (text[:text.index("<PngDec>")], "no element found"), ("<a/><a/>", "junk after"),
                ("<a>" * 30 + "</a>" * 30, "DeviceMiniGraph is missing"), ("<a:/>", "DeviceMiniGraph is missing"),
                ("<DeviceMiniGraph/>", "the Hostname of the switch is missing"),
                ("<a b='1' b='2'/>", "duplicate attribute"),
                ("\ufeff<a></b>", "it.xml:1: mismatched tag")):
            said = self.paths("import", spine, ports, self.write("it.xml", new), code=1)
            self.assertIn(says, said)
            self.assertNotIn("hosts:\n", said)
        for old, new, says in (
                (">leaf1<", ">l\u00e9<", '"l??" cannot be the name of a device'),
                (">leaf1<", ">&#10;hosts: []<", '"hosts: []" cannot be the name of a device'),
                (">etp2<", ">etp3<", '"etp3" is no name that SONiC gives to a port'),
                ("etp1;etp2", "&#7;", "reference to invalid character number"),
                (">etp2</EndPort>", ">etp1</EndPort>", '"Ethernet0" stands there twice, each time with another name'),
                ("10.91.0.1/24", "10.91.0.1/33", '"10.91.0.1/33" is no address'),
                ("PortChannel1<", "P" * 300 + "<", "P\" cannot be the name of a port"),
                ("ToRRouter", "MgmtToRRouter", "is none of ToRRouter"), ("LeafRouter", "Asic", "several chips"),
                (">leaf1</Hostname>\n  <HwSku>", ">leaf9</Hostname>\n  <HwSku>", "")):
            self.assertIn(old, text)
            said = self.paths("import", ports, self.write("it.xml", text.replace(old, new)), code=1)
            self.assertIn(says, said)
        for new, says in (("# lanes alias\n", "it.ini:1: the headings have no name, or no alias"),
                          ("# name alias\nEthernet0\n", "it.ini:2: it has no name of a port, or no alias"),
                          ("# name alias\nEthernet0 a\nEthernet4 a\n", '"a" stands there twice'),
                          ("#\nEthernet0 a\n", "it.ini:2: it has no name"), ("# \u00e9\n", "it.ini:1: it is no line"),
                          ("#" * 600, "it.ini:1: it is no line"),
                          ("# name alias\nEthernet0 etp9\n", '"etp1" is no name that SONiC gives to a port')):
            self.assertIn(says, self.paths("import", self.write("it.ini", new), graph, code=1))

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
