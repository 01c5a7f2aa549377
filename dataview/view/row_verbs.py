"""Which rows, in which order, and in which batches."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any, Self, cast

import numpy as np

from dataview import batches, loader, samplers, samples, spaces
from dataview.errors import explained
from dataview.plan.node import Node
from dataview.plan.ragged import Ragged
from dataview.view import face
from dataview.view.face import (
    BaseView,
    evaluated,
    keys_by,
    like,
    node_from,
    node_of,
    on_its_own,
    viewed,
)


class RowVerbs(BaseView):
    """The verbs of rows and batches."""

    __slots__ = ()

    def _take(self, rows: Any) -> Self:
        """Return these rows, in this order; a row may be named several times."""
        numbers = samplers.as_numbers(np.asarray(evaluated(rows)))
        return cast(Self, on_its_own(cast(Any, self)[numbers]))

    def _shuffled(self, seed: int | Sequence[int], pool: int | None = None) -> Self:
        """Return all rows in a random order that follows from the seed; long orders are not stored.

        A stream is shuffled within a pool of its next samples.

        >>> import dataview as dv
        >>> d = dv.View(np.arange(5))._shuffled(0)
        >>> sorted(d().tolist()), bool(d[1:3] == d()[1:3])
        ([0, 1, 2, 3, 4], True)
        """
        return like(self, samplers.shuffled(node_of(self), seed, pool))

    def _sorted(self, by: Any = None, reverse: bool | Sequence[bool] = False) -> Self:
        """Return the rows in ascending order of fields, of other data, or of their own values.

        With `reverse` the order is descending; a list says so for each key. Rows with equal values
        keep their order, and missing values are last. The order is that of the data as they are
        now; it is computed when it is first needed.

        >>> import dataview as dv
        >>> d = dv.View(x=[3, 1, 2], y=["a", "b", "c"])
        >>> d._sorted(by="x").y(), d._sorted(by="x", reverse=True).y()
        (array(['b', 'c', 'a'], dtype='<U1'), array(['a', 'c', 'b'], dtype='<U1'))
        """
        return like(self, samplers.sorted_by(node_of(self), keys_by(self, by), reverse))

    def _filter(self, condition: Any) -> Self:
        """Return the rows where a mask is true, or the samples that a function accepts.

        With a function, the length of the view is unknown, and it is read in order; `_probe()`
        counts its samples. The function chooses from the data as they are now: it is called when a
        sample is first needed, and at the latest before a write changes what it may read.

        >>> import dataview as dv
        >>> d = dv.View(np.array([1, -2, 3]))
        >>> kept = d._filter(lambda sample: sample > 0)
        >>> d *= -1
        >>> kept()
        array([-1, -3])
        """
        if callable(condition) and not isinstance(condition, BaseView):
            return like(self, samples.filtered(node_of(self), condition, viewed))
        if isinstance(condition, BaseView):
            node, given = node_of(self), node_of(condition)
            if given.dtype == bool and given.shape == (node.count,):
                return like(self, samplers.where(node, given))
        mask = samplers.as_mask(np.asarray(evaluated(condition)))
        return cast(Self, on_its_own(cast(Any, self)[mask]))

    def _split(self, *sizes: Any, seed: int | None = None, by: Any = None) -> tuple[Self, ...]:
        """Split the rows into parts of these sizes or fractions; the rest is one more part.

        Give the sizes one by one or as a list.  Without a `seed` the rows keep their order, so
        sorted rows need a seed. `by` names a field of labels, or several: each part gets its share
        of the rows of each label, and of those without one. Labels are read when a row is first
        needed.

        >>> import dataview as dv
        >>> [len(part) for part in dv.View(np.arange(10))._split(0.8)]
        [8, 2]
        """
        if not sizes:
            raise TypeError("_split takes sizes or fractions of the parts: d._split(0.8, 0.2)")
        labels = None if by is None else _late_labels(self, by)
        wanted = sizes[0] if len(sizes) == 1 else sizes
        return tuple(map(viewed, samplers.split(node_of(self), wanted, seed, labels)))

    def _folds(
        self,
        k: int | None = None,
        seed: int | None = None,
        by: Any = None,
        groups: Any = None,
        validation: bool = False,
    ) -> list[tuple[Self, ...]]:
        """Return k pairs (training rows, test rows); each row is in the test rows of one pair.

        With `validation` they are triples (training, validation, test); the validation rows are the
        test rows of the next triple. `by` names a field of labels, of which each part gets its
        share. With `groups` no group is in two parts, and without k each pair tests one group.
        Groups are read now, since the lengths of the parts depend on them.

        >>> import dataview as dv
        >>> [test().tolist() for _, test in dv.View(np.arange(7))._folds(3)]
        [[4, 5, 6], [2, 3], [0, 1]]
        """
        if groups is not None and by is None:
            labels = _late_labels(self, groups)
            parts = samplers.group_folds(node_of(self), labels, k, seed, validation)
        elif groups is not None or k is None:
            raise ValueError(
                "give _folds a number k, optionally with by=, or give groups= without by="
            )
        else:
            parts = samplers.folds(
                node_of(self), k, seed, None if by is None else _late_labels(self, by), validation
            )
        return [tuple(map(viewed, fold)) for fold in parts]

    def _repeat(self, n: float = math.inf) -> Self:
        """Return the rows n times, or without end."""
        return like(self, samplers.repeated(node_of(self), n))

    # --- batches -----------------------------------------------------------------------------

    @loader.takes(loader.MinibatchOptions)
    def _minibatches(self, options: loader.MinibatchOptions) -> Any:
        """Return the view of the rows in batches of `batch_size`, in the sampler's order.

        >>> import dataview as dv
        >>> d = dv.View(np.arange(7), double=dv.View(np.arange(0, 14, 2)))
        >>> [batch.double().tolist() for batch in d._minibatches(3)]
        [[0, 2, 4], [6, 8, 10], [12]]

        With `spec=` it is a sequence of batches in these spaces, each a view or a tuple of views.
        """
        options.sampler = samplers.on_nodes(options.sampler, face.unwrapped)
        how = vars(options)
        spec = how.pop("spec")
        found = like(self, batches.grouped(node_of(self), **how))
        return found if spec is None else _Batches(found, _delivery(self, spec))

    @loader.takes(loader.LoaderOptions)
    def _loader(self, options: loader.LoaderOptions) -> loader.Loader:
        """Return an iterator over batches, epoch after epoch, that can be stopped and resumed.

        >>> import dataview as dv
        >>> loader = dv.View(np.arange(5))._loader(2)
        >>> [batch().tolist() for batch in loader], loader.epoch
        ([[0, 1], [2, 3], [4]], 1)

        Without `fields=`, `spec=` and `device=` a batch is a view. With the device of another
        library it is that library's arrays: a mapping by field, or one array if the data are one.
        """
        options.sampler = samplers.on_nodes(options.sampler, face.unwrapped)
        delivery = None
        if options.spec is not None:
            remakes = options.transform or options.collate or options.pad is not None
            delivery = _delivery(self, options.spec, in_arrays=True, remakes=bool(remakes))
            if options.collate is None:
                options.pad = delivery.padding(options.pad)
        wrapper = face.viewed, face.viewed_with, face.unwrapped
        return loader.Loader(loader.plan_for(node_of(self), options, *wrapper, delivery))

    @explained("d._get((space, name))")
    def _get(self, spec: Any) -> Any:
        """Return the views that data specifications ask for, each as one batch of a space.

        `spec` is a pair of a space and the name of a field; the result is then one view. For a
        CompositeSpace and a tuple of names it is a tuple of views. Nothing is read.

        >>> import dataview as dv
        >>> d = dv.View(image=np.arange(8).reshape(2, 4), label=[1, 0])
        >>> images = dv.spaces.Conv2DSpace((2, 2), channels=1, axes=("c", 0, 1, "b"))
        >>> d._get((images, "image"))._shape()
        (1, 2, 2, 2)
        """
        delivery = _delivery(self, spec)
        return spaces.wrapped(delivery.of_batch(delivery.nodes))

    def _valid(self) -> Self:
        """Return a mask: true for real rows, false for those that `tail="pad"` added."""
        return like(self, batches.valid(node_of(self)))


class _Batches(Sequence[Any]):
    """Minibatches in the spaces of data specifications; nothing of them is read."""

    def __init__(self, minibatches: Any, delivery: spaces.Delivery) -> None:
        self._minibatches = minibatches
        self._delivery = delivery

    def __len__(self) -> int:
        return len(self._minibatches)

    def __getitem__(self, key: Any) -> Any:
        is_array = isinstance(key, (np.ndarray, BaseView)) and np.ndim(cast(Any, key)) > 0
        if is_array or isinstance(key, (slice, list)):
            return _Batches(self._minibatches[key], self._delivery)
        try:
            number = operator.index(key)
        except TypeError:
            raise TypeError(
                "batches in the spaces of spec= are chosen by a number, or by a slice, a list, an "
                f"array or a mask; got {key!r}; batch[...] has a part of one of them"
            ) from None
        return self._of(self._minibatches[number])

    def __iter__(self) -> Iterator[Any]:
        return map(self._of, self._minibatches)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what Python asks for, also of one that is not made yet
            raise AttributeError(f"batches of data specifications have no {name!r}")
        raise AttributeError(
            f"batches of {self._delivery.mapping.specs!r} have no {name!r}: each of them, such as "
            f"minibatches[0], is what spec= asks for; d._minibatches(batch_size).{name}, without "
            "spec=, has the batches of a field"
        )

    def __repr__(self) -> str:
        return f"batches of {self._delivery.mapping.specs!r}, from {self._minibatches!r}"

    def _valid(self) -> Any:
        """Return the mask of all batches: true for real rows, false for padding."""
        return self._minibatches._valid()

    def _of(self, batch: Any) -> Any:
        parts = {name: node_of(_field_of(batch, name)) for name in self._delivery.sources}
        return spaces.wrapped(self._delivery.of_batch(parts))


def _field_of(batch: Any, name: str) -> Any:
    """Return a field, of rows without looking for the other fields of the batch."""
    return batch._field(name) if name.startswith("_") else batch.__getattr__(name)


def _delivery(view: Any, spec: Any, remakes: bool = False, **how: bool) -> spaces.Delivery:
    """Return what brings the fields of a view, or what is made of them, into other spaces."""

    def of(name: str) -> Node | None:
        return None if remakes and name not in view._fields() else node_of(view._field(name))

    def has_rows(name: str) -> bool:
        field = node_of(view).fields.named.get(name)
        return field is None or field.follows_rows or getattr(field, "axes", ()) is None

    return spaces.Delivery(spec, of, remakes=remakes, has_rows=has_rows, **how)


def _late_labels(view: Any, by: Any) -> list[Node]:
    """Return what to split by, one or several; what has no known shape is read now."""
    return [
        node_from(np.asarray(viewed(key)))
        if key.shape is None and not isinstance(key, Ragged)
        else key
        for key in keys_by(view, by)
    ]
