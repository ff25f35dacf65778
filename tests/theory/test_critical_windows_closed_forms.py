"""Closed-form windows against their known values, against enumeration, and against direct integrals."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom, norm

from icml25.theory.critical_windows import (
    AutoregressiveTruncation,
    DiscreteMixture,
    branching_mixture,
    concept_walk_affinity,
    critical_window,
    gaussian_mixture_posterior,
    in_context_affinity,
    in_context_examples,
    masked_diracs_same,
    random_means_width_limit,
    random_walk_same_mode,
    random_walk_tv,
    speciation_time,
    theorem2_bound,
    two_gaussian_distance,
    two_gaussian_monte_carlo,
    two_gaussian_same_mode,
    two_gaussian_tv,
    window_concept_walk,
    window_masked_diracs,
    window_random_means,
    window_random_walk,
    window_two_gaussians,
)

many = settings(max_examples=60, deadline=None, derandomize=True)


# Two Gaussians --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "ends"),
    [("exact", (2.0496, 4.3687)), ("paper", (1.6317, 5.9915)), ("hellinger", (2.3137, 5.9915))],
)
def test_two_gaussians_known_values(form, ends):
    window = window_two_gaussians(20.0, 0.1, form=form)
    assert (window.t_after, window.t_before) == pytest.approx(ends, abs=5e-5)


@many
@given(mu=st.floats(5.0, 1e4), eps=st.floats(0.02, 0.4), weight=st.floats(0.1, 0.55))
def test_exact_ends_solve_definition_4(mu, eps, weight):
    window = window_two_gaussians(mu, eps, form="exact", weight=weight)
    assert two_gaussian_tv(mu, window.t_after, complement=True) == pytest.approx(eps**2, rel=1e-8)
    assert (1 - weight) * two_gaussian_tv(mu, window.t_before) == pytest.approx(eps, rel=1e-8)
    if eps < 0.3:
        paper = window_two_gaussians(mu, eps)
        assert paper.t_after <= window.t_after
        assert paper.t_before >= window.t_before


def test_printed_end_is_conservative_only_for_small_eps():
    below, above = ([window_two_gaussians(9.0, e, form=f).t_after for f in ("paper", "exact")] for e in (0.305, 0.307))
    assert below[0] < below[1]
    assert above[0] > above[1]


def test_width_is_free_of_the_means_distance():
    widths = [window_two_gaussians(mu, 0.1, form="exact").width for mu in (5.0, 20.0, 100.0)]
    assert widths == pytest.approx([2.3192] * 3, abs=5e-5)
    assert np.ptp(widths) < 1e-12


def test_total_variation_is_the_integral():
    for mu, t in [(1.0, 0.0), (3.0, 1.2), (5.0, 2.0)]:
        m = mu * math.exp(-t)
        direct = 0.5 * quad(lambda x, m=m: abs(norm.pdf(x - m) - norm.pdf(x + m)), -20, 20, limit=200, points=[0])[0]
        assert two_gaussian_tv(mu, t) == pytest.approx(direct, abs=1e-8)
    assert 0.0 < two_gaussian_tv(20.0, 0.5, complement=True) < 1e-30, "1 - TV keeps its digits in the tail"


def test_overlapping_gaussians_have_no_window():
    window = window_two_gaussians(0.5, 0.1, form="exact")
    assert not window.exists
    assert math.isnan(window.t_after)


@pytest.mark.parametrize(("eps", "near_component", "near_mixture"), [(0.1, 0.00764, 0.0302), (0.3, 0.0671, 0.2226)])
def test_theorem2_left_hand_sides_at_the_exact_ends(eps, near_component, near_mixture):
    window = window_two_gaussians(8.0, eps, form="exact")
    at_after = two_gaussian_distance(8.0, window.t_after)
    at_before = two_gaussian_distance(8.0, window.t_before, "mixture")
    assert at_after == pytest.approx(near_component, abs=5e-5)
    assert at_before == pytest.approx(near_mixture, abs=5e-5)
    assert at_after <= eps**2 - eps**4 / 2 <= eps / math.sqrt(2)
    assert at_before <= eps


@pytest.mark.parametrize("weight", [0.5, 0.2, 0.9])
def test_distance_is_the_posterior_leak_for_far_modes(weight):
    # Far apart, p^{+,t} puts P(same) on the start's mode, so its distance from p^+ is 1 - P(same).
    for t in (1.0, 2.0, 3.0):
        same = two_gaussian_same_mode(10.0, t, weight=weight)
        assert two_gaussian_distance(10.0, t, weight=weight) == pytest.approx(1 - same, abs=1e-7)
        gap = two_gaussian_distance(10.0, t, "mixture", weight=weight)
        # Within a mode the restored sample still remembers a little of x, so here the mode's share is a lower bound.
        assert same - weight - 1e-9 <= gap <= same - weight + 1e-4


def test_theorem2_holds_with_unequal_weights():
    for weight in (0.1, 0.3, 0.8):
        ratio = (1 - weight) / weight
        for t in (0.5, 1.0, 1.5):
            eps = math.sqrt(two_gaussian_tv(8.0, t, complement=True))
            lhs = two_gaussian_distance(8.0, t, weight=weight)
            # S_init = S_target, so only the leak term of the sharp bound is left.
            assert lhs <= theorem2_bound(eps, ratio, form="sharp") - eps + 1e-9


def test_same_mode_probability():
    t = np.log(5.0) + np.array([-0.57, 0.14, 0.86])
    assert two_gaussian_same_mode(5.0, t) == pytest.approx([0.9427, 0.7313, 0.5773], abs=1.5e-3)
    direct = [quad(lambda z, m=m: norm.pdf(z) / (1 + math.exp(-2 * m * (m + z))), -12, 12)[0] for m in 5.0 * np.exp(-t)]
    assert two_gaussian_same_mode(5.0, t) == pytest.approx(direct, abs=1e-9)
    assert two_gaussian_same_mode(5.0, 0.0) == pytest.approx(1.0, abs=1e-6)
    assert two_gaussian_same_mode(5.0, math.inf, weight=0.3) == pytest.approx(0.3)


@pytest.mark.parametrize(("d", "weight"), [(1, 0.5), (64, 0.3)])
def test_monte_carlo_in_d_dimensions_agrees(d, weight):
    mu = np.full(d, 5.0 / math.sqrt(d))
    for t in (math.log(5.0) - 0.57, math.log(5.0) + 0.86):
        share, error = two_gaussian_monte_carlo(mu, t, 4000, seed=1, weight=weight, chunk_bytes=2**16)
        assert abs(share - two_gaussian_same_mode(5.0, t, weight=weight)) < 4 * error


def test_monte_carlo_is_reproducible():
    args = (np.ones(3), 1.0, 500)
    assert two_gaussian_monte_carlo(*args, seed=3) == two_gaussian_monte_carlo(*args, seed=3)
    assert two_gaussian_monte_carlo(*args, seed=3) != two_gaussian_monte_carlo(*args, seed=4)


def test_speciation_time_lies_inside_the_window():
    for mu in (5.0, 50.0):
        window = window_two_gaussians(mu, 0.1, form="exact")
        assert window.t_after < speciation_time(1 + mu**2) < window.t_before
        assert speciation_time(1 + mu**2) == pytest.approx(math.log(mu), abs=1 / mu)


# Posterior of a Gaussian mixture --------------------------------------------------------------------------------------


@many
@given(seed=st.integers(0, 10**6), t=st.floats(0.01, 5.0), var=st.floats(0.0, 2.0))
def test_posterior_is_bayes_rule(seed, t, var):
    rng = np.random.default_rng(seed)
    means, y, weights = rng.normal(size=(4, 3)), rng.normal(size=(5, 3)), rng.dirichlet(np.ones(4))
    spread = math.exp(-2 * t) * var + 1 - math.exp(-2 * t)
    joint = weights * np.exp(-np.square(y[:, None] - math.exp(-t) * means).sum(-1) / (2 * spread))
    assert gaussian_mixture_posterior(y, t, means, weights, var) == pytest.approx(
        joint / joint.sum(1, keepdims=True), abs=1e-9
    )


def test_posterior_in_chunks_is_the_same_and_never_overflows():
    rng = np.random.default_rng(0)
    means, y = 100 * rng.normal(size=(50, 8)), 100 * rng.normal(size=(200, 8))
    whole = gaussian_mixture_posterior(y, 0.01, means)
    assert np.isfinite(whole).all()
    assert whole.sum(1) == pytest.approx(1.0)
    out = np.empty_like(whole)
    assert gaussian_mixture_posterior(y, 0.01, means, out=out, chunk_bytes=8 * 50 * 7) is out
    assert out == pytest.approx(whole, abs=1e-12)
    assert gaussian_mixture_posterior(y[3], 0.01, means) == pytest.approx(whole[3], abs=1e-12)


def test_posterior_at_the_ends():
    means, weights = np.array([[1.0], [-1.0], [0.0]]), np.array([0.2, 0.8, 0.0])
    assert gaussian_mixture_posterior([[0.4]], math.inf, means, weights) == pytest.approx(weights[None])
    assert gaussian_mixture_posterior([[9.0]], 1.0, means, weights)[0, 2] == 0.0


# Random means ---------------------------------------------------------------------------------------------------------


def test_random_means_width_goes_to_its_limit():
    rng = np.random.default_rng(0)
    widths = {}
    for d in (8, 512, 8192):
        means = rng.standard_normal((8, d))
        widths[d] = np.mean([window_random_means(means, i, 0.1).width for i in range(8)])
    assert widths[8] > widths[512] > widths[8192] > random_means_width_limit(8, 0.1)
    assert widths[8192] == pytest.approx(4.08106, abs=0.05)


def test_random_means_by_hand():
    window = window_random_means([[0.0, 0.0], [30.0, 40.0], [0.0, 10.0]], 0, 0.1)
    assert window.t_before == pytest.approx(math.log(50.0) + math.log(10.0))
    assert window.t_after == pytest.approx(math.log(10.0) - 0.5 * math.log(8 * math.log(30.0)))
    close = window_random_means([[0.0], [1.0]], 0, 0.1)
    assert not close.exists
    assert close.t_after == pytest.approx(-0.5 * math.log(8 * math.log(20.0)))


# Masked strings -------------------------------------------------------------------------------------------------------


def test_masked_strings_known_values():
    paper = window_masked_diracs(16, 0.1)
    assert (paper.t_after, paper.t_before) == pytest.approx((0.749894, 0.993437), abs=5e-7)
    scaled = [h * window_masked_diracs(h, 0.1).width for h in (4, 16, 64, 256)]
    assert scaled == pytest.approx([2.631, 3.897, 4.338, 4.459], abs=5e-4)
    assert 10**7 * window_masked_diracs(10**7, 0.1).width == pytest.approx(math.log(0.9 / 0.01), rel=1e-5)


@pytest.mark.parametrize("weight", [0.5, 0.2, 0.6])
def test_masked_strings_exact_ends_solve_definition_4(weight):
    for h in (1, 5, 100):
        window = window_masked_diracs(h, 0.2, form="exact", weight=weight)
        assert (1 - weight) * (1 - window.t_before**h) == pytest.approx(0.2)
        assert 1 - window.t_after**h == pytest.approx(1 - 0.04)


def test_masked_strings_return_probability():
    assert masked_diracs_same(4, [0.0, 0.5, 1.0]) == pytest.approx([1.0, 1 - 0.5**5, 0.5])
    assert masked_diracs_same(3, 1.0, weight=0.2) == pytest.approx(0.2)


# Random walk ----------------------------------------------------------------------------------------------------------


def test_random_walk_known_values():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        paper = window_random_walk(5000, 0.05, 0.01)
    assert math.ceil(5000 - paper.t_after) == 1981
    assert 5000 - window_random_walk(5000, 0.05, 0.01, form="exact").t_after == 1507
    # The printed T_before is not Definition 4's: the TV there is between eps and 3 eps.
    assert random_walk_tv(12, 0.004) == pytest.approx(0.0217, abs=5e-5)


@pytest.mark.parametrize("delta", [0.004, 0.1, 0.45])
def test_random_walk_tv_is_the_binomial_sum(delta):
    for n in (0, 1, 2, 3, 12, 101):
        k = np.arange(n + 1)
        direct = 0.5 * np.abs(binom.pmf(k, n, 0.5 + delta) - binom.pmf(k, n, 0.5 - delta)).sum()
        assert random_walk_tv(n, delta) == pytest.approx(direct, abs=1e-12)
        assert random_walk_tv(n, delta, complement=True) == pytest.approx(1 - direct, abs=1e-12)
    assert (np.diff(random_walk_tv(np.arange(50), delta)) >= -1e-15).all()


@pytest.mark.parametrize("weight", [0.5, 0.25])
def test_random_walk_window_equals_the_enumerated_one(weight):
    length, delta = 9, 0.3
    up = np.array([1.0])
    for _ in range(length):
        up = np.kron(up, [0.5 - delta, 0.5 + delta])
    mix = DiscreteMixture([weight, 1 - weight], np.stack([up, up[::-1]]), 2, length)
    for eps in (0.3, 0.45):
        enumerated = critical_window(mix, AutoregressiveTruncation(length, 2), [0], [0, 1], eps)
        exact = window_random_walk(length, delta, eps, form="exact", weight=weight)
        assert (exact.t_after, exact.t_before) == (enumerated.t_after, enumerated.t_before)
        assert exact.exists


def test_random_walk_returns_to_its_mode():
    from icml25.theory.critical_windows import observed_law, posterior_features

    length, delta, weight = 6, 0.2, 0.3
    up = np.array([1.0])
    for _ in range(length):
        up = np.kron(up, [0.5 - delta, 0.5 + delta])
    mix = DiscreteMixture([weight, 1 - weight], np.stack([up, up[::-1]]), 2, length)
    proc = AutoregressiveTruncation(length, 2)
    same = random_walk_same_mode(np.arange(length + 1), delta, weight=weight)
    for n in range(length + 1):
        expected = observed_law(mix, proc, [0], length - n) @ posterior_features(mix, proc, length - n)[:, 0]
        assert same[n] == pytest.approx(expected, abs=1e-12)


def test_random_walk_width_is_free_of_the_length_and_of_order_one_over_delta_squared():
    widths = [window_random_walk(length, 0.02, 0.015, form="exact").width for length in (20_000, 200_000)]
    assert widths[0] == widths[1]
    deltas = np.array([0.004, 0.009, 0.02])
    fewest = [500_000 - window_random_walk(500_000, d, 0.015, form="exact").t_after for d in deltas]
    assert np.polyfit(np.log(deltas), np.log(fewest), 1)[0] == pytest.approx(-2.0, abs=0.01)
    assert not window_random_walk(50, 0.02, 0.015, form="exact").exists


def test_random_walk_warns_outside_its_conditions():
    with pytest.warns(UserWarning, match=r"eps\^2 < 1e-3 \(1/4 - delta\^2\): 0.04 >= 0.00024"):
        window = window_random_walk(100_000, 0.1, 0.2)
    assert window.t_before == 100_000 - 0.04 / 0.01 + 2
    with pytest.warns(UserWarning, match=r"ln\(2/eps\^2\)/\(2 delta\^2\) < length: 2841\d\d >= 1000"):
        assert not window_random_walk(1000, 0.004, 0.015).exists
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        window_random_walk(10**6, 0.004, 0.015)


# Words and tasks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cos", [0.0, 0.5, -0.8])
def test_concept_walk_affinity_is_that_of_two_gaussians(cos):
    u, v = np.array([1.0, 0.0]), np.array([cos, math.sqrt(1 - cos**2)])
    for alpha, t in [(3.0, 0.0), (50.0, 1.0)]:
        x = alpha * math.exp(-2 * t)
        a, b = (2 * np.eye(2) + x * np.outer(w, w) for w in (u, v))
        det = np.linalg.det
        direct = (det(a) * det(b)) ** 0.25 / math.sqrt(det((a + b) / 2))
        assert concept_walk_affinity(alpha, cos, t) == pytest.approx(direct, abs=1e-12)


@many
@given(alpha=st.floats(1e4, 1e8), cos=st.floats(-0.95, 0.95), eps=st.floats(0.05, 0.6))
def test_concept_walk_window_solves_its_equations(alpha, cos, eps):
    window = window_concept_walk(alpha, cos, eps)
    if window.exists:
        # BC^2 = 2 phi, and T_after solves phi = eps^2.
        assert concept_walk_affinity(alpha, cos, window.t_after) ** 2 == pytest.approx(2 * eps**2, rel=1e-6)
        expected = 0.5 * math.log(alpha * math.sqrt(1 + alpha**2) * math.sqrt(1 - cos**2) / eps)
        assert window.t_before == pytest.approx(expected)


def test_weak_concepts_have_no_window():
    assert not window_concept_walk(0.1, 0.0, 0.1).exists


def test_in_context_examples_are_the_fewest_that_do():
    for separation, eps in [(0.5, 0.01), (0.02, 0.1), (1.9, 0.3)]:
        n = in_context_examples(separation, eps)
        assert in_context_affinity(n, separation) == pytest.approx(eps)
        assert in_context_affinity(n - 0.01, separation) > eps


def test_in_context_affinity_is_that_of_the_product():
    from icml25.theory.critical_windows import bhattacharyya, hellinger_sq

    p, q = np.array([0.7, 0.2, 0.1]), np.array([0.2, 0.2, 0.6])
    assert in_context_affinity(2, hellinger_sq(p, q)) == pytest.approx(bhattacharyya(np.kron(p, p), np.kron(q, q)))


def test_branching_mixture_law():
    mix = branching_mixture(1, 1, 0, agreement=0.75, weight=0.25)
    assert mix.components.tolist() == [[0.375, 0.125, 0.375, 0.125], [0.125, 0.375, 0.125, 0.375]]
    assert mix.weights.tolist() == [0.25, 0.75]


# Bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: window_two_gaussians(5.0, 0.5, form="exact"), r"needs eps < 1 - weight = 0.5"),
        (lambda: window_two_gaussians(5.0, 0.4, form="exact", weight=0.7), r"needs eps < 1 - weight = 0.3"),
        (lambda: window_two_gaussians(5.0, 0.45), r"form='paper' needs eps < 0.4289.*got 0.45"),
        (lambda: window_two_gaussians(5.0, 0.75), r"needs eps < 0.4289"),
        (lambda: window_two_gaussians(5.0, 0.75, form="hellinger"), r"form='hellinger' needs eps < 0.7071"),
        (lambda: window_two_gaussians(5.0, 0.0, form="exact"), r"eps must lie in \(0, 1\), got 0.0"),
        (lambda: window_two_gaussians(0.0, 0.1), "mu_norm must be finite and positive"),
        (lambda: window_two_gaussians(5.0, 0.1, form="best"), "form must be 'paper', 'hellinger' or 'exact'"),
        (lambda: window_two_gaussians(5.0, 0.1, weight=1.0), r"weight must lie in \(0, 1\)"),
        (lambda: two_gaussian_tv(5.0, -1.0), "t must be at least 0"),
        (lambda: two_gaussian_tv(-5.0, 1.0), "mu_norm must be finite and at least 0"),
        (lambda: two_gaussian_same_mode(5.0, math.nan), r"t must lie in \[0, inf\]"),
        (lambda: two_gaussian_same_mode(math.inf, 1.0), r"mu_norm must (be finite|lie in \[0, 1e\+100\])"),
        (lambda: two_gaussian_same_mode(5.0, 1.0, weight=0.0), "weight must lie in"),
        (lambda: two_gaussian_same_mode(5.0, 1.0, n_nodes=1), "n_nodes must be at least 2"),
        (lambda: two_gaussian_distance(5.0, 1.0, "all"), "target must be 'component' or 'mixture'"),
        (lambda: two_gaussian_monte_carlo(np.ones((2, 2)), 1.0, 10, seed=0), "direction must be a finite vector"),
        (lambda: two_gaussian_monte_carlo(np.ones(2), 1.0, 1, seed=0), "n_samples must be at least 2"),
        (lambda: speciation_time(0.5), "top_eigenvalue must be at least 1"),
        (lambda: gaussian_mixture_posterior(np.ones(2), 1.0, np.ones((3, 3))), "need .* observations and .* means"),
        (lambda: gaussian_mixture_posterior([math.nan], 1.0, [[0.0]]), "y and means must be finite"),
        (lambda: gaussian_mixture_posterior([0.0], 1.0, [[0.0], [1.0]], [0.5, 0.6]), "weights must be non-negative"),
        (lambda: gaussian_mixture_posterior([0.0], -1.0, [[0.0]]), r"t must lie in \[0, inf\]"),
        (lambda: gaussian_mixture_posterior([0.0], 0.0, [[0.0]], var=0.0), "var > 0 at t = 0"),
        (lambda: gaussian_mixture_posterior([[0.0]], 1.0, [[0.0]], out=np.empty(3)), "out must be a float64 array"),
        (lambda: window_random_means(np.ones((1, 3)), 0, 0.1), "K >= 2"),
        (lambda: window_random_means(np.eye(2), 2, 0.1), r"i must lie in 0\.\.1"),
        (lambda: window_random_means(np.ones((2, 2)), 0, 0.1), "means must be distinct"),
        (lambda: window_random_means(np.eye(2), 0, 1.0), r"eps must lie in \(0, 1\)"),
        (lambda: random_means_width_limit(1, 0.1), "n_means must be at least 2"),
        (lambda: window_masked_diracs(0, 0.1), "hamming must be at least 1"),
        (lambda: window_masked_diracs(4, 0.5, form="exact"), "needs eps < 1 - weight"),
        (lambda: window_masked_diracs(4, 1.0), r"eps must lie in \(0, 1\)"),
        (lambda: window_masked_diracs(4, 0.1, form="best"), "form must be 'paper' or 'exact'"),
        (lambda: masked_diracs_same(4, 1.1), r"t must lie in \[0, 1\]"),
        (lambda: window_random_walk(0, 0.1, 0.1), "length must be at least 1"),
        (lambda: window_random_walk(10, 0.5, 0.1), r"delta must lie in \(0, 1/2\)"),
        (lambda: window_random_walk(10, 0.1, 0.0), r"eps must lie in \(0, 1\)"),
        (lambda: window_random_walk(10, 0.1, 0.1, form="best"), "form must be"),
        (lambda: random_walk_tv(1.5, 0.1), "n must hold whole numbers"),
        (lambda: random_walk_same_mode(-1, 0.1), "n must hold whole numbers"),
        (lambda: window_concept_walk(1.0, 1.0, 0.1), r"cos must lie in \(-1, 1\)"),
        (lambda: window_concept_walk(1.0, 0.0, 0.71), "phi reaches eps"),
        (lambda: window_concept_walk(0.0, 0.0, 0.1), "alpha must be finite and positive"),
        (lambda: in_context_examples(2.0, 0.1), r"separation is a squared Hellinger distance in \(0, 2\)"),
        (lambda: in_context_affinity(-1, 0.1), "n must be at least 0"),
        (lambda: branching_mixture(1, 0, 1), "split must be at least 1"),
        (lambda: branching_mixture(1, 1, 1, agreement=0.5), "agreement must lie in"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()
