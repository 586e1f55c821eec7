#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two ranks in networks of their own with two links between them, of which one loses its carrier: traffic goes on over
the other at once, long before probes would tell, and over both when it is back. Usage: ports_test.py TUTTI"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from links import Other, await_traffic, run_alone

TUTTI = sys.argv[1]
PATIENCE = 60
AT_ONCE = 30  # seconds; probes begin after a minute
SOME = 1 << 20  # bytes: where processors are what is short, one link may get nearly all
SETTINGS = {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": "10.83.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "ports",
            "TUTTI_TRANSPORT": "tcp", "TUTTI_SOCKET_IFNAME": "tp", "TUTTI_PROBE_AFTER": "60s",
            "TUTTI_LANE_SILENCE": "60s",
            "TUTTI_RECONNECT": "10ms", "TUTTI_TIMEOUT": "200s", "TUTTI_DEBUG": "info"}


def rank(number, inside, log):
    env = {**os.environ, **SETTINGS, "RANK": str(number), "TUTTI_HOSTID": f"host{number}"}
    return subprocess.Popen([*inside, TUTTI, "perf", "allreduce", "-b", "4M", "-e", "4M", "-n", "100000000", "-c", "0"],
                            env=env, stdout=subprocess.DEVNULL, stderr=log)


def main():
    ranks, folder = [], tempfile.mkdtemp(prefix="tutti-ports-")
    try:
        with Other(["tp0", "tp1"]) as other, open(f"{folder}/log", "wb") as log:
            ranks = [rank(0, [], log), rank(1, other.inside, log)]
            await_traffic(ranks, ["tp0", "tp1"], SOME, PATIENCE)
            for link in range(2):
                other.set(f"tp{link}", "down")
                await_traffic(ranks, [f"tp{1 - link}"], 64 << 20, AT_ONCE)
                other.set(f"tp{link}", "up")
                await_traffic(ranks, ["tp0", "tp1"], SOME, PATIENCE)
        with open(f"{folder}/log", encoding="utf-8") as log:
            assert (len(re.findall("network interface tp[01] is down", log.read())) >= 2
                    ), "nothing is said of the interface"
    except AssertionError:
        with open(f"{folder}/log", encoding="utf-8") as log:
            print(log.read()[-8000:], file=sys.stderr)
        raise
    finally:
        for one in ranks:
            one.kill()
            one.wait()
        shutil.rmtree(folder)


run_alone(main, "links that lose their carrier were")
