"""Time batches formatted by spaces beside NumPy written by hand: `python bench_spaces.py`.

Of 100 colour images of 32 × 32 and their labels.  Spaces may take 10 us more than NumPy does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from timing import comparison, heading, timed

import dataview as dv
from dataview.spaces import CompositeSpace, Conv2DSpace, IndexSpace, SequenceSpace, VectorSpace

ROWS = 100

Contestants = dict[str, Callable[[], Any]]


def images(batch: np.ndarray) -> Contestants:
    """Rows of a matrix as images with their channels in front."""
    vectors = VectorSpace(3072)
    wanted = Conv2DSpace((32, 32), channels=3, axes=("b", "c", 0, 1))
    return {
        "NumPy: reshape and transpose": lambda: batch.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2),
        "``np_format_as``": lambda: vectors.np_format_as(batch, wanted),
    }


def matrices(batch: np.ndarray) -> Contestants:
    """Images with their channels in front as rows of a matrix, which copies them."""
    stored = Conv2DSpace((32, 32), channels=3, axes=("b", "c", 0, 1))
    own, vectors = batch.reshape(-1, 3, 32, 32), VectorSpace(3072)
    return {
        "NumPy: transpose and reshape": lambda: own.transpose(0, 2, 3, 1).reshape(-1, 3072),
        "``np_format_as``": lambda: stored.np_format_as(own, vectors),
    }


def one_hot(labels: np.ndarray) -> Contestants:
    """Labels as vectors."""
    source, wanted = IndexSpace(10, 1), VectorSpace(10, dtype="f4")

    def by_hand() -> np.ndarray:
        found = np.zeros((len(labels), 10), "f4")
        found[np.arange(len(labels)), labels[:, 0]] = 1
        return found

    return {
        "NumPy: zeros and ones": by_hand,
        "``np_format_as``, labels checked": lambda: source.np_format_as(labels, wanted),
    }


def composites(batch: np.ndarray, labels: np.ndarray) -> Contestants:
    """Images and labels together in other spaces."""
    source = CompositeSpace((VectorSpace(3072), IndexSpace(10, 1)))
    images_last = Conv2DSpace((32, 32), channels=3, axes=("c", 0, 1, "b"))
    wanted = CompositeSpace((images_last, VectorSpace(10, dtype="f4")))
    hot, pair = one_hot(labels)["NumPy: zeros and ones"], (batch, labels)
    return {
        "NumPy: both by hand": lambda: (
            batch.reshape(-1, 32, 32, 3).transpose(3, 1, 2, 0),
            hot(),
        ),
        "``np_format_as``": lambda: source.np_format_as(pair, wanted),
    }


def columns(batch: np.ndarray) -> Contestants:
    """A matrix cut into several by its columns."""
    source = VectorSpace(3072)
    wanted = CompositeSpace(
        (VectorSpace(1000), CompositeSpace((VectorSpace(72), VectorSpace(2000))))
    )
    return {
        "NumPy: slices": lambda: (batch[:, :1000], (batch[:, 1000:1072], batch[:, 1072:])),
        "``np_format_as``": lambda: source.np_format_as(batch, wanted),
    }


def joined(batch: np.ndarray, count: int) -> Contestants:
    """Several matrices as one."""
    parts = tuple(np.hsplit(batch, count))
    source = CompositeSpace([VectorSpace(batch.shape[1] // count)] * count)
    wanted = VectorSpace(batch.shape[1])
    return {
        "NumPy: concatenate": lambda: np.concatenate(parts, 1),
        "``np_format_as``": lambda: source.np_format_as(parts, wanted),
    }


def narrowed(rows: int, width: int) -> Contestants:
    """Integers in a narrower dtype, which is to hold them."""
    numbers = np.random.default_rng(0).integers(0, 256, (rows, width))
    source, wanted = VectorSpace(width), VectorSpace(width, dtype="u1")
    return {
        "NumPy: astype, nothing checked": lambda: numbers.astype("u1"),
        "``np_format_as``, range checked": lambda: source.np_format_as(numbers, wanted),
    }


def sequences(labels: np.ndarray) -> Contestants:
    """Sequences of labels as vectors."""
    data = labels.reshape(10, -1, 1)
    mask = np.ones(data.shape[:2], "f4")
    source = SequenceSpace(IndexSpace(10, 1))
    wanted = SequenceSpace(VectorSpace(10, dtype="f4"))
    hot = one_hot(labels)["NumPy: zeros and ones"]
    return {
        "NumPy: zeros and ones": lambda: (hot().reshape(*mask.shape, 10), mask),
        "``np_format_as``, labels checked": lambda: source.np_format_as((data, mask), wanted),
    }


def loaders(batch: np.ndarray, labels: np.ndarray) -> Contestants:
    """Batches of a loader, by hand and by a specification that asks for the images twice."""
    d = dv.View(input=batch, label=labels[:, 0], _spaces={"label": IndexSpace(10, 1)})
    wanted = Conv2DSpace((32, 32), channels=3, axes=("b", "c", 0, 1))
    spec = (CompositeSpace((wanted, VectorSpace(10), wanted)), ("input", "label", "input"))
    plain = d._loader(ROWS, fields=("input", "label"), repeat=True)
    asked = d._loader(ROWS, spec=spec, repeat=True)
    hot = one_hot(labels)["NumPy: zeros and ones"]
    turn = images(batch)["NumPy: reshape and transpose"]
    return {
        "``fields=``, formatted by hand": lambda: (next(plain), turn(), hot()),
        "``spec=``": lambda: next(asked),
    }


def minibatches(batch: np.ndarray, labels: np.ndarray) -> Contestants:
    """All batches of 16 rows, as a loader hands out arrays and as views that are called."""
    d = dv.View(input=batch, label=labels[:, 0], _spaces={"label": IndexSpace(10, 1)})
    wanted = Conv2DSpace((32, 32), channels=3, axes=("c", 0, 1, "b"))
    spec = (CompositeSpace((wanted, VectorSpace(10))), ("input", "label"))
    return {
        "``_loader(spec=)``": lambda: list(d._loader(16, spec=spec)),
        "``_minibatches(spec=)``, called": lambda: [
            (image(), label()) for image, label in d._minibatches(16, spec=spec)
        ],
    }


def padded(count: int, longest: int) -> Contestants:
    """Rows of labels, of different lengths, filled up to the longest of each batch of 64."""
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, 20, n) for n in rng.integers(1, longest + 1, count)]
    source, wanted = SequenceSpace(IndexSpace(20, 1)), SequenceSpace(VectorSpace(20, dtype="f4"))
    d = dv.View(words=dv.ragged(rows), _spaces={"words": source})

    def by_hand() -> None:
        for start in range(0, count, 64):
            part = rows[start : start + 64]
            data = np.zeros((max(map(len, part)), len(part), 1), int)
            mask = np.zeros(data.shape[:2], "f4")
            for number, row in enumerate(part):
                data[: len(row), number, 0], mask[: len(row), number] = row, 1
            source.np_format_as((data, mask), wanted)

    return {
        "NumPy and ``np_format_as``": by_hand,
        "``_loader(spec=)``": lambda: deque(d._loader(64, spec=(wanted, "words")), maxlen=0),
    }


def main() -> None:
    """Print a table for each kind of batch."""
    rng = np.random.default_rng(0)
    batch = rng.random((ROWS, 3072), np.float32)
    labels = rng.integers(0, 10, (ROWS, 1))
    for title, contestants in {
        "Vectors as images": images(batch),
        "Images as vectors": matrices(batch),
        "Labels as vectors": one_hot(labels),
        "Images and labels": composites(batch, labels),
        "Columns": columns(batch),
        "Four matrices as one": joined(batch, 4),
        "Eight matrices as one": joined(batch, 8),
        "Integers as bytes, 32 × 192": narrowed(32, 192),
        "Integers as bytes, 256 × 3072": narrowed(256, 3072),
        "Sequences of labels": sequences(labels),
        "A loader's batches": loaders(batch, labels),
        "Minibatches": minibatches(batch, labels),
        "2,048 rows of up to 20 labels": padded(2048, 20),
        "2,048 rows of up to 500 labels": padded(2048, 500),
    }.items():
        print(heading(title))
        print(comparison(timed(contestants)))


if __name__ == "__main__":
    main()
