# SPDX-License-Identifier: Apache-2.0
"""The wheel of the analyser: made, installed in a clean environment, and asked about folders of dumps with nothing
else in reach.

wheel_test.py TUTTI_DIAGNOSE
"""
import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = ""
SOURCE = os.path.dirname(os.path.abspath(__file__))
SECOND = 10 ** 9
BOXES = b"TUTTIBOX" + b"\xff" * 10000  # of a writer that nobody knows


def run(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=100, **more).stdout


def gloo(rank, calls, began):
    """As PyTorch 2.15 dumps a group of Gloo: what is over stays "scheduled", and pg_config names nothing of use."""
    return {"version": "2.10", "comm_lib_version": "", "pg_config": {"": {"name": "", "desc": "", "ranks": "[]"}},
            "pg_status": {"0": {"last_enqueued_collective": str(calls), "last_started_collective": "-1",
                                "last_completed_collective": "3"}},
            "entries": [{"record_id": call - 1, "pg_id": 0, "process_group": ["0", "default_pg"], "is_p2p": False,
                         "collective_seq_id": call, "p2p_seq_id": 0, "op_id": call, "profiling_name": "gloo:all_reduce",
                         "time_created_ns": began, "time_discovered_started_ns": 0, "time_discovered_completed_ns": 0,
                         "input_sizes": [[10]], "input_dtypes": ["Float"], "output_sizes": [[10]],
                         "output_dtypes": ["Float"], "state": "scheduled", "retired": call <= 3, "timeout_ms": 600000}
                        for call in range(1, calls + 1)]}


def ras():
    ranks = [{"rank": rank, "host": "n", "pid": 100 + rank, "status": {},
              "collective_counts": {"AllReduce": 8 if rank == 2 else 9}} for rank in range(3)]
    return {"nccl_version": "2.28.3", "communicators": [{"hash": "0xab", "size": 3, "ranks": ranks,
                                                         "missing_ranks": []}]}


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tutti-diagnose-")
        source = os.path.join(cls.folder, "source")  # pip leaves build folders behind in the sources
        shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("build", "__pycache__", "*.egg-info"))
        pip = (sys.executable, "-m", "pip", "-q", "--no-input", "--disable-pip-version-check")
        run(*pip, "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", cls.folder, source,
            env={**os.environ, "TUTTI_DIAGNOSE": PROGRAM})
        cls.wheel, = glob.glob(os.path.join(cls.folder, "tutti_diagnose-*-py3-none-manylinux*.whl"))
        venv = os.path.join(cls.folder, "venv")
        run(sys.executable, "-m", "venv", "--without-pip", venv)
        cls.python = os.path.join(venv, "bin", "python")
        run(*pip, "--python", cls.python, "install", "--no-index", cls.wheel)
        cls.program = os.path.join(venv, "bin", "tutti-diagnose")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def diagnose(self, *words, program=None):
        done = subprocess.run([*(program or [self.program]), *words], capture_output=True, text=True, timeout=60,
                              env={"PATH": "/nowhere", "TUTTI_TRACE_DIR": "/nowhere"})
        return done.returncode, done.stdout, done.stderr

    def dumps(self, **files):
        folder = tempfile.mkdtemp(dir=self.folder)
        for name, content in files.items():
            path = os.path.join(folder, name.replace("__", "/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content if isinstance(content, bytes) else json.dumps(content).encode())
        return folder

    def test_program_is_static(self):
        """It asks for no interpreter (segment 3), which would load libraries."""
        with open(PROGRAM, "rb") as file:
            head = file.read(4096)
        start, = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        kinds = [struct.unpack_from("<I", head, start + size * number)[0] for number in range(count)]
        self.assertIn(1, kinds)
        self.assertNotIn(3, kinds)

    def test_folder(self):
        """The culprit, and for how long: though no time in the dumps is as late as they were written."""
        began = time.time_ns() - 100 * SECOND
        folder = self.dumps(**{f"node{rank}__trace_rank_{rank}": gloo(rank, 3 if rank == 1 else 4, began)
                               for rank in range(3)}, log=b"step 1\n", x__y=b"\x80garbage", **{".hidden": b"?"})
        for rank in range(3):
            written = (began + 34 * SECOND) / SECOND
            os.utime(f"{folder}/node{rank}/trace_rank_{rank}", (written, written))
        for program in (None, [self.python, "-m", "tutti_diagnose"]):
            code, out, err = self.diagnose(folder, program=program)
            self.assertEqual((code, err), (5, ""))
            self.assertIn("VERDICT: rank 1 has not called allreduce #4 and is waited for by ranks 0 2 in allreduce #4 "
                          "of communicator default_pg, for 34.0 s; ", out)
            self.assertIn("\nread: 3 ranks by the Flight Recorder, 2 files that are neither a black box nor a dump\n",
                          out)

    def test_later_dumps_count(self):
        """Of two dumps of one rank, which PyTorch writes at each timeout, the later one tells."""
        began = time.time_ns() - 100 * SECOND
        folder = self.dumps(a__rank_0=gloo(0, 4, began), a__rank_1=gloo(1, 3, began), b__rank_1=gloo(1, 4, began + 7),
                            a__rank_2=gloo(2, 4, began))
        code, out, _ = self.diagnose(folder)
        self.assertEqual(code, 5)
        self.assertNotIn("rank 1 has not called", out)
        self.assertIn("\nread: 3 ranks by the Flight Recorder\n", out)

    def test_answer_of_ras(self):
        code, out, _ = self.diagnose(self.dumps(ras=ras()))
        self.assertEqual(code, 5)
        self.assertIn("VERDICT: rank 2 (process 102) has not called allreduce #9 and is waited for by ranks 0 1", out)
        self.assertIn("\nread: 3 processes by NCCL's RAS\n", out)

    def test_nothing_to_read(self):
        code, out, err = self.diagnose(self.dumps(log=b"step 1\n"))
        self.assertEqual((code, out), (4, ""))
        self.assertIn("none of the 1 files there is a black box or a dump", err)
        code, out, err = self.diagnose(self.dumps())
        self.assertEqual((code, out), (4, ""))
        self.assertIn("there are no files in that folder", err)
        code, out, err = self.diagnose(self.dumps(**{"tutti-0-1-1.box": BOXES}))
        self.assertEqual((code, out), (1, ""), err)

    def test_help(self):
        code, out, _ = self.diagnose("--help")
        self.assertEqual(code, 0)
        self.assertIn("FOLDER", out)
        self.assertRegex(os.path.basename(self.wheel), self.diagnose("--version")[1].split()[1].replace(".", r"\."))


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
