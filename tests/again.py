#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""again.py TESTLOG_JSON...: runs tests that failed once more, each by itself, and prints those that pass then, a line
each: the log, a tab, the test's name. On a machine of two processors some test of a thousand may wait too long.

No test runs again if more than MOST failed, which is no chance, or after the report of a sanitizer, which never is."""
import json
import os
import signal
import subprocess
import sys

from sum_up import PASSED, SKIPPED

REPORTS = ("AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:")
MOST = 3
LIMIT = 150  # seconds for one test
SLOWER = 6  # times its limit of time, under a sanitizer


def failed_of(path):
    with open(path, encoding="utf-8") as log:
        tests = [json.loads(line) for line in log if line.strip()]
    return [test for test in tests if test["result"] not in PASSED + SKIPPED]


def has_report(test):
    said = test.get("stdout", "") + test.get("stderr", "")
    return any(report in said for report in REPORTS)


def passes(path, test):
    folder = os.path.dirname(os.path.dirname(path))
    watched = os.path.basename(folder) != "build"
    env = {**os.environ, **({"TUTTI_TEST_QUICK": "1"} if watched else {})}
    command = ["meson", "test", "-C", folder, "--no-rebuild", "--num-processes", "1", "--logbase", "again",
               "--timeout-multiplier", str(SLOWER if watched else 1), test["name"].split(" / ", 1)[-1]]
    with subprocess.Popen(command, env=env, stdout=sys.stderr, stderr=sys.stderr, start_new_session=True) as process:
        try:
            return process.wait(LIMIT) == 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            return False


def main():
    failed = [(path, test) for path in sys.argv[1:] for test in failed_of(path)]
    if len(failed) > MOST or any(has_report(test) for _, test in failed):
        return
    for path, test in failed:
        if passes(path, test):
            print(f"{path}\t{test['name']}", flush=True)


if __name__ == "__main__":
    main()
