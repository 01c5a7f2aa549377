"""Draw the plots on the page about performance, each from the table above it on that page.

python tests/benchmarks/plots.py

A plot is added by naming its picture below a table: `.. image:: _static/performance-NAME.svg`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

DOC = Path(__file__).parents[2] / "doc"
PAGE = DOC / "performance.rst"

PICTURE = re.compile(r"^\.\. image:: (_static/performance-\S+\.svg)$")
RULE = re.compile(r"^=+(  =+)+$")
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "MB": 1.0}

RATIO = "ratio to base (p10–p90)"
TITLES = {"time": "time", "memory": "memory", RATIO: "time, NumPy's being 1"}

OWN, OTHERS, WORDS = "#3b82c4", "#b3bac6", "#7b8494"
"""Colours that are seen on a light page and on a dark one."""

WIDTH, LINE, GAP, VALUE = 460, 38, 16, 82
"""The width of a plot, the height of a row, what is between panels, and the room for a value."""


class Table(NamedTuple):
    """A table of the page: what it measures, and the cells of each row, by their headings."""

    rows: list[dict[str, str]]

    @property
    def names(self) -> list[str]:
        """What was measured: the first cells."""
        return [next(iter(row.values())) for row in self.rows]

    @property
    def base(self) -> int | None:
        """The row that others are compared with; there is none where each row has its own."""
        ratios = [row.get(RATIO) for row in self.rows]
        return ratios.index("base") if "base" in ratios else None

    @property
    def measures(self) -> list[str]:
        """The columns that are drawn: times and memory, or ratios if there is no base."""
        if self.base is None:
            return [RATIO]
        return [name for name in ("time", "memory") if name in self.rows[0]]

    @property
    def is_own(self) -> list[bool]:
        """Which rows are dataview's: those that show a statement, and variants of such a row."""
        found: list[bool] = []
        for name in self.names:
            is_variant = name.startswith("the same") and bool(found) and found[-1]
            found.append(self.base is None or name.startswith("``") or is_variant)
        return found


def tables(page: str) -> Iterator[tuple[str, Table]]:
    """Yield for each plot that the page shows its path, and the table above it."""
    lines = page.splitlines()
    above: list[str] = []
    rules = [number for number, line in enumerate(lines) if RULE.match(line)]
    for number, line in enumerate(lines):
        if number in rules[2::3]:
            above = lines[rules[rules.index(number) - 2] : number]
        if found := PICTURE.match(line):
            yield found[1], _parsed(above)


def _parsed(lines: Sequence[str]) -> Table:
    """Return a table from its lines: a rule, the headings, a rule, the rows."""
    columns = [slice(*found.span()) for found in re.finditer("=+", lines[0])]
    columns[-1] = slice(columns[-1].start, None)
    cells = [[line[column].strip() for column in columns] for line in (lines[1], *lines[3:])]
    return Table([dict(zip(cells[0], row, strict=True)) for row in cells[1:]])


def value_of(cell: str) -> float:
    """Return the number that a cell begins with, in its unit.

    >>> value_of("2.50 ms"), value_of("9.21 (8.91–9.47)")
    (0.0025, 9.21)
    """
    number, unit = (*cell.split(), "")[:2]
    return float(number) * UNITS.get(unit, 1.0)


# --- drawing -------------------------------------------------------------------------------------


def plot(table: Table) -> str:
    """Return bars for each row of a table, below its name, as a picture in SVG."""
    measures = table.measures
    wide = (WIDTH - GAP * (len(measures) - 1)) // len(measures)
    height = LINE * len(table.rows) + 24
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'font-family="ui-sans-serif, system-ui, sans-serif" font-size="13" fill="{WORDS}">'
    ]
    for number, name in enumerate(table.names):
        drawn.append(f'<text x="0" y="{LINE * number + 34}">{_label(name)}</text>')
    for number, measure in enumerate(measures):
        drawn += _panel(table, measure, number * (wide + GAP), wide)
    return "\n".join([*drawn, "</svg>\n"])


def _panel(table: Table, measure: str, left: int, wide: int) -> Iterator[str]:
    """Yield the bars of a column, each with a mark where the base ends, or where NumPy's would."""
    cells = [row[measure] for row in table.rows]
    values = [value_of(cell) for cell in cells]
    scale = (wide - VALUE) / max(values)
    mark = left + round((1.0 if table.base is None else values[table.base]) * scale)
    yield f'<text x="{left}" y="12" font-weight="bold">{TITLES[measure]}</text>'
    for number, (cell, value) in enumerate(zip(cells, values, strict=True)):
        top, length = LINE * number + 39, max(2, round(value * scale))
        colour = OWN if table.is_own[number] else OTHERS
        behind = max(left + length, mark) + 6
        yield f'<path d="M{left} {top}h{length}v12h-{length}z" fill="{colour}"/>'
        yield f'<path d="M{mark} {top - 2}v16" stroke="{WORDS}"/>'
        yield f'<text x="{behind}" y="{top + 11}">{cell.partition(" (")[0]}</text>'


def _label(name: str) -> str:
    """Return a name with its statements in the font of code."""
    parts = [part.replace("&", "&amp;").replace("<", "&lt;") for part in name.split("``")]
    for number in range(1, len(parts), 2):
        parts[number] = f'<tspan font-family="ui-monospace, monospace">{parts[number]}</tspan>'
    return "".join(parts)


def main() -> None:
    """Draw all plots of the page."""
    for path, table in tables(PAGE.read_text(encoding="utf-8")):
        (DOC / path).write_text(plot(table), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
