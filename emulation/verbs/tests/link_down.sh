#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two namespaces, a veth between them: ib_write_bw runs, the link goes down, and the completion error must come in the
# time that timeout and retry_cnt say; PORT_ERR and PORT_ACTIVE and GID_CHANGE must be reported.
# Usage: link_down.sh FOLDER-OF-SOFTVERBS EVENTS
set -u
bin=$(realpath "$1")
events=$(realpath "$2")
[ -z "${MESON_EXE_WRAPPER:-}" ] || {
    echo "link_down: SKIPPED: this machine's RDMA programs cannot load a library for another processor"
    exit 77
}
a=svda$$
b=svdb$$
work=$(mktemp -d)
for need in ib_write_bw ip; do command -v $need >/dev/null || { echo "link_down: SKIPPED: no $need"; exit 77; }; done
ip netns add $a 2>/dev/null && ip netns add $b ||
    { echo "link_down: SKIPPED: may not make a network namespace"; exit 77; }
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
listens() { ip netns exec $b grep -q "$(printf ':%04X .* 0A ' $1)" /proc/net/tcp; }

# The specification lets each of the 1 + retry_cnt timeouts take from 4.096 us * 2^timeout to four times as long;
# perftest's retry_cnt is 7. The last acknowledgement may have come a little before the link went down. The slack is for
# perftest's end and a machine that has other work.
cut_the_link() { # timeout
    local port=$((18600 + $1)) least=$((8 * 4096 * (1 << $1) / 1000000)) begin ms status watcher client sent port_error
    local most=$((4 * least + 5000))
    ip netns exec $a "$bin/softverbs" run -- "$events" soft >$work/events & watcher=$!
    ip netns exec $b "$bin/softverbs" run -- \
        timeout 60 ib_write_bw -p $port -d soft -x 0 -F -D 40 -u $1 >$work/server 2>&1 & pids+=($!)
    for _ in $(seq 200); do listens $port && break; sleep 0.1; done
    ip netns exec $a "$bin/softverbs" run -- \
        timeout 60 ib_write_bw -p $port -d soft -x 0 -F -D 40 -u $1 10.97.0.2 >$work/client 2>&1 & client=$!
    pids+=($watcher $client)
    for _ in $(seq 200); do
        sent=$(ip netns exec $a "$bin/softverbs" ctl all stats 2>/dev/null |
            awk '/sent_packets/ { n += $NF } END { print n + 0 }')
        [ "$sent" -gt 1000 ] && break
        sleep 0.1
    done
    [ "$sent" -gt 1000 ] || { echo "link_down: no traffic"; cat $work/client; return 1; }
    begin=$(date +%s%N)
    ip -n $b link set e0 down
    wait $client
    status=$?
    ms=$((($(date +%s%N) - begin) / 1000000))
    # the kernel gathers changes of carriers for up to a second, and says nothing of one that was taken back meanwhile
    for _ in $(seq 300); do grep -q 'port error' $work/events && break; sleep 0.1; done
    ip -n $b link set e0 up
    ip -n $a addr add 10.98.0.$((100 + $1))/24 dev e0
    wait $watcher || { echo "link_down: not all events came: $(cat $work/events)"; return 1; }
    port_error=$(($(awk '/port error/ { print $1; exit }' $work/events) - begin / 1000000))
    echo "timeout $1: status $status, error after $ms ms ($least to $most); port error after $port_error ms;" \
        "events: $(cut -d' ' -f2- $work/events | tr '\n' ',')"
    grep -q 'status 12' $work/client && [ $status != 0 ] && [ $ms -ge $((least * 9 / 10)) ] && [ $ms -lt $most ] &&
        [ $port_error -ge 0 ] && [ $port_error -lt 5000 ]
}
cut_the_link 14 && cut_the_link 16
