# SPDX-License-Identifier: Apache-2.0
"""A NIC's port goes down during allreduces of two hosts, and comes back. Once as an event that the host sees, once as a
black hole that nobody is told of. First the other NIC's lanes stand in (TUTTI_BACKUP), then both NICs carry data, and
the other one must go on. At last the event during reduce-scatters. All settings but that are the library's own."""
import array
import fcntl
import socket
import struct
import time

from fabric import FOREVER, Beside, Job, Lab, Ports, Watch, enter
from result import Row, spread

TITLE = "NIC port down during allreduce"
RATE = 40  # Mbit/s
MUCH = 64 << 10  # bytes on the backup from each host: data, not words
WANTED = ["h0.n0", "h1.n0", "h0.n1", "h1.n1"]
SETTINGS = {"TUTTI_SEGMENT": None, "TUTTI_ALGO": None, "TUTTI_SPIN": None}
SHARED = {"TUTTI_BACKUP": "none"}
BACKUP = {"TUTTI_BACKUP": "soft_n1"}
SOME = 16 << 10  # bytes: a port that sends fewer stands still
SCATTER = "reduce-scatter, event"


SIOCETHTOOL, GET_LINK = 0x8946, 0x0A  # of <linux/sockios.h>, <linux/ethtool.h>


class Carrier(Beside):
    """When h0's first port loses its carrier: from then on the host can know, and not from the command that cuts it."""

    def __init__(self, lab):
        super().__init__()
        self.lab, self.lost = lab, None

    def run(self):
        enter(self.lab.name, "h0")
        word = array.array("I", [GET_LINK, 1])
        request = struct.pack("16sP", b"n0", word.buffer_info()[0]).ljust(40, b"\0")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            while not self.over.wait(0.001):
                fcntl.ioctl(any_socket, SIOCETHTOOL, request)
                if not word[1]:
                    self.lost = time.monotonic()
                    return
                word[0] = GET_LINK


def rate_of(samples, column, begin, end):
    """Mbit/s that a port sent between these times."""
    inside = [(when, sent[column]) for when, sent in samples if begin <= when <= end]
    return 8e-6 * (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])


def stands_in(samples, since):
    """Seconds until both hosts have sent so much by the second port that it is data."""
    first = next(sent for when, sent in samples if when >= since)
    return next(when for when, sent in samples if all(sent[i] - first[i] >= MUCH for i in (2, 3))) - since


def full_again(samples, since, aim, patience):
    """Seconds until the first port carries so much in a quarter of a second; None: never in this time."""
    for when, _ in samples:
        if since <= when <= since + patience and rate_of(samples, 0, when, when + 0.25) >= aim:
            return when - since
    return None


def pause(samples, since):
    """The longest time, in s, after the failure in which neither host sent anything to speak of by the second port."""
    longest, mark = 0, None
    for when, sent in samples:
        if when < since:
            continue
        if mark is None or all(sent[i] - mark[1][i] >= SOME for i in (2, 3)):
            longest, mark = max(longest, when - mark[0] if mark else 0), (when, sent)
    return longest


def cut(bench, lab, ports, job, how):
    """One failure and one return: (seconds to data on the backup, rate there, seconds to full speed, longest pause)."""
    with Watch(ports, WANTED) as watch, Carrier(lab) as carrier:
        time.sleep(1)
        began = time.monotonic()
        lab.link("down", "h0.n0", *how)
        ports.flows([job], WANTED[2:], MUCH, 60)
        began = carrier.lost or began
        time.sleep(0.5)
        ports.window(bench.seconds, [job])
        settled = time.monotonic()
        lab.link("up", "h0.n0")
        back = time.monotonic()
        time.sleep(6)
    before = rate_of(watch.samples, 0, began - 1, began)
    taken_over = stands_in(watch.samples, began)
    on_backup = rate_of(watch.samples, 2, settled - bench.seconds, settled)
    again = full_again(watch.samples, back, 0.95 * before, 5)
    bench.say(f"{' '.join(how) or 'event'}: data on the backup after {1000 * taken_over:.0f} ms, "
              f"{on_backup:.1f} of {before:.1f} Mbit/s, back after "
              + ("more than 5 s" if again is None else f"{again:.2f} s"))
    still = pause([one for one in watch.samples if one[0] < back], began)
    bench.say(f"the second port stands still for {1000 * still:.0f} ms at most")
    return taken_over, on_backup / before, again, still, [(when - began, *sent) for when, sent in watch.samples]


def measure(bench):
    keys = {"hosts": 2, "nics": 2, "leaves": 1, "spines": 1, "rate": f"{RATE}mbit"}
    found = {}
    with Lab(bench.build, keys) as lab, Ports(lab, ("h0", "h1")) as ports:
        for name, roles, how in (("event", BACKUP, ()), ("black hole", BACKUP, ("--silent",)),
                                 ("both NICs, event", SHARED, ()), ("both NICs, black hole", SHARED, ("--silent",)),
                                 (SCATTER, BACKUP, ())):
            words = ["reducescatter" if name == SCATTER else "allreduce", "-b", "1M", "-e", "1M", *FOREVER]
            with Job(lab, ["h0", "h1"], words, {**SETTINGS, **roles}) as job:
                ports.flows([job], WANTED[:2], 2 << 20)
                found[name] = [cut(bench, lab, ports, job, how) for _ in range(bench.turns)]
    for name, runs in found.items():
        if "," not in name:
            bench.curves(f"lab-port-{name.replace(' ', '-')}", f"Mbit/s of h0's ports, {name} at 0 s",
                         {"n0": curve(runs[0][4], 1), "n1, the backup": curve(runs[0][4], 3)})
    bench.keep(**{name: [run[:4] for run in runs] for name, runs in found.items()})
    return rows(found)


def curve(samples, column, step=0.1):
    """[(seconds, Mbit/s)]"""
    points, last = [], samples[0]
    for sample in samples:
        if sample[0] - last[0] >= step:
            points.append((sample[0], 8e-6 * (sample[column] - last[column]) / (sample[0] - last[0])))
            last = sample
    return points


def rows(found):
    out = []
    for name, limit, aim in (("event", 0.1, "100 ms"), ("black hole", 1, "1 s")):
        times, shares, again = zip(*(run[:3] for run in found[name]))
        still = [run[3] for run in found[f"both NICs, {name}"]]
        late = None in again
        out += [Row(f"{name}: until data goes by the backup", "10 s (ICCL)", f"<= {aim}",
                    f"{spread([1000 * one for one in times], '.0f')} ms", max(times) <= limit),
                Row(f"{name}, both NICs carry data: the other one stands still for", "", f"<= {aim}",
                    f"{spread([1000 * one for one in still], '.0f')} ms", max(still) <= limit),
                Row(f"{name}: rate of the backup path, of the first one's", "76.6% (ICCL)", ">= 95%",
                    f"{spread([100 * one for one in shares])}%", min(shares) >= 0.95),
                Row(f"{name}: until full speed after the port's return", "", "<= 2 s",
                    "more than 5 s" if late else f"{spread(again, '.2f')} s", not late and max(again) <= 2)]
    times, shares = zip(*(run[:2] for run in found[SCATTER]))
    return [*out, Row(f"{SCATTER}: until data goes by the backup, and its rate", "(ICCL)", "<= 100 ms, >= 95%",
                      f"{spread([1000 * one for one in times], '.0f')} ms, {spread([100 * one for one in shares])}%",
                      max(times) <= 0.1 and min(shares) >= 0.95)]
