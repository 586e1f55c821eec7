#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program in a network namespace of its own that has a loopback device, and with -2 two software RDMA devices
# instead, soft_v0 and soft_v1, whose packets come back to the same namespace.
# Usage: own_net.sh [-2] PROGRAM ARGUMENTS...
name=svtest$$
devices=
[ "$1" = -2 ] && { devices="0 1"; shift; }
ip netns add $name 2>/dev/null || { echo "own_net: SKIPPED: may not make a network namespace"; exit 77; }
trap 'ip netns del $name' EXIT
ip -n $name link set lo up
for i in $devices; do
    ip -n $name link add v$i type veth peer name w$i
    ip -n $name address add 10.84.$i.1/24 dev v$i
    ip -n $name link set v$i up
    ip -n $name link set w$i up
    export SOFTVERBS_DEVICES=${SOFTVERBS_DEVICES:-soft_v0=v0,soft_v1=v1}
done
# meson sets MESON_EXE_WRAPPER where programs are for another processor
ip netns exec $name $MESON_EXE_WRAPPER "$@"
