"""A computed permutation is a bijection, looks random, and never changes."""

import copy
import itertools
import pickle
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataview.index.ordering import by_words
from dataview.index.permutation import Permutation

SORTED = 2**16  # the most rows that are sorted by hash

# Sizes around the powers of two, where the halves, the words and the algorithm change.
LARGE = [n for k in (16, 17, 31, 32, 33, 40, 61, 62) for n in range(2**k - 1, 2**k + 2)]
LARGE = [n for n in [*LARGE, 10**9] if SORTED < n <= 2**62]

large = st.integers(SORTED + 1, 2**62) | st.sampled_from(LARGE)
keys = st.lists(st.integers() | st.text(max_size=9), max_size=4)


# The algorithm again, one number at a time, from the words at the head of the module.


def mix(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def expected_keys(*parts: int | str) -> list[int]:
    text = b""
    for part in parts:
        body = (
            b"s" + part.encode("utf-8", "surrogatepass")
            if isinstance(part, str)
            else b"i%s" % f"{part:x}".encode()
        )
        text += b"%d:" % len(body) + body + b","
    text += bytes(-len(text) % 8)
    a, b = 0x243F6A8885A308D3, 0x13198A2E03707344
    for w in np.frombuffer(text, "<u8").tolist():
        a = mix(a ^ w)
        b = mix((b + a) % 2**64)
    return [mix(b ^ mix((a + (r + 1) * 0x9E3779B97F4A7C15) % 2**64)) for r in range(8)]


def expected_table(n: int, *key: int | str) -> list[int]:
    k = expected_keys(n, *key)
    return sorted(range(n), key=lambda i: mix(k[1] ^ mix((k[0] + i) % 2**64)))


def eight_rounds(number: int, n: int, k: list[int]) -> int:
    width, a, b, s = 32, 0x7FEB352D, 0x846CA68B, 15
    if n > 2**32:
        width, a, b, s = 64, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 31
    low_bits = (n - 1).bit_length() // 2
    high_count = ((n - 1) >> low_bits) + 1

    def scramble(x: int) -> int:
        x = x * a % 2**width
        return (x ^ (x >> s)) * b % 2**width

    high, low = divmod(number, 2**low_bits)
    for r in range(0, 8, 2):
        high = (high + scramble(low + k[r]) // -(-(2**width) // high_count)) % high_count
        low ^= scramble(high + k[r + 1]) >> (width - low_bits)
    return high * 2**low_bits + low


def expected_row(position: int, n: int, *key: int | str) -> int:
    k = expected_keys(n, *key)
    number = eight_rounds(position, n, k)
    while number >= n:
        number = eight_rounds(number, n, k)
    return number


@given(st.integers(0, 700), keys)
def test_few_rows_are_in_the_written_order(n: int, key: list[int | str]) -> None:
    assert Permutation(n, *key).block(0, n).tolist() == expected_table(n, *key)


@given(st.data(), large, keys)
def test_many_rows_are_in_the_written_order(
    data: st.DataObject, n: int, key: list[int | str]
) -> None:
    positions = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=5))
    rows = [expected_row(position, n, *key) for position in positions]
    assert Permutation(n, *key)(positions).tolist() == rows


def test_the_algorithm_changes_at_its_threshold() -> None:
    assert Permutation(SORTED, 5).block(0, 40).tolist() == expected_table(SORTED, 5)[:40]
    rows = [expected_row(position, SORTED + 1, 5) for position in range(40)]
    assert Permutation(SORTED + 1, 5).block(0, 40).tolist() == rows


def test_what_comes_out_as_no_row_walks_on() -> None:
    n = SORTED + 1  # the numbers that two halves can write are 255 more
    k = expected_keys(n, 0)
    walking = [p for p in range(3000) if eight_rounds(p, n, k) >= n]
    assert walking
    assert Permutation(n, 0)(walking).tolist() == [expected_row(p, n, 0) for p in walking]


# Rows at the first position, at a third, at the half and at the last.
GOLDEN: dict[tuple[int, tuple[int | str, ...]], list[int]] = {
    (1, (0,)): [0, 0, 0, 0],
    (10, (0,)): [6, 7, 5, 2],
    (10, (0, 1)): [6, 3, 1, 9],
    (10, (1, 0)): [8, 3, 7, 4],
    (1000, ()): [345, 287, 921, 109],
    (1000, ("train", -1)): [854, 962, 286, 0],
    (65536, (18446744073709551616,)): [27603, 60533, 20641, 25502],
    (65537, (0,)): [39415, 28072, 57168, 62381],
    (1000000, (0,)): [305527, 162679, 976772, 149465],
    (1000000, ("\ud800",)): [701967, 182644, 521656, 48840],
    (1000000, (7, "é", 3)): [492870, 843781, 951113, 841150],
    (1048577, (0,)): [170029, 662590, 265010, 675060],
    (1000000000, (0,)): [751336581, 651392682, 55239279, 795581911],
    (4294967296, (0,)): [2587112990, 847950075, 3205073143, 3943331],
    (4294967297, (0,)): [3753981713, 3968860951, 509995885, 3717788844],
    (1099511627777, (12345678901234567890123,)): [
        925733972802,
        858363528868,
        28189324118,
        171616449086,
    ],
    (4611686018427387904, (0,)): [
        3013887199859391401,
        3912658719299137957,
        2172150132253741347,
        1625766738921061696,
    ],
}


@pytest.mark.parametrize(("n", "key"), GOLDEN)
def test_the_order_never_changes(n: int, key: tuple[int | str, ...]) -> None:
    assert Permutation(n, *key)([0, n // 3, n // 2, n - 1]).tolist() == GOLDEN[n, key]


def assert_bijection(n: int, *key: int | str) -> None:
    order = Permutation(n, *key)
    rows = order.block(0, n)
    assert len(order) == order.n == len(rows) == n
    assert (np.bincount(rows, minlength=n) == 1).all()
    assert (order.inverse(rows) == np.arange(n)).all()


def test_every_small_size_is_a_bijection() -> None:
    for n in range(601):
        assert_bijection(n, n % 3)


@pytest.mark.parametrize(
    "n",
    [*(2**k + d for k in (10, 15, 16, 17, 18, 20, 21) for d in (-1, 0, 1)), 66_000, 3_000_007],
)
def test_every_row_comes_once(n: int) -> None:
    for seed in range(2):
        assert_bijection(n, seed)


@pytest.mark.parametrize("n", LARGE)
def test_parts_of_huge_sizes_are_bijections(n: int, rng: np.random.Generator) -> None:
    order = Permutation(n, 3)
    consecutive = np.arange(n // 2, min(n // 2 + 100_000, n))
    scattered = np.unique(np.append(rng.integers(0, n, 100_000), [0, n - 1]))
    for positions in (consecutive, scattered):
        rows = order(positions)
        assert rows.min() >= 0 and rows.max() < n
        assert len(np.unique(rows)) == len(positions)
        assert (order.inverse(rows) == positions).all()
        assert (order(order.inverse(positions)) == positions).all()


@given(st.data(), st.integers(1, 700) | large, keys)
def test_the_inverse_undoes(data: st.DataObject, n: int, key: list[int | str]) -> None:
    numbers = data.draw(st.lists(st.integers(0, n - 1), max_size=9))
    order = Permutation(n, *key)
    numbers = np.array(numbers, np.int64)
    assert (order.inverse(order(numbers)) == numbers).all()
    assert (order(order.inverse(numbers)) == numbers).all()


@pytest.mark.parametrize("n", [100, SORTED + 1, 2**32 + 1])
@pytest.mark.parametrize(
    "dtype", ["i1", "u1", "<i2", ">u2", "<i4", ">i4", "u4", "<i8", ">i8", "u8"]
)
def test_positions_of_any_integer_dtype_and_shape(n: int, dtype: str) -> None:
    order = Permutation(n, 0)
    flat = np.arange(96).astype(dtype)
    rows = order.block(0, 96)
    cube = flat.reshape(4, 6, 4)
    cube.flags.writeable = False
    for part in (np.s_[:], np.s_[::-2, 1:, ::3], np.s_[1], np.s_[0, 0, 0], np.s_[:0]):
        for positions in (cube[part], cube.T[part]):
            result = order(positions)
            assert isinstance(result, np.ndarray)
            assert result.dtype == np.int64 and result.shape == positions.shape
            assert result.tolist() == rows[positions.astype(int)].tolist()
            assert order.inverse(result).tolist() == positions.tolist()
    assert flat.tolist() == list(range(96))


def test_one_number_and_a_list_are_positions() -> None:
    order = Permutation(10, 0)
    assert order(3).shape == ()
    assert order([3, 4]).tolist() == [order(3).item(), order(4).item()]


@pytest.mark.parametrize("n", [SORTED, 200_000, 10**9, 2**62])
def test_rows_do_not_depend_on_how_they_are_asked(n: int, rng: np.random.Generator) -> None:
    order = Permutation(n, 1, "asked")
    start, stop = n // 8, n // 8 + min(n // 2, 200_000)
    whole = order.block(start, stop)
    assert (order(np.arange(start, stop)) == whole).all()
    cuts = np.sort(rng.integers(start, stop, 12)).tolist()
    parts = [order.block(a, b) for a, b in itertools.pairwise([start, *cuts, stop])]
    assert (np.concatenate(parts) == whole).all()
    shuffled = rng.permutation(stop - start)
    assert (order(start + shuffled) == whole[shuffled]).all()


def test_the_rows_handed_out_are_the_callers() -> None:
    order = Permutation(10, 0)
    before = order.block(0, 10).tolist()
    order.block(0, 10)[:] = 0
    order(np.arange(10))[:] = 0
    order.inverse(np.arange(10))[:] = 0
    assert order.block(0, 10).tolist() == before
    assert order.inverse(before).tolist() == list(range(10))


def test_tiny_sizes() -> None:
    assert Permutation(0, 0).block(0, 0).tolist() == []
    assert Permutation(0, 0)(np.empty((3, 0), int)).shape == (3, 0)
    assert Permutation(1, 0).block(0, 1).tolist() == [0]
    assert {tuple(Permutation(2, seed).block(0, 2).tolist()) for seed in range(20)} == {
        (0, 1),
        (1, 0),
    }


# The key.


def test_every_part_of_the_key_counts() -> None:
    different: list[tuple[int | str, ...]] = [
        *((), (0,), (0, 0), (0, 1), (1, 0), (1,), (-1,), (10,), (16,), ("0",), ("i0",), ("",)),
        *(
            ("ab",),
            ("a", "b"),
            ("a\0",),
            ("a",),
            ("a", 0),
            (0, "a"),
            ("ä",),
            ("\ud800",),
            ("\ud801",),
            ("?",),
        ),
        *((2**32,), (2**63,), (2**64,), (2**64 - 1,), (-(2**64),), (2**20000,), (2**20000 + 1,)),
    ]
    for n in (1000, 10**9):
        orders = {tuple(Permutation(n, *key).block(0, 50).tolist()) for key in different}
        assert len(orders) == len(different)
    assert len({Permutation(1000, *key) for key in different}) == len(different)


def test_one_row_more_is_another_order() -> None:
    for n in (1000, 10**9):
        assert (Permutation(n, 0).block(0, 900) == Permutation(n + 1, 0).block(0, 900)).sum() < 10


def test_a_permutation_is_a_value() -> None:
    order = Permutation(1000, 0, "train")
    assert order == Permutation(np.int32(1000), np.uint8(0), np.str_("train"))
    assert hash(order) == hash(Permutation(1000, False, "train"))
    assert order != Permutation(1001, 0, "train")
    assert order != Permutation(1000, "0", "train")
    assert order != (1000, (0, "train"))
    assert (order.n, order.key) == (1000, (0, "train"))
    assert [type(part) for part in Permutation(5, True, np.str_("a")).key] == [int, str]
    for name in ("n", "key", "other"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(order, name, 1)


def test_the_repr_is_the_call() -> None:
    order = Permutation(1000, 0, -5, "train's", 2**20000)
    assert repr(Permutation(1000, 0)) == "Permutation(1000, 0)"
    assert repr(Permutation(7)) == "Permutation(7)"
    assert repr(order).startswith('Permutation(1000, 0, -5, "train\'s", 0x1000')
    assert eval(repr(order)) == order


@pytest.mark.parametrize("n", [0, 1000, SORTED, 10**9])
def test_a_pickle_holds_the_size_and_the_key_alone(n: int) -> None:
    order = Permutation(n, 0, 1)
    fresh = pickle.dumps(order)
    rows = order.block(0, min(n, 100)).tolist()
    assert pickle.dumps(order) == fresh
    assert len(fresh) < 200
    for twin in (pickle.loads(fresh), copy.copy(order), copy.deepcopy(order)):
        assert twin == order
        assert twin.block(0, min(n, 100)).tolist() == rows


@pytest.mark.parametrize("n", [SORTED, 2**20 + 1])
def test_threads_share_one_permutation(n: int) -> None:
    expected = Permutation(n, 9).block(0, n)
    shared = Permutation(n, 9)
    barrier = threading.Barrier(8)

    def ask(number: int) -> bool:
        barrier.wait()
        part = slice(number * n // 8, (number + 1) * n // 8)
        rows = shared.block(part.start, part.stop)
        back = shared.inverse(rows)
        return bool((rows == expected[part]).all() and (back == np.arange(n)[part]).all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(8)))


def test_a_jump_into_the_middle_takes_little_memory() -> None:
    tracemalloc.start()
    try:
        Permutation(10**9, 0).block(5 * 10**8, 5 * 10**8 + 65_536)
        small = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        rows = Permutation(2**62, 0).block(0, 1_000_000)
        large = tracemalloc.get_traced_memory()[1] - rows.nbytes
    finally:
        tracemalloc.stop()
    assert small < 5e6
    assert large < 5e6


# The errors.


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((-1, 0), ValueError, "n must be from 0 to 2**62, got -1; give the number of rows"),
        ((2**62 + 1, 0), ValueError, f"n must be from 0 to 2**62, got {2**62 + 1}"),
        ((10.0, 0), TypeError, "n must be the number of rows, an integer, got 10.0"),
        (("10", 0), TypeError, "n must be the number of rows, an integer, got '10'"),
        ((10, 0.0), TypeError, "a seed is an integer, a text or several of them"),
        ((10, None), TypeError, "another order at each start, got None"),
        ((10, (0, 1)), TypeError, "another order at each start, got (0, 1)"),
    ],
)
def test_what_is_no_permutation(arguments: tuple[int], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        Permutation(*arguments)
    assert words in str(caught.value)


@pytest.mark.parametrize("n", [10, 10**9])
@pytest.mark.parametrize("name", ["positions", "rows"])
def test_numbers_out_of_range(n: int, name: str) -> None:
    order = Permutation(n, 0)
    ask = order if name == "positions" else order.inverse
    for numbers in ([3, -1], [3, n], [3, 2**63 - 1], [-(2**63), 3], np.array([3, 2**64 - 1], "u8")):
        with pytest.raises(IndexError) as caught:
            ask(numbers)
        lowest, highest = min(map(int, numbers)), max(map(int, numbers))
        assert str(caught.value) == (
            f"{name} must be at least 0 and less than {n}, got {lowest} to {highest}; "
            f"take them from range({n})"
        )


@pytest.mark.parametrize("numbers", [[0.0], [True], ["a"], []])
def test_numbers_that_are_no_integers(numbers: list[object]) -> None:
    with pytest.raises(TypeError, match=r"positions must be integers, got .*; use astype\(int\)"):
        Permutation(10, 0)(numbers)


def test_nothing_is_in_an_empty_permutation() -> None:
    with pytest.raises(IndexError, match="less than 0, got 0 to 0"):
        Permutation(0, 0)([0])


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (0, 11), (5, 4)])
def test_blocks_out_of_range(start: int, stop: int) -> None:
    words = f"block needs 0 <= start <= stop <= 10, the rows, got {start} to {stop}"
    with pytest.raises(IndexError, match=words):
        Permutation(10, 0).block(start, stop)


# The quality. A statistic is in standard deviations from what chance gives; the bounds are wide,
# and the keys are fixed.


def surprise(counts: np.ndarray) -> float:
    """Chi-square of counts that should be equal, in standard deviations."""
    expected = counts.sum() / counts.size
    freedom = counts.size - 1
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom))


def cells(first: np.ndarray, second: np.ndarray, count: int) -> np.ndarray:
    """How often each pair of numbers below the count occurs."""
    return np.bincount(first * count + second, minlength=count**2)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_all_orders_of_few_rows_come_equally_often(n: int) -> None:
    orders = [tuple(Permutation(n, seed).block(0, n).tolist()) for seed in range(6000)]
    numbered = {order: number for number, order in enumerate(itertools.permutations(range(n)))}
    counts = np.bincount([numbered[order] for order in orders], minlength=len(numbered))
    assert abs(surprise(counts)) < 4


def in_64_parts(rows: np.ndarray, n: int) -> np.ndarray:
    assert n % 64 == 0
    return rows // (n // 64)


@pytest.mark.parametrize("n", [960, SORTED + 64, 10**6, 10**9, 2**40 + 64])
def test_a_position_takes_any_row_as_the_key_changes(n: int) -> None:
    positions = [0, 1, n // 2, n - 1]
    rows = np.array([Permutation(n, 7, epoch)(positions) for epoch in range(6400)])
    parts = in_64_parts(rows, n)
    for number in range(4):
        assert abs(surprise(np.bincount(parts[:, number], minlength=64))) < 4
    for one, other in itertools.combinations(range(4), 2):
        assert abs(surprise(cells(parts[:, one] // 8, parts[:, other] // 8, 8))) < 4
    assert abs(surprise(cells(rows[:-1, 0] % 8, rows[1:, 0] % 8, 8))) < 4


# The last bits of n - 1 decide how many numbers walk: 2**17 none, 2**16 + 64 the most.
@pytest.mark.parametrize("n", [SORTED + 64, 2**17, 10**6, 10**9, 2**30 + 64, 2**32 + 64, 2**62])
def test_rows_tell_nothing_of_positions_neighbours_and_other_keys(n: int) -> None:
    size = 2**16
    lags = [1, 2, 3, 256, 2 ** ((n - 1).bit_length() // 2)]
    for seed in range(3):
        order = Permutation(n, seed)
        rows = order.block(n // 2 - size // 2, n // 2 + size // 2)
        parts = in_64_parts(rows, n)
        tables = {
            "position": cells(np.arange(size) // 2048, parts // 2, 32),
            "last bits": cells(np.arange(size) % 32, rows % 32, 32),
        }
        for lag in lags:
            later = order(np.arange(n // 4, n // 4 + size // 4) + lag)
            first = order.block(n // 4, n // 4 + size // 4)
            tables[f"difference {lag}"] = np.bincount(in_64_parts((later - first) % n, n))
            tables[f"bits {lag}"] = np.bincount((later ^ first) % 64)
            tables[f"pair {lag}"] = cells(
                in_64_parts(first, n) // 4, in_64_parts(later, n) // 4, 16
            )
        for other in [(seed + 1,), (seed, 1), (1, seed), (-seed - 1,), (seed + 2**32,)]:
            rows_of_other = Permutation(n, *other).block(n // 2 - size // 2, n // 2 + size // 2)
            tables[f"difference {other}"] = np.bincount(in_64_parts((rows - rows_of_other) % n, n))
            tables[f"bits {other}"] = np.bincount((rows ^ rows_of_other) % 64)
            tables[f"pair {other}"] = cells(parts // 2, in_64_parts(rows_of_other, n) // 2, 32)
        surprises = {name: surprise(counts) for name, counts in tables.items()}
        assert max(map(abs, surprises.values())) < 5, surprises


@pytest.mark.parametrize("count", [0, 1, 999, 1000, 3000, 8191, 8192, 65_536])
@pytest.mark.parametrize("lost", [0, 20, 40, 52])
def test_words_are_sorted_by_all_of_their_bits(count, lost):
    words = np.random.default_rng(count).integers(0, 2**64, count, dtype=np.uint64)
    few_bits = words << np.uint64(lost) if lost == 40 else words >> np.uint64(lost)
    words = np.random.default_rng(1).permutation(np.unique(few_bits))
    assert by_words(words.copy()).tolist() == words.argsort(kind="stable").tolist()
