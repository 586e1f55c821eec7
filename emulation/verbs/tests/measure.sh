#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ib_write_bw and ib_write_lat on loopback next to iperf3 and a bare UDP blaster, interleaved. Run it under the machine's bench lock.
# Usage: measure.sh FOLDER-OF-SOFTVERBS [ROUNDS]
bin=$(realpath "$1")
ns=svmeas$$
ip netns add $ns || exit 77
trap 'ip netns del $ns' EXIT
ip -n $ns link set lo up
on() { ip netns exec $ns taskset -c "$@"; }
sv() { on $1 "$bin/softverbs" run -- timeout 60 "${@:2}"; }
pair() { # what to print, program and arguments
    local print=$1
    shift
    sv 1 "$@" >/dev/null 2>&1 &
    sleep 1
    sv 0 "$@" 127.0.0.1 2>/dev/null | awk "$print"
    wait
}
for round in $(seq "${2:-3}"); do
    echo "round $round"
    on 0,1 "$bin/verbs_blaster" 2
    pair '/^ 65536/ { print "ib_write_bw 64 KiB", $4, "MiB/s" }' ib_write_bw -d soft_lo -x 0 -F -s 65536 -n 20000
    pair '/^ 65536/ { print "ib_send_bw 64 KiB", $4, "MiB/s" }' ib_send_bw -d soft_lo -x 0 -F -s 65536 -n 20000
    pair '/^ 65536/ { print "ib_read_bw 64 KiB", $4, "MiB/s" }' ib_read_bw -d soft_lo -x 0 -F -s 65536 -n 20000
    pair '/^ 8 / { print "ib_write_lat 8 B, half of the round trip, typical", $5, "average", $6, "us" }' ib_write_lat -d soft_lo -x 0 -F -s 8 -n 20000
    pair '/^ 8 / { print "ib_send_lat 8 B, half of the round trip, typical", $5, "average", $6, "us" }' ib_send_lat -d soft_lo -x 0 -F -s 8 -n 20000
    on 1 iperf3 -s -1 >/dev/null 2>&1 &
    sleep 1
    on 0 iperf3 -c 127.0.0.1 -t 3 -f M | awk '/receiver/ { print "iperf3 TCP", $7, $8 }'
    wait
done
