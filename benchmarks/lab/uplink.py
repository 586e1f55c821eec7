# SPDX-License-Identifier: Apache-2.0
"""One of eight uplinks fails under a steered allreduce: lanes by arrival (weights) against lanes in turn. The lanes
that went by it go by ECMP over the other seven then. Turns are what C4P compares with: its connections stay where they
are, each with its share. With 8 lanes of each host an uplink has four lanes, with 2 lanes one."""
import clos
from fabric import Ports
from result import Row, middle

TITLE = "one of 8 uplinks fails: weights on against off"
ALL = [f"l0.u{uplink}" for uplink in range(clos.UPLINKS)]
FAILED, LEFT = ALL[0], ALL[1:]
STRIPES = ("arrival", "turns")


def once(bench, lanes, stripe):
    """Mbit/s of each of l0's uplinks before, and of each that is left after."""
    with clos.fabric(bench.build, True) as lab, Ports(lab, clos.nodes()) as ports:
        with clos.ring(lab, clos.across(), lanes, stripe) as job:
            ports.flows([job], [*(f"{host}.n0" for host in clos.across())], clos.MUCH)
            before = ports.window(bench.seconds, [job])
            lab.link("down", FAILED)
            ports.flows([job], [*(f"{host}.n0" for host in clos.across())], clos.MUCH)
            after = ports.window(bench.seconds, [job])
        whole = [before[port] * clos.MBIT for port in ALL]
        left = [after[port] * clos.MBIT for port in LEFT]
        bench.say(f"{lanes} lanes, {stripe}: {sum(whole):.1f} Mbit/s, then {' '.join(f'{rate:.1f}' for rate in left)}: "
                  f"{sum(left):.1f}")
    return whole, left


def totals(runs):
    return [sum(left) for _, left in runs]


def ratio_row(lanes, found):
    rates = {stripe: middle(totals(found[stripe])) for stripe in STRIPES}
    before = middle([sum(whole) for whole, _ in found["turns"]])
    share = lanes * clos.HOSTS // 2 // clos.UPLINKS
    ratio, like_theirs = rates["arrival"] / rates["turns"], share == 1
    return Row(f"{lanes} lanes a host, {share} an uplink: rate after the failure, weights on over off",
               "1.62x (C4P: 301 against 186 of 360)" if like_theirs else "", "1.62x" if like_theirs else "",
               f"{ratio:.2f}x ({rates['arrival']:.1f} against {rates['turns']:.1f} of {before:.1f} Mbit/s)",
               ratio >= 1.62 if like_theirs else None)


def measure(bench):
    found = {}
    for lanes, times in ((clos.LANES, bench.turns), (4, 1), (2, max(1, bench.turns - 1))):
        for _ in range(times):
            for stripe in STRIPES:
                found.setdefault(lanes, {}).setdefault(stripe, []).append(once(bench, lanes, stripe))
    on = found[clos.LANES]["arrival"]
    kept = middle(totals(on)) / (clos.UPLINK * len(LEFT))
    before = middle([sum(whole) for whole, _ in on]) / (clos.UPLINK * clos.UPLINKS)
    off = max(max(abs(one / (sum(left) / len(left)) - 1) for one in left) for _, left in on)
    bench.bars("lab-uplink-failed", "Mbit/s of l0's uplinks before and after u0 has failed, 8 lanes a host; 2 lanes",
               {"before": on[-1][0], "after, weights on": [0, *on[-1][1]],
                "after, off": [0, *found[clos.LANES]["turns"][-1][1]], "2 lanes, off": [0, *found[2]["turns"][-1][1]]})
    bench.keep(**{str(lanes): figures for lanes, figures in found.items()})
    return [*(ratio_row(lanes, figures) for lanes, figures in found.items()),
            Row("8 lanes: of what the seven uplinks that are left can carry, weights on", "96% (C4P: 301 of 315)",
                ">= 96%", f"{100 * kept:.1f}% (before, of eight: {100 * before:.1f}%)", kept >= 0.96),
            Row("8 lanes: shares of the seven, farthest from their mean", "91.6% each (CTCCL)", "within 2%",
                f"{100 * off:.1f}%", off <= 0.02)]
