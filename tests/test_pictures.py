"""Pictures of expressions: valid, safe, small, the same each time, without overlaps.

What a whole page looks like is compared with files by test_display.
"""

from __future__ import annotations

import itertools
import pickle
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataview as dv
from dataview.show import pictures
from dataview.view.face import node_of
from oracle import examples

SVG = "{http://www.w3.org/2000/svg}"
TAGS = {"svg", "path", "g", "rect", "text", "circle"}
HOSTILE = ["<script>alert(1)</script>", "a\nb", "\u202eabc", "&amp;", "\"'>", "x" * 500]


def rows(count, *shape):
    return dv.View(np.ones((count, *shape), np.float32))


def drawn(view):
    """The picture of a view as a tree, after the checks that hold of any."""
    text = pictures.picture(node_of(view))
    assert text == pictures.picture(node_of(view))
    assert len(text.encode()) <= pictures.PICTURE_BYTES
    assert "url(" not in text
    root = ET.fromstring(text)
    assert {part.tag.removeprefix(SVG) for part in root.iter()} <= TAGS
    assert not {name for part in root.iter() for name in part.attrib if name.startswith("on")}
    assert not {name for part in root.iter() for name in part.attrib if "href" in name}
    _, _, width, height = map(float, root.get("viewBox").split())
    frames = [frame(part) for part in root.iter(f"{SVG}rect")]
    for left, top, right, bottom in frames:
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
    for one, other in itertools.combinations(frames, 2):
        assert one[0] >= other[2] or other[0] >= one[2] or one[1] >= other[3] or other[1] >= one[3]
    return root


def frame(part):
    left, top, width, height = (int(part.get(name)) for name in ("x", "y", "width", "height"))
    return left, top, left + width, top + height


def words(root):
    """What stands in the boxes, and beside them."""
    inside, beside = root.findall(f"{SVG}g[@fill='currentColor']")
    return [part.text for part in inside], [part.text for part in beside]


def standardised():
    d = dv.View(rows(60, 5), input=np.s_[:4], target=4)
    return (d.input - d.input._mean(axis=0)) / d.input._std(axis=0)


def test_a_standardised_field():
    inside, beside = words(drawn(standardised()))
    assert inside == ["input", "mean(·, axis=0)", "· - ·", "std(·, axis=0)", "· / ·"]
    assert beside == [
        "(60, 4) float32",
        "(4,) float32, not taken",
        "(60, 4) float32",
        "(4,) float32, not taken",
        "(60, 4) float32",
    ]


def test_a_statistic_that_was_taken_looks_so():
    view = standardised()
    before = drawn(view)
    assert len(before.findall(f"{SVG}rect[@stroke-dasharray]")) == 2
    with np.errstate(invalid="ignore"):
        view[:3]()
    after = drawn(view)
    assert after.findall(f"{SVG}rect[@stroke-dasharray]") == []
    assert words(after)[1].count("(4,) float32, taken") == 2
    assert len(list(after.iter(f"{SVG}circle"))) == 2


def test_a_photograph_without_its_operand_is_drawn():
    mean = rows(4)._mean()
    mean()
    assert words(drawn(pickle.loads(pickle.dumps(mean))))[0] == ["mean(…)"]


def test_shared_parts_are_drawn_once():
    x = rows(4, 3)
    shared = x * 2
    inside, _ = words(drawn((shared + 1) * (shared - 1) + np.sqrt(shared)))
    wanted = {"memory", "· * 2", "· + 1", "· - 1", "· * ·", "sqrt(·)", "· + ·"}
    assert len(inside) == len(wanted)
    assert set(inside) == wanted


def test_parts_say_which():
    d = dv.View(pos={"x": np.ones(5), "two words": np.ones((5, 2))})
    view = ((d.pos.x[::-1] - d.pos["two words"][:, 0]) * 2)[1:3]
    assert words(drawn(view))[0] == [
        "pos.x[::-1]",
        'pos["two words"][:, 0]',
        "· - ·",
        "· * 2",
        "·[1:3]",
    ]


def test_operands_stand_in_their_order():
    a, b = dv.View(a=np.ones(3), b=np.ones(3))._iter_fields()
    root = drawn(a[1] - b[1])
    assert words(root)[0] == ["a", "b", "· - ·"]
    first, second, _ = (frame(part) for part in root.iter(f"{SVG}rect"))
    assert first[2] < second[0]


@pytest.mark.parametrize("view", [rows(3), rows(3)[1:], dv.View(a=rows(3)), dv.View(a=rows(3)).a])
def test_data_has_no_picture(view):
    assert pictures.picture(node_of(view)) == ""


def test_what_is_too_large_has_none():
    assert pictures.picture(node_of(sum([rows(3)] * (pictures.BOXES - 2))))
    assert pictures.picture(node_of(sum(rows(3) for _ in range(40)))) == ""
    view = rows(3)
    for _ in range(3000):
        view = view + view
    assert pictures.picture(node_of(view)) == ""


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_harmless(name):
    d = dv.View(**{name: np.ones(3)})
    text = pictures.picture(node_of(np.sqrt(d[name]) + 1))
    assert "<script" not in text
    assert ET.fromstring(text) is not None
    drawn(np.frompyfunc(abs, 1, 1)(d[name]))


LEAVES = [rows(4, 3) for _ in range(3)]
STEPS = [
    np.sqrt,
    lambda x: x * 2,
    lambda x: x._mean(axis=0),
    lambda x: x._max(axis=0, keepdims=True),
    lambda x: x[..., ::-1],
    lambda x: np.divmod(x, 2)[1],
]
PAIRS = [np.add, np.subtract, np.maximum, np.divide]


@given(st.data())
@examples(150)
def test_any_expression_is_drawn_without_overlap(data):
    views = list(LEAVES)
    for _ in range(data.draw(st.integers(1, 9))):
        one = data.draw(st.sampled_from(views))
        other = data.draw(st.sampled_from(views))
        step = data.draw(st.sampled_from([*STEPS, *PAIRS]))
        flat = one._ndim() < 2 and step is not np.sqrt
        views.append(step(one, other) if step in PAIRS else one * 3 if flat else step(one))
    if pictures.picture(node_of(views[-1])):
        drawn(views[-1])
