"""What is done to one batch: to an array and to a node alike, so that each conversion stands once.

Users hand over views; the face says here how they become nodes and nodes become views.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import evaluate_all, memory_of, rows_of
from dataview.errors import import_library
from dataview.exchange import bind, data_node, pack_like
from dataview.index import axes_of, positions, shares_axes
from dataview.plan import layout
from dataview.plan.build import elementwise, keyed, stored
from dataview.plan.concat import concat
from dataview.plan.kinds import Mapped, Placeholder, Select, Stored, known_shape
from dataview.plan.node import Label, Node, Part
from dataview.plan.operations import TEXTS, NumpyFunction
from dataview.plan.photographs import Late, PhotographSource
from dataview.plan.symbols import deferring, symbols_of
from dataview.sources import ArraySource, Memo

Extents = tuple[int | None, ...]


class Views(NamedTuple):
    """The class of views, and how a view becomes a node and a node a view.

    `asked` is the node that a view has before its length is asked for.
    """

    kind: type
    node_of: Callable[[Any], Node]
    viewed: Callable[[Node], Any]
    asked: Callable[[Any], Node]


_views: list[Views] = []


def register_views(views: Views) -> None:
    """Say what symbolic batches are; the face does this once."""
    _views[:] = [views]


def is_symbolic(batch: Any) -> bool:
    """Whether there is a view in a batch."""
    if type(batch) is np.ndarray:
        return False
    if isinstance(batch, tuple):
        return any(map(is_symbolic, batch))
    return isinstance(batch, _views[0].kind)


def unwrapped(batch: Any) -> Any:
    """Return a batch with the nodes of its views."""
    if type(batch) is np.ndarray or batch is None:
        return batch
    if isinstance(batch, tuple):
        return tuple([unwrapped(part) for part in batch])
    return _views[0].node_of(batch) if isinstance(batch, _views[0].kind) else batch


def is_in_memory(view: Any) -> bool:
    """Whether the data of a view are in memory, also since they were found; nothing is read."""
    node = _views[0].asked(view)
    found = node.source if isinstance(node, Stored) else None
    if isinstance(found, PhotographSource):
        return found.photograph.is_decided
    return not isinstance(node, Late) and memory_of(node) is not None


def shared(batch: Any, name: str | None) -> Any:
    """Return a view of an array in memory, which can be written; parts are named by number."""
    if isinstance(batch, tuple):
        each = enumerate(batch)
        return tuple([shared(part, None if name is None else f"{name}[{n}]") for n, part in each])
    if is_sparse(batch):
        raise TypeError("a view is dense, and a batch of a sparse VectorSpace is not")
    if batch is None:
        return None
    node = stored(ArraySource(batch))
    node.label = None if name is None else Label((name,), known_shape(node))
    return wrapped(node)


def wrapped(batch: Any) -> Any:
    """Return a batch with the views of its nodes."""
    if isinstance(batch, tuple):
        return tuple([wrapped(part) for part in batch])
    return _views[0].viewed(batch) if isinstance(batch, Node) else batch


def leaves_of(value: Any) -> list[Any]:
    """Return what stands in tuples, lists and mappings that are nested."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return [value]
    return [leaf for part in value for leaf in leaves_of(part)]


def _with_leaves(value: Any, leaves: Iterator[Any]) -> Any:
    if isinstance(value, Mapping):
        return {name: _with_leaves(part, leaves) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return pack_like(value, [_with_leaves(part, leaves) for part in value])
    return next(leaves)


def symbols_in(value: Any) -> dict[str, Placeholder]:
    """Return the symbols that nested views are computed of, by name."""
    return symbols_of([unwrapped(leaf) for leaf in leaves_of(value) if is_symbolic(leaf)])


def bound_to(value: Any, pairs: list[tuple[Any, Any]]) -> Any:
    """Return what nested views are over data for their symbols, which stand in pairs with them."""
    data = {unwrapped(symbol).name: data_node(unwrapped(part)) for symbol, part in pairs}

    def bound(view: Any) -> Node:
        return bind(unwrapped(view), {name: data[name] for name in symbols_in(view)})

    leaves = leaves_of(value)
    found = iter(evaluate_all([bound(leaf) for leaf in leaves if is_symbolic(leaf)]))
    each = [_number(next(found)) if is_symbolic(leaf) else leaf for leaf in leaves]
    return _with_leaves(value, iter(each))


def _number(data: np.ndarray) -> Any:
    """Return an array, or the number that it has if it has no axes, as a view returns it."""
    return data if np.ndim(data) else data[()]


# --- one array -------------------------------------------------------------------------------


def is_node(batch: Any) -> bool:
    """Whether a batch is one array that is not read yet."""
    return isinstance(batch, Node)


def is_sparse(batch: Any) -> bool:
    """Whether a batch is one of scipy's sparse matrices."""
    return hasattr(batch, "tocsr")


def extents_of(batch: Any) -> Extents:
    """Return the shape of a batch, with None for lengths that are unknown."""
    if not isinstance(batch, Node):
        return batch.shape  # type: ignore[no-any-return]
    return known_shape(batch) if batch.extents is None else batch.extents


def reshaped(batch: Any, *shape: int | None) -> Any:
    """Return a batch in another shape; of a node one length may be unknown."""
    if not isinstance(batch, Node):
        return batch.reshape(shape)
    return layout.reshaped(batch, tuple([-1 if n is None else n for n in shape]))


def transposed(batch: Any, order: tuple[int, ...]) -> Any:
    """Return a batch with its axes in another order; the same if that is theirs."""
    if order == _SAME[: len(order)]:
        return batch
    if isinstance(batch, Node):
        return layout.transposed(batch, order)
    return batch.transpose(order)


_SAME = tuple(range(64))


def joined(parts: list[Any], axis: int) -> Any:
    """Return batches one after the other along an axis."""
    if len(parts) == 1:
        return parts[0]
    own = parts[0].dtype
    found: Any
    if set(map(type, parts)) == {np.ndarray}:
        found = np.concatenate(parts, axis)
    elif any(map(is_sparse, parts)):
        return _scipy_sparse().hstack(parts, format="csr")
    elif any(map(is_node, parts)):
        nodes = [part if is_node(part) else stored(ArraySource(part), False) for part in parts]
        found = layout.moved(concat([layout.moved(node, axis, 0) for node in nodes]), 0, axis)
    else:
        found = np.concatenate(parts, axis)
    return found if found.dtype == own else _computed(_astype(own), found)  # in native order


def dense(batch: Any) -> Any:
    """Return a batch as an array, if it is a sparse matrix."""
    return batch.toarray() if type(batch) is not np.ndarray and is_sparse(batch) else batch


def sparse(batch: Any) -> Any:
    """Return an array as one of scipy's sparse arrays."""
    check_is_read(batch)
    return _scipy_sparse().csr_array(batch)


def sparse_ones(columns: np.ndarray, width: int, dtype: np.dtype[Any]) -> Any:
    """Return a sparse array with ones in some columns of each row, which may name one twice."""
    rows, count = columns.shape
    ends = np.arange(0, rows * count + 1, count)
    parts = np.ones(rows * count, dtype), columns.reshape(-1), ends
    found = _scipy_sparse().csr_array(parts, shape=(rows, width))
    found.sum_duplicates()
    found.data[:] = 1
    return found


def check_is_read(batch: Any) -> None:
    """Raise if a batch that is to be sparse is not read yet."""
    if isinstance(batch, Node):
        raise TypeError(
            "a view is dense, and a sparse VectorSpace was asked for; np_format_as makes a sparse "
            "batch of the data, and so does a loader"
        )


def _scipy_sparse() -> Any:
    return import_library("scipy.sparse", "dataview[sparse]")


def summed(batch: Any) -> Any:
    """Return a sparse matrix by rows, each number once: what stands twice in it is summed."""
    rows = batch.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


# --- dtypes ----------------------------------------------------------------------------------

_INTEGERS = "biu"


def remedy_for(given: np.dtype[Any], wanted: np.dtype[Any] | None = None) -> str:
    """Return how data of a dtype become numbers, or those of another dtype."""
    if given.kind in TEXTS:
        return "view._codes() makes labels of texts"
    if wanted is None:
        return "view._astype(dtype), or _map(function), makes numbers of it"
    if not _are_numbers(given, wanted):
        return "convert the data first"
    how = f"astype({wanted.name!r})"
    return f"_{how} of a view, or {how} of an array, drops what would be lost"


def check_cast(
    given: np.dtype[Any],
    wanted: np.dtype[Any] | None,
    where: str,
    remedy: str = "",
) -> None:
    """Raise unless all values of a dtype stay what they are in another, apart from digits."""
    if wanted is None or given == wanted:
        return
    if not _are_numbers(given, wanted) or _drops(given, wanted):
        raise TypeError(
            f"{where}: {given} cannot be cast to {wanted} without losing what it holds; "
            f"{remedy or remedy_for(given, wanted)}"
        )


def check_numbers(given: np.dtype[Any], wanted: np.dtype[Any], where: str) -> None:
    """Raise unless two dtypes are of numbers."""
    if not _are_numbers(given, wanted):
        raise TypeError(f"{where}: {given} cannot be cast to {wanted}: both have to be numbers")


def _are_numbers(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    return is_number(given) and is_number(wanted)


def is_number(dtype: np.dtype[Any]) -> bool:
    """Whether values of a dtype are numbers, of NumPy or, as bfloat16, of another library."""
    return dtype.kind in "biufc" or (dtype.kind == "V" and dtype.type is not np.void)


def _drops(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Whether a dtype has values that another, even with fewer digits, does not have."""
    return (
        (wanted.kind in "iu" and given.kind not in _INTEGERS)
        or (given.kind == "c" and wanted.kind != "c")
        or wanted.kind == "b"
    )


def check_fits(batch: Any, dtype: np.dtype[Any] | None) -> None:
    """Raise if a finite number in an array or a sparse matrix does not fit into a dtype."""
    if dtype is not None and _is_narrower(batch.dtype, dtype):
        values = summed(batch).data if is_sparse(batch) else batch
        NumpyFunction("fitting", (("dtype", dtype),))(values)


@functools.lru_cache(maxsize=256)
def _is_narrower(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Whether a dtype has finite numbers that do not fit into another, digits apart."""
    if given.kind not in "iufc" or wanted.kind not in "iufc":
        return False
    if wanted.kind in "iu":
        return given.kind in "iu" and not np.can_cast(given, wanted)
    return _largest(given) > _largest(wanted)


@functools.lru_cache(maxsize=256)
def _may_change(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Whether a dtype has numbers that another has not; to NumPy int64 is safe in float64."""
    if given.kind in "iu" and wanted.kind in "fc" and 8 * given.itemsize > np.finfo(wanted).nmant:
        return True
    return not np.can_cast(given, wanted)


def _largest(dtype: np.dtype[Any]) -> float:
    return float((np.iinfo if dtype.kind in "iu" else np.finfo)(dtype).max)


def cast(batch: Any, dtype: np.dtype[Any] | None, how: Any) -> Any:
    """Return a batch in another dtype; a number that does not fit into it is an error.

    So is a finite one that would become infinite, and with the casting "exact" an integer that
    would change, and any other value that would change by more than digits.
    """
    if dtype is None or batch.dtype == dtype:
        return batch
    given, casting = batch.dtype, how.casting
    step = _astype(dtype)
    if casting == "exact":
        check_numbers(given, dtype, "a batch")
        if _may_change(given, dtype):
            step = NumpyFunction("fitting", (("dtype", dtype), ("exact", True)), how.where)
    elif casting != "unsafe":
        check_cast(given, dtype, "a batch", how.remedy("cast"))
        if _is_narrower(given, dtype):
            step = NumpyFunction("fitting", (("dtype", dtype),), how.where)
    if not is_sparse(batch):
        return _computed(step, batch)
    rows = summed(batch)
    step(rows.data)
    return rows.astype(dtype).asformat(batch.format)


@functools.lru_cache(maxsize=256)
def _astype(dtype: np.dtype[Any]) -> NumpyFunction:
    return NumpyFunction("astype", (("dtype", dtype), ("casting", "unsafe")))


def _computed(step: NumpyFunction, batch: Any) -> Any:
    return elementwise(step, (batch,))[0] if isinstance(batch, Node) else step(batch)


# --- rows ------------------------------------------------------------------------------------


class RowStep(Part):
    """What makes a row of each row, in the same way for arrays and nodes.

    `where` says in messages what the rows are of.
    """

    __slots__ = ("where",)
    parts = ()
    title = "format_as"
    deterministic = True

    def __init__(self, where: str) -> None:
        self.where = where

    def made(self, values: np.ndarray, told: Callable[[int], str] | None) -> np.ndarray:
        """Return the rows made of these; `told` says in a message which one one of them is."""
        raise NotImplementedError

    def row_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the rows that it makes of rows of a shape."""
        return shape

    def result(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of the rows that it makes of those of a dtype."""
        return dtype

    def rows(self, node: Any, numbers: np.ndarray, memo: Memo) -> np.ndarray:
        """Return rows of a node, numbered upwards."""
        is_run = len(numbers) > 0 and int(numbers[-1]) - int(numbers[0]) < len(numbers)
        run = range(int(numbers[0]), int(numbers[-1]) + 1) if is_run else numbers
        rows = np.asarray(rows_of(node.node, run))
        found = self.made(rows, lambda row: _row_text(node.node, int(numbers[row])))
        return found.copy() if found is rows else found  # a run of rows may be memory of others


def _row_text(node: Node, row: int) -> str:
    """Return which row of a node it is, and of the data that its rows are chosen from."""
    found = row
    if isinstance(node, Select) and node.index.maps and not shares_axes(node.index, 0):
        axes = axes_of(node.index.maps[0])
        if axes == (0,) or (axes == () and node.index.shape[0] == 1):
            index = keyed(node, slice(row, row + 1)).index  # type: ignore[attr-defined]
            found = positions(index.maps[0], index.shape).item()
    return f"row {row}" if found == row else f"row {row}, row {found} of the data,"


def by_rows(batch: Any, step: RowStep) -> Any:
    """Return what a step makes of each row of a batch."""
    return _of_rows(batch, step) if isinstance(batch, Node) else step.made(batch, None)


@deferring
def _of_rows(node: Node, step: RowStep) -> Node:
    shape = known_shape(node)
    assert node.dtype is not None
    return Mapped(node, step, (), (shape[0], *step.row_shape(shape[1:])), step.result(node.dtype))
