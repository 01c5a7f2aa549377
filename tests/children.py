"""Run Python programs in separate processes."""

import os
import subprocess
import sys


def python(*arguments, timeout=600, cwd=None, **environment):
    """Run Python with these arguments and environment variables; return the finished process.

    Threads share two arenas of glibc: each reserves 64 MB or more of the room that a limit leaves,
    and where threads wait for each other there are more of them.
    """
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        cwd=cwd,
        env={**os.environ, "MALLOC_ARENA_MAX": "2", **environment},
    )


def printed(*arguments, **environment):
    """Give what such a process prints; fail if its exit status is not 0."""
    process = python(*arguments, **environment)
    assert process.returncode == 0, process.stderr
    return process.stdout
