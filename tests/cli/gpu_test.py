#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tutti perf and tune --gpu on the stand-in driver: everything verified, and what is wrong found.
Usage: gpu_test.py TUTTI EMULATION WRONG"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

TUTTI = EMULATION = WRONG = ""
DEADLINE = 300
QUICK = os.environ.get("TUTTI_TEST_QUICK", "0") not in ("", "0")
COLLECTIVES = ("allreduce allgather reduce_scatter alltoall alltoallv broadcast reduce gather scatter "
               "sendrecv barrier".split())
REDUCING = ("allreduce", "reduce_scatter", "reduce")
NOT_IN_PLACE = ("alltoall", "alltoallv", "sendrecv", "barrier")
ROW = re.compile(r"^ +\d+ +\d+ +[a-z0-9]+ ")


def tutti(*args, env=None):
    path = ":".join(filter(None, [EMULATION, os.environ.get("LD_LIBRARY_PATH", "")]))
    done = subprocess.run([TUTTI, *args], capture_output=True, text=True, timeout=DEADLINE, check=False,
                          env={**os.environ, "LD_LIBRARY_PATH": path, "TUTTI_EMULATED_GPUS": "4", **(env or {})})
    return done.returncode, done.stdout, done.stderr


def rows(out):
    return [line.split() for line in out.splitlines() if ROW.match(line)]


class Perf(unittest.TestCase):
    def check(self, collective, *args, env=None):
        code, out, err = tutti("perf", collective, "--gpu", "-n", "2", "-w", "1", *args, env=env)
        self.assertEqual(code, 0, f"{collective} {args}: {out[-2000:]} {err[-2000:]}")
        found = rows(out)
        self.assertTrue(found)
        for row in found:
            self.assertEqual((row[8], row[12]), ("0", "N/A" if collective in NOT_IN_PLACE else "0"), row)
        return found, out

    def test_collectives(self):
        ways = [["-np", "3"], ["-g", "3"], ["-t", "3"], ["-np", "2", "-t", "2", "-p", "1"]]
        for number, collective in enumerate(COLLECTIVES):
            for ranks in ways[number % 4:number % 4 + 1] if QUICK else ways:
                with self.subTest(collective=collective, ranks=ranks):
                    self.check(collective, *ranks, "-b", "4", "-e", "128K" if QUICK else "1M", "-f", "29")

    def test_types_and_operators(self):
        for collective in ("allreduce", "alltoall") if QUICK else COLLECTIVES:
            with self.subTest(collective=collective):
                found, _ = self.check(collective, "-g", "3", "-b", "1000", "-e", "1000", "-d", "all", "-o", "all")
                self.assertEqual(len({(row[2], row[3]) for row in found}),
                                 1 if collective == "barrier" else 12 * (6 if collective in REDUCING else 1))

    def test_options(self):
        size = ["-b", "64", "-e", "64K", "-f", "32"]
        for args in (["-np", "2", "-G", "2"], ["-g", "2", "-G", "3", "-m", "2"], ["-t", "2", "-G", "1"],
                     ["-np", "2", "-R", "1"], ["-g", "2", "--rotate", "1"], ["-np", "2", "-z", "1"]):
            with self.subTest(args=args):
                self.check("allreduce", *args, *size)

    def test_longer_than_a_chunk_of_the_check(self):
        self.check("broadcast", "-np", "2", "-b", "9000001", "-e", "9000001", "-d", "int8")

    def test_devices(self):
        with tempfile.NamedTemporaryFile() as file:
            _, out = self.check("allgather", "-np", "2", "-g", "2", "-b", "64", "-e", "64", "--json", file.name)
            self.assertEqual(json.load(file)["memory"], "tutti emulated GPU")
        found = re.findall(r"Rank +(\d+) .* device +(\d+) \[0000:([0-9a-f]{2}):00.0\] tutti emulated GPU", out)
        self.assertEqual([(rank, device) for rank, device, _ in found], [(str(i), str(i)) for i in range(4)])
        self.assertEqual(len({bus for _, _, bus in found}), 4)

    def test_wrong_results_are_found(self):
        sanitizer = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0",
                     "LD_PRELOAD": WRONG}
        for place in ([], ["--gpu"], ["--gpu", "-G", "1"]):
            with self.subTest(place=place):
                code, out, err = tutti("perf", "allreduce", *place, "-g", "3", "-b", "4K", "-e", "4K",
                                       "-n", "2", env=sanitizer)
                self.assertEqual(code, 1, out + err)
                self.assertEqual([(row[8], row[12]) for row in rows(out)], [("3", "3")], err)
                self.assertIn("1 wrong, the first at element 1023", err)

    def test_named_transport(self):
        for transport, times in (("tcp", 1), ("auto", 0)):
            with self.subTest(transport=transport):
                code, out, err = tutti("perf", "allreduce", "--gpu", "-np", "2", "-b", "64", "-e", "64", "-n", "1",
                                       env={"TUTTI_TRANSPORT": transport, "TUTTI_DEBUG": "info"})
                self.assertEqual(code, 0, out + err)
                self.assertEqual(err.count("counts within a host, too"), times, err)

    def test_no_gpu(self):
        for args in (["-np", "2"], ["-g", "2"]):
            code, out, err = tutti("perf", "allreduce", "--gpu", *args, env={"TUTTI_CUDA_LIBRARY": "/no/driver"})
            self.assertEqual((code, out), (1, ""))
            self.assertIn("load the CUDA driver", err)
            self.assertEqual(len(err.splitlines()), 1)

    def test_failing_driver(self):
        for call, said in (("cuDevicePrimaryCtxRetain", "use GPU 0"), ("cuStreamCreateWithPriority", "make a stream"),
                           ("cuMemHostAlloc", "pinned memory"), ("cuMemcpyAsync", "copy to or from"),
                           ("cuStreamBeginCapture", "begin a capture"), ("cuStreamEndCapture", "make a graph"),
                           ("cuGraphInstantiateWithFlags", "make a graph"), ("cuGraphLaunch", "launch a graph"),
                           ("cuGraphExecDestroy", "free a graph"), ("cuMemFree", "free a buffer")):
            with self.subTest(call=call):
                code, _, err = tutti("perf", "allreduce", "--gpu", "-g", "2", "-b", "64", "-e", "64", "-n", "1",
                                     "-G", "1", env={"TUTTI_EMULATED_FAULT": call + ":1"})
                self.assertEqual(code, 1, err)
                self.assertIn(said, err.splitlines()[-1])

    def test_too_little_memory(self):
        code, _, err = tutti("perf", "allreduce", "--gpu", "-g", "2", "-b", "64M", "-e", "64M",
                             "-n", "1", env={"TUTTI_EMULATED_MEMORY": "96M"})
        self.assertEqual(code, 1)
        self.assertIn("give a smaller -e", err)

    def test_more_ranks_than_gpus(self):
        code, _, err = tutti("perf", "allreduce", "--gpu", "-g", "5", "-b", "8", "-e", "8")
        self.assertEqual(code, 1)
        self.assertIn("use the same GPU", err)

    def test_wrong_usage(self):
        for args in (["-G", "2"], ["--gpu", "-G", "2", "-z", "1"], ["--gpu", "-G", "x"]):
            code, out, err = tutti("perf", "allreduce", *args)
            self.assertEqual((code, out), (2, ""))
            self.assertIn("tutti help perf", err)


class Tune(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = folder.name
        self.file = os.path.join(folder.name, ".config", "tutti", "tune.json")

    def tune(self, *args):
        code, out, err = tutti("tune", "--gpu", "--force", *args, env={"HOME": self.home})
        self.assertEqual(code, 0, out + err)
        steps = [tuple(map(int, step)) for step in re.findall(r"^\[(\d+)/(\d+)\]", out, re.M)]
        self.assertEqual([step for step, _ in steps], list(range(1, steps[0][1] + 1)))
        with open(self.file, encoding="utf-8") as file:
            written = json.load(file)["gpu"]
        self.assertRegex(written.pop("comment"), r"^tutti tune --gpu [\d.]+ on .*, \d+ GPUs$")
        found = re.findall(r"(?m)^    -> TUTTI_(\w+?)(?:=| stays )(\d+)([KMGT]?)", out)
        sizes = {name: int(number) << " KMGT".index(unit or " ") * 10 for name, number, unit in found}
        sizes.pop("BLOCKS", None)  # an advice
        self.assertEqual(sizes, {name: written.get(name) for name in sizes})
        self.assertIn(f"{len(sizes)} thresholds written to {self.file}", out)
        return out, written

    def test_quick(self):
        """What is measured is written, and communicators read it."""
        out, written = self.tune("--quick", "-n", "2", "-e", "64K")
        self.assertLessEqual({"PLAIN_FROM", "LINES_FROM", "COPY_FROM", "PEER_FROM"}, set(written))
        self.assertNotIn("SYMMETRIC_FROM", written)
        self.assertRegex(out, r"(?m)^    -> TUTTI_BLOCKS=\d+ are the fewest blocks within")
        shown = tutti("env", "PEER_FROM", env={"HOME": self.home})[1]
        self.assertIn(f"TUTTI_PEER_FROM={written['PEER_FROM']}\n", shown)
        self.assertIn(f"from {self.file}; ", shown)

    def test_other_parts_stay(self):
        """Rules and rows that are there stay, but those that are measured; a file that is none stays whole."""
        rule = {"collective": "allreduce", "algorithm": "tree"}
        os.makedirs(os.path.dirname(self.file))
        with open(self.file, "w", encoding="utf-8") as file:
            json.dump({"version": 1, "rules": [rule], "gpu": {"READ_FROM": 77, "PEER_FROM": 99}}, file)
        _, written = self.tune("--quick", "-n", "2", "-e", "64K", "--only", "PEER_FROM")
        self.assertEqual((written["READ_FROM"], set(written)), (77, {"READ_FROM", "PEER_FROM"}))
        with open(self.file, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["rules"], [rule])
        with open(self.file, "w", encoding="utf-8") as file:
            file.write("a shell")
        code, out, err = tutti("tune", "--gpu", "--force", "-o", self.file)
        self.assertEqual((code, out), (1, ""))
        self.assertIn(f"{self.file} is there and is no file of tutti tune. Correct or remove it", err)

    @unittest.skipIf(QUICK, "short")
    def test_large(self):
        out, _ = self.tune("--quick", "-n", "3", "-e", "4M", "--only", "TUTTI_RING_LINES_FROM,CHAIN_COPY_FROM")
        self.assertEqual(re.findall(r"(?m)^    -> TUTTI_(\w+)", out), ["RING_LINES_FROM", "CHAIN_COPY_FROM"])

    @unittest.skipIf(QUICK, "short")
    def test_both_kinds_and_rounds(self):
        out, _ = self.tune("-e", "128K", "--only", "COPY_FROM", "-n", "2,3")
        for ranks in (2, 3):
            for kind in ("a process each", "one process"):
                self.assertIn(f"TUTTI_COPY_FROM, alltoall, {ranks} GPUs, {kind}: copies", out)

    def test_a_way_that_fails_changes_nothing(self):
        code, out, err = tutti("tune", "--gpu", "--force", "--quick", "-n", "2", "-e", "64K", "--only", "COPY_FROM",
                               env={"TUTTI_EMULATED_FAULT": "cuMemAlloc:1", "HOME": self.home})
        self.assertEqual((code, "written" in out, os.path.exists(self.file)), (1, False, False))
        self.assertIn("alltoall of 2 ranks with TUTTI_COPY_FROM=1T failed: ", err)
        self.assertIn("nothing could be measured", err)

    def test_no_gpus(self):
        for env, said in (({"TUTTI_CUDA_LIBRARY": "/no/driver"}, "load the CUDA driver"),
                          ({"TUTTI_EMULATED_GPUS": "1"}, "one GPU")):
            code, out, err = tutti("tune", "--gpu", "--force", env={"HOME": self.home, **env})
            self.assertEqual((code, out), (1, ""))
            self.assertIn(said, err)

    def test_wrong_usage(self):
        for args in (["--gpu", "-n", "5"], ["--gpu", "--only", "COPY_FROM,COPIES"], ["--gpu", "--transport", "shm"],
                     ["-e", "64K"], ["--gpu", "-e", "x"], ["--gpu", "-n", "1"]):
            with self.subTest(args=args):
                code, out, err = tutti("tune", *args)
                self.assertEqual((code, out), (2, ""))
                self.assertIn("tutti help tune", err)


if __name__ == "__main__":
    if os.environ.get("MESON_EXE_WRAPPER"):
        print("SKIPPED: tutti perf starts itself as ranks; this machine cannot start a program of another processor")
        sys.exit(77)
    TUTTI, EMULATION, WRONG = (os.path.abspath(argument) for argument in sys.argv[1:4])
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
