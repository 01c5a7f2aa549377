"""Samples become a batch: stacked, padded to one shape, or ragged; and moved to a device.

A sample is an array, something NumPy can turn into one, or a mapping, tuple or namedtuple of
samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from dataview.compute import copied_rows, evaluate
from dataview.errors import taken_by_field
from dataview.exchange import pack_like
from dataview.index import parse
from dataview.index.dtypes import promoted
from dataview.index.flat import corner, layout_of, mask_in, packed
from dataview.loader.devices import placed
from dataview.plan import build
from dataview.plan.build import stored
from dataview.plan.concat import concat
from dataview.plan.gaps import (
    MASK_OF,
    is_mask_of,
    lacking_at,
    noted,
    present_in,
    present_or_all,
    with_mask,
)
from dataview.plan.kinds import Record, known_shape, members, size_of
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged, ragged_of
from dataview.plan.values import holding
from dataview.samplers import checked_number
from dataview.samples import AnyLength, check_labels, check_side, in_rows, room_for
from dataview.sources import ArraySource

RAGGED = "ragged"
"""The padding that adds nothing: samples keep their shapes, in a ragged field."""


class _WhereNeeded(str):
    """The same for all fields of a sample: those whose samples have one shape are stacked."""

    __slots__ = ()


WHERE_NEEDED = _WhereNeeded(RAGGED)


@dataclass(frozen=True, slots=True)
class Pad:
    """How samples of different shapes become one array; `_pad(value, to=)` has one fixed length.

    `axis` is the axis of a sample that may differ (several in a tuple, None for all).  `side` is
    where the padding goes.  The padded length is a multiple of `multiple`.  `length` and `mask` ask
    for the true lengths, and for a mask that is true where there are data.

    >>> Pad(-1, side="left", length=True)
    Pad(value=-1, axis=None, side='left', multiple=1, length=True, mask=False)
    """

    value: Any = 0
    axis: int | tuple[int, ...] | None = None
    side: str = "right"
    multiple: int = 1
    length: bool = False
    mask: bool = False

    def __post_init__(self) -> None:
        check_side(self.side)
        checked_number("multiple", self.multiple, 1)
        given = self.axis if isinstance(self.axis, tuple) else (self.axis,)
        if self.axis is not None and any(type(axis) is not int for axis in given):
            raise TypeError(f"axis= is an integer, a tuple of them or None; got {self.axis!r}")

    def axes(self, ndim: int, where: str) -> tuple[int, ...]:
        """Return which of a sample's `ndim` axes may differ."""
        if self.axis is None:
            return tuple(range(ndim))
        given = self.axis if isinstance(self.axis, tuple) else (self.axis,)
        for axis in given:
            if not -ndim <= axis < ndim:
                raise ValueError(f"{where}cannot pad axis {axis}: the samples have {ndim} axes")
        return tuple(dict.fromkeys(axis % ndim for axis in given))


class PaddedArray(NamedTuple):
    """A padded batch of unnamed samples, with its lengths and its mask."""

    data: Any
    length: Any = None
    mask: Any = None


Padding: TypeAlias = "Pad | AnyLength | str | None"
"""What fills samples up, or that they stay ragged: as they are, or as is known of all of them."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A place inside the samples, for messages: their numbers, and the path to the field.

    `data_of` turns views, which only the face knows, into nodes.
    """

    numbers: Sequence[int]
    path: str = ""
    data_of: Callable[[Any], Any] = lambda sample: sample

    def inside(self, step: str) -> _Place:
        dot = "." if self.path and step[0] != "[" else ""
        return replace(self, path=f"{self.path}{dot}{step}")

    @property
    def where(self) -> str:
        return f"field {self.path!r}: " if self.path else ""

    def differ(self, what: str, other: int, theirs: Any, ours: Any, one: int = 0) -> str:
        first, second = self.numbers[one], self.numbers[other]
        return f"{self.where}sample {second} {what} {theirs}, sample {first} {what} {ours}"


def collated(
    samples: Iterable[Any],
    pad: Any = None,
    device: Any = None,
    numbers: Sequence[int] | None = None,
    data_of: Callable[[Any], Any] = lambda sample: sample,
) -> Any:
    """Return samples as one batch of the same kind as a sample.

    Errors name the samples by `numbers`.  `data_of` turns views into nodes.

    >>> collated([{"x": [1, 2], "y": 0}, {"x": [3], "y": 1}], pad={"x": -1})
    {'x': array([[ 1,  2],
           [ 3, -1]]), 'y': array([0, 1])}
    """
    if not isinstance(samples, Iterable):
        raise TypeError(f"a batch is made of a list of samples; got {samples!r}")
    found = list(samples)
    if not found:
        raise ValueError("the batch is empty: there is no sample to tell its fields and shapes by")
    place = _Place(range(len(found)) if numbers is None else numbers, data_of=data_of)
    return placed(_batch(found, pad, place), device)


def sample_of(value: Any, with_gaps: bool = False) -> Any:
    """Return the data of a node, its fields by name, and of nodes in a mapping or tuple.

    With `with_gaps` what lacks some of its values is a node in memory, which knows them, and a mask
    is one that knows its column.
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = {part.name: getattr(value, part.name) for part in fields(value)}
    if isinstance(value, Record):
        value = {name: part.node for name, part in members(value).items()}
    if isinstance(value, Mapping):
        return {name: sample_of(part, with_gaps) for name, part in value.items()}
    if type(value) is tuple:
        return tuple(sample_of(part, with_gaps) for part in value)
    if not isinstance(value, Node):
        return value
    if with_gaps and value.meta.get(MASK_OF):
        return stored(ArraySource(np.asarray(evaluate(value))), False).replaced(meta=value.meta)
    if with_gaps and isinstance(value, Ragged) and lacks_some(value):
        return copied_rows(value)
    present = present_in(value) if with_gaps else None
    return lacking_at((), evaluate(value), None if present is None else evaluate(present))


def lacks_some(rows: Ragged) -> bool:
    """Whether some of the rows are missing, or of the values in them."""
    found: Node = rows.relaid()
    while isinstance(found, Ragged):
        if found.layout.present is not None:
            return True
        found = found.values
    return not evaluate(present_or_all(found)).all()


def parts_of(node: Node, sources: Mapping[str, str]) -> dict[str, Node]:
    """Return fields of what arrived, each under the name that it is asked for by.

    `sources` has the names of these fields by those names; "" is the node itself.
    """
    found = {}
    for asked, name in sources.items():
        if name and name not in node.fields:
            listing = ", ".join(node.fields)
            raise KeyError(
                f"a sample of the stream has no field {name!r}; its fields are: {listing}"
            )
        found[asked] = build.field(node, name) if name else node
    return found


# --- samples of several parts ----------------------------------------------------------------


def _batch(samples: list[Any], pad: Any, place: _Place) -> Any:
    samples = [place.data_of(sample) for sample in samples]
    check_labels(samples)
    samples = [sample_of(sample, True) for sample in samples]
    kinds = list(map(_kind, samples))
    for number, kind in enumerate(kinds):
        if kind is not kinds[0]:
            raise TypeError(place.differ("is a", number, kind.__name__, kinds[0].__name__))
    if kinds[0] is dict:
        return _mappings(samples, pad, place)
    if kinds[0] is tuple:
        return _tuples(samples, pad, place)
    padding = _padding(pad, place)
    if isinstance(padding, AnyLength):
        found = [padding.fitted(_array(sample, None, place)) for sample in samples]
        if not any(isinstance(sample, Ragged) for sample in samples):
            return _with_gaps(padding.rows_of(found), samples)
        nodes = [
            one if isinstance(one, Node) else stored(ArraySource(np.asarray(one)))
            for one in samples
        ]
        return in_rows(nodes, found, padding)
    if padding == RAGGED:
        arrays = [_array(sample, None, place) for sample in samples]
        alike = len({array.shape for array in arrays}) == 1
        if any(isinstance(sample, Ragged) for sample in samples):
            return _of_lists(samples, arrays)
        if not arrays[0].ndim or (alike and pad is WHERE_NEEDED):
            return _lacking(_arrays(arrays, None, place), [*map(_there, samples)])
        _common_dtype(arrays, place)
        return _with_gaps(ragged_of(*packed(arrays)), samples)
    assert padding is None or isinstance(padding, Pad)
    there = [*map(_there, samples)]
    arrays = [_array(sample, padding, place) for sample in samples]
    found = _arrays(arrays, padding, place, there)
    return _lacking(found, there) if padding is None else found


def _kind(sample: Any) -> type:
    if isinstance(sample, Mapping):
        return dict
    return tuple if isinstance(sample, tuple) else np.ndarray


def _mappings(samples: list[Any], pad: Any, place: _Place) -> dict[Any, Any]:
    masks = {name: part for sample in samples for name, part in sample.items() if _is_mask(part)}
    samples = [_with_whole(sample, masks) for sample in samples] if masks else samples
    names = list(samples[0])
    for number, sample in enumerate(samples):
        if sample.keys() != samples[0].keys():
            raise ValueError(place.differ("has the keys", number, list(sample), names))
    paddings = _paddings(pad, names, place)
    batch: dict[Any, Any] = {}
    brought: set[str] = set()
    for name in names:
        if name in brought:  # a mask of rows, of which that of the padding says more
            continue
        parts = [sample[name] for sample in samples]
        padding = paddings(name)
        if name in masks and _is_filled(paddings(masks[name].meta[MASK_OF])):
            padding = padding_of_mask(paddings(masks[name].meta[MASK_OF]))
        found = _batch(parts, padding, place.inside(str(name)))
        parts_of = found._asdict() if isinstance(found, PaddedArray) else {"data": found}
        batch[name] = parts_of.pop("data")
        for what, value in parts_of.items():
            key = f"{name}_{what}"
            if value is None:
                continue
            if key in names and not (key in masks and is_mask_of(masks[key], name)):
                raise ValueError(place.where + taken_by_field(key))
            batch[key] = value
            brought.add(key)
    for name, mask in masks.items():
        column = mask.meta[MASK_OF]
        if not _is_filled(paddings(column)):
            whole = batch[name]
            whole = whole if isinstance(whole, Node) else stored(ArraySource(whole))
            batch[name] = noted(_finer(whole, batch.get(column)), column)
    return batch


def _finer(mask: Node, column: Any) -> Node:
    """Return the mask of a column's elements if it knows one, else that of its rows.

    Lists of which each lacks some element are missing as rows; those of one length become an array.
    """
    own = column.mask if isinstance(column, Node) and not isinstance(column, Ragged) else None
    return mask if own is None or len(known_shape(own)) <= len(known_shape(mask)) else own


def _is_filled(pad: Any) -> bool:
    """Whether a padding fills samples up, and with them their gaps."""
    return pad is not None and not isinstance(pad, AnyLength) and not leaves_ragged(pad)


def leaves_ragged(pad: Any) -> bool:
    """Whether a padding lets samples stay of different lengths."""
    return isinstance(pad, str) and pad == RAGGED


def padding_of_mask(pad: Any) -> Any:
    """Return how a mask is filled up beside its column: nothing is where the padding is."""
    column = pad if isinstance(pad, Pad) else Pad(pad)
    return replace(column, value=False, length=False, mask=False)


def _is_mask(part: Any) -> bool:
    """Whether a part of a sample tells the gaps of another."""
    return isinstance(part, Node) and bool(part.meta.get(MASK_OF))


def _with_whole(sample: Mapping[Any, Any], masks: Mapping[Any, Node]) -> Mapping[Any, Any]:
    """Return a sample with the masks that others have: it lacks nothing of a column without one."""
    lacking = [name for name in masks if name not in sample and masks[name].meta[MASK_OF] in sample]
    if not lacking:
        return sample
    return {**sample, **{name: np.ones(known_shape(masks[name]), bool) for name in lacking}}


def _tuples(samples: list[Any], pad: Any, place: _Place) -> Any:
    count = len(samples[0])
    for number, sample in enumerate(samples):
        if len(sample) != count:
            raise ValueError(place.differ("has so many parts:", number, len(sample), count))
    names = list(getattr(samples[0], "_fields", range(count)))
    paddings = _paddings(pad, names, place)
    parts = []
    for name, column in zip(names, zip(*samples, strict=True), strict=True):
        step = name if isinstance(name, str) else f"[{name}]"
        parts.append(_batch(list(column), paddings(name), place.inside(step)))
    return pack_like(samples[0], parts)


def _paddings(pad: Any, names: list[Any], place: _Place) -> Callable[[Any], Any]:
    """Return the padding for each part: from a mapping or tuple its own, else one for all."""
    if isinstance(pad, tuple):
        if len(pad) != len(names):
            raise ValueError(f"{place.where}pad= has {len(pad)} parts, the samples {len(names)}")
        pad = dict(zip(names, pad, strict=True))
    if not isinstance(pad, Mapping):
        own = WHERE_NEEDED if leaves_ragged(pad) else pad
        return lambda name: own
    unknown = [name for name in pad if name not in names]
    if unknown:
        raise KeyError(f"{place.where}pad= names {unknown}, which are none of the fields {names}")
    return pad.get


def _padding(pad: Any, place: _Place) -> Padding:
    if isinstance(pad, (Mapping, tuple)):
        raise TypeError(f"{place.where}pad= has parts, but the samples here are arrays: {pad!r}")
    return Pad(pad) if _is_filled(pad) and not isinstance(pad, Pad) else pad


# --- arrays ----------------------------------------------------------------------------------


def _array(sample: Any, pad: Pad | None, place: _Place) -> np.ndarray:
    """Return a sample as an array; rows of different lengths inside it need a padding."""
    if isinstance(sample, np.ma.MaskedArray):
        raise TypeError(f"{place.where}a masked array would lose its mask; fill it first")
    if isinstance(sample, Ragged) and pad is not None:
        shape = (sample.count,)
        sample = [_array(sample.part(parse(n, shape)), pad, place) for n in range(sample.count)]
    if isinstance(sample, Node):
        return _without_gaps(sample, pad, place)
    try:
        found = np.asarray(sample)
        if pad is None or not _has_rows(found):
            return found
        sample = found.tolist()
    except ValueError as error:
        if pad is None or not isinstance(sample, list):
            raise ValueError(
                f"{place.where}a sample makes no array: {error}; give pad= a value to fill up with"
            ) from error
    if pad.length or pad.mask:
        raise ValueError(
            f"{place.where}a sample has rows of different lengths inside it, and so no one length; "
            "leave length= and mask= out, or give it as an array"
        ) from None
    inner = Pad(pad.value, side=pad.side)
    rows = [_array(part, inner, place) for part in sample]
    filled = _arrays(rows, inner, replace(place, numbers=range(len(rows))))
    assert isinstance(filled, np.ndarray)
    return filled


def _has_rows(array: np.ndarray) -> bool:
    """Whether an array is one of arrays, as lists of lists are that lie behind one another."""
    is_line = array.dtype == object and array.ndim == 1 and bool(array.size)
    return is_line and all(isinstance(row, np.ndarray) for row in array)


def _there(sample: Any) -> np.ndarray | None:
    """Return which values of a sample there are, None if all are."""
    present = present_in(sample) if isinstance(sample, Node) else None
    return None if present is None else evaluate(present)


def _without_gaps(sample: Node, pad: Pad | None, place: _Place) -> np.ndarray:
    """Return a sample that lacks some of its values, which are filled as what is behind its end."""
    values, there = evaluate(sample), _there(sample)
    if pad is None or there is None:
        return values
    dtype = holding(values.dtype, pad.value, place.where)
    return np.where(there, values.astype(dtype), np.array(pad.value, dtype))


def _lacking(batch: np.ndarray, there: Sequence[np.ndarray | None]) -> Any:
    """Return a batch of samples of one shape such that it knows what these lack."""
    if all(own is None for own in there):
        return batch
    present = np.empty(batch.shape, bool)
    for number, own in enumerate(there):
        present[number] = True if own is None else own
    return with_mask(stored(ArraySource(batch)), stored(ArraySource(present), False))


def _of_lists(samples: list[Any], arrays: list[np.ndarray]) -> Ragged:
    """Return the rows of samples that are lists of lists, of which some lack lists or values."""
    lines: list[Node] = [
        sample if isinstance(sample, Ragged) else ragged_of(*packed(list(array)))
        for sample, array in zip(samples, arrays, strict=True)
        if len(array)  # an empty one knows no dtype
    ]
    rows = cast(Ragged, concat(lines))
    return Ragged(copied_rows(rows), layout_of(lengths=[*map(len, arrays)]))


def _with_gaps(rows: Ragged, samples: list[Any]) -> Ragged:
    """Return the rows of samples such that they know what these lack."""
    if isinstance(rows.values, Ragged) or not any(isinstance(one, Node) for one in samples):
        return rows
    there = [
        np.ones(size_of(known_shape(one) if isinstance(one, Node) else np.shape(one)), bool)
        if own is None
        else own.ravel()
        for one, own in zip(samples, map(_there, samples), strict=True)
    ]
    mask = stored(ArraySource(np.concatenate(there).reshape(known_shape(rows.values))), False)
    return Ragged(with_mask(rows.values, mask), rows.layout)


def _arrays(
    samples: list[np.ndarray], pad: Pad | None, place: _Place, there: Sequence[Any] = ()
) -> Any:
    dtype = _common_dtype(samples, place)
    if pad is not None:  # an empty list does not say how many axes it has
        most = max(sample.ndim for sample in samples)
        samples = [np.empty((0,) * most) if one.shape == (0,) else one for one in samples]
    first = samples[0]
    for number, sample in enumerate(samples):
        if sample.ndim != first.ndim:
            raise ValueError(place.differ("has shape", number, sample.shape, first.shape))
    if pad is None or not first.ndim:
        return _stacked(samples, dtype, place)
    return _padded(samples, pad, dtype, place, there)


def _stacked(samples: list[np.ndarray], dtype: np.dtype[Any], place: _Place) -> np.ndarray:
    shape = samples[0].shape
    for number, sample in enumerate(samples):
        if sample.shape != shape:
            text = place.differ("has shape", number, sample.shape, shape)
            raise ValueError(f"{text}; pad= fills them up to one shape, pad='ragged' keeps them")
    batch = np.empty((len(samples), *shape), dtype)
    for number, sample in enumerate(samples):
        batch[number, ...] = sample  # an array without axes gives its element, even an object
    return batch


def _padded(
    samples: list[np.ndarray],
    pad: Pad,
    dtype: np.dtype[Any],
    place: _Place,
    there: Sequence[np.ndarray | None] = (),
) -> Any:
    shapes = np.array([sample.shape for sample in samples], np.intp)
    axes = pad.axes(shapes.shape[1], place.where)
    for axis in set(range(shapes.shape[1])).difference(axes):
        odd = np.flatnonzero(shapes[:, axis] != shapes[0, axis])
        if odd.size:
            theirs, ours = samples[odd[0]].shape, samples[0].shape
            text = place.differ("has shape", int(odd[0]), theirs, ours)
            raise ValueError(f"{text}, and only axis {pad.axis} is padded")
    whole = shapes.max(axis=0)
    whole[list(axes)] = room_for(whole[list(axes)], pad.multiple)
    room, at_end = whole.tolist(), pad.side == "left"
    batch = np.full((len(samples), *room), pad.value, holding(dtype, pad.value, place.where))
    for part, sample in zip(batch, samples, strict=True):
        part[corner(room, sample.shape, at_end)] = sample
    if not pad.length and not pad.mask:
        return batch
    lengths = shapes[:, list(axes)]
    mask = None
    if pad.mask:
        others = tuple({*range(shapes.shape[1])}.difference(axes))
        known = [None if own is None else own.all(axis=others) for own in there]
        mask = _mask(lengths, [room[axis] for axis in axes], at_end, known)
    alone = lengths[:, 0] if len(axes) == 1 else lengths
    return PaddedArray(batch, alone if pad.length else None, mask)


def _mask(lengths: np.ndarray, room: list[int], at_end: bool, there: Sequence[Any]) -> np.ndarray:
    """Return the mask that is true where there are data, over the axes that are padded."""
    mask = mask_in(room, lengths, at_end)
    for number, own in enumerate(there):
        if own is not None:
            mask[number][corner(room, lengths[number].tolist(), at_end)] = own
    return mask


def _common_dtype(samples: list[np.ndarray], place: _Place) -> np.dtype[Any]:
    """Return the dtype that holds all samples; raise for texts with numbers, which have none.

    Samples without elements do not count, since an empty list has no dtype of its own.
    """
    numbers = [number for number, sample in enumerate(samples) if sample.size]
    numbers = numbers or list(range(len(samples)))
    dtypes = list(dict.fromkeys(samples[number].dtype for number in numbers))
    if len(dtypes) == 1:
        return dtypes[0]
    if np.dtype(object) in dtypes:
        return np.dtype(object)
    first = numbers[0]
    for number in numbers:
        theirs, ours = samples[number].dtype, samples[first].dtype
        if (theirs.kind in "SU") is not (ours.kind in "SU"):
            raise TypeError(place.differ("is of", number, theirs, ours, first))
    try:
        return promoted(*dtypes)
    except TypeError as error:
        raise TypeError(f"{place.where}no dtype holds all the samples: {error}") from error
