"""The datasets of the page about downloads: its own functions, on files of the same layout."""

from __future__ import annotations

import doctest
import io
import tarfile

import fsspec
import numpy as np
import pytest
import soundfile

import dataview as dv
from package import ROOT


@pytest.fixture
def remote(tmp_path):
    dv.cache.set_root(tmp_path / "root")
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    dv.cache.set_root(None)


def recipe(name):
    """A function of the page, as it stands there."""
    page = (ROOT / "doc" / "downloads.rst").read_text(encoding="utf-8")
    found = {"dv": dv, "np": np, "tarfile": tarfile}
    for example in doctest.DocTestParser().get_examples(page):
        if example.source.startswith(f"def {name}("):
            exec(example.source, found)
    return found[name]


def speech(folder, texts):
    """The archive of sounds, of which the table is in no order."""
    root = folder / "LJSpeech-1.1"
    (root / "wavs").mkdir(parents=True)
    lines = []
    for number, text in enumerate(texts):
        lines.append(f"LJ001-{number:04d}|{text}|{text}\n")
        sound = np.full(10 * len(text), number / 16, "f4")
        soundfile.write(root / "wavs" / f"LJ001-{number:04d}.wav", sound, 22050)
    (root / "metadata.csv").write_text("".join(reversed(lines)))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(root, "LJSpeech-1.1")
    return buffer.getvalue()


def test_what_is_asked_of_the_table_opens_no_sound(remote, tmp_path, monkeypatch):
    texts = ["a" * length for length in (7, 3, 9, 1, 5, 2)]
    remote.pipe("/lj/x.tar", speech(tmp_path, texts))
    d = recipe("ljspeech")("memory://lj/x.tar")
    opened, real = [], soundfile.SoundFile

    def counted(*arguments, **options):
        opened.append(1)
        return real(*arguments, **options)

    monkeypatch.setattr(soundfile, "SoundFile", counted)
    ordered = d._sorted(by="length")
    short = ordered[ordered.length < 6]
    train, test = short._split([3], seed=1)
    bucket = dv.samplers.bucket(by="length")
    rows = [name for batch in d._loader(2, sampler=bucket, fields="id") for name in batch]
    assert short.id().tolist() == [f"LJ001-{number:04d}" for number in (3, 5, 1, 4)]
    assert short.text().tolist() == ["a", "aa", "aaa", "aaaaa"]
    assert sorted(rows) == sorted(d.id().tolist()) and len(train) + len(test) == 4
    assert opened == []
    np.testing.assert_array_equal(short.audio[1](), np.full(20, 5 / 16, "f4"))
    assert len(opened) == 1


def test_it_is_fetched_unpacked_and_counted_once(remote, tmp_path):
    remote.pipe("/lj/x.tar", speech(tmp_path, ["ab", "c"]))
    for _ in range(2):
        d = recipe("ljspeech")("memory://lj/x.tar")
        assert d.length().tolist() == [1, 2]
        d._close()
        remote.pipe("/lj/x.tar", b"gone")
