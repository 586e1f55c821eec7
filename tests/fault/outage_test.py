#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The network between two ranks is away for some seconds: traffic goes on. In a network of its own.
Usage: outage_test.py TUTTI"""
import os
import shutil
import subprocess
import sys
import time

TUTTI = sys.argv[1]
INSIDE = "OUTAGE_TEST_INSIDE"
PATIENCE = 120
SETTINGS = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500",
            "TORCHELASTIC_RUN_ID": "outage", "TUTTI_TRANSPORT": "tcp", "TUTTI_SOCKET_IFNAME": "=lo",
            "TUTTI_PROBE_AFTER": "100ms", "TUTTI_PROBE_TIMEOUT": "100ms", "TUTTI_RECONNECT": "10ms",
            "TUTTI_TIMEOUT": "100s"}


def set_network(state):
    subprocess.run(["ip", "link", "set", "lo", state], check=True)


def have_own():
    tools = shutil.which("unshare") and shutil.which("ip")
    return tools and subprocess.run(["unshare", "-rn", "ip", "link", "set", "lo", "up"], check=False).returncode == 0


def received():
    with open("/proc/net/dev", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.split()[0] == "lo:")


def rank(number):
    env = {**os.environ, **SETTINGS, "RANK": str(number), "LOCAL_RANK": str(number)}
    return subprocess.Popen([TUTTI, "perf", "allreduce", "-b", "64K", "-e", "64K", "-n", "100000000"], env=env,
                            stdout=subprocess.DEVNULL)


def await_traffic(ranks, size):
    until, end = received() + size, time.monotonic() + PATIENCE
    while received() < until:
        assert all(one.poll() is None for one in ranks), "a rank gave up"
        assert time.monotonic() < end, "no traffic"
        time.sleep(0.01)


def main():
    set_network("up")
    ranks = [rank(number) for number in range(2)]
    try:
        await_traffic(ranks, 4 << 20)
        set_network("down")
        time.sleep(3)  # long enough for many attempts to connect
        set_network("up")
        await_traffic(ranks, 4 << 20)
    finally:
        for one in ranks:
            one.kill()
            one.wait()


if INSIDE in os.environ:
    main()
elif not have_own():
    print("SKIPPED: outages of the network were NOT tested: no network of our own to be had here")
    sys.exit(77)
else:
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", "-rn", sys.executable, *sys.argv])
