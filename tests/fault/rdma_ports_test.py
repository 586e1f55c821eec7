#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two ranks with two RDMA ports each, whose links go down and come back while every result is checked: traffic goes on
over the port that is left, over TCP where none is, and over those that are back; events of ports, which say so at once.
Then a peer with one port; the source ports of packets; and two jobs with planned ports, places or none, windows,
segments by distance, queue pairs, weights and backups all at once, beside faults that are drawn. Usage:
rdma_ports_test.py SOAK [SECONDS [SEED]]; with SECONDS the last alone, for this time: ports that go down, lose packets,
are black holes and are taken out. With TUTTI_TEST_BUSY=SECONDS instead: beside twenty busy loops, with the library's
own settings, no lane is given up and nobody blamed. All alarms are told, each minute and at the end."""
import contextlib
import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

from links import Other, ip, run_alone
from rdma_job import AT_ONCE, BEFORE_ADAPTERS, BOTH, PATIENCE, SOON, TUNED, Job, disturb, judge, tell

ROCE = (4791).to_bytes(2, "big")
BUSY = int(os.environ.get("TUTTI_TEST_BUSY", "0"))


def links_go_and_come(other):
    with Job(other, {}) as job:
        job.carries(BOTH)
        other.set("tp1", "down")
        job.carries(["tp0"], AT_ONCE)
        other.set("tp1", "up")
        job.carries(BOTH)
        for link in BOTH:
            other.set(link, "down")
        job.carries(["tm0"], AT_ONCE)
        other.set("tp1", "up")
        job.carries(["tp1"])
        other.set("tp0", "up")
        job.carries(BOTH)
        for link in BOTH:
            job.says(f"RDMA device soft_{link}:1: port error")
        judge(job)


def has_no_lanes(other, link):
    """No queue pair of the port is joined to a peer's, at either end."""
    end = time.monotonic() + SOON
    while any(re.search(rf"^qp 0x\w+ soft_{link} RTS", tell(side, "info"), re.M) for side in ([], other.inside)):
        assert time.monotonic() < end, f"lanes of {link} are up"
        time.sleep(0.02)


def events_end_lanes(other):
    """Packets are given up after 34 s at least, and lanes are probed after 60:
    before that only an event of the port can say."""
    slow = {"TUTTI_IB_TIMEOUT": "20"}
    with Job(other, slow, slow) as job:
        job.carries(BOTH)
        other.set("tp1", "down")
        has_no_lanes(other, "tp1")
        job.carries(["tp0"], SOON)
        other.set("tp1", "up")
        job.carries(BOTH)
        ip("address", "del", "10.83.1.1/24", "dev", "tp0")
        has_no_lanes(other, "tp0")
        job.carries(["tp1"], SOON)
        ip("address", "add", "10.83.1.1/24", "dev", "tp0")
        job.carries(BOTH)
        judge(job)


def a_peer_has_one_port(other):
    with Job(other, {"TUTTI_IB_HCA": "soft_tp1"}) as job:
        job.carries(["tp1"])
        job.says("verbs lane 8 does not come up")  # it would lead from one link to the other
        job.carries(["tp1"], AT_ONCE)
        judge(job)


def a_backup_stands_in(other):
    """It is idle, carries all while the other port is down, and is left again; both ends must be told."""
    kept = {"TUTTI_BACKUP": "soft_tp1", "TUTTI_FAILBACK": "300ms"}
    with Job(other, kept, kept) as job:
        job.carries_alone("tp0", "tp1")
        other.set("tp0", "down")
        job.carries(["tp1"], AT_ONCE)
        other.set("tp0", "up")
        job.carries_alone("tp0", "tp1")
        judge(job)


def one_link_loses_all(other):
    """Nobody is told, and neither probes nor the adapter would say so within the time: the other link goes on, which
    both ends are heard on. Over RDMA, whose messages go by the first port, and over TCP."""
    at_once = {"TUTTI_IB_TIMEOUT": "22", "TUTTI_LANE_SILENCE": "500ms"}  # the adapter would say so after 137 s
    for over in ({}, {"TUTTI_TRANSPORT": "tcp", "TUTTI_SOCKET_IFNAME": "tp"}):
        with Job(other, {**at_once, **over}, {**at_once, **over}) as job:
            job.carries(BOTH)
            for link, both in ((1, True), (2, False)):
                other.swallow(link, both)
                job.carries([f"tp{2 - link}"], BEFORE_ADAPTERS)
                other.pass_on(link)
                job.carries(BOTH)
            judge(job)


def lanes(job, other, rdma=True):
    """Queue pairs and connections that join the ranks."""
    sides = ([], other.inside) if rdma else ()
    pairs = [re.findall(r"^qp (0x\w+) \w+ RTS", tell(side, "info"), re.M) for side in sides]
    with open(f"/proc/{job.ranks[0].pid}/net/tcp", encoding="ascii") as rows:
        return pairs, sorted(tuple(row.split()[1:3]) for row in rows if row.split()[3] == "01")


def a_process_stands_still(other):
    """For longer than a probe and its answer may take: no lane is given up, of either transport."""
    soon = {"TUTTI_PROBE_AFTER": "300ms", "TUTTI_PROBE_TIMEOUT": "300ms", "TUTTI_LANE_SILENCE": "300ms",
            "TUTTI_IB_TIMEOUT": "18"}
    with Job(other, soon, soon) as job:
        job.carries(BOTH)
        before = lanes(job, other)
        job.ranks[1].send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        job.ranks[1].send_signal(signal.SIGCONT)
        job.carries(BOTH)
        after = lanes(job, other)
        judge(job)
    assert before == after, f"{before}\n{after}"


ALARMS = ("lanes_down", "links_lost", "lanes_suspected", "lanes_slow", "probes")  # a suspicion or a probe ends no lane


def alarms(folder):
    """({counter: both ranks' sum}, verdicts of `tutti diagnose`) by the black boxes in the folder."""
    tutti = os.path.join(os.path.dirname(sys.argv[1]), "..", "..", "cli", "tutti")
    look = subprocess.run([tutti, "trace", "--json", "--dir", folder], check=True, stdout=subprocess.PIPE).stdout
    verdicts = subprocess.run([tutti, "diagnose", "--dir", folder], check=False, stdout=subprocess.PIPE, text=True)
    boxes = [one["counters"] for one in json.loads(look)["processes"]]
    return ({name: sum(box[name] for box in boxes) for name in ALARMS},
            verdicts.stdout.splitlines()[:1] if verdicts.returncode else [])


def a_busy_machine_raises_no_alarm(other, seconds):
    """Twenty loops that do nothing leave the ranks little time: all lanes stay what they were."""
    usual = {name: None for name in TUNED}
    ways = {"verbs": {}, "tcp": {"TUTTI_TRANSPORT": "tcp", "TUTTI_SOCKET_IFNAME": "tp", "MASTER_PORT": "29501"}}
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(20)]
    soak, jobs, blamed = ("--seconds", str(seconds + 1000), "--resets", "0"), {}, []
    with contextlib.ExitStack() as stack:
        for one in loops:
            stack.callback(one.wait)
            stack.callback(one.kill)
        for way, over in ways.items():
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tutti-busy-"))
            own = {**usual, **over, "TUTTI_TRACE_DIR": folder}
            jobs[way] = stack.enter_context(Job(other, own, own, soak=soak)), folder
        for job, _ in jobs.values():
            job.carries(BOTH, 10 * PATIENCE)
        before, began = [lanes(jobs["verbs"][0], other), lanes(jobs["tcp"][0], other, False)], time.monotonic()
        while (left := began + seconds - time.monotonic()) > 0:
            time.sleep(min(left, 60))
            for way, (job, folder) in jobs.items():
                counts, verdicts = alarms(folder)
                blamed += verdicts
                print(f"{time.monotonic() - began:5.0f} s  {way}:",
                      ", ".join(f"{count} {name}" for name, count in counts.items()), *verdicts, flush=True)
                assert all(one.poll() is None for one in job.ranks), "a rank gave up"
                assert not counts["lanes_down"] and not counts["links_lost"], "a lane was given up"
        assert [lanes(jobs["verbs"][0], other), lanes(jobs["tcp"][0], other, False)] == before
        for job, _ in jobs.values():
            job.ranks[1].send_signal(signal.SIGTERM)
            assert [one.wait(10 * PATIENCE) for one in job.ranks] == [0, 0], "a rank has failed"
            print("\n".join(line for line in job.text().splitlines() if "total" in line), flush=True)
    assert not blamed, blamed


def heard(link, job, expected):
    """{address: source ports} of the packets of RoCE on the link, until all that are expected were there."""
    ports, end = {}, time.monotonic() + PATIENCE
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0) as tap:  # which hears nothing until it is bound
        tap.bind((link, 0x0003))  # all, as only so it hears what goes out
        tap.settimeout(PATIENCE)
        while any(not of <= ports.get(address, set()) for address, of in expected.items()):
            packet = tap.recv(2048)
            head = packet[0] % 16 * 4
            if packet[9] == socket.IPPROTO_UDP and packet[head + 2:head + 4] == ROCE:
                ports.setdefault(socket.inet_ntoa(packet[12:16]), set()).add(
                    int.from_bytes(packet[head:head + 2], "big"))
            assert time.monotonic() < end and job.ranks[0].poll() is None, f"{ports} instead of {expected}"
    return ports


def packets_have_the_planned_ports(other):
    """Four NICs at leaves of 4 uplinks, two lanes each: eq. 3 of the plan, reckoned here once more. Messages have a
    lane by the first port of each side, as if that were its only one."""
    links = {"tp0": {"10.83.1.1": 0, "10.83.1.2": 1}, "tp1": {"10.83.2.1": 5, "10.83.2.2": 2}}
    expected = {link: {nic: {0xC000 + uplink % 4 * 0x1000
                             for uplink in [2 * number, 2 * number + 1, *([number] if link == "tp0" else [])]}
                       for nic, number in numbers.items()} for link, numbers in links.items()}
    lanes = {"TUTTI_IB_LANES": "2"}
    with Job(other, {**lanes, "TUTTI_PATHS": "4:1,2"}, {**lanes, "TUTTI_PATHS": "4:0,5"}) as job:
        seen = {link: heard(link, job, numbers) for link, numbers in expected.items()}
        judge(job)
    assert seen == expected, seen


def all_at_once(number):
    """(settings of rank 0, of rank 1) of one of two jobs, of which each has the other's port as its backup. One tells
    places; the other goes by round trips."""
    common = {"TUTTI_LANE_SILENCE": "500ms", "TUTTI_IB_LANES": "2", "TUTTI_STRIPE": "arrival",
              "TUTTI_SEGMENTS": "rack=8K,zone=8K", "TUTTI_QUEUES": "zone=2,far=2", "TUTTI_SEGMENT": "32K",
              "TUTTI_WINDOWS": "zone=0/64K@70" if number else "", "TUTTI_BACKUP": f"soft_{BOTH[1 - number]}",
              "MASTER_PORT": str(29500 + number), "TORCHELASTIC_RUN_ID": f"rdma{number}"}
    return [{**common, "TUTTI_PATHS": paths, "TUTTI_PLACE": f"zone=z,rack={rank}" if number else ""}
            for rank, paths in enumerate(("4:0,5", "4:1,2"))]


def held(jobs):
    """[(descriptors, MiB resident)] of all ranks."""
    found = []
    for rank in (rank for job in jobs for rank in job.ranks):
        with open(f"/proc/{rank.pid}/statm", encoding="ascii") as pages:
            resident = int(pages.read().split()[1]) * resource.getpagesize() >> 20
        found.append((len(os.listdir(f"/proc/{rank.pid}/fd")), resident))
    return found


def random_faults(other, seconds, seed):
    chance, counts, end = random.Random(seed), {}, time.monotonic() + seconds
    soak = ("--seconds", str(seconds + 1000), "--resets", "1000", "--seed", str(seed))
    first, second = all_at_once(0), all_at_once(1)
    with Job(other, first[1], first[0], soak=soak) as job, Job(other, second[1], second[0], soak=soak) as beside:
        job.carries(BOTH)
        before = held((job, beside))
        while time.monotonic() < end:
            faults = [disturb(other, chance) for _ in range(chance.choice((1, 1, 2, 3)))]
            time.sleep(chance.uniform(0.05, min(3, seconds / 4)))
            for kind, undo in faults:
                undo()
                counts[kind] = counts.get(kind, 0) + 1
            time.sleep(chance.uniform(0, min(3, seconds / 4)))
            assert all(one.poll() is None for one in job.ranks + beside.ranks), f"a rank gave up, after {counts}"
        job.carries(BOTH)
        after = held((job, beside))
        for one in (job, beside):
            judge(one)
        print(f"seed {seed}, {seconds} s:", ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
        print("descriptors and MiB of each rank:", *(f"{old[0]} to {new[0]}, {old[1]} to {new[1]};"
                                                     for old, new in zip(before, after)))
        print("\n".join(line for one in (job, beside) for line in one.text().splitlines() if "total" in line))


def everything_at_once(other):
    random_faults(other, 3, 2)


def main():
    if len(sys.argv) > 2:
        seconds = int(sys.argv[2])
        with Other(["tm0", "tp0", "tp1"], seconds + 300) as other:
            random_faults(other, seconds, int(sys.argv[3]) if len(sys.argv) > 3 else 1)
        return
    if BUSY:
        with Other(["tm0", "tp0", "tp1"], BUSY + 3000) as other:
            a_busy_machine_raises_no_alarm(other, BUSY)
        return
    with Other(["tm0", "tp0", "tp1"]) as other:
        for test in (links_go_and_come, events_end_lanes, one_link_loses_all, a_process_stands_still,
                     a_peer_has_one_port, a_backup_stands_in, packets_have_the_planned_ports, everything_at_once):
            test(other)
            print(test.__name__, "passed", flush=True)


run_alone(main, "RDMA ports that go down were")
