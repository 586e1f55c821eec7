#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nobody asks for RDMA by name: two ranks in two networks take it where it works, and TCP where it does not, with one
line that says what is wrong and what to type. Every result is checked.
Usage: rdma_auto_test.py SOAK FOLDER [CASE...], with the folder of libnccl.so.2, or "" """
import ctypes
import os
import re
import resource
import sys
import tempfile
import time

from links import Other, ip, run_alone
from rdma_job import AT_ONCE, MUCH, PATIENCE, Job, judge, tell

DATA, WORDS = "tp0", "tm0"  # of the adapters; of TCP, which has no adapter
ONE = {"TUTTI_TRANSPORT": "auto", "SOFTVERBS_DEVICES": f"soft_{DATA}={DATA}"}
LIBRARY = sys.argv[2]
IPC_LOCK, DROP = 14, 24  # of prctl


def warnings(job):
    return [line for line in job.text().splitlines() if "[warn]" in line.lower()]


def run(other, ours=None, theirs=None, link=DATA, said=(), **more):
    """Data goes over the link, and the warnings are these, one each."""
    with Job(other, {**ONE, **(theirs or {})}, {**ONE, **(ours or {})}, **more) as job:
        for sentence in said:
            job.says(sentence)
        job.carries([link])
        judge(job)
        lines = warnings(job)
    assert len(lines) == len(said) and all(any(one in line for line in lines) for one in said), lines


def both_have_it(other):
    run(other)


def a_port_is_down(other):
    other.set(DATA, "down")
    run(other, link=WORDS, said=(f"by TCP: the port of RDMA device soft_{DATA}:1 is down. Type `ip link set",) * 2)
    other.set(DATA, "up")


def no_address(other):
    ip("address", "flush", "dev", DATA)
    run(other, link=WORDS, said=(f"by TCP: RDMA device soft_{DATA}:1 has no address (GID). Type `ip address add",
                                 "offers no RDMA, and its data goes by TCP. Type `tutti doctor rdma`"))
    ip("address", "add", "10.83.1.1/24", "dev", DATA)


def no_memory(other):
    """Nor the right to lock more than the limit."""
    def limit():
        assert ctypes.CDLL(None).prctl(DROP, IPC_LOCK, 0, 0, 0) == 0
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (size, size))

    for size in 0, 1 << 20:
        run(other, link=WORDS, prepare=limit,
            said=(f"Cannot allocate memory, where {size >> 10} KiB may be locked. Type `ulimit -l unlimited`",
                  "offers no RDMA, and its data goes by TCP. Type `tutti doctor rdma`"))


def the_other_has_none(other):
    run(other, theirs={"SOFTVERBS_DEVICES": "none0=none0"}, link=WORDS,
        said=("offers no RDMA, and its data goes by TCP. Type `tutti doctor rdma`",))


def switched_off(other):
    for settings in {"NCCL_NET": "Socket"}, {"NCCL_IB_DISABLE": "1"}:
        run(other, settings, settings, link=WORDS)


LOST = "does not work: verbs lane"
TYPE = "Its data goes by TCP, and RDMA is tried again every 30 s. Type `tutti doctor rdma` on both hosts"


def the_first_exchange_is_lost(other):
    """At one end alone, too: packets of this end go nowhere, or none reaches it."""
    for way in "out", "in":
        hole = {"SOFTVERBS_FAULT": f"drop=1,dir={way}"}
        quick = {"TUTTI_IB_TRIAL": "500ms"}
        with Job(other, {**ONE, **quick}, {**ONE, **quick, **hole}) as job:
            job.says(TYPE)
            has_no_queue_pairs(other)
            resting = [open_files(one) for one in job.ranks]
            job.carries([WORDS])
            until = time.monotonic() + PATIENCE  # an attempt may be under way
            while any(now > before for now, before in zip(map(open_files, job.ranks), resting)):
                assert time.monotonic() < until, f"descriptors stay open: {resting} before"
                time.sleep(0.1)
            judge(job)
            lines = warnings(job)
        assert lines and all(LOST in line and TYPE in line and f"soft_{DATA}:1" in line for line in lines), lines
        assert len(lines) <= 2, lines  # of each process


def has_no_queue_pairs(other):
    """At either end, once all lanes rest: before that there are some again after the pause between two attempts."""
    begun = seen = time.monotonic()
    while time.monotonic() < seen + 1.5:
        if any(re.search(r"^qp ", tell(side, "info"), re.M) for side in ([], other.inside)):
            seen = time.monotonic()
        assert seen < begun + PATIENCE, "queue pairs are left"
        time.sleep(0.05)


def open_files(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def networks_do_not_meet(other):
    """The adapters are of networks that nothing joins: packets that come by another interface are not theirs."""
    apart = {"TUTTI_IB_TRIAL": "500ms"}
    with Job(other, {**ONE, **apart, "SOFTVERBS_DEVICES": "soft_tp1=tp1"}, {**ONE, **apart}) as job:
        job.says(TYPE)
        has_no_queue_pairs(other)
        job.carries([WORDS])
        judge(job)


def a_device_goes(other):
    with Job(other, ONE, ONE) as job:
        job.carries([DATA])
        tell([], "unplug", f"soft_{DATA}")
        job.carries([WORDS], AT_ONCE)
        judge(job)


PROGRAM = """
import ctypes, os, sys
nccl = ctypes.CDLL(sys.argv[1] + "/libnccl.so.2")
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
rank, stop, count = int(os.environ["RANK"]), sys.argv[2], 1 << 16
one, comm = Id(), ctypes.c_void_p()
assert nccl.ncclGetUniqueId(ctypes.byref(one)) == 0
nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
assert nccl.ncclCommInitRank(ctypes.byref(comm), 2, one, rank) == 0
ours, sum = (ctypes.c_int32 * count)(*range(count)), (ctypes.c_int32 * count)()
while not sum[0]:
    ours[0] = rank == 0 and os.path.exists(stop)
    assert nccl.ncclAllReduce(ours, sum, ctypes.c_size_t(count), 2, 0, comm, None) == 0
    assert nccl.ncclGroupStart() == 0 and nccl.ncclGroupEnd() == 0
    assert sum[1:] == [2 * i for i in range(1, count)]
assert nccl.ncclCommDestroy(comm) == 0
"""


def the_drop_in_takes_it(other):
    """A program of NCCL, on memory of the host."""
    if not LIBRARY:
        return
    with tempfile.TemporaryDirectory() as folder:
        stop = os.path.join(folder, "stop")
        settings = {**ONE, "TUTTI_NCCL_HOST": "1", "NCCL_COMM_ID": "10.83.0.1:29501", "NCCL_HOSTID": ""}
        program = [sys.executable, "-c", PROGRAM, LIBRARY, stop]
        with Job(other, settings, settings, program=program) as job:
            job.carries([DATA])
            with open(stop, "w", encoding="ascii"):
                pass
            assert [one.wait(PATIENCE) for one in job.ranks] == [0, 0]
            assert not warnings(job)


CASES = (the_drop_in_takes_it, both_have_it, a_port_is_down, no_address, no_memory, the_other_has_none, switched_off,
         the_first_exchange_is_lost, networks_do_not_meet, a_device_goes)


def main():
    with Other(["tm0", "tp0", "tp1"]) as other:
        for case in CASES:
            if not sys.argv[3:] or case.__name__ in sys.argv[3:]:
                begun = time.monotonic()
                case(other)
                print(f"{case.__name__}: {time.monotonic() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    run_alone(main, "RDMA that nobody asks for")
