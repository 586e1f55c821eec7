# SPDX-License-Identifier: Apache-2.0
"""Eight jobs of two hosts at once, one host of each at either leaf: steered against ECMP, with 1, 2 and 4 lanes. Each
job draws new source ports, so each run is another draw; what chance alone does stands beside it."""
import contextlib
import statistics

import ecmp_draws
from fabric import FOREVER, Job, Lab, Ports
from result import Row, middle, spread

TITLE = "8 jobs of 2 hosts at once: steered against ECMP"
JOBS, UPLINK = 8, 10  # Mbit/s, of NICs, too
NICS = [f"h{host}.n0" for host in range(2 * JOBS)]
LANES = (1, 2, 4)


def fabric(build, steered):
    return Lab(build, {"hosts": 2 * JOBS, "nics": 1, "leaves": 2, "spines": JOBS, "rate": f"{UPLINK}mbit"}, steered)


def once(bench, lab, ports, lanes, stripe):
    """Mbit/s that each job's hosts sent."""
    told, jobs = lab.plan(lanes) if lab.steered else None, []
    try:
        for job in range(JOBS):
            jobs.append(Job(lab, [f"h{job}", f"h{JOBS + job}"], ["allreduce", "-b", "1M", "-e", "1M", *FOREVER],
                            {"TUTTI_IB_LANES": str(lanes), "TUTTI_STRIPE": stripe}, told))
        ports.flows(jobs, NICS, 1 << 20)
        rates = ports.window(bench.seconds, jobs)
    finally:
        for job in jobs:
            job.__exit__()
    found = [8e-6 * (rates[f"h{job}.n0"] + rates[f"h{JOBS + job}.n0"]) / 2 for job in range(JOBS)]
    bench.say(f"{lanes} lanes, {'steered' if lab.steered else 'ECMP'}, {stripe}: "
              f"{' '.join(f'{rate:.1f}' for rate in found)} Mbit/s a job, {lab.drops()} packets dropped")
    return found


def apart(rates):
    """Greatest less least, of the mean."""
    return (max(rates) - min(rates)) / statistics.fmean(rates)


def rows_of(lanes, ecmp, steered, weighed):
    means = [[statistics.fmean(rates) for rates in way] for way in (ecmp, steered)]
    ratio, most = middle(means[1]) / statistics.fmean(means[0]), max(map(apart, steered))
    mean, uneven = ecmp_draws.pairs(JOBS, lanes, JOBS)
    out = [Row(f"{lanes} lane{'s'[:lanes > 1]}: mean of the jobs' rates, steered over ECMP in turn", "1.70x (C4P)",
               ">= 1.6x", f"{ratio:.2f}x ({spread(means[1])} against {spread(means[0])} Mbit/s; by chance "
               f"{1 / mean:.2f}x)", ratio >= 1.6),
           Row(f"{lanes} lane{'s'[:lanes > 1]}: spread between jobs (greatest less least, of the mean)",
               "43%, then 2% (C4P)", "< 5%", f"{100 * most:.1f}% steered; ECMP {100 * middle(map(apart, ecmp)):.0f}%, "
               f"by chance {100 * uneven:.0f}%", most < 0.05)]
    if weighed:
        all_means = [statistics.fmean(rates) for rates in weighed]
        out.append(Row(f"{lanes} lanes: ECMP by arrival over ECMP in turn: what weights alone do", "", "",
                       f"{middle(all_means) / statistics.fmean(means[0]):.2f}x ({spread(all_means)} Mbit/s)", None))
    return out


def measure(bench):
    rows, kept, bars = [], {}, {}
    with contextlib.ExitStack() as stack:
        labs = [stack.enter_context(fabric(bench.build, steered)) for steered in (False, True)]
        ecmp, steered = [(lab, stack.enter_context(Ports(lab, [name.split(".")[0] for name in NICS]))) for lab in labs]
        for lanes in LANES:
            random = [once(bench, *ecmp, lanes, "turns") for _ in range(bench.turns + (lanes == 1))]
            planned = [once(bench, *steered, lanes, "turns") for _ in range(bench.turns if lanes == 1 else 1)]
            weighed = [once(bench, *ecmp, lanes, "arrival")] if lanes > 1 else []
            rows += rows_of(lanes, random, planned, weighed)
            kept[lanes] = {"ECMP": random, "steered": planned, "by arrival": weighed}
            bars[f"ECMP, {lanes}"] = random[-1]
        bars["steered, 1"] = kept[1]["steered"][-1]
    bench.bars("lab-jobs", "Mbit/s of each of 8 jobs, by lanes of each", bars)
    bench.keep(**{str(lanes): figures for lanes, figures in kept.items()})
    return rows
