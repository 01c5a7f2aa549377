"""The table of operations: all entries of a row describe the same operation."""

import numexpr
import numpy as np
import pytest
from numpy.lib.mixins import NDArrayOperatorsMixin

import dataview as dv
from dataview.compute import programs
from dataview.plan.operations import ATOM, OPERATIONS
from dataview.show.formulas import formula_of
from dataview.view.face import node_of
from oracle import assert_same

DTYPES = "? i4 i8 f4 f8".split()
VALUES = {
    "b": [[[1, 0], [1, 1]], [[1, 1], [0, 1]], [[0, 0], [1, 1]]],
    "i": [[[1, 7], [-3, 2]], [[2, 1], [3, 1]], [[5, 4], [3, 9]]],
    "f": [[[0.5, 7.25], [-3.0, np.nan]], [[2.0, 1.5], [3.0, 0.25]], [[4.5, np.inf], [3.5, 9.0]]],
}
OTHERS = {
    bool: lambda default: not default,
    int: lambda default: default + 1,
    float: lambda default: default + 0.5,
    str: lambda default: "same_kind",
    type(None): lambda default: 7.5,
}
"""A value other than the default, by the type of the default."""


def converted(values, dtype=np.float32, casting="unsafe"):
    """Give the elements in another dtype, as NumPy's `astype` does, which NumPy 2.0 has not."""
    convert = values._astype if isinstance(values, dv.View) else values.astype
    return convert(dtype, casting=casting)


OWN = ("fitting", "is_present", "known", "paired")
"""Operations that NumPy has not, which users do not call."""

NUMPYS = [row for row in OPERATIONS if row.name not in OWN]

CALLED = {row.name: getattr(np, row.name) for row in NUMPYS if row.name != "astype"}
CALLED["astype"] = converted
"""What a user calls for each operation."""

WORDS = {"float32": np.float32, "same_kind": "same_kind"}
"""What formulas write without quotes."""

rows = pytest.mark.parametrize("operation", NUMPYS, ids=lambda operation: operation.name)


@pytest.fixture(autouse=True)
def silence():
    """Let floating-point errors pass: only values are compared here."""
    with np.errstate(all="ignore"):
        yield


def count(operation):
    """Give the number of operands."""
    names = operation.operands.split()
    return len(names) if names else operation.function.nin


def samples(operation, **options):
    """Give operands of each dtype that the operation takes."""
    found = []
    for dtype in DTYPES:
        values = VALUES[np.dtype(dtype).kind][: count(operation)]
        arrays = [np.array(one, dtype) for one in values]
        try:
            CALLED[operation.name](*arrays, **options)
        except TypeError:
            continue
        found.append(arrays)
    assert found
    return found


def calls(operation):
    """Give operands and options: none, then each other than it is by default."""
    others = {name: OTHERS[type(default)](default) for name, default in operation.options.items()}
    for options in [{}, *({name: value} for name, value in others.items())]:
        for arrays in samples(operation, **options):
            yield arrays, options


@rows
def test_an_operation_is_the_same_in_every_form(operation):
    function = CALLED[operation.name]
    for arrays, options in calls(operation):
        named = dict(zip("abc", arrays, strict=False))
        views = [dv.View({name: array})._field(name) for name, array in named.items()]
        view, expected = function(*views, **options), function(*arrays, **options)
        assert isinstance(view, dv.View)
        assert_same(view(), expected)
        assert_same(view(out=np.empty_like(expected)), expected)
        formula = formula_of(node_of(view))
        assert_same(eval(formula, CALLED | WORDS | named), expected)


@rows
def test_an_operator_is_the_operation_of_its_row(operation):
    if not operation.operator:
        return
    for one, other in samples(operation):
        expected = operation.function(one, other)
        assert_same(getattr(dv.View(one), f"__{operation.operator}__")(other)(), expected)
        reflected = getattr(dv.View(other), f"__r{operation.operator}__", None)
        assert reflected is None or np.array_equal(reflected(one)(), expected, equal_nan=True)


@rows
def test_an_engine_computes_what_its_text_says(operation):
    row = programs.VETTED.get(operation.function)
    assert (row is None) == (operation.numexpr is None)
    if row is None:
        return
    taken = {arrays[0].dtype.str[1:]: arrays for arrays in samples(operation)}
    for arrays in map(taken.get, row.dtypes.split()):
        expected = operation.function(*arrays)
        with dv.engine("numexpr"):
            view = operation.function(*map(dv.View, arrays))
            (choice,) = programs.chosen_engines(programs.compiled(node_of(view)))
            assert choice.engine == "numexpr"
            assert_same(view(), expected)
        named = dict(zip("ab", arrays, strict=False))
        assert_same(numexpr.evaluate(row.text.format(*named), named), expected)


@rows
def test_a_row_does_not_contradict_itself(operation):
    function = operation.function
    ufunc = isinstance(function, np.ufunc)
    beside = operation.operands, operation.options, operation.into, operation.numpy
    assert not any(beside) if ufunc else operation.operands
    assert 0 <= operation.level < ATOM
    assert bool(operation.text) == bool(operation.level)
    if operation.text:
        assert operation.text.count("{}") == function.nin
    if operation.operator:
        assert function.nin == 2 and function.signature is None
        assert hasattr(NDArrayOperatorsMixin, f"__{operation.operator}__")


@rows
def test_what_is_vetted_does_not_contradict_itself(operation):
    row, function = operation.numexpr, operation.function
    if row is None:
        return
    assert function.nout == 1
    assert row.text or operation.text
    assert set(row.separate) <= set(range(function.nin))
    assert row.raises or not row.underflows
    for kind in map(np.dtype, row.dtypes.split()):
        result = function(*[np.ones(1, kind)] * function.nin).dtype
        assert result == (np.dtype(bool) if row.truth else kind)


def test_each_operation_has_one_row():
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)
    assert len({operation.function for operation in OPERATIONS}) == len(OPERATIONS)
    assert len({operation.text for operation in OPERATIONS if operation.text}) == sum(
        bool(operation.text) for operation in OPERATIONS
    )
