"""Samples that a function makes by number, of which shape and dtype are unknown at first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from dataview.compute import evaluate, without_mask
from dataview.errors import RaggedError, UndeclaredError, error_at, unknown_field
from dataview.index import (
    Index,
    compose,
    extend,
    identity,
    is_endless,
    is_integer,
    numbers_map,
    parse,
    positions,
)
from dataview.index.dtypes import promoted
from dataview.index.keys import key_text
from dataview.index.shape_texts import shape_text
from dataview.plan.build import at_path, field, record, select, stored, with_fields
from dataview.plan.concat import check_meanings
from dataview.plan.gaps import (
    PRESENT,
    knowing_masks,
    masked_alike,
    masks_in,
    part_at,
    present_or_all,
    with_mask,
)
from dataview.plan.guards import endless, is_whole, no_key
from dataview.plan.kinds import (
    Extents,
    Mapped,
    Record,
    Sampled,
    Stored,
    known_dtype,
    known_shape,
    members,
    size_of,
)
from dataview.plan.node import Evaluate, Node
from dataview.plan.ragged import Ragged
from dataview.plan.walk import below, rebuilt
from dataview.samples.ragged import AnyLength, common_dtype, fitted_node, likeness, rows_of
from dataview.sources import ArraySource, FunctionSource, Made, Memo, holds, made_so_far, making

_T = TypeVar("_T")

ToNode = Callable[[Any], Node]
"""Turns a sample that the user's code returns into a node."""

SAMPLES_READ = 4
"""So many samples are read to see whether all are alike: the first two, the middle, the last."""

_PROBE = "{what} is unknown until one has been read; write d = d._probe() to read one"


class NumberedSamples(Sampled):
    """Samples that `function` makes by number; `index` says which of its `total` the node has.

    `origin` is the same for all parts of the same samples.  `made` is what functions have made of a
    sample of a loop.
    """

    __slots__ = ("function", "index", "made", "origin", "to_node", "total")

    @property
    def place(self) -> str:
        """Where the samples come from, in a few words."""
        return "function"

    def __init__(
        self, function: Callable[[int], Any], total: int, index: Index, to_node: ToNode
    ) -> None:
        super().__init__()
        self.function = function
        self.origin = object()
        self.made: Made | None = None
        self.total = total
        self.index = index
        self.to_node = to_node

    @property
    def count(self) -> int | None:
        """The number of samples, None for one alone."""
        return self.index.shape[0] if self.index.shape else None

    @property
    def extents(self) -> Extents | None:
        """The number of samples and what is known of each; None for one sample not looked at."""
        return None if self.count is None else super().extents

    def part(self, index: Index) -> NumberedSamples:
        """Return the samples that an index on the rows alone selects."""
        if len(index.maps) != 1 or len(index.shape) > 1:
            raise UndeclaredError(_PROBE.format(what="the shape of the samples"))
        return self.replaced(index=compose(self.index, index))

    @property
    def maker(self) -> Any:
        """What all parts of the same samples have in common."""
        return self.origin

    @property
    def deterministic(self) -> bool:
        """Whether the function makes the same sample of a number: unless it says it does not."""
        return is_deterministic(self.function)

    def numbers(self) -> np.ndarray:
        """Return the numbers of the samples."""
        found = positions(self.index.maps[0], self.index.shape)
        return np.broadcast_to(found, self.index.shape)

    def sample(self, number: int) -> Node:
        """Return one sample as a node, made once in a request; an error names it."""
        made = made_so_far()
        found: Node | None = None if made is None else made.find(self.origin, (number,))
        if found is None:
            try:
                found = self.to_node(self.function(number))
            except Exception as error:
                where = f"sample {number}, made by {name_of(self.function)}"
                raise error_at(error, where) from error
            if made is not None:
                made.keep(self.origin, (number,), found)
        return found

    def answer(self, evaluate: Evaluate, memo: Memo) -> np.ndarray:
        """Return the one sample, or all of them stacked."""
        if self.count is None:
            with self.remembered():
                return evaluate(self.sample(int(self.numbers())))
        if is_endless(self.count):
            raise endless("calling")
        numbers = self.numbers().tolist()
        with self.ahead(numbers):
            return stack([evaluate(self.sample(number)) for number in numbers])

    def ahead(self, numbers: Sequence[int]) -> AbstractContextManager[None]:
        """Return the context for samples that are made in this order; a function may prepare."""
        prepare = getattr(self.function, "ahead", None)
        if prepare is None or len(numbers) < 2:
            return nullcontext()
        found: AbstractContextManager[None] = prepare(numbers)
        return found

    def probed(self) -> Node:
        """Return the samples as nodes that know shape, dtype and fields, reading a few."""
        if self.count is None:
            with self.remembered():
                return self.sample(int(self.numbers()))
        first = self.sample(self.first_number())
        others = if_made(self.sample, self.some_numbers()[1:])
        return self.all_like(likeness([first, *others]))

    def some_numbers(self) -> list[int]:
        """Return the numbers of the few samples that tell what all are like."""
        count = self.count or 0
        places = range(SAMPLES_READ) if is_endless(count) else (0, 1, count // 2, count - 1)
        wanted = dict.fromkeys(place for place in places if place < count)
        return [int(self.part(parse(place, (count,))).numbers()) for place in wanted]

    def all_like(self, sample: Node) -> Node:
        """Return the samples as nodes with the shape, dtype and fields of the sample given."""
        made = self
        if isinstance(sample, Record) and masks_in(sample.fields):
            made = self.replaced(to_node=_Masked(self.to_node, sample), origin=object())
        read = _Members(frozenset(_paths_with_gaps(sample)))
        return self.rows_of(_made_source(made, sample, read, bytes_of(sample)))

    def remembered(self) -> AbstractContextManager[None]:
        """Return the context in which a sample of a loop is made, or has been."""
        return nullcontext() if self.made is None else making(self.made)

    def first_number(self) -> int:
        """Return the number of the first sample, or raise if there is none."""
        if not self.count:
            raise UndeclaredError("there are no samples to learn from")
        return int(self.part(parse(0, (self.count,))).numbers())

    def rows_of(self, whole: Node) -> Node:
        """Return the rows of a node of `total` samples that are those of these samples."""
        rest = () if isinstance(whole, RaggedSamples) else known_shape(whole)[1:]
        return select(whole, extend(self.index, rest))


def samples_behind(node: Stored) -> NumberedSamples | None:
    """Return the samples of which a node has a member, as those that `probed` has looked at."""
    source = node.source.root
    made = getattr(source.sample, "__self__", None) if isinstance(source, FunctionSource) else None
    return made if isinstance(made, NumberedSamples) else None


class RaggedSamples(NumberedSamples):
    """One member of the samples of `node`, of which the lengths differ: `like` says what is known.

    How long each is is known when it has been made.
    """

    __slots__ = ("like", "next_pass", "path")
    is_of_arrays = True

    def __init__(self, node: NumberedSamples, path: tuple[str, ...], like: AnyLength) -> None:
        super().__init__(node.function, node.total, identity((node.total,)), node.to_node)
        self.node = node
        self.path = path
        self.like = like
        self.dtype = like.dtype
        self.next_pass: Any = None

    def forget(self) -> None:
        """Forget what has been remembered, and who waits for all samples to be made."""
        super().forget()
        self.next_pass = None

    @property
    def row_extents(self) -> Extents:
        """The shape of each sample, with None for lengths that differ."""
        return self.like.extents

    @property
    def extents(self) -> Extents:
        """The number of samples and the shape of each, with None for lengths that differ."""
        return self.row_extents if self.count is None else (self.count, *self.row_extents)

    @property
    def samples(self) -> NumberedSamples:
        """The samples of which this is a member."""
        assert isinstance(self.node, NumberedSamples)
        return self.node

    @property
    def place(self) -> str:
        """Where the samples come from, of which this is a member."""
        return self.samples.place

    @property
    def maker(self) -> Any:
        """What other members of the same samples are made by."""
        return self.samples.sample

    def shapeless(self) -> Exception:
        """Return the error for a question that takes the lengths of all samples."""
        return super().shapeless() if self.count is None else lengths_unknown(self.extents)

    def at(self, key: Any) -> Node | None:
        """Return None for a key on rows alone, which others answer; refuse one on what differs."""
        entries = key if isinstance(key, tuple) else (key,)
        if len(entries) < 2 or is_integer(entries[0]):
            return None
        if all(entry is Ellipsis or is_whole(entry) for entry in entries[1:]):
            return self.part(parse(entries[0], (self.count or 0,)))
        raise no_key(f"the rows differ in length, so the key {key_text(key)} is not possible")

    def sample(self, number: int) -> Node:
        """Return the member of one sample; an error names it."""
        found = at_path(self.samples.sample(number), self.path)
        named = f", field {'.'.join(self.path)!r}" if self.path else ""
        return fitted_node(found, self.like, f"sample {number}{named}")

    def in_memory(self) -> Ragged:
        """Return the samples as rows in memory."""
        if is_endless(self.count or 0):
            raise endless("making all samples")
        numbers = self.numbers().tolist()
        with self.remembered(), self.samples.ahead([*dict.fromkeys(numbers)]):
            made = {number: self.sample(number) for number in dict.fromkeys(numbers)}
        return rows_of([made[number] for number in numbers], self.like, "sample")

    def joined(self, nodes: Sequence[Node]) -> Node | None:
        """Return the rows of several nodes one after the other, made when they are needed."""
        like = _joined_likeness([likeness_of(node) for node in nodes])
        return RaggedSamples(JoinedSamples(tuple(nodes)), (), like)

    def told_shapes(self, numbers: np.ndarray) -> np.ndarray | None:
        """Return how long the axes of some samples are, if that is known without making them."""
        return None

    def rows(self, numbers: np.ndarray) -> Ragged:
        """Return some of the samples, by their numbers among those there are, as rows in memory."""
        some: Any = self.part(Index((len(numbers),), [numbers_map(numbers)]))
        return some.in_memory()  # type: ignore[no-any-return]

    def answer(self, evaluate: Evaluate, memo: Memo) -> np.ndarray:
        """Return the one sample, or all of them as an array of arrays."""
        if self.count is not None:
            return evaluate(self.in_memory())
        with self.remembered():
            return evaluate(self.sample(int(self.numbers())))

    def probed(self) -> Node:
        """Return the samples, of which all is known that can be, or the one sample."""
        return super().probed() if self.count is None else self


class JoinedSamples(NumberedSamples):
    """The rows of several nodes one after the other, as samples that are made by number."""

    __slots__ = ("nodes", "starts")
    parts: ClassVar[tuple[str, ...]] = ("nodes",)

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self.starts = np.cumsum([0, *(node.count or 0 for node in nodes)])
        total = int(self.starts[-1])
        super().__init__(_fail, total, identity((total,)), _fail)
        self.nodes = nodes

    def sample(self, number: int) -> Node:
        """Return one row of one of the nodes."""
        which = int(self.starts.searchsorted(number, "right")) - 1
        node = self.nodes[which]
        shape = known_shape(node) if node.shape is not None else (node.count or 0,)
        one = select(node, parse(number - int(self.starts[which]), shape))
        return one.sample(int(one.numbers())) if isinstance(one, RaggedSamples) else one


def _fail(number: Any) -> Any:
    raise AssertionError("joined samples are made by those that are joined")


def likeness_of(node: Node) -> AnyLength:
    """Return what is known of the rows of a node, with its metadata."""
    if isinstance(node, RaggedSamples):
        like = node.like
    else:
        row = likeness_of(node.values) if isinstance(node, Ragged) and node.is_nested else None
        like = AnyLength((node.extents or ())[1:], known_dtype(node), row)
    return like if like.meta is node.meta else like.replaced(meta=node.meta)


def known_of_rows(rows: Node, sample: Node) -> Node:
    """Return a row, with what is known of all rows in place of parts that differ in length."""
    if isinstance(rows, (Ragged, RaggedSamples)):
        return likeness_of(rows)
    if not isinstance(rows, Record):
        return sample
    own = {name: field(sample, name) for name in sample.fields}
    known = {name: known_of_rows(field(rows, name), part) for name, part in own.items()}
    if all(known[name] is own[name] for name in own):
        return sample
    return record(known, 0).replaced(meta=sample.meta)


def _joined_likeness(likes: Sequence[AnyLength]) -> AnyLength:
    """Return what is known of rows of several kinds together, or raise if they are not alike."""
    first = likes[0]
    dtype = common_dtype([known_dtype(like) for like in likes])
    for number, like in enumerate(likes):
        have = shape_text(like.extents), shape_text(first.extents)
        if len(like.extents) != len(first.extents) or bool(like.row) is not bool(first.row):
            raise ValueError(
                f"the rows of view {number} have shape {have[0]}, those of view 0 {have[1]}; rows "
                "to be joined are alike"
            )
        if not holds(dtype, known_dtype(like)):
            raise TypeError(
                f"the rows of view {number} are {like.dtype}, those of view 0 {first.dtype}; "
                "_fields= declares a dtype for both"
            )
    lengths = zip(*(like.extents for like in likes), strict=True)
    rows = [like.row for like in likes if like.row is not None]
    return AnyLength(
        tuple(own[0] if len({*own}) == 1 else None for own in lengths),
        dtype,
        _joined_likeness(rows) if rows else None,
    )


def made_sample(sample: Node) -> Node:
    """Return a sample for a function of it: how long its parts are is known there."""
    if isinstance(sample, NumberedSamples) and not isinstance(sample, RaggedSamples):
        return sample.probed()

    def made(part: Node, old: Node) -> Node:
        if isinstance(part, RaggedSamples) and part.count is None:
            with part.remembered():
                return part.sample(int(part.numbers()))
        return part if part is old else with_fields(part, part.fields)

    found: Node = rebuilt([sample], made, Node.attached)[0]
    return found


def if_made(make: Callable[[int], _T], numbers: Iterable[int]) -> Iterator[_T]:
    """Yield what is made of some numbers, without those that fail: their turn comes later."""
    for number in numbers:
        try:
            yield make(number)
        except Exception:
            continue


def lengths_unknown(extents: Extents | None) -> Exception:
    """Return the error for what takes the lengths of all samples."""
    return RaggedError(
        f"the samples of shape {shape_text(extents or ())} differ in length, and a length is known "
        "once its sample is made; _freeze() makes all and keeps them in memory, _map(function) "
        "and a loader go through them one by one"
    )


def _made_source(
    node: NumberedSamples, sample: Node, read: _Members, size: int, path: tuple[str, ...] = ()
) -> Node:
    """Return the node of all samples that are like this one, of `size`; one source per member."""
    if isinstance(sample, Record):
        named = {
            name: _made_source(node, field(sample, name), read, size, (*path, name))
            for name in sample.fields
        }
        found = record(named, 1)
        return knowing_masks(found).replaced(meta=sample.meta)
    if isinstance(sample, AnyLength):
        return RaggedSamples(node, path, sample)
    whole = _source_of_member(node, sample, read, size, path).replaced(meta=sample.meta)
    if not sample.has_gaps:
        return whole
    present = present_or_all(sample)
    return with_mask(whole, _source_of_member(node, present, read, size, (*path, PRESENT)))


def _source_of_member(
    node: NumberedSamples, like: Node, read: _Members, size: int, path: tuple[str, ...]
) -> Node:
    """Return the node of one member of all samples."""
    shape, dtype = (node.total, *known_shape(like)), known_dtype(like)
    how: Any = read, _members_read, node.deterministic, size, node.ahead
    return stored(FunctionSource(node.sample, shape, dtype, path, *how))


_NO_MASK = (
    "the first ones read lacked nothing; declare a dtype that can tell what is missing by "
    "_fields=, as float does, or return view._fillna(0)"
)


class _Members(NamedTuple):
    """Reads a member of a sample; of some members, by their paths, another one tells the gaps."""

    with_gaps: frozenset[tuple[str, ...]]

    def __call__(self, sample: Node, path: tuple[str, ...]) -> np.ndarray:
        """Return the data of a member."""
        try:
            part = part_at(sample, path)
        except KeyError:
            raise unknown_field(".".join(path), sample.fields, "this sample") from None
        if part.has_gaps and path not in self.with_gaps and not isinstance(part, Record):
            part = without_mask(part, known_dtype(part), _NO_MASK)
        return evaluate(part)


def _paths_with_gaps(sample: Node, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths to the arrays of a sample that lack something."""
    if isinstance(sample, Record):
        for name in sample.fields:
            yield from _paths_with_gaps(field(sample, name), (*path, name))
    elif sample.has_gaps:
        yield path


class _Masked(NamedTuple):
    """Turns what a function returns into a sample that has masks where others have them."""

    to_node: ToNode
    like: Node

    def __call__(self, value: Any) -> Node:
        """Return the sample."""
        return masked_alike([self.like, self.to_node(value)])[1]


def _members_read(sample: Any, memo: Memo) -> Iterable[tuple[str, ...]]:
    """Return which members of a sample an evaluation reads; they are looked up once."""

    def into(part: Any) -> list[Any]:  # what functions read has evaluations of its own
        return [] if isinstance(part, (Mapped, Sampled)) else part.made_of()

    if "members" not in memo:
        found: dict[Any, set[tuple[str, ...]]] = {}
        for part in below(memo.get("roots", ()), into):
            source = part.source.root if isinstance(part, Stored) else None
            if isinstance(source, FunctionSource):
                found.setdefault(source.sample, set()).add(source.members)
        memo["members"] = found
    members: dict[Any, set[tuple[str, ...]]] = memo["members"]
    return members.get(sample, ())


def bytes_of(sample: Node) -> int:
    """Return how many bytes a sample has, as far as that is known without making it."""
    if isinstance(sample, Record):
        return sum(bytes_of(part.node) for part in members(sample).values())
    if sample.shape is None or sample.dtype is None:
        return 0  # what differs in length, too
    return size_of(sample.shape) * sample.dtype.itemsize


def stack_nodes(samples: Sequence[Node], like: Node | None = None) -> Node:
    """Return samples as the rows of one node, with their fields; `like` tells which are ragged."""
    if any(set(sample.fields) != set(samples[0].fields) for sample in samples[1:]):
        samples = masked_alike(samples)
    first = samples[0]
    if isinstance(first, Record):
        likes = (
            {n: part.node for n, part in members(like).items()} if isinstance(like, Record) else {}
        )
        parts = {
            name: stack_nodes([field(s, name) for s in samples], likes.get(name))
            for name in first.fields
        }
        found = record(parts, first.rank + 1)
        return knowing_masks(found).replaced(meta=first.meta)
    check_meanings(samples)
    if isinstance(like, AnyLength):
        return rows_of(samples, like, "row").replaced(meta=first.meta)
    rows: Node = stored(ArraySource(stack([evaluate(sample) for sample in samples])))
    rows = rows.replaced(meta=first.meta)
    if any(sample.has_gaps for sample in samples):
        present = stack([evaluate(present_or_all(sample)) for sample in samples])
        rows = with_mask(rows, stored(ArraySource(present), False))
    windows = first.fields.windows_only(1, lambda axis: True)
    return with_fields(rows, windows) if windows.named else rows


def stack(samples: list[np.ndarray]) -> np.ndarray:
    """Return samples as one array."""
    if not samples:
        return np.empty(0)
    first = samples[0]
    for number, sample in enumerate(samples):
        parts = [("", sample.shape, first.shape)]
        for name in (sample.dtype.names or ()) if sample.dtype != first.dtype else ():
            parts.append((f"field {name!r}: ", sample.dtype[name].shape, first.dtype[name].shape))
        for where, own, others in parts:
            if own != others:
                raise ValueError(
                    f"{where}sample {number} has shape {own}, sample 0 {others}: they do not make "
                    "one array; view._probe() finds which lengths differ, and iterating over the "
                    "view gives each as it is"
                )
    if all(one.dtype == first.dtype for one in samples):  # the order of bytes stays
        return np.stack(samples, dtype=None if first.dtype.isnative else first.dtype)
    return np.stack(samples, dtype=promoted(*[one.dtype for one in samples]))


def is_deterministic(function: Any) -> bool:
    """Whether a user's function returns the same for the same: unless it says it does not."""
    return bool(getattr(function, "deterministic", True))


def name_of(function: Any) -> str:
    """Return what to call a user's function in a message."""
    return str(getattr(function, "__qualname__", None) or type(function).__name__)
