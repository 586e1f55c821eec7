#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manual pages: fresh, one for each exported call and each command, and read without a warning.
Usage: manual_test.py TUTTI LIBRARY ROOT"""
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

TUTTI = LIBRARY = ROOT = ""
EMULATOR = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))  # of a build for another processor


def generate(*args, tutti=None, script=None, **more):
    done = subprocess.run([sys.executable, script or f"{ROOT}/docs/man/generate.py", *args[:-1], tutti or TUTTI,
                           *args[-1:]], capture_output=True, text=True, check=False, **more)
    return done.returncode, done.stdout + done.stderr


def installed():
    return [path for folder in ("man[13]", "emulation")
            for path in glob.glob(f"{glob.escape(ROOT)}/docs/man/{folder}/*")]


class Pages(unittest.TestCase):
    @unittest.skipIf(EMULATOR, "the generator asks the program, which cannot be started by itself")
    def test_fresh(self):
        code, text = generate("--check", f"{ROOT}/docs/man")
        self.assertEqual(code, 0, text)

    @unittest.skipIf(EMULATOR, "the generator asks the program, which cannot be started by itself")
    def test_a_check_writes_nothing(self):
        """Wherever the option stands."""
        with tempfile.TemporaryDirectory() as folder:
            script = [sys.executable, f"{ROOT}/docs/man/generate.py", TUTTI]
            for words in (["--check"], ["--chek"]):
                subprocess.run(script + words, cwd=folder, capture_output=True, check=False)
            self.assertEqual(os.listdir(folder), [])

    def test_one_for_each_exported_call(self):
        listing = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, capture_output=True,
                                 text=True).stdout
        exported = set(re.findall(r" T (tutti_\w+)", listing))
        self.assertGreater(len(exported), 40)
        pages = {name.removesuffix(".3") for name in os.listdir(f"{ROOT}/docs/man/man3")}
        self.assertEqual(pages, exported | {"libtutti"})

    def test_references_lead_somewhere(self):
        there = {os.path.basename(path) for path in installed()}
        for path in installed():
            with open(path, encoding="utf-8") as file:
                text = file.read().replace("\\-", "-").replace("\\fR", "")
            for name, section in (re.findall(r"^\.BR (\S+) \((\d)\)", text, re.M)
                                  + re.findall(r"\\fB(\w+)\((\d)\)", text)):
                self.assertIn(f"{name}.{section}", there, path)

    def test_read_without_a_warning(self):
        if shutil.which("mandoc"):
            command = ["mandoc", "-T", "lint", "-W", "warning"]
        elif shutil.which("groff"):
            command = ["groff", "-ww", "-man", "-T", "utf8", "-z"]
        else:
            self.skipTest("neither mandoc nor groff is installed")
        done = subprocess.run([*command, *installed()], capture_output=True, text=True, check=False)
        said = [line for line in (done.stdout + done.stderr).splitlines() if "missing date" not in line]
        self.assertEqual(said, [])
        if shutil.which("man"):
            text = subprocess.run(["man", "-l", f"{ROOT}/docs/man/man3/tutti_allreduce.3"],
                                  check=True, capture_output=True, text=True,
                                  env={**os.environ, "MANWIDTH": "100", "LC_ALL": "C"}).stdout
            if text.count("\n") > 10:  # images of containers have a man that only says that the manual was left out
                self.assertRegex(text, r"tutti_allreduce - reduce vectors of all ranks for all")
                self.assertIn("TUTTI_INVALID_USAGE", text)


@unittest.skipIf(EMULATOR, "the generator asks the program, which cannot be started by itself")
class Generator(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="tutti manual ")
        self.addCleanup(shutil.rmtree, self.work)
        self.pages = os.path.join(self.work, "man")
        shutil.copytree(f"{ROOT}/docs/man", self.pages)
        shutil.copytree(f"{ROOT}/include", os.path.join(self.work, "include"))

    def page(self, name):
        return os.path.join(self.pages, f"man{name[-1]}", name)

    def change(self, path, old, new):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertIn(old, text)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))

    def test_what_is_wrong_is_named(self):
        self.change(self.page("tutti_send.3"), "one rank", "one bank")
        self.change(self.page("tutti-env.1"), "Show", "Hide")
        os.remove(self.page("tutti_recv.3"))
        shutil.copy(self.page("tutti_barrier.3"), self.page("tutti_carrier.3"))
        with open(self.page("other.1"), "w", encoding="utf-8") as file:
            file.write(".TH OTHER 1\n")  # written by hand, of another program
        code, text = generate("--check", self.pages)
        self.assertEqual(code, 1)
        for line in ("tutti_send.3: is stale", "tutti-env.1: is stale", "tutti_recv.3: is missing",
                     "tutti_carrier.3: there is no such command or call", "make docs"):
            self.assertIn(line, text)
        self.assertNotIn("other.1", text)
        self.assertEqual(generate(self.pages)[0], 0)
        self.assertEqual(generate("--check", self.pages)[0], 0)
        self.assertFalse(os.path.exists(self.page("tutti_carrier.3")))

    def with_header(self, old, new):
        """What the generator says of another header; both are copies, in a folder with a blank."""
        script = os.path.join(self.work, "docs", "man", "generate.py")
        if not os.path.exists(script):
            shutil.copytree(self.pages, os.path.dirname(script))
        self.change(os.path.join(self.work, "include", "tutti", "tutti.h"), old, new)
        return generate("--check", os.path.dirname(script), script=script)

    NEW = ("/* Done when every rank has called it. */",
           "/* Scans. */\nTUTTI_API tutti_result_t tutti_exscan(tutti_comm_t comm);\n/* Done. */")

    def test_call_that_is_new(self):
        code, text = self.with_header(*self.NEW)
        self.assertEqual(code, 1)
        self.assertIn("docs/man/calls.tbl does not say in short what tutti_exscan does", text)

    def test_call_without_a_page(self):
        with open(os.path.join(self.pages, "calls.tbl"), "a", encoding="utf-8") as file:
            file.write("tutti_exscan | scan | | |\n")
        code, text = self.with_header(*self.NEW)
        self.assertEqual(code, 1)
        self.assertIn("tutti_exscan.3: is missing", text)
        self.assertIn("tutti_barrier.3: is stale", text)

    def test_without_the_agent(self):
        """The program alone: commands that are programs of their own are away."""
        alone = os.path.join(self.work, "bin", "tutti")
        os.mkdir(os.path.dirname(alone))
        shutil.copy(TUTTI, alone)
        folder = os.path.dirname(os.path.realpath(LIBRARY))
        env = {**os.environ, "PATH": "/nonexistent", "LD_LIBRARY_PATH": folder}
        for args in (["--check", self.pages], [self.pages], ["--check", self.pages]):
            code, text = generate(*args, tutti=alone, env=env)
            self.assertEqual(code, 0, text)
            self.assertIn("not built here, and left as they are: "
                          "tutti-simulate.1 tutti-hostfile.1 tutti-agent.1 tutti-master.1 tutti-pathmaster.1 "
                          "tutti-pathagent.1", text)


if __name__ == "__main__":
    TUTTI, LIBRARY, ROOT = (os.path.abspath(path) for path in sys.argv[1:4])
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
