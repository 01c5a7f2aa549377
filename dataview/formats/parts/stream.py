"""The rows of parts that were not counted, as a stream: one part is loaded ahead."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from functools import partial
from typing import Any

from dataview.formats.parts.ahead import one_ahead
from dataview.formats.parts.columns import labels_of
from dataview.formats.parts.counting import Counted, Fact, How, Labels, opened_part
from dataview.formats.parts.listing import File, Listing
from dataview.formats.parts.loaded import PartsTable
from dataview.formats.parts.views import node_of_parts
from dataview.formats.tables import NOTHING, Kind, Name, is_of_codes, is_void
from dataview.index import parse
from dataview.plan.build import select
from dataview.plan.gaps import tells_present
from dataview.plan.kinds import known_shape
from dataview.plan.node import Node
from dataview.samples import ClosableSamples, Row, Stream, rows_in
from dataview.sources import again, shown

MOST_UNREAD = 16
"""So many parts stay open in the first pass, until a batch of their rows tells what is read."""


class PartSamples(ClosableSamples):
    """The rows of parts, of which no more are in memory than the one read and the one behind it.

    All have the columns of the part `model`, and its `labels`.  `first` is the first part, if that
    was opened.  `order` says in which order parts and the rows of each come, None for their own.
    """

    __slots__ = ("asked", "fact", "first", "how", "labels", "listing", "model", "order")
    finite = True
    restarts = True

    def __init__(
        self,
        how: How,
        listing: Listing,
        model: File,
        fact: Fact,
        labels: Labels,
        first: Node | None = None,
        order: Any = None,
    ) -> None:
        super().__init__(how.opening)
        self.how, self.listing, self.model, self.fact = how, listing, model, fact
        self.labels, self.order = labels, order
        self.first = [] if first is None else [first]
        self.asked: set[Name] = set()
        """The columns that the latest pass was asked for."""

    def __reduce__(self) -> tuple[Any, ...]:
        facts = self.how, self.listing, self.model, self.fact, self.labels
        return PartSamples, (*facts, None, self.order)

    def visited(self, order: Any) -> PartSamples:
        """Return the rows of the same parts in another order, with what is known of them."""
        other = PartSamples(self.how, self.listing, self.model, self.fact, self.labels, None, order)
        other.first, other.asked, other._passes = self.first, self.asked, self._passes
        return other

    def passing(self) -> Generator[Row, None, None]:
        """Return the rows of one part after the other."""
        likely, asked = self.asked, set[Name]()
        self.asked = asked
        count = len(self.listing.files)
        files = range(count) if self.order is None else self.order.parts(count).tolist()
        calls = [partial(self.loaded, number, asked, likely) for number in files]
        largest = max((file.size for file in self.listing.files), default=0)
        is_roomy = 2 * largest <= self.how.kept_bytes
        loaded = one_ahead(calls) if is_roomy else (call() for call in calls)
        for place, part in enumerate(loaded):
            self.how.opening.check()
            if part is None:
                continue
            table, node = part
            yield from rows_in(node, self._rows(files[place], table.these.rows[1]))
            wanted = asked or likely
            is_read = wanted and table.are_there(1, wanted)
            if is_read or place >= MOST_UNREAD:  # else its rows are still to be read
                table.parts[1][0].let_go()

    def _rows(self, part: int, count: int) -> Iterable[int]:
        """Return the numbers of the rows of a part in their order."""
        if self.order is None:
            return range(count)
        numbers: list[int] = self.order.rows(part, count).block(0, count).tolist()
        return numbers

    def loaded(
        self, number: int, asked: set[Name], likely: set[Name]
    ) -> tuple[PartsTable, Node] | None:
        """Return a part, of which those columns are in memory that were asked of another one.

        Later parts get `asked` with what was asked of this one; before anything was asked, what is
        `likely` is loaded.  None stands for no rows.
        """
        self.how.opening.check()
        path = self.listing.path(number)
        first = self.first.pop() if self.first and not number else None
        node, fact = first, self.fact
        if node is None:
            node, fact = again(lambda _: opened_part(self.how, path), shown(path))
        if node is None or not fact[0]:  # text without rows does not say what its columns are
            return None
        table = self.table(number, fact)
        table.parts[1][0].is_opened(node)
        table.asked = asked
        rows_of_part = node_of_parts(table, node)
        table.load(1, [name for name in table.names if name in (asked or likely)])
        return table, rows_of_part

    def table(self, number: int, fact: Fact) -> PartsTable:
        """Return the table of one part, behind no rows of the part that all are like."""
        rows, kinds = fact
        file = self.listing.files[number]
        two = self.listing._replace(files=(self.model, file))
        schemas = (self.fact[1], kinds)
        table = PartsTable(
            Counted(two, (0, rows), schemas, (0, 1), two.files, self.labels, {}), self.how
        )
        for name, kind in table.kinds.items():
            self._check_told(name, kind, shown(self.listing.path(number)))
        return table

    def _check_told(self, name: Name, kind: Kind, part: str) -> None:
        """Raise if the part that all are like does not tell what a column of another part is."""
        known, model = self.fact[1], shown(self.listing.path_of(self.model))
        own = known.get(name)
        voids = (name[:end] for end in range(1, len(name) + 1))
        void = next((one for one in voids if one in known and is_void(known[one])), None)
        if void is not None and (own is None or kind.nature != NOTHING):
            raise ValueError(
                f"field {'.'.join(void)!r} of {model} has no value, so that the stream has no "
                f"dtype for those of {part}; manifest=True looks at all parts first"
            )
        if own is not None and is_of_codes(own) and not is_of_codes(kind):
            raise ValueError(
                f"field {'.'.join(name)!r} of {part} has values as they are, and that of {model} "
                "codes of its labels; manifest=True looks at all parts first, and has no codes"
            )
        is_new = own is None or (kind.has_missing and not own.has_missing)
        if is_new and not self._is_filled(name, kind):
            called = ".".join(name[:-1] if tells_present(name) else name)
            raise ValueError(
                f"field {called!r} of {part} has missing values, and that of {model} has none, so "
                "that the stream has no mask of it; "
                "manifest=True counts all parts first, and knows of all gaps"
            )

    def _is_filled(self, name: Name, kind: Kind) -> bool:
        """Whether there is no mask of a column, as another value stands for missing ones."""
        fill = self.how.fill
        is_named = not isinstance(fill, Mapping) or ".".join(name) in fill
        return fill is not None and is_named and not kind.depth


def stream_of_parts(how: How, whole: Listing, listing: Listing) -> Stream:
    """Return the rows of listed parts as a stream; the first part of all with rows is opened."""
    for number in range(len(whole.files)):
        node, fact = opened_part(how, whole.path(number))
        if fact[0]:
            break
    if node is None:
        node = how.open(whole.path(number))  # which says that it has no rows
    is_first = listing.files[:1] == (whole.files[number],)
    model = whole.files[number]
    labels = labels_of(node)
    samples = PartSamples(how, listing, model, fact, labels, node if is_first else None)
    if not fact[0] or any(kind.depth for kind in fact[1].values()):
        return Stream(samples)
    schemas = (fact[1],)
    own = whole.only(range(number, number + 1))
    table = PartsTable(Counted(own, (fact[0],), schemas, (0,), own.files, labels, {}), how)
    rows = node_of_parts(table, node)
    return Stream(samples, select(rows, parse(0, known_shape(rows))))
