"""From nested data specifications to flat ones without duplicates, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dataview.errors import explained
from dataview.spaces import batch as batches
from dataview.spaces.base import Space
from dataview.spaces.composite import CompositeSpace, NullSpace, parts_of
from dataview.spaces.data_specs import DataSpecs, checked_specs

_MISSING: Any = object()


class DataSpecsMapping:
    """From nested specifications to a flat tuple in which each stands once, and back.

    A model may ask for one field several times; this way it is read once.  Both methods take
    whatever has the structure of the specifications: sources, spaces, batches or symbols.

    >>> from dataview.spaces.vector import VectorSpace
    >>> x, y = VectorSpace(3072), VectorSpace(10)
    >>> mapping = DataSpecsMapping((CompositeSpace((x, CompositeSpace((x, y)))), ("a", ("a", "b"))))
    >>> mapping.flatten(("a", ("a", "b")))
    ('a', 'b')
    >>> mapping.nest((1, 2))
    (1, (1, 2))
    """

    @explained("DataSpecsMapping((space, source))")
    def __init__(self, data_specs: Any) -> None:
        self.specs = checked_specs(data_specs)
        self.unique: tuple[tuple[Space, str], ...] = tuple(dict.fromkeys(parts_of(*self.specs)))
        places = {pair: number for number, pair in enumerate(self.unique)}
        self._tree = _tree(*self.specs, places)
        self._is_flat = self._tree == tuple(range(len(self.unique)))

    @property
    def n_unique_specs(self) -> int:
        """How many different pairs of space and source there are, NullSpace not counted."""
        return len(self.unique)

    @property
    def flat(self) -> DataSpecs:
        """The flat specifications: a CompositeSpace, and a tuple of sources."""
        spaces = CompositeSpace([space for space, _ in self.unique])
        return DataSpecs(spaces, tuple([source for _, source in self.unique]))

    def __repr__(self) -> str:
        return f"DataSpecsMapping({self.specs!r})"

    # --- flatten -------------------------------------------------------------------------------

    def flatten(self, nested: Any, return_tuple: bool = False) -> Any:
        """Return the parts of something nested, each once, in the order in which they come.

        A single part is returned by itself, with `return_tuple` in a tuple.  Several spaces become
        a CompositeSpace.
        """
        found = [_MISSING] * len(self.unique)
        self._gather(nested, self._tree, "", found)
        if return_tuple:
            return tuple(found)
        if len(found) == 1:
            return found[0]
        if isinstance(nested, Space):
            return CompositeSpace(found) if found else NullSpace()
        if not found:
            return "" if _has_text(nested) else () if isinstance(nested, tuple) else None
        return tuple(found)

    def _gather(self, nested: Any, tree: Any, place: str, found: list[Any]) -> None:
        """Put the parts of a nested value at their places in the flat one."""
        where = f" at {place}" if place else ""
        if isinstance(tree, tuple):
            parts = nested.components if isinstance(nested, CompositeSpace) else nested
            if not isinstance(parts, tuple):
                raise TypeError(
                    f"expected a tuple of {len(tree)}{where}, as {self.specs.source!r} has; got "
                    f"{_told(nested)}"
                )
            if len(parts) != len(tree):
                raise ValueError(
                    f"expected a tuple of {len(tree)}{where}, as {self.specs.source!r} has; got "
                    f"{len(parts)} parts"
                )
            for number, (part, inner) in enumerate(zip(parts, tree, strict=True)):
                self._gather(part, inner, f"{place}[{number}]", found)
        elif tree is None:
            if not _is_nothing(nested):
                raise ValueError(
                    f"NullSpace() stands{where or ' there'}, which has no data; got {_told(nested)}"
                )
        elif found[tree] is _MISSING:
            found[tree] = nested
        elif not _are_same(found[tree], nested):
            space, source = self.unique[tree]
            raise ValueError(
                f"{source!r} as {space!r} is asked for more than once, and what stands{where} "
                "differs from what stands before"
            )

    # --- nest ----------------------------------------------------------------------------------

    def nest(self, flat: Any) -> Any:
        """Return the parts of a flat tuple in the nested structure, each wherever it belongs.

        A single part need not stand in a tuple.
        """
        parts = self._parts(flat)
        spaces = isinstance(flat, Space)
        nothing: Any = None
        if spaces or (parts and all(isinstance(part, Space) for part in parts)):
            nothing = NullSpace()
        elif _all_text(parts) or (isinstance(flat, str) and not parts):
            nothing = ""
        return _nested(self._tree, parts, nothing, spaces)

    def filled(self, parts: tuple[Any, ...]) -> Any:
        """Return batches, one for each unique pair, in the nested structure."""
        return parts if self._is_flat else _nested(self._tree, parts, None, False)

    def _parts(self, flat: Any) -> tuple[Any, ...]:
        count = len(self.unique)
        parts = flat.components if isinstance(flat, CompositeSpace) else flat
        if not count and _is_nothing(flat):
            return ()
        if count == 1 and not (isinstance(parts, tuple) and len(parts) == 1):
            return (flat,)
        if not isinstance(parts, tuple):
            raise TypeError(f"expected a flat tuple of {count}; got {_told(flat)}")
        if len(parts) != count:
            names = tuple([source for _, source in self.unique])
            raise ValueError(f"expected a flat tuple of {count}, {names}; got {len(parts)} parts")
        return parts


def _tree(space: Space, source: Any, places: dict[Any, int]) -> Any:
    """Return the structure with the place in the flat tuple for each part, None for no data."""
    if isinstance(space, CompositeSpace):
        return tuple([_tree(*inner, places) for inner in zip(space, source, strict=True)])
    return None if isinstance(space, NullSpace) else places[space, source]


def _nested(tree: Any, parts: tuple[Any, ...], nothing: Any, spaces: bool) -> Any:
    if isinstance(tree, tuple):
        found = tuple([_nested(inner, parts, nothing, spaces) for inner in tree])
        return CompositeSpace(found) if spaces else found
    return nothing if tree is None else parts[tree]


def _is_nothing(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, NullSpace)
        or (isinstance(value, (str, tuple)) and not value)
        or (isinstance(value, CompositeSpace) and not len(value))
    )


def _all_text(parts: Any) -> bool:
    return bool(parts) and all(isinstance(part, str) for part in parts)


def _has_text(nested: Any) -> bool:
    if isinstance(nested, tuple):
        return any(map(_has_text, nested))
    return isinstance(nested, str)


def _are_same(one: Any, other: Any) -> bool:
    """Whether two parts are equal; of views, which are not read, whether they are one."""
    if one is other:
        return True
    if isinstance(one, (tuple, list)) and type(one) is type(other) and len(one) == len(other):
        return all(map(_are_same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping) and one.keys() == other.keys():
        return all(_are_same(one[name], other[name]) for name in one)
    if batches.is_symbolic(one) or batches.is_symbolic(other):
        return batches.unwrapped(one) is batches.unwrapped(other)
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return type(one) is type(other) and one.dtype == other.dtype and _are_equal(one, other)
    if batches.is_sparse(one) or batches.is_sparse(other):
        return type(one) is type(other) and _are_equal(batches.dense(one), batches.dense(other))
    return bool(one == other)


def _are_equal(one: np.ndarray, other: np.ndarray) -> bool:
    floats = one.dtype.kind in "fc"
    return np.array_equal(one, other, equal_nan=floats)


def _told(value: Any) -> str:
    if isinstance(value, list):
        return "a list; tuple(parts) makes a tuple of it"
    return repr(value) if isinstance(value, (str, int, float, Space)) else type(value).__name__
