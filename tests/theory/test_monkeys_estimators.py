"""The five estimators: known fits of the real counts, recovery on simulated ones, bad input."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icml25.data.monkeys import counts_of, find_counts, load_counts
from icml25.theory.monkeys import (
    ESTIMATORS,
    OFFICIAL_K,
    CompoundBinomialFitter,
    FittedLaw,
    PowerLawFit,
    ScaledBeta,
    ScaledKumaraswamy,
    UniformZero,
    discretized_fit,
    estimate_exponent,
    fit_compound_batch,
    fit_power_law,
    least_squares_fit,
    local_slopes,
    merge_counts,
    neg_log_pass,
    simulate_counts,
)


def real_counts_present():
    try:
        find_counts()
    except FileNotFoundError:
        return False
    return True


needs_real_counts = pytest.mark.skipif(not real_counts_present(), reason="real counts absent: set ICML25_DATA")


@pytest.fixture(scope="module")
def real():
    return load_counts()


@needs_real_counts
@pytest.mark.parametrize(
    ("model", "alpha", "beta", "scale", "nll"),
    [
        ("Pythia 12B", 0.2500, 1.821, 0.23462, 5.8369),
        ("Pythia 70M", 0.0546, 2.003, 0.03487, 1.5374),
        ("Pythia 1B", 0.1861, 2.250, 0.13696, 4.49686),
        ("GPT4o", 0.2181, 1.719, 0.50314, 3.0126),
        ("Llama 3 8B IT", 0.6797, 3.560, 0.26834, 2.5733),
    ],
)
def test_beta_binomial_fits_of_real_counts(real, model, alpha, beta, scale, nll):
    fit = CompoundBinomialFitter("beta").fit(*counts_of(real, model))
    assert fit.status_ == "ok"
    assert (fit.alpha_, fit.beta_) == (pytest.approx(alpha, rel=1e-3), pytest.approx(beta, rel=1e-3))
    assert (fit.scale_, fit.nll_) == (pytest.approx(scale, abs=1e-5), pytest.approx(nll, abs=1e-4))


@needs_real_counts
@pytest.mark.parametrize(
    ("model", "alpha", "beta", "nll"), [("Pythia 12B", 0.2979, 1.712, 5.8198), ("GPT4o", 0.2614, 1.664, 2.9907)]
)
def test_kumaraswamy_binomial_fits_of_real_counts(real, model, alpha, beta, nll):
    fit = CompoundBinomialFitter("kumaraswamy").fit(*counts_of(real, model))
    assert (fit.alpha_, fit.beta_) == (pytest.approx(alpha, rel=1e-3), pytest.approx(beta, rel=1e-3))
    assert fit.nll_ == pytest.approx(nll, abs=1e-4)


@needs_real_counts
@pytest.mark.parametrize(
    ("model", "a", "b"), [("Pythia 70M", 8.026, 0.194), ("Pythia 12B", 4.113, 0.370), ("Gemini 1.5 Pro", 6.296, 0.256)]
)
def test_least_squares_of_real_counts_as_published(real, model, a, b):
    fit = least_squares_fit(*counts_of(real, model), OFFICIAL_K, extrapolate="official")
    assert (fit.a, fit.b) == (pytest.approx(a, abs=0.01), pytest.approx(b, abs=0.001))


@settings(max_examples=40, deadline=None)
@given(a=st.floats(1e-3, 1e3), b=st.floats(-2, 4))
def test_a_power_law_is_found_exactly(a, b):
    k = np.array([1, 2, 10, 500])
    fit = fit_power_law(k, a * k**-b)
    assert (fit.a, fit.b) == (pytest.approx(a, rel=1e-9), pytest.approx(b, abs=1e-9))
    assert abs(b) < 1e-6 or fit.r2 == pytest.approx(1.0), "a constant has no variance to explain"
    np.testing.assert_allclose(fit.predict(k), a * k**-b, rtol=1e-9)


def test_points_without_a_logarithm_are_left_out_and_said_to_be():
    fit = fit_power_law([1, 2, 4, 8], [math.inf, 1.0, 0.5, 0.0])
    assert fit.k_used.tolist() == [2, 4]
    assert fit.b == pytest.approx(1.0)


def test_r_squared_is_that_of_the_regression():
    k, y = np.array([1, 2, 4, 8, 16]), np.array([1.0, 0.8, 0.3, 0.25, 0.1])
    fit = fit_power_law(k, y)
    slope, intercept = np.polyfit(np.log(k), np.log(y), 1)
    assert (fit.a, fit.b) == (pytest.approx(math.exp(intercept)), pytest.approx(-slope))
    assert fit.r2 == pytest.approx(np.corrcoef(np.log(k), np.log(y))[0, 1] ** 2)


def test_least_squares_default_grid_ends_at_the_smallest_n():
    n, x = simulate_counts(ScaledBeta(0.3, 2.0), 50, 1000, 0)
    fit = least_squares_fit(n, x)
    assert (fit.k_used[0], fit.k_used[-1]) == (1, 1000)
    n[3], x[3] = 300, 1
    assert least_squares_fit(n, x).k_used[-1] == 300
    assert least_squares_fit(n, x, extrapolate="official").k_used[-1] == 1000


def test_counts_that_cannot_say_give_a_status_and_nan():
    fit = least_squares_fit([10, 10], [0, 0])
    assert fit.status == "all_zero"
    assert math.isnan(fit.b)
    assert least_squares_fit([10, 10], [10, 10]).status == "too_few_points"
    assert least_squares_fit([1, 1], [0, 1]).status == "too_few_points"
    for name in ESTIMATORS:
        b, status = estimate_exponent(name, [10, 10], [0, 0])
        assert math.isnan(b)
        assert status == "all_zero"
    for family in ("beta", "kumaraswamy"):
        fitter = CompoundBinomialFitter(family).fit([10, 10], [0, 0])
        assert math.isnan(fitter.alpha_)
        assert all(math.isnan(value) for value in fitter.exponent("fitted"))
        assert np.isnan(fitter.predict([1, 2])).all()
        with pytest.raises(ValueError, match="all_zero"):
            fitter.distribution_  # noqa: B018


@pytest.mark.parametrize(("family", "law"), [("beta", ScaledBeta), ("kumaraswamy", ScaledKumaraswamy)])
def test_recovers_the_law_and_its_exponent(family, law):
    truth = law(0.3, 2.0, 0.5)
    n, x = simulate_counts(truth, 20_000, 1000, 3)
    fit = CompoundBinomialFitter(family, scale=0.5).fit(n, x)
    assert (fit.alpha_, fit.beta_) == (pytest.approx(0.3, rel=0.04), pytest.approx(2.0, rel=0.05))
    a, b = fit.exponent()
    assert (a, b) == (fit.distribution_.tail().constant, fit.alpha_)
    np.testing.assert_allclose(fit.predict([1, 1000]), 1 - truth.failure_at([1, 1000]), rtol=0.03)


def test_fitted_exponent_is_the_line_through_the_fitted_curve():
    fitted = FittedLaw("beta", 0.3, 2.0, 0.1, 0.0, "ok")
    k = np.unique(np.logspace(0, 4, 20).astype(int))
    line = fit_power_law(k, ScaledBeta(0.3, 2.0, 0.1).neg_log_pass(k))
    assert fitted.exponent("fitted") == (pytest.approx(line.a), pytest.approx(line.b))
    assert fitted.exponent("fitted", [10**6, 10**7])[1] == pytest.approx(0.3, abs=0.01)
    assert fitted.exponent("asymptotic")[1] == 0.3


@pytest.mark.parametrize("family", ["beta", "kumaraswamy"])
def test_fit_does_not_depend_on_order_merging_or_a_finer_grid(family):
    n, x = simulate_counts(ScaledBeta(0.3, 2.0, 0.5), 200, 500, 1)
    plain = CompoundBinomialFitter(family).fit(n, x)
    order = np.random.default_rng(0).permutation(200)
    rows_n, rows_x, weights = merge_counts(n, x)
    for other in (
        CompoundBinomialFitter(family).fit(n[order], x[order]),
        CompoundBinomialFitter(family).fit(rows_n, rows_x, weights),
        CompoundBinomialFitter(family, grid=6000).fit(n, x),
    ):
        assert other.nll_ == pytest.approx(plain.nll_, abs=1e-7)
        assert (other.alpha_, other.beta_) == (
            pytest.approx(plain.alpha_, rel=1e-4),
            pytest.approx(plain.beta_, rel=1e-4),
        )


def test_scale_rules():
    n, x = simulate_counts(ScaledKumaraswamy(0.15, 3.5, 0.8), 128, 10_000, 0)
    largest = (x / n).max()
    by_max = CompoundBinomialFitter("kumaraswamy").fit(n, x)
    profile = CompoundBinomialFitter("kumaraswamy", scale="profile").fit(n, x)
    assert by_max.scale_ == pytest.approx(largest * 129 / 128)
    assert largest <= profile.scale_ <= 1.0
    assert profile.nll_ <= by_max.nll_ + 1e-9
    for scale in (0.3, 0.6, 0.9):
        assert profile.nll_ <= CompoundBinomialFitter("kumaraswamy", scale=scale).fit(n, x).nll_ + 1e-6
    assert CompoundBinomialFitter("beta", scale="profile").fit([5, 5], [5, 1]).scale_ == 1.0
    assert CompoundBinomialFitter("beta").fit([5, 5], [5, 1]).scale_ == 1.0


def test_profile_scale_mends_the_bias_of_the_fixed_one_where_easy_problems_are_rare():
    errors = {"max": [], "profile": []}
    for seed in range(6):
        n, x = simulate_counts(ScaledKumaraswamy(0.15, 3.5, 0.8), 128, 10_000, seed)
        for scale, found in errors.items():
            found.append(abs(CompoundBinomialFitter("kumaraswamy", scale=scale).fit(n, x).alpha_ - 0.15) / 0.15)
    assert np.mean(errors["profile"]) < 0.75 * np.mean(errors["max"])


def test_extreme_counts_end_at_a_bound_and_do_not_hang():
    fit = CompoundBinomialFitter("beta").fit([10] * 5, [10] * 5)
    assert fit.status_ == "at_bound"
    assert math.isfinite(fit.nll_)


@pytest.mark.parametrize("family", ["beta", "kumaraswamy"])
def test_one_try_a_problem_identifies_no_law(family):
    n, x = np.ones(10, dtype=int), np.arange(10) == 3
    fit = CompoundBinomialFitter(family).fit(n, x.astype(int))
    assert fit.status_ == "not_identified"
    assert math.isnan(fit.alpha_)
    assert np.isnan(fit.predict([1, 2])).all()
    with pytest.raises(ValueError, match="not_identified"):
        fit.distribution_  # noqa: B018
    assert math.isnan(fit_compound_batch(n[None], x[None].astype(int), family=family)["alpha"][0])


def test_a_histogram_whose_left_bucket_holds_everything_identifies_no_law():
    fit = discretized_fit([10**6] * 5, [0, 3, 2, 1, 0])
    assert (fit.status, math.isnan(fit.alpha)) == ("not_identified", True)


def test_problems_of_weight_zero_do_not_count():
    n, x, none = [10, 10**6], [0, 5], [1.0, 0.0]
    assert least_squares_fit(n, x, weights=none).status == "all_zero"
    assert discretized_fit(n, x, weights=none).status == "all_zero"
    assert CompoundBinomialFitter().fit(n, x, none).status_ == "all_zero"
    assert least_squares_fit([20, 7], [5, 1], weights=none).b == least_squares_fit([20], [5]).b


def test_an_exponent_at_the_bound_does_not_overflow():
    fit = CompoundBinomialFitter("beta").fit([1000] * 5, [10] * 5)
    assert fit.status_ == "at_bound"
    assert fit.exponent()[1] == fit.alpha_


@pytest.mark.parametrize(("family", "law"), [("beta", ScaledBeta), ("kumaraswamy", ScaledKumaraswamy)])
def test_discretized_fit_recovers_the_exponent_from_many_tries(family, law):
    n, x = simulate_counts(law(0.4, 1.5), 4000, 100_000, 2)
    fit = discretized_fit(n, x, family)
    assert fit.status == "ok"
    assert fit.alpha == pytest.approx(0.4, rel=0.08)
    assert fit.scale == (x / n).max()
    # On a support that ends early the second shape tells whether the fit knows where it ends.
    fit = discretized_fit(*simulate_counts(law(0.4, 1.5, 0.3), 4000, 100_000, 2), family)
    assert (fit.alpha, fit.beta) == (pytest.approx(0.4, rel=0.08), pytest.approx(1.5, rel=0.15))
    assert fit.scale == pytest.approx(0.3, abs=0.01)


def test_discretized_fit_sees_the_left_bucket():
    # The same successes among many more hopeless problems: a steeper pile-up at 0, a smaller exponent.
    n, x = simulate_counts(ScaledBeta(0.4, 1.5), 500, 10_000, 0)
    padded = discretized_fit(np.append(n, [10_000] * 500), np.append(x, [0] * 500))
    assert padded.alpha < 0.7 * discretized_fit(n, x).alpha
    by_weight = discretized_fit(np.append(n, 10_000), np.append(x, 0), weights=np.append(np.ones(500), 500.0))
    assert by_weight.alpha == pytest.approx(padded.alpha, rel=1e-3)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_gives_both_exponents(name):
    n, x = simulate_counts(ScaledBeta(0.3, 2.0, 0.5), 128, 1000, 0)
    for kind in ("asymptotic", "fitted"):
        b, status = estimate_exponent(name, n, x, kind=kind)
        assert status == "ok"
        assert 0.1 < b < 0.7


def test_local_slopes_of_a_power_law_and_of_a_bend():
    k = np.arange(1, 101)
    np.testing.assert_allclose(local_slopes(k, 3.0 * k**-0.4, [1, 10, 100]), [0.4, 0.4], rtol=1e-9)
    assert np.diff(local_slopes(k, np.exp(-k / 20), [1, 10, 100]))[0] > 1


@pytest.mark.parametrize("family", ["beta", "kumaraswamy"])
def test_batched_fit_is_the_fit_of_each(family):
    sets = [
        simulate_counts(ScaledBeta(a, 3.5, c), 64, 300, i)
        for i, (a, c) in enumerate([(0.15, 0.8), (0.4, 0.1), (0.6, 1.0)])
    ]
    sets.append((np.full(64, 300), np.zeros(64, dtype=int)))
    n, x = (np.stack(column) for column in zip(*sets, strict=True))
    batch = fit_compound_batch(n, x, family=family, max_bytes=8 * 64 * 3000 * 2)
    for i in range(3):
        alone = CompoundBinomialFitter(family).fit(n[i], x[i])
        assert batch["nll"][i] == pytest.approx(alone.nll_, abs=1e-7)
        assert batch["alpha"][i] == pytest.approx(alone.alpha_, rel=1e-3)
        assert batch["beta"][i] == pytest.approx(alone.beta_, rel=1e-3)
        assert batch["scale"][i] == alone.scale_
    assert math.isnan(batch["alpha"][3])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_batched_fit_on_a_gpu_is_that_on_the_cpu():
    n, x = (
        np.stack(c)
        for c in zip(*(simulate_counts(ScaledBeta(0.2, 3.0, 0.5), 64, 300, i) for i in range(4)), strict=True)
    )
    there, here = (fit_compound_batch(n, x, device=device) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(there["alpha"], here["alpha"], rtol=1e-5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: fit_power_law([1, 2], [0.5, 0.0]), "at least two"),
        (lambda: fit_power_law([3, 3], [0.5, 0.4]), "at least two"),
        (lambda: fit_power_law([1, 2], [0.5, math.nan]), "y must not hold NaN, got one at index 1"),
        (lambda: fit_power_law([1, 2], [0.5]), "same length"),
        (lambda: fit_power_law([], []), "k must be a non-empty"),
        (lambda: CompoundBinomialFitter("gamma"), "family must be"),
        (lambda: CompoundBinomialFitter(scale=0.0), "scale must lie in"),
        (lambda: CompoundBinomialFitter(scale=1.5), "scale must lie in"),
        (lambda: CompoundBinomialFitter(scale="largest"), 'scale must be "max"'),
        (lambda: CompoundBinomialFitter(bounds=(0.0, 1.0)), "bounds must satisfy"),
        (lambda: CompoundBinomialFitter().fit([5], [6]), "successes"),
        (lambda: CompoundBinomialFitter().fit([5], [math.nan]), "successes"),
        (lambda: CompoundBinomialFitter().fit([5, 5], [1]), "same length"),
        (lambda: CompoundBinomialFitter().fit([], []), "non-empty"),
        (lambda: discretized_fit([5], [1], "gamma"), "family must be"),
        (lambda: discretized_fit([5], [1], resolution=0.0), "resolution must lie"),
        (lambda: discretized_fit([5], [1], resolution=1e-9), "resolution must lie"),
        (lambda: CompoundBinomialFitter(bounds=(0.1, 1e9)), "bounds must satisfy"),
        (lambda: CompoundBinomialFitter(bounds=(0.1, 1.0, 2.0)), "bounds must be a pair"),
        (lambda: CompoundBinomialFitter(bounds=3), "bounds must be a pair"),
        (lambda: CompoundBinomialFitter(grid=10), "grid must be at least 100"),
        (lambda: least_squares_fit([5], [0], extrapolate="x"), "extrapolate must be"),
        (lambda: estimate_exponent("least_squares", [5], [1], kind="x"), "kind must be"),
        (lambda: fit_power_law([1, 2], ["a", "b"]), "y must hold real numbers"),
        (lambda: fit_compound_batch([[5, 5]], [[1, 2]], bounds=(5.0, 1.0)), "bounds must satisfy"),
        (lambda: fit_compound_batch([[5, 5]], [[1, 2]], max_steps=0), "max_steps must be at least 1"),
        (lambda: fit_compound_batch([[5, 5]], [[1, 2]], max_bytes=-1), "max_bytes must be at least 1"),
        (lambda: discretized_fit([5], [6]), "successes"),
        (lambda: FittedLaw("beta", 1.0, 1.0, 1.0, 0.0, "ok").exponent("true"), "kind must be"),
        (lambda: estimate_exponent("mean", [5], [1]), "estimators must be among"),
        (lambda: local_slopes([1, 10], [1.0, 0.0], [1, 10]), "finite and positive"),
        (lambda: local_slopes([10, 1], [1.0, 0.5], [1, 10]), "k must be increasing"),
        (lambda: local_slopes([1, 10], [1.0, 0.5], [10, 1]), "edges must be at least two increasing"),
        (lambda: local_slopes([1, 10], [1.0, 0.5], [2, 9]), "k must be a non-empty"),
        (lambda: fit_compound_batch([5], [1]), r"\(S, P\)"),
        (lambda: fit_compound_batch([[5]], [[6]]), "successes"),
        (lambda: fit_compound_batch([[5.5]], [[1.0]]), r"n \(attempts\).*5.5 at index 0"),
        (lambda: fit_compound_batch([[5]], [[1]], family="gamma"), "family must be"),
    ],
)
def test_refuses(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_power_law_fit_says_ok():
    assert isinstance(fit_power_law([1, 2], [0.5, 0.4]), PowerLawFit)
    assert fit_power_law([1, 2], [0.5, 0.4]).status == "ok"


def test_line_through_a_uniform_law_is_near_one_over_k():
    k = np.unique(np.logspace(3, 6, 30).astype(int))
    assert fit_power_law(k, UniformZero(0.5).neg_log_pass(k)).b == pytest.approx(1.0, abs=1e-3)
    n, x = simulate_counts(UniformZero(0.5), 100_000, 200, 0)
    assert neg_log_pass(n, x, [100])[0] == pytest.approx(UniformZero(0.5).neg_log_pass(100)[0], rel=0.1)
