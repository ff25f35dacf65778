r"""Quadrature for laws of ``p`` on ``(0, c)``: one logit grid, shared by every problem of a data set.

A compound likelihood is :math:`\int p^x (1-p)^{n-x} f(p)\,dp`. Written per problem it is a hypergeometric function that
takes milliseconds to evaluate; on a grid that all problems share it is one row of a matrix-vector product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, digamma

__all__ = [
    "END_WEIGHTS",
    "Family",
    "LogitGrid",
    "Nodes",
    "grid_size",
    "logit_grid",
    "logit_panels",
    "prior_weights",
    "refined_for_beta",
]

Floats = NDArray[np.float64]
Family = Literal["beta", "kumaraswamy"]

_EDGE = 1e-12
_MAX_POINTS = 1_000_000
# Gregory's end weights. The integrand has not died out at the lower end, where the plain trapezoid's 1/2 would leave an
# error of order step^2 (2e-8 in a log likelihood); these leave one of order step^4.
END_WEIGHTS = (3.0 / 8.0, 7.0 / 6.0, 23.0 / 24.0)


@dataclass(frozen=True)
class Nodes:
    """A quadrature rule for a law of ``p``: ``E[g(p)]`` is the weighted sum of ``g`` over the nodes.

    Attributes
    ----------
    log_p, log_q : (G,) floats
        Logarithms of ``p`` and ``1 - p``; ``-inf`` where an atom sits at 0 or 1.
    weight : (G,) floats >= 0
        Probability of each node; they add up to 1.
    """

    log_p: Floats
    log_q: Floats
    weight: Floats


@dataclass(frozen=True)
class LogitGrid:
    """Points equally spaced in the logit of ``z`` in (0, 1), from ``low`` to ``1 - 1e-12``.

    Attributes
    ----------
    log_z, log_1mz : (G,) floats
        Logarithms of ``z`` and ``1 - z``.
    step : float
        Spacing in the logit.
    """

    log_z: Floats
    log_1mz: Floats
    step: float

    def nodes(self, scale: float, weight: Floats) -> Nodes:
        """Stretch the grid to ``p = scale * z``; ``1 - p`` is formed without cancellation up to ``scale = 1``."""
        log_q = np.log((1.0 - scale) + scale * np.exp(self.log_1mz))
        return Nodes(self.log_z + math.log(scale), log_q, weight)

    def trapezoid(self, log_density: Floats) -> Floats:
        """Weights of the grid's points for a density of ``z`` given by its logarithm, with Gregory's end weights."""
        weight: Floats = self.step * np.exp(log_density + self.log_z + self.log_1mz)
        weight[:3] *= END_WEIGHTS
        weight[-3:] *= END_WEIGHTS[::-1]
        return weight


def grid_size(n_max: int) -> int:
    r"""Points needed for ``n_max`` tries: the likelihood's peak is no narrower than :math:`2/\sqrt n` in the logit.

    The grid spans 55 units, so that :math:`28\sqrt n` points are one for each such standard deviation.

    Raises
    ------
    ValueError
        If more than a million points were needed, for ``n_max`` above 1.27e9.

    >>> grid_size(10_000), grid_size(100_000)
    (3000, 8855)
    """
    size = max(3000, math.ceil(28.0 * math.sqrt(n_max)))
    if size > _MAX_POINTS:
        raise ValueError(f"n (attempts) of {n_max} need a quadrature of {size} points, more than {_MAX_POINTS}")
    return size


def refined_for_beta(size: int, alpha: float, beta: float) -> int:
    """Points that also resolve the beta density itself, as narrow in the logit as the peak of 4ab/(a+b) tries.

    Raises
    ------
    ValueError
        If a shape exceeds 1e6, where the ends of the grid are no longer in the range of a pure power.
    """
    if max(alpha, beta) > 1e6:
        raise ValueError(f"alpha and beta must be at most 1e6 for a quadrature, got {alpha} and {beta}")
    return round(math.hypot(size, 28.0 * math.sqrt(4.0 * alpha / (alpha + beta) * beta)))


def logit_grid(size: int, low: float = _EDGE) -> LogitGrid:
    """Build the grid.

    Parameters
    ----------
    size : int >= 2
        Number of points.
    low : float in (0, 1e-12]
        Smallest ``z``. Curves at very large ``k`` need one far below ``1 / k``.
    """
    u = np.linspace(math.log(low), -math.log(_EDGE), size)
    return LogitGrid(-np.logaddexp(0.0, -u), -np.logaddexp(0.0, u), float(u[1] - u[0]))


def prior_weights(family: Family, alpha: float, beta: float, grid: LogitGrid, *, derivatives: bool = False) -> Floats:
    r"""Probability that a law of ``z`` in (0, 1) gives to each point of the grid.

    .. math::
        f_{\text{beta}}(z) = \frac{z^{\alpha-1}(1-z)^{\beta-1}}{B(\alpha,\beta)}, \qquad
        f_{\text{kumaraswamy}}(z) = \alpha\beta z^{\alpha-1}(1-z^\alpha)^{\beta-1}

    The two end points carry in addition all the mass beyond them. It is not small: at ``alpha = 0.01`` three quarters
    of the law lie below ``z = 1e-12``.

    Parameters
    ----------
    family : {"beta", "kumaraswamy"}
    alpha, beta : float > 0
        Shapes.
    grid : LogitGrid
    derivatives : bool
        Also return the derivatives by ``alpha`` and ``beta``.

    Returns
    -------
    (G,) floats, or (3, G) floats with ``derivatives``
        Weights; rows 1 and 2 are their derivatives.
    """
    parts = _beta_parts if family == "beta" else _kumaraswamy_parts
    log_density, by_alpha, by_beta, left, right = parts(alpha, beta, grid)
    weight = grid.trapezoid(log_density)
    if not derivatives:
        weight[0] += left[0]
        weight[-1] += right[0]
        return weight
    stacked = np.stack([weight, weight * by_alpha, weight * by_beta])
    stacked[:, 0] += left
    stacked[:, -1] += right
    return stacked


def _beta_parts(a: float, b: float, grid: LogitGrid) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Log density, its two derivatives, and (mass, derivatives of the mass) below and above the grid."""
    log_norm, psi_ab = betaln(a, b), digamma(a + b)
    psi_a, psi_b = digamma(a) - psi_ab, digamma(b) - psi_ab
    log_density = (a - 1.0) * grid.log_z + (b - 1.0) * grid.log_1mz - log_norm
    # Beyond the ends the density is a pure power to within a relative 1e-12 * (a + b).
    low, high = grid.log_z[0], grid.log_1mz[-1]
    left = math.exp(a * low - math.log(a) - log_norm) * np.array([1.0, low - 1.0 / a - psi_a, -psi_b])
    right = math.exp(b * high - math.log(b) - log_norm) * np.array([1.0, -psi_a, high - 1.0 / b - psi_b])
    return log_density, grid.log_z - psi_a, grid.log_1mz - psi_b, left, right


def _kumaraswamy_parts(a: float, b: float, grid: LogitGrid) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """As :func:`_beta_parts`; the distribution function ``1 - (1 - z^a)^b`` is explicit here."""
    log_z = grid.log_z
    rest = -np.expm1(a * log_z)  # 1 - z^a
    slope = -np.exp(a * log_z) * log_z  # derivative of 1 - z^a by a
    log_rest = np.log(rest)
    log_density = math.log(a * b) + (a - 1.0) * log_z + (b - 1.0) * log_rest
    by_alpha = 1.0 / a + log_z + (b - 1.0) * slope / rest
    by_beta = 1.0 / b + log_rest
    survival = np.exp(b * log_rest[[0, -1]])  # P(Z > z) at both ends
    by_a, by_b = survival * b * slope[[0, -1]] / rest[[0, -1]], survival * log_rest[[0, -1]]
    left = np.array([-math.expm1(b * log_rest[0]), -by_a[0], -by_b[0]])
    right = np.array([survival[1], by_a[1], by_b[1]])
    return log_density, by_alpha, by_beta, left, right


def logit_panels(low: float, high: float, size: int) -> tuple[Floats, Floats, Floats]:
    """Composite Gauss-Legendre rule in the logit of ``p``, for a law whose support ``[low, high]`` stays away from 0.

    In the logit the peak of every count is as wide as on the grid; in ``p`` itself it is far narrower near the ends.
    Ten points a panel, three for each spacing of a :func:`logit_grid` of ``size`` points.

    Returns
    -------
    log_p, log_q, weight : three (G,) float64 arrays
        Logarithms of ``p`` and ``1 - p``, and weights in the logit.
    """
    start = math.log(low) - math.log1p(-low)
    # Above a logit of 40 the success probability is 1 to rounding.
    stop = math.log(high) - math.log1p(-high) if high < 1.0 else 40.0
    spacing = -2.0 * math.log(_EDGE) / size
    panels = max(size // 10, math.ceil(0.3 * (stop - start) / spacing))
    x, w = np.polynomial.legendre.leggauss(10)
    edges = np.linspace(start, stop, panels + 1)
    half = 0.5 * (edges[1] - edges[0])
    u = (0.5 * (edges[1:] + edges[:-1])[:, None] + half * x).ravel()
    return -np.logaddexp(0.0, -u), -np.logaddexp(0.0, u), np.tile(half * w, panels)
