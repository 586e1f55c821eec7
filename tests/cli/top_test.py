#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tutti top beside running jobs: as text, and on real terminals, which tmux and pty make. Usage: top_test.py TUTTI"""

import fcntl
import os
import pty
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

TUTTI = ""
DEADLINE = 60
EMULATOR = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))  # of a build for another processor
JOB = ["perf", "allreduce", "-b", "256K", "-e", "256K", "-n", "100000000", "-c", "0", "-w", "0", "-z", "1"]


def wait_for(condition):
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    return None


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Top(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tutti-top-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.boxes = os.path.join(self.folder, "boxes")
        os.mkdir(self.boxes)
        self.env = {
            **os.environ,
            "TUTTI_TRACE_DIR": self.boxes,
            "TUTTI_TRANSPORT": "tcp",
            "TUTTI_TCP_LANES": "1",
            "TERM": "screen",
        }

    def start(self, ranks=3):
        job = subprocess.Popen(
            [
                *EMULATOR,
                TUTTI,
                "run",
                "-n",
                str(ranks),
                "--",
                "sh",
                "-c",
                f'echo $$ >{self.folder}/$RANK; exec "$@"',
                "sh",
                *EMULATOR,
                TUTTI,
                *JOB,
            ],
            env=self.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(job.wait, DEADLINE)
        self.addCleanup(job.kill)
        self.assertTrue(
            wait_for(lambda: re.search(rf"^ +{ranks - 1} +\d+ .*allreduce #\d", self.once()[1], re.M)), self.once()
        )
        return job

    def pid(self, rank):
        with open(f"{self.folder}/{rank}", encoding="utf-8") as file:
            return int(file.read())

    def once(self, *args):
        done = subprocess.run(
            [*EMULATOR, TUTTI, "top", "--once", "-i", "100ms", *args],
            capture_output=True,
            text=True,
            env=self.env,
            timeout=DEADLINE,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr


class Once(Top):
    def test_running_job(self):
        self.start()
        row = r"(?m)^ +%d +%d tutti +[\d.]+k? +\d+\.\d+ +[\d.]+k? allreduce #\d"
        out = wait_for(
            lambda: (
                all(re.search(row % (rank, self.pid(rank)), text) for rank in range(3)) and text
                if (text := self.once("-i", "500ms", "--stuck", "60m")[1])
                else None
            )
        )
        self.assertTrue(out, self.once())
        self.assertRegex(out, r"^tutti top  \d\d:\d\d:\d\d  3 processes  \d+ communicators?\n")
        self.assertRegex(out, r"(?m)^ +[0-2] rank [0-2] +tcp +0 +up +\d+\.\d+ +\d+\.\d+ ")
        for order, key in (("rank", 0), ("pid", 1)):
            rows = re.findall(r"^ +(\d+) +(\d+) tutti", self.once("-s", order)[1], re.M)
            self.assertEqual(rows, sorted(rows, key=lambda row, key=key: int(row[key])))
        self.assertEqual(len(re.findall(r"^ +\d+ +\d+ tutti", self.once("--filter", "rank 1 ")[1], re.M)), 1)
        self.assertEqual(len(re.findall(r"^ +\d+ +\d+ tutti", self.once("--filter", "nobody has that")[1], re.M)), 0)

    def test_stopped_and_dead(self):
        self.start()
        os.kill(self.pid(1), signal.SIGSTOP)
        code, out, _ = (
            wait_for(lambda: (got := self.once("--stuck", "100ms"))[0] == 5 and "is stopped" in got[1] and got)
            or self.once()
        )
        self.assertEqual(code, 5, out)
        self.assertRegex(out, rf"(?m)^! rank 1 \(process {self.pid(1)}\) is stopped")
        self.assertRegex(out, r"(?m)^ +[02] +\d+ tutti .* allreduce #\d+ +rank \d \d")
        self.assertRegex(self.once("-s", "wait")[1].splitlines()[3], "rank [0-2] ")

    def test_nothing(self):
        self.assertEqual(self.once()[0], 4)
        self.assertRegex(self.once()[1], "0 processes  0 communicators\nno process with a black box\n$")
        code, out, err = self.once("--dir", "/nonexistent")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("tutti top: looking for black boxes in /nonexistent", err)
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run(
                [*EMULATOR, TUTTI, "top", "--once", "-i", "50ms"],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                env=self.env,
                timeout=DEADLINE,
                check=False,
            )
        self.assertEqual(
            (done.returncode, done.stderr), (1, "tutti top: cannot write the output: No space left on device\n")
        )

    def test_damaged_box(self):
        with open(f"{self.boxes}/tutti-{os.getuid()}-1-1.box", "wb") as file:
            file.write(b"TUTTIBOX" + b"\xff" * 10000)
        self.assertEqual(self.once()[0::2], (4, ""))

    def test_wrong_usage(self):
        for args, sentence in (
            (["more"], "takes no arguments, got more"),
            (["--what"], "there is no option --what"),
            (["-s", "rnak"], 'Did you mean "rank"?'),
            (["-s", "qqqqq"], "wants rank, operations"),
            (["-i", "1ms"], "from 50ms"),
            (["-i", "soon"], 'got "soon"'),
            (["--stuck", "61m"], "to 1h"),
        ):
            code, out, err = self.once(*args)
            self.assertEqual((code, out), (2, ""), args)
            self.assertIn(sentence, err)

    def test_no_terminal(self):
        done = subprocess.run(
            [*EMULATOR, TUTTI, "top"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env=self.env,
            timeout=DEADLINE,
            check=False,
        )
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, "^tutti top: .*(is no terminal|was built without ncurses): ")


@unittest.skipIf(EMULATOR, "the terminal's library is of another processor")
class Screen(Top):
    """In a window of tmux, which keeps what a terminal of that size would show."""

    def tmux(self, *args):
        done = subprocess.run(
            ["tmux", "-S", f"{self.folder}/tmux", "-f", "/dev/null", *args],
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            env=self.env,
            check=False,
        )
        return done.stdout

    def open(self, *args, size=(80, 24)):
        if not shutil.which("tmux"):
            self.skipTest("tmux is not installed")
        command = shlex.join([TUTTI, "top", "-i", "200ms", *args])
        self.tmux(
            "new-session",
            "-d",
            "-x",
            str(size[0]),
            "-y",
            str(size[1]),
            f"echo $$ >{self.folder}/shell; {command}; echo status $?; stty -a | grep -o '.echo '; sleep 1000",
        )
        self.addCleanup(self.tmux, "kill-server")

    def text(self):
        return self.tmux("capture-pane", "-p")

    def expect(self, pattern):
        seen = []
        found = wait_for(lambda: re.search(pattern, (seen.append(self.text()), seen[-1])[1], re.M))
        self.assertTrue(found, f"{pattern} is not in:\n{seen[-1]}")
        return seen[-1]

    def keys(self, *names):
        self.tmux("send-keys", *names)

    def opened(self, *args, **more):
        self.open(*args, **more)
        first = wait_for(lambda: "q quit" in (text := self.text()) and text or "without ncurses" in text and text)
        if "without ncurses" in first:
            self.skipTest("this build has no ncurses")
        return first

    def test_keys_and_end(self):
        self.start()
        text = self.opened("--stuck", "60m")
        lines = text.rstrip("\n").split("\n")
        self.assertEqual(len(lines), 24)
        self.assertTrue(lines[0].startswith("tutti top  "))
        self.assertTrue(lines[-1].startswith("q quit  s sort: rank  / filter"))
        self.assertLessEqual(max(map(len, lines)), 80)
        self.expect(r"^ +2 +\d+ tutti .* allreduce #\d+")
        self.expect(r"^ +[0-2] rank [0-2] +tcp +0 +up +\d")
        self.keys("s")
        self.expect("s sort: operations")
        self.keys("/", "rank 1 ")
        self.expect("^filter: rank 1 _")
        self.assertEqual(len(re.findall(r"^ +\d+ +\d+ tutti ", self.expect(r"^ +1 +\d+ tutti "), re.M)), 1)
        self.keys("BSpace", "Enter")
        self.expect("/ filter: rank 1  space pause")
        self.keys("Escape")
        self.expect(r"(?s)^ +0 +\d+ tutti .*/ filter  space")
        self.keys(" ")
        frozen = self.expect("PAUSED")
        time.sleep(0.5)
        self.assertEqual(self.text(), frozen)
        self.keys(" ", "h")
        self.expect("^up, down, page up")
        self.keys("q")
        self.expect(r"(?s)status 0\n echo$")

    def test_resize(self):
        self.start()
        self.opened("--stuck", "60m")
        for width, height in ((120, 40), (60, 12), (30, 8), (80, 24)):
            self.tmux("resize-window", "-x", str(width), "-y", str(height))

            def drawn(height=height):
                lines = self.text().rstrip("\n").split("\n")
                return len(lines) == height and "q quit" in lines[-1] and lines[0].startswith("tutti top") and lines

            lines = wait_for(drawn)
            self.assertTrue(lines, self.text())
            self.assertLessEqual(max(map(len, lines)), width)
        self.tmux("resize-window", "-x", "10", "-y", "3")
        self.expect("^too small")
        self.tmux("resize-window", "-x", "80", "-y", "7")
        self.expect("not all shown")
        self.keys("Down", "NPage", "Up", "PPage", "PPage")
        self.expect(r"^ +0 +\d+ tutti")
        self.keys("C-l", "C-c")
        self.expect("status 0")

    def test_rank_killed_while_shown(self):
        job = self.start()
        self.opened("--stuck", "100ms", "--dead")
        victim = self.pid(2)
        os.kill(job.pid, signal.SIGSTOP)  # it would end the others at once
        os.kill(victim, signal.SIGKILL)
        self.expect(rf"^ +2 +{victim} tutti .* dead$")
        self.expect(rf"^! .*process {victim}, dead")
        os.kill(job.pid, signal.SIGCONT)
        self.expect("^ *tutti top .*0 processes and dead ones")
        self.keys("q")
        self.expect("status 0")

    def test_terminal_closed(self):
        # behind the hangup comes a SIGCONT: it undoes the SIGSTOP by which the search for leaks stops a process that
        # ends
        self.env["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        self.opened()
        with open(f"{self.folder}/shell", encoding="utf-8") as file:
            shell = int(file.read())
        children = subprocess.run(
            ["pgrep", "-P", str(shell)], capture_output=True, text=True, check=True
        ).stdout.split()
        self.assertEqual(len(children), 1)
        self.tmux("kill-server")
        self.assertTrue(wait_for(lambda: not alive(int(children[0]))))


@unittest.skipIf(EMULATOR, "the terminal's library is of another processor")
class Pty(Top):
    def open(self, **env):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        watcher = subprocess.Popen(
            [TUTTI, "top", "-i", "100ms"],
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.PIPE,
            text=True,
            env={**self.env, "TERM": "xterm", **env},
        )
        os.close(theirs)
        self.addCleanup(watcher.stderr.close)
        self.addCleanup(watcher.kill)
        return watcher, ours

    def started(self):
        watcher, ours = self.open()
        seen = b""
        try:
            while b"quit" not in seen:
                seen += os.read(ours, 4096)
        except OSError:  # it has ended
            self.assertEqual(watcher.wait(DEADLINE), 1)
            error = watcher.stderr.read()
            self.assertIn("built without ncurses", error)
            self.skipTest(error)
        return watcher, ours

    def test_terminal_that_hangs_up_without_a_signal(self):
        watcher, ours = self.started()
        os.close(ours)
        self.assertEqual(watcher.wait(DEADLINE), 1)

    def test_signals(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            watcher, ours = self.started()
            watcher.send_signal(number)
            seen = b""
            try:
                while True:
                    seen += os.read(ours, 4096)
            except OSError:  # the other end is closed
                pass
            self.assertEqual(watcher.wait(DEADLINE), 0)
            self.assertIn(b"\033[?1049l", seen, "the screen is not given back")
            os.close(ours)

    def test_folder_goes_away(self):
        watcher, ours = self.started()
        os.rmdir(self.boxes)
        self.assertEqual(watcher.wait(DEADLINE), 1)
        self.assertIn("looking for black boxes in", watcher.stderr.read())
        os.close(ours)

    def test_terminals_that_are_not_known(self):
        for env, sentence in (
            ({"TERM": "no-such-terminal"}, 'the terminal "no-such-terminal" is not known'),
            ({"TERM": "dumb"}, 'the terminal "dumb" is not known, or cannot place text'),
            ({"LD_LIBRARY_PATH": self.folder}, "cannot load libncurses.so.6"),
        ):
            with open(os.path.join(self.folder, "libncurses.so.6"), "w", encoding="utf-8"):
                watcher, ours = self.open(**env)
                self.assertEqual(watcher.wait(DEADLINE), 1)
                self.assertRegex(watcher.stderr.read(), f"{sentence}|without ncurses")
                os.close(ours)


if __name__ == "__main__":
    TUTTI = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
