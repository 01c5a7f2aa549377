"""The folder in which everything is kept, and the paths in it."""

from __future__ import annotations

import os
import pathlib
import sys

from dataview.sources import is_url, shown

VARIABLE = "DATAVIEW_ROOT"

_chosen: list[pathlib.Path] = []
"""The folder that `set_root` was given, if it was."""


def root() -> pathlib.Path:
    """Return the folder in which everything is kept; it is made when something is put there.

    It is the folder given to `set_root`, or else the one that the environment variable
    `DATAVIEW_ROOT` names, or else the folder `dataview` in the system's cache folder.
    """
    if _chosen:
        return _chosen[0]
    named = os.environ.get(VARIABLE)
    return _whole(named) if named else _of_the_system() / "dataview"


def set_root(path: str | os.PathLike[str] | None) -> None:
    """Keep everything in this folder from now on, in this process; None chooses the default one."""
    if path is not None and (not isinstance(path, (str, os.PathLike)) or not os.fspath(path)):
        raise TypeError(f"set_root takes the path of a folder, or None; got {path!r}")
    _chosen[:] = [] if path is None else [_whole(path)]


def _whole(path: str | os.PathLike[str]) -> pathlib.Path:
    _check_here(os.fspath(path))
    return pathlib.Path(os.path.abspath(os.path.expanduser(path)))


def _of_the_system() -> pathlib.Path:
    """Return the folder that a system has for what programs keep, and could do without."""
    home = pathlib.Path.home()
    if sys.platform == "win32":
        return pathlib.Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if sys.platform == "darwin":
        return home / "Library" / "Caches"
    named = os.environ.get("XDG_CACHE_HOME", "")
    return pathlib.Path(named) if os.path.isabs(named) else home / ".cache"


def path_of(name: str | os.PathLike[str]) -> pathlib.Path:
    """Return the path that has this name under the root; an absolute one stays what it is."""
    if not isinstance(name, (str, os.PathLike)):
        raise TypeError(f"a path is a text or a path object; got {name!r}")
    given = os.path.expanduser(name)
    _check_here(given)
    if os.path.isabs(given):
        return pathlib.Path(os.path.normpath(given))
    normal = os.path.normpath(given)
    if normal == os.curdir or normal.split(os.sep)[0] == os.pardir:
        raise ValueError(
            f"a relative path is the name of something under the root, {root()}; got {given!r}; "
            "give an absolute path for another place"
        )
    return root() / normal


def _check_here(path: str) -> None:
    """Raise if a path is a URL, which would be the name of a folder here."""
    if is_url(path):
        raise ValueError(
            f"files are kept on this machine, at paths; got {shown(path)!r}; dv.cache.download() "
            "fetches what a URL names"
        )


def folder_at(path: pathlib.Path) -> pathlib.Path:
    """Return a folder, which is made with those above it where it is missing."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = error.strerror or str(error)
        raise type(error)(
            error.errno,
            f"{why}: the folder cannot be made; {VARIABLE} or dv.cache.set_root chooses another",
            str(path),
        ) from error
    return path
