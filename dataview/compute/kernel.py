"""One block of an expression: the ufunc calls of a program, with buffers that are used again.

NumPy is the reference: every step calls NumPy's own ufunc on operands of NumPy's own dtypes, or
gives the same bits (see `programs`), so that values, dtypes and floating-point errors are those of
the eager expression.  Errors are noted while blocks run, and reported once, in the caller's thread.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dataview.compute.programs import (
    Joined,
    Place,
    Program,
    ProgramStep,
    compiled,
    elementwise_order,
    operand_key,
)
from dataview.errors import warn
from dataview.index import broadcast_shapes
from dataview.plan.kinds import Elementwise, known_dtype
from dataview.plan.node import Node
from dataview.plan.operations import computed_into
from dataview.sources import borrow, give_back


class Position:
    """Which step a block has reached, so that a floating-point error can name it."""

    __slots__ = ("name", "step")

    def __init__(self) -> None:
        self.step: ProgramStep | None = None
        self.name = "an operand"

    def reach(self, step: ProgramStep) -> None:
        """Note that this step begins."""
        self.step = step

    def current_step(self) -> tuple[int, str]:
        """Return the number of the step (-1 before the first) and its name."""
        step = self.step
        return (-1, self.name) if step is None else (step.number, step.ufunc.__name__)


DEEP = 100
"""Longer chains of operations are ordered before they are computed, so that none recurses."""


def run_small(
    roots: Sequence[Elementwise],
    leaf: Callable[[Node], Any],
    at: Position | None = None,
    lending: bool = False,
) -> list[np.ndarray]:
    """Compute small expressions on whole operands, without a program: NumPy allocates.

    A part that occurs twice is computed once.  With `lending`, the value of a node whose memory is
    known is this memory, and `leaf` is not called.
    """
    values: dict[Node, Any] = {}
    calls: dict[int, list[tuple[Any, list[Any], Any]]] = {}
    if len(roots) == 1 and at is None and roots[0].depth <= DEEP:
        return [_as_array(_value(roots[0], values, calls, leaf, lending), roots[0])]
    if at is not None or max([root.depth for root in roots], default=0) > DEEP:
        for node in elementwise_order(roots):
            if at is not None:
                at.name = node.ufunc.__name__
            values[node] = _value(node, values, calls, leaf, lending)
    return [
        _as_array(
            values[root] if root in values else _value(root, values, calls, leaf, lending), root
        )
        for root in roots
    ]


def _as_array(value: Any, node: Elementwise) -> np.ndarray:
    """Return a value as an array; a single object may be an array or a list itself."""
    if isinstance(value, np.ndarray) and value.shape == node.shape:
        return value
    if node.shape == () and node.dtypes[0].hasobject:
        return in_array(value, node.dtypes[0])
    return np.asarray(value)


def _value(
    node: Elementwise,
    values: dict[Node, Any],
    calls: dict[int, list[tuple[Any, list[Any], Any]]],
    leaf: Callable[[Node], Any],
    lending: bool,
) -> Any:
    """Return a node's value; `values` and `calls` hold what was computed before."""
    operands: list[Any] = []
    value: Any = None
    for arg in node.args:
        if not isinstance(arg, Node):
            operands.append(arg)
            continue
        value = arg.lent if lending else None
        if value is None or value is False:
            value = values.get(arg)
            if value is None:
                if type(arg) is Elementwise:
                    value = _value(arg, values, calls, leaf, lending)
                else:
                    value = leaf(arg)
                values[arg] = value
        operands.append(value)
    # Equal calls have their last array in common, so a long chain is not searched for each call.
    before = calls.setdefault(id(value), [])
    for ufunc, others, result in before:
        if ufunc is node.ufunc and all(map(_is_same, operands, others)):
            found = result
            break
    else:
        found = node.ufunc(*operands)
        if type(found) is not np.ndarray:
            found = _in_arrays(found, node)
        before.append((node.ufunc, operands, found))
    return found if len(node.dtypes) == 1 else found[node.output]


def _in_arrays(found: Any, node: Elementwise) -> Any:
    """Return what a ufunc gave, with bare objects in arrays: a list would be taken for several."""
    if node.shape or not any(dtype.hasobject for dtype in node.dtypes):
        return found
    if len(node.dtypes) == 1:
        return in_array(found, node.dtype)
    return tuple(map(in_array, found, node.dtypes))


def in_array(value: Any, dtype: Any) -> np.ndarray:
    """Return an array without axes that holds one value, be it a list."""
    array = np.empty((), dtype)
    array[()] = value
    return array


def _is_same(operand: Any, other: Any) -> bool:
    """Whether two operands are one array, or numbers of one type and value."""
    if operand is other:
        return True
    numbers = not isinstance(operand, np.ndarray) and not isinstance(other, np.ndarray)
    return numbers and bool(operand_key(operand) == operand_key(other))


Runner: TypeAlias = "Callable[[tuple[int, ...], Callable[[Node], Any]], list[np.ndarray]]"
"""A function of the shape of a result, and of a function that returns the value of a leaf."""


def run_whole(
    roots: Sequence[Elementwise], shape: tuple[int, ...], leaf: Callable[[Node], Any]
) -> list[np.ndarray]:
    """Compute expressions in one block, under the caller's errstate, with few temporaries."""
    return whole_runner(roots)(shape, leaf)


def whole_runner(roots: Sequence[Elementwise]) -> Runner:
    """Return the function that computes expressions as `run_whole` does."""
    if len(roots) == 1 and roots[0].depth == 1:
        return functools.partial(_run_one, roots[0])
    order = elementwise_order(roots)
    bare = any(not node.shape and known_dtype(node).hasobject for node in order)
    if len(roots) == 1 and not bare and len({node.ufunc for node in order}) == len(order):
        return functools.partial(_run_line, _line_of(order))  # no two calls can be equal
    return functools.partial(_run_tape, roots)


def _run_one(
    node: Elementwise, shape: tuple[int, ...], leaf: Callable[[Node], Any]
) -> list[np.ndarray]:
    """Compute an operation whose operands are no operations: nothing could be computed over."""
    return [_of_shape(shape, *run_small((node,), leaf))]


def _of_shape(shape: tuple[int, ...], found: np.ndarray) -> np.ndarray:
    return found if found.shape == shape else np.array(np.broadcast_to(found, shape))


def _run_tape(
    roots: Sequence[Elementwise], shape: tuple[int, ...], leaf: Callable[[Node], Any]
) -> list[np.ndarray]:
    program = compiled(*roots)
    parts = [node for node in program.leaves if isinstance(node, Elementwise)]
    values = dict(zip(parts, run_small(parts, leaf), strict=True))
    leaves = [values[node] if node in values else leaf(node) for node in program.leaves]
    own = [leaf for leaf in leaves if np.shape(leaf) == shape]
    fortran = bool(own) and all(map(is_fortran, own))
    outs = [new_result(shape, known_dtype(root), fortran) for root in roots]
    tape = Tape(program, leaves, outs, True)
    tape.run(leaves, outs, Position())
    tape.give_back()
    return outs


class Line(NamedTuple):
    """Calls one after the other, whose values have keys, as what they are `given` has.

    A call has its key, its ufunc, its operands, one of them that is not read again and may be
    computed over, and which of its results counts; the last two may be None.
    """

    given: list[tuple[int, Any]]
    calls: list[tuple[int, Any, list[int], int | None, int | None]]


def _line_of(order: Sequence[Elementwise]) -> Line:
    given: dict[int, Any] = {}
    calls = []
    read: set[int] = set()  # by the calls that come later
    for node in reversed(order):
        over, output = None, None if len(node.dtypes) == 1 else node.output
        keys = [*map(id, node.args)]
        for key, arg in zip(reversed(keys), reversed(node.args), strict=True):
            if not isinstance(arg, Elementwise):
                given[key] = arg
            elif output is None and key not in read and arg.dtype == node.dtype:
                over = key if type(arg.ufunc) is type(node.ufunc) is np.ufunc else over
        read.update(keys)
        calls.append((id(node), node.ufunc, keys, over, output))
    return Line([*given.items()][::-1], calls[::-1])


def _run_line(line: Line, shape: tuple[int, ...], leaf: Callable[[Node], Any]) -> list[np.ndarray]:
    values = {key: leaf(arg) if isinstance(arg, Node) else arg for key, arg in line.given}
    for key, ufunc, operands, over, output in line.calls:
        given = [values[operand] for operand in operands]
        room = None if over is None else values[over]
        if type(room) is np.ndarray and room.shape == shape:
            found = ufunc(*given, out=room)
        else:
            found = ufunc(*given)
        values[key] = found if output is None else found[output]
    return [_of_shape(shape, np.asarray(values[key]))]


def new_result(shape: tuple[int, ...], dtype: Any, fortran: bool) -> np.ndarray:
    """Return memory for a result, in Fortran order if its operands are in it."""
    return np.empty(shape[::-1], dtype).T if fortran else np.empty(shape, dtype)


def is_fortran(array: np.ndarray) -> bool:
    """Whether the first axis is that of the nearest elements, as in Fortran order.

    >>> is_fortran(np.ones((3, 2)).T[:, :2]), is_fortran(np.ones((3, 2))), is_fortran(np.ones(3))
    (True, False, False)
    """
    steps = [abs(step) for step, n in zip(array.strides, array.shape, strict=True) if n > 1]
    return len(steps) > 1 and steps[0] > 0 and all(a < b for a, b in itertools.pairwise(steps))


class Call(NamedTuple):
    """A step, and the numbers of the values that it reads and of those that it fills."""

    step: ProgramStep
    operands: tuple[int, ...]
    targets: tuple[int, ...]


class Tape:
    """A program's calls on blocks of one shape, with the buffers that they share.

    It is decided once where each result goes, so that a block costs little more than its ufunc
    calls.  The values of a block are numbered: its leaves, its outputs, then constants and buffers.
    Where outputs are in Fortran order, the steps get all values with their axes reversed: so the
    buffers are in this order, too.
    """

    def __init__(
        self,
        program: Program,
        leaves: Sequence[np.ndarray],
        outs: Sequence[np.ndarray],
        spare: bool,
    ) -> None:
        """Decide the calls for blocks of the shape of these leaves and outputs.

        `spare` says that no leaf shares memory with `outs`, so that `outs` may hold intermediate
        results.
        """
        self.fixed: list[Any] = []
        self.taken: list[np.ndarray] = []
        self.axes = outs[0].ndim if all(map(is_fortran, outs)) else 0
        self.kinds = [(value.shape, value.dtype) for value in self._laid([*leaves, *outs])]
        self.spare = spare
        numbers = range(len(leaves), len(leaves) + len(outs))
        # Equal expressions are computed once, into the first of their outputs.
        self.outs = dict(zip(reversed(program.outputs), reversed(numbers), strict=True))
        self.free: list[int] = []
        self.calls: list[Call] = []
        values: dict[int, int] = {}
        for position, step in enumerate(program.steps):
            operands = tuple([self._operand(op, values) for op in step.operands])
            read = {op.number for op in step.operands if type(op) is Place and op.number >= 0}
            ended = [place for place in read if program.last_use[place] == position]
            released = [values.pop(place) for place in sorted(ended)]
            self.calls.append(Call(step, operands, self._targets(step, operands, released)))
            values.update(zip(step.results, self.calls[-1].targets, strict=True))
        ends = [(out, values[place]) for place, out in zip(program.outputs, numbers, strict=True)]
        self.copies = [(out, value) for out, value in ends if out != value]

    def _operand(self, operand: Any, values: dict[int, int]) -> int:
        if type(operand) is not Place:
            (operand,) = self._laid([operand])
            return self._more(operand, (np.shape(operand), None))
        return -1 - operand.number if operand.number < 0 else values[operand.number]

    def _laid(self, values: list[Any]) -> list[Any]:
        """Return values as the steps get them; their axes are the last ones of the outputs."""
        if not self.axes:
            return values
        shapes = [(1,) * (self.axes - np.ndim(value)) + np.shape(value) for value in values]
        each = zip(values, shapes, strict=True)
        return [value.reshape(shape).T if np.ndim(value) else value for value, shape in each]

    def _more(self, value: Any, kind: Any) -> int:
        self.fixed.append(value)
        self.kinds.append(kind)
        return len(self.kinds) - 1

    def _targets(
        self, step: ProgramStep, operands: tuple[int, ...], released: list[int]
    ) -> tuple[int, ...]:
        """Return where the results of a step go; nothing after it reads the values `released`."""
        shape = broadcast_shapes(*(self.kinds[number][0] for number in operands))
        is_ufunc = isinstance(step.ufunc, np.ufunc)
        elementwise = is_ufunc or not getattr(step.ufunc, "needs_own_output", True)
        # In place: a step with one result reads each element before it writes it.
        in_place = elementwise and len(step.results) == 1
        if in_place:
            self._release(released)
        separate = () if elementwise else operands
        found = [
            self._target(place, (shape, dtype), separate)
            for place, dtype in zip(step.results, step.dtypes, strict=True)
        ]
        if not in_place:
            self._release(released)
        return tuple(found)

    def _release(self, numbers: list[int]) -> None:
        self.free.extend(number for number in numbers if number not in self.outs.values())

    def _target(self, place: int, kind: Any, separate: tuple[int, ...]) -> int:
        """Return the value to compute a result into: an output, or a buffer of this kind.

        An output may share memory with the operands only if there are no `separate` ones.
        """
        out = self.outs.get(place)
        if out is not None and self.kinds[out] == kind and (not separate or self.spare):
            return out
        for number in self.free:
            if self.kinds[number] == kind:
                self.free.remove(number)
                return number
        return self._more(borrow(kind[0], kind[1], self.taken), kind)

    def give_back(self) -> None:
        """Release the buffers to other tapes: this one is not run again."""
        self.fixed.clear()
        give_back(self.taken)

    def run(self, leaves: Sequence[np.ndarray], outs: Sequence[np.ndarray], at: Position) -> None:
        """Compute a block of the tape's shape into `outs`."""
        values = [*self._laid([*leaves, *outs]), *self.fixed]
        for step, operands, targets in self.calls:
            at.step = step
            args = [values[number] for number in operands]
            if type(step.ufunc) is Joined:
                step.ufunc(args, values[targets[0]], at.reach)
            else:
                computed_into(step.ufunc, args, tuple([values[number] for number in targets]))
        for out, value in self.copies:
            np.copyto(values[out], values[value])


_MODES = {
    "divide by zero": "divide",
    "overflow": "over",
    "underflow": "under",
    "invalid value": "invalid",
}
"""The name that `np.errstate` has for each kind of error, in the order of NumPy's flags."""


class FloatErrors(dict[tuple[int, str], str]):
    """The name of the step that failed, by the number of the step and the kind of error."""

    def noting(self, step: Callable[[], tuple[int, str]]) -> AbstractContextManager[Any]:
        """Note the errors that happen in this context; `step` returns whose fault each one is."""

        def note(kind: str, flag: int) -> None:
            number, name = step()
            self[number, kind] = name

        return np.errstate(all="call", call=note)

    def noting_in(self, name: str) -> AbstractContextManager[Any]:
        """Note the errors that happen in this context, all of them in one step."""
        return self.noting(lambda: (0, name))

    def report(self) -> None:
        """Treat each error once, as the caller's `errstate` says."""
        if not self:
            return
        modes = np.geterr()
        for (_, kind), name in sorted(self.items()):
            mode = modes[_MODES[kind]]  # type: ignore[literal-required]
            message = f"{kind} encountered in {name}"
            if mode == "raise":
                raise FloatingPointError(message)
            if mode == "warn":
                warn(message)
            elif mode == "call":
                flag = 1 << [*_MODES].index(kind)  # NumPy's bit for this kind of error
                np.geterrcall()(kind, flag)  # type: ignore[operator, misc]
            elif mode == "print":
                print(f"Warning: {message}")
            elif mode == "log":
                np.geterrcall().write(f"Warning: {message}\n")  # type: ignore[union-attr]
