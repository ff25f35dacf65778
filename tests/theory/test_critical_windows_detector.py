"""The likelihood-ratio detector and the chains it is tried on."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml25.theory.critical_windows.detector import (
    MarkovChain,
    contaminated_log_prob,
    likelihood_ratio_scores,
    perplexity_scores,
    recall_at_fpr,
)


def test_chain_probabilities_sum_to_one_and_match_samples():
    chain = MarkovChain.random(3, 0)
    strings = np.array(list(itertools.product(range(3), repeat=4)))
    law = np.exp(chain.log_prob(strings))
    assert law.sum() == pytest.approx(1.0)
    n = 40_000
    drawn = chain.sample(n, 4, 1)
    share = np.bincount(drawn @ [27, 9, 3, 1], minlength=81) / n
    assert (np.abs(share - law) <= 4.5 * np.sqrt(law * (1 - law) / n) + 3 / n).all()


def test_random_chain_is_the_one_of_the_specification():
    chain = MarkovChain.random(16, 0)
    assert chain.transition.shape == (16, 16)
    assert (chain.initial == 1 / 16).all()
    assert chain.transition.min() >= 0.1 / 16
    # Dirichlet(0.3) rows: the mean of the sum of squares is (0.3 + 1) / (0.3 * 16 + 1).
    many = np.concatenate([MarkovChain.random(16, s).transition for s in range(60)])
    squares = (((many - 0.1 / 16) / 0.9) ** 2).sum(1)
    assert squares.mean() == pytest.approx(1.3 / 5.8, rel=0.05)


def test_impossible_step_has_no_probability():
    chain = MarkovChain(np.array([1.0, 0.0]), np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert chain.log_prob([[0, 1, 0], [0, 0, 1], [1, 0, 1]]).tolist() == [0.0, -math.inf, -math.inf]
    assert (chain.sample(50, 3, 0) == [0, 1, 0]).all()


def test_contaminated_law_is_the_mixture_of_whole_strings():
    a, b = MarkovChain.random(2, 0), MarkovChain.random(2, 1)
    strings = np.array(list(itertools.product(range(2), repeat=3)))
    pa, pb = np.exp(a.log_prob(strings)), np.exp(b.log_prob(strings))
    mixed = np.exp(contaminated_log_prob(np.log(pa), np.log(pb), 0.3))
    np.testing.assert_allclose(mixed, 0.7 * pa + 0.3 * pb, rtol=1e-12)
    assert mixed.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(3))
def test_ratio_beats_perplexity_on_the_constructed_task(seed):
    """Claim C14."""
    rng = np.random.default_rng(seed)
    benign, harmful = MarkovChain.random(16, rng), MarkovChain.random(16, rng)
    texts = harmful.sample(2000, 24, rng), benign.sample(4000, 24, rng)
    aligned = [contaminated_log_prob(benign.log_prob(x), harmful.log_prob(x)) for x in texts]
    ratio = [likelihood_ratio_scores(harmful.log_prob(x), a) for x, a in zip(texts, aligned, strict=True)]
    recall = recall_at_fpr(*ratio)
    assert recall > 0.95
    assert recall - recall_at_fpr(*map(perplexity_scores, aligned)) > 0.2


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(-5, 5), min_size=1, max_size=30),
    st.lists(st.integers(-5, 5), min_size=10, max_size=60),
    st.sampled_from([0.1, 0.25, 0.5]),
)
def test_threshold_is_the_lowest_that_keeps_the_rate(positives, negatives, fpr):
    """Against a search over all thresholds."""
    negatives = np.array(negatives)
    candidates = sorted(set(negatives.tolist()))
    best = next(c for c in candidates if (negatives > c).mean() <= fpr + 1e-12)
    assert recall_at_fpr(positives, negatives, fpr) == (np.array(positives) > best).mean()


def test_recall_known_values():
    negatives = np.arange(100.0)
    assert recall_at_fpr([98.5, 99.5, 97.0, 98.0], negatives, 0.01) == 0.5
    assert recall_at_fpr([1.0], np.ones(100), 0.01) == 0.0
    assert recall_at_fpr([math.inf], negatives, 0.01) == 1.0


def test_too_few_negatives_warn():
    with pytest.warns(UserWarning, match="FPR below resolution: fpr=0.01 needs at least 100 negatives, got 99"):
        assert recall_at_fpr([98.5, 97.5], np.arange(99.0)) == 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: recall_at_fpr([1.0], []), "scores_neg must be a non-empty"),
        (lambda: recall_at_fpr([], [1.0]), "scores_pos must be a non-empty"),
        (lambda: recall_at_fpr([math.nan], [1.0]), "scores_pos holds NaN"),
        (lambda: recall_at_fpr([1.0], [1.0], 0.0), r"fpr must lie in \(0, 1\)"),
        (lambda: recall_at_fpr([1.0], [1.0], 1.0), r"fpr must lie in \(0, 1\)"),
        (lambda: likelihood_ratio_scores([-1.0], [-1.0, -2.0]), "differ in shape"),
        (lambda: likelihood_ratio_scores([math.nan], [-1.0]), "logp_unaligned must be"),
        (lambda: likelihood_ratio_scores([-1.0], [1.0]), "logp_aligned must be"),
        (lambda: likelihood_ratio_scores([-math.inf], [-math.inf]), "probability 0 under both"),
        (lambda: perplexity_scores([[-1.0]]), "1-D array"),
        (lambda: contaminated_log_prob([-1.0], [-1.0], 1.0), r"share must lie in \(0, 1\)"),
        (lambda: contaminated_log_prob([-1.0], [-1.0, -1.0]), "differ in shape"),
        (lambda: MarkovChain(np.ones(2) / 2, np.ones((2, 2))), "transition must be non-negative and sum to 1"),
        (lambda: MarkovChain(np.ones(2), np.ones((2, 2)) / 2), "initial must be non-negative and sum to 1"),
        (lambda: MarkovChain(np.ones(2) / 2, np.ones((3, 3)) / 3), r"\(A, A\) transition"),
        (lambda: MarkovChain.random(2, 0).log_prob([[0, 2]]), r"tokens must lie in 0\.\.1"),
        (lambda: MarkovChain.random(2, 0).log_prob([[0.0, 1.0]]), "integer array"),
        (lambda: MarkovChain.random(2, 0).sample(0, 3, 0), "n must be at least 1"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()
