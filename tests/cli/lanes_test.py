#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tutti trace --lanes beside a job that runs over TCP. Usage: lanes_test.py TUTTI"""
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

TUTTI = ""
DEADLINE = 60
LANES = 2


def trace(folder, *args):
    done = subprocess.run([TUTTI, "trace", "--lanes", "--dir", folder, *args], capture_output=True, text=True,
                          timeout=DEADLINE, check=False)
    return done.returncode, done.stdout, done.stderr


class Lanes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        env = {**os.environ, "TUTTI_TRANSPORT": "tcp", "TUTTI_TRACE_DIR": self.folder.name,
               "TUTTI_TCP_LANES": str(LANES), "TUTTI_SOCKET_IFNAME": "=lo"}
        self.job = subprocess.Popen([TUTTI, "perf", "sendrecv", "-np", "2", "-b", "4M",
                                     "-e", "4M", "-n", "1000000", "-c", "0"], env=env,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def tearDown(self):
        if self.job.poll() is None:
            os.killpg(self.job.pid, signal.SIGKILL)
            self.job.wait()
        self.folder.cleanup()

    def wait_for_rates(self):
        """The listing, once each lane of both processes has shown bandwidth."""
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            self.assertIsNone(self.job.poll())
            _, out, _ = trace(self.folder.name)
            if len(re.findall(r"^    GB/s: last", out, re.M)) == 2 * LANES == len(re.findall(
                    r"^    since \d\d:\d\d:\d\d.* windows, half of them below", out, re.M)):
                return out
            time.sleep(0.1)
        self.fail(f"no bandwidth after {DEADLINE} s: {out}")

    def test_running_job(self):
        out = self.wait_for_rates()
        processes = re.findall(rf"^process \d+ \(alive\).*: {LANES} lanes to other processes$", out, re.M)
        self.assertEqual(len(processes), 2, out)
        pids = re.findall(r"^process (\d+)", out, re.M)
        for peer in re.findall(r"lane [01] tcp to process (\d+), interface \S+, distance host, up: \d+ "
                               r"segments remembered", out):
            self.assertIn(peer, pids)
        rates = [float(rate) for rate in re.findall(r"best (\d+\.\d+);", out)]
        self.assertTrue(all(0 < rate < 1000 for rate in rates), rates)
        self.assertRegex(out, r"time:.* network \d+%")
        self.assertRegex(out, r"slowest window of the last hour: \d+\.\d{3} GB/s for .* until \d\d:\d\d:\d\d")

        self.check_json(pids)
        self.check_profile(pids)
        picture = os.path.join(self.folder.name, "lanes.svg")
        code, _, err = trace(self.folder.name, "--plot", picture)
        self.assertEqual((code, err), (0, ""))
        root = xml.etree.ElementTree.parse(picture).getroot()
        self.assertGreater(len(root.findall("{http://www.w3.org/2000/svg}rect/{http://www.w3.org/2000/svg}title")), 2)

        sizes = {}
        for size in (1, 32):
            _, out, _ = trace(self.folder.name, "--json", "--window", str(size))
            sizes[size] = [one["segments"] for process in json.loads(out)["processes"] for lane in process["lanes"]
                           for one in lane["windows"] if one["segments"]]
        self.assertLess(statistics.fmean(sizes[1]), statistics.fmean(sizes[32]))
        self.assertIn(1, sizes[1])
        self.assertEqual(trace(self.folder.name, "--plot", picture, "--window", "32")[0], 0)
        with open(picture, encoding="utf-8") as file:
            self.assertIn("32 segments a window", file.read())
        watcher = subprocess.Popen([TUTTI, "trace", "--lanes", "--follow", "--dir", self.folder.name],
                                   stdout=subprocess.PIPE, text=True)
        seen = [watcher.stdout.readline() for _ in range(3)]
        os.killpg(self.job.pid, signal.SIGKILL)
        self.job.wait()
        rest, _ = watcher.communicate(timeout=DEADLINE)
        self.assertEqual(watcher.returncode, 0)
        self.assertIn("lanes to other processes", "".join(seen) + rest)

    def check_json(self, pids):
        """What the text says, for programs; all that was there before lanes were is there still."""
        code, out, _ = trace(self.folder.name, "--json")
        self.assertEqual(code, 0)
        everything = json.loads(out)
        self.assertEqual(everything["version"], 1)
        self.assertEqual(len(everything["processes"]), 2)
        for process in everything["processes"]:
            self.assertLessEqual({"path", "pid", "uid", "state", "host", "command", "library", "last_sign_ns", "torn",
                                  "communicators", "events", "counters", "lanes"}, set(process))
            # in the order in which they came up
            self.assertEqual(sorted(lane["lane"] for lane in process["lanes"]), list(range(LANES)))
            peer = next(int(pid) for pid in pids if int(pid) != process["pid"])
            for lane in process["lanes"]:
                self.check_lane(lane, peer)

    def check_profile(self, pids):
        done = subprocess.run([TUTTI, "trace", "--profile", "--dir", self.folder.name], capture_output=True, text=True,
                              timeout=DEADLINE, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(re.findall(r"^ +[01] +[01] tcp +\d+ lo ", done.stdout, re.M)), 2 * LANES, done.stdout)
        _, out, _ = trace(self.folder.name, "--profile", "--json")
        profile = json.loads(out)
        self.assertEqual(sorted({str(lane["pid"]) for lane in profile["lanes"]}), sorted(pids))
        for lane in profile["lanes"]:
            self.assertTrue(0 < lane["busy_ns"] <= lane["span_ns"] and lane["bytes"] > 0, lane)
        self.assertEqual([rank["rank"] for rank in sorted(profile["ranks"], key=lambda rank: rank["rank"])], [0, 1])

    def check_lane(self, lane, peer):
        self.assertEqual((lane["transport"], lane["peer_pid"], lane["state"], lane["backup"], lane["distance"],
                          lane["interface"], lane["source_port"]), ("tcp", peer, "up", False, "host", "lo", None))
        self.assertEqual(set(lane["time_ns"]), {"network", "sender late", "receiver late", "starved", "other lanes",
                                                "idle"})
        windows = lane["windows"]
        self.assertGreater(len(windows), 0)
        self.assertEqual(sum(lane["time_ns"].values()), sum(one["end_ns"] - one["begin_ns"] for one in windows))
        self.assertTrue(all(one["cause"] in lane["time_ns"] for one in windows))
        self.assertLessEqual(sum(one["segments"] for one in windows) + lane["under_way"], lane["segments"])
        carried = [one for one in windows if one["segments"] and one["end_ns"] > one["begin_ns"]]
        best = max(one["bytes"] / (one["end_ns"] - one["begin_ns"]) for one in carried)
        self.assertAlmostEqual(lane["bandwidth"]["best_gbs"], best, places=6)
        self.assertLessEqual(lane["bandwidth"]["all_gbs"], lane["bandwidth"]["best_gbs"] + 1e-9)
        self.assertEqual((lane["queue_pair"], lane["peer_address"]), (None, None))  # RDMA has them
        self.assertEqual((lane["own"], lane["borrowed_bytes"], lane["borrowed_from"]), (False, 0, None))
        watch = lane["watch"]
        self.assertEqual(sum(count for _, count in watch["bytes_per_second"]), watch["windows"])
        least = watch["slowest"]["last_hour"]
        self.assertTrue(watch["windows"] and least["gbs"] > 0 and least["cause"] in lane["time_ns"], watch)
        self.assertEqual(set(watch["slowest"]), {"last_second", "last_minute", "last_hour"})

    def test_wrong(self):
        done = subprocess.run([TUTTI, "trace", "--plot", "x"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--plot goes with --lanes", done.stderr)
        for number in ("0", "129", "x"):
            code, _, err = trace(self.folder.name, "--window", number)
            self.assertEqual((code, "from 1 to 128" in err), (2, True), err)
        done = subprocess.run([TUTTI, "trace", "--window", "1"], capture_output=True, text=True, check=False)
        self.assertIn("--window goes with --lanes", done.stderr)
        self.wait_for_rates()
        code, _, err = trace(self.folder.name, "--plot", "/nonexistent/folder/x.svg")
        self.assertEqual(code, 1)
        self.assertIn("cannot write /nonexistent/folder/x.svg", err)


if __name__ == "__main__":
    TUTTI = sys.argv.pop(1)
    unittest.main()
