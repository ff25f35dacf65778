r"""All or nothing: the critical window of in-context sparse regression (Theorems 5 and 6).

The feature is a support: :math:`\theta \in \{0, 1\}^s` with k ones, uniform. The text is a list of examples
:math:`(x_i, y_i)` with :math:`x_i \sim \mathcal N(0, I_s)` and
:math:`y_i = \langle x_i, \theta\rangle + \mathcal N(0, \sigma^2)`. For sparse theta the posterior knows next to nothing
before

.. math:: N^* = \frac{2k \ln(s/k)}{\ln(1 + k/\sigma^2)}

examples, and next to everything after; autoregression therefore decides the whole support in a short window of
examples. Here the posterior is computed by enumerating all supports.

Reference: Li, Karan & Chen, "Blink of an eye", ICML 2025 (arXiv:2502.00921), Section 4;
Reeves, Xu & Zadik, COLT 2019.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from icml25 import _arguments as check
from icml25.theory.critical_windows.mixtures import CriticalWindow

__all__ = ["all_or_nothing_threshold", "sparse_regression_overlap", "window_all_or_nothing"]

Array = NDArray[np.float64]

_MAX_SUPPORTS = 2**20


def all_or_nothing_threshold(size: int, sparsity: int, noise_var: float) -> float:
    r"""Number of examples :math:`N^* = 2k\ln(s/k)/\ln(1 + k/\sigma^2)` at which the support becomes known.

    >>> round(all_or_nothing_threshold(16, 2, 0.05), 2)
    2.24
    """
    _check(size, sparsity, noise_var)
    return 2.0 * sparsity * math.log(size / sparsity) / math.log1p(sparsity / noise_var)


def window_all_or_nothing(n_examples: int, size: int, sparsity: int, noise_var: float, delta: float) -> CriticalWindow:
    r"""Window :math:`[N + 2 - (1 + \delta)N^*,\; N + 2 - (1 - \delta)N^*]` in hidden examples out of N (Theorem 5).

    Asymptotic: the theorem lets s grow with k = o(sqrt s) and says nothing of how small delta may be at a given s;
    ``eps`` of the result is delta.

    Raises
    ------
    ValueError
        If delta lies outside (0, 1) or N < 1.
    """
    delta = check.open_unit("delta", delta)
    check.integer("n_examples", n_examples, 1)
    star = all_or_nothing_threshold(size, sparsity, noise_var)
    hidden = n_examples + 2.0
    return CriticalWindow.from_formula(hidden - (1.0 + delta) * star, hidden - (1.0 - delta) * star, delta)


def sparse_regression_overlap(
    size: int,
    sparsity: int,
    noise_var: float,
    n_examples: int,
    n_draws: int,
    *,
    seed: int | np.random.Generator,
    chunk_bytes: int = 2**25,
    progress: bool = False,
) -> tuple[Array, Array]:
    r"""Share of the true support that the posterior knows after 1..N examples, by enumeration.

    The overlap is the posterior mean of :math:`\langle\theta, \theta'\rangle / k`, which is also the chance that a
    support re-drawn from the model given the examples keeps a given true element. By symmetry the true support may be
    the first k coordinates.

    Parameters
    ----------
    size, sparsity : int
        s and k, 1 <= k <= s; there are C(s, k) supports.
    noise_var : float
        :math:`\sigma^2 > 0`.
    n_examples : int
        N; the examples of a draw are revealed one after the other.
    n_draws : int
        Independent draws, at least 2.
    seed : int or numpy.random.Generator
    chunk_bytes : int
        Bound on the memory of the log-likelihoods of one block of draws.
    progress : bool
        Show a progress bar (needs tqdm).

    Returns
    -------
    (mean, standard error), each (N,)
        Over the draws.

    Raises
    ------
    ValueError
        If a size is out of range or the supports are too many to enumerate.
    """
    _check(size, sparsity, noise_var)
    for name, number, least in (
        ("n_examples", n_examples, 1),
        ("n_draws", n_draws, 2),
        ("chunk_bytes", chunk_bytes, 1),
    ):
        check.integer(name, number, least)
    # C(s, k) >= (s / k)^k for k <= s / 2: a number of millions of digits is never computed.
    few = min(sparsity, size - sparsity)
    count = math.comb(size, few) if few == 0 or few * math.log(size / few) < 40.0 else math.inf
    if count > _MAX_SUPPORTS:
        raise ValueError(f"enumeration needs {count} supports, more than {_MAX_SUPPORTS}")
    rng = check.numpy_generator(seed)
    count = int(count)
    supports = np.array(list(combinations(range(size), sparsity)))
    shared = (supports < sparsity).sum(1) / sparsity
    rows = max(1, chunk_bytes // (8 * n_examples * count))
    overlap = np.empty((n_draws, n_examples))
    for first in _track(range(0, n_draws, rows), progress):
        block = overlap[first : first + rows]
        x = rng.standard_normal((len(block), n_examples, size))
        y = x[..., :sparsity].sum(-1) + math.sqrt(noise_var) * rng.standard_normal(x.shape[:2])
        misfit = -y[..., None] + sum(x[..., supports[:, j]] for j in range(sparsity))
        with np.errstate(over="ignore"):  # a support so far off that its distance overflows has probability 0
            log_posterior = np.cumsum(np.square(misfit, out=misfit), axis=1) / (-2.0 * noise_var)
        log_posterior -= log_posterior.max(-1, keepdims=True)
        posterior = np.exp(log_posterior, out=log_posterior)
        block[:] = posterior @ shared / posterior.sum(-1)
    return overlap.mean(0), overlap.std(0, ddof=1) / math.sqrt(n_draws)


def _track(items: range, progress: bool) -> Iterable[int]:
    if not progress:
        return items
    from tqdm import tqdm

    bar: Iterable[int] = tqdm(items, desc="draws")
    return bar


def _check(size: int, sparsity: int, noise_var: float) -> None:
    check.integer("size", size, 1)
    if not 1 <= check.integer("sparsity", sparsity, 1) <= size:
        raise ValueError(f"need 1 <= sparsity <= size, got sparsity={sparsity}, size={size}")
    check.positive("noise_var", noise_var)
