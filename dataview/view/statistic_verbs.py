"""Statistics as verbs: lazy and streaming; a value that was needed once never changes again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Self, TypeVar, cast

from dataview import samplers
from dataview.compute import (
    median,
    reduction_from,
    reduction_where,
)
from dataview.plan.guards import quantile_levels
from dataview.samples import asked, collected, statistic, with_lengths
from dataview.show import Description, described
from dataview.tables import distinct, filled_in, known, whole_rows
from dataview.view.face import (
    BaseView,
    argument,
    evaluated,
    like,
    names_in,
    node_from,
    node_of,
    with_whole_texts,
)


class StatisticVerbs(BaseView):
    """The statistics of a view."""

    __slots__ = ()

    def _sum(
        self,
        axis: Any = None,
        *,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Self:
        """Return the sum of all elements, or along some axes.

        It is computed when it is first needed, and keeps its value.  `initial` is added to it, and
        only the elements where the mask `where` is true count.

        >>> import dataview as dv
        >>> dv.View([[1, 2], [3, 4]])._sum(axis=0)()
        array([4, 6])
        """
        return _begun(self, "sum", axis, keepdims, initial, where)

    def _prod(
        self,
        axis: Any = None,
        *,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Self:
        """Return the product of all elements and of `initial`, or along some axes."""
        return _begun(self, "prod", axis, keepdims, initial, where)

    def _mean(self, axis: Any = None, *, keepdims: bool = False, where: Any = None) -> Self:
        """Return the mean of all elements, or along some axes, exact to the last digits."""
        return _reduced(self, "mean", axis, keepdims, where)

    def _var(
        self, axis: Any = None, *, ddof: int = 0, keepdims: bool = False, where: Any = None
    ) -> Self:
        """Return the variance of all elements, or along some axes."""
        return _reduced(self, "var", axis, keepdims, where, ddof=ddof)

    def _std(
        self, axis: Any = None, *, ddof: int = 0, keepdims: bool = False, where: Any = None
    ) -> Self:
        """Return the standard deviation of all elements, or along some axes."""
        return _reduced(self, "std", axis, keepdims, where, ddof=ddof)

    def _min(
        self,
        axis: Any = None,
        *,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Self:
        """Return the smallest element, of all or along some axes.

        `initial` is one more number to choose from; with `where` it has to be given.
        """
        return _extreme(self, "min", axis, keepdims, initial, where)

    def _max(
        self,
        axis: Any = None,
        *,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Self:
        """Return the greatest element, of all or along some axes.

        `initial` is one more number to choose from; with `where` it has to be given.
        """
        return _extreme(self, "max", axis, keepdims, initial, where)

    def _argmin(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Return the position of the smallest element, along one axis or in the flat data."""
        return _reduced(self, "argmin", axis, keepdims)

    def _argmax(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Return the position of the greatest element, along one axis or in the flat data."""
        return _reduced(self, "argmax", axis, keepdims)

    def _any(self, axis: Any = None, *, keepdims: bool = False, where: Any = None) -> Self:
        """Return whether any element is true, of all or along some axes."""
        return _reduced(self, "any", axis, keepdims, where)

    def _all(self, axis: Any = None, *, keepdims: bool = False, where: Any = None) -> Self:
        """Return whether all elements are true, of the data or along some axes."""
        return _reduced(self, "all", axis, keepdims, where)

    def _quantile(
        self,
        q: Any,
        axis: Any = None,
        *,
        method: str = "linear",
        keepdims: bool = False,
        approx: bool = False,
    ) -> Self:
        """Return quantiles of all elements, or along some axes; `q` is a number or an array.

        They are exact, and need a bounded amount of memory.  With `approx=True` large data are read
        at most once, and of many rows only a sample of 65536 to a million is read.

        >>> import dataview as dv
        >>> dv.View([[1.0, 5.0], [2.0, 6.0], [4.0, 7.0]])._quantile([0, 0.5], axis=0)()
        array([[1., 5.],
               [2., 6.]])
        """
        options = {"q": quantile_levels(evaluated(q)), "method": method, "approx": approx}
        return _reduced(self, "quantile", axis, keepdims, **options)

    def _median(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Return the exact median of all elements, or along some axes, in a bounded memory.

        >>> import dataview as dv
        >>> dv.View([3, 1, 2, 9])._median()()
        np.float64(2.5)
        """
        return like(self, asked(partial(median, axis=axis, keepdims=keepdims), node_of(self)))

    # --- without what is missing --------------------------------------------------------------

    def _nansum(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Return the sum of the elements that are not NaN.

        >>> import dataview as dv
        >>> import numpy as np
        >>> dv.View([[1.0, np.nan], [2.0, 5.0]])._nansum(axis=0)()
        array([3., 5.])
        """
        return _reduced(self, "nansum", axis, keepdims)

    def _nanprod(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Return the product of the elements that are not NaN."""
        return _reduced(self, "nanprod", axis, keepdims)

    def _nanmean(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Return the mean of the elements that are not NaN."""
        return _reduced(self, "nanmean", axis, keepdims)

    def _nanvar(self, axis: Any = None, *, ddof: int = 0, keepdims: bool = False) -> Self:
        """Return the variance of the elements that are not NaN."""
        return _reduced(self, "nanvar", axis, keepdims, ddof=ddof)

    def _nanstd(self, axis: Any = None, *, ddof: int = 0, keepdims: bool = False) -> Self:
        """Return the standard deviation of the elements that are not NaN."""
        return _reduced(self, "nanstd", axis, keepdims, ddof=ddof)

    def _nanmin(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Return the smallest element that is not NaN or NaT."""
        return _reduced(self, "nanmin", axis, keepdims)

    def _nanmax(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Return the greatest element that is not NaN or NaT."""
        return _reduced(self, "nanmax", axis, keepdims)

    def _nanargmin(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Return the position of the smallest element that is not NaN."""
        return _reduced(self, "nanargmin", axis, keepdims)

    def _nanargmax(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Return the position of the greatest element that is not NaN."""
        return _reduced(self, "nanargmax", axis, keepdims)

    def _nanmedian(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Return the median of the elements that are not NaN or NaT."""
        of_present = partial(median, axis=axis, keepdims=keepdims, without_missing=True)
        return like(self, asked(of_present, node_of(self)))

    def _nanquantile(
        self, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False
    ) -> Self:
        """Return quantiles of the elements that are not NaN or NaT.

        >>> import dataview as dv
        >>> import numpy as np
        >>> dv.View([1.0, np.nan, 5.0, 2.0])._nanquantile([0, 0.5])()
        array([1., 2.])
        """
        q = quantile_levels(evaluated(q))
        options = {"q": q, "method": method, "approx": False, "without_missing": True}
        return _reduced(self, "quantile", axis, keepdims, **options)

    def _fillna(self, value: Any) -> Self:
        """Return the elements with a value, such as a statistic, in place of missing ones.

        NaN, NaT and None are missing, and what the mask of a column marks.  The result is computed
        and the data stay as they are; `d.x[:] = d.x._fillna(0)` fills the data, and sets the mask.

        >>> import dataview as dv
        >>> import numpy as np
        >>> d = dv.View([1.0, np.nan, 5.0])
        >>> d._fillna(d._nanmean())()
        array([1., 3., 5.])
        """
        return like(self, filled_in(node_of(self), argument(with_whole_texts(self, value)[1])))

    def _isna(self) -> Self:
        """Return where values are missing: NaN, NaT, None, or marked by the mask of a column.

        >>> import dataview as dv
        >>> import numpy as np
        >>> dv.View([1.0, np.nan, 5.0])._isna()()
        array([False,  True, False])
        """
        return cast(Self, ~cast(Any, like(self, known(node_of(self), "_isna"))))

    def _notna(self) -> Self:
        """Return where values are not missing: not NaN, NaT or None, nor marked by a mask.

        >>> import dataview as dv
        >>> dv.View(["a", None, "b"])._notna()()
        array([ True, False,  True])
        """
        return like(self, known(node_of(self), "_notna"))

    def _dropna(self, *names: str | Sequence[str]) -> Self:
        """Return the rows without a missing value, in any field or in these.

        The rows are chosen from the data as they are now; they are found when they, or their
        number, are first needed. Values that a field `<name>_mask` of bools marks as missing count
        as missing, too.

        >>> import dataview as dv
        >>> import numpy as np
        >>> d = dv.View(x=[1.0, np.nan, 5.0], y=["a", "b", None])
        >>> d._dropna().x(), d._dropna("x").x()
        (array([1.]), array([1., 5.]))
        """
        looked_at = names_in(names)
        for name in looked_at:
            cast(Any, self)._field(name)
        node = node_of(self)
        return like(self, samplers.where(node, whole_rows(node, looked_at)))

    def _unique(self, counts: bool = False) -> Self:
        """Return the distinct values in ascending order, with `counts` as fields value and count.

        They are those of the data as they are now, and are found when they, or their number, are
        first needed. All missing values (None, NaN, NaT) count as one value, the last.

        >>> import dataview as dv
        >>> dv.View(["b", "a", "b"])._unique()()
        array(['a', 'b'], dtype='<U1')
        """
        return like(self, distinct(node_of(self), counts))

    def _describe(self, columns: bool = False) -> Description:
        """Return statistics of each field, as a table and as a mapping by field.

        One pass reads everything. If there are many rows, `≈` marks estimates from a sample, as
        histograms then are, too; ``["x"]["sampled"]`` is the number of values in it. With
        `columns` each column of a field has its own line. Fields that cannot be described before a
        sample has been read, or have no end, are named below the table, with the reason.

        >>> import dataview as dv
        >>> dv.View(x=[1.0, 2.0, 3.0])._describe()["x"]["mean"]
        2.0
        """
        return described(collected(with_lengths(node_of(self))), columns)


_Some = TypeVar("_Some", bound=BaseView)


def _reduced(
    view: _Some, kind: str, axis: Any, keepdims: bool, where: Any = None, **options: Any
) -> _Some:
    if where is None or where is True:
        return like(view, statistic(kind, node_of(view), axis, keepdims, options))
    node, mask = with_lengths(node_of(view)), with_lengths(node_from(where))
    return like(view, reduction_where(kind, node, axis, keepdims, options, mask))


def _extreme(view: _Some, kind: str, axis: Any, keepdims: bool, initial: Any, where: Any) -> _Some:
    """Return an extreme of the elements where a mask is true, and of an initial value."""
    if initial is None and where is not None and where is not True:
        raise ValueError(f"{kind} of no elements has no value, so where= needs initial=")
    return _begun(view, kind, axis, keepdims, initial, where)


def _begun(view: _Some, kind: str, axis: Any, keepdims: bool, initial: Any, where: Any) -> _Some:
    """Return a statistic of the elements where a mask is true, and of an initial value."""
    if initial is None:
        return _reduced(view, kind, axis, keepdims, where)
    how = {"axis": axis, "keepdims": keepdims, "initial": initial}
    if where is None or where is True:
        return like(view, asked(partial(reduction_from, kind, **how), node_of(view)))
    node, mask = with_lengths(node_of(view)), with_lengths(node_from(where))
    return like(view, reduction_from(kind, node, **how, where=mask))
