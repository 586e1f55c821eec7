# SPDX-License-Identifier: Apache-2.0
"""A lab of network namespaces (docs/use/lab.md), jobs of ranks in its hosts with lanes on the software RDMA device, and
what its ports counted."""
import ctypes
import json
import os
import secrets
import signal
import subprocess
import tempfile
import threading
import time

NEWNET = 0x40000000  # CLONE_NEWNET of <sched.h>
# Short segments for slow links: 16 KiB at 40 Mbit/s take 3 ms, as long as 160 MB at 400 Gbit/s. No process spins: many
# ranks share few processors.
SETTINGS = {"TUTTI_TRANSPORT": "verbs", "TUTTI_SEGMENT": "16K", "TUTTI_ALGO": "ring", "TUTTI_SPIN": "0",
            "SOFTVERBS_POLL": "sleep", "TUTTI_DEBUG": "warn"}


class Failed(Exception):
    """A measurement could not be made, and why."""


class Build:
    """Programs and libraries of a build folder."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.tutti = self.path("cli", "tutti")
        self.lab = self.path("emulation", "lab", "tutti-lab")
        self.paths = self.path("control", "paths", "tutti-paths")
        self.flows = self.path("benchmarks", "flows-bench")
        self.board = self.path("benchmarks", "board-bench")
        self.verbs = self.path("emulation", "verbs", "libibverbs.so.1")
        self.softverbs = self.path("emulation", "verbs", "softverbs")

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def lacks(self):
        """What is not built; "" if all is."""
        needed = (self.tutti, self.lab, self.paths, self.verbs, self.softverbs, self.flows,
                  self.board)
        return next((file for file in needed if not os.path.exists(file)), "")


class Lab:
    """A fabric that is up while the block runs. The file's keys are the lab's."""

    def __init__(self, build, keys, steered=False):
        self.build, self.name = build, f"b{os.getpid() & 0xFFFF:04x}{secrets.token_hex(2)}"
        self.keys = {"name": self.name, "ipv6": "false", "queue": "8M", **keys}
        self.steered = steered
        self.folder = tempfile.TemporaryDirectory(prefix="tutti-bench-lab-")
        self.file = os.path.join(self.folder.name, "lab.yaml")
        self.ports = 24000

    def text(self, steered):
        lines = [f"{key}: {value}" for key, value in self.keys.items() if key != "links"]
        if "links" in self.keys:
            lines += ["links:"] + [f'  - {{link: "{link}", rate: {rate}}}' for link, rate in self.keys["links"]]
        if steered:
            lines += ["policies:", "  - {leaf: all, dport: 4791, ports: 0xC000-0xFFFF, uplink: split}"]
        return "\n".join(lines) + "\n"

    def __enter__(self):
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(self.text(self.steered))
        try:
            done = subprocess.run([self.build.lab, "up", self.file], capture_output=True, text=True, check=False)
        except BaseException:  # interrupted: who does not get as far as the block does not leave it either
            self.__exit__()
            raise
        if done.returncode:
            raise Failed(f"tutti-lab up: {done.stderr.strip()}")
        return self

    def __exit__(self, *_):
        subprocess.run([self.build.lab, "down", self.name], check=False, stdout=subprocess.DEVNULL,
                       start_new_session=True)  # the key that interrupts us is not to interrupt this
        self.folder.cleanup()

    def plan(self, lanes):
        """{host: settings of `tutti paths plan`}"""
        said = subprocess.run([self.build.paths, "plan", self.file, "--lanes", str(lanes)], capture_output=True,
                              text=True, check=False).stdout
        rows = [line.split() for line in said.splitlines() if " TUTTI_PATHS=" in line]
        return {row[0]: dict(word.split("=", 1) for word in row[1:]) for row in rows}

    def inside(self, node):
        return [self.build.lab, "run", "-n", self.name, node, "--"]

    def link(self, *words):
        subprocess.run([self.build.lab, "link", "-n", self.name, *words], check=True, stdout=subprocess.DEVNULL)

    def drops(self):
        """Packets that queues of the lab have dropped since it was made."""
        said = subprocess.run([self.build.lab, "counters", "-n", self.name, "--json"], check=True,
                              capture_output=True, text=True).stdout
        return sum(link[way]["drops"] for link in json.loads(said)["links"] for way in ("up", "down"))

    def port(self):
        self.ports += 1
        return self.ports


FOREVER = ["-n", "1000000", "-w", "0", "-c", "0"]  # of `tutti perf`: until the job is ended


class Job:
    """`tutti perf` with one rank in each of the hosts, in the order given, until end() or the block's end."""

    def __init__(self, lab, hosts, words, settings=None, each=None, program=None, ranks=None):
        """settings: of all ranks; each: {host: settings}; ranks: of each rank; program: another one than `tutti perf`.
        A setting that is None is left to the library."""
        self.lab, self.reports = lab, program is None
        self.program = program if isinstance(program, list) else [program] if program else [lab.build.tutti, "perf"]
        self.name = f"{hosts[0]}-{lab.port()}"
        self.report = os.path.join(lab.folder.name, f"{self.name}.json")
        self.log_name = os.path.join(lab.folder.name, f"{self.name}.log")
        self.log = open(self.log_name, "w", encoding="utf-8")
        common = {**SETTINGS, "TUTTI_SIZE": str(len(hosts)), "TUTTI_NONCE": secrets.token_hex(16),
                  "TUTTI_ID": f"{address(hosts[0], lab)}:{lab.port()}", "TUTTI_IBVERBS_LIBRARY": lab.build.verbs,
                  "TUTTI_TRACE_DIR": lab.folder.name, "TUTTI_LOCAL_RANK": "0", "TUTTI_LOCAL_SIZE": "1",
                  **devices(lab), **(settings or {})}
        own = ranks or [{}] * len(hosts)
        self.ranks = [self.start(rank, host, words, {**common, **(each or {}).get(host, {}), **own[rank]})
                      for rank, host in enumerate(hosts)]

    def start(self, rank, host, words, settings):
        told = {name: value for name, value in settings.items() if value is not None}
        env = {**os.environ, **told, "TUTTI_RANK": str(rank),
               "TUTTI_HOSTID": f"{self.lab.name}-{host}"}  # processes of one host find one another by it
        report = ["-J", self.report] if rank == 0 and self.reports else []
        return subprocess.Popen([*self.lab.inside(host), *self.program, *words, *report], env=env,
                                stdout=self.log, stderr=self.log, start_new_session=True)

    def result(self, patience):
        """What rank 0 reported, when all have ended."""
        end = time.monotonic() + patience
        for rank in self.ranks:
            try:
                code = rank.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired as late:
                raise Failed(f"not done after {patience} s: {self.said()}") from late
            if code:
                raise Failed(f"a rank ended with {code}: {self.said()}")
        with open(self.report, encoding="utf-8") as file:
            return json.load(file)

    def lives(self):
        if any(rank.poll() is not None for rank in self.ranks):
            raise Failed(f"a rank has ended: {self.said()}")

    def said(self):
        with open(self.log_name, encoding="utf-8") as log:
            return log.read()[-1500:].strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            if rank.poll() is None:
                os.killpg(rank.pid, signal.SIGKILL)
        for rank in self.ranks:
            rank.wait()
        self.log.close()


def address(host, lab):
    """Of the host's first NIC."""
    said = subprocess.run([lab.build.lab, "hosts", "-n", lab.name, "--json"], check=True, capture_output=True,
                          text=True).stdout
    return next(row["ipv4"] for row in json.loads(said) if row["host"] == host)


def devices(lab):
    nics = range(int(lab.keys.get("nics", 1)))
    return {"SOFTVERBS_DEVICES": ",".join(f"soft_n{nic}=n{nic}" for nic in nics)}


def enter(lab, node):
    """The calling thread is in the node's network from here on."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{lab}-{node}", "rb") as space:
        if libc.setns(space.fileno(), NEWNET):
            raise OSError(ctypes.get_errno(), f"the network of {lab}-{node} cannot be entered")


def processors():
    """(ticks that all processors were idle, ticks in all)"""
    with open("/proc/stat", encoding="utf-8") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return ticks[3], sum(ticks)


class Ports:
    """Counters of all ports of some nodes, read without a process: /proc/net/dev belongs to the network namespace in
    which it was opened."""

    def __init__(self, lab, nodes):
        self.files, self.idle = {}, 0  # idle: percent of the processors' time, in the latest window
        thread = threading.Thread(target=self.open, args=(lab.name, nodes))
        thread.start()
        thread.join()
        if len(self.files) < len(nodes):
            raise Failed("network namespaces of the lab cannot be entered")

    def open(self, name, nodes):
        for node in nodes:
            enter(name, node)
            self.files[node] = open("/proc/thread-self/net/dev", "rb", buffering=0)

    def sent(self):
        """{node.port: bytes sent}"""
        found = {}
        for node, file in self.files.items():
            for line in os.pread(file.fileno(), 65536, 0).decode().splitlines()[2:]:
                port, numbers = line.split(":")
                found[f"{node}.{port.strip()}"] = int(numbers.split()[8])
        return found

    def close(self):
        for file in self.files.values():
            file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def flows(self, jobs, wanted, much, patience=90):
        """When each of these ports has sent so many bytes more, while all jobs live."""
        before, end = self.sent(), time.monotonic() + patience
        while True:
            now = self.sent()
            if all(now[port] - before[port] >= much for port in wanted):
                return time.monotonic()
            for job in jobs:
                job.lives()
            if time.monotonic() > end:
                raise Failed(f"no traffic: {jobs[0].said()}")
            time.sleep(0.01)

    def window(self, seconds, jobs=()):
        """{node.port: bytes a second} over the time to come."""
        idle, all_ticks = processors()
        before, began = self.sent(), time.monotonic()
        time.sleep(seconds)
        after, ended = self.sent(), time.monotonic()
        self.idle = 100 * (processors()[0] - idle) / max(1, processors()[1] - all_ticks)
        for job in jobs:
            job.lives()
        return {port: (after[port] - before[port]) / (ended - began) for port in after if port in before}


class Beside(threading.Thread):
    """Looks at something for as long as a with block lasts, or until it has seen enough."""

    def __init__(self):
        super().__init__(daemon=True)
        self.over = threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()


class Watch(Beside):
    """Samples of ports' counters over time, taken while something happens. Times are of CLOCK_MONOTONIC."""

    def __init__(self, ports, wanted, every=0.01):
        super().__init__()
        self.ports, self.wanted, self.every, self.samples = ports, wanted, every, []

    def run(self):
        while not self.over.wait(self.every):
            sent = self.ports.sent()
            self.samples.append((time.monotonic(), [sent.get(port, 0) for port in self.wanted]))
