#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two namespaces, a veth between them: ib_write_bw runs, the link goes down, and the completion error must come in the time that
# timeout and retry_cnt say; PORT_ERR and PORT_ACTIVE and GID_CHANGE must be reported. Usage: link_down.sh FOLDER-OF-SOFTVERBS EVENTS
set -u
bin=$(realpath "$1")
events=$(realpath "$2")
[ -z "${MESON_EXE_WRAPPER:-}" ] || { echo "link_down: SKIPPED: this machine's RDMA programs cannot load a library for another processor"; exit 77; }
a=svda$$
b=svdb$$
work=$(mktemp -d)
for need in ib_write_bw ip; do command -v $need >/dev/null || { echo "link_down: SKIPPED: no $need"; exit 77; }; done
ip netns add $a 2>/dev/null && ip netns add $b || { echo "link_down: SKIPPED: may not make a network namespace"; exit 77; }
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
for n in $a $b; do ip -n $n link set lo up; ip -n $n link set e0 up; done
ip -n $a addr add 10.98.0.1/24 dev e0
ip -n $b addr add 10.98.0.2/24 dev e0
# the test's own traffic (TCP) goes over another link, which stays up
ip link add m0 netns $a type veth peer name m0 netns $b
ip -n $a addr add 10.97.0.1/24 dev m0
ip -n $b addr add 10.97.0.2/24 dev m0
for n in $a $b; do ip -n $n link set m0 up; done
export SOFTVERBS_POLL=sleep SOFTVERBS_DEVICES=soft=e0
ip netns exec $a "$bin/softverbs" run -- "$events" soft >$work/events & pids+=($!)
watcher=$!
ip netns exec $b "$bin/softverbs" run -- timeout 60 ib_write_bw -d soft -x 0 -F -D 40 -u 14 >$work/server 2>&1 & pids+=($!)
sleep 1
ip netns exec $a "$bin/softverbs" run -- timeout 60 ib_write_bw -d soft -x 0 -F -D 40 -u 14 10.97.0.2 >$work/client 2>&1 & client=$!
pids+=($client)
for _ in $(seq 100); do
    ip netns exec $a "$bin/softverbs" list 2>/dev/null | grep -q "RTS" && break
    sleep 0.1
done
sleep 1
ip netns exec $a "$bin/softverbs" list | grep -q RTS || { echo "link_down: no traffic"; cat $work/client; exit 1; }
begin=$(date +%s%N)
ip -n $b link set e0 down
wait $client
status=$?
ms=$((($(date +%s%N) - begin) / 1000000))
ip -n $b link set e0 up
ip -n $a addr add 10.98.0.9/24 dev e0
wait $watcher
events_status=$?
# 8 timeouts of 4.096 us * 2^14 are 537 ms; perftest needs a moment to end
echo "status $status, error after $ms ms; events: $(tr '\n' ' ' <$work/events)"
grep -q 'status 12' $work/client && [ $status != 0 ] && [ $ms -ge 500 ] && [ $ms -lt 10000 ] && [ $events_status = 0 ]
