#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program on the stand-in for the CUDA driver, whose libraries lie beside this script (or in EMULATED_CUDA_LIB).
set -eu
folder=${EMULATED_CUDA_LIB:-$(cd "$(dirname "$0")" && pwd)}
path=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
case ${1:-} in
run)
    shift
    [ "${1:-}" != -- ] || shift
    if [ $# -gt 0 ]; then
        LD_LIBRARY_PATH=$path exec "$@"
    fi
    ;;
env)
    echo "export LD_LIBRARY_PATH='$path'"
    exit 0
    ;;
esac
echo "emulated-cuda run -- PROGRAM ARGUMENTS...   run a program on emulated GPUs
emulated-cuda env                           print what \`run\` sets, for a shell
This is an emulator: what it measures says nothing about GPUs." >&2
exit 2
