"""The laws by which plans are simplified: without each of them the data are the same."""

import contextlib
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from counting import Rows
from dataview.compute import evaluation, kernel, programs
from dataview.index.algebra import identity
from dataview.index.keys import parse
from dataview.index.sizes import sizes as package
from dataview.plan.build import select
from dataview.plan.kinds import Concat, Select, known_shape
from dataview.view.face import node_of
from expressions import SIZES, check_expression, expressions, thresholds, views_of
from oracle import as_array, assert_same, attempt, examples, keys, silence

pytestmark = pytest.mark.usefixtures("each_engine")


@contextlib.contextmanager
def each_part_by_itself():
    """Compute equal parts of an expression as if they were different."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "operand_key", lambda operand: (object(),))
        patch.setattr(kernel, "operand_key", lambda operand: (object(),))
        yield


LAWS = {
    "index through elementwise": contextlib.nullcontext,
    "common parts once": each_part_by_itself,
    "constants folded": lambda: package.set(folded_elements=-1),
}


@pytest.mark.parametrize("law", LAWS)
@examples(60)
@given(st.data(), expressions(("numbers", "times"), depth=4), st.sampled_from(SIZES))
def test_a_law_changes_no_result(law, data, expression, sizes):
    leaves, tree = expression
    with thresholds(*sizes), silence():
        expected, refusal = attempt(tree, leaves)
        if refusal is not None:
            return
        key = data.draw(keys(as_array(expected).shape))
        view = tree(views_of(leaves))
        part, error = attempt(lambda subject: subject[key](), view)
        with LAWS[law]():
            plain = tree(views_of(leaves))
            assert_same(plain(), view())
            if law == "index through elementwise":
                plain = dv.View(as_array(plain()))
            other, refused = attempt(lambda subject: subject[key](), plain)
        assert type(error) is type(refused)
        if error is None:
            assert_same(other, part)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", "c8", "c16", "i2", "i8", "u4"])
@pytest.mark.parametrize("two", [2, 2.0])
def test_a_square_is_a_product(dtype, two):
    """x**2 = x*x"""
    a = np.array([0.0, -0.0, 1.5, -3, 300, 7, 1 / 3, math.nan, math.inf, -math.inf, 1e30])
    with silence():
        a = a.astype(dtype)
        for sizes in SIZES:
            with thresholds(*sizes):
                assert_same((dv.View(a) ** two)(), a**two)
    view = node_of(dv.View(a) ** 2)
    names = [step.ufunc.__name__ for step in programs.compiled(view).steps]
    assert names == ["square"]


@examples(100)
@given(st.data())
def test_a_part_of_a_part_is_one_part(data):
    """x[i][j] = x[i∘j]"""
    a = np.arange(60).reshape(5, 4, 3)
    node = node_of(dv.View(a))
    first = data.draw(keys(a.shape))
    once, error = attempt(lambda array: array[first], a)
    if error is not None or not isinstance(once, np.ndarray):
        return
    second = data.draw(keys(once.shape))
    twice, error = attempt(lambda array: array[second], once)
    if error is not None:
        return
    part = select(node, parse(first, a.shape))
    whole = select(part, parse(second, once.shape))
    assert not isinstance(whole, Select) or not isinstance(whole.node, Select)
    assert_same(evaluation.evaluate(whole), np.asarray(twice))


def test_a_part_that_is_the_whole_is_dropped():
    """x[:] = x"""
    node = node_of(dv.View(np.arange(12).reshape(3, 4)) + 1)
    assert select(node, identity((3, 4))) is node
    assert select(node, parse((slice(None), ...), (3, 4))) is node
    assert select(node, parse(slice(1, None), (3, 4))) is not node


@examples(60)
@given(st.data())
def test_joined_rows_that_are_not_asked_for_are_not_read(data):
    """concat(x, y)[i] reads x[i] where i is in x, y[i - len(x)] where it is in y"""
    rows = [Rows(4, 1), Rows(3, 1), Rows(5, 1)]
    joined = np.concatenate([one.data for one in rows])
    view = dv.concat(*[one.view for one in rows])
    assert isinstance(node_of(view), Concat)
    key = data.draw(keys((12,)))
    expected, error = attempt(lambda array: array[key], joined)
    if error is not None or not np.size(expected):
        return
    assert_same(view[key](), expected)
    read = sorted({n + 4 * (k > 0) + 3 * (k > 1) for k, one in enumerate(rows) for n in one.asked})
    assert read == np.unique(np.arange(12)[:, None][key]).tolist()


def test_parts_without_rows_are_computed_once():
    """f(x, g(c)) = f(x, d) where d = g(c), if c does not vary with the rows"""
    calls = []
    count = np.frompyfunc(lambda value: calls.append(value) or value, 1, 1)
    a, c = np.arange(60).reshape(20, 3), np.arange(3)
    with thresholds(0, 6):
        view = dv.View(a) * count(dv.View(c)) + count(dv.View(np.array(5)))
        assert_same(view(), (a * c + 5).astype(object))
        assert sorted(calls) == [0, 1, 2, 5]
        calls.clear()
        assert_same(view[::-2, 1:](), (a * c + 5).astype(object)[::-2, 1:])
        assert sorted(calls) == [1, 2, 5]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_an_error_in_a_folded_part_is_told_as_before(sizes):
    a, c = dv.View(np.ones((20, 3))), dv.View(np.array([1.0, 0, 2]))
    with thresholds(*sizes):
        with pytest.warns(RuntimeWarning, match="divide by zero encountered in divide"):
            got = (a + 1 / c)()
        assert_same(got, np.array([[2, math.inf, 1.5]] * 20))
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="in divide"):
            (a + 1 / c)()


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("count", [40, 40_000, 400_000])
def test_no_step_writes_over_what_is_still_read(sizes, count):
    a = np.arange(float(count))
    if count > 40 and sizes[1] < 100:
        sizes = SIZES[0]
    with thresholds(*sizes):
        v = dv.View(a.copy())
        masks = [v > 7, v * 0]
        for make in [
            lambda x, mask: np.where(mask, x * 2, x - 1),
            lambda x, mask: np.where(mask, x * 2, x - 1) + np.where(mask, x + 5, x),
            lambda x, mask: np.real(x) * 2,
            lambda x, mask: np.negative(np.real(x)),
            lambda x, mask: np.clip(x * 2, 3, x + 7) * 3,
        ]:
            for mask in masks:
                assert_same(make(v, mask)(), make(a, mask()))
                assert_same(v(), a)
        v[...] = np.where(v > 7, v * 2, v)
        assert_same(v(), np.where(a > 7, a * 2, a))


# ---------------------------------------------------------------- several views together


@examples(60)
@given(st.data(), expressions(("numbers", "times"), depth=4), st.sampled_from(SIZES))
def test_several_views_together_are_each_alone(data, expression, sizes):
    with thresholds(*sizes):
        found = check_expression(*expression)
        if found is None:
            return
        view, model = found
        key = data.draw(keys(model.shape))
        part, error = attempt(lambda subject: subject[key], view)
        with silence():
            group = [view, view, *([part] if error is None else []), view == view]
            group += [np.add(view, view)] if model.dtype.kind in "iufc" else []
            for got, each in zip(dv.evaluate(*group), group, strict=True):
                assert_same(got, each())


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_what_several_views_share_is_read_once(sizes):
    rows = Rows(600)
    with thresholds(*sizes):
        v = rows.view
        centred = v - v._mean(axis=0)
        first, second, mean = dv.evaluate(centred, centred / v._std(axis=0), v._mean(axis=0))
    assert rows.counts() == [1] * 600  # the statistics and the values of one request
    np.testing.assert_allclose(first, rows.data - mean)
    np.testing.assert_allclose(second, first / rows.data.std(axis=0))


def test_shared_parts_are_computed_once():
    calls = []
    double = np.frompyfunc(lambda value: calls.append(value) or value * 2, 1, 1)
    a = np.arange(40).astype(object)
    for small, block in SIZES:
        with thresholds(small, block):
            calls.clear()
            shared = double(dv.View(a))
            one, other, third = dv.evaluate(shared + 1, shared * shared, shared)
            assert sorted(calls) == a.tolist()
            assert_same(one, a * 2 + 1)
            assert_same(other, a * 2 * a * 2)
            assert_same(third, a * 2)


@pytest.mark.parametrize("count", [10, 20_000, 70_000, 3_000_000])
def test_equal_expressions_have_each_an_array_of_their_own(count):
    y, eager = dv.View(np.arange(float(count))), np.arange(float(count))
    same = y + 1
    quotient = np.divmod(y, 3)
    wanted = [(same, eager + 1), (y + 1, eager + 1), (same, eager + 1), (y * 2, eager * 2)]
    wanted += [
        (quotient[0], eager // 3),
        (np.divmod(y, 3)[0], eager // 3),
        (quotient[1], eager % 3),
    ]
    found = dv.evaluate(*(view for view, _ in wanted))
    for array, (_, expected) in zip(found, wanted, strict=True):
        assert_same(array, expected)
    for one, other in itertools.combinations(found, 2):
        assert not np.shares_memory(one, other)


@pytest.mark.parametrize(
    "make",
    [
        lambda v: v == v,
        lambda v: v @ v,
        lambda v: np.concatenate([v, v]),
        lambda v: v._map(lambda row: row() * 2, shape=(3,), dtype="f8"),
        lambda v: v * 2,
    ],
)
def test_what_is_computed_twice_is_in_two_arrays(make):
    view = make(dv.View(np.ones((3, 3))))
    x = dv.symbol("x", shape=(None, 3))
    double = dv.function([x], (x * 2, x * 2))
    shared = x - 1
    for one, other in [
        dv.evaluate(view, view),
        double(np.ones((3, 3))),
        dv.function([x], (shared, shared))(np.ones((3, 3))),
    ]:
        assert_same(one, other)
        assert not np.shares_memory(one, other)


def test_what_is_evaluated_comes_back_as_it_was_nested():
    v = dv.View(np.arange(4.0))
    assert dv.evaluate() == ()
    assert_same(dv.evaluate(v + 1)[0], np.arange(1.0, 5))
    pair, named = dv.evaluate([v[1], (v[2],)], {"mean": v._mean(), "more": {"top": v._max()}})
    assert pair == [1.0, (2.0,)]
    assert named == {"mean": 1.5, "more": {"top": 3.0}}
    for wrong in [3, "v", np.ones(3), None]:
        with pytest.raises(TypeError, match="evaluate takes views"):
            dv.evaluate(v, wrong)


def test_results_of_an_evaluation_are_apart():
    v = dv.View(np.arange(99_999.0)) + 1
    one, other = dv.evaluate(v, v * 1)
    one[:] = 0
    assert other.sum() > 0 and v().sum() > 0
    assert programs.current_engine() in ("numpy", "numexpr") and known_shape(node_of(v)) == (
        99_999,
    )
