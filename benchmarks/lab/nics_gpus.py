# SPDX-License-Identifier: Apache-2.0
"""What GPUs send by interfaces of others, in slots next to these or read from afar; and what each mechanism of FuseLink
gives (its Table 2), with those before it."""
import os

from fabric import Lab
from nics_play import BYTES_A_SECOND, IDLE, NICS, RATE, SEGMENT, Play, pairs, shape, took
from result import Row, middle

FAR = RATE / 4  # Mbit/s at which an interface reads and writes memory of a GPU that is not next to it


def gpu_settings(lab, gpus, far=FAR):
    """Each GPU at a switch with the interface of its number."""
    at = [f"pci0000:{number:x}0/0000:{number:x}0:01.0/0000:{number:x}" for number in range(1, gpus + 1)]
    cuda = os.path.join(lab.build.folder, "emulation", "cuda")
    return {"LD_LIBRARY_PATH": ":".join([cuda, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]),
            "TUTTI_EMULATED_GPUS": str(gpus), "TUTTI_EMULATED_PCI": ",".join(f"{place}1:00.0" for place in at),
            "SOFTVERBS_DEVICES": ",".join(f"soft_n{nic}=n{nic}@{place}2:00.0" for nic, place in enumerate(at)),
            "SOFTVERBS_RATES": ",".join(f"gpu{gpu}@soft_n{gpu}=1gbit,gpu{gpu}@*={far}mbit" for gpu in range(gpus)),
            "TUTTI_STAGE_SLICE": "64K", "TUTTI_DMABUF_FROM": "4K"}


def lab_of(bench, nics):
    return Lab(bench.build, {"hosts": 2, "nics": nics, "leaves": 1, "spines": 1, "rate": f"{RATE}mbit"})


# ---- One relay ----

TWO = 2
WAYS = {"own": ("own", FAR, {}), "from afar": ("borrow", FAR, {"TUTTI_RELAY": "0"}), "relayed": ("borrow", FAR, {}),
        "as near": ("borrow", 1000, {"TUTTI_RELAY": "0"})}


def relay(bench, lab):
    """{way: Mbit/s of a pair of GPUs whose host has another GPU and interface, which are idle}"""
    size, found = int(bench.seconds * BYTES_A_SECOND), {}
    for name, (policy, far, settings) in WAYS.items():
        flows = [[(0, SEGMENT * 64), (5e5, size)]] + [IDLE] * (TWO - 1)
        settings = {**gpu_settings(lab, TWO, far), "TUTTI_STAGE_THREADS": "1", **settings}
        times = [took(Play(lab, policy, pairs(flows), settings, gpus=True).run(
            120 + 20 * bench.seconds, 1)[0][1])[1] for _ in range(bench.turns)]
        found[name] = 8e-6 * size / middle(times)
        bench.say(f"relay, {name}: {found[name]:.1f} Mbit/s")
    return found


def relay_rows(found):
    ratio = {name: rate / found["own"] for name, rate in found.items()}
    return [Row(f"a pair of GPUs with one more interface, that reaches them at a quarter of its rate: relayed / read "
                f"from afar / if it were as near, against its own one", "", "relayed above from afar",
                f"{ratio['relayed']:.2f}x / {ratio['from afar']:.2f}x / {ratio['as near']:.2f}x "
                f"({found['own']:.1f} Mbit/s)", found["relayed"] > found["from afar"])]


# ---- Table 2 ----

# What each adds to the one before it, the paper's figure, and settings.
STEPS = {"own": ("its own interface alone", "1.00x", {}),
         "relays": ("relays to all others, at any time (4.1)", "1.59x",
                    {"TUTTI_BORROW": "64", "TUTTI_BORROW_WHILE": "any"}),
         "idle": ("while these are idle alone (4.2)", "1.55x", {"TUTTI_BORROW": "64", "TUTTI_BORROW_WHILE": "fresh"}),
         "bounded": ("two segments wait there at most (4.3)", "3.62x",
                     {"TUTTI_BORROW": "2", "TUTTI_BORROW_WHILE": "fresh"}),
         "batches": ("a look at the board serves for eight (4.4)", "4.31x", {"TUTTI_BORROW": "2"}),
         "afar": ("all of it, but no relays", "", {"TUTTI_BORROW": "2", "TUTTI_RELAY": "0"})}
SENDS, PERIOD, SHARE = 3, 2.0, 0.3  # the neighbour: messages, s between their beginnings, part of the time that one has


def ablation(bench, lab):
    """{step: (Mbit/s of a pair of GPUs, s of a message of the process that owns another GPU and its interface)}"""
    size, found = int(bench.seconds * BYTES_A_SECOND), {}
    begins = 1 + 1.5 * bench.seconds
    neighbour = [(1e6 * (begins + PERIOD * i), BYTES_A_SECOND * PERIOD * SHARE) for i in range(SENDS)]
    much = NICS * BYTES_A_SECOND * (begins + PERIOD * SENDS)
    flows = [neighbour, [(0, SEGMENT * 64), (5e5, size), (0, much)]]
    for name, (_, _, settings) in STEPS.items():
        settings = {**gpu_settings(lab, NICS), "TUTTI_STAGE_THREADS": "4", **settings}
        rates, waits = [], []
        for _ in range(bench.turns):
            steps = Play(lab, "own" if name == "own" else "borrow", pairs(flows), settings, bound={0}, gpus=True).run(
                120 + 20 * bench.seconds, 1)
            rates.append(8e-6 * size / took(steps[1][1])[1])
            waits += took(steps[0][1])
        found[name] = (middle(rates), middle(waits))
        bench.say(f"ablation, {name}: {found[name][0]:.1f} Mbit/s, the neighbour's messages "
                  f"{1e3 * found[name][1]:.0f} ms")
    return found


def ablation_rows(found):
    own, alone = found["own"]
    rows = []
    for name, (what, paper, _) in STEPS.items():
        rate, wait = found[name]
        rows.append(Row(f"a pair of GPUs, {NICS} interfaces: {what}", paper, ">= 5.5x" if name == "batches" else "",
                        f"{rate / own:.2f}x ({rate:.1f} Mbit/s); a neighbour that sends {SHARE:.0%} of the time loses "
                        f"{100 * (1 - alone / wait):.1f}%", rate / own >= 5.5 if name == "batches" else None))
    return rows


def measure(bench):
    rows = []
    for nics, name, part, tell in ((TWO, "relay", relay, relay_rows), (NICS, "ablation", ablation, ablation_rows)):
        with lab_of(bench, nics) as lab:
            shape(lab)
            found = part(bench, lab)
        bench.keep(**{name: found})
        rows += tell(found)
    return rows
