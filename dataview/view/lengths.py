"""Facts of a view that need no reading: length, width, shape; and what it is as truth or key."""

from __future__ import annotations

import math
from opcode import opmap
from types import FrameType
from typing import Any

import numpy as np

from dataview import show
from dataview.compute import evaluate, evaluate_view, is_equal
from dataview.errors import StreamError, chained, listed
from dataview.index import is_endless
from dataview.index.shape_texts import shape_text
from dataview.plan.build import comparison
from dataview.plan.gaps import compared_in, present_in
from dataview.plan.guards import why_no_rows
from dataview.plan.kinds import (
    Comparison,
    Elementwise,
    Record,
    Sampled,
    Unbound,
    known_shape,
    size_of,
)
from dataview.plan.node import Argument, Node
from dataview.plan.operations import TEXTS
from dataview.plan.ragged import Ragged
from dataview.plan.symbols import symbols_of
from dataview.samples import NumberedSamples, Stream, collected, is_ragged, length_of
from dataview.tables import comparable, mask_of
from dataview.view.face import BaseView, node_of


def counted(node: Node) -> int:
    """Return the number of samples, or raise an error that says why it is unknown."""
    length = length_of(node)
    if length == math.inf:
        raise TypeError("the view never ends, so it has no len(); _length() returns math.inf")
    if length is None and isinstance(node, Sampled):
        raise StreamError("the length is unknown until all has been read; _length() returns None")
    if length is None:
        known_shape(node)
        why = why_no_rows(node)
        raise TypeError(f"len(): {why}" if why else _NO_LENGTH)
    return int(length)


_NO_LENGTH = "len() of a view without axes: it is one element"


def width(node: Node) -> int:
    """Return the length of a row."""
    shape = node.extents if isinstance(node, Unbound) else known_shape(node)
    if len(shape) < 2:
        raise TypeError(
            f"there is no width: the samples have no axis; the shape is {shape_text(shape)}"
        )
    return known_shape(node)[1] if shape[1] is None else shape[1]


def ndim(node: Node) -> int:
    """Return the number of axes."""
    is_made_later = isinstance(node, NumberedSamples) and node.row_extents is not None
    is_partial = isinstance(node, Unbound) or is_ragged(node) or is_made_later
    known = node.extents if is_partial else None
    return len(known_shape(node) if known is None else known)


def iterable(node: Node, wanted: int | None) -> int:
    """Return how many samples iteration gives, endless ones included; so many may be wanted."""
    shape = known_shape(node)
    if not shape:
        if why := why_no_rows(node):
            raise TypeError(f"iteration: {why}")
        if node.fields.named:
            raise TypeError(
                "iteration over one sample, which has no rows; its fields are "
                f"{_listed_fields(node)}: d._iter_fields() iterates over them, and d._astuple() "
                "are their data"
            )
        raise TypeError("iteration over a view without axes: it is one element")
    if wanted not in (None, shape[0]) and node.fields.named:
        raise ValueError(
            f"{'too many' if shape[0] > wanted else 'not enough'} values to unpack (expected "
            f"{wanted}, got {shape[0]}): iteration is over rows; the fields are "
            f"{_listed_fields(node)}, and d._loader(batch_size, fields="
            f"{tuple(node.fields)[:wanted]}) hands out tuples of them"
        )
    return shape[0]


def _listed_fields(node: Node) -> str:
    return listed([f"d{chained([name])}" for name in node.fields])


def unpacked_into(caller: FrameType) -> int | None:
    """Return into how many names the line of a caller unpacks the view that it iterates over."""
    code, place = caller.f_code.co_code, caller.f_lasti
    return code[place + 1] if code[place] == _UNPACK else None


_UNPACK = opmap["UNPACK_SEQUENCE"]


def are_equal(left: Node, right: Node) -> bool:
    """Return whether two views are equal as wholes, the labels of their codes by what they are."""
    return truth(comparison(*comparable(left, right), False))


def truth(node: Node) -> bool:
    """Return the truth of a comparison as a whole, or of a view's only element."""
    whole = compared_in(node)
    if whole is not None and whole.wholes:
        left, right = (collected(arg) if isinstance(arg, Node) else arg for arg in whole.args)
        return (is_equal(left, right) and _same_gaps(left, right)) is not whole.negated
    compared = node.compared() if isinstance(node, Ragged) else getattr(node, "node", None)
    inside = compared_in(compared) if isinstance(compared, Elementwise) else None
    if isinstance(node, Ragged) and inside is not None and inside.wholes:  # of lists with gaps
        (left, right), is_negated = inside.args, inside.negated
        return (is_equal(left, right) and _same_gaps(left, right)) is not is_negated
    if isinstance(node, Sampled) and isinstance(compared, Comparison) and compared.wholes:
        rows = evaluate(node.writable(())[0])
        return bool(rows.any() if compared.negated else rows.all())
    if isinstance(node, Ragged):
        node = node.flat()
    length = length_of(node)
    if length == math.inf or (length is None and isinstance(node, Sampled)):
        raise StreamError("a view without a known end has no truth value")
    size = length if isinstance(node, Sampled) else size_of(known_shape(node))
    if size != 1:
        raise ValueError(
            f"the truth of a view of {size} elements is ambiguous: d._any() or d._all() has one; "
            "conditions on each element are joined by &, | and ~, as in (d > 1) & (d < 3)"
        )
    return bool(evaluate(node)) and not is_missing(node)


def _same_gaps(left: Argument, right: Argument) -> bool:
    """Whether the masks of two columns of one shape say the same."""
    masks = [present_in(side) if isinstance(side, Node) else None for side in (left, right)]
    given = [mask for mask in masks if mask is not None]
    return is_equal(*given) if len(given) == 2 else all(evaluate(mask).all() for mask in given)


def is_missing(node: Node) -> bool:
    """Whether a mask says that an only element is not there."""
    present = present_in(node) if node.has_gaps else None
    return present is not None and not evaluate(present).all()


def only_value(view: BaseView, what: str) -> Any:
    """Return the only element of a view, or say what needs one."""
    found = view()
    size = getattr(found, "size", 1)  # a scalar of NumPy's has one, other objects are one
    if size != 1:
        raise TypeError(
            f"{what} takes a view of one element, and this one has {size}; np.round(d, 2) and "
            "d._astype(int) are of each"
        )
    if is_missing(node_of(view)) and found == found:  # NaN says itself that it is missing
        raise ValueError(
            f"{what} takes a value, and that of {show.title(node_of(view))} is missing: "
            "d._isna() is true; d._fillna(value) puts a value in its place"
        )
    return found


def holds_no_texts(node: Node) -> bool:
    """Whether a text can be no element of a view with fields: it may be a field's name."""
    kind = "O" if node.dtype is None else node.dtype.kind
    return isinstance(node, Record) or (bool(node.fields.named) and kind not in "O" + TEXTS)


def any_true(node: Node) -> bool:
    """Whether any element is true."""
    return bool(np.any(evaluate(node.flat() if isinstance(node, Ragged) else node)))


def plain_key(key: Any) -> Any:
    """Return the key with its views evaluated: nothing else reads while a view is built."""
    if isinstance(key, BaseView):
        return _as_key(node_of(key))
    if isinstance(key, tuple):
        return tuple(_as_key(node_of(k)) if isinstance(k, BaseView) else k for k in key)
    return key


def _as_key(node: Node) -> np.ndarray:
    """Return the data of a view that is a key; of files what may be true is read."""
    if is_ragged(node):
        shape = shape_text(node.extents or ())
        raise IndexError(
            f"a key chooses rows, and this one is ragged, {shape}: of a mask of values, "
            "mask._any(axis=1) are the rows that have one, as in d[(d.x > 1)._any(axis=1)]"
        )
    found = mask_of(node)
    return np.asarray(evaluate_view(node)) if found is None else found


class RowsShape(tuple[Any, ...]):
    """The shape of a record: it has no axis of fields, though libraries and users look for one."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        try:
            return super().__getitem__(key)
        except IndexError:
            raise IndexError(
                f"a record has the shape of its rows, {shape_text(self)}: len(d._fields()) is the "
                "number of its fields, and a library that chooses columns by name takes "
                "d._to_pandas()"
            ) from None


def partial_shape(node: Node) -> tuple[Any, ...]:
    """Return the shape of a view: None for what is unknown, `...` for samples not looked at."""
    extents: tuple[Any, ...] | None = node.extents
    if isinstance(node, (NumberedSamples, Stream)) and node.row_extents is None:
        extents = (...,) if extents is None else (extents[0], ...)
    elif extents is None:
        extents = (None,) if isinstance(node, Sampled) else known_shape(node)
    kind = RowsShape if isinstance(node, (Record, Sampled)) and node.fields.named else tuple
    return kind(math.inf if n is not ... and is_endless(n) else n for n in extents)


def is_one(node: Node) -> bool:
    """Whether data are there, and known to be one element, which has no fields."""
    shape = node.shape
    is_known = shape is not None and size_of(shape) == 1
    return is_known and not node.fields.named and not symbols_of([node])
