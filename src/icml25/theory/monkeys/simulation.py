"""Counts of successes drawn from a law of ``p``: with a fixed number of tries, and with a stopping rule."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from icml25.theory.monkeys.laws import SuccessLaw
from icml25.theory.monkeys.passk import as_floats, check_integer

__all__ = ["simulate_counts", "simulate_stopped"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Seed = int | np.random.Generator


def _probabilities(dist: SuccessLaw | ArrayLike, n_problems: int | None, rng: np.random.Generator) -> Floats:
    if isinstance(dist, SuccessLaw):
        if n_problems is None:
            raise ValueError("n_problems must be given with a law, got None")
        return dist.rvs(check_integer("n_problems", n_problems, 1), rng)
    p = as_floats("dist", dist)
    if p.ndim != 1 or p.size == 0 or not ((p >= 0.0) & (p <= 1.0)).all():
        raise ValueError("dist must be a law, or a non-empty one-dimensional array of probabilities in [0, 1]")
    if n_problems not in (None, p.size):
        raise ValueError(f"n_problems must be {p.size}, the number of probabilities given, got {n_problems}")
    return p


def simulate_counts(
    dist: SuccessLaw | ArrayLike, n_problems: int | None, n_attempts: int, seed: Seed
) -> tuple[Ints, Ints]:
    """Draw ``p`` for each problem, then successes in ``n_attempts`` tries.

    Parameters
    ----------
    dist : SuccessLaw or (P,) floats
        The law, or the probabilities themselves (then ``n_problems`` may be None).
    n_problems, n_attempts : int >= 1
    seed : int or numpy Generator

    Returns
    -------
    n, x : (P,) int64 arrays
    """
    n_attempts = check_integer("n_attempts", n_attempts, 1)
    rng = np.random.default_rng(seed)
    p = _probabilities(dist, n_problems, rng)
    return np.full(p.size, n_attempts, dtype=np.int64), rng.binomial(n_attempts, p).astype(np.int64)


def simulate_stopped(
    dist: SuccessLaw | ArrayLike, n_problems: int | None, batch: int, max_attempts: int, seed: Seed
) -> tuple[Ints, Ints]:
    """Draw tries in batches until a batch holds a success or ``max_attempts`` is reached (App. A of the paper).

    Batches are always completed: with ``batch=60`` and ``max_attempts=10_000`` the largest ``n`` is 10020. Nothing is
    simulated try by try: the number of barren batches is geometric, and the successes of the last batch are binomial
    given that there is one.

    Parameters
    ----------
    dist, n_problems, seed
        As in :func:`simulate_counts`.
    batch, max_attempts : int >= 1

    Returns
    -------
    n, x : (P,) int64 arrays
        Attempts (a multiple of ``batch``) and successes.
    """
    batch = check_integer("batch", batch, 1)
    max_attempts = check_integer("max_attempts", max_attempts, 1)
    rng = np.random.default_rng(seed)
    p = _probabilities(dist, n_problems, rng)
    most = -(-max_attempts // batch)
    with np.errstate(divide="ignore"):
        barren_rate = batch * np.log1p(-p)  # log P(a batch has no success)
        # Inversion of the geometric law; -log(0) and x/0 mean "never" and are cut off below.
        wait = np.floor(np.log(rng.random(p.size)) / np.where(barren_rate == 0.0, -0.0, barren_rate))
    solved = wait < most
    batches = np.where(solved, wait + 1, most).astype(np.int64)
    barren = np.exp(barren_rate[solved])
    level = barren + (1.0 - barren) * rng.random(solved.sum())
    x = np.zeros(p.size, dtype=np.int64)
    # A level that rounds to P(x = 0) would give 0, one that rounds to 1 the top: at least 1 holds by construction.
    x[solved] = np.maximum(binom.ppf(np.minimum(level, 1.0), batch, p[solved]), 1)
    return batches * batch, x
