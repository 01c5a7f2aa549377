"""What a loader works with, made of its options and of the node that it loads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dataview import samplers
from dataview.errors import StreamError, unknown_field
from dataview.index import is_endless
from dataview.loader.assembly import OWN, Assembly
from dataview.loader.dealing import Course, Cursor, Dealing
from dataview.loader.options import LoaderOptions
from dataview.loader.output import Handing, asked
from dataview.loader.stream_dealing import Arrivals
from dataview.plan.kinds import Record, members
from dataview.plan.node import Node
from dataview.samplers import shape_by_rows
from dataview.samples import Stream


class Lent(NamedTuple):
    """What the face lends: views of nodes, views with their parts, and nodes of views."""

    viewed: Callable[[Node], Any]
    viewed_with: Callable[[Node, Mapping[str, Node]], Any]
    unwrapped: Callable[[Any], Any]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Setting:
    """What a loader works with."""

    options: LoaderOptions
    course: Course | Arrivals
    assembly: Assembly
    handing: Handing
    fingerprint: Mapping[str, Any]
    endless: bool = False


def made(node: Node, lent: Lent, options: LoaderOptions) -> Setting:
    """Return what a loader of a node works with, after everything is checked that can be."""
    parts, form = asked(node, options.fields)
    secondary: frozenset[str] = frozenset()
    course: Course | Arrivals
    if isinstance(node, Stream):
        course = _arrivals(node, options)
        names: list[Any] = ["stream"]
        count = None
    else:
        count = _count(node)
        chosen = _samplers(node, options)
        secondary = frozenset(list(chosen)[1:])
        course = _course(node, count, chosen, options)
        names = [[name, *_signature(sampler)] for name, sampler in chosen.items()]
        _check_others(secondary, parts, form)
    steps = options.transform or ()
    assembly = Assembly(
        parts,
        lent.viewed,
        steps,
        options.collate,
        options.pad,
        options.on_error,
        options.seed,
        secondary,
        lent.unwrapped,
    )
    plain = not steps and options.collate is None and options.pad is None
    like = node if form is None and plain else None
    fingerprint = {
        "length": count,
        "fields": {name: _dtype_of(part) for name, part in parts.items()},
        "sampler": names,
    }
    handing = Handing(form, like, lent.viewed_with, options.device)
    endless = count is not None and is_endless(count)
    return Setting(options, course, assembly, handing, fingerprint, endless)


def _count(node: Node) -> int:
    shape = shape_by_rows(node)
    if not shape:
        raise TypeError("_loader: the view has no rows, its shape is ()")
    return shape[0]


def _dealing(options: LoaderOptions) -> Dealing:
    return Dealing(
        options.batch_size,
        options.tail,
        options.straddle,
        *options.shard,
        options.even,
        options.num_samples,
        options.num_batches,
    )


def _dtype_of(node: Node) -> Any:
    if isinstance(node, Record):
        return {name: _dtype_of(part.node) for name, part in members(node).items()}
    return None if node.dtype is None else str(node.dtype)


def _signature(sampler: samplers.Sampler) -> list[Any]:
    """Return what tells samplers apart, as plain data; functions by their names alone."""
    options = {
        name: re.sub(r" at 0x[0-9a-fA-F]+", "", value) if isinstance(value, str) else value
        for name, value in sampler.options.items()
    }
    return [sampler.name, sampler.version, options]


def _arrivals(node: Stream, options: LoaderOptions) -> Arrivals:
    if options.sampler != "linear":
        raise StreamError(
            "a stream comes in its own order, so it takes no sampler=; pool= shuffles it"
        )
    if options.straddle:
        raise StreamError("the batches of a stream end with it: leave straddle= out")
    return Arrivals(node, _dealing(options), options.pool, options.seed)


def _samplers(node: Node, options: LoaderOptions) -> dict[str, samplers.Sampler]:
    """Return the samplers by the fields that they are for; the first one drives the epochs."""
    if options.pool is not None:
        raise ValueError("pool= is for streams; rows are shuffled by sampler='permutation'")
    given = options.sampler if isinstance(options.sampler, Mapping) else {OWN: options.sampler}
    if not given:
        raise ValueError("sampler= names no field; give a name or one of dv.samplers")
    size = options.batch_size
    found: dict[str, samplers.Sampler] = {}
    for name, what in given.items():
        if name and name not in node.fields:
            raise unknown_field(name, node.fields, "the view that is loaded")
        fitting = samplers.made(what, node.fields, size, options.tail)
        found[name] = fitting
    return found


def _course(
    node: Node, count: int, chosen: Mapping[str, samplers.Sampler], options: LoaderOptions
) -> Course:
    data = samplers.RowsOf(node, count)
    driver, *others = chosen.items()
    if is_endless(count) and not (driver[1].name == "linear" and not others):
        raise StreamError("a view that never ends is visited in order: leave sampler= out")

    def orders(epoch: int) -> tuple[samplers.Order, dict[str, samplers.Order]]:
        seed = options.seed
        more = {name: sampler.order(data, seed, epoch) for name, sampler in others}
        return driver[1].order(data, seed, epoch), more

    course = Course(orders, count, _dealing(options))
    _check_batches(course, driver[1], options)
    return course


def _check_batches(course: Course, sampler: samplers.Sampler, options: LoaderOptions) -> None:
    """Refuse options that contradict a sampler, before the first batch."""
    found = course.of(0)
    if found.driver.cuts is not None:
        sized = getattr(sampler, "sized", False)
        if options.tail != "short" or options.straddle or (options.batch_size > 1 and not sized):
            named = "tail= and straddle=" if sized else "batch_size=, tail= and straddle="
            raise ValueError(f"{sampler!r} decides about the batches; leave {named} out")
        if options.replaces:
            raise ValueError(f"{sampler!r} decides about the batches, so none is filled up")
    elif options.tail == "error":
        course.dealing.end(0, found.total)
    if options.repeat and not (found.total if options.straddle else course.batches(Cursor())):
        raise ValueError("an epoch has no batches, so it cannot be repeated")


def _check_others(secondary: Iterable[str], parts: Mapping[str, Node], form: Any) -> None:
    for name in secondary:
        if name not in parts:
            raise ValueError(f"sampler= has one for field {name!r}, which is not loaded")
