"""Files of tensors: `.safetensors`, read and changed in place, and those that torch saves."""

from __future__ import annotations

import functools
import importlib
import json
import math
import struct
import sys
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from dataview.errors import import_library, shortened
from dataview.formats.contents import (
    DEEPEST,
    LateSource,
    NotData,
    as_meta,
    tree,
    with_arrays,
    without_arrays,
)
from dataview.formats.handles import Claim
from dataview.index import Affine, Index
from dataview.plan.build import elementwise, select, stored
from dataview.plan.node import Node
from dataview.sources import (
    ArraySource,
    FileState,
    Header,
    NpyFile,
    NpySource,
    Opening,
    Source,
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


def open_torch(path: str, mode: str, claim: Claim | None = None) -> Node:
    """Return the record of the tensors that torch has saved; numbers and texts are metadata."""
    if mode != "r":
        raise ValueError(
            f"{path}: what torch has saved cannot be changed in place; open it with mode 'r', or "
            f"keep tensors in a .safetensors file; got {mode!r}"
        )
    try:
        return with_arrays(path, _Tensors(Opening(path, claim)).node(*_loaded(path), ()))
    except NotData as reason:
        raise ValueError(f"{path} {reason}") from None


def _loaded(path: str) -> tuple[Any, FileState]:
    """Return what is in a file of torch, which runs no code from there, and the file's state.

    Tensors come without their data, which are read later from where they lie in the file.  What
    packed files have, and those of old versions, comes whole.
    """
    torch = import_library("torch", "torch")
    with open_regular(path) as file:
        state = state_of(file)
        device = "meta" if _is_unpacked(file) else "cpu"
    try:
        return torch.load(path, map_location=device, weights_only=True), state
    except Exception as error:  # of any class: the file may say anything
        text = shortened(str(error).partition(". ")[0])
        raise ValueError(
            f"{path} holds more than tensors, or is broken: {type(error).__name__}: {text}; "
            "what may run code is never loaded: if you trust who made it, "
            "view a part of torch.load(path, weights_only=False)"
        ) from error


def _is_unpacked(file: Any) -> bool:
    """Whether a file of torch has the bytes of its tensors as they are in memory."""
    try:
        with zipfile.ZipFile(file) as found:
            members = found.infolist()
            order = [one.filename for one in members if one.filename.endswith("/byteorder")]
            is_ours = all(found.read(name) == sys.byteorder.encode() for name in order)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError):
        return False  # torch says what is wrong
    return is_ours and all(one.compress_type == zipfile.ZIP_STORED for one in members)


class _Tensors:
    """The containers of a file as records, each of them once."""

    def __init__(self, opening: Opening) -> None:
        self.opening = opening
        self.known: dict[int, Node] = {}

    def node(self, found: Any, state: FileState, way: tuple[Any, ...]) -> Node:
        """Return the node of a tensor, or of what holds tensors."""
        if not isinstance(found, (Mapping, list, tuple)):
            return self.tensor(found, state, way)
        if len(way) > DEEPEST:
            raise NotData(f"lies more than {DEEPEST} groups deep")
        if id(found) not in self.known:
            self.known[id(found)] = self.record(found, state, way)
        return self.known[id(found)]

    def record(self, found: Any, state: FileState, way: tuple[Any, ...]) -> Node:
        """Return the record of a mapping, or of a list, whose fields are numbers."""
        parts: dict[str, Node] = {}
        lost: dict[str, str] = {}
        meta: dict[str, Any] = {}
        for key, part in found.items() if isinstance(found, Mapping) else enumerate(found):
            if part is None or isinstance(part, (bool, int, float, str, bytes)):
                meta[str(key)] = as_meta(part)
                continue
            try:
                parts[str(key)] = self.node(part, state, (*way, key))
            except NotData as reason:
                lost[str(key)] = str(reason)
        if way and not parts:
            raise NotData(without_arrays(tree(parts, lost, meta)))
        return tree(parts, lost, meta)

    def tensor(self, tensor: Any, state: FileState, way: tuple[Any, ...]) -> Node:
        """Return the node of a tensor, whose data lie in the file or came whole."""
        dtype = _dtype_of(tensor)
        if tensor.device.type != "meta":
            return stored(WholeTensor(tuple(tensor.shape), dtype, self.opening, way))
        header = _lying(tensor, dtype, self.opening.path, state)
        find = functools.partial(_found_again, way)
        file = NpyFile(self.opening.path, "r", header, self.opening, state, find)
        node = _strided(stored(NpySource(file)), tensor)
        for is_so, ufunc in ((tensor.is_conj(), np.conjugate), (tensor.is_neg(), np.negative)):
            node = elementwise(ufunc, (node,))[0] if is_so else node
        return node


def _dtype_of(tensor: Any) -> np.dtype[Any]:
    """Return the dtype of a plain tensor, as NumPy has it."""
    torch = import_library("torch", "torch")
    if not isinstance(tensor, torch.Tensor):
        raise NotData(f"is no tensor: {type(tensor).__name__}")
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise NotData(f"is no plain tensor: {tensor.layout}, {tensor.dtype}")
    name = str(tensor.dtype).removeprefix("torch.")
    if name in LACKING.values():
        return _lacking(name, name)
    try:
        dtype: np.dtype[Any] = torch.empty(0, dtype=tensor.dtype).numpy().dtype
    except (TypeError, RuntimeError) as error:
        raise NotData(f"is no plain tensor: {shortened(str(error))}") from None
    return dtype


def _lying(tensor: Any, dtype: np.dtype[Any], path: str, state: FileState) -> Header:
    """Return where the elements of a tensor lie, in the order of the file, and how many."""
    storage = tensor.untyped_storage()
    if not hasattr(storage, "_checkpoint_offset"):
        raise NotData("lies where this version of torch does not tell; upgrade torch")
    begin = storage._checkpoint_offset + tensor.storage_offset() * dtype.itemsize
    shape, strides = tuple(tensor.shape), tensor.stride()
    if not tensor.is_contiguous():
        steps = [(length - 1) * step for length, step in zip(shape, strides, strict=True)]
        shape = (sum(steps) + 1,) if min(shape) else (0,)
    header = Header(shape, False, dtype, begin)
    if header.end > min(state.size, storage._checkpoint_offset + storage.nbytes()):
        raise NotData(f"is cut short: its {header.end - begin} bytes reach past the end of {path}")
    return header


def _strided(node: Node, tensor: Any) -> Node:
    """Return the elements of a tensor in its own order of those that lie in the file."""
    if tensor.is_contiguous():
        return node
    strides = [(axis, step) for axis, step in enumerate(tensor.stride()) if step]
    return select(node, Index(tuple(tensor.shape), [Affine(0, tuple(strides))]))


def _found_again(way: tuple[Any, ...], path: str) -> tuple[Header, FileState]:
    """Return where a tensor lies in a file that was changed."""
    found, state = _loaded(path)
    try:
        tensor = _at(found, way)
        return _lying(tensor, _dtype_of(tensor), path, state), state
    except (LookupError, TypeError, AttributeError, NotData) as error:
        text = f"the tensor {'.'.join(map(str, way))!r} is no longer there as it was"
        raise ValueError(f"{text}: {error}") from None


class WholeTensor(LateSource):
    """A tensor of a file of torch that is read as a whole."""

    __slots__ = ("way",)

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], opening: Opening, way: tuple[Any, ...]
    ) -> None:
        super().__init__(shape, dtype, opening)
        self.way = way

    def __reduce__(self) -> tuple[Any, ...]:
        return WholeTensor, (self.shape, self.dtype, self.opening, self.way)

    def loaded(self) -> Source:
        """Read the file again, of which one tensor is kept."""
        tensor = _at(_loaded(self.opening.path)[0], self.way)
        dtype = _dtype_of(tensor)
        if (tuple(tensor.shape), dtype) != (self.shape, self.dtype):
            raise ValueError(f"{self.opening.path} has changed since it was opened; open it again")
        return ArraySource(_array(tensor, dtype))

    def describe(self) -> str:
        """Name the file."""
        return f"{self.opening.path} (r)"


def _at(found: Any, way: tuple[Any, ...]) -> Any:
    """Return what lies in containers at the end of a way."""
    return functools.reduce(lambda part, step: part[step], way, found)


def _array(tensor: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Return a tensor as an array that cannot be changed."""
    torch = import_library("torch", "torch")
    plain = tensor.detach().resolve_conj().resolve_neg()
    if dtype.name in LACKING.values():
        plain = plain.view(torch.uint8 if dtype.itemsize == 1 else torch.int16)
    frozen: np.ndarray = plain.numpy().view(dtype)
    frozen.flags.writeable = False
    return frozen
