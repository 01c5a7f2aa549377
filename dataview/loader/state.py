"""The place of a loader: saved as small plain data, restored with the same data, order and seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dataview.errors import of_newer
from dataview.loader.dealing import NOTHING, Cursor, Task
from dataview.samplers import checked_number

VERSION = 1

_NUMBERS = ("epoch", "position", "emitted", "handed", "failed")


@dataclass(slots=True, eq=False)
class State:
    """How far a loader has come.

    `emitted` and `handed` count the samples and the batches of the epoch, `failed` the samples that
    failed in all.  `previous` is where the cursor was before the last batch, whose task is `task`.
    """

    cursor: Cursor = field(default_factory=Cursor)
    previous: Cursor | None = None
    emitted: int = 0
    handed: int = 0
    failed: int = 0
    is_new_epoch: bool = False
    task: Task | None = None

    def saved(
        self, fingerprint: Mapping[str, Any], orders: Mapping[str, Any] = NOTHING
    ) -> dict[str, Any]:
        """Return the state as plain data, with the fingerprint of the data and their order.

        `orders` tells the orders of this epoch that a user's function or iterable has given.
        """
        return {
            "version": VERSION,
            **self.cursor._asdict(),
            **{name: getattr(self, name) for name in (*_NUMBERS[2:], "is_new_epoch")},
            "previous": None if self.previous is None else list(self.previous),
            "fingerprint": dict(fingerprint),
            **({"orders": dict(orders)} if orders else {}),
        }


def _no_state(saved: Mapping[Any, Any]) -> str:
    """Return what to say of a mapping that is no state, but may have one among other things.

    >>> _no_state({"weights": [1.0], "loader": {"version": 1, "epoch": 0}})
    "what has ['weights', 'loader'] is no state of a loader; its part 'loader' may be one"
    """
    parts = [n for n, part in saved.items() if isinstance(part, Mapping) and "version" in part]
    remedy = f"its part {parts[0]!r} may be one" if parts else "state_dict() returns one"
    return f"what has {[*saved][:5]} is no state of a loader; {remedy}"


def restored(
    saved: Any,
    fingerprint: Mapping[str, Any],
    total: Callable[[Cursor, Mapping[str, Any]], int | None],
) -> State:
    """Return the state that was saved; raise if it is not one of this loader.

    `total` returns how many samples the epoch of a cursor has in the orders that were saved, None
    while that is unknown.
    """
    if not isinstance(saved, Mapping):
        raise TypeError(f"a state is what state_dict() has returned; got {saved!r}")
    version = saved.get("version")
    if version is None:
        raise ValueError(_no_state(saved))
    if told := of_newer(version, VERSION):
        raise ValueError(f"the state {told}")
    if version != VERSION:
        raise ValueError(f"the state has version {version!r}; this loader reads {VERSION}")
    lacking = [name for name in State().saved({}) if name not in saved]
    if lacking:
        raise ValueError(f"the state lacks {', '.join(lacking)}")
    for name in _NUMBERS:
        checked_number(name, saved[name], 0)
    theirs, before = saved["fingerprint"], saved["previous"]
    if not isinstance(theirs, Mapping):
        raise TypeError(f"the state's fingerprint is a mapping; got {theirs!r}")
    if before is not None and not (isinstance(before, (list, tuple)) and len(before) == 2):
        raise TypeError(f"the state's previous is None, or an epoch and a position; got {before!r}")
    differing = [name for name in fingerprint if fingerprint[name] != theirs.get(name)]
    if differing:
        told = "; ".join(f"{n}: {theirs.get(n)!r}, here {fingerprint[n]!r}" for n in differing)
        raise ValueError(f"the state is of other data, or of another order: {told}")
    epoch, position, emitted, handed, failed = (int(saved[name]) for name in _NUMBERS)
    orders = saved.get("orders", NOTHING)
    if not isinstance(orders, Mapping):
        raise TypeError(f"the state's orders are a mapping; got {orders!r}")
    most = total(Cursor(epoch, position), orders)
    if position and most is not None and position > most:
        raise ValueError(f"the state is at position {position} of {most} samples")
    previous = None if before is None else Cursor(*before)
    is_new_epoch = bool(saved["is_new_epoch"])
    return State(Cursor(epoch, position), previous, emitted, handed, failed, is_new_epoch)
