r"""Laws of the single-try success probability ``p`` over problems, with their aggregate failure and its leading term.

Each law gives :math:`I_k = \mathbb E[(1-p)^k]` at any ``k`` and, where its density is :math:`\sim C p^{b-1}` at 0, the
power law :math:`y_k = -\log(1 - I_k) \sim C\,\Gamma(b)\,k^{-b}` (Thm 3.1 and App. E of the paper).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv, betaln

from icml25.theory.monkeys.passk import as_floats, check_integer, check_k, check_number
from icml25.theory.monkeys.quadrature import (
    Family,
    Nodes,
    grid_size,
    logit_grid,
    logit_panels,
    prior_weights,
    refined_for_beta,
)

__all__ = [
    "ContinuousBernoulli",
    "PointMass",
    "PowerLawTail",
    "Reciprocal",
    "ScaledBeta",
    "ScaledKumaraswamy",
    "SuccessLaw",
    "UniformInterval",
    "UniformZero",
    "ZeroInflated",
    "power_law_tail",
]

Floats = NDArray[np.float64]
Seed = int | np.random.Generator


@dataclass(frozen=True)
class PowerLawTail:
    r"""The power law :math:`y_k \sim` ``constant`` :math:`\cdot\, k^{-\text{exponent}}` for large ``k``.

    The constant is infinite where it exceeds the largest float (about 1e308).
    """

    exponent: float
    constant: float

    def __call__(self, k: ArrayLike) -> Floats:
        """Value of the power law at ``k > 0``."""
        tries = as_floats("k", k)
        if not (tries > 0.0).all():
            raise ValueError("k must be positive")
        return self.constant * tries**-self.exponent


def power_law_tail(exponent: float, coefficient: float) -> PowerLawTail:
    r"""Thm 3.1: a density :math:`\sim` ``coefficient`` :math:`p^{b-1}` at 0 gives :math:`C\,\Gamma(b)\,k^{-b}`.

    Any density that is continuous and positive at 0 is the case ``b = 1`` with ``coefficient = f(0)``.

    Raises
    ------
    ValueError
        If the exponent or the coefficient is not positive.

    Examples
    --------
    >>> power_law_tail(exponent=2.0, coefficient=3.0)
    PowerLawTail(exponent=2.0, constant=3.0)
    """
    _positive("exponent", exponent)
    _positive("coefficient", coefficient)
    return PowerLawTail(exponent, coefficient * math.gamma(exponent) if exponent < 170.0 else math.inf)


class SuccessLaw(ABC):
    """A distribution of ``p`` in [0, 1] over problems."""

    @abstractmethod
    def pdf(self, p: ArrayLike) -> Floats:
        """Density at ``p``; infinite at an atom."""

    @abstractmethod
    def cdf(self, p: ArrayLike) -> Floats:
        """Distribution function at ``p``."""

    @abstractmethod
    def ppf(self, q: ArrayLike) -> Floats:
        """Quantile function at ``q`` in [0, 1]."""

    @abstractmethod
    def quadrature(self, size: int, low: float = 1e-12) -> Nodes:
        """A rule with about ``size`` nodes; ``low`` is the smallest fraction of the support that they resolve."""

    @abstractmethod
    def tail(self) -> PowerLawTail | None:
        """The power law of ``neg_log_pass``, or None where it is none."""

    def rvs(self, size: int, seed: Seed) -> Floats:
        """Draw ``size`` values by inversion, from a seed or a generator."""
        return self.ppf(np.random.default_rng(seed).random(check_integer("size", size, 1)))

    def failure_at(self, k: ArrayLike) -> Floats:
        r"""Aggregate failure :math:`I_k = \mathbb E[(1-p)^k]`, (K,) floats.

        On the logit grid the integrand varies on a scale of order 1 at every ``k``, so the smallest grid is enough;
        its lower end moves below ``1 / k``.
        """
        grid = check_k(k)
        nodes = self.quadrature(grid_size(1), min(1e-12, 1e-8 / grid.max()))
        failure = np.empty(grid.size)
        for i, tries in enumerate(grid):
            failure[i] = np.exp(tries * nodes.log_q) @ nodes.weight
        return np.minimum(failure, 1.0)

    def neg_log_pass(self, k: ArrayLike) -> Floats:
        r""":math:`y_k = -\log(1 - I_k)`, (K,) floats; infinite where success is impossible."""
        with np.errstate(divide="ignore"):
            return -np.log1p(-self.failure_at(k))

    def leading_term(self, k: ArrayLike) -> Floats:
        """The simplest expression that ``neg_log_pass`` approaches for large ``k``: a power law if there is one."""
        tail = self.tail()
        if tail is None:
            raise ValueError(f"no leading term is known for {self!r}")
        return tail(check_k(k))


def _exp(value: float) -> float:
    return math.exp(value) if value < 709.0 else math.inf


def _points(p: ArrayLike) -> Floats:
    points = as_floats("p", p)
    if np.isnan(points).any():
        raise ValueError("p must not be NaN")
    return points


def _positive(name: str, value: float) -> None:
    check_number(name, value)
    if not (value > 0.0 and math.isfinite(value)):
        raise ValueError(f"{name} must be positive and finite, got {value}")


def check_scale(scale: float) -> None:
    """Raise unless ``scale``, the upper end of a support, is a number in (0, 1]."""
    check_number("scale", scale)
    if not 0.0 < scale <= 1.0:
        raise ValueError(f"scale must lie in (0, 1], got {scale}")


def _quantiles(q: ArrayLike) -> Floats:
    levels = as_floats("q", q)
    if not ((levels >= 0.0) & (levels <= 1.0)).all():
        raise ValueError("q must lie in [0, 1]")
    return levels


@dataclass(frozen=True)
class _Scaled(SuccessLaw):
    """A two-shape law of ``z = p / scale``."""

    alpha: float
    beta: float
    scale: float = 1.0

    def __post_init__(self) -> None:
        _positive("alpha", self.alpha)
        _positive("beta", self.beta)
        check_scale(self.scale)

    @property
    @abstractmethod
    def family(self) -> Family:
        """Name of the family."""

    @abstractmethod
    def _log_density(self, z: Floats) -> Floats:
        """Logarithm of the density of ``z`` inside (0, 1)."""

    def pdf(self, p: ArrayLike) -> Floats:
        """Density at ``p``, 0 outside ``(0, scale)``."""
        z = _points(p) / self.scale
        inside = (z > 0.0) & (z < 1.0)
        density = np.exp(self._log_density(np.where(inside, z, 0.5))) / self.scale
        return np.where(inside, density, 0.0)

    def quadrature(self, size: int, low: float = 1e-12) -> Nodes:
        """Logit grid on ``(0, scale)`` with the mass beyond its ends."""
        grid = logit_grid(size, low)
        return grid.nodes(self.scale, prior_weights(self.family, self.alpha, self.beta, grid))


class ScaledBeta(_Scaled):
    r"""Beta law stretched to ``(0, scale)``: :math:`f(p) = p^{a-1}(c-p)^{b-1} / (c^{a+b-1} B(a,b))`.

    Parameters
    ----------
    alpha, beta : float > 0
    scale : float in (0, 1]

    Examples
    --------
    >>> ScaledBeta(0.3, 2.5, 0.1).failure_at([1, 1000]).round(6).tolist()
    [0.989286, 0.315305]
    """

    @property
    def family(self) -> Family:
        """Name of the family, ``"beta"``."""
        return "beta"

    def quadrature(self, size: int, low: float = 1e-12) -> Nodes:
        """Logit grid on ``(0, scale)``, finer where the density itself is narrow; shapes up to 1e6."""
        return super().quadrature(refined_for_beta(size, self.alpha, self.beta), low)

    def _log_density(self, z: Floats) -> Floats:
        log_norm = betaln(self.alpha, self.beta)
        log_density: Floats = (self.alpha - 1.0) * np.log(z) + (self.beta - 1.0) * np.log1p(-z) - log_norm
        return log_density

    def cdf(self, p: ArrayLike) -> Floats:
        """Regularised incomplete beta function at ``p / scale``."""
        z = np.clip(_points(p) / self.scale, 0.0, 1.0)
        return np.asarray(betainc(self.alpha, self.beta, z))

    def ppf(self, q: ArrayLike) -> Floats:
        """Inverse of ``cdf``; values below the smallest float come out as 0."""
        return np.asarray(self.scale * betaincinv(self.alpha, self.beta, _quantiles(q)))

    def tail(self) -> PowerLawTail:
        r"""Exponent :math:`a`, constant :math:`c^{-a}\,\Gamma(a+b)/\Gamma(b)`."""
        log_coefficient = -self.alpha * math.log(self.scale) - betaln(self.alpha, self.beta)
        return PowerLawTail(self.alpha, _exp(log_coefficient + math.lgamma(self.alpha)))


class ScaledKumaraswamy(_Scaled):
    r"""Kumaraswamy law on ``(0, scale)``: :math:`f(p) = (ab/c^a)\,p^{a-1}(1-(p/c)^a)^{b-1}`.

    Parameters
    ----------
    alpha, beta : float > 0
    scale : float in (0, 1]
    """

    @property
    def family(self) -> Family:
        """Name of the family, ``"kumaraswamy"``."""
        return "kumaraswamy"

    def _log_density(self, z: Floats) -> Floats:
        a, b = self.alpha, self.beta
        log_density: Floats = math.log(a * b) + (a - 1.0) * np.log(z) + (b - 1.0) * np.log(-np.expm1(a * np.log(z)))
        return log_density

    def cdf(self, p: ArrayLike) -> Floats:
        r""":math:`1 - (1 - z^a)^b` at ``z = p / scale``."""
        z = np.clip(_points(p) / self.scale, 0.0, 1.0)
        with np.errstate(divide="ignore"):
            return np.asarray(-np.expm1(self.beta * np.log1p(-(z**self.alpha))))

    def ppf(self, q: ArrayLike) -> Floats:
        r""":math:`c\,(1 - (1-q)^{1/b})^{1/a}`."""
        with np.errstate(divide="ignore"):
            inner = -np.expm1(np.log1p(-_quantiles(q)) / self.beta)
        return np.asarray(self.scale * inner ** (1.0 / self.alpha))

    def tail(self) -> PowerLawTail:
        r"""Exponent :math:`a`, constant :math:`c^{-a}\,b\,\Gamma(a+1)`."""
        log_coefficient = math.log(self.alpha * self.beta) - self.alpha * math.log(self.scale)
        return PowerLawTail(self.alpha, _exp(log_coefficient + math.lgamma(self.alpha)))


@dataclass(frozen=True)
class UniformInterval(SuccessLaw):
    """Uniform law on ``[lo, hi]``; a power law of exponent 1 if ``lo = 0``, an exponential if not.

    Parameters
    ----------
    lo, hi : float
        ``0 <= lo < hi <= 1``.
    """

    lo: float
    hi: float

    def __post_init__(self) -> None:
        check_number("lo", self.lo)
        check_number("hi", self.hi)
        if not 0.0 <= self.lo < self.hi <= 1.0:
            raise ValueError(f"lo and hi must satisfy 0 <= lo < hi <= 1, got {self.lo} and {self.hi}")

    def pdf(self, p: ArrayLike) -> Floats:
        """``1 / (hi - lo)`` inside, 0 outside."""
        p = _points(p)
        return np.where((p >= self.lo) & (p <= self.hi), 1.0 / (self.hi - self.lo), 0.0)

    def cdf(self, p: ArrayLike) -> Floats:
        """Linear from 0 at ``lo`` to 1 at ``hi``."""
        return np.clip((_points(p) - self.lo) / (self.hi - self.lo), 0.0, 1.0)

    def ppf(self, q: ArrayLike) -> Floats:
        """Inverse of ``cdf``."""
        return self.lo + (self.hi - self.lo) * _quantiles(q)

    def quadrature(self, size: int, low: float = 1e-12) -> Nodes:
        """Logit grid for ``lo = 0``, Gauss-Legendre in the logit otherwise."""
        if self.lo == 0.0:
            return ScaledBeta(1.0, 1.0, self.hi).quadrature(size, low)
        log_p, log_q, weight = logit_panels(self.lo, self.hi, size)
        weight *= np.exp(log_p + log_q)
        # Of a narrow interval the length in the logit is not exact; the whole probability is.
        return Nodes(log_p, log_q, weight / weight.sum())

    def failure_at(self, k: ArrayLike) -> Floats:
        r""":math:`[(1-l)^{k+1} - (1-u)^{k+1}] / ((u-l)(k+1))`."""
        grid = check_k(k)
        power = grid + 1.0
        # As a difference of two powers it would cancel on a narrow interval.
        with np.errstate(divide="ignore"):
            ratio = np.log1p(-(self.hi - self.lo) / (1.0 - self.lo))
        share: Floats = -np.expm1(power * ratio)
        failure: Floats = np.exp(power * math.log1p(-self.lo)) * share / ((self.hi - self.lo) * power)
        return failure

    def tail(self) -> PowerLawTail | None:
        """Exponent 1, constant ``1 / hi``, if ``lo = 0``."""
        return power_law_tail(1.0, 1.0 / self.hi) if self.lo == 0.0 else None

    def leading_term(self, k: ArrayLike) -> Floats:
        r"""The power law for ``lo = 0``, else :math:`(1-l)^{k+1} / ((u-l)(k+1))`."""
        if self.lo == 0.0:
            return super().leading_term(k)
        grid = check_k(k)
        return (1.0 - self.lo) ** (grid + 1.0) / ((self.hi - self.lo) * (grid + 1.0))


class UniformZero(UniformInterval):
    """Uniform law on ``[0, u]``.

    >>> UniformZero(0.5).tail()
    PowerLawTail(exponent=1.0, constant=2.0)
    """

    def __init__(self, u: float) -> None:
        super().__init__(0.0, u)


@dataclass(frozen=True)
class ContinuousBernoulli(SuccessLaw):
    r"""Continuous Bernoulli law on [0, 1]: :math:`f(p) = C(\lambda)\,\lambda^p (1-\lambda)^{1-p}`.

    :math:`C(\lambda) = 2\,\mathrm{artanh}(1-2\lambda)/(1-2\lambda)` and :math:`C(1/2) = 2`. The density is positive at
    0, so the exponent is 1.

    Parameters
    ----------
    lam : float in (0, 1)
    """

    lam: float

    def __post_init__(self) -> None:
        check_number("lam", self.lam)
        if not 0.0 < self.lam < 1.0:
            raise ValueError(f"lam must lie in (0, 1), got {self.lam}")

    @property
    def _log_odds(self) -> float:
        return math.log(self.lam) - math.log1p(-self.lam)

    @property
    def normalizer(self) -> float:
        r""":math:`C(\lambda)`."""
        t = 1.0 - 2.0 * self.lam
        # artanh(t) / t = 1 + t^2/3 + O(t^4): the quotient itself loses all digits near t = 0. Elsewhere 2 artanh(t) is
        # minus the log-odds, which do not overflow where t rounds to 1.
        return 2.0 * (1.0 + t * t / 3.0) if abs(t) < 1e-4 else -self._log_odds / t

    def pdf(self, p: ArrayLike) -> Floats:
        """Density on [0, 1]."""
        p = _points(p)
        inside = (p >= 0.0) & (p <= 1.0)
        return np.where(inside, self.normalizer * (1.0 - self.lam) * np.exp(p * self._log_odds), 0.0)

    def cdf(self, p: ArrayLike) -> Floats:
        r""":math:`(e^{sp} - 1)/(e^s - 1)` with :math:`s = \log(\lambda/(1-\lambda))`."""
        p = np.clip(_points(p), 0.0, 1.0)
        s = self._log_odds
        return p if abs(s) < 1e-9 else np.asarray(np.expm1(s * p) / math.expm1(s))

    def ppf(self, q: ArrayLike) -> Floats:
        """Inverse of ``cdf``."""
        levels = _quantiles(q)
        s = self._log_odds
        if abs(s) < 1e-9:
            return levels
        with np.errstate(divide="ignore"):  # level 1 where e^s rounds to 0
            quantiles: Floats = np.minimum(np.log1p(levels * math.expm1(s)) / s, 1.0)
        return quantiles

    def quadrature(self, size: int, low: float = 1e-12) -> Nodes:
        """Logit grid on (0, 1)."""
        grid = logit_grid(size, low)
        z = np.exp(grid.log_z)
        weight = grid.trapezoid(np.log(self.pdf(z)))
        weight[[0, -1]] += [z[0] * self.pdf(0.0), np.exp(grid.log_1mz[-1]) * self.pdf(1.0)]
        return grid.nodes(1.0, weight)

    def tail(self) -> PowerLawTail:
        r"""Exponent 1, constant :math:`C(\lambda)(1-\lambda)`, the density at 0."""
        return power_law_tail(1.0, float(self.pdf(0.0)))


@dataclass(frozen=True)
class Reciprocal(SuccessLaw):
    r"""Reciprocal (log-uniform) law on ``[lo, hi]``: :math:`f(p) = 1/(p \log(u/l))`. Not a power law: no mass near 0.

    Parameters
    ----------
    lo, hi : float
        ``0 < lo < hi < 1``.
    """

    lo: float
    hi: float

    def __post_init__(self) -> None:
        check_number("lo", self.lo)
        check_number("hi", self.hi)
        if not 0.0 < self.lo < self.hi < 1.0:
            raise ValueError(f"lo and hi must satisfy 0 < lo < hi < 1, got {self.lo} and {self.hi}")

    @property
    def _log_ratio(self) -> float:
        return math.log(self.hi / self.lo)

    def pdf(self, p: ArrayLike) -> Floats:
        """Density on ``[lo, hi]``."""
        p = _points(p)
        inside = (p >= self.lo) & (p <= self.hi)
        return np.where(inside, 1.0 / (np.where(inside, p, 1.0) * self._log_ratio), 0.0)

    def cdf(self, p: ArrayLike) -> Floats:
        """Linear in the logarithm of ``p``."""
        return np.log(np.clip(_points(p), self.lo, self.hi) / self.lo) / self._log_ratio

    def ppf(self, q: ArrayLike) -> Floats:
        """Inverse of ``cdf``."""
        return self.lo * np.exp(self._log_ratio * _quantiles(q))

    def quadrature(self, size: int, low: float = 1e-12) -> Nodes:
        """Gauss-Legendre in the logit of ``p``."""
        log_p, log_q, weight = logit_panels(self.lo, self.hi, size)
        weight *= np.exp(log_q)
        return Nodes(log_p, log_q, weight / weight.sum())

    def tail(self) -> None:
        """None: the failure falls faster than any power."""

    def leading_term(self, k: ArrayLike) -> Floats:
        r""":math:`(1-l)^{k+1} / (k\,l\log(u/l))`."""
        grid = check_k(k)
        return (1.0 - self.lo) ** (grid + 1.0) / (grid * self.lo * self._log_ratio)


@dataclass(frozen=True)
class PointMass(SuccessLaw):
    """All problems equally hard: ``p`` is a constant, and the failure an exponential.

    Parameters
    ----------
    p : float in [0, 1]
    """

    p: float

    def __post_init__(self) -> None:
        check_number("p", self.p)
        if not 0.0 <= self.p <= 1.0:
            raise ValueError(f"p must lie in [0, 1], got {self.p}")

    def pdf(self, p: ArrayLike) -> Floats:
        """Infinite at the atom, 0 elsewhere."""
        return np.where(_points(p) == self.p, np.inf, 0.0)

    def cdf(self, p: ArrayLike) -> Floats:
        """Step from 0 to 1 at the atom."""
        return np.where(_points(p) >= self.p, 1.0, 0.0)

    def ppf(self, q: ArrayLike) -> Floats:
        """The atom, at every level."""
        return np.full_like(_quantiles(q), self.p)

    def quadrature(self, size: int, low: float = 1e-12) -> Nodes:
        """One node."""
        with np.errstate(divide="ignore"):
            return Nodes(np.log([self.p]), np.log1p([-self.p]), np.ones(1))

    def failure_at(self, k: ArrayLike) -> Floats:
        """``(1 - p)^k``."""
        return (1.0 - self.p) ** check_k(k).astype(np.float64)

    def tail(self) -> None:
        """None: an exponential."""

    def leading_term(self, k: ArrayLike) -> Floats:
        """``(1 - p)^k``."""
        return self.failure_at(k)


@dataclass(frozen=True)
class ZeroInflated(SuccessLaw):
    r"""A share ``w`` of problems is never solved, the rest follow ``base``.

    Then pass@k rises to ``1 - w`` and :math:`y_k` levels out at :math:`-\log(1-w)`: a plateau, not a power law.

    Parameters
    ----------
    w : float in [0, 1)
    base : SuccessLaw
    """

    w: float
    base: SuccessLaw

    def __post_init__(self) -> None:
        check_number("w", self.w)
        if not 0.0 <= self.w < 1.0:
            raise ValueError(f"w must lie in [0, 1), got {self.w}")
        if not isinstance(self.base, SuccessLaw):
            raise TypeError(f"base must be a law of p such as ScaledBeta, got {type(self.base).__name__}")

    @property
    def plateau(self) -> float:
        r""":math:`-\log(1-w)`, the limit of ``neg_log_pass``; an atom of ``base`` at 0 counts as well."""
        unsolvable = float(self.cdf(0.0))
        return -math.log1p(-unsolvable) if unsolvable < 1.0 else math.inf

    def pdf(self, p: ArrayLike) -> Floats:
        """Density of the continuous part, infinite at the atom 0."""
        p = _points(p)
        return np.where((p == 0.0) & (self.w > 0.0), np.inf, (1.0 - self.w) * self.base.pdf(p))

    def cdf(self, p: ArrayLike) -> Floats:
        """Distribution function with a jump of ``w`` at 0."""
        p = _points(p)
        return np.where(p >= 0.0, self.w + (1.0 - self.w) * self.base.cdf(p), 0.0)

    def ppf(self, q: ArrayLike) -> Floats:
        """0 up to level ``w``, then the quantiles of ``base``."""
        return self.base.ppf(np.maximum(_quantiles(q) - self.w, 0.0) / (1.0 - self.w)) * (np.asarray(q) > self.w)

    def quadrature(self, size: int, low: float = 1e-12) -> Nodes:
        """The rule of ``base`` and a node at 0."""
        nodes = self.base.quadrature(size, low)
        return Nodes(
            np.append(nodes.log_p, -np.inf), np.append(nodes.log_q, 0.0), np.append((1 - self.w) * nodes.weight, self.w)
        )

    def failure_at(self, k: ArrayLike) -> Floats:
        """``w + (1 - w)`` times the failure of ``base``."""
        return self.w + (1.0 - self.w) * self.base.failure_at(k)

    def tail(self) -> PowerLawTail | None:
        """None, unless ``w = 0``."""
        return self.base.tail() if self.w == 0.0 else None

    def leading_term(self, k: ArrayLike) -> Floats:
        """The plateau."""
        return np.full(check_k(k).size, self.plateau) if self.w > 0.0 else self.base.leading_term(k)
