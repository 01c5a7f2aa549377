"""Programs in processes of their own."""

import os
import subprocess
import sys


def python(*arguments, **environment):
    """Run Python with arguments and more variables of the environment; return the ended process."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, **environment},
    )


def printed(*arguments, **environment):
    """Give what such a process prints, if it ends well."""
    process = python(*arguments, **environment)
    assert process.returncode == 0, process.stderr
    return process.stdout
