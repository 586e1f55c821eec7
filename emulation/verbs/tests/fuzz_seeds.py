#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes seeds for packet_fuzz: one frame of every operation, IPv4 and IPv6, plain and as a super-packet.
Usage: fuzz_seeds.py FOLDER"""
import os
import struct
import sys

HEADERS = {6: 16, 10: 16, 11: 20, 12: 16, 13: 4, 15: 4, 16: 4, 17: 4, 18: 12, 19: 28, 20: 28, 3: 4, 5: 4, 9: 4}


def frame(opcode, size, six):
    extra = HEADERS.get(opcode & 0x1f, 0) + (8 if opcode >> 5 == 3 else 0)
    roce = (struct.pack(">BBHII", opcode, 0x40, 0xffff, 0x123456, 0x80000001) + bytes(range(extra)) + bytes(size)
            + b"icrc")
    udp = struct.pack(">HHHH", 49152, 4791, 8 + len(roce), 0) + roce
    if six:
        return struct.pack(">IHBB", 6 << 28, len(udp), 17, 64) + bytes(32) + udp
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0) + bytes(8) + udp


os.makedirs(sys.argv[1], exist_ok=True)
for base in (0x00, 0x20, 0x60):
    for op in range(21):
        for six in (False, True):
            for segment in (b"\0\0", b"\0\x41"):
                name = f"{base + op:02x}-{six:d}-{segment[1]:d}"
                with open(os.path.join(sys.argv[1], name), "wb") as out:
                    out.write(segment + frame(base + op, 64, six))
