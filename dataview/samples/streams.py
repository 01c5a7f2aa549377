"""Streams of samples that are read in order, and the samples of any view.

Nothing is known of a sample before one was read, so shape and dtype are None; `probed` reads one
sample and returns a node that knows them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dataview.errors import StreamError, UndeclaredError, error_at
from dataview.index import Index, is_endless, is_integer, parse
from dataview.index.progress import begin
from dataview.plan.build import at_path, field, record, select
from dataview.plan.fields import NO_FIELDS, Attached, Fields
from dataview.plan.gaps import masks_in, present_in, present_or_all, tell_masks, told
from dataview.plan.guards import calls, endless, misfit
from dataview.plan.kinds import Extents, Lifted, Record, Reduction, Sampled, known_shape, members
from dataview.plan.node import Argument, Evaluate, Node
from dataview.plan.photographs import Photograph
from dataview.plan.ragged import Ragged
from dataview.plan.symbols import check_bound
from dataview.plan.walk import below, rebuilt
from dataview.samples.arriving import Row, RowViews, field_of, pool_of, sample_at, together
from dataview.samples.in_order import (
    ArrangedSamples,
    Block,
    ComputedSamples,
    FieldSamples,
    LikeSamples,
    OneSample,
    PresentSamples,
    Samples,
    blocks_of,
    origin_of,
    read_once,
)
from dataview.samples.metadata import described, noted_as
from dataview.samples.numbered import (
    SAMPLES_READ,
    RaggedSamples,
    is_deterministic,
    known_of_rows,
    lengths_unknown,
    likeness_of,
    made_sample,
    name_of,
    stack,
)
from dataview.samples.once import keeper
from dataview.samples.passes import IteratorSamples, RepeatedSamples, ShuffledSamples, SlicedSamples
from dataview.samples.ragged import AnyLength, is_unlike, likeness, rows_of
from dataview.samples.row_functions import guarded
from dataview.sources import Memo

ROWS_AT_ONCE = 1 << 14
"""So many rows of files are read together where all samples are asked for."""


class Stream(Sampled):
    """Samples that come in order and cannot be asked for by number.

    `sample` is like each of them, None if nothing is known of one.  Then what is elementwise can be
    computed of each as it comes, and a statistic in one pass.
    """

    __slots__ = ("next_pass", "sample", "samples")
    parts: ClassVar[tuple[str, ...]] = ("samples", "sample")
    lifts = True

    def __init__(self, samples: Samples, sample: Node | None = None) -> None:
        named: dict[str, Attached] = {}
        if sample is not None:
            for name in sample.fields:
                part = Stream(FieldSamples(samples, name), field(sample, name))
                named[name] = Attached(part, None)
            tell_masks(named, masks_in(sample.fields))
        super().__init__(Fields(named) if named else NO_FIELDS)
        if sample is not None:
            self.dtype, self.meta = sample.dtype, sample.meta
            if sample.has_gaps and not isinstance(sample, Record):
                told(self, Stream(PresentSamples(samples), present_or_all(sample)))
        self.samples = samples
        self.sample = sample
        self.next_pass: Callable[[], Any] | None = None

    def forget(self) -> None:
        """Forget what has been remembered, and who waits for all samples to be read."""
        super().forget()
        self.next_pass = None

    @property
    def row_extents(self) -> Extents | None:
        """What is known of the shape of each sample, if one was read."""
        return None if self.sample is None else self.sample.extents

    @property
    def passes(self) -> bool:
        """Whether a sample was read or declared."""
        known = self.sample
        return known is not None and known.shape is not None and known.dtype is not None

    def shapeless(self) -> Exception:
        """Return the error for a question that needs the number of samples, or what they are."""
        if self.sample is not None and is_unlike(self.sample):
            return lengths_unknown(self.extents)
        if not self.passes:
            return super().shapeless()
        return UndeclaredError(
            "the number of samples of a stream is unknown until all have been read; each sample is "
            "computed with what fits one sample, or with another stream; what needs all of them is "
            "asked of view[:n]._freeze(), which keeps so many"
        )

    def over(self, samples: Samples) -> Stream:
        """Return the stream of other samples that are like these, with the metadata of these."""
        found = Stream(samples, self.sample)
        _describe(found, self)
        return found

    @property
    def one(self) -> Node:
        """What stands for any sample in an expression of samples."""
        if isinstance(self.samples, ComputedSamples):
            return self.samples.expression
        return OneSample(self.samples, self.sample, self.mask)

    def as_rows(self, operands: tuple[Argument, ...]) -> Lifted:
        """Return this stream, and the operands of a step for one sample, None if one does not fit.

        Each operand is a stream of samples with as many axes, or is the same for all samples.
        """
        axes: set[int] = set()
        most = 0
        for operand in operands:
            if isinstance(operand, Stream):
                if not operand.passes:
                    return None
                axes.add(len(known_shape(operand.one)))
            elif isinstance(operand, Node):
                if operand.shape is None or isinstance(operand, Sampled):
                    return None
                most = max(most, len(operand.shape))
        if len(axes) > 1 or most > max(axes):
            return None
        return self, tuple(o.one if isinstance(o, Stream) else o for o in operands)

    def of_rows(self, rows: Node) -> Node:
        """Return the stream of what is computed of each sample."""
        mask, found = present_in(rows), Stream(ComputedSamples(rows), rows)
        return found if mask is None else told(found, self.of_rows(mask))

    @property
    def pass_key(self) -> Hashable:
        """What is equal for all that is computed of fields of the same streams."""
        if not self.passes:
            return None
        if isinstance(self.samples, ComputedSamples):
            return frozenset(self.samples.streams())
        return frozenset([id(origin_of(self.samples)[0])])

    def blocks(
        self, nodes: Sequence[Sampled], sizes: Sequence[int]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yield all samples of streams, in arrays of so many, as they come in one pass."""
        streams = [node for node in nodes if isinstance(node, Stream)]
        if any(stream.samples.endless for stream in streams):
            raise endless("a statistic")
        likes = [stream.sample for stream in streams]
        blocks = [Block(size, like) for size, like in zip(sizes, likes, strict=True) if like]
        if len(streams) == 1:
            yield from blocks_of(zip(self.samples.rows(), strict=False), blocks)
            return
        names = [*map(str, range(len(streams)))]
        joined: Any = side_by_side(record(dict(zip(names, streams, strict=True)), 1))
        passing = ([field_of(row, name) for name in names] for row in joined.samples.rows())
        yield from blocks_of(passing, blocks)

    def part(self, index: Index) -> Node:
        """Refuse: a stream has no rows to choose from."""
        raise StreamError("a stream is read in order: its samples cannot be asked for by number")

    def answer(self, evaluate: Evaluate, memo: Memo) -> np.ndarray:
        """Return the samples stacked, if they surely end."""
        if not self.samples.finite:
            raise StreamError(
                "the stream may never end, so its data cannot be returned; iterate over it, or "
                "take a slice of it: view[:n]()"
            )
        rows = self._ragged_rows()
        if rows is not None:
            return evaluate(rows)
        if isinstance(self.sample, AnyLength):
            return evaluate(self.in_memory())
        with begin("reading", None):
            return self._stacked(evaluate)

    def _stacked(self, evaluate: Evaluate) -> np.ndarray:
        passing = iter(read_once(self.samples))
        first = next(passing, None)
        if first is None:
            return self._no_samples()
        passing = itertools.chain([first], passing)
        if first.number is None:
            return stack([evaluate(row.sample()) for row in passing])
        blocks = iter(lambda: [*itertools.islice(passing, ROWS_AT_ONCE)], [])
        return np.concatenate([evaluate(together(block)) for block in blocks])

    def in_memory(self) -> Ragged:
        """Return samples that differ in length as rows in memory."""
        assert isinstance(self.sample, AnyLength)
        return rows_of([row.sample() for row in read_once(self.samples)], self.sample, "sample")

    def _ragged_rows(self) -> Node | None:
        """Return the samples as ragged rows, if they are chosen among such rows."""
        samples: Any = self.samples
        path: tuple[str, ...] = ()
        while type(samples) is FieldSamples:
            samples, path = samples.samples, (samples.name, *path)
        if not isinstance(samples, FilteredSamples) or isinstance(samples.node, Stream):
            return None
        parent: Any = at_path(samples.node, path)
        is_ragged = isinstance(parent, (Ragged, RaggedSamples))
        return parent.rows(samples.numbers()) if is_ragged else None

    def probed(self) -> Node:
        """Return the samples as nodes that know shape, dtype and fields, reading a few."""
        samples = self.samples
        if isinstance(samples, FilteredSamples) and samples.finite:
            rows = samples.node
            if rows.shape:
                return select(rows, parse(samples.numbers(), rows.shape))
            if isinstance(rows, (Ragged, RaggedSamples)):
                return rows.rows(samples.numbers())
        if self.sample is not None and is_unlike(self.sample):
            return self
        if not samples.restarts and not isinstance(samples, IteratorSamples):
            raise StreamError("probing would lose a sample of an iterator; probe before slicing it")
        passing = samples.iterate()
        first = list(itertools.islice(passing, 1))
        if not first:
            raise StreamError("the stream is empty: there is no sample to learn from")
        try:
            first += itertools.islice(passing, SAMPLES_READ - 1)
        except Exception as error:  # its turn comes later
            passing = _failing(error)
        if not samples.restarts:
            self.samples = IteratorSamples(itertools.chain(first, passing), _as_is)
        like = likeness(first)
        is_alike = not (is_unlike(like) or masks_in(like.fields))
        found = self.samples if is_alike else LikeSamples(self.samples, like)
        return noted_as(Stream(found, like), self)

    def _no_samples(self) -> np.ndarray:
        """Return no samples, of the shape and dtype that they would have."""
        parent = self.samples.node if isinstance(self.samples, FilteredSamples) else None
        if parent is not None and parent.shape:
            return np.empty((0, *parent.shape[1:]), parent.dtype)
        if self.sample is None:
            return np.empty(0)
        return np.empty((0, *known_shape(self.sample)), self.sample.dtype)


def _describe(found: Node, old: Node) -> None:
    """Give a stream that was just made the metadata of another, and its fields those of fields."""
    found.meta = old.meta
    for name, part in found.fields.named.items():
        known = old.fields.named.get(name)
        if isinstance(part, Attached) and isinstance(known, Attached):
            _describe(part.node, known.node)


def _failing(error: Exception) -> Iterator[Node]:
    raise error
    yield


class _Test(NamedTuple):
    """A function of a sample that tells whether it is kept."""

    function: Callable[[Any], Any]
    to_view: Callable[..., Any]

    def views(self) -> RowViews:
        """Return what shows samples to the function."""
        return RowViews(lambda node: self.to_view(guarded(made_sample(node))))

    def accepts(self, number: int, row: Row, views: RowViews) -> bool:
        """Whether the function accepts a sample; an error names the sample."""
        try:
            return bool(self.function(views(row)))
        except Exception as error:
            raise error_at(error, f"filter {name_of(self.function)}, sample {number}") from error


class _Kept(Photograph):
    """The numbers of the samples that a function accepts."""

    __slots__ = ("test",)
    about = "rows that a filter keeps"

    def __init__(self, node: Node, test: _Test) -> None:
        super().__init__(node)
        self.test = test

    def find(self, node: Node) -> np.ndarray:
        """Ask the function about every sample."""
        return _accepted(node, self.test)


def _accepted(node: Node, test: _Test) -> np.ndarray:
    views, found = test.views(), []
    with begin("filtering", node.count) as task:
        for number, row in enumerate(arriving(node)):
            if test.accepts(number, row, views):
                found.append(number)
            task.advance()
    return np.array(found, np.intp)


class FilteredSamples(Samples):
    """The samples of a node that a function of the sample accepts.

    If they can be read again and end, and neither they nor the function are left to chance, `kept`
    has those that it accepted at first.
    """

    __slots__ = ("finite", "kept", "node", "restarts", "test")
    parts = ("node", "kept")
    is_each = True

    def __init__(self, node: Node, test: _Test) -> None:
        self.node = node
        self.test = test
        samples = node.samples if isinstance(node, Stream) else None
        known = length_of(node) not in (None, math.inf)
        self.finite = known if samples is None else samples.finite
        self.restarts = samples is None or samples.restarts
        is_lasting = self.finite and self.restarts
        is_sure = is_lasting and all(part.deterministic for part in (self, *below([node])))
        self.kept = _Kept(node, test) if is_sure else None

    @property
    def deterministic(self) -> bool:
        """Whether the function accepts the same each time: unless it says it does not."""
        return is_deterministic(self.test.function)

    def numbers(self) -> np.ndarray:
        """Return the numbers of the accepted samples."""
        return _accepted(self.node, self.test) if self.kept is None else self.kept.array()

    def rows(self) -> Iterator[Row]:
        """Return the accepted samples."""
        kept, found, views = self.kept, [], self.test.views()
        for number, row in enumerate(arriving(self.node)):
            if kept is not None and kept.is_decided:  # perhaps by a write since the last sample
                numbers = kept.array()
                yield from map(Row, _samples_at(self.node, numbers[numbers >= number]))
                return
            if self.test.accepts(number, row, views):
                found.append(number)
                yield row
        if kept is not None:
            kept.keep(np.array(found, np.intp))


def shuffled_stream(node: Stream, size: int | str | None, key: tuple[Any, ...]) -> Stream:
    """Return a stream shuffled within a pool of so many samples or bytes."""
    if size is None:
        raise StreamError(
            "a stream is shuffled within a pool of its next samples; say how many: "
            "_shuffled(seed, pool=1000), or pool='64MB'"
        )
    return node.over(ShuffledSamples(node.samples, pool_of(size), key))


def visited(node: Stream, order: Any) -> Stream | None:
    """Return a stream whose parts, and rows in them, come in another order.

    None is for a stream that has no parts, or those of several others, or whose samples depend on
    which come before them.  Statistics that are computed with stay as they are.
    """

    def into(part: Any) -> list[Any]:
        return [] if isinstance(part, Reduction) else part.held()

    found = [part for part in below([node], into) if isinstance(part, Samples)]
    parts = [part for part in found if not part.is_each]
    other = parts[0].visited(order) if len(parts) == 1 else None
    if other is None:
        return None

    def change(part: Any, old: Any) -> Any:
        if old is parts[0]:
            return other
        is_new = part is not old and isinstance(part, FilteredSamples)
        return part.replaced(kept=None) if is_new else part  # which had the numbers of that order

    made: Stream = rebuilt([node], change, into)[0]
    return made


def arranged(node: Node, step: Callable[[Node], Node]) -> Node:
    """Return a node with its fields chosen or named by `step`: of a stream, those of each sample.

    `step` can be pickled.
    """
    if not isinstance(node, Stream) or node.sample is None:
        return step(node)
    return Stream(ArrangedSamples(described(node), step), step(noted_as(node.sample, node)))


def side_by_side(node: Node) -> Node:
    """Return a record of streams as the stream of records that it is, any other node as it is.

    Fields of one stream are read in one pass over it.
    """
    if not isinstance(node, Record) or not node.rank:
        return node
    parts = {name: part.node for name, part in members(node).items()}
    if not parts or not all(isinstance(part, Stream) for part in parts.values()):
        return node
    one = record({name: _one_of(part) for name, part in parts.items()}, 0)
    return Stream(
        ComputedSamples(one), record(dict(zip(parts, map(_like, parts.values()), strict=True)), 0)
    )


def _one_of(stream: Any) -> Node:
    """Return what stands for any sample of a stream, with all its fields."""
    if isinstance(stream.sample, Record) and not isinstance(stream.samples, ComputedSamples):
        return record({name: _one_of(field(stream, name)) for name in stream.fields}, 0)
    return stream.one  # type: ignore[no-any-return]


def _like(stream: Any) -> Node:
    """Return what is known of each sample of a stream, and its metadata."""
    like: Node = stream.one if stream.sample is None else stream.sample
    return like if like.meta is stream.meta else like.replaced(meta=stream.meta)


def repeated_stream(node: Stream, times: float) -> Stream:
    """Return a stream read several times over."""
    if not node.samples.restarts:
        raise StreamError("the iterator behind this view is spent once read; it cannot be repeated")
    return node.over(RepeatedSamples(node.samples, times))


def filtered(node: Node, function: Callable[[Any], Any], to_view: Callable[..., Any]) -> Stream:
    """Return the stream of a node's samples that a function of the sample accepts."""
    check_bound(node)
    if why := misfit(function, ["the view of a row"]):
        data = calls("row", node.fields)
        raise TypeError(f"{why}; write lambda row: ..., where the data are {data}")
    samples = FilteredSamples(node, _Test(function, to_view))
    if isinstance(node, Stream):
        return node.over(samples)
    sample: Node | None = None
    if isinstance(node, (Ragged, RaggedSamples)) and node.count is not None:
        sample = likeness_of(node)
    elif node.shape and node.count:
        sample = known_of_rows(node, select(node, parse(0, node.shape)))
    return Stream(samples, sample)


# --- asking ----------------------------------------------------------------------------------


def length_of(node: Node) -> float | None:
    """Return the number of samples, `math.inf` for endless ones, None where it is unknown."""
    count = node.count
    return math.inf if count is not None and is_endless(int(count)) else count


def samples_of(node: Node) -> Iterator[Node]:
    """Return the samples of a node, in order, as nodes; functions make each of them once."""
    if isinstance(node, Stream):
        return described(node).iterate()
    if not isinstance(node, Sampled) and not known_shape(node):
        raise TypeError("iteration over a view without axes: it is one element")
    count = node.count
    return _samples(node, range(known_shape(node)[0] if count is None else count))


def arriving(node: Node) -> Iterator[Row]:
    """Return the same, as rows of the nodes that they are in, if those of a stream are in some."""
    return described(node).rows() if isinstance(node, Stream) else map(Row, samples_of(node))


def _samples(node: Node, numbers: Iterable[int]) -> Iterator[Node]:
    keep = keeper(node) or _as_is
    return (keep(sample_at(node, number)) for number in numbers)


def _samples_at(node: Node, numbers: np.ndarray) -> Iterator[Node]:
    """Return the samples with these numbers, which ascend."""
    if isinstance(node, Stream):
        wanted = set(numbers.tolist())
        return (sample for n, sample in enumerate(samples_of(node)) if n in wanted)
    return _samples(node, numbers.tolist())


def samples_at(node: Sampled, key: Any) -> Node:
    """Return the part for a key: any samples if they have numbers, later ones of a stream."""
    if isinstance(node, Stream):
        return slice_of_stream(node, key)
    if (found := node.at(key)) is not None:
        return found
    if isinstance(key, tuple) and len(key) > 1 and is_integer(key[0]) and node.count is not None:
        sample = node.part(parse(key[0], (node.count,)))
        return select(sample, parse(key[1:], known_shape(sample)), key)
    if node.count is None:
        raise UndeclaredError("the shape of the sample is unknown; write d = d._probe() to read it")
    if isinstance(key, tuple) and node.shape is not None:
        return node.part(parse(key, node.shape))
    if isinstance(key, tuple) and any(item is Ellipsis for item in key[:-1]):
        raise UndeclaredError(
            f"the key {key!r} counts axes from the last, and how many there are is unknown; take "
            "samples one by one, or write d = d._probe() to read one"
        )
    return node.part(parse(key, (node.count,)))


def slice_of_stream(node: Stream, key: Any) -> Stream:
    """Return a later part of a stream; what needs random access is refused."""
    if not isinstance(key, slice):
        raise StreamError(
            f"a stream is read in order: iterate over it, or take a slice that goes forward; "
            f"got the key {key!r}"
        )
    bounds = (key.start or 0, key.stop, key.step if key.step is not None else 1)
    if min(bounds[0], 0 if bounds[1] is None else bounds[1], bounds[2]) < 0 or not bounds[2]:
        raise StreamError(f"a stream has no known end to count back from; got the slice {key!r}")
    return node.over(SlicedSamples(node.samples, bounds))


def _as_is(sample: Node) -> Node:  # a lambda could not be pickled
    return sample
