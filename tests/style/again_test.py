#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""again_test.py: which failed tests run again, and what the sum of all says then (tests/again.py, tests/sum_up.py).
In meson's place stands a program that passes tests of one name."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MESON = "#!/bin/sh\nfor last; do :; done\necho \"$last\" >>ran\n[ \"$last\" = 'once bad' ]\n"


def result(name, result, said=""):
    return {"name": f"tutti:unit / {name}", "result": result, "starttime": 0, "duration": 1, "stdout": said}


class Again(unittest.TestCase):
    def run_all(self, tests):
        """The sum's last line and exit status, and the tests that ran again."""
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "build", "meson-logs", "testlog.json")
            os.makedirs(os.path.dirname(log))
            with open(log, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(test) + "\n" for test in tests)
            with open(os.path.join(folder, "meson"), "w", encoding="utf-8") as file:
                file.write(MESON)
            os.chmod(file.name, 0o755)
            env = {**os.environ, "PATH": folder + ":" + os.environ["PATH"]}
            with open(os.path.join(folder, "unsteady"), "w", encoding="utf-8") as file:
                subprocess.run([sys.executable, os.path.join(TESTS, "again.py"), log], env=env, cwd=folder, stdout=file,
                               check=True)
            done = subprocess.run([sys.executable, os.path.join(TESTS, "sum_up.py"), "sum", "0", "unsteady", log],
                                  cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
            ran = os.path.join(folder, "ran")
            names = []
            if os.path.exists(ran):
                with open(ran, encoding="utf-8") as file:
                    names = file.read().splitlines()
            return done.stdout.splitlines()[-1], done.returncode, names

    def test_all_well(self):
        self.assertEqual(self.run_all([result("good", "OK"), result("left out", "SKIP")]),
                         ("1 passed, 0 failed, 1 skipped", 0, []))

    def test_once(self):
        self.assertEqual(self.run_all([result("good", "OK"), result("once bad", "TIMEOUT")]),
                         ("2 passed, 0 failed, 0 skipped, 1 unsteady", 0, ["once bad"]))

    def test_always(self):
        self.assertEqual(self.run_all([result("good", "OK"), result("once bad", "FAIL"), result("bad", "FAIL")]),
                         ("2 passed, 1 failed, 0 skipped, 1 unsteady", 1, ["once bad", "bad"]))

    def test_report_of_a_sanitizer(self):
        said = "==1==ERROR: AddressSanitizer: heap-use-after-free"
        self.assertEqual(self.run_all([result("good", "OK"), result("once bad", "FAIL", said)]),
                         ("1 passed, 1 failed, 0 skipped", 1, []))

    def test_too_many(self):
        self.assertEqual(self.run_all([result("good", "OK")] + 4 * [result("once bad", "FAIL")]),
                         ("1 passed, 4 failed, 0 skipped", 1, []))


if __name__ == "__main__":
    unittest.main()
