"""Laws of p: exact failure curves, leading constants, and the likelihoods built on them."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaln
from scipy.stats import betabinom

from icml25.theory.monkeys import (
    CompoundLikelihood,
    ContinuousBernoulli,
    PointMass,
    Reciprocal,
    ScaledBeta,
    ScaledKumaraswamy,
    UniformInterval,
    UniformZero,
    ZeroInflated,
    compound_logpmf,
    compound_negative_binomial_logpmf,
    fit_power_law,
    power_law_tail,
)

LAWS = [
    ScaledBeta(0.3, 2.5, 0.1),
    ScaledBeta(0.7, 0.8),
    ScaledKumaraswamy(0.3, 2.5, 0.4),
    UniformZero(0.5),
    UniformInterval(0.1, 0.4),
    ContinuousBernoulli(0.2),
    ContinuousBernoulli(0.5),
    Reciprocal(0.01, 0.3),
    PointMass(0.2),
    ZeroInflated(0.3, ScaledBeta(0.5, 2.0, 0.5)),
]
POWER_LAWS = [law for law in LAWS if law.tail() is not None]


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_failure_at_one_is_one_minus_the_mean_of_draws(law):
    p = law.rvs(200_000, 0)
    assert ((p >= 0) & (p <= 1)).all()
    for k in (1, 7):
        standard_error = np.std((1 - p) ** k) / math.sqrt(p.size)
        assert law.failure_at(k)[0] == pytest.approx(np.mean((1 - p) ** k), abs=5 * standard_error + 1e-12)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_density_integrates_to_the_distribution_function(law):
    edges = np.array([0.02, 0.05, 0.08])
    p = np.linspace(0.02, 0.08, 20_001)
    expected = np.diff(law.cdf(edges))
    got = [np.trapezoid(law.pdf(part), part) for part in (p[p <= 0.05 + 1e-12], p[p >= 0.05 - 1e-12])]
    assert got == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("law", [law for law in LAWS if not isinstance(law, PointMass | ZeroInflated)], ids=repr)
def test_quantiles_invert_the_distribution_function(law):
    q = np.linspace(0.05, 0.95, 19)
    np.testing.assert_allclose(law.cdf(law.ppf(q)), q, rtol=1e-9)


@settings(max_examples=50, deadline=None)
@given(a=st.floats(0.05, 5), b=st.floats(0.5, 5), c=st.floats(0.01, 1), q=st.floats(0.01, 0.99))
def test_kumaraswamy_quantiles_both_ways(a, b, c, q):
    law = ScaledKumaraswamy(a, b, c)
    p = float(law.ppf(q))
    assert float(law.cdf(p)) == pytest.approx(q, rel=1e-6)


@pytest.mark.parametrize(
    ("law", "expected"),
    [
        (ScaledBeta(0.3, 2.5, 0.1), [0.98928571, 0.90743869, 0.60374654, 0.31530474, 0.15869422]),
        (ScaledKumaraswamy(0.3, 2.5, 0.1), [0.99417223, 0.94828344, 0.74437548, 0.46276857, 0.25651653]),
    ],
)
def test_failure_known_values(law, expected):
    np.testing.assert_allclose(law.failure_at([1, 10, 100, 1000, 10_000]), expected, atol=1.1e-8)


@pytest.mark.parametrize(("a", "b", "c"), [(0.3, 2.5, 0.1), (0.01, 5.0, 0.7), (4.0, 0.2, 1.0)])
def test_scaled_beta_failure_is_the_hypergeometric_function(a, b, c):
    for k in (1, 30, 3000):
        with mpmath.workdps(60):
            exact = float(mpmath.hyp2f1(-k, a, a + b, c))
        assert ScaledBeta(a, b, c).failure_at(k)[0] == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize(("a", "b"), [(0.3, 2.5), (2.0, 3.0), (0.05, 10.0)])
def test_beta_failure_is_a_ratio_of_beta_functions_up_to_a_billion_tries(a, b):
    k = np.array([1, 100, 10**5, 10**9])
    np.testing.assert_allclose(ScaledBeta(a, b).failure_at(k), np.exp(betaln(a, b + k) - betaln(a, b)), rtol=1e-7)


def test_uniform_failure_closed_form_agrees_with_its_quadrature():
    k = np.array([1, 10, 1000])
    for law, general in ((UniformZero(0.5), ScaledBeta(1.0, 1.0, 0.5)), (UniformInterval(0.1, 0.4), None)):
        nodes = law.quadrature(3000)
        by_nodes = [np.exp(j * nodes.log_q) @ nodes.weight for j in k]
        np.testing.assert_allclose(law.failure_at(k), by_nodes, rtol=1e-9)
        if general is not None:
            np.testing.assert_allclose(law.failure_at(k), general.failure_at(k), rtol=1e-9)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_nodes_carry_a_whole_probability(law):
    assert law.quadrature(3000).weight.sum() == pytest.approx(1.0, abs=1e-9)


FIRST_ORDER = [law for law in POWER_LAWS if not isinstance(law, ScaledKumaraswamy)]


@pytest.mark.parametrize("law", [*FIRST_ORDER, ScaledBeta(0.01, 3.0, 0.2)], ids=repr)
def test_leading_constant(law):
    # The correction is of relative order 1 / (c k).
    ratio = law.failure_at([10**5, 10**8]) / law.tail()([10**5, 10**8])
    assert ratio == pytest.approx([1.0, 1.0], abs=1e-3)
    assert abs(ratio[1] - 1) < 1e-5


@pytest.mark.parametrize(("a", "c"), [(0.3, 0.1), (0.8, 1.0)])
def test_kumaraswamy_converges_only_as_k_to_the_minus_alpha(a, c):
    # At beta = 2 the density is two powers, a b c^-a p^(a-1) - a b c^-2a p^(2a-1): t = a in Thm 3.1, not 1.
    law, k = ScaledKumaraswamy(a, 2.0, c), np.array([10**5, 10**8])
    second = math.gamma(2 * a) / math.gamma(a) * (c * k) ** -a
    ratio = law.failure_at(k) / law.tail()(k)
    assert (np.abs(ratio / (1.0 - second) - 1.0) < np.array([1e-3, 1e-6])).all()


@pytest.mark.parametrize("law", [UniformInterval(0.1, 0.4), Reciprocal(0.05, 0.3), PointMass(0.1)], ids=repr)
def test_leading_term_without_a_power_law(law):
    assert law.tail() is None
    k = np.array([3000])
    assert (law.neg_log_pass(k) / law.leading_term(k))[0] == pytest.approx(1.0, abs=0.02)


def test_beta_constant_in_closed_form():
    tail = ScaledBeta(0.3, 2.5, 0.1).tail()
    assert tail.exponent == 0.3
    assert tail.constant == pytest.approx(0.1**-0.3 * math.gamma(2.8) / math.gamma(2.5), rel=1e-12)
    assert ScaledKumaraswamy(0.3, 2.0, 0.1).tail().constant == pytest.approx(
        0.1**-0.3 * 2.0 * math.gamma(1.3), rel=1e-12
    )
    assert ContinuousBernoulli(0.5).tail().constant == pytest.approx(1.0)
    assert ContinuousBernoulli(0.2).tail().constant == pytest.approx(2 * math.atanh(0.6) / 0.6 * 0.8, rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(b=st.floats(0.1, 2.0), coefficient=st.floats(0.01, 10))
def test_general_constant_is_the_coefficient_times_gamma(b, coefficient):
    assert power_law_tail(b, coefficient).constant == pytest.approx(coefficient * math.gamma(b))


def test_point_mass_is_an_exponential():
    law = PointMass(0.01)
    k = np.array([500, 1500])
    slope = np.diff(np.log(law.neg_log_pass(k)))[0] / 1000
    assert slope == pytest.approx(math.log(0.99), rel=2e-3)


def test_excess_zeros_make_a_plateau_and_no_power_law():
    law = ZeroInflated(0.3, ScaledBeta(0.5, 2.0, 0.5))
    assert law.tail() is None
    assert law.neg_log_pass(10**9)[0] == pytest.approx(law.plateau, rel=1e-3)
    assert ZeroInflated(0.0, law.base).tail() == law.base.tail()
    assert law.ppf([0.1, 0.3]).tolist() == [0.0, 0.0]


CASES = [(0.3, 2.0, 0.1, 100, 3), (0.15, 3.5, 0.8, 1000, 0), (0.3, 2.0, 0.3, 100, 7), (0.05, 5.0, 0.1, 1000, 3)]


@pytest.mark.parametrize(
    ("case", "expected"), list(zip(CASES, [-2.83268120, -0.83411522, -3.61589539, -4.29742502], strict=True))
)
def test_beta_binomial_known_values(case, expected):
    a, b, c, n, x = case
    assert compound_logpmf(n, [x], ScaledBeta(a, b, c))[0] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(("case", "expected"), list(zip(CASES[:2], [-3.18642007, -0.27359457], strict=True)))
def test_kumaraswamy_binomial_known_values(case, expected):
    a, b, c, n, x = case
    assert compound_logpmf(n, [x], ScaledKumaraswamy(a, b, c))[0] == pytest.approx(expected, abs=1e-8)


def exact_beta_binomial(n, x, a, b, c, dps=60):
    with mpmath.workdps(dps):
        a, b, c = mpmath.mpf(a), mpmath.mpf(b), mpmath.mpf(c)
        mixture = c**x * mpmath.beta(x + a, b) / mpmath.beta(a, b) * mpmath.hyp2f1(-(n - x), x + a, x + a + b, c)
        return float(mpmath.log(mpmath.binomial(n, x) * mixture))


@pytest.mark.parametrize(
    ("a", "b", "c"), [(0.3, 2.0, 0.1), (0.01, 100.0, 1.0), (100.0, 0.01, 0.5), (0.01, 0.01, 0.9), (3.0, 5.0, 0.05)]
)
def test_beta_binomial_against_sixty_digits(a, b, c):
    for n, x in ((1, 0), (1, 1), (12, 5), (40, 40), (40, 0), (300, 2)):
        got = compound_logpmf(n, [x], ScaledBeta(a, b, c))[0]
        assert got == pytest.approx(exact_beta_binomial(n, x, a, b, c), abs=2e-6, rel=2e-6)


@pytest.mark.parametrize(("a", "b", "c"), [(0.3, 2.0, 0.1), (0.05, 4.0, 1.0), (2.0, 0.5, 0.6)])
def test_kumaraswamy_binomial_against_adaptive_quadrature(a, b, c):
    for n, x in ((1, 1), (12, 5), (40, 0)):
        with mpmath.workdps(30):

            def integrand(v, x=x, n=n):  # with z^a = v the density of v is b (1 - v)^(b - 1): no singularity at 0
                p = c * v ** (1 / mpmath.mpf(a))
                return b * (1 - v) ** (mpmath.mpf(b) - 1) * p**x * (1 - p) ** (n - x)

            exact = mpmath.binomial(n, x) * mpmath.quad(integrand, [0, 0.25, 0.5, 0.75, 0.9, 0.99, 1])
        got = compound_logpmf(n, [x], ScaledKumaraswamy(a, b, c))[0]
        assert got == pytest.approx(float(mpmath.log(exact)), abs=1e-6)


@pytest.mark.parametrize("n", [10_000, 100_000])
def test_the_grid_rule_resolves_the_peak_of_many_tries(n):
    a, b = 0.3, 2.0
    x = np.array([0, 1, n // 100, n // 2, n - 1, n])
    np.testing.assert_allclose(compound_logpmf(n, x, ScaledBeta(a, b)), betabinom.logpmf(x, n, a, b), atol=1e-6)


def test_too_coarse_a_grid_is_seen_to_be_wrong():
    exact = betabinom.logpmf(50_000, 100_000, 0.3, 2.0)
    assert abs(compound_logpmf(100_000, [50_000], ScaledBeta(0.3, 2.0), grid=3000)[0] - exact) > 1e-3


@settings(max_examples=40, deadline=None)
@given(a=st.floats(0.02, 20), b=st.floats(0.02, 20), n=st.integers(1, 60))
def test_without_a_scale_it_is_the_ordinary_beta_binomial(a, b, n):
    x = np.arange(n + 1)
    np.testing.assert_allclose(
        compound_logpmf(n, x, ScaledBeta(a, b)), betabinom.logpmf(x, n, a, b), atol=1e-6, rtol=1e-6
    )


@settings(max_examples=40, deadline=None)
@given(
    law=st.sampled_from([ScaledBeta, ScaledKumaraswamy]),
    a=st.floats(0.02, 10),
    b=st.floats(0.02, 10),
    c=st.sampled_from([0.05, 0.5, 1.0]),
    w=st.floats(0, 0.9),
    n=st.integers(1, 60),
)
def test_probabilities_sum_to_one(law, a, b, c, w, n):
    for dist in (law(a, b, c), ZeroInflated(w, law(a, b, c))):
        assert np.exp(compound_logpmf(n, np.arange(n + 1), dist)).sum() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_every_law_has_a_likelihood_whose_zero_class_is_its_failure_curve(law):
    for n in (1, 20, 400):
        assert math.exp(compound_logpmf(n, [0], law)[0]) == pytest.approx(law.failure_at(n)[0], rel=1e-8)


def test_excess_zeros_mix_the_likelihood():
    base = ScaledBeta(0.3, 2.0, 0.3)
    x = np.arange(11)
    mixed = 0.25 * (x == 0) + 0.75 * np.exp(compound_logpmf(10, x, base))
    np.testing.assert_allclose(np.exp(compound_logpmf(10, x, ZeroInflated(0.25, base))), mixed, rtol=1e-9)


def test_impossible_counts_have_no_probability_and_improbable_ones_keep_their_logarithm():
    assert compound_logpmf(5, [1], PointMass(0.0))[0] == -math.inf
    assert compound_logpmf(5, [5, 0], PointMass(1.0)).tolist() == [0.0, -math.inf]
    far = compound_logpmf(100_000, [0], ScaledBeta(100.0, 0.01))[0]
    assert far == pytest.approx(betabinom.logpmf(0, 100_000, 100.0, 0.01), rel=1e-6)


@pytest.mark.parametrize(("a", "b", "c", "r"), [(0.3, 2.0, 0.1, 1), (0.3, 2.0, 1.0, 3), (1.5, 0.7, 0.5, 2)])
def test_beta_negative_binomial_against_sixty_digits(a, b, c, r):
    for x in (0, 1, 17, 300):
        with mpmath.workdps(60):
            mixture = (
                mpmath.mpf(c) ** r * mpmath.beta(r + a, b) / mpmath.beta(a, b) * mpmath.hyp2f1(-x, r + a, r + a + b, c)
            )
            exact = float(mpmath.log(mpmath.binomial(x + r - 1, x) * mixture))
        got = compound_negative_binomial_logpmf(r, [x], ScaledBeta(a, b, c))[0]
        assert got == pytest.approx(exact, abs=1e-6)


def test_negative_binomial_probabilities_sum_to_one():
    # alpha = 3: the tail beyond 4000 failures weighs about 1e-9.
    total = np.exp(compound_negative_binomial_logpmf(1, np.arange(4000), ScaledBeta(3.0, 2.0))).sum()
    assert total == pytest.approx(1.0, abs=1e-6)


def test_stopping_changes_the_likelihood_by_a_constant_only():
    x, r = np.array([3, 40, 200]), 2
    for law in (ScaledBeta(0.3, 2.0, 0.5), ScaledKumaraswamy(0.9, 1.0)):
        gap = compound_logpmf(x + r, np.full(3, r), law) - compound_negative_binomial_logpmf(r, x, law)
        expected = np.log((x + r) / r)  # C(x + r, r) / C(x + r - 1, x)
        np.testing.assert_allclose(gap, expected, rtol=1e-9)


@pytest.mark.parametrize("family", ["beta", "kumaraswamy"])
@settings(max_examples=25, deadline=None)
@given(
    a=st.floats(0.02, 5),
    b=st.floats(0.05, 20),
    scale=st.sampled_from([0.2, 0.9, 1.0]),
    rows=st.lists(st.tuples(st.integers(1, 500), st.floats(0, 1)), min_size=1, max_size=6),
)
def test_gradient_against_finite_differences(family, a, b, scale, rows):
    n = np.array([row[0] for row in rows])
    x = np.floor(n * np.array([row[1] for row in rows])).astype(int)
    likelihood = CompoundLikelihood(n, x, family=family, scale=scale)
    value, gradient = likelihood.value_and_gradient(a, b)
    assert value == pytest.approx(likelihood.value(a, b), rel=1e-12)
    step = 1e-5
    numeric = [
        (likelihood.value(a * (1 + step), b) - likelihood.value(a * (1 - step), b)) / (2 * a * step),
        (likelihood.value(a, b * (1 + step)) - likelihood.value(a, b * (1 - step))) / (2 * b * step),
    ]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-6 * max(1.0, abs(value)))


@pytest.mark.parametrize("family", ["beta", "kumaraswamy"])
def test_likelihood_is_that_of_the_law_in_any_order_merged_or_in_small_blocks(family):
    rng = np.random.default_rng(1)
    n, x = np.full(300, 50), rng.integers(0, 8, 300)
    law = (ScaledBeta if family == "beta" else ScaledKumaraswamy)(0.4, 2.0, 0.5)
    direct = -compound_logpmf(n, x, law).mean()
    order = rng.permutation(300)
    values, weights = np.unique(x, return_counts=True)
    variants = [
        CompoundLikelihood(n[order], x[order], family=family, scale=0.5),
        CompoundLikelihood(50 + 0 * values, values, weights=weights, family=family, scale=0.5),
        CompoundLikelihood(n, x, family=family, scale=0.5, max_bytes=50_000),
        CompoundLikelihood(n, x, family=family, scale=0.5, grid=6000),
    ]
    for variant in variants:
        assert variant.value(0.4, 2.0) == pytest.approx(direct, abs=1e-9)
        assert variant.value_and_gradient(0.4, 2.0)[0] == pytest.approx(direct, abs=1e-9)


@pytest.mark.parametrize(("lo", "hi"), [(0.0, 1e-12), (0.0, 1e-300), (0.2, 0.2 + 1e-10), (0.9, 1.0), (0.1, 0.7)])
def test_uniform_failure_does_not_cancel_on_a_narrow_interval(lo, hi):
    with mpmath.workdps(400):
        for k in (1, 10, 1000):
            top, bottom = 1 - mpmath.mpf(lo), 1 - mpmath.mpf(hi)
            exact = float((top ** (k + 1) - bottom ** (k + 1)) / ((top - bottom) * (k + 1)))
            assert UniformInterval(lo, hi).failure_at(k)[0] == pytest.approx(exact, rel=1e-11, abs=0)


@pytest.mark.parametrize("shape", [1e2, 1e4, 1e5, 1e6])
def test_a_narrow_beta_law_is_resolved(shape):
    for a, b in ((shape, shape), (shape, 0.5), (0.3, shape), (3 * shape / 4, shape)):
        exact = np.exp(betaln(a, b + np.array([1, 10])) - betaln(a, b))
        np.testing.assert_allclose(ScaledBeta(a, b).failure_at([1, 10]), exact, rtol=1e-6)


@pytest.mark.parametrize(
    ("law", "n", "x"),
    [
        (UniformInterval(1e-4, 1.0), 10_000, 3),
        (UniformInterval(1e-4, 1.0), 10_000, 9999),
        (UniformInterval(1e-4, 1.0), 10_000, 5000),
        (Reciprocal(1e-4, 0.9999), 10**6, 5 * 10**5),
        (UniformInterval(0.1, 0.99999), 10_000, 9990),
        (Reciprocal(1e-4, 0.9999), 10_000, 9990),
        (Reciprocal(1e-5, 0.999999), 10**6, 10**6 - 5),
    ],
)
def test_a_support_away_from_zero_resolves_counts_near_its_ends(law, n, x):
    centre, width = x / n, math.sqrt(max(x * (n - x), n) / n) / n
    edges = [law.lo, *np.clip(centre + width * np.arange(-14, 15, 2), law.lo, law.hi), law.hi]
    with mpmath.workdps(40):
        norm = mpmath.log(law.hi / mpmath.mpf(law.lo)) if isinstance(law, Reciprocal) else mpmath.mpf(law.hi) - law.lo

        def integrand(p):
            density = 1 / (p * norm) if isinstance(law, Reciprocal) else 1 / norm
            return p**x * (1 - p) ** (n - x) * density

        exact = float(mpmath.log(mpmath.binomial(n, x) * mpmath.quad(integrand, sorted(set(edges)))))
    assert compound_logpmf(n, [x], law)[0] == pytest.approx(exact, abs=1e-6)


def test_a_shape_at_its_bound_has_a_tail_even_where_the_constant_overflows():
    tail = ScaledBeta(100.0, 100.0, 1e-3).tail()
    assert (tail.exponent, tail.constant) == (100.0, math.inf)
    assert power_law_tail(200.0, 1.0).constant == math.inf


def test_excess_zeros_of_excess_zeros_add_up():
    law = ZeroInflated(0.3, ZeroInflated(0.2, PointMass(0.5)))
    assert law.plateau == pytest.approx(law.neg_log_pass(5000)[0])
    assert ZeroInflated(0.3, PointMass(0.0)).plateau == math.inf


def test_continuous_bernoulli_at_the_ends_of_its_range():
    law = ContinuousBernoulli(1e-300)  # nearly exponential with rate -log(lam)
    rate = 300 * math.log(10)
    assert law.failure_at(1)[0] == pytest.approx(1 - 1 / rate, rel=1e-9)
    assert law.ppf([0.0, 1.0]).tolist() == [0.0, 1.0]
    levels = np.array([0.25, 0.5])
    ContinuousBernoulli(0.5).ppf(levels)[:] = 7.0
    assert levels.tolist() == [0.25, 0.5]


def test_end_masses_are_needed():
    # Three quarters of this law lie below the grid; without them P(x = 0) would be near 0.24.
    assert math.exp(compound_logpmf(100, [0], ScaledBeta(0.01, 5.0))[0]) == pytest.approx(
        math.exp(betabinom.logpmf(0, 100, 0.01, 5.0)), rel=1e-8
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ScaledBeta(0.0, 1.0), "alpha must be positive"),
        (lambda: ScaledBeta(1.0, -1.0), "beta must be positive"),
        (lambda: ScaledKumaraswamy(math.nan, 1.0), "alpha must be positive"),
        (lambda: ScaledBeta(1.0, 1.0, 0.0), r"scale must lie in \(0, 1\]"),
        (lambda: ScaledBeta(1.0, 1.0, 1.1), r"scale must lie in \(0, 1\]"),
        (lambda: UniformZero(1.5), "0 <= lo < hi <= 1"),
        (lambda: ContinuousBernoulli(1.0), "lam must lie"),
        (lambda: Reciprocal(0.0, 0.5), "0 < lo < hi < 1"),
        (lambda: PointMass(-0.1), "p must lie"),
        (lambda: ZeroInflated(1.0, PointMass(0.5)), "w must lie"),
        (lambda: UniformZero(0.5).rvs(0, 0), "size must be at least 1"),
        (lambda: UniformZero(0.5).rvs(3.5, 0), "size must be an integer, got 3.5"),
        (lambda: ScaledBeta(0.3, 2.0).pdf([0.1, math.nan]), "p must not be NaN"),
        (lambda: Reciprocal(0.1, 0.3).cdf(["a"]), "p must hold real numbers"),
        (lambda: ScaledBeta(1e7, 2.0).failure_at(1), "at most 1e6"),
        (lambda: UniformZero(0.5).tail()([0]), "k must be positive"),
        (lambda: compound_logpmf(10**14, [3], ScaledBeta(0.3, 2.0)), "quadrature of 280000000 points"),
        (lambda: compound_logpmf(5, [1], UniformZero(0.5), grid=1000.5), "grid must be an integer"),
        (lambda: compound_logpmf(5, [1], UniformZero(0.5), grid=10**12), "grid must be at most"),
        (lambda: compound_negative_binomial_logpmf(2, [True], UniformZero(0.5)), "failures must hold integer counts"),
        (lambda: compound_negative_binomial_logpmf(1.5, [2.5], UniformZero(0.5)), "failures must hold finite integers"),
        (lambda: compound_negative_binomial_logpmf(math.nan, [2], UniformZero(0.5)), "successes must hold finite"),
        (lambda: CompoundLikelihood([5], [1]).value(math.nan, 2.0), r"alpha and beta must lie in \[1e-6, 1000\]"),
        (lambda: CompoundLikelihood([5], [1]).value_and_gradient(1e5, 2.0), "alpha and beta must lie"),
        (lambda: CompoundLikelihood([5], [1], max_bytes=-5), "max_bytes must be at least 1"),
        (lambda: UniformZero(0.5).ppf([1.2]), "q must lie"),
        (lambda: UniformZero(0.5).failure_at(0), "k must be at least 1"),
        (lambda: power_law_tail(0.0, 1.0), "exponent must be positive"),
        (lambda: compound_logpmf(5, [6], UniformZero(0.5)), "successes"),
        (lambda: compound_logpmf(5, [1], UniformZero(0.5), grid=10), "grid must be at least"),
        (lambda: compound_negative_binomial_logpmf(0, [1], UniformZero(0.5)), "successes must be at least 1"),
        (lambda: compound_negative_binomial_logpmf(1, [-1], UniformZero(0.5)), "failures must be at least 0"),
        (lambda: compound_negative_binomial_logpmf([1, 2], [1], UniformZero(0.5)), "same length"),
        (lambda: CompoundLikelihood([5], [1], family="gamma"), "family must be"),
        (lambda: CompoundLikelihood([5], [1], scale=2.0), "scale must lie"),
    ],
)
def test_refuses(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    "build",
    [
        lambda: ScaledBeta("a", 1.0),
        lambda: ScaledBeta(np.array([1.0, 2.0]), 1.0),
        lambda: ScaledKumaraswamy(1.0, 1.0, True),
        lambda: PointMass(None),
        lambda: ContinuousBernoulli("half"),
        lambda: CompoundLikelihood([5], [1], scale="a"),
    ],
)
def test_refuses_a_parameter_that_is_no_number(build):
    with pytest.raises(TypeError, match="must be a number, got"):
        build()


def test_refuses_something_that_is_no_law():
    with pytest.raises(TypeError, match="base must be a law"):
        ZeroInflated(0.3, "beta")
    with pytest.raises(TypeError, match="dist must be a law"):
        compound_logpmf(5, [1], betabinom)


def test_inversion_theorem_reads_the_density_off_the_curve():
    k = np.unique(np.logspace(7, 9, 20).astype(np.int64))
    law = ScaledBeta(0.6, 2.0, 0.5)
    line = fit_power_law(k, law.neg_log_pass(k))
    p = np.logspace(-7, -5, 5)
    ratio = law.pdf(p) / p ** (line.b - 1) / (line.a / math.gamma(line.b))
    np.testing.assert_allclose(ratio, 1.0, atol=0.03)
