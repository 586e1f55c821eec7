#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes seeds for packet_fuzz: one frame of every operation, IPv4 and IPv6, plain and as a super-packet. For
rdmacm_fuzz: one message of every type for every state.
Usage: fuzz_seeds.py FOLDER packet|rdmacm"""
import os
import struct
import sys

HEADERS = {6: 16, 10: 16, 11: 20, 12: 16, 13: 4, 15: 4, 16: 4, 17: 4, 18: 12, 19: 28, 20: 28, 3: 4, 5: 4, 9: 4,
           22: 4, 23: 4, 28: 20, 29: 16}
OPERATIONS = [*range(21), 22, 23, 28, 29]


def frame(opcode, size, six):
    extra = HEADERS.get(opcode & 0x1f, 0) + {3: 8, 5: 4}.get(opcode >> 5, 0)
    roce = (struct.pack(">BBHII", opcode, 0x40, 0xffff, 0x123456, 0x80000001) + bytes(range(extra)) + bytes(size)
            + b"icrc")
    udp = struct.pack(">HHHH", 49152, 4791, 8 + len(roce), 0) + roce
    if six:
        return struct.pack(">IHBB", 6 << 28, len(udp), 17, 64) + bytes(32) + udp
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0) + bytes(8) + udp


def packets():
    for base in (0x00, 0x20, 0x60, 0xa0):
        for op in OPERATIONS:
            for six in (False, True):
                for segment in (b"\0\0", b"\0\x41"):
                    yield f"{base + op:02x}-{six:d}-{segment[1]:d}", segment + frame(base + op, 64, six)


def messages():
    for kind in range(8):
        for state in range(13):
            for number in range(1, 10):
                head = struct.pack(">4sBBBBHHH", b"SVCM", 1, number, 8, 0, 0x106, 7471, 40000)
                message = head + bytes(2) + struct.pack(">IIII", 1, 2, 3, 4) + bytes(8) + b"private."
                yield f"{kind}-{state}-{number}", bytes((kind, state)) + message


os.makedirs(sys.argv[1], exist_ok=True)
for name, seed in messages() if sys.argv[2] == "rdmacm" else packets():
    with open(os.path.join(sys.argv[1], name), "wb") as out:
        out.write(seed)
