"""Bytes of files that are elsewhere: a few of them at a time, or all."""

from dataview.sources.remote.attempts import BrokenOff, check_patience, repeated
from dataview.sources.remote.file import RemoteFile, read_up_to
from dataview.sources.remote.folders import There, files_at, is_pattern, look_at_all, names_below
from dataview.sources.remote.npy import open_remote_npy
from dataview.sources.remote.places import (
    Place,
    WholeOnly,
    naming,
    place_may_pass,
    system_at,
    version_in,
)
from dataview.sources.remote.reading import read_all
from dataview.sources.remote.urls import (
    WEB,
    check_local,
    file_name,
    folder_and_name,
    inside,
    is_url,
    is_web,
    key_of,
    local_path,
    scheme_of,
    shown,
)
from dataview.sources.remote.web import may_pass, pools_of, refused, told_pause

__all__ = [
    "WEB", "BrokenOff", "Place", "RemoteFile", "There", "WholeOnly",
    "check_local", "check_patience", "file_name", "files_at", "folder_and_name", "inside",
    "is_pattern", "is_url", "is_web", "key_of", "local_path", "look_at_all", "may_pass",
    "names_below", "naming", "open_remote_npy", "place_may_pass", "pools_of", "read_all",
    "read_up_to", "refused", "repeated", "scheme_of", "shown", "system_at",
    "told_pause", "version_in",
]  # fmt: skip
