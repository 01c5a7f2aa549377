"""Calls a user's functions of rows: once for a row, with views that cannot change the data.

Functions run on the rows of a parent node, one by one or in blocks.  What they return has members:
one for each field, which its path of names leads to, or a single one, whose path is empty.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from dataview.compute import evaluate, run_blocks, shares_memory, without_mask
from dataview.errors import FieldError, error_at, unknown_field
from dataview.index import Index, is_endless, parse
from dataview.index.progress import at_work
from dataview.plan.build import at_path, chosen, columns, field, read_only, select, with_fields
from dataview.plan.fields import Fields
from dataview.plan.gaps import masks_in, part_at, tells_present
from dataview.plan.kinds import (
    Extents,
    Mapped,
    Record,
    Reduction,
    Sampled,
    known_dtype,
    known_shape,
    members,
    size_of,
)
from dataview.plan.node import DType, Evaluate, Node, Part
from dataview.plan.values import cast
from dataview.plan.walk import below
from dataview.samples.numbered import (
    NumberedSamples,
    RaggedSamples,
    is_deterministic,
    made_sample,
    name_of,
    stack,
    stack_nodes,
)
from dataview.samples.ragged import AnyLength, has_extents
from dataview.samples.random_numbers import RandomKeys
from dataview.samples.remedies import check_made, check_rows, other_dtype, other_length
from dataview.sources import Made, Memo, holds, made_so_far, making

Path: TypeAlias = "tuple[str, ...]"
ToView: TypeAlias = Callable[[Node], Any]


class ArraySpec(NamedTuple):
    """What is known of an array that each sample has; None for what is not, or for a length.

    A dtype that was declared is what values are cast to, as in writing; where an `exact` one was
    learnt from a sample, a value that does not fit into it as it is is refused.  `row` is what rows
    of a sample are like that differ in length themselves.  If it `has_gaps`, there is a mask; what
    is a mask names its column in `mask_of`.
    """

    shape: Extents | None = None
    dtype: DType | None = None
    exact: bool = False
    row: AnyLength | None = None
    has_gaps: bool = False
    mask_of: str | None = None


Spec: TypeAlias = "ArraySpec | dict[str, Any]"
"""What a function returns: one array, or fields by name."""


_NO_MASK = "return view._fillna(0), or declare no shape and dtype: _probe() finds the mask"


class Result(NamedTuple):
    """What functions have returned; it may be lazy, so it is evaluated where they ran.

    `made` is what others have made of the rows that the functions looked at, None if the request
    that they are a part of remembers it.
    """

    node: Node
    made: Made | None

    def value(self, path: Path, like: ArraySpec) -> np.ndarray:
        """Return the data of one member; if there is no mask for its gaps, its values tell them."""
        part = part_at(self.node, path)
        if part.has_gaps and not like.has_gaps and not tells_present(path):
            part = without_mask(part, like.dtype or known_dtype(part), _NO_MASK)
        if self.made is None:
            return evaluate(part)
        with making(self.made):
            return evaluate(part)


class RowFunctions(Part):
    """Functions that are run one after the other on a row, or on a block of at most `batch` rows.

    `spec` tells what is known of the result, `keys` are those of random numbers.
    """

    __slots__ = ("batch", "functions", "keys", "reads", "spec", "to_node", "to_view")

    def __init__(
        self,
        functions: tuple[Callable[..., Any], ...],
        spec: Spec,
        reads: tuple[str, ...] | None,
        batch: int | None,
        to_view: ToView,
        to_node: Callable[[Any], Node],
    ) -> None:
        self.functions = functions
        self.spec = spec
        self.reads = reads
        self.batch = batch
        self.to_view = to_view
        self.to_node = to_node
        self.keys: RandomKeys | None = None

    @property
    def maker(self) -> RowFunctions:
        """The step itself."""
        return self

    @property
    def sample_bytes(self) -> int:  # type: ignore[override]
        """How large the result for a row is, as far as that is known."""
        return _bytes_of(self.spec)

    @property
    def title(self) -> str:
        """What the step is called in a message."""
        verb = "map" if self.batch is None else "map_batches"
        return f"{verb} {', '.join(map(name_of, self.functions))}"

    def like(self, node: Mapped) -> ArraySpec:
        """Return what is known of a member."""
        spec: Any = self.spec
        for name in node.path:
            spec = spec[name] if isinstance(spec, dict) else spec
        return ArraySpec(known_shape(node)[1:], node.dtype, spec.exact, None, spec.has_gaps)

    @property
    def deterministic(self) -> bool:
        """Whether the functions return the same for the same row: unless one says it does not."""
        return all(map(is_deterministic, self.functions))

    # --- running -----------------------------------------------------------------------------

    def result(self, parent: Node, numbers: tuple[int, ...]) -> Result:
        """Return what the functions make of a row, or of a block of rows.

        Where other functions make the row, these run first, in a loop and not in a recursion.
        """
        step, waiting = self, []
        found = step._remembered(parent, numbers)
        while found is None and isinstance(parent, Undeclared) and step.batch is None:
            waiting.append((step, parent, numbers))
            one = parent.part(parse(numbers[0], (parent.index.shape[0],)))
            step, numbers, parent = parent.step, (int(one.numbers()),), parent.rows
            found = step._remembered(parent, numbers)
        if found is None:
            found = step._run(parent, numbers, step._view_of(parent, numbers))
        for step, parent, numbers in reversed(waiting):
            found = step._run(parent, numbers, step.shown(step._stacked([parent.sample_of(found)])))
        return found

    def _remembered(self, parent: Node, numbers: tuple[int, ...]) -> Result | None:
        """Return what has been made of these rows already, None if nothing has."""
        made = made_so_far()
        return None if made is None else made.find((self, parent), numbers)

    def _run(self, parent: Node, numbers: tuple[int, ...], view: Any) -> Result:
        """Run the functions on a view; the request that it is a part of remembers the result."""
        found = self.applied(view, numbers)
        made = made_so_far()
        if made is not None:
            made.keep((self, parent), numbers, found)
        return found

    def _view_of(self, parent: Node, numbers: tuple[int, ...]) -> Any:
        """Return the view of a row, or of a block of rows, of a parent that is guarded."""
        if isinstance(parent, NumberedSamples):
            count = parent.count
            assert count is not None
            ones = [parent.part(parse(number, (count,))) for number in numbers]
            return self.shown(self._stacked([one.sample(int(one.numbers())) for one in ones]))
        if isinstance(parent, Record) and self.batch is None and _is_ragged(parent):
            one = select(parent, parse(numbers[0], known_shape(parent)), numbers[0])
            return self.to_view(made_sample(one))
        if self.batch is None:
            return self.to_view(parent)[numbers[0]]
        return self.to_view(parent)[key_of(numbers)]

    def shown(self, node: Node) -> Any:
        """Return the view of samples, or of one, as the functions may see it."""
        return self.to_view(guarded(node if self.reads is None else only(node, self.reads)))

    def _stacked(self, samples: Sequence[Node]) -> Node:
        return samples[0] if self.batch is None else stack_nodes(samples)

    def applied(self, view: Any, numbers: tuple[int, ...]) -> Result:
        """Return what the functions make of the rows that have these numbers."""
        request = made_so_far()
        own = None if request and request.is_request else Made(len(numbers), is_request=False)
        with making(own or request):
            for place, function in enumerate(self.functions):
                last = place == len(self.functions) - 1
                spec = self.spec if last else ArraySpec()
                try:
                    value = self._call(function, place, view, numbers)
                    node = self._as_node(value, spec)
                    self._check(node, spec, (), len(numbers))
                except Exception as error:
                    raise error_at(error, self._where(function, numbers)) from error
                if not last:
                    view = self.to_view(guarded(node))
        return Result(node, own)

    def _call(
        self, function: Callable[..., Any], place: int, view: Any, numbers: tuple[int, ...]
    ) -> Any:
        if self.keys is None:
            return function(view)
        generators = [self.keys.generator(place, number) for number in numbers]
        return function(view, generators[0] if self.batch is None else generators)

    def _as_node(self, value: Any, spec: Spec) -> Node:
        if isinstance(spec, dict) and type(value) is tuple:
            if len(value) != len(spec):
                raise ValueError(
                    f"{len(spec)} fields are declared ({', '.join(spec)}); {len(value)} values "
                    "were returned"
                )
            value = dict(zip(spec, value, strict=True))
        if type(value) is tuple and not isinstance(spec, dict) and spec != ArraySpec():
            value = list(value)  # one array is declared
        if value is None:
            raise TypeError("the function returned None; does it lack a return? [None] is data")
        node = self.to_node(value)
        if isinstance(spec, dict) and isinstance(node, Record):
            masks = [mask for mask in masks_in(node.fields).values() if mask not in spec]
            node = columns(node, [name for name in node.fields if name not in masks])
        check_made(node, value, self.batch is not None)
        return node

    def _check(self, node: Node, spec: Spec, path: Path, count: int) -> None:
        """Raise if a result has other fields than were declared, or another number of rows."""
        if isinstance(spec, dict):
            if set(node.fields) != set(spec):
                got = ", ".join(node.fields) or "one array"
                raise FieldError(f"the fields {', '.join(spec)} are declared; got {got}")
            for name, inner in spec.items():
                self._check(field(node, name), inner, (*path, name), count)
        elif isinstance(node, Record):
            if spec != ArraySpec():
                names = ", ".join(node.fields)
                raise FieldError(f"{_place(path)}one array is declared; got the fields {names}")
            for name in node.fields:
                self._check(field(node, name), ArraySpec(), (*path, name), count)
        elif self.batch is not None:
            check_rows(node, count, _place(path))

    def _where(self, function: Callable[..., Any], numbers: tuple[int, ...]) -> str:
        verb = "map" if self.batch is None else "map_batches"
        rows = f"sample {numbers[0]}" if self.batch is None else _span(numbers)
        return f"{verb} {name_of(function)}, {rows}"

    def value(
        self, result: Result, path: Path, like: ArraySpec, numbers: tuple[int, ...]
    ) -> np.ndarray:
        """Return one member of a result as an array of the shape and dtype that are known."""
        try:
            found = result.value(path, like)
            shape = found.shape if self.batch is None else found.shape[1:]
            if like.shape is not None and not has_extents(shape, like.shape):
                told = other_length(like, shape, found.dtype, path, self.batch is not None)
                raise ValueError(f"the shape is {shape}; {_origin(like)} {like.shape}{told}")
            return found if like.dtype is None else _cast(found, like, path)
        except Exception as error:
            where = self._where(self.functions[-1], numbers)
            where += f", field {'.'.join(path)!r}" if path else ""
            raise error_at(error, where) from error

    # --- many rows -----------------------------------------------------------------------------

    def rows(self, node: Mapped, numbers: np.ndarray, memo: Memo) -> np.ndarray:
        """Return one member of rows in ascending order; all members that are read are computed."""
        wanted = _wanted(memo).get((id(self), id(node.node)), {})
        wanted = {path: like for path, like in wanted.items() if like.shape is not None}
        if len(wanted) < 2 or node.path not in wanted:
            return self._compute_rows(node.node, numbers, {node.path: self.like(node)})[node.path]
        key = ("rows", id(self), id(node.node))
        have, arrays = memo.get(key) or (numbers[:0], _empty(wanted, 0))
        missing = np.setdiff1d(numbers, have, assume_unique=True)
        if len(missing):
            fresh = self._compute_rows(node.node, missing, wanted)
            new = _merged((have, arrays), (missing, fresh)) if len(have) else (missing, fresh)
            have, arrays = memo[key] = new
        found: np.ndarray = arrays[node.path]
        return found if len(have) == len(numbers) else found[np.searchsorted(have, numbers)]

    def _compute_rows(
        self, parent: Node, numbers: np.ndarray, likes: Mapping[Path, ArraySpec]
    ) -> dict[Path, np.ndarray]:
        """Return members of these rows, made in blocks on the executor."""
        out = _empty(likes, len(numbers))
        blocks = self._blocks(len(numbers))
        work = functools.partial(_rows_of, self, parent, likes)

        def put(block: slice, values: Mapping[Path, np.ndarray]) -> None:
            for path, array in values.items():
                out[path][block] = array

        with at_work("computing", math.inf if len(numbers) > 1 else 0):
            if shares_memory():
                run_blocks(lambda block: put(block, work(numbers[block])), blocks)
            else:
                pieces = [numbers[block] for block in blocks]
                found = run_blocks(work, pieces, portable=True)
                for block, values in zip(blocks, found, strict=True):
                    put(block, values)
        return out

    def separate_rows(
        self, parent: Node, numbers: np.ndarray, path: Path, like: ArraySpec, memo: Memo
    ) -> dict[int, np.ndarray]:
        """Return one member of these rows by number, of whatever shape each has."""
        wanted = _wanted(memo).get((id(self), id(parent)), {}) | {path: like}
        made = memo.setdefault(("separate", id(self), id(parent)), {})
        missing = np.array([n for n in numbers.tolist() if (n, path) not in made], np.intp)
        pieces = [missing[block] for block in self._blocks(len(missing))]
        work = functools.partial(_separate_rows, self, parent, wanted)
        for part in run_blocks(work, pieces, portable=True):
            made.update(part)
        return {number: made[number, path] for number in numbers.tolist()}

    def _blocks(self, count: int) -> list[slice]:
        """Return slices of so many rows, each for one thread."""
        size = self.batch or max(16, count // 64)
        return [slice(start, start + size) for start in range(0, count, size)]


def _is_ragged(node: Record) -> bool:
    """Whether a record has samples that differ in length and are made one by one."""
    parts = (part.node for part in members(node).values())
    return any(
        isinstance(p, RaggedSamples) or (isinstance(p, Record) and _is_ragged(p)) for p in parts
    )


def _empty(likes: Mapping[Path, ArraySpec], count: int) -> dict[Path, np.ndarray]:
    """Return arrays for so many rows of members."""
    shapes: dict[Path, Any] = {path: (count, *(like.shape or ())) for path, like in likes.items()}
    return {path: np.empty(shapes[path], like.dtype) for path, like in likes.items()}


def _rows_of(
    step: RowFunctions, parent: Node, likes: Mapping[Path, ArraySpec], numbers: np.ndarray
) -> dict[Path, np.ndarray]:
    """Return members of some rows; another process may be asked to."""
    if step.batch is not None:
        rows = tuple(numbers.tolist())
        result = step.result(parent, rows)
        return {path: step.value(result, path, like, rows) for path, like in likes.items()}
    made = _empty(likes, len(numbers))
    for place, number in enumerate(numbers.tolist()):
        result = step.result(parent, (number,))
        for path, like in likes.items():
            made[path][place, ...] = step.value(result, path, like, (number,))
    return made


def _separate_rows(
    step: RowFunctions, parent: Node, likes: Mapping[Path, ArraySpec], numbers: np.ndarray
) -> dict[tuple[int, Path], np.ndarray]:
    made: dict[tuple[int, Path], np.ndarray] = {}
    rows = tuple(numbers.tolist())
    blocks = [rows] if step.batch is not None else [(number,) for number in rows]
    for block in blocks:
        result = step.result(parent, block)
        for path, like in likes.items():
            found = step.value(result, path, like, block)
            for place, number in enumerate(block):
                made[number, path] = found if step.batch is None else found[place, ...]
    return made


def _merged(left: Any, right: Any) -> Any:
    numbers = np.concatenate([left[0], right[0]])
    order = np.argsort(numbers)
    arrays = {path: np.concatenate([left[1][path], right[1][path]])[order] for path in right[1]}
    return numbers[order], arrays


def _wanted(memo: Memo) -> dict[Any, dict[Path, ArraySpec]]:
    """Return the members that an evaluation reads, by function and parent; looked up once."""
    if "wanted" not in memo:
        found: dict[Any, dict[Path, ArraySpec]] = {}
        for node in members_read(memo.get("roots", ())):
            like = node.like if isinstance(node, Undeclared) else node.step.like(node)
            found.setdefault((id(node.step), id(node.node)), {})[node.path] = like
        memo["wanted"] = found
    wanted: dict[Any, dict[Path, ArraySpec]] = memo["wanted"]
    return wanted


def members_read(roots: Sequence[Node]) -> Iterator[Any]:
    """Return the members of steps that nodes read, but nothing below them."""

    def is_member(part: Any) -> bool:
        return isinstance(part, (Mapped, Undeclared)) and isinstance(part.step, RowFunctions)

    order = below(roots, lambda part: [] if is_member(part) else part.made_of())
    return filter(is_member, order)


def _bytes_of(spec: Spec) -> int:
    if isinstance(spec, dict):
        return sum(map(_bytes_of, spec.values()))
    known = spec.shape is not None and None not in spec.shape and spec.dtype is not None
    return size_of(spec.shape) * spec.dtype.itemsize if known else 0  # type: ignore[arg-type,union-attr]


def _origin(like: ArraySpec) -> str:
    return "the first ones read were" if like.exact else "declared is"


def _cast(found: np.ndarray, like: ArraySpec, path: Path) -> np.ndarray:
    assert like.dtype is not None
    if not like.exact and not found.size:
        return np.empty(found.shape, like.dtype)  # an empty list has no dtype
    if not like.exact:
        # One number has a kind and no size, as Python's have.
        alone = not found.ndim and found.dtype.kind in "biufc"
        return cast(found.item() if alone else found, like.dtype)
    if not holds(like.dtype, found.dtype):
        raise TypeError(
            f"the dtype is {found.dtype}; {_origin(like)} {like.dtype}; "
            + other_dtype(like.dtype, found.dtype, path)
        )
    return found


def _place(path: Path) -> str:
    return f"field {'.'.join(path)!r}: " if path else ""


def key_of(numbers: Sequence[int]) -> slice | np.ndarray:
    """Return the key that selects rows by their numbers: a slice for a run of them."""
    run = len(numbers) == numbers[-1] - numbers[0] + 1
    return slice(numbers[0], numbers[-1] + 1) if run else np.array(numbers)


def _span(numbers: tuple[int, ...]) -> str:
    if isinstance(key_of(numbers), slice):
        return f"samples {numbers[0]} to {numbers[-1]}"
    return f"{len(numbers)} samples from {numbers[0]} to {numbers[-1]}"


class Undeclared(NumberedSamples):
    """A member of what functions make of the rows of `node`, where little is known of it."""

    __slots__ = ("like", "path", "step")
    parts: ClassVar[tuple[str, ...]] = ("node", "step")

    def __init__(
        self, node: Node, step: RowFunctions, path: Path, like: ArraySpec, rows: Index
    ) -> None:
        super().__init__(step.functions[-1], rows.shape[0], rows, step.to_node)
        self.node = node
        self.step = step
        self.path = path
        self.like = like

    @property
    def place(self) -> str:
        """What is made of rows is computed."""
        return "computed"

    @property
    def row_extents(self) -> Extents | None:
        """The shape of each row, if it was declared."""
        return self.like.shape

    @property
    def rows(self) -> Node:
        """The node of whose rows the samples are made."""
        assert self.node is not None
        return self.node

    def sample(self, number: int) -> Node:
        """Return one sample as a node; an error names it."""
        return self.sample_of(self.step.result(self.rows, (number,)))

    def sample_of(self, result: Result) -> Node:
        """Return this member of what functions have made of a row."""
        found = at_path(result.node, self.path)
        found = found if self.step.batch is None else select(found, parse(0, known_shape(found)), 0)
        return guarded(found)

    def answer(self, evaluate: Evaluate, memo: Memo) -> np.ndarray:
        """Return the one sample, or all of them stacked; no alias of what a function returned."""
        assert self.node is not None
        if self.count is not None and is_endless(self.count):
            return super().answer(evaluate, memo)
        wanted = self.numbers()
        with self.remembered():
            rows = self.step.separate_rows(self.node, np.unique(wanted), self.path, self.like, memo)
        if self.count is None:
            return np.array(rows[int(wanted)])
        return stack([rows[number] for number in wanted.tolist()])


# --- what a function is given ------------------------------------------------------------------


def guarded(node: Node) -> Node:
    """Return a node through which nothing can be changed."""
    return node if isinstance(node, (Reduction, Sampled)) else read_only(node)


def only(node: Node, names: Sequence[str]) -> Node:
    """Return the record of some fields, which tells why it has no others."""
    for name in names:
        if name not in node.fields:
            raise unknown_field(name, node.fields, "reads=", node.fields.lost.get(name))
    part = chosen(node, names)
    others = [name for name in node.fields if name not in names]
    lost = dict.fromkeys(others, f"is not among the fields to be read (reads={list(names)})")
    return with_fields(part, Fields(part.fields.named, lost))
