#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks/gpu.py and run.py without a GPU: arguments, tables of nccl-tests, time limits, the report;
with fakes of nccl-tests and compute-sanitizer.

    gpu_test.py ROOT [LIBFOLDER DRIVERFOLDER]     with them, also our workers on the stand-in driver in DRIVERFOLDER,
                                                  over LIBFOLDER/libnccl.so.2
"""
import contextlib
import importlib.util
import io
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = f'"{sys.executable}" -I -S'  # which starts in a third of the time: fakes are started by the hundred
ROOT, LIB, DRIVER = (sys.argv[1:4] + ["", "", ""])[:3]
sys.path.insert(0, os.path.join(ROOT or os.path.join(HERE, "..", ".."), "benchmarks"))

import gpu  # noqa: E402
from gpu_parts import (beside, between, exact_values, exercise, groups, late_rank, layers, limits, perf,  # noqa: E402
                       pipeline, ranks, report, run, speed)
from gpu_tests import apps, check, cutting, hosts, kill, plugin, sanitize, suite  # noqa: E402

spec = importlib.util.spec_from_file_location("gpu_run", os.path.join(HERE, "run.py"))
gpu_run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gpu_run)

TABLE = """\
# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809
# Using devices
#  Rank  0 Group  0 Pid   4242 on       host device  0 [0000:18:00] NVIDIA H200
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
           0             0     float     sum      -1     6.11    0.00    0.00       0     6.02    0.00    0.00       0
        1024           256     float     sum      -1     5.42    0.19    0.28       0     5.38    0.19    0.29       0
        1024           256  bfloat16    prod      -1     5.49    0.19    0.28       0     5.38    0.19    0.29       2
     1048576        262144     float    none       2    38.40   27.31   20.48       0    38.10   27.52   20.64     N/A
     4194304       1048576     float      -1    52.60   79.74   59.80     N/A    52.10   80.50   60.38     N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 44.7
"""


def call(*arguments):
    """(exit status, standard output, standard error) of gpu.py, or of run.py for a part of its own."""
    command = gpu_run if arguments and arguments[0] in gpu_run.PARTS else gpu
    return call_of(command, *arguments)


def call_of(command, *arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = command.main(list(arguments))
        except SystemExit as end:
            status = end.code
    return status, out.getvalue(), err.getvalue()


def can_cut():
    """May this process take sockets of one that it has started?"""
    with socket.socket() as one, subprocess.Popen(["sleep", "60"], stdout=one.fileno()) as child:
        got = cutting.connections(child.pid)
        child.kill()
    for each in got:
        each.close()
    return bool(got)


class Tables(unittest.TestCase):
    def test_rows(self):
        rows = perf.rows(TABLE)
        self.assertEqual([row.size for row in rows], [1024, 1024, 1048576, 4194304])
        self.assertEqual((rows[0].us, rows[0].busbw, rows[0].wrong, rows[0].us_in), (5.42, 0.28, "0", 5.38))
        self.assertEqual((rows[1].type, rows[1].op, rows[1].wrong_in), ("bfloat16", "prod", "2"))
        self.assertEqual((rows[2].root, rows[2].wrong_in), ("2", "N/A"))
        self.assertEqual((rows[3].op, rows[3].us, rows[3].busbw), ("none", 52.6, 59.8))

    def test_wrong(self):
        self.assertEqual(perf.wrong(TABLE), ["1024 bytes of bfloat16 prod root -1: 0 wrong, in place 2"])
        self.assertEqual(perf.wrong(TABLE.replace("values : 0 OK", "values : 7 FAILED"))[1], "7 values out of bounds")
        self.assertEqual(perf.rows("     1048576  oops"), [])

    def test_commands(self):
        options = types.SimpleNamespace(tests="/t", gpus=4, hosts=1, mpirun="mpirun")
        self.assertEqual(perf.command(options, "reduce", "gpus", ["-n", "1"]), ["/t/reduce_perf", "-g", "4", "-n", "1"])
        self.assertEqual(perf.command(options, "reduce", "threads", []), ["/t/reduce_perf", "-t", "4", "-g", "1"])
        self.assertEqual(perf.command(options, "reduce", "processes", [], 2)[:4], ["mpirun", "-np", "2", "--bind-to"])
        self.assertIn("/t/reduce_perf_mpi", perf.missing(options, "reduce", "processes"))
        self.assertEqual(run.of_host(1, 3, 4), {})
        options.hosts = 2
        self.assertEqual(perf.missing(options, "reduce", "gpus"), "a process is on one host")
        shell = perf.command(options, "reduce", "processes", [])[5:8]
        for rank in range(4):
            said = subprocess.check_output([*shell, "printenv", "NCCL_HOSTID"], text=True,
                                           env={**os.environ, "OMPI_COMM_WORLD_RANK": str(rank)})
            self.assertEqual(said, f"{rank // 2}\n")
            self.assertEqual(run.of_host(2, rank, 4)["NCCL_HOSTID"], str(rank // 2))
        own, shared = (" ".join(hosts.command(types.SimpleNamespace(build="/b", gpus=4, hosts=n), 3, "x", [], 60))
                       for n in (1, 2))
        self.assertRegex(own, r"run -n 3 .*\(\(TUTTI_RANK \* 3 / 3\)\)")
        self.assertRegex(shared, r"run -n 4 .*\(\(TUTTI_RANK \* 2 / 4\)\)")

    def test_plan(self):
        todo = check.plan(types.SimpleNamespace(ways=None, only=None, quick=False))
        self.assertIn("hypercube", {program for way, program in todo if way.form == "processes"})
        self.assertNotIn("hypercube", {program for way, program in todo if way.form == "gpus"})
        self.assertEqual(len(check.plan(types.SimpleNamespace(ways=["float"], only=["reduce"], quick=False))), 1)
        self.assertEqual(len({way.name for way, _ in todo[:len(check.WAYS) + len(check.MODES)]}),
                         len(check.WAYS) + len(check.MODES))
        quick = check.plan(types.SimpleNamespace(ways=None, only=None, quick=True))
        self.assertEqual({way.name for way, _ in quick}, {way.name for way, _ in todo})
        self.assertLess(len(quick), len(todo))

    def test_sanitizer_summaries(self):
        race = "========= RACECHECK SUMMARY: 3 hazards displayed (1 error, 2 warnings)\n"
        self.assertEqual(sanitize.summary("x\n========= ERROR SUMMARY: 0 errors\n" + race), [(0, 0), (1, 2)])
        self.assertEqual(sanitize.summary("========= ERROR SUMMARY: 1 error"), [(1, 0)])
        self.assertEqual(sanitize.judge(["========= ERROR SUMMARY: 0 errors"], [0]), [])
        self.assertIn("no summary", sanitize.judge(["========= Error: Device not supported"], [0])[0])
        self.assertIn("5 errors", sanitize.judge(["========= ERROR SUMMARY: 5 errors"], [86])[0])
        self.assertIn("past its limit", sanitize.judge(["========= ERROR SUMMARY: 0 errors"], [124])[0])

    def test_apps(self):
        text = ("first collective after 0.91 s, sum 6.0\nddp step 1: loss 6.2\nddp step 5: loss 5.50000\n"
                "served: tutti communicators 2; ncclAllReduce from /x/lib/libnccl.so.2; also mapped: none\n")
        good = apps.record_of("ddp", "tutti", [0, 0], text, 3.0)
        self.assertEqual((good["said"], good["losses"], good["first"]), ([], {1: 6.2, 5: 5.5}, 0.91))
        self.assertIn("nothing proves",
                      apps.record_of("ddp", "tutti", [0], text.replace("communicators 2", "communicators 0"),
                                     1)["said"][0])
        self.assertIn("tutti served", apps.record_of("ddp", "nccl", [0], text, 1)["said"][0])
        other = {"losses": {1: 6.2, 5: 5.6}}
        self.assertEqual(len(apps.compare("ddp", {"tutti": good, "nccl": other})), 1)
        self.assertEqual(apps.compare("ddp", {"tutti": good, "nccl": good}), [])
        self.assertEqual(len(apps.compare("ddp", {"tutti": {"losses": {1: float("nan")}}, "nccl": good})), 1)
        bad = apps.record_of("jax", "tutti", [1], "result: 30 points, 2 wrong\n", 1.0)
        self.assertEqual(bad["said"][:2], ["exit statuses [1]", "2 wrong results"])


class Numbers(unittest.TestCase):
    def test_small_floats(self):
        self.assertEqual([exact_values.encode("f8e4m3", v)[0] for v in (1, 1.5, 2, 9)], [0x38, 0x3c, 0x40, 0x51])
        self.assertEqual([exact_values.encode("f8e5m2", v)[0] for v in (1, 1.75, 9)], [0x3c, 0x3f, 0x48])
        self.assertEqual(exact_values.encode("bfloat16", 1.5), b"\xc0\x3f")
        self.assertEqual(exact_values.encode("int8", 2.25), b"\x02")

    def test_stretches(self):
        own = struct.unpack("<7i", exact_values.own("int32", 2, 4, 7))
        self.assertEqual(list(own), [(i + 2) % 3 + 1 for i in range(4, 11)])
        total = struct.unpack("<5f", exact_values.reduced("float", "sum", 4, 1, 5))
        self.assertEqual(list(total), [sum((i + r) % 3 + 1 for r in range(4)) for i in range(1, 6)])
        self.assertEqual(exact_values.reduced("int32", "prod", 2, 0, 3), struct.pack("<3i", 2, 6, 3))
        self.assertFalse(exact_values.exact("avg", 5))

    def test_differences(self):
        self.assertIsNone(exact_values.first_difference(b"abc", b"abc", 1))
        self.assertEqual(exact_values.first_difference(b"aaaabbbbcccc", b"aaaabbbXcccc", 4), 1)
        self.assertEqual(exact_values.first_difference(b"x" * 1000 + b"y", b"x" * 1001, 1), 1000)


class Jobs(unittest.TestCase):
    def test_limit_reaches_grandchildren(self):
        for limit in (1.0, 10.0, 100.0):  # a shell that has no processor says nothing so far
            began = time.monotonic()
            done = run.run(["sh", "-c", "setsid sleep 500 & echo $!; wait"], None, limit)
            self.assertEqual(done.status, 124)
            self.assertLess(time.monotonic() - began, limit + 60)
            if done.text():
                break
        self.assertTrue(self.ends(int(done.text())), "a grandchild was left")

    @staticmethod
    def state(pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                return file.read().rpartition(")")[2].split()[0]
        except OSError:
            return None

    @staticmethod
    def ends(pid):
        """Who was killed is not gone at once: False after 20 seconds."""
        for _ in range(1000):
            if Jobs.state(pid) in (None, "Z"):  # gone, or nobody has reaped it yet
                return True
            time.sleep(0.02)
        return False

    def test_one_fails_all_end(self):
        jobs = [run.Job(["sh", "-c", "exit 3"]), run.Job(["sleep", "500"])]
        run.run_all(jobs, 400, grace=0.5)
        self.assertEqual([job.status for job in jobs], [3, 124])

    def test_missing_program(self):
        done = run.run(["/nonexistent/program"])
        self.assertEqual(done.status, 127)
        self.assertIn("/nonexistent/program", done.text())

    def test_results(self):
        with tempfile.TemporaryDirectory() as folder:
            first = run.Results(folder, "x", gpus=4)
            first.data["value"] = 1
            first.save(complete=True)
            self.assertEqual(run.Results(folder, "x", keep=True).data["value"], 1)
            self.assertNotIn("value", run.Results(folder, "x").data)
            run.Results(folder, "y").save()
            self.assertEqual(sorted(run.load_all(folder)), ["x", "y"])
            with open(os.path.join(folder, run.FILE), "w", encoding="utf-8") as file:
                file.write('{"half":')
            self.assertIsNone(run.load(folder, "x"))


class Programs(unittest.TestCase):
    """Both programs as a whole, over fakes."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for name in ("tests", "nccl", "tutti"):
            os.mkdir(self.at(name))
        for program in perf.PROGRAMS:
            for end in ("_perf", "_perf_mpi"):
                with open(self.at("tests", program + end), "w", encoding="utf-8") as file:
                    file.write(f'#!/bin/sh\nexec {PYTHON} "{HERE}/fake_perf.py" "$@"\n')
                os.chmod(file.name, 0o755)
        with open(self.at("tests", "gpu_limits"), "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {PYTHON} "{HERE}/fake_limits.py" "$@"\n')
        os.chmod(file.name, 0o755)
        with open(self.at("mpirun"), "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nshift 4\nexec "$@"\n')
        os.chmod(file.name, 0o755)
        for name in ("nccl", "tutti"):
            open(self.at(name, "libnccl.so.2"), "w", encoding="utf-8").close()
        os.environ.pop("FAKE", None)
        self.addCleanup(os.environ.pop, "FAKE", None)

    def at(self, *names):
        return os.path.join(self.folder.name, *names)

    def folders(self):
        return ["--tests", self.at("tests"), "--nccl", self.at("nccl"), "--tutti", self.at("tutti"),
                "--results", self.at("results"), "--mpirun", self.at("mpirun")]

    def part(self, *arguments):
        return call(*arguments, *self.folders())

    def load(self, part):
        return run.load(self.at("results"), part)

    def test_check(self):
        status, out, _ = self.part("check", "--ways", "float", "bfloat16", "processes, a")
        self.assertEqual(status, 0, out)
        data = self.load("check")
        self.assertEqual(len(data["runs"]), len(perf.PROGRAMS) - 1 + 3 + 3)
        self.assertTrue(data["complete"])

    def test_check_finds_what_is_wrong(self):
        for mode, words in (("wrong", "wrong, in place"), ("fail", "exit status 2"), ("garbage", "exit status 139"),
                            ("hang", "past its limit")):
            os.environ["FAKE"] = mode
            status, out, _ = self.part("check", "--ways", "bfloat16", "--only", "reduce",
                                       "--limit", "4" if mode == "hang" else "60")
            self.assertEqual(status, 1, mode)
            self.assertIn(words, out)
            self.assertFalse(self.load("check")["runs"][0]["good"])

    def test_check_without_programs(self):
        os.unlink(self.at("tests", "reduce_perf"))
        status, out, _ = self.part("check", "--ways", "bfloat16", "--only", "reduce")
        self.assertEqual(status, 1)
        self.assertIn("not run: reduce", out)

    def test_budget(self):
        os.environ["FAKE"] = "hang"
        began = time.monotonic()
        status, out, _ = self.part("check", "--ways", "float", "--budget", "5",
                                   "--only", "reduce", "all_reduce", "broadcast")
        self.assertEqual(status, 1)
        self.assertLess(time.monotonic() - began, 120)
        self.assertIn("no time left", out)

    def test_speed_and_report(self):
        status, out, _ = self.part("speed", "--rounds", "1")
        self.assertEqual(status, 0, out)
        status, out, _ = self.part("speed", "--rounds", "2", "--more", "--only", "allreduce")
        data = self.load("speed")
        self.assertEqual(len(data["points"]["allreduce"]["tutti"]["1024"]), 3)
        self.assertEqual(len(data["points"]["alltoall in a graph"]["nccl"]["1024"]), 1)
        status, out, _ = self.part("nopeer", "--rounds", "1", "--quick")
        self.assertEqual(status, 0, out)
        status, out, _ = self.part("report")
        self.assertEqual(status, 0)
        self.assertIn("2 GPUs by sockets", out)
        self.assertIn("allreduce, 4 GiB", out)
        self.assertIn("allreduce, 64 MiB and above", out)
        self.assertTrue(os.path.exists(self.at("results", "performance-gpu.svg")))
        with open(self.at("results", "performance-gpu.md"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("## alltoall in a graph", text)
        self.assertIn("![NCCL's time / tutti's over size](performance-gpu.svg)", text)
        self.assertRegex(text, r"64 MiB and above +\| 1\.3")

    def test_speed_by_one_thread(self):
        status, out, _ = self.part("speed", "--form", "gpus", "--rounds", "1", "--only", "broadcast")
        self.assertEqual(status, 0, out)
        self.assertIn("broadcast in a graph", self.load("speed-gpus")["points"])
        self.assertIn("one thread", out)

    def test_failures_are_kept(self):
        os.environ["FAKE"] = "fail"
        status, _, err = self.part("speed", "--rounds", "1", "--only", "broadcast", "--graphs", "no")
        self.assertEqual(status, 1)
        self.assertIn("exit status 2", err)
        self.assertEqual(len(self.load("speed")["complaints"]), 2)
        status, out, _ = self.part("nopeer", "--rounds", "1", "--quick")
        self.assertEqual(status, 1)
        self.assertIn("FAILED", out)

    def test_sanitizer(self):
        tool = os.path.join(HERE, "fake_sanitizer.sh")
        for mode, expected in (("", 0), ("errors", 1), ("refused", 1)):
            os.environ["FAKE"] = mode
            status, out, _ = self.part("sanitize", "--sanitizer", tool, "--cases", "memcheck, one", "racecheck, one")
            self.assertEqual(status, expected, out)
        self.assertIn("no summary", out)

    def test_limits(self):
        """Its tables come into the report; no library is needed."""
        folders = ["--tests", self.at("tests"), "--results", self.at("results")]
        status, out, _ = call("limits", "--gpus", "3", "--only", "copies", "waits", *folders)
        self.assertEqual(status, 0, out)
        self.assertRegex(out, r"\| ring, pushing +\| 389\.1 +\|")
        data = self.load("limits")
        self.assertTrue(data["complete"])
        self.assertEqual([part["part"] for part in data["found"]["parts"]], ["copies", "waits"])
        self.assertEqual(data["found"]["gpus"], 3)
        status, out, _ = call("report", *folders)
        self.assertEqual(status, 0)
        self.assertIn("## What the machine can do", out)
        self.assertIn("GB/s of each GPU, by fake_limits.py:", out)
        with open(self.at("results", "performance-gpu.md"), encoding="utf-8") as file:
            self.assertRegex(file.read(), r"\| cuMemFree +\| WAITS")

    def test_limits_that_fail(self):
        folders = ["--tests", self.at("tests"), "--results", self.at("results")]
        for mode, words, tables in (("wrong", "7 words are wrong", True), ("fail", "exit status 2", True),
                                    ("garbage", "it has left no tables", False), ("hang", "past its limit", True)):
            os.environ["FAKE"] = mode
            status, out, _ = call("limits", "--limit", "4" if mode == "hang" else "60", *folders)
            self.assertEqual(status, 1, mode)
            self.assertIn(words, out)
            self.assertEqual(bool(limits.show(self.load("limits")["found"])), tables)
            self.assertFalse(self.load("limits")["complete"])
        self.assertIn("it has not run all its parts", self.load("limits")["said"])
        os.unlink(self.at("tests", "gpu_limits"))
        self.assertEqual(call("limits", *folders)[0], 1)
        self.assertIn("there is no", self.load("limits")["said"][0])
        self.assertEqual(call("report", *folders)[0], 0)

    def test_told_to_end(self):
        """A signal ends the script and what it has started, and what was measured before is there."""
        script = os.path.join(HERE, "run.py")
        command = [sys.executable, script, "check", "--tests", self.at("tests"), "--tutti", self.at("tutti"),
                   "--results", self.at("results"), "--ways", "bfloat16", "--only", "all_reduce", "reduce"]
        with open(self.at("tests", "reduce_perf"), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\necho $$ > {self.at('pid')}\nexec sleep 500\n")
        job = run.Job(command)
        until = time.monotonic() + 120
        while not os.path.exists(self.at("pid")) and time.monotonic() < until:
            time.sleep(0.01)
        job.process.send_signal(signal.SIGTERM)
        run.run_all([job], 60)
        self.assertEqual(job.status, 143, job.text())
        with open(self.at("pid"), encoding="utf-8") as file:
            self.assertTrue(Jobs.ends(int(file.read())))
        self.assertEqual([record["good"] for record in self.load("check")["runs"]], [True])

    def test_arguments(self):
        for wrong in (("none",), (), ("check", "--ways"), ("speed", "--rounds", "x"),
                      ("kill", "--tutti", "/nonexistent"), ("between", "--gpus", "2", "--hosts", "3"),
                      ("speed", "--hosts", "2", "--form", "gpus")):
            if wrong != ("check", "--ways"):
                self.assertEqual(call(*wrong)[0], 2, wrong)
        self.assertEqual(self.part("first", "--gpus", "0")[0], 2)
        self.assertEqual(call("speed", "--tutti", self.at("tutti"), "--nccl", "/nonexistent")[0], 2)
        self.assertEqual(call("check", "--list")[0], 0)
        self.assertEqual(call("report", "--results", self.at("nothing"))[0], 1)
        for command in gpu, gpu_run:
            for part in (*command.PARTS, "all"):
                status, out, _ = call_of(command, part, "--help")
                self.assertEqual(status, 0)
                self.assertIn("--results", out)

    def test_all(self):
        """Nothing here but the fakes works: each part fails or is done, the next one goes on,
        and all is in one file."""
        for command, failing in ((gpu_run, "kill, (nopeer, )?apps"),
                                 (gpu, "first, beside, late, groups, layers, pipeline")):
            status, out, err = call_of(command, "all", "--budget-total", "200", "--gpus", "2", *self.folders())
            self.assertEqual(status, 1)
            self.assertEqual([part for part in command.PARTS if f"==== {part}" in err],
                             [name for name, part in command.PARTS.items() if part.all])
            self.assertRegex(out.splitlines()[-1], "^with failures.*: " + failing)
        self.assertEqual(set(run.load_all(self.at("results"))),
                         {*gpu.PARTS, *gpu_run.PARTS} - {"report", "hosts", "suite", "plugin", "dynamic", "between"})
        self.assertTrue(self.load("speed")["complete"])
        self.assertEqual(sorted(os.listdir(self.at("results"))),
                         ["performance-gpu.md", "performance-gpu.svg", "results.json"])

    def test_hosts(self):
        """A build whose programs are scripts: one of them fails."""
        for name in ("cli/tutti", "tests/collective/window_faults"):
            path = self.at("build/" + name)
            os.makedirs(os.path.dirname(path))
            with open(path, "w", encoding="utf-8") as file:
                file.write('#!/bin/sh\ncase "$TUTTI_TEST_GPU $*" in *soak*) exit 3;; 1*) exit 0;; esac; exit 4\n')
            os.chmod(path, 0o755)
        status, out, _ = self.part("hosts", "--build", self.at("build"), "--only", "windows", "soak", "windows, faults")
        self.assertEqual(status, 1)
        self.assertEqual(re.findall("^(ok|FAILED) +([^.]*), [0-9.]+ s$", out, re.M),
                         [("ok", "windows"), ("FAILED", "soak"), ("ok", "windows, faults")])
        self.assertEqual([r["status"] for r in self.load("hosts")["checks"]], [0, 3, 0])

    def test_apps_at_once(self):
        """Quick: a program runs over both libraries at the same time; otherwise in turns."""
        real, os.environ["FAKE_TRAINING"] = dict(apps.TRAINING), self.at("")
        apps.TRAINING.update({mode: os.path.join(HERE, "fake_training.py") for mode in real})
        try:
            status, _, _ = self.part("apps", "--quick", "--limit", "30", "--gpus", "2", "--only", "ddp", "fsdp")
            self.assertEqual((status, self.load("apps")["complete"]), (0, True))
            runs = [(r["app"], r["library"], r["losses"]["1"], r["said"]) for r in self.load("apps")["runs"]]
            self.assertEqual(runs, [(app, library, 6.25, []) for app in ("ddp", "fsdp")
                                    for library in ("nccl", "tutti")])
            status, out, _ = self.part("apps", "--quick", "--limit", "8", "--gpus", "2", "--only", "tp", "pp")
            self.assertEqual(status, 1)
            self.assertIn("tp step 1: loss 6.5, with NCCL 6.25", out)
            self.assertEqual([r["said"] for r in self.load("apps")["runs"] if r["app"] == "pp"],
                             [[], ["exit statuses [124, 124]", "no losses", "nothing proves that tutti served it"]])
            status, _, _ = self.part("apps", "--limit", "8", "--gpus", "1", "--only", "ddp", "fsdp")
            self.assertEqual(status, 0)  # NCCL's waits in vain, is killed, and leaves what tutti's waits for
            self.assertEqual([bool(r["said"]) for r in self.load("apps")["runs"]], [False, False, True, False])
        finally:
            apps.TRAINING.update(real)

    @contextlib.contextmanager
    def fake_suite(self, **extra):
        """In place of PyTorch's suite; `extra` goes into its environment."""
        real, before = suite.ONE, dict(os.environ)
        suite.ONE = os.path.join(HERE, "fake_suite.py")
        os.environ.update({"SUITE_ONCE": tempfile.mkdtemp(dir=self.at("")),
                           "SUITE_PARTS": HERE, **extra})
        try:
            yield
        finally:
            suite.ONE = real
            os.environ.clear()
            os.environ.update(before)

    def test_suite(self):
        """What fails or hangs over tutti alone counts; what fails over both, or at the first try only, does not."""
        with self.fake_suite():
            status, out, _ = self.part("suite", "--limit", "4", "--at-once", "4", "--gpus", "2", "--only", "test_good",
                                       "test_bad", "test_bad_here", "test_skipped", "test_slow_here", "test_shy",
                                       "test_port")
        self.assertEqual(status, 1)
        states = {(r["name"], r["library"]): r["state"] for r in self.load("suite")["runs"]}
        self.assertEqual([states[name, "tutti"] for name in ("test_good", "test_bad", "test_bad_here",
                                                             "test_skipped", "test_slow_here", "test_shy")],
                         ["passed", "failed", "failed", "skipped", "late", "passed"])
        self.assertEqual(states["test_bad_here", "nccl"], "passed")
        self.assertNotIn("test_port", [r["name"] for r in self.load("suite")["first tries"]])
        self.assertEqual(suite.worse(self.load("suite")["runs"]), ["test_bad_here", "test_slow_here"])
        self.assertIn("2 pass with NCCL and not with tutti", out)

    def test_suite_is_forked(self):
        """The first try, unless a library cannot be loaded ahead; the second is a program."""
        for arguments, extra, forked in (((), {}, True), (("--spawn",), {}, False), ((), {"SUITE_UNFIT": "1"}, False)):
            with self.subTest(arguments=arguments, extra=extra), self.fake_suite(**extra):
                status, _, err = self.part("suite", "--gpus", "2", *arguments, "--only", "test_bad", "test_good")
                self.assertEqual(status, 0, err)
                self.assertEqual("nothing is forked over tutti" in err, bool(extra))
                for tries, fork in (("first tries", forked), ("runs", False)):
                    said = {"a forked run" in r["output"] for r in self.load("suite")[tries] if r["name"] == "test_bad"}
                    self.assertEqual(said, {fork}, tries)

    def test_suite_goes_on(self):
        """What an earlier call brought to its end is not run again."""
        os.mkdir(self.at("results"))
        runs = [{"name": "test_good", "library": library, "state": state, "seconds": 1}
                for library, state in (("nccl", "passed"), ("tutti", "late"))]
        with open(self.at("results", run.FILE), "w", encoding="utf-8") as file:
            json.dump({"suite": {"runs": runs}}, file)
        with self.fake_suite():
            status, _, err = self.part("suite", "--more", "--gpus", "2", "--only", "test_good")
        self.assertEqual(status, 0, err)
        self.assertIn("1 runs", err)
        self.assertEqual([r["state"] for r in self.load("suite")["runs"]], ["passed", "passed"])

    def with_fake(self, module, *arguments):
        """A part whose program on PyTorch is fake_torch.py."""
        real, name = module.WORKER, module.__name__.rpartition(".")[2]
        module.WORKER = [os.path.join(HERE, "fake_torch.py"), {"late_rank": "late"}.get(name, name)]
        try:
            return self.part(module.WORKER[1], "--gpus", "2", *arguments)
        finally:
            module.WORKER = real

    def test_layers(self):
        """The slowest rank counts, and tutti's faster way; what a library lacks is left out."""
        os.environ["FAKE"] = "absent"
        status, out, err = self.with_fake(layers, "--batches", "1", "256", "--sizes", "65536")
        self.assertEqual(status, 0, err)
        self.assertIn("ncclCommWindowRegister: no", err)
        found = self.load("layers")["found"]
        self.assertEqual((found["NCCL"]["graph"], found["tutti"]["layers"]),
                         ({"65536": 4.0}, {"1": 3.0, "256": 3.0}))
        self.assertEqual(found["NCCL, windows"]["calls"], {})
        self.assertRegex(out, r"\| 256 \(4 MiB\) +\| 640.0 +\| - +\| 640.0 .*\| 480.0 +\| 1.33 +\| - +\| 1.33")
        self.assertIn("## A decoder's all-reduces", self.part("report")[1])
        for mode, words in (("wrong", "wrong sums of [4096] bytes"), ("fail", "exit statuses [3, 3]")):
            os.environ["FAKE"] = mode
            status, _, err = self.with_fake(layers, "--quick")
            self.assertEqual(status, 1)
            self.assertIn(words, err)

    def test_pipeline(self):
        status, out, err = self.with_fake(pipeline, "--products", "3", "--sizes", "4194304", "--slots", "10")
        self.assertEqual(status, 0, err)
        found = self.load("pipeline")["found"]
        self.assertEqual(found["nccl"], {"3": {"0": 9.0, "4194304": 13.0}})
        self.assertRegex(out, r"\| 3 +\| 4 MiB +\| 900 +\| 1300 +\| 1200 .*\| 1.083")
        self.assertIn("## A pipeline", self.part("report")[1])
        for mode, words in (("foreign", "nothing proves that tutti served it"), ("fail", "exit statuses [3, 3]")):
            os.environ["FAKE"] = mode
            status, _, err = self.with_fake(pipeline, "--quick")
            self.assertEqual(status, 1)
            self.assertIn(words, err)

    def test_coalesced(self):
        """Groups by PyTorch's coalescing manager: the slowest rank counts, and wrong words are found."""
        row = ("--by", "torch", "--rows", "allgather:64:4096")
        status, out, err = self.with_fake(groups, *row)
        self.assertEqual(status, 0, err)
        self.assertRegex(out, r"\| allgather +\| 64 +\| 4 KiB +\| 36.0 +\| 27.0 +\| 1.33 +\| 4.0 +\| 3.0 +\| 1.33")
        os.environ["FAKE"] = "wrong"
        status, _, err = self.with_fake(groups, *row)
        self.assertEqual(status, 1)
        self.assertIn("wrong results: allgather:64:4096, in a graph", err)

    def test_beside(self):
        status, out, err = self.with_fake(beside, "--rates", "25", "100")
        self.assertEqual(status, 0, err)
        self.assertEqual([(r["rate"], r["moved"]) for r in self.load("beside")["rates"]["tutti"]],
                         [(25.0, 100.0), (100.0, 100.0)])
        self.assertRegex(out, r"\| nccl +\| 25 +\| 100 +\| 4.00 +\| 2.86 +\| 1.14 +\| 0.0400")
        self.assertIn("by the clock", self.part("report")[1])

    def test_between(self):
        """The worst rank and the median of the rounds count; ranks of two hosts; wrong elements are a failure."""
        status, out, err = self.with_fake(between, "--hosts", "2", "--sizes", "1024", "4194304")
        self.assertEqual(status, 0, err)
        self.assertRegex(out, r"\| 4 MiB +\| 400.0 +\| 300.0 +\| 1.33 +\| 200.0 +\| 150.0 +\| 1.33 +\| 40 +\| 30 "
                              r"+\| 1.33 +\| 0.50 +\| 10 +\| 0 ")
        self.assertIn("as 2 hosts", out)
        for mode, words in (("wrong", "3 elements are wrong in 5 replays of 1024 bytes"), ("fail", "statuses [3, 3]")):
            os.environ["FAKE"] = mode
            status, _, err = self.with_fake(between, "--quick", "--hosts", "2", "--sizes", "1024")
            self.assertEqual(status, 1)
            self.assertIn(words, err)

    def test_late(self):
        """The worst rank's median counts; quick: messages of 256 MiB alone."""
        status, out, err = self.with_fake(late_rank)
        self.assertEqual(status, 0, err)
        found = self.load("late")["summary"]
        self.assertEqual(found["nccl"]["ring:67108864"], {"in step": 800.0, "late": 1200.0})
        self.assertRegex(out, r"\| allgather in place, 1 GiB +\| 800 +\| 600 +\| 1.33 +\| 1200 +\| 900 +\| 1.33 +\|")
        self.assertIn("## A host that comes late", self.part("report")[1])
        self.assertRegex(late_rank.show({"tutti": found["tutti"]}), r"\| alltoall, 256 MiB +\| - +\| 600 +\| - +\| - ")
        for mode, words in (("foreign", "nothing proves that tutti served it"), ("fail", "exit statuses [3, 3]")):
            os.environ["FAKE"] = mode
            status, out, err = self.with_fake(late_rank, "--quick")
            self.assertEqual((status, self.load("late")["complete"]), (1, False))
            self.assertIn(words, err)
            self.assertEqual("send/recv ring, 256 MiB" in out, mode == "foreign")
            self.assertNotIn("send/recv ring, 64 MiB", out)
        os.environ["FAKE"] = ""
        status, _, err = self.with_fake(late_rank, "--budget", "1")
        self.assertEqual((status, self.load("late")["complete"], "late: nccl" in err), (1, False, False))
        for wrong in ("ring", "ring:x", "circle:4"):
            self.assertEqual(self.with_fake(late_rank, "--rows", wrong)[0], 2)

    def test_plugin(self):
        """Connections are cut from outside, where that is permitted."""
        open(self.at("tutti", "libnccl-net-tutti.so"), "w", encoding="utf-8").close()
        os.environ["FAKE"] = "lanes"
        if not can_cut():
            self.skipTest("pidfd_getfd is not permitted here")
        status, out, _ = self.part("plugin", "--rounds", "1", "--gpus", "2")
        self.assertEqual(status, 0, out)
        data = self.load("plugin")
        kinds = [one["kind"] for one in data["checks"]]
        self.assertEqual((kinds.count("lanes cut"), kinds.count("processes"), kinds.count("one process")),
                         (len(plugin.CUT), len(plugin.CHECKED), 1))
        self.assertTrue(all(one["cuts"] for one in data["checks"] if one["kind"] == "lanes cut"))
        self.assertRegex(out, r"\| sendrecv +\| 256 MiB")
        os.environ["FAKE"] = ""  # NCCL took another network, and there was nothing to cut
        status, out, _ = self.part("plugin", "--rounds", "1", "--gpus", "2")
        self.assertEqual(status, 1)
        self.assertIn("NCCL took another network", out)
        self.assertIn("no connection was cut", out)

    def test_report_of_everything(self):
        first = {library: {"one.init and first": t, "two.bytes.init": m, "two.bytes.first": m, "two.bytes.large": m}
                 for library, t, m in (("nccl", 0.8, 400 << 20), ("tutti", 0.3, 50 << 20))}
        turn = {"alone": 1.0, "beside": 1.02, "call": 2.0, "outlasted": 5.0}
        out = {name: {"call alone": 1.0, "turns": [turn] * 3} for name in beside.CALLS}
        slow = {name: {"call alone": 1.0, "turns": [{**turn, "beside": 1.005}] * 3} for name in beside.CALLS}
        parts = {
            "first": {"summary": first},
            "beside": {"summary": {"nccl": beside.summary([out] * 4, 1 << 28),
                                   "tutti": beside.summary([slow] * 4, 1 << 28)}},
            "nopeer": {"points": {"host memory": {"nccl": {str(1 << 28): [[100.0, 5]]},
                                                  "tutti": {str(1 << 28): [[50.0, 10]]}}}, "checks": []},
            "pipeline": {"slots": 64, "found": {library: {"3": {"0": 40.0, str(4 << 20): 50.0, str(16 << 20): ms,
                                                                str(64 << 20): 50.0}}
                                                for library, ms in (("nccl", 55.0), ("tutti", 50.0))}},
            "kill": {"tutti": {"survivors": [{"rank": 0, "good": True, "works": True, "computed": True,
                                              "said": "x", "rounds": 4, "noticed": 0.5, "aborted": 0.6}]}},
            "sanitize": {"cases": [{"good": True}, {"good": False}]},
            "apps": {"runs": [{"app": "jax", "library": library, "said": said, "served": None, "seconds": 1}
                              for library, said in (("tutti", []), ("nccl", ["x"]))]},
            "speed": {"points": {"allreduce in a graph": {"tutti": {"1024": [[3.5, 0.4], [3.6, 0.4]]},
                                                          "nccl": {"1024": [[10.0, 0.1]]}}}},
        }
        os.mkdir(self.at("results"))
        with open(self.at("results", run.FILE), "w", encoding="utf-8") as file:
            json.dump({name: {**data, "complete": True, "gpus": 4} for name, data in parts.items()}, file)
        status, text, _ = self.part("report")
        self.assertEqual(status, 0)
        rows = {row[0]: row for row in report.aims({part: self.load(part) for part in report.PARTS})}
        self.assertEqual(rows["allreduce in a graph, 1 KiB"][3:], ["3.55 us", "2.82", "met"])
        self.assertEqual(rows["allreduce in a graph, all sizes"][3:],
                         ["mean 2.82, worst 2.82 at 1 KiB", "2.82", "met"])
        self.assertEqual(rows["reduce, 1 MiB and above"][-1], "-")
        self.assertEqual(rows["step of a pipeline, messages 16 MiB and above"][3:],
                         ["mean 1.05, worst 1.00", "1.05", "MISSED"])
        self.assertEqual(rows["init and first collective, 4 processes"][-1], "met")
        self.assertEqual(rows["memory of a communicator, made"][-1], "MISSED")
        self.assertEqual(rows["matrix product beside allreduce (tutti)"][3:], ["0.50%", "4.00", "met"])
        self.assertEqual(rows["% slower for each GB/s beside a product, allreduce"][4:], ["4.00", "met"])
        self.assertEqual(rows["2 GPUs by host memory, allreduce 256 MiB"][-1], "met")
        self.assertEqual(rows["2 GPUs by sockets, allreduce 256 MiB"][-1], "-")
        self.assertEqual(rows["compute-sanitizer: 0 errors"][3:], ["1 of 2", "-", "MISSED"])
        self.assertEqual(rows["nccl-tests with checks"][-1], "-")
        self.assertIn("aims met", text)


@unittest.skipUnless(DRIVER, "needs the stand-in driver and libnccl.so.2")
class Workers(unittest.TestCase):
    """Our own workers on the stand-in driver: two processes, as 2 processors are common where this runs."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.environ["TUTTI_CUDA_LIBRARY"] = os.path.join(DRIVER, "libcuda.so.1")
        os.environ["PYTHONPATH"] = ""

    def part(self, *arguments, gpus=2):
        return call(*arguments, "--tutti", LIB, "--results", self.folder.name, "--gpus", str(gpus), "--limit", "300",
                    "--budget", "400")

    def test_exercise(self):
        status, out, err = self.part("check", "--ways", "our own", "--preset", "few")
        self.assertEqual(status, 0, out + err)
        runs = run.load(self.folder.name, "check")["runs"]
        self.assertEqual(len(runs), len(check.MODES))
        points = runs[0]["points"]
        wanted = exercise.PRESETS["few"]
        self.assertEqual(points,
                         2 * (3 * len(wanted.types) * len(wanted.ops) * len(wanted.bytes) + 6 * len(wanted.moved)))

    def test_first(self):
        status, out, err = self.part("first", "--nccl", LIB, "--rounds", "1")
        self.assertEqual(status, 0, out + err)
        found = run.load(self.folder.name, "first")["summary"]["tutti"]
        self.assertGreater(found["two.bytes.large"], 0)
        self.assertIn("making the first communicator (ms)", out)
        self.assertEqual(sum("made its executor in" in line for line in out.splitlines()), 4)

    def test_groups(self):
        """Two calls of each kind in a group, called and in a graph; what each leaves is looked at."""
        rows = [f"{name}:2:4096" for name in groups.NAMES]
        status, out, err = self.part("groups", "--nccl", LIB, "--times", "2", "--rounds", "1", "--rows", *rows)
        self.assertEqual(status, 0, out + err)
        self.assertEqual(list(run.load(self.folder.name, "groups")["summary"]["tutti"]), rows)
        self.assertRegex(out, r"\| messages +\| 2 +\| 4 KiB +\| [0-9.]+ +\| [0-9.]+ +\| [0-9.]+")

    def test_kill(self):
        status, out, err = self.part("kill", "--bytes", "20000000", "--victim", "1", "--within", "60", gpus=3)
        self.assertEqual(status, 0, out + err)
        survivors = run.load(self.folder.name, "kill")["tutti"]["survivors"]
        self.assertEqual([s["rank"] for s in survivors], [0, 2])
        self.assertIn("yes, copies and collective", out)
        status, out, err = self.part("kill", "--bytes", "20000000", "--by", "abort", "--hosts", "2", "--within", "60")
        self.assertEqual(status, 0, out + err)
        self.assertIn("abort", run.load(self.folder.name, "kill")["tutti"]["survivors"][0]["said"])

    def test_wrong_results_are_found(self):
        class Broken(exercise.Exercise):
            def step(self, name, kind, send, wanted, call):
                super().step(name, kind, send, wanted and bytes([wanted[0] ^ 1]) + wanted[1:], call)

        from gpu_parts.device import Device, Nccl
        device, nccl = Device(0), Nccl(os.path.join(LIB, "libnccl.so.2"))
        comm = nccl.init(1, nccl.new_id(), 0)
        self.assertEqual(exercise.Exercise(device, nccl, comm, 0, 1, 60).run("survivors"), [])
        wrong = Broken(device, nccl, comm, 0, 1, 60).run("survivors")
        self.assertIn("allreduce float sum, 1000 elements: element 0 of 1000 is wrong", wrong)
        nccl.call("ncclCommDestroy", comm)


class Meeting(unittest.TestCase):
    def test_nobody_comes(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(TimeoutError):
                ranks.Meet(folder, 0, 2, 0.2).barrier("x")
            self.assertEqual(ranks.outputs(folder, 2), [{}, {}])

    def test_judging_survivors(self):
        options = types.SimpleNamespace(within=10.0)
        job = types.SimpleNamespace(status=0, text=lambda: "")
        good = kill.judge(options, 5.0,
                          {"said": "x", "noticed": 6.0, "aborted": 6.5, "good": True, "rounds": 3}, job, 0)
        self.assertTrue(good["good"])
        late = kill.judge(options, 5.0, {"said": "x", "noticed": 26.0, "aborted": 26.5, "good": True}, job, 0)
        never = kill.judge(options, 5.0, {"said": "", "noticed": 26.0}, job, 0)
        self.assertFalse(late["good"] or never["good"])
        self.assertIn("never", kill.show([never]))

    def test_groups(self):
        """The slowest rank counts, wrong words of any are found, and rows that are none are refused."""
        good, bad = ({"rows": {"messages:4:4096": {"called": us, "in a graph": us / 2, "called, right": True,
                                                   "in a graph, right": right}}}
                     for us, right in ((8.0, True), (10.0, False)))
        self.assertEqual(groups.summary([good, bad]), {"messages:4:4096": {"called": 10.0, "in a graph": 5.0}})
        self.assertEqual((groups.wrong([good, good]), groups.wrong([good, bad])), ([], ["messages:4:4096, in a graph"]))
        self.assertRegex(groups.show({"tutti": groups.summary([good])}), r"\| messages +\| 4 +\| 4 KiB +\| - +\| 8.0 ")
        for row in ("messages:4", "circle:4:4096", "messages:0:4096", "messages:4:6", "messages:4:x"):
            self.assertRaises(ValueError, groups.checked, row)

    def test_means(self):
        self.assertAlmostEqual(speed.mean([2.0, 8.0]), 4.0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], warnings="ignore")
