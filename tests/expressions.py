"""Random expressions over arrays, and small blocks to compute them in."""

import math
import operator

import numpy as np
import pytest
from hypothesis import strategies as st

import dataview as dv
import newest
from dataview.index.sizes import sizes
from oracle import (
    LAYOUTS,
    NUMBERS,
    OTHERS,
    SWAPPED,
    as_array,
    assert_same,
    attempt,
    evaluated,
    lay_out,
    public_class,
    silence,
)

SIZES = [(sizes.small_elements, sizes.block_elements), (8, 16), (0, 1), (0, 7)]
"""Pairs of sizes (small, block): those of the package, and ones that cut all data into blocks."""


def thresholds(small, block):
    """Compute in blocks of so many elements from so many elements on."""
    part = min(sizes.part_bytes, 8 * block)
    return sizes.set(small_elements=small, block_elements=block, part_bytes=part)


def views_of(leaves):
    """Give the leaves of an expression as views, numbers as they are."""
    return [dv.View(leaf) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]


EXACT_ONE = [
    *(operator.neg, operator.pos, abs, operator.invert, np.square, np.sign, np.floor, np.rint),
    *(np.isnan, np.isfinite, np.logical_not, np.conjugate, np.spacing, np.trunc, np.sqrt),
]
EXACT_TWO = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv),
    *(operator.mod, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift),
    *(operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne),
    *(np.maximum, np.minimum, np.fmax, np.logical_and, np.heaviside, np.fmod, np.remainder),
    *(np.nextafter, np.gcd, np.bitwise_xor),
]
SEVERAL = [np.divmod, np.modf, np.frexp, divmod]
TRANSCENDENTAL = [np.exp, np.sin, np.cos, np.log, np.log1p, np.tanh, np.cbrt, np.arctan2, np.hypot]
SCALARS = [
    *(0, 1, 2, -1, 3, 300, True, 0.5, -2.5, 2j, math.nan, math.inf, 2**40),
    *(np.float32(1.5), np.int8(3), np.float64(-0.0), np.uint64(7), np.bool_(True)),
]
TIMES = [np.timedelta64(3, "s"), np.datetime64("1970-01-02"), np.timedelta64("NaT"), 2, 0.5]
TEXTS = ["a", "7", ""]


class Tree:
    """An operation on trees, leaves by number and scalars; it computes on arrays or on views."""

    def __init__(self, operation, *parts, output=None):
        self.operation = operation
        self.parts = parts
        self.output = output

    def __call__(self, leaves):
        parts = [part(leaves) if callable(part) else part for part in self.parts]
        found = newest.computed(self.operation, *parts)
        return found if self.output is None else found[self.output]

    def __repr__(self):
        name = getattr(self.operation, "__name__", repr(self.operation))
        text = f"{name}({', '.join(map(repr, self.parts))})"
        return text if self.output is None else f"{text}[{self.output}]"


class Leaf:
    """The leaf with this number."""

    def __init__(self, number):
        self.number = number

    def __call__(self, leaves):
        return leaves[self.number]

    def __repr__(self):
        return f"leaf{self.number}"


@st.composite
def trees(draw, count, scalars, depth):
    """Draw a tree of operations that NumPy computes to the last bit, over so many leaves."""
    if depth == 0:
        return Leaf(draw(st.integers(0, count - 1)))
    form = draw(st.integers(0, 9))
    first = draw(trees(count, scalars, depth - 1))
    if form < 2:
        return Tree(draw(st.sampled_from(EXACT_ONE)), first)
    if form == 2:
        operation = draw(st.sampled_from(SEVERAL))
        parts = [first] if operation in (np.modf, np.frexp) else [first, draw(scalars)]
        return Tree(operation, *parts, output=draw(st.integers(0, 1)))
    if form < 6:
        parts = [first, draw(scalars)]
    else:
        parts = [first, draw(trees(count, scalars, draw(st.integers(0, min(1, depth - 1)))))]
    if draw(st.booleans()):
        parts.reverse()
    return Tree(draw(st.sampled_from(EXACT_TWO)), *parts)


@st.composite
def leaves_of(draw, dtypes, layouts=LAYOUTS):
    """Draw one to three arrays that mostly broadcast together, of any layout."""
    side = st.sampled_from([3, 4, 2, 5, 1, 7, 3, 4, 0])
    shape = tuple(draw(st.lists(side, max_size=4)))
    found = []
    for number in range(draw(st.integers(1, 3))):
        own = shape
        if number:
            own = tuple(1 if draw(st.integers(0, 3)) == 0 else n for n in shape)
            own = own[draw(st.sampled_from([0, 0, 1, 2, 4])) :]
            if own and draw(st.integers(0, 24)) == 24:
                own = (*own[:-1], own[-1] + 1)
        base = lay_out(draw(st.sampled_from(layouts)), own, np.dtype(draw(dtypes)))
        found.append(base.array)
    return found


FAMILIES = {
    "numbers": (NUMBERS, SCALARS),
    "floats": (["f2", "f4", "f8", "g"], [0, 2, 0.5, -2.5, math.inf, np.float32(1.5)]),
    "integers": ([code for code in NUMBERS if code[0] in "?iu"], [0, 1, 2, -1, 300, True]),
    "times": (["M8[s]", "m8[ms]", "i4", "f8", ">M8[D]"], TIMES),
    "texts": (["U3", "S3", ">U2"], TEXTS),
    "anything": (NUMBERS + OTHERS + SWAPPED, SCALARS + TIMES + TEXTS),
}


@st.composite
def expressions(draw, families=tuple(FAMILIES), depth=6):
    """Draw the leaves of an expression and its tree."""
    dtypes, scalars = FAMILIES[draw(st.sampled_from(families))]
    leaves = draw(leaves_of(st.sampled_from(dtypes)))
    # A single object or text is no array to NumPy: what it computes with is of any type.
    leaves = [leaf if leaf.dtype.kind not in "OSU" or leaf.ndim else leaf[None] for leaf in leaves]
    tree = draw(trees(len(leaves), st.sampled_from(scalars), draw(st.integers(1, depth))))
    return leaves, tree


def check_expression(leaves, tree):
    """Compare an expression with NumPy's; give the view and the model, None where both refuse."""
    with silence():
        expected, refusal = attempt(tree, leaves)
        if refusal is not None:
            with pytest.raises(public_class(refusal)):
                evaluated(tree(views_of(leaves)))
            return None
        view = tree(views_of(leaves))
        assert isinstance(view, dv.View), "an operation on a view gives a view"
        known = view._shape(), view._dtype()
        got = view()
    assert_same(got, expected)
    model = as_array(expected)
    assert known[0] == model.shape
    assert known[1] == as_array(got).dtype or known[1].kind in "USO"
    return view, model
