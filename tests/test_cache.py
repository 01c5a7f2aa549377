"""Files that are kept: where, made or fetched once, evicted; nothing is left after a failure."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from children import printed
from dataview import cache


@pytest.fixture(autouse=True)
def root(tmp_path):
    """A root for each test, and a check that nothing but files that were asked for is left."""
    folder = tmp_path / "root"
    cache.set_root(folder)
    threads, sockets = threading.active_count(), open_sockets()
    yield folder
    cache.set_root(None)
    assert [str(path) for path in tmp_path.rglob(".*")] == []
    assert threading.active_count() == threads
    assert open_sockets() <= sockets


def open_sockets():
    links = []
    for handle in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            links.append(os.readlink(f"/proc/self/fd/{handle}"))
    return {link for link in links if link.startswith("socket:")}


def files_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


# -------------------- the root --------------------


def test_the_root_is_the_one_set_or_named_or_the_systems(tmp_path, monkeypatch):
    monkeypatch.setenv("DATAVIEW_ROOT", str(tmp_path / "named"))
    assert cache.root() == tmp_path / "root"  # what was set comes first
    cache.set_root(None)
    assert cache.root() == tmp_path / "named"
    monkeypatch.setenv("DATAVIEW_ROOT", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "system"))
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache.root() == tmp_path / "system" / "dataview"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.root() == tmp_path / ".cache" / "dataview"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache.root() == tmp_path / "Library" / "Caches" / "dataview"
    assert list(tmp_path.iterdir()) == []  # asking makes no folder


def test_a_relative_root_is_absolute_and_home_is_known(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cache.set_root("here")
    assert cache.root() == tmp_path / "here"
    monkeypatch.setenv("HOME", str(tmp_path))
    cache.set_root("~/there")
    assert cache.root() == tmp_path / "there"
    with pytest.raises(TypeError, match="path of a folder"):
        cache.set_root(3)


def test_the_module_shows_its_public_names_alone():
    assert dir(cache) == sorted(cache.__all__)
    assert all(not name.startswith("_") for name in cache.__all__)


# -------------------- make or load --------------------


def saved(path):
    data = np.arange(6.0)
    np.save(path, data)
    return data


def never(path):
    raise AssertionError("made or loaded once too often")


def test_a_file_is_made_once_and_loaded_after_that(root):
    made = cache.make_or_load("a/b.npy", saved, never)
    assert isinstance(made, np.ndarray)
    np.testing.assert_array_equal(cache.make_or_load("a/b.npy", never, np.load), made)
    assert files_in(root) == ["b.npy"] and (root / "a" / "b.npy").exists()


def test_what_the_creator_returns_is_returned_and_its_path_is_new(root):
    def creator(path):
        assert path.name == "x.tar.gz" and not path.exists() and path != root / "x.tar.gz"
        path.write_text("data")
        (path.parent / "scratch").write_text("left behind")
        return creator

    assert cache.make_or_load("x.tar.gz", creator, never) is creator
    assert cache.make_or_load("x.tar.gz", never, pathlib.Path.read_text) == "data"
    assert files_in(root) == ["x.tar.gz"]


def test_a_folder_can_be_made(root):
    def creator(path):
        path.mkdir()
        (path / "a.txt").write_text("a")

    assert cache.make_or_load("folder", creator, never) is None
    assert cache.make_or_load("folder", never, os.listdir) == ["a.txt"]


def test_absolute_paths_stay_and_none_leaves_the_root(tmp_path, root):
    cache.make_or_load(tmp_path / "x.npy", saved, never)
    assert (tmp_path / "x.npy").exists() and not root.exists()
    for name in ("../x", "a/../../x", ".", ""):
        with pytest.raises(ValueError, match="under the root"):
            cache.make_or_load(name, never, never)
    with pytest.raises(TypeError, match="text or a path"):
        cache.make_or_load(3, never, never)
    with pytest.raises(TypeError, match="loader is a function of a path"):
        cache.make_or_load("x", saved, None)


def test_a_name_of_any_length_that_the_system_takes(root):
    for name in ("x" * 251 + ".npy", "ü" * 100):
        np.testing.assert_array_equal(cache.make_or_load(name, save_exactly, never), 3)


def save_exactly(path):
    path.write_bytes(b"3")
    return 3


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_a_creator_that_fails_leaves_nothing(root, error):
    def creator(path):
        path.write_text("half")
        raise error

    with pytest.raises(type(error)) as found:
        cache.make_or_load("x.txt", creator, never)
    assert files_in(root) == []
    if isinstance(error, Exception):
        assert f"while {root / 'x.txt'} was made" in found.value.__notes__[0]
    cache.make_or_load("x.txt", saved_text, never)


def saved_text(path):
    path.write_text("text")


def test_a_creator_that_makes_no_file_is_told(root):
    with pytest.raises(FileNotFoundError, match=r"no file or folder at the path.*made x\.npy"):
        cache.make_or_load("x", saved, never)
    with pytest.raises(FileNotFoundError, match=r"no file or folder at the path it was given"):
        cache.make_or_load("x", lambda path: 3, never)
    assert files_in(root) == []


def test_a_loader_that_fails_says_which_file(root):
    cache.make_or_load("x.txt", saved_text, never)
    with pytest.raises(ValueError) as found:
        cache.make_or_load("x.txt", never, np.load)
    assert "remove it to have it made anew" in found.value.__notes__[-1]
    assert files_in(root) == ["x.txt"]


def test_a_creator_that_asks_for_its_own_path_is_told(root):
    def creator(path):
        return cache.make_or_load("x", saved_text, never)

    with pytest.raises(RuntimeError, match="asks for that path itself"):
        cache.make_or_load("x", creator, never)

    def other(path):
        cache.make_or_load("y", saved_text, never)
        saved_text(path)

    cache.make_or_load("x", other, never)
    assert files_in(root) == ["x", "y"]


def test_the_first_file_stays_even_if_another_program_made_it(root):
    def creator(path):
        (root / "x").write_text("first")
        path.write_text("second")
        return "second"

    assert cache.make_or_load("x", creator, never) == "second"
    assert cache.make_or_load("x", never, pathlib.Path.read_text) == "first"


def test_threads_make_a_file_once(root):
    made = []

    def creator(path):
        made.append(path)
        return saved(path)

    def ask(_):
        return cache.make_or_load("x.npy", creator, np.load).sum()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(40))) == {15.0}
    assert len(made) == 1


MAKER = """
import os, sys, numpy as np
from dataview import cache
def creator(path):
    with open(sys.argv[2], "a") as file:
        file.write("made\\n")
    data = np.arange(200_000.0)
    np.save(path, data)
    return data
print(cache.make_or_load(sys.argv[1], creator, np.load).sum())
"""


def test_processes_make_a_file_once(tmp_path):
    command = [sys.executable, "-c", MAKER, tmp_path / "x.npy", tmp_path / "log"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert {process.communicate()[0].strip() for process in running} == {"19999900000.0"}
    assert (tmp_path / "log").read_text() == "made\n"


KILLED = """
import os, signal, sys
from dataview import cache
def creator(path):
    path.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
cache.make_or_load(sys.argv[1], creator, None.__class__)
"""


def test_a_killed_process_blocks_nobody_and_its_half_file_goes(root):
    place = root / "x.txt"
    process = subprocess.run([sys.executable, "-c", KILLED, place], check=False)
    assert process.returncode == -signal.SIGKILL and len(list(root.iterdir())) == 2
    cache.make_or_load(place, saved_text, never)
    assert place.read_text() == "text"


FORKED = """
import os, signal, sys
from dataview import cache
def creator(path):
    child = os.fork()
    if not child:
        os._exit(len(os.read(0, 1)))
    print(child, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
cache.make_or_load(sys.argv[1], creator, None.__class__)
"""


def test_a_process_that_a_killed_one_had_forked_holds_no_lock(root):
    command = [sys.executable, "-c", FORKED, root / "x"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        child = int(process.stdout.readline())
        assert process.wait() == -signal.SIGKILL
        os.kill(child, 0)  # it runs
        cache.make_or_load(root / "x", saved_text, never)
        process.stdin.close()  # by which the child ends


def test_a_root_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    cache.set_root(tmp_path / "file" / "root")
    with pytest.raises(OSError, match=r"DATAVIEW_ROOT or dv\.cache\.set_root"):
        cache.make_or_load("x", saved_text, never)


def test_the_variable_reaches_other_processes(tmp_path):
    program = "import dataview as dv; print(dv.cache.root())"
    assert printed("-c", program, DATAVIEW_ROOT=tmp_path).strip() == str(tmp_path)
