"""What an update does, written down for its journal: data that say it, and never code.

An expression is a list of steps, each of which names a function of NumPy's.  What is read back is
made of the few kinds of objects in a table here; anything else is refused.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from dataview.index import Affine, Array, Computed, Constant, Index, Permutation
from dataview.plan.build import select, stored
from dataview.plan.kinds import Comparison, Elementwise, Record, known_shape
from dataview.plan.node import Node
from dataview.plan.operations import Masked, NumpyFunction
from dataview.plan.places import place_of
from dataview.plan.walk import below
from dataview.sources import ArraySource, Source


class Unwritable(TypeError):
    """Something that only the process that holds it can compute, such as a user's function."""


class Spot(NamedTuple):
    """Elements of an array in a file: the number of the file, what finds the array in it, which."""

    file: int
    address: Any
    where: Index


class Step(NamedTuple):
    """A function applied to the results of earlier steps, by their `Result`, and to numbers."""

    function: Any
    args: tuple[Any, ...]
    output: int
    shape: tuple[int, ...]
    dtypes: tuple[np.dtype[Any], ...]


class Result(NamedTuple):
    """The result of a step, by its number."""

    number: int


class Part(NamedTuple):
    """A change of one array: where, in which blocks, and the steps of its value if it is kept.

    Blocks are so many positions long, along an axis; the first one is shorter if `first` is not 0.
    `across` has the grids of further axes, and `starts` where blocks of different lengths begin.
    """

    spot: Spot
    axis: int
    step: int
    value: tuple[Any, ...] | None
    is_checked: bool
    first: int = 0
    across: tuple[tuple[Any, ...], ...] = ()
    starts: tuple[int, ...] = ()


class File(NamedTuple):
    """A file that is updated: its path from the folder of the first one, its number, its size.

    The number is 0 of one that others may replace while it is updated.

    `copy` is the name of a copy beside the journal, if it was copied as a whole.  `time` is when it
    was last changed before the update, and `begun` when that began, both in nanoseconds by the
    clock of the file system; `begun` is 0 for a file that the update does not write.
    """

    path: str
    number: int
    size: int
    copy: str = ""
    time: int = 0
    begun: int = 0


class Plan(NamedTuple):
    """An update; `order` is as in `Separated`, `reads` whether its values read what it changes.

    `inside` has the files in folders that tell whether another program wrote there since.
    """

    files: tuple[File, ...]
    parts: tuple[Part, ...]
    order: int = 0
    reads: bool = True
    inside: tuple[File, ...] = ()

    def functions(self) -> str:
        """Return the names of the functions that compute the values, in their order."""
        steps = [step for part in self.parts for step in part.value or () if type(step) is Step]
        called = [getattr(step.function, "function", step.function) for step in steps]  # if masked
        names = [getattr(one, "name", None) or one.__name__ for one in called]
        return ", ".join(dict.fromkeys(names))

    def packed(self) -> bytes:
        """Return the plan as bytes, or raise `Unwritable`."""
        file = io.BytesIO()
        try:
            _Pickler(file, 5).dump(self._in_tuples())
        except (pickle.PicklingError, AttributeError, RecursionError) as error:
            raise Unwritable(str(error)) from error
        return file.getvalue()

    def _in_tuples(self) -> tuple[Any, ...]:
        """Return the plan as plain tuples, which take a third of the time to be pickled."""
        parts = [(*part[1:], *part.spot) for part in self.parts]
        inside = tuple(map(tuple, self.inside))
        return tuple(map(tuple, self.files)), parts, self.order, self.reads, inside

    @classmethod
    def _of_tuples(cls, found: Any) -> Plan:
        files, parts, order, reads, inside = found
        spots = [(Spot(*part[-len(Spot._fields) :]), *part[: -len(Spot._fields)]) for part in parts]
        known, others = (tuple(File(*one) for one in every) for every in (files, inside))
        return cls(known, tuple(Part(*one) for one in spots), order, reads, others)


def unpacked(data: bytes) -> Plan:
    """Return the plan that bytes hold; nothing but data is made of them."""
    found = _Unpickler(io.BytesIO(data)).load()
    try:
        return Plan._of_tuples(found)
    except (TypeError, ValueError) as error:
        raise pickle.UnpicklingError("the journal holds something else than a plan") from error


_RUN = struct.Struct("<QQQQQQHH")


class Run(NamedTuple):
    """One run of bytes of a file that is about to be changed, which needs no other plan.

    `owner` is the name of the file or folder that has the journal, `inside` the path from there.
    `time` and `begun` are as in `File`.
    """

    owner: str
    inside: str
    number: int
    size: int
    time: int
    begun: int
    place: int
    old: bytes
    new: bytes

    def packed(self) -> bytes:
        """Return the run as bytes."""
        owner, inside = os.fsencode(self.owner), os.fsencode(self.inside)
        head = _RUN.pack(*self[2:-2], len(self.old), len(owner), len(inside))
        return b"".join((head, owner, inside, self.old, self.new))

    @classmethod
    def unpacked(cls, data: bytes) -> Run:
        """Return the run that bytes hold."""
        number, size, time, begun, place, length, owner, inside = _RUN.unpack_from(data)
        end = len(data) - 2 * length
        names = data[_RUN.size : end]
        if len(names) != owner + inside:
            raise ValueError("it holds something else than a run of bytes")
        name, path = os.fsdecode(names[:owner]), os.fsdecode(names[owner:])
        old, new = data[end : end + length], data[end + length :]
        return cls(name, path, number, size, time, begun, place, old, new)


class Before(NamedTuple):
    """What a file held before rows were added: bytes at some places; its size is that of `file`."""

    file: File
    runs: tuple[tuple[int, bytes], ...]


class Growth(NamedTuple):
    """Rows that are being added: the files that were opened, and what those held that change."""

    files: tuple[File, ...]
    before: tuple[Before, ...]

    def packed(self) -> bytes:
        """Return it as bytes."""
        before = [(tuple(one.file), one.runs) for one in self.before]
        return pickle.dumps((tuple(map(tuple, self.files)), before), 5)

    @classmethod
    def unpacked(cls, data: bytes) -> Growth:
        """Return the growth that bytes hold; nothing but data is made of them."""
        files, before = _Unpickler(io.BytesIO(data)).load()
        known = tuple(Before(File(*file), tuple(runs)) for file, runs in before)
        return cls(tuple(File(*file) for file in files), known)


# --- expressions ---------------------------------------------------------------------------------


def steps_of(value: Node, spot_of: Callable[[Any], Spot | None], most: int, read: Any) -> list[Any]:
    """Return a value as steps; what `spot_of` finds nowhere is read, at most so many bytes of it.

    A step is a `Spot`, an array, or a `Step`.
    """
    numbers: dict[int, int] = {}
    steps: list[Any] = []
    for part in below([value], _operands):
        spot = spot_of(part)
        if spot is not None:
            steps.append(spot)
        elif _is_step(part):
            args = tuple(
                Result(numbers[id(arg)]) if isinstance(arg, Node) else arg for arg in part.args
            )
            steps.append(_as_step(part, args))
        else:
            most -= part.dtype.itemsize * int(np.prod(part.shape)) if part.shape else 0
            if most < 0:
                raise Unwritable("what the value is computed from is too large to be kept")
            steps.append(np.array(read(part)))
        numbers[id(part)] = len(steps) - 1
    return steps


def value_of(steps: Sequence[Any], source_of: Callable[[Spot], Source]) -> Node:
    """Return the node that steps compute."""
    found: list[Any] = []
    for step in steps:
        if isinstance(step, Spot):
            found.append(select(stored(source_of(step)), step.where))
        elif isinstance(step, Step):
            args = tuple(found[arg.number] if isinstance(arg, Result) else arg for arg in step.args)
            found.append(Elementwise(step.function, args, step.output, step.shape, step.dtypes))
        else:
            found.append(stored(ArraySource(step)))
    return found[-1]  # type: ignore[no-any-return]


def _operands(part: Any) -> list[Any]:
    return part.made_of() if _is_step(part) else []


def _is_step(part: Any) -> bool:
    """Whether each element of a part is computed by a function from those of its operands."""
    if isinstance(part, Comparison):
        return not any(isinstance(side, Record) for side in part.args) and place_of(part) is None
    return isinstance(part, Elementwise)


def _as_step(part: Any, args: tuple[Any, ...]) -> Step:
    if isinstance(part, Comparison):
        function = np.not_equal if part.negated else np.equal
        return Step(function, args, 0, known_shape(part), (np.dtype(bool),))
    return Step(part.ufunc, args, part.output, known_shape(part), part.dtypes)


# --- as bytes ------------------------------------------------------------------------------------


def _array(raw: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    return np.frombuffer(raw, dtype).reshape(shape) if raw else np.empty(shape, dtype)


def _scalar(raw: bytes, dtype: np.dtype[Any]) -> Any:
    return np.frombuffer(raw, dtype)[0]


def _dtype(described: Any) -> np.dtype[Any]:
    return npy.descr_to_dtype(described)


def _ufunc(name: str) -> np.ufunc:
    found = getattr(np, name, None)
    if not isinstance(found, np.ufunc):
        raise pickle.UnpicklingError(f"NumPy has no elementwise function {name!r}")
    return found


_MADE_OF: tuple[Any, ...] = (
    Affine, Array, Computed, Constant, File, Index, Masked, NumpyFunction, Part, Permutation,
    Plan, Result, Spot, Step, complex, range, slice, _array, _dtype, _scalar, _ufunc,
)  # fmt: skip

_KNOWN: dict[tuple[str, str], Any] = {(one.__module__, one.__qualname__): one for one in _MADE_OF}
"""All that the bytes of a plan may call, by module and name."""


class _Pickler(pickle.Pickler):
    def reducer_override(self, one: Any) -> Any:
        if isinstance(one, np.dtype):
            if one.hasobject or one.kind == "T":
                raise Unwritable("objects and texts of any length are not written down")
            return _dtype, (npy.dtype_to_descr(one),)
        if isinstance(one, np.ndarray):
            return _array, (one.tobytes(), one.dtype, one.shape)
        if isinstance(one, np.generic):
            return _scalar, (one.tobytes(), one.dtype)
        if isinstance(one, np.ufunc):
            name = str(one.__name__)
            if getattr(np, name, None) is not one:
                raise Unwritable(f"{name} is no function of NumPy's")
            return _ufunc, (name,)
        key = getattr(one, "__module__", ""), getattr(one, "__qualname__", "")
        if (isinstance(one, type) or callable(one)) and _KNOWN.get(key) is not one:
            kind = type(one)
            if _KNOWN.get((kind.__module__, kind.__qualname__)) is not kind:
                raise Unwritable(f"{one!r} is not among what plans are made of")
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _KNOWN[module, name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"the plan of a journal names {module}.{name}, which no plan is made of"
            ) from None
