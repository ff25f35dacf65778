"""Simulated counts, the stopping rule, and the back-tests."""

import math

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from icml25.theory.monkeys import (
    ESTIMATORS,
    CompoundBinomialFitter,
    PointMass,
    ScaledBeta,
    UniformZero,
    ZeroInflated,
    backtest,
    backtest_uniform,
    least_squares_fit,
    simulate_counts,
    simulate_stopped,
    subsample_counts,
)


def chi_square(observed, probability):
    expected = probability * observed.sum()
    keep = expected > 5
    return float(((observed - expected)[keep] ** 2 / expected[keep]).sum()), int(keep.sum())


def test_same_seed_same_counts():
    for simulate in (
        lambda s: simulate_counts(UniformZero(0.5), 9, 50, s),
        lambda s: simulate_stopped(UniformZero(0.1), 9, 5, 50, s),
    ):
        first, second, other = simulate(7), simulate(7), simulate(8)
        assert np.array_equal(first, second)
        assert not np.array_equal(first, other)


def test_counts_follow_the_given_probabilities():
    n, x = simulate_counts(np.array([0.0, 1.0]), None, 20, 0)
    assert (n.tolist(), x.tolist()) == ([20, 20], [0, 20])
    _, x = simulate_counts(np.full(50_000, 0.3), None, 5, 0)
    statistic, cells = chi_square(np.bincount(x, minlength=6), binom.pmf(np.arange(6), 5, 0.3))
    assert statistic < cells + 6 * math.sqrt(2 * cells)


def test_stopped_counts_have_the_law_of_the_loop():
    p, batch, cap = 0.05, 4, 18
    n, x = simulate_stopped(np.full(100_000, p), None, batch, cap, 0)
    most = 5  # batches are completed: 18 tries take five of 4
    assert (n % batch == 0).all()
    assert n.max() == most * batch
    barren = (1 - p) ** batch
    observed = np.bincount(n // batch, minlength=most + 1)[1:]
    law = barren ** np.arange(most) * (1 - barren)
    law[-1] = barren ** (most - 1)
    statistic, cells = chi_square(observed, law)
    assert statistic < cells + 6 * math.sqrt(2 * cells)
    assert (x[n < most * batch] >= 1).all()
    early = np.bincount(x[n < most * batch], minlength=batch + 1)[1:]
    statistic, cells = chi_square(early, binom.pmf(np.arange(1, batch + 1), batch, p) / (1 - barren))
    assert statistic < cells + 6 * math.sqrt(2 * cells)
    assert (x == 0).mean() == pytest.approx(barren**most, abs=0.01)


def test_stopping_at_the_first_success_biases_the_success_rate_by_the_known_amount():
    p = 0.05
    n, x = simulate_stopped(np.full(200_000, p), None, 1, 10**6, 0)
    assert np.mean(x / n) == pytest.approx(-p * math.log(p) / (1 - p), rel=0.01)


def test_sure_and_hopeless_problems_end_at_once_or_at_the_cap():
    n, x = simulate_stopped(np.array([1.0, 0.0, 1e-300]), None, 60, 10_000, 0)
    assert (n.tolist(), x.tolist()) == ([60, 10_020, 10_020], [60, 0, 0])


def test_maximum_likelihood_survives_the_stopping_rule_and_the_line_does_not():
    p = ScaledBeta(0.3, 2.0, 0.5).rvs(4000, 0)
    fixed = simulate_counts(p, None, 10_000, 1)
    stopped = simulate_stopped(p, None, 60, 10_000, 2)
    alphas = [CompoundBinomialFitter("beta", scale=0.5).fit(*counts).alpha_ for counts in (fixed, stopped)]
    assert abs(alphas[0] - alphas[1]) < 0.02
    assert np.mean(stopped[1] / stopped[0]) > p.mean()
    k = np.unique(np.logspace(0, 4, 100).astype(int))
    lines = [least_squares_fit(*counts, k, extrapolate="official").b for counts in (fixed, stopped)]
    assert lines[1] - lines[0] > 0.005


def test_subsample_is_hypergeometric():
    n, x = np.full(50_000, 30), np.full(50_000, 12)
    kept, drawn = subsample_counts(n, x, 10, 0)
    assert (kept == 10).all()
    statistic, cells = chi_square(np.bincount(drawn, minlength=11), hypergeom.pmf(np.arange(11), 30, 12, 10))
    assert statistic < cells + 6 * math.sqrt(2 * cells)


def test_subsample_keeps_short_problems_whole():
    kept, drawn = subsample_counts([5, 50], [3, 20], 20, 0)
    assert kept.tolist() == [5, 20]
    assert drawn[0] == 3


def test_backtest_of_a_law_scores_against_its_exponent():
    rows = backtest(
        ScaledBeta(0.3, 2.0),
        budgets=[50, 200],
        n_problems=32,
        repeats=2,
        reference="asymptotic",
        pool=(60, 2000),
        seed=0,
    )
    assert len(rows) == 2 * 2 * len(ESTIMATORS)
    assert {row["estimator"] for row in rows} == set(ESTIMATORS)
    for row in rows:
        assert row["reference"] == 0.3
        assert row["relative_error"] == pytest.approx(abs(row["exponent"] - 0.3) / 0.3)
    again = backtest(
        ScaledBeta(0.3, 2.0),
        budgets=[50, 200],
        n_problems=32,
        repeats=2,
        reference="asymptotic",
        pool=(60, 2000),
        seed=0,
    )
    assert rows == again


def test_fitting_all_repeats_together_changes_nothing():
    kwargs = {"budgets": [50, 300], "n_problems": 24, "repeats": 2, "reference": "asymptotic", "pool": (60, 2000)}
    names = ["least_squares", "beta_binomial", "kumaraswamy_binomial"]
    alone = backtest(ScaledBeta(0.3, 2.0), estimators=names, seed=3, **kwargs)
    together = backtest(ScaledBeta(0.3, 2.0), estimators=names, seed=3, device="cpu", **kwargs)
    for one, other in zip(alone, together, strict=True):
        assert one["exponent"] == pytest.approx(other["exponent"], rel=1e-3)
        assert (one["budget"], one["estimator"]) == (other["budget"], other["estimator"])


def test_fitting_together_keeps_the_status_of_each():
    def status_of(n, x, device):
        return backtest(
            n, x, budgets=[int(n[0])], n_problems=len(n), repeats=1, estimators=["beta_binomial"], device=device
        )[0]["status"]

    for x, n, status in (([5] * 4, 10, "at_bound"), ([0] * 4, 10, "all_zero"), ([0, 1, 0, 0], 1, "not_identified")):
        for device in (None, "cpu"):
            assert status_of(np.full(4, n), np.array(x), device) == status


def test_whole_floats_are_counts_of_tries_and_the_global_generator_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    for whole, integer in (
        (simulate_counts(UniformZero(0.5), 3.0, 1e1, 0), simulate_counts(UniformZero(0.5), 3, 10, 0)),
        (simulate_stopped(UniformZero(0.1), 3, 5.0, 1e2, 0), simulate_stopped(UniformZero(0.1), 3, 5, 100, 0)),
        (subsample_counts([10], [3], 5.0, 0), subsample_counts([10], [3], 5, 0)),
    ):
        np.testing.assert_array_equal(whole, integer)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_references_differ_as_they_should():
    n, x = simulate_counts(ScaledBeta(0.15, 3.5, 0.8), 200, 5000, 0)
    kwargs = {"budgets": [4000], "n_problems": 200, "repeats": 1, "estimators": ["least_squares"], "seed": 1}
    full, held_out = (backtest(n, x, reference=reference, **kwargs)[0] for reference in ("full", "held_out"))
    assert full["exponent"] == held_out["exponent"], "one seed, one subsample"
    assert full["reference"] == least_squares_fit(n, x).b
    assert held_out["reference"] != full["reference"]
    # The held-out tries are 1000 a problem; all of the full data's successes are in one of the two parts.
    assert held_out["reference"] == pytest.approx(full["reference"], rel=0.2)


def test_held_out_tries_are_exactly_those_not_sampled():
    seen = []

    def spy(n, x):
        seen.append((n, x))
        return 0.5, "ok"

    n, x = np.full(4, 10), np.array([1, 4, 7, 10])
    row = backtest(n, x, budgets=[6], n_problems=4, repeats=1, estimators={"spy": spy}, reference="held_out", seed=0)[0]
    sub_n, sub_x = seen[0]
    assert (sub_n == 6).all()
    # All four problems were drawn, in some order: their totals tell the rest, whose line is the reference.
    order = [int(i) for i in np.random.default_rng(0).permutation(4)]
    assert row["reference"] == least_squares_fit(np.full(4, 4), x[order] - sub_x).b


def test_uniform_strategy_spends_the_budget():
    shares = []

    def spy(n, x):
        shares.append((n.size, int(n[0]), int(n.sum())))
        return 0.2, "ok"

    n, x = simulate_counts(ScaledBeta(0.3, 2.0), 128, 1000, 0)
    rows = backtest_uniform(
        n, x, total_budgets=[16, 130, 1024], n_problems=[32, 128], repeats=1, estimators={"spy": spy}
    )
    assert shares == [(32, 4, 128), (32, 32, 1024), (128, 1, 128), (128, 8, 1024)]
    assert [row["total_budget"] for row in rows] == [130, 1024, 130, 1024]
    assert {row["reference"] for row in rows} == {least_squares_fit(n, x).b}


def test_uniform_strategy_runs_every_estimator_with_the_official_budgets():
    n, x = simulate_counts(ScaledBeta(0.3, 2.0), 128, 1000, 0)
    rows = backtest_uniform(n, x, repeats=1, estimators=["least_squares", "beta_binomial"], n_problems=[128])
    assert len(rows) == 11 * 2
    assert rows[0]["status"] == "too_few_points", "one try a problem has no curve"
    assert math.isnan(rows[0]["relative_error"])
    assert rows[-1]["relative_error"] < 1


def test_progress_shows_a_bar(capsys):
    kwargs = {"budgets": [5], "n_problems": 4, "repeats": 2, "estimators": ["least_squares"]}
    counts = (np.full(4, 10), np.array([1, 4, 7, 10]))
    backtest(*counts, **kwargs)
    assert capsys.readouterr().err == ""
    backtest(*counts, progress=True, **kwargs)
    assert "back-test" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: simulate_counts(UniformZero(0.5), None, 10, 0), "n_problems must be given"),
        (lambda: simulate_counts(UniformZero(0.5), 5, 0, 0), "n_attempts must be at least 1"),
        (lambda: simulate_counts([0.5, math.nan], None, 10, 0), "probabilities in"),
        (lambda: simulate_counts([0.5, 0.1], 3, 10, 0), "n_problems must be 2"),
        (lambda: simulate_stopped(UniformZero(0.5), 5, 0, 10, 0), "batch must be at least 1"),
        (lambda: subsample_counts([5], [1], 0, 0), "attempts must be at least 1"),
        (lambda: subsample_counts([5], [1], 2.5, 0), "attempts must be an integer"),
        (lambda: subsample_counts([10**10], [1], 2, 0), r"n \(attempts\) must be below 10\^9"),
        (lambda: simulate_counts(UniformZero(0.5), 5, 10.5, 0), "n_attempts must be an integer"),
        (lambda: simulate_counts(UniformZero(0.5), 5, math.nan, 0), "n_attempts must be an integer"),
        (lambda: simulate_counts(UniformZero(0.5), 5, 10**19, 0), "n_attempts must be at most"),
        (lambda: simulate_counts("beta", 5, 10, 0), "dist must hold real numbers"),
        (lambda: simulate_stopped(UniformZero(0.5), 5, 60.5, 10, 0), "batch must be an integer"),
        (lambda: simulate_stopped(UniformZero(0.5), 5, 60, math.inf, 0), "max_attempts must be an integer"),
        (lambda: backtest([50, 50], [1, 2], budgets=[], n_problems=2), "budgets must be a non-empty"),
        (lambda: backtest([50, 50], [1, 2], budgets=10, n_problems=2), "budgets must be a non-empty"),
        (lambda: backtest([50, 50], [1, 2], budgets=[10.5], n_problems=2), "budgets must be an integer"),
        (lambda: backtest([50, 50], [1, 2], budgets=[10], n_problems=2, repeats=0), "repeats must be at least 1"),
        (lambda: backtest([50, 50], [1, 2], budgets=[10], n_problems=2, estimators=[]), "estimators must be a"),
        (
            lambda: backtest([50, 50], [1, 2], budgets=[10], n_problems=2, estimators="mean"),
            "estimators must be a non-",
        ),
        (
            lambda: backtest([50], [1], budgets=[10], n_problems=1, kind="x", estimators=["least_squares"]),
            "kind must be",
        ),
        (lambda: backtest(UniformZero(0.5), [1], budgets=[10]), "x must be None with a law"),
        (lambda: backtest(UniformZero(0.5), budgets=[10], pool=10), "pool must be a pair"),
        (lambda: backtest_uniform([50], [1], total_budgets=[]), "total_budgets must be a non-empty"),
        (lambda: backtest([50, 50], [1, 2], budgets=[60], n_problems=2), r"budgets must lie in \[1, 50\]"),
        (lambda: backtest([50, 50], [1, 2], budgets=[50], n_problems=2, reference="held_out"), "budgets must lie"),
        (lambda: backtest([50, 50], [1, 2], budgets=[10], n_problems=3), r"n_problems must lie in \[1, 2\]"),
        (lambda: backtest([50, 50], [1, 2], budgets=[10], n_problems=2, estimators=["mean"]), "estimators must be"),
        (lambda: backtest([50], [1], budgets=[10], n_problems=1, reference="true"), "reference must be"),
        (lambda: backtest([50], [1], budgets=[10], n_problems=1, reference="asymptotic"), "power-law tail"),
        (lambda: backtest(PointMass(0.5), budgets=[10], reference="asymptotic"), "power-law tail"),
        (lambda: backtest(ZeroInflated(0.5, UniformZero(1.0)), reference="asymptotic"), "power-law tail"),
        (lambda: backtest([50], budgets=[10]), "successes"),
        (lambda: backtest_uniform([50], [1], total_budgets=[0]), "total_budgets"),
    ],
)
def test_refuses(build, message):
    with pytest.raises(ValueError, match=message):
        build()
