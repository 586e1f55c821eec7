#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A device over a bond: boots Debian's kernel, which has the module, in QEMU. Two hosts in it, network namespaces, have
# two links to each other; each host bonds its two ends, and its device is that of the bond. By LACP both links carry
# frames, and one that is taken away while a program runs costs nothing. With a spare link the same, but for the load.
# Needs root, qemu-system-x86_64, linux-image-amd64, busybox-static, cpio, xz-utils, perftest, ibverbs-utils and ip.
# About three minutes, as the guest's processor is emulated.
# Usage: [GUEST_ROOT=FOLDER] bond_guest.sh FOLDER-OF-SOFTVERBS
set -u
lib=$(realpath "$1")
name=bond_guest
ns=svbond$$
work=$(mktemp -d)
for need in ib_write_bw ib_read_bw ibv_devinfo; do
    command -v $need >/dev/null || { echo "bond_guest: SKIPPED: no $need"; exit 77; }
done
. "$(dirname "$0")/guest.sh"
for p in ib_write_bw ib_read_bw ibv_devinfo ip timeout; do guest_program "$(command -v $p)"; done
mkdir $work/root/soft
cp -L $lib/libibverbs.so.1 $lib/libmlx5.so.1 $lib/libsoftverbs_paths.so $work/root/soft/
guest_modules virtio_pci virtio_net veth bonding
cat >$work/root/bond <<'I'
# Usage: bond MODE: hosts a and b anew, with bond0 each.
mode=$1
ip=/bin/real_ip
for host in a b; do $ip netns del $host 2>/dev/null; $ip netns add $host; done
for i in 1 2; do
    $ip link add a$i type veth peer name b$i
    for host in a b; do $ip link set $host$i netns $host; done
done
for host in a b; do
    in="$ip -n $host"
    $in link set lo up
    $in link add bond0 type bond mode $mode miimon 50 || exit 1
    [ $mode != 802.3ad ] || $in link set bond0 type bond xmit_hash_policy layer3+4 lacp_rate fast
    for i in 1 2; do $in link set $host$i master bond0 || exit 1; done
    for i in 1 2; do $in link set $host$i up; done
    [ $host = a ] && $in addr add 10.50.0.1/24 dev bond0 || $in addr add 10.50.0.2/24 dev bond0
    $in link set bond0 up
done
for i in `seq 100`; do
    $ip netns exec a ping -c 1 -W 1 10.50.0.2 >/dev/null 2>&1 && exit 0
done
exit 1
I
cat >$work/root/on <<'I'
# Usage: on HOST COMMAND: with the emulator, whose one device is that of the bond.
host=$1
shift
export LD_LIBRARY_PATH=/soft LD_PRELOAD=/soft/libsoftverbs_paths.so SOFTVERBS_DEVICES=soft=bond0 SOFTVERBS_POLL=sleep
exec /bin/real_ip netns exec $host "$@"
I
cat >$work/root/pair <<'I'
# Usage: pair LINK PROGRAM: server on b, client on a; LINK of a is taken away as soon as 1 MB went out by the bond.
link=$1
shift
sh /on b "$@" >/tmp/server 2>&1 & server=$!
until grep -qi ":4853 .* 0A " /proc/`pidof real_ib_write_bw real_ib_read_bw | awk '{print $1}'`/net/tcp* 2>/dev/null; do
    kill -0 $server || break
    sleep 0.2
done
count() { /bin/real_ip netns exec a cat /sys/class/net/$1/statistics/tx_packets; }
first=`count bond0`
sh /on a "$@" 10.50.0.2 >/tmp/client 2>&1 & client=$!
if [ $link != none ]; then
    until [ $((`count bond0` - first)) -gt 250 ]; do kill -0 $client || exit 9; sleep 0.05; done
    kill -0 $client || exit 9 # it must still run
    /bin/real_ip -n a link set $link down
fi
wait $client; status=$?
wait $server || status=8
/bin/real_ip -n a link set $link up 2>/dev/null
echo "status $status; frames by a1 `count a1`, by a2 `count a2`"
[ $status = 0 ] || tail -n 5 /tmp/client /tmp/server
exit $status
I
guest_boot '
ip addr add 10.99.0.2/24 dev eth0; ip link set eth0 mtu 4200; ip link set eth0 up
mkdir -p /var/run/netns /run/netns'

passed=0 failed=0
line() { # name, line, what must be in what it prints
    local text
    text=$(guest "$2")
    if grep -q 'guest-status 0' <<<"$text" && grep -qE "$3" <<<"$text"; then
        passed=$((passed + 1)); echo "ok   $1: $(grep -E "$3" <<<"$text" | head -1)"
    else
        failed=$((failed + 1)); echo "FAIL $1"; tail -12 <<<"$text"
    fi
}
both='frames by a1 [0-9]{3,}, by a2 [0-9]{3,}'
write="/bin/real_ib_write_bw -d soft -x 0 -F -q 8 -s 65536 -u 17"
line "802.3ad: the bond" "sh /bond 802.3ad; echo up \$?" "up 0"
line "802.3ad: the device" "sh /on a /bin/real_ibv_devinfo -d soft" "PORT_ACTIVE"
line "802.3ad: 8 queue pairs use both links" "sh /pair none $write -n 100" "$both"
line "802.3ad: a link is taken away" "sh /pair a1 $write -n 150" "status 0"
line "active-backup: the bond" "sh /bond active-backup; echo up \$?" "up 0"
line "active-backup: a link is taken away" "sh /pair a1 $write -n 150" "$both"
line "active-backup: READs" "sh /pair none ${write/write/read} -n 50" "status 0"
echo "passed $passed of $((passed + failed))"
[ $failed = 0 ]
