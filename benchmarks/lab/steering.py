# SPDX-License-Identifier: Apache-2.0
"""Allreduce of hosts over 2 leaves x 8 uplinks: source ports by the plan (TUTTI_PATHS) against ECMP, each with lanes in
turn (TUTTI_STRIPE=turns, equal shares) and by arrival (the library's own choice): 8 hosts with 8 lanes, two jobs of 4
hosts at once, and 2, 4 and 8 hosts with 1 to 8 lanes (CTCCL's figure 6c). Each job draws new source ports."""
import contextlib
import statistics

import ecmp_draws
import clos
from fabric import Ports
from result import Row, middle, spread

TITLE = "allreduce, 8 hosts, 2 leaves x 8 uplinks, 8 lanes: steered against ECMP"
WAYS = (("ECMP", "turns"), ("steered", "turns"), ("ECMP", "arrival"), ("steered", "arrival"))
ONE, TWO = [clos.across()], [clos.across(first=0, count=4), clos.across(first=2, count=4)]
SWEPT_HOSTS, SWEPT_LANES = (2, 4, 8), (1, 2, 4, 8)


@contextlib.contextmanager
def both(bench, hosts=clos.HOSTS):
    """{"ECMP": (lab, its ports), "steered": ...}, both up."""
    with contextlib.ExitStack() as stack:
        labs = {}
        for way in ("ECMP", "steered"):
            lab = stack.enter_context(clos.fabric(bench.build, way == "steered", hosts))
            labs[way] = lab, stack.enter_context(Ports(lab, clos.nodes(hosts)))
        yield labs


def share_variance(loads):
    """Of each uplink's share of its leaf, the mean of both leaves."""
    shares = [[load / sum(leaf) for load in leaf] for leaf in (loads[:clos.UPLINKS], loads[clos.UPLINKS:])]
    return statistics.fmean(statistics.pvariance(leaf) for leaf in shares)


def of_model(loads):
    """Mbit/s of a host of one ring, by the fair shares of `tutti simulate`, for the ways that its lanes took: in turn
    all lanes send alike, so an uplink's part of its leaf says how many it has."""
    lanes = clos.HOSTS // 2 * clos.LANES
    most = max(round(lanes * load / sum(leaf)) for leaf in (loads[:clos.UPLINKS], loads[clos.UPLINKS:])
               for load in leaf)
    return clos.UPLINK * ecmp_draws.ring_rate(clos.HOSTS, clos.LANES, most, clos.nic() / clos.UPLINK)


def turns_of(bench, labs, what, rings, ways, model=None):
    """{way: (Mbit/s of a host in each turn, variances)}; the last turn's loads of l0's uplinks by way."""
    found, loads = {way: ([], []) for way in ways}, {}
    for _ in range(bench.turns):
        for way, stripe in ways:
            rates, sent = clos.load(*labs[way], rings, clos.LANES, stripe, bench.seconds)
            found[way, stripe][0].append(statistics.fmean(rates))
            found[way, stripe][1].append(share_variance(sent))
            if model is not None and stripe == "turns":
                model.append(statistics.fmean(rates) / of_model(sent))
            loads[f"{way}, {stripe}"] = [load / sum(sent[:clos.UPLINKS]) for load in sent[:clos.UPLINKS]]
            bench.say(f"{what}, {way}, {stripe}: {' '.join(f'{rate:.1f}' for rate in rates)} Mbit/s, "
                      f"{labs[way][0].drops()} packets dropped, processors {labs[way][1].idle:.0f} % idle")
    return found, loads


def sweep(bench):
    """{hosts: {lanes: (steered over ECMP in turn, what is expected of it)}}; ECMP is the mean of all draws."""
    found = {}
    for hosts in SWEPT_HOSTS:
        with both(bench, hosts) as labs:
            for lanes in SWEPT_LANES:
                rates = {}
                for way, draws in (("ECMP", 2), ("steered", 1)):
                    rates[way] = [clos.load(*labs[way], [clos.across(hosts)], lanes, "turns", bench.seconds / 2)[0][0]
                                  for _ in range(draws)]
                random, planned = ecmp_draws.rings(hosts, lanes, clos.UPLINKS, clos.nic(hosts) / clos.UPLINK)
                ratio = rates["steered"][0] / statistics.fmean(rates["ECMP"])
                found.setdefault(hosts, {})[lanes] = ratio, planned / random, rates
                bench.say(f"{hosts} hosts, {lanes} lanes: {spread(rates['ECMP'])}, steered {rates['steered'][0]:.1f} "
                          f"Mbit/s, {ratio:.2f}x, by chance {planned / random:.2f}x")
    return found


def by_chance(rings, hosts):
    """Steered over ECMP, all lanes in turn: steered fills the NICs."""
    full = clos.nic() / clos.UPLINK
    return full / ecmp_draws.many_rings(rings, hosts, clos.LANES, clos.UPLINKS, full, 500)


def rows_of(found, ways, name, expected):
    ecmp, even, own = (middle(found[way][0]) for way in (ways[0], ways[1], ways[-1]))
    out = [Row(f"{name}steered over ECMP, both with lanes in turn", "1.40x (CTCCL)", ">= 1.4x",
               f"{even / ecmp:.2f}x ({spread(found[ways[1]][0])} against {spread(found[ways[0]][0])} Mbit/s; by chance "
               f"{expected:.2f}x)",
               even / ecmp >= 1.4),
           Row(f"{name}steered and by arrival over ECMP in turn", "", ">= 1.4x",
               f"{own / ecmp:.2f}x ({spread(found[ways[-1]][0])} Mbit/s)", own / ecmp >= 1.4)]
    variances = [middle(found[way][1]) / middle(found[ways[0]][1]) for way in (ways[1], ways[-1])]
    return [*out, Row(f"{name}variance of the uplinks' shares, of ECMP's in turn", "92.22 to 0.06 (CTCCL)", "< 0.001",
                      f"{variances[0]:.2g} in turn, {variances[1]:.2g} by arrival", variances[0] < 0.001)]


def swept_rows(swept):
    return [Row(f"{hosts} hosts, lanes in turn; by chance in brackets", "", "",
                "; ".join(f"{lanes}: {one[0]:.2f}x ({one[1]:.2f}x)" for lanes, one in lanes_of.items())
                + " (lanes: ratio)", None) for hosts, lanes_of in swept.items()]


def measure(bench):
    two_ways, model = [WAYS[0], WAYS[1], WAYS[3]], []
    with both(bench) as labs:
        found, loads = turns_of(bench, labs, "one job", ONE, WAYS, model)
        two, _ = turns_of(bench, labs, "two jobs", TWO, two_ways)
    swept = sweep(bench)
    bench.bars("lab-uplinks", "Share of its leaf that each uplink of l0 carried (1/8 = all alike)", loads)
    curves = {}
    for hosts, lanes_of in swept.items():
        curves[f"{hosts} hosts"] = [(lanes, one[0]) for lanes, one in lanes_of.items()]
        curves[f"{hosts}, by chance"] = [(lanes, one[1]) for lanes, one in lanes_of.items()]
    bench.curves("lab-lanes", "Rate steered over rate by ECMP, lanes in turn", curves, "lanes")
    bench.keep(one={", ".join(way): figures for way, figures in found.items()},
               two={", ".join(way): figures for way, figures in two.items()}, swept=swept)
    weighed = middle(found[WAYS[2]][0]) / middle(found[WAYS[0]][0])
    return [*rows_of(found, WAYS, "", by_chance(1, clos.HOSTS)),
            Row("in turn, by ECMP and steered: measured over the model, for the uplinks that lanes took", "",
                "within 5%", " ".join(f"{one:.3f}" for one in model), all(abs(one - 1) <= 0.05 for one in model)),
            Row("ECMP by arrival over ECMP in turn: what weights alone do", "", "",
                f"{weighed:.2f}x ({spread(found[WAYS[2]][0])} Mbit/s)", None),
            *rows_of(two, two_ways, "two jobs of 4 hosts at once: ", by_chance(2, clos.HOSTS // 2)), *swept_rows(swept)]
