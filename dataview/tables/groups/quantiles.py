"""Medians and quantiles of groups: as many groups as fit in memory are read at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dataview.compute import MEDIAN, in_requests, quantiles_by_group, run_blocks
from dataview.errors import warnings_in
from dataview.index import rows_in_order
from dataview.index.sizes import sizes
from dataview.plan.build import field
from dataview.plan.kinds import known_dtype, known_shape, size_of
from dataview.plan.node import DType, Node
from dataview.plan.operations import is_present
from dataview.tables.coding import by_code
from dataview.tables.groups.keys import ToNumbers, blocks_of, columns_in, counts_of, read


def group_quantiles(
    node: Node,
    number: ToNumbers,
    options: Mapping[str, Any],
    titles: Mapping[str, str],
    found: np.ndarray,
) -> None:
    """Put the quantiles of each field of `found`, and of each group, there.

    A group is in memory as a whole, however large it is.  Warnings name what `titles` say.
    """
    names = found.dtype.names or ()
    if not size_of(np.shape(options["q"])) or not len(found):
        return
    parts = {name: field(node, name) for name in names}
    masks = {name: field(node, f"mask {name}") for name in names if f"mask {name}" in node.fields}
    row = sum(size_of(known_shape(p)[1:]) * known_dtype(p).itemsize for p in parts.values())
    most = max(1, sizes.quantile_bytes // 2 // max(1, row))
    narrow = np.min_scalar_type(-len(found))  # of all rows that are kept, the codes are, too
    for first, stop in _batches(node, number, len(found), most):

        def some(rows: slice, first: int = first, stop: int = stop) -> list[np.ndarray]:
            codes, are_whole = number(rows)
            columns = [read(part, rows) for part in (*parts.values(), *masks.values())]
            if are_whole and stop - first == len(found):
                return [codes.astype(narrow), *columns]
            there = np.flatnonzero((codes >= first) & (codes < stop))
            return [(codes[there] - first).astype(narrow), *(column[there] for column in columns)]

        work = in_requests(columns_in(node), some)
        pieces = zip(*run_blocks(work, blocks_of(node)), strict=True)
        codes, *columns = map(np.concatenate, pieces)
        present = dict(zip(masks, columns[len(parts) :], strict=True))
        for name, values in zip(names, columns[: len(parts)], strict=True):
            there = present.get(name)
            own = found[name][first:stop]
            with warnings_in(titles[name]):
                value = _of(values, codes, there, stop - first, options)
            own[...] = value.reshape(own.shape)


def dtype_to_sort(dtype: DType, is_median: bool, has_mask: bool) -> DType:
    """Return the dtype of values of which quantiles are taken: floats where they may be missing.

    Of truth values NumPy has medians alone, as those of floats.
    """
    as_floats = "biu" if has_mask else "b" if is_median else ""
    return np.dtype(float) if dtype.kind in as_floats else dtype


def _batches(node: Node, number: ToNumbers, count: int, most: int) -> list[tuple[int, int]]:
    """Return ranges of groups that have at most so many rows together, or are one."""
    (rows,) = known_shape(node)
    if rows <= most:
        return [(0, count)]
    return list(_ranges(counts_of(node, number, count), most))


def _ranges(counts: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of groups that have at most so many rows together, or are one.

    >>> list(_ranges(np.array([3, 2, 9, 1]), 5))
    [(0, 2), (2, 3), (3, 4)]
    """
    ends = np.cumsum(counts)
    first = 0
    while first < len(counts):
        before = int(ends[first - 1]) if first else 0
        stop = max(first + 1, int(np.searchsorted(ends, before + most, "right")))
        yield first, stop
        first = stop


def _of(
    values: np.ndarray,
    codes: np.ndarray,
    there: np.ndarray | None,
    count: int,
    options: Mapping[str, Any],
) -> np.ndarray:
    """Return the quantiles of each group: a row for each, with an axis for several `q`."""
    columns = values.reshape(len(values), size_of(values.shape[1:]))
    dtype = dtype_to_sort(columns.dtype, options["method"] == MEDIAN, there is not None)
    columns = columns.astype(dtype, copy=False)
    width = columns.shape[1]
    groups = codes
    if width != 1:
        groups = (codes[:, None].astype(np.intp) * width + np.arange(width)).reshape(-1)
    flat = columns.reshape(-1)
    if there is not None or options.get("without_missing"):
        present = is_present(flat)
        if there is not None:
            present &= np.repeat(there, width)
        if not present.all():
            flat, groups = flat[present], groups[present]
    q, method = options["q"], options["method"]
    counts = np.bincount(groups, minlength=count * width)
    if flat.dtype.hasobject:
        found = _of_objects(flat, groups, counts, q, method)
    else:
        found = quantiles_by_group(_sorted_within(flat, groups, counts), counts, q, method)
    return np.moveaxis(found.reshape(-1, count, width), 0, 1)


def _of_objects(
    values: np.ndarray, groups: np.ndarray, counts: np.ndarray, q: Any, method: Any
) -> np.ndarray:
    """Return quantiles of the objects of each group, a column for each; None of no objects."""
    found = np.full((np.size(q), len(counts)), None, object)
    rows = np.split(by_code(groups, len(counts)), np.cumsum(counts)[:-1])
    for group in np.flatnonzero(counts).tolist():
        own = values[rows[group]]
        value = np.median(own) if method == MEDIAN else np.quantile(own, q, method=method)
        found[:, group] = np.reshape(value, -1)
    return found


def _sorted_within(values: np.ndarray, groups: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the values of each group in ascending order, one group after the other."""
    if len(values) < SMALL * len(counts):
        found = values[rows_in_order(groups, values)]
        return found if len(found) else np.zeros(1, values.dtype)
    found = np.asarray(values[by_code(groups, len(counts))])
    stops = np.cumsum(counts).tolist()
    for start, stop in zip([0, *stops], stops, strict=False):
        found[start:stop].sort()
    return found


SMALL = 32
"""Groups of fewer values are sorted all together."""
