# SPDX-License-Identifier: Apache-2.0
"""One rank of the parts that need no framework. Started by gpu.py, not by hand:

  worker.py exercise|first|groups|loop --library LIBNCCL --folder FOLDER --rank R --ranks N [--device D] ...
"""
import argparse
import sys
import time
import traceback

from . import exercise, grouped
from .device import Device, Nccl, pointer, size
from .ranks import Meet

MIB = 1 << 20


def allreduce(nccl, comm, device, send, recv, count):
    nccl.call("ncclAllReduce", pointer(send), pointer(recv), size(count), 7, 0, comm, device.stream)


class First:
    """How long a communicator takes and what it costs. Every reading is taken when all ranks are at the same point."""

    def __init__(self, options, meet):
        self.options, self.meet, self.out = options, meet, {"seconds": {}, "bytes": {}}
        self.device, self.nccl = Device(options.device), Nccl(options.library)
        self.send, self.recv = self.device.alloc(64 * MIB), self.device.alloc(64 * MIB)
        self.device.fill(self.send, 0, 64 * MIB)
        self.device.wait(60, "a fill")

    def at(self, name):
        """Bytes in use on this GPU, with all ranks waiting."""
        self.meet.barrier(name)
        used = self.device.used()
        self.meet.barrier(name + ".read")
        return used

    def timed(self, name, call):
        self.meet.barrier(name)
        began = time.monotonic()
        result = call()
        self.out["seconds"][name] = time.monotonic() - began
        return result

    def reduce(self, comm, count):
        allreduce(self.nccl, comm, self.device, self.send, self.recv, count)
        self.device.wait(self.options.limit, f"an allreduce of {count} floats")

    def comm(self, which):
        """Makes a communicator and uses it: a small allreduce, another one, one of 64 MiB."""
        rank, before = self.options.rank, self.at(which + ".before")
        if rank == 0:
            self.meet.put(which + ".id", self.nccl.new_id())
        unique = self.meet.get(which + ".id")
        comm = self.timed(which + ".init", lambda: self.nccl.init(self.options.ranks, unique, rank))
        readings = {"init": self.at(which + ".made")}
        self.timed(which + ".first", lambda: self.reduce(comm, 1000))
        readings["first"] = self.at(which + ".used")
        self.timed(which + ".next", lambda: self.reduce(comm, 1000))
        self.timed(which + ".large", lambda: self.reduce(comm, 16 * MIB))
        readings["large"] = self.at(which + ".large.used")
        self.out["bytes"][which] = {name: used - before for name, used in readings.items()}
        return comm

    def run(self):
        before = self.at("start")
        comms = [self.comm(which) for which in ("one", "two")]
        for comm in comms:
            self.nccl.call("ncclCommDestroy", comm)
        self.out["bytes"]["left"] = self.at("end") - before
        return self.out


def loop(options, meet):
    """Large allreduces without end until one fails because a rank was killed, or has aborted as it was told to; then
    this GPU must still work, alone and with the others."""
    device, nccl = Device(options.device), Nccl(options.library)
    nbytes = options.bytes
    send, recv = device.alloc(nbytes), device.alloc(nbytes)
    device.fill(send, 0, nbytes)
    if options.rank == 0:
        meet.put("id", nccl.new_id())
    comm = nccl.init(options.ranks, meet.get("id"), options.rank)
    rounds, said = 0, ""
    until = time.monotonic() + options.limit
    while not said and time.monotonic() < until:
        if options.rank == options.victim and meet.there("abort"):
            nccl.call("ncclCommAbort", comm)
            return {}
        said = loop_turn(nccl, comm, device, send, recv, nbytes)
        rounds += not said
        if rounds == 3:
            meet.put(f"looping.{options.rank}", b"")
    out = {"noticed": time.monotonic(), "said": said, "rounds": rounds}
    meet.leave(out)
    if not said:
        raise TimeoutError(f"no error within {options.limit:.0f} s")
    nccl.call("ncclCommAbort", comm)
    out["aborted"] = time.monotonic()
    meet.leave(out)
    out.update(after(options, meet, nccl, device))
    return out


def loop_turn(nccl, comm, device, send, recv, nbytes):
    """One allreduce; what went wrong, or nothing."""
    try:
        allreduce(nccl, comm, device, send, recv, nbytes // 4)
        while not device.done():
            state = nccl.state(comm)
            if state:
                return nccl.complaint(state, comm)
            time.sleep(0.001)
        state = nccl.state(comm)
        return nccl.complaint(state, comm) if state else ""
    except RuntimeError as error:
        return str(error)


def after(options, meet, nccl, device):
    """Allocates, computes and verifies something; then the survivors make a communicator and use it."""
    device.wait(60, "what the abort has left in the stream")
    numbers = device.odd(100000)
    good = numbers is None or numbers == list(range(1, 200001, 2))
    at = device.alloc(64 * MIB)
    device.fill(at, 0x5a, 64 * MIB)
    good = good and device.get(at, MIB) == b"\x5a" * MIB
    device.free(at)
    alive = [rank for rank in range(options.ranks) if rank != options.victim]
    if options.rank == alive[0]:
        meet.put("id.after", nccl.new_id())
    comm = nccl.init(len(alive), meet.get("id.after"), alive.index(options.rank))
    wrong = exercise.Exercise(device, nccl, comm, alive.index(options.rank), len(alive), 60).run("survivors")
    nccl.call("ncclCommDestroy", comm)
    return {"computed": numbers is not None, "good": good and not wrong, "wrong": wrong[:5]}


def exercise_alone(options, meet):
    device, nccl = Device(options.device), Nccl(options.library)
    if options.rank == 0:
        meet.put("id", nccl.new_id())
    comm = nccl.init(options.ranks, meet.get("id"), options.rank)
    work = exercise.Exercise(device, nccl, comm, options.rank, options.ranks, options.limit)
    wrong = work.run(options.preset)
    for line in wrong[:10]:
        print(f"rank {options.rank}: {line}", flush=True)
    meet.barrier("end")
    nccl.call("ncclCommDestroy", comm)
    return {"points": work.points, "wrong": wrong[:10], "good": not wrong}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("exercise", "first", "groups", "loop"))
    parser.add_argument("--library", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--device", type=int)
    parser.add_argument("--limit", type=float, default=60, help="seconds for one operation; loop: for all")
    parser.add_argument("--preset", default="few", choices=sorted(exercise.PRESETS))
    parser.add_argument("--bytes", type=int, default=1 << 30)
    parser.add_argument("--victim", type=int, default=-1)
    parser.add_argument("--rows", nargs="*", default=[], help="groups: OPERATION:CALLS:BYTES")
    parser.add_argument("--times", type=int, default=50, help="groups of a loop")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.device = options.rank if options.device is None else options.device
    meet = Meet(options.folder, options.rank, options.ranks, max(options.limit, 60))
    try:
        out = {"exercise": exercise_alone, "loop": loop,
               "first": lambda o, m: First(o, m).run(),
               "groups": lambda o, m: grouped.Grouped(o, m).run()}[options.what](options, meet)
    except Exception as error:  # whatever it was, the parent wants a sentence and a status
        traceback.print_exc()
        print(f"rank {options.rank}: {error}", flush=True)
        return 1
    meet.leave(out)
    return 0 if out.get("good", True) else 1


if __name__ == "__main__":
    sys.exit(main())
