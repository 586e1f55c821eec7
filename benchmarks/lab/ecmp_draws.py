# SPDX-License-Identifier: Apache-2.0
"""What ECMP can be expected to do, if every lane's uplink is drawn at random and lanes share an uplink alike: the mean
of many draws. Rates are of an uplink's."""
import random
import statistics

SEED, DRAWS = 15, 2000


def drawn(rng, flows, uplinks):
    """How many of the flows take each uplink."""
    loads = [0] * uplinks
    for _ in range(flows):
        loads[rng.randrange(uplinks)] += 1
    return loads


def ring_rate(hosts, lanes, most, nic):
    """Of a host in a ring over two leaves, with lanes in turn: all lanes are as slow as that on the fullest uplink."""
    return min(nic, lanes / most) if most else nic


def rings(hosts, lanes, uplinks, nic, draws=DRAWS):
    """Mean rate of a host by ECMP, and the rate when `plan` spreads all lanes of a leaf alike."""
    rng, flows = random.Random(SEED), hosts // 2 * lanes
    found = [ring_rate(hosts, lanes, max(drawn(rng, flows, uplinks) + drawn(rng, flows, uplinks)), nic)
             for _ in range(draws)]
    return statistics.fmean(found), ring_rate(hosts, lanes, -(-flows // uplinks), nic)


def fair(ways, uplinks):
    """Rates of jobs whose lanes go in turn: all rise alike, and who meets a full uplink stays. ways: for each job how
    many of its lanes take each of the uplinks."""
    room, rates = [1.0] * uplinks, [0.0] * len(ways)
    rising = set(range(len(ways)))
    while rising:
        weight = [sum(ways[job].get(uplink, 0) for job in rising) for uplink in range(uplinks)]
        step = min(room[uplink] / weight[uplink] for uplink in range(uplinks) if weight[uplink])
        room = [room[uplink] - step * weight[uplink] for uplink in range(uplinks)]
        for job in rising:
            rates[job] += step
        rising = {job for job in rising if all(room[uplink] > 1e-9 for uplink in ways[job])}
    return rates


def many_rings(rings, hosts, lanes, uplinks, nic, draws=DRAWS):
    """Mean rate of a host by ECMP where so many rings of so many hosts run at once: each is as slow as its slowest
    lane."""
    rng, flows, found = random.Random(SEED), hosts // 2 * lanes, []
    for _ in range(draws):
        drawn_by = [drawn(rng, flows, uplinks) + drawn(rng, flows, uplinks) for _ in range(rings)]
        rates = fair([{uplink: load for uplink, load in enumerate(loads) if load} for loads in drawn_by], 2 * uplinks)
        found.append(statistics.fmean(min(nic, lanes * rate) for rate in rates))
    return statistics.fmean(found)


def pairs(jobs, lanes, uplinks, draws=DRAWS):
    """(mean rate of jobs of two hosts, one at either leaf; mean of greatest less least, of the mean) by ECMP. NICs are
    as fast as uplinks. Both ways of a lane take the same uplink: the source port is made of the product of both ends'
    queue pair numbers, and Linux's hash sorts addresses and ports before it takes them."""
    rng, means, spreads = random.Random(SEED), [], []
    for _ in range(draws):
        ways = []
        for _ in range(jobs):
            ways.append({uplink: load for uplink, load in enumerate(drawn(rng, lanes, uplinks)) if load})
        rates = [min(1.0, lanes * rate) for rate in fair(ways, uplinks)]
        means.append(statistics.fmean(rates))
        spreads.append((max(rates) - min(rates)) / means[-1])
    return statistics.fmean(means), statistics.fmean(spreads)
