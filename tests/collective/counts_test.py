#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What black boxes count of a known traffic, and which events they note.
Usage: counts_test.py TUTTI PROGRAM shm|tcp|verbs"""
import json
import os
import subprocess
import sys
import tempfile

SMALL, LARGE, TIMES = 8, 4 << 20, 10  # as in counts.c
ORDER = ("join", "join_end", "comm_init", "comm_fini", "comm_failed", "comm_abort")


def boxes(tutti, program, over, folder):
    """{rank: what its process left}"""
    env = {**os.environ, "TUTTI_TRACE_DIR": folder, "TUTTI_TRANSPORT": over, "TUTTI_DEBUG": "none", "TUTTI_TRACE": "1"}
    subprocess.run([tutti, "run", "-n", "2", "--timeout", "60", "--", program], env=env, check=True)
    shown = subprocess.run([tutti, "trace", "--dead", "--json"], env=env, check=True, stdout=subprocess.PIPE)
    return {box["communicators"][0]["rank"]: box for box in json.loads(shown.stdout)["processes"]}


def judge(rank, box, over):
    """Sentences: what is not as it was done."""
    counted, events = box["counters"], [event["kind"] for event in box["events"]]
    moved = counted[f'{"received" if rank else "sent"}_bytes{{transport="{over}"}}']
    back = counted[f'{"sent" if rank else "received"}_bytes{{transport="{over}"}}']
    others = {"shm": ("tcp", "verbs"), "tcp": ("shm", "verbs"), "verbs": ("shm",)}[over]
    other = sum(counted[f'{way}_bytes{{transport="{name}"}}'] for way in ("sent", "received") for name in others)
    if over == "verbs":  # with messages, from when its lanes are up
        before = counted[f'{"received" if rank else "sent"}_bytes{{transport="tcp"}}']
        if moved < LARGE + SMALL * (TIMES - 1) or before > 512:
            yield f"{before} and {moved} bytes went to rank 1 by TCP and by RDMA"
        moved += before
    messages = counted["messages_received" if rank else "messages_sent"]
    if not LARGE + SMALL * TIMES <= moved <= LARGE + SMALL * TIMES + 16384:
        yield f"{moved} bytes went to rank 1"
    if not 0 < back < 16384 or other:
        yield f"{back} bytes came back, {other} by another transport"
    if not TIMES <= messages <= TIMES + 40:
        yield f"{messages} messages to rank 1"
    if (counted["segments_sent"] == 0) != (rank == 1) or counted["segments_repeated"]:
        yield f"{counted['segments_sent']} segments sent, {counted['segments_repeated']} again"
    if (counted["shared_bytes"] == 0) != (over != "shm"):
        yield f"{counted['shared_bytes']} bytes read directly"
    if (counted["registrations"], counted["registered_bytes"]) != ((1, LARGE) if over == "verbs" else (0, 0)):
        yield f"{counted['registrations']} registrations of {counted['registered_bytes']} bytes"
    if counted["communicators_made"] != 2 or counted["operations"] < 11:
        yield f"{counted['communicators_made']} communicators, {counted['operations']} operations"
    noted = [kind for kind in events if kind in ORDER]
    if noted != list(ORDER):
        yield f"events {noted}"
    if events.count("link_up") != 1 or "lane_up" not in events:
        yield f"links and lanes: {events}"


def attempt(tutti, program, over):
    with tempfile.TemporaryDirectory() as folder:
        found = boxes(tutti, program, over, folder)
    wrong = [f"rank {rank}: {what}" for rank, box in found.items() for what in judge(rank, box, over)]
    if sorted(found) != [0, 1]:
        wrong.append(f"boxes of ranks {sorted(found)}")
    return wrong


def main():
    tutti, program, over = sys.argv[1:]
    wrong = attempt(tutti, program, over)
    for _ in range(9):  # until lanes over RDMA are up, all goes by TCP
        if not any(what.endswith("by TCP and by RDMA") for what in wrong):
            break
        wrong = attempt(tutti, program, over)
    print("\n".join(wrong) or "all counted")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
