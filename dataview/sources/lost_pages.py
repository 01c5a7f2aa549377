"""Maps of files that others may cut short: what is no longer there ends a copy, not the process.

The system answers the touch of a page that a file no longer has, or that a broken disk does not
give, by a signal (SIGBUS), which ends a process unless it is handled.  Here it is: an empty page is
put in the place of the lost one, so that the copy goes on, and the map says that it `is_lost`.  So
rows are copied by NumPy itself, as from any memory, and looked at before they are handed out.
Signals for other places go to whoever handled them before.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import signal
import sys
import weakref
from typing import Any

import numpy as np

from dataview.index import Index, gather
from dataview.sources.file_access import POPULATE_READ
from dataview.sources.file_pieces import Block

AT_ONCE = 1 << 24
"""So many bytes are loaded at once; Ctrl-C and other threads come between."""

_MACHINES = ("x86_64", "aarch64")
"""Where the system lays out what it says of a signal as it is read here."""

_SIGACTION_BYTES, _FLAGS_AT = 152, 136
"""The size of C's `struct sigaction`, and where its flags are."""

_CODE_AT, _PLACE_AT = 8, 16
"""Where C's `siginfo_t` tells why there is a signal, and which place was touched."""

_TELL_THE_PLACE = 4
"""The flag SA_SIGINFO: the handler is told which place was touched."""

_IN_ITS_PLACE = 16
"""The flag MAP_FIXED: what is mapped replaces what was there."""


class Map:
    """A file in memory, to be read, as long as somebody holds it; `is_lost` is looked at after."""

    __slots__ = ("__weakref__", "address", "bytes", "is_lost", "latest")

    def __init__(self, handle: int, size: int) -> None:
        pages = mmap.mmap(handle, size, access=mmap.ACCESS_READ)
        for start in range(0, size, AT_ONCE):
            pages.madvise(POPULATE_READ, start, min(AT_ONCE, size - start))
        self.bytes = np.frombuffer(pages, np.uint8)
        self.address: int = self.bytes.__array_interface__["data"][0]
        self.is_lost = False
        self.latest: tuple[Block, np.ndarray] | None = None
        _maps[self.address] = self

    def rows(self, block: Block, rows: np.ndarray) -> np.ndarray | None:
        """Return rows of an array in the file as a new array, None if they are not there."""
        array = self._array(block)
        if array is None:
            return None
        found: np.ndarray = array.take(rows, 0, None, "clip")
        if not _is_aligned(block):
            found = found.view(block.dtype).reshape(len(rows), *block.shape[1:])
        return self._lost() if self.is_lost else found

    def part(self, block: Block, index: Index) -> np.ndarray | None:
        """Return what an index selects of a block as a new array; None if it is not there.

        Of an array at an odd place NumPy would first copy all, so nothing is read of it.
        """
        array = self._array(block) if _is_aligned(block) else None
        if array is None:
            return None
        found = gather.read(block.member_of(array), index)
        if index.is_box or not found.flags.forc:
            found = np.array(found, order="K")
        return self._lost() if self.is_lost else found

    def _lost(self) -> np.ndarray | None:
        """Return None, or raise the interrupt that came with the signal, if one did."""
        if _interrupts:
            _interrupts.clear()
            raise KeyboardInterrupt
        return None

    def _array(self, block: Block) -> np.ndarray | None:
        """Return an array in the file, as bytes if it is at an odd place; None if it is longer."""
        handle()
        latest = self.latest
        if latest is None or latest[0] is not block:
            is_aligned, bytes_ = _is_aligned(block), block.row_bytes
            if block.place + block.shape[0] * bytes_ > len(self.bytes):
                return None
            shape = block.shape if is_aligned else (block.shape[0], bytes_)
            dtype = block.dtype if is_aligned else np.dtype(np.uint8)
            latest = self.latest = block, np.ndarray(shape, dtype, self.bytes, block.place)
        return latest[1]


def _is_aligned(block: Block) -> bool:
    """Whether the elements of an array lie at places that NumPy reads as they are."""
    return block.place % block.dtype.alignment == 0


_maps: weakref.WeakValueDictionary[int, Map] = weakref.WeakValueDictionary()
_interrupts: list[bool] = []


def can_handle() -> bool:
    """Whether the signal can be handled here."""
    return sys.platform == "linux" and platform.machine() in _MACHINES and _system() is not None


def handle() -> None:
    """Handle the signal from now on; this is looked at before each copy, since others may, too."""
    system, ours = _system(), _handler().value
    system.sigaction(signal.SIGBUS, None, ctypes.addressof(_now))
    if _handled_by.value != ours:
        _before[:] = _now.raw
        action = ctypes.create_string_buffer(_SIGACTION_BYTES)
        ctypes.c_void_p.from_buffer(action).value = ours
        ctypes.c_int.from_buffer(action, _FLAGS_AT).value = _TELL_THE_PLACE
        system.sigaction(signal.SIGBUS, ctypes.addressof(action), None)


_before = bytearray(_SIGACTION_BYTES)
"""Who handled the signal before."""

_now = ctypes.create_string_buffer(_SIGACTION_BYTES)
_handled_by = ctypes.c_void_p.from_buffer(_now)
"""Who handles it when it was looked at last."""


@functools.cache
def _system() -> Any:
    """Return C's own functions, None where there are none for signals; they keep Python's lock."""
    system: Any = ctypes.PyDLL(None)
    if not hasattr(system, "sigaction"):
        return None
    word, size = ctypes.c_void_p, ctypes.c_size_t
    system.mmap.restype = word
    system.mmap.argtypes = [word, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    system.sigaction.argtypes = [ctypes.c_int, word, word]
    return system


@functools.cache
def _handler() -> ctypes.c_void_p:
    """Return the function that handles the signal, as C calls it; it is kept for good."""
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p)
    return ctypes.cast(kind(_on_signal), ctypes.c_void_p)


def _on_signal(number: int, told: int, _: Any) -> None:
    """Put empty pages where a map has lost its own; else have the one before handle the signal."""
    try:
        _answer(number, told)
    except KeyboardInterrupt:  # it came at the same time; a function that C calls cannot raise it
        _interrupts.append(True)
        _answer(number, told)


def _answer(number: int, told: int) -> None:
    was_sent = ctypes.c_int.from_address(told + _CODE_AT).value <= 0
    place: int = ctypes.c_size_t.from_address(told + _PLACE_AT).value
    for one in [] if was_sent else [found() for found in _maps.valuerefs()]:
        if one is not None and one.address <= place < one.address + len(one.bytes):
            one.is_lost = True
            first = place - place % mmap.PAGESIZE
            size = one.address + len(one.bytes) - first
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _IN_ITS_PLACE
            if _system().mmap(first, size, mmap.PROT_READ, flags, -1, 0) == first:
                return
    # If the one before hands it back here, the system handles it.
    before = bytes(_before)
    _before[:] = bytes(_SIGACTION_BYTES)
    _system().sigaction(number, before, None)
    if was_sent:  # else the place is touched again
        signal.raise_signal(number)
