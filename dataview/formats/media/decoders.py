"""What decodes a file: what its header says, and what is in it; found by the suffix of its name."""

from __future__ import annotations

import contextlib
import errno
import functools
import inspect
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from io import BytesIO
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dataview.errors import error_at, shortened, unknown_option
from dataview.plan.kinds import Extents
from dataview.plan.node import DType, Node, Shape
from dataview.sources import open_regular


class Header(NamedTuple):
    """What a file says of itself: shape and dtype of its data, and `kind`: its mode, its rate."""

    shape: Shape
    dtype: DType
    kind: str | int = ""


class Member(str):
    """What a file in an archive is called, and what opens it there."""

    opened: Callable[[], BytesIO]


def open_file(path: str) -> Any:
    """Open a file, or one in an archive."""
    return path.opened() if isinstance(path, Member) else open_regular(path)


class Decoder(ABC):
    """Decodes files of one kind; options are the fields of its class.

    Threads use it at the same time, and it is sent to other processes.
    """

    field: ClassVar[str]
    """What the field of the decoded files is called."""

    facts: ClassVar[dict[str, DType]] = {}
    """Other fields, which are the `kind` of headers."""

    @abstractmethod
    def header(self, path: str) -> Header:
        """Return what a file says of itself, without decoding it."""

    @abstractmethod
    def decode(self, path: str) -> np.ndarray:
        """Return what is in a file, as `header` has told it, or raise."""

    def fitted(self, headers: Sequence[tuple[str, Header]]) -> Self:
        """Return the decoder that makes files with these headers alike, or raise."""
        return self

    has_headers: bool = True
    """Whether a header is read without decoding the file."""

    ragged_axes: ClassVar[int | None] = None
    """How many axes files of several shapes lay out for themselves, None for those that differ."""

    def free(self, extents: Extents) -> Extents:
        """Return what is known of files of several shapes, which have these lengths so far."""
        count = self.ragged_axes
        if count is None:
            return extents if None in extents else (None,) * len(extents)
        return (*[None] * count, *extents[count:])

    def shape(self, header: Header) -> tuple[Shape, DType]:
        """Return the shape and the dtype that a file with this header is decoded to."""
        return header.shape, header.dtype


@dataclass(frozen=True)
class Registered(Decoder):
    """Decodes files by a function that a user has registered."""

    function: Callable[[str], Any]
    of_header: Callable[[str], tuple[Any, Any]] | None = None
    name: str = "data"

    @property
    def field(self) -> str:  # type: ignore[override]
        """What the user calls the field."""
        return self.name

    @property
    def has_headers(self) -> bool:  # type: ignore[override]
        """Whether the user has given a function of headers."""
        return self.of_header is not None

    def header(self, path: str) -> Header:
        """Return what the user's other function says, or what the decoded data are."""
        if self.of_header is None:
            found = self.decode(path)
            return Header(found.shape, found.dtype)
        with _in_a_file(path) as place:
            shape, dtype = self.of_header(place)
        return Header(tuple(map(int, shape)), np.dtype(dtype))

    def decode(self, path: str) -> np.ndarray:
        """Return what the function makes of a file."""
        with _in_a_file(path) as place:
            return np.asarray(self.function(place))


@contextlib.contextmanager
def _in_a_file(path: str) -> Iterator[str]:
    """Yield the path of a file for a user's function; one in an archive is copied for it."""
    if not isinstance(path, Member):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, os.path.basename(path))
        with open(place, "wb") as copy, path.opened() as file:
            copy.write(file.read())
        yield place


Make = Callable[..., Decoder]

_KINDS: dict[str, tuple[frozenset[str], Make]] = {}
"""The kinds of files by name: their suffixes, and what decodes them.

A kind that is registered has the name of its only suffix.
"""


def add_kind(name: str, suffixes: Iterable[str], make: Make) -> None:
    """Have files with these suffixes decoded, whatever decoded them before."""
    found = frozenset(suffixes)
    for other, (own, its) in list(_KINDS.items()):
        _KINDS[other] = (own - found, its)
    _KINDS[name] = (found, make)


def register_decoder(
    suffix: str,
    decode: Callable[[str], Any],
    header: Callable[[str], tuple[Any, Any]] | None = None,
    field: str = "data",
) -> None:
    """Have `dv.open` decode files with a suffix, alone and in folders.

    `decode(path)` returns an array; `header(path)` returns its shape and dtype without decoding.
    Without `header`, the first file, the last and two between are decoded to find them.  `field` is
    the name of the field that a folder of such files has.  A decoder replaces an earlier one for
    the same suffix.  Other processes can use functions at the top level of a module.

    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> import dataview as dv
    >>> def decode(path):
    ...     return np.loadtxt(path, delimiter=",", ndmin=2)
    >>> dv.register_decoder(".grid", decode, field="grid")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in "ab":
    ...         _ = pathlib.Path(folder, f"{name}.grid").write_text("1,2")
    ...     d = dv.open(folder)
    ...     d.grid._shape(), d.path(), d.grid[1]().tolist()
    ((2, 1, 2), array(['a.grid', 'b.grid'], dtype='<U6'), [[1.0, 2.0]])
    """
    if not isinstance(suffix, str) or not suffix.startswith(".") or suffix.rfind("."):
        raise ValueError(f"a suffix is a dot and what follows it, such as '.dcm'; got {suffix!r}")
    for function in (decode, header):
        if function is not None and not callable(function):
            raise TypeError(f"decode and header are functions of a path; got {function!r}")
    if field in _TAKEN or not field.isidentifier() or field.startswith("_"):
        raise ValueError(
            f"field is the name of a field other than {', '.join(_TAKEN)}; got {field!r}"
        )
    add_kind(suffix.lower(), [suffix.lower()], lambda: Registered(decode, header, field))


_TAKEN = ("label", "path", "rate")
"""The names of other fields of a folder."""


def kinds() -> list[str]:
    """Return the names of the kinds of files that are decoded."""
    return [name for name, (suffixes, _) in _KINDS.items() if suffixes]


def suffixes_of(kind: str | None = None) -> frozenset[str]:
    """Return the suffixes of files of a kind, or of all kinds."""
    if kind is None:
        return frozenset().union(*(own for own, _ in _KINDS.values()))
    if kind not in kinds():
        raise ValueError(f"kind is one of {', '.join(kinds())}; got {kind!r}")
    return _KINDS[kind][0]


def kind_of(suffix: str) -> str | None:
    """Return the kind of files with a suffix, None if nothing decodes them."""
    return next((name for name, (own, _) in _KINDS.items() if suffix in own), None)


def is_registered(path: str) -> bool:
    """Whether a user has registered a decoder for the suffix of a name."""
    suffix = os.path.splitext(path)[1].lower()
    return suffix in _KINDS and suffix in _KINDS[suffix][0]


OPTIONS = ("image_mode", "upright", "mono", "most_bytes", "encoding")
"""The options of decoders, which whatever opens files that are decoded takes."""


def with_options(function: Callable[..., Node]) -> Callable[..., Node]:
    """Return a function with these options, from one that takes them together as `options`."""
    own = inspect.signature(function).parameters.values()
    named = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in OPTIONS
    ]

    @functools.wraps(function)
    def opened(*arguments: Any, **given: Any) -> Node:
        options = {name: given.pop(name, None) for name in OPTIONS}
        return function(*arguments, **given, options=options)

    plain = [one for one in own if one.name != "options"]
    opened.__signature__ = inspect.Signature([*plain, *named])  # type: ignore[attr-defined]
    return opened


def decoder_of(kind: str, options: dict[str, Any]) -> Decoder:
    """Return what decodes files of a kind, with those of the options that are given."""
    decoder = _KINDS[kind][1]()
    known = [] if isinstance(decoder, Registered) else [one.name for one in fields(decoder)]  # type: ignore[arg-type]
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in known:
            raise unknown_option(name, known, f"open of files of the kind {kind!r}")
    return _KINDS[kind][1](**given)


def named(path: str, where: str, error: Exception) -> Exception:
    """Return the error for a file that cannot be decoded, which names it."""
    if isinstance(error, FileNotFoundError):
        told = f"{where} is gone since the files were listed, or was never there; open them again"
        return FileNotFoundError(errno.ENOENT, told, str(path))
    if isinstance(error, (ImportError, MemoryError)):
        return error
    if isinstance(error, IsADirectoryError):
        return ValueError(f"{where} cannot be decoded: it is a folder; rename it, as files end so")
    told = shortened(str(error).replace(path, os.path.basename(path)) or type(error).__name__)
    if isinstance(error, OSError) and (error.errno or isinstance(error, ConnectionError)):
        return error_at(error, f"{where} cannot be read")  # those of decoders have no number
    return ValueError(f"{where} cannot be decoded: {told}")
