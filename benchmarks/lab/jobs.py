# SPDX-License-Identifier: Apache-2.0
"""Eight jobs of two hosts at once, one host of each at either leaf: steered against ECMP, with one lane each, the
library's default."""
from fabric import FOREVER, Job, Lab, Ports
from result import Row, middle, spread

TITLE = "8 jobs of 2 hosts at once: steered against ECMP"
JOBS, UPLINK = 8, 10  # Mbit/s, of NICs, too
NICS = [f"h{host}.n0" for host in range(2 * JOBS)]


def once(bench, steered):
    """Mbit/s that each job's hosts sent."""
    keys = {"hosts": 2 * JOBS, "nics": 1, "leaves": 2, "spines": JOBS, "rate": f"{UPLINK}mbit"}
    with Lab(bench.build, keys, steered) as lab, Ports(lab, [f"h{host}" for host in range(2 * JOBS)]) as ports:
        told = lab.plan(1) if steered else None
        jobs = []
        try:
            for job in range(JOBS):
                jobs.append(Job(lab, [f"h{job}", f"h{JOBS + job}"], ["allreduce", "-b", "1M", "-e", "1M", *FOREVER],
                                None, told))
            ports.flows(jobs, NICS, 1 << 20)
            rates = ports.window(bench.seconds, jobs)
        finally:
            for job in jobs:
                job.__exit__()
        found = [8e-6 * (rates[f"h{job}.n0"] + rates[f"h{JOBS + job}.n0"]) / 2 for job in range(JOBS)]
        bench.say(f"{'steered' if steered else 'ECMP'}: {' '.join(f'{rate:.1f}' for rate in found)} Mbit/s a job, "
                  f"{lab.drops()} packets dropped")
    return found


def apart(rates):
    """Greatest less least, of the mean."""
    return (max(rates) - min(rates)) / (sum(rates) / len(rates))


def measure(bench):
    ecmp, steered = [], []
    for _ in range(bench.turns):
        ecmp.append(once(bench, False))
        steered.append(once(bench, True))
    means = [[sum(rates) / JOBS for rates in way] for way in (ecmp, steered)]
    ratio, most = middle(means[1]) / middle(means[0]), max(map(apart, steered))
    bench.bars("lab-jobs", "Mbit/s of each of 8 jobs", {"ECMP": ecmp[-1], "steered": steered[-1]})
    bench.keep(ecmp=ecmp, steered=steered)
    return [Row("mean of the jobs' rates, steered over ECMP", "1.70x (C4P)", ">= 1.6x",
                f"{ratio:.2f}x ({spread(means[1])} against {spread(means[0])} Mbit/s)", ratio >= 1.6),
            Row("spread between jobs (greatest less least, of the mean)", "2% (C4P)", "< 5%",
                f"{100 * most:.1f}% steered, {100 * max(map(apart, ecmp)):.0f}% ECMP", most < 0.05)]
