# SPDX-License-Identifier: Apache-2.0
"""One of eight uplinks fails under a steered allreduce: lanes by arrival (weights) against lanes in turn."""
import clos
from fabric import FOREVER, Ports
from result import Row

TITLE = "one of 8 uplinks fails: weights on against off"
LEFT = [f"l0.u{uplink}" for uplink in range(1, clos.UPLINKS)]


def once(bench, stripe):
    """(Mbit/s of l0's uplinks before, Mbit/s of each that is left after)"""
    with clos.fabric(bench.build, True) as lab, Ports(lab, ("l0",)) as ports:
        with clos.ring(lab, stripe, FOREVER) as job:
            ports.flows([job], LEFT, 2 * clos.BYTES // clos.UPLINKS)
            before = ports.window(bench.seconds, [job])
            lab.link("down", "l0.u0")
            ports.flows([job], LEFT, 2 * clos.BYTES // clos.UPLINKS)
            after = ports.window(bench.seconds, [job])
        total = sum(before[port] for port in ["l0.u0", *LEFT]) * clos.MBIT
        left = [after[port] * clos.MBIT for port in LEFT]
        bench.say(f"{stripe}: {total:.1f} Mbit/s, then {' '.join(f'{rate:.1f}' for rate in left)}: {sum(left):.1f}")
    return total, left


def measure(bench):
    found = {"arrival": [], "turns": []}
    for _ in range(bench.turns):
        for stripe, runs in found.items():
            runs.append(once(bench, stripe))
    kept = sorted(sum(left) / (clos.UPLINK * len(LEFT)) for _, left in found["arrival"])
    before = sorted(total / (clos.UPLINK * clos.UPLINKS) for total, _ in found["arrival"])
    rate = {stripe: sorted(sum(left) for _, left in runs)[len(runs) // 2] for stripe, runs in found.items()}
    off = max(max(abs(one / (sum(left) / len(left)) - 1) for one in left) for _, left in found["arrival"])
    bench.bars("lab-uplink-failed", "Mbit/s of l0's uplinks u1 to u7 after u0 has failed",
               {"weights on": found["arrival"][-1][1], "weights off": found["turns"][-1][1]})
    bench.keep(found=found)
    middle = kept[len(kept) // 2]
    ratio = rate["arrival"] / rate["turns"]
    return [Row("rate after the failure, weights on over off", "1.62x (C4P)", "",
                f"{ratio:.2f}x ({rate['arrival']:.1f} against {rate['turns']:.1f} Mbit/s)", None),
            Row("of what the seven uplinks that are left can carry, weights on", "", ">= 96%",
                f"{100 * middle:.1f}% (before, of eight: {100 * before[len(before) // 2]:.1f}%)", middle >= 0.96),
            Row("shares of the seven, farthest from their mean", "even (C4P)", "within 2%", f"{100 * off:.1f}%",
                off <= 0.02)]
