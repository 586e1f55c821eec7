# SPDX-License-Identifier: Apache-2.0
"""check: all programs of nccl-tests with checks (-c 1) over tutti, in one thread, in threads, in processes,
in graphs; and our own."""
import collections
import tempfile

from gpu_parts import exercise, perf, ranks
from gpu_parts.run import Budget, say, table, tail

Way = collections.namedtuple("Way", "name form programs arguments env", defaults=({},))
SHORT = ["-n", "2", "-w", "1", "-c", "1"]
# One of each kind of kernel and of copying.
CORE = ("all_reduce", "all_gather", "alltoall", "sendrecv", "reduce_scatter", "broadcast")
WAYS = (
    Way("all types and operators", "gpus", perf.REDUCING, "-b 8 -e 4M -f 8 -d all -o all -n 1 -w 0 -c 1".split()),
    Way("all types", "gpus", perf.MOVING, "-b 8 -e 4M -f 64 -d all -n 1 -w 0 -c 1".split()),
    Way("float, large", "gpus", perf.PROGRAMS, "-b 16M -e {most} -f 8".split() + SHORT),
    Way("bfloat16, large", "gpus", perf.REDUCING, "-b 16M -e {most} -f 8 -d bfloat16".split() + SHORT),
    Way("processes", "processes", perf.PROGRAMS, "-b 32 -e {most} -f 32".split() + SHORT),
    Way("in a graph", "gpus", perf.PROGRAMS, "-b 64 -e 64M -f 32 -n 3 -w 1 -c 1 -G 3".split()),
    Way("threads", "threads", (*CORE, "hypercube"), "-b 1K -e 64M -f 16".split() + SHORT),
    Way("processes, all types and operators", "processes", perf.REDUCING,
        "-b 8 -e 4M -f 64 -d all -o all -n 1 -w 0 -c 1".split()),
    Way("processes, read where it lies", "processes", ("reduce_scatter",),
        "-b 4M -e 64M -f 16 -d all -o all -n 3 -w 2 -c 1".split(), {"TUTTI_READ_FROM": "1M"}),
    Way("processes, in a graph, registered", "processes", CORE, "-b 64 -e 64M -f 64 -n 3 -w 1 -c 1 -G 3 -R 1".split()),
    Way("registered", "gpus", CORE, "-b 1K -e 64M -f 64 -R 1".split() + SHORT),
    Way("misaligned", "gpus", CORE, "-b 1K -e 16M -f 128 -u 1".split() + SHORT),
    Way("every root", "gpus", ("broadcast", "reduce", "gather", "scatter"),
        "-b 1K -e 16M -f 128 -r -1".split() + SHORT),
    Way("processes, by kernels", "processes", CORE[1:],
        "-b 1M -e {most} -f 16".split() + SHORT, {"TUTTI_COPY_PROCESSES": "0"}),
    Way("copy engines for all", "gpus", CORE[1:], "-b 64 -e 64M -f 64".split() + SHORT, {"TUTTI_CTA_POLICY": "zero"}),
    Way("threads, in a graph", "threads", CORE[:2], "-b 64 -e 16M -f 64 -n 3 -w 1 -c 1 -G 3".split()),
    Way("null stream", "gpus", CORE[:2], "-b 1K -e 64M -f 64 -y 1".split() + SHORT),
)
# The same by our worker, which does all calls, types and operators in one run.
WORKER = "our own worker"
MODES = {"processes": {}, "by kernels": {"TUTTI_COPY_PROCESSES": "0"},
         "copy engines for all": {"TUTTI_CTA_POLICY": "zero"}, "host memory": {"NCCL_P2P_DISABLE": "1"},
         "sockets": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo"}}


def add_arguments(parser):
    parser.add_argument("--only", nargs="*", choices=perf.PROGRAMS, metavar="PROGRAM", help="only these programs")
    parser.add_argument("--ways", nargs="*", metavar="WORD", help="only ways whose name begins with one of these")
    parser.add_argument("--preset", default="all", choices=sorted(exercise.PRESETS),
                        help="what our own worker does (all)")
    parser.add_argument("--list", action="store_true", help="print the ways and end")


def chosen(options, name):
    return not options.ways or any(name.startswith(word) for word in options.ways)


def programs_of(options, way):
    """hypercube with several GPUs a thread: its steps fall into one group, a race of its own. Quick:
    few programs do all ways."""
    found = [p for p in way.programs
             if (not options.only or p in options.only) and (p != "hypercube" or way.form != "gpus")]
    whole = not options.quick or way.name in ("all types", "processes")
    return [p for p in found if whole or p in CORE or len(way.programs) < 5]


def plan(options):
    """[(way, program)]: all ways with their first program, all with their second, ... If time ends,
    no way was left out."""
    ways = [(way, programs_of(options, way)) for way in WAYS if chosen(options, way.name)]
    turns = max((len(programs) for _, programs in ways), default=0)
    own = [(Way(f"{WORKER}, {mode}", "worker", ("worker",), [], env), "worker") for mode, env in MODES.items()
           if not options.only and chosen(options, f"{WORKER}, {mode}")]
    return own + [(way, programs[turn]) for turn in range(turns) for way, programs in ways if turn < len(programs)]


def judge(done):
    """What is wrong with a run, as sentences."""
    said = [f"exit status {done.status}" + (" (past its limit)" if done.status == 124 else "")] if done.status else []
    said += perf.wrong(done.text())[:5]
    return said or ([] if perf.rows(done.text()) else ["printed no table"])


def one(options, way, program, limit):
    most = "64M" if options.quick else "1G"
    done = perf.start(options, options.tutti, program, way.form, [a.format(most=most) for a in way.arguments],
                      limit, way.env)
    said = judge(done)
    record = {"way": way.name, "program": program, "good": not said, "said": said, "seconds": round(done.seconds, 1),
              "points": len(perf.rows(done.text()))}
    if said:
        record["output"] = tail(done.text(), 2500)
    return record


def our_own(options, way, limit):
    """All calls, types and operators by our worker, a process a GPU: needs neither MPI nor nccl-tests."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = ranks.start(options, options.tutti, "exercise", ["--preset", options.preset], folder, way.env)
        ranks.wait(jobs, limit)
        said = [f"rank {rank}: exit status {job.status}" for rank, job in enumerate(jobs) if job.status]
        points = sum(out.get("points", 0) for out in ranks.outputs(folder, options.gpus))
        record = {"way": way.name, "program": "worker", "good": not said, "said": said, "points": points,
                  "seconds": round(max(job.seconds for job in jobs), 1)}
        if said:
            record["output"] = "\n".join(tail(job.text(), 800) for job in jobs)
        return record


def show(record, whole):
    """One line; of a failure also the end of the output, the first few times (whole)."""
    state = "ok    " if record["good"] else "FAILED"
    print(f"{state} {record['program']}: {record['way']} ({record['points']} points, {record['seconds']:.0f} s)",
          flush=True)
    if not record["good"]:
        text = record.get("output", "")[-900:].splitlines() if whole else []
        print(*["  " + line for line in record["said"] + text[-14:]], sep="\n", flush=True)


def ways_table(runs):
    ways = {}
    for record in runs:
        good, count = ways.get(record["way"], (0, 0))
        ways[record["way"]] = (good + record["good"], count + 1)
    rows = [[way, f"{good} of {count}", "" if good == count else "FAILED: " + ", ".join(
        record["program"] for record in runs if record["way"] == way and not record["good"])]
            for way, (good, count) in ways.items()]
    return table(["way", "good", ""], rows)


def sum_up(runs, skipped):
    """The last thing printed, as the end of long outputs is what is read."""
    print("\n" + ways_table(runs))
    failed = sum(not record["good"] for record in runs)
    print(f"{len(runs)} runs, {sum(r['points'] for r in runs)} points, {failed} failed, {len(skipped)} not run")
    for line in skipped[:8]:
        print("  not run:", line)
    return failed


def main(options, results):
    todo = plan(options)
    if options.list:
        for way in WAYS:
            print(f"{way.name}: {way.form}, {' '.join(way.arguments)}", *[f"{k}={v}" for k, v in way.env.items()])
        return 0
    budget, runs, skipped = Budget(options.budget), [], []
    results.data.update(runs=runs, skipped=skipped)
    for number, (way, program) in enumerate(todo):
        why = None if program == "worker" else perf.missing(options, program, way.form)
        limit = budget.limit(options.limit)
        if why or not limit:
            skipped.append(f"{program}: {way.name}: {why or 'no time left'}")
            results.save()
            continue
        say(f"check {number + 1} of {len(todo)}: {program}, {way.name}; {budget.left():.0f} s left")
        runs.append(our_own(options, way, limit) if program == "worker" else one(options, way, program, limit))
        show(runs[-1], sum(not record["good"] for record in runs) <= 5)
        results.save()
    failed = sum_up(runs, skipped)
    results.save(complete=not skipped)
    return failed + (not runs)
