# SPDX-License-Identifier: Apache-2.0
"""Kinds of faults and of healthy jobs: each draws its details, changes the scripts or says what is done to the job,
and knows the truth.

A function that is marked @fault or @healthy is one kind. It gets the case, whose plan and generator are there.
"""
import os
import signal
import subprocess
import sys
import threading
import time

HANG, SLOW = 10, 30  # seconds that are promised
KINDS = {}
ONE_HOST, LAB, ANY = ("shm", "tcp"), ("lab-tcp", "lab-verbs"), ("shm", "tcp", "lab-tcp", "lab-verbs", "gpu")
TRACER = "import ctypes, sys, time\nctypes.CDLL(None).ptrace(16, int(sys.argv[1]), None, None)\ntime.sleep(1000)"
HOG = """import random, time
end = time.time() + 20
while time.time() < end:
    busy = time.time() + random.random() / 5
    while time.time() < busy:
        pass
    time.sleep(random.random() / 20)"""
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"


class Kind:
    def __init__(self, make, name, weight, where, said=(), within=0, least=2, most=16, whom="rank", warm=(2, 12)):
        self.make, self.name, self.weight, self.where = make, name, weight, where
        self.said, self.within, self.least, self.most, self.whom, self.warm = said, within, least, most, whom, warm
        self.healthy = not said


def fault(said, within=HANG, weight=10, where=ANY, **more):
    def add(make):
        KINDS[make.__name__] = Kind(make, make.__name__, weight, where, set(said.split()), within, **more)
        return make
    return add


def healthy(weight=10, where=ANY, **more):
    def add(make):
        KINDS[make.__name__] = Kind(make, make.__name__, weight, where, **more)
        return make
    return add


# ---- What several kinds do ----

def insert(case, line, when, rank=None, at=None):
    """Adds a line to the culprit's step, at a drawn place between two of its parts."""
    rank = case.culprit if rank is None else rank
    items = [item for item in case.plan.items if rank in item.lines]
    item = items[case.draw.randrange(len(items)) if at is None else at]
    item.lines[rank].insert(0, (when, line))
    case.what += f"{line} before {item.name} "


def each_rank(case, line, when):
    """At the begin of the step, within a few seconds."""
    for rank in range(case.plan.ranks):
        insert(case, line, when, rank, 0)
    case.what = f"{line} before each rank's step "


def first_part(case, rank):
    """Of this rank's step."""
    return next(item.lines[rank] for item in case.plan.items if rank in item.lines)


def only(lines, when):
    return [(f"{old},{when}" if old != "*" else when, line) for old, line in lines]


def calls(case, names=None):
    places = case.plan.calls(case.culprit, names)
    return places


def signals(number):
    return lambda job: os.kill(job.pid(job.case.culprit), number)


# ---- A process that stops or ends ----

@fault("dead", weight=14)
def killed(case):
    case.inject = signals(signal.SIGKILL)


@fault("dead", weight=8)
def crashed(case):
    insert(case, "abort", f"={case.at}")


@fault("dead", weight=6)
def left_early(case):
    insert(case, "exit", f"={case.at}")


@fault("stopped", weight=14)
def stopped(case):
    case.inject = signals(signal.SIGSTOP)


@fault("traced", weight=8)
def traced(case):
    def trace(job):
        pid, end = job.pid(case.culprit), time.monotonic() + 30
        job.others.append(subprocess.Popen([sys.executable, "-S", "-c", TRACER, str(pid)]))
        while time.monotonic() < end:
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                if ") t " in file.read():
                    break
            time.sleep(0.02)
        return time.monotonic()
    case.inject = trace


@fault("replaced", weight=8)
def replaced(case):
    insert(case, "exec", f"={case.at}")


@fault("behind stopped still unread", weight=10, where=("shm", "tcp", "lab-tcp", "lab-verbs"))
def frozen(case):
    def freeze(job):
        folder = job.group("freezer", job.pid(case.culprit))
        with open(f"{folder}/freezer.state", "w", encoding="ascii") as file:
            file.write("FROZEN")
    case.inject = freeze


@fault("stopped", weight=8, where=ONE_HOST)
def launcher_stopped(case):
    """Ranks print; who reads that is stopped."""
    case.launched, case.culprit = True, None
    for rank in range(case.plan.ranks):
        insert(case, f"print {case.draw.choice((4000, 16000))}", "*", rank, 0)

    def stop(job):
        job.launcher = job.processes[0].pid
        os.kill(job.launcher, signal.SIGSTOP)
    case.inject = stop


# ---- A rank that does not come ----

@fault("behind", weight=14)
def asleep(case):
    insert(case, "rest 100000000000", f"={case.at}")


@fault("behind", weight=10)
def waits_for_pipe(case):
    insert(case, f"take FOLDER/pipe-{case.culprit}", f"={case.at}")
    case.pipes = [case.culprit]


@fault("behind", weight=10)
def blocked(case):
    insert(case, "blocked", f"={case.at}")


@fault("outside", weight=8)
def all_blocked(case):
    """As where a file system stands still."""
    each_rank(case, "blocked", f"={case.at}")
    case.culprit = None


@fault("outside", within=45, weight=6)
def all_asleep(case):
    """Outside of calls, where no rank of an evaluation would stay for so long: nothing else tells."""
    each_rank(case, "rest 100000000000", f"={case.at}")
    case.culprit = None


@fault("behind away starved", within=45, weight=8, most=8)
def spins(case):
    """Outside of calls, where no rank of an evaluation would compute for so long: nothing else tells."""
    insert(case, "burn 0", f"={case.at}")


@fault("joining", within=13, weight=6)
def never_started(case):
    case.absent, case.at = case.culprit, 0


@fault("starved slow", within=SLOW, weight=8, where=("shm", "tcp", "lab-tcp"))
def quota(case):
    period, part = case.draw.choice(((100000, 0.01), (500000, 0.006), (500000, 0.004)))
    case.what = f"{part * 100} % "
    case.inject = lambda job: job.group("cpu", job.pid(case.culprit), cpu__cfs_period_us=period,
                                        cpu__cfs_quota_us=max(1000, int(period * part)))


# ---- Other calls than the others' ----

@fault("mismatch order failed", weight=16)
def left_out(case):
    item = case.plan.items[case.draw.choice(calls(case))]
    item.lines[case.culprit] = only(item.lines[case.culprit], f"!{case.at}")
    case.what = f"{item.name} in {item.comm}"


@fault("mismatch order failed", weight=16)
def made_twice(case):
    item = case.plan.items[case.draw.choice(calls(case))]
    item.lines[case.culprit] += only(item.lines[case.culprit], f"={case.at}")
    case.what = f"{item.name} in {item.comm}"


@fault("mismatch order failed", weight=16)
def wrong_order(case):
    places = calls(case)
    pairs = [(a, b) for a in places for b in places if a < b]
    a, b = [case.plan.items[at] for at in case.draw.choice(pairs)]
    mine, theirs = a.lines[case.culprit], b.lines[case.culprit]
    a.lines[case.culprit] = only(mine, f"!{case.at}") + only(theirs, f"={case.at}")
    b.lines[case.culprit] = only(theirs, f"!{case.at}") + only(mine, f"={case.at}")
    case.what = f"{a.name} in {a.comm} and {b.name} in {b.comm}"


def replace(case, names, change):
    """Another call in one step, or in all from then on."""
    places = [at for at in calls(case) if case.plan.items[at].name in names]
    if not places:
        return False
    item = case.plan.items[case.draw.choice(places)]
    for_ever = case.draw.random() < 0.5
    lines = []
    for when, line in item.lines[case.culprit]:
        words = line.split()
        other = line if words[0] == "sync" else change(words, item)
        lines += [(f"-{case.at}" if for_ever else f"!{case.at}", line),
                  (f"+{case.at}" if for_ever else f"={case.at}", other)]
    item.lines[case.culprit] = lines
    case.what = f"{item.name} in {item.comm}"
    return True


@fault("mismatch failed", weight=16)
def wrong_size(case):
    def change(words, _):
        words[2] = str(int(words[2]) + case.draw.choice((1, 1, 7, int(words[2]))))
        return " ".join(words)
    return replace(case, ("allreduce", "reduce", "broadcast", "gather", "scatter", "allgather", "reduce_scatter",
                          "alltoall"), change)


@fault("mismatch failed", weight=8)
def wrong_type(case):
    return replace(case, ("allreduce", "reduce", "broadcast", "allgather"),
                   lambda words, _: " ".join(words + ["int32"]))


@fault("mismatch failed", weight=12)
def wrong_root(case):
    def change(words, item):
        size = len(case.plan.members(item.comm, case.culprit))
        words[3] = str((int(words[3]) + case.draw.randrange(1, size)) % size)
        return " ".join(words)
    return replace(case, ("reduce", "broadcast", "gather", "scatter"), change)


# ---- Slow ranks ----

@fault("slow starved", within=SLOW, weight=16, warm=(10, 46))
def slow_rank(case):
    more = int(case.plan.seconds() * 1e6 * case.draw.uniform(1.8, 4))
    busy = more < 60000 and case.draw.random() < 0.3
    insert(case, f"{'burn' if busy else 'rest'} {more}", f"+{case.at}")


@fault("slow starved", within=SLOW, weight=16, warm=(10, 46))
def slow_loader(case):
    """Each n-th step only."""
    every = case.draw.randrange(4, 13)
    more = min(2_800_000, int(every * case.plan.seconds() * 1e6 * case.draw.uniform(1.8, 3)))
    insert(case, f"rest {more}", f"+{case.at},%{every}.{case.draw.randrange(every)}", at=0)


@fault("slowed", within=SLOW, weight=8, warm=(40, 46))
def slow_disk(case):
    """All ranks wait in the kernel in each step, as where they read from one file system."""
    case.culprit, us = None, case.plan.seconds() * 1e6 * case.draw.uniform(3, 5)
    for rank in range(case.plan.ranks):
        insert(case, f"blocked {int(us * case.draw.uniform(0.97, 1.03))}", f"+{case.at}", rank, 0)
    case.what = f"{us / 1e6:.1f} s in each step "


# ---- Black boxes without room ----

@fault("behind dead stopped failed", weight=6, where=ONE_HOST)
def no_room(case):
    case.room = case.draw.choice((64, 200))
    case.inject = signals(case.draw.choice((signal.SIGSTOP, signal.SIGKILL)))


# ---- Namespaces and clocks beside a fault ----

def other_time(case, rank):
    far = case.draw.choice((1, -1)) * case.draw.choice((3600, 86400))
    far = abs(far) if time.clock_gettime(time.CLOCK_MONOTONIC) < 90000 else far
    case.wrap[rank] = ["unshare", "--time", "--monotonic", str(far), "--boottime", str(far)]


@fault("stopped dead behind", weight=12, where=("shm", "tcp", "lab-tcp", "lab-verbs"))
def in_time_namespace(case):
    for rank in {case.culprit, case.draw.randrange(case.plan.ranks)}:
        other_time(case, rank)
    way = case.draw.choice(("stop", "kill", "sleep"))
    case.what = way + " "
    if way == "sleep":
        asleep(case)
    else:
        case.inject = signals(signal.SIGSTOP if way == "stop" else signal.SIGKILL)


def jumps(case, ranks):
    for rank in ranks:
        case.env[rank] = {"LD_PRELOAD": FAKETIME, "FAKETIME_TIMESTAMP_FILE": f"FOLDER/clock-{rank}",
                          "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1", "FAKETIME_NO_CACHE": "1"}

    def jump(job):
        for rank in ranks:
            with open(f"{job.folder}/clock-{rank}", "w", encoding="ascii") as file:
                file.write(case.draw.choice(("+3600", "-3600", "+7", "-86400", "+15d")))
    return jump


@fault("stopped behind", weight=8, where=("shm", "tcp"))
def after_clock_jump(case):
    jump = jumps(case, {case.culprit, case.draw.randrange(case.plan.ranks)})
    case.inject = lambda job: (jump(job), time.sleep(0.5), signals(signal.SIGSTOP)(job))


# ---- GPUs ----

@fault("failed", weight=10, where=("gpu",), most=4)
def gpu_failed(case):
    error = case.draw.choice(("214:sticky", "220:sticky", "719:sticky"))
    n = case.draw.randrange(60, 200)
    case.what, case.at = f"{error} at call {n} ", 3
    case.env[case.culprit]["TUTTI_EMULATED_FAULT"] = f"cuLaunchKernel:{n}:{error},cuLaunchKernelEx:{n}:{error}"
    case.inject = wait_for_standstill


def wait_for_standstill(job):
    """Returns the time of the last step: the fault comes when the driver has been called so often."""
    last, since, end = job.steps(), time.monotonic(), time.monotonic() + 60
    while time.monotonic() < min(since + 1, end):
        time.sleep(0.05)
        now = job.steps()
        if now != last:
            last, since = now, time.monotonic()
    return since


# ---- The network ----

def on_a_host(case):
    case.host, case.culprit = case.host_of(case.culprit), None


@fault("interface sender receiver link slowed", within=SLOW, weight=14, where=LAB, least=4, whom="host", warm=(40, 46))
def slow_nic(case):
    on_a_host(case)
    nic, rate = case.draw.randrange(case.nics), f"{case.draw.randrange(3, 9)}mbit"
    case.what = f"n{nic} at {rate} "
    case.inject = lambda job: [job.lab("rate", f"h{case.host}.n{nic}", rate) for nic in range(case.nics)]


@fault("interface sender receiver link slowed cut", within=SLOW, weight=14, where=LAB, least=4, whom="host",
       warm=(40, 46))
def lost_packets(case):
    on_a_host(case)
    way = case.draw.choice(("in", "out"))
    rate = case.draw.choice((0.02, 0.05)) if case.where == "lab-verbs" else case.draw.choice((0.1, 0.15))
    case.what = f"{rate} {way} "
    case.inject = lambda job: job.lab.lose(case.host, rate, way, case.where == "lab-verbs")


@fault("cut interface link unread circle ahead", weight=12, where=LAB, least=3, whom="host")
def nic_down(case):
    on_a_host(case)
    side = case.draw.choice(("host", "leaf"))
    case.nics, case.what = 1, f"at the {side} "
    case.inject = lambda job: job.lab("link", "down", f"h{case.host}.n0", "--at", side)


@fault("cut interface link unread circle ahead", weight=12, where=LAB, least=3, whom="host")
def one_way(case):
    on_a_host(case)
    way = case.draw.choice(("in", "out"))
    case.nics, case.what = 1, way + " "
    case.inject = lambda job: job.lab.lose(case.host, 1, way, case.where == "lab-verbs")


# ---- Healthy jobs ----

@healthy(weight=12)
def plain(_):
    pass


@healthy(weight=14)
def checkpoint(case):
    """One rank is away now and then; how long, how often and how it spends the time is drawn."""
    way = case.draw.choice(("says", "writes", "computes", "sleeps shortly", "sleeps often"))
    seconds = {"computes": case.draw.uniform(2, 8), "sleeps shortly": case.draw.uniform(0.5, 5)}.get(
        way, case.draw.uniform(2, 20))
    every = int((seconds + case.draw.uniform(4, 15)) / case.plan.seconds())
    whose, us = case.draw.choice((0, 0, case.culprit)), int(seconds * 1e6)
    lines = {"says": [f"expect world {int(seconds * 1.5) + 1}", f"rest {us}", "expect world 0"],
             "writes": [f"save FOLDER/saved {int(seconds * 10)} 100000"], "computes": [f"burn {us}"]}.get(
                 way, [f"rest {us}"])
    if way == "sleeps often":  # growing, as models do; the first ones are short
        steps = [int(4 / case.plan.seconds() * (n + 1)) for n in range(6)]
        lines, every = [], 0
        for n, step in enumerate(steps):
            insert(case, f"rest {int(min(seconds, 1.0 * 1.7 ** n) * 1e6)}", f"={step}", whose, 0)
    for line in reversed(lines):
        insert(case, line, f"%{every}.{every - 1}", whose, 0)
    case.what, case.looking = f"{way}, {seconds:.1f} s every {every} steps, rank {whose}", 30


@healthy(weight=10)
def evaluation(case):
    """All ranks are away, and one longer than the others: it computes, or writes a file."""
    seconds, step = case.draw.uniform(3, 20), int(6 / case.plan.seconds())
    for rank in range(case.plan.ranks):
        insert(case, f"rest {int(seconds * 1e6)}", f"={step}", rank, 0)
    more = case.draw.uniform(1, 8)
    last = case.draw.choice((f"burn {int(more * 1e6)}", f"save FOLDER/saved {int(more * 20)} 50000"))
    first_part(case, case.culprit).insert(1, (f"={step}", last))
    case.what, case.looking = f"{seconds:.1f} s, then {last}", seconds + more + 10


@healthy(weight=12)
def all_pause(case):
    """All ranks are away now and then, and nobody waits in a call: each saves, evaluates or waits for a disk."""
    way = case.draw.choice(("says", "writes", "computes", "sleeps", "waits for a disk"))
    seconds = case.draw.uniform(*{"computes": (2, 8), "waits for a disk": (0.5, 4)}.get(way, (2, 20)))
    every, us = int((seconds + case.draw.uniform(4, 15)) / case.plan.seconds()), int(seconds * 1e6)
    for rank in range(case.plan.ranks):
        lines = {"says": [f"expect world {int(seconds * 1.5) + 1}", f"rest {us}", "expect world 0"],
                 "writes": [f"save FOLDER/saved-{rank} {int(seconds * 4)} 250000"], "computes": [f"burn {us}"],
                 "waits for a disk": [f"blocked {us}"]}.get(way, [f"rest {us}"])
        for line in reversed(lines):
            insert(case, line, f"%{every}.{every - 1}", rank, 0)
    case.what, case.looking = f"{way}, {seconds:.1f} s every {every} steps", 30


@healthy(weight=10)
def late_start(case):
    for rank in case.draw.sample(range(case.plan.ranks), case.draw.randrange(1, case.plan.ranks)):
        case.delay[rank] = case.draw.uniform(1, 8)
    case.looking = 8


@healthy(weight=8)
def first_compile(case):
    """Before the first call."""
    for rank in range(case.plan.ranks):
        insert(case, f"rest {int(case.draw.uniform(1, 1.8) * 1e6)}", "=0", rank, 0)
    insert(case, f"burn {int(case.draw.uniform(3, 12) * 1e6)}", "=0", case.culprit, 0)


@healthy(weight=12)
def uneven_experts(case):
    """Each step another rank has most to do."""
    most = int(case.plan.rest_us * case.draw.uniform(2, 12))
    for rank in range(case.plan.ranks):
        insert(case, f"uneven {most}", "*", rank, 0)


@healthy(weight=10)
def growing_work(case):
    for rank in range(case.plan.ranks):
        insert(case, f"grow {int(case.plan.rest_us * case.draw.uniform(0.9, 1.1))}", "*", rank, 0)
    case.looking = 45


@healthy(weight=10, where=ONE_HOST)
def server(case):
    """Ranks wait until one has a request: gaps are drawn."""
    case.pipes = [0]
    first_part(case, 0).insert(0, ("*", "take FOLDER/pipe-0"))
    mean = case.draw.uniform(0.2, 1.5)
    case.what, case.looking = f"each {mean:.1f} s", 40

    def ask(job):
        with open(f"{job.folder}/pipe-0", "wb", buffering=0) as file:
            while not job.over:
                time.sleep(min(5, case.draw.expovariate(1 / mean)))
                file.write(b"x")
    case.begin = lambda job: threading.Thread(target=quietly, args=(ask, job), daemon=True).start()


def quietly(work, job):
    try:
        work(job)
    except OSError:
        pass


@healthy(weight=12, where=("shm", "tcp"))
def clock_jumps(case):
    jump = jumps(case, case.draw.sample(range(case.plan.ranks), case.draw.randrange(1, case.plan.ranks + 1)))
    case.inject = jump


@healthy(weight=8, where=("shm", "tcp", "lab-tcp", "lab-verbs"))
def time_namespaces(case):
    for rank in case.draw.sample(range(case.plan.ranks), case.draw.randrange(1, case.plan.ranks + 1)):
        other_time(case, rank)


@healthy(weight=8, where=("shm", "tcp"))
def user_namespaces(case):
    for rank in case.draw.sample(range(case.plan.ranks), case.draw.randrange(1, case.plan.ranks + 1)):
        case.wrap[rank] = ["unshare", "--user", "--map-root-user"]


@healthy(weight=8, where=("shm", "tcp"))
def process_namespaces(case):
    for rank in case.draw.sample(range(case.plan.ranks), case.draw.randrange(1, case.plan.ranks + 1)):
        case.wrap[rank] = ["unshare", "--pid", "--fork", "--kill-child", *case.draw.choice(([], ["--mount-proc"]))]


@healthy(weight=10, most=8)
def crowded(case):
    case.inject = lambda job: job.others.extend(
        subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(case.draw.randrange(2, 4)))


@healthy(weight=8)
def short_stop(case):
    def stop(job):
        pid = job.pid(case.culprit)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(case.draw.uniform(0.2, 1.5))
        os.kill(pid, signal.SIGCONT)
    case.inject = stop


@healthy(weight=8, where=LAB, least=4)
def busy_network(case):
    """Much is sent."""


@healthy(weight=6, where=("shm", "tcp", "lab-tcp", "lab-verbs"))
def ends(case):
    """Ranks end their communicators and leave, one by one, while somebody looks."""
    for rank in range(case.plan.ranks):
        case.plan.items[-1].lines.setdefault(rank, [])
        case.plan.items[-1].lines[rank].append((f"={case.at}", f"rest {case.draw.randrange(3000000)}"))
        case.plan.items[-1].lines[rank].append((f"={case.at}", "leave"))
    case.looking = 8
