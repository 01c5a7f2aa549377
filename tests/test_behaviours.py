"""Behaviours that no other file tests, and cases that broke at least one other library."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import dataview as dv
from oracle import assert_same

# ---------------------------------------------------------------- indices of indices


def in_memory(array, _):
    return dv.View(array)


def in_a_file(array, folder):
    file = folder / "array.npy"
    np.save(file, array)
    return dv.open(file)


@pytest.fixture(params=[in_memory, in_a_file])
def opened(request, tmp_path):
    """A function that gives a view of an array: in memory, or in a file."""
    return lambda array: request.param(array, tmp_path)


def test_a_list_in_a_slice_is_held_to_the_bounds_of_the_slice(opened):
    v = opened(np.arange(10))
    for outside in [5, 3, -4, -5]:
        with pytest.raises(IndexError):
            v[3:6][[outside]]
    assert_same(v[3:6][[-3, 2]](), np.array([3, 5]))


def test_a_backward_slice_of_forward_bounds_is_empty(opened):
    v = opened(np.arange(10))
    assert_same(v[2:5:-1](), np.arange(0))
    assert v[2:5:-1]._shape() == (0,)


def test_an_empty_slice_of_a_slice_stays_empty(opened):
    a = np.arange(10)
    v = opened(a)
    assert_same(v[0:-9:2][9::-3](), a[0:-9:2][9::-3])
    assert_same(v[:0][::-1](), a[:0])


def test_a_slice_of_a_list_of_columns(opened):
    a = np.arange(30).reshape(5, 6)
    v = opened(a)
    assert_same(v[:, [4, 2, 0]][:, 1:](), a[:, [2, 0]])
    assert_same(v[:, [4, 2, 0]][[3, 0]](), a[[3, 0]][:, [4, 2, 0]])


def test_unsorted_repeated_and_negative_rows(opened):
    a = np.arange(30).reshape(5, 6)
    v = opened(a)
    assert_same(v[[3, 3, -5, 1]](), a[[3, 3, 0, 1]])
    assert_same(v[[[3, 1], [0, 0]]](), a[[[3, 1], [0, 0]]])
    assert_same(v[::-1, ::-2](), a[::-1, ::-2])


def test_a_new_axis(opened):
    a = np.arange(6).reshape(2, 3)
    v = opened(a)
    assert_same(v[None](), a[None])
    assert_same(v[None][0, :, None](), a[:, None])


def test_a_mask_of_a_comparison_has_a_known_shape(opened):
    a = np.arange(12).reshape(3, 4)
    v = opened(a)
    chosen = v[v > 4]
    assert chosen._shape() == (7,)
    assert_same(chosen(), a[a > 4])


def test_a_row_of_a_huge_transposed_reversal_costs_nothing():
    huge = np.broadcast_to(np.arange(4), (10**9, 4))
    assert_same(dv.View(huge)[::-1][:, 0][7](), np.int64(0))


# ---------------------------------------------------------------- shapes and types


def test_empty_arrays_broadcast():
    v = dv.View(np.zeros(0))
    assert (v + np.zeros((3, 1)))._shape() == (3, 0)
    assert_same((v + np.zeros((3, 1)))(), np.zeros((3, 0)))


def test_a_python_number_keeps_the_dtype():
    v = dv.View(np.arange(3, dtype="f4"))
    assert (v * 2.0)._dtype() == np.float32
    assert_same((v * 2.0)(), np.arange(3, dtype="f4") * 2)
    large = dv.View(np.array([2**63 + 5], "u8"))
    assert_same((large + 0)(), np.array([2**63 + 5], "u8"))


def test_misfitting_shapes_are_refused_when_the_expression_is_built():
    v = dv.View(np.zeros((2, 3)))
    with pytest.raises(ValueError):
        v + np.zeros(2)
    with pytest.raises(TypeError):
        dv.View(np.array(["a"])) * 2.5


def test_a_part_of_an_expression_is_the_expression_of_the_part():
    a = np.arange(12.0).reshape(3, 4)
    e = dv.View(a) * 2 + 1
    for key in [np.s_[:, [0, 3]], np.s_[1], np.s_[..., None], [2, 0], a > 3]:
        assert_same(e[key](), (a * 2 + 1)[key])
    assert_same(pickle.loads(pickle.dumps(e))(), a * 2 + 1)


# ---------------------------------------------------------------- overlap


def test_in_place_with_the_own_reverse(opened_for_writing):
    a, v, written = opened_for_writing
    v += v[::-1]
    assert_same(written(), a + a[::-1])


def test_rows_moved_by_one_in_place(opened_for_writing):
    a, v, written = opened_for_writing
    v[1:] = v[:-1]
    assert_same(written(), np.concatenate([a[:1], a[:-1]]))
    v[:-1] = v[1:] * 2
    moved = np.concatenate([a[:1], a[:-1]])
    assert_same(written(), np.concatenate([moved[1:] * 2, moved[-1:]]))


def test_repeated_rows_in_place(opened_for_writing):
    a, v, written = opened_for_writing
    v[[0, 0, 2]] += 1
    expected = a.copy()
    expected[[0, 2]] += 1
    assert_same(written(), expected)


@pytest.fixture(params=["memory", "file"])
def opened_for_writing(request, tmp_path):
    """An array, a writable view of a copy of it, and a function that gives what was written."""
    a = np.arange(12.0).reshape(4, 3) ** 2
    if request.param == "memory":
        copy = a.copy()
        return a, dv.View(copy), lambda: copy
    file = tmp_path / "a.npy"
    np.save(file, a)
    return a, dv.open(file, mode="r+"), lambda: np.load(file)


def test_other_names_of_a_view_see_what_is_written_in_place():
    a = np.arange(4)
    v = w = dv.View(a)
    w += 1
    assert_same(v(), np.arange(4) + 1)
    v = v + 1
    assert_same(a, np.arange(4) + 1)
    assert_same(w(), np.arange(4) + 1)
    assert_same(v(), np.arange(4) + 2)
