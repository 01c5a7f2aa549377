"""The examples of the original proposal, line by line, with its comments."""

from __future__ import annotations

import math

import numpy
import pytest

import dataview as dv


@pytest.fixture
def memory():
    return numpy.arange(10.0)


@pytest.fixture
def s(memory):
    return dv.View(memory, input=numpy.s_[:7], target=numpy.s_[7:])


@pytest.fixture
def matrix():
    return numpy.arange(60.0).reshape(6, 10)


@pytest.fixture
def d(matrix):
    return dv.View(matrix, input=numpy.s_[:7], target=numpy.s_[7:])


# ---------------------------------------------------------------- a sample s


def test_data_of_a_sample(s, memory):
    # Obtain actual data stored within `s` (e.g. a numpy vector). There is no
    # guarantee that modifying the resulting data object will actually update
    # the data stored in `s`.
    data = s()
    assert isinstance(data, numpy.ndarray)
    assert numpy.array_equal(data, memory)


def test_field_of_a_sample(s, memory):
    # Create a sample that sees a field of `s`.
    input_part = s.input
    # Obtain actual input data (e.g. as a numpy vector).
    input_data = input_part()
    assert isinstance(input_part, dv.View)
    assert numpy.array_equal(input_data, memory[:7])


def test_element_of_a_sample(s):
    for i in range(-10, 10):
        # Create a sample that sees the i-th element of the data stored in `s`.
        ith = s[i]
        # This should not fail.
        assert ith() == s()[i]


def test_range_of_a_sample(s):
    i, j = 2, 8
    # You could also select a range.
    i_to_j = s[i:j]
    assert numpy.array_equal(i_to_j(), s()[i:j])


def test_fancy_selection_of_a_sample():
    s, i, j, k = dv.View(numpy.arange(60).reshape(3, 4, 5)), 2, 1, 4
    # And actually do pretty much anything you want with __getitem__, as long
    # as the underlying data stored in the sample supports it (for instance,
    # here it should be at least a 3D tensor).
    fancy_selection = s[i, :, j:k]
    assert numpy.array_equal(fancy_selection(), s()[i, :, j:k])


def test_writing_a_sample(s, memory):
    val = numpy.arange(10) * 3
    # Write some value (e.g. a numpy vector) into the sample. May raise an
    # exception if the sample is in read-only mode.
    s._write(val)
    assert numpy.array_equal(s(), val)
    assert numpy.array_equal(memory, val)
    with pytest.raises(ValueError):
        s._readonly()._write(val)


def test_writing_a_field_of_a_sample(s, memory):
    val = numpy.arange(7) * 3
    # Shortcut to write data into a field (same as `s.input._write(val)`).
    s.input = val
    assert numpy.array_equal(s.input(), val)
    s.input._write(val + 1)
    assert numpy.array_equal(memory, [1, 4, 7, 10, 13, 16, 19, 7, 8, 9])


def test_basic_mathematical_operators(s, memory):
    expected, val = memory.copy(), numpy.arange(1.0, 11.0)
    # Basic mathematical operators.
    s *= val
    s += val
    s -= 3
    s /= val
    expected = (expected * val + val - 3) / val
    assert isinstance(s, dv.View)
    assert numpy.array_equal(memory, expected)
    assert numpy.array_equal(s(), expected)


def test_replacing_a_field(s, memory):
    before, new_input = memory.copy(), dv.View(numpy.zeros(7))
    # Replace a field. Note that this is different from `s.input = val`
    # because here `new_input` is a sample, not a numeric value: the current
    # `s.input` will not be written to, instead it makes `s.input` point
    # towards a different sample. This may lead to confusion, so a different
    # syntax may be better (e.g. s._set_field('input', new_input)).
    s.input = new_input
    assert numpy.array_equal(s.input(), numpy.zeros(7))
    assert numpy.array_equal(memory, before)
    s._set_field("input", dv.View(numpy.ones(7)))
    assert numpy.array_equal(s.input(), numpy.ones(7))
    assert numpy.array_equal(memory, before)


def test_equality_of_samples(s, memory):
    other = dv.View(memory.copy())
    # The equality of two samples is defined by the equality of their
    # underlying data.
    assert bool(s == other) is numpy.array_equal(s(), other())
    other[3] = -1
    assert bool(s == other) is numpy.array_equal(s(), other())


def test_iterating_on_fields(s):
    # Iterate on fields (open question: should they be ordered?).
    fields = dict([(name, sample) for name, sample in s._iter_fields()])  # noqa: C404
    assert fields["input"] == s.input
    assert list(fields) == ["input", "target"]


def test_iterating_on_a_sample(s):
    # Iterating on a sample yields samples that see consecutive elements.
    for sample, value in zip(s, s(), strict=True):
        assert sample() == value


def test_length_shape_and_size_of_a_sample(s, d):
    for sample in [s, s.input, s[2:2], d]:
        # The length of a sample is the same as that of its underlying data.
        assert len(sample) == len(sample())
        # The shape of a sample is the same as that of its underlying data.
        # Note that it only makes sense for tensor-like data.
        assert sample._shape() == sample().shape
        # The size of a sample is the product of its shape elements.
        assert sample._size() == math.prod(sample._shape())


# ---------------------------------------------------------------- a dataset d


def test_data_of_a_dataset(d, matrix):
    # Return data stored in dataset `d` (e.g. a numpy matrix).
    data = d()
    assert numpy.array_equal(data, matrix)
    for i in range(-6, 6):
        # Return the i-th sample in the dataset.
        s = d[i]
        # Data should match!
        assert numpy.array_equal(data[i], s())


def test_subsets_of_a_dataset(d, matrix):
    i, j, some_list_of_indices = 1, 5, [4, 0, 4, -1]
    # Return a subset of the dataset.
    sub_data = d[i:j]
    assert numpy.array_equal(sub_data(), matrix[i:j])
    # Advanced indexing.
    sub_data = d[some_list_of_indices]
    assert numpy.array_equal(sub_data(), matrix[some_list_of_indices])


def test_field_of_a_dataset(d, matrix):
    # Dataset that sees the input part only.
    input_part = d.input
    assert numpy.array_equal(input_part(), matrix[:, :7])


@pytest.mark.parametrize("something", [3, -1, numpy.s_[2:5], numpy.s_[::-2], [1, 7, 1], ...])
def test_part_of_every_sample_of_a_dataset(d, something):
    # Dataset such that its i-th element is data[i][something] (see the sample
    # examples for what `something` may be).
    some_sub_data = d[:, something]
    for i in range(6):
        # The following should not fail.
        assert d[i, something] == d[i][something]
        assert d[i, something] == some_sub_data[i]


def test_writing_a_dataset(d, matrix):
    val = numpy.arange(60).reshape(6, 10) * 2
    # You can also write into a dataset.
    d._write(val)
    assert numpy.array_equal(matrix, val)
    d.input = val[:, 3:]
    assert numpy.array_equal(matrix[:, :7], val[:, 3:])
    assert numpy.array_equal(matrix[:, 7:], val[:, 7:])


def test_centering_a_dataset_in_place(d, matrix):
    expected = matrix - matrix.mean()
    # Center dataset in-place (requires `d` not to be read-only).
    d -= numpy.mean(d())
    assert numpy.array_equal(matrix, expected)
    assert numpy.array_equal(d(), expected)
    readonly = d._readonly()
    with pytest.raises(ValueError):
        readonly -= 1


def test_length_and_width_of_a_dataset(d):
    # The length of a dataset is its number of samples.
    n_samples = len(d)
    assert n_samples == 6
    # The width of a dataset (if it exists) is the length of its samples.
    assert d._shape()[1] == len(d[0]) == d._width()


def test_iterating_on_a_dataset(d):
    # Iterating on a dataset yields individual samples.
    for i, sample in enumerate(d):
        assert d[i] == sample


def test_heterogeneous_data():
    data1, data2 = numpy.arange(8).reshape(4, 2), numpy.arange(3)
    d = dv.View(data1=data1, data2=data2, _driver="data1")
    # It is allowed for a dataset to hold heterogeneous data. For instance
    # you could have
    assert len(d.data1) != len(d.data2)
    for i in range(4):
        # A sample in the dataset is not required to inherit all the dataset's
        # fields, for instance in the case above you could decide that the dataset
        # sees the same data as its first sub-dataset, i.e.
        assert d[i] == d.data1[i]
        assert not hasattr(d[i], "data2")


# ---------------------------------------------------------------- use cases


@pytest.fixture
def samples():
    rng = numpy.random.default_rng(0)
    inputs = rng.normal(size=(1000, 4))
    targets = inputs @ KNOWN + BIAS
    return dv.View(numpy.hstack([inputs, targets]), input=numpy.s_[:4], target=numpy.s_[4:])


KNOWN = numpy.array([[1.0, -2.0], [0.5, 3.0], [0.0, 1.5], [-1.0, 0.25]])
BIAS = numpy.array([0.75, -1.25])


def test_minibatches(d):
    # Mini-batches.
    mb_dataset = d._minibatches(batch_size=5)
    # The mini-batch dataset views samples that are mini-batches.
    assert numpy.array_equal(mb_dataset[0](), d[0:5]())  # As long as len(d) >= 5.
    assert mb_dataset[0] == d[0:5]


def test_shuffling_samples(d):
    # Shuffling samples. (`numpy.random.shuffle` returns None, and shuffles no range.)
    random_indices = numpy.random.default_rng(0).permutation(len(d))
    shuffled_dataset = d[random_indices]
    assert numpy.array_equal(shuffled_dataset(), d()[random_indices])
    # The way that stores no index.
    assert numpy.array_equal(numpy.sort(d._shuffled(0)(), axis=0), d())


def test_linear_regression(samples):
    d = samples
    # Typical linear regression with stochastic gradient descent.
    n_inputs = d.input._width()
    n_targets = d.target._width()
    weights = numpy.zeros((n_inputs, n_targets))
    bias = numpy.zeros(n_targets)
    mb_dataset = d._minibatches(batch_size=10)
    # Note: it is important to get the number of inputs / targets
    # before converting to minibatches, because
    assert mb_dataset.input._width() == 10
    # since this is the length of a minibatch matrix. However you
    # could still do the following, which is less readable:
    assert n_inputs == mb_dataset.input._shape()[2]
    costs, seen = [], 0.0
    for input, target in zip(mb_dataset.input, mb_dataset.target, strict=True):
        error = numpy.dot(input(), weights) + bias - target()
        cost = error**2
        # Update weights and bias depending on cost.
        weights -= 0.1 * input().T @ error / len(input)
        bias -= 0.1 * error.mean(axis=0)
        costs.append(cost.mean())
        seen += input().sum() + target().sum()
    # All samples were seen, each once, and the regression has found what they were made with.
    assert seen == pytest.approx(d().sum())
    assert costs[-1] < 1e-6 * costs[0]
    assert numpy.allclose(weights, KNOWN, atol=1e-3)
    assert numpy.allclose(bias, BIAS, atol=1e-3)


def test_infinite_datasets():
    # Infinite datasets could be used (would just need to define a convention
    # on what __len__ should do).
    endless = dv.View(lambda number: numpy.full(3, number), _length=math.inf)._probe()
    assert endless._length() == math.inf
    with pytest.raises(TypeError, match="never ends"):
        len(endless)
    assert numpy.array_equal(endless[10:12](), [[10] * 3, [11] * 3])


def test_datasets_without_random_access():
    # It is also ok to have datasets that do not support random access (so the
    # only way to access samples is through iteration).
    stream = dv.View(lambda: iter([1, 2, 3]))
    assert [sample() for sample in stream] == [1, 2, 3] == [sample() for sample in stream]
    with pytest.raises(TypeError, match="in order"):
        stream[1]
