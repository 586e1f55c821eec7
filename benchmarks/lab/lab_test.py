# SPDX-License-Identifier: Apache-2.0
"""lab_test.py BUILD: the harness of `make bench-lab` with its quickest measurement, half a second long. How fast
anything is it does not judge."""
import json
import os
import subprocess
import sys
import tempfile

HARNESS = os.path.dirname(os.path.abspath(__file__))


def run(*words):
    return subprocess.run([sys.executable, HARNESS, *words], capture_output=True, text=True, check=False)


def main():
    wrong = run(sys.argv[1], "--only", "nothing")
    assert wrong.returncode == 2 and "no measurement nothing" in wrong.stderr, wrong
    with tempfile.TemporaryDirectory() as folder:
        done = run(sys.argv[1], "--only", "rates", "--seconds", "0.5", "--turns", "1", "--out", folder)
        print(done.stdout, done.stderr)
        if done.returncode == 77:
            return 77
        assert done.returncode == 0, done.returncode
        with open(os.path.join(folder, "lab.json"), encoding="utf-8") as file:
            found = json.load(file)
        with open(os.path.join(folder, "lab.md"), encoding="utf-8") as file:
            page = file.read()
    rates = found["results"]["rates"]["figures"]
    assert found["emulated"] and 0 < rates["slow"] < rates["fast"] and 0 < rates["both"], rates
    assert found["results"]["rates"]["rows"][0]["measured"] in page, page
    return 0


if __name__ == "__main__":
    sys.exit(main())
