# SPDX-License-Identifier: Apache-2.0
"""Allreduce of 4 hosts over 2 leaves x 8 uplinks with 8 to 64 queue pairs of each two hosts: CTCCL's sweep (figure 6e),
in which rates decline beyond 16. Source ports by the plan against ECMP, lanes in turn."""
import statistics

import clos
import ecmp_draws
from result import Row, spread
from steering import both

TITLE = "allreduce, 4 hosts, 2 leaves x 8 uplinks: 8 to 64 queue pairs of each two hosts"
HOSTS, SWEPT = 4, (8, 16, 32, 64)


def measure(bench):
    found = {}
    with both(bench, HOSTS) as labs:
        for lanes in SWEPT:
            rates = {way: [clos.load(*labs[way], [clos.across(HOSTS)], lanes, "turns", bench.seconds / 2)[0][0]
                           for _ in range(bench.turns)] for way in ("ECMP", "steered")}
            random, planned = ecmp_draws.rings(HOSTS, lanes, clos.UPLINKS, clos.nic(HOSTS) / clos.UPLINK)
            found[lanes] = rates, planned / random
            bench.say(f"{lanes} lanes: ECMP {spread(rates['ECMP'])}, steered {spread(rates['steered'])} Mbit/s; "
                      f"by chance {planned / random:.2f}x")
    bench.keep(swept={lanes: one[0] for lanes, one in found.items()})
    steered = {lanes: statistics.median(one[0]["steered"]) for lanes, one in found.items()}
    bench.curves("lab-wide", "Mbit/s of a host, lanes in turn",
                 {way: [(lanes, statistics.median(one[0][way])) for lanes, one in found.items()]
                  for way in ("ECMP", "steered")}, "queue pairs")
    rows = [Row(f"{lanes} queue pairs: steered over ECMP", "", "",
                f"{steered[lanes] / statistics.median(rates['ECMP']):.2f}x ({spread(rates['steered'])} against "
                f"{spread(rates['ECMP'])} Mbit/s; by chance {chance:.2f}x)", None)
            for lanes, (rates, chance) in found.items()]
    return [*rows, Row("64 queue pairs over 8, both steered", "below 1x beyond 16 (CTCCL)", ">= 0.95x",
                       f"{steered[64] / steered[8]:.2f}x", steered[64] / steered[8] >= 0.95)]
