"""Changes carried out block by block: as a whole, or undone, or finished later.

The old values of the blocks are kept within a budget, and put back if the write fails.  A write of
more than that says which rows were changed, and does the rest when it is resumed.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataview.compute import (
    Cut,
    FloatErrors,
    changing,
    cuts_of_grid,
    evaluate,
    have_makers_in_common,
    is_made_by_rows,
    overwrite,
    rows_of_request,
    run_blocks,
)
from dataview.errors import InterruptedWriteError, PartialWriteError
from dataview.index import (
    Affine,
    Array,
    Computed,
    Index,
    Map,
    axes_of,
    boxed,
    extent,
    numbers_map,
    positions,
    shares_axes,
)
from dataview.index.interrupts import held_interrupt
from dataview.index.sizes import can_keep, kept_bytes, sizes
from dataview.plan.kinds import Elementwise, known_dtype, known_shape, nbytes_of
from dataview.plan.node import Node
from dataview.plan.places import operand_index
from dataview.plan.values import cast
from dataview.sources import Grid, Reference, Source, grid_of, made_once
from dataview.write.changes import Block, Change
from dataview.write.failing import may_fail
from dataview.write.guards import Guard, Work, is_guarded
from dataview.write.overlap import Separated, reads_as_written

Key = tuple[slice | np.ndarray, ...]
"""What selects elements of a source: slices, or arrays of positions, as NumPy takes them."""

SHOWN = 4
"""So many of the positions of an array are told in a message."""


class Torn(NamedTuple):
    """A block that may be half written: what belongs there, and what was there if it is known."""

    value: np.ndarray
    old: np.ndarray | None


class Update:
    """A write of several changes, none of which depends on what another one changes."""

    def __init__(
        self,
        separated: Separated,
        kept: contextlib.ExitStack,
        grids: Sequence[Grid] | None = None,
    ) -> None:
        self.changes = separated.changes
        self.order = separated.order
        self.in_order = separated.order != 0
        values = [change.value for change in self.changes if isinstance(change.value, Node)]
        self.is_request = not self.in_order and have_makers_in_common(values)
        most = rows_of_request(values) if self.is_request else None
        size = sum(nbytes_of(change.target) or 0 for change in self.changes)
        self.keep = can_keep(size)
        self.same = [reads_as_written(change) for change in self.changes]
        self.in_windows = list(map(self._is_for_windows, self.changes, self.same))
        self.grids = grids_of_blocks(self.changes, most) if grids is None else list(grids)
        self.windows = [grid.step for grid in self.grids]
        is_noted = is_guarded(self.changes)
        if is_noted and grids is None:
            self.grids = list(map(self._noted_grid, self.changes, self.grids, self.in_windows))
        self.blocks = blocks_of(self.changes, self.grids)[:: separated.order or 1]
        self.done: dict[Block, np.ndarray | None] = {}
        self.torn: dict[Block, Torn] = {}
        self.close = weakref.finalize(self, kept.close)
        work = Work(self.changes, self.grids, self.blocks, self.order, not self.is_request)
        self.guard = Guard(work) if is_noted else None

    @staticmethod
    def _noted_grid(change: Change, grid: Grid, in_windows: bool) -> Grid:
        """Return the blocks of a change that are noted in a journal.

        In a window they are shorter: what a block held is still in the core's own cache then.
        """
        axis, step = grid.axis, grid.step
        shape = known_shape(change.target)
        chunk = max(change.source.chunk_shape, default=change.source.chunk_rows)
        is_in_chunks = chunk > 1  # of which each is written once
        if not shape or is_in_chunks or not (in_windows or change.where.is_box):
            return grid
        size = max(1, step * (nbytes_of(change.target) or 0) // max(1, shape[axis]))
        return Grid(axis, max(1, step * sizes.noted_bytes // max(size, sizes.noted_bytes)))

    def run(self) -> None:
        """Do what is left to do; after a failure nothing is changed, or the error says what is."""
        with contextlib.nullcontext() if self.guard is None else self.guard.turn():
            self._run()

    def _run(self) -> None:
        errors = FloatErrors()
        if self.guard is not None:
            self.guard.begin()
        try:
            for block, torn in list(self.torn.items()):
                self._put(block, *torn)
            self._write_all([block for block in self.blocks if block not in self.done], errors)
            errors.report()
        except BaseException as error:
            with held_interrupt() as pressed:
                self._roll_back(error, pressed)
                self._end()
            raise
        self._end()

    def known(self, block: Block) -> np.ndarray:
        """Return what a block is to hold by a value that needs no computing."""
        shape = known_shape(block.of(self.changes).target)
        return np.broadcast_to(self._value(block, None, FloatErrors()), shape)

    def fail(self, old: np.ndarray, error: BaseException, pressed: Sequence[Any]) -> None:
        """Undo what was written at once and failed; raise if it cannot be undone.

        `old` is what was there, and `pressed` tells of Ctrl-C meanwhile.
        """
        for block in self.blocks:
            held = old if block.cut is None else block.cut.of(old)
            self.torn[block] = Torn(self._value(block, held, FloatErrors()), held)
        self._roll_back(error, pressed)
        self._end()

    def _end(self) -> None:
        """Say that all is done, or undone; what was kept for it is no longer needed."""
        with held_interrupt():
            if self.guard is not None:
                self.guard.end()
            self.close()

    def _resume(self) -> None:
        """Do the rest: a write of its own, so what was asked since the failure is taken before."""
        with changing(lambda: [change.place for change in self.changes]):
            self.run()

    def _write_all(self, blocks: Sequence[Block], errors: FloatErrors) -> None:
        is_small = self.guard is not None and self.guard.is_small  # no thread waits for others then
        if self.in_order or is_small or not any(block.cut for block in blocks):
            self._write_together(blocks, errors)
            return
        groups: dict[Any, list[Block]] = {}
        for block in blocks:
            cut, number = block.cut, block.number
            key: Any = cut
            if not self.is_request:
                key = (number, cut.start // self.windows[number], cut.across) if cut else number
            groups.setdefault(key, []).append(block)
        run_blocks(
            lambda group: self._write_together(group, errors),
            list(groups.values()),
            what="writing",
        )

    def _write_together(self, blocks: Sequence[Block], errors: FloatErrors) -> None:
        """Write blocks one after the other; functions make the samples of a request once."""
        with made_once() if self.is_request else contextlib.nullcontext():
            for number, run in itertools.groupby(blocks, lambda block: block.number):
                near = list(run)
                if self.in_windows[number] and self._write_in_window(near, errors):
                    continue
                for block in near:
                    self._write(block, errors)

    def _write(self, block: Block, errors: FloatErrors) -> None:
        """Compute one block of a value, and write it."""
        part, same = block.of(self.changes), self.same[block.number]
        old = None if self.guard is None else self.guard.recorded.get(block)
        is_kept = self.guard is not None and self.guard.needs_old(block)
        if old is None and (self.keep or same or is_kept):
            old = self._held(part)
        if self.guard is not None:
            self.guard.before(block, old)  # the value may be computed where the old ones are
        value = self._value(block, old, errors)
        if self.guard is not None:
            self.guard.writing(block)
        if self.keep and part.source.memory is not None:  # what is half written can be put back
            self._put(block, value, old)
            return
        known = None if old is None or np.may_share_memory(value, old) else old
        with held_interrupt():  # a library may go on writing in a thread of its own
            self._put(block, value, old if self.keep else known)

    def _held(self, part: Change) -> np.ndarray:
        """Return what is in a part now, in an array of its own."""
        found = evaluate(part.target)
        return found if part.source.memory is None else found.copy()

    def _put(self, block: Block, value: np.ndarray, old: np.ndarray | None) -> None:
        part = block.of(self.changes)
        self.torn[block] = Torn(value, old)
        part.source.write(part.where, value)
        self.done[block] = old if self.keep else None
        del self.torn[block]
        if self.guard is not None:
            self.guard.after(block, part.source, value)

    def _is_for_windows(self, change: Change, same: Sequence[Node]) -> bool:
        """Whether a value is computed in the memory of its blocks, if they have any.

        It must fit there, and what may fail can be undone.
        """
        value, dtype = change.value, known_dtype(change.target)
        if not isinstance(value, Elementwise) or value.dtype != dtype:
            return False
        if self.in_order:  # it reads rows of the same block that would be written before
            return False
        if is_made_by_rows(value):  # by functions, which may take long
            return False
        return value.shape == change.target.shape and (self.keep or not may_fail(value, same))

    def _write_in_window(self, blocks: Sequence[Block], errors: FloatErrors) -> bool:
        """Compute blocks near each other in their shared memory, if they have any."""
        number, first = blocks[0]
        last = blocks[-1].cut
        ends = None if first is None or last is None else first._replace(stop=last.stop)
        part = Block(number, ends).of(self.changes)
        memory = part.source.memmap(part.where)
        if memory is None:
            return False
        value = self.changes[number].value
        values = {id(leaf): memory for leaf in self.same[number]}
        index = Block(number, ends).within(self.changes)
        cuts = [block.cut.moved(-first.start) for block in blocks if block.cut and first]

        def around(at: int, compute: Callable[[], None]) -> None:
            inside = cuts[at].of(memory) if cuts else memory
            self._change(blocks[at], inside, part.source, compute)

        with errors.noting_in(value.ufunc.__name__), held_interrupt():
            overwrite(value, memory, index, values, cuts, around)
        return True

    def _change(
        self, block: Block, memory: np.ndarray, source: Source, compute: Callable[[], None]
    ) -> None:
        """Compute a block where it is."""
        if self.guard is not None:
            self.guard.before(block, memory)
        self.done[block] = memory.copy() if self.keep else None
        compute()
        if self.guard is not None:
            self.guard.after(block, source, memory)

    def _value(self, block: Block, old: np.ndarray | None, errors: FloatErrors) -> np.ndarray:
        """Return what a block is to hold; what is there now is not read again."""
        change, index = self.changes[block.number], block.within(self.changes)
        value, shape, dtype = change.value, known_shape(change.target), known_dtype(change.target)
        if not isinstance(value, Node):
            whole = np.broadcast_to(value, shape)
            return whole if block.cut is None else block.cut.of(whole)
        if isinstance(value, Elementwise) and value.shape == shape:
            reused = value.dtype == dtype and not self.keep and old is not None
            own = shape if index is None else index.shape
            found = old if reused and old is not None else np.empty(own, known_dtype(value))
            same = {} if old is None else {id(leaf): old for leaf in self.same[block.number]}
            with errors.noting_in(value.ufunc.__name__):
                overwrite(value, found, index, same)
        else:
            found = evaluate(value, operand_index(index, shape, known_shape(value)))
        return cast(found, dtype) if change.is_checked else found.astype(dtype, copy=False)

    # --- failures ------------------------------------------------------------------------------

    def _roll_back(self, error: BaseException, pressed: Sequence[Any]) -> None:
        """Put back the old values; raise if some of them are not known, or cannot be written.

        `pressed` tells of Ctrl-C while this is done.
        """
        failure: Exception | None = None
        refused = list(self.torn)
        old = {**self.done, **{block: torn.old for block, torn in self.torn.items()}}
        for block, held in reversed(old.items()):
            values = self.guard.old(block) if held is None and self.guard is not None else held
            if values is None:
                continue
            reason = self._put_back(block, values)
            if reason is None:
                self.done.pop(block, None)
                self.torn.pop(block, None)
                continue
            failure = failure or reason
            if self.in_order:  # the rest must not read what this block holds now
                break
        if self.done or self.torn:
            is_interrupt = isinstance(error, KeyboardInterrupt) or pressed
            raise (InterruptedWriteError if is_interrupt else PartialWriteError)(
                self._what_happened(error, failure),
                self._rows([*self.done, *self.torn]),
                self._resume,
            ) from error
        if refused and isinstance(error, Exception):
            where = _in_words(self._rows(refused))
            error.add_note(f"raised by the write to {where}; all is as it was before the write")

    def _put_back(self, block: Block, values: np.ndarray) -> Exception | None:
        """Write the old values of a block; return the error if it does not hold them then."""
        part = block.of(self.changes)
        try:
            if block in self.done:  # if the undo tears it, the rest is to write it again
                new = np.array(part.source.read(part.where, {}))
                self.torn[block] = Torn(new, values)
                del self.done[block]
            if self.guard is not None:
                self.guard.before_undo(block, values)
            part.source.write(part.where, values)
        except Exception as reason:
            return None if _holds(part, values) else reason
        return None

    def _what_happened(self, error: BaseException, failure: Exception | None) -> str:
        """Return a message that says what was changed."""
        interrupted = isinstance(error, KeyboardInterrupt)
        how = "was interrupted" if interrupted else f"failed ({error!r})"
        if failure is not None:
            why = f", and so did its undo ({failure!r})"
        else:
            most = kept_bytes() >> 20
            why = f", and the old values were more than {most} MB, too many to keep"
        changed = _in_words(self._rows([*self.done, *self.torn]))
        part = ", some perhaps only in part" if self.torn else ""
        left = "" if self.guard is None else self.guard.left(bool(self.done))
        return (
            f"the write {how}{why}; resume() of this error does the rest (at a prompt: "
            f"sys.last_value.resume()){left}; changed{part}: {changed}"
        )

    def _rows(self, blocks: Sequence[Block]) -> dict[str, list[Key]]:
        """Return the keys of some blocks in their sources, by the names of these."""
        found: dict[str, list[Key]] = {}
        for number, name in enumerate(_names_of([change.source for change in self.changes])):
            cuts = [block.cut for block in blocks if block.number == number]
            for part in [Block(number, cut).of(self.changes) for cut in _joined(cuts)]:
                found.setdefault(name, []).append(_key(part.where, part.source.shape))
        return found


def _holds(part: Change, values: np.ndarray) -> bool:
    """Whether a part can be read and is of these values."""
    try:
        found = part.source.read(part.where, {})
    except Exception:  # the error of the write says more
        return False
    return found.tobytes() == values.tobytes()


def grids_of_blocks(changes: Sequence[Change], most: int | None = None) -> list[Grid]:
    """Return how each change is cut into blocks.

    With `most`, those of all changes are of the same rows, and of no more than so many.
    """
    grids = list(map(_grid_of, changes))
    if most is None:
        return grids
    steps = [grid.step for grid in grids if not grid.axis]
    return [Grid(0, min(most, *steps or [most]))] * len(grids)


def blocks_of(changes: Sequence[Change], grids: Sequence[Grid]) -> list[Block]:
    """Return the blocks in which changes are carried out."""
    found = []
    for number, (change, grid) in enumerate(zip(changes, grids, strict=True)):
        shape = known_shape(change.target)
        cuts = cuts_of_grid(grid, shape) if shape else []
        found.extend(
            [Block(number, cut) for cut in cuts] if len(cuts) > 1 else [Block(number, None)]
        )
    return found


def _grid_of(change: Change) -> Grid:
    """Return how a change is cut into blocks; along several axes if its value allows that."""
    axis, size = change.source.slow_axis(change.where)
    is_file = change.source.path is not None
    # Other stores than files may hold a block several times while they write it.
    room = sizes.file_bytes if is_file else sizes.block_bytes
    is_held = is_file and isinstance(change.value, np.ndarray)
    if is_held and not change.source.chunk_shape and _is_loose(change.where, axis):
        size = min(size, np.dtype(np.intp).itemsize)  # only the numbers of rows take room
    step = max(1, room // max(1, size))
    grid = grid_of(change.source, change.where, axis, step)
    return Grid(axis, step) if grid.across and is_made_by_rows(change.value) else grid


def _is_loose(index: Index, axis: int) -> bool:
    """Whether positions of an axis come in any order, so that each block may touch all pages."""
    return any(axis in axes_of(map_) for map_ in index.maps if isinstance(map_, (Array, Computed)))


def _joined(cuts: Sequence[Cut | None]) -> Sequence[Cut | None]:
    """Return the cuts of a change, adjacent ones as one."""
    joined: list[Cut] = []
    for cut in sorted({cut for cut in cuts if cut is not None}, key=_along_axis):
        if joined and joined[-1].stop == cut.start and joined[-1].across == cut.across:
            joined[-1] = joined[-1]._replace(stop=cut.stop)
        else:
            joined.append(cut)
    return joined or cuts


def _along_axis(cut: Cut) -> tuple[Any, ...]:
    """Return what sorts blocks such that adjacent ones follow each other."""
    return cut.across, cut.start


def _names_of(sources: Sequence[Source]) -> list[str]:
    """Return the names of sources: those of the same words are numbered."""
    names: dict[Reference, str] = {}
    counts: collections.Counter[str] = collections.Counter()
    for source in sources:
        words = " of ".join([*source.member_names[::-1], source.describe()])
        reference = source.reference()
        if reference not in names:
            counts[words] += 1
            names[reference] = f"{words} ({counts[words]})" if counts[words] > 1 else words
    return [names[source.reference()] for source in sources]


def _key(where: Index, shape: tuple[int, ...]) -> Key:
    """Return the key of what an index selects of an array of this shape.

    >>> from dataview.index import parse
    >>> _key(parse(np.s_[6:1:-2], (9, 2)), (9, 2)), _key(parse([5, 0, 1], (9, 2)), (9, 2))
    ((slice(2, 7, 2),), (array([0, 1, 5]),))
    """
    if any(shares_axes(where, number) for number in range(len(where.maps))):
        return tuple(positions(map_, where.shape) for map_ in where.maps)
    box, _ = boxed(where, len(shape))
    key = [_ascending(map_, box.shape) for map_ in box.maps]
    if sum(isinstance(part, np.ndarray) for part in key) > 1:
        return tuple(positions(map_, box.shape) for map_ in box.maps)
    for axis in reversed(range(1, len(shape))):
        last = key[axis]
        if isinstance(last, np.ndarray) or last != slice(0, shape[axis]):
            break
        key.pop()
    return tuple(key)


def _ascending(map_: Map, shape: tuple[int, ...]) -> slice | np.ndarray:
    """Return the positions of a map over one axis as a slice upwards, or as numbers."""
    if isinstance(map_, Array):
        map_ = numbers_map(map_.values)
        if isinstance(map_, Array):
            return map_.values
    low, high = extent(map_, shape) or (0, -1)
    step = abs(map_.strides[0][1]) if isinstance(map_, Affine) and high > low else 1
    return slice(low, high + 1, None if step == 1 else step)


def _in_words(rows: Mapping[str, list[Key]]) -> str:
    """Return keys of sources as words."""
    return "; ".join(f"{_text(keys)} of {name}" for name, keys in rows.items())


def _text(keys: Sequence[Key]) -> str:
    """Return keys as words.

    >>> _text([(slice(0, 4),), (slice(6, 8),)]), _text([(slice(0, 4), slice(1, 2))])
    ('rows 0:4, 6:8', 'elements [0:4, 1:2]')
    """
    if not all(keys):
        return "all"
    words = [", ".join(map(_part_text, key)) for key in keys]
    if max(map(len, keys)) == 1:
        return f"rows {', '.join(words)}"
    return f"elements {', '.join(f'[{word}]' for word in words)}"


def _part_text(part: slice | np.ndarray) -> str:
    """Return a slice or an array of positions as words.

    >>> _part_text(slice(3, 9, 2)), _part_text(np.arange(90) ** 2)
    ('3:9:2', '0, 1, 4, 9, ... (90 positions)')
    """
    if isinstance(part, slice):
        return f"{part.start}:{part.stop}" + (f":{part.step}" if part.step else "")
    more = f", ... ({part.size} positions)" if part.size > SHOWN else ""
    return ", ".join(map(str, part.reshape(-1)[:SHOWN].tolist())) + more
