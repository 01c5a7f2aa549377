"""Statistics of fields as a table, as text and HTML, and as plain dictionaries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from textwrap import wrap
from types import MappingProxyType
from typing import Any

from dataview.show.cells import CUT, ROOM, aligned, folds
from dataview.show.page import STYLE
from dataview.show.words import escape, harmless, listing

QUARTERS = {"25%": 0.25, "50%": 0.5, "75%": 0.75}
REPEATED = ("distinct", "most frequent", "times")
LENGTHS = ("shortest", "longest")
FROM_SAMPLE = (*QUARTERS, *REPEATED)
COLUMNS = (
    *("count", "missing", "mean", "std", "min", *QUARTERS, "max", "histogram"),
    *(*REPEATED, *LENGTHS),
)
BLOCKS = "▁▂▃▄▅▆▇█"

PAGE_ROOM = 100
"""How wide a table in a notebook is, at most: it is no wider than a cell on a small screen."""

FIELDS_SHOWN = (34, 16)
"""How many fields are shown, the first ones and the last ones; those between are left out."""


class Description(Mapping[str, Mapping[str, Any]]):
    """Statistics by field and by name.

    ``sampled`` among those of a field is the number of values from which some are estimated.
    `left_out` says for the fields that could not be described why that is so.
    """

    def __init__(
        self, fields: Mapping[str, Mapping[str, Any]], left_out: Mapping[str, str]
    ) -> None:
        self._fields = {name: MappingProxyType(dict(found)) for name, found in fields.items()}
        self.left_out = dict(left_out)

    @property
    def sampled(self) -> frozenset[str]:
        """The fields some of whose statistics are estimated from a sample."""
        return frozenset(name for name, found in self._fields.items() if "sampled" in found)

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        return self._fields[name]

    def __getattr__(self, name: str) -> Any:
        known = self.__dict__.get("_fields", {})
        more = f"; write description[{name!r}]" if name in known else ""
        raise AttributeError(f"a description has no attribute {name!r}{more}", name=name, obj=self)

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def asdict(self) -> dict[str, dict[str, Any]]:
        """Return plain dictionaries of numbers and texts."""
        return {name: dict(found) for name, found in self._fields.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return Description, (self.asdict(), self.left_out)

    def __repr__(self) -> str:
        parts = [
            aligned(zip(*rows, strict=True), lambda number: number > 0)
            for rows in self._tables(ROOM)
        ]
        told = [line for note in self._notes() for line in wrap(note, ROOM)]
        return "\n\n".join("\n".join(part) for part in [*parts, told] if part)

    def _repr_html_(self) -> str:
        parts = [STYLE, '<div class="dataview">']
        for head, *rows in self._tables(PAGE_ROOM):
            parts.append(f"<table><tr><th>{escape(head[0])}</th>")
            parts += [*(f'<th class="n">{escape(cell)}</th>' for cell in head[1:]), "</tr>"]
            for row in rows:
                cells = [_bars(cell) if cell[:1] in {*BLOCKS} else escape(cell) for cell in row]
                values = "".join(f'<td class="n">{cell}</td>' for cell in cells[1:])
                parts.append(f"<tr><td>{cells[0]}</td>{values}</tr>")
            parts.append("</table>")
        parts += [f"<div><i>{escape(note)}</i></div>" for note in self._notes()]
        return "".join([*parts, "</div>"])

    def _tables(self, room: int) -> Iterator[list[list[str]]]:
        """Yield the table in parts that are no wider than so many letters, each with the names."""
        rows = self._cells()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for fold in folds(widths[1:], room - widths[0]):
            yield [[row[0], *row[1:][fold]] for row in rows if any(row[1:][fold])]

    def _cells(self) -> list[list[str]]:
        """Return the table as texts: a row for each field, a column for each statistic."""
        names, hidden = self._shown()
        known = {name for found in self._fields.values() for name in found}
        columns = ["dtype", *(name for name in COLUMNS if name in known)]
        rows = [["field", *columns]]
        for field_name in names:
            found = self._fields[field_name]
            marked = field_name in self.sampled
            cells = [
                _cell(found[name], marked and name in FROM_SAMPLE) if name in found else ""
                for name in columns
            ]
            rows.append([harmless(field_name, 24) or "(data)", *cells])
        if hidden:
            rows.insert(1 + FIELDS_SHOWN[0], [CUT for _ in rows[0]])
        return rows

    def _shown(self) -> tuple[list[str], int]:
        """Return the fields that are shown, and how many between them are not."""
        names, (first, last) = list(self._fields), FIELDS_SHOWN
        if len(names) <= first + last:
            return names, 0
        return [*names[:first], *names[-last:]], len(names) - first - last

    def _notes(self) -> Iterator[str]:
        """Yield what is said below the table."""
        if hidden := self._shown()[1]:
            yield f"{CUT} {hidden} more; .asdict() has them all"
        if self.sampled:
            yield "≈ and histograms are of a sample of the values"
        for reason in dict.fromkeys(self.left_out.values()):
            names = [name for name, why in self.left_out.items() if why == reason]
            yield f"not described: {listing(names)} ({reason})"


def _cell(value: Any, is_estimate: bool) -> str:
    if isinstance(value, tuple):
        return blocks_of(value)
    text = f"{value:.4g}" if isinstance(value, float | complex) else harmless(str(value), 24)
    return f"≈{text}" if is_estimate else text


def blocks_of(counts: tuple[int, ...]) -> str:
    """Return numbers as blocks of so many heights; what is not 0 is higher than what is.

    >>> blocks_of((0, 1, 50, 100))
    '▁▂▅█'
    """
    most = max(counts, default=0) or 1
    return "".join(BLOCKS[math.ceil(7 * count / most)] for count in counts)


def _bars(blocks: str) -> str:
    """Return blocks as bars in the colour of the page."""
    heights = [2 * (BLOCKS.index(block) + 1) for block in blocks]
    bars = "".join(f"M{6 * n} 16v-{height}h5v{height}z" for n, height in enumerate(heights))
    return (
        f'<svg role="img" aria-label="{blocks}" width="{6 * len(blocks)}" height="16" '
        f'fill="var(--dataview)"><path d="{bars}"/></svg>'
    )
