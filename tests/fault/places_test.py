#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two ranks in two networks that say where they are: their lanes have the limit their distance, as `tutti trace
--lanes` shows, over TCP and over RDMA, while every result is checked. Places that are none are refused.
Usage: places_test.py TUTTI SOAK"""
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

from links import Other, run_alone, sent

WRAPPER = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))
TUTTI, SOAK = [*WRAPPER, sys.argv[1]], [*WRAPPER, sys.argv[2]]
PATIENCE = 90
MUCH = 1 << 20  # bytes
LINKS = ["tm0", "tp0"]  # of TCP, of RDMA
SETTINGS = {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "10.83.0.1",
            "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "places", "TUTTI_SOCKET_IFNAME": "tm",
            "TUTTI_EAGER": "256", "TUTTI_SEGMENT": "4K", "TUTTI_TIMEOUT": "200s", "SOFTVERBS_DEVICES": "soft_tp0=tp0",
            "SOFTVERBS_POLL": "sleep", "TUTTI_IB_TIMEOUT": "14", "TUTTI_DEBUG": "info"}
LANE = re.compile(r"lane \d+ (\w+) to process \d+, interface (.*?)((?:, distance \w+)?)"
                  r"(?:, round trip (\S+) us(?: as of a (\w+))?)?((?:, limit [^,]*)?)(?(4), segments of 4 KiB), up")
NEAREST = {"rack": (0, 26.5), "zone": (26, 103), "building": (102, 213), "campus": (212, 601), "": (600, 1e9)}
TOLD = "host=7/3M,rack=2,zone=0/64K,building=1/8K,far=9"


class Job:
    """Random collectives on two ranks, until they are killed. Each result is checked: a rank with a wrong one ends."""

    def __init__(self, other, transport, settings):
        self.folder = tempfile.TemporaryDirectory(prefix="tutti-places-")
        self.log = open(os.path.join(self.folder.name, "log"), "w+", encoding="utf-8")
        self.transport = transport
        self.ranks = [self.rank(0, [], settings[0]), self.rank(1, other.inside, settings[1])]

    def rank(self, number, inside, settings):
        env = {**os.environ, **SETTINGS, "TUTTI_TRANSPORT": self.transport, "TUTTI_TRACE_DIR": self.folder.name,
               **settings, "RANK": str(number), "TUTTI_HOSTID": f"host{number}"}
        return subprocess.Popen([*inside, *SOAK, "--seconds", "1000", "--resets", "0"], env=env, stdout=self.log,
                                stderr=self.log)

    def lanes(self):
        """[(interface, distance and window, round trip, its distance)] of lanes, once both processes have some."""
        end = time.monotonic() + PATIENCE
        while True:
            shown = subprocess.run([*TUTTI, "trace", "--lanes", "--dir", self.folder.name], capture_output=True,
                                   text=True, check=False).stdout
            parts = [[(lane[1], lane[2] + lane[5], lane[3], lane[4]) for lane in LANE.findall(part)
                      if lane[0] == self.transport]
                     for part in shown.split("\nprocess ")]
            assert all(one.poll() is None for one in self.ranks), "a rank gave up"
            if len(parts) == 2 and all(parts):
                return [lane for part in parts for lane in part]
            assert time.monotonic() < end, f"no lanes of {self.transport}: {shown}"
            time.sleep(0.1)

    def works(self):
        """A good many results have been right by now."""
        until, end = sum(map(sent, LINKS)) + MUCH, time.monotonic() + PATIENCE
        while sum(map(sent, LINKS)) < until:
            assert all(one.poll() is None for one in self.ranks), "a rank gave up"
            assert time.monotonic() < end, "nothing moves"
            time.sleep(0.01)

    def text(self):
        self.log.seek(0)
        return self.log.read()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for one in self.ranks:
            one.kill()
            one.wait()
        if kind:
            print(self.text()[-6000:])
        self.log.close()
        self.folder.cleanup()


def seen(other, transport, *settings):
    with Job(other, transport, settings) as job:
        lanes = job.lanes()
        job.works()
    return lanes


def placed(place, windows=TOLD):
    return {"TUTTI_PLACE": place, "TUTTI_WINDOWS": windows}


def windows_as_told(other):
    for transport, one, peer, window in (("tcp", "zone=z,rack=1", "zone=z,rack=2", ", distance zone, limit 64 KiB"),
                                         ("verbs", "rack=1", "rack=1", ", distance rack, limit 2 segments"),
                                         ("verbs", "zone=z", "zone=y",
                                          ", distance building, limit 1 segment and 8 KiB"),
                                         ("tcp", "rack=1", "", ", limit 9 segments")):
        lanes = seen(other, transport, placed(one), placed(peer))
        assert {lane[1] for lane in lanes} == {window}, lanes


def places_of_a_file(other):
    with tempfile.NamedTemporaryFile("w", suffix=".places") as places:
        places.write(f"# a test's\n{os.uname().nodename} campus=c,building=b\n")
        places.flush()
        lanes = seen(other, "tcp", {"TUTTI_PLACE_FILE": places.name}, placed("campus=c,building=a", "campus=3"))
    assert {lane[1] for lane in lanes} == {", distance campus", ", distance campus, limit 3 segments"}, lanes


def windows_by_rate(other):
    """Reckoned here once more: what fills 70 us, or what was measured if that is less, of 4 KiB, and one."""
    for interface, window, trip, found in seen(other, "verbs", placed("zone=z,rack=1", ""),
                                               placed("zone=z,rack=2", "")):
        assert trip and not found, (trip, found)
        limit = re.fullmatch(r", distance zone, limit (\d+) KiB", window)
        assert limit and int(limit[1]) in limits(interface, float(trip), 70), (interface, window, trip)


def limits(interface, trip, most=1e9):
    """In KiB, of a round trip that is printed with three digits."""
    rate = float(re.search(r"\((\S+) Gbit/s\)", interface)[1])
    return {4 * (-(-int(rate * 1000 * min(most, us) / 8) // 4096) + 1)
            for us in range(max(5, math.ceil(trip * 0.994)), max(5, math.ceil(trip * 1.006)) + 1)}


def at_both_ends(job):
    """Its lanes, once the two ends of each have one round trip: it is measured again while they work, and told."""
    end = time.monotonic() + PATIENCE
    while True:
        lanes = job.lanes()
        assert all(trip for _, _, trip, _ in lanes), lanes
        half = len(lanes) // 2
        if len(lanes) % 2 == 0 and sorted(lane[2] for lane in lanes[:half]) == sorted(lane[2] for lane in lanes[half:]):
            return lanes
        assert time.monotonic() < end, lanes
        time.sleep(0.1)


def distances_by_round_trip(other):
    """No place is told. The two ends of a lane go by one round trip, and by the distance that has such a one. Its limit
    is what fills the way and a segment more, unless four segments do that."""
    with Job(other, "verbs", (placed("", ""), placed("", ""))) as job:
        lanes = at_both_ends(job)
        job.works()
    for interface, window, trip, found in lanes:
        least, most = NEAREST[found]
        assert least <= float(trip) <= most, (trip, found)
        limit = re.fullmatch(r", limit (\d+) KiB", window)
        wanted = {kib if kib > 16 else 0 for kib in limits(interface, float(trip))} if found else {0}
        assert (int(limit[1]) if limit else 0) in wanted and (limit or not window), (interface, window, trip, wanted)


def queue_pairs_as_told(other):
    """Of three for segments on each of a port's links, one to a near peer; and that for messages."""
    for place, queues, wanted in (("rack=1", "rack=1,far=3", 1), ("rack=1", "zone=2,rack=2", 2), ("", "rack=1", 3)):
        settings = {**placed(place, ""), "TUTTI_IB_LANES": "3", "TUTTI_QUEUES": queues}
        with Job(other, "verbs", (settings, settings)) as job:
            job.works()
            end = time.monotonic() + PATIENCE
            while len(job.lanes()) != 2 * (wanted + 1):
                assert time.monotonic() < end, (queues, wanted, job.lanes())
                time.sleep(0.1)


def what_is_wrong_is_refused(_):
    for name, text, sentence in (("TUTTI_PLACE", "rack", 'TUTTI_PLACE: "rack" is no place: LEVEL=NAME'),
                                 ("TUTTI_PLACE_FILE", "/nonexistent/places", "cannot read /nonexistent/places"),
                                 ("TUTTI_PLACE_FILE", "/dev/null", "/dev/null has no line for host"),
                                 ("TUTTI_QUEUES", "rack=1@5", 'TUTTI_QUEUES: "rack=1@5" is not DISTANCE=NUMBER'),
                                 ("TUTTI_WINDOWS", "rack=x", 'TUTTI_WINDOWS: "rack=x" is not DISTANCE=SEGMENTS')):
        done = subprocess.run([*TUTTI, "run", "-n", "2", "--timeout", "60", "--", *SOAK, "--seconds", "1"],
                              env={**os.environ, name: text}, capture_output=True, text=True, check=False)
        assert done.returncode != 0 and sentence in done.stderr, (name, text, done.returncode, done.stderr[-2000:])


def main():
    with Other(LINKS) as other:
        for test in (windows_as_told, places_of_a_file, windows_by_rate, distances_by_round_trip, queue_pairs_as_told,
                     what_is_wrong_is_refused):
            test(other)
            print(test.__name__, "passed", flush=True)


run_alone(main, "windows by the distance of places were")
