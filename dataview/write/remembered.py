"""Places that are remembered, so that those which another place may meet are found quickly.

However many there are, a place is compared only with those whose elements lie around its own: along
some axis, or along the line of all elements, which in memory is that of the bytes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from dataview.index import extent
from dataview.sources import Home, Reference, stores_meeting
from dataview.write.spots import Spot

Span: TypeAlias = tuple[int, int]
"""The lowest and the highest number of a place along a line."""


class Line:
    """Spots by their spans along a line, sorted by where they begin, apart for each length."""

    __slots__ = ("levels",)

    def __init__(self) -> None:
        self.levels: dict[int, tuple[list[int], list[Spot]]] = {}

    def add(self, span: Span, spot: Spot) -> None:
        """Remember a spot."""
        low, high = span
        lows, spots = self.levels.setdefault((high - low).bit_length(), ([], []))
        at = bisect_right(lows, low)
        lows.insert(at, low)
        spots.insert(at, spot)

    def around(self, span: Span) -> list[tuple[list[Spot], int, int]]:
        """Return the parts of lists that have all spots which a span overlaps, and few others."""
        (low, high), found = span, []
        for level, (lows, spots) in self.levels.items():
            start = bisect_right(lows, low - (1 << level))
            stop = bisect_left(lows, high + 1, start)
            if start < stop:
                found.append((spots, start, stop))
        return found


class Layout:
    """The spots of one reference: by each axis but the first, and by the line of its store."""

    def __init__(self, home: Home, shape: tuple[int, ...], line: Line) -> None:
        self.home, self.line = home, line
        self.axes = [Line() for _ in shape[1:]]
        in_memory = home.space is not None
        self.strides = home.strides if in_memory else _strides_of(shape)
        self.width = home.part[1] if in_memory else 1
        self.spots: list[Spot] = []

    def spans(self, spot: Spot) -> list[Span] | None:
        """Return the spans of a spot, the one along the line first; None if it has no element."""
        where, low, found = spot.where, self.home.address, []
        if 0 in where.shape:
            return None
        high = low + self.width - 1
        for map_, stride in zip(where.maps, self.strides, strict=False):
            ends = extent(map_, where.shape)
            assert ends is not None
            found.append(ends)
            first, last = ends if stride >= 0 else ends[::-1]
            low += first * stride
            high += last * stride
        return [(low, high), *found[1:]]

    def add(self, spot: Spot) -> bool:
        """Remember a spot, if it has an element; return whether it has."""
        spans = self.spans(spot)
        if spans is None:
            return False
        self.spots.append(spot)
        for line, span in zip((self.line, *self.axes), spans, strict=False):
            line.add(span, spot)
        return True

    def around(self, spans: list[Span], has_line: bool) -> Iterator[Spot]:
        """Yield the spots of this layout around some spans; others, too, if they share the line."""
        lines = [self.line] if has_line else [self.line, *self.axes]
        parts = [line.around(span) for line, span in zip(lines, spans, strict=False)]
        fewest = min(parts, key=lambda found: sum(stop - start for _, start, stop in found))
        for spots, start, stop in fewest:
            yield from spots[start:stop]


class Room:
    """The layouts in a store; those in the same memory share a line."""

    def __init__(self) -> None:
        self.layouts: list[Layout] = []
        self.lines: dict[int, Line] = {}

    def add(self, home: Home, shape: tuple[int, ...]) -> Layout:
        """Return a new layout of the store."""
        line = Line() if home.space is None else self.lines.setdefault(home.space, Line())
        layout = Layout(home, shape, line)
        self.layouts.append(layout)
        return layout

    def around(self, own: Layout, spans: list[Span]) -> Iterator[Spot]:
        """Yield the spots that those of a layout may meet, as far as their stores tell."""
        if len(self.layouts) == 1 and self.layouts[0] is own:
            yield from own.around(spans, has_line=False)
            return
        line = None if own.home.space is None else self.lines.get(own.home.space)
        for spots, start, stop in line.around(spans[0]) if line is not None else ():
            yield from spots[start:stop]
        for layout in self.layouts if line is None or len(self.lines) > 1 else ():
            if line is not None and layout.home.space == own.home.space:
                continue
            if layout is own:
                yield from own.around(spans, has_line=False)
            elif not _are_apart(own.home, layout.home):
                yield from layout.spots


class Places:
    """Remembered places; `homes` holds what is known of their stores, and of others."""

    def __init__(self, homes: dict[Reference, Home]) -> None:
        self.homes = homes
        self.keys: set[Any] = set()
        self.layouts: dict[Reference, Layout] = {}
        self.rooms: dict[str, dict[Any, Room]] = {}

    def add(self, spots: Iterable[Spot]) -> None:
        """Remember some places, each once."""
        for spot in spots:
            if spot.key in self.keys:
                continue
            layout = self.layouts.get(spot.reference) or self._new(spot.reference)
            if layout is not None and layout.add(spot) and spot.where.is_box:
                self.keys.add(spot.key)  # others may be forgotten: their numbers are not held here

    def _new(self, reference: Reference) -> Layout | None:
        source, home = reference.source(), self._home(reference)
        if source is None or home is None:
            return None
        room = self.rooms.setdefault(home.store.kind, {}).setdefault(home.store.key, Room())
        self.layouts[reference] = layout = room.add(home, source.shape)
        return layout

    def _home(self, reference: Reference) -> Home | None:
        home = self.homes.get(reference)
        if home is None:
            source = reference.source()
            if source is not None:
                self.homes[reference] = home = source.home
        return home

    def meet(self, spots: Iterable[Spot]) -> bool:
        """Whether one of these places meets a remembered one."""
        return any(map(self._meets, spots)) if self.layouts else False

    def _meets(self, spot: Spot) -> bool:
        home = self._home(spot.reference)
        rooms = stores_meeting(home.store, self.rooms) if home is not None else ()
        source = spot.reference.source() if rooms else None
        if home is None or source is None:
            return False
        if spot.key in self.keys:
            return True
        layout = self.layouts.get(spot.reference) or Layout(home, source.shape, Line())
        spans = layout.spans(spot)
        if spans is None:
            return False
        return any(spot.meets(other) for room in rooms for other in room.around(layout, spans))


def _are_apart(ours: Home, theirs: Home) -> bool:
    """Whether two layouts show different parts of the same records."""
    is_same = ours.layout == theirs.layout
    return is_same and (ours.part[0] >= theirs.part[1] or theirs.part[0] >= ours.part[1])


def _strides_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for length in reversed(shape[1:]):
        strides.append(strides[-1] * (length or 1))
    return tuple(reversed(strides))
