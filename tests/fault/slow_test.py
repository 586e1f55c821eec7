#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two ranks with a way of 2 Mbit/s between them, on which a question whether the other lives, and its answer, lie for
longer behind segments than is waited for an answer: no lane is given up, no rank, and the result is right.
Usage: slow_test.py TUTTI"""
import os
import shutil
import subprocess
import sys
import tempfile

from links import Other, run_alone

TUTTI = sys.argv[1]
PATIENCE = 150
SETTINGS = {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": "10.83.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "slow",
            "TUTTI_TRANSPORT": "tcp", "TUTTI_TIMEOUT": "3s", "TUTTI_PROBE_AFTER": "500ms",
            "TUTTI_PROBE_TIMEOUT": "1s", "TUTTI_DEBUG": "info"}


def rank(number, inside, log):
    env = {**os.environ, **SETTINGS, "RANK": str(number), "TUTTI_HOSTID": f"host{number}"}
    return subprocess.Popen([*inside, TUTTI, "perf", "allreduce", "-b", "2M", "-e", "2M", "-n", "1", "-w", "0"],
                            env=env, stdout=log, stderr=log)


def narrow(inside):
    """The queue loses nothing: how soon TCP mends a loss is chance, and may take longer than the patience."""
    subprocess.run([*inside, "tc", "qdisc", "add", "dev", "ts0", "root", "tbf", "rate", "2mbit", "burst", "16k",
                    "limit", "4m"], check=True)


def main():
    ranks, folder = [], tempfile.mkdtemp(prefix="tutti-slow-")
    try:
        with Other(["ts0"]) as other, open(f"{folder}/log", "w+", encoding="utf-8") as log:
            narrow([])
            narrow(other.inside)
            ranks = [rank(0, [], log), rank(1, other.inside, log)]
            ends = [one.wait(PATIENCE) for one in ranks]
            log.seek(0)
            said = log.read()
        assert ends == [0, 0], f"the ranks ended with {ends}:\n{said}"
        assert "Out of bounds values : 0 OK" in said, said
    finally:
        for one in ranks:
            one.kill()
            one.wait()
        shutil.rmtree(folder)


run_alone(main, "a slow way was")
