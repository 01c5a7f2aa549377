"""Set-up of all tests: they use the package of this tree, and the same random numbers each time."""

import gc
import os
import pathlib
import warnings
import zlib
from collections.abc import Iterator

import hypothesis
import numexpr
import numpy as np
import pytest

import dataview as dv

ROOT = pathlib.Path(__file__).parent.parent

# A failed assertion of a helper shows its values.
pytest.register_assert_rewrite("children", "expressions", "oracle", "recorded")

# Programs to run by hand, some of which need the extra 'bench'.
collect_ignore = ["benchmarks"]

# A child process of a test imports the package that the test imports.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
)

# What a notebook or a terminal shows must not depend on how long a test takes.
os.environ["DATAVIEW_PROGRESS"] = "0"

# Derandomised: the examples of a test follow from its source, so that a failure comes again and a
# change fails by itself. A deadline and `too_slow` measure the machine and not the library.
ALWAYS = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [hypothesis.HealthCheck.too_slow],
}
hypothesis.settings.register_profile("default", derandomize=True, max_examples=50, **ALWAYS)
hypothesis.settings.register_profile("ci", derandomize=True, max_examples=100, **ALWAYS)
# New examples in each run: `pytest --hypothesis-profile=explore --hypothesis-seed=7`.
hypothesis.settings.register_profile("explore", derandomize=False, max_examples=2000, **ALWAYS)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")

SEED = int(os.environ.get("DATAVIEW_TEST_SEED", "0"))


def pytest_report_header(config: pytest.Config) -> str:
    settings = hypothesis.settings
    seed = "each test's source"
    if not settings.default.derandomize:
        seed = config.getoption("--hypothesis-seed") or "the clock, printed when a test fails"
    return (
        f"numpy {np.__version__}, numexpr {numexpr.__version__}\n"
        f"hypothesis: profile {settings.get_current_profile_name()!r}, "
        f"{settings.default.max_examples} examples, seeded by {seed}; "
        f"rng: seed {SEED} (DATAVIEW_TEST_SEED)"
    )


@pytest.fixture(scope="module", params=["numpy", "numexpr"])
def each_engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run every test of a module with each engine."""
    with dv.engine(request.param):
        yield


@pytest.fixture
def x() -> np.ndarray:
    """A small array."""
    return np.arange(24.0).reshape(6, 4)


@pytest.fixture
def d(x: np.ndarray) -> dv.View:
    """A view of it with two fields."""
    return dv.View(x, input=np.s_[:3], target=3)


@pytest.fixture
def path(tmp_path: pathlib.Path, x: np.ndarray) -> pathlib.Path:
    """A file of it."""
    file = tmp_path / "x.npy"
    np.save(file, x)
    return file


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator that follows from the seed and the name of the test, not from the order."""
    return np.random.default_rng([SEED, zlib.crc32(request.node.nodeid.encode())])


@pytest.fixture
def files_left_open() -> Iterator[None]:
    """For tests that press Ctrl-C, which may come when a file is open and its `with` has not begun.

    Python closes such a file when it finds it, and warns. That is to happen here, in the test that
    pressed, and not in whichever test collects next, where the warning is an error.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed file", ResourceWarning)
        yield
        gc.collect()
