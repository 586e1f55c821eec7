# SPDX-License-Identifier: Apache-2.0
"""Cuts TCP connections between processes from outside, as a network does that fails."""
import ctypes
import os
import random
import socket
import struct
import time

GETFD = 438  # pidfd_getfd(2)
BYTES_ACKED = 120  # where struct tcp_info counts what the peer has acknowledged


def connections(pid):
    """Those of a process as sockets of this one; the caller closes them."""
    found = []
    try:
        process = os.pidfd_open(pid)
    except OSError:  # it has ended
        return found
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            if not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                continue
            fd = ctypes.CDLL(None).syscall(GETFD, process, int(name), 0)
            if fd >= 0:
                found.append(socket.socket(fileno=fd))
    except OSError:  # it ends, or has closed the socket meanwhile
        pass
    finally:
        os.close(process)
    return found


def carried(one):
    """Bytes that a TCP connection's peer has acknowledged; 0 of any other socket."""
    try:
        one.getpeername()
        if one.family not in (socket.AF_INET, socket.AF_INET6) or one.type != socket.SOCK_STREAM:
            return 0
        info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    except OSError:  # not connected
        return 0
    return struct.unpack_from("Q", info, BYTES_ACKED)[0] if len(info) >= BYTES_ACKED + 8 else 0


def cut_one(pids, least):
    """Shuts down one connection of the processes that has carried at least so many bytes. How many there were."""
    every = [one for pid in pids for one in connections(pid)]
    try:
        busy = [one for one in every if carried(one) >= least]
        if busy:
            random.choice(busy).shutdown(socket.SHUT_RDWR)
        return len(busy)
    except OSError:  # closed meanwhile
        return 0
    finally:
        for one in every:
            one.close()


class Cutter:
    """Called again and again with the processes: cuts one connection every `seconds`."""

    def __init__(self, seconds, least):
        self.seconds, self.least, self.next, self.cuts = seconds, least, time.monotonic() + seconds, 0

    def __call__(self, pids):
        if time.monotonic() < self.next:
            return
        self.cuts += cut_one(pids, self.least) > 0
        self.next = time.monotonic() + self.seconds
