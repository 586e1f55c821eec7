# SPDX-License-Identifier: Apache-2.0
"""Collective communication between processes, on memory that they have: NumPy, PyTorch, CuPy, anything with a buffer.

Under `tutti run -n 4 python3 program.py`:

    import numpy, tutti
    comm = tutti.init()
    mine = numpy.full(3, comm.rank, "float32")
    comm.allreduce(mine)                        # in place: [6, 6, 6] on 4 ranks
    comm.destroy()

`import tutti.torch`, which PyTorch does by itself where the package was installed by pip,
makes "tutti" a backend of torch.distributed.
"""
from ._buffers import TYPES
from ._elastic import Elastic, ElasticInfo, Step
from ._errors import DeviceError, Error, InvalidArgument, InvalidUsage, RemoteError, Result, SystemFailure, Timeout
from ._events import Event, Events
from ._group import group
from ._native import HOST, library as _library
from ._pause import expect_pause
from ._window import Window
from ._work import Work
from .comm import OPS, Communicator, Op, OpName, alloc, init, init_all, init_new, init_rank, unique_id

_number = _library.tutti_get_version()
__version__ = f"{_number // 10000}.{_number // 100 % 100}.{_number % 100}"

for _thing in (Communicator, DeviceError, Elastic, ElasticInfo, Error, Event, Events, InvalidArgument, InvalidUsage,
               Op, RemoteError, Result, Step, SystemFailure, Timeout, Window, Work, expect_pause):
    _thing.__module__ = __name__  # what traces, help() and pickles name is what programs import

__all__ = ["HOST", "OPS", "TYPES", "Communicator", "DeviceError", "Elastic", "ElasticInfo", "Error", "Event", "Events",
           "InvalidArgument", "InvalidUsage", "Op", "OpName", "RemoteError", "Result", "Step", "SystemFailure",
           "Timeout", "Window", "Work", "alloc", "expect_pause", "group", "init", "init_all", "init_new", "init_rank",
           "unique_id"]
