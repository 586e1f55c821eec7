# SPDX-License-Identifier: Apache-2.0
"""TUTTI_TORCH_AS=gloo: groups that ask for Gloo get tutti.

Frameworks look at the name of a backend and refuse what they do not know. So the name that was asked for stays what
get_backend() says; the group itself says "tutti". Gloo stays reachable by the name "gloo_of_torch".
"""
from __future__ import annotations

import functools
import inspect
import logging
import os
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

VARIABLE = "TUTTI_TORCH_AS"
GLOO, ITSELF = "gloo", "gloo_of_torch"
_log = logging.getLogger("tutti.torch")


@functools.lru_cache(maxsize=None)
def _say(sentence: str) -> None:
    """Once for each process."""
    _log.warning(sentence)


def _devices(backend: str) -> dict[str, str]:
    """Device -> backend of what a caller asked for; "undefined": PyTorch chooses."""
    make = getattr(dist.distributed_c10d, "BackendConfig", None)
    if make is None:  # PyTorch 1
        return {"cpu": backend}
    return {device: str(name) for device, name in make(dist.Backend(backend)).get_device_backend_map().items()}


def _stand_in(backend: str, rank: int) -> str:
    """What takes the place of `backend`: itself where not all of it is Gloo's."""
    names = set(_devices(backend).values())
    if names == {GLOO}:
        if rank == 0:
            _say(f"{VARIABLE}={GLOO}: tutti stands for Gloo in this job's process groups; get_backend() says "
                 f"\"{GLOO}\". Gloo itself is the backend \"{ITSELF}\"")
        return "tutti"
    if GLOO in names and rank == 0:
        _say(f"{VARIABLE}={GLOO}: \"{backend}\" names another backend beside Gloo, so Gloo serves it, not tutti: ask "
             "for \"gloo\" alone, or for tutti by its name")
    return backend


def _record(group: Any, backend: str) -> None:
    """get_backend() and messages of PyTorch find the name that was asked for."""
    module = dist.distributed_c10d
    world = getattr(module, "_world", None)
    groups = module._pg_map if world is None else world.pg_map
    if group not in groups:  # this process is not in it
        return
    groups[group] = (backend, groups[group][1])
    if world is not None and group in getattr(world, "pg_backend_config", {}):
        world.pg_backend_config[group] = ",".join(f"{device}:{name}" for device, name in _devices(backend).items())


def _renaming(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def make(*arguments: Any, **named: Any) -> Any:
        bound = signature.bind(*arguments, **named)
        asked = str(bound.arguments["backend"])
        bound.arguments["backend"] = taken = dist.Backend(_stand_in(asked, bound.arguments["group_rank"]))
        made = original(*bound.args, **bound.kwargs)
        if taken != asked:
            _record(made[0] if isinstance(made, tuple) else made, asked)
        return made

    return make


def _gloo(store: Any, rank: int, size: int, timeout: Any) -> Any:
    return dist.ProcessGroupGloo(store, rank, size, timeout=timeout)


def install() -> None:
    """Does what TUTTI_TORCH_AS says."""
    name = os.environ.get(VARIABLE, "")
    if not name:
        return
    if name != GLOO:
        raise ValueError(f"{VARIABLE} is {name!r}: tutti can stand for \"{GLOO}\" alone; unset the variable, or set it "
                         f"to {GLOO}")
    module = dist.distributed_c10d
    original = getattr(module, "_new_process_group_helper", None)
    if original is None or not {"backend", "group_rank"} <= set(inspect.signature(original).parameters):
        raise RuntimeError(f"{VARIABLE} is {GLOO}, but this PyTorch makes process groups in a way that tutti does not "
                           "know: unset the variable, and name the backend \"tutti\" in the program")
    module._new_process_group_helper = _renaming(original)
    if dist.is_gloo_available() if hasattr(dist, "is_gloo_available") else hasattr(dist, "ProcessGroupGloo"):
        try:
            dist.Backend.register_backend(ITSELF, _gloo, devices=["cpu"])
        except TypeError:  # PyTorch 1
            dist.Backend.register_backend(ITSELF, _gloo)
