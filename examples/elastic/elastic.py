# SPDX-License-Identifier: Apache-2.0
"""Trains by hybrid sharding on units of 2 processes, twice: once undisturbed, and once with a unit that is killed and
replaced. Says what was lost, and draws both losses.

    python3 examples/elastic/elastic.py [--steps 200] [--units 4] [-o elastic.svg]
    python3 examples/elastic/elastic.py --quick            2 units, and the disturbed training alone
    python3 examples/elastic/elastic.py --by torchrun      each unit is a torchrun
    salloc -N 2 --ntasks-per-node 6 python3 examples/elastic/elastic.py --by srun --folder SHARED
                                                           each unit is a step of Slurm's job
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SHARDS, VICTIM = 2, 1
WIDE, HIGH, LEFT, TOP = 600, 240, 60, 60


def start(folder, args, unit, *more):
    """A unit. A launcher ends its whole job when a process of it dies, so each unit is a job of the launcher's."""
    member = [f"{HERE}/member.py", folder, "--units", str(args.units), "--unit", str(unit), "--steps", str(args.steps),
              *more]
    if args.by == "torchrun":  # of PyTorch 1.13 one needs a place for output under Python 3.11
        # Port 0: torchrun draws the port itself. One drawn here is another program's before PyTorch is loaded.
        commands = [[sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(SHARDS),
                     "--monitor_interval", "0.1", "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0",
                     "--rdzv_id", f"unit-{unit}", "--redirects", "0:1", "--tee", "0:1", "--log_dir",
                     f"{folder}/torchrun-{unit}", *member]]
    elif args.by == "srun":
        hosts = int(os.environ["SLURM_NNODES"])
        commands = [["srun", "--overlap", "--nodes", "1", "--relative", str(unit % hosts), "--ntasks", str(SHARDS),
                     sys.executable, *member]]
    else:
        commands = [[sys.executable, *member, "--shard", str(shard)] for shard in range(SHARDS)]
    return [subprocess.Popen(command) for command in commands]


def kill(folder, args):
    """One process of a unit. Its partner finds that out, and leaves."""
    victim = read(folder, VICTIM)[0]
    if args.by == "srun":
        subprocess.run(["srun", "--overlap", "--nodes", "1", "--ntasks", "1", "--nodelist", victim["node"],
                        "kill", "-KILL", str(victim["pid"])], check=True)
    else:
        os.kill(victim["pid"], signal.SIGKILL)


def read(folder, unit, shard=0):
    try:
        with open(f"{folder}/log-{unit}-{shard}", encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return []


def steps_of(folder, unit=0):
    return [line for line in read(folder, unit) if "step" in line]


def touch(folder, name):
    with open(f"{folder}/{name}", "w", encoding="utf-8"):
        pass


def wait_for(what, running, seconds=600):
    until = time.monotonic() + seconds
    while not what():
        early = {unit: process.returncode for unit, processes in running.items() for process in processes
                 if process.poll()}
        if early or time.monotonic() > until:
            raise SystemExit(f"the job does not go on; units that ended: {early}")
        time.sleep(0.005)


def train(folder, args, disturbed):
    """The units' ends, and when a process was killed. A training that is disturbed is not over before: steps are short,
    and who kills may have no processor for a while."""
    more = ["--pause", str(args.steps * 3 // 4)] if disturbed else []
    running = {unit: start(folder, args, unit, *more) for unit in range(args.units)}
    try:
        killed = disturb(folder, args, running) if disturbed else touch(folder, "go")
        others = {unit: processes for unit, processes in running.items() if not disturbed or unit != VICTIM}
        wait_for(lambda: all(process.poll() is not None for one in others.values() for process in one), others)
        return {unit: [process.wait() for process in processes] for unit, processes in running.items()}, killed
    finally:
        for process in [one for processes in running.values() for one in processes if one.poll() is None]:
            process.terminate()


def disturb(folder, args, running):
    """Kills a process in the middle. A spare unit is ready in time: loading PyTorch takes longer than this training."""
    running[args.units] = start(folder, args, args.units, "--newcomer")
    wait_for(lambda: all(read(folder, unit, shard) for unit in running for shard in range(SHARDS)), running)
    touch(folder, "go")
    wait_for(lambda: len(steps_of(folder)) >= args.steps // 4, running)
    killed = time.time()
    kill(folder, args)
    others = {unit: processes for unit, processes in running.items() if unit != VICTIM}
    wait_for(lambda: len(steps_of(folder)) >= args.steps // 2, others)
    touch(folder, "newcomers")
    return killed


def text(x, y, words, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{words}</text>'


def draw(units, calm, rough, note):
    most = max(line["loss"] for line in calm + rough)
    x = lambda step: LEFT + WIDE * step / len(calm)  # noqa: E731
    y = lambda loss: TOP + HIGH * (1 - loss / most)  # noqa: E731
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDE + 30}" height="{TOP + HIGH + 60}" '
           'font-family="sans-serif" font-size="11">', '<rect width="100%" height="100%" fill="#fff"/>',
           text(12, 20, f"Loss of {units} units of 2 processes; one unit is killed and replaced",
                'font-size="13" font-weight="bold"'), text(12, 38, note)]
    for line in rough:
        if line["units"] < units:
            out.append(f'<rect x="{x(line["step"] - 1):.1f}" y="{TOP}" width="{WIDE / len(calm):.1f}" height="{HIGH}" '
                       'fill="#fdecea"/>')
    for part in range(5):
        loss = most * part / 4
        out += [f'<line x1="{LEFT}" x2="{LEFT + WIDE}" y1="{y(loss):.1f}" y2="{y(loss):.1f}" stroke="#ddd"/>',
                text(LEFT - 6, y(loss) + 4, f"{loss:.2f}", 'text-anchor="end"')]
    for lines, color in (calm, "#7f8c8d"), (rough, "#c0392b"):
        points = " ".join(f'{x(line["step"]):.1f},{y(line["loss"]):.1f}' for line in lines)
        out.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>')
    low = TOP + HIGH + 18
    out += [text(x(step), low, str(step), 'text-anchor="middle"') for step in range(0, len(calm) + 1, len(calm) // 4)]
    out += [text(LEFT, low + 26, "grey: undisturbed; red: disturbed; light red: steps without the unit")]
    return "\n".join([*out, "</svg>", ""])


def report(units, calm, rough, killed):
    usual = statistics.median(line["seconds"] for line in rough)
    hit = next((line for line in rough if line["units"] < units), None)
    if hit is None:
        raise SystemExit("the training was over before the unit was missed")
    back = next((line for line in rough if line["step"] > hit["step"] and line["units"] == units), None)
    if back is None:
        raise SystemExit("the replacement never counted")
    joined = back["at"] - rough[back["step"] - 2]["at"] - usual
    print(f"the unit is killed; step {hit['step']} counts with {hit['units']} units in generation {hit['generation']}, "
          f"tried {hit['tries']} times, {hit['at'] - killed:.3f} s after the kill")
    print(f"from step {back['step']} on {back['units']} units count, in generation {back['generation']}")
    print(f"time of a step {usual * 1e3:.1f} ms (median); lost at the kill {hit['seconds'] - usual:.3f} s, "
          f"at the join {joined:.3f} s; steps lost 0")
    if calm:
        apart = max(abs(a["loss"] - b["loss"]) for a, b in zip(calm, rough) if a["step"] < hit["step"])
        print(f"loss of step {len(calm)}: {rough[-1]['loss']:.4f}, undisturbed {calm[-1]['loss']:.4f}; before the kill "
              f"they differ by {apart:g}")
        if apart:
            raise SystemExit("runs differ before anything happened")
    return f"killed before step {hit['step']}, replaced at step {back['step']}; no step was lost"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--units", type=int, default=4)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--by", choices=("processes", "torchrun", "srun"), default="processes",
                        help="what starts a unit; srun: inside an allocation of Slurm (salloc, sbatch)")
    parser.add_argument("--folder", help="where processes meet, which all hosts must share; /tmp without it")
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    if args.quick:
        args.units = 2
    with tempfile.TemporaryDirectory(dir=args.folder) as calm, tempfile.TemporaryDirectory(dir=args.folder) as rough:
        ends, _ = ({}, 0) if args.quick else train(calm, args, False)
        if any(map(any, ends.values())):
            raise SystemExit(f"undisturbed, units ended with {ends}")
        ends, killed = train(rough, args, True)
        wrong = {unit: end for unit, end in ends.items() if (all if unit == VICTIM else any)(end) != (unit == VICTIM)}
        if wrong:
            raise SystemExit(f"units ended with {wrong}")
        sums = [{read(rough, unit, shard)[-1]["weights"] for unit in range(args.units + 1) if unit != VICTIM}
                for shard in range(SHARDS)]
        if any(len(one) != 1 for one in sums):
            raise SystemExit(f"units have different weights: {sums}")
        lines = steps_of(calm), steps_of(rough)
        note = report(args.units, *lines, killed)
        if args.output and not args.quick:
            with open(args.output, "w", encoding="utf-8") as file:
                file.write(draw(args.units, *lines, note))


if __name__ == "__main__":
    main()
