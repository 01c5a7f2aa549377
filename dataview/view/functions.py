"""The public functions: they make views or evaluate them; `collate` makes batches."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dataview import exchange, formats
from dataview.compute import evaluate_all
from dataview.errors import explained
from dataview.exchange import Function, pack_like
from dataview.formats import Recovery
from dataview.index import is_integer
from dataview.loader import collated
from dataview.plan.concat import concat as concat_nodes
from dataview.plan.fields import WindowSpec
from dataview.plan.node import Node
from dataview.plan.photographs import photographs_in
from dataview.samples import joined_alike
from dataview.spaces import Space, joined_meta
from dataview.view import declare
from dataview.view.arguments import advice
from dataview.view.face import asked, evaluated, node_from, node_of, sample_from, unwrapped
from dataview.view.view import View, viewed


def open(
    path: str | bytes | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    mode: str = "r",
    format: str | None = None,
    lock: str | None = None,
    durable: str | bool = "process",
    *,
    layout: str | None = None,
    partition: tuple[int, int] | None = None,
    max_rows: int | None = None,
    follow: float | None = None,
    **options: Any,
) -> View:
    """Open a file or a folder as a view; no data are read.

    - `path`: a file, a folder or a URL. A list of these, or one with "*", "?" or "[…]", opens
      several files as one table. Of a URL, `dv.cache` keeps a copy; of a larger file only the parts
      that are needed are read.
    - `mode`: "r" to read, "r+" to write, too. "w" makes a new file of zeros with a `shape` and a
      `dtype`, or `like=` a view with all its fields; it replaces a file that exists.
    - `format`: the format, if the name of the file does not tell it.
    - `lock`: with "r+", "refuse" raises an error if another view has locked the file, and "wait"
      waits for that view to be closed. With "r", "wait" waits until an update of the file ends, and
      if HDF5 has it locked in another process, until it is closed there.
    - `durable`: what an update survives: the end of its "process", a loss of "power", or, with
      False, neither. An update that was stopped is finished or undone when the file is opened.
    - `layout`: what the files of a folder are: "fields", "files", or "parts" of the same data, of
      which the next is loaded while one is read.
    - `partition`: `(p, n)` opens one of n views that together have all rows; p counts from 0.
    - `max_rows`: opens only the first rows.
    - `follow`: reads a file that is still being written; the stream ends if this many seconds bring
      no new line.
    - Other options belong to the format: see "Formats" in the documentation. With `get=` the file
      is an index, a table that names other files: see "Indexes".

    Groups are nested fields, and attributes are metadata. `d._close()`, or the end of a `with`
    block, closes the file.
    """
    formats.check_access(mode, lock, durable)
    own = {"layout": layout, "partition": partition, "follow": follow, "max_rows": max_rows}
    if not formats.INDEX_OPTIONS.isdisjoint(options):
        return _opened_indexes(path, mode, format, own, options)
    paths = _paths(path, mode, options)
    if paths is not None:
        return _opened(paths, mode, format, lock, durable, own, options)
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(
            f"open takes the path of a file or a folder; got {type(path).__name__}; dv.View(…) is "
            "a view of what is open already"
        )
    if mode == "w":
        if wrong := [name for name, value in own.items() if value is not None]:
            raise TypeError(
                f"{wrong[0]}= is about data that are there, and mode 'w' makes new ones"
            )
        if "like" in options:
            options["like"] = node_from(options["like"])
        return viewed(formats.created(os.fsdecode(path), format, lock, durable, **options))
    single = os.fsdecode(path)
    return _opened(single, mode, format, lock, durable, own, options)


def _opened(
    path: str | list[str],
    mode: str,
    format: str | None,
    lock: str | None,
    durable: str | bool,
    own: dict[str, Any],
    options: Mapping[str, Any],
) -> View:
    """Open what is there as a view, of a partition of the rows, or of the first ones."""
    max_rows = own.pop("max_rows")
    node, partition = formats.laid_out(path, mode, format, lock, durable, **own, **options)
    return _rows_of(viewed(node), partition, max_rows)


def _rows_of(view: View, partition: Any, max_rows: int | None) -> View:
    """Return the rows of a partition (p, n), or the first of them."""
    if max_rows is not None and (not is_integer(max_rows) or max_rows < 0):
        raise ValueError(f"max_rows= is a number of rows, from 0 on; got {max_rows!r}")
    if partition is not None:
        first, step = formats.checked_partition(partition)
        view = viewed(formats.to_be_divided(node_of(view)))[first::step]
    return view if max_rows is None else view[:max_rows]


def _opened_indexes(
    path: Any, mode: str, format: str | None, own: dict[str, Any], options: dict[str, Any]
) -> View:
    """Return the view of an index, or of several: paths, and views."""
    if mode != "r":
        raise ValueError(f"items of an index are read, with mode 'r'; got {mode!r}")
    given: dict[str, Any] = {} if format is None else {"format": format}
    several = path if isinstance(path, (list, tuple)) else [path]
    for one in several:
        if not isinstance(one, (View, str, bytes, os.PathLike)):
            raise TypeError(
                "an index is the path of a table or a folder, or a view; got "
                f"{type(one).__name__}; dv.View(…) is one of data, and dv.View(filename=paths) one "
                "of paths"
            )
    given |= {name: own[name] for name in ("layout", "follow") if own[name] is not None}
    partition, max_rows = own["partition"], own["max_rows"]
    if own["layout"] == "parts" and several is not path:
        given["partition"], partition = partition, None  # which has whole parts
    sources = [node_of(one) if isinstance(one, View) else os.fsdecode(one) for one in several]
    faces = formats.Faces(viewed, sample_from)
    found = viewed(formats.open_indexes(sources, faces, **given, **options))
    return _rows_of(found, partition, max_rows)


def _paths(path: Any, mode: str, options: Mapping[str, Any]) -> list[str] | None:
    """Return the paths of several files, None if it is that of one; new files have any name."""
    if isinstance(path, (list, tuple)) and all(
        isinstance(one, (str, bytes, os.PathLike)) for one in path
    ):
        return [os.fsdecode(one) for one in path]
    if mode == "w" or not isinstance(path, (str, bytes, os.PathLike)):
        return None
    return formats.matching(os.fsdecode(path), options)


@explained(instead=advice)
def recover(
    path: str | bytes | os.PathLike[str], action: str = "tell", format: str | None = None
) -> list[Recovery]:
    """Return which updates of a file stopped midway; finish, undo or forget them.

    `action` is "tell", which changes nothing; "recover", which finishes or undoes the updates, as
    opening the file does; "force", which does so even if another program seems to have changed the
    file since; or "discard", which removes the journals and leaves the file as it is, with some
    blocks changed and others not.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> View([1.0, 2.0])._save(f"{folder}/x.npy")
    >>> recover(f"{folder}/x.npy")
    []
    """
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"recover takes the path of a file or folder; got {type(path).__name__}")
    place = os.path.abspath(os.fsdecode(path))
    if not os.path.exists(place):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), place)
    return formats.recover(place, format, action)


@explained(instead=advice)
def evaluate(*views: Any) -> Any:
    """Return the data of several views, in the same tuples, lists and mappings.

    What the views have in common is computed once, and data are read once.

    >>> v = View([1.0, 3.0])
    >>> evaluate(v - v._mean(), {"mean": v._mean()})
    (array([-1.,  1.]), {'mean': np.float64(2.0)})
    """
    nodes: list[Node] = []
    _each(views, lambda leaf: nodes.append(_node_to_evaluate(leaf)))
    found = iter(evaluate_all(nodes, photographs_in(*nodes)))
    return _each(views, lambda view: next(found)[()])


def _node_to_evaluate(view: Any) -> Node:
    if isinstance(view, View):
        return asked(view)
    raise TypeError(f"evaluate takes views, and tuples, lists and mappings of them; got {view!r}")


def _each(structure: Any, change: Callable[[Any], Any]) -> Any:
    """Return nested tuples, lists and mappings with each leaf changed."""
    if isinstance(structure, View):
        return change(structure)
    if isinstance(structure, Mapping):
        return {name: _each(part, change) for name, part in structure.items()}
    if isinstance(structure, (tuple, list)):
        return pack_like(structure, [_each(part, change) for part in structure])
    return change(structure)


@explained(instead=advice)
def field(window: Any, /, **fields: Any) -> WindowSpec:
    """Declare a window that has windows of its own, counted from its start.

    >>> import numpy as np
    >>> d = View(np.arange(6).reshape(2, 3), pos=field(np.s_[1:], x=0, y=1))
    >>> d.pos.y()
    array([2, 5])
    """
    return WindowSpec(window, fields)


@explained(instead=advice)
def symbol(name: str, /, shape: Any = (), dtype: Any = float, **fields: Any) -> View:
    """Return a view without data: a name, a shape with None for unknown lengths, and a dtype.

    >>> x = symbol("x", shape=(None, 3), dtype="f4")
    >>> ((x + 1)[:5]._sum(axis=1))._shape()
    (None,)
    """
    return viewed(declare.symbol(name, shape, dtype, fields))


@explained(instead=advice)
def function(inputs: Any, outputs: Any) -> Function:
    """Return a function of arrays, made from symbols and from expressions of them.

    The inputs are symbols. The outputs are views, in tuples, lists and mappings of any depth.

    >>> x, y = symbol("x", shape=None), symbol("y", shape=None)
    >>> f = function([x, y], {"sum": x + y, "all": (x._sum(), x * y)})
    >>> f([1, 2], y=[3, 4])["sum"]
    array([4., 6.])
    """
    return Function(_each(inputs, unwrapped), _each(outputs, unwrapped), node_from)


@explained(instead=advice)
def ragged(values: Any, offsets: Any = None, lengths: Any = None, shapes: Any = None) -> View:
    """Return rows of different shapes: parts of flat values, without a copy, or a list of rows.

    Row i has the values from `offsets[i]` to `offsets[i + 1]`, or as many as its length or its
    shape says.

    >>> tokens = ragged([7, 8, 9], lengths=[2, 0, 1])
    >>> tokens._shape(), tokens[0]()
    ((3, None), array([7, 8]))
    """
    places = (None if part is None else evaluated(part) for part in (offsets, lengths, shapes))
    return viewed(exchange.ragged(unwrapped(values), *places))


@explained(instead=advice)
def concat(*views: Any) -> View:
    """Return the views one after the other, their fields joined by name.

    If some of the views declare a space for a field, the rows of all have to be in that layout.

    >>> concat(View([1, 2]), View([3]))[-2:]()
    array([2, 3])
    """
    parts = views[0] if len(views) == 1 and isinstance(views[0], (list, tuple)) else views
    return viewed(concat_nodes(joined_alike([node_from(part) for part in parts]), joined_meta))


def zip(
    *views: Any,
    _driver: str | None = None,
    _meta: Mapping[str, Mapping[str, Any]] | None = None,
    _spaces: Mapping[str, Space] | None = None,
    **fields: Any,
) -> View:
    """Return the record of views of one length; those without a name are called f0, f1 and so on.

    `_driver` names the field that gives the record its length and rows, if lengths differ. `_meta`
    has metadata by field, and `_spaces` spaces.

    >>> zip(x=[1, 2], y=View([3, 4]))[0]._asdict()
    {'x': np.int64(1), 'y': np.int64(3)}
    """
    named = {f"f{number}": part for number, part in enumerate(views)}
    if twice := named.keys() & fields.keys():
        raise TypeError(f"two views are named {min(twice)!r}: one by its place, one by keyword")
    named |= fields
    node = declare.zip_nodes({name: node_from(part) for name, part in named.items()}, _driver)
    return viewed(declare.described(node, _meta, _spaces))


@explained(instead=advice)
def collate(samples: Iterable[Any], pad: Any = None, device: Any = None) -> Any:
    """Return samples (arrays, numbers, texts, tuples, mappings of them, views) as one batch.

    `pad` is a value to fill up with, a `Pad`, or "ragged"; or a mapping from fields to these.
    `device` names a library and a device to which the arrays are moved.

    >>> collate([[1, 2], [3]], pad=0)
    array([[1, 2],
           [3, 0]])
    """
    return _with_views(collated(samples, pad, device, data_of=unwrapped))


def _with_views(batch: Any) -> Any:
    """Return a batch with a view of each ragged field in it."""
    if isinstance(batch, Node):
        return viewed(batch)
    if isinstance(batch, dict):
        return {name: _with_views(part) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return pack_like(batch, list(map(_with_views, batch)))
    return batch
