"""Ctrl-C while a library of another format is at work: all is done, or nothing, and no crash."""

import asyncio
import gc
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import numpy as np
import pytest
import zarr

import dataview as dv
from children import python
from dataview.compute import run_blocks
from dataview.formats.arrays import datasets_in_hdf5, room_in_hdf5
from dataview.sources import Made, made_so_far, making
from dataview.view.face import node_of

pytestmark = pytest.mark.usefixtures("files_left_open")

X = np.arange(4000.0).reshape(500, 8)

SAVED = """
import signal, sys
import numpy as np
import dataview as dv
from dataview.sources import Abandoned

write, state = Abandoned.write, {}

def pressed(self, data):
    state["calls"] += 1
    if state["calls"] == state["at"]:
        signal.raise_signal(signal.SIGINT)
    return write(self, data)

Abandoned.write = pressed
old, new = (dv.View(x=np.full((300, 8), value), y=np.arange(300)) for value in (1, 2))
for at in range(1, 1000):
    state.update(at=10_000, calls=0)
    old._save(sys.argv[1], chunks=20)
    state.update(at=at, calls=0)
    try:
        new._save(sys.argv[1], chunks=20)
        break
    except KeyboardInterrupt:
        assert bool(dv.open(sys.argv[1]) == old)
assert state["calls"] == at - 1 > 10 and bool(dv.open(sys.argv[1]) == new)
"""


def test_a_save_to_hdf5_is_interrupted_at_any_write(tmp_path):
    path, script = tmp_path / "a.h5", tmp_path / "script.py"
    script.write_text(SAVED)
    process = python(script, path)
    assert process.returncode == 0, process.stderr
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "script.py"]


def test_an_interrupt_while_a_thread_starts_waits_until_its_pool_knows_it():
    started = []

    class Pool(ThreadPoolExecutor):
        def submit(self, *args):
            signal.raise_signal(signal.SIGINT)
            started.append(super().submit(*args))
            return started[-1]

    with Pool(2) as pool, dv.executor(pool), pytest.raises(KeyboardInterrupt):
        run_blocks(abs, [1, 2, 3])
    assert started


def pressed_in(monkeypatch, at):
    """Press Ctrl-C while zarr is about to write for the so-manieth time, in its own thread."""
    store, calls = zarr.storage.LocalStore, []
    real = store.set

    async def pressed(self, *args, **options):
        calls.append(args[0])
        if len(calls) == at:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.05)
        return await real(self, *args, **options)

    monkeypatch.setattr(store, "set", pressed)
    return calls


CHANGES = {
    "centre": (lambda d: d.__isub__(1), X - 1),
    "turned": (lambda d: d._transpose().__imul__(2), X * 2),
    "append": (lambda d: d._append(X), np.concatenate([X, X])),
}


@pytest.mark.parametrize("durable", ["process", False])
@pytest.mark.parametrize("name", CHANGES)
def test_zarr_is_interrupted_at_any_write(name, durable, tmp_path, monkeypatch):
    change, after = CHANGES[name]
    path, at = tmp_path / "a.zarr", 0
    while True:
        at += 1
        dv.View(X)._save(path, chunks=(50, 8))
        d = dv.open(path, "r+", durable=durable)
        with monkeypatch.context() as patched:
            calls = pressed_in(patched, at)
            try:
                change(d)
                was_pressed = False
            except KeyboardInterrupt:
                was_pressed = True
        assert was_pressed == (len(calls) >= at)
        found = zarr.open_group(path, mode="r")["data"][...]
        assert np.array_equal(found, X) or np.array_equal(found, after), at
        assert np.array_equal(d(), found)
        d._close()
        if not was_pressed:
            assert np.array_equal(found, after) and at > 10
            return


def test_a_save_to_zarr_is_interrupted_at_any_write(tmp_path, monkeypatch):
    path = tmp_path / "a.zarr"
    dv.View(X)._save(path)
    for at in (1, 3, 8):
        with monkeypatch.context() as patched:
            pressed_in(patched, at)
            with pytest.raises(KeyboardInterrupt):
                dv.View(X + 1)._save(path, chunks=(50, 8))
        assert np.array_equal(dv.open(path)(), X)
        assert os.listdir(tmp_path) == ["a.zarr"]


def test_ctrl_c_as_a_request_begins_says_nothing_later():
    begun = making(Made())
    copy_context().run(begun.__enter__)  # Ctrl-C came before the block, which is never left
    del begun
    gc.collect()  # what is raised here is no error of the program: pytest makes it one
    assert made_so_far() is None


def test_ctrl_c_while_a_forgotten_hdf5_file_is_written_closes_it(tmp_path, monkeypatch):
    path = tmp_path / "a.h5"
    dv.View(np.zeros(3))._save(path)
    d = dv.open(path, "r+", lock="refuse")
    d[...] = 1
    file = node_of(d).source.file
    room, claim = file.room, file.claim
    store = room_in_hdf5.Room.store

    def interrupted(room):
        signal.raise_signal(signal.SIGINT)
        store(room)

    monkeypatch.setattr(room_in_hdf5.Room, "store", interrupted)
    with pytest.raises(KeyboardInterrupt):
        datasets_in_hdf5._closed(room, claim)
    monkeypatch.undo()
    del d
    with dv.open(path, "r+", lock="refuse") as again:
        assert again().tolist() == [1, 1, 1]


def test_ctrl_c_waits_until_hdf5_has_read(tmp_path, monkeypatch):
    """Raised where h5py lets go of an object, it would be ignored by Python."""
    dv.View(x=X)._save(tmp_path / "x.h5")
    kind, went_on = datasets_in_hdf5.H5pySource, []
    read = kind._read_quickly

    def pressed(self, *args):
        signal.raise_signal(signal.SIGINT)
        went_on.append(True)
        return read(self, *args)

    with dv.open(tmp_path / "x.h5") as d:
        monkeypatch.setattr(kind, "_read_quickly", pressed)
        with pytest.raises(KeyboardInterrupt):
            d.x[::3, ::2]()
        monkeypatch.undo()
        assert went_on == [True]
        assert d.x().tolist() == X.tolist()
