"""The plan of a loader: options are checked and become its dealer, its assembly, its output."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dataview import samplers
from dataview.batches import Dealing
from dataview.errors import FieldError, StreamError, unknown_field
from dataview.index import is_endless
from dataview.loader.assembly import Assembly
from dataview.loader.dealing import Cursor, RowDealer
from dataview.loader.gaps import without_mask
from dataview.loader.options import LoaderOptions
from dataview.loader.output import Output, parts_and_form
from dataview.loader.reading import OWN
from dataview.loader.stream_dealing import StreamDealer
from dataview.plan.kinds import Record, members
from dataview.plan.node import Node
from dataview.samplers import count_rows
from dataview.samples import Items, Stream, pairings_in


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LoaderPlan:
    """Everything that a loader works with; it does not change."""

    options: LoaderOptions
    dealer: RowDealer | StreamDealer
    assembly: Assembly
    output: Output
    fingerprint: Callable[[], Mapping[str, Any]]
    endless: bool = False


def plan_for(
    node: Node,
    options: LoaderOptions,
    viewed: Callable[[Node], Any],
    viewed_with: Callable[[Node, Mapping[str, Node]], Any],
    unwrapped: Callable[[Any], Any],
    delivery: Any = None,
) -> LoaderPlan:
    """Return the plan of a node's loader, after checking everything that can be checked.

    `viewed` makes the view of a node, `viewed_with` a view with its fields, and `unwrapped` returns
    the nodes of views.  `delivery` makes of the arrays of its `sources` what `spec=` asks for.
    """
    parts, form, asked = _asked(node, options, delivery)
    maskless = without_mask(node, asked)
    count, rows, chosen, dealer = _dealt(node, options)
    secondary = frozenset(list(chosen)[1:])
    for name in secondary - parts.keys() - _others(node).keys():
        raise ValueError(f"sampler= has one for field {name!r}, which is not loaded")
    _check_lengths({name: parts[name] for name in parts if name not in secondary}, count)
    steps = options.transform or ()
    names = {name: asked.get(name, name) for name in parts}
    assembly = Assembly(
        parts, names, viewed, steps, options.collate, options.pad, options.on_error, options.seed,
        secondary=secondary, unwrap=unwrapped, maskless=frozenset(maskless), meta=node.meta,
        chunks=next(iter(chosen.values())).chunks if len(chosen) == 1 else None,
    )  # fmt: skip
    like = node if form is None and not steps and options.collate is None else None
    facts = {
        "seed": list(options.seed) if isinstance(options.seed, tuple) else options.seed,
        "length": count,
        "fields": {name: _dtype_of(part) for name, part in parts.items()},
    }
    fingerprint = functools.cache(functools.partial(_fingerprint, facts, chosen, rows, options))
    output = Output(
        form, like, viewed_with, options.device, delivery, maskless,
        is_padded=options.pad is not None,
    )  # fmt: skip
    endless = count is not None and is_endless(count)
    return LoaderPlan(options, dealer, assembly, output, fingerprint, endless)


def _asked(
    node: Node, options: LoaderOptions, delivery: Any
) -> tuple[Mapping[str, Node], Any, Mapping[str, str]]:
    """Return what is read, how it is handed out, and under which names that was asked for."""
    if delivery is None:
        return parts_and_form(node, options.fields)
    parts = delivery.nodes if delivery.is_whole else parts_and_form(node, None)[0]
    form = list(delivery.sources)
    return parts, form, dict(zip(form, form, strict=True))


class _Dealt(NamedTuple):
    """How many rows there are to draw from, by what, and who deals them; a stream has none."""

    total: int | None
    rows: Mapping[str, samplers.RowsOf]
    chosen: Mapping[str, samplers.Sampler]
    dealer: RowDealer | StreamDealer


def _dealt(node: Node, options: LoaderOptions) -> _Dealt:
    if isinstance(node, Stream):
        return _Dealt(None, {}, {}, _stream_dealer(node, options))
    count = count_rows(node, "_loader")
    rows = _rows(node, count, _others(node))
    chosen = _samplers(node, rows, options)
    return _Dealt(count, rows, chosen, _row_dealer(rows, chosen, options))


def _check_lengths(parts: Mapping[str, Node], count: int | None) -> None:
    """Raise unless each part has a row for each row of the view."""
    for name, part in parts.items():
        if None not in (count, part.count) and part.count != count:
            raise FieldError(
                f"field {name!r} belongs to the whole dataset only: it has {part.count} rows, and "
                f"the view that is loaded has {count}; d[{name!r}]._loader(...) loads it alone"
            )


def _dealing(o: LoaderOptions) -> Dealing:
    return Dealing(o.batch_size, o.tail, o.straddle, *o.shard, o.even, o.num_samples, o.num_batches)


def _dtype_of(node: Node) -> Any:
    if isinstance(node, Record):
        return {name: _dtype_of(part.node) for name, part in members(node).items()}
    return None if node.dtype is None else str(node.dtype)


def _fingerprint(
    facts: Mapping[str, Any],
    chosen: Mapping[str, samplers.Sampler],
    rows: Mapping[str, samplers.RowsOf],
    options: LoaderOptions,
) -> Mapping[str, Any]:
    """Return what distinguishes the data and their order, as plain data.

    What samplers order by is read for it, if no batch has needed it yet.
    """
    names: list[Any] = [[name, *_signature(sampler)] for name, sampler in chosen.items()]
    order = {"sampler": names or _order_of_stream(options.sampler)}
    told = {
        "ordered by": {name: by for name, data in rows.items() if (by := data.told())},
        "parts": {
            name: samplers.text_of(np.array(rows.get(name, rows[OWN]).parts))
            for name, sampler in chosen.items()
            if sampler.by_parts
        },
    }
    return {**facts, **order, **{name: found for name, found in told.items() if found}}


def _order_of_stream(sampler: Any) -> list[Any]:
    """Return what distinguishes the order of a stream from others."""
    chosen = samplers.sampler_of(sampler)
    return ["stream"] if chosen.in_order else ["stream", *_signature(chosen)]


def _signature(sampler: samplers.Sampler) -> list[Any]:
    """Return what distinguishes a sampler, as plain data; functions by their names alone."""
    options = {
        name: re.sub(r" at 0x[0-9a-fA-F]+", "", value) if isinstance(value, str) else value
        for name, value in sampler.options.items()
    }
    return [sampler.name, sampler.version, options]


def _stream_dealer(node: Stream, options: LoaderOptions) -> StreamDealer:
    sampler = samplers.sampler_of(options.sampler, node.fields, options.batch_size, options.tail)
    samplers.stream_by(node, sampler, options.seed, 0)
    if options.straddle:
        raise StreamError("the batches of a stream end with it: leave straddle= out")
    return StreamDealer(node, sampler, _dealing(options), options.pool, options.seed)


def _samplers(
    node: Node, rows: Mapping[str, samplers.RowsOf], options: LoaderOptions
) -> dict[str, samplers.Sampler]:
    """Return the samplers by the fields that they are for; the first one drives the epochs."""
    if options.pool is not None:
        raise ValueError("pool= is for streams; rows are shuffled by sampler='permutation'")
    others = _others(node)
    given = _by_name(options.sampler, node, others)
    if not given:
        raise ValueError("sampler= names no field; give a name or one of dv.samplers")
    found: dict[str, samplers.Sampler] = {}
    for name, what in given.items():
        if name and name not in node.fields and name not in others:
            raise unknown_field(name, node.fields, "the view that is loaded")
        data = rows.get(name, rows[OWN])
        sampler = samplers.sampler_of(what, data.node.fields, options.batch_size, options.tail)
        sampler = sampler.settled(data)
        found[name] = sampler.limited(options.num_samples, options.num_batches)
    return found


def _by_name(given: Any, node: Node, others: Mapping[str, Items]) -> Mapping[str, Any]:
    """Return samplers by what they are for; of a list of them each is for an index."""
    if isinstance(given, Mapping):
        return given
    if not samplers.are_several(given):
        for pairing in pairings_in(node):
            pairing.check_lengths()
        return {OWN: given}
    if not others:
        raise TypeError(
            "sampler= has a list of samplers, one for each index, and the view is not one of "
            "several indexes; sampler={'x': ...} has one for each field, and dv.samplers.mix "
            f"mixes parts; got {given!r}"
        )
    if len(given) != 1 + len(others):
        raise ValueError(
            f"sampler= has {len(given)} samplers for {1 + len(others)} indexes; give as many"
        )
    return dict(zip((OWN, *others), given, strict=True))


def _others(node: Node) -> dict[str, Items]:
    """Return the indexes but the first of which a view was made, by name."""
    return {name: own for pairing in pairings_in(node) for name, own in pairing.others.items()}


def _rows(node: Node, count: int, others: Mapping[str, Items]) -> dict[str, samplers.RowsOf]:
    """Return the rows that samplers draw from: of the view, and of other indexes by name."""
    own = {name: samplers.RowsOf(items.rows, items.total) for name, items in others.items()}
    return {OWN: samplers.RowsOf(node, count), **own}


def _row_dealer(
    rows: Mapping[str, samplers.RowsOf],
    chosen: Mapping[str, samplers.Sampler],
    options: LoaderOptions,
) -> RowDealer:
    count = rows[OWN].count
    driver, *others = chosen.items()
    if is_endless(count) and not (driver[1].in_order and not others):
        raise StreamError("a view that never ends is visited in order: leave sampler= out")

    def orders(
        epoch: int, before: Mapping[str, samplers.Order], given: Mapping[str, Any]
    ) -> tuple[samplers.Order, dict[str, samplers.Order]]:
        found: dict[str, samplers.Order] = {}
        for name, sampler in [(OWN, driver[1]), *others]:
            known, then = given.get(name), before[name].then if before else None
            data = rows.get(name, rows[OWN])
            if known is None:
                seed = options.seed if name == OWN else _seed_beside(options.seed, name)
                found[name] = then() if then else sampler.order(data, seed, epoch)
            elif isinstance(known, samplers.Order):
                found[name] = known
            else:
                drawn, cuts = known
                found[name] = sampler.again(data, drawn, cuts, epoch)
        return found.pop(OWN), found

    replays = any(sampler.replays for sampler in chosen.values())
    dealer = RowDealer(orders, count, _dealing(options), replays)
    _check_batches(dealer, driver[1], options)
    return dealer


def _seed_beside(seed: Any, name: str) -> tuple[Any, ...]:
    """Return the seed of a sampler beside the first one: two of a kind draw different rows."""
    return (*seed, name) if isinstance(seed, tuple) else (seed, name)


def _check_batches(dealer: RowDealer, sampler: samplers.Sampler, options: LoaderOptions) -> None:
    """Refuse options that contradict a sampler, before the first batch."""
    found = dealer.of(0)
    if found.driver.cuts is not None:
        sized = sampler.sized
        if options.tail != "short" or options.straddle or (options.batch_size > 1 and not sized):
            named = "tail= and straddle=" if sized else "batch_size=, tail= and straddle="
            raise ValueError(f"{sampler!r} decides about the batches; leave {named} out")
        if options.replaces:
            raise ValueError(f"{sampler!r} decides about the batches, so none is filled up")
    elif options.tail == "error":
        dealer.dealing.end(0, found.total)
    is_whole = options.straddle or (found.driver.cuts is not None and dealer.dealing.ranks == 1)
    if options.repeat and not (found.total if is_whole else dealer.batches(Cursor())):
        raise ValueError("an epoch has no batches, so it cannot be repeated")
