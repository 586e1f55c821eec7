# SPDX-License-Identifier: Apache-2.0
"""Allreduce and allgather of 4 hosts over 2 leaves x 8 uplinks with 8 to 64 queue pairs of each two hosts: CTCCL's
sweep (figure 6e), in which rates decline beyond 16. Source ports by the plan against ECMP: first as the library cuts
and deals segments by itself, then with short segments and lanes in turn."""
import statistics

import clos
import ecmp_draws
from result import Row, spread
from steering import both

TITLE = "allreduce and allgather, 4 hosts, 2 leaves x 8 uplinks: 8 to 64 queue pairs of each two hosts"
HOSTS, SWEPT = 4, (8, 16, 32, 64)
# Name: operator, stripe, more settings.
WAYS = {"allreduce": ("allreduce", "arrival", clos.LEFT), "allgather": ("allgather", "arrival", clos.LEFT),
        "allreduce, segments of 16 KiB in turn": ("allreduce", "turns", None)}


def sweep(bench, labs, name):
    """{lanes: {"ECMP": [Mbit/s of a host], "steered": ...}}"""
    operator, stripe, own = WAYS[name]
    found = {}
    for lanes in SWEPT:
        found[lanes] = {way: [clos.load(*labs[way], [clos.across(HOSTS)], lanes, stripe, bench.seconds / 2, operator,
                                        own)[0][0] for _ in range(bench.turns)] for way in ("ECMP", "steered")}
        bench.say(f"{name}, {lanes} queue pairs: ECMP {spread(found[lanes]['ECMP'])}, "
                  f"steered {spread(found[lanes]['steered'])} Mbit/s")
    return found


def by_chance(lanes):
    """Steered over ECMP, lanes in turn."""
    random, planned = ecmp_draws.rings(HOSTS, lanes, clos.UPLINKS, clos.nic(HOSTS) / clos.UPLINK)
    return planned / random


def rows_of(name, swept):
    steered = {lanes: statistics.median(rates["steered"]) for lanes, rates in swept.items()}
    chance = {lanes: f"; by chance {by_chance(lanes):.2f}x" if WAYS[name][1] == "turns" else "" for lanes in swept}
    rows = [Row(f"{name}, {lanes} queue pairs: steered over ECMP", "", "",
                f"{steered[lanes] / statistics.median(rates['ECMP']):.2f}x ({spread(rates['steered'])} against "
                f"{spread(rates['ECMP'])} Mbit/s{chance[lanes]})", None) for lanes, rates in swept.items()]
    return [*rows, Row(f"{name}: 64 queue pairs over 8, both steered", "below 1x beyond 16 (CTCCL)", ">= 0.95x",
                       f"{steered[64] / steered[8]:.2f}x", steered[64] / steered[8] >= 0.95)]


def measure(bench):
    with both(bench, HOSTS) as labs:
        found = {name: sweep(bench, labs, name) for name in WAYS}
    bench.keep(swept=found)
    bench.curves("lab-wide", "Mbit/s of a host, as the library deals segments by itself",
                 {f"{name}, {way}": [(lanes, statistics.median(rates[way])) for lanes, rates in found[name].items()]
                  for name in ("allreduce", "allgather") for way in ("ECMP", "steered")}, "queue pairs")
    return [row for name, swept in found.items() for row in rows_of(name, swept)]
