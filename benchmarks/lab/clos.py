# SPDX-License-Identifier: Apache-2.0
"""The fabric of the measurements of load: two leaves with eight uplinks each, and rings of allreduce across it."""
from fabric import FOREVER, Job, Lab

UPLINK = 10  # Mbit/s: two processors carry this beside eight ranks
UPLINKS, LANES, HOSTS = 8, 8, 8
LEAVES = ("l0", "l1")
UP = [f"{leaf}.u{uplink}" for leaf in LEAVES for uplink in range(UPLINKS)]
BYTES = 4 << 20  # of the vector
MUCH = 5 << 19  # bytes from each host before anything is measured: lanes know their rates then
MBIT = 8e-6


def nic(hosts=HOSTS):
    """Mbit/s: as much comes from a leaf's hosts as its uplinks carry."""
    return UPLINK * UPLINKS // (hosts // 2)


def fabric(build, steered, hosts=HOSTS):
    return Lab(build, {"hosts": hosts, "nics": 1, "leaves": 2, "spines": UPLINKS, "rate": f"{UPLINK}mbit",
                       "links": [("h*.n*", f"{nic(hosts)}mbit")]}, steered)


def nodes(hosts=HOSTS):
    return [*LEAVES, *(f"h{host}" for host in range(hosts))]


def across(hosts=HOSTS, first=0, count=None):
    """Each second rank is at the other leaf: all traffic of the ring goes up. first: of a leaf; count: of hosts."""
    return [f"h{first + place // 2 + hosts // 2 * (place % 2)}" for place in range(count or hosts)]


LEFT = {"TUTTI_SEGMENT": None, "TUTTI_ALGO": None}  # to the library


def ring(lab, hosts, lanes, stripe, operator="allreduce", own=None):
    """Allreduces, or others, one after the other, until they are ended. own: more settings."""
    return Job(lab, hosts, [operator, "-b", str(BYTES), "-e", str(BYTES), *FOREVER],
               {"TUTTI_IB_LANES": str(lanes), "TUTTI_STRIPE": stripe, **(own or {})},
               lab.plan(lanes) if lab.steered else None)


def load(lab, ports, rings, lanes, stripe, seconds, operator="allreduce", own=None):
    """(Mbit/s of a host in each ring, Mbit/s of each of UP), with all rings at once."""
    jobs = []
    try:
        for hosts in rings:
            jobs.append(ring(lab, hosts, lanes, stripe, operator, own))
        ports.flows(jobs, [f"{host}.n0" for hosts in rings for host in hosts], MUCH)
        sent = ports.window(seconds, jobs)
    finally:
        for job in jobs:
            job.__exit__()
    rates = [sum(sent[f"{host}.n0"] for host in hosts) / len(hosts) * MBIT for hosts in rings]
    return rates, [sent[port] * MBIT for port in UP]
