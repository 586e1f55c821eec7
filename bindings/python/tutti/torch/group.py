# SPDX-License-Identifier: Apache-2.0
"""The door for versions of PyTorch whose class Backend only C++ can extend, 1.13 to 2.13: a whole process group in
Python, which stands for all devices."""
from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from .mechanics import Mechanics


class TuttiGroup(Mechanics, dist.ProcessGroup):
    """The process group."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        try:
            dist.ProcessGroup.__init__(self, store, rank, size)
        except TypeError:  # PyTorch 1
            dist.ProcessGroup.__init__(self, rank, size)
        self._name, self._description = "", ""
        self._begin(store, rank, size, timeout)

    def getBackendName(self) -> str:
        return "tutti"

    name = _get_backend_name = getBackendName

    def getRank(self) -> int:
        return self._my_rank

    def getSize(self) -> int:
        return self._my_size

    rank, size = getRank, getSize

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupDesc(self) -> str:
        return self._description

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)
    pg_name = group_name

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _set_default_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout

    set_timeout = _set_default_timeout

    def get_group_store(self) -> Any:
        return self._store

    def _get_backend(self, device: torch.device) -> Any:
        return self

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu"), torch.device("cuda")]

    @property
    def supports_splitting(self) -> bool:
        return False

    @property
    def supports_shrinking(self) -> bool:
        return False  # PyTorch makes the smaller group of a backend in C++

    @property
    def supports_coalescing(self) -> bool:
        return True
