r"""Likelihood-ratio detection of generations that an aligned model would rarely make.

A string is scored by how much likelier an unaligned model finds it than the aligned one (Section 6 and Table 2 of Li,
Karan & Chen, "Blink of an eye", ICML 2025, arXiv:2502.00921). If the aligned law is a mixture of benign and harmful
strings and the unaligned law is the harmful component, the ratio is the optimal test between the two
(Neyman-Pearson), while perplexity under the aligned model confuses harmful with unusual.

**What to expect of it.** In the paper's Table 2, at a false positive rate of 0.01, a trained probe (an MLP on
activations) beats this score on some attacks by far: recall 0.66 to 1.0 against at most 0.1. The score needs no
training and no activations; it is not the best detector there is.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icml25 import _arguments as check

__all__ = [
    "MarkovChain",
    "contaminated_log_prob",
    "likelihood_ratio_scores",
    "perplexity_scores",
    "recall_at_fpr",
]

Array = NDArray[np.float64]


def likelihood_ratio_scores(logp_unaligned: object, logp_aligned: object) -> Array:
    r"""Score :math:`\log p_{unaligned}(x) - \log p_{aligned}(x)` of each string; larger is more suspect.

    Parameters
    ----------
    logp_unaligned, logp_aligned : (N,) arrays
        Log-probability of whole strings, in nats; -inf for an impossible one.

    Returns
    -------
    (N,) float array

    Raises
    ------
    ValueError
        If the shapes differ, an entry is NaN or positive, or a string is impossible under both models.

    Examples
    --------
    >>> likelihood_ratio_scores([-3.0, -9.0], [-7.0, -7.0])
    array([ 4., -2.])
    """
    unaligned, aligned = _log_probs("logp_unaligned", logp_unaligned), _log_probs("logp_aligned", logp_aligned)
    if unaligned.shape != aligned.shape:
        raise ValueError(f"logp_unaligned and logp_aligned differ in shape: {unaligned.shape} and {aligned.shape}")
    if (np.isneginf(unaligned) & np.isneginf(aligned)).any():
        raise ValueError("a string has probability 0 under both models: their ratio is undefined")
    return unaligned - aligned


def perplexity_scores(logp_aligned: object) -> Array:
    """Baseline score :math:`-\\log p_{aligned}(x)`: what the aligned model finds unlikely."""
    return -_log_probs("logp_aligned", logp_aligned)


def recall_at_fpr(scores_pos: object, scores_neg: object, fpr: float = 0.01) -> float:
    """Share of the positives above the lowest threshold that at most a share ``fpr`` of the negatives exceeds.

    Parameters
    ----------
    scores_pos, scores_neg : (P,), (N,) arrays
        Larger is more suspect. A score must exceed the threshold strictly, so ties count for neither side.
    fpr : float in (0, 1)
        Allowed false positive rate.

    Returns
    -------
    float in [0, 1]

    Raises
    ------
    ValueError
        If there are no positives or no negatives, or a score is NaN.

    Warns
    -----
    UserWarning
        If ``fpr * N < 1``: the negatives are too few to resolve the rate, and the threshold is their maximum.

    Examples
    --------
    >>> recall_at_fpr([0.5, 2.5, 9.0], [0.0, 1.0, 2.0, 3.0], fpr=0.25)
    0.6666666666666666
    """
    positives, negatives = np.asarray(scores_pos, dtype=np.float64), np.asarray(scores_neg, dtype=np.float64)
    for name, scores in (("scores_pos", positives), ("scores_neg", negatives)):
        if scores.ndim != 1 or scores.size == 0:
            raise ValueError(f"{name} must be a non-empty 1-D array, got the shape {scores.shape}")
        if np.isnan(scores).any():
            raise ValueError(f"{name} holds NaN")
    fpr = check.open_unit("fpr", fpr)
    # The small lift keeps floor on the exact value; a rate of almost 1 leaves the lowest negative as the threshold.
    allowed = min(int(np.floor(fpr * len(negatives) + 1e-9)), len(negatives) - 1)
    if fpr * len(negatives) + 1e-9 < 1.0:
        warnings.warn(
            f"FPR below resolution: fpr={fpr:g} needs at least {np.ceil(1 / fpr):.0f} negatives, got {len(negatives)}",
            UserWarning,
            stacklevel=2,
        )
    threshold = np.sort(negatives)[::-1][allowed]
    return float((positives > threshold).mean())


@dataclass(frozen=True)
class MarkovChain:
    """Strings from a Markov chain: a language model whose every probability is known.

    Parameters
    ----------
    initial : (A,) array
        Law of the first token.
    transition : (A, A) array
        Row a is the law of the token after a.
    """

    initial: Array
    transition: Array

    def __post_init__(self) -> None:
        initial, transition = np.array(self.initial, dtype=np.float64), np.array(self.transition, dtype=np.float64)
        if initial.ndim != 1 or transition.shape != (len(initial), len(initial)):
            raise ValueError(f"need (A,) initial and (A, A) transition, got {initial.shape} and {transition.shape}")
        for name, law in (("initial", initial), ("transition", transition)):
            if not ((law >= 0).all() and np.allclose(law.sum(-1), 1.0, rtol=0, atol=1e-8)):
                raise ValueError(f"{name} must be non-negative and sum to 1 along its last axis")
            law.flags.writeable = False
            object.__setattr__(self, name, law)

    @classmethod
    def random(
        cls,
        n_tokens: int,
        seed: int | np.random.Generator,
        *,
        concentration: float = 0.3,
        floor: float = 0.1,
    ) -> MarkovChain:
        """Uniform start, rows ``(1 - floor) * Dirichlet(concentration) + floor / n_tokens``."""
        rng = check.numpy_generator(seed)
        check.integer("n_tokens", n_tokens, 1)
        check.positive("concentration", concentration)
        check.between("floor", floor, 0.0, 1.0)
        rows = rng.dirichlet(np.full(n_tokens, concentration), n_tokens)
        return cls(np.full(n_tokens, 1.0 / n_tokens), (1.0 - floor) * rows + floor / n_tokens)

    def sample(self, n: int, length: int, seed: int | np.random.Generator) -> NDArray[np.int64]:
        """Draw (n, length) strings."""
        rng = check.numpy_generator(seed)
        check.integer("n", n, 1)
        check.integer("length", length, 1)
        last = len(self.initial) - 1
        ladder, first = self.transition.cumsum(1), self.initial.cumsum()
        strings = np.empty((n, length), dtype=np.int64)
        u = rng.random((n, length))
        strings[:, 0] = np.minimum(np.searchsorted(first, u[:, 0], side="right"), last)
        for i in range(1, length):
            strings[:, i] = np.minimum((ladder[strings[:, i - 1]] <= u[:, i, None]).sum(1), last)
        return strings

    def log_prob(self, strings: object) -> Array:
        """Log-probability of whole strings, (N, T) to (N,), in nats."""
        tokens = np.asarray(strings)
        if tokens.ndim != 2 or tokens.shape[1] == 0 or not np.issubdtype(tokens.dtype, np.integer):
            raise ValueError(f"strings must be an (N, T) integer array, T >= 1, got {tokens.shape} of {tokens.dtype}")
        if tokens.size and not (tokens.min() >= 0 and tokens.max() < len(self.initial)):
            raise ValueError(f"tokens must lie in 0..{len(self.initial) - 1}, got {tokens.min()}..{tokens.max()}")
        with np.errstate(divide="ignore"):  # an impossible step has log-probability -inf
            start, step = np.log(self.initial), np.log(self.transition)
        return np.asarray(start[tokens[:, 0]] + step[tokens[:, :-1], tokens[:, 1:]].sum(1))


def contaminated_log_prob(logp_benign: object, logp_harmful: object, share: float = 0.02) -> Array:
    r"""Log-law of an aligned model that is harmful in a small share of whole strings.

    :math:`\log[(1 - \pi)\,p_{benign}(x) + \pi\,p_{harmful}(x)]`, with :math:`\pi` = ``share``.
    """
    benign, harmful = _log_probs("logp_benign", logp_benign), _log_probs("logp_harmful", logp_harmful)
    if benign.shape != harmful.shape:
        raise ValueError(f"logp_benign and logp_harmful differ in shape: {benign.shape} and {harmful.shape}")
    share = check.open_unit("share", share)
    return np.asarray(np.logaddexp(np.log1p(-share) + benign, np.log(share) + harmful))


def _log_probs(name: str, values: object) -> Array:
    logs = np.asarray(values, dtype=np.float64)
    if logs.ndim != 1 or not (logs <= 1e-6).all():
        raise ValueError(f"{name} must be a 1-D array of log-probabilities, none above 0 and none NaN")
    return logs
