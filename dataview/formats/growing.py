"""Rows added to the files of a view: to all of its fields, or to none."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dataview.errors import ReadOnlyError, shortened, unknown_field
from dataview.formats.field_tree import Leaf
from dataview.formats.writers.reading import Key, Reading, without_streams
from dataview.index.interrupts import held_interrupt
from dataview.index.locks import new_rlock
from dataview.index.shape_texts import shape_text
from dataview.plan.build import field, labelled, record, stored, with_fields
from dataview.plan.fields import Fields, Window
from dataview.plan.kinds import Concat, Record, Stored, known_dtype, known_shape, members
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.plan.values import cast
from dataview.sources import ArraySource, Source
from dataview.tables import as_codes
from dataview.write import GrowthGuard

_Target = tuple[Stored, Node, str]
"""An array to which rows are added, the rows, and its name."""


one_at_a_time = new_rlock()
"""Held while rows are added: two threads would write theirs to the same place."""


def append(node: Node, rows: Any, take: Callable[[Node], None]) -> None:
    """Write rows behind those of a node's files; `take` gets the node that has them all."""
    if node.label is not None:
        raise TypeError(
            f"{'.'.join(node.label.names)!r} is a field or a part, and rows are added to all "
            "fields together; append to the view that was opened: d._append({name: rows, ...})"
            + (f"; {_alone(node.label.names)}" if node.label.part is None else "")
        )
    given = without_streams(rows) if isinstance(rows, Node) else rows
    targets = list(_targets(node, given, ""))
    counts = {known_shape(value)[0] for _, value, _ in targets}
    if len(counts) != 1:
        text = ", ".join(f"{name} {known_shape(value)[0]}" for _, value, name in targets)
        raise ValueError(f"all fields get as many rows; got {text}")
    with _growing(targets, counts.pop()) as finish, held_interrupt():
        grown = finish()
        known = {id(old): new for (old, _, _), new in zip(targets, grown, strict=True)}
        take(_with_sources(node, known))


@contextlib.contextmanager
def _growing(targets: list[_Target], count: int) -> Iterator[Callable[[], list[Any]]]:
    """Write rows to all arrays; what it yields finishes this, and returns the sources with them.

    Until that is done, a failure undoes it all.  Ctrl-C waits for the libraries: they may have
    threads of their own, which would go on.
    """
    growing = _Growing(targets)
    try:
        growing.begin(count)
        growing.read()
        yield growing.finish
    except BaseException:
        with held_interrupt():
            growing.undo()
        raise


class _Growing:
    """Rows on their way to all arrays, each of which is written once, whatever names it has."""

    def __init__(self, targets: list[_Target]) -> None:
        self.targets = targets
        self.owners = owners = _owners(targets)
        self.seen = {n: hashlib.blake2b() for n, own in enumerate(owners) if owners.count(own) > 1}
        self.growths: dict[int, Any] = {}
        self.guard = GrowthGuard([targets[number][0].source for number in sorted(set(owners))])

    def begin(self, count: int) -> None:
        """Make room for so many rows."""
        if self.guard.is_early:
            self.guard.begin()
        for number in sorted(set(self.owners)):
            with held_interrupt():
                self.growths[number] = self.targets[number][0].source.growing(count)

    def read(self) -> None:
        """Read the rows block by block, and write them; raise if those of one array differ."""
        leaves = [Leaf(str(n), value, name) for n, (_, value, name) in enumerate(self.targets)]
        Reading(leaves).read(self.put)
        for number, own in self.seen.items():
            owner = self.owners[number]
            if own.digest() != self.seen[owner].digest():
                names = f"{self.targets[owner][2]!r} and {self.targets[number][2]!r}"
                raise ValueError(
                    f"{names} are one array under two names, and get the same rows; got others"
                )

    def put(self, leaf: Leaf, key: Key, block: np.ndarray) -> None:
        """Write a block of the rows of one array."""
        number = int(leaf.at)
        rows = cast(block, known_dtype(self.targets[number][0]))
        if number in self.seen:
            self.seen[number].update(rows.tobytes())
        if self.owners[number] == number:
            self.guard.freshen()
            self.growths[number].write(key, rows)

    def finish(self) -> list[Any]:
        """Tell of the rows in all files, and return the sources with them."""
        grown = {}
        for growth in self.growths.values():
            growth.settle()
        self.guard.begin()
        for number, growth in self.growths.items():
            self.guard.freshen()
            grown[number] = growth.finish()
        _flush(self.growths.values())
        self.guard.end()
        self.growths.clear()
        return [grown[owner] for owner in self.owners]

    def undo(self) -> None:
        """Leave all arrays as they were."""
        _undo(self.growths.values())
        self.guard.end()  # if the undo fails, the next opening takes the rows back


def _undo(growths: Iterable[Any]) -> None:
    """Leave all arrays as they were, even if one of them fails."""
    with contextlib.ExitStack() as undone:
        undone.callback(_flush, growths)  # the last one
        for growth in growths:
            undone.callback(growth.undo)


def _flush(growths: Iterable[Any]) -> None:
    """Do once what several arrays of a file have done when their rows have come or gone."""
    flushes = {key: flush for growth in growths for key, flush in growth.flushes.items()}
    for flush in flushes.values():
        flush()


def _owners(targets: list[_Target]) -> list[int]:
    """Return for each array the number of the first that is the same one, under another name."""
    sources = [target.source for target, _, _ in targets]
    return [
        next(n for n, one in enumerate(sources) if one is own or _is_same(one, own))
        for own in sources
    ]


def _is_same(one: Source, other: Source) -> bool:
    return one.shape == other.shape and one.grows_with(other)


def _targets(node: Node, rows: Any, name: str) -> Iterator[_Target]:
    """Yield the arrays below a node with the rows for each, all of which fit."""
    where = f"field {name!r}" if name else "the view"
    if isinstance(node, Record):
        own = members(node)
        alone = "; of the view d._select('a', 'b') it adds rows to the fields a and b alone"
        parts = _parts_of(rows, own, where, alone)
        for key, part in own.items():
            yield from _targets(part.node, parts[key], f"{name}.{key}".lstrip("."))
        return
    if isinstance(node, Ragged):
        raise TypeError(
            f"{where} is ragged, and rows of their own lengths cannot be added in place; save "
            "both, one after the other, in another file: dv.concat(d, rows)._save(other)"
        )
    if isinstance(node, Concat):
        raise TypeError(
            f"{where} is in several files (rows_per_part=), which do not grow; save both, one "
            "after the other, in another place: dv.concat(d, rows)._save(other)"
        )
    if not isinstance(node, Stored):
        raise TypeError(
            f"{where} is a part of a file, or computed; rows are added to a view that dv.open gave"
        )
    if not node.writable:
        raise ReadOnlyError(
            f"{where} ({node.source.describe()}) is read-only; open it with 'r+', "
            "if it is .npy, a folder, HDF5 or zarr: other files do not grow"
        )
    if any(
        not isinstance(part, Window) and name not in (node.source.dtype.names or ())
        for name, part in node.fields.named.items()
    ):
        raise TypeError(f"{where} has a field with data of its own beside it; save the view anew")
    target = labelled(node, (name,)) if name else node
    yield node, _fitting(node, as_codes(target, rows), where), name


def _alone(names: Sequence[str]) -> str:
    """Return how a field is given rows, and those beside it are not."""
    *above, name = names
    group = "".join(f"[{group!r}]" for group in above)
    return f"d{group}._select({name!r})._append({{{name!r}: rows}}) adds to that field alone"


def _parts_of(rows: Any, own: Collection[str], where: str, alone: str = "") -> Mapping[str, Any]:
    """Return the rows for each field of a record or a structured array, all of which get some."""
    parts = _named_parts(rows, own, where)
    for wrong in parts.keys() - set(own):
        raise unknown_field(wrong, own, where, advice="rows are given for fields of the file")
    if missing := [name for name in own if name not in parts]:
        told = ", ".join(map(repr, missing))
        raise ValueError(
            f"_append adds rows to all fields of {where}; there are none for {told}{alone}"
        )
    return parts


def _named_parts(rows: Any, own: Collection[str], where: str) -> Mapping[str, Any]:
    if isinstance(rows, Mapping):
        return rows
    if isinstance(rows, Node) and rows.fields:
        return {name: field(rows, name) for name in rows.fields}
    names = getattr(getattr(rows, "dtype", None), "names", None)
    if names:
        return {name: rows[name] for name in names}
    each = ", ".join(f"{name!r}: ..." for name in [*own][:MOST_FIELDS])
    more = ", ..." * (len(own) > MOST_FIELDS)
    raise TypeError(
        f"rows for {where} are a mapping, a record or a structured array; got "
        f"{shortened(repr(rows))}; d._append({{{each}{more}}}) has a list of values for each field"
    )


MOST_FIELDS = 5
"""So many fields are written in an example."""


def _fitting(target: Stored, rows: Any, where: str) -> Node:
    """Return rows as a node that can be written to an array, or raise."""
    dtype, shape = known_dtype(target), known_shape(target)
    value = _as_node(rows, dtype, max(1, len(shape)), where)
    found = known_shape(value)
    if len(found) != len(shape) or not shape or found[1:] != shape[1:]:
        wanted = shape_text((None, *shape[1:])).replace("?", "n")
        one = "; give one row in a list, as [row]" if found == shape[1:] else ""
        raise ValueError(f"rows for {where} have shape {wanted}; got {found}{one}")
    if not np.can_cast(known_dtype(value), dtype, "same_kind"):
        raise TypeError(
            f"rows for {where} are {known_dtype(value)}, which {dtype} cannot hold (NumPy's rule "
            "'same_kind'); convert them first, by _astype"
        )
    return value


def _as_node(rows: Any, dtype: np.dtype[Any], rank: int, where: str) -> Node:
    """Return rows of a dtype as a node; a mapping has those of the fields of a structured one."""
    if isinstance(rows, Node):
        return rows
    if not isinstance(rows, Mapping):
        return stored(ArraySource(cast(rows, dtype)), False)
    if not dtype.names:
        told = ", ".join(map(repr, rows))
        raise TypeError(f"{where} has no fields, and rows for it are an array; got those of {told}")
    parts = _parts_of(rows, dtype.names, where)
    nodes = {
        name: _as_node(parts[name], dtype[name].base, rank, f"field {name!r} of {where}")
        for name in dtype.names
    }
    shapes = {name: known_shape(node) for name, node in nodes.items()}
    if len({shape[:rank] for shape in shapes.values()}) != 1 or () in shapes.values():
        told = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"all fields of {where} get as many rows; got those of shapes {told}")
    return record(nodes, rank)


def _with_sources(node: Node, grown: Mapping[int, Any]) -> Node:
    """Return a node of the same fields over longer arrays."""
    if isinstance(node, Record):
        parts = {name: _with_sources(part.node, grown) for name, part in members(node).items()}
        longer = record(parts, node.rank)
        fields = Fields(longer.fields.named, node.fields.lost)
        return longer.replaced(meta=node.meta, fields=fields)
    array = stored(grown[id(node)]).replaced(meta=node.meta)
    windows = {n: part for n, part in node.fields.named.items() if isinstance(part, Window)}
    return with_fields(array, Fields({**array.fields.named, **windows})) if windows else array
