# SPDX-License-Identifier: Apache-2.0
"""Contributions whose results are known exactly in all types: rank r has (i + r) % 3 + 1 at place i.
Everything repeats after 3 places."""
import math
import struct

PERIOD = 3
PACKED = {"int8": "b", "uint8": "B", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q", "half": "e",
          "float": "f", "double": "d"}
SMALL = {"f8e4m3": (3, 7), "f8e5m2": (2, 15)}  # bits of the mantissa, bias of the exponent
WHOLE = ("int8", "uint8", "int32", "uint32", "int64", "uint64")


def encode(kind, value):
    """A positive number as the bytes of that type; rounded to nearest, ties to even."""
    if kind == "bfloat16":
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        return struct.pack("<H", (bits + 0x7fff + (bits >> 16 & 1)) >> 16)
    if kind in SMALL:
        mantissa, bias = SMALL[kind]
        exponent = math.floor(math.log2(value))
        fraction = round((value / 2.0 ** exponent - 1) * (1 << mantissa))
        return bytes([((exponent + bias) << mantissa) + fraction])
    return struct.pack("<" + PACKED[kind], int(value) if kind in WHOLE else value)


def combine(op, values):
    if op in ("sum", "avg"):
        return sum(values) / (len(values) if op == "avg" else 1)
    return {"prod": math.prod, "max": max, "min": min}[op](values)


def stretch(kind, values, start, count):
    """`count` elements from place `start` of the endless repetition of values."""
    pattern = b"".join(encode(kind, v) for v in values)
    one = len(pattern) // len(values)
    skip = start % len(values) * one
    return (pattern * ((start % len(values) + count) // len(values) + 1))[skip:skip + count * one]


def own(kind, rank, start, count):
    return stretch(kind, [(i + rank) % PERIOD + 1 for i in range(PERIOD)], start, count)


def reduced(kind, op, ranks, start, count):
    return stretch(kind,
                   [combine(op, [(i + r) % PERIOD + 1 for r in range(ranks)]) for i in range(PERIOD)], start, count)


def exact(op, ranks):
    """Does every order of the operator give the same? A mean over 5, 6 or 7 is rounded."""
    return op != "avg" or ranks in (1, 2, 3, 4, 8)


def first_difference(got, wanted, width):
    """The place of the first element that differs, or None."""
    if got == wanted:
        return None
    if len(got) != len(wanted):
        return min(len(got), len(wanted)) // width
    low, high = 0, len(got)
    while high - low > 1:  # halves are compared as a whole: quick in Python, too
        middle = (low + high) // 2
        low, high = (low, middle) if got[low:middle] != wanted[low:middle] else (middle, high)
    return low // width
