"""Folders and archives of pictures, sounds, texts and others, each decoded when it is read."""

from dataview.formats.media.archives import open_archive
from dataview.formats.media.decoders import is_registered, register_decoder
from dataview.formats.media.opening import MEDIA_SUFFIXES, media_in, open_listed, open_media

__all__ = [
    "MEDIA_SUFFIXES", "is_registered", "media_in", "open_archive", "open_listed", "open_media",
    "register_decoder",
]  # fmt: skip
