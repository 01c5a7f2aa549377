"""Row numbers become a batch: samples are read, transformed, collated; errors name their numbers.

A batch is an array, or a mapping of batches by field.  Of an array with computed fields beside it,
the array itself has the name "".  A batch never shares memory with the data.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, cast

import numpy as np

from dataview.compute import (
    PlacesByPart,
    have_makers_in_common,
    maker_of,
    places_by_part,
    settle,
)
from dataview.errors import error_at
from dataview.exchange import packed_in_order
from dataview.index import parse
from dataview.loader import ragged
from dataview.loader.collate import RAGGED, WHERE_NEEDED, collated, parts_of, sample_of
from dataview.loader.dealing import Task
from dataview.loader.gaps import note_gaps, watched
from dataview.loader.options import takes_rng
from dataview.loader.outcome import (
    NO_MARK,
    Failure,
    Mark,
    Outcome,
    answer_to,
    failure_of,
    made_by,
)
from dataview.loader.reading import (
    OWN,
    has_samples,
    joined,
    lone_reader,
    no_rows,
    one_row,
    picked,
    read_part_by_part,
    reader,
    sample_node,
    with_known_masks,
    without_own,
    without_rows,
)
from dataview.plan.build import with_fields
from dataview.plan.fields import NO_META, Attached, Fields
from dataview.plan.kinds import Record, Stored, members
from dataview.plan.node import Node
from dataview.plan.photographs import photographs_in
from dataview.plan.ragged import Ragged
from dataview.plan.walk import below
from dataview.samples import (
    Dropped,
    Pairing,
    RandomKeys,
    Row,
    all_at_epoch,
    are_rows,
    name_of,
    pairing_of,
    random_keys,
    together,
)
from dataview.sources import FROM_OTHERS, Made, making

EPOCHS_KEPT = 2
"""So many epochs are known at once: a batch can have samples of two, or more if they are short."""

EXAMPLES = 16
"""Of so many samples one is made to know the fields of a batch in which all have failed."""


class _Epoch(NamedTuple):
    """What is read in an epoch, what reads its rows, and the random numbers of the transform.

    `by_part` tells which of some rows lie in the same part, if they lie in parts.
    """

    parts: Mapping[str, Node]
    readers: Mapping[str, Callable[[np.ndarray], Any]]
    keys: RandomKeys
    by_part: PlacesByPart | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Assembly:
    """Makes the batch of a task; each worker process gets it once.

    `parts` are the nodes to read, by name; a view that is read as a whole has the name "".
    `sources` has the names that they have in the data, where a stream's samples are asked for them.
    `viewed` and `unwrap` turn nodes into views, for a user's functions, and views into nodes.
    `secondary` are the fields with a sampler of their own: if a sample of one cannot be read, the
    transform gets None for it.  `chunks` is how long those are that rows are taken from, and of
    how many at a time.  `maskless` are the fields whose masks are not handed out, and `meta` the
    metadata of what the parts are fields of.
    """

    parts: Mapping[str, Node]
    sources: Mapping[str, str]
    viewed: Callable[[Node], Any]
    steps: tuple[Callable[..., Any], ...] = ()
    collate: Callable[[list[Any]], Any] | None = None
    pad: Any = None
    on_error: Any = "raise"
    seed: Any = 0
    secondary: frozenset[str] = frozenset()
    unwrap: Callable[[Any], Any] = lambda value: value
    chunks: tuple[int, int] | None = None
    maskless: frozenset[str] = frozenset()
    meta: Mapping[str, Any] = field(default_factory=lambda: NO_META)
    _gaps: set[str] = field(init=False, repr=False, default_factory=set)
    _with_rng: tuple[bool, ...] = field(init=False, repr=False, default=())
    _is_changed: bool = field(init=False, repr=False, default=False)
    _by_sample: bool = field(init=False, repr=False, default=False)
    _by_one: Sequence[str] = field(init=False, repr=False, default=())
    _is_steady: bool = field(init=False, repr=False, default=False)
    _remembers: bool = field(init=False, repr=False, default=False)
    _nothing: list[Any] = field(init=False, repr=False, default_factory=list)
    _pads: Mapping[str, Any] | None = field(init=False, repr=False, default=None)
    _epochs: dict[int, _Epoch] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Find out how samples are made, and whether all epochs are read alike."""
        object.__setattr__(self, "_with_rng", tuple(map(takes_rng, self.steps)))
        is_changed = bool(self.steps) or self.collate is not None
        if self.pad is not None and not is_changed:
            object.__setattr__(self, "_pads", ragged.padded_together(self.parts, self.pad))
            is_changed = self._pads is None
        by_one = [name for name, part in self.parts.items() if has_samples(part)]
        object.__setattr__(self, "_by_one", by_one)
        object.__setattr__(self, "_is_changed", is_changed)
        object.__setattr__(self, "_by_sample", by_sample := is_changed or bool(by_one))
        parts = [*self.parts.values()]
        steady = not by_sample and all(
            all(map(operator.is_, all_at_epoch(parts, number), parts)) for number in (0, 1)
        )
        object.__setattr__(self, "_is_steady", steady)
        object.__setattr__(self, "_remembers", self._is_made_once())

    def __reduce__(self) -> tuple[Any, ...]:
        """Send no more of the data in memory than is read; the worker makes its own readers."""
        whole = Record(Fields({name: Attached(part, (0,)) for name, part in self.parts.items()}), 1)
        settle(whole)  # each worker would take it at a time of its own
        for photograph in photographs_in(whole):
            photograph.take()
        others = [getattr(self, part.name) for part in fields(self)[1:] if part.init]
        return _unpacked, (packed_in_order(whole), *others)

    def __call__(self, task: Task, mark: Mark = NO_MARK) -> Outcome:
        """Return the batch of a task, recording in `mark` which sample is being made."""
        if not self._remembers and not self.maskless:
            return self._outcome(task, mark, None)
        return self._remembering(task, functools.partial(self._outcome, task, mark))

    def filled(self, begun: Sequence[Any], task: Task, lacking: int) -> Outcome:
        """Return the batch of a task whose first samples were made before, and so many were not.

        It is collated once, when none is lacking any more, or there are no others to be made.
        """
        more = functools.partial(self._sample_by_sample, begun=begun, lacking=lacking)
        return self._remembering(task, functools.partial(more, task, NO_MARK))

    def _remembering(self, task: Task, make: Callable[[Made | None], Outcome]) -> Outcome:
        """Return what is made, remembering meanwhile what functions make if that is needed."""
        made = Made(max(1, len(task.rows)) * FROM_OTHERS) if self._remembers else None
        try:
            outcome = make(made)
        finally:
            if made is not None:
                made.forget()  # an error that is kept there refers to it
        return outcome._replace(gaps=tuple(self._gaps)) if self._gaps else outcome

    def _outcome(self, task: Task, mark: Mark, made: Made | None) -> Outcome:
        rows, arrived = task.rows, task.samples
        if self._by_sample if arrived is None else self._is_changed or not are_rows(arrived):
            return self._sample_by_sample(task, mark, made)
        if mark is not NO_MARK:  # somebody may ask for it
            mark.value = int(rows[0]) if len(rows) else -1
        try:
            if made is None:
                return Outcome(self._padded(self._read(task)))
            with making(made):
                return Outcome(self._padded(self._read(task)))
        except Exception as error:
            return self._sample_by_sample(task, mark, made, error)

    def _padded(self, batch: Any) -> Any:
        return ragged.with_padding(batch, self._pads) if self._pads else batch

    def _is_made_once(self) -> bool:
        """Whether what functions make of a sample is needed again, by a field or after an error."""
        for part in below(self.parts.values()):
            if isinstance(part, Stored) and part.source.keeps_failed:
                return True
            if self.on_error != "raise" and maker_of(part) is not None:
                return True
        leaves = below(self.parts.values(), Node.attached)
        return have_makers_in_common([leaf for leaf in leaves if not isinstance(leaf, Record)])

    def _epoch(self, number: int) -> _Epoch:
        """Return what is read in an epoch: functions of rows draw anew in each."""
        found = self._epochs.get(number)
        if found is None:
            nodes = all_at_epoch([*self.parts.values()], number)
            parts = dict(zip(self.parts, nodes, strict=True))
            keys = random_keys("transform", self.seed, number, 0, len(self.steps))
            if len(self._epochs) >= EPOCHS_KEPT:
                self._epochs.clear()
            readers = {name: self._reader(name, node) for name, node in parts.items()}
            together = [node for name, node in parts.items() if name not in self._by_one]
            found = self._epochs[number] = _Epoch(parts, readers, keys, places_by_part(together))
        return found

    def _reader(self, name: str, node: Node) -> Callable[[np.ndarray], Any]:
        """Return the function that reads rows of a part; those to be filled up are read later."""
        if self._pads and name in self._pads and isinstance(node, Ragged):
            return node.rows
        read = (reader if name else lone_reader)(node, self.chunks)
        return watched(read, node, name, self._gaps) if name in self.maskless else read

    def _read(self, task: Task, names: Collection[str] | None = None) -> Any:
        """Return the rows of all parts, or of those named, read together."""
        if task.samples is not None:
            return self._arrived(task.samples)
        number = 0 if self._is_steady else task.one_epoch()
        if number is None:
            each = task.each_epoch()  # they ascend: a batch that straddles epochs has them in order
            numbers = np.unique(each).tolist()
            runs = [task.part(np.flatnonzero(each == number).tolist()) for number in numbers]
            tasks = [run._replace(epochs=n) for run, n in zip(runs, numbers, strict=True)]
            return joined([self._read(part, names) for part in tasks])
        epoch, rows = self._epoch(number), task.rows
        known = epoch.readers
        readers = known if names is None else {name: known[name] for name in names}
        if task.others is not None:
            others = {name: task.others.get(name, rows) for name in readers}
            return without_own({name: read(others[name]) for name, read in readers.items()})
        by_part = epoch.by_part(rows) if epoch.by_part else None
        if by_part is not None:
            late = self._pads.keys() if self._pads else set()
            return without_own(read_part_by_part(readers, rows, by_part, late))
        return without_own({name: read(rows) for name, read in readers.items()})

    # --- sample by sample ----------------------------------------------------------------------

    def _sample_by_sample(
        self,
        task: Task,
        mark: Mark,
        made: Made | None,
        together: Exception | None = None,
        begun: Sequence[Any] = (),
        lacking: int | None = None,
    ) -> Outcome:
        """Return the batch of samples that are made one by one; `made` is what functions made.

        `together` is why they could not be read together: reading them one by one shows which of
        them fail, and the others stay.  If none fails, it is raised.  The first ones have `begun`,
        and the others are to make up for so many that are `lacking`.
        """
        first = len(begun)
        rest = task.part(range(first, len(task.rows))) if first else task
        ready: Sequence[Any] | None = None
        if together is None and len(rest.rows):
            ready, together = self._ready_or_error(rest, made)
        try:
            with self._ahead(rest):
                samples, outcome = self._one_by_one(rest, mark, made, ready)
            if together is not None and outcome.kept is None and not outcome.failures:
                raise together
        finally:
            del together  # an error knows this frame, which would keep all that it is about
        samples = [*begun, *samples]
        outcome, kept = outcome.behind(first, len(rest.rows), lacking)
        if outcome.missing and len(rest.rows):
            return outcome._replace(samples=samples)
        return outcome._replace(batch=self._collated(samples, task, kept))

    def _ahead(self, task: Task) -> contextlib.ExitStack:
        """Return the context in which the items of samples may be got together."""
        contexts = contextlib.ExitStack()
        for name in self._by_one if task.samples is None and len(task.rows) > 1 else ():
            node: Any = self.parts[name]
            pairing = pairing_of(node)
            if pairing is not None:
                rows = node.part(parse(task.rows, (node.count,))).numbers().tolist()
                others = {name: own.tolist() for name, own in (task.others or {}).items()}
                contexts.enter_context(pairing.ahead(rows, others))
        return contexts

    def _one_by_one(
        self, task: Task, mark: Mark, made: Made | None, ready: Sequence[Any] | None
    ) -> tuple[list[Any], Outcome]:
        """Return the samples that did not fail, and what is known of them before they are a batch.

        `ready` has those that were read together, or what of them was.
        """
        samples: list[Any] = []
        kept: list[int] = []
        failures: list[Failure] = []
        missing = 0
        epochs = task.each_epoch()
        for number, row in enumerate(task.rows.tolist()):
            mark.value = row
            epoch, before = int(epochs[number]), len(failures)
            try:
                with making(made):  # and not the transform, which may ask for other samples
                    sample = ready[number] if ready else None
                    if sample is None or (self._by_one and task.samples is None):
                        sample = self._one(task, number, failures, sample)
                samples.append(self._transformed(sample, epoch, row))
            except Dropped:
                missing += self.on_error == "replace"
                continue
            except Exception as error:
                if self.on_error == "raise":
                    raise
                for other in failures[before:]:  # of secondary fields of the same sample
                    error.add_note(f"before that: {other.error}")
                failures[before:] = [failure_of(task, number, row, error)]
                answer = answer_to(failures[-1], self.on_error, self.unwrap)
                if isinstance(answer, str) and answer in ("skip", "replace"):
                    missing += answer == "replace"
                    continue
                samples.append(answer)
            kept.append(number)
        whole = None if len(kept) == len(task.rows) else kept
        return samples, Outcome(None, whole, failures, missing)

    def _ready_or_error(
        self, task: Task, made: Made | None
    ) -> tuple[Sequence[Any] | None, Exception | None]:
        """Return what of all samples is read together, or why it could not be."""
        try:
            with making(made):
                return self._ready(task), None
        except Exception as error:
            return None, error

    def _ready(self, task: Task) -> Sequence[Any] | None:
        """Return what of all samples is read together; None if nothing is."""
        names = None if not self._by_one else [n for n in self.parts if n not in self._by_one]
        if names == [] if task.samples is None else not are_rows(task.samples):
            return None
        found = self._read(task, names)
        return [picked(found, number) for number in range(len(task.rows))]

    def _one(
        self, task: Task, number: int, failures: list[Failure], read: Mapping[str, Any] | None
    ) -> Any:
        """Return one sample, of which some is read; a secondary field that fails is None in it."""
        if task.samples is not None:
            return self._of_stream(task.samples[number].sample())
        sample: dict[str, Any] = {}
        epoch = int(task.each_epoch()[number])
        for name, node in self._epoch(epoch).parts.items():
            if read is not None and name in read:
                sample[name] = read[name]
                continue
            row = int((task.others or {}).get(name, task.rows)[number])
            try:
                pairing = pairing_of(node)
                if pairing is None:
                    sample[name] = one_row(node, row)
                    if name in self.maskless:
                        note_gaps(sample[name], node, row, name, self._gaps)
                else:
                    sample[name] = self._paired(node, pairing, task, number, failures)
            except Exception as error:
                where = f"field {name!r}, sample {row}" if name else f"sample {row}"
                named = error if f"sample {row}" in str(error) else error_at(error, where)
                if named is not error:
                    named.__cause__ = error
                if name not in self.secondary or self.on_error == "raise" or not self.steps:
                    raise named  # noqa: B904 (it has its cause)
                failures.append(failure_of(task, number, row, named))
                sample[name] = None
        return without_own(sample)

    def _paired(
        self, node: Any, pairing: Pairing, task: Task, number: int, failures: list[Failure]
    ) -> Any:
        """Return the sample of an item of each index; others than the first may be None."""
        row = int(task.rows[number])
        first = int(node.part(parse(row, (node.count,))).numbers())
        others = task.others or {}
        rows = [int(others[name][number]) if name in others else first for name in pairing.others]

        def failed(name: str, error: Exception) -> None:
            named = error_at(error, f"{name}, sample {row}")
            named.__cause__ = error
            failures.append(failure_of(task, number, row, named))

        note = None if self.on_error == "raise" else failed
        return sample_of(node.to_node(pairing.sample([first, *rows], note)), True)

    def _arrived(self, rows: Sequence[Row]) -> Any:
        """Return samples of a stream that are rows of nodes, read together."""
        parts, numbers = parts_of(together(rows), self.sources), np.arange(len(rows))
        readers = {name: self._reader(name, part) for name, part in parts.items()}
        found = {name: read(numbers) for name, read in readers.items()}
        if OWN in parts:
            found[OWN] = with_known_masks(parts[OWN], found[OWN])
        return without_own(found)

    def _of_stream(self, node: Node) -> Any:
        return without_own(sample_of(parts_of(node, self.sources), True))

    def _transformed(self, sample: Any, epoch: int, row: int) -> Any:
        """Return a sample after the transform; each step has random numbers of its own."""
        for number, step in enumerate(self.steps):
            try:
                given = self._shown(sample, number == 0)
                if self._with_rng[number]:
                    sample = step(given, rng=self._epoch(epoch).keys.generator(number, row))
                else:
                    sample = step(given)
            except Exception as error:
                raise error_at(error, f"sample {row}, transform {name_of(step)}") from error
            if sample is None or (isinstance(sample, (Mapping, tuple)) and not sample):
                told = f"returned {sample}; return the sample"
                raise TypeError(f"sample {row}: the transform {name_of(step)} {told}")
            sample = sample_of(self.unwrap(sample), True)
        return sample

    def _shown(self, sample: Any, first: bool) -> Any:
        """Return a sample as a view that cannot be written through; a tuple as it is."""
        if not first and isinstance(sample, tuple) and not hasattr(sample, "_fields"):
            return sample_of(sample)
        node = sample_node(sample, self.parts) if first else sample_node(sample)
        if first and OWN not in self.parts and isinstance(node, Record):
            node = node.replaced(meta=self.meta)
        if first and OWN in self.parts and not isinstance(node, Record):
            windows = self.parts[OWN].fields.windows_only(-1, lambda axis: axis > 0)
            node = with_fields(node, windows) if windows.named else node
        return self.viewed(node)

    def _collated(
        self, samples: list[Any], task: Task, kept: list[int], changed: Any = WHERE_NEEDED
    ) -> Any:
        """Return samples as a batch; `changed` is the padding of what a transform makes ragged.

        As a rule that is so only where shapes differ: it may be a crop.
        """
        if not samples:
            return self._of_nothing(task)
        numbers = task.rows[kept].tolist()
        if self.collate is None:
            changed = changed if self.steps else None
            pad = ragged.with_ragged(self.pad, self.parts, samples[0], changed)
            return collated(samples, pad, None, numbers, self.unwrap)
        return made_by(self.collate, samples, numbers, self.unwrap)

    def _of_nothing(self, task: Task) -> Any:
        """Return a batch without samples, with the fields that a batch with some would have.

        They follow from the data, or from the first samples: not from earlier batches, which
        another worker may have made.
        """
        if not self._by_sample:
            return self._read(task.part([]))
        if not self._nothing:
            self._nothing.append(self._without_samples(task))
        return self._nothing[0]

    def _ways_to_examples(self, task: Task) -> list[bool]:
        """Return whether to transform examples, or the ways to try: those of a stream have failed.

        A user's function collates none that the transform has not made.
        """
        transformed = [True] if self.steps and not task.samples else []
        return transformed if self.steps and self.collate is not None else [*transformed, False]

    def _without_samples(self, task: Task) -> Any:
        count = min(EXAMPLES, *[node.count or 0 for node in self.parts.values()])
        examples = task if task.samples else Task(np.arange(count), range(count))
        count = min(EXAMPLES, len(examples.rows))
        for steps, number in itertools.product(self._ways_to_examples(task), range(count)):
            try:
                sample = self._one(examples, number, [], None)
                if steps:  # else what the transform gets, if it makes nothing of any
                    sample = self._transformed(sample, 0, int(examples.rows[number]))
                # One sample has nothing to differ from, so that it is ragged where its source is.
                found = without_rows(self._collated([sample], examples, [number], RAGGED))
            except Exception:  # it is reported when its turn comes
                continue
            if found is not None:
                return found
        return without_own({name: no_rows(node) for name, node in self.parts.items()})


def _unpacked(nodes: tuple[Node, ...], *others: Any) -> Assembly:
    parts = {name: part.node for name, part in members(cast(Record, nodes[-1])).items()}
    return Assembly(parts, *others)
