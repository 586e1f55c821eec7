#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two namespaces, a veth between them: packets leave as frames unless they are not to, over IPv4 and IPv6, and go on
# arriving when the neighbour's hardware address changes under them. Usage: frames.sh FOLDER-OF-SOFTVERBS
set -u
bin=$(realpath "$1")
[ -z "${MESON_EXE_WRAPPER:-}" ] || {
    echo "frames: SKIPPED: this machine's RDMA programs cannot load a library for another processor"
    exit 77
}
a=svfa$$
b=svfb$$
work=$(mktemp -d)
for need in ib_write_bw ip tc; do command -v $need >/dev/null || { echo "frames: SKIPPED: no $need"; exit 77; }; done
ip netns add $a 2>/dev/null && ip netns add $b || { echo "frames: SKIPPED: may not make a network namespace"; exit 77; }
pids=()
clean() {
    [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null
    wait 2>/dev/null
    ip netns del $a
    ip netns del $b
    rm -rf "$work"
}
trap clean EXIT
ip link add e0 netns $a mtu 4200 type veth peer name e0 netns $b mtu 4200
for n in $a $b; do ip -n $n link set lo up; ip -n $n link set e0 addrgenmode none up; done
ip -n $a addr add 10.98.0.1/24 dev e0
ip -n $b addr add 10.98.0.2/24 dev e0
ip -n $a addr add fd98::1/64 dev e0 nodad
ip -n $b addr add fd98::2/64 dev e0 nodad
# the programs' own traffic (TCP) goes over another link
ip link add m0 netns $a type veth peer name m0 netns $b
ip -n $a addr add 10.97.0.1/24 dev m0
ip -n $b addr add 10.97.0.2/24 dev m0
for n in $a $b; do ip -n $n link set m0 up; done
export SOFTVERBS_POLL=sleep SOFTVERBS_DEVICES=soft=e0 SOFTVERBS_STATS=1

start() { # GID index and further options: starts both ends; the client's counters go to $work/counters
    ip netns exec $b "$bin/softverbs" run -- \
        timeout 100 ib_write_bw -d soft -F -u 16 -x "$@" >$work/server 2>&1 & server=$!
    pids+=($server)
    for _ in $(seq 300); do
        ip netns exec $b ss -tlnH 2>/dev/null | grep -q ':18515 ' && break
        sleep 0.1
    done
    ip netns exec $a "$bin/softverbs" run -- \
        timeout 100 ib_write_bw -d soft -F -u 16 -x "$@" 10.97.0.2 >$work/client 2>$work/counters & client=$!
    pids+=($client)
}
finish() { # what it was
    wait $client && wait $server && return
    echo "frames: $1 failed"
    cat $work/client $work/server $work/counters
    exit 1
}
counted() { awk -v name=$1 '$0 ~ " " name " " { n = $NF } END { print n + 0 }' $work/counters; }
frames() { counted sent_frames; }
expect() { "$@" || { echo "frames: not so: $*"; cat $work/counters; exit 1; }; }

for gid in 0 1; do
    start $gid -n 5000
    finish "GID $gid"
    expect [ "$(frames)" -gt 100 ]
done
export SOFTVERBS_FRAMES=0
start 0 -n 5000
finish "without frames"
expect [ "$(frames)" = 0 ]
unset SOFTVERBS_FRAMES

start 0 -D 3
for _ in $(seq 300); do
    ip netns exec $a "$bin/softverbs" list 2>/dev/null | grep -q RTS && break
    sleep 0.1
done
ip -n $b link set e0 address 02:00:00:00:98:98
ip -n $a neigh replace 10.98.0.2 lladdr 02:00:00:00:98:98 dev e0 nud permanent
finish "a new hardware address"
expect [ "$(frames)" -gt 100 ]
# A queue shorter than a window on the way out: packets wait for room, and none is sent twice. One that a receiver
# without a processor loses is: not in each of three tries.
ip netns exec $a tc qdisc add dev e0 root tbf rate 200mbit burst 72k limit 128k
for frames in 1 0; do
    export SOFTVERBS_FRAMES=$frames
    for _ in 1 2 3; do
        start 0 -n 300 -s 65536
        finish "a short queue, frames $frames"
        expect [ "$(counted waited_for_queue)" -gt 0 ]
        [ "$(counted sent_retransmitted)" != 0 ] || break
    done
    expect [ "$(counted sent_retransmitted)" = 0 ]
done
echo "frames: all as expected"
