"""Statistics as verbs: lazy and streaming; a value that was needed once never changes again."""

from __future__ import annotations

from typing import Any, Self, TypeVar

import numpy as np

from dataview.compute import reduction
from dataview.samples import collected, distinct
from dataview.show import Description, described
from dataview.view.face import BaseView, evaluated, like, node_of


class StatisticVerbs(BaseView):
    """The statistics of a view."""

    __slots__ = ()

    def _sum(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Return the sum over some axes: lazy, and constant once its value was needed.

        >>> import dataview as dv
        >>> dv.View([[1, 2], [3, 4]])._sum(axis=0)()
        array([4, 6])
        """
        return _reduced(self, "sum", axis, keepdims)

    def _prod(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Return the product over some axes."""
        return _reduced(self, "prod", axis, keepdims)

    def _mean(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Return the mean over some axes, exact to the last digits however many rows there are."""
        return _reduced(self, "mean", axis, keepdims)

    def _var(self, axis: Any = None, *, ddof: int = 0, keepdims: bool = False) -> Self:
        """Return the variance over some axes."""
        return _reduced(self, "var", axis, keepdims, ddof=ddof)

    def _std(self, axis: Any = None, *, ddof: int = 0, keepdims: bool = False) -> Self:
        """Return the standard deviation over some axes."""
        return _reduced(self, "std", axis, keepdims, ddof=ddof)

    def _min(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Return the smallest element over some axes."""
        return _reduced(self, "min", axis, keepdims)

    def _max(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Return the greatest element over some axes."""
        return _reduced(self, "max", axis, keepdims)

    def _argmin(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Return where the smallest element is, over one axis or over all."""
        return _reduced(self, "argmin", axis, keepdims)

    def _argmax(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Return where the greatest element is, over one axis or over all."""
        return _reduced(self, "argmax", axis, keepdims)

    def _any(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Return whether any element is true, over some axes."""
        return _reduced(self, "any", axis, keepdims)

    def _all(self, axis: Any = None, *, keepdims: bool = False) -> Self:
        """Return whether all elements are true, over some axes."""
        return _reduced(self, "all", axis, keepdims)

    def _quantile(
        self,
        q: Any,
        axis: Any = None,
        *,
        method: str = "linear",
        keepdims: bool = False,
        approx: bool = False,
    ) -> Self:
        """Return quantiles over some axes, exact in a bounded memory; `q` is one or an array.

        `approx=True` reads once, and of many rows a sample: 65536 rows or more, up to a million.

        >>> import dataview as dv
        >>> dv.View([[1.0, 5.0], [2.0, 6.0], [4.0, 7.0]])._quantile([0, 0.5], axis=0)()
        array([[1., 5.],
               [2., 6.]])
        """
        q = q if type(q) in (int, float) else np.array(evaluated(q))
        options = {"q": q, "method": method, "approx": approx}
        return _reduced(self, "quantile", axis, keepdims, **options)

    def _unique(self, counts: bool = False) -> Self:
        """Return the distinct values in ascending order, with `counts` as fields value and count.

        They are lazy, and their number is unknown until they are read; `_probe()` reads them.

        >>> import dataview as dv
        >>> dv.View(["b", "a", "b"])._unique()()
        array(['a', 'b'], dtype='<U1')
        """
        return like(self, distinct(node_of(self), counts))

    def _describe(self) -> Description:
        """Return statistics of each field, as a table and as a mapping by field.

        One pass reads everything; `≈` marks estimates from a sample of many rows.

        >>> import dataview as dv
        >>> dv.View(x=[1.0, 2.0, 3.0])._describe()["x"]["mean"]
        2.0
        """
        return described(collected(node_of(self)))


_Some = TypeVar("_Some", bound=BaseView)


def _reduced(view: _Some, kind: str, axis: Any, keepdims: bool, **options: Any) -> _Some:
    return like(view, reduction(kind, node_of(view), axis, keepdims, options))
