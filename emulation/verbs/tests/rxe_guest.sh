#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ours against the kernel's soft-RoCE: boots Debian's kernel with rdma_rxe in QEMU, linked to a network namespace by a
# tap, and runs the pingpongs, perftest and rxe_peer.c (memory windows; from Linux 6.2 on also atomic writes and
# flushes) between guest (rxe) and host (ours), each in both roles. Needs root, qemu-system-x86_64, linux-image-amd64,
# busybox-static, cpio, ibverbs-utils, perftest, rdma, ip, tcpdump, tshark, cc and libibverbs-dev.
# About three minutes, as the guest's processor is emulated; waits long enough for a machine that has other work.
# Usage: [GUEST_ROOT=FOLDER] rxe_guest.sh FOLDER-OF-SOFTVERBS [PCAP]
set -u
lib=$(realpath "$1")
name=rxe_guest
ns=svrxe$$
work=$(mktemp -d)
PATH=$PATH:$work
pcap=${2:-$work/cap}
for need in ib_write_bw ibv_rc_pingpong rdma tcpdump tshark cc; do
    command -v $need >/dev/null || { echo "rxe_guest: SKIPPED: no $need"; exit 77; }
done
. "$(dirname "$0")/guest.sh"
[ "$(printf '6.2\n%s' $kernel | sort -V | head -1)" = 6.2 ] && later=1 || later=

guest_files() {
    cc -D_GNU_SOURCE -o $work/rxe_peer "$(dirname "$0")/rxe_peer.c" -libverbs || exit 1
    for p in ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ib_write_bw ib_write_lat ib_read_bw ib_read_lat \
        ib_send_bw ib_send_lat ib_atomic_bw ibv_devinfo rxe_peer rdma ip; do
        guest_program "$(command -v $p)"
    done
    # providers are opened by name: the rxe one, and what says which there are
    guest_library $libraries/libibverbs/librxe-rdmav34.so
    mkdir -p $work/root/etc/libibverbs.d
    echo "driver rxe" >$work/root/etc/libibverbs.d/rxe.driver
    guest_modules virtio_pci virtio_net crc32_generic rdma_rxe
}

export SOFTVERBS_POLL=${SOFTVERBS_POLL:-sleep} # the processors are the guest's too
ours() {
    LD_LIBRARY_PATH=$lib LD_PRELOAD=$lib/libsoftverbs_paths.so SOFTVERBS_DEVICES=soft=tap0 \
        ip netns exec $ns timeout $patience "$@"
}

# A server that died never listens: then the client fails, and says why. Each test has a port of its own,
# so no old server answers.
port=18514
listener() { # a line that waits until somebody listens
    printf 'i=0; until grep -qi ":%04X .* 0A " /proc/net/tcp /proc/net/tcp6; do ' $port
    printf %s 'i=$((i+1)); [ $i -lt 300 ] || exit 1; sleep 0.2; done'
}
wait_for_guest() { guest "$(listener)" >/dev/null; }
wait_for_ours() { ip netns exec $ns sh -c "$(listener)"; }

passed=0 failed=0
verdict() { # name, status of ours, text of the guest
    if [ "$2" = 0 ] && grep -q 'guest-status 0' <<<"$3"; then
        passed=$((passed + 1)); echo "ok   $1"
    else
        failed=$((failed + 1)); echo "FAIL $1 (ours $2)"; tail -3 $work/ours; tail -3 <<<"$3"
    fi
}
guest_is_server() {
    port=$((port + 1))
    guest "timeout $patience /bin/real_$1 -p $port -d rxe0 ${*:3}" >$work/guest & local g=$!
    wait_for_guest
    ours $1 -p $port -d soft $2 "${@:5}" 10.99.0.2 >$work/ours 2>&1
    local s=$?
    wait $g
    verdict "$1 ${*:5}: ours is the client" $s "$(cat $work/guest)"
}
guest_is_client() {
    port=$((port + 1))
    ours $1 -p $port -d soft $2 "${@:5}" >$work/ours 2>&1 & local o=$!
    wait_for_ours
    local text
    text=$(guest "timeout $patience /bin/real_$1 -p $port -d rxe0 ${*:3} 10.99.0.1")
    wait $o
    verdict "$1 ${*:5}: ours is the server" $? "$text"
}

guest_files
guest_boot '
ip addr add 10.99.0.2/24 dev eth0; ip link set eth0 mtu 4200; ip link set eth0 up
/bin/real_rdma link add rxe0 type rxe netdev eth0'
ip netns exec $ns tcpdump -i tap0 -B 65536 -s 200 -w "$pcap" --immediate-mode udp port 4791 2>$work/tcpdump & capture=$!
pids+=($capture)
for _ in $(seq 100); do grep -q listening $work/tcpdump 2>/dev/null && break; sleep 0.1; done
gid=$(guest 'cat /sys/class/infiniband/rxe0/ports/1/gids/1')
echo "Linux $kernel, guest gid 1: $(head -1 <<<"$gid")"
for role in guest_is_server guest_is_client; do
    for what in window ${later:+atomic flush}; do $role rxe_peer "-g 0" -g 1 -o $what; done
    for t in rc uc ud; do $role ibv_${t}_pingpong "-g 0" -g 1 -n 200; done
    for t in ib_write_bw ib_read_bw ib_send_bw ib_atomic_bw ib_write_lat ib_read_lat ib_send_lat; do
        size="-s 65536"
        case $t in *lat) size="-s 64" ;; *atomic*) size="" ;; esac
        $role $t "-x 0" -x 1 -F -n 200 $size
    done
done
kill -INT $capture && wait $capture
frames=$(tshark -r "$pcap" -T fields -e infiniband.bth.opcode 2>/dev/null | grep -c .)
# as in programs.sh: what tshark guesses inside payloads does not count
malformed=$(tshark -r "$pcap" -Y '_ws.malformed' -T fields -e frame.protocols 2>/dev/null |
    grep -vc ':infiniband:[a-z]')
echo "passed $passed of $((passed + failed)); captured $frames frames, $malformed malformed"
[ $failed = 0 ] && [ "$frames" -gt 1000 ] && [ "$malformed" = 0 ]
