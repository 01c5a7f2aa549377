"""Signals, images and films with channels: one axis for the samples, one for the channels.

The axes stand in any order.  As a vector a sample has its own axes in their order, the channels
last, whatever the order in its space.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from dataview.errors import explained
from dataview.spaces import batch as batches
from dataview.spaces.arrays import ArraySpace
from dataview.spaces.base import (
    Callback,
    How,
    Step,
    check_totals,
    checked_dtype,
    checked_size,
    converts,
    is_dtype,
    no_conversion,
)
from dataview.spaces.vector import VectorSpace, as_vectors


class ConvSpace(ArraySpace):
    """What signals, images and films have in common: a shape, channels, and the order of axes."""

    own: ClassVar[tuple[str, ...]]
    """The roles of the axes 0, 1, and so on."""

    shape: tuple[int, ...]
    channels: int
    axes: tuple[str | int, ...]
    to_default: tuple[int, ...]
    """The axes in the order in which a sample becomes a vector."""
    from_default: tuple[int, ...]
    """The axes of that order, in the space's own."""

    @explained()
    def __init__(
        self,
        shape: Any,
        channels: int | None = None,
        axes: Iterable[str | int] | None = None,
        dtype: Any = None,
        *,
        num_channels: int | None = None,
        validate_callbacks: Iterable[Callback] = (),
        np_validate_callbacks: Iterable[Callback] = (),
    ) -> None:
        kind = type(self).__name__
        if (channels is None) == (num_channels is None):
            got = "neither" if channels is None else "both"
            raise TypeError(
                f"{kind} takes channels=, or num_channels=, which is the same; got {got}"
            )
        lengths = _lengths(kind, shape, len(self.own))
        count = checked_size("channels", num_channels if channels is None else channels)
        default = self.default_axes()
        roles = dict(zip(default, ("batch", *self.own, "channels"), strict=True))
        order = default if axes is None else _order(kind, axes, roles)
        extents = dict(zip(default, (None, *lengths, count), strict=True))
        self.__dict__["extents"] = tuple([extents[axis] for axis in order])
        self.__dict__["roles"] = tuple([roles[axis] for axis in order])
        self.__dict__["to_default"] = _places(order, default)
        self.__dict__["from_default"] = _places(default, order)
        facts = {
            "shape": lengths,
            "channels": count,
            "axes": order,
            "dtype": checked_dtype(dtype),
        }
        super().__init__(facts, validate_callbacks, np_validate_callbacks)

    @classmethod
    def default_axes(cls) -> tuple[str | int, ...]:
        """Return the order of axes in which a sample becomes a vector.

        >>> Conv2DSpace.default_axes()
        ('b', 0, 1, 'c')
        """
        return ("b", *range(len(cls.own)), "c")

    @property
    def num_channels(self) -> int:
        """The number of channels."""
        return self.channels

    @staticmethod
    def convert(batch: Any, src_axes: Iterable[Any], dst_axes: Iterable[Any]) -> Any:
        """Return a batch with its axes in another order, a view of the same data.

        >>> import numpy as np
        >>> batch = np.zeros((5, 3, 32, 32))
        >>> Conv2DSpace.convert(batch, ("b", "c", 0, 1), ("b", 0, 1, "c")).shape
        (5, 32, 32, 3)
        """
        inner, source, target = batches.unwrapped(batch), tuple(src_axes), tuple(dst_axes)
        order, shape = _places(source, target), batches.extents_of(inner)
        if len(shape) != len(order):
            raise ValueError(f"a batch has no axes {source} if its shape is {shape}")
        return batch if source == target else batches.wrapped(batches.transposed(inner, order))

    convert_numpy = convert

    def advice(self, shape: tuple[int | None, ...]) -> str:
        """Return what may help with a batch of another shape."""
        lengths: Counter[int | None] = Counter(self.row_shape)
        is_turned = len(shape) == len(self.axes) and not lengths - Counter(shape)
        more = "; axes= says in which order the axes stand, as axes=('b', 'c', 0, 1)"
        return more if is_turned else super().advice(shape)

    def with_axes(self, axes: Iterable[str | int]) -> ConvSpace:
        """Return the same space with its axes in another order.

        >>> Conv2DSpace((32, 32), channels=3).with_axes(("c", 0, 1, "b"))
        Conv2DSpace(shape=(32, 32), channels=3, axes=('c', 0, 1, 'b'))
        """
        return self.replaced(axes=axes)

    @property
    def rows_first(self) -> ConvSpace:
        """The same space with the axis of the batch in front, the others in their order."""
        return self.with_axes(("b", *[axis for axis in self.axes if axis != "b"]))

    @property
    def in_default_order(self) -> ConvSpace:
        """The same space with its axes in the order in which a sample becomes a vector."""
        return self.with_axes(self.default_axes())


class Conv1DSpace(ConvSpace):
    """Signals: a batch has axes for samples ("b"), time (0) and channels ("c").

    `shape` is the number of time steps, as a tuple of one number or the number itself.  `channels`
    and `num_channels` are two names of one argument.  `axes` is the order of the axes of a batch;
    without it, this is `("b", 0, "c")`.  `dtype=None` allows any dtype.

    >>> Conv1DSpace(16000, channels=2, dtype="float32").get_origin_batch(5).shape
    (5, 16000, 2)
    """

    own = ("time",)


class Conv2DSpace(ConvSpace):
    """Images: a batch has axes for samples ("b"), rows (0), columns (1) and channels ("c").

    `shape` is the number of rows and of columns.  `channels` and `num_channels` are two names of
    one argument.  `axes` is the order of the axes of a batch; without it, this is
    `("b", 0, 1, "c")`.  `dtype=None` allows any dtype.

    >>> import numpy as np
    >>> images = Conv2DSpace(shape=(32, 32), channels=3, axes=("b", "c", 0, 1))
    >>> batch = np.zeros((5, 3, 32, 32))
    >>> images.validate(batch)

    A batch can be brought into another order of axes, or made a matrix with a row for each image:

    >>> images.np_format_as(batch, images.with_axes(("b", 0, 1, "c"))).shape
    (5, 32, 32, 3)
    >>> images.np_format_as(batch, VectorSpace(3072)).shape
    (5, 3072)

    A view whose field has such a space is shown as images, even if its rows are flat:

    >>> import dataview as dv
    >>> digits = Conv2DSpace((28, 28), channels=1)
    >>> d = dv.View(input=np.zeros((9, 784)), _spaces={"input": digits})
    """

    own = ("rows", "columns")


class Conv3DSpace(ConvSpace):
    """Films and volumes: axes for samples, time or depth (0), rows (1), columns (2), channels.

    `shape` has three numbers: of time steps, rows and columns.  `channels` and `num_channels` are
    two names of one argument.  `axes` is the order of the axes of a batch; without it, this is
    `("b", 0, 1, 2, "c")`.  `dtype=None` allows any dtype.

    >>> Conv3DSpace((16, 64, 64), channels=3, dtype="uint8").get_origin_batch(2).shape
    (2, 16, 64, 64, 3)
    """

    own = ("time", "rows", "columns")


def _lengths(kind: str, shape: Any, count: int) -> tuple[int, ...]:
    shape = shape.tolist() if isinstance(shape, np.ndarray) else shape
    given = shape if isinstance(shape, (tuple, list)) else (shape,)
    found = tuple([checked_size("shape", n) for n in given])
    if len(found) != count:
        like = "(28,)" if count == 1 else str((28,) * count)
        remedy = "" if isinstance(shape, (tuple, list)) else "; all of them stand in one tuple"
        raise ValueError(
            f"the shape of a {kind} has {count} lengths, as {like}; got {shape!r}{remedy}"
        )
    return found


_ELSEWHERE = {"n": "batch", "h": "rows", "w": "columns", "d": "time", "t": "time", "l": "time"}
"""The roles of axes by the letters that other libraries have for them, as in NCHW."""


def _order(kind: str, axes: Any, roles: dict[Any, str]) -> tuple[Any, ...]:
    """Return the order of axes that is given; `roles` has the roles by the names of the axes."""
    found, default = tuple(axes) if hasattr(axes, "__iter__") else (axes,), tuple(roles)
    if len(found) != len(default) or set(found) != set(default):
        names: dict[str, Any] = {str(axis): axis for axis in default}
        names |= {n: axis for axis in default for n in _ELSEWHERE if _ELSEWHERE[n] == roles[axis]}
        meant = tuple([names.get(str(axis).lower(), axis) for axis in found])
        remedy = f"; write axes={meant}" if set(meant) == set(default) else ""
        if is_dtype(axes):
            remedy = "; dtype= takes dtypes"
        raise ValueError(f"the axes of a {kind} are {default} in some order; got {axes!r}{remedy}")
    return tuple([axis if isinstance(axis, str) else int(axis) for axis in found])


@functools.lru_cache(maxsize=256)
def _places(source: tuple[Any, ...], target: tuple[Any, ...]) -> tuple[int, ...]:
    if sorted(map(str, source)) != sorted(map(str, target)):
        raise ValueError(f"axes {source} cannot be brought into the order {target}")
    return tuple([source.index(axis) for axis in target])


# --- conversions -------------------------------------------------------------------------------


@converts(ConvSpace, ConvSpace)
def _images(source: ConvSpace, target: ConvSpace, how: How) -> Step:
    same = (source.shape, source.channels) == (target.shape, target.channels)
    if type(source) is not type(target) or not same:
        raise no_conversion(source, target, "their shapes and channels are not the same")
    order = _places(source.axes, target.axes)
    cast = target.caster(how)
    return lambda batch: cast(batches.transposed(batch, order))


@converts(ConvSpace, VectorSpace)
def _flattened(source: ConvSpace, target: VectorSpace, how: How) -> Step:
    check_totals(source, target)
    order, dim = source.to_default, target.dim

    def step(batch: Any) -> Any:
        turned = batches.transposed(batch, order)
        found = batches.reshaped(turned, batches.extents_of(turned)[0], dim)
        return as_vectors(found, target, how)

    return step


@converts(VectorSpace, ConvSpace)
def _unflattened(source: VectorSpace, target: ConvSpace, how: How) -> Step:
    check_totals(source, target)
    row, order, cast = (*target.shape, target.channels), target.from_default, target.caster(how)

    def step(batch: Any) -> Any:
        number = batches.extents_of(batch)[0]
        shaped = batches.reshaped(batches.dense(batch), number, *row)
        return cast(batches.transposed(shaped, order))

    return step
