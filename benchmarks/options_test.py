#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""options_test.py REDUCE_BENCH TRANSPORT_BENCH: what these programs say of their options, and which they refuse."""
import subprocess
import sys
import unittest

REDUCE, TRANSPORT = sys.argv[1:3]


class Options(unittest.TestCase):
    def says(self, program, *words, code=0):
        done = subprocess.run([program, *words], capture_output=True, text=True, timeout=20, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def test_help(self):
        self.assertTrue(self.says(REDUCE, "--help").startswith("Usage: reduce_bench [OPTION...]\n"))
        self.assertIn("\n  -m MEMORY ", self.says(TRANSPORT, "-h"))

    def test_refused(self):
        for program, words, said in (
                (REDUCE, ["-n", "17"], "reduce_bench: -n wants a whole number from 1 to 16, got \"17\""),
                (REDUCE, ["-o", "avg"], "reduce_bench: -o wants sum, prod, max or min"),
                (REDUCE, ["-t", "floot32"], "reduce_bench: -t wants a type"),
                (REDUCE, ["more"], "reduce_bench: takes no arguments"),
                (TRANSPORT, ["-p", "some"], "transport_bench: -p wants a whole number"),
                (TRANSPORT, ["-m", "regoin"], "Did you mean \"region\"?"),
                (TRANSPORT, ["pigeon"], "transport_bench: want one of shm")):
            with self.subTest(words=words):
                error = self.says(program, *words, code=2)
                self.assertIn(said, error)
                self.assertRegex(error, r"\nSee: \w+_bench --help\n$")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
