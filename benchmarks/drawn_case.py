# SPDX-License-Identifier: Apache-2.0
"""One drawn case: a real job, its fault, and what `tutti diagnose` says of it."""
import contextlib
import json
import mmap
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time

from held_port import hold_port

NOTES = ("away", "idle", "hiccup")
BEGIN = 90  # seconds until a job must have come to its fault
LABS = threading.Semaphore(5)
RATE, MTU = 400, 4200  # Mbit/s and bytes of the lab's links
GROUPS = "/sys/fs/cgroup"


def run(*words, check=True, **more):
    return subprocess.run(list(map(str, words)), check=check, capture_output=True, text=True, timeout=60, **more).stdout


class Lab:
    """Hosts below one leaf or two, of a name that no other case has."""

    def __init__(self, build, name, hosts, nics):
        self.program, self.name, self.soft = f"{build}/emulation/lab/tutti-lab", name, f"{build}/emulation/verbs"
        leaves = 2 if hosts % 2 == 0 else 1
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="ascii") as file:
            file.write(f"name: {name}\nhosts: {hosts}\nnics: {nics}\nleaves: {leaves}\nspines: 1\nuplinks: 1\n"
                       f"wiring: rack\nrate: {RATE}mbit\nmtu: {MTU}\nhash_seed: 1\n")
            file.flush()
            run(self.program, "up", file.name)
        self.address = json.loads(self("hosts", "--json"))[0]["ipv4"]

    def __call__(self, *words):
        return run(self.program, words[0], "--name", self.name, *words[1:])

    def inside(self, host):
        return [self.program, "run", "--name", self.name, f"h{host}", "--"]

    def at(self, host, *words):
        return run(*self.inside(host), *words)

    def lose(self, host, rate, way, rdma):
        """`way`: "in" or "out" of this host. Frames of softverbs pass no firewall, so softverbs loses them."""
        if rdma:
            self.at(host, f"{self.soft}/softverbs", "ctl", "all", "fault", f"drop={rate},dir={way}")
            return
        hook = "input" if way == "in" else "output"
        self.at(host, "nft", "add", "table", "inet", "drawn")
        self.at(host, "nft", f"add chain inet drawn c {{ type filter hook {hook} priority 0; }}")
        chance = "" if rate >= 1 else f"numgen random mod 1000 < {int(rate * 1000)} "
        self.at(host, "nft", f"add rule inet drawn c {chance}drop")


class Case:
    """What was drawn. A kind (drawn_faults.py) sets the rest."""

    def __init__(self, draw, kind, plan, where):
        self.draw, self.kind, self.plan, self.where = draw, kind, plan, where
        self.culprit, self.at, self.host = None, 0, None
        self.hosts = self.nics = 0
        self.env = {rank: {} for rank in range(plan.ranks)}
        self.wrap = {rank: [] for rank in range(plan.ranks)}  # words before the program
        self.delay = {}      # seconds before a rank is started
        self.absent = None
        self.inject = None   # called with the job when the culprit has come to step `at`
        self.looking = 20    # seconds, of a healthy job
        self.launched = False
        self.room = None     # of the folder of black boxes, in KiB
        self.what = ""

    def host_of(self, rank):
        return rank * self.hosts // self.plan.ranks if self.hosts else 0

    def words(self):
        return f"{self.kind.name} {self.what} of " + \
            (f"host h{self.host}" if self.host is not None else f"rank {self.culprit}") + \
            f" at step {self.at} over {self.where}" + (f" on {self.hosts} hosts" if self.hosts else "") + \
            f"; {self.plan.words()}"


class Job:
    def __init__(self, build, tutti, case, name):
        self.build, self.tutti, self.case, self.name = build, tutti, case, name
        self.folder = tempfile.mkdtemp(prefix="tutti-drawn-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.boxes = os.path.join(self.folder, "boxes")
        self.lab, self.processes, self.others, self.groups, self.over = None, [], [], [], False
        self.has_lab = False  # holds one of the labs that may be up
        os.mkdir(self.boxes)
        if case.room:
            run("mount", "-t", "tmpfs", "-o", f"size={case.room}k", "drawn", self.boxes)
        for rank in range(case.plan.ranks):
            with open(f"{self.folder}/rank-{rank}", "w", encoding="ascii") as file:
                file.write(case.plan.script(rank).replace("FOLDER", self.folder))
        self.file = open(f"{self.folder}/steps", "w+b")
        self.file.truncate(8 * case.plan.ranks)
        self.map = mmap.mmap(self.file.fileno(), 0)

    # ---- Begin

    def start(self):
        case = self.case
        if case.hosts:
            LABS.acquire()
            self.has_lab = True
            self.lab = Lab(self.build, self.name, case.hosts, case.nics)
        held, port = hold_port()
        first = f"{self.lab.address if self.lab else '127.0.0.1'}:{port}"
        with held:
            if case.launched:
                self.add([self.tutti, "run", "-n", str(case.plan.ranks), f"{self.build}/tests/diagnosis/player",
                          self.folder], self.common(), subprocess.DEVNULL)
            ranks = [] if case.launched else [rank for rank in range(case.plan.ranks) if rank != case.absent]
            begin = time.monotonic()
            for rank in sorted(ranks, key=lambda rank: case.delay.get(rank, 0)):
                time.sleep(max(0, begin + case.delay.get(rank, 0) - time.monotonic()))
                words = (self.lab.inside(case.host_of(rank)) if self.lab else []) + case.wrap[rank]
                self.add(words + [f"{self.build}/tests/diagnosis/player", self.folder], self.env(rank, first),
                         subprocess.DEVNULL)
            self.ranks, self.first = ranks, begin
            if not case.delay and case.absent is None:
                self.wait_steps(lambda steps: all(steps[rank] for rank in ranks), 15)
        self.began = time.monotonic()

    def common(self):
        case = self.case
        env = dict(os.environ, TUTTI_TRACE_DIR=self.boxes, TUTTI_TIMEOUT="300s", TUTTI_SPIN="0", SOFTVERBS_POLL="sleep",
                   TUTTI_TRANSPORT={"lab-tcp": "tcp", "lab-verbs": "verbs", "gpu": "shm"}.get(case.where, case.where))
        if case.where == "lab-verbs":
            env["TUTTI_IBVERBS_LIBRARY"] = f"{self.build}/emulation/verbs/libibverbs.so.1"
        if case.where == "gpu":
            path = [f"{self.build}/emulation/cuda", os.environ.get("LD_LIBRARY_PATH")]
            env.update(TUTTI_TEST_GPU="1", TUTTI_EMULATED_GPUS=str(case.plan.ranks), TUTTI_EMULATED_MEMORY="256M",
                       LD_LIBRARY_PATH=os.pathsep.join(filter(None, path)))
        return env

    def env(self, rank, first):
        case = self.case
        mine = [one for one in range(case.plan.ranks) if case.host_of(one) == case.host_of(rank)]
        return dict(self.common(), TUTTI_RANK=str(rank), TUTTI_SIZE=str(case.plan.ranks), TUTTI_ID=first,
                    TUTTI_NONCE="%032x" % int(first.split(":")[1]), TUTTI_LOCAL_RANK=str(mine.index(rank)),
                    TUTTI_LOCAL_SIZE=str(len(mine)),
                    **{name: text.replace("FOLDER", self.folder) for name, text in case.env[rank].items()})

    def add(self, words, env, output):
        self.processes.append(subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=output,
                                               stderr=subprocess.DEVNULL, start_new_session=True))

    # ---- While it runs

    def steps(self):
        return struct.unpack(f"{self.case.plan.ranks}Q", self.map[:])

    def wait_steps(self, enough, seconds):
        end = time.monotonic() + seconds
        while not enough(self.steps()):
            if time.monotonic() > end or self.over:
                return False
            time.sleep(0.03)
        return True

    def pid(self, rank):
        """Of the rank itself, which may be a child of what makes its namespaces."""
        pid = self.processes[self.ranks.index(rank)].pid
        while True:
            with open(f"/proc/{pid}/comm", encoding="ascii") as file:
                if file.read().strip() == "player":
                    return pid
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                pid = int(file.read().split()[0])

    def group(self, kind, pid, **settings):
        """A control group of the first version, or the second."""
        folder = f"{GROUPS}/{kind}" if os.path.isdir(f"{GROUPS}/{kind}") else GROUPS
        folder = f"{folder}/{self.name}"
        os.mkdir(folder)
        self.groups.append(folder)
        for name, value in {**settings, "cgroup.procs": pid}.items():
            with open(f"{folder}/{name.replace('__', '.')}", "w", encoding="ascii") as file:
                file.write(str(value))
        return folder

    def diagnose(self):
        done = subprocess.run([self.tutti, "diagnose", "--json", "--dir", self.boxes], capture_output=True, text=True,
                              timeout=120)
        try:
            return done.returncode, json.loads(done.stdout)["findings"]
        except (ValueError, KeyError):
            return done.returncode, []

    # ---- End

    def end_players(self):
        """Ranks whose launcher was killed before it knew of them are in groups of their own."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
                if os.fsencode(self.folder) in file.read().split(b"\0"):
                    os.kill(int(pid), signal.SIGKILL)

    def end(self):
        self.over = True
        for folder in self.groups:
            with contextlib.suppress(OSError), open(f"{folder}/freezer.state", "w", encoding="ascii") as file:
                file.write("THAWED")
        for process in self.processes + self.others:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        for process in self.processes + self.others:  # a process that is traced ends for good after its tracer
            process.wait()
            if process.stdout:
                process.stdout.close()
        self.end_players()
        for folder in self.groups:
            time.sleep(0.1)
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        if self.lab:
            self.lab("down")
        if self.has_lab:
            LABS.release()
        if self.case.room:
            run("umount", "-l", self.boxes, check=False)
        self.map.close()
        self.file.close()
        shutil.rmtree(self.folder, ignore_errors=True)
