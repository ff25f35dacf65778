r"""The forward-reverse experiment: degrade a sample, restore it, ask whether a feature survived.

For a level t of degradation the curve is :math:`g(t) = P[f(X') = f(x)]`, with :math:`Y_t` a degraded copy of the sample
x and :math:`X'` a draw from the posterior given :math:`Y_t` under the *whole* law p, which is what running the
generative model from :math:`Y_t` does. Where g jumps, the model decides f. One experiment serves every sampler that can
``degrade`` and ``resample``; here are the three that the paper treats, each with an exact reverse step:

================================ ==================================================== ==============================
:class:`GaussianMixtureSampler`  :math:`Y_t = e^{-t} x + \sqrt{1 - e^{-2t}}\,Z`          t in [0, inf]
:class:`MaskingSampler`          each coordinate masked with probability t             t in [0, 1]
:class:`AutoregressiveSampler`   the first T - t tokens                                t in 0..T
================================ ==================================================== ==============================

In all of them a larger t means less information.

Reference: Li, Karan & Chen, "Blink of an eye", ICML 2025 (arXiv:2502.00921), Sections 2, 4 and Table 1.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from icml25 import _arguments as check
from icml25.theory.critical_windows import arguments

__all__ = [
    "AutoregressiveSampler",
    "Curve",
    "ExactDenoiser",
    "GaussianMixtureSampler",
    "MaskingSampler",
    "Sampler",
    "cw_condition",
    "detect_windows",
    "forward_reverse_curve",
    "fraction_cuts",
    "window_accuracy_table",
]

Array = NDArray[np.float64]
Feature = Callable[[Tensor], Any]


@runtime_checkable
class Sampler(Protocol):
    """A generative model seen as the reversal of a degradation.

    ``stochastic`` says whether ``degrade`` draws: then every sample of a curve gets its own degraded copy.
    A sampler may add ``resample_levels(x, levels, n, generator) -> (B, levels, n, ...)`` where it has a faster way to
    answer all levels at once.
    """

    stochastic: bool

    def degrade(self, x: Tensor, t: float, generator: torch.Generator) -> Tensor:
        """Draw Y_t for each row of ``x`` (B, ...)."""

    def resample(self, y: Tensor, t: float, n: int, generator: torch.Generator) -> Tensor:
        """Draw ``n`` samples from the posterior given each row of ``y``: (B, n, ...)."""


@dataclass(frozen=True)
class Curve:
    """A measured forward-reverse curve.

    Attributes
    ----------
    levels : (L,) array
        Degradation levels; larger is less information.
    prob : (L,) or (B, L) array
        Share of the samples whose feature is the original's, for one start or for B.
    stderr : array, as ``prob``
        Binomial standard error of each share.
    n_samples : int
        Samples behind each share.
    """

    levels: Array
    prob: Array
    stderr: Array
    n_samples: int

    def __post_init__(self) -> None:
        levels, prob = np.asarray(self.levels), np.asarray(self.prob)
        if levels.ndim != 1 or prob.ndim not in (1, 2) or prob.shape[-1] != len(levels):
            raise ValueError(f"need (L,) levels and (L,) or (B, L) prob, got {levels.shape} and {prob.shape}")

    def towards_clean(self) -> Array:
        """``prob`` with the levels falling, so that information grows along the last axis: the order for windows."""
        return np.asarray(self.prob[..., np.argsort(-self.levels, kind="stable")])


def forward_reverse_curve(
    sampler: Sampler,
    x: Tensor,
    levels: Sequence[float] | Array,
    n_samples: int,
    feature: Feature,
    *,
    generator: int | torch.Generator,
    chunk: int = 2**22,
) -> Curve:
    r"""Monte Carlo curve :math:`g(t) = P[f(X') = f(x)]` of one sample or of many.

    Parameters
    ----------
    sampler : Sampler
        What to degrade and restore with.
    x : (d,) or (B, d) tensor
        Starting sample, or a batch of them.
    levels : sequence of float
        Degradation levels, in any order.
    n_samples : int
        Draws per start and level.
    feature : callable
        Maps (M, d) samples to M labels.
    generator : int or torch.Generator
        Seed or source of randomness, on the device of ``x``.
    chunk : int
        Largest number of coordinates drawn at once for a stochastic degradation, which bounds the memory.

    Returns
    -------
    Curve

    Raises
    ------
    ValueError
        If ``x`` has another shape or is not finite, there are no levels or no samples, a step of the sampler returns
        another number of rows or NaN, or ``feature`` gives another number of labels or NaN.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a tensor, got {type(x).__name__}")
    if x.ndim not in (1, 2) or len(x) == 0:
        raise ValueError(f"x must be one sample (d,) or a batch (B, d) of at least one, got {tuple(x.shape)}")
    if not bool(torch.isfinite(x).all()):
        raise ValueError("x must be finite")
    check.integer("n_samples", n_samples, 1)
    check.integer("chunk", chunk, 1)
    grid = np.asarray(levels, dtype=np.float64)
    if grid.ndim != 1 or grid.size == 0 or np.isnan(grid).any():
        raise ValueError(f"levels must be a non-empty list of numbers, got {levels}")
    rng = check.torch_generator(generator, x.device)
    batch = x[None] if x.ndim == 1 else x
    wanted = _labels(feature, batch)
    at_once = getattr(sampler, "resample_levels", None)
    if at_once is not None:
        drawn = _drawn("resample_levels", at_once(batch, grid, n_samples, rng), (len(batch), len(grid), n_samples))
        labels = _labels(feature, drawn.reshape(-1, drawn.shape[-1])).reshape(drawn.shape[:-1])
        prob = (labels == wanted[:, None, None]).mean(-1)
    else:
        columns = [_survival(sampler, batch, float(t), n_samples, feature, wanted, rng, chunk) for t in grid]
        prob = np.stack(columns, 1)
    prob = prob[0] if x.ndim == 1 else prob
    return Curve(grid, prob, np.sqrt(prob * (1.0 - prob) / n_samples), n_samples)


def _survival(
    sampler: Sampler,
    x: Tensor,
    t: float,
    n: int,
    feature: Feature,
    wanted: NDArray[Any],
    rng: torch.Generator,
    chunk: int,
) -> Array:
    """Share of each start's draws at one level that keep its label, (B,)."""
    if not sampler.stochastic:
        degraded = _drawn("degrade", sampler.degrade(x, t, rng), (len(x),))
        drawn = _drawn("resample", sampler.resample(degraded, t, n, rng), (len(x), n))
        labels = _labels(feature, drawn.reshape(-1, drawn.shape[-1])).reshape(len(x), n)
        return np.asarray((labels == wanted[:, None]).mean(1))
    start = np.repeat(np.arange(len(x)), n)
    kept = np.zeros(len(x))
    rows = max(1, chunk // max(1, x.shape[1]))
    for first in range(0, len(start), rows):
        which = start[first : first + rows]
        noisy = _drawn("degrade", sampler.degrade(x[torch.from_numpy(which).to(x.device)], t, rng), (len(which),))
        labels = _labels(feature, _drawn("resample", sampler.resample(noisy, t, 1, rng), (len(which), 1))[:, 0])
        kept += np.bincount(which, weights=labels == wanted[which], minlength=len(x))
    return kept / n


def _drawn(step: str, values: Tensor, leading: tuple[int, ...]) -> Tensor:
    """What a step of a sampler returned, if it has the rows that it was asked for and no NaN."""
    # A missing row would be spread over the others by broadcasting.
    if tuple(values.shape[:-1]) != leading:
        wanted = ", ".join(map(str, leading))
        raise ValueError(f"the sampler's {step} must return the shape ({wanted}, d), got {tuple(values.shape)}")
    if values.is_floating_point() and bool(torch.isnan(values).any()):
        raise ValueError(f"the sampler's {step} returned NaN")
    return values


def _labels(feature: Feature, x: Tensor) -> NDArray[Any]:
    found = feature(x)
    labels = np.asarray(found.cpu() if isinstance(found, Tensor) else found)
    if labels.shape != (len(x),):
        raise ValueError(f"feature must map {len(x)} samples to {len(x)} labels, got the shape {labels.shape}")
    if np.issubdtype(labels.dtype, np.floating) and np.isnan(labels).any():
        raise ValueError("feature returned NaN as a label, which equals no label")
    return labels


# Windows in measured curves -------------------------------------------------------------------------------------------


def detect_windows(prob: object, jump: float = 0.5, max_drop: float | None = None) -> NDArray[np.int64]:
    """Where a curve jumps: indices i with ``prob[i + 1] - prob[i] > jump``.

    Parameters
    ----------
    prob : (L,) array
        Probabilities in the order of growing information (more tokens kept, less noise).
    jump : float
        Threshold, exceeded strictly.
    max_drop : float, optional
        Report nothing if the curve falls anywhere by more than this.

    Returns
    -------
    int array

    Examples
    --------
    >>> detect_windows([0.1, 0.2, 0.9, 1.0])
    array([1])
    """
    _check_thresholds(jump, max_drop)
    curve = _curve(prob)
    if curve.ndim != 1:
        raise ValueError(f"prob must be one curve, got the shape {curve.shape}")
    steps = np.diff(curve)
    if max_drop is not None and (steps < -max_drop - _ROUNDING).any():
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(steps > jump + _ROUNDING)


def cw_condition(differences: object, jump: float = 0.5, max_drop: float | None = 0.3) -> NDArray[np.bool_]:
    """Whether curves have a critical window, from their consecutive differences.

    The rule behind the paper's plots: some difference exceeds ``jump`` and none falls below ``-max_drop``. Its tables
    use the first half alone (``max_drop=None``).

    Parameters
    ----------
    differences : (..., L - 1) array
        Differences in the order of growing information.
    jump, max_drop : float
        Thresholds.

    Returns
    -------
    (...) bool array

    Examples
    --------
    >>> cw_condition([[0.6, 0.1], [0.6, -0.4]])
    array([ True, False])
    """
    _check_thresholds(jump, max_drop)
    steps = np.asarray(differences, dtype=np.float64)
    if steps.ndim < 1 or steps.shape[-1] < 1 or not (np.abs(steps) <= 1.0 + _ROUNDING).all():
        raise ValueError("differences must be a non-empty array of numbers in [-1, 1]")
    found = (steps > jump + _ROUNDING).any(-1)
    if max_drop is not None:
        found = found & (steps >= -max_drop - _ROUNDING).all(-1)
    return np.asarray(found)


def window_accuracy_table(
    curves: Curve | object, correct: object, jump: float = 0.5, max_drop: float | None = None
) -> dict[str, Any]:
    """Accuracy of generations with and without a window, and how often right and wrong ones have one (Table 1).

    Parameters
    ----------
    curves : Curve, or (B, L) array
        One curve per generation; an array must be in the order of growing information.
    correct : (B,) bool array
        Whether each generation's answer is right.
    jump, max_drop : float
        See :func:`cw_condition`.

    Returns
    -------
    dict
        ``delta_acc`` = accuracy without - with a window (``acc_without``, ``acc_with``); ``delta_cw`` = window rate
        among wrong - among right generations (``rate_wrong``, ``rate_right``); ``counts``, the (2, 2) table with rows
        window no/yes and columns wrong/right.

    Warns
    -----
    UserWarning
        If a row or column of ``counts`` is empty: the difference that divides by it is NaN.

    Examples
    --------
    >>> table = window_accuracy_table([[0.1, 0.9], [0.8, 0.9], [0.2, 0.9]], [False, True, True])
    >>> table["delta_acc"], table["delta_cw"]
    (0.5, 0.5)
    """
    prob = _curve(curves.towards_clean() if isinstance(curves, Curve) else curves)
    right = np.asarray(correct)
    if right.dtype != np.bool_ or prob.ndim != 2 or right.shape != prob.shape[:1]:
        raise ValueError(f"need (B, L) curves and B booleans, got {prob.shape} and {right.shape} of {right.dtype}")
    window = cw_condition(np.diff(prob), jump, max_drop)
    counts = np.zeros((2, 2), dtype=np.int64)
    np.add.at(counts, (window.astype(int), right.astype(int)), 1)
    (no_wrong, no_right), (yes_wrong, yes_right) = counts.tolist()
    acc_without, acc_with = _ratio(no_right, no_right + no_wrong), _ratio(yes_right, yes_right + yes_wrong)
    rate_wrong, rate_right = _ratio(yes_wrong, yes_wrong + no_wrong), _ratio(yes_right, yes_right + no_right)
    table: dict[str, Any] = {
        "delta_acc": acc_without - acc_with,
        "delta_cw": rate_wrong - rate_right,
        "acc_without": acc_without,
        "acc_with": acc_with,
        "rate_wrong": rate_wrong,
        "rate_right": rate_right,
        "counts": counts,
    }
    empty = [name for name in ("acc_without", "acc_with", "rate_wrong", "rate_right") if math.isnan(table[name])]
    if empty:
        warnings.warn(f"no generation to average over in {', '.join(empty)}: NaN returned", UserWarning, stacklevel=2)
    return table


def fraction_cuts(length: int, fractions: Sequence[float] = (0.05, 0.1, 0.3, 0.5, 0.7, 0.9)) -> list[int]:
    """Tokens to keep for each fraction, floor(f * length), without repeats; the default is the paper's grid.

    Examples
    --------
    >>> fraction_cuts(35)
    [1, 3, 10, 17, 24, 31]
    """
    check.integer("length", length, 1)
    if len(fractions) == 0 or not all(0.0 <= f <= 1.0 for f in fractions):
        raise ValueError(f"fractions must lie in [0, 1], at least one of them, got {list(fractions)}")
    # 0.7 * 10 is 7.000000000000001 but 0.29 * 100 is 28.999999999999996: the small lift keeps floor on the exact value.
    return sorted({math.floor(f * length + 1e-9) for f in fractions})


_ROUNDING = 1e-12  # 0.6 - 0.1 may round to more than 0.5; shares of up to 10^11 samples are told apart all the same


def _curve(prob: object) -> Array:
    curve = np.asarray(prob, dtype=np.float64)
    if curve.ndim < 1 or curve.shape[-1] < 2:
        raise ValueError(f"prob needs at least 2 levels, got the shape {curve.shape}")
    if not ((curve >= 0.0) & (curve <= 1.0)).all():
        raise ValueError(f"prob must lie in [0, 1], got {curve.min():g}..{curve.max():g}")
    return curve


def _check_thresholds(jump: float, max_drop: float | None) -> None:
    check.between("jump", jump, 0.0, 1.0)
    if max_drop is not None:
        check.between("max_drop", max_drop, 0.0, 1.0)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


# Samplers -------------------------------------------------------------------------------------------------------------


class GaussianMixtureSampler:
    r"""Diffusion on :math:`p = \sum_k w_k \mathcal N(\mu_k, \sigma^2 I)` with the exact score.

    Parameters
    ----------
    means : (K, d) floating tensor
        Its dtype and device are used throughout.
    weights : (K,) tensor, optional
        Default: equal.
    var : float
        :math:`\sigma^2`, variance of each coordinate within a component.
    method : {"exact", "sde"}
        Draw from the posterior in one step, or integrate the reverse SDE
        :math:`dX = (X + 2 \nabla\log p_s(X))\,d\tau + \sqrt 2\,dW`, s = t - tau, as a diffusion model does.
    n_steps : int
        Steps of the SDE; its law is off by O(t / n_steps). Each step solves the linear part of the drift exactly,
        which stays stable for small ``var``.
    """

    stochastic = True

    def __init__(
        self,
        means: Tensor,
        weights: Tensor | None = None,
        *,
        var: float = 1.0,
        method: str = "exact",
        n_steps: int = 200,
    ) -> None:
        if means.ndim != 2 or not means.is_floating_point() or len(means) == 0 or not bool(means.isfinite().all()):
            raise ValueError(
                f"means must be a finite (K, d) floating tensor, got {tuple(means.shape)} of {means.dtype}"
            )
        if weights is None:
            weights = means.new_full((len(means),), 1.0 / len(means))
        weights = torch.as_tensor(weights).to(means)
        if weights.shape != (len(means),) or not bool((weights >= 0).all()) or abs(float(weights.sum()) - 1.0) > 1e-5:
            raise ValueError(f"weights must be non-negative and sum to 1 (got sum={float(weights.sum()):g})")
        var = check.positive("var", var)
        if method not in ("exact", "sde"):
            raise ValueError(f"method must be 'exact' or 'sde', got {method!r}")
        check.integer("n_steps", n_steps, 1)
        self.means, self.weights, self.var = means, weights, var
        self.method, self.n_steps = method, n_steps
        self._half_norms = 0.5 * means.square().sum(1)

    def posterior(self, y: Tensor, t: float) -> Tensor:
        r"""P(component k | Y_t = y): (M, d) to (M, K).

        The softmax of :math:`\log w_k - |y - e^{-t}\mu_k|^2 / 2 s_t^2`, with
        :math:`s_t^2 = e^{-2t}\sigma^2 + 1 - e^{-2t}`; the term :math:`|y|^2` is the same for all k and left out.
        """
        shrink, spread = self._noise(t)
        scores = (shrink * (y @ self.means.T) - shrink**2 * self._half_norms) / spread
        return torch.softmax(scores + self.weights.log(), -1)

    def score(self, y: Tensor, t: float) -> Tensor:
        r"""Gradient of :math:`\log p_t` at each row of ``y``: :math:`(e^{-t} E[\mu \mid y] - y) / s_t^2`."""
        shrink, spread = self._noise(t)
        return (shrink * (self.posterior(y, t) @ self.means) - y) / spread

    def component(self, x: Tensor) -> Tensor:
        """Likeliest component of each clean sample, (M, d) to (M,): the feature to follow."""
        return self.posterior(x, 0.0).argmax(-1)

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw (n, d) clean samples."""
        which = torch.multinomial(self.weights, n, replacement=True, generator=generator)
        return self.means[which] + math.sqrt(self.var) * self._normal((n, self.means.shape[1]), generator)

    def degrade(self, x: Tensor, t: float, generator: torch.Generator) -> Tensor:
        """See :class:`Sampler`; t = inf leaves pure noise."""
        shrink, _ = self._noise(t)
        return shrink * x + math.sqrt(1.0 - shrink**2) * self._normal(x.shape, generator)

    def resample(self, y: Tensor, t: float, n: int, generator: torch.Generator) -> Tensor:
        """See :class:`Sampler`."""
        y = y.repeat_interleave(n, 0)
        if self.method == "exact" or t == 0.0:
            x = self._posterior_sample(y, t, generator)
        elif math.isinf(t):
            raise ValueError("the reverse SDE needs a finite t; method='exact' takes t=inf")
        else:
            x = self._reverse_sde(y, t, generator)
        return x.view(-1, n, y.shape[1])

    def _posterior_sample(self, y: Tensor, t: float, generator: torch.Generator) -> Tensor:
        shrink, spread = self._noise(t)
        which = torch.multinomial(self.posterior(y, t), 1, generator=generator)[:, 0]
        mean = self.means[which]
        gain, left = shrink * self.var / spread, self.var * (1.0 - shrink**2) / spread
        return mean + gain * (y - shrink * mean) + math.sqrt(left) * self._normal(y.shape, generator)

    def _reverse_sde(self, x: Tensor, t: float, generator: torch.Generator) -> Tensor:
        h = t / self.n_steps
        for step in range(self.n_steps):
            # The drift X + 2 score is linear in X but for E[mu | X], which is held over the step.
            s = t - step * h
            shrink, spread = self._noise(s)
            rate = 1.0 - 2.0 / spread
            push = 2.0 * shrink / spread * (self.posterior(x, s) @ self.means)
            growth = math.expm1(rate * h) / rate if rate else h
            noise = math.expm1(2.0 * rate * h) / rate if rate else 2.0 * h
            x = (1.0 + rate * growth) * x + growth * push + math.sqrt(noise) * self._normal(x.shape, generator)
        return x

    def _noise(self, t: float) -> tuple[float, float]:
        if not check.number("t", t) >= 0.0:
            raise ValueError(f"t must lie in [0, inf], got {t}")
        shrink = math.exp(-t)
        return shrink, shrink**2 * self.var + 1.0 - shrink**2

    def _normal(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        return torch.randn(tuple(shape), dtype=self.means.dtype, device=self.means.device, generator=generator)


class ExactDenoiser:
    """Conditional law of every coordinate given the unmasked ones, for a law on finitely many strings.

    Parameters
    ----------
    strings : (N, T) int64 tensor
        Support of the law, symbols 0..A-1.
    weights : (N,) tensor
        Probability of each string.
    alphabet : int
        A.
    """

    def __init__(self, strings: Tensor, weights: Tensor, alphabet: int) -> None:
        check.integer("alphabet", alphabet, 1)
        arguments.tokens("strings", strings, alphabet)
        if strings.ndim != 2 or weights.shape != strings.shape[:1]:
            raise ValueError(f"need (N, T) strings, N weights, got {tuple(strings.shape)} and {tuple(weights.shape)}")
        if not bool((weights >= 0).all()) or abs(float(weights.sum()) - 1.0) > 1e-8:
            raise ValueError(f"weights must be non-negative and sum to 1 (got sum={float(weights.sum()):g})")
        self.alphabet, self.weights = alphabet, weights.double()
        self._one_hot = torch.nn.functional.one_hot(strings, alphabet).double().flatten(1)

    def __call__(self, y: Tensor) -> Tensor:
        """Map (M, T) strings with masks (any symbol outside 0..A-1) to (M, T, A) probabilities.

        Raises
        ------
        ValueError
            If no string agrees with the unmasked part of a row.
        """
        seen = (y >= 0) & (y < self.alphabet)
        one_hot = torch.nn.functional.one_hot(y.where(seen, 0), self.alphabet).double() * seen[..., None]
        agrees = one_hot.flatten(1) @ self._one_hot.T == seen.sum(1, keepdim=True)
        mass = agrees * self.weights
        total = mass.sum(1, keepdim=True)
        if not bool((total > 0).all()):
            raise ValueError("an observation has probability 0: no string of the law agrees with its unmasked part")
        return ((mass / total) @ self._one_hot).view(*y.shape, self.alphabet)


class MaskingSampler:
    """Masked (absorbing) discrete diffusion: coordinates are hidden at random and drawn back one by one.

    Parameters
    ----------
    denoiser : callable
        Maps (M, T) int64 strings with masks to (M, T, A) conditional probabilities: a network, or
        :class:`ExactDenoiser`.
    mask : int
        The symbol of a hidden coordinate, outside 0..A-1.
    per_step : int
        Coordinates drawn back per call of the denoiser. With 1 the reverse step is exact for an exact denoiser; more
        is faster and draws them as if independent.
    """

    stochastic = True

    def __init__(self, denoiser: Callable[[Tensor], Tensor], mask: int, per_step: int = 1) -> None:
        check.integer("per_step", per_step, 1)
        self._check_mask(check.integer("mask", mask, -(2**62)), getattr(denoiser, "alphabet", 0))
        self.denoiser, self.mask, self.per_step = denoiser, mask, per_step

    def degrade(self, x: Tensor, t: float, generator: torch.Generator) -> Tensor:
        """See :class:`Sampler`; t in [0, 1] is the probability of a mask."""
        check.between("t", t, 0.0, 1.0)
        hidden = torch.rand(x.shape, dtype=torch.float64, device=x.device, generator=generator) < t
        return x.masked_fill(hidden, self.mask)

    def resample(self, y: Tensor, t: float, n: int, generator: torch.Generator) -> Tensor:
        """See :class:`Sampler`; the level is read off the masks, not off ``t``."""
        x = y.repeat_interleave(n, 0)
        hidden = x == self.mask
        # Random order: hidden coordinates first, by a random key; rank r is drawn back in call r // per_step.
        keys = torch.rand(x.shape, dtype=torch.float64, device=x.device, generator=generator)
        order = keys.masked_fill(~hidden, 2.0).argsort(1)
        left = hidden.sum(1)
        for first in range(0, int(left.max()) if len(left) else 0, self.per_step):
            rows = (left > first).nonzero()
            slots = torch.arange(first, min(first + self.per_step, x.shape[1]), device=x.device)
            where, due = order[rows, slots], slots < left[rows]
            law = self.denoiser(x[rows[:, 0]])
            alphabet = law.shape[-1]
            self._check_mask(self.mask, alphabet)
            chosen = law.gather(1, where[..., None].expand(-1, -1, alphabet))
            drawn = torch.multinomial(chosen.flatten(0, 1), 1, generator=generator).view(where.shape)
            x[rows, where] = torch.where(due, drawn, x[rows, where])
        return x.view(-1, n, y.shape[1])

    @staticmethod
    def _check_mask(mask: int, alphabet: int) -> None:
        if 0 <= mask < alphabet:
            raise ValueError(f"mask must lie outside the letters 0..{alphabet - 1}, got {mask}")


class AutoregressiveSampler:
    """Next-token sampling as the reversal of truncation; any causal language model.

    Parameters
    ----------
    model : object
        Has ``length`` and ``sample(prefix, n, generator=, temperature=, top_p=)``; a ``resample_cuts`` method with the
        arguments of :func:`icml25.theory.critical_windows.language.resample_cuts` answers all levels in one sweep.
    context : (B, T) int64 tensor, optional
        Aligned context of the starts, for models that take one.
    temperature, top_p : float
        Sampling rule.
    """

    stochastic = False

    def __init__(
        self, model: Any, *, context: Tensor | None = None, temperature: float = 1.0, top_p: float = 1.0
    ) -> None:
        self.model, self.context = model, context
        self._rule = {"temperature": temperature, "top_p": top_p} | ({} if context is None else {"context": context})

    def degrade(self, x: Tensor, t: float, generator: torch.Generator) -> Tensor:
        """See :class:`Sampler`; t is the number of tokens cut off the end."""
        return x[..., : self._kept(x, t)]

    def resample(self, y: Tensor, t: float, n: int, generator: torch.Generator) -> Tensor:
        """See :class:`Sampler`."""
        drawn: Tensor = self.model.sample(y, n, generator=generator, **self._rule)
        return drawn

    def resample_levels(self, x: Tensor, levels: Array, n: int, generator: torch.Generator) -> Tensor:
        """All levels of all starts: (B, T) to (B, levels, n, T')."""
        kept = np.array([self._kept(x, float(t)) for t in levels])
        cuts, back = np.unique(kept, return_inverse=True)
        drawn: Tensor = self.model.resample_cuts(x, cuts.tolist(), n, generator=generator, **self._rule)
        return drawn[:, torch.from_numpy(back).to(drawn.device)]

    def _kept(self, x: Tensor, t: float) -> int:
        if not 0 <= t <= x.shape[-1] or t != int(t):
            raise ValueError(f"t must be a whole number in 0..{x.shape[-1]}, got {t}")
        return x.shape[-1] - int(t)
