"""A view as HTML for notebooks: without scripts, in the colours of the page around it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from dataview.plan.node import Node
from dataview.show.formulas import formula_of
from dataview.show.outline import Outline, Part, left_out_of, with_gap
from dataview.show.pictures import picture
from dataview.show.thumbnails import as_images, image_tag, pixels_of
from dataview.show.words import escape

BYTES = 10_000
FIELDS_SHOWN = (50, 25, 10, 4, 0)
"""How many fields are shown: the first number whose page is small enough."""

THUMBNAILS, THUMBNAIL_PIXELS = 12, 36
"""How many images of a field are shown, at most, and how long their sides are."""

IMAGE_BYTES = 36_000

STYLE = """<style>
.dataview{font:var(--jp-code-font-size,13px)/1.4 var(--jp-code-font-family,monospace);\
color:var(--jp-content-font-color1,inherit);--dataview:var(--jp-brand-color1,#1565c0)}
@media (prefers-color-scheme:dark){.dataview{--dataview:var(--jp-brand-color1,#7ab7ff)}}
.dataview table{color:inherit;font-size:inherit;border-collapse:collapse;margin:.2em 0}
.dataview.dataview td,.dataview.dataview th{padding:.1em .6em;text-align:left;vertical-align:top;\
font-weight:normal;white-space:pre}
.dataview.dataview .n{text-align:right}
.dataview th,.dataview i{font-style:normal;opacity:.7}
.dataview img{image-rendering:pixelated;margin:0 3px 3px 0}
.dataview summary{cursor:pointer;opacity:.7}
.dataview .drawn{display:block!important}
.dataview .plain{display:none}
</style>"""
"""Colours come from JupyterLab's variables, from the page, or follow the system's theme.

JupyterLab has rules of its own for cells of tables, which `.dataview.dataview` outweighs. In a
notebook that it does not trust, it takes out styles and drawings, but not the texts in these: what
has the class `drawn` is hidden then, and what has the class `plain` is shown.
"""

DRAWN = 'class="drawn" style="display:none"'
"""The attributes of a part that cannot be shown without drawings."""


def html(node: Node, data: Node | None = None) -> str:
    """Return what `text` tells as HTML, with the picture of a computation, and small images.

    If the page would be too long, it shows fewer fields.
    """
    drawn = picture(node)
    for count in FIELDS_SHOWN:
        shown = Outline(node, data, count)
        images = _Images()
        page = _page(node, shown, drawn, images)
        if len(page.encode()) - len(drawn.encode()) - images.size < BYTES:
            break
    return page


class _Images:
    """The images of a page, as many as there is room for."""

    def __init__(self) -> None:
        self.size = 0
        self.is_full = False

    def of(self, part: Part) -> str:
        """Return the first and last images of a field, "" if it has none."""
        if part.ends is None or self.is_full:
            return ""
        found = [as_images(rows, part.meta) for rows in part.ends if rows is not None]
        tags = []
        for image in islice(chain(*[rows for rows in found if rows is not None]), THUMBNAILS):
            tag = image_tag(pixels_of(image, THUMBNAIL_PIXELS), "a row", THUMBNAIL_PIXELS)
            self.is_full = self.size + len(tag) > IMAGE_BYTES
            if self.is_full:
                break
            self.size += len(tag)
            tags.append(tag)
        return "".join(tags)


def _page(node: Node, shown: Outline, drawn: str, images: _Images) -> str:
    formula, root = formula_of(node), shown.root
    facts = escape(", ".join(["", *shown.facts]))
    lines = [STYLE, '<div class="dataview">']
    lines.append(f"<div><b>View</b> {escape(shown.what)}<i>{facts}</i></div>")
    if formula:
        lines.append(f"<div>= {escape(formula)}</div>")
    rows = [*(_table(shown) if shown.table else _tree(shown, images))]
    if rows:
        name = "fields" if root.fields.named or root.fields.unread else "values"
        lines += [f"<details open><summary>{name}</summary><table>", *rows, "</table></details>"]
    if shown.unread:
        lines.append(f"<div><i>{shown.unread}</i></div>")
    if shown.table:
        lines += [f"<div><i>{line}</i></div>" for line in left_out_of(shown.hidden)]
    if seen := images.of(root):
        lines.append(f"<details open><summary>images</summary>{seen}</details>")
    if drawn:
        lines.append(f"<details open {DRAWN}><summary>picture</summary>\n{drawn}\n</details>")
    return "\n".join([*lines, "</div>"])


def _tree(shown: Outline, images: _Images) -> Iterator[str]:
    """Yield the rows of one table, so that its columns are aligned; inner names are indented."""
    for depth, part, (name, *cells) in shown.lines():
        indent = f' style="padding-left:{depth * 1.5 + 0.6:g}em"' if depth else ""
        seen = images.of(part) if part else ""
        rest = "".join(f"<td>{escape(cell)}</td>" for cell in cells[: -1 if seen else None])
        seen = f"<td>{seen}</td>" if seen else ""
        yield f"<tr><td{indent}>{escape(name)}</td>{rest}{seen}</tr>"


def _table(shown: Outline) -> Iterator[str]:
    """Yield the rows of a table of values, those of its heads first."""
    table = with_gap(shown.table, len(shown.table), shown.hidden)
    looks = [' class="n"' if column.is_number else "" for column in table]
    for number, row in enumerate(zip(*(column.cells for column in table), strict=True)):
        tag = "th" if number < shown.heads else "td"
        cells = zip(looks, map(escape, row), strict=True)
        yield f"<tr>{''.join(f'<{tag}{look}>{text}</{tag}>' for look, text in cells)}</tr>"
