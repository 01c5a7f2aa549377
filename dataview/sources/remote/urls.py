"""URLs: what is one, its name among kept files, and how a message shows it."""

from __future__ import annotations

import hashlib
import os
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

_START = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(://|::)")  # a single letter is a drive
_PASSWORD = re.compile(r"(://[^/@:]*):[^/@]*@")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")

LONGEST_NAME = 100
"""As many characters of a URL's own name are kept, from its end, which says the format."""

WEB = ("http", "https")
"""The schemes of web servers."""


def is_url(path: str) -> bool:
    """Whether a path is a URL, or a chain of them as fsspec has it.

    >>> [is_url(path) for path in ("s3://bucket/x.npy", "zip://x.npy::s3://b/x.zip", "C://x.npy")]
    [True, True, False]
    """
    return "://" in path and _START.match(path) is not None


def check_local(path: str) -> None:
    """Raise if a path to be written is a URL."""
    if is_url(path):
        raise ValueError(
            f"data are written to files of this machine, by their paths; got {shown(path)!r}; save "
            "to a path, and upload the file with fsspec's put()"
        )


def scheme_of(url: str) -> str:
    """Return what a URL begins with, in small letters."""
    return url.partition(":")[0].lower()


def is_web(url: str) -> bool:
    """Whether a web server is asked for all that a URL names, which is in no archive."""
    return scheme_of(url) in WEB and "::" not in url


def local_path(url: str) -> str | None:
    """Return the path that a file URL names on this machine, None for other URLs."""
    if scheme_of(url) not in ("file", "local") or "::" in url:
        return None
    path = urllib.parse.unquote(url.partition("://")[2].removeprefix("localhost"))
    return path.lstrip("/") if os.name == "nt" else path


def in_pieces(url: str) -> tuple[str, str, str]:
    """Return what stands before the name of a file in a URL, the name, and the archive it is in.

    >>> in_pieces("zip://in/x.npy::s3://bucket/x.zip")
    ('zip://', 'in/x.npy', '::s3://bucket/x.zip')
    """
    start = url.index("://") + 3 if "://" in url else 0
    name, sign, archive = url[start:].partition("::")
    return url[:start], name, sign + archive


def inside(folder: str, name: str) -> str:
    """Return the path or the URL of a file in a folder.

    >>> inside("zip://in::s3://bucket/x.zip", "x.npy"), inside("/a", "x.npy")
    ('zip://in/x.npy::s3://bucket/x.zip', '/a/x.npy')
    """
    if not is_url(folder):
        return os.path.join(folder, name)
    scheme, above, archive = in_pieces(folder)
    return scheme + "/".join(filter(None, [above.rstrip("/"), name])) + archive


def folder_and_name(url: str) -> tuple[str, str]:
    """Return the folder of a file elsewhere, and its name in it: what `inside` joins.

    >>> folder_and_name("zip://in/x.npy::s3://bucket/x.zip")
    ('zip://in::s3://bucket/x.zip', 'x.npy')
    """
    scheme, path, archive = in_pieces(url)
    above, _, name = path.rpartition("/")
    return scheme + above + archive, name


def shown(url: str) -> str:
    """Return a URL for a message, without a password.

    >>> shown("https://me:secret@host/x.npy")
    'https://me:…@host/x.npy'
    """
    return _PASSWORD.sub(r"\1:…@", url)


def key_of(url: str, options: Mapping[str, Any] | None = None) -> str:
    """Return a digest of a URL, and of the options by which its file system is reached."""
    text = repr((url, options)) if options else url
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:24]


def file_name(url: str) -> str:
    """Return a URL's own name, in letters that every file system takes.

    >>> file_name("https://host/a/train%20set.npy?version=2#top")
    'train_set.npy'
    >>> file_name("zip://data/x.npy::s3://bucket/all.zip")
    'x.npy'
    """
    first = next(part for part in url.split("::") if "://" in part)
    path = first.partition("://")[2]
    if scheme_of(first) in WEB:
        path = urllib.parse.unquote(urllib.parse.urlsplit(first).path)
    name = _UNSAFE.sub("_", path.rstrip("/").rpartition("/")[2]).lstrip(".")
    return name[-LONGEST_NAME:] or "file"
