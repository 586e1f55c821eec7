# SPDX-License-Identifier: Apache-2.0
"""What an exchange whose lengths only GPUs know is told: shapes that can be checked without these."""
from __future__ import annotations

import ctypes
from typing import NamedTuple

from ._buffers import Buffer
from ._native import Dynamic


class Counts(NamedTuple):
    """What is read and written on the GPU, as int64."""

    split_rows: Buffer
    index_counts: Buffer
    indices: Buffer
    recv_splits: Buffer | None


def _rows(buffer: Buffer, argument: str, windows: int, row: int) -> int:
    """Rows of each of the windows that share the buffer."""
    if row < 1 or windows < 1 or buffer.count % (windows * row):
        raise ValueError(f"{argument} has {buffer.count} elements: no {windows} windows of rows of {row} elements")
    return buffer.count // (windows * row)


def describe_dynamic(send: Buffer, recv: Buffer, counts: Counts, row: int, windows: int, merged: bool,
                     ranks: int) -> Dynamic:
    """The C call's argument. `merged`: all windows of recv are one."""
    for name, buffer in counts._asdict().items():
        if buffer is not None and buffer.name != "int64":
            raise TypeError(f"{name} is of type {buffer.name}; it must be int64")
    splits = counts.split_rows.count
    if counts.index_counts.count != ranks:
        raise ValueError(f"index_counts has {counts.index_counts.count} entries; there are {ranks} ranks")
    if counts.recv_splits is not None and counts.recv_splits.count != ranks * splits:
        raise ValueError(f"recv_splits has {counts.recv_splits.count} entries; {ranks} ranks with {splits} splits each "
                         f"have {ranks * splits}")
    recv_rows = _rows(recv, "recv", 1 if merged else ranks, row)
    return Dynamic(ctypes.sizeof(Dynamic), row, splits, windows, counts.split_rows.address,
                   counts.index_counts.address, counts.indices.address, counts.indices.count,
                   _rows(send, "send", windows, row), recv_rows, 0 if merged else recv_rows,
                   counts.recv_splits.address if counts.recv_splits is not None else None)
