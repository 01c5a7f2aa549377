"""Samples of which the user declares what there is: no sample is read to find out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import evaluate, without_mask
from dataview.errors import FieldError, StreamError, error_at
from dataview.index import is_integer
from dataview.plan.build import field, record, stored
from dataview.plan.fields import check_declared
from dataview.plan.kinds import Extents, Record
from dataview.plan.node import DType, Node
from dataview.plan.values import cast
from dataview.samples.in_order import ComputedSamples, DerivedSamples, Samples
from dataview.samples.numbered import NumberedSamples, ToNode
from dataview.samples.ragged import AnyLength, as_declared
from dataview.samples.row_functions import ArraySpec, Spec
from dataview.samples.streams import Stream
from dataview.sources import ArraySource

_FORM = (
    "_fields= gives shape and dtype of each part of a sample, as in "
    "{'image': ((28, 28), 'f4'), 'label': int}; a length that differs is None"
)


_NO_MASK = (
    "return view._fillna(0), declare a dtype that tells what is missing, as float does, or leave "
    "_fields= out, so that _probe() finds the mask"
)


def declared_spec(given: Any) -> Spec:
    """Return what is declared: shape and dtype of a sample, or of each of its fields.

    >>> declared_spec({"x": ((3,), "f4"), "y": int})["x"][:3]
    ((3,), dtype('float32'), False)
    """
    if isinstance(given, Mapping):
        if not given:
            raise ValueError(f"{_FORM}; got no field")
        return {check_declared(name): declared_spec(inner) for name, inner in given.items()}
    shape, dtype = given if isinstance(given, tuple) and len(given) == 2 else ((), given)
    return ArraySpec(_shape(shape, given), _dtype(dtype, given))


def _shape(shape: Any, given: Any) -> Extents:
    lengths = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for length in lengths:
        if length is not None and (not is_integer(length) or length < 0):
            raise ValueError(f"{_FORM}; got {given!r}")
    return tuple(None if length is None else int(length) for length in lengths)


def _dtype(dtype: Any, given: Any) -> DType:
    try:
        found: DType = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"{_FORM}; got {given!r}") from None
    if found.kind in "SUV" and not found.itemsize:
        raise TypeError(
            f"{_FORM}; got {given!r}, of which width is unknown: 'U20' is a text of 20 characters "
            "at most, 'T' one of any width"
        )
    return found


def declared(node: Node, spec: Spec) -> Node:
    """Return the samples of which this is declared."""
    like = _like(spec)
    if isinstance(node, Stream):
        return Stream(_FittedSamples(node.samples, spec), like)
    if isinstance(node, NumberedSamples):
        return node.replaced(to_node=_Fitting(node.to_node, spec)).all_like(like)
    raise TypeError("_fields= declares what a function, an iterator or a dataset returns; got data")


def with_part(node: Stream, name: str, part: Node) -> Stream:
    """Return a stream of the same samples with one more field, which is computed of each."""
    parts = {other: field(node, other) for other in node.fields} | {name: part}
    known = [p for p in parts.values() if isinstance(p, Stream) and p.passes]
    if len(known) < len(parts) or not node.fields.named:
        raise StreamError(
            f"the samples of a stream have their fields when they come, and {name!r} is no field "
            "of each that could be computed as they come; _map(function) makes samples of others"
        )
    named = {other: p.one.replaced(meta=p.meta) for other, p in zip(parts, known, strict=True)}
    whole = record(named, 0)
    return Stream(ComputedSamples(whole), whole)


class _Fitting(NamedTuple):
    """Turns what a function returns into a sample that is as declared."""

    to_node: ToNode
    spec: Spec

    def __call__(self, value: Any) -> Node:
        """Return the sample, or raise."""
        return _fitted(self.to_node(value), self.spec)


def _like(spec: Spec) -> Node:
    """Return a sample that is as declared and has no memory of its own."""
    if isinstance(spec, dict):
        return record({name: _like(inner) for name, inner in spec.items()}, 0)
    assert spec.shape is not None
    assert spec.dtype is not None
    return as_declared(spec.shape, spec.dtype)


class _FittedSamples(DerivedSamples):
    """The samples of a stream, each made to be as declared."""

    __slots__ = ("spec",)
    is_each = True

    def __init__(self, samples: Samples, spec: Spec) -> None:
        super().__init__(samples)
        self.spec = spec

    def iterate(self) -> Iterator[Node]:
        """Return the samples."""
        for number, sample in enumerate(self.samples.iterate()):
            try:
                fitted = _fitted(sample, self.spec)
            except Exception as error:
                raise error_at(error, f"sample {number}") from error
            yield fitted


def _fitted(sample: Node, spec: Spec) -> Node:
    """Return a sample as data of the declared fields, shapes and dtypes, or raise."""
    if isinstance(spec, dict):
        if not set(spec) <= set(sample.fields):
            got = ", ".join(sample.fields) or "one array"
            raise FieldError(f"the fields {', '.join(spec)} are declared; got {got}")
        return record({n: _fitted_field(sample, n, inner) for n, inner in spec.items()}, 0)
    if isinstance(sample, Record):
        raise FieldError(f"one array is declared; got the fields {', '.join(sample.fields)}")
    assert spec.shape is not None
    assert spec.dtype is not None
    found = evaluate(without_mask(sample, spec.dtype, _NO_MASK) if sample.has_gaps else sample)
    like = _like(spec)
    if isinstance(like, AnyLength):
        return stored(ArraySource(like.fitted(found)))
    if found.shape != spec.shape:
        raise ValueError(f"the shape is {found.shape}; declared is {spec.shape}")
    alone = not found.ndim and found.dtype.kind in "biufc"  # a number has a kind and no size
    return stored(ArraySource(cast(found.item() if alone else found, spec.dtype)))


def _fitted_field(sample: Node, name: str, spec: Spec) -> Node:
    try:
        return _fitted(field(sample, name), spec)
    except Exception as error:
        raise error_at(error, f"field {name!r}") from error
