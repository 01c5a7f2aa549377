"""Spaces of several parts, and the space of nothing."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

from dataview.errors import explained
from dataview.plan.build import keyed
from dataview.plan.node import Node
from dataview.spaces import batch as batches
from dataview.spaces.base import (
    Callback,
    How,
    Space,
    Step,
    check_totals,
    converts,
    given_for_space,
    no_conversion,
    step_between,
)
from dataview.spaces.images import ConvSpace
from dataview.spaces.indexes import IndexSpace
from dataview.spaces.vector import VectorSpace, as_vectors


class NullSpace(Space):
    """No data: a batch is None, and the source of this space is `""`.

    >>> NullSpace().validate(None)
    """

    dtype = None

    @explained()
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


class CompositeSpace(Space):
    """Several spaces: a batch is a tuple with a batch of each, all of one size.

    The components may be composite themselves.  `space[0]` is the first one, and `len(space)` their
    number.

    >>> import numpy as np
    >>> both = CompositeSpace((VectorSpace(1), VectorSpace(2)))
    >>> both.validate((np.zeros((5, 1)), np.zeros((5, 2))))

    A vector is split into components by its columns:

    >>> VectorSpace(3).np_format_as(np.arange(6).reshape(2, 3), both)
    (array([[0],
           [3]]), array([[1, 2],
           [4, 5]]))
    """

    components: tuple[Space, ...]

    @explained()
    def __init__(
        self,
        components: Iterable[Space],
        *more: Any,
        validate_callbacks: Iterable[Callback] = (),
        np_validate_callbacks: Iterable[Callback] = (),
    ) -> None:
        is_one = isinstance(components, Space) and not isinstance(components, CompositeSpace)
        is_none = isinstance(components, (str, dict)) or not hasattr(components, "__iter__")
        if more or is_one or is_none:
            raise TypeError(
                "a CompositeSpace takes a tuple of spaces, as in CompositeSpace((space, space)); "
                f"got {', '.join(map(repr, (components, *more)))}"
            )
        found = tuple(components)
        for number, space in enumerate(found):
            if not isinstance(space, Space):
                raise TypeError(
                    f"component {number} of a CompositeSpace has to be a space; "
                    f"{given_for_space(space)}"
                )
        super().__init__({"components": found}, validate_callbacks, np_validate_callbacks)

    def __repr__(self) -> str:
        comma = "," if len(self.components) == 1 else ""
        return f"CompositeSpace(({', '.join(map(repr, self.components))}{comma}))"

    @property
    def without_callbacks(self) -> Self:
        """The same space without functions that check batches, of its components too."""
        if not self.has_callbacks:
            return self
        return type(self)([space.without_callbacks for space in self.components])

    def __iter__(self) -> Iterator[Space]:
        return iter(self.components)

    def __len__(self) -> int:
        return len(self.components)

    def __getitem__(self, number: int) -> Space:
        return self.components[number]

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
    def has_callbacks(self) -> bool:
        """Whether functions of the user check batches, or parts of them."""
        return self._calls or any(space.has_callbacks for space in self)

    def _each(self, dtype: Any) -> tuple[Any, ...]:
        if not isinstance(dtype, tuple):
            return (dtype,) * len(self)
        if len(dtype) != len(self):
            raise ValueError(f"{self!r} takes {len(self)} dtypes; got {len(dtype)}: {dtype!r}")
        return dtype

    def restrict(self, subset: Sequence[int]) -> Space:
        """Return the space of some components, in this order; of one, that component itself.

        >>> CompositeSpace((VectorSpace(1), VectorSpace(2), NullSpace())).restrict([1, 0])
        CompositeSpace((VectorSpace(dim=2), VectorSpace(dim=1)))
        """
        found = self._chosen(self.components, subset)
        return found[0] if len(found) == 1 else CompositeSpace(found)

    def restrict_batch(self, batch: Any, subset: Sequence[int]) -> Any:
        """Return what a batch has for `restrict(subset)`."""
        self.validate(batch)
        found = self._chosen(batch, subset)
        return found[0] if len(found) == 1 else found

    def _chosen(self, parts: tuple[Any, ...], subset: Sequence[int]) -> tuple[Any, ...]:
        if isinstance(subset, int):
            raise TypeError(f"subset= lists the numbers of components, as [{subset}] does")
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
        sizes = []
        for number, (space, part) in enumerate(zip(self, batch, strict=True)):
            space.check(part, f"{where}[{number}]")
            sizes.append(space.size_of(part))
        check_sizes(sizes, (where + "[{}]").format)

    def size_if_valid(self, batch: Any) -> int | None:
        """Return the number of samples of what surely is a batch, None if it has to be checked."""
        if type(batch) is not tuple or len(batch) != len(self.components) or self._calls:
            return None
        sizes = {
            space.size_if_valid(part) for space, part in zip(self.components, batch, strict=True)
        }
        return sizes.pop() if len(sizes) == 1 else None

    def size_of(self, batch: Any) -> int | None:
        """Return the number of samples that all components have."""
        for space, part in zip(self.components, batch, strict=True):
            size = space.size_of(part)
            if size is not None:
                return size
        return None

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

    def caster(self, how: How) -> Step:
        """Return what casts the parts of a batch to the dtypes of the components that have one."""
        casts = [space.caster(how) for space in self.components]

        def step(batch: Any) -> Any:
            found = tuple([cast(part) for cast, part in zip(casts, batch, strict=True)])
            return batch if all(map(operator.is_, found, batch)) else found

        return step

    def declared_on(self, batch: Any, given: Any) -> Any:
        """Return a batch whose nodes have their spaces in their metadata."""
        if batch is given:
            return batch
        same = isinstance(given, tuple) and len(given) == len(self)
        each = zip(self, batch, given if same else (None,) * len(self), strict=True)
        return tuple([space.declared_on(part, own) for space, part, own in each])

    def placeholder(self, name: str, dtype: Any, batch_size: int | None) -> Any:
        """Return a tuple of symbols, numbered."""
        each = enumerate(zip(self, self._each(dtype), strict=True))
        return tuple(
            [space.placeholder(f"{name}[{n}]", own, batch_size) for n, (space, own) in each]
        )


def check_sizes(sizes: Sequence[int | None], told: Callable[[int], str], remedy: str = "") -> None:
    """Raise unless all parts of a batch have as many samples, None for any; `told` names a part."""
    known = {size for size in sizes if size is not None}
    if len(known) > 1:
        each = [f"{n} in {told(number)}" for number, n in enumerate(sizes) if n is not None]
        listing = ", ".join(each)
        raise ValueError(f"the parts of a batch have one number of samples; got {listing}{remedy}")


def parts_of(space: Space, *beside: Any) -> list[tuple[Any, ...]]:
    """Return each space inside that has no components, with what stands there in other trees.

    NullSpace is left out.
    """
    if isinstance(space, CompositeSpace):
        each = zip(space, *beside, strict=True)
        return [found for inner in each for found in parts_of(*inner)]
    return [] if isinstance(space, NullSpace) else [(space, *beside)]


# --- conversions -------------------------------------------------------------------------------


@converts(CompositeSpace, CompositeSpace)
def _each(source: CompositeSpace, target: CompositeSpace, how: How) -> Step:
    parts, wanted_parts = source.components, target.components
    if len(parts) != len(wanted_parts):
        why = f"the trees differ: {len(parts)} components here, {len(wanted_parts)} there"
        raise no_conversion(source, target, why)
    steps = []
    for own, wanted in zip(parts, wanted_parts, strict=True):
        if isinstance(own, CompositeSpace) != isinstance(wanted, CompositeSpace):
            raise no_conversion(source, target, "the trees differ in structure")
        steps.append(step_between(own, wanted, how))
    return lambda batch: tuple([step(part) for step, part in zip(steps, batch, strict=True)])


class _Piece(NamedTuple):
    """A part of a batch along an axis, and what makes of it a batch of its own."""

    key: tuple[slice, ...]
    step: Step

    def of(self, batch: Any) -> Any:
        """Return what is made of the part."""
        return self.step(keyed(batch, self.key) if isinstance(batch, Node) else batch[self.key])


def _pieces(target: Space, axis: int, own: Callable[[Any], tuple[Space, int]], how: How) -> Any:
    """Return the pieces of a batch for each space inside another, nested as they are.

    `own` returns what the piece for a space is a batch of, and its length along the axis.
    """
    start = 0

    def nested(space: Space) -> Any:
        nonlocal start
        if isinstance(space, CompositeSpace):
            return tuple([nested(part) for part in space])
        if isinstance(space, NullSpace):
            return None
        found, length = own(space)
        begin, start = start, start + length
        key = (*[slice(None)] * axis, slice(begin, start))
        return _Piece(key, step_between(found, space, how))

    return nested(target)


def _cut(batch: Any, pieces: Any) -> Any:
    """Return what is made of the pieces of a batch, nested as these are."""
    if type(pieces) is tuple:
        return tuple([_cut(batch, piece) for piece in pieces])
    return None if pieces is None else pieces.of(batch)


@converts(CompositeSpace, VectorSpace)
def _one_vector(source: CompositeSpace, target: VectorSpace, how: How) -> Step:
    return _side_by_side(source, target, target, how)


def _side_by_side(source: CompositeSpace, target: VectorSpace, asked: Space, how: How) -> Step:
    """Return the step from several parts to one vector; `asked` is the space that it is for."""
    check_totals(source, target)
    found = [space for (space,) in parts_of(source)]
    for space in found:
        if isinstance(space, IndexSpace):
            why = f"{space!r} has no place in it as it is; format it as a VectorSpace first"
            raise no_conversion(source, target, why)
    wanted = [target.replaced(dim=space.get_total_dimension()) for space in found]
    steps = [step_between(*pair, how) for pair in zip(found, wanted, strict=True)]
    joined = _joining(source, steps, 1, asked)
    return lambda batch: as_vectors(joined(batch), target, how)


def _joining(source: CompositeSpace, steps: list[Step], axis: int, asked: Space) -> Step:
    """Return the step from several parts to what is made of each, joined along an axis."""
    is_flat = not any(isinstance(part, (CompositeSpace, NullSpace)) for part in source)

    def joined(batch: Any) -> Any:
        flat = batch if is_flat else [part for _, part in parts_of(source, batch)]
        parts = [step(part) for step, part in zip(steps, flat, strict=True)]
        if len({part.dtype for part in parts}) > 1:
            dtypes = " and ".join(dict.fromkeys(str(part.dtype) for part in parts))
            raise TypeError(
                f"the components of {source!r} are {dtypes}; say by dtype= which of them {asked!r} "
                "is to hold"
            )
        return batches.joined(parts, axis)

    return joined


@converts(VectorSpace, CompositeSpace)
def _several(source: VectorSpace, target: CompositeSpace, how: How) -> Step:
    check_totals(source, target)

    def own(space: Space) -> tuple[Space, int]:
        if isinstance(space, IndexSpace):
            why = f"numbers in it are no labels for {space!r}; split it into vectors first"
            raise no_conversion(source, target, why)
        dim = space.get_total_dimension()
        return VectorSpace(dim, source.sparse, source.dtype), dim

    pieces = _pieces(target, 1, own, how)
    return lambda batch: _cut(batch.tocsr() if source.sparse else batch, pieces)


def _by_channels(whole: ConvSpace, several: CompositeSpace) -> list[ConvSpace] | None:
    """Return the images whose channels together are those of another, None if they are not."""
    found = [part for (part,) in parts_of(several)]
    images = [part for part in found if isinstance(part, ConvSpace) and part.shape == whole.shape]
    if len(images) < len(found) or not images:
        return None
    return images if sum(part.channels for part in images) == whole.channels else None


def _by_vectors(source: Space, target: Space, several: CompositeSpace, how: How) -> Step:
    """Return the step from several parts to an image, or the other way round, by vectors."""
    if not all(isinstance(part, VectorSpace) for (part,) in parts_of(several)):
        raise no_conversion(
            source,
            target,
            "the components are neither all vectors, which stand one after the other, nor all "
            "images of this shape, which share its channels",
        )
    check_totals(source, target)
    whole = VectorSpace(source.get_total_dimension())
    if isinstance(source, CompositeSpace):
        whole = whole.with_dtype(target.dtype)
        first = _side_by_side(source, whole, target, how)
    else:
        first = step_between(source, whole, how)
    second = step_between(whole, target, how)
    return lambda batch: second(first(batch))


def _like(image: ConvSpace, own: ConvSpace) -> ConvSpace:
    """Return the space of images with the axes and the dtype of others."""
    return type(own)(image.shape, image.channels, own.axes, own.dtype)


@converts(CompositeSpace, ConvSpace)
def _one_image(source: CompositeSpace, target: ConvSpace, how: How) -> Step:
    images = _by_channels(target, source)
    if images is None:
        return _by_vectors(source, target, source, how)
    steps = [step_between(image, _like(image, target), how) for image in images]
    return _joining(source, steps, target.axes.index("c"), target)


@converts(ConvSpace, CompositeSpace)
def _several_images(source: ConvSpace, target: CompositeSpace, how: How) -> Step:
    if _by_channels(source, target) is None:
        return _by_vectors(source, target, target, how)

    def own(space: Any) -> tuple[Space, int]:
        return _like(space, source), space.channels

    pieces = _pieces(target, source.axes.index("c"), own, how)
    return lambda batch: _cut(batch, pieces)
