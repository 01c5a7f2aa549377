"""Symbols: an expression of symbols, given data, equals the same expression of the data."""

import collections
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from dataview.plan.symbols import symbols_of
from dataview.view.face import node_of
from expressions import SIZES, expressions, thresholds, views_of
from oracle import (
    assert_same,
    attempt,
    check_same,
    evaluated,
    examples,
    fill,
    keys,
    public_class,
    silence,
)


def symbols_for(data, leaves):
    """Draw symbols in place of some leaves, with some lengths unknown; give them and their data."""
    views, values = views_of(leaves), {}
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, np.ndarray) and data.draw(st.booleans()):
            shape = tuple(None if data.draw(st.booleans()) else n for n in leaf.shape)
            views[number] = dv.symbol(f"s{number}", shape=shape, dtype=leaf.dtype)
            values[f"s{number}"] = leaf
    return views, values


def given_data(view, values):
    """Bind the data of those symbols that a view has."""
    names = symbols_of([node_of(view)])
    return view._bind({name: values[name] for name in names})


# ---------------------------------------------------------------- against NumPy


@examples(300)
@given(st.data(), expressions(depth=4), st.sampled_from(SIZES))
def test_a_bound_expression_is_the_expression_of_the_data(data, expression, sizes):
    leaves, tree = expression
    symbols, values = symbols_for(data, leaves)
    with thresholds(*sizes), silence():
        expected, refusal = attempt(tree, leaves)
        if refusal is not None:
            with pytest.raises(public_class(refusal)):
                evaluated(given_data(tree(symbols), values))
            return
        view = tree(symbols)
        known = view._shape()
        assert_same(given_data(view, values)(), expected)
        shape = np.shape(expected)
        assert len(known) == len(shape)
        assert all(n in (None, length) for n, length in zip(known, shape, strict=True))


@examples(300)
@given(st.data())
def test_a_key_on_unknown_lengths_is_the_key_on_the_data(data):
    shape = data.draw(st.lists(st.integers(0, 5), max_size=3).map(tuple))
    array = fill(shape, "i4")
    declared = tuple(None if data.draw(st.booleans()) else n for n in shape)
    key = data.draw(keys(shape))
    x = dv.symbol("x", shape=declared, dtype="i4")
    check_same(x, array, lambda subject: bound(subject[key], array))
    part, refusal = attempt(lambda a: a[key], array)
    if refusal is None:
        more = data.draw(keys(part.shape))
        check_same(x, array, lambda subject: bound(subject[key][more], array))


def bound(subject, array):
    return subject._bind(x=array) if isinstance(subject, dv.View) else subject


STATISTICS = ["sum", "mean", "std", "var", "min", "max", "argmin", "argmax", "any", "all", "prod"]


def plain(shape, dtype="f4"):
    """Give numbers of which statistics are exact to the last digits."""
    return ((np.arange(np.prod(shape)) * 7) % 11).reshape(shape).astype(dtype)


@pytest.mark.parametrize("kind", STATISTICS)
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("declared", [(None, 3), (None, None), (4, None), (4, 3)])
def test_statistics_over_symbols(kind, axis, declared):
    array = plain((4, 3), "f8")
    x = dv.symbol("x", shape=declared, dtype="f8")
    view = getattr(x, f"_{kind}")(axis, keepdims=True)
    expected = getattr(np, kind)(array, axis=axis, keepdims=True)
    assert len(view._shape()) == 2
    np.testing.assert_allclose(view._bind(x=array)(), expected, rtol=1e-12)
    np.testing.assert_allclose((x - view)._bind(x=array)(), array - expected, atol=1e-12)
    np.testing.assert_allclose(dv.function(x, x - view)(array), array - expected, atol=1e-12)
    assert getattr(x, f"_{kind}")(axis)._ndim() == (0 if axis is None else 1)


# ---------------------------------------------------------------- what is known without data


def test_a_symbol_says_what_is_known():
    x = dv.symbol("x", shape=(None, 784), dtype="f4", input=np.s_[:780], target=np.s_[783])
    assert x._shape() == (None, 784)
    assert x._dtype() == np.float32
    assert (x._ndim(), x._width(), x._length(), x._nbytes()) == (2, 784, None, None)
    assert x._fields() == ("input", "target")
    assert x.input._shape() == (None, 780)
    assert x[:, "target"]._shape() == (None,)
    assert repr(x).startswith("View (?, 784) float32, symbol x\n  input   float32  (?, 780)")


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda x: x + 1, (None, 3)),
        (lambda x: x + np.ones((5, 3)), (5, 3)),
        (lambda x: x + np.ones((1, 3)), (None, 3)),
        (lambda x: x + np.ones((2, 1, 1)), (2, None, 3)),
        (lambda x: x + x, (None, 3)),
        (lambda x: x[0], (3,)),
        (lambda x: x[-7], (3,)),
        (lambda x: x[:2], (None, 3)),
        (lambda x: x[[0, 5]], (2, 3)),
        (lambda x: x[5:5], (0, 3)),
        (lambda x: x[2:, 1], (None,)),
        (lambda x: x[:, None], (None, 1, 3)),
        (lambda x: x[np.array([True, False, True])], (2, 3)),
        (lambda x: x[:, [True, False, True]], (None, 2)),
        (lambda x: x[2:] + np.ones((5, 1)), (5, 3)),
        (lambda x: x._mean(0), (3,)),
        (lambda x: x._mean(1), (None,)),
        (lambda x: x._max(), ()),
        (lambda x: x == np.zeros(3), (None, 3)),
        (lambda x: np.divmod(x, 2)[1], (None, 3)),
    ],
)
def test_lengths_are_known_where_they_do_not_depend_on_data(build, shape):
    assert build(dv.symbol("x", shape=(None, 3)))._shape() == shape


def test_one_length_says_nothing_of_another():
    x, square = dv.symbol("x", shape=(None, 3)), dv.symbol("square", shape=(None, None))
    assert (x + dv.symbol("y", shape=(None,)))._shape() == (None, 3)
    assert (square + np.ones((5, 1)))._shape() == (5, None)
    assert square[np.array([True, False])]._shape() == (1, None)
    assert square[np.ones((2, 3), bool)]._shape() == (6,)
    assert square[0]._shape() == (None,)


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (lambda x: x + np.ones(5), ValueError),
        (lambda x: x[:, 3], IndexError),
        (lambda x: x[0, 0, 0], IndexError),
        (lambda x: x + "a", TypeError),
        (lambda x: x & 1, TypeError),
        (lambda x: x._mean(2), ValueError),
        (lambda x: x.input, dv.FieldError),
    ],
)
def test_what_no_length_allows_is_refused_when_it_is_built(build, error):
    with pytest.raises(error) as caught:
        build(dv.symbol("x", shape=(None, 3)))
    assert str(1 << 40) not in str(caught.value)


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x(),
        lambda x: (x + 1)(),
        lambda x: x[:2](),
        lambda x: x._mean(0)(),
        lambda x: (x._mean(0) + 1)(),
        lambda x: np.asarray(x),
        lambda x: len(x),
        lambda x: list(x),
        lambda x: x._size(),
        lambda x: bool(x._sum() == 1),
        lambda x: dv.View(np.ones(3))._write(x._mean(0)),
    ],
)
@pytest.mark.parametrize("shape", [(None, 3), (2, 3)])
def test_what_needs_data_names_the_symbol(ask, shape):
    if shape == (2, 3) and ask.__code__.co_names[-1:] in (("len",), ("list",), ("_size",)):
        assert ask(dv.symbol("x", shape=shape))
        return
    with pytest.raises(dv.UndeclaredError, match=r"_bind\(x=\.\.\.\)"):
        ask(dv.symbol("x", shape=shape))


@pytest.mark.parametrize("shape", [(None, 3), (2, 3)])
def test_symbols_are_not_written(shape):
    x = dv.symbol("x", shape=shape, part=np.s_[:2])
    with pytest.raises(dv.ReadOnlyError, match="symbol x holds no data"):
        x[0] = 1
    with pytest.raises(dv.ReadOnlyError, match="symbol x holds no data"):
        x.part = 1
    with pytest.raises(dv.ReadOnlyError):
        x += 1
    with pytest.raises(TypeError, match="none with data of its own"):
        x.other = dv.View(np.ones(2))


def test_a_part_of_memory_is_not_changed_by_a_symbol():
    a = np.zeros(3)
    v = dv.View(a)
    with pytest.raises(dv.UndeclaredError, match="symbol"):
        v += dv.symbol("x", shape=3)
    with pytest.raises(dv.UndeclaredError):
        v += dv.symbol("x", shape=None)
    assert not a.any()


# ---------------------------------------------------------------- declaring


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        (("",), {}, TypeError),
        ((3,), {}, TypeError),
        (("x",), {"shape": (-1,)}, ValueError),
        (("x",), {"shape": (2.0,)}, ValueError),
        (("x",), {"dtype": "f4,i4"}, TypeError),
        (("x",), {"dtype": "nonsense"}, TypeError),
        (("x",), {"shape": (None, 3), "part": np.s_[2:5]}, IndexError),
        (("x",), {"shape": (3, None), "part": np.s_[:0]}, ValueError),
    ],
)
def test_a_declaration_that_says_nothing_is_refused(arguments, options, error):
    with pytest.raises(error):
        dv.symbol(*arguments, **options)


def test_one_name_is_one_declaration():
    x, other = dv.symbol("x", shape=(None, 3)), dv.symbol("x", shape=(None, 1))
    with pytest.raises(ValueError, match=r"'x' is declared twice: float64 \(\?, 3\) and float64"):
        (x + other)._bind(x=np.ones((2, 3)))
    again = dv.symbol("x", shape=(None, 3))
    assert (x + again)._bind(x=np.ones((2, 3)))._sum()() == 12


def test_windows_of_symbols_stay_windows_of_what_is_computed():
    x = dv.symbol("x", shape=(None, 3), left=np.s_[:2], last=np.s_[2])
    a = plain((4, 3), "f8")
    scaled = (x - x._mean(0)) * 2
    expected = (a - a.mean(0)) * 2
    np.testing.assert_allclose(scaled.left._bind(x=a)(), expected[:, :2])
    np.testing.assert_allclose(scaled._bind(x=a).last(), expected[:, 2])
    np.testing.assert_allclose(x._rename(left="first")[1:3]._bind(x=a).first(), a[1:3, :2])
    assert (x + 1)._rename(left="first")._bind(x=a)._fields() == ("first", "last")
    assert dict(x._with_meta(unit="mm")._bind(x=a)._meta) == {"unit": "mm"}


# ---------------------------------------------------------------- binding

X = dv.symbol("x", shape=(None, 3), dtype="f4")


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (np.ones((2, 4), "f4"), ValueError, r"'x' is declared float32 \(\?, 3\); got float32 \(2"),
        (np.ones(3, "f4"), ValueError, r"got float32 \(3,\)"),
        (1.0, ValueError, r"got float64 \(\)"),
        (np.ones((2, 3), complex), TypeError, r"'x' is declared float32 .* got complex128"),
        (np.full((2, 3), "a"), TypeError, "'x'"),
        (dv.View(np.ones((2, 3))) + 1j, TypeError, "'x' is declared float32 .* got complex128"),
        (dv.View(a=np.ones(3)), TypeError, "takes one array, not a record; choose a field: 'a'"),
        (dv.View(iter([1.0])), dv.UndeclaredError, "'x'"),
    ],
)  # fmt: skip
def test_data_that_is_not_as_declared_is_refused(value, error, words):
    for call in (lambda: (X * 2)._bind(x=value), lambda: dv.function(X, X * 2)(value)):
        with pytest.raises(error, match=words):
            call()


def test_data_is_cast_by_the_rule_of_writes():
    assert_same((X * 2)._bind(x=[[1, 2, 3]])(), np.array([[2, 4, 6]], "f4"))
    assert_same(X._bind(x=np.ones((2, 3)))(), np.ones((2, 3), "f4"))
    assert_same(X._bind(x=dv.View(np.ones((2, 3))) * 2)(), np.full((2, 3), 2, "f4"))
    n = dv.symbol("n", shape=(None,), dtype="u1")
    with pytest.raises(TypeError, match="safe"):
        n._bind(n=dv.View(np.array([300], "u2")) + 1)
    with pytest.raises(OverflowError, match="'n'"):
        dv.symbol("n", shape=(None,), dtype="u1")._bind(n=np.array([300], "u2"))


def test_unknown_names_are_told():
    with pytest.raises(TypeError, match="no symbol 'y' in the expression; its symbols are x"):
        (X + 1)._bind(x=np.ones((2, 3), "f4"), y=1)
    with pytest.raises(TypeError, match="it has no symbols"):
        dv.View(np.ones(2))._bind(y=1)


def test_some_symbols_are_bound_before_others():
    y = dv.symbol("any name", shape=(None,))
    expr = X * y[0] + y._sum()
    half = expr._bind(x=np.ones((2, 3), "f4"))
    assert half._shape() == (2, 3)
    with pytest.raises(dv.UndeclaredError, match="any name"):
        half()
    assert_same(half._bind({"any name": [2.0, 5.0]})(), np.full((2, 3), 9.0))
    swapped = expr._bind({"any name": [2.0, 5.0]})
    assert swapped._shape() == (None, 3)
    assert_same(swapped._bind(x=np.ones((2, 3), "f4"))(), np.full((2, 3), 9.0))


def test_a_symbol_is_bound_to_another_expression():
    y = dv.symbol("y", shape=(None, 3), dtype="f4")
    expr = (X._mean(0) + X)._bind(x=y * 2)
    a = plain((4, 3))
    np.testing.assert_allclose(expr._bind(y=a)(), (a * 2).mean(0) + a * 2, rtol=1e-6)


def test_a_bound_view_sees_later_writes_and_writes_none():
    a = np.ones((2, 3), "f4")
    view = X[:, 1]._bind(x=a)
    a[:, 1] = 5
    assert_same(view(), np.array([5, 5], "f4"))
    with pytest.raises(dv.ReadOnlyError):
        view[:] = 0
    assert not view().flags.writeable


def test_statistics_are_taken_anew_for_each_binding():
    z = X - X._mean(0)
    for scale in (1, 10):
        a = scale * plain((4, 3))
        np.testing.assert_allclose(z._bind(x=a)(), a - a.mean(0), rtol=1e-5)


def test_rows_of_a_statistic_are_kept_for_one_binding_only():
    x = dv.symbol("x", shape=(3, 3))
    means = x._mean(axis=1)
    with pytest.raises(dv.UndeclaredError, match="symbol 'x'"):
        means[1]()
    for value in (1.0, 2.0):
        bound_means = means._bind(x=np.full((3, 3), value))
        assert bound_means[1]() == value
        assert_same(bound_means(), np.full(3, value))


def test_statistics_of_data_stay_photographs():
    data = np.arange(3, dtype="f4")
    mean = dv.View(data)._mean()
    expr = X - mean
    assert mean() == 1
    data[:] = 7
    assert_same(expr._bind(x=np.ones((1, 3), "f4"))(), np.zeros((1, 3), "f4"))


def test_shared_parts_stay_shared():
    reads = []

    def sample(number):
        reads.append(number)
        return np.float64(number)

    n = dv.symbol("n", shape=(3,))
    part = n * dv.View(sample, _length=3)._probe()
    reads.clear()
    total = part - part._sum()
    assert_same(total._bind(n=np.ones(3))(), np.array([-3.0, -2.0, -1.0]))
    assert len(reads) == 3  # in one request with the sum


@pytest.mark.parametrize("shape", [(3,), (None,)])
def test_deep_expressions_are_bound_and_called(shape):
    x = dv.symbol("x", shape=shape)
    expr = x
    for _ in range(3000):
        expr = expr + 1
    assert_same(expr._bind(x=np.zeros(3))(), np.full(3, 3000.0))
    assert_same(dv.function(x, expr)(np.zeros(3)), np.full(3, 3000.0))


@pytest.mark.parametrize("shape", [(2, 3), (None, 3)])
def test_an_expression_over_symbols_pickles(shape):
    x = dv.symbol("x", shape=shape, dtype="f4", part=np.s_[:2])
    w = np.ones(2, "f4")
    expr = ((x - x._mean(axis=0, keepdims=True)).part * w)[1:]
    a = plain((2, 3))
    copy = pickle.loads(pickle.dumps(expr))
    assert copy._shape() == expr._shape()
    assert_same(copy._bind(x=a)(), expr._bind(x=a)())


# ---------------------------------------------------------------- functions


@examples(200)
@given(st.data(), expressions(("numbers", "floats"), depth=4), st.sampled_from(SIZES))
def test_a_function_computes_what_numpy_computes(data, expression, sizes):
    leaves, tree = expression
    symbols, values = symbols_for(data, leaves)
    inputs = [view for number, view in enumerate(symbols) if f"s{number}" in values]
    with thresholds(*sizes), silence():
        expected, refusal = attempt(tree, leaves)
        if refusal is not None:
            return
        f = dv.function(inputs, [tree(symbols)])
        for _ in range(2):
            assert_same(f(*values.values())[0], expected)


def test_a_function_gives_the_structure_it_was_declared_with():
    Pair = collections.namedtuple("Pair", "low high")
    y = dv.symbol("y", shape=(3,))
    outputs = {"a": X + y, "b": [X._sum(), (y, Pair(X._min(), y * 2))], "y": y}
    f = dv.function([X, y], outputs)
    a, b = plain((4, 3)), np.arange(3.0)
    found = f(a, b)
    assert_same(found["a"], a + b)
    total, (same, pair) = found["b"]
    assert type(found["b"]) is list
    assert_same(total, a.sum())
    assert_same(same, b)
    assert type(pair) is Pair
    assert_same(pair.high, b * 2)
    assert not found["y"].flags.writeable
    assert dv.function([X], X * 2)(a).shape == (4, 3)
    assert dv.function([], dv.View(b) * 2)()[2] == 4


def test_a_function_takes_arrays_by_position_and_by_name():
    x, y = dv.symbol("x"), dv.symbol("y")
    f = dv.function([x, y], x - y)
    assert f(3, 1) == f(3, y=1) == f(y=1, x=3) == 2
    assert repr(f) == "function(x, y)"
    for arguments, named in [((1,), {}), ((1, 2, 3), {}), ((1, 2), {"y": 1}), ((1,), {"z": 1})]:
        with pytest.raises(TypeError, match=r"function\(x, y\) takes 2 arrays"):
            f(*arguments, **named)


def test_what_is_no_function_is_refused():
    x, y = dv.symbol("x"), dv.symbol("y")
    with pytest.raises(ValueError, match="need symbol 'y', which is no input"):
        dv.function([x], x + y)
    with pytest.raises(ValueError, match="given twice"):
        dv.function([x, x], x)
    with pytest.raises(TypeError, match="are symbols"):
        dv.function([x + 1], x)
    with pytest.raises(TypeError, match="outputs of a function are views"):
        dv.function([x], [x, 3])


def test_a_function_reads_other_data_at_each_call():
    w = np.ones(3)
    f = dv.function(X, X + w * dv.View(w))
    a = np.zeros((1, 3), "f4")
    assert f(a)[0, 0] == 1
    w[:] = 2
    assert f(a)[0, 0] == 4


def test_a_function_of_views_reads_them():
    f = dv.function(X, (X[0], X._mean(0)))
    a = plain((4, 3))
    first, mean = f(dv.View(a) * np.float32(2))
    assert_same(first, a[0] * 2)
    np.testing.assert_allclose(mean, (a * 2).mean(0), rtol=1e-6)
    assert_same(f(dv.View(a)[::2])[0], a[0])


def test_a_function_pickles_with_its_structure():
    f = dv.function([X], {"twice": X * 2})
    a = plain((4, 3))
    f(a)
    assert_same(pickle.loads(pickle.dumps(f))(a)["twice"], a * 2)


def test_a_function_keeps_few_plans():
    f = dv.function(X, X * 2)
    for rows in range(200):
        assert f(np.ones((rows, 3), "f4")).shape == (rows, 3)
    assert len(f.plans) <= 64


def test_threads_share_a_function():
    f = dv.function(X, (X - X._mean(0), X[0]))
    wrong = []

    def work(number):
        for rows in range(1, 40):
            a = np.full((rows, 3), number, "f4")
            centred, first = f(a)
            if centred.any() or first[0] != number:
                wrong.append((number, rows))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_small_and_large_calls_give_the_same_bits():
    f = dv.function(X, (X - X._mean(0)) / X._std(0))
    a = np.random.default_rng(5).normal(100, 3, (1000, 3)).astype("f4")
    small = f(a)
    with thresholds(8, 16):
        large = dv.function(X, (X - X._mean(0)) / X._std(0))(a)
    np.testing.assert_allclose(small, large, rtol=1e-5)
    assert_same(small, ((X - X._mean(0)) / X._std(0))._bind(x=a)())


def test_numpys_functions_join_and_take_of_symbols():
    data = np.arange(12, dtype="f4").reshape(4, 3)
    x = dv.symbol("x", shape=(None, 3), dtype="f4")
    calls = [
        lambda a: np.concatenate([a, a]),
        lambda a: np.concatenate([a, a], axis=1),
        lambda a: np.concatenate([a, a], axis=None),
        lambda a: np.stack([a, a], axis=1),
        lambda a: np.stack([a, np.ones((4, 3))]),
        lambda a: np.vstack([a, a[0]]),
        lambda a: np.hstack([a, a]),
        lambda a: np.take(a, [2, 0], axis=1),
        lambda a: np.take(a, [2, 0]),
        lambda a: np.dot(a, np.ones(3)),
        lambda a: np.swapaxes(a, 0, 1),
    ]
    for call in calls:
        view = call(x)
        repr(view), view._repr_html_()
        assert_same(view._bind(x=data)(), call(data))
        assert_same(pickle.loads(pickle.dumps(view))._bind(x=data)(), call(data))
    assert np.concatenate([x, x], axis=1)._shape() == (None, 6)
    with pytest.raises(ValueError, match="one shape"):
        np.stack([x, np.ones((4, 2))])


def test_a_plan_over_symbols_says_what_is_missing():
    x = dv.symbol("x", shape=(None, 3))
    for view in [x, x + 1, x[0], x._mean(axis=0), x @ np.ones((3, 2))]:
        assert "_bind(x=...)" in str(view._explain())


def test_a_number_that_waits_for_data_is_shown_as_what_it_is():
    x = dv.symbol("x", shape=(None, 3))
    for number in [x._max(), dv.symbol("n", shape=()), x._mean() + 1]:
        assert str(number) == f"{number}" == repr(number)
    assert str(x._max()._bind(x=np.eye(3))) == "1.0"


def test_the_call_that_is_shown_gives_the_data_whatever_the_name_is():
    x, y = (dv.symbol(name, shape=(None,)) for name in ("x[0]", "y"))
    total = (x + y)._sum()
    with pytest.raises(dv.errors.UndeclaredError) as caught:
        total()
    assert "give it with _bind({'x[0]': ..., 'y': ...})" in str(caught.value)
    assert "_bind({'x[0]': ..., 'y': ...})" in str(total._explain())
    assert total._bind({"x[0]": np.ones(2), "y": np.ones(2)})() == 4


def test_symbols_are_not_filtered_before_they_are_bound():
    x = dv.symbol("x", shape=(None, 3))
    with pytest.raises(dv.errors.UndeclaredError, match="_bind"):
        x._filter(lambda sample: True)
