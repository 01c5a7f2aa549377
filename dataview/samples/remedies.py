"""What to declare where a result of a function is not like those that were read first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dataview.compute import evaluate
from dataview.errors import RaggedError, error_at, shortened
from dataview.plan.kinds import Record, Sampled, known_shape
from dataview.plan.node import DType, Node
from dataview.plan.ragged import Ragged

BY_ROWS = (
    "a function of blocks returns a row for each row that it is given; _map(function) calls it for "
    "each row"
)


OF_ONE_SHAPE = (
    "a function of blocks makes rows of one shape; _map(function) calls it for each row, and its "
    "results may differ in length"
)


def check_made(node: Node, value: Any, is_of_blocks: bool) -> None:
    """Raise if what was returned, as a node, is no data, or not those of each row of a block."""
    if isinstance(node, Ragged):
        raise several_lengths(value, is_of_blocks)
    if isinstance(node, Sampled):
        got = shortened(repr(value))
        raise TypeError(f"a function or an iterator was returned: {got}; return data")
    if is_of_blocks and isinstance(node, Record) and not node.rank:
        got = shortened(repr(value))
        raise ValueError(f"one value for each row is needed; got {got}; {BY_ROWS}")


def several_lengths(value: Any, is_of_blocks: bool) -> RaggedError:
    """Return the error for a function that returned rows which differ in length."""
    told = f"rows of several lengths were returned: {shortened(repr(value))}; "
    if is_of_blocks:
        return RaggedError(told + OF_ONE_SHAPE)
    return RaggedError(
        f"{told}return them as a field, {{'rows': value}}, or one after the other, np.concatenate("
        "value), with their lengths as a field"
    )


def other_dtype(known: DType, given: DType, path: Sequence[str]) -> str:
    """Return how a map declares a dtype that holds both."""
    if known.kind == given.kind == "U":
        return f"dtype={_in_fields('T', path)} of the map declares texts of any length"
    return "shape=, dtype= of the map declare another one"


def check_rows(node: Node, count: int, place: str) -> None:
    """Raise if a result for a block of so many rows has not a row of one shape for each."""
    if isinstance(node, Ragged):
        raise error_at(several_lengths(evaluate(node).tolist(), True), place.removesuffix(": "))
    shape = known_shape(node)
    if shape[:1] != (count,):
        given = "1 row was given" if count == 1 else f"{count} rows were given"
        raise ValueError(f"{place}{given}; got {shape[0] if shape else 'one value'}; {BY_ROWS}")


def other_length(
    like: Any, shape: tuple[int, ...], dtype: DType, path: Sequence[str], is_of_blocks: bool
) -> str:
    """Return how a map declares a length that differs; a text is of any width then.

    There is nothing to say if it was declared what results are `like`.
    """
    if not like.exact:
        return ""
    if is_of_blocks:
        return f"; {OF_ONE_SHAPE}"
    if len(like.shape) != len(shape):
        return "; iterate over the map before _probe() to have each as it is"
    pairs = zip(like.shape, shape, strict=True)
    axes = tuple([known if known == own else None for known, own in pairs])
    wide = _in_fields("T" if dtype.kind == "U" else dtype.name, path)
    declared = f"shape={_in_fields(axes, path)}, dtype={wide}"
    return f"; {declared} of the map declare a length that differs"


def _in_fields(value: Any, path: Sequence[str]) -> str:
    text = repr(value)
    for name in reversed(path):
        text = f"{{{name!r}: {text}}}"
    return text
