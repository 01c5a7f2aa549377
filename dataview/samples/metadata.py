"""The metadata of samples: those of a stream on each of its own, and those that differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dataview.plan.build import with_fields
from dataview.plan.concat import check_meanings
from dataview.plan.fields import NO_META, Attached, Field, read_only_meta
from dataview.plan.gaps import knowing
from dataview.plan.kinds import Record, members
from dataview.plan.node import Node
from dataview.samples.arriving import Row
from dataview.samples.in_order import DerivedSamples, Samples, read_once


class _Notes(NamedTuple):
    """Metadata that were given to a stream beyond those that its samples bring, and to fields."""

    own: Mapping[str, Any]
    inside: Mapping[str, _Notes]

    def on(self, node: Node) -> Node:
        """Return a sample, or the rows of several, with the metadata."""
        if self.own:
            node = node.replaced(meta=read_only_meta({**node.meta, **self.own}))
        fields = node.fields
        for name, notes in self.inside.items():
            if name in fields:
                fields = fields.with_field(name, notes.on_field(fields.named[name]))
        return node if fields is node.fields else with_fields(node, knowing(fields))

    def on_field(self, part: Field) -> Field:
        """Return a field of samples with the metadata."""
        if isinstance(part, Attached):
            return part.of(self.on(part.node))
        return part.with_meta(read_only_meta({**part.meta, **self.own}))


class _DescribedSamples(DerivedSamples):
    """The samples of a stream, with the metadata that the stream has."""

    __slots__ = ("notes",)
    is_each = True

    def __init__(self, samples: Samples, notes: _Notes) -> None:
        super().__init__(samples)
        self.notes = notes

    def rows(self) -> Iterator[Row]:
        """Return the samples: what many are rows of is described once."""
        whole, described = None, None
        for node, number in read_once(self.samples):
            if described is None or node is not whole:
                whole, described = node, self.notes.on(node)
            yield Row(described, number)


def described(stream: Any) -> Samples:
    """Return the samples of a stream, each with the metadata of the stream and of its fields."""
    notes = _notes_of(stream)
    return stream.samples if notes is None else _DescribedSamples(stream.samples, notes)


def noted_as(node: Node, stream: Any) -> Node:
    """Return a node with the metadata of a stream and of its fields."""
    notes = _notes_of(stream)
    return node if notes is None else notes.on(node)


def _notes_of(stream: Any) -> _Notes | None:
    """Return what metadata a stream has that its samples do not bring, None if there are none."""
    sample = getattr(stream, "sample", None)  # there is none of data in the place of a stream
    brought = NO_META if sample is None else sample.meta
    added = {} if stream.meta is brought else stream.meta
    own = {n: value for n, value in added.items() if brought.get(n, brought) is not value}
    parts = stream.fields.named.items()
    inside = {name: _notes_of(part.node) for name, part in parts if isinstance(part, Attached)}
    found = {name: notes for name, notes in inside.items() if notes is not None}
    return _Notes(own, found) if own or found else None


def check_labels(samples: Sequence[Any]) -> None:
    """Raise if samples that are views number their labels differently, as a join of them does."""
    if all(isinstance(sample, Record) for sample in samples):
        samples = [{n: part.node for n, part in members(sample).items()} for sample in samples]
    if all(isinstance(sample, Mapping) for sample in samples):
        for name in samples[0]:
            if all(name in sample for sample in samples):
                check_labels([sample[name] for sample in samples])
    elif all(type(sample) is tuple for sample in samples):
        for parts in zip(*samples, strict=False):  # that they are as many is checked later
            check_labels(parts)
    elif all(isinstance(sample, Node) for sample in samples):
        check_meanings(samples)
