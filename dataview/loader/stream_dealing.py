"""The samples of a stream, dealt to batches as they arrive.

Samples that have been read and not handed out are kept, so stopping the workers loses none.  To
reach a cursor before these samples, the stream is read again from its start.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from dataview.batches import Dealing
from dataview.errors import StreamError
from dataview.loader.dealing import BatchStep, Cursor, Task
from dataview.samplers import Sampler, stream_by
from dataview.samples import Row, Stream, at_epoch, described, pool_of, within_pool

Sample: TypeAlias = tuple[int, int, Row]
"""A sample: its place in the epoch, its row number, and itself."""


class StreamDealer:
    """The steps of one rank through the epochs of a stream."""

    def __init__(
        self, node: Stream, sampler: Sampler, dealing: Dealing, pool: Any, seed: Any
    ) -> None:
        self.node, self.sampler = node, sampler
        self.dealing = dealing
        self.pool = None if pool is None else pool_of(pool)
        self.seed = seed
        self.known: int | None = None
        """The number of samples of an epoch, once one has been read to its end."""
        group, most = dealing.group, dealing.num_batches
        limits = [dealing.num_samples, None if most is None else most * group]
        self.most = min((limit for limit in limits if limit is not None), default=None)
        self._ahead: deque[Sample] = deque()
        self._kept: deque[Sample] = deque()
        self._arriving: Iterator[Sample] | None = None
        self._at = Cursor()

    def saved_orders(self, cursor: Cursor) -> dict[str, Any]:
        """Return nothing: a stream has the order of its source."""
        return {}

    def go_on(self, cursor: Cursor, kept: Any) -> None:
        """Do nothing: a stream is read again to its place when the next batch is asked for."""

    def is_counted(self, epoch: int) -> bool:
        """Whether the number of batches is told without reading data: None while it is unknown."""
        return True

    def total(self, epoch: int) -> int | None:
        """Return the number of samples of an epoch, None while it is unknown."""
        return self.known

    def batches(self, cursor: Cursor) -> int | None:
        """Return how many batches this rank has from a cursor on, None while it is unknown."""
        return None if self.known is None else self.dealing.batches(cursor.position, self.known)

    def release(self, cursor: Cursor) -> None:
        """Forget the samples that have been handed out."""
        if self._at.epoch == cursor.epoch:
            while self._kept and self._kept[0][0] < cursor.position:
                self._kept.popleft()

    def close(self) -> None:
        """End the pass over the stream, and forget what was read."""
        self._arriving = None
        self._ahead.clear()
        self._kept.clear()

    def step(self, cursor: Cursor, batch_size: int | None = None) -> BatchStep | None:
        """Return this rank's next batch, None if the epoch has no more for it."""
        deal = self.dealing
        if batch_size is not None:
            deal = Dealing(batch_size, "short", False, deal.rank, deal.ranks, deal.even)
        self._seek(cursor)
        self._draw(deal.group + deal.following)
        found = [self._ahead.popleft() for _ in range(min(deal.group, len(self._ahead)))]
        self._kept.extend(found)
        self._at = reached = Cursor(cursor.epoch, cursor.position + len(found))
        more = len(self._ahead) >= deal.following
        if not more:
            self.known = reached.position + len(self._ahead)
        end = deal.end(0, len(found)) if not more else deal.group
        mine = range(deal.rank, end, deal.ranks)
        if not mine or not found:
            return None
        chosen = [found[number % len(found)] for number in mine]
        valid = np.array(mine) < len(found)
        task = Task(
            np.array([row for _, row, _ in chosen]),
            np.array([place for place, _, _ in chosen]),
            cursor.epoch,
            None if valid.all() else valid,
            None,
            [found for *_, found in chosen],
        )
        return BatchStep(task, reached if more else Cursor(cursor.epoch + 1), reached)

    def _draw(self, count: int) -> None:
        """Read on until so many samples are ahead, or the stream ends."""
        assert self._arriving is not None
        missing = max(0, count - len(self._ahead))
        try:
            self._ahead.extend(itertools.islice(self._arriving, missing))
        except BaseException:
            self._arriving = None  # a generator that has failed would pretend to be at its end
            raise

    def _seek(self, cursor: Cursor) -> None:
        """Go to a cursor: back over the samples that are kept, or from the start of the stream."""
        if self._arriving is not None and cursor == self._at:
            return
        if self._arriving is not None and cursor.epoch == self._at.epoch:
            back = [item for item in self._kept if item[0] >= cursor.position]
            if len(back) == self._at.position - cursor.position > 0:
                self._ahead.extendleft(reversed(back))
                self._kept.clear()
                self._at = cursor
                return
        self._arriving = None  # until the cursor has been reached
        self._ahead.clear()
        self._kept.clear()
        arriving = self._begin(cursor.epoch)
        skipped = sum(1 for _ in itertools.islice(arriving, cursor.position))
        if skipped < cursor.position:
            raise StreamError(
                f"the stream ended after {skipped} samples; it had {cursor.position} before"
            )
        self._arriving, self._at = arriving, cursor

    def _begin(self, epoch: int) -> Iterator[Sample]:
        """Return the samples of an epoch, numbered."""
        drawn = stream_by(at_epoch(self.node, epoch), self.sampler, self.seed, epoch)
        arriving: Iterator[tuple[int, Row]] = enumerate(described(drawn).rows())
        if self.pool is not None:
            seed = self.seed if isinstance(self.seed, (tuple, list)) else (self.seed,)
            arriving = within_pool(arriving, self.pool, (*seed, epoch), lambda item: item[1])
        numbered = ((place, row, found) for place, (row, found) in enumerate(arriving))
        return itertools.islice(numbered, self.most)
