"""The class of spaces: what a batch has to be, and how it becomes a batch of another space."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np

from dataview.errors import hint
from dataview.spaces import batch as batches
from dataview.spaces.batch import Extents

Callback: TypeAlias = Callable[[Any], Any]
_EARLIER = MappingProxyType(
    {
        "get_theano_batch": "make_batch",
        "make_batch_theano": "make_batch",
        "make_theano_batch": "make_batch",
        "make_theano_variables": "make_batch",
        "get_batch": "batch[start:stop]",
        "get_batch_size": "batch_size",
    }
)
"""What to write here for methods of Pylearn2's spaces."""

ROLES = ("batch", "features", "rows", "columns", "channels", "time", "labels")
"""What an axis of a batch can be."""

_unnamed = itertools.count(1)


class Space:
    """How a batch is laid out; a batch is an array, or a tuple of batches.

    This is what all spaces have in common.  Make one of a class such as `VectorSpace`:

    >>> import numpy as np
    >>> import dataview as dv
    >>> space = dv.spaces.VectorSpace(dim=4)
    >>> space.validate(np.zeros((10, 4)))
    >>> space.np_format_as(np.zeros((10, 4)), dv.spaces.Conv2DSpace((2, 2), channels=1)).shape
    (10, 2, 2, 1)

    Methods whose name begins with `np_` take arrays only.  The others take views, too: of views
    they make views, and read nothing.

    A space cannot be changed.  Two spaces are equal if they have one class, the same arguments and
    the same callbacks.  `validate_callbacks` are functions that get each view that is checked, and
    raise an error if something is wrong with it; `np_validate_callbacks` get arrays.  They are for
    checks of your own: classes of your own cannot inherit from a space.
    """

    kinds: ClassVar[dict[str, type[Space]]] = {}
    """The classes of spaces by name, as plain data tell it."""

    def __init_subclass__(cls) -> None:
        name, own = cls.__name__, cls.__mro__[1].__name__
        if not cls.__module__.startswith("dataview.spaces."):
            raise TypeError(
                f"{name} cannot inherit from {own}: fields, files and conversions know the "
                f"package's own spaces alone; name a space, {name} = {own}(...), or write a "
                "function that returns one; validate_callbacks= takes checks of your own"
            )
        cls.kinds[name] = cls

    def __init__(
        self,
        facts: dict[str, Any] | None = None,
        validate_callbacks: Iterable[Callback] = (),
        np_validate_callbacks: Iterable[Callback] = (),
    ) -> None:
        if facts is None:
            raise TypeError("Space is what all spaces have in common; make one as VectorSpace(3)")
        own = self.__dict__
        own.update(facts)
        own["_facts"] = tuple(facts.items())
        # A dtype is compared by its text: to NumPy, None is a name of float64.
        texts = [dtype_text(v) if isinstance(v, np.dtype) else v for v in facts.values()]
        own["_key"] = tuple(texts)
        own["validate_callbacks"] = _callbacks("validate_callbacks", validate_callbacks)
        own["np_validate_callbacks"] = _callbacks("np_validate_callbacks", np_validate_callbacks)
        own["_callbacks"] = own["validate_callbacks"], own["np_validate_callbacks"]
        own["_calls"] = any(own["_callbacks"])
        own["_hash"] = hash((type(self), own["_key"], own["_callbacks"]))

    def __setattr__(self, name: str, value: Any) -> None:
        remedy = ""
        if name == "dtype":
            remedy = f"; space.with_dtype({value!r}) makes another space"
        elif name in self.facts:
            remedy = f"; space.replaced({name}={value!r}) makes another space"
        raise AttributeError(f"{self!r} does not change, so its {name!r} cannot be set{remedy}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{self!r} does not change, so its {name!r} cannot be deleted")

    def __getattr__(self, name: str) -> Any:
        if name in _EARLIER:
            raise AttributeError(f"a space has no {name!r}; write {_EARLIER[name]}")
        known = [one for one in dir(type(self)) if not one.startswith("_")]
        raise AttributeError(f"{type(self).__name__} has no {name!r}{hint(name, known)}")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self.is_laid_out_as(other) and self._callbacks == other._callbacks  # type: ignore[attr-defined]

    def is_laid_out_as(self, other: object) -> bool:
        """Whether batches of two spaces lie in the same way, whatever functions check them."""
        return type(self) is type(other) and self._key == other._key

    def __hash__(self) -> int:
        return self.__dict__["_hash"]  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self.facts, *self._callbacks)

    def __repr__(self) -> str:
        told = {name: value for name, value in self._facts if name != "dtype" or value is not None}
        if told.get("sparse") is False:
            del told["sparse"]
        if isinstance(dtype := told.get("dtype"), np.dtype):
            told["dtype"] = str(dtype)
        listing = ", ".join(f"{name}={value!r}" for name, value in told.items())
        return f"{type(self).__name__}({listing})"

    @property
    def facts(self) -> dict[str, Any]:
        """The arguments that make the same space.

        >>> import dataview as dv
        >>> dv.spaces.IndexSpace(max_labels=10).facts
        {'max_labels': 10, 'dim': 1, 'dtype': dtype('int64')}
        """
        return dict(self._facts)

    def with_dtype(self, dtype: Any) -> Self:
        """Return the same space for another dtype; None is for any.

        >>> import dataview as dv
        >>> dv.spaces.VectorSpace(3).with_dtype("float32")
        VectorSpace(dim=3, dtype='float32')
        """
        return self.replaced(dtype=dtype)

    def replaced(self, **facts: Any) -> Self:
        """Return the same space with some arguments changed; its callbacks stay.

        >>> import dataview as dv
        >>> dv.spaces.Conv2DSpace((28, 28), channels=1).replaced(channels=3)
        Conv2DSpace(shape=(28, 28), channels=3, axes=('b', 0, 1, 'c'))
        """
        return _remade(type(self), {**self.facts, **facts}, *self._callbacks)  # type: ignore[no-any-return]

    @property
    def has_callbacks(self) -> bool:
        """Whether functions of the user check batches, or parts of them."""
        return self._calls  # type: ignore[no-any-return]

    @property
    def without_callbacks(self) -> Self:
        """The same space without functions that check batches."""
        return type(self)(**self.facts) if self.has_callbacks else self

    # --- checks ------------------------------------------------------------------------------

    def validate(self, batch: Any) -> None:
        """Raise unless a batch, of views or arrays, is one of this space.

        >>> import dataview as dv
        >>> dv.spaces.VectorSpace(3).validate(dv.View([[1, 2], [3, 4]]))
        Traceback (most recent call last):
        ValueError: the batch: VectorSpace(dim=3) has 3 features; got 2 of them, in axis 1 of the \
shape (2, 2)
        """
        self.check(batches.unwrapped(batch), "the batch")

    def np_validate(self, batch: Any) -> None:
        """Raise unless a batch of arrays is one of this space."""
        self.check(_numeric(batch, "np_validate", "validate"), "the batch")

    def check(self, batch: Any, where: str) -> None:
        """Raise unless a batch, of nodes or arrays, is one of this space."""
        if self.size_if_valid(batch) is not None:
            return
        if self._calls:
            given = batches.wrapped(batch)
            symbolic = batches.is_symbolic(given)
            for callback in self.validate_callbacks if symbolic else self.np_validate_callbacks:
                callback(given)
        self.check_batch(batch, where)

    def check_batch(self, batch: Any, where: str) -> None:
        """Raise unless a batch is one of this space, whatever the callbacks say."""
        raise NotImplementedError

    def size_if_valid(self, batch: Any) -> int | None:
        """Return the number of samples of what surely is a batch, None if it has to be checked.

        That takes less time than to find out what is wrong.  What surely is a batch consists of
        arrays, and no callbacks ask about it.
        """
        return None

    # --- conversions -------------------------------------------------------------------------

    def format_as(
        self, batch: Any, space: Space, casting: str = "same_kind", argmax: bool = False
    ) -> Any:
        """Return a batch of this space as one of another space; of views it reads nothing.

        A conversion that would lose something is an error.  `casting="unsafe"` allows to lose
        digits, and `casting="exact"` any dtype that holds the values there are: an integer that
        would change is an error, a fraction may be rounded.  `argmax=True` makes each vector the
        label at which it is largest.

        >>> import dataview as dv
        >>> labels = dv.spaces.IndexSpace(max_labels=3)
        >>> labels.format_as(dv.View([[2], [0]]), dv.spaces.VectorSpace(3))()
        array([[0., 0., 1.],
               [1., 0., 0.]], dtype=float32)
        """
        inner = batches.unwrapped(batch)
        found = self.formatted(inner, space, how_of(casting, argmax))
        return batch if found is inner else batches.wrapped(found)

    def np_format_as(
        self, batch: Any, space: Space, casting: str = "same_kind", argmax: bool = False
    ) -> Any:
        """Return a batch of arrays of this space as one of another."""
        return self._np_formatted(batch, space, how_of(casting, argmax), "format_as")

    def undo_format_as(self, batch: Any, space: Space) -> Any:
        """Return what `format_as(..., space)` made of a batch as a batch of this space again."""
        _check_is_space(space)
        return space.format_as(batch, self, "exact", argmax=True)

    def undo_np_format_as(self, batch: Any, space: Space) -> Any:
        """Return what `np_format_as(..., space)` made of a batch as a batch of this space again."""
        _check_is_space(space)
        return space._np_formatted(batch, self, how_of("exact", True), "undo_format_as")

    def _np_formatted(self, batch: Any, space: Space, how: How, symbolic: str) -> Any:
        """Return a batch of arrays as one of another space; `symbolic` takes views, too."""
        _check_is_space(space)
        if self.size_if_valid(batch) is None:
            method = symbolic.replace("format_as", "np_format_as")
            self.check(_numeric(batch, method, symbolic), "the batch")
        return convert(batch, self, space, how)

    def formatted(self, batch: Any, space: Space, how: How) -> Any:
        """Return a batch, of nodes or arrays, as one of another space."""
        _check_is_space(space)
        self.check(batch, "the batch")
        found = convert(batch, self, space, how)
        return found if type(found) is np.ndarray else space.declared_on(found, batch)

    def declared_on(self, batch: Any, given: Any) -> Any:
        """Return a batch of this space, its nodes with the space in their metadata.

        `given` is what the batch was made of; if that is the same, it stays as it is.
        """
        return batch

    def caster(self, how: How) -> Step:
        """Return what casts a batch to the dtype of the space, the batch itself if it has none."""
        return itself

    def checked_when_read(self, batch: Any, where: str) -> Any:
        """Return a batch, what of it is not read yet with the checks of its values."""
        return batch

    # --- facts -------------------------------------------------------------------------------

    extents: Extents = ()
    """The shape of a batch, None for the number of its samples."""

    roles: tuple[str, ...] = ()
    """What each axis is, each one of `ROLES`."""

    @property
    def rows_first(self) -> Space:
        """The same space with the axis of the batch in front, as the rows of a field stand."""
        return self

    @property
    def in_default_order(self) -> Space:
        """The same space with its axes in the order in which a sample becomes a vector."""
        return self

    def axis_of(self, role: str) -> int | None:
        """Return the number of the axis that has a role, None if none has."""
        if role not in ROLES:
            raise ValueError(
                f"an axis has one of the roles {', '.join(ROLES)}; got {role!r}{hint(role, ROLES)}"
            )
        return self.roles.index(role) if role in self.roles else None

    def get_batch_axis(self) -> int:
        """Return the number of the axis along which the samples of a batch stand."""
        raise TypeError(f"a batch of {self!r} has no axis of its own")

    def batch_size(self, batch: Any) -> int | None:
        """Return the number of samples of a batch, None if it is unknown."""
        self.validate(batch)
        return self.size_of(batches.unwrapped(batch))

    def np_batch_size(self, batch: Any) -> int:
        """Return the number of samples of a batch of arrays."""
        self.check(_numeric(batch, "np_batch_size", "batch_size"), "the batch")
        return self.size_of(batch) or 0

    def size_of(self, batch: Any) -> int | None:
        """Return the number of samples of a batch that was checked."""
        return batches.extents_of(batch)[self.get_batch_axis()]

    def get_total_dimension(self) -> int:
        """Return the number of columns that a batch has as a matrix with a row for each sample.

        >>> import dataview as dv
        >>> dv.spaces.Conv2DSpace((32, 32), channels=3).get_total_dimension()
        3072
        """
        raise TypeError(f"{self!r} has no total dimension: its samples differ in length")

    # --- batches -----------------------------------------------------------------------------

    def get_origin(self) -> Any:
        """Return zeros of the shape of one sample."""
        raise NotImplementedError

    def get_origin_batch(self, batch_size: int, dtype: Any = None) -> Any:
        """Return a batch of zeros."""
        raise NotImplementedError

    def make_batch(
        self, name: str | None = None, dtype: Any = None, batch_size: int | None = None
    ) -> Any:
        """Return symbols for a batch that is given later; parts are named `name[0]`, `name[1]`.

        >>> import dataview as dv
        >>> x = dv.spaces.VectorSpace(2).make_batch("x")
        >>> (x * 10)._bind(x=[[1, 2]])()
        array([[10., 20.]])
        """
        label = f"batch{next(_unnamed)}" if name is None else name
        return batches.wrapped(self.placeholder(label, dtype, batch_size))

    def make_shared_batch(self, batch_size: int, name: str | None = None, dtype: Any = None) -> Any:
        """Return views of zeros that can be written.

        >>> import dataview as dv
        >>> batch = dv.spaces.VectorSpace(2).make_shared_batch(3, dtype=float)
        >>> batch[1] = 5
        >>> batch()
        array([[0., 0.],
               [5., 5.],
               [0., 0.]])
        """
        return batches.shared(self.get_origin_batch(batch_size, dtype), name)

    def placeholder(self, name: str, dtype: Any, batch_size: int | None) -> Any:
        """Return the symbol of a batch, or a tuple of them, as nodes."""
        raise NotImplementedError


def _remade(kind: Any, facts: dict[str, Any], symbolic: Any, numeric: Any) -> Any:
    return kind(**facts, validate_callbacks=symbolic, np_validate_callbacks=numeric)


def _callbacks(name: str, given: Any) -> tuple[Callback, ...]:
    if not isinstance(given, (tuple, list)) or not all(map(callable, given)):
        raise TypeError(f"{name}= is a list of functions of a batch; got {given!r}")
    return tuple(given)


def given_for_space(value: Any) -> str:
    """Return what was given where a space is due, and what helps if it is the class of one."""
    if isinstance(value, type) and issubclass(value, Space):
        return f"got the class {value.__name__}; {value.__name__}(...) makes a space of it"
    return f"got {value!r}"


def _check_is_space(space: Any) -> None:
    if not isinstance(space, Space):
        raise TypeError(f"a batch is formatted as a space; {given_for_space(space)}")


def _numeric(batch: Any, method: str, other: str) -> Any:
    if type(batch) is not np.ndarray and batches.is_symbolic(batch):
        raise TypeError(
            f"{method} takes arrays, and the batch holds a view; call the view for its data, or "
            f"use {other}, which is lazy"
        )
    return batch


# --- arguments -------------------------------------------------------------------------------


def checked_dtype(dtype: Any) -> np.dtype[Any] | None:
    """Return the dtype of a space, None for any."""
    if dtype is None:
        return None
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except TypeError as error:
        raise TypeError(
            f"dtype= is one of NumPy's, or None for any; got {dtype!r}"
            + ("; name the one that it stands for" if dtype == "floatX" else "")
        ) from error
    if not batches.is_number(found):
        raise TypeError(f"dtype= is one of numbers, or None for any; got {found}")
    return found


def is_dtype(value: Any) -> bool:
    """Whether a value is a dtype, or the name of one, where something else is due."""
    try:
        return isinstance(value, (str, type, np.dtype)) and bool(np.dtype(value).str)
    except TypeError:
        return False


def checked_size(name: str, value: Any) -> int:
    """Return a number of elements, from 1 on."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        found = operator.index(value)
    except TypeError:
        remedy = "; dtype= takes dtypes" if is_dtype(value) else ""
        raise TypeError(f"{name}= is a whole number; got {value!r}{remedy}") from None
    if found < 1:
        raise ValueError(f"{name}= is a whole number from 1 on; got {value!r}")
    return found


# --- plain data --------------------------------------------------------------------------------

SPACE = "space"
"""The name of the metadata that hold a space."""


def plain(space: Space) -> dict[str, Any]:
    """Return a space as mappings, lists, texts and numbers, which any file can hold.

    >>> from dataview.spaces.vector import VectorSpace
    >>> plain(VectorSpace(784, dtype="f4"))
    {'kind': 'VectorSpace', 'dim': 784, 'sparse': False, 'dtype': '<f4'}
    """
    facts = {name: _plain(value) for name, value in space.facts.items() if value is not None}
    return {"kind": type(space).__name__, **facts}


IS_BATCH = "is_batch"
"""An entry of the plain data of a space: the axes are those of a batch, not of rows of a field."""


def plain_of_batch(space: Space) -> dict[str, Any]:
    """Return the space of a batch as plain data, which tell if its samples are no rows.

    >>> from dataview.spaces.images import Conv2DSpace
    >>> plain_of_batch(Conv2DSpace((2, 2), 1, ("c", 0, 1, "b")))[IS_BATCH]
    True
    """
    return {**plain(space), IS_BATCH: True} if space.axis_of("batch") else plain(space)


def _plain(value: Any) -> Any:
    if isinstance(value, Space):
        return plain(value)
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return dtype_text(value) if isinstance(value, np.dtype) else value


def dtype_text(dtype: np.dtype[Any]) -> str:
    """Return the text that stands for a dtype; that of NumPy does not name another library's."""
    return dtype.name if dtype.kind == "V" else dtype.str


# --- the table of conversions ------------------------------------------------------------------


class How:
    """What a conversion may do, and what helps where more is needed.

    `options` says whether whoever asked for it can give the options `casting=` and `argmax=`;
    `where` says in messages what is converted.
    """

    __slots__ = ("argmax", "casting", "options", "where")

    def __init__(
        self,
        casting: str = "same_kind",
        argmax: bool = False,
        options: bool = True,
        where: str = "the batch",
    ) -> None:
        if casting not in ("same_kind", "exact", "unsafe"):
            raise ValueError(f"casting= is 'same_kind', 'exact' or 'unsafe'; got {casting!r}")
        self.casting = casting
        self.argmax = argmax
        self.options = options
        self.where = where

    def remedy(self, what: str) -> str:
        """Return what helps where a cast would lose something, or numbers are to be labels."""
        return _REMEDIES[what, self.options]


_REMEDIES = {
    ("cast", True): "convert the data first, or give casting='unsafe'",
    ("cast", False): (
        "convert the field first: d._set_field(name, d[name]._astype(dtype)), which drops what is "
        "lost"
    ),
    ("label", True): "argmax=True makes each vector the label at which it is largest",
    ("label", False): (
        "d._set_field(name, d[name]._argmax(axis=1)) makes each vector the label at which it is "
        "largest"
    ),
}
"""What helps, by whether there are options for it."""

how_of = functools.lru_cache(How)

Step: TypeAlias = Callable[[Any], Any]
"""What makes a batch of one space of a batch of another."""

Conversion: TypeAlias = Callable[[Any, Any, How], Step]
CONVERSIONS: dict[tuple[type[Space], type[Space]], Conversion] = {}
"""By two classes of spaces, what returns the step from the first to the second."""

_Conversion = TypeVar("_Conversion", bound=Conversion)


def converts(source: type[Space], target: type[Space]) -> Callable[[_Conversion], _Conversion]:
    """Return a decorator that puts a conversion into the table."""

    def noted(conversion: _Conversion) -> _Conversion:
        CONVERSIONS[source, target] = conversion
        return conversion

    return noted


def convert(batch: Any, source: Space, target: Space, how: How) -> Any:
    """Return a batch, which was checked, as one of another space."""
    return step_between(source, target, how)(batch)


@functools.lru_cache(maxsize=1024)
def step_between(source: Space, target: Space, how: How) -> Step:
    """Return what makes a batch, which was checked, one of another space.

    What follows from the spaces alone is found once: it takes longer than to format a batch.
    """
    if source.is_laid_out_as(target):  # what is declared of a field says not how it is stored
        return target.caster(how)
    pairs = itertools.product(type(source).__mro__, type(target).__mro__)
    conversion = next((CONVERSIONS[pair] for pair in pairs if pair in CONVERSIONS), None)
    if conversion is None:
        families = [wanted for own, wanted in CONVERSIONS if isinstance(source, own)]
        kinds = [kind.__name__ for family in families for kind in _kinds_of(family, source)]
        raise no_conversion(source, target, f"only as {', '.join(kinds) or 'what it is'}")
    return conversion(source, target, how)


def _kinds_of(known: type[Space], source: Space) -> list[type[Space]]:
    """Return the classes that users know, for one of which the table has a conversion."""
    if isinstance(source, known):
        return [type(source)]
    own = [kind for kind in known.__subclasses__() if kind.__module__ == known.__module__]
    return own or [known]


def itself(batch: Any) -> Any:
    """Return a batch: nothing has to be done to it."""
    return batch


def no_conversion(source: Space, target: Space, why: str = "") -> ValueError:
    """Return the error for a batch that cannot be made one of another space."""
    return ValueError(f"a batch of {source!r} cannot be formatted as {target!r}{why and ': '}{why}")


def check_totals(source: Space, target: Space) -> None:
    """Raise unless the samples of two spaces have as many numbers."""
    own, wanted = source.get_total_dimension(), target.get_total_dimension()
    if own != wanted:
        raise no_conversion(source, target, f"its samples have {own} numbers, not {wanted}")
