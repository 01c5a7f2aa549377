"""Expressions as programs: ufunc calls in order; and which engine computes which of them.

Equal calls occur once.  Parts that are much smaller than the whole are computed before the program
runs.

numexpr gets vetted operations on vetted dtypes, as text with generated names, never with a user's,
and constants as operands of the dtype that NumPy gives them.  It does not report floating-point
errors, so its results are searched for infinities and NaN; where there is one, NumPy computes the
block again.

"auto" takes numexpr for the operations that it was measured to compute faster.  There are none: in
blocks that stay in the cache NumPy needs less time for each of them, with AVX-512 and with AVX2
alone, and for several in one call too, so that "auto" and "numpy" are the same today.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from dataview.index.locks import new_lock
from dataview.index.settings import Setting, written
from dataview.index.sizes import sizes
from dataview.plan.kinds import Elementwise, known_shape, size_of
from dataview.plan.node import Node
from dataview.plan.operations import OPERATIONS, Rule
from dataview.plan.walk import below


class Place(NamedTuple):
    """An operand by its number: the result of an earlier step, or a leaf if it is negative."""

    number: int


class ProgramStep(NamedTuple):
    """A ufunc call: its number in the order, operands, and its results' numbers and dtypes."""

    number: int
    ufunc: Any
    operands: tuple[Any, ...]
    results: tuple[int, ...]
    dtypes: tuple[np.dtype[Any], ...]


class Program(NamedTuple):
    """Steps in order, the leaves that they read, and for every result the last step that reads it.

    A leaf that is itself elementwise is a small part, computed once before all blocks.
    """

    steps: tuple[ProgramStep, ...]
    leaves: tuple[Node, ...]
    last_use: tuple[int, ...]
    outputs: tuple[int, ...]


def compiled(*roots: Elementwise) -> Program:
    """Return the program of expressions of one shape; that of a single one is kept with it."""
    if len(roots) > 1:
        return _compiled(roots)
    (root,) = roots
    if root.program is None:
        root.program = _compiled(roots)
    program: Program = root.program
    return program


def _compiled(roots: Sequence[Elementwise]) -> Program:
    shape = known_shape(roots[0])
    steps: list[ProgramStep] = []
    leaves: list[Node] = []
    places: dict[int, Place] = {}
    calls: dict[Any, tuple[int, ...]] = {}
    count = 0
    for node in elementwise_order(roots, shape):
        operands = tuple([_operand(arg, places, leaves) for arg in node.args])
        call = (node.ufunc, *map(operand_key, operands))
        if call not in calls:
            calls[call] = tuple(range(count, count + len(node.dtypes)))
            count += len(node.dtypes)
            steps.append(ProgramStep(len(steps), node.ufunc, operands, calls[call], node.dtypes))
        places[id(node)] = Place(calls[call][node.output])
    outputs = tuple([places[id(root)].number for root in roots])
    return Program(tuple(steps), tuple(leaves), last_uses(steps, outputs, count), outputs)


def last_uses(steps: Sequence[ProgramStep], outputs: Sequence[int], count: int) -> tuple[int, ...]:
    """Return for each result the position of the last step that reads it, the end for outputs."""
    last = [len(steps)] * count
    for position, step in enumerate(steps):
        for operand in step.operands:
            if type(operand) is Place and operand.number >= 0:
                last[operand.number] = position
    for output in outputs:
        last[output] = len(steps)
    return tuple(last)


def _operand(arg: Any, places: dict[int, Place], leaves: list[Node]) -> Any:
    """Return the place of a node, a new leaf if no step computes it; anything else as it is."""
    if not isinstance(arg, Node):
        return arg
    if id(arg) not in places:
        leaves.append(arg)
        places[id(arg)] = Place(-len(leaves))
    return places[id(arg)]


def elementwise_order(
    roots: Sequence[Elementwise], shape: tuple[int, ...] | None = None
) -> list[Elementwise]:
    """Return the elementwise nodes below some, arguments first, each once, however deep.

    With the shape of the whole, small parts are left out: they are computed beforehand.
    """

    def operands(node: Elementwise) -> list[Elementwise]:
        parts = [arg for arg in node.args if isinstance(arg, Elementwise)]
        return parts if shape is None else [p for p in parts if not _is_small_part(p, shape)]

    return below(roots, operands)


def _is_small_part(part: Elementwise, whole: tuple[int, ...]) -> bool:
    """Whether a part is so much smaller than the whole expression that it is computed once.

    Each block would compute it again, and a row of it could not be repeated for several rows.
    """
    own = known_shape(part)
    return own != whole and size_of(own) <= min(sizes.folded_elements, size_of(whole) // 2)


def leaves_of(root: Elementwise) -> list[Node]:
    """Return the nodes that an expression reads, each once."""
    found = {
        id(a): a for node in elementwise_order([root]) for a in node.args if isinstance(a, Node)
    }
    return [node for node in found.values() if not isinstance(node, Elementwise)]


def operand_key(operand: Any) -> Any:
    """Return a key that differs for operands that are equal and not the same, as 1 and True."""
    if type(operand) is Place:
        return operand.number
    return type(operand), repr(operand)


# --- engines -------------------------------------------------------------------------------------

ENGINES = ("numpy", "numexpr", "auto")

MOST_STEPS = 50
"""The most steps in one call: numexpr counts registers in a byte, and its parser recurses."""

VETTED: dict[np.ufunc, Rule] = {
    row.function: row.numexpr._replace(text=row.numexpr.text or row.text)
    for row in OPERATIONS
    if row.numexpr is not None
}
"""What numexpr may compute, and how it writes it."""

PAYING = frozenset(ufunc for ufunc, row in VETTED.items() if row.slower < 1)
"""What numexpr computes in less time than NumPy: so far nothing."""

_default = os.environ.get("DATAVIEW_ENGINE", "auto")
_chosen: ContextVar[str | None] = ContextVar("engine", default=None)


def engine(name: str) -> Setting[str | None]:
    """Compute expressions in a ``with`` block with one engine: "numpy", "numexpr" or "auto".

    >>> with engine("numexpr"):
    ...     current_engine()
    'numexpr'
    """
    call = written("engine", _checked(name, "the engine"))
    return Setting(_chosen, name, call, f"set DATAVIEW_ENGINE={name} before Python starts")


def current_engine() -> str:
    """Return the name of the engine in this context."""
    return _chosen.get() or _checked(_default, "DATAVIEW_ENGINE")


def _checked(name: str, what: str) -> str:
    if name not in ENGINES:
        raise ValueError(f"{what} is one of {', '.join(map(repr, ENGINES))}; got {name!r}")
    return name


# --- what is vetted ----------------------------------------------------------------------------


class Choice(NamedTuple):
    """Which engine computes a step, and why."""

    step: ProgramStep
    engine: str
    why: str


def chosen_engines(program: Program) -> list[Choice]:
    """Return for each step of a program the engine that computes it in this context, and why."""
    name = current_engine()
    by_numexpr = _groups(program, name)
    dtypes = _dtypes(program)
    choices = []
    for step in program.steps:
        used = "numexpr" if step.number in by_numexpr else "numpy"
        refusal = _refusal(step, dtypes) if used == "numpy" else ""
        choices.append(Choice(step, used, "chosen" if used == name else refusal or "faster"))
    return choices


def _dtypes(program: Program) -> dict[int, np.dtype[Any]]:
    """Return the dtype of each place."""
    found: dict[int, Any] = {-1 - n: leaf.dtype for n, leaf in enumerate(program.leaves)}
    for step in program.steps:
        found.update(zip(step.results, step.dtypes, strict=True))
    return found


def _refusal(step: ProgramStep, dtypes: dict[int, np.dtype[Any]]) -> str:
    """Return why numexpr may not compute a step, an empty text if it may."""
    row = VETTED.get(step.ufunc)
    if row is None:
        return "not vetted"
    if row.underflows and np.geterr()["under"] != "ignore":
        return "underflow is to be told"
    own = {dtypes[op.number] for op in step.operands if type(op) is Place}
    kind = own.pop() if own else np.dtype(object)
    if own or not kind.isnative or kind.str[1:] not in row.dtypes.split():
        return f"not vetted for {step.dtypes[0] if own else kind}"
    if step.dtypes[0] != (np.dtype(bool) if row.truth else kind):
        return "not vetted for mixed dtypes"
    constants = [op for op in step.operands if type(op) is not Place]
    return "" if all(_typed(one, kind) is not None for one in constants) else "a mixed constant"


def _typed(value: Any, dtype: np.dtype[Any]) -> np.ndarray | None:
    """Return a constant in the dtype that NumPy gives it beside operands of this one, or None."""
    own = {"b": (bool,), "i": (int,), "f": (int, float)}[dtype.kind]
    if type(value) not in own:
        return None
    try:
        with np.errstate(all="raise"):
            return np.asarray(value, dtype)
    except (OverflowError, FloatingPointError):
        return None


# --- steps in one call -------------------------------------------------------------------------


def with_joined_steps(program: Program) -> Program:
    """Return a program with the steps that numexpr is to compute joined into calls of it."""
    groups = _groups(program, current_engine())
    if not groups:
        return program
    dtypes = _dtypes(program)
    members: dict[int, list[ProgramStep]] = {}
    for step in program.steps:
        if step.number in groups:
            members.setdefault(groups[step.number], []).append(step)
    steps = []
    for step in program.steps:
        if step.number not in groups:
            steps.append(step)
        elif groups[step.number] == step.number:
            joined = _joined(members[step.number], dtypes)
            steps.append(step._replace(ufunc=joined, operands=joined.operands))
    last = last_uses(steps, program.outputs, len(program.last_use))
    return program._replace(steps=tuple(steps), last_use=last)


def _groups(program: Program, name: str) -> dict[int, int]:
    """Return, for the steps that numexpr computes, the last step of the call they belong to."""
    if name == "numpy" or (name == "auto" and not PAYING):
        return {}
    dtypes = _dtypes(program)
    made_by = {place: step for step in program.steps for place in step.results}
    readers: dict[int, list[tuple[ProgramStep, int]]] = {}
    groups: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for step in reversed(program.steps):
        pays = name == "numexpr" or step.ufunc in PAYING
        if pays and not _refusal(step, dtypes):
            group = step.number
            users = readers.get(group, [])
            if len(users) == 1 and not set(step.results).intersection(program.outputs):
                ((user, position),) = users
                joined = groups.get(user.number)
                if joined is not None and sizes[joined] < MOST_STEPS:
                    separate = position in VETTED[user.ufunc].separate
                    group = group if separate else joined
            groups[step.number] = group
            sizes[group] = sizes.get(group, 0) + 1
        for position, operand in enumerate(step.operands):
            if type(operand) is Place and operand.number in made_by:
                below = made_by[operand.number].number
                readers.setdefault(below, []).append((step, position))
    return groups


def _joined(steps: Sequence[ProgramStep], dtypes: dict[int, np.dtype[Any]]) -> Joined:
    """Return several steps as one call; the names in its text are v0, v1 and so on."""
    inside = {place for step in steps for place in step.results}
    operands: list[Any] = []
    kinds: list[str] = []
    names: dict[Any, str] = {}
    texts: dict[int, str] = {}

    def name_of(operand: Any, dtype: np.dtype[Any]) -> str:
        if type(operand) is Place and operand.number in inside:
            return texts[operand.number]
        key = operand if type(operand) is Place else len(operands)
        if key not in names:
            names[key] = f"v{len(operands)}"
            operands.append(operand if type(operand) is Place else _typed(operand, dtype))
            kinds.append(dtype.str[1:])
        return names[key]

    for step in steps:
        dtype = next(dtypes[op.number] for op in step.operands if type(op) is Place)
        words = [name_of(operand, dtype) for operand in step.operands]
        texts[step.results[0]] = f"({VETTED[step.ufunc].text.format(*words)})"
    text = texts[steps[-1].results[0]]
    floats = steps[-1].dtypes[0].kind == "f"
    may_raise = floats and any(VETTED[step.ufunc].raises for step in steps)
    return Joined(text, tuple(kinds), tuple(steps), tuple(operands), may_raise)


class Joined(NamedTuple):
    """Several steps in one call of numexpr."""

    text: str
    kinds: tuple[str, ...]
    steps: tuple[ProgramStep, ...]
    operands: tuple[Any, ...]
    may_raise: bool

    def __call__(
        self, operands: Sequence[np.ndarray], out: np.ndarray, reach: Callable[[ProgramStep], None]
    ) -> None:
        """Compute a block into `out`, which shares no memory with the operands.

        NumPy computes it where numexpr may have met an error, and where the block is empty, which
        numexpr does not broadcast as NumPy does.  `reach` is called with each step before that.
        """
        if out.size:
            run = _numexprs.compiled(self.text, self.kinds)
            run(*operands, out=out, order="K", ex_uses_vml=False)
            if not self.may_raise or np.isfinite(out).all():
                return
        given = zip(self.operands, operands, strict=True)
        values = {operand.number: value for operand, value in given if type(operand) is Place}
        for step in self.steps:
            reach(step)
            args = [values[op.number] if type(op) is Place else op for op in step.operands]
            values[step.results[0]] = step.ufunc(*args)
        np.copyto(out, values[self.steps[-1].results[0]])


class _NumExprs(threading.local):
    """numexpr's objects by their texts, each thread's own: two threads in one would crash."""

    def __init__(self) -> None:
        self.compiled = functools.lru_cache(256)(_numexpr_of)


def _numexpr_of(text: str, kinds: tuple[str, ...]) -> Any:
    from numexpr import necompiler

    types = [necompiler.getType(np.empty(0, kind)) for kind in kinds]
    signature = [(f"v{number}", type_) for number, type_ in enumerate(types)]
    return necompiler.NumExpr(text, signature, optimization="none", truediv=True)


_numexprs = _NumExprs()
_running = 0
_threads_before = 1
_lock = new_lock()


@contextlib.contextmanager
def one_thread(program: Program) -> Iterator[None]:
    """Let numexpr compute each block in one thread, because other threads have other blocks.

    The setting belongs to the whole process: when the last evaluation ends, it is restored.
    """
    global _running, _threads_before
    if not any(isinstance(step.ufunc, Joined) for step in program.steps):
        yield
        return
    import numexpr

    with _lock:
        _running += 1
        if _running == 1:
            _threads_before = numexpr.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running:
                numexpr.set_num_threads(_threads_before)
