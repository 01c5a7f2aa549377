"""The form of what a loader hands out: a view with fields, a tuple, a mapping, or an array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from dataview.batches import marked
from dataview.errors import error_at, unknown_field
from dataview.loader.devices import is_numpy, placed
from dataview.loader.gaps import in_arrays, warn_of_field
from dataview.loader.reading import OWN
from dataview.plan.build import batch_of, field, record, stored, with_fields
from dataview.plan.fields import NO_FIELDS, NO_META, Attached, Fields
from dataview.plan.gaps import knowing_masks, masks_in, with_mask
from dataview.plan.kinds import Record, Sampled, Stored, members
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.samples import Stream
from dataview.sources import ArraySource


class Output:
    """Turns a batch into the form that `fields=` asks for."""

    def __init__(
        self,
        form: Any,
        like: Node | None,
        viewed: Callable[[Node, Mapping[str, Node]], Any],
        device: Any,
        delivery: Any = None,
        maskless: Mapping[str, str] = NO_META,
        is_padded: bool = False,
    ) -> None:
        """Take over from the data that are loaded, `like`, what batches share with them.

        If it `is_padded`, a batch may have other shapes, dtypes and names beside theirs.
        """
        self.delivery = delivery
        self.form = form
        self.like = like
        self.viewed = viewed
        self.device = device
        self._maskless = maskless
        self._whole = frozenset((form,) if isinstance(form, str) else form or ()) - maskless.keys()
        self._warned: set[str] = set()
        self._is_padded = is_padded
        is_known = like is not None and _is_known(like)
        self._is_plain = is_known and form is None and is_numpy(device)
        self._template = _Template(like)
        named = like.fields.named if is_known and like is not None else {}
        self._templates = {name: _Template(_attached(part)) for name, part in named.items()}
        self._masks = masks_in(like.fields) if is_known and like is not None else {}

    def __call__(self, batch: Any, valid: np.ndarray | None, rows: np.ndarray | None = None) -> Any:
        """Return a batch in its form; `valid` is true for rows that are no padding.

        `rows` are the numbers of the samples in it, None if that is not known.
        """
        if self._is_plain:
            return self._record(batch, None if valid is None else int(np.count_nonzero(valid)))
        if self.delivery is not None:
            if isinstance(batch, np.ndarray) and len(self.form) == 1:
                batch = {self.form[0]: batch}
            return placed(self._delivered(_with_all(self.form, batch), rows), self.device)
        if self.form is not None:
            return placed(_in_form(self.form, self._in_arrays(batch)), self.device)
        if not is_numpy(self.device) or isinstance(batch, tuple):
            return placed(self._in_arrays(batch), self.device)
        if not isinstance(batch, (Mapping, np.ndarray, Node)):
            return batch  # an object of the user's collate= function
        node = self._template.node(batch)
        if valid is not None:
            node = marked(node, int(np.count_nonzero(valid)))
        return self.viewed(node, {})

    def warn(self, gaps: Iterable[str]) -> None:
        """Warn of fields in which values are missing, and that are handed out without a mask."""
        for name in sorted(set(gaps) - self._warned):
            self._warned.add(name)
            warn_of_field(name, self._maskless[name])

    def _in_arrays(self, batch: Any) -> Any:
        return in_arrays(batch, self._whole, not is_numpy(self.device))

    def _delivered(self, batch: Mapping[str, Any], rows: np.ndarray | None) -> Any:
        """Return a batch as `spec=` asks for it; an error names the first sample that fails."""
        try:
            return self.delivery.in_arrays(batch)
        except (TypeError, ValueError, OverflowError) as error:
            for number, row in enumerate(() if rows is None else rows):
                one = {name: _one_of(part, number) for name, part in batch.items()}
                if self.delivery.refuses(one):
                    raise error_at(error, f"sample {row}") from error
            raise

    def _record(self, batch: Mapping[str, Any], count: int | None) -> Any:
        """Return the view of a record, with rank and metadata of the data that is loaded.

        `count` is how many of its rows are no padding, if there is any.
        """
        like: Any = self.like
        parts: dict[str, Any] = {}
        node: Any = None
        for name, part in batch.items():
            node = self._templates.get(name, _OTHER).node(part)
            parts[name] = node = node if count is None else marked(node, count)
        if self._masks:
            _put_masks(parts, self._masks)
        if self._is_padded:
            return self.viewed(record(parts, like.rank).replaced(meta=like.meta), parts)
        rows = node.count if isinstance(node, Ragged) else node.shape[0]
        return self.viewed(batch_of(parts, like, rows), parts)


def _is_known(like: Node) -> bool:
    """Whether all that its rows are is known: they are arrays, ragged or of one shape."""
    if not isinstance(like, Record) or like.shape is None:
        return False
    if like.dtype is not None:
        return True
    parts = [part.node for part in members(like).values()]
    return all(isinstance(part, Ragged) or (part.dtype and part.shape) for part in parts)


def _one_of(part: Any, number: int) -> Any:
    """Return one row of a part of a batch, as a batch."""
    if isinstance(part, Ragged):
        return part.rows(np.array([number]))
    return part[number : number + 1]


def parts_and_form(node: Node, fields: Any) -> tuple[dict[str, Node], Any, Mapping[str, str]]:
    """Return the nodes to read, by name, the form of batches, and which fields are asked for.

    A name asks for arrays, a tuple of names for tuples; a list, or a mapping from names to fields,
    asks for mappings.
    """
    if fields is None:
        if isinstance(node, Record) and members(node):
            return {name: part.node for name, part in members(node).items()}, None, {}
        return {OWN: node}, None, {}
    named: Mapping[str, str]
    if isinstance(fields, Mapping):
        named = fields
    elif isinstance(fields, str):
        named = {fields: fields}
    else:
        if not isinstance(fields, (list, tuple)):
            raise TypeError(f"fields= is a name, several, or a mapping of names; got {fields!r}")
        for name in fields:
            _check_name(name)
        named = {name: name for name in fields}
        if len(named) < len(fields):
            raise ValueError(f"fields= names a field twice: {fields}")
    if not named:
        raise ValueError("fields= names no field; None is for all")
    form = fields if isinstance(fields, (str, tuple)) else dict(named)
    return {name: _part(node, source) for name, source in named.items()}, form, named


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"fields= names fields by text; got {name!r}")


def _part(node: Node, name: Any) -> Node:
    _check_name(name)
    if name in node.fields:
        return field(node, name)
    known = node.fields.named or not isinstance(node, Sampled)
    if isinstance(node, Stream) and not known:
        return node
    reason = None if known else "is unknown until a sample has been read; call _probe()"
    told = "the view that is loaded (fields= names what is read, before transform=)"
    raise unknown_field(name, node.fields, told, reason)


def _in_form(form: Any, batch: Any) -> Any:
    if not isinstance(batch, Mapping):
        return batch
    names = (form,) if isinstance(form, str) else form
    _with_all(names, batch)
    beside = [name for name in batch if name not in names]
    if beside and not isinstance(form, dict):
        raise ValueError(
            f"a batch has also {beside}, for which fields= leaves no place; give a list, which "
            "makes mappings"
        )
    if isinstance(form, str):
        return batch[form]
    return tuple(batch[name] for name in form) if isinstance(form, tuple) else dict(batch)


def _with_all(names: Any, batch: Any) -> Any:
    """Return a batch by field, or raise if it lacks one that is asked for."""
    if type(batch) is not dict and not isinstance(batch, Mapping):
        raise TypeError(f"a batch is a mapping by field; got {type(batch).__name__}")
    missing = [name for name in names if name not in batch]
    if missing:
        raise KeyError(
            f"a batch has no {missing}, which fields= or spec= asks for; it has {list(batch)}"
        )
    return batch


# --- views -----------------------------------------------------------------------------------


class _Template:
    """The facts that all batches of a field share: shape of a row, metadata, windows."""

    __slots__ = ("fields", "like", "meta", "trailing")

    def __init__(self, like: Node | None) -> None:
        self.like = like
        self.trailing: tuple[int, ...] | None = None
        self.meta: Mapping[str, Any] = NO_META
        self.fields = NO_FIELDS
        if like is not None:
            self.trailing = None if like.shape is None else like.shape[1:]
            self.meta = like.meta
            if self.trailing is not None and like._fields is not NO_FIELDS and like.fields.named:
                self.fields = like.fields.windows_only(0, lambda axis: axis > 0)

    def node(self, batch: Any) -> Node:
        """Return the node of a batch, with the facts that it shares with the data."""
        if isinstance(batch, Node):
            if self.like is None or batch.meta is self.like.meta:
                return batch
            return batch.replaced(meta=self.like.meta)
        if type(batch) is not np.ndarray or batch.dtype.names is not None:
            return _parts_of(batch, self.like)
        node = Stored(ArraySource(batch), True)
        node.lent = batch
        if self.trailing is None or batch.shape[1:] == self.trailing:
            node.meta = self.meta
            node._fields = self.fields
        return node


_OTHER = _Template(None)
"""What is known of a field that the data do not have, such as the lengths of rows."""


def _parts_of(batch: Any, like: Node | None) -> Node:
    if not isinstance(batch, Mapping):
        return stored(ArraySource(np.asarray(batch)))
    known = like.fields.named if like is not None else {}
    named = {
        name: _Template(_attached(known.get(name))).node(part)
        for name, part in batch.items()
        if name != OWN
    }
    if OWN in batch:
        own = _Template(like).node(batch[OWN])
        more = {name: Attached(part, (0,)) for name, part in named.items()}
        return with_fields(own, Fields(own.fields.named | more))
    if not named or not all(part.extents for part in named.values()):
        return record(named)
    nodes = [part.node for part in known.values() if isinstance(part, Attached)]
    if like is not None and any(node.has_gaps for node in nodes):
        _put_masks(named, masks_in(like.fields))
    found: Node = record(named, like.rank if isinstance(like, Record) else 1)
    if not known:  # then only what was read tells which fields are masks
        found = knowing_masks(found)
    found.meta = like.meta if like is not None else found.meta
    return found


def _put_masks(named: dict[str, Any], masks: Mapping[str, str]) -> None:
    """Have each field know its mask, if that is there."""
    for name, mask in masks.items():
        if name in named and mask in named:
            named[name] = with_mask(named[name], named[mask])


def _attached(part: Any) -> Node | None:
    return part.node if isinstance(part, Attached) else None
