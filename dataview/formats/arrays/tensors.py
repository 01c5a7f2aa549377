"""Files of tensors: `.safetensors`, read and changed in place, and those that torch saves."""

from __future__ import annotations

import functools
import importlib
import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from dataview.errors import import_library, shortened
from dataview.formats.contents import DEEPEST, NotData, as_meta, tree, with_arrays, without_arrays
from dataview.formats.handles import Claim
from dataview.plan.build import stored
from dataview.plan.node import Node
from dataview.sources import (
    ArraySource,
    FileState,
    Header,
    NpyFile,
    NpySource,
    Opening,
    check_array,
    check_writable,
    open_regular,
    state_of,
)

LONGEST_HEADER = 1 << 24
"""A longer header is taken for a broken one: to parse it takes many times its size."""

DTYPES = {
    "BOOL": "?", "C64": "<c8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "I16": "<i2",
    "I32": "<i4", "I64": "<i8", "I8": "i1", "U16": "<u2", "U32": "<u4", "U64": "<u8", "U8": "u1",
}  # fmt: skip
"""The types of tensors, as NumPy calls them."""

LACKING = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
}
"""Types that NumPy has from ml_dtypes alone, and their names there."""


def _lacking(name: str, asked: str) -> np.dtype[Any]:
    """Return a dtype of ml_dtypes, if it is there."""
    try:
        dtype: np.dtype[Any] = np.dtype(getattr(importlib.import_module("ml_dtypes"), name))
    except (ImportError, AttributeError):
        raise NotData(
            f"has the type {asked}, which NumPy has not; pip install ml_dtypes brings it"
        ) from None
    return dtype


# --- safetensors ---------------------------------------------------------------------------------


def open_safetensors(path: str, mode: str, claim: Claim | None = None) -> Node:
    """Return the record of the tensors in a file: its header is read."""
    check_writable(path, mode)
    parts: dict[str, Node] = {}
    lost: dict[str, str] = {}
    opening, headers = Opening(path, claim), _Headers()
    told, begin, state = headers.of(path)
    for name in told:
        if name == "__metadata__":
            continue
        try:
            header = _header(told, name, begin)
        except NotData as reason:
            lost[name] = str(reason)
            continue
        found = NpyFile(path, mode, header, opening, state, functools.partial(headers.find, name))
        parts[name] = stored(NpySource(found))
    return with_arrays(path, tree(parts, lost, told.get("__metadata__", {})))


class _Headers:
    """The headers of a file, which is read anew when it was changed; an equal one is parsed once.

    The views of the file keep it, and their pickles leave it out.
    """

    def __init__(self) -> None:
        self.parsed: tuple[tuple[bytes, int], Mapping[str, Any]] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _Headers, ()

    def find(self, name: str, path: str) -> tuple[Header, FileState]:
        """Return the header of a tensor by its name."""
        told, begin, state = self.of(path)
        try:
            return _header(told, name, begin), state
        except (KeyError, NotData) as error:
            raise ValueError(f"there is no tensor {name!r} to be read: {error}") from None

    def of(self, path: str) -> tuple[Mapping[str, Any], int, FileState]:
        """Return what the header says of the tensors, where their bytes begin, the file's state."""
        with open_regular(path) as file:
            state = state_of(file)
            try:
                raw = _raw_header(file, state.size)
                return self._told(raw, state.size - 8 - len(raw)), 8 + len(raw), state
            except ValueError as error:
                text = shortened(str(error))
                raise ValueError(f"{path} is not a .safetensors file: {text}") from None

    def _told(self, raw: bytes, size: int) -> Mapping[str, Any]:
        parsed = self.parsed
        if parsed is None or parsed[0] != (raw, size):
            self.parsed = parsed = (raw, size), _checked(raw, size)
        return parsed[1]


def _raw_header(file: Any, size: int) -> bytes:
    """Return the bytes of the header of a file of so many bytes."""
    start = file.read(8)
    if len(start) < 8:
        raise ValueError("it is too short")
    (length,) = struct.unpack("<Q", start)
    if length > min(size - 8, LONGEST_HEADER):
        raise ValueError(f"its header would have {length} bytes")
    return bytes(file.read(length))


def _checked(raw: bytes, size: int) -> Mapping[str, Any]:
    """Return what a header says, if each tensor has bytes of its own among so many."""
    try:
        told = json.loads(raw, object_pairs_hook=_without_repeats)
    except RecursionError:
        raise ValueError("its header is nested too deeply") from None
    if not isinstance(told, dict):
        raise ValueError("its header does not name tensors")
    meta = told.get("__metadata__", {})
    if not isinstance(meta, dict) or not all(isinstance(text, str) for text in meta.values()):
        raise ValueError("its metadata are no texts")
    ends = []
    for name, one in told.items():
        if name != "__metadata__":
            _check_tensor(name, one)
            ends.append((*one["data_offsets"], name))
    last = 0
    for start, stop, name in sorted(ends):
        if start < last and start < stop:
            raise ValueError(f"tensor {name!r} has bytes of another one")
        if stop > size:
            raise ValueError(
                f"it is cut short: tensor {name!r} ends at byte {stop} of the data, which have "
                f"{size}"
            )
        last = max(last, stop)
    return told


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in its header")
    return found


def _check_tensor(name: str, one: Any) -> None:
    """Raise unless a header describes a tensor, whose type may be unknown."""
    described = isinstance(one, dict) and one.keys() == {"dtype", "shape", "data_offsets"}
    if not described or not isinstance(one["dtype"], str):
        raise ValueError(f"{name!r} does not give dtype, shape and data_offsets")
    for key in ("shape", "data_offsets"):
        if not isinstance(one[key], list) or not all(type(n) is int and n >= 0 for n in one[key]):
            raise ValueError(f"{key} of tensor {name!r} is no list of lengths")
    if len(one["data_offsets"]) != 2:
        raise ValueError(f"tensor {name!r} does not give where it starts and stops")
    start, stop = one["data_offsets"]
    dtype = np.dtype(DTYPES.get(one["dtype"], "u1"))
    check_array(tuple(one["shape"]), dtype)
    size = dtype.itemsize * math.prod(one["shape"])
    if one["dtype"] in DTYPES and stop - start != size:
        raise ValueError(f"tensor {name!r} has {size} bytes by its shape and {stop - start} in all")
    if stop < start:
        raise ValueError(f"tensor {name!r} ends before it starts")


def _header(told: Mapping[str, Any], name: str, begin: int) -> Header:
    """Return where a tensor is in the file, and what it is."""
    one = told[name]
    asked, shape, (start, stop) = one["dtype"], tuple(one["shape"]), one["data_offsets"]
    if asked in LACKING:
        dtype = _lacking(LACKING[asked], asked)
    elif asked in DTYPES:
        dtype = np.dtype(DTYPES[asked])
    else:
        raise NotData(f"has the unknown type {shortened(asked)}")
    if dtype.itemsize * math.prod(shape) != stop - start:
        raise NotData(f"has {stop - start} bytes, which its shape {shape} does not take")
    return Header(shape, False, dtype, begin + start)


# --- torch ---------------------------------------------------------------------------------------


class TensorSource(ArraySource):
    """A tensor in a file of torch, whose pages are read when they are needed.

    Its pickle has the path of the file, and the way to the tensor there.
    """

    __slots__ = ("place", "way")

    def __init__(self, array: np.ndarray, place: str = "", way: tuple[Any, ...] = ()) -> None:
        super().__init__(array)
        self.place, self.way = place, way

    def __reduce__(self) -> tuple[Any, ...]:
        return _tensor_again, (self.place, self.way)

    def describe(self) -> str:
        """Name the file."""
        return f"{self.place} (r)"


def open_torch(path: str, mode: str, claim: Claim | None = None) -> Node:
    """Return the record of the tensors that torch has saved; numbers and texts are metadata."""
    if mode != "r":
        raise ValueError(
            f"{path}: what torch has saved cannot be changed in place; open it with mode 'r', or "
            f"keep tensors in a .safetensors file; got {mode!r}"
        )
    try:
        return with_arrays(path, _Tensors(path).node(_loaded(path), ()))
    except NotData as reason:
        raise ValueError(f"{path} {reason}") from None


def _loaded(path: str) -> Any:
    """Return what is in a file of torch, which runs no code from there."""
    torch = import_library("torch", "torch")
    with open_regular(path) as file:
        is_zip = file.read(2) == b"PK"  # the form of before has no pages of tensors
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except Exception as error:  # of any class: the file may say anything
        text = shortened(str(error).partition(". ")[0])
        raise ValueError(
            f"{path} holds more than tensors, or is broken: {type(error).__name__}: {text}; "
            "what may run code is never loaded: if you trust who made it, "
            "view a part of torch.load(path, weights_only=False)"
        ) from error


def _tensor_again(path: str, way: tuple[Any, ...]) -> TensorSource:
    found = _loaded(path)
    for step in way:
        found = found[step]
    return TensorSource(_array(found), path, way)


class _Tensors:
    """The containers of a file as records, each of them once."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.known: dict[int, Node] = {}

    def node(self, found: Any, way: tuple[Any, ...]) -> Node:
        """Return the node of a tensor, or of what holds tensors."""
        if not isinstance(found, (Mapping, list, tuple)):
            return stored(TensorSource(_array(found), self.path, way))
        if len(way) > DEEPEST:
            raise NotData(f"lies more than {DEEPEST} groups deep")
        if id(found) not in self.known:
            self.known[id(found)] = self.record(found, way)
        return self.known[id(found)]

    def record(self, found: Any, way: tuple[Any, ...]) -> Node:
        """Return the record of a mapping, or of a list, whose fields are numbers."""
        parts: dict[str, Node] = {}
        lost: dict[str, str] = {}
        meta: dict[str, Any] = {}
        for key, part in found.items() if isinstance(found, Mapping) else enumerate(found):
            if part is None or isinstance(part, (bool, int, float, str, bytes)):
                meta[str(key)] = as_meta(part)
                continue
            try:
                parts[str(key)] = self.node(part, (*way, key))
            except NotData as reason:
                lost[str(key)] = str(reason)
        if way and not parts:
            raise NotData(without_arrays(tree(parts, lost, meta)))
        return tree(parts, lost, meta)


def _array(tensor: Any) -> np.ndarray:
    """Return a tensor as an array that cannot be changed."""
    torch = import_library("torch", "torch")
    if not isinstance(tensor, torch.Tensor):
        raise NotData(f"is no tensor: {type(tensor).__name__}")
    name = str(tensor.dtype).removeprefix("torch.")
    try:
        plain = tensor.detach().resolve_conj().resolve_neg()
        if name in LACKING.values():
            raw = torch.uint8 if plain.element_size() == 1 else torch.int16
            found = plain.view(raw).numpy().view(_lacking(name, name))
        else:
            found = plain.numpy()
    except (TypeError, RuntimeError) as error:  # sparse, quantised, without data
        raise NotData(f"is no plain tensor: {shortened(str(error))}") from None
    frozen: np.ndarray = found.view()
    frozen.flags.writeable = False
    return frozen
