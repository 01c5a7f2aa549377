"""Time batches of sentences of different lengths: `python bench_ragged.py`.

Batches of 256 are gathered and padded out of 1 million sentences of 20 words on average. PyTorch is
timed if it can be imported; `--no-peers` leaves it out.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
from collections.abc import Callable

import numpy as np
from timing import comparison, heading, timed

import dataview as dv

ROWS, LONGEST, SIZE = 1_000_000, 39, 256

Contestants = dict[str, Callable[[], object]]


class Sentences:
    """Words in one line, where each sentence begins, and random batches of sentences."""

    def __init__(self, rows: int) -> None:
        generator = np.random.default_rng(0)
        lengths = generator.integers(1, LONGEST + 1, rows)
        self.offsets = np.concatenate([[0], lengths.cumsum()])
        self.words = generator.integers(0, 30_000, self.offsets[-1])
        self.batches = itertools.cycle(generator.integers(0, rows, (500, SIZE)))
        self.view = dv.ragged(self.words, offsets=self.offsets)

    def places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the places of a batch's words, where its sentences end, and their lengths."""
        rows = next(self.batches)
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        ends = lengths.cumsum()
        places = np.arange(ends[-1])
        places += np.repeat(starts - ends + lengths, lengths)
        return places, ends, lengths


def gathered(sentences: Sentences) -> Contestants:
    """The words of a batch in one line, and where each sentence begins."""
    view = sentences.view

    def by_hand() -> None:
        places, _, _ = sentences.places()
        sentences.words[places]

    return {
        "NumPy: by hand, ``words[places]``": by_hand,
        "``d[rows]._freeze()``": lambda: view[next(sentences.batches)]._freeze(),
        "``d[rows]._reshape(-1)()``": lambda: view[next(sentences.batches)]._reshape(-1)(),
        "``d[rows]()``, an array of arrays": lambda: view[next(sentences.batches)](),
        "a slice of NumPy for each sentence": lambda: _sliced(sentences),
    }


def _sliced(sentences: Sentences) -> list[np.ndarray]:
    words, offsets = sentences.words, sentences.offsets
    return [words[offsets[row] : offsets[row + 1]] for row in next(sentences.batches)]


def padded(sentences: Sentences) -> Contestants:
    """A batch as one array, filled up with zeros."""
    view, words = sentences.view, sentences.words

    def by_scatter() -> np.ndarray:
        places, ends, lengths = sentences.places()
        longest = lengths.max()
        out = np.zeros(SIZE * longest, words.dtype)
        within = np.arange(ends[-1])
        within += np.repeat(np.arange(SIZE) * longest - ends + lengths, lengths)
        out[within] = words[places]
        return out.reshape(SIZE, longest)

    def by_mask() -> np.ndarray:
        places, _, lengths = sentences.places()
        mask = np.arange(lengths.max()) < lengths[:, None]
        out = np.zeros(mask.shape, words.dtype)
        out[mask] = words[places]
        return out

    def by_clipped_places() -> np.ndarray:
        rows = next(sentences.batches)
        starts = sentences.offsets[rows]
        lengths = sentences.offsets[rows + 1] - starts
        within = np.arange(lengths.max())
        out = words.take(starts[:, None] + within, mode="clip")
        out[within >= lengths[:, None]] = 0
        return out

    return {
        "NumPy: by hand, one scatter": by_scatter,
        "NumPy: by hand, through a mask": by_mask,
        "NumPy: by hand, a box of places, clipped": by_clipped_places,
        "``d[rows]._pad(0)()``": lambda: view[next(sentences.batches)]._pad(0)(),
        "a slice and a copy for each sentence": lambda: _filled(sentences),
    }


def _filled(sentences: Sentences) -> np.ndarray:
    rows = _sliced(sentences)
    out = np.zeros((SIZE, max(map(len, rows))), rows[0].dtype)
    for line, row in zip(out, rows, strict=True):
        line[: len(row)] = row
    return out


def loaded(sentences: Sentences) -> Contestants:
    """A batch of a loader with a label beside, in random order."""
    labels = np.arange(sentences.view._length())
    d = dv.View(tokens=sentences.view, y=labels)
    options = {"sampler": "permutation", "repeat": True}
    ragged, full = d._loader(SIZE, **options), d._loader(SIZE, pad={"tokens": 0}, **options)
    batches = d._minibatches(SIZE, "drop", "permutation")
    numbers = itertools.cycle(range(len(batches)))

    def by_hand() -> None:
        places, _, _ = sentences.places()
        sentences.words[places], labels[next(sentences.batches)]

    return {
        "NumPy: by hand, gathered": by_hand,
        "``next(d._loader(256))``": lambda: next(ragged),
        "``next(d._loader(256, pad={'tokens': 0}))``": lambda: next(full),
        "``batches[i].tokens._freeze()``": lambda: batches[next(numbers)].tokens._freeze(),
    }


def with_torch(sentences: Sentences) -> tuple[Contestants, Contestants]:
    """PyTorch: slices of a tensor, and `pad_sequence` of them."""
    import torch

    words, places = torch.from_numpy(sentences.words), torch.from_numpy(sentences.offsets)
    offsets = sentences.offsets.tolist()

    def sliced_by_tensors() -> list[torch.Tensor]:
        return [words[places[row] : places[row + 1]] for row in next(sentences.batches).tolist()]

    def sliced() -> list[torch.Tensor]:
        return [words[offsets[row] : offsets[row + 1]] for row in next(sentences.batches).tolist()]

    def filled() -> torch.Tensor:
        return torch.nn.utils.rnn.pad_sequence(sliced(), batch_first=True)

    slices = {
        "torch: a slice for each sentence, offsets in a tensor": sliced_by_tensors,
        "torch: a slice for each sentence, offsets in a list": sliced,
    }
    return slices, {"torch: ``pad_sequence``": filled}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    sentences = Sentences(options.rows)
    peers: tuple[Contestants, Contestants] = ({}, {})
    if not options.no_peers and importlib.util.find_spec("torch"):
        peers = with_torch(sentences)
    limits = {"``d[rows]._freeze()``": 1.5, "``d[rows]._pad(0)()``": 1.3}
    print(heading(f"A batch of {SIZE} of {options.rows} sentences, gathered"))
    print(comparison(timed(gathered(sentences) | peers[0]), limits))
    print(heading("The same, padded"))
    print(comparison(timed(padded(sentences) | peers[1]), limits))
    print(heading("The same, handed out by a loader"))
    print(comparison(timed(loaded(sentences)), limits))


if __name__ == "__main__":
    main()
