# SPDX-License-Identifier: Apache-2.0
"""reach.py HOSTS FOLDER, in each host of a lab: every NIC of this host reaches every NIC of every other host.

HOSTS is what `tutti-lab hosts --json` says. A host asks and answers until all hosts have left a file in FOLDER.
"""
import json
import os
import select
import socket
import sys
import time

PORT = 9999
AGAIN = 0.1
PATIENCE = 60


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = json.load(file)
    own = os.environ["LAB_NODE"]
    others = [row["ipv4"] for row in rows if row["host"] != own]
    sockets = {}
    for row in rows:
        if row["host"] == own:
            sockets[row["ipv4"]] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sockets[row["ipv4"]].bind((row["ipv4"], PORT))
    missing = {(mine, other) for mine in sockets for other in others}
    hosts = {row["host"] for row in rows}
    deadline, ask = time.monotonic() + PATIENCE, 0
    while missing or not hosts <= set(os.listdir(sys.argv[2])):
        now = time.monotonic()
        if now > deadline:
            print(f"no answer: {sorted(missing)}")
            return 1
        if now >= ask:
            ask = now + AGAIN
            for mine, other in missing:
                sockets[mine].sendto(b"ask", (other, PORT))
        for ready in select.select(list(sockets.values()), [], [], AGAIN / 4)[0]:
            said, (other, _) = ready.recvfrom(16)
            if said == b"ask":
                ready.sendto(b"answer", (other, PORT))
            else:
                missing.discard((ready.getsockname()[0], other))
        if not missing:
            with open(os.path.join(sys.argv[2], own), "w", encoding="utf-8"):
                pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
