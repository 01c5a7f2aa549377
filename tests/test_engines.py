"""Engines: which steps numexpr computes, in which threads, with the same bits as NumPy."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numexpr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from children import printed, python
from dataview.compute import programs
from dataview.view.face import node_of
from oracle import LAYOUTS, assert_same, examples, lay_out

SPECIAL = {
    "f": [0.0, -0.0, 1.0, -1.5, 0.1, 3e38, -1e-40, np.inf, -np.inf, np.nan, 2.0**-149, 1e30],
    "i": [0, 1, -1, 7, 2**31 - 1, -(2**31), 65537, -3],
    "b": [True, False],
}


def program_of(view):
    """Give the program of an expression, before the engine is chosen."""
    return programs.compiled(node_of(view))


def computed_by_numexpr(view):
    """Give the names of the ufuncs that numexpr computes."""
    choices = programs.chosen_engines(program_of(view))
    return [choice.step.ufunc.__name__ for choice in choices if choice.engine == "numexpr"]


def both(make):
    """Give what each engine makes of an expression."""
    with dv.engine("numpy"):
        expected = make()
    with dv.engine("numexpr"):
        return make(), expected


# ---------------------------------------------------------------- choosing


def test_the_engine_is_chosen_for_a_context():
    assert programs.current_engine() == "auto"
    with dv.engine("numexpr") as name:
        assert name == programs.current_engine() == "numexpr"
        with dv.engine("numpy"):
            assert programs.current_engine() == "numpy"
        assert programs.current_engine() == "numexpr"
    assert programs.current_engine() == "auto"


@pytest.mark.parametrize("name", ["", "numba", None, 3])
def test_an_unknown_engine_is_refused(name):
    with pytest.raises(ValueError, match="'numpy', 'numexpr', 'auto'"), dv.engine(name):
        pass


def test_the_environment_sets_the_default():
    code = """
import sys, dataview as dv, numpy as np
v = dv.View(np.ones(99)) + 1
v()
print("numexpr" in sys.modules)
with dv.engine("numpy"):
    from dataview.compute import programs
    print(programs.current_engine())
"""
    for engine, imported in [("numexpr", "True"), ("numpy", "False"), ("auto", "False")]:
        assert printed("-c", code, DATAVIEW_ENGINE=engine).split() == [imported, "numpy"]
    refused = python("-c", code, DATAVIEW_ENGINE="gpu")
    assert "DATAVIEW_ENGINE is one of 'numpy', 'numexpr'" in refused.stderr


def test_auto_takes_numexpr_where_it_was_measured_faster(monkeypatch):
    a = dv.View(np.arange(9.0))
    view = (a + 1) * a
    assert computed_by_numexpr(view) == []
    assert all(row.slower >= 1 for row in programs.VETTED.values())
    monkeypatch.setattr(programs, "PAYING", frozenset([np.multiply]))
    assert computed_by_numexpr(view) == ["multiply"]
    with dv.engine("numpy"):
        assert computed_by_numexpr(view) == []


# ---------------------------------------------------------------- what is vetted


def test_every_choice_has_a_reason():
    a = dv.View(np.arange(9.0))
    b = dv.View(np.arange(9, dtype="i2"))
    view = np.exp(a * 2) + (b + b) + a * 1j.real
    with dv.engine("numexpr"):
        found = {
            choice.step.ufunc.__name__: (choice.engine, choice.why)
            for choice in programs.chosen_engines(program_of(view))
        }
    assert found["exp"] == ("numpy", "not vetted")
    assert found["multiply"] == ("numexpr", "chosen")
    assert {why for _, why in found.values()} >= {"chosen", "not vetted"}


@pytest.mark.parametrize(
    "make",
    [
        lambda v: v("f8") + v("f4"),
        lambda v: v("i4") + v("f4"),
        lambda v: v("i4") / 2,
        lambda v: v("i8") + 0.5,
        lambda v: v("f4") * np.float64(2),
        lambda v: v("f4") < np.float64(0.1),
        lambda v: v("f2") * 2,
        lambda v: v("u8") + 1,
        lambda v: v("i1") + 1,
        lambda v: v("c16") * 2,
        lambda v: v("f8") * 2j,
        lambda v: v("?") + v("?"),
        lambda v: v("g") * 2,
        lambda v: v(">f8") * 2,
        lambda v: v("i8") ** 3,
        lambda v: v("f8") ** 1.5,
        lambda v: v("i8") // 3,
        lambda v: v("f8") % 3,
        lambda v: v("f8") + np.bool_(True),
        lambda v: v("f8") + True,
    ],
)
def test_what_is_not_vetted_stays_with_numpy(make):
    view = make(lambda dtype: dv.View(np.ones(5, dtype)))
    with dv.engine("numexpr"):
        assert computed_by_numexpr(view) == []
    got, expected = both(view)
    assert_same(got, expected)


def test_an_underflow_that_is_to_be_told_stays_with_numpy():
    a = dv.View(np.full(9, 1e-300))
    with dv.engine("numexpr"):
        assert computed_by_numexpr(a * a) == ["multiply"]
        with np.errstate(under="raise"):
            assert computed_by_numexpr(a * a) == []
            with pytest.raises(FloatingPointError):
                (a * a)()


@st.composite
def operands(draw, dtype, count):
    """Draw arrays that broadcast together, of special values in any layout."""
    shape = tuple(draw(st.lists(st.sampled_from([3, 1, 4, 0]), max_size=3)))
    values = st.sampled_from(SPECIAL[np.dtype(dtype).kind])
    found = []
    for number in range(count):
        own = tuple(1 if number and draw(st.booleans()) else n for n in shape)
        array = lay_out(draw(st.sampled_from(LAYOUTS)), own, np.dtype(dtype)).array
        if array.flags.writeable:
            with np.errstate(all="ignore"):
                array[...] = np.array(
                    [draw(values) for _ in range(array.size)], "f8" if dtype[0] == "f" else "i8"
                ).reshape(own)
        found.append(array)
    return found


@pytest.mark.parametrize("ufunc", programs.VETTED, ids=lambda ufunc: ufunc.__name__)
@examples(40)
@given(st.data())
def test_every_vetted_operation_gives_numpys_bits(ufunc, data):
    dtype = data.draw(st.sampled_from(programs.VETTED[ufunc].dtypes.split()))
    arrays = data.draw(operands(dtype, ufunc.nin))
    if ufunc.nin == 2 and data.draw(st.booleans()):
        arrays[1] = data.draw(st.sampled_from(SPECIAL[np.dtype(dtype).kind][:4]))
    view = ufunc(*[dv.View(one) if isinstance(one, np.ndarray) else one for one in arrays])
    with np.errstate(all="ignore"), dv.engine("numexpr"):
        taken = computed_by_numexpr(view)
        assert taken or not isinstance(arrays[-1], np.ndarray) or not arrays[0].dtype.isnative
        got = view()
        expected = ufunc(*arrays)
    assert_same(got, expected)
    assert np.signbit(got).tolist() == np.signbit(expected).tolist() or dtype[0] != "f"


# ---------------------------------------------------------------- calls


def test_steps_are_joined_as_far_as_they_are_vetted():
    a, b = (dv.View(np.arange(1.0, 10)) for _ in range(2))
    with dv.engine("numexpr"):
        joined = programs.with_joined_steps(program_of(np.exp((a - b) / b * 2 + 1) - a)).steps
    assert len(joined) == 3
    assert joined[0].ufunc.text == "((((v0 - v1) / v1) * v2) + v3)"
    assert joined[0].ufunc.kinds == ("f8",) * 4


def test_long_expressions_are_computed_in_several_calls():
    view = dv.View(np.arange(9.0))
    for number in range(600):
        view = view + number if number % 2 else view * 1.5 - view
    got, expected = both(lambda: np.asarray(np.errstate(all="ignore")(view)()))
    assert_same(got, expected)


def test_names_of_fields_never_reach_numexpr():
    d = dv.View({"sin": np.arange(5.0), "__import__('os')": np.ones(5)})
    view = d.sin + d["__import__('os')"]
    with dv.engine("numexpr"):
        (step,) = programs.with_joined_steps(program_of(view)).steps
        assert step.ufunc.text == "(v0 + v1)"
        assert_same(view(), np.arange(1.0, 6))


def test_zeros_of_both_signs_stay_apart():
    a = dv.View(np.arange(1.0, 5))
    got, expected = both(np.copysign(a, 0.0) * 2 + np.copysign(a, -0.0))
    assert_same(got, expected)
    got, expected = both(np.copysign(1.0, a * 0.0) + np.copysign(1.0, a * -0.0))
    assert_same(got, expected)


def test_an_infinite_step_is_seen_behind_a_division():
    a = dv.View(np.full(20, 1e300))
    for mode in ["warn", "raise"]:
        with dv.engine("numexpr"), np.errstate(over=mode):
            error = RuntimeWarning if mode == "warn" else FloatingPointError
            with pytest.raises(error, match="overflow encountered in multiply"):
                (1 / (a * a))()
            with pytest.raises(error, match="overflow encountered in multiply"):
                (a * a > 1)()


def test_memory_is_rewritten_in_place():
    for size in [5, 100_000]:
        a, b = np.arange(float(size)), np.arange(float(size))
        with dv.engine("numexpr"):
            v = dv.View(a)
            v -= v * 2 + 1
            v *= 1e300
            with pytest.warns(RuntimeWarning, match="overflow"):
                v *= 1e300
        b -= b * 2 + 1
        b *= 1e300
        with np.errstate(over="ignore"):
            b *= 1e300
        assert_same(a, b)


# ---------------------------------------------------------------- threads


def test_the_users_number_of_threads_is_put_back():
    before = numexpr.set_num_threads(2)
    try:
        seen = []
        count = np.frompyfunc(lambda value: seen.append(numexpr.get_num_threads()) or value, 1, 1)
        a = np.arange(6.0)
        with dv.engine("numexpr"):
            view = count((dv.View(a) + 1).__mul__(2))
            view()
            assert set(seen) == {1}
            assert numexpr.get_num_threads() == 2
            with pytest.raises(FloatingPointError), np.errstate(divide="raise"):
                (dv.View(a) / 0.0)()
            assert numexpr.get_num_threads() == 2
    finally:
        numexpr.set_num_threads(before)


def test_threads_do_not_share_what_numexpr_compiled(rng):
    a = rng.normal(size=(400_000,))
    view = (dv.View(a) + 1) * a - 2
    expected = (a + 1) * a - 2
    start = threading.Barrier(4)

    def work(_):
        start.wait()
        with dv.engine("numexpr"):
            return [view() for _ in range(5)]

    before = numexpr.get_num_threads()
    with ThreadPoolExecutor(4) as pool:
        for results in pool.map(work, range(4)):
            for result in results:
                assert_same(result, expected)
    assert numexpr.get_num_threads() == before
