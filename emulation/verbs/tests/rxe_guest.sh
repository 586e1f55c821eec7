#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ours against the kernel's soft-RoCE: boots Debian's kernel with rdma_rxe in QEMU, linked to a network namespace by a
# tap, and runs the pingpongs, perftest and invalidate.c (memory windows) between guest (rxe) and host (ours), each in
# both roles. Needs root, qemu-system-x86_64, linux-image-amd64, busybox-static, cpio, ibverbs-utils, perftest, rdma,
# ip, tcpdump, tshark, cc and libibverbs-dev.
# About three minutes; waits long enough for a machine that has other work.
# Usage: rxe_guest.sh FOLDER-OF-SOFTVERBS [PCAP]
set -u
lib=$(realpath "$1")
ns=svrxe$$
work=$(mktemp -d)
PATH=$PATH:$work
pcap=${2:-$work/cap}
kernel=$(ls /lib/modules 2>/dev/null | head -1)
for need in qemu-system-x86_64 busybox cpio ib_write_bw ibv_rc_pingpong rdma ip tcpdump tshark cc; do
    command -v $need >/dev/null || { echo "rxe_guest: SKIPPED: no $need"; exit 77; }
done
[ "$(id -u)" = 0 ] && [ -n "$kernel" ] || { echo "rxe_guest: SKIPPED: needs root and linux-image-amd64"; exit 77; }
pids=()
clean() {
    kill "${pids[@]}" 2>/dev/null
    wait 2>/dev/null
    ip netns del $ns 2>/dev/null
    rm -rf "$work"
}
trap clean EXIT

guest_files() {
    local root=$work/root p m
    cc -o $work/invalidate "$(dirname "$0")/invalidate.c" -libverbs || exit 1
    mkdir -p $root/{bin,proc,sys,dev,etc,tmp,modules,run} $root/sys
    cp "$(command -v busybox)" $root/bin/busybox
    for p in ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ib_write_bw ib_write_lat ib_read_bw ib_read_lat \
        ib_send_bw ib_send_lat ib_atomic_bw ibv_devinfo invalidate rdma ip; do
        cp -L "$(command -v $p)" $root/bin/real_$p
        ldd "$(command -v $p)" | grep -o '/[^ ]*' |
            while read -r so; do mkdir -p "$root$(dirname "$so")"; cp -nL "$so" "$root$so"; done
    done
    # providers are opened by name: the rxe one, and what says which there are
    mkdir -p $root/usr/lib/x86_64-linux-gnu/libibverbs $root/etc/libibverbs.d
    cp -L /usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so $root/usr/lib/x86_64-linux-gnu/libibverbs/
    echo "driver rxe" >$root/etc/libibverbs.d/rxe.driver
    : >$work/order
    for m in virtio_pci virtio_net crc32_generic rdma_rxe; do
        modprobe -S $kernel --show-depends $m | awk '/^insmod/ { print $2 }' >>$work/order
    done
    awk '!seen[$0]++' $work/order |
        while read -r m; do cp "$m" $root/modules/; echo "/modules/$(basename "$m")"; done >$root/modules/order
    cat >$root/init <<'I'
#!/bin/busybox sh
/bin/busybox mkdir -p /bin /dev
/bin/busybox --install -s /bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev; mount -t tmpfs t /tmp
while read -r m; do insmod $m || echo "insmod $m failed"; done </modules/order
ulimit -l unlimited
ip link set lo up
ip addr add 10.99.0.2/24 dev eth0; ip link set eth0 mtu 4200; ip link set eth0 up
/bin/real_rdma link add rxe0 type rxe netdev eth0
cat /sys/class/infiniband/rxe0/ports/1/gids/* | head -3
echo GUEST-READY
while true; do nc -ll -p 9000 -e /bin/sh; done # each line at once, also while another runs
I
    chmod +x $root/init
    (cd $root && find . | cpio -o -H newc --quiet | gzip -1 >$work/initrd)
}

patience=150 # seconds: the processor of the guest is emulated
guest() { # runs a line in the guest, prints what it prints; the last line is its exit status
    ip netns exec $ns timeout $((patience + 30)) busybox nc -w $((patience + 10)) 10.99.0.2 9000 \
        <<<"($1) 2>&1; echo guest-status \$?; exit"
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
ip netns add $ns
ip -n $ns link set lo up
ip -n $ns tuntap add dev tap0 mode tap
ip -n $ns addr add 10.99.0.1/24 dev tap0
ip -n $ns link set tap0 mtu 4200 up
ip netns exec $ns qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 1024 -nographic -no-reboot \
    -netdev tap,id=n0,ifname=tap0,script=no,downscript=no -device virtio-net-pci,netdev=n0,host_mtu=4200 \
    -kernel /boot/vmlinuz-$kernel -initrd $work/initrd -append "console=ttyS0 panic=-1 quiet" \
    </dev/null >$work/console 2>&1 &
pids+=($!)
for _ in $(seq 600); do grep -q GUEST-READY $work/console && break; sleep 0.5; done
grep -q GUEST-READY $work/console || { echo "rxe_guest: the guest did not come up"; tail $work/console; exit 1; }
ip netns exec $ns tcpdump -i tap0 -B 65536 -s 200 -w "$pcap" --immediate-mode udp port 4791 2>$work/tcpdump & capture=$!
pids+=($capture)
for _ in $(seq 100); do grep -q listening $work/tcpdump 2>/dev/null && break; sleep 0.1; done
# the shell server listens a moment after it said so
for _ in $(seq 100); do
    gid=$(guest 'cat /sys/class/infiniband/rxe0/ports/1/gids/1' 2>/dev/null) && break
    sleep 0.2
done
echo "guest gid 1: $(head -1 <<<"$gid")"
for role in guest_is_server guest_is_client; do
    $role invalidate "-g 0" -g 1
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
