# SPDX-License-Identifier: Apache-2.0
"""GPUs of two hosts, four on each, with four interfaces a host, on the stand-in for the CUDA driver: islands and rails
against staging of everything, and the bytes that interfaces sent against what `tutti schedule` says of the rails."""
import os
import re
import subprocess

from fabric import Job, Lab, Ports
from result import Row, middle

TITLE = "rails of GPUs"
EACH, HOSTS = 4, ("h0", "h1")
RATE = 20  # Mbit/s of an interface: two processors carry all at once
# A transport that is named would be that within a host, too, where GPUs then reach nothing of one another.
SETTINGS = {"TUTTI_ALGO": None, "TUTTI_TRANSPORT": None, "TUTTI_STAGE_THREADS": "1", "TUTTI_STAGE_SLICE": "256K",
            "TUTTI_TIMEOUT": "120s", "TUTTI_EMULATED_GPUS": str(EACH)}
WAYS = {"islands": {}, "staged": {"TUTTI_ISLANDS": "0", "TUTTI_DMABUF_ENABLE": "0"}}
TIMED = {"allreduce, 1 MiB": ("allreduce", 1 << 20, 1.6), "allreduce, 4 MiB": ("allreduce", 4 << 20, 1.6),
         "alltoall, 64 KiB blocks": ("alltoall", 64 << 10, 2.0)}
COUNTED = ("allreduce", "reduce", "broadcast", "allgather", "reduce_scatter")
VECTOR = 4 << 20  # bytes
HEADERS = 1.12  # of RoCE packets, and of words of links, beside the payload


def gpus(lab, way, collective, size, times):
    """A run of `tutti perf` on eight GPUs, and what it reported."""
    driver = lab.build.path("emulation", "cuda")
    env = {**SETTINGS, **WAYS[way], "LD_LIBRARY_PATH": f"{driver}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
    ranks = [{"TUTTI_LOCAL_RANK": str(rank % EACH), "TUTTI_LOCAL_SIZE": str(EACH)} for rank in range(2 * EACH)]
    words = [collective, "--gpu", "-b", str(size), "-e", str(size), "-n", str(times), "-w", "1", "-c", "0"]
    with Job(lab, [host for host in HOSTS for _ in range(EACH)], words, env, ranks=ranks) as job:
        return job.result(300)


def microseconds(lab, way, collective, size, times):
    return gpus(lab, way, collective, size, times)["rows"][0]["out_of_place"]["time_us"]


# ---- Against staging ----

def race(bench, lab):
    found = {}
    for name, (collective, size, _) in TIMED.items():
        sides = {way: [microseconds(lab, way, collective, size, 3) for _ in range(bench.turns)] for way in WAYS}
        found[name] = {way: middle(times) / 1000 for way, times in sides.items()}
        bench.say(f"{name}: {found[name]['islands']:.1f} ms by islands, {found[name]['staged']:.1f} ms staged")
    return found


def race_rows(found):
    return [Row(f"{name}, against staging", "", f">= {TIMED[name][2]}x",
                f"{one['staged'] / one['islands']:.2f}x ({one['islands']:.1f} against {one['staged']:.1f} ms)",
                one["staged"] / one["islands"] >= TIMED[name][2]) for name, one in found.items()]


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
        gpus(lab, "islands", collective, VECTOR, times)
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
        times, counts = race(bench, lab), count(bench, lab)
    bench.keep(times=times, counts=counts)
    return [*race_rows(times), *count_rows(counts)]
