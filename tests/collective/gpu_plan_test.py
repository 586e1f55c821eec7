#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_plan_test.py TUTTI DRIVER_FOLDER: what the black box shows of a call on GPUs is the plan that tutti schedule
prints. Every way of GPUs runs on the stand-in driver; algorithm, rounds and peers of each rank are compared."""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import unittest

TUTTI = DRIVER = ""
EMULATOR = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))  # of a build for another processor
RANKS, ROOT = 3, 1
DEADLINE = 50  # seconds
# the ranks are of one process: nothing is reduced where it lies
SCRATCH = {"TUTTI_PEER_MOST": "0", "TUTTI_RING_LINES_FROM": "1T"}
WORDS = {"TUTTI_REDUCE_LINES_TO": "0", **SCRATCH}
LINES = {"TUTTI_REDUCE_LINES_FROM": "1", "TUTTI_REDUCE_LINES_TO": "1M", **SCRATCH}
WAYS = [  # way, collectives, bytes, settings, and ranks if these are not RANKS
    ("exchange", "broadcast allgather alltoall alltoallv gather scatter", "3K", {}),
    ("copy", "allgather alltoall gather scatter", "192K", {"TUTTI_COPY_FROM": "1K"}),
    ("one-shot", "allreduce reduce reduce_scatter", "3K", SCRATCH),
    ("two-shot", "allreduce reduce", "384K", WORDS),
    ("lines", "allreduce reduce reduce_scatter", "192K", LINES),
    ("one-shot-lines", "allreduce reduce", "192K", SCRATCH, 2),
    ("bulk", "allreduce reduce reduce_scatter", "1536K", WORDS),
    ("bulk-copy", "allreduce", "1536K", {"TUTTI_GATHER_FROM": "1M", "TUTTI_COPY_FROM": "1K", **WORDS}, 2),
    ("peer-load", "allreduce reduce reduce_scatter", "1536K", {}),
    ("ring", "reduce reduce_scatter broadcast", "1536K", {"TUTTI_RING_FROM": "1", "TUTTI_RING_LINES_TO": "1",
                                                          "TUTTI_CHAIN_FAN": "1", "TUTTI_PEER_MOST": "0"}),
    ("ring-lines", "reduce broadcast", "192K", {}),
    ("ring-copy", "allreduce", "1536K", {"TUTTI_RING_COPY_FROM": "1M", "TUTTI_COPY_FROM": "1K", **SCRATCH}),
    ("fan", "broadcast", "768K", SCRATCH),
    ("chain", "broadcast", "768K", {"TUTTI_CHAIN_FAN": "1", "TUTTI_P2P_DISABLE": "1"}),
    ("copy-chain", "broadcast", "768K", {"TUTTI_CHAIN_COPY_FROM": "512K", "TUTTI_COPY_FROM": "1K"}),
]


def tutti(*words, **settings):
    return subprocess.run([*EMULATOR, TUTTI, *words], env=dict(os.environ, **settings), capture_output=True, text=True,
                          timeout=DEADLINE, check=False).stdout


def chosen(collective, size, settings, ranks):
    """The way that tutti schedule names for the call. Ranks share a process;
    of a reduce-scatter a call's count is that of a block."""
    size = int(size[:-1]) * 1024 // (ranks if collective == "reduce_scatter" else 1)
    where = "host" if "TUTTI_P2P_DISABLE" in settings else "process"
    text = tutti("schedule", collective, "--plan", str(size), "--where", where, "-n", str(ranks), "--quiet", **settings)
    return re.search(r": ([\w-]+)", text).group(1)


def plan(collective, way, rank, ranks):
    """Rounds and peers as printed for a rank."""
    text = tutti("schedule", collective, way, "-n", str(ranks), "--root", str(ROOT), "-r", str(rank))
    rounds = int(re.search(r"(\d+) rounds?,", text).group(1))
    return (rounds, {int(to) for to in re.findall(r" to (\d+)", text)},
            {int(peer) for peer in re.findall(r"recv.*? from (\d+)", text)})


class Plans(unittest.TestCase):
    def shown(self, folder, collective, way, process, ranks):
        """The last operation of that collective of each rank, once all have one that goes that way."""
        end, seen = time.monotonic() + DEADLINE, {}
        while len(seen) < ranks:
            self.assertLess(time.monotonic(), end, f"no {collective} by {way} was seen, but {seen}")
            self.assertIsNone(process.poll(), "the ranks have ended")
            text = tutti("trace", "--dead", "--json", "--dir", folder)
            for comm in ([comm for one in json.loads(text)["processes"] for comm in one["communicators"]]
                         if text else []):
                for op in comm["operations"]:
                    # ranks that join also meet in host memory, some by one-shot
                    on_gpu = comm["nranks"] == ranks and op.get("device")
                    if on_gpu and op["collective"].replace("-", "_") == collective and op["algorithm"] == way:
                        seen[comm["rank"]] = op
        return seen

    def test_file(self):
        """A threshold of the file of tutti tune turns the plan, and what ranks do."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"version": 1, "rules": [], "gpu": {"PEER_MOST": 0, "RING_LINES_FROM": 1 << 40}}, file)
            file.flush()
            self.assertEqual(chosen("allreduce", "1536K", {}, RANKS), "peer-load")
            settings = {"TUTTI_TUNE_FILE": file.name, "TUTTI_REDUCE_LINES_TO": "0"}
            self.compare("bulk", "allreduce", "1536K", settings, RANKS)

    def compare(self, way, collective, size, settings, ranks):
        self.assertEqual(chosen(collective, size, settings, ranks), "exchange" if way == "copy" else way, collective)
        path = f"{DRIVER}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        with tempfile.TemporaryDirectory(prefix="tutti-gpu-plan-") as folder:
            env = dict(os.environ, TUTTI_TRACE_DIR=folder, TUTTI_EMULATED_GPUS="4", LD_LIBRARY_PATH=path, **settings)
            command = [*EMULATOR, TUTTI, "perf", collective, "--gpu", "-g", str(ranks), "-b", size, "-e", size,
                       "-r", str(ROOT), "-n", "1000000"]
            with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as process:
                try:
                    for rank, op in self.shown(folder, collective, way, process, ranks).items():
                        shown = op["rounds"], set(op["sends_to"]), set(op["receives_from"])
                        self.assertEqual(shown, plan(collective, way, rank, ranks), f"{collective} {way}, rank {rank}")
                finally:
                    process.kill()


def add(way, collectives, size, settings, ranks=RANKS):
    def test(self):
        for collective in collectives.split():
            with self.subTest(collective=collective):
                self.compare(way, collective, size, settings, ranks)
    setattr(Plans, "test_" + way.replace("-", "_"), test)


for row in WAYS:
    add(*row)

if __name__ == "__main__":
    TUTTI, DRIVER = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
