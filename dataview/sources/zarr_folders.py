"""Folders of zarr, known by the files in them."""

from __future__ import annotations

import json
import os
import re

ZARR_MARKS = ("zarr.json", ".zgroup", ".zarray")
"""The files of which a folder of zarr has one: of version 3, or of version 2."""


OF_ZARR = re.compile(r"zarr\.json|\.z(array|group|attrs|metadata)|c|(c\.)?\d+(\.\d+)*")
"""The names of zarr's own files: metadata and chunks."""


def is_zarr(path: str) -> bool:
    """Whether a folder is one of zarr."""
    return any(os.path.isfile(os.path.join(path, mark)) for mark in ZARR_MARKS)


def is_zarr_alone(path: str) -> bool:
    """Whether a folder is one of zarr, and nobody has put other files there."""
    files = (name for _, _, names in os.walk(path) for name in names)
    return is_zarr(path) and all(map(OF_ZARR.fullmatch, files))


def is_zarr_array(path: str) -> bool:
    """Whether a folder has the chunks of an array, which may be very many, and no other arrays.

    Of one whose metadata cannot be read that is not known.
    """
    try:
        with open(os.path.join(path, "zarr.json"), "rb") as file:
            found = json.load(file)
    except FileNotFoundError:
        return os.path.isfile(os.path.join(path, ".zarray"))
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("node_type") == "array"
