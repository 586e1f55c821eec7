# SPDX-License-Identifier: Apache-2.0
"""Which library has served this process: said by where NCCL's calls are found, and by tutti's black box,
which counts communicators."""
import ctypes
import glob
import os

PAGES = 36 << 10  # of a black box: 36 KiB for the process, and as much for each communicator (docs/understand/trace.md)


class Info(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p),
                ("address", ctypes.c_void_p)]


def home(symbol="ncclAllReduce"):
    """The file that a global symbol of this process comes from."""
    try:
        address = ctypes.cast(getattr(ctypes.CDLL(None), symbol), ctypes.c_void_p)
    except AttributeError:
        return "nowhere"
    info = Info()
    return info.file.decode() if ctypes.CDLL(None).dladdr(address, ctypes.byref(info)) and info.file else "nowhere"


def communicators():
    """How many communicators of tutti this process has (had at once): 0 where another library served it."""
    boxes = glob.glob(os.path.join(os.environ.get("TUTTI_TRACE_DIR", "/dev/shm"),
                                   f"tutti-{os.getuid()}-{os.getpid()}-*.box"))
    return sum(max(0, os.stat(box).st_blocks * 512 // PAGES - 1) for box in boxes)


def others():
    """Other files called libnccl that are mapped."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        paths = {line.split()[-1] for line in file if "libnccl" in line}
    return sorted(path for path in paths if path != os.path.realpath(home()))


def line():
    """For the parent to read. Must be called while communicators exist."""
    return (f"served: tutti communicators {communicators()}; ncclAllReduce from {home()}; also mapped: "
            f"{' '.join(others()) or 'none'}")
