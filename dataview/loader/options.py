"""The options of `View._loader` and `View._minibatches`, and what those of others are here."""

# ruff: noqa: RUF009 (`_option` returns a field of the dataclass)

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import numpy as np

from dataview import samplers
from dataview.errors import VERY_NEAR, closest, hint, unknown_option
from dataview.loader.devices import checked_device
from dataview.plan.guards import misfit

Check: TypeAlias = Callable[[str, Any], Any]
"""A function of an option's name and value, which returns the value to use, or raises."""

# --- checks ----------------------------------------------------------------------------------


def _number(least: int) -> Check:
    def check(name: str, value: Any) -> int:
        samplers.checked_number(name, value, least)
        return int(value)

    return check


def _one_of(*choices: str, function: str = "") -> Check:
    def check(name: str, value: Any) -> Any:
        if not (function and callable(value)) and value not in choices:
            raise ValueError(f"{name}= is one of {', '.join(choices)}{function}; got {value!r}")
        return value

    return check


def _function(meaning: str, *others: Any) -> Check:
    def check(name: str, value: Any) -> Any:
        if not callable(value) and not any(value is other for other in others):
            raise TypeError(f"{name}= {meaning}; got {value!r}")
        return value

    return check


def _truth(advice: str = "") -> Check:
    def check(name: str, value: Any) -> bool:
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name}= is True or False; got {value!r}{advice}")
        return bool(value)

    return check


def _padding(name: str, value: Any) -> Any:
    if value is True:
        raise TypeError(f"{name}= is the value that shorter samples are filled up with; write 0")
    return value


_count = _number(0)
_batch_size = _number(1)

_tail = _one_of("short", "drop", "pad", "error")
_on_error = _one_of("raise", "skip", "replace", function=", or a function of the row and the error")
_progress = _function("is True, or makes a bar like tqdm", False, True)


def _collate(name: str, value: Any) -> Any:
    function = _function("is a function of a list of samples, dicts of arrays")(name, value)
    if why := misfit(function, ["a list of samples"]):
        raise TypeError(f"{name}= {why}; the samples are dicts of arrays by field, or arrays")
    return function


def _seed(name: str, value: Any) -> Any:
    return samplers.checked_seed(value)


def _transform(name: str, value: Any) -> tuple[Callable[..., Any], ...]:
    steps = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    for step in steps:
        if not callable(step):
            raise TypeError(f"a transform is a function, or a list of them; got {step!r}")
        if why := misfit(step, ["the view of a sample"], by_name="rng"):
            raise TypeError(f"{name}= {why}; a parameter rng gets random numbers")
    return steps


def _shard(name: str, value: Any) -> tuple[int, int]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(f"shard= is a pair (rank, ranks); got {value!r}")
    rank, ranks = (_count(name, number) for number in value)
    if rank >= ranks:
        raise ValueError(f"shard= is (rank, ranks) with 0 <= rank < ranks; got {value!r}")
    return rank, ranks


# --- the table -------------------------------------------------------------------------------


class Options:
    """The options of `View._loader` and `View._minibatches`, each as `help` explains it.

    Which samples, in which order:

    - `sampler`: a name, one of `dv.samplers`, rows, a function; in loaders also by field or index
    - `seed`: determines all random numbers: an integer, a text, or several of them
    - `epoch`: the epoch whose order and random numbers the batches have
    - `pool`: for a stream: how many samples are shuffled together, or how many bytes, as "64MB"

    How batches are made:

    - `batch_size`: how many samples a batch has
    - `tail`: what to do with samples too few for a batch: "short", "drop", "pad" or "error"
    - `transform`: a function of each sample, or several; a parameter `rng` gets random numbers
    - `collate`: a function that makes a batch from a list of samples, which are dicts of arrays
    - `pad`: what fills up shorter samples: a value, a `dv.Pad` or "ragged", or these by field

    In which form they are handed out:

    - `fields`: the fields to read: a name gives arrays, a tuple tuples, a list or mapping mappings
    - `spec`: the layout of a batch: a pair of a space of `dv.spaces` and the name of a field
    - `device`: where arrays go: None for NumPy, a library's device, or its name as "torch:cuda:0"

    Epochs:

    - `num_samples`: how many samples an epoch has; None means all
    - `num_batches`: how many batches an epoch has; None means all
    - `repeat`: whether the loop continues from one epoch to the next, without end
    - `straddle`: with `repeat`: whether a batch may begin in one epoch and end in the next

    Several ranks:

    - `shard`: (rank, ranks): which part of each epoch this loader has
    - `even`: what to do with samples too few for all ranks: "short", "drop" or "pad"

    Workers:

    - `workers`: how many threads or processes make batches in advance; none with 0
    - `kind`: the kind of workers: "thread", or "process" for functions in pure Python
    - `prefetch`: how many more batches are made in advance; without workers, by one thread

    Samples that fail:

    - `on_error`: "raise", "skip", "replace" by the next sample, or a function of row and error
    - `max_errors`: how many may fail before the loader raises an error; None means any number

    Progress:

    - `progress`: True for a bar, or a function that makes a bar as tqdm does
    """


def _option(default: Any, check: Check) -> Any:
    return dataclasses.field(default=default, metadata={"check": check})


@dataclasses.dataclass(eq=False, repr=False)
class LoaderOptions(Options):
    """The options of `View._loader`, in the order of their positions.

    Sampler, pool and fields depend on the data, so the plan of the loader checks them.
    """

    batch_size: int = _option(1, _batch_size)
    sampler: Any = "linear"
    seed: int | str | Sequence[int | str] = _option(0, _seed)
    repeat: bool = _option(False, _truth("; each loop over the loader is an epoch"))
    straddle: bool = _option(False, _truth())
    tail: str = _option("short", _tail)
    num_samples: int | None = _option(None, _count)
    num_batches: int | None = _option(None, _count)
    pool: int | str | None = None
    fields: Any = None
    collate: Callable[[list[Any]], Any] | None = _option(None, _collate)
    pad: Any = _option(None, _padding)
    transform: Any = _option(None, _transform)
    shard: tuple[int, int] = _option((0, 1), _shard)
    even: str = _option("short", _one_of("short", "drop", "pad"))
    workers: int = _option(0, _count)
    kind: str = _option("thread", _one_of("thread", "process"))
    prefetch: int = _option(0, _count)
    on_error: Any = _option("raise", _on_error)
    max_errors: int | None = _option(None, _count)
    progress: Any = _option(None, _progress)
    device: Any = _option(None, checked_device)
    spec: Any = None

    def __post_init__(self) -> None:
        if self.spec is not None and self.fields is not None:
            raise ValueError("spec= names the fields that are read: leave fields= out")
        if self.straddle and not self.repeat:
            raise ValueError("straddle=True lets batches cross epochs, which needs repeat=True")
        if self.straddle and (self.tail, self.even) != ("short", "short"):
            raise ValueError(
                "batches that straddle epochs are all whole: leave tail= and even= out"
            )
        if self.replaces and self.tail in ("pad", "error"):
            raise ValueError("failed samples are replaced: choose tail='short' or 'drop' with that")
        if self.collate is not None and self.pad is not None:
            raise ValueError("pad= is for the own collation; your collate= pads by itself")

    @property
    def replaces(self) -> bool:
        """Whether other samples may take the places of those that fail."""
        return callable(self.on_error) or self.on_error == "replace"


@dataclasses.dataclass(eq=False, repr=False)
class MinibatchOptions(Options):
    """The options of `View._minibatches`, in the order of their positions."""

    batch_size: int | None = _option(None, _batch_size)
    tail: str = _option("short", _tail)
    sampler: Any = "linear"
    seed: int | str | Sequence[int | str] = _option(0, _seed)
    epoch: int = _option(0, _count)
    num_samples: int | None = _option(None, _count)
    num_batches: int | None = _option(None, _count)
    spec: Any = None


# --- verbs with options ----------------------------------------------------------------------

_Given = ParamSpec("_Given")
_Options = TypeVar("_Options")
_View = TypeVar("_View")
_Found = TypeVar("_Found")


def takes(
    kind: Callable[_Given, _Options],
) -> Callable[[Callable[[_View, _Options], _Found]], Callable[Concatenate[_View, _Given], _Found]]:
    """Return a decorator that checks a verb's options and passes them to it as one object.

    The verb's signature and help list the options of the class.
    """

    def decorated(
        verb: Callable[[_View, _Options], _Found],
    ) -> Callable[Concatenate[_View, _Given], _Found]:
        @functools.wraps(verb)
        def called(view: _View, /, *given: _Given.args, **named: _Given.kwargs) -> _Found:
            return verb(view, declared(**_checked(verb.__name__, known, given, named)))

        declared: Any = kind
        known = {o.name: (o.default, o.metadata.get("check")) for o in dataclasses.fields(declared)}
        own = inspect.signature(verb)
        view, _ = own.parameters.values()
        parameters = [view, *inspect.signature(kind).parameters.values()]
        called.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        called.__doc__ = f"{inspect.cleandoc(verb.__doc__ or '')}\n\n{_explained(known)}"
        return called

    return decorated


def _checked(
    verb: str, known: Mapping[str, Any], given: tuple[Any, ...], named: dict[str, Any]
) -> dict[str, Any]:
    """Return the options by name, checked and converted."""
    if len(given) > len(known):
        raise TypeError(f"{verb} takes {len(known)} options; got {len(given)}")
    for name, value in zip(known, given, strict=False):
        if name in named:
            raise TypeError(f"{verb} got the option {name!r} twice, by position and by name")
        named[name] = value
    for name, value in named.items():
        if name not in known:
            meant = name if closest(name, known) else closest(name, ELSEWHERE, VERY_NEAR)
            option, mark, how = ELSEWHERE.get(meant, "").partition("=")
            value = samplers.name_here(value) or value if name == "mode" else value
            advice = f"{option}={how.format(value)}" if mark and option in known else ""
            advice = IN_CODE.get(name, advice)
            if not advice and name in LoaderOptions.__dataclass_fields__:
                advice = f"d._loader(batch_size, {name}=...)"
            raise unknown_option(name, known, verb, advice)
        default, check = known[name]
        if check is not None and value is not default:
            named[name] = check(name, value)
    return named


ELSEWHERE = {
    "batch_sampler": "sampler=",
    "collate_fn": "collate=",
    "data_specs": "spec={!r}",
    "drop_last": "tail='drop'",
    "drop_remainder": "tail='drop'",
    "generator": "seed={!r}",
    "mode": "sampler={!r}",
    "num_workers": "workers={!r}",
    "pin_memory": "device=",
    "prefetch_factor": "prefetch={!r}",
    "random_state": "seed={!r}",
    "rng": "seed={!r}",
    "shuffle": "sampler='permutation'",
}
"""What to write for the options of other libraries' loaders, with their value."""

IN_CODE = dict.fromkeys(
    ("epochs", "num_epochs", "max_epochs"), "for epoch in range(epochs), and in it, for b in loader"
)
"""What to write for options of other libraries that are none here."""

_OF_LOADERS = {
    "it was made by d._loader(...), and d is the data": "dataset data source view ds",
    "each loop over the loader is an epoch with an order of its own": "set_epoch epochs "
    "num_epochs max_epochs on_epoch_end",
    "write loader.epoch, the number of epochs that are over": "current_epoch epoch_number",
    "write next(loader)": "next get_next next_batch get_batch get_data",
    "write for batch in loader": "iterator iter get_epoch_iterator iter_epochs as_numpy_iterator "
    "iter_batches iterate batches batch",
    "write len(loader), or loader.num_batches()": "steps_per_epoch n_batches length size",
    "write loader.rows": "indices index indexes row_numbers",
    "write loader.state_dict()": "state get_state save serialize",
    "write loader.load_state_dict(state)": "load set_state load_state restore",
    "write loader.close()": "stop shutdown terminate finalize",
    "write d._map(function)._loader(batch_size)": "map apply",
    "write d._filter(function)._loader(batch_size)": "filter select",
    "write d._cached()._loader(batch_size)": "cache persist",
    "write d._loader(batch_size, num_batches=n)": "take limit",
    "write d._loader(batch_size, device='torch:cuda:0')": "to cuda",
}
"""What to write for names that other loaders have, in a row for each."""


SET_BY_ITSELF = (
    "loader.{} cannot be set: load_state_dict(state) takes a loader to another place, and its "
    "options are given to d._loader(batch_size)"
)


def unknown_attribute(name: str, known: Collection[str], options: Collection[str]) -> str:
    """Return the message for an attribute that a loader has not, with advice or the closest one.

    >>> unknown_attribute("num_workers", (), ["workers"])
    "a loader has no attribute 'num_workers'; it is an option: d._loader(batch_size, workers=...)"
    >>> unknown_attribute("features", ["_failure"], ())
    "a loader has no attribute 'features'; fields belong to its batches: batch.features"
    """
    text = f"a loader has no attribute {name!r}"
    option = name if name in options else ELSEWHERE.get(name, "").partition("=")[0]
    if option in options:
        return f"{text}; it is an option: d._loader(batch_size, {option}=...)"
    for advice, names in _OF_LOADERS.items():
        if name in names.split():
            return f"{text}; {advice}"
    public = [one for one in known if not one.startswith("_")]
    if name.startswith("_"):
        return text
    return text + (hint(name, public) or f"; fields belong to its batches: batch.{name}")


def _explained(known: Collection[str]) -> str:
    """Return the help on some options: a line for each, in groups."""
    found = []
    _, *paragraphs = inspect.cleandoc(Options.__doc__ or "").split("\n\n")
    for heading, lines in zip(paragraphs[::2], paragraphs[1::2], strict=True):
        kept = [line for line in lines.splitlines() if line.split("`")[1] in known]
        found += [heading, "\n".join(kept)] if kept else []
    return "\n\n".join(found)


def takes_rng(function: Callable[..., Any]) -> bool:
    """Whether a function has a parameter of the name `rng`."""
    try:
        return "rng" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        return False
