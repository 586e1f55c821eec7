#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two ranks with two RDMA ports each, whose adapters cannot change the source port of what lives, check random
collectives while a path master moves their lanes: lanes are opened anew, each result is right, and no lane counts as
one that died. Usage: rdma_moves_test.py SOAK TUTTI MASTER AGENT. TUTTI_TEST_MOVES: how often (2)."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from links import Other, run_alone
from rdma_job import BOTH, PATIENCE, Job, tell

MOVES = int(os.environ.get("TUTTI_TEST_MOVES", "2"))
LANES = 2  # of each port, and one for messages
UPLINKS, FIRST, SHARE = 4, 0xC000, 0x1000  # ports of each uplink
TOKENS = {"job": "a-token-of-this-job", "noc": "a-token-of-an-operator"}
FABRIC = """name: moves
rate: 100gbit
vendor: linux
ranges: 16
spines: [{{name: s1}}, {{name: s2}}]
leaves:
{leaves}hosts:
{hosts}"""


def fabric():
    leaves, hosts = "", ""
    for side, name in enumerate("ab"):
        leaves += f"  - name: {name}\n    prefixes: [10.83.1.{side + 1}/32, 10.83.2.{side + 1}/32]\n    uplinks:\n"
        for uplink in range(UPLINKS):
            net = f"192.168.{side}.{2 * uplink}"
            leaves += (f"      - {{spine: s{1 + uplink % 2}, port: p{uplink}, spine_port: q{4 * side + uplink}, "
                       f"address: {net}/31, next_hop: 192.168.{side}.{2 * uplink + 1}}}\n")
        hosts += f"  - name: h{name}\n    gpus: 2\n    nics:\n"
        for nic in (1, 2):
            hosts += f"      - {{name: n{nic}, leaf: {name}, port: d{nic}, address: 10.83.{nic}.{side + 1}}}\n"
    return FABRIC.format(leaves=leaves, hosts=hosts)


class Paths:
    """A path master and the agent of both ranks' hosts, which share a machine."""

    def __init__(self, folder):
        self.folder, self.programs, self.url = folder, {}, "127.0.0.1:0"
        tenants = f"job {TOKENS['job']}\nnoc {TOKENS['noc']} operator\n"
        for name, text in {"fabric.yaml": fabric(), "tenants": tenants, **TOKENS}.items():
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write(text)
        self.begin_master()
        self.begin_agent()

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, name, *words):
        self.programs[name] = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        line = self.programs[name].stdout.readline()
        assert line, f"{words[0]} does not start"
        return line

    def begin_master(self):
        said = self.start("master", MASTER, self.path("fabric.yaml"), "--tenants", self.path("tenants"), "--state",
                          self.path("state"), "--listen", self.url)
        self.url = said.split()[3].rstrip(":")[len("http://"):]

    def begin_agent(self):
        self.start("agent", AGENT, "--master", f"http://{self.url}", "--token", self.path("job"), "--socket",
                   self.path("paths"))

    def kill(self, name):
        program = self.programs.pop(name)
        program.kill()
        program.wait()
        program.stdout.close()

    def link(self, uplink, percent):
        subprocess.run([AGENT, "--master", f"http://{self.url}", "--token", self.path("noc"), "--link",
                        f"{uplink}={percent}"], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in list(self.programs):
            self.kill(name)


def ports(side):
    """Of the lanes that are joined at that end."""
    return [int(port) for port in re.findall(r"^qp \S+ \S+ RTS .*? sport (\d+) ", tell(side, "info"), re.M)]


def uplink_of(port):
    return (port - FIRST) // SHARE


def until(job, what, holds):
    end = time.monotonic() + PATIENCE
    while not holds():
        assert all(one.poll() is None for one in job.ranks), "a rank gave up"
        assert time.monotonic() < end, what
        time.sleep(0.05)


def counters(job, folder):
    """{name: sum over the ranks}"""
    done = subprocess.run([TUTTI, "trace", "--json", "--dir", folder], check=True, stdout=subprocess.PIPE, text=True)
    boxes, found = json.loads(done.stdout)["processes"], {}
    for box in (box for box in boxes if box["pid"] in [rank.pid for rank in job.ranks]):
        for name, value in box["counters"].items():
            found[name] = found.get(name, 0) + value
    return found


def settings(paths):
    """Lanes stay where a rank has no processor for a while: packets are given up after 8 s."""
    return {"TUTTI_IB_TIMEOUT": "18", "TUTTI_IB_LANES": str(LANES), "TUTTI_PATH_AGENT": paths.path("paths"),
            "TUTTI_TRACE_DIR": paths.folder,
            "LD_PRELOAD": os.path.join(os.path.dirname(os.environ["TUTTI_IBVERBS_LIBRARY"]), "libmlx5.so.1"),
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0",
            "SOFTVERBS_FAULT": "fixed-source=1"}


def all_up(other):
    return all(len(ports(side)) == LANES * len(BOTH) + 1 and min(ports(side)) >= FIRST for side in ([], other.inside))


def lanes_leave_what_fails(other, paths):
    with Job(other, settings(paths), settings(paths)) as job:
        job.carries(BOTH)
        until(job, "lanes have no ports", lambda: all_up(other))
        for turn in range(MOVES):
            leaf, side = ("a", []) if turn % 2 == 0 else ("b", other.inside)
            bad = uplink_of(ports(side)[0])
            if turn == 1:
                tell([], "fault", "fail-qp=1")  # the first attempt comes to nothing
            paths.link(f"{leaf}.u{bad}", 0)
            if turn == 1:  # in the middle of it
                paths.kill("master")
                paths.begin_master()
            until(job, f"lanes stay at {leaf}.u{bad}",
                  lambda side=side, bad=bad: all_up(other) and bad not in map(uplink_of, ports(side)))
            paths.link(f"{leaf}.u{bad}", 100)
            job.carries(BOTH)
        found = counters(job, paths.folder)
        assert found["lanes_moved"] >= 2 * MOVES, found
        assert found["lanes_down"] == found["lanes_reconnected"] == 0, found
        assert job.end() == [0, 0], "a rank has failed"
        assert job.text().count(" 0 wrong") >= 2
        print(f"{MOVES} uplinks were left by {found['lanes_moved'] // 2} lanes, "
              f"{found['segments_repeated']} segments repeated")


def a_peer_is_killed_meanwhile(other, paths):
    with Job(other, settings(paths), settings(paths)) as job:
        job.carries(BOTH)
        until(job, "lanes have no ports", lambda: all_up(other))
        before = ports(other.inside)
        paths.link(f"b.u{uplink_of(before[0])}", 0)
        until(job, "no lane moves", lambda: sorted(ports(other.inside)) != sorted(before))
        job.ranks[1].send_signal(signal.SIGKILL)
        assert job.ranks[0].wait(PATIENCE) != 0
        assert f"process {job.ranks[1].pid} is gone" in job.text() or "rank 1" in job.text()


def main():
    with Other(["tm0", "tp0", "tp1"], 600) as other, tempfile.TemporaryDirectory(prefix="tutti-moves-") as folder:
        with Paths(folder) as paths:
            lanes_leave_what_fails(other, paths)
            a_peer_is_killed_meanwhile(other, paths)


TUTTI, MASTER, AGENT = (os.path.abspath(path) for path in sys.argv[2:5])
run_alone(main, "That lanes are opened anew was")
