"""The sizes of blocks: they can be set for a while, and the package uses all of them."""

import pathlib

import numpy as np
import pytest

import dataview as dv
from dataview.index.sizes import Sizes, sizes


def test_sizes_are_set_for_a_while():
    own = sizes.block_elements, sizes.block_bytes
    with sizes.set(block_elements=40):
        with sizes.set(block_elements=7, block_bytes=3):
            assert (sizes.block_elements, sizes.block_bytes) == (7, 3)
        assert (sizes.block_elements, sizes.block_bytes) == (40, own[1])
    assert (sizes.block_elements, sizes.block_bytes) == own
    with pytest.raises(ZeroDivisionError), sizes.set(block_elements=40):
        1 / 0  # noqa: B018
    assert sizes.block_elements == own[0]


def test_an_unknown_size_is_refused():
    with pytest.raises(AttributeError, match="blocks"), sizes.set(block_bytes=1, blocks=1):
        pass
    assert sizes.block_bytes == Sizes.block_bytes


def test_a_plan_tells_the_blocks_that_are_set():
    view = (dv.View(np.ones((4000, 3))) + 1) * 2
    assert view._explain().blocks == 1
    with sizes.set(small_elements=0, block_elements=60):
        assert view._explain().blocks == 200


def test_every_size_is_read_by_the_package():
    folder = pathlib.Path(dv.__file__).parent
    text = "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    names = [name for name, size in vars(Sizes).items() if isinstance(size, int)]
    assert len(names) > 5
    assert [name for name in names if f"sizes.{name}" not in text] == []
