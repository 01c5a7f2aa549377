"""Samplers by name, and the sampler that a name, a class, an iterable or a function stands for."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from dataview.errors import hint
from dataview.samplers.chunks import ChunkPermutation
from dataview.samplers.given import (
    Iterated,
    NextRow,
    OrderFunction,
    checked_rows,
    without_views,
)
from dataview.samplers.labelled import LabelDistribution, LabelPermutation, LabelUniform, Restricted
from dataview.samplers.lengths import Bucket, SameLength, TokenBudget
from dataview.samplers.parts import (
    Mix,
    PartLinear,
    PartLinearPermutation,
    PartPermutationPermutation,
)
from dataview.samplers.protocol import Sampler
from dataview.samplers.simple import (
    BatchwisePermutation,
    Linear,
    Permutation,
    RandomSlice,
    Subset,
    Uniform,
    Weighted,
)

CATALOGUE: dict[str, type[Sampler]] = {
    kind.name: kind
    for kind in (
        Linear,
        Permutation,
        Uniform,
        Subset,
        Weighted,
        LabelUniform,
        LabelPermutation,
        LabelDistribution,
        Restricted,
        BatchwisePermutation,
        RandomSlice,
        Bucket,
        TokenBudget,
        SameLength,
        PartLinear,
        PartLinearPermutation,
        PartPermutationPermutation,
        ChunkPermutation,
        Mix,
    )
}


ELSEWHERE = {
    "random": "permutation",
    "randperm": "permutation",
    "shuffle": "permutation",
    "shuffled": "permutation",
    "none": "linear",
    "inorder": "linear",
    "sequential": "linear",
    "subsetrandom": "subset",
    "weightedrandom": "weighted",
    "replacement": "uniform",
    "withreplacement": "uniform",
    "stratified": "label-permutation",
    "balanced": "label-uniform",
    "bucketed": "bucket",
    "batchwiseshuffledsequential": "batchwise-permutation",
    "randomuniform": "uniform",
    "sequences": "same-length",
    "shuffledsequential": "permutation",
}
"""Samplers by the names that they have elsewhere, in lower case and without "sampler"."""


def name_here(name: Any) -> str:
    """Return the name here of a sampler of another library, "" if that is not known.

    >>> name_here("RandomSampler"), name_here("even_shuffled_sequential"), name_here("x")
    ('permutation', 'permutation', '')
    """
    plain = str(name).lower().replace("_", "-").removeprefix("even-")
    if plain in CATALOGUE:
        return plain
    return ELSEWHERE.get(plain.replace("-", "").removesuffix("sampler"), "")


def sampler_of(
    sampler: Any, fields: Iterable[str] = (), batch_size: int | None = None, tail: str = "short"
) -> Sampler:
    """Return the sampler that a name, a class, an iterable or a function stands for.

    `fields` are named where one of them has to be chosen; `batch_size` and `tail` are for samplers
    that make slices or batches of this size.

    >>> sampler_of("bucket", ["x", "length"])
    Traceback (most recent call last):
    ValueError: the sampler 'bucket' needs lengths: samplers.bucket(by=...), \
a field or an array; the fields are x, length
    """
    if isinstance(sampler, str):
        sampler = _kind_of(sampler)
    if isinstance(sampler, type) and issubclass(sampler, Sampler):
        sampler = _of_class(sampler, fields)
    found = sampler if isinstance(sampler, Sampler) else _of_user(sampler)
    if found.takes and getattr(found, "by", None) is None:
        raise _lacks_by(type(found), fields)
    return found.fitted(batch_size, tail)


def are_several(given: Any) -> bool:
    """Whether a list has samplers or their names, and not numbers of rows.

    >>> are_several(["linear", Linear()]), are_several([2, 0]), are_several([])
    (True, False, False)
    """
    is_list = isinstance(given, (list, tuple)) and len(given) > 0
    return is_list and all(
        isinstance(one, (str, Sampler)) or (isinstance(one, type) and issubclass(one, Sampler))
        for one in given
    )


def _kind_of(name: str) -> type[Sampler]:
    kind = CATALOGUE.get(name.replace("_", "-"))
    if kind is None:
        meant = name_here(name)
        close = f"; did you mean {meant!r}?" if meant else hint(name, CATALOGUE) or "."
        raise ValueError(f"no sampler {name!r}{close} The samplers are: {', '.join(CATALOGUE)}")
    return kind


def _of_class(kind: type[Sampler], fields: Iterable[str]) -> Sampler:
    if kind.takes:
        raise _lacks_by(kind, fields)
    missing = _required(kind)  # type: ignore[arg-type]  # a class can be hashed
    if missing:
        options = ", ".join(f"{name}=..." for name in missing)
        named = f"samplers.{kind.name.replace('-', '_')}({options})"
        raise ValueError(f"the sampler {kind.name!r} needs options: {named}")
    return kind()


@functools.cache  # each view of minibatches asks for it
def _required(kind: type[Sampler]) -> tuple[str, ...]:
    parameters = inspect.signature(kind).parameters.items()
    return tuple(name for name, given in parameters if given.default is given.empty)


def _lacks_by(kind: type[Sampler], fields: Iterable[str]) -> ValueError:
    listing = ", ".join(fields)
    return ValueError(
        f"the sampler {kind.name!r} needs {kind.takes}: "
        f"samplers.{kind.name.replace('-', '_')}(by=...), a field or an array"
        + (f"; the fields are {listing}" if listing else "")
    )


def _of_user(value: Any) -> Sampler:
    """Return the sampler of an iterable, or of a function with no or two arguments."""
    if isinstance(value, Mapping):
        raise TypeError("samplers by field are for _loader; _minibatches has one for all fields")
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray)):
        return Iterated(checked_rows(without_views(value)))
    if not callable(value):
        raise TypeError(
            f"a sampler is a name, one of dv.samplers, row numbers, lists of them, or a function; "
            f"got {value!r}"
        )
    required = _arguments(value)
    if required not in ("0", "2"):
        needs = f"needs {required}" if required else "tells no arguments"
        raise TypeError(
            "a sampler function is called without arguments and returns the next row number, or "
            f"with (order, position) and returns the next order; {value!r} {needs}"
        )
    return OrderFunction(value) if required == "2" else NextRow(value)


def _arguments(function: Any) -> str:
    """Return how many arguments a function needs, in words, "" if it does not tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some of those written in C
        return ""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [one for one in parameters if one.default is one.empty and one.kind not in kinds]
    by_name = sum(one.kind is one.KEYWORD_ONLY for one in needed)
    return f"{by_name} by name" if by_name else str(len(needed))
