#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program under a launcher with 4 ranks and checks that each rank of the right kind met the others.
# usage: run.sh LAUNCHER PROGRAM [LIBRARY THAT openmpi5-late PRELOADS]; exit 77: the launcher is not installed.
# MESON_EXE_WRAPPER: what runs programs of another processor. Open MPI 5 is that of the folder build-openmpi, which
# `make openmpi` fills, or the system's.
# shellcheck disable=SC2086
launcher=$1
program=$2
n=4
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export TUTTI_SOCKET_IFNAME="${TUTTI_SOCKET_IFNAME-lo}"
unset TUTTI_RANK TUTTI_SIZE TUTTI_ID TUTTI_NONCE NCCL_COMM_ID RANK WORLD_SIZE MASTER_ADDR MASTER_PORT

missing()
{
    echo "SKIPPED: $1 is not installed; meeting under it was NOT tested" >&2
    exit 77
}

open_mpi_5()
{
    for mpirun in "$(dirname "$0")/../../build-openmpi/bin/mpirun" mpirun; do
        "$mpirun" --version 2>/dev/null | grep -q "(Open MPI) 5" && return
    done
    missing "Open MPI 5"
}

[ -n "${HELD_PORT-}" ] || exec python3 "$(dirname "$0")/../../benchmarks/held_port.py" "$0" "$@"

case $launcher in
openmpi | openmpi-nopmix)
    command -v mpirun.openmpi >/dev/null || missing mpirun.openmpi
    kind="Open MPI"
    if [ "$launcher" = openmpi ]; then
        out=$(timeout 120 mpirun.openmpi --oversubscribe -n $n $MESON_EXE_WRAPPER "$program" 2>&1)
    else
        out=$(timeout 120 mpirun.openmpi --oversubscribe -n $n env -u PMIX_NAMESPACE $MESON_EXE_WRAPPER "$program" 2>&1)
    fi
    ;;
openmpi5 | openmpi5-nopmix | openmpi5-late)
    open_mpi_5
    kind="Open MPI"
    without=""
    [ "$launcher" != openmpi5-nopmix ] || without="env -u PMIX_NAMESPACE"
    [ "$launcher" != openmpi5-late ] || without="env LD_PRELOAD=$3 MEET_ONLY_FIND=1"
    # By slot: else this launcher numbers the ranks of a host in another order than those of the job.
    out=$(timeout 120 "$mpirun" --map-by slot:OVERSUBSCRIBE -n $n $without $MESON_EXE_WRAPPER "$program" 2>&1)
    ;;
mpich)
    command -v mpirun.mpich >/dev/null || missing mpirun.mpich
    kind="PMI"
    out=$(timeout 120 mpirun.mpich -n $n $MESON_EXE_WRAPPER "$program" 2>&1)
    ;;
torchrun)
    /usr/bin/python3 -c 'import torch.distributed' 2>/dev/null || missing "torch (torchrun)"
    kind="torchrun"
    # -r 1 -t 1: this old release of torch cannot start without redirection under newer Pythons.
    out=$(timeout 200 /usr/bin/python3 -m torch.distributed.run --no_python --nproc_per_node=$n -r 1 -t 1 \
        --master_addr=127.0.0.1 --master_port="$HELD_PORT" $MESON_EXE_WRAPPER "$program" 2>&1)
    ;;
slurm-variables)
    # Its variables, set by hand: slurm_test.py has a real one.
    kind="Slurm"
    out=$(for i in 0 1 2 3; do
        SLURM_PROCID=$i SLURM_NTASKS=$n SLURM_LOCALID=$i SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=$n SLURM_JOB_ID=$$ \
            SLURM_STEP_ID=0 SLURM_STEP_NODELIST=localhost timeout 120 $MESON_EXE_WRAPPER "$program" &
    done 2>&1; wait)
    ;;
tutti-variables)
    kind="tutti run"
    out=$(for i in 0 1 2 3; do
        TUTTI_RANK=$i TUTTI_SIZE=$n TUTTI_LOCAL_RANK=$i TUTTI_LOCAL_SIZE=$n TUTTI_ID=127.0.0.1:$HELD_PORT \
            TUTTI_NONCE=00112233445566778899aabbccddeeff timeout 120 $MESON_EXE_WRAPPER "$program" &
    done 2>&1; wait)
    ;;
*)
    echo "unknown launcher $launcher" >&2
    exit 99
    ;;
esac

echo "$out"
for i in 0 1 2 3; do
    if ! echo "$out" | grep -q "met by $kind.*: rank $i of $n, local $i of $n\$"; then
        echo "FAILED: rank $i did not meet the others as $kind" >&2
        exit 1
    fi
done
