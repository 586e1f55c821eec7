#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The emulated verbs next to iperf3 and a bare UDP blaster: on loopback, and across the lab (4 hosts with 2 NICs, 2
# leaves, 2 spines; no rate limit; h0 to h2 is three hops). Interleaved rounds; prints the medians and the ratios to the
# blaster of the same run. Needs root, perftest, iperf3 and two processors. Usage: verbs_bench.sh BUILD-FOLDER [ROUNDS
# [loopback|lab]]
set -u
build=$(realpath "$1")
rounds=${2:-5}
places=${3:-loopback lab}
source=$(dirname "$(realpath "$0")")
bin=$build/emulation/verbs
lab=$build/emulation/lab/tutti-lab
work=$(mktemp -d)
ns=vbench$$
for need in ip iperf3 ib_write_bw taskset; do
    command -v $need >/dev/null || { echo "verbs_bench: SKIPPED: no $need"; exit 77; }
done
echo -20 >/proc/self/autogroup 2>/dev/null # other sessions' work weighs less
renice -n -20 $$ >/dev/null 2>&1
clean() {
    "$lab" down $ns >/dev/null 2>&1
    ip netns del $ns 2>/dev/null
    rm -rf "$work"
}
trap clean EXIT
ip netns add $ns || exit 77
ip -n $ns link set lo up
sed -e "s/^name: .*/name: $ns/" -e 's/^rate: .*/rate: none/' \
    "$source/../examples/clos.yaml" >$work/lab.yaml
"$lab" up $work/lab.yaml >$work/up 2>&1 || { cat $work/up; exit 1; }

in_server() { if [ $place = loopback ]; then ip netns exec $ns "$@"; else "$lab" run -n $ns h2 -- "$@"; fi; }
in_client() { if [ $place = loopback ]; then ip netns exec $ns "$@"; else "$lab" run -n $ns h0 -- "$@"; fi; }
address() {
    if [ $place = loopback ]; then
        echo 127.0.0.1
    else
        in_server ip -4 -o addr show n0 | awk '{ sub("/.*", "", $4); print $4; exit }'
    fi
}
record() { [ -n "$2" ] && echo "$2" >>"$work/$place.$1"; }
verbs() { # name, column, program and arguments; perftest speaks of MiB/s
    local name=$1 column=$2 device=soft_n0
    shift 2
    [ $place = loopback ] && device=soft_lo
    in_server taskset -c 1 "$bin/softverbs" run -- timeout 40 "$@" -d $device -x 0 -F >/dev/null 2>&1 & local server=$!
    sleep 1
    record $name "$(in_client taskset -c 0 "$bin/softverbs" run -- timeout 40 "$@" -d $device -x 0 -F $to 2>/dev/null |
        awk -v c=$column '/^ *(65536|8) / { print c == 4 ? $4 * 1.048576 : $c }')"
    wait $server
}
blaster() {
    in_server timeout 30 taskset -c 1 "$bin/verbs_blaster" serve & local server=$!
    sleep 0.5
    in_client taskset -c 0 "$bin/verbs_blaster" $to 2 >$work/out
    wait $server
    record blaster_bw "$(awk '/MB/ { print $2 }' $work/out)"
    record blaster_lat "$(awk '/us/ { print $2 }' $work/out)"
}
iperf() {
    in_server taskset -c 1 iperf3 -s -1 >/dev/null 2>&1 & local server=$!
    sleep 0.7
    record iperf3 "$(in_client taskset -c 0 iperf3 -c $to -t 2 -f m | awk '/receiver/ { print $7 / 8 }')"
    wait $server
}
puts() { # tutti's, on loopback: half of a round trip of 8 bytes, and 64 KiB and 1 MiB in groups of 16
    in_client env TUTTI_TRANSPORT=verbs TUTTI_IBVERBS_LIBRARY="$bin/libibverbs.so.1" TUTTI_DEBUG=none timeout 60 \
        "$build/cli/tutti" run --no-tag -n 2 -- sh -c 'exec taskset -c $TUTTI_RANK "$0" "$@"' \
        "$build/benchmarks/puts-bench" 8 65536 1048576 times >$work/out 2>/dev/null
    record put_lat "$(awk '/^8 bytes/ { print $8 }' $work/out)"
    record put_bw "$(awk '/^65536 bytes/ { print $(NF - 1) }' $work/out)"
    record put_long_bw "$(awk '/^1048576 bytes/ { print $(NF - 1) }' $work/out)"
}
median() { sort -n "$work/$place.$1" 2>/dev/null | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : "-" }'; }
spread() { sort -n "$work/$place.$1" 2>/dev/null |
    awk '{ v[NR] = $1 } END { if (NR) printf "%g to %g", v[1], v[NR] }'; }
row() { awk -v p="$place" -v w="$1" -v m="$(median $2)" -v b="$(median $3)" -v s="$(spread $2)" -v o="${4:+ of $4}" \
    'BEGIN { printf "| %s | %s | %.5g | %s | %s%s |\n", p, w, m, s, (b > 0 ? sprintf("%.2f", m / b) : "-"), o }'; }

for round in $(seq "$rounds"); do
    for place in $places; do
        to=$(address)
        blaster
        verbs write_bw 4 ib_write_bw -s 65536 -n 40000
        verbs write16_bw 4 ib_write_bw -s 65536 -n 40000 -t 16
        verbs send_bw 4 ib_send_bw -s 65536 -n 40000
        verbs read_bw 4 ib_read_bw -s 65536 -n 40000
        [ $place = loopback ] && SOFTVERBS_HANDOVER=1 verbs handed_bw 4 ib_write_bw -s 65536 -n 40000
        verbs write_lat 5 ib_write_lat -s 8 -n 10000
        verbs send_lat 5 ib_send_lat -s 8 -n 10000
        [ $place = loopback ] && puts
        iperf
    done
done
echo "| where | what | median | all rounds | to the blaster |"
echo "|---|---|---|---|---|"
for place in $places; do
    row "bare UDP, MB/s" blaster_bw blaster_bw
    row "ib_write_bw 64 KiB, MB/s" write_bw blaster_bw
    row "ib_write_bw 64 KiB, 16 under way, MB/s" write16_bw blaster_bw
    row "ib_send_bw 64 KiB, MB/s" send_bw blaster_bw
    row "ib_read_bw 64 KiB, MB/s" read_bw blaster_bw
    [ $place = loopback ] && row "ib_write_bw 64 KiB, handed over, MB/s" handed_bw blaster_bw
    row "iperf3 (TCP), MB/s" iperf3 blaster_bw
    row "bare UDP 8 B, half of the round trip, us" blaster_lat blaster_lat
    row "ib_write_lat 8 B, us" write_lat blaster_lat
    row "ib_send_lat 8 B, us" send_lat blaster_lat
    [ $place = loopback ] || continue
    row "tutti_put_signal 8 B, half of the round trip, us" put_lat blaster_lat
    row "the same" put_lat write_lat "ib_write_lat"
    row "tutti_put 64 KiB, groups of 16, MB/s" put_bw write_bw "ib_write_bw"
    row "the same" put_bw write16_bw "ib_write_bw, 16 under way"
    row "tutti_put 1 MiB, groups of 16, MB/s" put_long_bw write_bw "ib_write_bw"
done
