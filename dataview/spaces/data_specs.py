"""Data specifications: a space, and the name of the field of which a batch is to be one of it.

Where the space is composite, the names stand in a tuple of the same structure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from dataview.errors import explained
from dataview.spaces.base import Space, given_for_space
from dataview.spaces.composite import CompositeSpace, NullSpace

Source: TypeAlias = "str | tuple[Any, ...]"


class DataSpecs(tuple[Space, Source]):
    """What a model asks for: a space, and the name of the field to deliver in it, its source.

    For a CompositeSpace the source is a tuple of names, nested as the space is.  This is checked
    here; otherwise the pair is a tuple as any other, and `(space, source)` does everywhere.

    >>> from dataview.spaces.vector import VectorSpace
    >>> both = CompositeSpace((VectorSpace(3072), VectorSpace(10)))
    >>> DataSpecs(both, ("features", "targets")).source
    ('features', 'targets')
    >>> DataSpecs(both, "x")
    Traceback (most recent call last):
    TypeError: the source of a CompositeSpace of 2 components is a tuple of 2 sources; got 'x'
    """

    __slots__ = ()

    @explained()
    def __new__(cls, space: Space, source: Source) -> DataSpecs:
        return super().__new__(cls, (space, checked_source(space, source, "")))

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    @property
    def space(self) -> Space:
        """The space that a batch is to be one of."""
        return self[0]

    @property
    def source(self) -> Source:
        """The name of the field, or a tuple of names."""
        return self[1]

    def __repr__(self) -> str:
        return f"DataSpecs({self.space!r}, {self.source!r})"


def checked_specs(specs: Any) -> DataSpecs:
    """Return a pair of space and source, or raise if they differ in structure."""
    if isinstance(specs, DataSpecs):
        return specs
    if isinstance(getattr(specs, "data_specs", None), tuple):
        specs = specs.data_specs
    if not isinstance(specs, tuple) or len(specs) != 2:
        raise TypeError(
            "data specifications are a pair (space, source), as (VectorSpace(3), 'features'); got "
            f"{specs!r}{_remedy(specs)}"
        )
    return DataSpecs(*specs)


def _remedy(given: Any) -> str:
    """Return what to write for what is no pair, "" if that is not known."""
    if isinstance(given, Space):
        return "; give the name of the field, too"
    if hasattr(given, "get_data_specs"):
        return "; write cost.get_data_specs(model)"
    if isinstance(given, Mapping) and all(isinstance(part, Space) for part in given.values()):
        return f"; write {_as_pair(given)}"
    if isinstance(given, (list, tuple)) and all(isinstance(each, tuple) for each in given):
        return "; dv.specs.combine(pair, pair) makes one pair of several"
    return "; a pair is a tuple" if isinstance(given, list) else ""


def _as_pair(spaces: Mapping[str, Space]) -> str:
    """Return the pair, as one writes it, that asks for fields each in a space."""
    if len(spaces) == 1:
        ((source, space),) = spaces.items()
        return f"({space!r}, {source!r})"
    return f"({CompositeSpace(tuple(spaces.values()))!r}, {tuple(spaces)!r})"


def checked_source(space: Any, source: Any, place: str) -> Source:
    """Return the source for a space; `place` says in messages where in both they stand."""
    where = f", at {place}" if place else ""
    if not isinstance(space, Space):
        raise TypeError(
            f"data specifications are a pair (space, source), the space first{where}; "
            f"{given_for_space(space)}{_meant(space, source)}"
        )
    if isinstance(space, CompositeSpace):
        return _checked_sources(space, source, place, where)
    if not isinstance(source, str):
        wanted = "''" if isinstance(space, NullSpace) else "the name of a field"
        remedy = ""
        if isinstance(source, tuple):
            remedy = "; a tuple of sources needs a CompositeSpace"
            if len(source) > 1 and all(isinstance(part, str) for part in source):
                parts = ", ".join(f"d[{part!r}]" for part in source)
                remedy += (
                    ", of which a batch is a tuple; dv.View(x=np.column_stack"
                    f"(({parts}))) has the columns of one matrix, under one name"
                )
        if isinstance(source, tuple) and len(source) == 1 and isinstance(source[0], str):
            remedy += f", and {source[0]!r} is the name alone"
        raise TypeError(f"the source of {space!r} is {wanted}{where}; got {source!r}{remedy}")
    if isinstance(space, NullSpace) != (source == ""):
        raise ValueError(
            f"'' is the source of NullSpace(), and of that alone{where}; got {source!r} for "
            f"{space!r}{_unnamed(source)}"
        )
    return source


def _unnamed(source: str) -> str:
    """Return what to write for a view without names of fields."""
    return "" if source else "; dv.View(x=view) gives an array a name, here 'x'"


def _meant(space: Any, source: Any) -> str:
    """Return what to write where something else stands for the space, "" if that is not known."""
    if isinstance(source, Space):
        return f"; write ({source!r}, {space!r})"
    if not isinstance(space, tuple) or not isinstance(source, tuple):
        return ""
    if all(isinstance(part, Space) for part in space):
        return "; CompositeSpace(spaces) makes one space of several"
    are_pairs = isinstance(space[0], Space) and isinstance(source[0], Space)
    return "; dv.specs.combine(pair, pair) makes one pair of several" if are_pairs else ""


def _checked_sources(space: CompositeSpace, source: Any, place: str, where: str) -> Source:
    number = f"{len(space)} component{'' if len(space) == 1 else 's'}"
    wanted = f"a tuple of {len(space)} source{'' if len(space) == 1 else 's'}"
    if not isinstance(source, tuple):
        remedy = f"; write {tuple(source)}" if isinstance(source, list) else ""
        raise TypeError(
            f"the source of a CompositeSpace of {number} is {wanted}{where}; got {source!r}{remedy}"
        )
    if len(source) != len(space):
        raise ValueError(
            f"the source of a CompositeSpace of {number} is {wanted}, of the same structure"
            f"{where}; got {len(source)}: {source!r}"
        )
    return tuple(
        [
            checked_source(part, own, f"{place}[{n}]")
            for n, (part, own) in enumerate(zip(space, source, strict=True))
        ]
    )


# --- flat ones -------------------------------------------------------------------------------


def is_flat_space(space: Any) -> bool:
    """Whether a space is no CompositeSpace, or one whose components are none.

    >>> from dataview.spaces.vector import VectorSpace
    >>> pair = CompositeSpace((VectorSpace(1), VectorSpace(2)))
    >>> is_flat_space(pair), is_flat_space(CompositeSpace((pair, VectorSpace(3))))
    (True, False)
    """
    if not isinstance(space, Space):
        raise TypeError(f"is_flat_space takes a space; got {space!r}")
    inside = space.components if isinstance(space, CompositeSpace) else ()
    return not any(isinstance(part, CompositeSpace) for part in inside)


def is_flat_source(source: Any) -> bool:
    """Whether a source is a name, or a tuple of names.

    >>> is_flat_source(("features", "targets")), is_flat_source(("features", ("targets",)))
    (True, False)
    """
    if isinstance(source, str):
        return True
    if not isinstance(source, tuple):
        raise TypeError(f"a source is the name of a field, or a tuple of sources; got {source!r}")
    for part in source:
        if not isinstance(part, (str, tuple)):
            raise TypeError(f"a source is the name of a field, or a tuple of sources; got {part!r}")
    return all(isinstance(part, str) for part in source)


@explained("is_flat_specs((space, source))")
def is_flat_specs(specs: Any) -> bool:
    """Whether data specifications are flat: no tuple of sources stands inside another.

    >>> from dataview.spaces.vector import VectorSpace
    >>> is_flat_specs((VectorSpace(3), "features"))
    True
    """
    space, source = checked_specs(specs)
    return is_flat_space(space) and is_flat_source(source)
