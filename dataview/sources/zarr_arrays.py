"""Arrays of zarr."""

from __future__ import annotations

from typing import Any

from dataview.sources.array_likes import ArrayLike
from dataview.sources.protocol import Source


class ZarrSource(ArrayLike):
    """An array of zarr, in a folder or in another store."""

    __slots__ = ()
    takes_a_list = True  # with it, each chunk is decompressed once
    span_times = 4
    spare_bytes = 1 << 20  # whole chunks are read in any case
    fresh = True

    def __init__(self, array: Any) -> None:
        store = array.store
        root = getattr(getattr(store, "root", None), "name", None) or type(store).__name__
        path = f"{root}/{array.path}".rstrip("/")
        super().__init__(array, f"zarr {path}", not array.read_only)

    def __reduce__(self) -> tuple[Any, ...]:
        return ZarrSource, (self.array,)

    def is_same(self, other: Source) -> bool:
        """Whether another source is of the same path in the same store."""
        mine = self.array.store_path
        return isinstance(other, ZarrSource) and bool(mine == other.array.store_path)
