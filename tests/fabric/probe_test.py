#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Probes of tutti pathagent in a lab: which way they take, the link that fails, hosts and routers that lie or are
silent. Usage: probe_test.py MASTER AGENT LAB"""
import ipaddress
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmarks"))
from held_port import hold_port  # noqa: E402

MASTER, AGENT, LAB = map(os.path.abspath, sys.argv[1:4])
NAME = f"p{os.getpid() & 0xFFFFF:05x}"
LEAVES, SPINES, SILENT, CUT = 3, 4, 1, "l1.u2"
TOKENS = {"red": "red-token-of-a-tenant prober", "blue": "blue-token-of-a-tenant", "boss": "boss-token-of-all operator"}
ASK, ANSWER = struct.Struct("<II16s16sHHI"), struct.Struct("<IIHH")
ASK_MAGIC = 0x31414C54
# Answers to probes that nobody sent, and a router that speaks of a packet that nobody sent.
LIES = """
import os, socket, struct, sys
to, port = sys.argv[1], 4791
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for seq in range(20):
    udp.sendto(struct.pack(">IHH8sIIIIQQ", 0xFF545031, 2, 0xC000, os.urandom(8), seq, seq + 1, 0, 0, 0, 1), (to, port))
icmp = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
quoted = struct.pack(">BBHHHBBH4s4sHHHH", 0x45, 0, 76, 7, 0, 1, 17, 0, socket.inet_aton(to),
                     socket.inet_aton("10.1.1.1"), 0xC000, port, 56, 9)
message = struct.pack(">BBHI", 11, 0, 0, 0) + quoted
total = sum(struct.unpack(f">{len(message) // 2}H", message))
total = (total >> 16) + (total & 0xFFFF)
icmp.sendto(message[:2] + struct.pack(">H", ~(total + (total >> 16)) & 0xFFFF) + message[4:], (to, 0))
"""


def may_make_a_lab():
    return os.geteuid() == 0 and all(map(shutil.which, ("ip", "nft"))) and subprocess.run(
        ["unshare", "-n", "true"], check=False, capture_output=True).returncode == 0


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number, content):
    """A field of a message: bytes, or a number of 64 bits."""
    if isinstance(content, int):
        return varint(number << 3 | 1) + struct.pack("<Q", content)
    return varint(number << 3 | 2) + varint(len(content)) + content


@unittest.skipUnless(may_make_a_lab(), "needs root, network namespaces, iproute2 and nftables")
class Probes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-probes-")
        self.addCleanup(folder.cleanup)
        held, port = hold_port()  # for all masters, one after another
        self.addCleanup(held.close)
        self.folder, self.url = folder.name, f"127.0.0.1:{port}"
        self.write("tenants", "".join(f"{name} {rest}\n" for name, rest in TOKENS.items()))
        for name, rest in TOKENS.items():
            self.write(name, rest.split()[0])
        self.addCleanup(subprocess.run, [LAB, "down", NAME], capture_output=True, check=False)

    def lab_up(self, leaves, spines, ipv6):
        self.write("lab.yaml", f"name: {NAME}\nhosts: {leaves}\nnics: 1\nleaves: {leaves}\nspines: {spines}\n"
                   f"ipv6: {ipv6}\nrate: 10mbit\nlinks:\n  - {{link: 'h*.n*', rate: 40mbit}}\n"
                   "policies:\n  - {leaf: all, dport: 4791, ports: 0xC000-0xFFFF, uplink: split}\n")
        self.lab("up", self.path("lab.yaml"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def lab(self, *words):
        done = subprocess.run([LAB, *words], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def start(self, *words):
        log = open(self.path(f"log{len(os.listdir(self.folder))}"), "w+", encoding="utf-8")
        program = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True)

        def stop():
            program.kill()
            program.wait()
            program.stdout.close()
            log.close()

        self.addCleanup(stop)
        return program, program.stdout.readline(), log.name

    def start_master(self, fabric="lab.yaml"):
        self.master, said, _ = self.start(MASTER, self.path(fabric), "--tenants", self.path("tenants"), "--state",
                                          self.path("state"), "--lease", "600s", "--listen", self.url)
        self.url = said.split()[3].rstrip(":")[len("http://"):]

    def start_agent(self, host, tenant="red", *more):
        """The program, its first line, and the file of what it complains of."""
        return self.start(AGENT, "--master", f"http://{self.url}", "--token", self.path(tenant), "--socket",
                          self.path(f"{tenant}{host}.sock"), "--probe", "50", "--probe-netns",
                          f"/run/netns/{NAME}-h{host}", *more)

    def get(self, page="probes.json", data=None):
        request = urllib.request.Request(f"http://{self.url}/{page}", data)
        request.add_header("Authorization", "Bearer " + TOKENS["red"].split()[0])
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.read().decode(errors="replace")
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.read().decode()

    def until(self, holds):
        """What the catalogue says as soon as it holds; no link but the one that is cut is ever blamed."""
        while True:
            found = json.loads(self.get())
            self.assertLessEqual({fault["uplink"] for fault in found["faults"]}, {CUT}, found["faults"])
            if holds(found):
                return found
            time.sleep(0.05)

    def until_said(self, log, text):
        said = ""
        while text not in said:
            with open(log, encoding="utf-8") as file:
                said = file.read()
            time.sleep(0.05)

    def ports(self, count):
        """Of lanes from h0 to h1."""
        near, far = (ipaddress.ip_address(f"::ffff:10.{leaf}.{leaf}.1").packed for leaf in (0, 1))
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as process:
            process.settimeout(30)
            process.connect(self.path("red0.sock"))
            for number in range(count):
                process.send(ASK.pack(ASK_MAGIC, number, near, far, 4, 0, 0))
            return [ANSWER.unpack(process.recv(64))[2] for _ in range(count)]

    def report(self, **numbers):
        """What the master says to a host that tells of a path which it was not given."""
        probed = field(1, 12345 << 32)
        for number, value in ((2, numbers["judged"]), (3, numbers["lost"])):
            probed += varint(number << 3) + varint(value)
        return self.get("paths", b"\x08\x01" + field(2, b"a" * 16) + field(9, probed))

    def test_probes_over_ipv6(self):
        """The fabric's file tells addresses of IPv6 alone, which the lab has beside those of IPv4."""
        self.lab_up(2, 2, "true")
        address = {row["host"]: row["ipv6"] for row in json.loads(self.lab("hosts", "-n", NAME, "--json"))}
        leaf = ("  - {{name: l{0}, uplinks: [{{spine: s0, port: u0, next_hop: 'fd20:{0}:0::1'}}, "
                "{{spine: s1, port: u1, next_hop: 'fd20:{0}:1::1'}}]}}\n")
        host = "  - {{name: h{0}, gpus: 1, nics: [{{name: n0, leaf: l{0}, address: '{1}'}}]}}\n"
        self.write("six.yaml", "name: six\nrate: 10mbit\nspines:\n  - {name: 's[0-1]'}\nleaves:\n" +
                   leaf.format(0) + leaf.format(1) + "hosts:\n" + host.format(0, address["h0"]) +
                   host.format(1, address["h1"]))
        self.start_master("six.yaml")
        for number in range(2):
            self.start_agent(number)
        found = self.until(lambda now: len(now["paths"]) == 4 and any(path["mbit_s"] for path in now["paths"]) and all(
            path["by"] != "-" and path["probes"] for path in now["paths"]))
        for path in found["paths"]:
            self.assertEqual((path["by"], path["lost"], path["from"]),
                             (f"s{path['up'][-1]}", 0, address[f"h{path['up'][1]}"]), path)

    def bond_up(self):
        """Two hosts of one address each, which both of their ports have: the left one at an even leaf with spines 0
        and 1, the right one with spines 2 and 3. Marks choose the port, as a bond's queues would."""
        self.write("lab.yaml", f"name: {NAME}\nhosts: 2\nnics: 2\nleaves: 4\nspines: 4\nwiring: rail\nrate: 10mbit\n"
                   "links:\n  - {link: 'h*.n*', rate: 40mbit}\n")
        self.lab("up", self.path("lab.yaml"))
        leaves, hosts = "", ""
        for host in range(2):
            far = f"10.250.{1 - host}.1"
            lines = [f"ip address add 10.250.{host}.1/32 dev n0"]
            for side in range(2):
                leaf = 2 * host + side
                lines += [f"ip rule add fwmark {side + 1} lookup {200 + side} priority {200 + side}",
                          f"ip route add default via 10.{leaf}.{host}.{2 * side} dev n{side} table {200 + side}"]
                here = [f"ip route add 10.250.{host}.1/32 via 10.{leaf}.{host}.{2 * side + 1}"]
                leaves += f"  - name: l{leaf}\n    uplinks:\n"
                for place, spine in enumerate((2 * side, 2 * side + 1)):
                    gate, first = f"172.16.{leaf}.{2 * spine + 1}", 0xC000 + 0x2000 * place
                    last = min(first + 0x1FFF, 0xFFFE)  # the kernel takes no more
                    here += [f"ip rule add to 10.250.0.0/16 ipproto udp sport {first}-{last} lookup {50 + place}",
                             f"ip route add {far}/32 via {gate} table {50 + place}"]
                    leaves += (f"      - {{spine: s{spine}, port: u{spine}, address: 172.16.{leaf}.{2 * spine}/31, "
                               f"next_hop: {gate}}}\n")
                    self.run_in(f"s{spine}", f"ip route add 10.250.{host}.1/32 via 172.16.{leaf}.{2 * spine}")
                here.append(f"ip route add {far}/32 via 172.16.{leaf}.{4 * side + 1}")
                self.run_in(f"l{leaf}", *here)
            self.run_in(f"h{host}", *lines)
            hosts += (f"  - {{name: h{host}, gpus: 1, nics: [{{name: bond0, bond: [l{2 * host}, l{2 * host + 1}], "
                      f"address: 10.250.{host}.1}}]}}\n")
        self.write("bond.yaml", "name: bond\nrate: 10mbit\nspines:\n  - {name: 's[0-3]'}\nleaves:\n" + leaves +
                   "hosts:\n" + hosts)

    def run_in(self, node, *lines):
        self.lab("run", "-n", NAME, node, "--", "sh", "-ec", "\n".join(lines))

    def test_both_ports_of_a_bond(self):
        self.bond_up()
        self.run_in("s1", "ip route replace 10.250.1.1/32 via 172.16.3.2")  # from left to right
        self.start_master("bond.yaml")
        for host in range(2):
            self.start_agent(host, "red", "--probe-marks", "1,2")
        sides = {"left": {"l0", "l2"}, "right": {"l1", "l3"}}

        def is_whole(found):
            return len(found["paths"]) == 8 and all(
                path["by"] != "-" and path["probes"] and path["hops"][2]["router"] for path in found["paths"])

        found = self.until(is_whole)
        for path in found["paths"]:
            crosses = path["up"] == "l0.u1"
            self.assertEqual({path["up"].split(".")[0], path["down"].split(".")[0]} - sides[path["side"]], set(), path)
            self.assertEqual((path["lost"], path["crosses"]), (0, crosses), path)
            came = "3" if crosses else path["down"][1]
            self.assertTrue(path["hops"][2]["router"].startswith(f"172.16.{came}."), path)
        said = self.get("probes")
        self.assertIn("h0 right", said)
        self.assertEqual(said.count("CROSSES"), 1)

    def test_probes(self):
        self.lab_up(LEAVES, SPINES, "false")
        self.lab("run", "-n", NAME, f"s{SILENT}", "--", "nft",
                 "add table ip t; add chain ip t out { type filter hook output priority 0; }; add rule ip t out drop")
        self.start_master()
        agents = [self.start_agent(host) for host in range(LEAVES)]
        log = agents[0][2]

        paths = LEAVES * (LEAVES - 1) * SPINES
        self.until(lambda now: now["sweep"])
        found = self.until(lambda now: len(now["paths"]) == paths and any(
            path["mbit_s"] for path in now["paths"]) and all(
                path["by"] != "-" and path["probes"] for path in now["paths"]))
        for path in found["paths"]:
            spine = int(path["up"][-1])
            self.assertEqual(path["by"], "silent" if spine == SILENT else f"s{spine}", path)
            self.assertEqual(path["up"][-2:], path["down"][-2:])
            self.assertEqual(path["lost"], 0, path)
        self.assertIn("l0.u0 > l1.u0", self.get("probes"))

        self.lab("run", "-n", NAME, "h2", "--", sys.executable, "-c", LIES, "10.0.0.1")
        self.until_said(log, "that claim to answer probes fit none that was sent")
        self.until_said(self.start_agent(2, "blue")[2], 'lacks "prober"')
        self.assertIn("cannot be", self.report(judged=3, lost=4))
        self.report(judged=1000, lost=1000)
        self.until(lambda now: now["strange"] >= 1)

        agents[2][0].send_signal(signal.SIGSTOP)  # a host that is late blames nobody
        time.sleep(1)
        agents[2][0].send_signal(signal.SIGCONT)
        self.until_said(agents[2][2], "this host was late")

        self.lab("link", "-n", NAME, "down", CUT, "--silent")
        found = self.until(lambda now: now["faults"])
        self.assertEqual((found["faults"][0]["gets_percent"], found["faults"][0]["kept"]), (0, False))
        cut = range(0xC000 + 0x4000 // SPINES * 2, 0xC000 + 0x4000 // SPINES * 3)
        given = self.ports(12)
        self.assertTrue(all(given) and not set(given) & set(cut), given)

        self.master.kill()
        self.master.wait()
        self.start_master()
        self.assertEqual([fault["uplink"] for fault in json.loads(self.get())["faults"]], [CUT])
        self.until(lambda now: len(now["paths"]) == paths)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
