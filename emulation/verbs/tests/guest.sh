# SPDX-License-Identifier: Apache-2.0
# Sourced by rxe_guest.sh and bond_guest.sh: Debian's kernel in QEMU, with programs of this machine, and a line of a
# shell at a time. A folder GUEST_ROOT with packages of a later Debian (dpkg-deb -x) gives the kernel, and the libraries
# that it has: linux-image, libc6, libibverbs1, ibverbs-providers, libnl-3-200, libnl-route-3-200. The one who sources
# this has set name, work (a new folder) and ns (a network namespace).
# GUEST_PATIENCE half seconds may pass until it is up.
from=${GUEST_ROOT:-}
kernel=$(ls "$from/lib/modules" 2>/dev/null | sort -V | tail -1)
for need in qemu-system-x86_64 busybox cpio xz depmod ip; do
    command -v $need >/dev/null || { echo "$name: SKIPPED: no $need"; exit 77; }
done
[ "$(id -u)" = 0 ] && [ -n "$kernel" ] || { echo "$name: SKIPPED: needs root and linux-image-amd64"; exit 77; }
pids=()
clean() {
    kill "${pids[@]}" 2>/dev/null
    wait 2>/dev/null
    ip netns del $ns 2>/dev/null
    rm -rf "$work"
}
trap clean EXIT
libraries=/usr/lib/x86_64-linux-gnu

# The later one where there are two.
guest_library() {
    local later=$from/usr${1#/usr}
    [ -e "$later" ] || later=$1
    mkdir -p "$work/root$(dirname "$1")"
    cp -nL "$later" "$work/root$1"
}
guest_program() { # FILE [NAME]
    local so
    cp -L "$1" $work/root/bin/real_${2:-$(basename "$1")}
    ldd "$1" | grep -o '/[^ ]*' | while read -r so; do guest_library "$so"; done
}
guest_modules() { # loaded in this order, with what they need
    local m
    [ -e "$from/lib/modules/$kernel/modules.dep" ] || depmod -b "$from" $kernel
    for m in "$@"; do
        modprobe -d "${from:-/}" -S $kernel --show-depends $m | awk '/^insmod/ { print $2 }'
    done | awk '!seen[$0]++' | while read -r m; do
        cp "$m" $work/root/modules/
        m=$work/root/modules/$(basename "$m")
        case $m in *.xz) xz -d "$m"; m=${m%.xz} ;; esac
        echo "/modules/$(basename "$m")"
    done >$work/root/modules/order
}
mkdir -p $work/root/{bin,proc,sys,dev,etc,tmp,modules,run}
cp "$(command -v busybox)" $work/root/bin/busybox

# Boots with what the caller's lines of a shell set up; the rest of the arguments is QEMU's.
guest_boot() {
    { cat <<'I'
#!/bin/busybox sh
/bin/busybox mkdir -p /bin /dev
/bin/busybox --install -s /bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev; mount -t tmpfs t /tmp
while read -r m; do insmod $m || echo "insmod $m failed"; done </modules/order
ulimit -l unlimited
ip link set lo up
I
        echo "$1"
        echo 'echo GUEST-READY'
        echo 'while true; do nc -ll -p 9000 -e /bin/sh; done # each line at once, also while another runs'
    } >$work/root/init
    chmod +x $work/root/init
    (cd $work/root && find . | cpio -o -H newc --quiet | gzip -1 >$work/initrd)
    ip netns add $ns
    ip -n $ns link set lo up
    ip -n $ns tuntap add dev tap0 mode tap
    ip -n $ns addr add 10.99.0.1/24 dev tap0
    ip -n $ns link set tap0 mtu 4200 up
    ip netns exec $ns qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 1024 -nographic \
        -no-reboot -netdev tap,id=n0,ifname=tap0,script=no,downscript=no \
        -device virtio-net-pci,netdev=n0,host_mtu=4200 -kernel "$from/boot/vmlinuz-$kernel" -initrd $work/initrd \
        -append "console=ttyS0 panic=-1 quiet" "${@:2}" </dev/null >$work/console 2>&1 &
    pids+=($!)
    for _ in $(seq ${GUEST_PATIENCE:-600}); do
        grep -q GUEST-READY $work/console || ! kill -0 ${pids[-1]} 2>/dev/null && break
        sleep 0.5
    done
    grep -q GUEST-READY $work/console || { echo "$name: the guest did not come up"; tail $work/console; exit 1; }
    # the shell server listens a moment after it said so
    for _ in $(seq 100); do guest true >/dev/null 2>&1 && break; sleep 0.2; done
}

patience=150 # seconds: the processor of the guest may be emulated
guest() { # runs a line in the guest, prints what it prints; the last line is its exit status
    ip netns exec $ns timeout $((patience + 30)) busybox nc -w $((patience + 10)) 10.99.0.2 9000 \
        <<<"($1) 2>&1; echo guest-status \$?; exit"
}
