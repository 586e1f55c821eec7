# SPDX-License-Identifier: Apache-2.0
"""lab_test.py BUILD: the harness of `make bench-lab` with its quickest measurement, half a second long. How fast
anything is it does not judge."""
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import types

import ecmp_draws
import fabric
import monitor

HARNESS = os.path.dirname(os.path.abspath(__file__))


def run(*words):
    return subprocess.run([sys.executable, HARNESS, *words], capture_output=True, text=True, check=False)


def leaves_nothing_when_interrupted(how):
    with tempfile.TemporaryDirectory() as folder:
        began = subprocess.Popen([sys.executable, HARNESS, sys.argv[1], "--only", "rates", "--seconds", "100", "--out",
                                  folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        spaces = f"/run/netns/b{began.pid & 0xFFFF:04x}*"
        assert "two lanes" in began.stdout.readline()  # the first lab, which was only tried, is down
        while not glob.glob(spaces) and began.poll() is None:
            time.sleep(0.01)
        began.send_signal(how)
        said, _ = began.communicate(timeout=60)
        assert began.returncode == 130 and "interrupted" in said, (began.returncode, said)
        assert not glob.glob(spaces), glob.glob(spaces)


def windows_show_what_a_second_hides():
    """Without a lab, and the same each time."""
    with tempfile.TemporaryDirectory() as folder:
        bench = types.SimpleNamespace(build=fabric.Build(sys.argv[1]), out=folder)
        for line, seen in (((100, 64), "1 8 32"), ((100, 512), "1"), ((400, 64), "1 8 32"), ((400, 512), "1 8")):
            found = monitor.drop(bench, *line)
            assert abs(found["counted_gbs"] * 8 / line[0] - 1) < 0.001, found["counted_gbs"]
            said = {size: monitor.summary(windows) for size, windows in found["windows"].items()}
            assert " ".join(size for size, one in said.items() if one[2]) == seen, (line, said)
            assert not any(false for *_, false in said.values()), (line, said)
        env = {**os.environ, "TUTTI_TRACE_DIR": folder}
        for how in ("direct", "plain"):
            done = subprocess.run([monitor.program(bench), "carry", "65536", how], env=env, capture_output=True,
                                  text=True, check=True)
            assert done.stdout == "128\n", done
        assert not os.listdir(folder)


def draws_are_what_can_be_counted():
    """Of 8 flows at random on 8 uplinks 8 (1 - (7/8)^8) = 5.25 are used."""
    mean, _ = ecmp_draws.pairs(8, 1, 8)
    assert abs(mean - (1 - (7 / 8) ** 8)) < 0.01, mean
    assert ecmp_draws.pairs(1, 1, 1, 1) == (1, 0)
    assert ecmp_draws.rings(2, 1, 1, 1, 10) == (1, 1)
    assert [round(6 * rate, 6) for rate in ecmp_draws.fair([{0: 1}, {0: 1, 1: 1}, {1: 2}], 2)] == [4, 2, 2]
    one, planned = ecmp_draws.rings(8, 8, 8, 2)
    assert planned == 2 and abs(one - ecmp_draws.many_rings(1, 8, 8, 8, 2)) < 1e-9, (one, planned)


def main():
    draws_are_what_can_be_counted()
    windows_show_what_a_second_hides()
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
    leaves_nothing_when_interrupted(signal.SIGTERM)
    leaves_nothing_when_interrupted(signal.SIGINT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
