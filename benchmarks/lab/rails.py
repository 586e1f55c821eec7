# SPDX-License-Identifier: Apache-2.0
"""GPUs of two hosts, four on each, with four interfaces a host, on the stand-in for the CUDA driver: islands and rails
against staging of everything, the processors that ranks take, and the bytes that interfaces sent against what
`tutti schedule` says of the rails."""
import os
import re
import subprocess

from fabric import Beside, Job, Lab, Ports
from result import Row, middle

TITLE = "rails of GPUs"
EACH, HOSTS = 4, ("h0", "h1")
# Mbit/s of an interface. Two processors carry all packets and run eight GPUs: an allreduce of 1 MiB takes 0.23 s of
# them by islands, and 0.36 s staged. The interfaces must take longer, or the processors are what is measured.
RATE = 10
# A transport that is named would be that within a host, too, where GPUs then reach nothing of one another.
SETTINGS = {"TUTTI_ALGO": None, "TUTTI_TRANSPORT": None, "TUTTI_STAGE_THREADS": "1", "TUTTI_STAGE_SLICE": "256K",
            "TUTTI_TIMEOUT": "120s", "TUTTI_EMULATED_GPUS": str(EACH)}
WAYS = {"islands": {}, "staged": {"TUTTI_ISLANDS": "0", "TUTTI_DMABUF_ENABLE": "0"}}
MIB = 1 << 20
BLOCK = 64 << 10  # bytes, from each rank to each: `tutti perf` is told the bytes of all blocks of a rank
# What is called, bytes, has each rank one interface alone, and the aim.
TIMED = {"allreduce, 1 MiB": ("allreduce", MIB, False, 1.6), "allreduce, 4 MiB": ("allreduce", 4 * MIB, False, 1.6),
         "allreduce, 1 MiB, an interface bound to each rank": ("allreduce", MIB, True, 3.6),
         "alltoall, 64 KiB blocks": ("alltoall", BLOCK * 2 * EACH, False, 2.0)}
OVER = {"allreduce": 1, "alltoall": EACH / 2}  # bytes that leave a host, for each byte of a rank's
COUNTED = ("allreduce", "reduce", "broadcast", "allgather", "reduce_scatter")
VECTOR = 4 * MIB  # bytes
HEADERS = 1.12  # of RoCE packets, and of words of links, beside the payload
HARDWARE = ("emulated-gpu", "softverbs")  # threads that stand in for it


class Threads(Beside):
    """What threads of a job have run, in s, by their names: looks as long as the block lasts."""

    def __init__(self, job):
        super().__init__()
        self.sessions, self.ran = {str(rank.pid) for rank in job.ranks}, {}

    def processes(self):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                    if file.read().rsplit(")", 1)[1].split()[3] in self.sessions:
                        yield pid
            except OSError:  # it has ended
                pass

    def look(self, pid):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/comm", encoding="utf-8") as name, \
                    open(f"/proc/{pid}/task/{thread}/schedstat", encoding="utf-8") as ran:
                self.ran[pid, thread] = (name.read().strip(), int(ran.read().split()[0]) / 1e9)

    def run(self):
        while not self.over.wait(0.05):
            for pid in self.processes():
                try:
                    self.look(pid)
                except OSError:
                    pass

    def library(self):
        """s of all threads that do not stand in for hardware."""
        return sum(ran for name, ran in self.ran.values() if name not in HARDWARE)


def gpus(lab, way, words, bound=False):
    """A run of `tutti perf` on eight GPUs: what it reported, and s of processors that a rank took."""
    driver = lab.build.path("emulation", "cuda")
    env = {**SETTINGS, **WAYS[way], "LD_LIBRARY_PATH": f"{driver}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
    ranks = [{"TUTTI_LOCAL_RANK": str(rank % EACH), "TUTTI_LOCAL_SIZE": str(EACH),
              **({"TUTTI_IB_HCA": f"=soft_n{rank % EACH}"} if bound else {})} for rank in range(2 * EACH)]
    with Job(lab, [host for host in HOSTS for _ in range(EACH)], words, env, ranks=ranks) as job:
        with Threads(job) as threads:
            return job.result(300), threads.library() / len(ranks)


def calls(collective, size, times):
    return [collective, "--gpu", "-b", str(size), "-e", str(size), "-n", str(times), "-w", "1", "-c", "0"]


# ---- Against staging ----

def milliseconds(lab, way, collective, size, bound):
    found, _ = gpus(lab, way, calls(collective, size, 3), bound)
    return found["rows"][0]["out_of_place"]["time_us"] / 1000


def race(bench, lab):
    found = {}
    for name, (collective, size, bound, _) in TIMED.items():
        sides = {way: [] for way in WAYS}
        for _ in range(bench.turns):
            for way, times in sides.items():
                times.append(milliseconds(lab, way, collective, size, bound))
        found[name] = {way: middle(times) for way, times in sides.items()}
        found[name]["least"] = OVER[collective] * size * 8 / (EACH * RATE * 1000)
        bench.say(f"{name}: {found[name]['islands']:.1f} ms by islands, {found[name]['staged']:.1f} ms staged, "
                  f"{found[name]['least']:.1f} ms at the interfaces' rate")
    return found


def race_rows(found):
    return [Row(f"{name}: staging over islands", "", f"{TIMED[name][3]}x",
                f"{one['staged'] / one['islands']:.2f}x ({one['staged']:.0f} against {one['islands']:.0f} ms; what "
                f"leaves a host needs {one['least']:.0f} ms)",
                one["staged"] / one["islands"] >= TIMED[name][3]) for name, one in found.items()]


# ---- Processors ----

def take(bench, lab):
    """ms of processors that a rank takes for one call more, in place or out of place."""
    few, many, found = 2, 12, {}
    for way in WAYS:
        ran = {times: gpus(lab, way, calls("allreduce", MIB, times))[1] for times in (few, many)}
        found[way] = 1000 * (ran[many] - ran[few]) / (2 * (many - few))
        bench.say(f"{way}: a rank takes {found[way]:.1f} ms of processors for an allreduce of 1 MiB")
    return found


def take_rows(found):
    ratio = found["islands"] / found["staged"]
    return [Row("ms of processors that a rank takes for an allreduce of 1 MiB, without what stands in for hardware: "
                "islands over staging", "", "0.5x",
                f"{ratio:.2f}x ({found['islands']:.1f} against {found['staged']:.1f} ms)", ratio <= 0.5)]


# ---- Bytes ----

def told(build, collective):
    """Bytes that all rails together carry, by the steps of the collective."""
    said = subprocess.run([build.tutti, "schedule", collective, "--plan", "--islands", f"{EACH},{EACH}", "--bytes",
                           str(VECTOR)], check=True, capture_output=True, text=True).stdout
    return int(re.search(r"rails together: .*, (\d+) bytes", said).group(1))


def sent(lab, collective, times):
    """Bytes by all interfaces of both hosts, of the whole run."""
    with Ports(lab, list(HOSTS)) as ports:
        before = ports.sent()
        gpus(lab, "islands", calls(collective, VECTOR, times))
        after = ports.sent()
    return sum(after[port] - before[port] for port in after if re.search(r"\.n\d+$", port))


def count(bench, lab):
    """What two calls more add, in place and out of place: the beginning and the end of both runs are alike."""
    found = {}
    for collective in COUNTED:
        more = (sent(lab, collective, 6) - sent(lab, collective, 2)) / 8
        found[collective] = (more, told(bench.build, collective))
        bench.say(f"{collective}: {more:.0f} bytes by interfaces, {found[collective][1]} by the steps")
    return found


def count_rows(found):
    return [Row(f"bytes over interfaces, {name} of {VECTOR >> 20} MiB, against those of `tutti schedule`", "",
                f"1 to {HEADERS}", f"{more / told_bytes:.3f} ({more:.0f} of {told_bytes})",
                1 <= more / told_bytes <= HEADERS) for name, (more, told_bytes) in found.items()]


def measure(bench):
    keys = {"hosts": 2, "nics": 4, "leaves": 1, "spines": 1, "rate": f"{RATE}mbit"}
    with Lab(bench.build, keys) as lab:
        times, taken, counts = race(bench, lab), take(bench, lab), count(bench, lab)
    bench.keep(times=times, processors=taken, counts=counts)
    return [*race_rows(times), *take_rows(taken), *count_rows(counts)]
