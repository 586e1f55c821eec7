# SPDX-License-Identifier: Apache-2.0
"""Allgather by doubling, reduce-scatter and allreduce by halving, of 8 hosts in two racks whose uplink is
oversubscribed: the order in which near and far hosts meet, beside the ring, and what the library takes by itself where
places are told."""
from fabric import Job, Lab
from result import Row, middle, spread

TITLE = "8 hosts in two racks, 4:1 oversubscribed: which exchange most, far ones or near ones"
NIC, HOSTS, OVER = 40, 8, 4  # Mbit/s
SIZES = {"256 KiB": 256 << 10, "1 MiB": 1 << 20}  # shorter ones pass at once: shapers let 72 KiB
# far exchanges are large, and small; those of the ring alike
WAYS = {"allgather": ("doubling", "far-doubling", "ring", ""), "reducescatter": ("halving", "far-halving", "ring", ""),
        "allreduce": ("halving", "far-halving", "ring", "")}


def once(bench, lab, collective, algorithm, size):
    """Milliseconds of a call."""
    hosts = [f"h{host}" for host in range(HOSTS)]
    places = {host: {"TUTTI_PLACE": f"zone=z,rack={2 * place // HOSTS}"} for place, host in enumerate(hosts)}
    times = max(2, round(bench.seconds * NIC / 16 / size / 8e-6))
    words = [collective, "-b", str(size), "-e", str(size), "-n", str(times), "-w", "1", "-c", "1"]
    with Job(lab, hosts, words, {"TUTTI_ALGO": algorithm}, places) as job:
        row = job.result(120 + 20 * bench.seconds)["rows"][0]
    return row["out_of_place"]["time_us"] / 1000


def row_of(collective, name, times):
    near, far, ring, own = (middle(times[way]) for way in WAYS[collective])
    ways = WAYS[collective]
    return Row(f"{collective} of {name}: {ways[0]} over {ways[1]}", "", ">= 1.3x",
               f"{near / far:.2f}x ({spread(times[ways[0]])} against {spread(times[ways[1]])} ms; ring {ring:.1f} ms, "
               f"by default {own:.1f} ms)", near >= 1.3 * far)


def measure(bench):
    rows, kept = [], {}
    keys = {"hosts": HOSTS, "nics": 1, "leaves": 2, "spines": 1, "rate": f"{NIC}mbit",
            "links": [("l*.u*", f"{NIC * HOSTS // 2 // OVER}mbit")]}
    with Lab(bench.build, keys) as lab:
        for collective, ways in WAYS.items():
            for name, size in SIZES.items():
                times = {way: [] for way in ways}
                for _ in range(bench.turns):
                    for way in ways:
                        times[way].append(once(bench, lab, collective, way, size))
                bench.say(f"{collective} of {name}: " + ", ".join(f"{way or 'default'} {middle(found):.1f} ms"
                                                                  for way, found in times.items()))
                kept[f"{collective} {name}"] = times
                rows.append(row_of(collective, name, times))
        bench.say(f"{lab.drops()} packets dropped")
    bench.keep(**kept)
    return rows
