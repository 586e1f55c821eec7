#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program in a network namespace of its own that has a loopback device. Usage: own_net.sh PROGRAM ARGUMENTS...
name=svtest$$
ip netns add $name 2>/dev/null || { echo "own_net: SKIPPED: may not make a network namespace"; exit 77; }
trap 'ip netns del $name' EXIT
ip -n $name link set lo up
# meson sets MESON_EXE_WRAPPER where programs are for another processor
ip netns exec $name $MESON_EXE_WRAPPER "$@"
