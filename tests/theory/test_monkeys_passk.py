"""pass@k against enumeration, against its product form, and against input it must refuse."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from icml25.theory.monkeys import (
    OFFICIAL_K,
    aggregate_pass_at_k,
    counts_from_outcomes,
    merge_counts,
    neg_log_pass,
    pass_at_k,
    plug_in_pass_at_k,
)


@pytest.mark.parametrize(
    ("n", "x", "k", "expected"),
    [(10, 3, 2, 0.5333333333333333), (100, 5, 10, 0.41624763), (10_000, 0, 5, 0.0), (10_000, 1, 10_000, 1.0)],
)
def test_known_values(n, x, k, expected):
    assert pass_at_k([n], [x], k)[0, 0] == pytest.approx(expected, abs=5e-9)


def test_is_the_share_of_subsets_that_hold_a_success():
    for n in range(1, 9):
        for x in range(n + 1):
            for k in range(1, n + 1):
                hits = [min(subset) < x for subset in itertools.combinations(range(n), k)]
                assert pass_at_k([n], [x], k)[0, 0] == pytest.approx(np.mean(hits), abs=1e-13)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 200), data=st.data())
def test_agrees_with_the_product_form(n, data):
    x, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    product = math.prod(1.0 - k / j for j in range(n - x + 1, n + 1)) if n - x >= k else 0.0
    assert pass_at_k([n], [x], k)[0, 0] == pytest.approx(1.0 - product, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 30), p=st.just(0.0) | st.floats(1e-6, 1.0), data=st.data())
def test_is_unbiased_for_a_fixed_number_of_attempts(n, p, data):
    k = data.draw(st.integers(1, n))
    x = np.arange(n + 1)
    mean = binom.pmf(x, n, p) @ pass_at_k(np.full(n + 1, n), x, k)[:, 0]
    assert mean == pytest.approx(1.0 - (1.0 - p) ** k, abs=1e-10)


def test_the_plug_in_is_biased_down_and_the_estimator_is_not():
    assert plug_in_pass_at_k([4], [1], [1, 3])[0] == pytest.approx([0.25, 1 - 0.75**3])
    n, p, k = 100, 0.01, 100
    x = np.arange(n + 1)
    probability, truth = binom.pmf(x, n, p), 1.0 - (1.0 - p) ** k
    assert probability @ plug_in_pass_at_k(np.full(n + 1, n), x, k)[:, 0] < truth - 0.05
    assert probability @ pass_at_k(np.full(n + 1, n), x, k)[:, 0] == pytest.approx(truth, abs=1e-10)


def test_grows_with_k_and_with_successes():
    x = np.arange(51)
    values = pass_at_k(np.full(51, 50), x, np.arange(1, 51))
    assert (np.diff(values, axis=0) >= 0).all()
    assert (np.diff(values, axis=1) >= -1e-13).all()
    np.testing.assert_allclose(values[:, 0], x / 50, atol=1e-13)


def test_official_extrapolation_is_one_beyond_n_even_without_a_success():
    assert pass_at_k([10], [0], [10, 11], extrapolate="official").tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize("n", [40, 90, 10_000, 10**6, 10**9])
def test_keeps_its_digits_for_any_number_of_attempts(n):
    rng = np.random.default_rng(n)
    draws = (n ** rng.uniform(0, 1, (60, 2))).astype(int)
    draws = np.concatenate(
        [draws, [[1, 1], [n // 2, 1], [1, n // 2], [16, 17], [17, 17], [17, 20], [18, 22], [n - 20, 20], [n // 2, 18]]]
    )
    with mpmath.workdps(60):
        for x, k in draws[draws.sum(axis=1) <= n].tolist():
            top, bottom = (mpmath.loggamma(m + 1) - mpmath.loggamma(m - k + 1) for m in (n - x, n))
            exact = float(-mpmath.expm1(top - bottom))
            assert pass_at_k([n], [x], k)[0, 0] == pytest.approx(exact, rel=1e-12 if n <= 10_000 else 1e-7, abs=0)


def test_one_try_succeeds_at_the_rate_of_successes():
    x = np.array([1, 7, 16, 17, 100, 5 * 10**8, 10**9])
    np.testing.assert_allclose(pass_at_k(10**9, x, 1)[:, 0], x / 1e9, rtol=1e-15)


def test_rows_of_weight_zero_do_not_exist():
    n, x, weights = merge_counts([10, 20, 10], [1, 5, 1], [1.0, 0.0, 2.0])
    assert (n.tolist(), x.tolist(), weights.tolist()) == ([10], [1], [3.0])
    assert neg_log_pass([10, 5], [3, 1], [7], [1.0, 0.0]) == neg_log_pass([10], [3], [7])


def test_inputs_are_left_as_they_are_and_so_is_the_grid_of_the_paper():
    n, x, k = np.array([5, 9, 5]), np.array([5, 1, 0]), np.array([3, 1, 3])
    before = n.copy(), x.copy(), k.copy()
    values = pass_at_k(n, x, k)
    np.testing.assert_array_equal(values[:, 0], values[:, 2])
    for array, copy in zip((n, x, k), before, strict=True):
        np.testing.assert_array_equal(array, copy)
    with pytest.raises(ValueError, match="read-only"):
        OFFICIAL_K[0] = 7


def test_rows_come_back_in_the_order_of_the_problems():
    n, x = np.array([5, 9, 5, 9, 7]), np.array([5, 1, 0, 1, 3])
    together = pass_at_k(n, x, [1, 3])
    alone = np.concatenate([pass_at_k([a], [b], [1, 3]) for a, b in zip(n, x, strict=True)])
    np.testing.assert_array_equal(together, alone)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 3)), min_size=1, max_size=12), st.integers(0, 2**32 - 1))
def test_aggregate_is_the_weighted_mean_whatever_the_order_or_the_merging(rows, seed):
    x, weights = np.array(rows).T
    n = np.full(x.size, 12)
    k = [1, 4, 12]
    plain = pass_at_k(n.repeat(weights), x.repeat(weights), k).mean(axis=0)
    order = np.random.default_rng(seed).permutation(x.size)
    np.testing.assert_allclose(aggregate_pass_at_k(n[order], x[order], k, weights[order]), plain, rtol=1e-12)
    np.testing.assert_allclose(
        aggregate_pass_at_k(*merge_counts(n, x, weights)[:2], k, merge_counts(n, x, weights)[2]), plain
    )


def test_merging_a_stream_by_parts_is_merging_it_whole():
    rng = np.random.default_rng(0)
    n, x = np.full(1000, 20), rng.integers(0, 21, 1000)
    parts = [merge_counts(n[i : i + 100], x[i : i + 100]) for i in range(0, 1000, 100)]
    merged = merge_counts(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    for ours, whole in zip(merged, merge_counts(n, x), strict=True):
        np.testing.assert_array_equal(ours, whole)


def test_merging_survives_counts_too_large_for_one_key():
    n, x, weights = merge_counts([2**40, 2**40, 7], [5, 5, 3])
    assert (n.tolist(), x.tolist(), weights.tolist()) == ([7, 2**40], [3, 5], [1.0, 2.0])


def test_neg_log_pass_is_the_log_of_the_mean_and_infinite_without_success():
    curve = neg_log_pass([4, 4], [0, 2], [1, 4])
    assert curve == pytest.approx([-math.log(0.25), -math.log(0.5)])
    assert np.isinf(neg_log_pass([4], [0], [1])).all()


def test_official_k():
    assert OFFICIAL_K.size == 101
    assert (np.diff(OFFICIAL_K) > 0).all()
    assert (OFFICIAL_K[0], OFFICIAL_K[-1]) == (1, 10_000)


def test_outcomes_with_gaps_become_counts():
    n, x = counts_from_outcomes([[1.0, 0.0, math.nan], [math.nan, math.nan, 1.0]])
    assert (n.tolist(), x.tolist()) == ([2, 1], [1, 1])
    n, x = counts_from_outcomes(np.array([[True, False]]))
    assert (n.tolist(), x.tolist()) == ([2], [1])


@pytest.mark.parametrize(
    ("n", "x", "message"),
    [
        ([5, 5], [1, 6], r"x \(successes\).* got 6 at index 1"),
        ([5, 5], [-1, 0], r"x \(successes\).* got -1 at index 0"),
        ([5, 5], [1, 1.5], r"x \(successes\).* got 1.5 at index 1"),
        ([5, 5], [1, math.nan], r"x \(successes\).*nan at index 1"),
        ([5, math.inf], [1, 1], r"n \(attempts\).*inf at index 1"),
        ([5, 0], [1, 0], r"n \(attempts\) must be at least 1, got 0 at index 1"),
        ([5], [1, 1], "same length, got 1 and 2"),
        ([], [], r"x \(successes\).*non-empty"),
        ([[5]], [[1]], "one-dimensional"),
        ([5], ["a"], "integer counts"),
        ([5], [True], "integer counts"),
        ([1e19], [1], r"n \(attempts\) must hold counts of at most 2\^53, got 1e\+19 at index 0"),
        (np.array([2**63 + 5], dtype=np.uint64), [1], r"at most 2\^53"),
        ([[5], [5, 6]], [1], r"n \(attempts\) cannot be read as an array"),
        (torch.tensor([5.0], requires_grad=True), [1], r"n \(attempts\) cannot be read as an array"),
        (np.ma.array([5, 5], mask=[False, True]), [1, 1], r"n \(attempts\) must not be masked"),
        ({5: 1}, [1], "integer counts"),
    ],
)
def test_refuses_counts(n, x, message):
    with pytest.raises(ValueError, match=message):
        pass_at_k(n, x, 1)


@pytest.mark.parametrize(
    ("k", "message"),
    [(0, "k must be at least 1, got 0"), ([1, 8], "largest k=8, smallest n=5"), ([], "k must be a non-empty")],
)
def test_refuses_k(k, message):
    for function in (pass_at_k, aggregate_pass_at_k):
        with pytest.raises(ValueError, match=message):
            function([9, 5], [1, 1], k)


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        ([1, 0], "matrix, got shape"),
        ([[0.5]], "0, 1 or NaN"),
        ([[1.0], [math.nan]], "none in row 1"),
        (np.zeros((0, 3)), "non-empty"),
        ([["1", "0"]], "outcomes must hold real numbers"),
        ([[1j, 0]], "outcomes must hold real numbers"),
        ([[None, 1]], "outcomes must hold real numbers"),
        ([[1, 0], [1]], "outcomes cannot be read as an array"),
        (np.ma.array([[1, 0]], mask=[[True, False]]), "outcomes must not be masked"),
    ],
)
def test_refuses_outcomes(outcomes, message):
    with pytest.raises(ValueError, match=message):
        counts_from_outcomes(outcomes)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "shape of x"),
        ([1.0, math.nan], "finite"),
        ([1.0, -1.0], "at least 0"),
        ([0, 0], "all 0"),
        ([1e308, 1e308], "finite"),
        (["a", 1], "real"),
    ],
)
def test_refuses_weights(weights, message):
    with pytest.raises(ValueError, match=f"weights.*{message}"):
        merge_counts([5, 5], [1, 2], weights)


def test_refuses_an_unknown_extrapolation():
    with pytest.raises(ValueError, match="extrapolate must be"):
        pass_at_k([5], [1], 2, extrapolate="yes")
