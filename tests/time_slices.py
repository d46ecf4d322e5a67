"""Lets the processes of a test run compute for longer at a time.

More of them compute than there are cores, and each needs much of the cache. Changing every few milliseconds,
three on two cores take a sixth longer than they need one after the other; with slices of 100 ms they do not.
What they start (Terraform, the emulator, a browser) keeps the system's slices, and goes first.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sys
from typing import Final

#: The longest that Linux gives, in nanoseconds.
SLICE: Final = 100_000_000

#: The numbers of ``sched_setattr`` and ``sched_getattr`` by architecture; no library of Python's has them.
_SYSTEM_CALLS: Final = {"x86_64": (314, 315), "aarch64": (274, 275)}
#: ``struct sched_attr``: size, policy, flags, nice, priority, runtime (of this policy: the slice), two more.
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")
_OTHER: Final = 0
_RESET_ON_FORK: Final = 1


def lengthen() -> bool:
    """Ask for long time slices; tell whether they were granted: by Linux from 6.12 on."""
    if _call is None:
        return False
    attributes = _ATTRIBUTES.pack(_ATTRIBUTES.size, _OTHER, _RESET_ON_FORK, 0, 0, SLICE, 0, 0)
    _call(_SYSTEM_CALLS[platform.machine()][0], 0, attributes, 0)
    return current() == SLICE


def current() -> int:
    """Return this process's slice in nanoseconds, 0 where that is not known."""
    if _call is None:
        return 0
    buffer = ctypes.create_string_buffer(_ATTRIBUTES.size)
    _call(_SYSTEM_CALLS[platform.machine()][1], 0, buffer, _ATTRIBUTES.size, 0)
    slice_: int = _ATTRIBUTES.unpack(buffer.raw)[5]
    return slice_


_call: Final = (
    ctypes.CDLL(None).syscall if sys.platform == "linux" and platform.machine() in _SYSTEM_CALLS else None
)
