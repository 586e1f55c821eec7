#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sum_up.py SUMMARY BROKEN_BUILDS UNSTEADY TESTLOG_JSON...: adds the results of meson's test logs;
the sum goes to the file SUMMARY too. What a failed test said last is said again here, at the end of a long log.
UNSTEADY: a file with the tests that passed when they ran again (tests/again.py). They count as passed, and are told.

Exit status 1 if anything failed."""
import json
import sys
import time

PASSED, SKIPPED = ("OK", "EXPECTEDFAIL"), ("SKIP",)

LINES = 40


def tell(path, test):
    begin, end = (time.strftime("%T", time.localtime(test["starttime"] + after)) for after in (0, test["duration"]))
    print(f"== {path}: {test['name']}: {test['result']}, from {begin} to {end}")
    for stream in ("stdout", "stderr"):
        for line in test.get(stream, "").splitlines()[-LINES:]:
            print(f"  {line[:400]}")


def main():
    failed, passed, skipped = int(sys.argv[2]), 0, 0
    with open(sys.argv[3], encoding="utf-8") as file:
        unsteady = file.read().splitlines()
    for path in sys.argv[4:]:
        with open(path, encoding="utf-8") as log:
            tests = [json.loads(line) for line in log if line.strip()]
        if not tests:
            print(f"{path}: no test ran")
            failed += 1
        for test in tests:
            passed += test["result"] in PASSED
            skipped += test["result"] in SKIPPED
            if test["result"] not in PASSED + SKIPPED:
                steady = f"{path}\t{test['name']}" not in unsteady
                failed += steady
                passed += not steady
                tell(path, test)
                if not steady:
                    print("  UNSTEADY: the test passed when it ran again, alone")
    if not passed:
        failed += not failed
    summary = f"{passed} passed, {failed} failed, {skipped} skipped"
    if unsteady:
        summary += f", {len(unsteady)} unsteady"
    print(summary)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        print(summary, file=file)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
