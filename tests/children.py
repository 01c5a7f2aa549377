"""Run Python programs in separate processes."""

import os
import subprocess
import sys


def python(*arguments, timeout=600, cwd=None, **environment):
    """Run Python with these arguments and environment variables; return the finished process."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        cwd=cwd,
        env={**os.environ, **environment},
    )


def printed(*arguments, **environment):
    """Give what such a process prints; fail if its exit status is not 0."""
    process = python(*arguments, **environment)
    assert process.returncode == 0, process.stderr
    return process.stdout
