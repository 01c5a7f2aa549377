"""How a view is displayed, and the rows that are read to be seen."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import islice
from typing import Any, Self, TypeVar, cast

from dataview import samplers, samples, show, tables
from dataview.exchange import freeze
from dataview.plan.guards import why_no_rows
from dataview.plan.kinds import nbytes_of
from dataview.plan.node import Node
from dataview.view import lengths
from dataview.view.face import (
    BaseView,
    asked,
    import_hooks,
    is_seen,
    keys_by,
    like,
    node_of,
    seen,
    viewed,
)

ROWS_SHOWN, ROWS_PLOTTED, DRAWN_BYTES = 100, 10_000, 1 << 26
"""How many rows are drawn if it is not said, and how many bytes they have at most."""

FIELDS_SEEN = 50
"""So many fields of rows that were asked for are displayed with their values, too."""

IMAGES_DRAWN = 32
"""How many rows are drawn of images whose size is not known before they are read."""


class DisplayVerbs(BaseView):
    """Texts and pages of a view, and a few rows to look at."""

    __slots__ = ()

    def _head(self, n: int = 5) -> Self:
        """Return the first rows as a view that is displayed with their values.

        Only these rows are read, each time that they are displayed.

        >>> import numpy as np
        >>> import dataview as dv
        >>> dv.View(np.arange(100) * 2)._head(3)
        View (3,) int64, 24 B, memory
          0 2 4
        """
        return _seen(self, slice(_count(n)))

    def _tail(self, n: int = 5) -> Self:
        """Return the last rows as a view that is displayed with their values, as `_head` is."""
        length = lengths.counted(node_of(self))
        return _seen(self, slice(max(0, length - _count(n)), length))

    def _sample(self, n: int = 5, seed: int | Sequence[int] = 0) -> Self:
        """Return rows drawn at random by a seed, each at most once, displayed as `_head` is.

        If there are fewer rows, all of them are returned, in a random order.

        >>> import dataview as dv
        >>> dv.View(range(100))._sample(3)._shape()
        (3,)
        """
        return _seen(cast(Self, cast(Any, self)._shuffled(seed)), slice(_count(n)))

    def _nlargest(self, n: int, by: Any = None) -> Self:
        """Return the rows with the greatest values of a field, displayed as `_head` is.

        `by` is what `_sorted` takes; without it the values of the view itself count. Rows with
        equal values keep their order, and rows without a value come last.

        >>> import numpy as np
        >>> import dataview as dv
        >>> dv.View(x=[3.0, 1.0, np.nan, 2.0], y=[0, 1, 2, 3])._nlargest(2, "x").y()
        array([0, 3])
        """
        return self._first_by(by, True, n)

    def _nsmallest(self, n: int, by: Any = None) -> Self:
        """Return the rows with the least values of a field, as `_nlargest` does."""
        return self._first_by(by, False, n)

    def _first_by(self, by: Any, is_reversed: bool, n: int) -> Self:
        if isinstance(n, str):
            raise TypeError(f"the number of rows comes first, as in _nlargest(5, {n!r})")
        most = n if type(n) is int and n >= 0 else None  # of others `_head` says what is wrong
        found = samplers.sorted_by(node_of(self), keys_by(self, by), is_reversed, most)
        return cast(Self, cast(Any, like(self, found))._head(n))

    def _missing(self) -> Self:
        """Return how many values are missing, for a record in each field.

        NaN, NaT, None, and values that a mask marks are missing. All data are read when the numbers
        are displayed or needed.

        >>> import numpy as np
        >>> import dataview as dv
        >>> dv.View(x=[1.0, np.nan, np.nan], y=["a", None, "b"])._missing()._asdict()
        {'x': np.int64(2), 'y': np.int64(1)}
        """
        return cast(Self, seen(like(self, tables.count_missing(node_of(self)))))

    def _show(self, n: int | None = None) -> show.Gallery:
        """Return pictures of the first rows, as a page in a notebook and as text elsewhere.

        Space, dtype and shape decide how rows are drawn: as images, curves, points, counts of
        classes, histograms of numbers, or texts. Only these rows are read: n, or a hundred, or
        fewer if they have many bytes.

        >>> import dataview as dv
        >>> dv.View(kind=["b", "a", "b", "b"], size=[1.0, 2.0, 2.5, 4.0])._show()
        the first 4 rows
        kind: counts
          b  ██████████████████████████████ 3
          a  ██████████ 1
        size: numbers
          1.0 █▁▁█▁█▁▁▁█ 4.0
        """
        data = _first(self, n, ROWS_SHOWN)
        count = data.count
        rows = "one sample" if count in (None, 1) else f"the first {count} rows"
        return show.gallery(data, rows, show.name_of(asked(self)))

    def _plot(self, n: int | None = None, ax: Any = None) -> Any:
        """Draw the first rows by matplotlib, as `_show` draws them; return the axes.

        Without `n` these are ten thousand rows, or fewer if they have many bytes.
        A view of several fields makes an array of axes, one for each field. A single field is drawn
        on the axes `ax`, if you give them.
        """
        return show.plotted(_first(self, n, ROWS_PLOTTED), show.name_of(asked(self)), ax)

    def __str__(self) -> str:
        """Return the value of a view of one element, and a sample of fields with its values.

        Of any other view it is what `repr` returns.

        >>> import dataview as dv
        >>> print(f"{dv.View([1.5, 2.5])._mean()} is the mean")
        2.0 is the mean
        """
        node = _looked_at(self)
        if show.is_small_sample(node) and not show.is_closed(node):
            return show.text(node, freeze(node))
        if not lengths.is_one(node):
            return repr(self)
        return show.MISSING if lengths.is_missing(node) else str(self())

    def __repr__(self) -> str:
        return show.text(_looked_at(self), _asked(self))

    def _repr_html_(self) -> str:
        """Return the field tree and values as HTML, for notebooks."""
        return show.html(_looked_at(self), _asked(self))

    def __dir__(self) -> list[str]:
        names = [name for name in asked(self).fields if name.isidentifier() and name[0] != "_"]
        return names + sorted({*dir(type(self))} - {*names, "_state"})

    def _ipython_key_completions_(self) -> list[str]:
        """Return the names that complete `view["`."""
        return list(asked(self).fields)


_Some = TypeVar("_Some", bound=BaseView)


def _seen(view: _Some, rows: slice) -> _Some:
    """Return rows of a view whose display reads them, and so does that of each of their fields."""
    node = node_of(view)
    if node.extents == () and not why_no_rows(node):
        raise TypeError("one sample has no rows to choose; print(d) shows its values")
    found = cast(Any, view)[rows]
    for _, part in islice(found._iter_fields(), FIELDS_SEEN):
        seen(part)
    return cast(_Some, seen(found))


def _first(view: BaseView, n: int | None, most: int) -> Node:
    """Return the first rows of a view in memory; of one sample all, an image as the only row."""
    whole = node_of(view)
    if whole.extents == ():
        return freeze(whole)
    if isinstance(whole, samples.NumberedSamples) and whole.count is None:
        return _sample_of_unknown_shape(whole, n, most)
    size, length = nbytes_of(whole), samples.length_of(whole)
    if size and size <= DRAWN_BYTES and show.is_one_image(whole):
        return freeze(node_of(cast(Any, view)[None]))
    if n is None and size and length:
        most = max(1, min(most, int(DRAWN_BYTES * length // size)))
    elif show.has_images_of_several_sizes(whole):
        most = min(most, IMAGES_DRAWN)
    return freeze(node_of(cast(Any, view)[: most if n is None else _count(n)]))


def _sample_of_unknown_shape(sample: Node, n: int | None, most: int) -> Node:
    """Return the same of one sample, whose shape is known when it is read."""
    found = freeze(sample)
    if show.has_images_of_several_sizes(sample) and show.may_be_image(found):
        return freeze(node_of(viewed(found)[None]))
    return _first(viewed(found), n, most)


def _looked_at(view: BaseView) -> Node:
    """Return the node of a view; its length is looked for if little is read for it."""
    node = asked(view)
    try:
        return node_of(view) if is_seen(view) or show.is_found(node) else node
    except Exception:  # it is raised where the rows are used
        return node


def _asked(view: BaseView) -> Node | None:
    """Return the data of rows that were asked for in order to see them.

    Samples that can be read once are left for who uses them; a closed file has none.
    """
    node = asked(view)
    is_once = isinstance(node, samples.Stream) and not node.samples.restarts
    if is_seen(view) and not is_once and not show.is_closed(node):
        return freeze(node)
    try:
        return freeze(node) if show.is_shown(node) else None
    except Exception:  # it is raised where the table is used
        return None


def _count(n: Any) -> int:
    if not hasattr(n, "__index__"):
        raise TypeError(
            f"the number of rows to see is a whole number, such as 5 or len(d) // 10; got {n!r}"
        )
    count = operator.index(n)
    if count < 0:
        raise ValueError(f"the number of rows to see is 0 or more; got {count}")
    return count


# --- completion ----------------------------------------------------------------------------------


def _allow_completion(kind: type[Any]) -> None:
    """Let IPython look at fields of fields to complete them: an attribute of a view reads nothing.

    Not at parts, since a view as a key is evaluated.
    """
    from IPython.core.guarded_eval import EVALUATION_POLICIES

    allowed = getattr(EVALUATION_POLICIES.get("limited"), "allowed_getattr_external", None)
    if isinstance(allowed, set):
        allowed.add((kind.__module__, kind.__name__))


import_hooks["IPython.core.guarded_eval"] = _allow_completion
