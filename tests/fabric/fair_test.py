#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fair_test.py CASE: rates and ends of drawn flows on drawn fabrics, computed in another way: by filling links in plain
Python always; by SimGrid's flow model (Debian: libsimgrid-dev; CM02, without its correction factors) where
TUTTI_TEST_SIMGRID=1 asks for it, of 200 cases then. TUTTI_TEST_CASES: how many."""
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

CASE = ""
EMULATOR = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))  # of a build for another processor
HERE = os.path.dirname(os.path.abspath(__file__))
CASES = int(os.environ.get("TUTTI_TEST_CASES", "200" if os.environ.get("TUTTI_TEST_SIMGRID") else "40"))
LATENCY = 1e-6  # seconds, of each flow in SimGrid
WAYS = ("ecmp", "steered", "allocated")


def fabric(draw):
    """A file, and how many GPUs it has."""
    zones, racks, hosts, gpus = draw.choice((1, 2)), draw.choice((1, 2, 3)), draw.randint(1, 4), draw.choice((1, 2, 4))
    rate = draw.choice((100, 200, 400))
    text = f"name: drawn\nrate: {rate}gbit\ngpu_rate: {draw.choice(('900gbit', 'none'))}\nclos: " + "{"
    text += f"zones: {zones}, racks: {racks}, hosts: {hosts}, gpus: {gpus}, nics: {draw.choice((1, gpus))}, "
    text += f"wiring: {draw.choice(('rack', 'rail'))}, ports: {draw.choice((1, 2))}, spines: {draw.randint(1, 3)}, "
    text += f"uplinks: {draw.randint(1, 3)}, uplink_rate: {draw.choice((50, 100, 300))}gbit, "
    text += f"cores: {draw.randint(1, 3)}, core_rate: {draw.choice((50, 400))}gbit" + "}\n"
    return text, zones * racks * hosts * gpus


def flows(draw, gpus):
    """Lines of (from, to, lane, lanes, bytes, start)."""
    made, alike = [], draw.random() < 0.3
    for _ in range(draw.randint(2, 30)):
        start, finish = draw.sample(range(gpus), 2)
        lanes = draw.choice((1, 2, 4))
        size = 100_000_000 if alike else draw.randint(1, 400) * 1_000_000
        begin = 0 if draw.random() < 0.6 else draw.randint(1, 40) / 1000
        made += [(start, finish, lane, lanes, size, begin) for lane in range(lanes)]
    return made


def ask(text, lines, way, seed):
    """({link: capacity}, [(finish, rate, links)]) by the model."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        said = subprocess.run([*EMULATOR, CASE, file.name, way, str(seed)], capture_output=True, text=True, check=False,
                              input="\n".join(" ".join(map(str, f)) for f in lines))
    if said.returncode:
        raise AssertionError(said.stderr + text)
    links, done = {}, []
    for line in said.stdout.splitlines():
        kind, *words = line.split()
        if kind == "link":
            links[int(words[0])] = float(words[1])
        else:
            done.append((float(words[0]), float(words[1]), [int(w) for w in words[2:]]))
    return links, done


def fill(links, paths):
    """Max-min fair rates: raise all by the least that fills a link, fix who is there, again."""
    rate, growing = [0.0] * len(paths), {i for i, path in enumerate(paths) if path}
    left = dict(links)
    while growing:
        users = {l: sum(l in paths[i] for i in growing) for l in links}
        limited = [l for l in links if users[l] and left[l] != float("inf")]
        if not limited:
            for i in growing:
                rate[i] = float("inf")
            break
        step = min(left[l] / users[l] for l in limited)
        for i in growing:
            rate[i] += step
        for l in limited:
            left[l] -= step * users[l]
        full = {l for l in limited if left[l] <= 1e-9 * links[l]}
        growing = {i for i in growing if not full & set(paths[i])}
    return rate


def over_time(links, paths, lines):
    """When each flow ends."""
    now, left, end = 0.0, [float(f[4]) for f in lines], [None] * len(lines)
    while None in end:
        here = [i for i, f in enumerate(lines) if end[i] is None and f[5] <= now + 1e-15]
        rate = fill(links, [paths[i] for i in here])
        coming = [f[5] - now for i, f in enumerate(lines) if f[5] > now + 1e-15]
        step = min([left[i] / r for i, r in zip(here, rate)] + coming)
        for i, r in zip(here, rate):
            left[i] = 0.0 if r == float("inf") else left[i] - r * step
            if left[i] <= 1e-9 * lines[i][4]:
                end[i] = now + (0.0 if r == float("inf") else step)
        now += step
    return end


def platform(links, paths):
    """SimGrid's file. Each flow has two hosts and a link of its own, by which all have the same latency: SimGrid gives
    flows with less of it more."""
    lines = ["<?xml version='1.0'?>", '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">',
             '<platform version="4.1">', '<zone id="all" routing="Full">']
    lines += [f'<host id="{kind}{i}" speed="1Gf"/>' for i in range(len(paths)) for kind in "ab"]
    lines += [f'<link id="l{l}" bandwidth="{min(c, 1e18):.17g}Bps" latency="0us" sharing_policy="SHARED"/>'
              for l, c in links.items()]
    lines += [f'<link id="own{i}" bandwidth="1e18Bps" latency="{LATENCY}s"/>' for i in range(len(paths))]
    for i, path in enumerate(paths):
        hops = "".join(f'<link_ctn id="l{l}"/>' for l in path)
        lines.append(f'<route src="a{i}" dst="b{i}" symmetrical="NO"><link_ctn id="own{i}"/>{hops}</route>')
    return "\n".join(lines + ["</zone>", "</platform>"])


class Fair(unittest.TestCase):
    def drawn(self):
        for seed in range(CASES):
            draw = random.Random(seed)
            text, gpus = "", 0
            while gpus < 2:
                text, gpus = fabric(draw)
            lines = flows(draw, gpus)
            yield seed, lines, *ask(text, lines, WAYS[seed % 3], seed)

    def near(self, seed, what, mine, theirs, part, least=1e-12):
        if mine != theirs and abs(mine - theirs) > part * abs(theirs) + least:
            self.fail(f"case {seed}: {what}: the model says {mine}, the other way {theirs}")

    def test_by_filling(self):
        for seed, lines, links, done in self.drawn():
            paths = [path for _, _, path in done]
            for i, rate in enumerate(fill(links, paths)):
                self.near(seed, f"rate of flow {i}", done[i][1], rate, 1e-6)
            for i, end in enumerate(over_time(links, paths, lines)):
                self.near(seed, f"end of flow {i}", done[i][0], end, 1e-6)

    @unittest.skipUnless(os.environ.get("TUTTI_TEST_SIMGRID") == "1", "TUTTI_TEST_SIMGRID=1 compares with SimGrid")
    def test_by_simgrid(self):
        folder = tempfile.mkdtemp(prefix="tutti-simgrid-")
        self.addCleanup(shutil.rmtree, folder)
        program, worst = f"{folder}/flows", 0.0
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-o", program, f"{HERE}/simgrid_flows.c", "-lsimgrid"],
                       check=True)
        for seed, lines, links, done in self.drawn():
            paths = [path for _, _, path in done]
            with open(f"{folder}/platform.xml", "w", encoding="utf-8") as file:
                file.write(platform(links, paths))
            said = subprocess.run([program, f"{folder}/platform.xml", str(len(lines)), "--cfg=network/model:CM02",
                                   "--cfg=network/crosstraffic:0", "--cfg=network/TCP-gamma:1e20",
                                   "--log=root.thres:error"],
                                  input="\n".join(f"{f[4]} {f[5]}" for f in lines), capture_output=True, text=True,
                                  check=False)
            self.assertEqual(said.returncode, 0, said.stderr)
            for i, end in enumerate(map(float, said.stdout.split())):
                # its microsecond of latency, for each flow, is not in the model
                took = end - lines[i][5]
                worst = max(worst, abs(done[i][0] - end + LATENCY) / took)
                self.near(seed, f"end of flow {i}", done[i][0] - lines[i][5], took, 0.02, 2 * LATENCY)
        print(f"{CASES} cases: ends differ from SimGrid's by {worst:.2%} at most")


if __name__ == "__main__":
    CASE = sys.argv.pop(1)
    unittest.main()
