"""Digits as a mixture: the posterior against a direct sum, the estimators against known laws, claim C12."""

import sys

import numpy as np
import pytest
from scipy.special import erf

from icml25.data.digits import DigitsMixture, load_digits_mixture

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def digits():
    return load_digits_mixture()


def one_dimensional(gap, bandwidth=0.5, copies=1):
    return DigitsMixture(np.repeat([[0.0], [gap]], copies, 0), np.repeat([0, 1], copies), bandwidth)


def test_points_are_the_images_scaled(digits):
    from sklearn.datasets import load_digits

    raw = load_digits()
    assert digits.points.shape == (1797, 64)
    np.testing.assert_array_equal(digits.points * 8 + 8, raw.data)
    np.testing.assert_array_equal(digits.labels, raw.target)
    np.testing.assert_allclose(digits.class_weights, np.bincount(raw.target) / 1797)


@pytest.mark.parametrize("t", [0.1, 0.7, 3.0])
def test_class_posterior_is_bayes_over_the_images(digits, t):
    starts, _ = digits.sample(1, 0)
    y = np.exp(-t) * starts + 0.3
    spread = np.exp(-2 * t) * 0.25**2 + 1 - np.exp(-2 * t)
    log = -((y[:, None] - np.exp(-t) * digits.points) ** 2).sum(-1) / (2 * spread)
    mass = np.exp(log - log.max(1, keepdims=True))
    expected = np.stack([mass[:, digits.labels == c].sum(1) for c in range(10)], 1) / mass.sum(1, keepdims=True)
    np.testing.assert_allclose(digits.class_posterior(y, t), expected, atol=1e-10)


def test_samples_are_of_their_class_with_the_kernel_s_width():
    mixture = one_dimensional(100.0, bandwidth=0.5)
    x, labels = mixture.sample(4000, 0)
    assert labels.tolist() == [0] * 4000 + [1] * 4000
    assert x[labels == 1].mean() == pytest.approx(100.0, abs=4.5 * 0.5 / np.sqrt(4000))
    assert x[labels == 0].std() == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize("t", [0.2, 1.0])
def test_total_variation_is_the_known_one_of_two_gaussians(t):
    mixture = one_dimensional(2.0)
    curve = mixture.forward_reverse([t], 20_000, 0)
    scale = np.sqrt(np.exp(-2 * t) * 0.25 + 1 - np.exp(-2 * t))
    exact = erf(np.exp(-t) * 1.0 / scale / np.sqrt(2))
    assert curve.pair_tv[0, 0, 1] == pytest.approx(exact, abs=0.01)
    assert curve.pair_tv[0, 0, 0] == 0.0
    # P(same) is the mean of the posterior: integrate it over y.
    y = np.linspace(-9, 11, 20_001)
    p, q = (np.exp(-((y - np.exp(-t) * m) ** 2) / (2 * scale**2)) for m in (0.0, 2.0))
    same = (p / p.sum() * p / (p + q)).sum()
    assert curve.prob[0] == pytest.approx(same, abs=4.5 * curve.stderr[0])


def test_total_variation_does_not_depend_on_the_class_weights():
    uneven = DigitsMixture(np.array([[0.0]] * 9 + [[2.0]]), np.array([0] * 9 + [1]), 0.5)
    even = one_dimensional(2.0)
    assert uneven.forward_reverse([0.5], 20_000, 0).pair_tv[0, 0, 1] == pytest.approx(
        even.forward_reverse([0.5], 20_000, 0).pair_tv[0, 0, 1], abs=0.01
    )


@pytest.mark.parametrize("seed", range(4))
def test_claim_c12(digits, seed):
    levels = [0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 2.0, 3.2]
    curve = digits.forward_reverse(levels, 60, seed)
    assert (np.diff(curve.prob) <= 2 * np.hypot(curve.stderr[1:], curve.stderr[:-1])).all()
    assert curve.prob[1] > 0.99
    assert 0.65 <= curve.prob[4] <= 0.80
    assert 0.08 <= curve.prob[9] <= 0.13
    assert {(3, 9), (3, 8)} & set(curve.most_confused(4))
    np.testing.assert_allclose(curve.confusion.sum(2), 1.0)
    np.testing.assert_allclose(curve.confusion[:, range(10), range(10)].mean(1), curve.prob)


def test_known_values_of_the_specification(digits):
    levels = [0.1, 0.4, 0.6, 1.0, 3.2]
    curve = digits.forward_reverse(levels, 60, 0)
    assert (np.abs(curve.prob - [0.998, 0.730, 0.506, 0.239, 0.102]) <= 5 * np.maximum(curve.stderr, 1e-3)).all()


def test_same_seed_same_curve(digits):
    run = lambda seed: digits.forward_reverse([0.4], 3, seed).prob[0]
    assert run(1) == run(1)
    assert run(1) != run(2)


def test_confused_pairs_count_both_directions(digits):
    curve = digits.forward_reverse([0.4], 2, 0)
    confusion = np.eye(10)[None].repeat(1, 0)
    confusion[0, 7, 2], confusion[0, 2, 7], confusion[0, 1, 4] = 0.2, 0.2, 0.3
    curve = type(curve)(curve.levels, curve.prob, curve.stderr, confusion, curve.pair_tv)
    assert curve.most_confused(0, 2) == [(2, 7), (1, 4)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DigitsMixture(np.ones(3), np.zeros(3, int), 0.1), r"\(N, d\) points"),
        (lambda: DigitsMixture(np.ones((3, 2)), np.zeros(2, int), 0.1), "N labels"),
        (lambda: DigitsMixture(np.full((1, 2), np.nan), np.zeros(1, int), 0.1), "points must be finite"),
        (lambda: DigitsMixture(np.ones((2, 2)), np.array([0, 2]), 0.1), "every class present"),
        (lambda: load_digits_mixture(0.0), "bandwidth must be finite and positive"),
        (lambda: one_dimensional(1.0).sample(0, 0), "per_class must be at least 1"),
        (lambda: one_dimensional(1.0).forward_reverse([], 1, 0), "non-empty list"),
        (lambda: one_dimensional(1.0).forward_reverse([-0.1], 1, 0), "t >= 0"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"icml25\[book\]"):
        load_digits_mixture()
