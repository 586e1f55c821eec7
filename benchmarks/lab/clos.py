# SPDX-License-Identifier: Apache-2.0
"""The fabric of the measurements of load: two leaves with eight uplinks each, and an allreduce across it."""
from fabric import Job, Lab

UPLINK = 20  # Mbit/s
UPLINKS, LANES, HOSTS = 8, 8, 8
NIC = UPLINK * UPLINKS // (HOSTS // 2)  # as much comes from a leaf's hosts as its uplinks carry
LEAVES = ("l0", "l1")
UP = [f"{leaf}.u{uplink}" for leaf in LEAVES for uplink in range(UPLINKS)]
# Each second rank is at the other leaf: all traffic of the ring goes up.
RING = [f"h{place // 2 + HOSTS // 2 * (place % 2)}" for place in range(HOSTS)]
RATES = f"uplinks of {UPLINK} Mbit/s, NICs of {NIC} Mbit/s"
BYTES = 4 << 20  # of the vector
MBIT = 8e-6


def fabric(build, steered):
    return Lab(build, {"hosts": HOSTS, "nics": 1, "leaves": 2, "spines": UPLINKS, "rate": f"{UPLINK}mbit",
                       "links": [("h*.n*", f"{NIC}mbit")]}, steered)


def ring(lab, stripe, words):
    """Allreduces, one after the other."""
    return Job(lab, RING, ["allreduce", "-b", str(BYTES), "-e", str(BYTES), *words],
               {"TUTTI_IB_LANES": str(LANES), "TUTTI_STRIPE": stripe}, lab.plan(LANES) if lab.steered else None)
