"""How positions of an order become batches: sizes, a short last batch, ranks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Dealing:
    """The options that say how positions become batches."""

    batch_size: int
    tail: str = "short"
    straddle: bool = False
    rank: int = 0
    ranks: int = 1
    even: str = "short"
    num_samples: int | None = None
    num_batches: int | None = None

    @property
    def share(self) -> tuple[int, int]:
        """Which of the ranks this is, and how many there are."""
        return self.rank, self.ranks

    @property
    def group(self) -> int:
        """The number of positions in a step of all ranks."""
        return self.batch_size * self.ranks

    def end(self, position: int, total: int) -> int:
        """Return where an epoch ends for a loader at a position, after dropping or padding.

        >>> Dealing(3, tail="pad").end(0, 10), Dealing(3, ranks=4, even="drop").end(0, 10)
        (12, 8)
        """
        if self.even == self.tail == "short":
            return total
        left = total - position
        if self.even != "short":
            left += -left % self.ranks if self.even == "pad" else -(left % self.ranks)
        if self.tail == "drop":
            left -= left % self.group
        elif self.tail == "pad":
            left += -left % self.group
        elif self.tail == "error" and left % self.group:
            shared = f" for {self.ranks} ranks" if self.ranks > 1 else ""
            raise ValueError(
                f"{left} rows make no whole batches of {self.batch_size}{shared}: "
                f"{left % self.group} are left; choose tail='short', 'drop' or 'pad'"
            )
        return position + left

    def batches(self, position: int, total: int) -> int:
        """Return how many batches this rank has from a position on."""
        last = total if self.straddle else self.end(position, total) - self.rank
        return max(0, -(-(last - position) // self.group))

    @property
    def following(self) -> int:
        """How many samples must follow a batch so that this rank has one more."""
        if self.tail == "drop":
            return self.group - (self.ranks - 1 if self.even == "pad" else 0)
        if self.even == "drop":
            return self.ranks
        return self.rank + 1 if self.even == self.tail == "short" else 1

    def groups(self, left: int) -> int:
        """Return how many of so many batches this rank has, if no batch is divided."""
        if self.even == "drop":
            return left // self.ranks
        return max(0, -(-(left - (0 if self.even == "pad" else self.rank)) // self.ranks))
