# SPDX-License-Identifier: Apache-2.0
"""The example trains under every launcher that is installed, without a change, and its losses are the same.

torch_launched.py TUTTI TRAIN: real Slurm is tested by tests/launch/slurm_test.py.
"""
import os
import re
import shutil
import subprocess
import sys

TUTTI, TRAIN = sys.argv[1:]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
RANKS = "2"
LAUNCHERS = {
    "tutti run": [TUTTI, "run", "-n", RANKS, "--no-tag", "--"],
    "torchrun": [sys.executable, "-m", "torch.distributed.run", "-r", "1", "-t", "1", "--no_python",
                 f"--nproc_per_node={RANKS}"],
    "Open MPI 4": ["mpirun.openmpi", "--oversubscribe", "-n", RANKS],
    "Open MPI 5": [f"{ROOT}/build-openmpi/bin/mpirun", "--map-by", "slot:OVERSUBSCRIBE", "-n", RANKS],
    "MPICH": ["mpirun.mpich", "-n", RANKS],
}
ODD = re.compile("RANK$|WORLD_SIZE$|MASTER_|OMPI_|PMI")


def train(words):
    environment = {name: value for name, value in os.environ.items() if not ODD.match(name)} | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TUTTI_SOCKET_IFNAME": "lo"}
    done = subprocess.run([*words, sys.executable, TRAIN, "--steps", "1"], stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, timeout=120, check=False)
    losses = re.findall(r"step 1: loss (\S+)", done.stdout)
    if done.returncode != 0 or len(losses) != 1 or f"over tutti, {RANKS} ranks" not in done.stdout:
        sys.exit(f"{' '.join(words)}: status {done.returncode}\n{done.stdout}")
    return losses[0]


def main():
    losses = {}
    for name, words in LAUNCHERS.items():
        if shutil.which(words[0]):
            losses[name] = train(words)
            print(f"{name}: loss {losses[name]}")
        else:
            print(f"{name} is not installed: NOT tested")
    if len(set(losses.values())) != 1:
        sys.exit("the losses differ")


main()
