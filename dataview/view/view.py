"""The class View: each verb is a line of help and a call of the wing that does the work.

Fields have no leading underscore; verbs have one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Never, cast

import numpy as np
from numpy import ndarray

from dataview import samples, show, spaces
from dataview.compute import (
    as_tuples,
    by_name,
    evaluate_into,
    evaluate_view,
    fields_at,
    lend_part,
    own_copy,
    rows_of,
)
from dataview.errors import UndeclaredError, unknown_field, unknown_verb
from dataview.exchange import bind, freeze, frozen_rows, packed_in_order, recognise_views
from dataview.index import (
    NO_KEY,
    Rows,
    Written,
    row_key,
    rows_at,
    without_names,
)
from dataview.plan.build import columns, field, keyed, read_only, row_field, select
from dataview.plan.fields import check_declared
from dataview.plan.gaps import renamed, telling, with_masks
from dataview.plan.kinds import Sampled, Unbound, elements_of, known_shape, nbytes_of
from dataview.plan.node import Node
from dataview.view import declare, face, hints, lengths, masks
from dataview.view.display_verbs import DisplayVerbs
from dataview.view.face import index_of, node_from, node_of, put_state, set_node, unwrapped
from dataview.view.label_verbs import LabelVerbs
from dataview.view.library_verbs import HIDING, PROTOCOL, LibraryVerbs, hide, protocol
from dataview.view.operators import Operators
from dataview.view.ragged_rows import RaggedVerbs
from dataview.view.row_verbs import RowVerbs
from dataview.view.statistic_verbs import StatisticVerbs
from dataview.write import clock

viewed = cast("Callable[..., View]", face.viewed)

_MISSING: Any = object()
_SEVERAL = (range, ndarray)
"""The types of rows that are not one."""
_WITHOUT_MASKS = (int, slice, type(...))


@face.merge_groups
class View(
    Operators,
    RaggedVerbs,
    RowVerbs,
    LabelVerbs,
    StatisticVerbs,
    DisplayVerbs,
    LibraryVerbs,
):
    """A lazy view of data: an array, a number, a sample, a dataset or a dataset of minibatches.

    Building a view reads nothing; calling it returns its data.

    >>> import numpy as np
    >>> import dataview as dv
    >>> d = dv.View(np.arange(12).reshape(4, 3), input=np.s_[:2], target=np.s_[2])
    >>> d.input[1:3]()
    array([[3, 4],
           [6, 7]])
    >>> d.target -= 2
    >>> d[0]()
    array([0, 1, 0])
    """

    __slots__ = ()

    def __init__(
        self,
        data: Any = declare.NOTHING,
        /,
        *more: Never,
        _driver: str | None = None,
        _rank: int | None = None,
        _length: float | None = None,
        _names: Sequence[str] | None = None,
        _fields: Any = None,
        _meta: Mapping[str, Mapping[str, Any]] | None = None,
        _spaces: Mapping[str, spaces.Space] | None = None,
        _readonly: bool = False,
        **fields: Any,
    ) -> None:
        if more:
            raise TypeError(hints.SEVERAL_ARRAYS.format(1 + len(more)))
        parts = {name: face.data_of(part) for name, part in fields.items()}
        about = declare.NO_FACTS
        if _length is not None or _names is not None or _fields is not None:
            about = declare.SampleFacts(_length, _names, _fields)
        node = declare.construct(face.data_of(data), parts, _rank, _driver, about)
        node = declare.described(node, _meta, _spaces)
        set_node(self, read_only(node) if _readonly else node)

    # --- data out --------------------------------------------------------------------------

    def __call__(
        self, *given: Never, out: np.ndarray | None = None, copy: bool | None = None
    ) -> Any:
        """Return the data: an alias of memory where no copy is needed, unless `copy=True`.

        >>> View([1, 2, 3])[::2]()
        array([1, 3])
        """
        if given:
            raise TypeError(hints.called_with(given[0], show.title(node_of(self))))
        node, rows, _, _, _ = self._state
        try:
            if out is None and copy is None:
                memory = node.lent
                if isinstance(memory, ndarray) and not isinstance(rows, ndarray):
                    return memory[row_key(rows)]  # what `rows_of` would return, without the call
                return evaluate_view(node_of(self))[()] if rows is None else rows_of(node, rows)
            if out is None and copy and rows is not None:
                found = rows_of(node, rows)
                return found if isinstance(rows, ndarray) else own_copy(found)
            found = evaluate_into(node_of(self), out, copy)
            return found if out is not None else found[()]
        except TypeError as error:
            if text := show.refused_by_objects(node_of(self), error):
                raise TypeError(text) from error
            raise

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the data as NumPy asks for it."""
        found: ndarray = self(copy=copy)
        if not isinstance(found, ndarray):  # a scalar, or an object that may be a list
            found = evaluate_into(node_of(self), None, copy)
        return face.handed_over(self, found, dtype, copy)

    def _asdict(self) -> dict[str, Any]:
        """Return the data of the fields as a dict by name; fields with fields are dicts in it.

        >>> View(x=[1, 2], y=[3, 4])._asdict()
        {'x': array([1, 2]), 'y': array([3, 4])}
        """
        node, rows, _, _, _ = self._state
        found = None if rows is None else fields_at(node, rows)
        return by_name(_with_known_fields(self)) if found is None else found

    def _astuple(self) -> tuple[Any, ...]:
        """Return the data of the fields as a tuple; fields with fields are tuples in it."""
        return as_tuples(self._asdict())

    def _bind(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> View:
        """Return the view with data in place of its symbols, all of them or some.

        The data must have the shape that the symbol declares. An array of another dtype is cast if
        NumPy's rule `same_kind` allows it.

        >>> import dataview as dv
        >>> x = dv.symbol("x", shape=(None, 2))
        >>> (x - x._mean(axis=0))._bind(x=[[1, 2], [3, 4]])()
        array([[-1., -1.],
               [ 1.,  1.]])
        """
        given = {**hints.by_name(values), **named}
        data = {name: node_from(value) for name, value in given.items()}
        return viewed(telling(bind(node_of(self), data)))

    def _copy(self) -> View:
        """Return a copy of the data in memory that can be written, with its fields and gaps.

        >>> d = View([1, 2], _readonly=True)._copy()
        >>> d += 1; d()
        array([2, 3])
        """
        return viewed(freeze(node_of(self), writable=True))

    def _freeze(self) -> View:
        """Return a read-only copy of the data in memory, which never changes."""
        node, rows, _, _, _ = self._state
        found = None if rows is None else frozen_rows(node, rows)
        return viewed(freeze(node_of(self)) if found is None else found)

    # --- data in ---------------------------------------------------------------------------

    def _write(self, value: Any) -> None:
        """Write a value into the data of the view; if this fails, the old values are put back.

        >>> a = np.zeros(4, int)
        >>> View(a)[[0, 2]]._write(7); a
        array([7, 0, 7, 0])
        """
        try:
            face.write_all(self, value)
        except (TypeError, ValueError) as error:
            _tell(error, self)
            raise

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, str):
            _assign(self, key, value)
            return
        try:
            if not (
                (isinstance(value, View) and _is_written(value, self, key))
                or (isinstance(key, View) and masks.assigned(node_of(self), node_of(key), value))
                or face.is_written_at_once(self, key, value)
            ):
                if not isinstance(key, _WITHOUT_MASKS):
                    masks.check_axes(node_of(self), key, value)
                face.write_part(self[key], key, value)
        except (TypeError, ValueError) as error:
            _tell(error, self)
            raise

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise AttributeError(hints.not_assigned(name, self._fields()))
        _assign(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"fields are not deleted: d._drop({name!r}) is the view without it")

    def __delitem__(self, key: Any) -> None:
        if isinstance(key, str):
            self.__delattr__(key)
        raise ValueError(
            f"elements are not deleted, as in an array: {key!r}; d[rows] and d._filter(mask) are "
            "views of those that stay"
        )

    # --- fields ----------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        state = self._state
        if state[1] is None or not name or name[0] == "_":
            return _attribute(self, name)
        followed = state[0].followed.get(name) or row_field(state[0], name)
        if followed is None:
            return _attribute(self, name)
        part = _new(View)
        put_state(part, (followed, state[1], None, name, clock[0]))
        self.__dict__[name] = part
        return part

    def _field(self, name: str) -> View:
        """Return the view of a field, whatever its name."""
        found = _field_of_rows(self, name)
        if found is not None:
            return found
        if name not in face.asked(self).fields:
            raise _no_field(self, name)
        if name.startswith("_"):
            return viewed(field(face.asked(self), name), name)
        return cast(View, self.__getattr__(name))

    def _fields(self) -> tuple[str, ...]:
        """Return the names of the fields, as declared.

        >>> View(x=[1], y=[2])._fields()
        ('x', 'y')
        """
        return tuple(face.asked(self).fields)

    def _iter_fields(self) -> Iterator[tuple[str, View]]:
        """Return the fields as pairs of name and view."""
        return ((name, self._field(name)) for name in self._fields())

    def _set_field(self, name: str, other: Any) -> None:
        """Make a field show another view, or add a field; this writes no data.

        Data of another length belong to the dataset alone, such as the names of its classes: parts
        do not have that field.  A record has no length and no rows of its own then, unless one was
        made with `_driver=`.

        >>> d = View(np.zeros((4, 2)), x=0)
        >>> d._set_field("names", ["cat", "dog", "fox"])
        >>> len(d), len(d.names), d[:2]._fields()
        (4, 3, ('x',))
        """
        if not isinstance(other, View):
            other = View(other)
        node = declare.attach(node_of(self), name, node_of(other))
        hidden = declare.hidden(node_of(self), name, node_of(other), self.__dict__.get(HIDING))
        _, _, parent, key, _ = self._state
        self.__dict__.clear()
        set_node(self, node, parent, key)
        if hidden:
            hide(self, hidden)

    def _select(self, *names: str | Sequence[str]) -> View:
        """Return the record of these fields, in this order, followed by the masks of their gaps.

        A list of names is accepted, too.

        >>> View(x=[1], y=[2], z=[3])._select("z", "x")._fields()
        ('z', 'x')
        """
        chosen = face.names_in(names)
        for name in chosen:
            self._field(name)
        node = node_of(self)
        step = partial(columns, names=with_masks(node.fields, chosen))
        return viewed(samples.arranged(node, step))

    def _rename(self, mapping: Mapping[str, str] | None = None, /, **names: str) -> View:
        """Return the view with fields under new names: `d._rename(old="new")`.

        The mask of a field's gaps, `old_mask`, becomes `new_mask`.
        """
        changes = {**(mapping or {}), **names}
        node = node_of(self)
        for name, new in changes.items():
            if name not in node.fields:
                raise _no_field(self, name, hints.renaming(new))
        for new in changes.values():
            check_declared(new)
        return viewed(samples.arranged(node, partial(renamed, names=changes)))

    def _readonly(self) -> View:
        """Return the same view, through which nothing can be changed."""
        return viewed(read_only(node_of(self)))

    # --- about -----------------------------------------------------------------------------

    def _shape(self) -> tuple[Any, ...]:
        """Return the shape of the data: None for a length that is unknown, `math.inf` for no end.

        If no sample has been looked at, `...` stands for the shape of a sample.

        >>> View(lambda number: [number], _length=3)._shape()
        (3, Ellipsis)
        """
        node = node_of(self)
        if not isinstance(node, (Sampled, Unbound)):
            known_shape(node)  # raises if it is unknown
        return lengths.partial_shape(node)

    def _ndim(self) -> int:
        """Return the number of axes."""
        return lengths.ndim(node_of(self))

    def _size(self) -> float:
        """Return the number of elements, `math.inf` if they never end."""
        return elements_of(node_of(self))

    def _width(self) -> int:
        """Return the length of a row.

        >>> View(np.zeros((5, 3)))._width()
        3
        """
        return lengths.width(node_of(self))

    def _dtype(self) -> np.dtype[Any] | None:
        """Return the dtype of the data, None if only reading would tell."""
        known = face.asked(self).dtype
        return node_of(self).dtype if known is None else known

    def _nbytes(self) -> int | None:
        """Return the number of bytes of the data, None if it is unknown or has no end."""
        return nbytes_of(node_of(self))

    def _length(self) -> float | None:
        """Return the number of rows, `math.inf` if they never end, None if it is unknown."""
        return samples.length_of(node_of(self))

    @property
    def _meta(self) -> Mapping[str, Any]:
        """The metadata of the view: an immutable mapping."""
        return face.asked(self).meta

    def _with_meta(self, **items: Any) -> View:
        """Return the view with more metadata.

        >>> dict(View([1])._with_meta(unit="mm")._meta)
        {'unit': 'mm'}
        """
        node = node_of(self)
        return viewed(declare.with_meta(node, {"": {**node.meta, **items}}))

    @property
    def _space(self) -> spaces.Space | None:
        """The layout of the rows: as declared, or inferred from shape and dtype; None for texts.

        >>> import numpy as np
        >>> images = spaces.Conv2DSpace((28, 28), channels=1)
        >>> View(input=np.zeros((5, 784)), _spaces={"input": images}).input[2:]._space
        Conv2DSpace(shape=(28, 28), channels=1, axes=('b', 0, 1, 'c'))
        >>> View(np.zeros((5, 784), "f4"))._space
        VectorSpace(dim=784, dtype='float32')
        """
        return spaces.space_of(node_of(self))

    @property
    def _deterministic(self) -> bool:
        """Whether the data are the same at every call, as far as their sources declare it."""
        return samples.deterministic(node_of(self))

    def _probe(self) -> View:
        """Read a few samples, and return a new view that knows shape, dtype and fields.

        These are the first two, the middle and the last sample; of a stream, the first four. If
        they differ in length, the field is ragged. If there is a dtype that can hold them all, it
        is the dtype of the field. All other samples have to be like them; `_fields=` declares more.

        >>> View(lambda number: [number] * number, _length=9)._probe()
        View (9, ?) int64, function
        """
        return viewed(samples.probed(node_of(self)))

    def _explain(self) -> show.Explanation:
        """Return what a call would read and compute, and with how much memory; reads nothing.

        >>> (View(np.ones((9, 4)))[2:5] * 2)._explain().readings[0].nbytes
        96
        """
        return show.explained(face.asked(self))

    # --- rows ------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> View:
        node, rows, parent, own_key, built = self._state
        if parent is not None:  # only the last part of a chain needs its parent
            put_state(self, (node, rows, None, own_key, built))
        kind = type(key)
        found: Rows | None = None
        if type(rows) is range and (
            kind is slice or (kind is int and -len(rows) <= key < len(rows))
        ):
            try:
                found = rows[key]  # what `rows_at` would answer, without the call
            except TypeError:  # raised below, with advice
                return _part(self, key)
        elif kind is not tuple and isinstance(rows, _SEVERAL):
            found = rows_at(rows, key)
        if found is None:
            return _part(self, key)
        view = _new(View)
        put_state(view, (node, found, self, key, clock[0]))
        return view

    def __len__(self) -> int:
        rows = self._state[1]
        return len(rows) if isinstance(rows, _SEVERAL) else lengths.counted(node_of(self))

    def __iter__(self) -> Iterator[View]:
        node = node_of(self)
        if isinstance(node, Sampled) and not node.shape:
            return map(samples.RowViews(viewed), samples.arriving(node))
        wanted = lengths.unpacked_into(sys._getframe(1))
        parts = map(self.__getitem__, range(lengths.iterable(node, wanted)))
        keep = samples.keeper(node)
        if keep is None:
            return parts
        return (viewed(keep(node_of(part)), number) for number, part in enumerate(parts))

    def __reversed__(self) -> Iterator[View]:
        return map(self.__getitem__, range(len(self) - 1, -1, -1))

    # --- values ----------------------------------------------------------------------------

    def _map(
        self,
        function: Any,
        fields: Any = None,
        shape: Any = None,
        dtype: Any = None,
        reads: Any = None,
        seed: Any = None,
    ) -> View:
        """Return the results of a function, or of a list of functions in turn, for each row.

        The function gets a read-only view of the row and returns data, or a mapping of fields.
        With a seed it also gets a random generator for this row.  `fields`, `shape` and `dtype`
        declare what it returns for a row, and `reads` which fields it may read.

        >>> d = View(x=[1, 2, 3], y=[4, 5, 6])
        >>> d._map(lambda s: s.x() + s.y())[1:]()
        array([7, 9])
        """
        step = samples.row_functions_of(
            unwrapped(function), fields, shape, dtype, reads, None, viewed, face.sample_from
        )
        return viewed(samples.mapped(node_of(self), step, seed))

    def _map_batches(
        self,
        function: Any,
        fields: Any = None,
        shape: Any = None,
        dtype: Any = None,
        reads: Any = None,
        seed: Any = None,
        batch_size: int = samples.BATCH,
    ) -> View:
        """Return the results of a function of blocks of rows, which returns a row for each row.

        The result for a row must not depend on the other rows of its block, since which rows are
        in a block depends on what is asked for. With a seed the function also gets a list of random
        generators, one for each row. The other options are those of `_map`.

        >>> View([3, 1, 2])._map_batches(lambda rows: rows() * 2, shape=(), dtype=int)[::-1]()
        array([4, 2, 6])
        """
        step = samples.row_functions_of(
            unwrapped(function), fields, shape, dtype, reads, batch_size, viewed, face.node_from
        )
        return viewed(samples.mapped(node_of(self), step, seed))

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpacked, packed_in_order(face.asked(self))

    def __copy__(self) -> View:
        return viewed(face.asked(self))


def _unpacked(*nodes: Node) -> View:
    """Return the view of the last of the nodes of a pickle."""
    return viewed(nodes[-1])


_new = object.__new__


def _with_known_fields(view: View) -> Node:
    """Return the node of a view; raise if its fields are unknown."""
    node = node_of(view)
    if declare.is_unknown(node):
        raise UndeclaredError(
            "the fields are unknown until a sample has been read; write d = d._probe() to read one"
        )
    return node


# For doctest, which skips the examples of a class whose __module__ is another module.
__test__ = {
    name: verb for name, verb in vars(View).items() if getattr(verb, "__module__", "") == __name__
}


# --- keys ------------------------------------------------------------------------------------


def _part(view: View, key: Any) -> View:
    """Return the part for a key of any kind: names, views, and NumPy's keys."""
    node, rows, _, _, _ = view._state
    hints.check_no_names(key)
    index = index_of(node, rows, key)
    if index is not None:
        part, found = _new(View), select(node, index, key)
        lend_part(found, node, rows, key)
        set_node(part, found, view, key)
        return part
    rest, names = without_names(key)
    if names is not None:
        return _named(view, rest, names, key)
    node, plain = node_of(view), lengths.plain_key(key)
    found = samples.samples_at(node, plain) if isinstance(node, Sampled) else keyed(node, plain)
    part = _new(View)
    set_node(part, found, view, key)
    return part


def _named(whole: View, rest: Any, names: str | tuple[str, ...], key: Any) -> View:
    """Return fields of the part for the rest of a key, which ends in their names."""
    part = whole if rest is NO_KEY else whole[rest]
    if not isinstance(names, str):
        return part._select(*names)
    if rest is NO_KEY:
        return part._field(names)
    node, rows, _, _, _ = part._field(names)._state
    return cast(View, face.view_of_rows(node, rows, whole, key))


def _field_of_rows(view: View, name: str) -> View | None:
    """Return a field that has the rows of a view, with no node made of these; None for others."""
    if name in view.__dict__:
        return cast(View, view.__dict__[name])
    node, rows, _, _, _ = view._state
    is_plain = rows is not None and name[:1] not in ("", "_")
    return cast(View, view.__getattr__(name)) if is_plain and row_field(node, name) else None


def _is_written(view: View, parent: View, key: Any) -> bool:
    _, _, where, mark, _ = view._state
    return where is parent and isinstance(mark, Written) and mark.of(key)


def _assign(view: View, name: str, value: Any) -> None:
    """Write data into a field, or make the field another view."""
    if not isinstance(value, View):
        if _field_of_rows(view, name) is None and name not in node_of(view).fields:
            raise _no_field(view, name, hints.adding(name))
        view._field(name)._write(value)
    elif value is not view.__dict__.get(name, _MISSING) or name not in node_of(view).fields:
        if view._state[3] is not None:
            raise TypeError(
                f"a view assigned to a field re-points it, and {name!r} here would vanish with "
                f"the part it is set on; part[{name!r}][...] = other writes the data, and on a "
                f"part that has a name, part._set_field({name!r}, other) re-points the field"
            )
        if name not in node_of(view).fields:
            hints.warn_of_misspelt(name, node_of(view).fields)
        view._set_field(name, value)


def _tell(error: Exception, view: View) -> None:
    """Have the error of a write say into which view."""
    if len(error.args) == 1 and isinstance(error.args[0], str):
        error.args = (f"{error.args[0]} (in {show.title(node_of(view))})",)


def _attribute(view: View, name: str) -> Any:
    """Return what a name stands for that is no field of rows; it is kept if it is a field."""
    if name.startswith("_"):
        if name.startswith("__"):  # protocols ask all the time
            raise unknown_verb(name, ())
        raise unknown_verb(name, dir(View), hints.advice_of_verb(name, face.asked(view).fields))
    whole = face.asked(view)
    if name not in whole.fields:
        if name in PROTOCOL and (name != "keys" or whole.fields.named):
            return protocol(view, name)
        raise _no_field(view, name)
    part = view.__dict__[name] = viewed(field(whole, name), name)
    return part


def _no_field(view: View, name: str, advice: str = "") -> Exception:
    node = face.asked(view)
    reason = node.fields.lost.get(name)
    if declare.is_unknown(node):
        reason = "is unknown until a sample has been read; write d = d._probe() to read one"
    meant = advice or hints.advice_of_field(name, node, vars(View))
    error = unknown_field(name, node.fields, show.title(node, name), reason, meant)
    error.name, error.obj = name, view
    return error


recognise_views(View, node_of)
