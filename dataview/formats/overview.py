"""The documentation's table of formats, from the rows of the table that the package uses."""

from __future__ import annotations

from dataview.formats.catalogue import ABILITIES, FORMATS, Format


def overview() -> str:
    """Return the formats and what each can do, as a table of reStructuredText.

    >>> overview().splitlines()[1].split()
    ['format', 'files', 'needs', 'random', 'access', 'write', 'in', 'place', 'ragged', ...
    """
    head = ["format", "files", "needs", *ABILITIES]
    rows = [head, *(_row(name, row) for name, row in FORMATS.items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = "  ".join("=" * width for width in widths)
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])


def _row(name: str, row: Format) -> list[str]:
    can = row.can | ({"write"} if row.save else set())
    can |= {"remote"} if row.suffixes else set()  # what is one file is fetched
    cells = ["yes" if ability in can else "\u2013" for ability in ABILITIES]
    suffixes = " ".join(f"``{suffix}``" for suffix in row.suffixes)
    return [
        name,
        suffixes or ("a folder" if row.is_folder else "by ``format=``"),
        row.needs or "\u2013",
        *cells,
    ]
