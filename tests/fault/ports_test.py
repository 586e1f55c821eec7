#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two ranks in networks of their own with two links between them, of which one loses its carrier: traffic goes on over the other
at once, long before probes would tell, and over both when it is back. Usage: ports_test.py TUTTI"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

TUTTI = sys.argv[1]
INSIDE = "PORTS_TEST_INSIDE"
PATIENCE = 60
AT_ONCE = 10  # seconds; probes begin after a minute
SETTINGS = {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "10.83.0.1", "MASTER_PORT": "29500",
            "TORCHELASTIC_RUN_ID": "ports", "TUTTI_TRANSPORT": "tcp", "TUTTI_SOCKET_IFNAME": "tp", "TUTTI_PROBE_AFTER": "60s",
            "TUTTI_RECONNECT": "10ms", "TUTTI_TIMEOUT": "200s", "TUTTI_DEBUG": "info"}


def ip(*words, inside=()):
    subprocess.run([*inside, "ip", *words], check=True)


def have_own():
    tools = all(shutil.which(tool) for tool in ("unshare", "nsenter", "ip"))
    return tools and subprocess.run(["unshare", "-rn", "ip", "link", "add", "tpx", "type", "veth"], check=False,
                                    stderr=subprocess.DEVNULL).returncode == 0


def sent(link):
    with open("/proc/net/dev", encoding="ascii") as lines:
        return next(int(line.split(":")[1].split()[8]) for line in lines if line.strip().startswith(link + ":"))


def await_traffic(ranks, links, size, patience):
    until, end = {link: sent(link) + size for link in links}, time.monotonic() + patience
    while any(sent(link) < until[link] for link in links):
        assert all(one.poll() is None for one in ranks), "a rank gave up"
        assert time.monotonic() < end, f"no traffic on {links}"
        time.sleep(0.01)


def rank(number, inside, log):
    env = {**os.environ, **SETTINGS, "RANK": str(number), "TUTTI_HOSTID": f"host{number}"}
    return subprocess.Popen([*inside, TUTTI, "perf", "allreduce", "-b", "4M", "-e", "4M", "-n", "100000000", "-c", "0"], env=env,
                            stdout=subprocess.DEVNULL, stderr=log)


def wire(other):
    """Two links from here to the network of process `other`."""
    there = ["nsenter", "-t", str(other), "-n"]
    ip("link", "set", "lo", "up")
    for link in range(2):
        ip("link", "add", f"tp{link}", "type", "veth", "peer", "name", f"tq{link}")
        ip("link", "set", f"tq{link}", "netns", str(other))
        ip("link", "set", f"tq{link}", "name", f"tp{link}", inside=there)
        ip("address", "add", f"10.83.{link}.1/24", "dev", f"tp{link}")
        ip("address", "add", f"10.83.{link}.2/24", "dev", f"tp{link}", inside=there)
        ip("link", "set", f"tp{link}", "up")
        ip("link", "set", f"tp{link}", "up", inside=there)
    return there


def main():
    ranks, folder = [], tempfile.mkdtemp(prefix="tutti-ports-")
    other = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec sleep 300"], stdout=subprocess.PIPE)
    try:
        other.stdout.readline()
        there = wire(other.pid)
        with open(f"{folder}/log", "wb") as log:
            ranks = [rank(0, [], log), rank(1, there, log)]
        await_traffic(ranks, ["tp0", "tp1"], 16 << 20, PATIENCE)
        for link in range(2):
            ip("link", "set", f"tp{link}", "down", inside=there)
            await_traffic(ranks, [f"tp{1 - link}"], 64 << 20, AT_ONCE)
            ip("link", "set", f"tp{link}", "up", inside=there)
            await_traffic(ranks, ["tp0", "tp1"], 16 << 20, PATIENCE)
        with open(f"{folder}/log", encoding="utf-8") as log:
            assert len(re.findall("network interface tp[01] is down", log.read())) >= 2, "nothing is said of the interface"
    finally:
        for one in [*ranks, other]:
            one.kill()
            one.wait()
        shutil.rmtree(folder)


if INSIDE in os.environ:
    main()
elif not have_own():
    print("SKIPPED: links that lose their carrier were NOT tested: no network of our own to be had here")
    sys.exit(77)
else:
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", "-rn", sys.executable, *sys.argv])
