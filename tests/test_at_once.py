"""Memory that is changed at once: what NumPy does to a copy, from whatever it is computed."""

import operator
import unittest.mock
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

import dataview as dv
from dataview.index.sizes import sizes
from dataview.write import assignment, update
from oracle import assert_same, attempt, examples, public_class

OPERATORS = [
    operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv,
    operator.imod, operator.ipow, operator.iand, operator.ior, operator.ixor,
]  # fmt: skip

KEYS = [
    np.s_[:], np.s_[2:7], np.s_[::2], np.s_[::-1], np.s_[3], np.s_[:, 1], np.s_[1:, ::2],
    np.s_[:0], np.s_[-1:], np.s_[6:1:-2], ...,
    np.s_[:, [3, 0]], np.s_[2:8:2, np.array([True, False, True, True])],
    [4, 0, 7], np.array([8, -1, 3]), np.arange(9) % 2 > 0, [], np.zeros(9, bool),
]  # fmt: skip

OPERANDS = {
    "a number": lambda x, y: 3,
    "a float": lambda x, y: 0.5,
    "an array": lambda x, y: np.arange(36).reshape(9, 4) % 5 - 1,
    "a row of an array": lambda x, y: np.arange(4) + 1,
    "other data": lambda x, y: y,
    "other rows": lambda x, y: y[::-1],
    "a row": lambda x, y: y[2],
    "a column": lambda x, y: y[:, 1:2],
    "one element": lambda x, y: y[2, 3],
    "itself": lambda x, y: x,
    "itself turned round": lambda x, y: x[::-1],
    "its own row": lambda x, y: x[1],
    "its own column": lambda x, y: x[:, 2:3],
    "computed": lambda x, y: y * 2 - 1,
    "computed of itself": lambda x, y: x[::-1] + y,
    "a part of what is computed": lambda x, y: (x * y)[::-1],
    "a row of what is computed": lambda x, y: (x - y)[4],
    "a statistic": lambda x, y: np.mean(x, axis=0),
    "other truths": lambda x, y: y > 1,
}
"""What is written or operated with, of the data that are written and of others."""

DTYPES = st.sampled_from(["f8", "f4", "i8", "i2", "u1", "?", ">i4", "c8"])


def data(dtype, seed):
    return np.random.default_rng(seed).integers(0, 6, (9, 4)).astype(dtype)


def with_sizes(streamed, at_once):
    return sizes.set(
        streamed_elements=streamed, at_once_bytes=at_once, computed_bytes=at_once, small_elements=8
    )


SIZES = st.sampled_from([(1 << 16, 1 << 26), (8, 1 << 26), (8, 100), (8, 0)])
"""Small data, data that are large and changed at once, as far as they are, and never."""


def all_axes(key):
    """Return a key for which NumPy returns an array, also of one row or element."""
    return key if key is ... else (*key, ...) if isinstance(key, tuple) else (key, ...)


def check(change, key, operand, own, other, seed, limits):
    """Change a part of data in place, and the same part of an array, by what an operand gives."""

    def changed(wrapped):
        x, y = data(own, seed), data(other, seed + 1)
        view = wrapped(x)

        def carried_out(view):
            given = OPERANDS[operand](view, wrapped(y))
            whole = np.shape(given) == x.shape
            change(view, key, given[key] if whole else given)

        return attempt(carried_out, view)[1], x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refusal, wanted = changed(lambda x: x)
        with with_sizes(*limits):
            error, found = changed(dv.View)
    assert (error is None) == (refusal is None), f"{error!r}, expected {refusal!r}"
    assert error is None or public_class(error) in (TypeError, ValueError)
    assert_same(found, data(own, seed) if error else wanted)  # NumPy stops midway at some powers


@given(
    st.sampled_from(OPERATORS), st.sampled_from(KEYS), st.sampled_from([*OPERANDS]),
    DTYPES, DTYPES, st.integers(0, 9), SIZES,
)  # fmt: skip
@examples(600)
def test_an_operator_changes_a_part(change, key, operand, own, other, seed, limits):
    def part_changed(view, key, given):
        if isinstance(view, np.ndarray):
            part = view[all_axes(key)]
            change(part, given)
            view[all_axes(key)] = part
        else:
            change(view[key], given)

    check(part_changed, key, operand, own, other, seed, limits)


@given(
    st.sampled_from(KEYS), st.sampled_from([*OPERANDS]), DTYPES, DTYPES, st.integers(0, 9), SIZES
)
@examples(400)
def test_a_part_is_written(key, operand, own, other, seed, limits):
    def written(view, key, given):
        if isinstance(view, np.ndarray):
            part = view[all_axes(key)]
            np.copyto(part, given)  # no digits are lost
            view[all_axes(key)] = part
        else:
            view[key] = given

    check(written, key, operand, own, other, seed, limits)


@pytest.mark.parametrize("count", [10, 1 << 16])
def test_data_in_memory_are_changed_without_a_plan(count, monkeypatch):
    x, y = np.arange(4.0 * count).reshape(count, 4), np.arange(4.0 * count).reshape(count, 4)[::-1]
    wanted = (x * 0.5 + y - y[0]) / 2
    v, w = dv.View(x), dv.View(y)
    planned = unittest.mock.Mock(side_effect=AssertionError("a plan"))
    warnings.simplefilter("default")  # a warning that is an error would have the old values needed
    for room in (assignment, update):
        monkeypatch.setattr(room, "overwrite", planned)
    monkeypatch.setattr(assignment, "carry_out", planned)
    v *= 0.5
    v += w
    v -= w[0]
    v[:] = v * 0.5
    assert_same(x, wanted)


MASKS = {
    "of itself": lambda x, y: x > 2,
    "of other data": lambda x, y: y > 2,
    "an array": lambda x, y: np.arange(36).reshape(9, 4) % 3 > 0,
    "of rows": lambda x, y: y[:, 0] > 2,
    "rows of an array": lambda x, y: np.arange(9) % 3 > 0,
    "of nothing": lambda x, y: y > 99,
}

WAYS = {
    "an assignment": lambda x, mask, value: operator.setitem(x, mask, value),
    "copyto": lambda x, mask, value: np.copyto(x, value, where=mask),
    "putmask": lambda x, mask, value: np.putmask(x, mask, value),
    "an operator": lambda x, mask, value: operator.setitem(x, mask, x[mask] + value),
}


@given(
    st.sampled_from([*WAYS]), st.sampled_from([*MASKS]), st.sampled_from([0, 3, 0.5, True]),
    DTYPES, st.integers(0, 9), SIZES,
)  # fmt: skip
@examples(400)
def test_elements_by_a_mask(way, mask, value, dtype, seed, limits):
    def changed(wrapped):
        x, y = data(dtype, seed), data("f8", seed + 1)
        chosen = MASKS[mask](wrapped(x), wrapped(y))
        return attempt(lambda view: WAYS[way](view, chosen, value), wrapped(x))[1], x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refusal, wanted = changed(lambda x: x)
        with with_sizes(*limits):
            error, found = changed(dv.View)
    lossy = not np.can_cast(np.result_type(value), dtype, "same_kind")
    assert (error is None) == (refusal is None) or (error is not None and lossy)
    assert_same(found, data(dtype, seed) if error else wanted)


@pytest.mark.parametrize("count", [40, 43])
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("number", [0, 3, -1])
def test_a_batch_is_changed(count, joined, number):
    x = np.arange(4.0 * count).reshape(count, 4)
    wanted, values = x.copy(), np.arange(40.0).reshape(10, 4)
    rows = np.array_split(np.arange(count), range(10, count, 10))[number]
    wanted[rows] = (wanted[rows] - 1) * values[: len(rows)]
    wanted[rows, 2] = 5
    whole = dv.concat(x[:15], x[15:]) if joined else dv.View(x)
    batches = whole._minibatches(10)
    batches[number] -= 1
    batches[number] = batches[number] * values[: len(rows)]
    batches[number][:, 2] = 5
    assert_same(x, wanted)
    with pytest.raises(ValueError, match=r"shape|broadcast"):
        batches[number] = values[:7]
    assert_same(x, wanted)


def cleaned(kept, dtype):
    """Write views that do not fit into narrow numbers, in all ways; nothing may be written then."""
    wide = dv.View(kept)
    ways = [
        lambda v: operator.setitem(v, np.s_[:], wide),
        lambda v: operator.setitem(v, [2, 0, 1], wide),
        lambda v: operator.setitem(v, np.ones(3, bool), wide * 1),
        lambda v: v._write(wide),
        lambda v: np.copyto(v, wide),
        lambda v: operator.setitem(v, np.s_[:], np.where(wide > 0, wide, 0)),
    ]
    for way in ways:
        x = np.zeros(3, dtype)
        with pytest.raises((OverflowError, FloatingPointError)):
            way(dv.View(x))
        assert_same(x, np.zeros(3, dtype))
        record = dv.View(a=np.zeros(3), b=x)
        with pytest.raises((OverflowError, FloatingPointError)):
            record[:] = dv.View(a=np.ones(3), b=kept)
        assert not record.a().any() and not record.b().any()


def test_views_never_wrap_around():
    cleaned(np.array([1, 300, 2]), "i1")


def test_codes_never_become_other_labels():
    labels = [f"l{number}" for number in range(300)]
    codes = dv.View(c=np.array([5, 299]), _meta={"c": {"labels": labels}})
    d = dv.View(c=np.zeros(2, "i1"), _meta={"c": {"labels": labels}})
    with pytest.raises(OverflowError, match="299 does not fit into int8"):
        d.c[:] = codes.c
    assert_same(d.c(), np.zeros(2, "i1"))


def test_a_cast_that_raises_has_written_nothing():
    with np.errstate(over="raise"):
        cleaned(np.full(3, 1e300), "f4")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for count in (3, 1 << 17):
            d = dv.View(x=np.zeros(count, "f4"), y=np.full(count, 1e300))
            with pytest.raises(RuntimeWarning):
                d.x += d.y
            assert not d.x().any()


@pytest.mark.parametrize("count", [10, 1 << 17])
def test_truths_that_are_chosen_by_themselves(count, rng):
    truths = rng.random(count) < 0.5
    for change, wanted in (
        (lambda v: operator.setitem(v, v[::-1], False), truths & ~truths[::-1]),
        (lambda v: np.putmask(v, v[::-1], False), truths & ~truths[::-1]),
        (lambda v: np.copyto(v, True, where=v[::-1]), truths | truths[::-1]),
        (lambda v: operator.setitem(v[1:], v[:-1], True), truths | [False, *truths[:-1]]),
    ):
        x = truths.copy()
        change(dv.View(x))
        assert_same(x, wanted)


def test_a_function_that_chooses_rows_is_called_once(path):
    calls = []

    def is_chosen(number):
        calls.append(number)
        return number % 2 == 0

    for target in (dv.View(np.load(path)), dv.open(path, "r+")):
        chosen = dv.View(is_chosen, _length=6)._probe()
        calls.clear()
        target[chosen] = -7
        assert sorted(calls) == list(range(6))
        assert (target()[::2] == -7).all() and (target()[1::2] != -7).all()


def test_a_ufunc_with_errors_of_its_own_changes_nothing():
    x = np.full(1 << 17, -1.0)
    v = dv.View(x)
    with special.errstate(all="raise"), pytest.raises(special.SpecialFunctionError):
        special.gamma(v, out=v)
    assert_same(x, np.full(1 << 17, -1.0))
