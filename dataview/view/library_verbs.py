"""A view outside: in files, in the protocols of arrays, as objects of other libraries."""

from __future__ import annotations

import atexit
import math
import os
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any, Self, cast

from dataview import exchange, formats, samples
from dataview.compute import evaluate
from dataview.errors import warn
from dataview.plan.kinds import Record
from dataview.plan.node import Node
from dataview.view.face import (
    BaseView,
    asked,
    import_hooks,
    like,
    node_of,
    set_node,
    unwrapped,
    warn_if_untold,
)
from dataview.write import clock

PROTOCOL = ("shape", "dtype", "ndim", "to_numpy", "keys")
"""Names without underscore that libraries ask for, and Python; a field of that name wins."""

HIDING = "_hiding"
"""Where the dictionary of a view has the field of a file that is hidden by what was set."""

_hiding: weakref.WeakValueDictionary[int, BaseView] = weakref.WeakValueDictionary()
"""The views in which a field of a file is hidden, to be told of when Python ends."""


def hide(view: BaseView, hidden: Any) -> None:
    """Note the field of a file that is hidden by what was set, until the view is closed."""
    view.__dict__[HIDING] = hidden
    if not _hiding:
        atexit.unregister(_warn_at_exit)
        atexit.register(_warn_at_exit)
    _hiding[id(view)] = view


def _warn_at_exit() -> None:
    for view in list(_hiding.values()):
        _warn_of_unwritten(view)


def _warn_of_unwritten(view: BaseView) -> None:
    """Warn if a field of a file was only set to what it was meant to hold, as it seems."""
    name, when = view.__dict__.pop(HIDING, ("", -1))
    if when == clock[0]:
        warn(
            f"the field {name!r} was set to an expression, which changes this view and not the "
            f"file, and nothing was written or saved since; d.{name}[...] = other and d.{name} -= "
            "other write to the file"
        )


def protocol(view: Any, name: str) -> Any:
    """Return what a name of `PROTOCOL` stands for."""
    if name == "to_numpy":
        return view.__array__
    if name == "keys":  # of dict(view) and function(**view)
        return view._fields
    try:
        return {"shape": view._shape, "dtype": view._dtype, "ndim": view._ndim}[name]()
    except ValueError as error:  # hasattr then returns False
        raise AttributeError(str(error)) from None


def _tell_gaps(view: BaseView, taker: str) -> None:
    """Warn of gaps that a library is not told; a record has the masks beside its columns."""
    node = node_of(view)
    if node.has_gaps and not isinstance(node, Record):
        warn_if_untold(view, evaluate(node), taker)


def _become(view: BaseView, node: Node) -> None:
    """Let a view be one of another node from now on."""
    view.__dict__.clear()
    set_node(view, node)


class LibraryVerbs(BaseView):
    """Files, the protocols by which other libraries use a view, conversion to their objects."""

    __slots__ = ()

    # --- files -------------------------------------------------------------------------------

    def _save(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,
        *,
        compression: str | None = None,
        chunks: int | Sequence[int] | None = None,
        rows_per_part: int | None = None,
        progress: Any = None,
    ) -> None:
        """Write the view to a file or a folder, in blocks; it appears when all of it is written.

        The suffix names the format.  `.h5`, `.zarr`, `.npz`, and a folder of `.npy` files (a path
        that ends in "/", or `format="folder"`) keep all fields and their metadata, so that
        `dv.open(path)` gives an equal view.  An `.npy` file has only the array: a warning names
        fields and metadata that are not in it, and a field that was replaced is an error.

        `compression` is a name such as "gzip", `chunks` a number of rows or the shape of a chunk;
        `rows_per_part` splits the files of a folder.  `progress=True` shows a bar; a function is
        called with the number of bytes that are written, and of all bytes.
        """
        formats.save(
            node_of(self),
            path,
            format,
            compression=compression,
            chunks=chunks,
            rows_per_part=rows_per_part,
            progress=progress,
        )
        clock[0] += 1  # as a write of it, for who only set a field

    def _cached(
        self,
        where: float | str | os.PathLike[str] = math.inf,
        version: str | int | None = None,
        progress: Any = None,
    ) -> Self:
        """Return the same view, which keeps computed rows: in memory, or all rows in a file.

        With a number, the rows that were used last are kept in memory, up to this many bytes. With
        a path, all rows are computed now and written, unless the file exists. A relative path is
        one under `dv.cache.root()`. Its suffix says the format; without a suffix it is a folder.
        `version` is part of the name of the file: change it whenever the data change, or a function
        that computes them.

        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> d = View(x=[1.0, 2.0])._map(lambda s: {"y": s.x() * 2}, shape=(), dtype={"y": float})
        >>> kept = d._cached(f"{folder.name}/y.npz", version="v1")
        >>> kept.y()
        array([2., 4.])
        >>> kept._close()
        >>> folder.cleanup()
        """
        if isinstance(where, (str, os.PathLike)):
            clock[0] += 1  # as a write of it, for who only set a field
            return like(self, formats.computed_once(node_of(self), where, version, progress))
        if version is not None or progress is not None:
            raise TypeError("rows in memory have no version; give a path to keep rows in a file")
        return like(self, samples.cached(node_of(self), where))

    def _append(self, rows: Any) -> None:
        """Add rows to the files that `dv.open(path, "r+")` has opened, and to this view.

        `.npy`, HDF5 and zarr files can grow.  If the view has fields, the rows are a mapping or a
        view with the same fields; if one field fails, none grows.  Other views keep their length.
        """
        with formats.one_at_a_time:
            node = node_of(self)
            given = exchange.with_categories(node, unwrapped(rows))
            formats.append(node, given, partial(_become, self))
        clock[0] += 1  # as a write of it, for who only set a field

    def _refresh(self) -> None:
        """Add the parts that have appeared in the folder since it was opened as parts.

        The known parts are not opened again.  This view gets the rows of the new parts; views that
        were taken of it before keep their rows.
        """
        _become(self, formats.refreshed(node_of(self)))

    def _close(self) -> None:
        """Close the files that `dv.open` has opened for this view, and for all other views of them.

        Reading a view of a closed file is an error that says so.  Files that you have opened
        yourself stay open.  `with dv.open(path) as d:` closes the files at the end of the block.

        A warning says so if a field of a file opened for writing was only set to an expression;
        if the view is not closed, it comes when Python ends.
        """
        formats.close(node_of(self))
        _warn_of_unwritten(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self._close()
        else:
            formats.close(node_of(self))
            self.__dict__.pop(HIDING, None)

    # --- objects of other libraries ----------------------------------------------------------

    def _to_torch(self, device: Any = None, *, copy: bool | None = None) -> Any:
        """Return the data as a torch tensor; for a record, as a dict of tensors.

        A tensor shares memory that can be written, unless `copy=True`; otherwise it has a copy.
        """
        _tell_gaps(self, "a tensor")
        return exchange.to_torch(samples.with_lengths(node_of(self)), device, copy)

    def _to_pandas(self) -> Any:
        """Return the data as a pandas DataFrame with a column for each field, or as a Series.

        A field with several numbers per row becomes columns `name_0`, `name_1` and so on. Values
        that a mask marks as missing become NA, NaN, NaT or None, and the mask is not a column.
        """
        return exchange.to_pandas(node_of(self))

    def _to_xarray(self, dims: Sequence[str] | None = None) -> Any:
        """Return the data as an xarray DataArray, a record as a Dataset.

        `dims` names the axes, of a record those that its fields share; otherwise the metadata
        ``dims`` do, which views of xarray's data have.
        """
        return exchange.to_xarray(node_of(self), dims)

    def _to_dask(self, chunks: Any = None) -> Any:
        """Return a dask array that reads the view when computed; for a record, a dict of them."""
        return exchange.to_dask(node_of(self), chunks)

    # --- protocols of arrays -----------------------------------------------------------------

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        _tell_gaps(self, "a tensor")
        return exchange.dlpack(node_of(self), stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return exchange.DEVICE

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return exchange.arrow_stream(node_of(self), requested_schema)

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return exchange.arrow_batch(node_of(self), requested_schema)

    def __arrow_array__(self, type: Any = None) -> Any:
        return exchange.arrow_array(node_of(self), type)

    def __jax_array__(self) -> Any:
        _tell_gaps(self, "an array of jax")
        return exchange.to_jax(node_of(self))

    def __getitems__(self, numbers: Sequence[int]) -> list[Any]:
        """Return samples by their numbers, as torch's loader fetches a batch."""
        found = exchange.samples(node_of(self), numbers)
        if asked(self).has_gaps:
            warn_if_untold(cast(Any, self)[list(numbers)], found, "a sample")
        return found

    def __dask_tokenize__(self) -> str:
        """Return a unique name: later writes change a view's data, so its data cannot name it."""
        import uuid

        return uuid.uuid4().hex


import_hooks["jax"] = lambda kind: exchange.register_in_jax(kind, kind.__jax_array__)
