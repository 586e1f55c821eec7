#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pictures.sh BUILD FOLDER: makes the lab of each example of the papers' networks, lets each host write to the host half
# a lab further by ib_write_bw (four queue pairs of each NIC), and draws what the links carried. As root. In two labs
# the receiver is the host's next NIC, on another leaf: so that the uplinks carry something.
set -eu
lab=$1/emulation/lab/tutti-lab soft=$1/emulation/verbs/softverbs
folder=$2 examples=$(dirname "$0")/../../../examples
export SOFTVERBS_POLL=sleep
work=$(mktemp -d)
trap 'rm -rf "$work"; "$lab" down $name 2>/dev/null || :' EXIT
name=""

# The server listens before its client comes.
write() { # FROM TO NIC PORT NIC-OF-TO
    "$lab" run "h$2" -n $name -- "$soft" run -- ib_write_bw -d "soft_n$5" -x 0 -q 4 -s 65536 -n 100 -u 18 -p "$4" \
        >"$work/server.$4" 2>&1 &
    until "$lab" run "h$2" -n $name -- ss -Hltn | grep -q ":$4 "; do sleep 0.1; done
    timeout 300 "$lab" run "h$1" -n $name -- "$soft" run -- ib_write_bw -d "soft_n$3" -x 0 -q 4 -s 65536 -n 100 -u 18 \
        -p "$4" "h$2.n0" >"$work/client.$4" 2>&1 ||
        { echo "$name h$1 to h$2, n$3:"; cat "$work/client.$4"; }
}

for name in two-leaves dual-homed bonded rails oversubscribed; do
    "$lab" up "$examples/$name.yaml"
    hosts=$("$lab" hosts -n $name | grep -c ' n0 ') nics=$("$lab" hosts -n $name | grep -c '^h0 ')
    "$lab" counters --zero -n $name
    next=0 writers=""
    case $name in two-leaves | bonded) next=1 ;; esac
    for host in $(seq 0 $((hosts - 1))); do
        for nic in $(seq 0 $((nics - 1))); do
            write "$host" $(((host + hosts / 2) % hosts)) "$nic" $((19000 + host * 16 + nic)) \
                $(((nic + next) % nics)) &
            writers="$writers $!"
        done
    done
    # shellcheck disable=SC2086
    wait $writers
    "$lab" draw -n $name -o "$folder/lab-$name.svg"
    "$lab" down $name
done
