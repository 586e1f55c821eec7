# SPDX-License-Identifier: Apache-2.0
"""Two hosts whose adapters have two ports, each at a leaf of its own (C4P, figure 8). Left and right are kept apart, as
the path master and the library do; or flows from both ports meet at one port of the receiver, as a bond's hash and
ECMP let them by chance. An allreduce of two hosts is as slow as its slower direction: each of the two has its ports
apart in one of two draws, so both have in one of four."""
import statistics

from fabric import FOREVER, Job, Lab, Ports
from result import Row, spread

TITLE = "two hosts with two ports each: left and right kept apart"
PORT, UPLINKS = 10, 4  # Mbit/s; as many links up as cross traffic needs
HOSTS = ["h0", "h1"]
NICS = [f"{host}.n{port}" for host in HOSTS for port in (0, 1)]
APART, MET = "soft_l=n0,soft_r=n1", "soft_l=n0,soft_r=n0"


def once(bench, lab, ports, theirs):
    """Mbit/s of a host, both ports together."""
    each = {host: {"SOFTVERBS_DEVICES": devices} for host, devices in zip(HOSTS, (APART, theirs))}
    with Job(lab, HOSTS, ["allreduce", "-b", "1M", "-e", "1M", *FOREVER],
             {"TUTTI_IB_LANES": "1", "TUTTI_STRIPE": "turns"}, each) as job:
        ports.flows([job], NICS[:2], 1 << 20)
        sent = ports.window(bench.seconds, [job])
    rate = sum(sent[nic] for nic in NICS) * 8e-6 / 2
    bench.say(f"{'apart' if theirs == APART else 'met'}: {rate:.1f} Mbit/s, processors {ports.idle:.0f} % idle")
    return rate


def measure(bench):
    with Lab(bench.build, {"hosts": 2, "nics": 2, "leaves": 2, "spines": UPLINKS, "wiring": "rail",
                           "rate": f"{PORT}mbit", "links": [("l*.u*", f"{4 * PORT}mbit")]}) as lab:
        with Ports(lab, HOSTS) as ports:
            apart, met = [], []
            for _ in range(bench.turns):
                apart.append(once(bench, lab, ports, APART))
                met.append(once(bench, lab, ports, MET))
    bench.keep(apart=apart, met=met)
    chance = (statistics.fmean(apart) + 3 * statistics.fmean(met)) / 4
    gain = statistics.fmean(apart) / chance
    return [Row("apart over by chance", "about 1.5x (C4P)", ">= 1.45x",
                f"{gain:.2f}x ({spread(apart)} Mbit/s; where ports meet {spread(met)})", gain >= 1.45)]
