"""Estimators of the exponent ``b``: least squares on the curve, and four fits of the law behind it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize, minimize_scalar

from icml25.theory.monkeys.laws import ScaledBeta, ScaledKumaraswamy, check_scale
from icml25.theory.monkeys.likelihood import CompoundLikelihood, check_grid
from icml25.theory.monkeys.passk import (
    Extrapolate,
    as_floats,
    check_extrapolate,
    check_k,
    check_number,
    merge_counts,
    neg_log_pass,
)
from icml25.theory.monkeys.quadrature import Family

__all__ = [
    "CompoundBinomialFitter",
    "FittedLaw",
    "PowerLawFit",
    "discretized_fit",
    "fit_power_law",
    "least_squares_fit",
    "local_slopes",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ExponentKind = Literal["asymptotic", "fitted"]
Scale = Literal["max", "profile"] | float

_STARTS = ((0.35, 3.5), (0.1, 1.5))
_NO_LAW = ("all_zero", "not_identified")


@dataclass(frozen=True)
class PowerLawFit:
    """Least-squares line through ``log y`` against ``log k``: ``y = a k^(-b)``.

    Attributes
    ----------
    a, b : float
        Constant and exponent; NaN unless ``status`` is ``"ok"``.
    r2 : float
        Share of the variance of ``log y`` that the line explains.
    k_used : (M,) ints
        Values of k that entered.
    status : str
        ``"ok"``, ``"all_zero"`` (no success anywhere) or ``"too_few_points"``.
    """

    a: float
    b: float
    r2: float
    k_used: Ints = field(repr=False)
    status: str = "ok"

    def predict(self, k: ArrayLike) -> Floats:
        """Value ``a k^(-b)`` of the fitted ``neg_log_pass`` curve."""
        return self.a * check_k(k).astype(np.float64) ** -self.b


def fit_power_law(k: ArrayLike, y: ArrayLike) -> PowerLawFit:
    """Fit ``y = a k^(-b)`` by ordinary least squares of ``log y`` on ``log k`` over the finite, positive ``y``.

    Points with ``y = 0`` (every problem solved) or infinite ``y`` (none) have no logarithm; ``k_used`` says which
    points remained.

    Parameters
    ----------
    k : (K,) integers >= 1
    y : (K,) floats

    Raises
    ------
    ValueError
        On mismatched lengths, NaN, or fewer than two usable points.

    Examples
    --------
    >>> fit = fit_power_law([1, 10, 100], [2.0, 0.2, 0.02])
    >>> round(fit.a, 6), round(fit.b, 6)
    (2.0, 1.0)
    """
    grid, curve = check_k(k), as_floats("y", y)
    if curve.shape != grid.shape:
        raise ValueError(f"k and y must have the same length, got shapes {grid.shape} and {curve.shape}")
    if np.isnan(curve).any():
        raise ValueError(f"y must not hold NaN, got one at index {np.flatnonzero(np.isnan(curve))[0]}")
    usable = np.isfinite(curve) & (curve > 0.0)
    if np.unique(grid[usable]).size < 2:
        raise ValueError(f"a power law needs at least two values of k with finite y > 0, got {usable.sum()} point(s)")
    log_k, log_y = np.log(grid[usable]), np.log(curve[usable])
    centred = log_k - log_k.mean()
    slope = float(centred @ log_y / (centred @ centred))
    intercept = float(log_y.mean() - slope * log_k.mean())
    residual = log_y - intercept - slope * log_k
    spread = float(np.sum((log_y - log_y.mean()) ** 2))
    r2 = 1.0 - float(residual @ residual) / spread if spread > 0.0 else 1.0
    return PowerLawFit(math.exp(intercept), -slope, r2, grid[usable])


def least_squares_fit(
    n: ArrayLike,
    x: ArrayLike,
    k: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    extrapolate: Extrapolate = "raise",
) -> PowerLawFit:
    """Estimator 1, the standard: a line through the log-log curve of the unbiased pass@k.

    Parameters
    ----------
    n, x, weights
        Counts.
    k : (K,) integers, optional
        By default 100 log-spaced values from 1 to the smallest ``n`` (the largest with ``extrapolate="official"``).
    extrapolate
        See :func:`pass_at_k`.

    Returns
    -------
    PowerLawFit
        With status ``"all_zero"`` or ``"too_few_points"`` and NaN, rather than an error, where the counts cannot say.
    """
    check_extrapolate(extrapolate)
    attempts, successes, multiplicity = merge_counts(n, x, weights)
    top = int(attempts.min() if extrapolate == "raise" else attempts.max())
    grid = log_spaced_k(top, 100) if k is None else check_k(k)
    empty = np.zeros(0, dtype=np.int64)
    if not successes.any():
        return PowerLawFit(math.nan, math.nan, math.nan, empty, "all_zero")
    curve = neg_log_pass(attempts, successes, grid, multiplicity, extrapolate=extrapolate)
    if np.unique(grid[np.isfinite(curve) & (curve > 0.0)]).size < 2:
        return PowerLawFit(math.nan, math.nan, math.nan, empty, "too_few_points")
    return fit_power_law(grid, curve)


def log_spaced_k(top: int, count: int) -> Ints:
    """Distinct integers of ``count`` log-spaced values from 1 to ``top``."""
    # The last value of logspace can fall just short of top and be truncated below it.
    spaced = np.logspace(0.0, math.log10(top), count)
    return np.unique(np.append(spaced.astype(np.int64), top))


def local_slopes(k: ArrayLike, y: ArrayLike, edges: ArrayLike) -> Floats:
    """Steepness of a log-log curve in successive windows: minus the least-squares slope within each.

    A power law gives one constant; a curve that falls faster than any power gives growing values.

    Parameters
    ----------
    k : (K,) increasing integers
    y : (K,) floats > 0
    edges : (M,) increasing floats
        Window ``j`` holds the points with ``edges[j] <= k <= edges[j + 1]``.

    Returns
    -------
    (M - 1,) float64 array

    Raises
    ------
    ValueError
        If ``k`` or ``edges`` do not increase, ``y`` is not finite and positive, or a window holds fewer than two
        points.
    """
    grid, curve, cuts = check_k(k), as_floats("y", y), as_floats("edges", edges)
    if curve.shape != grid.shape or not (np.isfinite(curve) & (curve > 0.0)).all():
        raise ValueError("y must be finite and positive at every k")
    if (np.diff(grid) <= 0).any():
        raise ValueError("k must be increasing")
    if cuts.ndim != 1 or cuts.size < 2 or not (np.diff(cuts) > 0).all():
        raise ValueError(f"edges must be at least two increasing values, got {cuts.tolist()}")
    windows = [(grid >= low) & (grid <= high) for low, high in itertools.pairwise(cuts)]
    return np.array([fit_power_law(grid[window], curve[window]).b for window in windows])


def check_kind(kind: ExponentKind) -> None:
    """Raise ``ValueError`` unless it is ``"asymptotic"`` or ``"fitted"``."""
    if kind not in ("asymptotic", "fitted"):
        raise ValueError(f'kind must be "asymptotic" or "fitted", got {kind!r}')


def check_bounds(bounds: tuple[float, float]) -> None:
    """Raise unless ``bounds`` is a pair ``low < high`` of shapes."""
    if not isinstance(bounds, Sequence) or len(bounds) != 2:
        raise ValueError(f"bounds must be a pair (low, high), got {bounds!r}")
    for bound in bounds:
        check_number("bounds", bound)
    if not 1e-6 <= bounds[0] < bounds[1] <= 1000.0:
        raise ValueError(f"bounds must satisfy 1e-6 <= low < high <= 1000, got {bounds}")


@dataclass(frozen=True)
class FittedLaw:
    """A law fitted to counts.

    Attributes
    ----------
    family : {"beta", "kumaraswamy"}
    alpha, beta, scale : float
        Shapes and upper end of the support; NaN if ``status`` is ``"all_zero"`` or ``"not_identified"``.
    nll : float
        Mean negative log-likelihood per problem, in nats (of the bins, for the discretised fits).
    status : str
        ``"ok"``, ``"at_bound"`` (a shape on the edge of the search box), ``"not_converged"``, ``"all_zero"`` (no
        success), or ``"not_identified"`` (the objective is the same for a whole curve of shapes: one try per problem
        tells the mean of ``p`` only, and nothing is told by a histogram whose first bin holds everything).
    """

    family: Family
    alpha: float
    beta: float
    scale: float
    nll: float
    status: str

    @property
    def distribution(self) -> ScaledBeta | ScaledKumaraswamy:
        """The law itself.

        Raises
        ------
        ValueError
            If there was none to fit.
        """
        if self.status in _NO_LAW:
            raise ValueError(f"no law was fitted: status {self.status}")
        law = ScaledBeta if self.family == "beta" else ScaledKumaraswamy
        return law(self.alpha, self.beta, self.scale)

    def exponent(self, kind: ExponentKind = "asymptotic", k: ArrayLike | None = None) -> tuple[float, float]:
        """Constant and exponent ``(a, b)`` of the fitted law's power law.

        Parameters
        ----------
        kind : {"asymptotic", "fitted"}
            ``"asymptotic"``: the leading term for large k, so ``b`` is ``alpha``. ``"fitted"``: a least-squares line
            through the fitted law's own curve on ``k``. At k <= 10^4 the two can differ severalfold.
        k : (K,) integers, optional
            For ``"fitted"``; by default 20 log-spaced values from 1 to 10^4.
        """
        check_kind(kind)
        if self.status in _NO_LAW:
            return math.nan, math.nan
        if kind == "asymptotic":
            tail = self.distribution.tail()
            return tail.constant, tail.exponent
        grid = log_spaced_k(10_000, 20) if k is None else check_k(k)
        fit = fit_power_law(grid, self.distribution.neg_log_pass(grid))
        return fit.a, fit.b

    def predict(self, k: ArrayLike) -> Floats:
        """Forecast of the aggregate pass@k, at any k."""
        if self.status in _NO_LAW:
            return np.full(check_k(k).size, math.nan)
        return 1.0 - self.distribution.failure_at(k)


class CompoundBinomialFitter:
    r"""Estimators 2 and 3: maximum likelihood of the counts under a scaled beta or Kumaraswamy law of ``p``.

    .. math:: \min_{\alpha,\beta}\; -\frac1P \sum_i \log \binom{n_i}{x_i} \int_0^c p^{x_i}(1-p)^{n_i-x_i}
        f(p;\alpha,\beta,c)\,dp

    The shapes are optimised in logarithms by L-BFGS-B with exact gradients from two starts. A rule that stops sampling
    on what it has seen changes only constants of this likelihood, so the estimate stays valid there.

    Parameters
    ----------
    family : {"beta", "kumaraswamy"}
    scale : "max", "profile" or float in (0, 1]
        Upper end ``c`` of the support. ``"max"`` is the paper's rule ``min(1, (P+1)/P max x/n)``, held fixed: too low
        when few problems are easy, which biases ``alpha`` up. ``"profile"`` also minimises over ``c`` in
        ``[max x/n, 1]``, at the cost of a dozen or two further fits.
    grid : int, optional
        Quadrature points; by default enough for the largest ``n``.
    bounds : (float, float)
        Box for both shapes.

    Attributes
    ----------
    alpha_, beta_, scale_, nll_ : float
    status_ : str
    fitted_ : FittedLaw
        All of these in one, with ``exponent`` and ``predict``.

    Examples
    --------
    >>> from icml25.theory.monkeys import ScaledBeta, simulate_counts
    >>> n, x = simulate_counts(ScaledBeta(0.3, 2.0), 2000, 1000, seed=0)
    >>> fitter = CompoundBinomialFitter("beta", scale=1.0).fit(n, x)
    >>> abs(fitter.alpha_ - 0.3) < 0.03
    True
    """

    alpha_: float
    beta_: float
    scale_: float
    nll_: float
    status_: str
    fitted_: FittedLaw

    def __init__(
        self,
        family: Family = "beta",
        scale: Scale = "max",
        grid: int | None = None,
        bounds: tuple[float, float] = (0.01, 100.0),
    ) -> None:
        if family not in ("beta", "kumaraswamy"):
            raise ValueError(f'family must be "beta" or "kumaraswamy", got {family!r}')
        if isinstance(scale, str) and scale not in ("max", "profile"):
            raise ValueError(f'scale must be "max", "profile" or a number in (0, 1], got {scale!r}')
        if not isinstance(scale, str):
            check_scale(scale)
        check_grid(grid)
        check_bounds(bounds)
        self.family = family
        self.scale = scale
        self.grid = grid
        self.bounds = bounds

    def fit(self, n: ArrayLike, x: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Fit to attempts ``n`` and successes ``x``.

        Counts that no law follows from give NaN and a status: ``"all_zero"``, or ``"not_identified"`` where every
        problem was tried once.

        Raises
        ------
        ValueError
            On bad counts.
        """
        counts = merge_counts(n, x, weights)
        attempts, successes, multiplicity = counts
        if not successes.any() or attempts.max() == 1:
            status = "not_identified" if successes.any() else "all_zero"
            return self._store(FittedLaw(self.family, math.nan, math.nan, math.nan, math.nan, status))
        largest = float((successes / attempts).max())
        if self.scale == "profile":
            return self._store(self._fit_profile(counts, largest))
        if self.scale == "max":
            problems = float(multiplicity.sum())
            return self._store(self._fit_at(counts, min(1.0, (problems + 1.0) / problems * largest), _STARTS))
        return self._store(self._fit_at(counts, float(self.scale), _STARTS))

    def exponent(self, kind: ExponentKind = "asymptotic", k: ArrayLike | None = None) -> tuple[float, float]:
        """Constant and exponent of the fitted law, see :meth:`FittedLaw.exponent`."""
        return self.fitted_.exponent(kind, k)

    def predict(self, k: ArrayLike) -> Floats:
        """Forecast of the aggregate pass@k, at any k."""
        return self.fitted_.predict(k)

    @property
    def distribution_(self) -> ScaledBeta | ScaledKumaraswamy:
        """The fitted law."""
        return self.fitted_.distribution

    def _store(self, fitted: FittedLaw) -> Self:
        self.fitted_ = fitted
        self.alpha_, self.beta_, self.scale_ = fitted.alpha, fitted.beta, fitted.scale
        self.nll_, self.status_ = fitted.nll, fitted.status
        return self

    def _fit_at(
        self, counts: tuple[Ints, Ints, Floats], scale: float, starts: tuple[tuple[float, float], ...]
    ) -> FittedLaw:
        n, x, weights = counts
        objective = CompoundLikelihood(n, x, family=self.family, scale=scale, weights=weights, grid=self.grid)

        def in_logarithms(theta: Floats) -> tuple[float, Floats]:
            shapes = np.exp(theta)
            value, slope = objective.value_and_gradient(*shapes)
            return value, slope * shapes

        box = (math.log(self.bounds[0]), math.log(self.bounds[1]))
        runs = [
            minimize(
                in_logarithms,
                np.clip(np.log(start), *box),
                jac=True,
                method="L-BFGS-B",
                bounds=[box, box],
                options={"ftol": 1e-12, "gtol": 1e-7},
            )
            for start in starts
        ]
        best = min(runs, key=lambda run: run.fun)
        alpha, beta = np.clip(np.exp(best.x), *self.bounds)
        edge = np.isclose(best.x, box[0], atol=1e-6) | np.isclose(best.x, box[1], atol=1e-6)
        # Status 1 is the limit of iterations; the rest of the failures are line searches stalled at the optimum.
        status = "at_bound" if edge.any() else "not_converged" if best.status == 1 else "ok"
        return FittedLaw(self.family, float(alpha), float(beta), scale, float(best.fun), status)

    def _fit_profile(self, counts: tuple[Ints, Ints, Floats], largest: float) -> FittedLaw:
        if largest == 1.0:
            return self._fit_at(counts, 1.0, _STARTS)
        scales = np.geomspace(largest, 1.0, 7)
        fits = [self._fit_at(counts, largest, _STARTS)]
        for scale in scales[1:]:  # the optimum moves little from one scale to the next
            fits.append(self._fit_at(counts, float(scale), ((fits[-1].alpha, fits[-1].beta),)))
        best = int(np.argmin([fit.nll for fit in fits]))
        start = ((fits[best].alpha, fits[best].beta),)
        low, high = scales[max(best - 1, 0)], scales[min(best + 1, scales.size - 1)]

        def profile(log_scale: float) -> float:
            fits.append(self._fit_at(counts, math.exp(log_scale), start))
            return fits[-1].nll

        minimize_scalar(profile, bounds=(math.log(low), math.log(high)), method="bounded", options={"xatol": 2e-3})
        return min(fits, key=lambda fit: fit.nll)


def discretized_fit(
    n: ArrayLike, x: ArrayLike, family: Family = "beta", resolution: float = 1e-4, weights: ArrayLike | None = None
) -> FittedLaw:
    r"""Estimators 4 and 5: histogram the fractions ``x/n`` and fit the law's bin probabilities.

    .. math:: \max_{\alpha,\beta}\; \sum_j h_j \log\big(F(e_{j+1}) - F(e_j) + 10^{-16}\big)

    Problems without a success fall into the first bin, the "left bucket" ``[0, resolution)``: all that is known of them
    is that ``p`` is small. For ``"beta"`` there are about ``1 / (10 resolution)`` log-spaced bins and the support ends
    at the largest fraction; for ``"kumaraswamy"`` five bins a decade, the first edge at half the resolution, and
    fractions divided by their maximum first. Unlike the compound likelihood this takes ``x/n`` for ``p``.

    Parameters
    ----------
    n, x, weights
        Counts.
    family : {"beta", "kumaraswamy"}
    resolution : float in [1e-7, 0.1]
        Width of the left bucket; ``1/n`` is natural.

    Returns
    -------
    FittedLaw
        With ``nll`` per problem; status ``"all_zero"`` if there is no success, ``"not_identified"`` if the left bucket
        holds every fraction and the support with it.

    Raises
    ------
    ValueError
        On bad counts, an unknown family, or a resolution outside [1e-7, 0.1].
    """
    attempts, successes, multiplicity = merge_counts(n, x, weights)
    if family not in ("beta", "kumaraswamy"):
        raise ValueError(f'family must be "beta" or "kumaraswamy", got {family!r}')
    check_number("resolution", resolution)
    if not 1e-7 <= resolution <= 0.1:
        raise ValueError(f"resolution must lie in [1e-7, 0.1], got {resolution}")
    fractions = successes / attempts
    largest = float(fractions.max())
    if largest == 0.0 or (family == "beta" and largest < resolution):
        status = "all_zero" if largest == 0.0 else "not_identified"
        return FittedLaw(family, math.nan, math.nan, math.nan, math.nan, status)
    decades = -math.log10(resolution)
    if family == "beta":
        edges = np.append(0.0, np.logspace(-decades, 0.0, max(2, int(1.0 / resolution / 10.0))))
        law: type[ScaledBeta | ScaledKumaraswamy] = ScaledBeta
        support = largest
    else:
        edges = np.append([0.0, resolution / 2.0], np.logspace(-decades, 0.0, max(2, round(5.0 * decades) + 1)))
        law, support = ScaledKumaraswamy, 1.0
        fractions = fractions / largest
    share = np.histogram(fractions, edges, weights=multiplicity)[0] / multiplicity.sum()
    filled = np.flatnonzero(share)
    share, lower, upper = share[filled], edges[filled], edges[filled + 1]

    def bin_nll(theta: Floats) -> float:
        alpha, beta = np.exp(theta)
        fitted = law(alpha, beta, support)
        return -float(share @ np.log(fitted.cdf(upper) - fitted.cdf(lower) + 1e-16))

    box = (math.log(0.01), math.log(100.0))
    runs = [minimize(bin_nll, np.log(start), method="L-BFGS-B", bounds=[box, box]) for start in _STARTS]
    best = min(runs, key=lambda run: run.fun)
    edge = np.isclose(best.x, box[0], atol=1e-6) | np.isclose(best.x, box[1], atol=1e-6)
    status = "at_bound" if edge.any() else "not_converged" if best.status == 1 else "ok"
    alpha, beta = np.exp(best.x)
    return FittedLaw(family, float(alpha), float(beta), largest, float(best.fun), status)
