r"""Likelihood of success counts when ``p`` varies over problems (App. F-H).

.. math:: P(x \mid n) = \binom nx \int_0^c p^x (1-p)^{n-x} f(p)\,dp
    \qquad\text{(compound binomial)}

The integral is a hypergeometric function for the scaled beta law. Evaluated problem by problem that is the slow way;
here :math:`E_{ig} = p_g^{x_i}(1-p_g)^{n_i-x_i}` is built once for a data set and each likelihood is ``E @ weights``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp

from icml25.theory.monkeys.laws import SuccessLaw, check_scale
from icml25.theory.monkeys.passk import (
    as_integers,
    check_counts,
    check_integer,
    check_number,
    distinct_rows,
    merge_counts,
    spread,
)
from icml25.theory.monkeys.quadrature import Family, Nodes, grid_size, logit_grid, prior_weights

__all__ = ["CompoundLikelihood", "compound_logpmf", "compound_negative_binomial_logpmf"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MAX_BYTES = 256 * 2**20
# A likelihood below the smallest normal float counts as that: an optimiser must see a finite, if flat, objective.
_TINY = float(np.finfo(np.float64).tiny)


def check_grid(grid: int | None) -> None:
    """Raise unless ``grid``, a number of quadrature points, is None or an integer from 100 to a million."""
    if grid is not None:
        check_integer("grid", grid, 100, 1_000_000)


def _grid_points(grid: int | None, n_max: int) -> int:
    check_grid(grid)
    return grid_size(n_max) if grid is None else int(grid)


def _times(count: Ints, log: Floats) -> Floats:
    """``count * log`` as an outer product, with ``0 * (-inf) = 0``."""
    if np.isfinite(log).all():
        return np.multiply.outer(count.astype(np.float64), log)
    with np.errstate(invalid="ignore"):
        return np.where(count[:, None] == 0, 0.0, np.multiply.outer(count.astype(np.float64), log))


def _kernel_blocks(n: Ints, x: Ints, nodes: Nodes, max_bytes: int) -> Iterator[tuple[slice, Floats, Floats]]:
    """Yield row slices with ``E = exp(A - rowmax)`` and ``rowmax``, each block with at most ``max_bytes`` of ``E``."""
    step = max(1, max_bytes // (8 * nodes.log_p.size))
    for start in range(0, x.size, step):
        rows = slice(start, start + step)
        exponent = _times(x[rows], nodes.log_p)
        exponent += _times(n[rows] - x[rows], nodes.log_q)
        top = exponent.max(axis=1)
        top[np.isneginf(top)] = 0.0  # an impossible count: its row of E is 0
        exponent -= top[:, None]
        yield rows, np.exp(exponent, out=exponent), top


def _log_mixture(n: Ints, x: Ints, nodes: Nodes) -> Floats:
    r""":math:`\log \int p^x (1-p)^{n-x} dF(p)` per row."""
    values = np.empty(x.size)
    # A quarter of the limit: two temporaries of the same size live beside the block.
    for rows, kernel, top in _kernel_blocks(n, x, nodes, _MAX_BYTES // 4):
        with np.errstate(divide="ignore"):
            values[rows] = np.log(kernel @ nodes.weight) + top
    # A likelihood and a law with disjoint peaks: their product underflows, its logarithm does not.
    for row in np.flatnonzero(np.isneginf(values)):
        with np.errstate(divide="ignore"):
            exponent = _times(x[[row]], nodes.log_p) + _times((n - x)[[row]], nodes.log_q) + np.log(nodes.weight)
        values[row] = logsumexp(exponent)
    return values


def _scatter(n: ArrayLike, x: ArrayLike, law: SuccessLaw, grid: int | None) -> tuple[Ints, Ints, Floats]:
    attempts, successes, _ = check_counts(n, x)
    if not isinstance(law, SuccessLaw):
        raise TypeError(f"dist must be a law of p such as ScaledBeta, got {type(law).__name__}")
    rows, inverse = distinct_rows(attempts, successes)
    nodes = law.quadrature(_grid_points(grid, int(attempts.max())))
    return attempts, successes, _log_mixture(*rows, nodes)[inverse]


def compound_logpmf(n: ArrayLike, x: ArrayLike, dist: SuccessLaw, *, grid: int | None = None) -> Floats:
    """Log probability of ``x`` successes in ``n`` tries when ``p`` is drawn from ``dist``.

    With :class:`~icml25.theory.monkeys.ScaledBeta` this is the scaled beta-binomial, with ``ScaledKumaraswamy`` the
    scaled Kumaraswamy-binomial, with ``ZeroInflated`` either of them with excess zeros.

    Parameters
    ----------
    n, x : (P,) integers
        Attempts and successes; a single ``n`` holds for all.
    dist : SuccessLaw
    grid : int, optional
        Quadrature points; by default enough for the largest ``n``, which must stay below 1.27e9. Errors in the
        logarithm are below 1e-6 for n up to 10^8; at 10^9 the rounding of terms of order ``n log n`` leaves 1e-5.

    Returns
    -------
    (P,) float64 array, ``-inf`` where the count is impossible.

    Raises
    ------
    ValueError
        On bad counts or a grid outside 100 to 10^6 points.
    TypeError
        If ``dist`` is not a law.

    Examples
    --------
    >>> from icml25.theory.monkeys import ScaledBeta
    >>> compound_logpmf(100, [3], ScaledBeta(0.3, 2.0, 0.1)).round(6).tolist()
    [-2.832681]
    """
    attempts, successes, mixture = _scatter(n, x, dist, grid)
    choose: Floats = gammaln(attempts + 1) - gammaln(successes + 1) - gammaln(attempts - successes + 1)
    return choose + mixture


def compound_negative_binomial_logpmf(
    successes: ArrayLike, failures: ArrayLike, dist: SuccessLaw, *, grid: int | None = None
) -> Floats:
    r"""Log probability of ``failures`` before the ``r``-th of ``successes`` when ``p`` is drawn from ``dist``.

    .. math:: P(x) = \binom{x+r-1}{x} \int_0^c p^r (1-p)^x f(p)\,dp

    For the scaled beta law it is the beta-negative binomial of App. H. The integral is that of the compound binomial
    with ``n = x + r``: stopping at a success changes the combinatorial factor only, never the estimate.

    Parameters
    ----------
    successes : (P,) integers >= 1
        ``r``, successes wanted; a single value holds for all.
    failures : (P,) integers >= 0
        ``x``, failures seen first.
    dist, grid
        As in :func:`compound_logpmf`.

    Returns
    -------
    (P,) float64 array

    Raises
    ------
    ValueError
        On bad counts, or ``successes < 1``.
    """
    fails = as_integers("failures", failures)
    wanted = as_integers("successes", spread("successes", successes, fails.shape))
    if wanted.shape != fails.shape:
        raise ValueError(f"successes and failures must have the same length, got {wanted.size} and {fails.size}")
    if not (wanted >= 1).all():
        raise ValueError("successes must be at least 1: the process stops at a success")
    if not (fails >= 0).all():
        raise ValueError("failures must be at least 0")
    _, _, mixture = _scatter(fails + wanted, wanted, dist, grid)
    choose: Floats = gammaln(fails + wanted) - gammaln(fails + 1) - gammaln(wanted)
    return choose + mixture


def check_shapes(*shapes: float) -> None:
    """Raise unless the shapes of a law lie in [1e-6, 1000], the range that a grid made for counts resolves."""
    for shape in shapes:
        check_number("alpha and beta", shape)
        if not 1e-6 <= shape <= 1000.0:
            raise ValueError(f"alpha and beta must lie in [1e-6, 1000] on the grid of a data set, got {shape}")


class CompoundLikelihood:
    r"""Mean negative log-likelihood of counts as a function of the shapes, for one family and one scale.

    The kernel matrix is built once; a call costs one (rows x grid) matrix-vector product (three with the gradient).
    Equal rows are merged. If the kernel exceeds ``max_bytes`` it is rebuilt block by block in every call instead of
    being kept: slower, but memory stays bounded.

    Parameters
    ----------
    n, x, weights
        Attempts, successes and multiplicities, see :func:`~icml25.theory.monkeys.merge_counts`.
    family : {"beta", "kumaraswamy"}
    scale : float in (0, 1]
        Upper end ``c`` of the support.
    grid : int, optional
        Quadrature points.
    max_bytes : int
        Limit for the kernel.

    Raises
    ------
    ValueError
        On bad counts, an unknown family, or a scale outside (0, 1].
    """

    def __init__(
        self,
        n: ArrayLike,
        x: ArrayLike,
        *,
        family: Family = "beta",
        scale: float = 1.0,
        weights: ArrayLike | None = None,
        grid: int | None = None,
        max_bytes: int = _MAX_BYTES,
    ) -> None:
        if family not in ("beta", "kumaraswamy"):
            raise ValueError(f'family must be "beta" or "kumaraswamy", got {family!r}')
        check_scale(scale)
        check_integer("max_bytes", max_bytes, 1)
        self.family: Family = family
        self.scale = scale
        self._n, self._x, multiplicity = merge_counts(n, x, weights)
        self._share = multiplicity / multiplicity.sum()
        self._grid = logit_grid(_grid_points(grid, int(self._n.max())))
        self._nodes = self._grid.nodes(scale, np.zeros(0))
        log_choose = gammaln(self._n + 1) - gammaln(self._x + 1) - gammaln(self._n - self._x + 1)
        self._constant = float(self._share @ log_choose)
        self._max_bytes = max_bytes
        fits = 8 * self._x.size * self._grid.log_z.size <= max_bytes
        self._kept = list(self._blocks()) if fits else None

    def _blocks(self) -> Iterator[tuple[slice, Floats, Floats]]:
        # Small blocks while building: the kept pieces are as large, but their temporaries are not.
        return _kernel_blocks(self._n, self._x, self._nodes, min(self._max_bytes, _MAX_BYTES // 8))

    def value(self, alpha: float, beta: float) -> float:
        """Mean negative log-likelihood per problem, in nats, for shapes in [1e-6, 1000]."""
        check_shapes(alpha, beta)
        weight = prior_weights(self.family, alpha, beta, self._grid)
        total = self._constant
        for rows, kernel, top in self._kept if self._kept is not None else self._blocks():
            total += self._share[rows] @ (np.log(np.maximum(kernel @ weight, _TINY)) + top)
        return -float(total)

    def value_and_gradient(self, alpha: float, beta: float) -> tuple[float, Floats]:
        """Mean negative log-likelihood and its derivatives by ``alpha`` and ``beta``."""
        check_shapes(alpha, beta)
        weight = prior_weights(self.family, alpha, beta, self._grid, derivatives=True)
        total, slope = self._constant, np.zeros(2)
        for rows, kernel, top in self._kept if self._kept is not None else self._blocks():
            likelihood, *by_shape = (kernel @ weight.T).T
            likelihood = np.maximum(likelihood, _TINY)
            total += self._share[rows] @ (np.log(likelihood) + top)
            slope += np.array([self._share[rows] @ (d / likelihood) for d in by_shape])
        return -float(total), -slope
