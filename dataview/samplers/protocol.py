"""What a sampler is, what it may ask of the data, and the order that it returns."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from dataview.exchange import in_parts, is_view
from dataview.index.permutation import SEEDS
from dataview.plan.node import Part

Seed: TypeAlias = int | str | Sequence[int | str]
Key: TypeAlias = tuple[int | str, ...]
Function: TypeAlias = Callable[[np.ndarray], np.ndarray]

AHEAD = 2**16
"""At most so many positions are computed ahead when rows are asked for in order."""

SHORT = 2**12
"""An order of so many positions is computed as a whole."""


class Data(Protocol):
    """What a sampler may ask of a dataset."""

    @property
    def count(self) -> int:
        """The number of rows."""
        ...

    @property
    def parts(self) -> tuple[int, ...]:
        """The lengths of the parts in which the rows are stored."""
        ...

    @property
    def chunk(self) -> int:
        """How many rows are read together, such as those of a chunk in a file."""
        ...

    def expect(self, by: Any, several: bool = False) -> None:
        """Note that values will be asked for, which are then those of now.

        They are one for each row, or `several`, as labels may be.
        """
        ...

    def values(self, by: Any) -> np.ndarray:
        """Return one value for each row: of a field, by name, or of an array."""
        ...

    def labels(self, by: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the row of each label, and the labels; a row without one is not among them."""
        ...


class Cuts(Protocol):
    """Where an order is cut into batches, by a sampler that decides it."""

    @property
    def count(self) -> int:
        """The number of batches."""
        ...

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the first position of a batch, and the one past its last."""
        ...

    def number(self, position: int) -> int:
        """Return the number of the batch that has a position."""
        ...


class Order(Part):
    """The rows of one epoch: `length` positions (None: endless), each with its row number.

    `function` gives the rows at any positions.  `cuts` is None where the batch size decides about
    batches.  `forward` marks the orders that follow an iterable or a function of the user: they
    are drawn from the start, so that resuming draws their row numbers again.  `epoch` is how many
    positions of an endless order count as one, if not as many as there are rows.  `sure` is false
    for an order that may be another one when it is made again.  `then` makes the order of the next
    epoch, if that follows from this one.
    """

    __slots__ = ("_ahead", "cuts", "epoch", "forward", "function", "length", "sure", "then")
    parts = ("function",)

    def __init__(
        self,
        function: Function,
        length: int | None,
        cuts: Cuts | None = None,
        forward: bool = False,
        epoch: int | None = None,
        sure: bool = True,
        then: Callable[[], Order] | None = None,
    ) -> None:
        self.function = function
        self.sure = sure
        self.then = then
        self.length = length
        self.cuts = cuts
        self.forward = forward
        self.epoch = epoch
        self._ahead = (0, np.empty(0, np.intp))

    @property
    def reads(self) -> bool:
        """Whether data may have to be read to know the rows."""
        return getattr(self.function, "reads", False)

    def __reduce__(self) -> tuple[Any, ...]:
        facts = self.length, self.cuts, self.forward, self.epoch, self.sure
        return Order, (self.function, *facts)

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Return the row numbers at positions of any shape; a run of them is computed ahead."""
        flat = positions.reshape(-1)
        if 1 < len(flat) <= AHEAD and flat[-1] - flat[0] == len(flat) - 1:
            start = int(flat[0])
            if (flat == np.arange(start, start + len(flat))).all():
                return self.block(start, start + len(flat)).reshape(positions.shape)
        return self.function(positions)

    def block(self, start: int, stop: int) -> np.ndarray:
        """Return the row numbers at the positions from `start` to `stop`, not to be written to.

        >>> Order(lambda positions: positions * 10, 5).block(2, 4)
        array([20, 30])
        """
        first, block = self._ahead  # one tuple, so that threads do not disturb each other
        if start < first or stop > first + len(block):
            first, block = self._compute(start, stop, first, len(block))
        return block[start - first : stop - first]

    def _compute(self, start: int, stop: int, first: int, count: int) -> tuple[int, np.ndarray]:
        """Compute rows from a position on, more of them ahead the longer it goes in order."""
        if not 0 <= start <= stop or (self.length is not None and stop > self.length):
            raise IndexError(f"positions {start} to {stop} of an order of length {self.length}")
        ahead = 8 * count if first <= start <= first + count else 0
        end = max(stop, start + min(max(ahead, 4 * (stop - start)), AHEAD))
        if self.forward:  # whose numbers are drawn no earlier than they are needed
            end = stop
        elif self.length is not None and self.length <= SHORT:
            start, end = 0, self.length
        elif self.length is not None:
            end = min(end, self.length)
        run = getattr(self.function, "block", None)  # quicker than to check each position
        block = self.function(np.arange(start, end)) if run is None else run(start, end)
        block = block.astype(np.intp, copy=False)
        block.flags.writeable = False
        self._ahead = (start, block)
        return start, block


@dataclasses.dataclass(frozen=True, eq=False)
class Sampler:
    """An immutable choice of rows and their order; a pure function of (data, seed, epoch).

    `name` and `version` are part of what the order is computed from: another version of the
    algorithm is another order, and says so.
    """

    name: ClassVar[str] = ""
    version: ClassVar[int] = 1
    takes: ClassVar[str] = ""  # what `by=` gives, where it has to be given
    reads: ClassVar[bool] = True  # whether an order may ask for values, so that it keeps the data
    endless: ClassVar[bool] = False  # whether rows are drawn without end

    @property
    def sized(self) -> bool:
        """Whether the sampler takes the batch size into account."""
        return False

    def order(self, data: Data, seed: Seed = 0, epoch: int = 0) -> Order:
        """Return the order of one epoch."""
        if self.takes:
            data.expect(getattr(self, "by", None), self.takes == "labels")
        return Order(_LateFunction(self, data, self.key(seed, epoch)), self.length(data))

    @property
    def by_parts(self) -> bool:
        """Whether the order depends on the parts in which rows are stored."""
        return False

    @property
    def in_order(self) -> bool:
        """Whether an epoch has all rows as they are stored, with any seed."""
        return False

    @property
    def replays(self) -> bool:
        """Whether an epoch begins where the one before ended, which then has to be drawn first."""
        return False

    def again(self, data: Data, rows: np.ndarray, cuts: Cuts | None, epoch: int) -> Order:
        """Return an order that was saved, as the order of an epoch."""
        return Order(rows.__getitem__, len(rows), cuts, forward=True, sure=False)

    def length(self, data: Data) -> int | None:
        """Return the number of positions of an epoch, None where the order is endless."""
        return None if self.endless and data.count else data.count

    def at(self, data: Data, key: Key) -> Function:
        """Return the function from positions to rows; what it reads is read here."""
        raise NotImplementedError

    def fitted(self, batch_size: int | None, tail: str) -> Sampler:
        """Return the sampler for batches of this size, or raise if it cannot make them."""
        return self

    def settled(self, data: Data) -> Sampler:
        """Return the sampler with what it would otherwise ask how the data are stored."""
        return self

    @property
    def chunks(self) -> tuple[int, int] | None:
        """How long chunks are, and how many of them rows are taken from at a time."""
        return None

    def limited(self, samples: int | None, batches: int | None) -> Sampler:
        """Return the sampler for epochs of so many samples or batches; None is for all."""
        return self

    def key(self, seed: Seed, epoch: int) -> Key:
        """Return the key from which the random numbers of an epoch are computed."""
        plain = checked_seed(seed)
        parts = plain if isinstance(plain, tuple) else (plain,)
        checked_number("epoch", epoch, 0)
        return (len(parts), *parts, int(epoch), self.name, self.version)

    @property
    def options(self) -> dict[str, Any]:
        """The options as plain data, what is long as a text that differs for other values."""
        return {part.name: _plain(getattr(self, part.name)) for part in dataclasses.fields(self)}

    def __repr__(self) -> str:
        given = (
            f"{part.name}={_shown(getattr(self, part.name))}"
            for part in dataclasses.fields(self)
            if not _is_default(getattr(self, part.name), part.default)
        )
        return f"samplers.{self.name.replace('-', '_')}({', '.join(given)})"


def on_nodes(sampler: Any, unwrapped: Callable[[Any], Any]) -> Any:
    """Return a sampler, or samplers by field, with nodes for the views among their options."""
    if isinstance(sampler, Mapping):
        return {name: on_nodes(one, unwrapped) for name, one in sampler.items()}
    if not isinstance(sampler, Sampler):
        return sampler
    given = {part.name: getattr(sampler, part.name) for part in dataclasses.fields(sampler)}
    found = {
        name: on_nodes(value, unwrapped) if isinstance(value, Sampler) else unwrapped(value)
        for name, value in given.items()
        if name in ("by", "sampler")
    }
    changes = {name: value for name, value in found.items() if value is not given[name]}
    return dataclasses.replace(sampler, **changes) if changes else sampler


class _LateFunction(Part):
    """The function of an order, built when the first row is asked for; a pickle builds it again."""

    __slots__ = ("data", "function", "key", "sampler")

    def __init__(self, sampler: Sampler, data: Data, key: Key) -> None:
        self.sampler = sampler
        self.data = data
        self.key = key
        self.function: Function | None = None

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Return the rows at these positions."""
        if self.function is None:  # two threads may both build it: they build the same
            self.function = self.sampler.at(self.data, self.key)
        return self.function(positions)

    @property
    def reads(self) -> bool:
        """Whether data may have to be read to know the rows."""
        return self.sampler.reads

    def held(self) -> list[Any]:
        """Return what the data were asked for."""
        return asked_of(self.data)

    def __reduce__(self) -> tuple[Any, ...]:
        data = self.data
        kept = data if self.sampler.reads else _RowCounts(data.count, data.parts)
        return _LateFunction, (self.sampler, kept, self.key)


def asked_of(data: Data) -> list[Any]:
    """Return the photographs of what data were asked for, none of data that take no photographs."""
    return list(getattr(data, "columns", ()))


@dataclasses.dataclass(frozen=True)
class _RowCounts:
    """Stands for the dataset in a pickle of an order that asks for no values."""

    count: int
    parts: tuple[int, ...]

    def expect(self, by: Any, several: bool = False) -> None:
        """Do nothing: there are no values."""

    def values(self, by: Any) -> np.ndarray:
        """Raise: there are no values."""
        raise LookupError(f"the order has been pickled without the data, and asks for {by!r}")

    def labels(self, by: Any) -> tuple[np.ndarray, np.ndarray]:
        """Raise: there are no labels."""
        raise LookupError(f"the order has been pickled without the data, and asks for {by!r}")


def checked_seed(seed: Any) -> int | str | tuple[int | str, ...]:
    """Return a seed as plain data, equal for equal numbers of any kind.

    >>> checked_seed(np.int64(3)), checked_seed([1, "a"])
    (3, (1, 'a'))
    """
    if isinstance(seed, (tuple, list)):
        return tuple(map(_seed_part, seed))
    return _seed_part(seed)


def _seed_part(part: Any) -> int | str:
    if isinstance(part, str):
        return part
    try:
        return int(operator.index(part))
    except TypeError:
        raise TypeError(f"{SEEDS}; got {part!r}") from None


def checked_number(name: str, value: Any, least: int) -> None:
    """Raise for an option that is no integer, or less than it may be."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name}= is an integer; got {value!r}")
    if value < least:
        raise ValueError(f"{name}= is at least {least}; got {value}")


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) is not np.ndarray and value == default)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Sampler):
        return [value.name, value.version, value.options]
    if isinstance(value, Mapping):
        return _plain([list(pair) for pair in value.items()])
    if isinstance(value, Sequence) and not isinstance(value, (range, memoryview)):
        return _listed(value)
    array = _in_memory(value)
    if array is None:
        return _shown(value)
    if array.dtype.hasobject:
        return _listed(array.tolist())
    flat = np.ascontiguousarray(array).reshape(-1)
    return f"<{array.dtype} {array.shape} {_digest(flat.view(np.uint8))}>"


def text_of(values: np.ndarray) -> str:
    """Return a short text that differs for other values.

    >>> text_of(np.array([1, 2])) == text_of(np.array([1, 3]))
    False
    """
    found = _listed(values.tolist(), 0) if values.dtype.hasobject else _plain(values)
    return str(found)


def _listed(values: Any, most: int = 100) -> Any:
    """Return a list as plain data, one of more than `most` as a text that differs for others."""
    if not isinstance(values, Sequence):  # an element without axes
        return _plain(values)
    parts = [*values] if set(map(type, values)) <= _PLAIN else [*map(_plain, values)]
    if len(parts) <= most:
        return parts
    text = repr(tuple(parts) if isinstance(values, tuple) else parts)
    if " at 0x" in text:
        return _shown(values)
    return f"<{type(values).__name__} of {len(values)} {_digest(text.encode())}>"


_PLAIN = {type(None), bool, int, float, str}


def _in_memory(value: Any) -> np.ndarray | None:
    """Return values in memory as an array, whatever library they are of, None for others."""
    if isinstance(value, np.ndarray):
        return value
    is_array = isinstance(value, memoryview) or hasattr(value, "__array__")
    if not is_array or is_view(value) or in_parts(value) is not value:
        return None
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError):  # on another device
        return None


def _shown(value: Any) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"<{value.dtype} {value.shape}>"
    text = repr(value)
    return text if len(text) <= 60 else f"<{type(value).__name__}>"


def _digest(data: Any) -> str:
    """Return a short text that differs for other bytes."""
    import hashlib  # needed for long options alone

    return hashlib.blake2b(data, digest_size=6).hexdigest()


def samples_of_epoch(
    order: Order, count: int, batch_size: int, num_samples: int | None, num_batches: int | None
) -> int:
    """Return the number of samples of an epoch: as many as asked for, or as the order has.

    >>> samples_of_epoch(Order(np.sort, None), 10, 4, None, None)
    10
    >>> samples_of_epoch(Order(np.sort, 9), 9, 4, 5, 2)
    5
    """
    endless = count if order.epoch is None else order.epoch
    whole = endless if order.length is None else order.length
    total = whole if num_samples is None else num_samples
    if order.length is not None and total > order.length:
        raise ValueError(f"the sampler gives {order.length} samples; num_samples={total} is more")
    if num_batches is None:
        return total
    if num_samples is None and order.length is None:
        return num_batches * batch_size
    if num_batches > -(-total // batch_size):
        raise ValueError(
            f"{total} samples make {-(-total // batch_size)} batches of {batch_size}; "
            f"num_batches={num_batches} is more"
        )
    return min(total, num_batches * batch_size)


def batches_of_epoch(cuts: Cuts, num_samples: int | None, num_batches: int | None) -> int:
    """Return the number of batches of an epoch whose sampler decides about them."""
    if num_samples is not None:
        raise ValueError("the sampler decides about the batches; give num_batches=, not samples")
    if num_batches is None:
        return cuts.count
    if num_batches > cuts.count:
        raise ValueError(
            f"the sampler gives {cuts.count} batches; num_batches={num_batches} is more"
        )
    return num_batches
