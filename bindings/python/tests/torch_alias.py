# SPDX-License-Identifier: Apache-2.0
"""TUTTI_TORCH_AS=gloo: a program that asks for Gloo runs on tutti, started by torchrun or by spawn; what is not ours
stays Gloo's.

torch_alias.py: starts itself in each way. The package is found as a pip package is: by its entry point.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "benchmarks"))
from held_port import hold_port  # noqa: E402

HERE = os.path.abspath(__file__)
NAMES = ["gloo"] if os.environ.get("ALIAS_IMPORTS") else ["gloo", "cpu:gloo", None]
SAYS = "tutti stands for Gloo"


def check(condition, *words):
    if not condition:
        raise SystemExit(f"rank {os.environ.get('RANK')}: {words}")


def program(rank, names):
    """What a framework does: it knows nothing of tutti."""
    import torch
    import torch.distributed as dist

    for asked in names:
        dist.init_process_group(asked)
        calls(torch, dist, rank, asked)
        dist.destroy_process_group()
    print(f"rank {rank} of 2 done")


def ours(group):
    """Does tutti do its work?"""
    import tutti.torch

    return tutti.torch._ours(group) is not None


def calls(torch, dist, rank, asked):
    world, size = dist.group.WORLD, dist.get_world_size()
    check(ours(world), type(world), world.name())
    check(asked is None or dist.get_backend() == asked, dist.get_backend())
    check(asked != "gloo" or dist.get_backend() == dist.Backend.GLOO)
    check("tutti" not in str(getattr(dist.distributed_c10d, "get_backend_config", dist.get_backend)()))
    values = torch.full((1000,), float(rank + 1))
    dist.all_reduce(values)
    check((values == size * (size + 1) / 2).all(), values)
    if asked != "gloo":
        return
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    check(objects == [{"rank": r} for r in range(size)], objects)
    dist.monitored_barrier()
    first = dist.new_group([0])  # all ranks call it, and one is in it
    check(rank != 0 or ours(first), first)
    other = dist.new_group(backend="gloo")
    check(ours(other) and dist.get_backend(other) == "gloo", other)
    theirs = dist.new_group(backend="gloo_of_torch")
    value = torch.ones(3)
    dist.all_reduce(value, group=theirs)
    check(value[0] == size and not ours(theirs), value, theirs)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    model(torch.ones(1, 4)).sum().backward()
    dist.barrier()


def spawned(rank):
    os.environ["RANK"] = str(rank)
    program(rank, ["gloo"])


def spawn():
    import torch.multiprocessing

    torch.multiprocessing.spawn(spawned, nprocs=2)


def installed(folder):
    """An entry point, as pip writes it."""
    info = pathlib.Path(folder, "tutti-0.dist-info")
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tutti\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\ntutti = tutti.torch:autoload\n")


def run(words, environment):
    done = subprocess.run([sys.executable, *words], env=environment, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200, check=False)
    return done.returncode, done.stdout


def passes(name, words, environment):
    status, text = run(words, environment)
    if status or text.count("of 2 done") != 2 or text.count(SAYS) != 1:
        sys.exit(f"{name}: status {status}, {text.count(SAYS)} times \"{SAYS}\"\n{text}")
    print(f"{name}: done")


def main():
    import torch

    autoloads = hasattr(torch, "_import_device_backends")
    with tempfile.TemporaryDirectory() as folder:
        installed(folder)
        environment = dict(os.environ, TUTTI_TORCH_AS="gloo", MASTER_ADDR="127.0.0.1",
                           PYTHONPATH=f"{folder}{os.pathsep}{os.environ['PYTHONPATH']}", GLOO_SOCKET_IFNAME="lo",
                           TUTTI_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
        if not autoloads:
            print("this PyTorch loads no backends by itself: the package is imported by the program")
            environment["ALIAS_IMPORTS"] = "1"
        launch = ["-m", "torch.distributed.run", "-r", "1", "-t", "1", "--nproc_per_node=2", "--standalone",
                  HERE, "rank"]
        passes("torchrun", launch, environment)
        held, port = hold_port()
        with held:
            passes("spawn", [HERE, "spawn"], environment | {"MASTER_PORT": str(port), "WORLD_SIZE": "2"})
        status, text = run(["-c", "import torch, tutti.torch"], environment | {"TUTTI_TORCH_AS": "nccl"})
        if not status or "tutti can stand for \"gloo\" alone" not in text:
            sys.exit(f"another name: status {status}\n{text}")


if os.environ.get("ALIAS_IMPORTS"):
    import tutti.torch  # noqa: F401
if __name__ == "__main__":
    {"rank": lambda: program(int(os.environ["RANK"]), NAMES), "spawn": spawn, "": main}["".join(sys.argv[1:2])]()
