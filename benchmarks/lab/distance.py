# SPDX-License-Identifier: Apache-2.0
"""Send and receive of 2 hosts that adapters carry out of the memory where it lies and into it, against copies through
buffers of the lanes: what of a message's time the copies are (ICCL's figure 2), and what is left of that where the
hosts are far (NCCLX's figure 7). The library's own settings, but for what tells it to copy. Last, copies with settings
as NCCLX tuned NCCL's. No link limits: packets go as fast as processors carry them, later by what the way takes."""
from fabric import Failed, Job, Lab
from result import Row, spread

TITLE = "send and receive without copies against copies, by length and distance"
SIZES = {"64 KiB": 1 << 16, "1 MiB": 1 << 20, "16 MiB": 16 << 20}
WAYS = {"300 us": 300, "1 ms": 1000, "3 ms": 3000}  # that each packet is later
WARM = 64 << 20  # bytes before anything is measured: the first ones go over TCP, until RDMA lanes are up
FAR = ("64 KiB", "1 MiB")
OWN = {"TUTTI_SEGMENT": None, "TUTTI_ALGO": None, "TUTTI_SPIN": None}
COPIED = {"TUTTI_REGISTER": "pool"}  # of memory that the library has not allocated
TUNED = {**COPIED, "TUTTI_SEGMENT": "1M", "TUTTI_IB_LANES": "4"}


def took(bench, lab, size, settings, late=0):
    """Microseconds of a message, there and another one back at once."""
    times, warm = max(4, min(100, (16 << 20) // size)), max(4, min(200, WARM // size))
    words = ["sendrecv", "-b", str(size), "-e", str(size), "-n", str(times), "-w", str(warm), "-c", "1", "-z", "1",
             "-R", "0" if settings else "1"]
    fault = {"SOFTVERBS_FAULT": f"delay=1,delay-us={late}" if late else ""}
    with Job(lab, ["h0", "h1"], words, {**OWN, **settings, **fault}) as job:
        found = job.result(60 + 10 * bench.seconds)["rows"][0]["out_of_place"]["time_us"]
    if found < late:
        raise Failed(f"{found} us over a way of {late} us: the lanes were not up")
    return found


def both(bench, lab, what, size, late=0, copied=None):
    """(without copies, with copies): the times of all turns."""
    times = ([], [])
    for _ in range(bench.turns):
        for found, settings in zip(times, ({}, copied or COPIED)):
            found.append(took(bench, lab, size, settings, late))
    bench.say(f"{what}: without copies {spread(times[0], '.0f')}, with copies {spread(times[1], '.0f')} us")
    return times


def measured(times):
    """By the quickest: a processor that is taken away for a moment would be most of the mean."""
    share = 100 * (1 - min(times[0]) / min(times[1]))
    return (f"{min(times[1]) / min(times[0]):.2f}x ({spread(times[1], '.0f')} against {spread(times[0], '.0f')} us)"
            + (f": {share:.0f}% are copies" if share > 0 else ""))


def measure(bench):
    with Lab(bench.build, {"hosts": 2, "nics": 1, "leaves": 1, "spines": 1}) as lab:
        near = {name: both(bench, lab, name, size) for name, size in SIZES.items()}
        far = {(size, way): both(bench, lab, f"{size} over {way}", SIZES[size], late)
               for size in FAR for way, late in WAYS.items()}
        tuned = {name: both(bench, lab, f"{name}, tuned copies", SIZES[name], copied=TUNED) for name in SIZES}
    bench.keep(near=near, far={f"{size} over {way}": times for (size, way), times in far.items()}, tuned=tuned)
    gain = {name: min(times[1]) / min(times[0]) for name, times in near.items()}
    return [*(Row(f"a message of {name}: with copies over without", "25% are copies (ICCL)", ">= 1x", measured(times),
                  gain[name] >= 1) for name, times in near.items()),
            *(Row(f"{size}, a way of {way}: the same", "2x to a host next to it, less to a far one (NCCLX)", "",
                  measured(times), None) for (size, way), times in far.items()),
            *(Row(f"{name}, copies by 4 lanes in segments of 1 MiB: the same", "(NCCLX)", "", measured(times), None)
              for name, times in tuned.items())]
