# SPDX-License-Identifier: Apache-2.0
"""The meeting of PyTorch's ranks under any launcher: init_process_group(..., init_method="tutti://").

PyTorch's own env:// wants RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which mpirun, mpiexec and srun do not set. The
library knows all launchers; its communicator tells the ranks where rank 0's store listens.
"""
from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from ..comm import Communicator, init

SCHEME = "tutti"
PLACE_BYTES = 64  # of "address port"


def _check(url: str, rank: int, size: int) -> None:
    """What the caller said of rank and world_size must be what the launcher says."""
    said = urllib.parse.parse_qs(urllib.parse.urlparse(url).query)
    for name, launcher in (("rank", rank), ("world_size", size)):
        if name in said and said[name] != [str(launcher)]:
            raise ValueError(f"init_process_group(): {name} is {said[name][0]}, but {launcher} by the launcher")


def _host(comm: Communicator) -> str:
    return "127.0.0.1" if comm.local[1] == comm.size else comm.address(0)  # a number: not all hosts know "localhost"


def _store(comm: Communicator, timeout: timedelta) -> Any:
    place = bytearray(PLACE_BYTES)
    store = None
    if comm.rank == 0:
        store = dist.TCPStore(_host(comm), 0, comm.size, True, timeout, False)
        text = f"{_host(comm)} {store.port}".encode()
        place[:len(text)] = text
    comm.broadcast(place, root=0)
    host, port = place.rstrip(b"\0").decode().split()
    return store or dist.TCPStore(host, int(port), comm.size, False, timeout, False)


def meet(url: str, timeout: timedelta = dist.default_pg_timeout, **_: Any) -> Iterator[tuple[Any, int, int]]:
    """The handler of tutti:// for torch.distributed.rendezvous()."""
    with init(name="rendezvous") as comm:
        _check(url, comm.rank, comm.size)
        met = (_store(comm, timeout), comm.rank, comm.size)
    yield met
    raise RuntimeError("ranks cannot meet anew by tutti://: start the job anew")
