"""In-place operators: the result is written over the data block by block, while it is computed.

Operands may read the data that is overwritten.  Those that read each block at its own places are
read as they are; all others are copied before the first block is written.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dataview.compute import (
    Cut,
    FloatErrors,
    Place,
    aliases,
    cuts_along,
    evaluate,
    leaves_of,
    memory_of,
    overwrite,
    pending,
    run_blocks,
    take,
    take_before,
)
from dataview.errors import PartialWriteError
from dataview.index import axes_of, identity
from dataview.plan.build import elementwise, select
from dataview.plan.guards import check_array
from dataview.plan.kinds import (
    Elementwise,
    Reduction,
    Sampled,
    Select,
    Stored,
    known_dtype,
    known_shape,
    size_of,
)
from dataview.plan.node import Argument, Node
from dataview.plan.walk import below
from dataview.sizes import sizes
from dataview.write.assignment import announce, check_writable, write
from dataview.write.overlap import is_same_places, safe_operand, source_of


def apply_in_place(node: Node, ufunc: np.ufunc, args: Sequence[Argument]) -> None:
    """Write `ufunc(*args)` into a node, with the result that NumPy's `out=` gives."""
    if isinstance(node, Sampled):
        node, args = node.writable(tuple(args))
    check_array(node, ufunc.__name__)
    check_writable(node)
    _check_result(node, ufunc, args)
    source = source_of(node)
    small = size_of(known_shape(node)) < sizes.streamed_elements
    if source is None or small or not _is_one_box(node):
        _at_once(node, ufunc, args)
        return
    for arg in args:
        if isinstance(arg, Node):
            take(pending(arg), evaluate)
    take_before([Place(source, node.index if isinstance(node, Select) else identity(source.shape))])
    safe = tuple(safe_operand(arg, node) if isinstance(arg, Node) else arg for arg in args)
    (expression,) = elementwise(ufunc, safe)
    if expression.shape != node.shape:
        _at_once(node, ufunc, args)
        return
    if source.memory is not None:
        _in_memory(node, expression, ufunc, safe)
    else:
        _in_file(node, expression)


def _check_result(node: Node, ufunc: np.ufunc, args: Sequence[Argument]) -> None:
    """Raise what NumPy raises for shapes and dtypes that do not fit, before the first byte."""
    empties = [np.empty(0, known_dtype(arg)) if isinstance(arg, Node) else arg for arg in args]
    with np.errstate(all="ignore"):
        ufunc(*empties, out=np.empty(0, known_dtype(node)))
    results = elementwise(ufunc, tuple(args))
    if len(results) != 1:
        raise TypeError(f"{ufunc.__name__} has {len(results)} results; give as many outputs")
    shape = known_shape(node)
    if results[0].shape != shape and np.broadcast_shapes(known_shape(results[0]), shape) != shape:
        raise ValueError(
            f"the result of {ufunc.__name__} has shape {results[0].shape}, which does not fit into "
            f"the view's shape {shape}"
        )


def _is_one_box(node: Node) -> bool:
    """Whether a node shows each place once, so that no two blocks change the same place."""
    if not isinstance(node, Select):
        return bool(node.shape)
    used = [axis for map_ in node.index.maps for axis in axes_of(map_)]
    spread = all(length == 1 or axis in used for axis, length in enumerate(node.index.shape))
    return node.index.is_box and bool(node.shape) and spread and len(set(used)) == len(used)


def _at_once(node: Node, ufunc: np.ufunc, args: Sequence[Argument]) -> None:
    result = np.empty(known_shape(node), known_dtype(node))
    ufunc(*(evaluate(arg) if isinstance(arg, Node) else arg for arg in args), out=result)
    write(node, result)


# --- memory ----------------------------------------------------------------------------------


def _in_memory(
    node: Node, expression: Elementwise, ufunc: np.ufunc, args: Sequence[Argument]
) -> None:
    memory = memory_of(node) if aliases(node) else None
    plain = all(_is_in_memory(arg) for arg in args if isinstance(arg, Node))
    raising = _may_raise() or _has_power(expression)
    if memory is None or not plain or known_dtype(node).hasobject or raising:
        _at_once(node, ufunc, args)
        return
    try:
        with _held_interrupt():
            overwrite(expression, memory)
    finally:
        announce([source_of(node)])


def _is_in_memory(node: Node) -> bool:
    """Whether a node's data is in memory, or computed from it without calls that may fail."""
    return all(
        part.source.memory is not None if isinstance(part, Stored) else isinstance(part, _SURE)
        for part in below([node])
    )


_SURE = (Select, Elementwise, Reduction)
"""The kinds of nodes that do not fail if the nodes below them do not."""


def _has_power(node: Node) -> bool:
    """Whether an integer power is computed, which raises when it comes to a negative exponent."""
    powers = (part for part in below([node]) if isinstance(part, Elementwise))
    return any(part.ufunc is np.power and known_dtype(part).kind in "iu" for part in powers)


def _may_raise() -> bool:
    """Whether a floating-point error would raise, after which the old values must be there."""
    if not {"ignore", "warn"}.issuperset(np.geterr().values()):
        return True
    for action, message, category, module, line in warnings.filters:
        if issubclass(RuntimeWarning, category):
            if action == "error":
                return True
            if message is None and module is None and not line:  # no later rule is asked
                return False
    return False


@contextlib.contextmanager
def _held_interrupt() -> Iterator[None]:
    """Delay Ctrl-C to the end of a change, so that no block is half written."""
    import signal  # imported here because this takes long

    answer = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or answer is None:
        yield
        return
    pressed: list[Any] = []
    signal.signal(signal.SIGINT, lambda *event: pressed.append(event))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, answer)
    if pressed:
        signal.raise_signal(signal.SIGINT)  # now the program's own handler runs


# --- files -----------------------------------------------------------------------------------


def _in_file(node: Node, expression: Elementwise) -> None:
    """Change a file in blocks of rows; old values are kept for an undo, within the budget."""
    shape, dtype = known_shape(node), known_dtype(node)
    keep = size_of(shape) * dtype.itemsize <= sizes.undo_bytes
    done: dict[Cut, np.ndarray | None] = {}
    errors = FloatErrors()
    same = [leaf for leaf in leaves_of(expression) if leaf is node or is_same_places(leaf, node)]
    others = [leaf for leaf in leaves_of(expression) if leaf not in same]
    sure = all(map(_is_in_memory, others)) and not _has_power(expression)
    straight = expression.dtype == dtype and (keep or sure)

    def change(cut: Cut) -> None:
        index = cut.within(shape)
        part = select(node, index)
        source = source_of(part)
        where = part.index if isinstance(part, Select) else identity(shape)
        memory = source.memmap(where) if straight else None
        with errors.noting_in(expression.ufunc.__name__):
            if memory is not None:
                with _held_interrupt():
                    done[cut] = memory.copy() if keep else None
                    overwrite(expression, memory, index, {id(leaf): memory for leaf in same})
                return
            old = evaluate(part)  # a copy: a file lends no memory
            same_kind = expression.dtype == dtype and not keep
            value = old if same_kind else np.empty(old.shape, known_dtype(expression))
            overwrite(expression, value, index, {id(leaf): old for leaf in same})
            value = value if value.dtype == dtype else value.astype(dtype)
        with _held_interrupt():
            done[cut] = old if keep else None
            source.write(where, value)

    try:
        run_blocks(change, _row_blocks(node))
        errors.report()
    except BaseException as error:
        with _held_interrupt():
            _roll_back(node, shape, done, error)
        raise
    finally:
        announce([source_of(node)])


def _row_blocks(node: Node) -> list[Cut]:
    """Return blocks of the file's rows, no two of which write the same page."""
    shape = known_shape(node)
    index = node.index if isinstance(node, Select) else identity(shape)
    axis, size = source_of(node).slow_axis(index)
    return cuts_along(axis, shape[axis], max(1, sizes.file_bytes // size))


def _roll_back(
    node: Node, shape: tuple[int, ...], done: dict[Cut, np.ndarray | None], error: BaseException
) -> None:
    for cut, old in list(done.items()):
        if old is None:
            rows = sorted((cut.start, cut.stop) for cut in done)
            in_part = "" if isinstance(error, KeyboardInterrupt) else ", some perhaps only in part"
            raise PartialWriteError(
                f"the update failed, and the old values were more than {sizes.undo_bytes >> 20} "
                f"MB, too many to keep; rows {_joined_spans(rows)} of axis {cut.axis} were changed"
                f"{in_part}"
            ) from error
        try:
            write(select(node, cut.within(shape)), old)
        except Exception as failure:
            raise PartialWriteError(
                f"the update failed ({error!r}), and so did its undo ({failure!r}) at rows "
                f"{cut.start}:{cut.stop} of axis {cut.axis}"
            ) from error


def _joined_spans(spans: list[tuple[int, int]]) -> str:
    """Return spans as text, adjacent ones as one.

    >>> _joined_spans([(0, 2), (2, 4), (6, 8)])
    '0:4, 6:8'
    """
    joined: list[tuple[int, int]] = []
    for start, stop in spans:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return ", ".join(f"{start}:{stop}" for start, stop in joined)
