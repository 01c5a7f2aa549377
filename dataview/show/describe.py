"""Statistics of each field: one pass over all fields, and a sample of the rows."""

from __future__ import annotations

import contextlib
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import (
    KINDS,
    Cut,
    chunk_shape_of,
    cuts_of_grid,
    evaluate,
    grid_of_rows,
    have_makers_in_common,
    making_together,
    rows_of_request,
    run_in_windows,
    settle,
)
from dataview.errors import StreamError, UndeclaredError
from dataview.index import sampled_rows
from dataview.index.sizes import sizes
from dataview.plan.build import at_path, field, keyed, stored, with_fields
from dataview.plan.fields import Attached, Fields, Window
from dataview.plan.gaps import MASK_OF, holds_codes, known_in, least_present, masks_in, present_in
from dataview.plan.guards import check_ends
from dataview.plan.kinds import Driven, Record, known_dtype, known_shape, size_of
from dataview.plan.node import Node
from dataview.plan.operations import TEXTS, is_present, may_be_missing
from dataview.plan.ragged import Ragged
from dataview.samples import lengths as lengths_of
from dataview.show.description import LENGTHS, QUARTERS, Description
from dataview.sources import ArraySource, Grid, Memo

SAMPLED_BYTES = 1 << 23
"""The sample of one field has at most so many bytes: of wide fields, fewer rows."""

SAMPLED_BYTES_IN_ALL = 1 << 24
"""The samples of all fields together have at most so many bytes."""

OBJECT_BYTES = 64
"""About what a short text takes, with its place in an array."""

WINDOW = 16
BINS = 10

EXACT = 1 << 53
"""Integers up to this one are floats, too; further ones may be equal as floats."""


# --- which fields ------------------------------------------------------------------------------


class _Leaf(NamedTuple):
    """A field to describe: the node that holds its data, and the field's path in it.

    A number in the path is that of a column.

    `mask` is the field beside it that is true where it has data, if there is one.
    """

    name: str
    root: Node
    path: tuple[str | int, ...]
    mask: Node | None = None


def described(node: Node, columns: bool = False) -> Description:
    """Return the statistics of each field, or of each column of fields that have several."""
    if not isinstance(columns, bool | np.bool_):
        raise TypeError(
            f"columns= is True or False; got {columns!r}; d._select('x', 'y')._describe() tells of "
            "some fields"
        )
    leaves: list[_Leaf] = []
    refused: dict[str, Exception] = {}
    for leaf in _leaves(node, ""):
        try:
            leaves += _columns(leaf) if columns else [_checked(leaf)]
        except (UndeclaredError, StreamError) as error:
            refused[leaf.name] = error
    if refused and not leaves:
        raise next(iter(refused.values()))
    left_out = {name: str(error) for name, error in refused.items()} | dict(_unread(node, ""))
    found: dict[str, _Summary] = {}
    passes: dict[Any, list[_Leaf]] = {}
    for leaf in leaves:
        passes.setdefault(_pass_of(leaf), []).append(leaf)
    for alike in passes.values():
        found |= zip((leaf.name for leaf in alike), _summaries(alike), strict=True)
    statistics = {leaf.name: found[leaf.name].statistics() for leaf in leaves}
    return Description(statistics, left_out)


def _checked(leaf: _Leaf) -> _Leaf:
    """Return a field if it can be described, or raise saying why not."""
    for root in _roots([leaf]):
        check_ends(root, "_describe")
        known_dtype(root)
        known_shape(root)
    return leaf


def _unread(node: Node, name: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of files that cannot be read, with the reasons."""
    for own, reason in node.fields.unread.items():
        yield _joined(name, own), reason
    for own, part in node.fields.named.items():
        if isinstance(part, Attached):
            yield from _unread(part.node, _joined(name, own))


def _pass_of(leaf: _Leaf) -> Any:
    """Return what is equal for fields that are read in one pass: of one length, or of one root.

    A root that is stored in chunks is read in a pass of its own, in blocks of whole chunks.
    """
    is_alone = leaf.mask is None and bool(chunk_shape_of(leaf.root))
    return id(leaf.root) if is_alone else known_shape(leaf.root)[:1]


def _roots(leaves: list[_Leaf]) -> list[Node]:
    """Return the nodes that are read for fields, with those of masks, each once."""
    read = [node for leaf in leaves for node in (leaf.root, leaf.mask) if node is not None]
    return list({id(node): node for node in read}.values())


def _leaves(node: Node, name: str, mask: Node | None = None) -> Iterator[_Leaf]:
    """Return the fields, each before those that are nested in it."""
    if isinstance(node, (Record, Driven)):
        parts = {own: field(node, own) for own in node.fields}
        masks = masks_in(node.fields, by_name=True)
        for own, part in parts.items():
            if own in masks.values() and MASK_OF in part.meta:
                continue  # what a file's mask says is counted as missing
            beside = parts[masks[own]] if own in masks else mask
            yield from _leaves(part, _joined(name, own), beside)
        return
    if isinstance(node, Ragged):
        yield _Leaf(name, node.flat(), (), present_in(node.flat()))
        yield _Leaf(f"{name}_length" if name else "length", lengths_of(node), (), mask)
        return
    if name or not node.fields.named:
        yield _Leaf(name, node, (), _mask_of(node) if mask is None else mask)
    yield from _windows(node, node.fields, name, ())


def _mask_of(node: Node) -> Node | None:
    """Return where a field by itself has data, None if nothing tells that some are missing."""
    if node.shape is None:
        return None
    return known_in(node) if holds_codes(node) else least_present(node, 1)


def _windows(root: Node, fields: Fields, name: str, path: tuple[str, ...]) -> Iterator[_Leaf]:
    for own, part in fields.named.items():
        inner = (*path, own)
        if not isinstance(part, Window):
            yield from _leaves(part.node, _joined(name, own))
        elif 0 in part.positions:  # no field of each row
            yield from _leaves(at_path(root, inner), _joined(name, own))
        else:
            yield _Leaf(_joined(name, own), root, inner, _mask_of(at_path(root, inner)))
            yield from _windows(root, part.fields, _joined(name, own), inner)


def _columns(leaf: _Leaf) -> Iterator[_Leaf]:
    """Yield the columns of a field, itself if it has no axis of columns."""
    _checked(leaf)
    shape, mask = known_shape(_at(leaf.root, leaf.path)), leaf.mask
    if len(shape) < 2:
        yield leaf
    for number in range(shape[1] if len(shape) > 1 else 0):
        own = mask if mask is None or len(known_shape(mask)) < 2 else _at(mask, (number,))
        column = leaf._replace(name=f"{leaf.name}[{number}]", path=(*leaf.path, number))
        yield column._replace(mask=own)


def _at(node: Node, path: tuple[str | int, ...]) -> Node:
    """Return the field, and the column of it, that a path leads to."""
    for step in path:
        node = at_path(node, [step]) if isinstance(step, str) else keyed(node, (slice(None), step))
    return node


def _joined(outer: str, name: str) -> str:
    return f"{outer}.{name}" if outer else name


# --- one pass ----------------------------------------------------------------------------------


def _summaries(leaves: list[_Leaf]) -> list[_Summary]:
    """Return the summaries of fields of the same number of rows, reading each block once."""
    roots = _roots(leaves)
    settle(*roots)
    shape = known_shape(roots[0])
    count = shape[0] if shape else 1
    step = max(1, sizes.block_bytes // max(1, sum(map(_row_bytes, roots))))
    if have_makers_in_common(roots):
        step = min(step, rows_of_request(roots))
    grid = grid_of_rows(roots[0], step) if len(roots) == 1 else Grid(0, step)
    if grid.across and any(leaf.path for leaf in leaves):
        grid = Grid(0, step)  # windows are cut out of whole rows
    cuts = cuts_of_grid(grid, shape or (1,))
    templates = [_at(leaf.root, leaf.path) for leaf in leaves]
    numbers = _samples_of(templates, count)

    def parts(cut: Cut) -> list[_Summary]:
        memo: Memo = {"roots": tuple(roots)}
        with making_together(roots):
            blocks = {id(root): _block(root, cut, memo) for root in roots}
        found = []
        for leaf, rows in zip(leaves, numbers, strict=True):
            data = np.atleast_1d(evaluate(_at(blocks[id(leaf.root)], leaf.path)))
            low, high = np.searchsorted(rows, [cut.start, cut.stop])
            places = rows[low:high] - cut.start
            if leaf.mask is not None:
                there = np.atleast_1d(evaluate(blocks[id(leaf.mask)]))
                found.append(_Summary(data[there], data[places][there[places]]))
                found[-1].lack(data[~there].size)
                continue
            found.append(_Summary(data, data[places]))
        return found

    nothing = [np.empty(0, known_dtype(node)) for node in templates]
    totals = [_Summary(none, none) for none in nothing]
    for total in totals:
        total.most = SAMPLED_BYTES_IN_ALL // len(totals)
    for states in run_in_windows(parts, cuts, WINDOW, "describing"):
        for total, state in zip(totals, states, strict=True):
            total.add(state)
    for total, rows in zip(totals, numbers, strict=True):
        total.share = len(rows) / count / total.step if count else 1.0
    return totals


def _samples_of(nodes: list[Node], count: int) -> list[np.ndarray]:
    """Return the rows of which the sample of each field is taken."""
    widths = [max(1, _row_bytes(node)) for node in nodes]
    wanted = [max(1, min(sizes.sampled_rows, SAMPLED_BYTES // width)) for width in widths]
    held = sum(min(count, rows) * width for rows, width in zip(wanted, widths, strict=True))
    share = min(1.0, SAMPLED_BYTES_IN_ALL / max(1, held))
    wanted = [max(1, int(rows * share)) for rows in wanted]
    rows_of = {rows: sampled_rows(count, rows) for rows in wanted}
    return [rows_of[rows] for rows in wanted]


def _row_bytes(node: Node) -> int:
    """Return about how much memory a row takes; objects take more than their places in it."""
    dtype = known_dtype(node)
    each = OBJECT_BYTES if dtype.hasobject else dtype.itemsize
    return size_of(known_shape(node)[1:]) * each


def _block(root: Node, cut: Cut, memo: Memo) -> Node:
    """Return a block of a node's rows, read into memory, with the same windows."""
    shape = known_shape(root)
    data = evaluate(root, cut.within(shape) if shape else None, memo)
    windows = {name: part for name, part in root.fields.named.items() if isinstance(part, Window)}
    return with_fields(stored(ArraySource(np.asarray(data)), False), Fields(windows))


# --- one field ---------------------------------------------------------------------------------

_MOMENTS_AND_ENDS = ("var", "min", "max")
_STATISTICS: dict[str, tuple[str, ...]] = dict.fromkeys("biuf", _MOMENTS_AND_ENDS)
_STATISTICS["c"] = ("var",)
_STATISTICS |= dict.fromkeys("mM", ("min", "max"))
_PLAIN = {str, bytes, bool, int, float, type(None)}


class _Summary:
    """The statistics of a field's elements so far, and the elements in the sample."""

    def __init__(self, data: np.ndarray, chosen: np.ndarray) -> None:
        flat = data.reshape(-1)
        known = _known(flat)
        self.dtype = data.dtype
        self.count = len(flat)
        self.missing = len(flat) - len(known)
        self.may_lack = may_be_missing(data.dtype)
        self.sample = [_known(np.array(chosen).reshape(-1))]
        self.share = 1.0  # of the rows that are in the sample
        self.step, self.held, self.most = 1, 0, SAMPLED_BYTES_IN_ALL
        self.states: dict[str, Any] = {}
        if len(known):
            with np.errstate(all="ignore"):
                for kind in _STATISTICS.get(data.dtype.kind, ()):
                    self.states[kind] = KINDS[kind].part(known, (0,), 0)
            if data.dtype.kind in TEXTS:
                lengths = np.strings.str_len(known)
                self.states |= {"shortest": lengths.min(), "longest": lengths.max()}

    def lack(self, count: int) -> None:
        """Include elements of which a mask says that they are missing."""
        self.count += count
        self.missing += count
        self.may_lack = True

    def add(self, other: _Summary) -> None:
        """Include the statistics of further elements."""
        self.may_lack |= other.may_lack
        self.count += other.count
        self.missing += other.missing
        self._add_sample(np.concatenate(other.sample))
        for kind, state in other.states.items():
            with np.errstate(all="ignore"):
                known = self.states.get(kind)
                self.states[kind] = state if known is None else _COMBINE[kind](known, state)

    def _add_sample(self, sample: np.ndarray) -> None:
        """Include a sample; of texts that turn out to be long, every other one is left out."""
        self.sample.append(np.array(sample[:: self.step]))
        self.held += _bytes_of(self.sample[-1])
        while sample.dtype.hasobject and self.held > self.most and sum(map(len, self.sample)) > 1:
            self.sample = [np.array(np.concatenate(self.sample)[::2])]
            self.step, self.held = self.step * 2, _bytes_of(self.sample[0])

    def statistics(self) -> dict[str, Any]:
        """Return the statistics by name."""
        kind = self.dtype.kind
        found: dict[str, Any] = {"dtype": str(self.dtype), "count": self.count}
        if self.may_lack:
            found["missing"] = self.missing
        if "var" in self.states:
            count, near, off, squares = self.states["var"]
            with np.errstate(all="ignore"):
                found["mean"] = _plain((near + off)[0])
                found["std"] = float(np.sqrt(squares[0] / count))
        sample = np.concatenate(self.sample)
        if "min" in self.states:
            # Once in order, it tells all: the numbers of one or two bytes have a faster way there.
            sample.sort(kind="stable" if kind in "biu" and sample.itemsize <= 2 else None)
            found |= {name: _plain(self.states[name][0][0]) for name in ("min", "max")}
        if "min" in self.states and len(sample):
            numbers = sample.astype(np.uint8) if kind == "b" else sample
            with np.errstate(all="ignore"):
                quarters = _quantiles_of_ascending(numbers, [*QUARTERS.values()])
            found |= zip(QUARTERS, map(_plain, quarters), strict=True)
        if len(sample) and "min" in self.states and (counts := _histogram(sample, found)):
            found["histogram"] = counts
        found |= self._repeated(sample)
        if self.share < 1:
            found["sampled"] = len(sample)
        return found | {name: int(self.states[name]) for name in LENGTHS if name in self.states}

    def _repeated(self, sample: np.ndarray) -> dict[str, Any]:
        """Return the number of distinct values, and the most frequent text or truth value."""
        known = self.count - self.missing
        if self.dtype.kind == "V" or (
            self.dtype.kind == "O" and not set(map(type, sample.tolist())) <= _PLAIN
        ):
            return {}
        if self.dtype.kind in "OT":
            counter = Counter(sample.tolist())
            values, counts = list(counter), np.array([*counter.values()], np.int64)
        else:
            if "min" not in self.states:
                sample = np.sort(sample)
            starts = np.flatnonzero(np.concatenate([[True], sample[1:] != sample[:-1]]))
            counts = np.diff(starts, append=len(sample)) if len(sample) else np.empty(0, np.int64)
            values = [sample[starts[counts.argmax()]]] if len(counts) else []
        found: dict[str, Any] = {"distinct": _estimated(counts, known)}
        if self.dtype.kind in "bO" + TEXTS and len(counts):
            most = values[counts.argmax()] if self.dtype.kind in "OT" else values[0]
            found["most frequent"] = _plain(most)
            found["times"] = round(int(counts.max()) * known / len(sample))
        return found


def _quantiles_of_ascending(numbers: np.ndarray, levels: Sequence[float]) -> list[Any]:
    """Return quantiles as NumPy does, which would copy and order the numbers once more.

    The difference of two integers may be more than their dtype holds, of two floats infinite.

    >>> _quantiles_of_ascending(np.array([-100, 100], "i1"), [0.5, 1.0])
    [np.float64(0.0), np.float64(100.0)]
    """
    shares, places = np.modf((len(numbers) - 1) * np.asarray(levels))
    below = places.astype(np.intp)
    low, high = numbers[below], numbers[np.minimum(below + 1, len(numbers) - 1)]
    rows = zip(low.tolist(), high.tolist(), shares.tolist(), strict=True)
    if numbers.dtype.kind in "iu":
        return [np.float64(one + (other - one) * share) for one, other, share in rows]
    found = np.diagonal(np.quantile(np.stack([low, high]), shares, axis=0))
    if numbers.dtype.kind != "f" or (is_near := np.isfinite(high - low)).all():
        return [*found]
    weighed = low * (1 - shares) + high * shares
    far = np.where(shares == 0, low, weighed.astype(numbers.dtype))
    return [*np.where(is_near, found, far)]


def _histogram(sample: np.ndarray, found: Mapping[str, Any]) -> tuple[int, ...]:
    """Return how many elements of an ascending sample lie in each tenth of the whole range."""
    low, high = found["min"], found["max"]
    if sample.dtype.kind in "mM":
        sample, low, high = sample.astype("i8"), *(int(end.astype("i8")) for end in (low, high))
    if sample.dtype.kind in "iu" and max(abs(low), abs(high)) > EXACT:
        distances = sample.astype("u8") - np.uint64(low % (1 << 64))  # also of negative numbers
        sample, low, high = distances, 0, high - low
    return counts_in_bins(sample.astype(np.float64), float(low), float(high))


def counts_in_bins(ascending: np.ndarray, low: float, high: float) -> tuple[int, ...]:
    """Return how many of these numbers lie in each tenth of a range; nothing of an infinite one.

    >>> counts_in_bins(np.array([0.0, 1.0, 1.0, 10.0]), 0, 10)
    (1, 2, 0, 0, 0, 0, 0, 0, 0, 1)
    """
    if not math.isfinite(high - low):
        return ()
    for origin in (0.0, low):  # numbers of some size lie further apart than the bins are wide
        with contextlib.suppress(ValueError):
            ends = (low - origin, high - origin)
            inner = np.histogram_bin_edges(ascending[:0], BINS, ends)[1:-1]
            places = np.searchsorted(ascending - origin, inner)
            return tuple(np.diff(places, prepend=0, append=len(ascending)).tolist())
    return ()


def _estimated(counts: np.ndarray, known: int) -> int:
    """Return how many of `known` values are distinct, given the counts of those in a sample.

    The number of values that occur once is divided by the root of the sample's share: no estimate
    from a sample has a better guarantee.  If no value occurs twice, all count as distinct.

    >>> _estimated(np.array([5, 5]), 1000), _estimated(np.ones(10), 1000)
    (2, 1000)
    """
    seen = int(counts.sum())
    once = int((counts == 1).sum())
    if seen >= known:
        return len(counts)
    if once == seen:
        return known
    return min(known, round(len(counts) - once + once * math.sqrt(known / seen)))


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    **{kind: KINDS[kind].combine for kind in _MOMENTS_AND_ENDS},
    "shortest": min,
    "longest": max,
}


def _known(flat: np.ndarray) -> np.ndarray:
    """Return the elements that are no NaN, no NaT and no None."""
    if not may_be_missing(flat.dtype):
        return flat
    if flat.dtype.kind == "f" and len(flat):
        with np.errstate(all="ignore"):
            if not np.isnan(flat.min()):  # faster than asking each of them
                return flat
    present = is_present(flat)
    return flat if present.all() else flat[present]


def _bytes_of(sample: np.ndarray) -> int:
    """Return how much memory elements take, with the objects that they may be."""
    own = sum(map(sys.getsizeof, sample.tolist())) if sample.dtype.hasobject else 0
    return sample.nbytes + own


def _plain(value: Any) -> Any:
    """Return an element as Python's number or text; times stay NumPy's, which have units."""
    if isinstance(value, np.longdouble | np.clongdouble):
        return complex(value) if value.dtype.kind == "c" else float(value)
    keep = isinstance(value, np.datetime64 | np.timedelta64) or not isinstance(value, np.generic)
    return value if keep else value.item()
