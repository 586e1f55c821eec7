# SPDX-License-Identifier: Apache-2.0
"""Processes of two hosts that have an interface each, and use those of others while they are idle (TUTTI_BORROW). Three
policies play the same traces (flows_bench.c): each process by its own interface, all by all of them at any time, and
borrowing."""
import contextlib
import math
import os
import random
import signal
import statistics
import subprocess
import threading
import time

import nics_gpus
from nics_play import BOUND, BYTES_A_SECOND, IDLE, NICS, POLICIES, RATE, SEGMENT, Play, limit, pairs, shape, took
from result import Row, middle

TITLE = "interfaces of others"


# ---- One pair over all interfaces ----

def pair(bench, lab):
    """Mbit/s of one pair, while the owners of the others are there and idle."""
    size = int(bench.seconds * BYTES_A_SECOND / 2)
    found = {}
    for name, policy, settings in (("own", "own", {}), *((f"borrow {bound}", "borrow", {"TUTTI_BORROW": str(bound)})
                                                        for bound in (1, 2, 4, 8)), ("all", "all", {})):
        much = size if policy == "own" else size * NICS
        flows = [[(0, SEGMENT * 64), (0, much)]] + [IDLE] * (NICS - 1)
        times = [took(Play(lab, policy, pairs(flows), settings).run(60 + 20 * bench.seconds, 1)[0][1])[1]
                 for _ in range(bench.turns)]
        found[name] = 8e-6 * much / middle(times)
        bench.say(f"pair, {name}: {found[name]:.1f} Mbit/s")
    return found


USED_BOUND = f"borrow {BOUND}"


def pair_rows(found):
    ratio = {name: rate / found["own"] for name, rate in found.items()}
    text = ", ".join(f"{ratio[f'borrow {bound}']:.2f}x" for bound in (1, 2, 4, 8))
    return [Row(f"one pair over {NICS} interfaces, against its own one", "4.31x", ">= 5.5x",
                f"{ratio[USED_BOUND]:.2f}x ({found[USED_BOUND]:.1f} against {found['own']:.1f} Mbit/s)",
                ratio[USED_BOUND] >= 5.5),
            Row("the same with 1 / 2 / 4 / 8 segments borrowed; all at any time", "1.59 to 4.31x", "",
                f"{text}; {ratio['all']:.2f}x", None)]


# ---- A victim beside a long borrower ----

def victim(bench, lab):
    """Median s of the messages of a process that sends now and then, alone and beside one that sends without end."""
    count, period, size = max(4, int(bench.seconds)), 2.0, int(BYTES_A_SECOND * 0.6)
    short = [(1e6 + 1e6 * period * i, size) for i in range(count)]
    much = (2 * count + 2) * NICS * BYTES_A_SECOND * 0.8
    found = {}
    for name, policy, long in (("alone", "borrow", 8), ("borrow", "borrow", much), ("all", "all", much)):
        flows = [short, [(0, long)]] + [IDLE] * (NICS - 2)
        steps = Play(lab, policy, pairs(flows), bound={0}).run(90 + 20 * bench.seconds, 2)
        over = steps[1][1][0][2]  # when the borrower is done: messages that it does not reach do not count
        mine = [done - begun for _, begun, done in steps[0][1][1:] if name == "alone" or done < over]
        found[name] = middle(mine)
        bench.say(f"victim {name}: {1e3 * found[name]:.0f} ms a message, of {len(mine)}; the other one {over:.1f} s")
    return found


def loss(found, name):
    return 100 * (1 - found["alone"] / found[name])


def victim_rows(found):
    return [Row("a process that sends 30 % of the time, beside a long borrower: loses", "", "< 5%",
                f"{loss(found, 'borrow'):.1f}% ({1e3 * found['borrow']:.0f} against {1e3 * found['alone']:.0f} ms)",
                loss(found, "borrow") < 5),
            Row("the same beside one that uses all interfaces at any time", "", "", f"{loss(found, 'all'):.1f}%", None)]


# ---- The owner comes back ----

def back(bench, lab):
    """Times of an owner's first, second, ... 8 segments, of such alone."""
    much = 5 * NICS * BYTES_A_SECOND
    found = {}
    for name, long in (("alone", 8), ("beside", much)):
        first = [[] for _ in range(4)]
        for _ in range(bench.turns):
            flows = [[(2e6, 8 * SEGMENT)] * 4, [(0, long)]] + [IDLE] * (NICS - 2)
            times = took(Play(lab, "borrow", pairs(flows), bound={0}).run(120, 1)[0][1])
            for place, one in enumerate(times):
                first[place].append(one)
        found[name] = [statistics.median(one) for one in first]
        bench.say(f"owner {name}: " + ", ".join(f"{1e3 * one:.0f}" for one in found[name]) + " ms for 8 segments each")
    return found


def back_rows(found):
    share = [alone / beside for alone, beside in zip(found["alone"], found["beside"])]
    return [Row("an owner comes back: rate of its first / second / third / fourth 8 segments, of that alone",
                "within a batch", ">= 95% of the second",
                " / ".join(f"{100 * one:.0f}%" for one in share), share[1] >= 0.95)]


# ---- Nothing is idle ----

STUTTER = 2.4  # s in which a process that is starved runs for a half


class Starved(Play):
    """A play in which the ranks that send run for half of the time, not all of them at once."""

    def begin(self):
        super().begin()
        threading.Thread(target=self.stutter, daemon=True).start()

    def stutter(self):
        senders = [job.ranks[0] for job in self.jobs]
        phase = {rank: place / len(senders) for place, rank in enumerate(senders)}
        begun = time.monotonic() + 1
        while any(rank.returncode is None for rank in senders):
            for rank, behind in phase.items():
                turn = ((time.monotonic() - begun) / STUTTER + behind) % 1
                signalled = signal.SIGSTOP if turn < 0.5 and time.monotonic() > begun else signal.SIGCONT
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(rank.pid, signalled)
            time.sleep(0.02)


def busy(bench, lab):
    """{play: {policy: s until the last pair is done}}, where each sends as much as all others at once. Policies take
    turns: what else a machine does is much alike for all."""
    found, size = {}, int(bench.seconds * BYTES_A_SECOND * 2)
    flows = [[(0, SEGMENT * 8), (1e6, size)] for _ in range(lab.keys["nics"])]
    for name, kind, rate in (("runs", Play, RATE), ("starved", Starved, RATE), ("slow", Play, RATE / 4)):
        limit(lab, "h0", "n0", rate)
        times = {policy: [] for policy in POLICIES}
        for _ in range(max(3, bench.turns)):
            for policy, one in times.items():
                ranks = kind(lab, policy, pairs(flows)).run(60 + 20 * bench.seconds)
                one.append(max(steps[1][1][2] for steps in ranks) - 1)
        found[name] = {policy: statistics.median(one) for policy, one in times.items()}
        bench.say(f"busy, {name}: " + ", ".join(f"{policy} {one:.2f} s of " + "/".join(
            f"{each:.2f}" for each in sorted(times[policy])) for policy, one in found[name].items()))
    limit(lab, "h0", "n0", RATE)
    return found


def busy_rows(found):
    def gains(play):
        return " / ".join(f"{found[play]['own'] / found[play][policy]:.2f}" for policy in ("borrow", "all"))

    runs = found["runs"]
    loses = 100 * (runs["borrow"] / min(runs["own"], runs["all"]) - 1)
    return [Row("all interfaces busy by their owners: borrowing takes longer than the better of own ones and all by",
                "", "< 3%", f"{loses:.1f}% ({runs['borrow']:.2f} against {runs['own']:.2f} and {runs['all']:.2f} s)",
                loses < 3),
            Row("each sender stopped for half of the time: times as fast as own ones, borrowing / all", "", "",
                gains("starved"), None),
            Row("one interface has a quarter of its rate: the same", "", "", gains("slow"), None)]


# ---- Uneven exchanges ----

def iterations(lab, policy, lines, ranks):
    """Median s of an iteration, of all but the first."""
    steps = Play(lab, policy, [(ranks, lines)]).run(300)
    last = [max(one[step][2] for one in steps[0]) for step in range(len(steps[0][0]))]
    return middle([after - before for before, after in zip(last, last[1:])])


def bound(lines):
    """Mean s of a step that is as fast as the interfaces at its ends let it be, each rank with its own one."""
    steps = {}
    for step, _, one, other, size in lines:
        for end in (("out", one), ("in", other)):
            ends = steps.setdefault(step, {})
            ends[end] = ends.get(end, 0) + size
    return statistics.mean(max(ends.values()) for ends in steps.values()) / BYTES_A_SECOND


def exchange(lab, bench, name, trace, share):
    """{policy: s of an iteration}, with computing between that would take (1 - share) of it by own interfaces."""
    ranks = ["h0"] * NICS + ["h1"] * NICS
    least = bound(trace(0))
    lines = trace(least * (1 - share) / share)
    found = {"bound": least, **{policy: iterations(lab, policy, lines, ranks) for policy in POLICIES}}
    bench.say(f"{name}: " + ", ".join(f"{policy} {1e3 * one:.0f} ms" for policy, one in found.items()))
    return found


def both_ways(pause, sizes, seed, count=6):
    """Iterations in which each rank of a host sends to each of the other. sizes(draw, first rank that sends) ->
    [from][to] bytes."""
    draw, lines = random.Random(seed), []
    for step in range(count):
        for here, there in ((NICS, 0), (0, NICS)):
            amounts = sizes(draw, here)
            lines += [(step, -1e6 * pause, here + i, there + j, max(8, amounts[i][j])) for i in range(NICS)
                      for j in range(NICS)]
    return lines


def experts(draw, _):
    """Tokens go to experts whose popularity is Zipf's (exponent 1), in an order that each iteration draws. A rank sends
    183 segments, as 4,096 tokens of 6,144 numbers to 2 experts each are 192 of 512 KiB."""
    popular = [1 / (1 + place) for place in range(NICS)]
    draw.shuffle(popular)
    total = NICS * BYTES_A_SECOND * 1.2
    return [[total / NICS * one / sum(popular) for one in popular] for _ in range(NICS)]


def embeddings(draw, here):
    """Workers of h0 fetch from shards on h1, and only ask for it; what a worker's cache lacks is log-normal
    (sigma 0.5)."""
    if not here:
        return [[8] * NICS] * NICS
    lacks = [draw.lognormvariate(0, 0.5) for _ in range(NICS)]
    return [[BYTES_A_SECOND * 0.5 * one / NICS for one in lacks] for _ in range(NICS)]


def exchange_rows(found, what, paper, aim, share):
    whole, moved = found["own"] / found["borrow"], found["own"] / found["all"]
    return [Row(f"{what}, {share:.0%} of the time communication by own interfaces", paper, f">= {aim}x",
                f"{whole:.2f}x ({1e3 * found['borrow']:.0f} against {1e3 * found['own']:.0f} ms); all at any time "
                f"{moved:.2f}x", whole >= aim)]


# ---- Prefill and decode ----

INSTANCES = 8
TOKENS, SIGMA = 1500, 0.8  # median, log-normal
TOKEN = BYTES_A_SECOND / 1500  # bytes of its keys and values, so that those of a median prompt take a second
PREFILL = 1 / 6000  # s for a token
USED = 0.4  # of each interface


def requests(seed, seconds):
    """For each instance its requests: (arrival, when its prefill is done, bytes)."""
    draw, out = random.Random(seed), []
    mean = TOKENS * math.exp(SIGMA * SIGMA / 2) * TOKEN / BYTES_A_SECOND
    for _ in range(INSTANCES):
        when, free, one = 0, 0, []
        while (when := when + draw.expovariate(USED / mean)) < seconds:
            tokens = min(draw.lognormvariate(math.log(TOKENS), SIGMA), 8 * TOKENS)
            free = max(when, free) + tokens * PREFILL
            one.append((when, free, tokens * TOKEN))
        out.append(one)
    return out


def serve(bench, lab):
    """{policy: times to first token of all requests}"""
    load, found = requests(3, 6 * bench.seconds), {}
    for policy in POLICIES:
        flows = [[(1e6 * ready, size) for _, ready, size in one] for one in load]
        steps = Play(lab, policy, pairs(flows)).run(60 + 30 * bench.seconds)
        found[policy] = [done - asked[0] for one, asks in zip(steps, load) for (_, _, done), asked in
                         zip(one[1], asks)]
        bench.say(f"serve {policy}: p50 {1e3 * middle(found[policy]):.0f} ms, p99 {1e3 * p99(found[policy]):.0f} ms of "
                  f"{len(found[policy])} requests")
    return found


def p99(times):
    return sorted(times)[int(0.99 * len(times))]


def serve_rows(found):
    ratio, tail = middle(found["own"]) / middle(found["borrow"]), p99(found["own"]) / p99(found["borrow"])
    return [Row(f"time to first token, p50, {INSTANCES} instances", "2.22x", ">= 2.5x",
                f"{ratio:.2f}x ({1e3 * middle(found['borrow']):.0f} against {1e3 * middle(found['own']):.0f} ms); all "
                f"at any time {middle(found['own']) / middle(found['all']):.2f}x", ratio >= 2.5),
            Row("the same, p99", "1.94x", "", f"{tail:.2f}x; all at any time "
                f"{p99(found['own']) / p99(found['all']):.2f}x", None)]


# ---- Faults ----

class Faulty(Play):
    """A play in which something happens a second after its beginning."""

    def __init__(self, *words, what=None, **more):
        super().__init__(*words, **more)
        self.what = what

    def ends_well(self, number, patience):
        """The job of this number, whatever becomes of the others."""
        self.wait_ready()
        self.begin()
        time.sleep(1.5)
        self.what(self)
        end = time.monotonic() + patience
        for rank in self.jobs[number].ranks:
            while rank.poll() is None and time.monotonic() < end:
                time.sleep(0.02)
        codes = [rank.poll() for rank in self.jobs[number].ranks]
        for job in self.jobs:
            job.__exit__()
        return codes == [0, 0]


def kill(play, number):
    """All ranks of a job, at once."""
    for rank in play.jobs[number].ranks:
        os.killpg(rank.pid, signal.SIGKILL)


def faults(bench, lab):
    """{what happens: did all that was left end, with the right bits}"""
    long = 4 * NICS * BYTES_A_SECOND
    cut = {"down": lambda _: lab.link("down", "h0.n1"), "up": lambda _: lab.link("up", "h0.n1")}
    found = {}
    for name, what, flows, survivor in (
            ("the owner is killed while its interface is lent", lambda play: kill(play, 1), [[(0, long)], IDLE], 0),
            ("the borrower is killed", lambda play: kill(play, 0), [[(0, long)], [(2e6, BYTES_A_SECOND)]], 1),
            ("an interface dies while it is borrowed", cut["down"], [[(0, long)], IDLE], 0)):
        play = Faulty(lab, "borrow", pairs(flows + [IDLE] * (NICS - 2)), what=what)
        found[name] = play.ends_well(survivor, 60)
        bench.say(f"{name}: {'right' if found[name] else 'WRONG: ' + play.jobs[survivor].said()}")
        cut["up"](play)
    return found


def faults_rows(found):
    return [Row(f"{what}: the rest ends, with the right bits", "", "yes", "yes" if right else "no", right)
            for what, right in found.items()]


# ---- Pictures ----

def draw(bench, found):
    """Against own interfaces; and what owners have beside a borrower, of what they have alone."""
    times = {policy: [found["pair"][name] / found["pair"]["own"],
                      *(found[what]["own"] / found[what][policy] for what in ("experts", "embeddings")),
                      *(of(found["serve"]["own"]) / of(found["serve"][policy]) for of in (middle, p99))]
             for policy, name in (("borrow", USED_BOUND), ("all", "all"))}
    bench.bars("lab-nics", "Times as fast as own interfaces: pair, alltoall, embeddings, first token p50, p99",
               {"borrowed while idle": times["borrow"], "all at any time": times["all"]})
    back = [100 * alone / beside for alone, beside in zip(found["back"]["alone"], found["back"]["beside"])]
    bench.bars("lab-nics-owner", "Rate of an owner, % of that alone: its messages; its first to fourth 8 segments",
               {"beside a borrower": [100 - loss(found["victim"], "borrow"), *back],
                "beside one that uses all": [100 - loss(found["victim"], "all")]})


# ---- The board ----

def board(bench, _):
    """What board-bench prints, with 8 processes and 8 interfaces, of 1,000 kills."""
    said = subprocess.run([bench.build.board, "8", "8", "1000"], check=True, capture_output=True, text=True).stdout
    look, kills, ends = [[float(word) for word in line.split()] for line in said.splitlines()]
    bench.say(f"board: {look[0]:.0f} ns a look; right {kills[0]:.1f} ms after a kill, {kills[1]:.1f} of 99 in 100")
    return {"look": look, "kills": kills, "ends": ends}


def board_rows(found):
    kills, ends = found["kills"], found["ends"]
    return [Row("a look at the board of 8 processes", "0.9 to 1.6 us", "< 1 us", f"{found['look'][0]:.0f} ns, and "
                f"{found['look'][1] / 1e3:.1f} us where it asks who lives, every 2 ms", found["look"][0] < 1000),
            Row("the board is right after kill -9 (1,000 kills)", "", "<= 10 ms",
                f"{kills[0]:.1f} ms, {kills[1]:.1f} in 99 of 100, {kills[2]:.0f} at most; from the end of the process "
                f"{ends[0]:.1f}, {ends[1]:.1f}, {ends[2]:.0f}", kills[2] <= 10)]


def measure(bench):
    rows, found = [], {}
    with nics_gpus.lab_of(bench, NICS) as lab:
        shape(lab)
        parts = {"board": (board, board_rows), "pair": (pair, pair_rows), "victim": (victim, victim_rows),
                 "back": (back, back_rows), "busy": (busy, busy_rows), "faults": (faults, faults_rows)}
        for name, (part, tell) in parts.items():
            found[name] = part(bench, lab)
            bench.keep(**{name: found[name]})
            rows += tell(found[name])
        moe = exchange(lab, bench, "experts", lambda pause: both_ways(pause, experts, 1), 0.42)
        rows += exchange_rows(moe, "iteration of an uneven expert alltoall", "1.3x", 1.3, 0.42)
        dlrm = exchange(lab, bench, "embeddings", lambda pause: both_ways(pause, embeddings, 2), 0.55)
        rows += exchange_rows(dlrm, "embedding fetch", "1.2x", 1.2, 0.55)
        bench.keep(experts=moe, embeddings=dlrm)
        bench.say(f"{lab.drops()} packets dropped")
    rows += nics_gpus.measure(bench)
    with nics_gpus.lab_of(bench, INSTANCES) as lab:
        shape(lab)
        found["serve"] = serve(bench, lab)
    bench.keep(serve=found["serve"])
    draw(bench, {**found, "experts": moe, "embeddings": dlrm})
    return rows + serve_rows(found["serve"])
