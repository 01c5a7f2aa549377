"""What a test may leave behind: no thread, no socket, no hidden or open file."""

import contextlib
import gc
import os
import socket
import threading


@contextlib.contextmanager
def nothing_left(folder):
    """Check that what is done in the block leaves nothing, and no hidden file in a folder."""
    threads, sockets = own_threads(), open_sockets()
    yield
    assert [str(path) for path in folder.rglob(".*")] == []
    assert own_threads() == threads
    assert open_sockets() <= sockets
    gc.collect()
    assert [link for link in open_files().values() if link.startswith(str(folder))] == []


def own_threads():
    """The threads that end: not those that tqdm and zarr keep for later."""
    return {one for one in threading.enumerate() if not one.daemon}


def open_files():
    """What each handle of this process is of, but the one by which they are listed."""
    links = {}
    for handle in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            links[int(handle)] = os.readlink(f"/proc/self/fd/{handle}")
    return links


def open_sockets():
    """The sockets of connections; zarr keeps a pair of others for later."""
    found = set()
    for handle, link in open_files().items():
        if link.startswith("socket:"):
            with socket.socket(fileno=os.dup(handle)) as opened:
                found |= {link} if opened.family == socket.AF_INET else set()
    return found
