r"""Gaussian mixtures under the Ornstein-Uhlenbeck process, without enumeration.

The observation at level t is :math:`Y_t = e^{-t}X + \sqrt{1 - e^{-2t}}\,Z`. For
:math:`p = \sum_k w_k \mathcal N(\mu_k, \sigma^2 I)` it is again a mixture, of means :math:`e^{-t}\mu_k` and variance
:math:`s_t^2 = e^{-2t}\sigma^2 + 1 - e^{-2t}`, so the posterior of the component is a softmax. For two components at
:math:`\pm\mu` with unit variance everything depends on y through :math:`\langle y, \mu\rangle` alone, and the
forward-reverse laws are one-dimensional integrals.

Reference: Li, Karan & Chen, "Blink of an eye", ICML 2025 (arXiv:2502.00921), Example 1.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from icml25 import _arguments as check
from icml25.theory.critical_windows import arguments

__all__ = [
    "gaussian_mixture_posterior",
    "two_gaussian_distance",
    "two_gaussian_monte_carlo",
    "two_gaussian_same_mode",
]

Array = NDArray[np.float64]


def gaussian_mixture_posterior(
    y: ArrayLike,
    t: float,
    means: ArrayLike,
    weights: ArrayLike | None = None,
    var: float = 1.0,
    *,
    out: Array | None = None,
    chunk_bytes: int = 2**24,
) -> Array:
    r"""Posterior of the component given noisy observations.

    .. math:: P(k \mid Y_t = y) \propto w_k \exp\!\Big(\frac{e^{-t}\langle y, \mu_k\rangle
        - \frac12 e^{-2t}|\mu_k|^2}{s_t^2}\Big),

    the square :math:`|y|^2` being common to all k. One matrix product and one pass of the exponential, in chunks of
    rows.

    Parameters
    ----------
    y : (n, d) or (d,) array
        Observations.
    t : float in [0, inf]
        Level; at inf the observation is noise and the posterior is the prior.
    means : (K, d) array
        Component means.
    weights : (K,) array, optional
        Component weights; default: equal. A weight may be 0.
    var : float
        Variance :math:`\sigma^2 \ge 0` of each coordinate within a component; 0 needs t > 0.
    out : (n, K) float64 array, optional
        Where to write the result.
    chunk_bytes : int
        Rows are worked on in blocks of about this size, which stay in the processor's cache; beyond ``out``, memory
        does not grow with n.

    Returns
    -------
    (n, K) or (K,) array, rows summing to 1

    Raises
    ------
    ValueError
        If shapes do not fit, something is not finite, or the observation has no noise at all.

    Examples
    --------
    >>> gaussian_mixture_posterior([0.0, 0.0], 0.3, [[1.0, 0.0], [-1.0, 0.0]], [0.25, 0.75]).round(12).tolist()
    [0.25, 0.75]
    """
    rows = np.asarray(y, dtype=np.float64)
    centres = np.asarray(means, dtype=np.float64)
    if centres.ndim != 2 or rows.ndim not in (1, 2) or rows.shape[-1] != centres.shape[1] or len(centres) == 0:
        raise ValueError(f"need (n, d) observations and (K, d) means, got {rows.shape} and {centres.shape}")
    if not np.isfinite(rows).all() or not np.isfinite(centres).all():
        raise ValueError("y and means must be finite")
    equal = np.full(len(centres), 1.0 / len(centres))
    share = equal if weights is None else check.law("weights", weights, len(centres))
    check.integer("chunk_bytes", chunk_bytes, 1)
    check.number("var", var)
    if not check.number("t", t) >= 0.0:
        raise ValueError(f"t must lie in [0, inf], got {t}")
    shrink = math.exp(-t)
    spread = shrink**2 * var - math.expm1(-2.0 * t)
    if not 0.0 <= var < math.inf or not spread > 0.0:
        raise ValueError(f"var must be finite and at least 0, with var > 0 at t = 0; got var={var}, t={t}")
    with np.errstate(divide="ignore", over="ignore"):
        offset = np.log(share) - 0.5 * shrink**2 / spread * np.einsum("kd,kd->k", centres, centres)
    table = (centres * (shrink / spread)).T
    block = np.atleast_2d(rows)
    result = np.empty((len(block), len(centres))) if out is None else out
    if result.shape != (len(block), len(centres)) or result.dtype != np.float64:
        raise ValueError(f"out must be a float64 array of shape {(len(block), len(centres))}")
    if np.may_share_memory(result, block) or np.may_share_memory(result, centres):
        raise ValueError("out must not lie on top of y or means, which are still read while it is written")
    step = max(1, chunk_bytes // (8 * len(centres)))
    for first in range(0, len(block), step):
        part = result[first : first + step]
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow is reported below, by name
            np.matmul(block[first : first + step], table, out=part)
            part += offset
        peak = part.max(1, keepdims=True)
        if not np.isfinite(peak).all():
            raise ValueError("y and means are too large: the exponents of the posterior overflow")
        part -= peak
        np.exp(part, out=part)
        part /= part.sum(1, keepdims=True)
    return result if rows.ndim == 2 else result[0]


# Two Gaussians --------------------------------------------------------------------------------------------------------


def two_gaussian_same_mode(mu_norm: float, t: ArrayLike, *, weight: float = 0.5, n_nodes: int = 801) -> float | Array:
    r"""P(the same component returns) for a start from :math:`\mathcal N(\mu, I)` of weight w, by quadrature.

    With :math:`m = |\mu| e^{-t}` the observation's coordinate along mu is m + z, and the posterior of its component is
    :math:`\sigma(2m(m + z) + \operatorname{logit} w)`: an average over z.

    Parameters
    ----------
    mu_norm : float
        Length of mu, at least 0.
    t : array_like
        Levels in [0, inf].
    weight : float in (0, 1)
        w.
    n_nodes : int
        Nodes of the quadrature.

    Examples
    --------
    >>> round(two_gaussian_same_mode(5.0, np.log(5.0) + 0.14), 4)
    0.7321
    """
    _check_pair(mu_norm, weight)
    level = arguments.noise_levels(t)
    m = (mu_norm * np.exp(-level))[..., None]
    z, node_weight = _standard_normal(n_nodes)
    same = expit(2.0 * m * (m + z) + logit(weight)) @ node_weight
    return float(same) if level.ndim == 0 else np.asarray(same)


def two_gaussian_distance(
    mu_norm: float, t: float, target: str = "component", *, weight: float = 0.5, n_grid: int = 2001, n_nodes: int = 801
) -> float:
    r"""The left-hand side of Theorem 2 on two Gaussians: TV between :math:`p^{+,t}` and a target, by quadrature.

    .. math:: p^{+,t}(x) = p(x)\,E_Z\!\left[\frac{p_t^+}{p_t}\big(e^{-t}x + \sqrt{1 - e^{-2t}}\,Z\big)\right],

    and the ratio is a sigmoid of the coordinate along mu divided by w. Orthogonal directions integrate out.

    Parameters
    ----------
    mu_norm, t : float
        Length of mu and the level.
    target : {"component", "mixture"}
        :math:`p^+` or the whole p.
    weight : float in (0, 1)
        Weight w of the component :math:`p^+`.
    n_grid, n_nodes : int
        Points of the quadratures over x and Z.
    """
    _check_pair(mu_norm, weight)
    if target not in ("component", "mixture"):
        raise ValueError(f"target must be 'component' or 'mixture', got {target!r}")
    level = float(arguments.noise_levels(t))
    check.integer("n_grid", n_grid, 2)
    # Nine standard deviations around each mode: between modes that lie farther apart there is no mass to resolve.
    reach = np.linspace(-9.0, 9.0, n_grid)
    pieces = [reach - mu_norm, reach + mu_norm] if mu_norm > 9.0 else [reach * (mu_norm + 9.0) / 9.0]
    x, step = np.concatenate(pieces), pieces[0][1] - pieces[0][0]
    plus, minus = (np.exp(-0.5 * (x - centre) ** 2) / math.sqrt(2.0 * math.pi) for centre in (mu_norm, -mu_norm))
    whole = weight * plus + (1.0 - weight) * minus
    z, node_weight = _standard_normal(n_nodes)
    y = math.exp(-level) * x[:, None] + math.sqrt(-math.expm1(-2.0 * level)) * z
    ratio = expit(2.0 * mu_norm * math.exp(-level) * y + logit(weight)) @ node_weight / weight
    other = plus if target == "component" else whole
    return float(0.5 * np.abs(whole * ratio - other).sum() * step)


def two_gaussian_monte_carlo(
    direction: ArrayLike,
    t: float,
    n_samples: int,
    *,
    seed: int | np.random.Generator,
    weight: float = 0.5,
    chunk_bytes: int = 2**23,
) -> tuple[float, float]:
    r"""P(the same component returns) for :math:`\mathcal N(\pm\mu, I_d)`, sampled in all d dimensions.

    Each draw starts from :math:`\mathcal N(\mu, I)`, is degraded, and restored by the exact posterior. The d-vectors
    are made in blocks of rows, so memory stays at ``chunk_bytes`` for any ``n_samples``.

    Parameters
    ----------
    direction : (d,) array
        mu.
    t : float in [0, inf]
        Level.
    n_samples : int
        Draws, at least 2.
    seed : int or numpy.random.Generator
    weight : float in (0, 1)
        Weight of the starting component.
    chunk_bytes : int
        Memory of one block of vectors.

    Returns
    -------
    (float, float)
        Share of draws that return to the starting component, and its binomial standard error.
    """
    mu = np.asarray(direction, dtype=np.float64)
    if mu.ndim != 1 or mu.size == 0 or not np.isfinite(mu).all():
        raise ValueError(f"direction must be a finite vector, got the shape {mu.shape}")
    check.integer("n_samples", n_samples, 2)
    check.integer("chunk_bytes", chunk_bytes, 1)
    _check_pair(float(np.linalg.norm(mu)), weight)
    level = float(arguments.noise_levels(t))
    shrink, noise = math.exp(-level), math.sqrt(-math.expm1(-2.0 * level))
    rng = check.numpy_generator(seed)
    rows = max(1, chunk_bytes // (16 * mu.size))
    block = np.empty((min(rows, n_samples), mu.size))
    extra = np.empty_like(block)
    same = 0
    for first in range(0, n_samples, rows):
        count = min(rows, n_samples - first)
        x, z = block[:count], extra[:count]
        rng.standard_normal(out=x)
        x += mu
        rng.standard_normal(out=z)
        x *= shrink
        z *= noise
        x += z
        posterior = expit(2.0 * shrink * (x @ mu) + logit(weight))
        same += int((rng.random(count) < posterior).sum())
    share = same / n_samples
    return share, math.sqrt(share * (1.0 - share) / n_samples)


def _standard_normal(n_nodes: int) -> tuple[Array, Array]:
    """Nodes and weights that average a function of a standard normal variable, by the trapezoidal rule.

    The integrands are Gaussians times steep sigmoids, whose poles lie close to the real line: there equally spaced
    nodes converge faster than those of Gauss-Hermite.
    """
    check.integer("n_nodes", n_nodes, 2)
    nodes = np.linspace(-10.0, 10.0, n_nodes)
    weights = np.exp(-0.5 * nodes**2)
    return nodes, weights / weights.sum()


def _check_pair(mu_norm: float, weight: float) -> None:
    check.between("mu_norm", mu_norm, 0.0, 1e100)  # its square must not overflow
    check.open_unit("weight", weight)
