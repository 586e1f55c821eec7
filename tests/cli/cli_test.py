#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tutti program from outside: run, env, topo, help, and commands that do not exist.
Usage: cli_test.py TUTTI SOURCE_ROOT"""
import json
import os
import pty
import re
import resource
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import xml.dom.minidom

TUTTI = ""
EMULATOR = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))  # of a build for another processor
ROOT = ""
DEADLINE = 120


def tutti(*args, stdin="", env=None):
    """Exit status, standard output, standard error."""
    done = subprocess.run([*EMULATOR, TUTTI, *args], input=stdin, capture_output=True, text=True, timeout=DEADLINE,
                          env={**os.environ, **(env or {})})
    return done.returncode, done.stdout, done.stderr


def ranks(size, script, *options, **more):
    return tutti("run", "-n", str(size), *options, "--", "sh", "-c", script, **more)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(condition):
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


class Run(unittest.TestCase):
    def test_ports_of_later_communicators(self):
        """The k-th one meets at the next port but k - 1: no client gets these, and no other program."""
        look = ("import os, socket\n"
                "for port in range(int(os.environ['TUTTI_ID'].split(':')[1]), 65536)[:8]:\n"
                "    with socket.socket() as takes_over:\n"
                "        assert port < 32768, port\n"
                "        takes_over.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
                "        takes_over.bind(('127.0.0.1', port))\n"
                "        takes_over.listen()\n"
                "    with socket.socket() as mine:\n"
                "        try:\n"
                "            mine.bind(('127.0.0.1', port))\n"
                "            raise SystemExit(f'port {port} was free')\n"
                "        except OSError:\n"
                "            pass\n")
        with tempfile.NamedTemporaryFile("w", suffix=".py") as program:
            program.write(look)
            program.flush()
            code, out, err = ranks(1, f"{sys.executable} {program.name}")
        self.assertEqual((code, out), (0, ""), err)

    def test_environment(self):
        code, out, _ = ranks(3, 'echo "$TUTTI_RANK $TUTTI_SIZE $TUTTI_ID $TUTTI_NONCE $RANK $WORLD_SIZE $LOCAL_RANK '
                                '$LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT"')
        self.assertEqual(code, 0)
        lines = sorted(out.splitlines())
        self.assertEqual(len(lines), 3)
        meetings = set()
        for rank, line in enumerate(lines):
            tag, mine, size, meeting, nonce, *torch = line.split()
            self.assertEqual((tag, mine, size), (f"[{rank}]", str(rank), "3"))
            self.assertRegex(meeting, r"^127\.0\.0\.1:[1-9][0-9]*$")
            self.assertRegex(nonce, r"^[0-9a-f]{32}$")
            self.assertEqual(torch[:5], [str(rank), "3", str(rank), "3", "127.0.0.1"])
            self.assertNotEqual(torch[5], meeting.split(":")[1])
            meetings.add((meeting, nonce, torch[5]))
        self.assertEqual(len(meetings), 1)

    def test_a_good_start_tells_of_no_failure(self):
        for over in "shm", "tcp":
            code, _, err = tutti("run", "-n", "3", "--", *EMULATOR, TUTTI, "perf", "barrier", "-n", "2",
                                 env={"TUTTI_DEBUG": "info", "TUTTI_TRANSPORT": over})
            self.assertEqual(code, 0, err)
            self.assertEqual(err.count("joined"), 3, err)
            self.assertNotRegex(err.lower(), "fail|error|lost|refused|warn")

    def test_number_as_mpirun_has_it(self):
        for words in ("-np", "2"), ("-n2",), ("--np=2",):
            self.assertEqual(tutti("run", *words, "--no-tag", "sh", "-c", "echo $TUTTI_SIZE")[:2], (0, "2\n2\n"), words)
        self.assertIn("lacks its value", tutti("run", "-np")[2])
        self.assertEqual(tutti("run", "-np", "1", "--no-tag", "echo", "-np", "--help")[:2], (0, "-np --help\n"))
        self.assertIn('got "two"', tutti("run", "-np", "two", "true")[2])

    def test_two_jobs_have_two_nonces(self):
        self.assertNotEqual(ranks(1, "echo $TUTTI_NONCE"), ranks(1, "echo $TUTTI_NONCE"))

    def test_streams_are_kept_apart(self):
        code, out, err = ranks(2, "echo to-out; echo to-err >&2")
        self.assertEqual(code, 0)
        self.assertEqual(sorted(out.splitlines()), ["[0] to-out", "[1] to-out"])
        self.assertEqual(sorted(err.splitlines()), ["[0] to-err", "[1] to-err"])

    def test_lines_stay_whole(self):
        line = "x" * 5000
        code, out, _ = ranks(4, f"i=0; while [ $i -lt 50 ]; do printf '%s' {line[:2500]}; echo {line[2500:]}; "
                             "i=$((i+1)); done")
        self.assertEqual(code, 0)
        lines = out.splitlines()
        self.assertEqual(len(lines), 200)
        for text in lines:
            self.assertRegex(text, r"^\[[0-3]\] x{5000}$")

    def test_very_long_line(self):
        code, out, _ = ranks(1, "head -c 3000000 /dev/zero | tr '\\0' y")
        self.assertEqual(code, 0)
        self.assertEqual(re.sub(r"\[0\] |\n", "", out), "y" * 3000000)

    def test_unfinished_last_line(self):
        self.assertEqual(ranks(1, "printf end")[:2], (0, "[0] end\n"))

    def test_no_tag(self):
        self.assertEqual(ranks(1, "printf plain", "--no-tag")[:2], (0, "plain"))

    def test_stdin_goes_to_rank_0(self):
        code, out, _ = ranks(2, "cat", stdin="hello\n")
        self.assertEqual((code, out), (0, "[0] hello\n"))

    def test_set_variables(self):
        code, out, _ = ranks(1, "echo $A $B", "-x", "A=one", "-x", "B=two three", env={"B": "old"})
        self.assertEqual((code, out), (0, "[0] one two three\n"))

    def test_code_of_the_failing_rank(self):
        code, _, err = ranks(3, "[ $RANK = 1 ] && exit 7; exec sleep 1000")
        self.assertEqual(code, 7)
        self.assertRegex(err, r"rank 1 \(pid [0-9]+\) exited with code 7")

    def test_code_of_a_killed_rank(self):
        code, _, err = ranks(2, "[ $RANK = 1 ] && kill -SEGV $$; exec sleep 1000")
        self.assertEqual(code, 128 + signal.SIGSEGV)
        self.assertRegex(err, r"rank 1 .*signal 11")

    def test_rank_that_ignores_term_is_killed(self):
        code, _, _ = ranks(2, "[ $RANK = 1 ] && exit 3; trap '' TERM; while :; do sleep 1; done")
        self.assertEqual(code, 3)

    def test_program_that_is_not_there(self):
        code, _, err = tutti("run", "-n", "2", "/nonexistent/program")
        self.assertEqual(code, 127)
        self.assertIn("cannot run /nonexistent/program", err)

    def test_program_that_may_not_run(self):
        code, _, err = tutti("run", "-n", "2", "/etc/passwd")
        self.assertEqual(code, 126)
        self.assertIn("Permission denied: it is not executable; write: chmod +x /etc/passwd\n", err)
        self.assertIn("Permission denied: it is a folder\n", tutti("run", "-n", "1", "/etc")[2])

    def test_script_that_may_not_run(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in ("x.py", "print(1)\n"), ("go", "#!/bin/sh\n"), ("lost", "#!/nonexistent/shell\n"):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
                os.chmod(file.name, 0o644 if name == "x.py" else 0o755)
            for program, code, sentence in (
                    ("./x.py", 126, "Permission denied: it is not executable; write: python3 ./x.py\n"),
                    ("x.py", 127, "No such file or directory: it is not in PATH; write: python3 x.py\n"),
                    ("go", 127, "No such file or directory: it is not in PATH, but in this folder; write: ./go\n"),
                    ("./lost", 127, ": the interpreter that its first line names, or its loader, is not there\n"),
                    ("nonexistent", 127, "cannot run nonexistent: No such file or directory\n")):
                done = subprocess.run([*EMULATOR, TUTTI, "run", "-n", "1", program], capture_output=True, text=True,
                                      timeout=DEADLINE, cwd=folder, check=False)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertTrue(done.stderr.endswith(sentence), done.stderr)

    def test_timeout(self):
        code, _, err = ranks(2, "exec sleep 1000", "--timeout", "1")
        self.assertEqual(code, 124)
        self.assertIn("not done after 1 s", err)

    def test_bind(self):
        code, out, _ = ranks(1, "grep Cpus_allowed_list /proc/self/status", "--bind", "core")
        self.assertEqual(code, 0)
        self.assertRegex(out, r":\s+[0-9]+\n")

    def test_wrong_usage(self):
        for args in (["-n", "0", "true"], ["-n", "x", "true"], ["-n", "-1", "true"], ["-n", "2"], ["true"], [],
                     ["-n", "1", "--bind", "moon", "true"], ["-n", "1", "--timeout", "0", "true"],
                     ["-n", "1", "-x", "=1", "true"], ["-n", "1", "-x", "NOT_SET_ANYWHERE", "true"],
                     ["--what", "true"]):
            with self.subTest(args=args):
                code, out, err = tutti("run", *args)
                self.assertEqual((code, out), (2, ""))
                self.assertIn("tutti help run", err)

    def test_closed_output_ends_the_job(self):
        job = subprocess.Popen([*EMULATOR, TUTTI, "run", "-n", "2", "--", "sh", "-c", "while :; do echo line; done"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        job.stdout.readline()
        job.stdout.close()
        self.assertNotEqual(job.wait(DEADLINE), 0)
        job.stderr.close()


class Processes(unittest.TestCase):
    """No process stays behind, whatever ends first."""

    def start(self, script, size=2, **more):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        job = subprocess.Popen([*EMULATOR, TUTTI, "run", "-n", str(size), "-x", f"DIR={self.folder.name}", "--", "sh",
                                "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.stderr.close)
        self.addCleanup(lambda: job.poll() is None and job.kill())
        return job

    def pids(self, count):
        self.assertTrue(wait_for(lambda: len(os.listdir(self.folder.name)) == count), "the ranks did not start")
        return [int(name) for name in os.listdir(self.folder.name)]

    def end_of(self, job):
        try:
            return job.communicate(timeout=DEADLINE)[1]
        finally:
            if job.poll() is None:
                job.kill()
                job.wait()

    def expect_all_gone(self, pids):
        self.assertTrue(wait_for(lambda: not any(alive(pid) for pid in pids)), "processes stayed behind")

    FAMILY = 'sleep 1000 & touch "$DIR/$!"; touch "$DIR/$$"; wait'

    def test_launcher_killed(self):
        job = self.start(self.FAMILY)
        pids = self.pids(4)
        job.kill()
        job.wait(DEADLINE)
        self.expect_all_gone(pids)

    def test_launcher_killed_at_once(self):
        for _ in range(20):
            job = self.start('sleep 1000 & echo >"$DIR/$!"; kill -9 $PPID; wait', size=1)
            self.assertEqual(job.wait(DEADLINE), -signal.SIGKILL)
            self.expect_all_gone(self.pids(1))

    def test_child_of_a_rank_outlives_it(self):
        job = self.start('sleep 1000 & touch "$DIR/$!"')
        self.assertEqual(job.wait(DEADLINE), 0)
        self.expect_all_gone(self.pids(2))

    @unittest.skipIf(EMULATOR,
                     "qemu-user 7.2 refuses prctl(PR_SET_CHILD_SUBREAPER): the launcher does not adopt such a child")
    def test_child_in_its_own_session(self):
        job = self.start('setsid sh -c \'touch "$DIR/$$"; exec sleep 1000\' & '
                         'while [ -z "$(ls "$DIR")" ]; do sleep 0.01; done; exit 4', size=1)
        self.assertEqual(job.wait(DEADLINE), 4)
        self.expect_all_gone([int(name) for name in os.listdir(self.folder.name)])

    def test_signals_are_passed_on(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number):
                job = self.start(self.FAMILY)
                pids = self.pids(4)
                job.send_signal(number)
                self.assertEqual(job.wait(DEADLINE), 128 + number)
                self.expect_all_gone(pids)

    def test_rank_may_handle_a_signal(self):
        job = self.start('trap "echo saved; exit 0" TERM; touch "$DIR/$$"; while :; do sleep 0.05; done')
        self.pids(2)
        job.terminate()
        out, _ = job.communicate(timeout=DEADLINE)
        self.assertEqual((job.returncode, sorted(out.splitlines())), (0, ["[0] saved", "[1] saved"]))

    def test_second_signal_kills(self):
        job = self.start('trap \'touch "$DIR/0$$"\' INT; touch "$DIR/$$"; while :; do sleep 0.05; done')
        pids = self.pids(2)
        job.send_signal(signal.SIGINT)
        self.pids(4)  # both ranks have handled the first one
        job.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(DEADLINE), 128 + signal.SIGKILL)
        self.expect_all_gone(pids)

    def test_too_few_descriptors_for_the_ranks(self):
        job = self.start(self.FAMILY, size=24, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
        err = self.end_of(job)
        self.assertEqual(job.returncode, 1)
        self.assertRegex(err, "cannot start rank [0-9]+ of sh: Too many open files")
        self.expect_all_gone([int(name) for name in os.listdir(self.folder.name)])

    @unittest.skipIf(EMULATOR, "the limit of the emulator itself is another one")
    def test_descriptors_forbidden_while_ranks_run(self):
        job = self.start("trap '' USR1; " + self.FAMILY)
        pids = self.pids(4)
        resource.prlimit(job.pid, resource.RLIMIT_NOFILE, (2, 2))
        job.send_signal(signal.SIGUSR1)  # the launcher wakes, and looks again under the limit
        err = self.end_of(job)
        self.assertEqual(job.returncode, 1)
        self.assertIn("cannot go on: Invalid argument; killing all ranks", err)
        self.expect_all_gone(pids)

    @unittest.skipIf(EMULATOR, "the emulator has descriptors of its own")
    def test_without_standard_descriptors(self):
        with tempfile.NamedTemporaryFile("r") as said:
            script = f"cd /proc/$PPID/fd && readlink 0 1 2 >'{said.name}'"
            subprocess.run([TUTTI, "run", "-n", "1", "--", "sh", "-c", script], timeout=DEADLINE,
                           preexec_fn=lambda: os.closerange(0, 3))
            self.assertEqual(said.read().split(), ["/dev/null"] * 3)

    @unittest.skipIf(EMULATOR, "tutti perf starts itself")
    def test_files_and_shared_memory_that_may_not_grow(self):
        for transport, expected in (("shm", 1), ("tcp", 0)):
            with self.subTest(transport=transport):
                done = subprocess.run([TUTTI, "perf", "allreduce", "-np", "2", "-b", "8", "-e", "8", "-n", "1"],
                                      capture_output=True, text=True, timeout=DEADLINE,
                                      env={**os.environ, "TUTTI_TRANSPORT": transport, "TUTTI_INIT_TIMEOUT": "20s"},
                                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
                self.assertEqual(done.returncode, expected, done.stderr)
                self.assertIn("File too large", done.stderr)
                self.assertNotIn("signal", done.stderr)  # SIGXFSZ


class Env(unittest.TestCase):
    def test_value_and_source(self):
        code, out, _ = tutti("env", "spin", env={"TUTTI_SPIN": "7"})
        self.assertEqual(code, 0)
        self.assertIn("TUTTI_SPIN=7\n", out)
        self.assertIn("from TUTTI_SPIN; default \"50\"", out)

    def test_alias(self):
        _, out, _ = tutti("env", "TUTTI_DEBUG", env={"NCCL_DEBUG": "INFO"})
        self.assertIn("TUTTI_DEBUG=INFO", out)
        self.assertIn("from NCCL_DEBUG", out)

    def rows(self):
        """Names and levels, as the tables have them."""
        text = ""
        for table in ("params", "gpu"):
            with open(os.path.join(ROOT, f"src/tables/{table}.tbl"), encoding="utf-8") as file:
                text += file.read()
        return (re.findall(r"^PARAM\((\w+), (\w+),", text, re.M) +
                [(name, "THRESHOLD") for name in re.findall(r"^THRESHOLD\((\w+),", text, re.M)])

    def test_all_shows_every_row(self):
        code, out, _ = tutti("env", "--all")
        self.assertEqual(code, 0)
        for row, _ in self.rows():
            self.assertIn(f"TUTTI_{row}=", out)

    def test_levels(self):
        """What users need is shown, of the others what is set."""
        rows = self.rows()
        _, out, _ = tutti("env", env={"TUTTI_SPIN": "7"})
        shown = re.findall(r"^TUTTI_(\w+)=", out, re.M)
        self.assertEqual(shown, [name for name, level in rows if level == "USER" or name == "SPIN"])
        self.assertIn(f"\n{len(rows) - len(shown)} more parameters", out)
        self.assertLessEqual(len(shown), 40)
        page = tutti("env", "--markdown")[1].split("\n## ")[1:]
        for part, level in zip(page, ("USER", "TUNING", "THRESHOLD", "TEST"), strict=True):
            self.assertEqual(re.findall(r"^\| TUTTI_(\w+) ", part, re.M), [name for name, of in rows if of == level])

    def test_thresholds_of_a_file(self):
        """A row is shown, and where it comes from; a wrong one is told, and none of the file is in force."""
        with tempfile.NamedTemporaryFile("w+") as file:
            right = f"TUTTI_COPY_FROM=65536\n.*\n    from {file.name}; default"
            for rows, code, shown in (({"COPY_FROM": 65536}, 0, right),
                                      ({"COPY_FROM": 1, "COPIES": 2}, 1, "more parameters")):
                file.seek(0)
                file.truncate()
                json.dump({"version": 1, "rules": [], "gpu": rows}, file)
                file.flush()
                got, out, err = tutti("env", env={"TUTTI_TUNE_FILE": file.name})
                self.assertEqual(got, code, err)
                self.assertEqual("TUTTI_COPY_FROM=" in out, not code)
                self.assertRegex(out, shown)
                self.assertEqual(f'{file.name}: "gpu": "COPIES": want a threshold of this name' in err, bool(code), err)
            out = tutti("env", "copy_from", env={"TUTTI_TUNE_FILE": file.name, "TUTTI_COPY_FROM": "2K"})[1]
            self.assertIn("TUTTI_COPY_FROM=2K\n", out)

    def test_bad_value(self):
        code, _, err = tutti("env", env={"TUTTI_SPIN": "fast"})
        self.assertEqual(code, 1)
        self.assertIn("TUTTI_SPIN=fast", err)

    def test_near_variable(self):
        code, _, err = tutti("env", env={"TUTTI_SPNI": "7"})
        self.assertEqual(code, 0)
        self.assertEqual(err.count("TUTTI_SPNI"), 1)
        self.assertIn("unknown variable TUTTI_SPNI is ignored. Did you mean TUTTI_SPIN?", err)

    def test_near_name(self):
        code, _, err = tutti("env", "SPIM")
        self.assertEqual(code, 2)
        self.assertIn("Did you mean TUTTI_SPIN", err)

    def test_page_is_fresh(self):
        code, out, _ = tutti("env", "--markdown", env={"TUTTI_SPIN": "7"})
        with open(os.path.join(ROOT, "docs/reference/parameters.md"), encoding="utf-8") as file:
            self.assertEqual(out, file.read(), "docs/reference/parameters.md is stale: make docs")


class Topo(unittest.TestCase):
    def test_tree(self):
        code, out, _ = tutti("topo")
        self.assertEqual(code, 0)
        self.assertTrue(out.startswith("Machine "))
        self.assertIn("PU 0", out)
        self.assertIn("Net lo", out)

    def test_json(self):
        nodes = json.loads(tutti("topo", "--json")[1])["nodes"]
        self.assertEqual(nodes[0]["kind"], "Machine")
        self.assertEqual(sum(n["kind"] == "PU" for n in nodes), len(nodes[0]["cpus"]))
        self.assertTrue(all(n["parent"] < i for i, n in enumerate(nodes)))

    def test_without_hwloc(self):
        """The dynamic linker refuses a library that is an empty file,
        so whoever is linked with hwloc does not start."""
        with tempfile.TemporaryDirectory() as folder:
            open(os.path.join(folder, "libhwloc.so.15"), "w", encoding="utf-8").close()
            code, out, err = tutti("topo", env={"LD_LIBRARY_PATH": folder})
        self.assertEqual((code, err), (0, ""))
        self.assertTrue(out.startswith("Machine "))
        self.assertTrue(out.endswith("Processors as sysfs tells.\n"))

    def test_picture(self):
        code, out, _ = tutti("topo", "--svg", "-")
        self.assertEqual(code, 0)
        boxes = xml.dom.minidom.parseString(out).getElementsByTagName("rect")
        self.assertGreaterEqual(len(boxes), 2)

    def test_picture_that_cannot_be_written(self):
        code, _, err = tutti("topo", "--svg", "/nonexistent/x.svg")
        self.assertEqual(code, 1)
        self.assertIn("/nonexistent/x.svg", err)


class Tune(unittest.TestCase):
    def test_looks_whether_it_can_write(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "file")
            open(file, "w", encoding="utf-8").close()
            for gpu in ([], ["--gpu"]):
                for path in (folder, file + "/table.json", file + "/below/table.json"):
                    with self.subTest(path=path, gpu=gpu):
                        code, out, err = tutti("tune", "-o", path, *gpu)
                        self.assertEqual((code, out), (1, ""))
                        self.assertIn(f"tutti tune: cannot write {path}, so nothing is measured: ", err)
            self.assertEqual(os.listdir(folder), ["file"])


    def start_busy(self, *args):
        """Beside a program on each processor that never rests."""
        for _ in os.sched_getaffinity(0):
            other = subprocess.Popen(["sh", "-c", "while :; do :; done"])
            self.addCleanup(other.wait)
            self.addCleanup(other.kill)
        job = subprocess.Popen([*EMULATOR, TUTTI, "tune", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
        self.addCleanup(lambda: (job.stdout.close(), job.stderr.close()))
        return job

    BUSY = (r"^tutti tune: this machine is too busy to be measured: other processes use [1-9]\d*\.\d\d of the \d+ "
            r"processors, .*; work that is always the same takes \d+ us, but 1 time of 10 more than \d+ us\n"
            r"tutti tune: ")

    def test_busy_machine(self):
        with tempfile.TemporaryDirectory() as folder:
            table = os.path.join(folder, "table.json")
            job = self.start_busy("-o", table)
            out, err = job.communicate(timeout=DEADLINE)
            self.assertEqual((job.returncode, out), (1, ""), err)
            self.assertRegex(err, self.BUSY + r"nothing was measured\..* --force\n")
            self.assertEqual(os.listdir(folder), [])
            job = self.start_busy("-o", table, "--force", "--quick", "-n", "2")
            self.assertTrue(job.stdout.readline().startswith("[1/"))
            job.terminate()
            self.assertRegex(job.communicate(timeout=DEADLINE)[1], self.BUSY + "measuring all the same, by --force")


class Absent(unittest.TestCase):
    """A process that has no black box: why. In a folder of its own: a dead process may have had its number."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, *command, **env):
        job = subprocess.Popen([*EMULATOR, *command], stdout=subprocess.DEVNULL, env={**os.environ, **env})
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        return job.pid

    def asked(self, *args):
        code, out, err = tutti(*args, env={"TUTTI_TRACE_DIR": self.folder})
        self.assertEqual((code, out), (3, ""), err)
        return err

    @unittest.skipIf(EMULATOR, "the emulator is the process")
    def test_process_without_tutti(self):
        pid = str(self.start("sleep", "1000"))
        self.assertTrue(wait_for(lambda: "sleep" in os.readlink(f"/proc/{pid}/exe")))
        for args in (["diagnose", pid], ["trace", "--pid", pid]):
            self.assertRegex(self.asked(*args), rf"^tutti {args[0]}: process {pid} \(sleep\) does not use tutti: "
                             r"neither libtutti\.so nor libnccl\.so\.2 is loaded")

    @unittest.skipIf(EMULATOR, "the emulator is the process")
    def test_process_with_the_number_of_a_dead_one(self):
        pid = self.start(TUTTI, "perf", "allreduce", "-N", "0", "-b", "8", "-e", "8", TUTTI_TRACE_DIR=self.folder)
        self.assertTrue(wait_for(lambda: tutti("diagnose", str(pid), env={"TUTTI_TRACE_DIR": self.folder})[0] == 0))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        lives = self.start("sleep", "1000")
        old, = os.listdir(self.folder)
        with open(os.path.join(self.folder, old), "rb") as file:
            box = bytearray(file.read())
        at = box.index(struct.pack("=I", pid))
        box[at:at + 4] = struct.pack("=I", lives)
        user, _, start = old[len("tutti-"):-len(".box")].split("-")
        with open(os.path.join(self.folder, f"tutti-{user}-{lives}-{int(start) - 1}.box"), "wb") as file:
            file.write(box)
        self.assertIn("does not use tutti", self.asked("diagnose", str(lives)))
        for shown in (["--dead", str(lives)], [str(pid)]):  # 5: it was killed in the middle of a call
            self.assertIn(tutti("diagnose", *shown, env={"TUTTI_TRACE_DIR": self.folder})[0], (0, 5))

    @unittest.skipIf(EMULATOR, "the emulator is the process")
    def test_process_that_writes_no_box(self):
        pid = self.start(TUTTI, "perf", "allreduce", "-N", "0", "-b", "8", "-e", "8", TUTTI_TRACE="0")

        def loaded():
            with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
                return "libtutti.so" in maps.read()
        self.assertTrue(wait_for(loaded))
        self.assertRegex(self.asked("diagnose", str(pid)),
                         r"\(tutti\) has loaded libtutti\.so\S*, but has no black box in .*TUTTI_TRACE is 0")

    def test_no_process(self):
        self.assertRegex(self.asked("diagnose", "4000001"), "there is no process 4000001 here")
        self.assertRegex(self.asked("diagnose", "nobody"),
                         'no process with a black box in .* has a communicator "nobody"')


class Program(unittest.TestCase):
    def test_version(self):
        with open(os.path.join(ROOT, "meson.build"), encoding="utf-8") as file:
            version = re.search(r"version: '([0-9.]+)'", file.read()).group(1)
        self.assertEqual(tutti("version"), (0, f"tutti {version}\n", ""))

    def test_no_command(self):
        code, out, err = tutti()
        self.assertEqual((code, out), (2, ""))
        self.assertIn("Commands:", err)

    def test_near_command(self):
        code, _, err = tutti("rnu")
        self.assertEqual(code, 2)
        self.assertIn('Did you mean "run"', err)

    def test_far_command(self):
        code, _, err = tutti("qqqqqqqq")
        self.assertEqual(code, 2)
        self.assertNotIn("Did you mean", err)

    def test_program_from_path(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tutti-hello")
            with open(path, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\necho external $1; exit 5\n")
            os.chmod(path, 0o755)
            code, out, _ = tutti("hello", "arg", env={"PATH": folder + ":" + os.environ["PATH"]})
        self.assertEqual((code, out), (5, "external arg\n"))

    def completions(self, *words):
        """What the program says may stand where the last word begins."""
        code, out, err = tutti("--complete", *words)
        self.assertEqual((code, err), (0, ""))
        for line in out.splitlines():
            self.assertEqual(line.count("\t"), 1, line)
        return [line.split("\t")[0] for line in out.splitlines()]

    def test_completion(self):
        commands = re.findall(r"^  ([a-z]+) ", tutti("help")[1], re.M)
        self.assertEqual(self.completions(""), commands)
        self.assertEqual(self.completions("tra"), ["trace"])
        self.assertEqual(self.completions("help", "di"), ["diagnose"])
        self.assertEqual(self.completions("topo", "--"), ["--json", "--svg", "--help"])
        self.assertEqual(self.completions("run", "-n"), ["-n", "-np"])
        self.assertEqual(self.completions("env", "TUTTI_SPI"), ["TUTTI_SPIN"])
        self.assertEqual(self.completions("perf", "all"), ["allreduce", "allgather", "alltoall", "alltoallv"])
        self.assertEqual(self.completions("perf", "b"), ["broadcast", "barrier"])
        self.assertEqual(self.completions("perf", "-np", "2", "b"), ["broadcast", "barrier"])
        self.assertEqual(self.completions("perf", "barrier", "b"), [])
        for words in ("-d", "fl"), ("--datatype", "fl"), ("--datatype", "=", "fl"):
            self.assertEqual(self.completions("perf", "allreduce", *words), ["float"])
        self.assertEqual(self.completions("perf", "allreduce", "--op=m"), ["--op=max", "--op=min", "--op=mulsum"])
        self.assertEqual(self.completions("perf", "-J", "fi"), [])
        self.assertEqual(self.completions("schedule", "allreduce", "two"), ["two-level", "two-shot"])
        self.assertEqual(self.completions("schedule", "alltoallv", "two"), [])
        self.assertEqual(self.completions("run", "--bind", ""), ["none", "core"])
        self.assertEqual(self.completions("run", "-n", "2", "program", "-"), [])
        self.assertEqual(self.completions("doctor", "m"), ["memlock", "mtu"])
        self.assertEqual(self.completions("topo", "fi"), [])
        self.assertEqual(self.completions("rnu", "-"), [])
        for command in commands:
            with self.subTest(command=command):
                options = self.completions(command, "-")
                for option in options:
                    self.assertIn(option, tutti("help", command)[1])
                self.assertEqual(bool(options), command not in ("help", "version"))

    def test_help_fits_a_terminal(self):
        for command in re.findall(r"^  ([a-z]+) ", tutti("help")[1], re.M):
            for line in tutti("help", command)[1].splitlines():
                self.assertLessEqual(len(line), 80, line)

    def test_exit_codes_are_told(self):
        for command in re.findall(r"^  ([a-z]+) ", tutti("help")[1], re.M):
            if command not in ("help", "version"):
                self.assertIn("\nExit status: 0", tutti("help", command)[1], command)

    def refused(self, *args):
        """The one sentence on standard error."""
        code, out, err = tutti(*args)
        self.assertEqual((code, out), (2, ""), args)
        first, second = err.splitlines()
        self.assertTrue(first.startswith(f"tutti {args[0]}: "), err)
        self.assertEqual(second, f"See: tutti help {args[0]}")
        return first.split(": ", 1)[1]

    def test_option_that_is_refused(self):
        for args, sentence in (
                (["perf", "-d", "flaot"], '-d, --datatype: there is no "flaot". Did you mean "float"? It wants int8, '
                 "uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3, f8e5m2 or all"),
                (["perf", "-o", "xor"], '-o, --op wants sum, prod, max, min, avg, mulsum or all, got "xor"'),
                (["perf", "-t", "0"], '-t, --nthreads wants a whole number from 1 to 1024, got "0"'),
                (["perf", "-b", "big"], '-b, --minbytes wants bytes such as 4096, 64K or 1M, 0 or more, got "big"'),
                (["perf", "-r", "x"], '-r, --root wants the number of a rank, or all, got "x"'),
                (["perf", "--itres=3"], "there is no option --itres. Did you mean --iters?"),
                (["perf", "--xyzzy"], "there is no option --xyzzy"),
                (["perf", "--n", "3"], "--n begins more than one option, one of them --nthreads: spell it out"),
                (["perf", "-q"], "there is no option -q"),
                (["perf", "-b"], "option -b, --minbytes lacks its value, N"),
                (["perf", "--gpu=1"], "option --gpu takes no value"),
                (["run", "--bindd", "core"], "there is no option --bindd. Did you mean --bind?"),
                (["run", "-np", "two"], '-n, -np, --np wants a whole number from 1 to 4096, got "two"'),
                (["top", "--sort", "wiat"], '-s, --sort: there is no "wiat". Did you mean "wait"? It wants rank, '
                 "operations, bandwidth, wait or pid"),
                (["top", "-i", "1ms"], '-i, --interval wants a time such as 500ms or 30s, from 50ms to 1h, got "1ms"'),
                (["trace", "--jsno"], "there is no option --jsno. Did you mean --json?"),
                (["diagnose", "--jsno"], "there is no option --jsno. Did you mean --json?"),
                (["schedule", "--wher"], "option --where lacks its value, PLACE"),
                (["schedule", "alreduce", "ring"], 'there is no collective "alreduce". Did you mean "allreduce"?'),
                (["schedule", "--alpha", "x"], '--alpha wants seconds such as 5e-6, 0 or more, got "x"'),
                (["tune", "--qiuck"], "there is no option --qiuck. Did you mean --quick?")):
            with self.subTest(args=args):
                self.assertEqual(self.refused(*args), sentence)

    WHOLE = ["perf allreduce -d float -z 1", "topo --svg file.json"]

    def typed(self, shell, *setup):
        """What a program `tutti` gets that is typed into this shell with the tabulator key."""
        path = shutil.which(shell)
        if EMULATOR or not path:
            self.skipTest(f"no {shell} here that could start the program")
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "tutti")
            with open(program, "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\n[ "$1" = --complete ] && exec {shlex.quote(TUTTI)} "$@"\necho "<$*>"\n')
            os.chmod(program, 0o755)
            open(os.path.join(folder, "file.json"), "w", encoding="utf-8").close()
            lines = (*setup, "tutti pe\tallr\t-d fl\t-z 1", "tutti topo --sv\tfil\t", "exit")
            pid, terminal = pty.fork()
            if pid == 0:
                os.chdir(folder)
                os.environ.update(PATH=folder + ":" + os.environ["PATH"], TERM="dumb", HOME=folder)
                os.execl(path, path, *({"bash": ["--norc", "-i"], "zsh": ["-f", "-i"]}[shell]))
            os.write(terminal, "".join(line + "\n" for line in lines).encode())
            said, end = b"", time.monotonic() + DEADLINE
            try:
                while time.monotonic() < end:
                    said += os.read(terminal, 4096)
            except OSError:  # the shell has ended
                pass
            os.close(terminal)
            os.waitpid(pid, 0)
        return re.findall(r"(?m)^<(.*)>$", said.decode().replace("\r\n", "\n"))

    def test_completion_in_bash(self):
        self.assertEqual(self.typed("bash", f"source {ROOT}/cli/completion/tutti.bash"), self.WHOLE)

    def test_completion_in_zsh(self):
        self.assertEqual(self.typed("zsh", f"fpath=({ROOT}/cli/completion $fpath)", "autoload -Uz compinit",
                                    "compinit -u -D"), self.WHOLE)

    @unittest.skipIf(EMULATOR or not shutil.which("fish"), "no fish here that could start the program")
    def test_completion_in_fish(self):
        def complete(line):
            script = f"source {ROOT}/cli/completion/tutti.fish; complete -C '{line}'"
            return subprocess.run(["fish", "--no-config", "-c", script], check=True, capture_output=True, text=True,
                                  env={**os.environ, "PATH": os.path.dirname(TUTTI) + ":" + os.environ["PATH"]},
                                  timeout=DEADLINE).stdout.splitlines()
        self.assertEqual(complete("tutti perf -d fl"), ["float"])
        self.assertEqual(complete("tutti trac"), ["trace\tRead the black boxes of running and dead processes"])
        self.assertEqual(complete("tutti topo --svg /etc/passw")[0], "/etc/passwd")

    PRINTS = (["help"], ["version"], ["--help"], ["-h"], ["--version"], ["env", "--all"], ["env", "--markdown"],
              ["env", "spin"], ["topo"], ["topo", "--json"], ["topo", "--svg", "-"], ["schedule", "--list"],
              ["schedule", "allreduce", "ring"], ["schedule", "allreduce", "ring", "--svg", "-"], ["trace"],
              ["trace", "--json"],
              ["trace", "--dead", "--counters"], ["diagnose", "--json"], ["doctor", "parameters"], ["doctor", "--json"],
              ["export", "--once"], ["top", "--once", "-i", "50ms"],
              ["perf", "allreduce", "-b", "8", "-e", "8", "-n", "1"], ["perf", "--help"],
              ["tune", "--help"], ["run", "--help"], ["diagnose", "--help"], ["export", "--help"], ["top", "--help"],
              ["doctor", "--help"], ["trace", "--help"], ["trace", "--clean"])

    def printed_to(self, output, **more):
        """Exit status and standard error of every command that prints, beside a dead process's black box."""
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, "TUTTI_TRACE_DIR": folder}
            killed = subprocess.Popen([*EMULATOR, TUTTI, "perf", "allreduce", "-n", "1000000000", "-b", "8", "-e", "8"],
                                      env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_for(lambda: tutti("trace", "--summary", env={"TUTTI_TRACE_DIR": folder})[0] in (0, 5))
            killed.kill()
            killed.wait(DEADLINE)
            for args in self.PRINTS:
                done = subprocess.run([*EMULATOR, TUTTI, *args], stdout=output, stderr=subprocess.PIPE, text=True,
                                      timeout=DEADLINE, env=env, **more)
                yield args, done.returncode, done.stderr

    def test_full_device(self):
        """Every command that prints says so, by its name, and fails."""
        with open("/dev/full", "w", encoding="utf-8") as full:
            for args, code, err in self.printed_to(full):
                self.assertEqual(code, 1, args)
                self.assertRegex(err, f"(?m)^tutti {args[0]}: .*No space left on device")

    def test_closed_pipe(self):
        """As other programs: ended by the signal, without a word; where that is ignored, with a sentence."""
        reads, writes = os.pipe()
        os.close(reads)
        self.addCleanup(os.close, writes)
        for args, code, err in self.printed_to(writes):
            self.assertEqual(code, -signal.SIGPIPE, args)
            self.assertNotIn("pipe", err)
        for args, code, err in self.printed_to(writes, restore_signals=False):
            self.assertEqual(code, 1, args)
            self.assertRegex(err, f"(?m)^tutti {args[0]}: .*Broken pipe")

    def test_every_command_has_help(self):
        commands = re.findall(r"^  ([a-z]+) ", tutti("help")[1], re.M)
        self.assertIn("run", commands)
        for command in commands:
            with self.subTest(command=command):
                code, out, err = tutti("help", command)
                self.assertEqual((code, err), (0, ""))
                self.assertTrue(out.startswith("Usage: tutti " + command))


if __name__ == "__main__":
    TUTTI, ROOT = os.path.abspath(sys.argv[1]), sys.argv[2]
    # Where a build has those of its programs that stand beside this one when they are installed.
    control = os.path.join(os.path.dirname(TUTTI), "..", "control")
    os.environ["PATH"] += f":{control}/pathmaster:{control}/pathagent"
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
