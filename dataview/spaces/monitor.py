"""Models, costs and what is watched while they are trained, as they ask for data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from dataview.errors import explained
from dataview.plan.kinds import Placeholder
from dataview.spaces import batch as batches
from dataview.spaces.base import Space
from dataview.spaces.composite import CompositeSpace, parts_of
from dataview.spaces.data_specs import DataSpecs, Source, checked_specs
from dataview.spaces.mapping import DataSpecsMapping


def _missing(inheriting: object, name: str) -> NotImplementedError:
    """Return the error for a method that a class has only from a protocol."""
    return NotImplementedError(f"{type(inheriting).__name__} has no {name}(...); define it")


@runtime_checkable
class Model(Protocol):
    """The methods of a model: which field it takes, in which space, and what to watch in it.

    Your class need not inherit from this one.  `isinstance(model, dv.specs.Model)` asks whether an
    object has all of the methods.
    """

    def get_input_space(self) -> Space:
        """Return the space of its input."""
        raise _missing(self, "get_input_space")

    def get_input_source(self) -> Source:
        """Return the name of the field that is its input."""
        raise _missing(self, "get_input_source")

    def get_output_space(self) -> Space:
        """Return the space of what it predicts."""
        raise _missing(self, "get_output_space")

    def get_monitoring_channels(self, data: Any) -> Mapping[str, Any]:
        """Return the values to watch, by name, for data as `get_monitoring_channels_data` asks."""
        raise _missing(self, "get_monitoring_channels")

    def get_monitoring_channels_data(self) -> Any:
        """Return the specifications of that data, `(NullSpace(), "")` for none."""
        raise _missing(self, "get_monitoring_channels_data")


@runtime_checkable
class Cost(Protocol):
    """The methods of a cost: which data it takes, its value for them, and the gradients.

    Your class need not inherit from this one.  `isinstance(cost, dv.specs.Cost)` asks whether an
    object has all of the methods.
    """

    def get_data_specs(self, model: Any) -> Any:
        """Return the specifications of the data, `(NullSpace(), "")` for none."""
        raise _missing(self, "get_data_specs")

    def expr(self, model: Any, data: Any) -> Any:
        """Return the cost."""
        raise _missing(self, "expr")

    def get_gradients(self, model: Any, data: Any) -> Any:
        """Return the gradients of the cost by the parameters of the model."""
        raise _missing(self, "get_gradients")


def combine(*specs: Any) -> DataSpecs:
    """Return one specification for several: its batches are tuples with a part for each.

    Each is a pair of space and source, or an object that has such a pair as `data_specs`.

    >>> from dataview.spaces.composite import NullSpace
    >>> from dataview.spaces.vector import VectorSpace
    >>> combine((VectorSpace(3), "features"), (NullSpace(), "")).source
    ('features', '')
    """
    pairs = [checked_specs(pair) for pair in specs]
    spaces = CompositeSpace([pair.space for pair in pairs])
    return DataSpecs(spaces, tuple([pair.source for pair in pairs]))


class MonitorChannel:
    """A value to watch while a model is trained, such as its error on the test set.

    `graph_inputs` are symbols, as `make_batch` returns them for the space of `data_specs`.  `val`
    is a view computed of them, or a number; or a tuple, a list or a mapping of these.  Calling the
    channel returns the value for `dataset`, `value_of(data)` the value for other data.

    >>> import dataview as dv
    >>> x = dv.spaces.VectorSpace(2).make_batch("x")
    >>> specs = (dv.spaces.VectorSpace(2), "input")
    >>> d = dv.View(input=[[1, 2], [3, 4]])
    >>> largest = MonitorChannel(x, x._max(), "largest", specs, d)
    >>> largest()
    np.float64(4.0)
    """

    @explained()
    def __init__(
        self, graph_inputs: Any, val: Any, name: str, data_specs: Any, dataset: Any = None
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"a channel's name is a text; got {name!r}")
        self.data_specs = checked_specs(data_specs)
        self.mapping = DataSpecsMapping(self.data_specs)
        if isinstance(graph_inputs, list):
            several = isinstance(self.data_specs.space, CompositeSpace)
            remedy = "make it a tuple" if several else "give the symbol without the list"
            raise TypeError(f"channel {name!r}: graph_inputs is a list; {remedy}")
        self.data_specs.space.validate(graph_inputs)
        _check_symbols(name, graph_inputs, val, self.data_specs)
        if dataset is not None and self.mapping.unique and not hasattr(dataset, "_get"):
            raise TypeError(
                f"channel {name!r}: dataset= is a view that has the fields of {self.data_specs!r}; "
                f"got {type(dataset).__name__}; dv.View(name=data) makes a view of arrays"
            )
        self.graph_inputs = graph_inputs
        self.val = val
        self.name = name
        self.dataset = dataset

    def __repr__(self) -> str:
        return f"MonitorChannel({self.name!r}, {self.data_specs!r})"

    def value_of(self, data: Any) -> Any:
        """Return the value for a batch, of views or arrays, as `data_specs` asks for it."""
        self.data_specs.space.validate(data)
        both = map(batches.leaves_of, (self.graph_inputs, data))
        return batches.bound_to(self.val, [p for p in zip(*both, strict=True) if p[0] is not None])

    def __call__(self) -> Any:
        """Return the value for the dataset."""
        if not self.mapping.unique:
            return self.value_of(self.mapping.nest(()))
        if self.dataset is None:
            raise ValueError(f"channel {self.name!r} has no dataset; value_of(data) takes data")
        return self.value_of(self.dataset._get(self.data_specs))


def _check_symbols(channel: str, inputs: Any, val: Any, specs: DataSpecs) -> None:
    """Raise unless each symbol stands for one source in one space, and a value needs no others."""
    for leaf in batches.leaves_of(val):
        if callable(leaf) and not batches.is_symbolic(leaf):
            raise TypeError(
                f"channel {channel!r}: val is a view, a number, or several; got {leaf!r}; call it"
            )
    known: dict[str, Any] = {}
    for space, source, symbols in parts_of(*specs, inputs):
        for number, symbol in enumerate(batches.leaves_of(symbols)):
            node = batches.unwrapped(symbol)
            if not isinstance(node, Placeholder):
                raise TypeError(
                    f"channel {channel!r}: graph_inputs are symbols, as space.make_batch(name) "
                    f"makes them; got {symbol!r}"
                )
            place = (space, source, number)
            if known.setdefault(node.name, place) != place:
                raise ValueError(
                    f"channel {channel!r}: two of the graph_inputs are named {node.name!r}, for "
                    f"{known[node.name][1]!r} and {source!r}, and data are given by name; "
                    "CompositeSpace(...).make_batch(name) names each differently"
                )
    others = [name for name in batches.symbols_in(val) if name not in known]
    if others:
        raise ValueError(
            f"channel {channel!r}: val is computed of {', '.join(map(repr, others))} too, which "
            f"graph_inputs do not have: {', '.join(map(repr, known)) or 'none'}"
        )
