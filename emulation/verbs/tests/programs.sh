#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Debian's own RDMA programs, unmodified, on the emulator, in a network namespace of their own; everything they send is
# captured and must pass tshark without a malformed frame. Group lossy runs the reliable ones with faults.
# Usage: programs.sh SOFTVERBS GROUP  (pingpong, perftest, lossy, ucx or rdmacm)
set -u
bin=$(dirname "$(realpath "$1")")
group=$2
[ -z "${MESON_EXE_WRAPPER:-}" ] || {
    echo "programs: SKIPPED: this machine's RDMA programs cannot load a library for another processor"
    exit 77
}
ns=svprog$$
work=$(mktemp -d)
pids=()
skip() { echo "programs: SKIPPED: $1"; exit 77; }
case $group in
pingpong) needs="ibv_devices ibv_devinfo ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong
    ibv_xsrq_pingpong" ;;
perftest | lossy) needs="ib_write_bw ib_write_lat ib_read_bw ib_read_lat ib_send_bw ib_send_lat ib_atomic_bw
    ibv_rc_pingpong" ;;
ucx) needs="ucx_perftest" ;;
rdmacm) needs="rping ucmatose udaddy rdma_server rdma_client riostream rcopy io_demo ib_write_bw
    fi_pingpong fio" ;;
*) echo "programs: unknown group $group"; exit 2 ;;
esac
for need in ip ethtool tshark tcpdump $needs; do command -v $need >/dev/null || skip "no $need"; done
ip netns add $ns 2>/dev/null || skip "may not make a network namespace"
clean() {
    [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null
    wait 2>/dev/null
    ip netns del $ns
    rm -rf "$work"
}
trap clean EXIT
ip -n $ns link set lo up
capture() {
    # a capture shows packets as they are on a wire only when the kernel cuts super-packets before it
    ip netns exec $ns ethtool -K lo tx-udp-segmentation off >/dev/null 2>&1
    ip netns exec $ns tcpdump -i lo -B 65536 -s 128 -w $work/cap --immediate-mode udp port 4791 2>$work/tcpdump &
    pids+=($!)
    for _ in $(seq 100); do grep -q listening $work/tcpdump 2>/dev/null && break; sleep 0.1; done
}
[ $group = rdmacm ] || capture # whose packets are those of the other groups

export SOFTVERBS_POLL=sleep # the machine that tests has other work
run() { ip netns exec $ns timeout ${limit:-60} "$bin/softverbs" run -- "$@"; }
failed=0
check() { # name, status
    if [ "$2" = 0 ]; then
        echo "ok   $1"
    else
        failed=$((failed + 1))
        echo "FAIL $1"
        for side in client server; do echo "$side:"; grep -vE '^softverbs|^ *$|^---' $work/$side; done
    fi
}
# The client asks again until the server listens. ib_send_bw both ways with events (perftest 4.5-0.17, run_iter_bi())
# takes one event of two completion queues, looks at the sends' queue only if the receives' was empty, and then waits
# for an event of what it has left there. A queue that is armed tells of completions that made no event, but not of one
# that did: once in some hundred runs it stands still for ever. Once, and no more, that is tried again.
both() {
    local status
    once "$@"; status=$?
    [ $status != 124 ] || { echo "again $*: it stood still"; once "$@"; status=$?; }
    [ $status = 0 ] || ! lost_patience || return 3
    check "$*" $status
}
once() {
    run "$@" >$work/server 2>&1 & local server=$! status=1
    for _ in $(seq 40); do
        run "$@" 127.0.0.1 >$work/client 2>&1; status=$?
        [ $status = 0 ] && break
        grep -qiE "couldn't connect|refused|unable to connect|failed to connect|Can't connect|Couldn't connect" \
            $work/client || break
        sleep 0.25
    done
    wait $server || [ $status = 124 ] || status=1
    grep -h '^softverbs' $work/client $work/server >>$work/stats
    return $status
}
# A timeout of half a second, eight times: pauses of a machine that has other work do not count as a lost peer. Shorter
# where packets are lost, for many losses are only noticed by it.
perf() { both $1 -d soft_lo -x 0 -F -u ${timeout:-17} "${@:2}"; }
# The pingpong's timeout cannot be set and is short: where the machine paused for longer, again.
lost_patience() { [ -n "${again:-}" ] && grep -q 'retry counter exceeded' $work/client $work/server; }
patient() {
    local again
    for again in 1 2 3 ""; do both "$@"; [ $? = 3 ] || return 0; done
}
if [ $group = pingpong ]; then
    run ibv_devices >$work/client 2>&1 && grep -q soft_lo $work/client; check ibv_devices $?
    run ibv_devinfo -v >$work/client 2>&1 && grep -q 'RoCE v2' $work/client; check ibv_devinfo $?
    export SOFTVERBS_DEVICES=mlx5_7=lo@pci0000:10/0000:10:01.0/0000:12:00.0
    tool() { # what its output must hold, and the command; where it is installed
        command -v ${2%% *} >/dev/null || return 0
        run sh -c "$2" >$work/client 2>&1 && tr -s ' \t\n' '   ' <$work/client | grep -qF "$1"; check "$2" $?
    }
    tool "link mlx5_7/1 state ACTIVE physical_state LINK_UP netdev lo" "rdma link"
    tool "CA 'mlx5_7' CA type: softverbs Number of ports: 1" ibstat
    tool "Infiniband device 'mlx5_7' port 1 status: default gid: 0000:0000:0000:0000:0000:ffff:7f00:0001" ibstatus
    tool "1 ACTIVE" 'cd /sys/class/infiniband && cd mlx5_7/ports && read -r n state <1/state && echo * $state'
    tool "device -> /sys/devices/pci0000:10/0000:10:01.0/0000:12:00.0" "ls -l /sys/class/infiniband/mlx5_7"
    # as show_gids does, which Debian has not
    tool "/sys/class/infiniband/mlx5_7/ports/1/gids/0 0000:0000:0000:0000:0000:ffff:7f00:0001 RoCE v2 lo" \
        'for gid in /sys/class/infiniband/*/ports/*/gids/*; do
            attributes=${gid%/gids*}/gid_attrs index=${gid##*/}
            echo $gid `cat $gid $attributes/types/$index $attributes/ndevs/$index 2>/dev/null`
        done'
    tool 'cannot use SOFTVERBS_FAULT="drp=0.01": a list' "env SOFTVERBS_FAULT=drp=0.01 ibv_devices"
    tool 'cannot use SOFTVERBS_RATES="host=1gbit": a list' \
        "env SOFTVERBS_RATES=host=1gbit ibv_rc_pingpong -d mlx5_7 -g 0 127.0.0.1 || true" # refused: nobody listens
    unset SOFTVERBS_DEVICES
    patient ibv_rc_pingpong -g 0 -n 200
    patient ibv_rc_pingpong -g 0 -n 200 -e -m 4096 -s 20000
    patient ibv_rc_pingpong -g 1 -n 200 # IPv6
    patient ibv_rc_pingpong -g 0 -n 200 -N # ibv_wr_* calls
    patient ibv_rc_pingpong -g 0 -n 200 -t # completion timestamps, extended queue
    patient ibv_xsrq_pingpong -g 0 -n 200
    both ibv_uc_pingpong -g 0 -n 200
    both ibv_ud_pingpong -g 0 -n 200
elif [ $group = perftest ]; then
    for t in ib_write_bw ib_read_bw ib_send_bw; do perf $t -n 200; done
    perf ib_write_bw -n 200 -q 4 -b
    perf ib_send_bw -n 200 -q 4 -b -e
    perf ib_read_bw -n 200 -e
    perf ib_send_bw -n 200 -c UD -s 2048
    perf ib_send_bw -n 200 -c UC
    perf ib_send_bw -n 200 --use-srq
    perf ib_send_bw -n 200 -c XRC -q 2
    perf ib_write_bw -n 200 --use_old_post_send
    perf ib_write_bw -n 200 --tclass=104
    perf ib_atomic_bw -n 200
    perf ib_atomic_bw -n 200 -A CMP_AND_SWAP
    for t in ib_write_lat ib_read_lat ib_send_lat; do perf $t -n 200; done
    perf ib_send_lat -n 200 -e
elif [ $group = lossy ]; then # everything reliable, over a network that is not: each side treats both directions so
    faults=drop=0.01,dup=0.01,reorder=0.01 limit=120 timeout=15
    export SOFTVERBS_STATS=1
    # A pingpong ends without a goodbye: a last acknowledgement that is lost cannot come again.
    # So its faults end before it does.
    export SOFTVERBS_FAULT=$faults,seed=7,count=40
    patient ibv_rc_pingpong -g 0 -n 1000 -c
    patient ibv_rc_pingpong -g 0 -n 300 -c -e -m 4096 -s 20000
    export SOFTVERBS_FAULT=$faults,seed=8
    for t in ib_write_bw ib_read_bw ib_send_bw; do
        perf $t -n 200
        perf $t -n 50 -q 4 -b
    done
    perf ib_send_bw -n 100 -c XRC # by a shared queue of receives
    perf ib_atomic_bw -n 200
    perf ib_atomic_bw -n 200 -A CMP_AND_SWAP
    for t in ib_write_lat ib_read_lat ib_send_lat; do perf $t -n 200; done
elif [ $group = rdmacm ]; then # connections that librdmacm makes
    # Server and client are given whole: many take the address by an option. The client asks again while it is refused.
    try() {
        local server status=1
        run $1 >$work/server 2>&1 & server=$!
        for _ in $(seq 20); do # most servers have a port before they are asked
            ip netns exec $ns grep -q softverbs-cm/ /proc/net/unix && break
            sleep 0.05
        done
        for _ in $(seq 40); do
            run $2 >$work/client 2>&1; status=$?
            grep -qE "REJECTED|UNREACHABLE|CM event|rdma_connect|[Cc]onnection refused|rpoll|rconnect" \
                $work/client || break
            sleep 0.05
        done
        [ $status = 0 ] && wait $server || { status=1; wait $server; }
        return $status
    }
    # A server that does not end by itself.
    served() {
        ip netns exec $ns timeout 60 "$bin/softverbs" run -- $1 >$work/server 2>&1 & local server=$! status
        for _ in $(seq 100); do
            ip netns exec $ns grep -q softverbs-cm/ /proc/net/unix && break
            sleep 0.05
        done
        run $2 >$work/client 2>&1; status=$?
        kill $server
        wait $server
        verdict "$2" $status
    }
    verdict() { check "$1${SOFTVERBS_FAULT:+ with $SOFTVERBS_FAULT}" $2; }
    # rping's thread may ask for an event of a channel that rping has closed. fi_pingpong ends without a goodbye: where
    # its last acknowledgement is lost, the other end has all data, and then a request that is flushed, or that nobody
    # answers.
    ends_badly() {
        grep -q "rdma_get_cm_event: Bad file" $work/client $work/server ||
            { grep -qE "Work Request Flushed|retry counter exceeded" $work/client $work/server &&
                grep -q "^4k .*=10" $work/client && grep -q "^4k .*=10" $work/server; }
    }
    pair() {
        try "$@" || { ends_badly && try "$@"; }
        verdict "$2" $?
    }
    # What of a program cannot stand a loss is tried again, each time with other losses and for some seconds alone.
    tries() {
        local seed status=1 limit=6
        for seed in 1 2 3 4 5 6 7 8; do
            export SOFTVERBS_FAULT=drop=0.01,seed=$seed
            try "$@" && status=0 && break
        done
        verdict "$2" $status
    }
    at=10.84.0.1 # libfabric leaves the loopback device out
    ip -n $ns link add v0 type veth peer name w0
    ip -n $ns address add $at/24 dev v0
    ip -n $ns link set v0 up
    ip -n $ns link set w0 up
    printf '[global]\nioengine=rdma\nport=7500\nbs=64k\nsize=1m\n[job]\n' >$work/job
    (cat $work/job; echo rw=read) >$work/fio_server
    (cat $work/job; echo rw=write; echo hostname=$at; echo verb=write; echo iodepth=4) >$work/fio_client
    pair "rping -s -v -C 5 -a ::1" "rping -c -v -C 5 -a ::1"
    pair "udaddy -c 2" "udaddy -c 2 -s $at"
    pair "ib_write_bw -R -F -n 100" "ib_write_bw -R -F -n 100 $at"
    # Its datagrams: what is lost stays lost, and udaddy waits for that for ever, as on an adapter.
    tries "udaddy" "udaddy -s $at"
    # Debian's perftest (4.5-0.17) asks for a second connection as soon as the first one's message is there, perhaps
    # before its server listens: that waits for an acknowledgement, and a lost one comes after half a second. Refused,
    # it asks by an identifier that it has destroyed, and crashes. We ask for 1.2 s on, so that two must get lost.
    export SOFTVERBS_FAULT=drop=0.01,seed=9
    pair "ib_write_bw -R -F -n 10" "ib_write_bw -R -F -n 10 $at"
    pair "rping -s -v -C 10" "rping -c -v -C 10 -a 127.0.0.1"
    pair "ucmatose -c 3" "ucmatose -c 3 -s $at"
    pair "rdma_server" "rdma_client -s $at"
    pair "riostream -S 1000 -C 50 -I 1" "riostream -s $at -S 1000 -C 50 -I 1"
    head -c 300000 /dev/urandom >$work/file
    served rcopy "rcopy $work/file $at:$work/copy"
    cmp $work/file $work/copy; check "the copy is the file" $?
    pair "fi_pingpong -p verbs -e msg -I 10 -S 4096" "fi_pingpong -p verbs -e msg -I 10 -S 4096 $at"
    pair "fi_pingpong -p verbs;ofi_rxm -e rdm -I 10 -S 4096" "fi_pingpong -p verbs;ofi_rxm -e rdm -I 10 -S 4096 $at"
    pair "fio $work/fio_server" "fio $work/fio_client"
    export UCX_SOCKADDR_TLS_PRIORITY=rdmacm UCX_TLS=rc_verbs,ud_verbs # each block's content is checked
    served "io_demo -p 4000 -q" "io_demo -p 4000 -q -i 50 -d 4096 -o read,write $at"
    [ $failed = 0 ]
    exit
else
    export UCX_NET_DEVICES=soft_lo:1
    for tls in rc_verbs,ud_verbs ud_verbs; do
        export UCX_TLS=$tls
        both ucx_perftest -t tag_lat -n 300
        both ucx_perftest -t tag_bw -s 65536 -n 300
        both ucx_perftest -t ucp_put_bw -s 65536 -n 300
        both ucx_perftest -t ucp_get -s 8192 -n 300
    done
    export UCX_TLS=rc_verbs,ud_verbs UCX_RC_VERBS_TIMEOUT=70ms SOFTVERBS_FAULT=drop=0.01,seed=6
    both ucx_perftest -t tag_bw -s 65536 -n 50
    both ucx_perftest -t ucp_get -s 8192 -n 200
fi
sleep 1
kill ${pids[0]} && wait ${pids[0]}
pids=()
frames=$(tshark -r $work/cap -T fields -e infiniband.bth.opcode 2>/dev/null | grep -c .)
# tshark guesses at payloads (RPC over RDMA, an EtherType):
# what it finds wrong inside one of ours is the program's business
malformed=$(tshark -r $work/cap -Y '_ws.malformed' -T fields -e frame.protocols 2>/dev/null |
    grep -vc ':infiniband:[a-z]')
# frames are captured to 128 bytes: the pad and ICRC at their end are checked by the peers
strange=$(tshark -r $work/cap -Y 'udp.dstport == 4791 && !infiniband' 2>/dev/null | wc -l)
echo "captured $frames frames, $malformed malformed, $strange not decoded"
[ "$frames" -gt 100 ] && [ "$malformed" = 0 ] && [ "$strange" = 0 ] || failed=$((failed + 1))
if [ $group = lossy ]; then
    for fault in drop duplicate reorder; do
        n=$(awk -v name=fault_$fault '$3 == name { n += $4 } END { print n + 0 }' $work/stats)
        echo "$fault: $n packets"
        [ "$n" -gt 100 ] || failed=$((failed + 1))
    done
fi
if [ $group = perftest ]; then # DSCP 26 from the traffic class; source ports as flow labels give them
    marked=$(tshark -r $work/cap -Y 'ip.dsfield.dscp == 26' 2>/dev/null | wc -l)
    wrong=$(tshark -r $work/cap -Y 'udp.srcport < 49152' 2>/dev/null | wc -l)
    echo "$marked frames with the wanted DSCP, $wrong with a strange source port"
    [ "$marked" -gt 50 ] && [ "$wrong" = 0 ] || failed=$((failed + 1))
fi
[ $failed = 0 ]
