# SPDX-License-Identifier: Apache-2.0
"""A port of this host for a job's rank 0 to listen at.

A port that was free a moment ago may be somebody's by then: each connection
and each listener that names none is given one. So the port is held.

    held_port.py PROGRAM ARGUMENTS...     becomes the program, which holds a port, and has its number in HELD_PORT
"""
import os
import random
import socket
import sys

BELOW = (20000, 32000)  # below those that the system gives away, as other network namespaces do, too


def hold_port():
    """The socket that holds the port, until it is closed, and the port, of the loopback interface. Who sets
    SO_REUSEADDR, as tutti, PyTorch and Go do, may listen at it all the same."""
    held = socket.socket()
    while True:
        try:
            held.bind(("127.0.0.1", random.randrange(*BELOW)))
        except OSError:
            continue
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # after the bind: two must not hold one port
        return held, held.getsockname()[1]


if __name__ == "__main__":
    kept, number = hold_port()
    kept.set_inheritable(True)
    os.environ["HELD_PORT"] = str(number)
    os.execvp(sys.argv[1], sys.argv[1:])
