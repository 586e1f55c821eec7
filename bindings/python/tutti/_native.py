# SPDX-License-Identifier: Apache-2.0
"""The C library by ctypes: where it is, and the signatures of its calls. ctypes releases the GIL in each of them."""
from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char, c_char_p, c_double, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p

from ._errors import error_of

SONAME = "libtutti.so.0"
HERE = os.path.dirname(os.path.abspath(__file__))
HOST = -1


class UniqueId(ctypes.Structure):
    """tutti_unique_id_t."""

    _fields_ = [("bytes", c_char * 128)]


class Config(ctypes.Structure):
    """tutti_config_t."""

    _fields_ = [("size", c_size_t), ("blocking", c_int), ("timeout_ms", c_int), ("name", c_char_p), ("device", c_int),
                ("blocks", c_int), ("policy", c_int)]


class SignalWait(ctypes.Structure):
    """tutti_signal_wait_t."""

    _fields_ = [("peer", c_int), ("signal", c_int), ("count", c_uint)]


class Dynamic(ctypes.Structure):
    """tutti_dynamic_t."""

    _fields_ = [("size", c_size_t), ("row", c_size_t), ("splits", c_int), ("windows", c_int), ("split_rows", c_void_p),
                ("index_counts", c_void_p), ("indices", c_void_p), ("index_room", c_size_t), ("send_rows", c_size_t),
                ("recv_rows", c_size_t), ("recv_stride", c_size_t), ("recv_splits", c_void_p)]


class EventStruct(ctypes.Structure):
    """tutti_event_t."""

    _fields_ = [("size", c_size_t), ("kind", c_int), ("rank", c_int), ("lane", c_int), ("process", c_uint32),
                ("missed", c_uint32), ("time_ns", c_uint64), ("text", c_char * 512)]


class ElasticConfig(ctypes.Structure):
    """tutti_elastic_config_t."""

    _fields_ = [("size", c_size_t), ("timeout_ms", c_int), ("minimum", c_int), ("unit", c_int), ("shard", c_int),
                ("device", c_int), ("chunk_bytes", c_size_t), ("chunks", c_int)]


class ElasticStep(ctypes.Structure):
    """tutti_elastic_step_t."""

    _fields_ = [("size", c_size_t), ("step", c_uint64), ("generation", c_uint64), ("members", c_int), ("units", c_int),
                ("tries", c_int), ("scale", c_double), ("set", POINTER(c_int))]


class ElasticState(ctypes.Structure):
    """tutti_elastic_state_t."""

    _fields_ = [("size", c_size_t), ("steps", c_uint64), ("generation", c_uint64), ("members", c_int),
                ("units", c_int), ("member", c_int), ("unit", c_int), ("shard", c_int), ("host_bytes", c_size_t),
                ("device_bytes", c_size_t)]


def _load() -> ctypes.CDLL:
    """The library that the wheel carries, else the one that the dynamic linker finds."""
    carried = os.path.join(HERE, "_carried", "lib", SONAME)
    try:
        return ctypes.CDLL(carried if os.path.exists(carried) else SONAME)
    except OSError as error:
        raise ImportError(f"{SONAME} cannot be loaded ({error}): install the package by pip, which builds and carries "
                          "the library, or put the folder of the library into LD_LIBRARY_PATH") from None


library = _load()

_SIZES = POINTER(c_size_t)
_COMM = c_void_p
# Calls that return a tutti_result_t, with the kinds of their arguments.
_CALLS = {
    "get_unique_id": [POINTER(UniqueId)],
    "comm_init_rank": [POINTER(_COMM), c_int, POINTER(UniqueId), c_int, POINTER(Config)],
    "comm_init_from_env": [POINTER(_COMM), POINTER(Config)],
    "comm_init_all": [POINTER(_COMM), c_int],
    "comm_split": [_COMM, c_int, c_int, POINTER(_COMM), POINTER(Config)],
    "comm_duplicate": [_COMM, POINTER(_COMM), POINTER(Config)],
    "comm_get_unique_id": [_COMM, POINTER(UniqueId)],
    "comm_grow": [_COMM, c_int, POINTER(UniqueId), c_int, POINTER(_COMM), POINTER(Config)],
    "comm_shrink": [_COMM, POINTER(c_int), c_int, POINTER(_COMM), POINTER(Config)],
    "comm_synchronize": [_COMM],
    "comm_finalize": [_COMM],
    "comm_destroy": [_COMM],
    "comm_abort": [_COMM],
    "comm_get_async_error": [_COMM, POINTER(c_int)],
    "comm_count": [_COMM, POINTER(c_int)],
    "comm_rank": [_COMM, POINTER(c_int)],
    "comm_local_rank": [_COMM, POINTER(c_int), POINTER(c_int)],
    "comm_address": [_COMM, c_int, c_char_p, c_size_t],
    "comm_device": [_COMM, POINTER(c_int)],
    "comm_memory": [_COMM, _SIZES, _SIZES],
    "expect_pause": [_COMM, c_char_p, c_int],
    "events_open": [POINTER(c_void_p), POINTER(c_int)],
    "events_next": [c_void_p, POINTER(EventStruct)],
    "events_close": [c_void_p],
    "elastic_init": [POINTER(c_void_p), _COMM, POINTER(ElasticConfig)],
    "elastic_allreduce_on": [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(ElasticStep)],
    "elastic_get_unique_id": [c_void_p, POINTER(UniqueId)],
    "elastic_grow": [c_void_p, c_int, POINTER(UniqueId)],
    "elastic_join": [POINTER(c_void_p), c_int, POINTER(UniqueId), c_int, POINTER(ElasticConfig)],
    "elastic_get_state": [c_void_p, POINTER(ElasticState)],
    "elastic_end": [c_void_p],
    "comm_register": [_COMM, c_void_p, c_size_t, POINTER(c_void_p)],
    "comm_deregister": [_COMM, c_void_p],
    "stream_create": [POINTER(c_void_p)],
    "stream_destroy": [c_void_p],
    "stream_synchronize": [c_void_p],
    "stream_query": [c_void_p],
    "mem_alloc": [POINTER(c_void_p), c_size_t],
    "mem_free": [c_void_p],
    "op_create_premul_sum": [POINTER(c_int), c_void_p, c_int, _COMM],
    "op_destroy": [c_int, _COMM],
    "allreduce": [c_void_p, c_void_p, c_size_t, c_int, c_int, _COMM, c_void_p],
    "reduce": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, _COMM, c_void_p],
    "broadcast": [c_void_p, c_void_p, c_size_t, c_int, c_int, _COMM, c_void_p],
    "allgather": [c_void_p, c_void_p, c_size_t, c_int, _COMM, c_void_p],
    "reduce_scatter": [c_void_p, c_void_p, c_size_t, c_int, c_int, _COMM, c_void_p],
    "scan": [c_void_p, c_void_p, c_size_t, c_int, c_int, _COMM, c_void_p],
    "allgatherv": [c_void_p, c_void_p, _SIZES, _SIZES, c_int, _COMM, c_void_p],
    "reduce_scatterv": [c_void_p, _SIZES, _SIZES, c_void_p, c_int, c_int, _COMM, c_void_p],
    "alltoall": [c_void_p, c_void_p, c_size_t, c_int, _COMM, c_void_p],
    "alltoallv": [c_void_p, _SIZES, _SIZES, c_void_p, _SIZES, _SIZES, c_int, _COMM, c_void_p],
    "alltoallv_dynamic": [c_void_p, c_void_p, c_int, POINTER(Dynamic), _COMM, c_void_p],
    "gather": [c_void_p, c_void_p, c_size_t, c_int, c_int, _COMM, c_void_p],
    "scatter": [c_void_p, c_void_p, c_size_t, c_int, c_int, _COMM, c_void_p],
    "barrier": [_COMM, c_void_p],
    "send": [c_void_p, c_size_t, c_int, c_int, _COMM, c_void_p],
    "recv": [c_void_p, c_size_t, c_int, c_int, _COMM, c_void_p],
    "window_register": [_COMM, c_void_p, c_size_t, POINTER(c_void_p)],
    "window_deregister": [_COMM, c_void_p],
    "window_address": [_COMM, c_void_p, c_int, POINTER(c_void_p), _SIZES],
    "put": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_size_t, _COMM, c_void_p],
    "put_signal": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_size_t, c_int, _COMM, c_void_p],
    "signal": [c_int, c_int, _COMM, c_void_p],
    "wait_signal": [POINTER(SignalWait), c_int, _COMM, c_void_p],
    "get": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_size_t, _COMM, c_void_p],
    "window_flush": [c_int, c_void_p, _COMM, c_void_p],
    "group_start": [],
    "group_end": [],
    "group_cancel": [],
}
calls: dict[str, ctypes._CFuncPtr] = {}  # type: ignore[name-defined]
for _name, _kinds in _CALLS.items():
    calls[_name] = getattr(library, "tutti_" + _name)
    calls[_name].argtypes = _kinds
    calls[_name].restype = c_int
library.tutti_get_version.restype = c_int
library.tutti_get_last_error.argtypes = [_COMM]
library.tutti_get_last_error.restype = c_char_p


def last_error(comm: c_void_p | None = None) -> str:
    """The library's sentence about the last failure."""
    sentence: bytes = library.tutti_get_last_error(comm)
    return sentence.decode(errors="replace")


def check(result: int, comm: c_void_p | None = None) -> None:
    """Raises what a result says."""
    if result:
        raise error_of(result, last_error(comm))


def call(name: str, *arguments: object, comm: c_void_p | None = None) -> None:
    """Calls tutti_NAME and raises its failure."""
    check(calls[name](*arguments), comm)
