"""Batches of fields brought into the form that data specifications ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import evaluate
from dataview.errors import StreamError, UndeclaredError, error_at
from dataview.index import is_endless
from dataview.plan import layout
from dataview.plan.build import keyed
from dataview.plan.kinds import Sampled
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.samples import Stream, is_ragged, read_together
from dataview.spaces import batch as batches
from dataview.spaces.base import How, Space, how_of
from dataview.spaces.batch import Extents
from dataview.spaces.composite import check_sizes
from dataview.spaces.fields import (
    declared,
    is_batch,
    known_of_rows,
    laid_out,
    space_of_made_rows,
    space_of_stored_rows,
)
from dataview.spaces.mapping import DataSpecsMapping
from dataview.spaces.padded import check_padded, padded
from dataview.spaces.sequences import OneSequence, SequenceSpace
from dataview.spaces.vector import densely

DELIVERED = How(options=False)
"""How arrays of fields are formatted: who asks for batches cannot give options for that."""


_ALONE = "; ask for fields of other lengths, and for a sequence beside several samples, alone"


class Delivery:
    """What makes of a batch of each source, an array or a node, what specifications ask for.

    `fields` returns the node of a source of the whole dataset, None for one that it does not have,
    and `has_rows` whether the rows of a source are those of the dataset: if this is one sample, its
    fields have none.
    What does not fit is an error here, before anything is read, as far as shapes and dtypes are
    known; of what a function of the user makes of the fields, nothing is known (`remakes`).
    """

    def __init__(
        self,
        specs: Any,
        fields: Callable[[str], Node | None],
        in_arrays: bool = False,
        remakes: bool = False,
        has_rows: Callable[[str], bool] = lambda name: True,
    ) -> None:
        self.mapping = DataSpecsMapping(specs)
        self._has_callbacks = self.mapping.specs.space.has_callbacks
        self.sources = tuple(dict.fromkeys(source for _, source in self.mapping.unique))
        found = {source: fields(source) for source in self.sources}
        self.nodes = {source: node for source, node in found.items() if node is not None}
        self.is_whole = len(self.nodes) == len(found)
        self._steps: list[_Step] = []
        for space, name in self.mapping.unique:
            node = found[name]
            is_unknown = node is not None and (node.extents is None or node.dtype is None)
            kind = _StepOfMade if remakes else _StepOfUnseen if in_arrays and is_unknown else _Step
            self._steps.append(kind(name, space, node, in_arrays))
        for step in self._steps:
            step.has_rows = has_rows(step.source)
            step.check()
        names = [step.source for step in self._steps]
        self._several = {name for name in names if names.count(name) > 1}

    def __call__(self, given: Mapping[str, Any]) -> Any:
        """Return the nested batches, of nodes or arrays, by those of the sources."""
        parts = tuple([step(given[step.source]) for step in self._steps])
        sizes = [step.space.size_of(part) for step, part in zip(self._steps, parts, strict=True)]
        check_sizes(sizes, self._part_text, _ALONE)
        found = self.mapping.filled(parts)
        if self._has_callbacks:
            self.mapping.specs.space.check(found, "the batch")
        return found

    def _part_text(self, number: int) -> str:
        step = self._steps[number]
        return f"{step.source!r} as {step.space!r}"

    def padding(self, pad: Any) -> Any:
        """Return the padding of samples that are made one by one: rows to be sequences stay so.

        A space fills them up itself, so that the user's own padding, `pad`, is for others alone.
        """
        wanted = (SequenceSpace, OneSequence)
        sequences = {s.source: s.space for s in self._steps if isinstance(s.space, wanted)}
        for source, space in sequences.items():
            own = pad.get(source) if isinstance(pad, Mapping) else pad
            if own is not None and not (isinstance(own, str) and own == "ragged"):
                raise ValueError(
                    f"source {source!r}: pad= fills up the rows that {space!r} fills up itself; "
                    "leave pad= out"
                )
        if not sequences or not (pad is None or isinstance(pad, Mapping)):
            return pad
        late = [s.source for s in self._steps if s.source in sequences and s.may_differ]
        return {**(pad or {}), **dict.fromkeys(late, "ragged")} or None

    def of_batch(self, given: Mapping[str, Node]) -> Any:
        """Return the nested batches of nodes; what several of them need is read once for all."""
        if self._several:
            given = {n: read_together(p) if n in self._several else p for n, p in given.items()}
        return self(given)

    def in_arrays(self, given: Mapping[str, Any]) -> Any:
        """Return the nested batches as arrays; some of the given ones may be ragged nodes."""
        return _evaluated(self(given))

    def refuses(self, given: Mapping[str, Any]) -> bool:
        """Whether a batch cannot be formatted, whatever functions of the user say about it."""
        try:
            _evaluated(tuple([step(given[step.source]) for step in self._steps]))
        except (TypeError, ValueError, OverflowError):
            return True
        return False


class _Taken(NamedTuple):
    """The space in which rows are taken, and whether it was declared."""

    space: Space
    is_declared: bool


class _Step:
    """The step from rows of one source to batches of one space."""

    has_rows = True
    """Whether the first axis of the source surely counts samples."""

    def __init__(self, source: str, space: Space, node: Any, in_arrays: bool) -> None:
        self.in_arrays = in_arrays
        self.source = source
        self.space = space
        self.node: Any = node
        self.how = how_of(options=False, where=f"source {source!r}")  # of what is read later
        self.known = None if node is None or is_batch(node.meta) else declared(node.meta)
        self.built: Any = None
        self.begin()

    @property
    def may_differ(self) -> bool:
        """Whether rows may differ in length."""
        extents = self.node.extents
        return extents is None or None in extents[1:]

    def begin(self) -> None:
        """Find out in which space the rows are taken."""
        stored = space_of_stored_rows(self.node, self.space, self.source)
        self.taken = _Taken(stored, self.known is not None)

    def taken_as(self, rows: Any) -> _Taken:
        """Return in which space rows are taken."""
        return self.taken

    def check(self) -> None:
        """Raise unless rows of the source, which are not read, can be batches of the space."""
        node, stored = self.node, self.taken.space
        is_stream = isinstance(node, Stream) and node.passes and not is_ragged(node)
        if isinstance(node, Sampled) and not (is_stream or (node.extents and is_ragged(node))):
            return
        space = densely(self.space) if self.in_arrays else self.space
        with _Where(self, node, self.taken):
            if isinstance(stored, SequenceSpace):
                check_padded(node, stored, space, self.how)
            else:
                rows = layout.expanded(node.one, 0) if is_stream else _with_end(node)
                found = stored.formatted(self._as_batch(rows, stored), space, self.how)
                self.built = found if rows is node and space is self.space else None

    def __call__(self, rows: Any) -> Any:
        """Return rows as a batch of the space."""
        taken = self.taken_as(rows)
        if isinstance(rows, Node) and rows.dtype is None:
            raise UndeclaredError(
                f"source {self.source!r}: shape and dtype are unknown until a row has been made; "
                "d._probe() makes one to find out, or give shape= and dtype= to _map"
            )
        how = self.how if isinstance(rows, Node) and not self.in_arrays else DELIVERED
        with _Where(self, rows, taken):
            if isinstance(taken.space, SequenceSpace):
                found = padded(rows, taken.space, self.space, how, self.in_arrays)
                return self.space.declared_on(found, None)
            if isinstance(rows, Stream) and rows.passes:
                return _of_stream(rows, taken.space, self.space, how)
            if rows is self.node and self.built is not None:  # it was checked that it can be
                found = self.built
            else:
                found = taken.space.formatted(self._as_batch(rows, taken.space), self.space, how)
        return found if type(found) is np.ndarray else self.space.declared_on(found, rows)

    def _as_batch(self, rows: Any, space: Space) -> Any:
        """Return rows of a field in the shape that a space, rows first, has."""
        found = laid_out(rows, space)
        if self.has_rows or found is rows or isinstance(space, OneSequence):
            return found
        raise ValueError(
            f"the view is one sample, so that the first axis of {self.source!r} need not count "
            f"samples, and a batch of {space!r} has {len(space.extents)} axes "
            f"({', '.join(space.roles)}); d[n:n+1] is a batch of one sample, dv.View(name=field) "
            "has a row for each place of the first axis"
        )


class _StepOfMade(_Step):
    """The step from rows that a function of the user has made: what they are, each batch shows."""

    may_differ = True

    def begin(self) -> None:
        """Do nothing: there are no rows yet."""

    def check(self) -> None:
        """Do nothing: there are no rows yet."""

    def taken_as(self, rows: Any) -> _Taken:
        """Return in which space rows are taken."""
        if not isinstance(rows, (np.ndarray, Node)) and not batches.is_sparse(rows):
            several = isinstance(rows, (list, tuple))
            remedy = f"np.{'stack' if several else 'asarray'}(...) makes an array of it"
            raise TypeError(
                f"source {self.source!r}: spec= formats arrays; a batch has a "
                f"{type(rows).__name__}; {remedy}"
            )
        return self.taken_for(rows, batches.extents_of(rows))

    def taken_for(self, rows: Any, shape: Extents) -> _Taken:
        """Return in which space rows of a shape are taken."""
        found = space_of_made_rows(self.known, shape, rows.dtype, self.space, self.source)
        known = None if self.known is None else self.known.rows_first
        return _Taken(found, found.is_laid_out_as(known))


class _StepOfUnseen(_StepOfMade):
    """The step from rows that a field has once they are made: what was declared is of these."""

    def taken_for(self, rows: Any, shape: Extents) -> _Taken:
        """Return in which space rows of a shape are taken: the declared one, or they are none."""
        if self.known is None:
            return super().taken_for(rows, shape)
        return _Taken(known_of_rows(self.known, shape[1:]), True)


class _Where:
    """Says in an error which source it is about; a class takes less time than a generator."""

    __slots__ = ("rows", "step", "taken")

    def __init__(self, step: _Step, rows: Any, taken: _Taken) -> None:
        self.step = step
        self.rows = rows
        self.taken = taken

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Raise an error anew, with what was delivered."""
        if isinstance(error, (TypeError, ValueError, OverflowError)):
            raise error_at(error, self._text()) from error

    def _text(self) -> str:
        rows, taken = self.rows, self.taken
        shape = rows.extents if isinstance(rows, Node) else np.shape(rows)
        how = "declared" if taken.is_declared else "as nothing was declared by _spaces=, taken"
        return f"source {self.step.source!r}, {rows.dtype} {shape}, {how} as {taken.space!r}"


def _with_end(node: Node) -> Node:
    """Return the first row of rows that never end: it stands for those of any batch."""
    has_end = not node.shape or not is_endless(node.shape[0])
    return node if has_end else keyed(node, slice(0, 1))


def _of_stream(rows: Stream, stored: Space, space: Space, how: How) -> Any:
    """Return a stream of samples as each of them is in a batch of one."""
    if space.get_batch_axis():
        raise StreamError(
            f"the samples of a stream stand along the first axis, and in {space!r} along axis "
            f"{space.get_batch_axis()}; _minibatches(batch_size, spec=...) has batches of it"
        )
    batch = laid_out(layout.expanded(rows.one, 0), stored)
    found = stored.formatted(batch, space, how)
    return rows.of_rows(keyed(space.declared_on(found, None), 0))


def _evaluated(batch: Any) -> Any:
    if type(batch) is np.ndarray:
        return batch
    if isinstance(batch, tuple):
        return tuple([_evaluated(part) for part in batch])
    if isinstance(batch, Ragged):
        return batch
    return evaluate(batch) if isinstance(batch, Node) else batch
