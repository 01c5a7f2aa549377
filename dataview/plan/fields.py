"""The field tree: names for parts of a view, and how they follow the view through a key.

A field is a `Window` on the view's own array, or `Attached`: an array of its own that shares
some axes with the view.  Windows are kept as source positions per axis, in the coordinates of the
view they belong to, so nested windows and windows after a key are all of one kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from dataview.index import (
    Affine,
    Array,
    Constant,
    Index,
    Map,
    axes_of,
    compose,
    extend,
    is_integer,
    positions,
    renumbered,
    shares_axes,
)
from dataview.index.keys import key_text, slice_text

Positions: TypeAlias = "int | range | np.ndarray"
Selects: TypeAlias = Callable[[Any, Index], Any]
"""Returns the part of a node that an index selects."""


class Meta(dict[str, Any]):
    """Metadata, which nobody changes where they are: views share them.

    `kept` is what was found out about them, which lives as long as they do, and does not travel.

    >>> Meta(unit="mm")["unit"] = "m"
    Traceback (most recent call last):
    TypeError: metadata are not changed in place; view._with_meta(unit='mm') makes a view with more
    """

    __slots__ = ("kept",)
    kept: Any

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            "metadata are not changed in place; view._with_meta(unit='mm') makes a view with more"
        )

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return Meta, (dict(self),)


NO_META: Mapping[str, Any] = Meta()


class Unread(str):
    """Why a part of a file is no field although something is there, which a copy would lack."""

    __slots__ = ()


class Fields:
    """An ordered mapping from names to fields, and why names that once were there are gone."""

    __slots__ = ("lost", "named")

    def __init__(self, named: Mapping[str, Field], lost: Mapping[str, str] | None = None) -> None:
        self.named = dict(named)
        self.lost = dict(lost or {})

    def __reduce__(self) -> tuple[Any, ...]:
        return _unflattened, (_flattened(self),)

    def __len__(self) -> int:
        return len(self.named)

    def __iter__(self) -> Iterator[str]:
        return iter(self.named)

    def with_field(self, name: str, field: Field) -> Fields:
        """Return the tree with one field put in, or in place of the one of that name."""
        lost = {other: reason for other, reason in self.lost.items() if other != name}
        return Fields(self.named | {name: field}, lost)

    @property
    def unread(self) -> dict[str, Unread]:
        """The parts of a file that cannot be read, each with the reason."""
        return {name: why for name, why in self.lost.items() if isinstance(why, Unread)}

    def renamed(self, names: Mapping[str, str]) -> Fields:
        """Return the tree with some fields under new names, in their old places."""
        named = {names.get(name, name): field for name, field in self.named.items()}
        return Fields(named, {name: why for name, why in self.lost.items() if name not in named})

    def with_nodes(self, new: Callable[[Any], Any]) -> Fields:
        """Return the tree with other nodes in its fields; the same if they are the same."""
        changes: dict[str, Field] = {}
        for name, field in self.named.items():
            if isinstance(field, Attached):
                node = new(field.node)
                if node is not field.node:
                    changes[name] = field.of(node)
        return Fields(self.named | changes, self.lost) if changes else self

    def windows_only(self, shift: int, fits: Callable[[int], bool] = lambda axis: True) -> Fields:
        """Return the windows all of whose axes fit another array, moved there by `shift` axes."""
        kept: dict[str, Field] = {
            name: field.moved(shift)
            for name, field in self.named.items()
            if isinstance(field, Window) and all(fits(axis) for axis in field.positions)
        }
        return Fields(kept) if kept else NO_FIELDS

    def computed(self, dtype: np.dtype[Any], is_cast: bool = False) -> Fields:
        """Return the windows as those of computed data: see `computed_meta`."""
        changed: dict[str, Field] = {}
        for name, field in self.named.items():
            if isinstance(field, Window) and not COMPUTED.keys().isdisjoint(field.meta):
                others = {key: v for key, v in field.meta.items() if key not in COMPUTED}
                own = computed_meta(field.meta, dtype, is_cast)
                changed[name] = field.with_meta(read_only_meta({**others, **own}))
        return Fields(self.named | changed, self.lost) if changed else self


@dataclass(slots=True, eq=False, repr=False)
class Window:
    """A field that is part of the view's own array: positions per axis, whole on the others.

    The fields inside it may come late: they are worked out when they are asked for, so that a key
    passes through a window in one step, however deep others are nested in it.
    """

    positions: dict[int, Positions]
    _fields: Fields | LateInner
    meta: Mapping[str, Any]

    @property
    def fields(self) -> Fields:
        """The fields inside it."""
        if isinstance(self._fields, LateInner):
            self._fields = through(*self._fields)
        return self._fields

    def moved(self, shift: int) -> Window:
        """Return the same window on an array that has `shift` more axes in front."""
        if not shift:
            return self
        moved = {axis + shift: found for axis, found in self.positions.items()}
        return Window(moved, self.fields.windows_only(shift), self.meta)

    @property
    def follows_rows(self) -> bool:
        """Whether its rows are the view's, so that a key on rows passes to it."""
        return 0 not in self.positions

    def with_meta(self, meta: Mapping[str, Any]) -> Window:
        """Return the same window with other metadata."""
        return Window(self.positions, self._fields, meta)


class LateInner(NamedTuple):
    """The fields inside a window as they are seen through a key."""

    fields: Fields
    seen: Index
    key: str
    select: Selects


def _flattened(fields: Fields) -> list[Any]:
    """Return a list of all nested trees, the outermost first, which refer to others by number.

    Pickled as such a list, trees of any depth do not exhaust Python's stack.
    """
    trees = [fields]
    flat: list[Any] = []
    for tree in trees:  # the loop appends the inner trees
        named: dict[str, Any] = {}
        for name, field in tree.named.items():
            if isinstance(field, Window):
                inner = field.fields
                named[name] = (field.positions, dict(field.meta), len(trees) if inner else None)
                trees += [inner] if inner else []
            else:
                named[name] = field
        flat.append((named, tree.lost))
    return flat


def _unflattened(flat: list[Any]) -> Fields:
    """Return the outermost of flattened trees, with the inner ones in it."""
    trees: dict[int | None, Fields] = {None: NO_FIELDS}
    for number, (named, lost) in reversed([*enumerate(flat)]):
        fields = dict(named)
        for name, field in named.items():
            if isinstance(field, tuple):
                places, meta, inner = field
                fields[name] = Window(places, trees[inner], read_only_meta(meta))
        trees[number] = Fields(fields, lost)
    return trees[0]


def read_only_meta(meta: dict[str, Any]) -> Mapping[str, Any]:
    """Return metadata as a mapping that cannot be changed."""
    return Meta(meta) if meta else NO_META


COMPUTED: dict[str, Callable[[Any, np.dtype[Any], bool], Any]] = {}
"""By the name of metadata, what computed values have of them; wings above say that of theirs."""


def computed_meta(
    meta: Mapping[str, Any], dtype: np.dtype[Any], is_cast: bool = False
) -> Mapping[str, Any]:
    """Return what of metadata holds for values of a dtype that are computed, one of each element.

    `is_cast` says that they are the same numbers in another dtype.
    """
    if meta is NO_META:
        return NO_META
    found = {
        name: COMPUTED[name](value, dtype, is_cast)
        for name, value in meta.items()
        if name in COMPUTED
    }
    return read_only_meta({name: value for name, value in found.items() if value is not None})


OF_TYPES = ("timezone", "time_of_day", "decimal")
"""The metadata that say of which type values are where that is more than a dtype."""

OF_VALUES = (*OF_TYPES, "unit", "units", "calendar", "scale_factor", "add_offset")
"""The metadata that say what each value means, wherever it stands."""


def meta_of_values(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what of metadata holds for some of the values, whatever rows they are of.

    >>> meta_of_values(read_only_meta({"timezone": "UTC", "title": "all"}))
    {'timezone': 'UTC'}
    """
    if meta is NO_META:
        return NO_META
    return read_only_meta({name: meta[name] for name in OF_VALUES if name in meta})


SAMPLE_AXES: dict[str, Callable[[Any], int | None]] = {}
"""By the name of metadata, along which axis samples stand; None if they are rows, as elsewhere."""

PART = MappingProxyType({"part_of": "samples that are no rows"})
"""What metadata tell of a part of such samples that has not all of each."""


LABELS = "labels"
"""The name under which the metadata of codes hold their labels."""


def are_of_codes(meta: Mapping[str, Any], dtype: np.dtype[Any] | None) -> bool:
    """Whether metadata tell the labels of integers, or will when these are found."""
    if dtype is None or dtype.kind not in "iu":
        return False
    labels = meta.get(LABELS)
    if isinstance(labels, np.ndarray):
        return labels.ndim == 1
    if isinstance(labels, (list, tuple)):
        return not labels or not isinstance(labels[0], (list, tuple, dict, np.ndarray))
    return hasattr(labels, "__array__")  # a view of labels, which a photograph keeps


def part_meta(
    meta: Mapping[str, Any], is_along: Callable[[int], bool], dtype: np.dtype[Any] | None
) -> Mapping[str, Any]:
    """Return what of metadata holds for a part: all of them if it is one of whole samples.

    `is_along` tells if the part is one along an axis alone.  Codes have their labels wherever they
    stand.
    """
    axes = ((name, axis_of(meta.get(name))) for name, axis_of in SAMPLE_AXES.items())
    name, axis = next(((name, axis) for name, axis in axes if axis is not None), ("", 0))
    if is_along(axis):
        return meta
    own: dict[str, Any] = {name: dict(PART)} if name else {}
    if are_of_codes(meta, dtype):
        own[LABELS] = meta[LABELS]
    return read_only_meta(own) if own else NO_META


@dataclass(slots=True, eq=False, repr=False)
class Attached:
    """A field with a node of its own, whose first axes are the given axes of the view.

    `axes` is None for a field that belongs to the whole only and is gone after any key.
    `replaces` is true if it took the place of a window on the view's own array.
    """

    node: Any
    axes: tuple[int, ...] | None
    replaces: bool = False

    def of(self, node: Any) -> Attached:
        """Return the same field with another node."""
        return Attached(node, self.axes, self.replaces)

    @property
    def follows_rows(self) -> bool:
        """Whether its rows are the view's, so that a key on rows passes to it."""
        return self.axes is not None and self.axes[:1] == (0,)


Field: TypeAlias = Window | Attached
NO_FIELDS = Fields({})


class WindowSpec:
    """A window as it is declared, with the windows inside it, before it is laid on an array."""

    __slots__ = ("fields", "window")

    def __init__(self, window: Any, fields: Mapping[str, Any]) -> None:
        for name in fields:
            check_declared(name)
        self.window = window
        self.fields = dict(fields)

    def __repr__(self) -> str:
        inner = "".join(f", {name}={spec!r}" for name, spec in self.fields.items())
        return f"field({self.window!r}{inner})"


def check_name(name: Any) -> str:
    """Return a field's name, or say why it cannot be one."""
    if not isinstance(name, str):
        raise TypeError(f"a field's name is a string; got {name!r}")
    if not name:
        raise ValueError("a field's name cannot be empty")
    return name


def check_declared(name: Any) -> str:
    """Return the name of a field that a user declares; names that come with data may be any."""
    if check_name(name).startswith("_"):
        bare = name.lstrip("_")
        raise TypeError(
            f"a field's name has no leading underscore, which verbs and options have; got {name!r}"
            + (f"; write {bare!r}" if bare else "")
        )
    return name  # type: ignore[no-any-return]


# --- declaring -------------------------------------------------------------------------------


def lay_window(name: str, spec: Any, shape: tuple[int, ...]) -> Window:
    """Lay a declared window on the last axes of an array of this shape.

    >>> lay_window("x", np.s_[2:], (9, 5)).positions
    {1: range(2, 5)}
    """
    outermost = _lay_one(name, spec, [(axis, None) for axis in range(len(shape))], shape)
    waiting = [outermost]
    while waiting:  # not by recursion: windows may be nested deeper than Python's stack
        window, inside, open_axes = waiting.pop()
        laid = {sub: _lay_one(sub, part, open_axes, shape) for sub, part in inside.items()}
        window._fields = Fields({sub: one[0] for sub, one in laid.items()}) if laid else NO_FIELDS
        waiting += laid.values()
    return outermost[0]


_Axes: TypeAlias = "Sequence[tuple[int, Positions | None]]"


def _lay_one(
    name: str, spec: Any, axes: _Axes, shape: tuple[int, ...]
) -> tuple[Window, Mapping[str, Any], _Axes]:
    """Return a window without those inside it, these as declared, and the axes left for them."""
    if not isinstance(spec, WindowSpec):
        spec = WindowSpec(spec, {})
    entries = spec.window if isinstance(spec.window, tuple) else (spec.window,)
    if entries and entries[0] is Ellipsis:
        entries = entries[1:]
    front = len(axes) - len(entries)
    if front < 0:
        raise IndexError(
            f"the window of field {name!r} has {len(entries)} entries, the data {len(axes)} axes"
        )
    chosen = list(axes[:front])
    for entry, (axis, place) in zip(entries, axes[front:], strict=True):
        if not (isinstance(entry, slice) and entry == slice(None)):
            place = _narrow(name, entry, range(shape[axis]) if place is None else place)
        chosen.append((axis, place))
    narrowed = {axis: place for axis, place in chosen if place is not None}
    open_axes = [(axis, place) for axis, place in chosen if not isinstance(place, int)]
    return Window(narrowed, NO_FIELDS, NO_META), spec.fields, open_axes


def _narrow(name: str, entry: Any, place: Positions) -> Positions:
    assert not isinstance(place, int)
    length = len(place)
    if is_integer(entry):
        if not -length <= entry < length:
            raise IndexError(_OUTSIDE.format(name=name, entry=entry, length=length))
        return int(place[entry])
    if isinstance(entry, slice):
        for end in (entry.start, entry.stop):
            if end is not None and not -length <= end <= length:
                raise IndexError(_OUTSIDE.format(name=name, entry=slice_text(entry), length=length))
        return cast("range", place[entry])
    chosen = np.asarray(entry)
    if chosen.dtype == np.bool_ and chosen.shape == (length,):
        chosen = chosen.nonzero()[0]
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
        raise TypeError(
            f"the window of field {name!r} is made of slices, integers, lists of integers and "
            f"masks of the axis' length; got {_entry_text(entry)}{_AS_MEMBER}"
        )
    if len(chosen) and not (-length <= chosen.min() and chosen.max() < length):
        text = _entry_text(entry)
        raise IndexError(_OUTSIDE.format(name=name, entry=text, length=length) + _AS_MEMBER)
    found: np.ndarray = np.asarray(place)[chosen]
    if len(np.unique(found)) < len(found):
        raise ValueError(
            f"the window of field {name!r} selects an entry twice: {_entry_text(entry)}{_AS_MEMBER}"
        )
    return found


_AS_MEMBER = (
    "; a window says which columns the field has, and data of its own have a name each: "
    "dv.View(input=X, target=y)"
)


def _entry_text(entry: Any) -> str:
    """Return an entry of a window for a message: of an array what it is, but for short ones.

    >>> _entry_text([1, 1]), _entry_text(np.zeros((9, 2)))
    ('[1, 1]', 'float64 (9, 2)')
    """
    array = np.asarray(entry)
    is_long = array.ndim > 1 or array.size > 8
    return f"{array.dtype} {array.shape}" if is_long else repr(entry)


_OUTSIDE = "the window [{entry}] of field {name!r} reaches outside an axis of length {length}"


# --- following a key -------------------------------------------------------------------------


def window_index(window: Window, shape: tuple[int, ...]) -> Index:
    """Return the index of a window in an array of this shape."""
    view: list[int] = []
    maps: list[Map] = []
    for axis, length in enumerate(shape):
        place = window.positions.get(axis, range(length))
        if isinstance(place, int):
            maps.append(Constant(place))
            continue
        if isinstance(place, range):
            maps.append(Affine(place.start, ((len(view), place.step),)))
        else:
            maps.append(Array(place, (len(view),)))
        view.append(len(place))
    return Index(view, maps)


def through(fields: Fields, index: Index, key: Any, select: Selects) -> Fields:
    """Return the tree as it is seen through a key: what survives, and why the rest is gone.

    A window survives when each of its entries is selected exactly once; it keeps its own order.
    The key, or a text of it, is for messages.
    """
    if not fields.named:
        return fields
    kept: dict[str, Field] = {}
    lost = dict(fields.lost)
    ways: _Ways = {}
    told = key if isinstance(key, str) else None
    for name, field in fields.named.items():
        if told is None and isinstance(field, Window):
            told = key_text(key)
        followed = (
            _follow_window(field, index, told or "", select)
            if isinstance(field, Window)
            else _follow_attached(field, index, select, ways)
        )
        if isinstance(followed, str):
            lost[name] = followed
        else:
            kept[name] = followed
    return Fields(kept, lost)


LONGEST_KEY = 60
"""Of a chain of keys that is longer than this, an error names only the last key."""


def _follow_window(field: Window, index: Index, key: str, select: Selects) -> Window | str:
    found: dict[int, Positions] = {}
    for axis, place in field.positions.items():
        map_ = index.maps[axis]
        over = axes_of(map_)
        if len(over) > 1 or (over and shares_axes(index, axis)):
            return f"is spread over several axes by {key}"
        reached = _rebased(map_, place, index.shape)
        if reached is None:
            return f"is only partly inside {key}"
        if over:
            found[over[0]] = reached
    inner = field._fields
    if inner is NO_FIELDS:
        return Window(found, inner, field.meta)
    if isinstance(inner, LateInner):  # a key of a key: in one step
        told = key if len(inner.key) > LONGEST_KEY else f"{inner.key}{key}"
        late = inner._replace(seen=compose(inner.seen, index), key=told)
    else:
        late = LateInner(inner, index, key, select)
    return Window(found, late if late.fields else NO_FIELDS, field.meta)


def _rebased(map_: Map, place: Positions, shape: tuple[int, ...]) -> Positions | None:
    """Return where a key selects these source positions, None unless each exactly once."""
    if isinstance(map_, Constant):
        alone = place if isinstance(place, int) else int(place[0]) if len(place) == 1 else None
        return 0 if alone == map_.offset else None
    (axis,) = axes_of(map_)
    if isinstance(map_, Affine):
        return _on_line(place, map_.offset, map_.strides[0][1], shape[axis])
    values = positions(map_, shape).ravel()
    order = np.argsort(values, kind="stable")
    wanted = np.atleast_1d(np.asarray(place, np.intp))
    first = np.searchsorted(values, wanted, "left", sorter=order)
    last = np.searchsorted(values, wanted, "right", sorter=order)
    if not np.array_equal(last - first, np.ones_like(first)):
        return None
    reached = order[first]
    return int(reached[0]) if isinstance(place, int) else reached


def _on_line(place: Positions, offset: int, stride: int, count: int) -> Positions | None:
    if isinstance(place, int):
        number, misfit = divmod(place - offset, stride)
        return None if misfit or not 0 <= number < count else number
    if isinstance(place, range):
        start, misfit = divmod(place.start - offset, stride)
        step, uneven = divmod(place.step, stride)
        if len(place) == 1:
            step, uneven = 1, 0
        if len(place) and (misfit or uneven):
            return None
        reached: Any = range(start, start + step * len(place), step or 1)
        ends = (reached[0], reached[-1]) if len(reached) else ()
        return cast(range, reached) if all(0 <= end < count for end in ends) else None
    values = np.asarray(place)
    reached, misfit_array = np.divmod(values - offset, stride)
    if np.any(misfit_array) or np.any(reached < 0) or np.any(reached >= count):
        return None
    return cast(np.ndarray, reached)


_Ints: TypeAlias = tuple[int, ...]
_Ways: TypeAlias = "dict[tuple[_Ints, _Ints], tuple[_Ints, Index] | str]"


def _follow_attached(field: Attached, index: Index, select: Selects, ways: _Ways) -> Attached | str:
    """Return a field with its own data as it is seen through a key, or why it is gone.

    `ways` has what was worked out for fields of the same shape, of which there may be thousands.
    """
    if field.axes is None:
        return "belongs to the whole dataset only"
    trailing = (field.node.shape or ())[len(field.axes) :]
    way = ways.get((field.axes, trailing))
    if way is None:
        way = ways[field.axes, trailing] = _way(index, field.axes, trailing)
    if isinstance(way, str):
        return way
    return Attached(select(field.node, way[1]), way[0], field.replaces)


def _way(index: Index, over_axes: _Ints, trailing: _Ints) -> tuple[_Ints, Index] | str:
    """Return the axes that a field has behind a key, and the key for its own data."""
    if over_axes == tuple(range(len(index.maps))):
        return tuple(range(len(index.shape))), extend(index, trailing)
    maps = [index.maps[axis] for axis in over_axes]
    own = {axis for map_ in maps for axis in axes_of(map_)}
    rest = [m for number, m in enumerate(index.maps) if number not in over_axes]
    others = {axis for map_ in rest for axis in axes_of(map_)}
    if own & others:
        return "does not follow a key that joins its axes with others"
    front = min(others, default=len(index.shape))
    kept = sorted(own.union(range(front)))  # those that no axis uses are new axes in front
    return tuple(kept), extend(renumbered(Index(index.shape, maps), kept), trailing)
