"""Spaces of several parts, and the space of nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from dataview.spaces import batch as batches
from dataview.spaces.base import (
    Callback,
    How,
    Space,
    check_totals,
    convert,
    converts,
    no_conversion,
)
from dataview.spaces.images import ConvSpace
from dataview.spaces.indexes import IndexSpace
from dataview.spaces.vector import VectorSpace, as_vectors


class NullSpace(Space):
    """No data: a batch is None."""

    dtype = None

    def __init__(
        self,
        *,
        validate_callbacks: Iterable[Callback] = (),
        np_validate_callbacks: Iterable[Callback] = (),
    ) -> None:
        super().__init__({}, validate_callbacks, np_validate_callbacks)

    def with_dtype(self, dtype: Any) -> NullSpace:
        """Return the space itself, which has no dtype."""
        return self

    def check_batch(self, batch: Any, where: str) -> None:
        """Raise unless a batch is None."""
        if batch is not None:
            raise TypeError(f"{where}: NullSpace() takes None; got {type(batch).__name__}")

    def np_batch_size(self, batch: Any) -> int:
        """Return 0."""
        self.np_validate(batch)
        return 0

    def size_of(self, batch: Any) -> int | None:
        """Return None: nothing is known of the size."""
        return None

    def get_total_dimension(self) -> int:
        """Return 0."""
        return 0

    def get_origin(self) -> None:
        """Return None."""

    def get_origin_batch(self, batch_size: int, dtype: Any = None) -> None:
        """Return None."""

    def placeholder(self, name: str, dtype: Any, batch_size: int | None) -> None:
        """Return None."""


NullSpace.family = NullSpace


class CompositeSpace(Space):
    """Several spaces: a batch is a tuple with a batch of each.

    >>> import numpy as np
    >>> both = CompositeSpace((VectorSpace(1), VectorSpace(2)))
    >>> VectorSpace(3).np_format_as(np.arange(6).reshape(2, 3), both)
    (array([[0],
           [3]]), array([[1, 2],
           [4, 5]]))
    """

    components: tuple[Space, ...]

    def __init__(
        self,
        components: Iterable[Space],
        *,
        validate_callbacks: Iterable[Callback] = (),
        np_validate_callbacks: Iterable[Callback] = (),
    ) -> None:
        if isinstance(components, Space) and not isinstance(components, CompositeSpace):
            raise TypeError(f"a CompositeSpace takes a tuple of spaces; got {components!r}")
        found = tuple(components)
        for number, space in enumerate(found):
            if not isinstance(space, Space):
                raise TypeError(f"component {number} of a CompositeSpace is no space: {space!r}")
        super().__init__({"components": found}, validate_callbacks, np_validate_callbacks)

    def __repr__(self) -> str:
        comma = "," if len(self.components) == 1 else ""
        return f"CompositeSpace(({', '.join(map(repr, self.components))}{comma}))"

    def __iter__(self) -> Iterator[Space]:
        return iter(self.components)

    def __len__(self) -> int:
        return len(self.components)

    @property
    def num_components(self) -> int:
        """The number of components."""
        return len(self.components)

    @property
    def dtype(self) -> tuple[Any, ...]:
        """The dtypes of the components."""
        return tuple([space.dtype for space in self.components])

    def with_dtype(self, dtype: Any) -> CompositeSpace:
        """Return the same spaces for another dtype, or for a tuple with one for each."""
        each = zip(self, self._each(dtype), strict=True)
        return self.replaced(components=[space.with_dtype(own) for space, own in each])

    @property
    def is_heard(self) -> bool:
        """Whether functions of the user check batches, or parts of them."""
        return any(self._callbacks) or any(space.is_heard for space in self)

    def _each(self, dtype: Any) -> tuple[Any, ...]:
        if not isinstance(dtype, tuple):
            return (dtype,) * len(self)
        if len(dtype) != len(self):
            raise ValueError(f"{self!r} takes {len(self)} dtypes; got {len(dtype)}: {dtype!r}")
        return dtype

    def restrict(self, subset: Sequence[int]) -> Space:
        """Return the space of some components, in this order; of one, that component itself."""
        found = self._chosen(self.components, subset)
        return found[0] if len(found) == 1 else CompositeSpace(found)

    def restrict_batch(self, batch: Any, subset: Sequence[int]) -> Any:
        """Return what a batch has for `restrict(subset)`."""
        self.validate(batch)
        found = self._chosen(batch, subset)
        return found[0] if len(found) == 1 else found

    def _chosen(self, parts: tuple[Any, ...], subset: Sequence[int]) -> tuple[Any, ...]:
        for number in subset:
            if not 0 <= number < len(self):
                raise IndexError(f"{self!r} has no component {number}, only 0 to {len(self) - 1}")
        if not subset:
            raise ValueError("subset= lists the numbers of components; got none")
        return tuple([parts[number] for number in subset])

    def check_batch(self, batch: Any, where: str) -> None:
        """Raise unless a batch has a part for each component, all of one size."""
        if not isinstance(batch, tuple):
            remedy = "; tuple(batch) makes a tuple of it" if isinstance(batch, list) else ""
            raise TypeError(f"{where}: {self!r} takes a tuple; got {type(batch).__name__}{remedy}")
        if len(batch) != len(self):
            raise ValueError(
                f"{where}: expected {len(self)} elements in the batch, one for each component of "
                f"{self!r}; got {len(batch)}"
            )
        first: tuple[int, int] | None = None
        for number, (space, part) in enumerate(zip(self.components, batch, strict=True)):
            space.check(part, f"{where}[{number}]")
            size = space.size_of(part)
            if size is None:
                continue
            if first is not None and size != first[1]:
                raise ValueError(
                    f"{where}: the components differ in size: {where}[{first[0]}] has "
                    f"{first[1]} samples, then {where}[{number}] has {size}"
                )
            first = first or (number, size)

    def size_of(self, batch: Any) -> int | None:
        """Return the number of samples that all components have."""
        sizes = (space.size_of(part) for space, part in zip(self, batch, strict=True))
        return next((size for size in sizes if size is not None), None)

    def get_total_dimension(self) -> int:
        """Return the sum over the components."""
        return sum(space.get_total_dimension() for space in self.components)

    def get_origin(self) -> Any:
        """Return a tuple of zeros."""
        return tuple([space.get_origin() for space in self.components])

    def get_origin_batch(self, batch_size: int, dtype: Any = None) -> Any:
        """Return a tuple of batches of zeros; a tuple of dtypes has one for each."""
        dtypes = zip(self, self._each(dtype), strict=True)
        return tuple([space.get_origin_batch(batch_size, own) for space, own in dtypes])

    def marked(self, batch: Any, given: Any) -> Any:
        """Return a batch whose nodes have their spaces in their metadata."""
        if batch is given:
            return batch
        same = isinstance(given, tuple) and len(given) == len(self)
        each = zip(self, batch, given if same else (None,) * len(self), strict=True)
        return tuple([space.marked(part, own) for space, part, own in each])

    def placeholder(self, name: str, dtype: Any, batch_size: int | None) -> Any:
        """Return a tuple of symbols, numbered."""
        each = enumerate(zip(self, self._each(dtype), strict=True))
        return tuple(
            [space.placeholder(f"{name}[{n}]", own, batch_size) for n, (space, own) in each]
        )


CompositeSpace.family = CompositeSpace


def leaves(space: Space) -> list[Space]:
    """Return the spaces inside that have no components themselves, in their order."""
    if not isinstance(space, CompositeSpace):
        return [space]
    return [leaf for part in space for leaf in leaves(part)]


# --- conversions -------------------------------------------------------------------------------


@converts(CompositeSpace, CompositeSpace)
def _each(batch: Any, source: CompositeSpace, target: CompositeSpace, how: How) -> Any:
    if len(source) != len(target):
        why = f"the trees differ: {len(source)} components here, {len(target)} there"
        raise no_conversion(source, target, why)
    found = []
    for own, wanted, part in zip(source, target, batch, strict=True):
        if isinstance(own, CompositeSpace) != isinstance(wanted, CompositeSpace):
            raise no_conversion(source, target, "the trees differ in structure")
        found.append(convert(part, own, wanted, how))
    return tuple(found)


@converts(CompositeSpace, VectorSpace)
def _one_vector(batch: Any, source: CompositeSpace, target: VectorSpace, how: How) -> Any:
    check_totals(source, target)
    parts = _vectors(batch, source, VectorSpace(target.dim, False, target.dtype), how)
    dtypes = list(dict.fromkeys(str(part.dtype) for part in parts))
    if len(dtypes) > 1:
        raise TypeError(
            f"the components of {source!r} are {' and '.join(dtypes)}; say which of them the "
            f"vectors are to be: VectorSpace({target.dim}, dtype=...)"
        )
    return as_vectors(batches.joined([batches.dense(part) for part in parts], 1), target, how)


def _vectors(batch: Any, source: CompositeSpace, target: VectorSpace, how: How) -> list[Any]:
    """Return the parts of a batch as vectors."""
    found: list[Any] = []
    for space, part in zip(source, batch, strict=True):
        if isinstance(space, CompositeSpace):
            found += _vectors(part, space, target, how)
        elif isinstance(space, IndexSpace):
            why = f"{space!r} has no place in it as it is; format it as a VectorSpace first"
            raise no_conversion(source, target, why)
        elif not isinstance(space, NullSpace):
            dim = space.get_total_dimension()
            found.append(convert(part, space, VectorSpace(dim, False, target.dtype), how))
    return found


@converts(VectorSpace, CompositeSpace)
def _several(batch: Any, source: VectorSpace, target: CompositeSpace, how: How) -> Any:
    check_totals(source, target)

    def made(part: Any, space: Space) -> Any:
        if isinstance(space, IndexSpace):
            why = f"numbers in it are no labels for {space!r}; split it into vectors first"
            raise no_conversion(source, target, why)
        own = VectorSpace(space.get_total_dimension(), False, source.dtype)
        return convert(part, own, space, how)

    return _cut(batches.dense(batch), 1, target, lambda space: space.get_total_dimension(), made)


def _cut(
    batch: Any,
    axis: int,
    target: CompositeSpace,
    length_of: Callable[[Any], int],
    made: Callable[[Any, Any], Any],
) -> Any:
    """Return what is made of the parts of a batch along an axis, for each space inside another."""
    start = 0

    def filled(space: Space) -> Any:
        nonlocal start
        if isinstance(space, CompositeSpace):
            return tuple([filled(part) for part in space])
        if isinstance(space, NullSpace):
            return None
        begin, start = start, start + length_of(space)
        return made(batches.cut(batch, axis, begin, start), space)

    return filled(target)


def _by_channels(target: ConvSpace, several: CompositeSpace) -> list[ConvSpace] | None:
    """Return the images whose channels together are those of the target, None if they are not."""
    found = [part for part in leaves(several) if not isinstance(part, NullSpace)]
    images = [part for part in found if isinstance(part, ConvSpace) and part.shape == target.shape]
    if len(images) < len(found) or not images:
        return None
    return images if sum(part.channels for part in images) == target.channels else None


def _checked_parts(source: Space, target: Space, several: CompositeSpace) -> None:
    """Raise for parts of which it is not known where they belong in an image."""
    if not all(isinstance(part, (VectorSpace, NullSpace)) for part in leaves(several)):
        raise no_conversion(
            source,
            target,
            "the components are neither all vectors, which stand one after the other, nor all "
            "images of this shape, which share its channels",
        )


@converts(CompositeSpace, ConvSpace)
def _one_image(batch: Any, source: CompositeSpace, target: ConvSpace, how: How) -> Any:
    images = _by_channels(target, source)
    if images is None:
        _checked_parts(source, target, source)
        check_totals(source, target)
        whole = VectorSpace(source.get_total_dimension(), False, None)
        return convert(convert(batch, source, whole, how), whole, target, how)
    parts = [part for part in _flat(batch) if part is not None]
    found = [
        convert(part, own, type(target)(own.shape, own.channels, target.axes, target.dtype), how)
        for part, own in zip(parts, images, strict=True)
    ]
    return batches.joined(found, target.axes.index("c"))


@converts(ConvSpace, CompositeSpace)
def _several_images(batch: Any, source: ConvSpace, target: CompositeSpace, how: How) -> Any:
    if _by_channels(source, target) is None:
        _checked_parts(source, target, target)
        check_totals(source, target)
        whole = VectorSpace(source.get_total_dimension(), False, None)
        return convert(convert(batch, source, whole, how), whole, target, how)

    def made(part: Any, space: Any) -> Any:
        own = type(source)(space.shape, space.channels, source.axes, source.dtype)
        return convert(part, own, space, how)

    return _cut(batch, source.axes.index("c"), target, lambda space: int(space.channels), made)


def _flat(batch: Any) -> list[Any]:
    if not isinstance(batch, tuple):
        return [batch]
    return [part for inner in batch for part in _flat(inner)]
