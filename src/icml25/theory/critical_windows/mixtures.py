r"""Stochastic localization on a finite space, exactly: mixtures, forward-reverse laws, Theorem 2, critical windows.

A model is a mixture :math:`p = \sum_\theta w_\theta p^\theta` over features :math:`\theta`. Write
:math:`p^S` for the sub-mixture of a set S, renormalised, and :math:`p_t^S` for the law of the observation
:math:`Y_t` when :math:`X \sim p^S`. The forward-reverse law :math:`p^{S,t}` is what comes out when one draws
:math:`X \sim p^S`, degrades it to :math:`Y_t`, and restores it with the posterior of the **whole** p. Theorem 2 says
when that ends in a larger set: for :math:`S_{init} \subseteq S_{target}` and
:math:`W = w(\Theta - S_{target}) / w(S_{target})`, at any level t with

.. math:: TV(p_t^{S_{init}}, p_t^{S_{target}}) \le \varepsilon, \qquad
    TV(p_t^{S_{target}}, p_t^{\Theta - S_{target}}) \ge 1 - \varepsilon^2,

it holds that :math:`TV(p^{S_{init},t}, p^{S_{target}}) \le \varepsilon\,(1 + \max(1, W)/\sqrt 2)`.

Everything here enumerates the sample space, so each quantity is exact to rounding.

Reference: Li, Karan & Chen, "Blink of an eye", ICML 2025 (arXiv:2502.00921), Sections 2 and 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icml25 import _arguments as check
from icml25.theory.critical_windows import arguments
from icml25.theory.critical_windows.distances import (
    lemma1_bound,
    posterior_overlap,
    sharp_overlap_bound,
    total_variation,
)
from icml25.theory.critical_windows.processes import MAX_STATES, ObservationProcess

__all__ = [
    "BayesChain",
    "CriticalWindow",
    "DiscreteMixture",
    "Increase",
    "check_markov_monotone",
    "critical_window",
    "data_processing_step",
    "forward_reverse_law",
    "leak_chain",
    "observed_law",
    "posterior_features",
    "separation_profile",
    "theorem2_bound",
    "theorem2_report",
    "weight_ratio",
]

Array = NDArray[np.float64]

_ROUNDING = 1e-12
"""Slack in comparisons of total variations with a threshold, for sums that are exact in exact arithmetic."""


@dataclass(frozen=True, eq=False)
class DiscreteMixture:
    r"""A mixture of K laws on the strings of T letters out of A.

    Parameters
    ----------
    weights : (K,) array
        :math:`w_\theta \ge 0`, summing to 1.
    components : (K, A**T) array
        Row theta is the law :math:`p^\theta`; strings are numbered in base A, first letter most significant.
    alphabet, length : int
        A and T.

    Raises
    ------
    ValueError
        If a law is none, the shapes do not fit, or A**T exceeds :data:`MAX_STATES`.

    Examples
    --------
    Two modes on two bits, the second three times as heavy:

    >>> mix = DiscreteMixture([0.25, 0.75], [[1, 0, 0, 0], [0, 0, 0, 1]], alphabet=2, length=2)
    >>> mix.sub([0, 1]).tolist()
    [0.25, 0.0, 0.0, 0.75]
    """

    weights: Array
    components: Array
    alphabet: int
    length: int

    def __post_init__(self) -> None:
        weights = check.law("weights", self.weights)
        alphabet = check.integer("alphabet", self.alphabet, 1)
        states = arguments.states(alphabet, check.integer("length", self.length, 1), MAX_STATES)
        components = np.array(self.components, dtype=np.float64)
        if components.shape != (len(weights), states):
            raise ValueError(f"components must have the shape {(len(weights), states)}, got {components.shape}")
        if not (components >= 0.0).all() or np.abs(components.sum(1) - 1.0).max() > 1e-8:
            raise ValueError("each row of components must be non-negative and sum to 1")
        for array in (weights, components):
            array.flags.writeable = False
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "components", components)

    @property
    def n_features(self) -> int:
        """Number of features K."""
        return len(self.weights)

    @property
    def law(self) -> Array:
        """The whole law p, (A**T,)."""
        return np.asarray(self.weights @ self.components)

    def members(self, subset: Iterable[int], name: str = "subset") -> tuple[int, ...]:
        """The features of a set, sorted, once it is known to be non-empty, within range and of positive weight."""
        found = arguments.features(name, subset, self.n_features)
        if not found:
            raise ValueError(f"{name} is empty")
        if not self.weights[list(found)].sum() > 0.0:
            raise ValueError(f"{name} = {list(found)} has weight 0, so it has no law")
        return found

    def rest(self, subset: Iterable[int]) -> tuple[int, ...]:
        """The features outside a set that have positive weight."""
        inside = arguments.features("subset", subset, self.n_features)
        return tuple(k for k in range(self.n_features) if k not in inside and self.weights[k] > 0.0)

    def weight(self, subset: Iterable[int]) -> float:
        """Weight of a set of features, 0 for the empty one; a feature that is named twice counts once."""
        return float(self.weights[list(arguments.features("subset", subset, self.n_features))].sum())

    def sub(self, subset: Iterable[int]) -> Array:
        r"""The sub-mixture :math:`p^S`, (A**T,)."""
        chosen = list(self.members(subset))
        share = self.weights[chosen]
        return np.asarray(share @ self.components[chosen] / share.sum())


# Laws -----------------------------------------------------------------------------------------------------------------


def observed_law(mix: DiscreteMixture, proc: ObservationProcess, subset: Iterable[int], t: float) -> Array:
    r"""Law :math:`p_t^S` of the observation at level t, (n_obs,)."""
    return _push(mix, proc, mix.sub(subset), t)


def posterior_features(mix: DiscreteMixture, proc: ObservationProcess, t: float) -> Array:
    r"""Posterior :math:`P(\theta \mid Y_t = y)`, (n_obs, K), rows summing to 1.

    An observation that p never produces gets the prior weights: it carries no evidence.
    """
    joint = _push(mix, proc, mix.weights[:, None] * mix.components, t).T
    total = joint.sum(1, keepdims=True)
    prior = np.broadcast_to(mix.weights, joint.shape).copy()
    return np.asarray(np.divide(joint, total, out=prior, where=total > 0.0))


def forward_reverse_law(
    mix: DiscreteMixture,
    proc: ObservationProcess,
    subset: Iterable[int],
    t: float,
    *,
    reverse_prior: Iterable[int] | None = None,
) -> Array:
    r"""Law :math:`p^{S,t}` of what returns when :math:`X \sim p^S` is degraded to level t and restored, (A**T,).

    With :math:`P(X' = x' \mid y) = p(x')\,k_t(x', y)/p_t(y)`,

    .. math:: p^{S,t}(x') = \sum_y p_t^S(y)\,\frac{p(x')\,k_t(x', y)}{p_t(y)}
        = p(x')\;E\!\left[\frac{p_t^S(Y_t)}{p_t(Y_t)} \,\Big|\, X = x'\right],

    one push of two laws and one pull of a ratio.

    Parameters
    ----------
    mix, proc, subset, t
        The mixture, the process, S and the level.
    reverse_prior : collection of int, optional
        Restore with this sub-mixture in place of the whole p. That is what a generative model does *not* do; it serves
        as a negative control.

    Raises
    ------
    ValueError
        If ``reverse_prior`` excludes an observation that S produces.
    """
    prior = mix.law if reverse_prior is None else mix.sub(reverse_prior)
    start, seen = _push(mix, proc, np.stack([mix.sub(subset), prior]), t)
    ratio = np.divide(start, seen, out=np.zeros_like(seen), where=seen > 0.0)
    law = prior * _pull(proc, ratio, t)
    if abs(law.sum() - 1.0) > 1e-8:
        raise ValueError(f"reverse_prior explains only {law.sum():.3g} of what the subset produces at level {t}")
    return np.asarray(law)


def separation_profile(
    mix: DiscreteMixture, proc: ObservationProcess, s_init: Iterable[int], s_target: Iterable[int]
) -> dict[str, Array]:
    r"""The two total variations of Theorem 2 at all levels.

    Returns
    -------
    dict of (L,) arrays
        ``levels``; ``tv_merge``, TV between S_init and S_target; ``tv_separate``, TV between S_target and the rest,
        which is 1 where there is no rest. Both fall with the level, by data processing.

    Raises
    ------
    ValueError
        If S_init is not inside S_target.
    """
    init, target = _nested(mix, s_init, s_target, "s_init", "s_target", strict=False)
    pairs = [_distances(mix, proc, init, target, float(t)) for t in _levels(proc)]
    merge, separate = np.array(pairs).T
    return {"levels": np.asarray(proc.levels), "tv_merge": merge, "tv_separate": separate}


def weight_ratio(mix: DiscreteMixture, s_target: Iterable[int]) -> float:
    r""":math:`W = w(\Theta - S_{target}) / w(S_{target})`."""
    target = mix.members(s_target, "s_target")
    return mix.weight(mix.rest(target)) / mix.weight(target)


# Theorem 2 and its proof ----------------------------------------------------------------------------------------------


def theorem2_bound(eps: float, weight_ratio: float, form: str = "paper") -> float:
    r"""Bound of Theorem 2 on :math:`TV(p^{S_{init},T}, p^{S_{target}})`.

    ``form="paper"``: :math:`\varepsilon(1 + \max(1, W)/\sqrt 2)`. ``form="sharp"``:
    :math:`\varepsilon + \max(1, W)(\varepsilon^2 - \varepsilon^4/2)`, smaller for every eps in (0, 1), from
    :func:`sharp_overlap_bound`. With W = 0 nothing lies outside the target and both are eps.

    Parameters
    ----------
    eps : float in (0, 1)
    weight_ratio : float
        W >= 0.
    form : {"paper", "sharp"}

    Examples
    --------
    >>> round(theorem2_bound(0.1, 1.0), 5), round(theorem2_bound(0.1, 1.0, form="sharp"), 5)
    (0.17071, 0.10995)
    """
    ratio = check.at_least_zero("weight_ratio", weight_ratio)
    return float(_bound(np.float64(arguments.tolerance(eps)), ratio, form))


def data_processing_step(
    mix: DiscreteMixture, proc: ObservationProcess, s_init: Iterable[int], s_target: Iterable[int], t: float
) -> tuple[float, float]:
    r"""Both sides of step (I): :math:`TV(p^{S_{init},t}, p^{S_{target},t}) \le TV(p_t^{S_{init}}, p_t^{S_{target}})`.

    The same reverse kernel is applied to both observations, and no kernel can pull two laws apart.
    """
    init, target = _nested(mix, s_init, s_target, "s_init", "s_target", strict=False)
    restored = [forward_reverse_law(mix, proc, s, t) for s in (init, target)]
    observed = [observed_law(mix, proc, s, t) for s in (init, target)]
    return _tv(*restored), _tv(*observed)


class BayesChain(NamedTuple):
    """The quantities of step (II), each at most the next; the last two both bound ``scaled_overlap``."""

    distance: float
    leak: float
    scaled_overlap: float
    sharp: float
    lemma1: float


def leak_chain(mix: DiscreteMixture, proc: ObservationProcess, s_target: Iterable[int], t: float) -> BayesChain:
    r"""Step (II) of the proof, each quantity at most the next.

    With :math:`s = p_t^{S_{target}}` and :math:`q = p_t^{\Theta - S_{target}}`:

    - ``distance`` :math:`TV(p^{S_{target},t}, p^{S_{target}})`,
    - ``leak`` :math:`E_{Y \sim s}\,P(\Theta - S_{target} \mid Y) = E_s[Wq/(Wq + s)]`,
    - ``scaled_overlap`` :math:`\max(1, W)\,E_s[q/(q + s)]`,
    - ``sharp`` :math:`\max(1, W)(1 - TV^2)/2` and ``lemma1`` :math:`\max(1, W)\sqrt{1 - TV^2}/2`.

    All are 0 if S_target is everything.
    """
    target = mix.members(s_target, "s_target")
    distance = _tv(forward_reverse_law(mix, proc, target, t), mix.sub(target))
    rest = mix.rest(target)
    if not rest:
        return BayesChain(distance, 0.0, 0.0, 0.0, 0.0)
    s, q = (observed_law(mix, proc, part, t) for part in (target, rest))
    ratio, tv = weight_ratio(mix, target), _tv(s, q)
    mixed = ratio * q + s
    leak = np.divide(ratio * q * s, mixed, out=np.zeros_like(mixed), where=mixed > 0.0).sum()
    scale = max(1.0, ratio)
    return BayesChain(
        distance,
        float(leak),
        scale * float(posterior_overlap(s, q)),
        scale * float(sharp_overlap_bound(tv)),
        scale * float(lemma1_bound(tv)),
    )


def theorem2_report(
    mix: DiscreteMixture, proc: ObservationProcess, s_init: Iterable[int], s_target: Iterable[int]
) -> dict[str, Array]:
    r"""Theorem 2 at every level, with the smallest eps that its two conditions allow there.

    Returns
    -------
    dict of (L,) arrays
        ``levels``, ``tv_merge``, ``tv_separate`` as in :func:`separation_profile`;
        ``eps`` = max(tv_merge, sqrt(1 - tv_separate)); ``lhs`` = :math:`TV(p^{S_{init},t}, p^{S_{target}})`;
        ``paper``, the paper's bound at that eps; ``sharp``, the sharp bound at that eps; ``sharp_tv``, the sharp bound
        in the total variations themselves, tv_merge + max(1, W)(1 - tv_separate^2)/2.
    """
    init, chosen = _nested(mix, s_init, s_target, "s_init", "s_target", strict=False)
    report = separation_profile(mix, proc, init, chosen)
    target, ratio = mix.sub(chosen), weight_ratio(mix, chosen)
    merge, separate = report["tv_merge"], report["tv_separate"]
    eps = np.maximum(merge, np.sqrt(np.maximum(1.0 - separate, 0.0)))
    lhs = [_tv(forward_reverse_law(mix, proc, init, float(t)), target) for t in report["levels"]]
    leak = max(1.0, ratio) * np.asarray(sharp_overlap_bound(separate)) if ratio > 0.0 else 0.0
    return report | {
        "eps": eps,
        "lhs": np.array(lhs),
        "paper": _bound(eps, ratio, "paper"),
        "sharp": _bound(eps, ratio, "sharp"),
        "sharp_tv": merge + leak,
    }


# Critical windows -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CriticalWindow:
    r"""The window [t_after, t_before] of levels in which a feature is decided (Definition 4).

    Attributes
    ----------
    t_after : float
        Up to this level the sampler, run back from it, still draws from S_after.
    t_before : float
        At this level it draws from S_before, so S_after has been forgotten.
    exists : bool
        Whether both are levels. If Definition 4 has no such levels the ends are NaN; a formula that is printed in the
        paper keeps its ends even where t_after < 0 says nothing.
    eps : float
        The tolerance.
    """

    t_after: float
    t_before: float
    exists: bool
    eps: float

    @property
    def width(self) -> float:
        """t_before - t_after; negative if S_after merges with S_before while it still stands out from its rest."""
        return self.t_before - self.t_after

    @classmethod
    def from_ends(cls, t_after: float, t_before: float, eps: float) -> CriticalWindow:
        """The window with these ends, or none at all if one of them is NaN."""
        if math.isnan(t_after) or math.isnan(t_before):
            return cls(math.nan, math.nan, False, eps)
        return cls(float(t_after), float(t_before), True, eps)

    @classmethod
    def from_formula(cls, t_after: float, t_before: float, eps: float) -> CriticalWindow:
        """The window that a printed formula gives, which exists if its earlier end is a level at all."""
        return cls(float(t_after), float(t_before), t_after >= 0.0, eps)


def critical_window(
    mix: DiscreteMixture, proc: ObservationProcess, s_after: Iterable[int], s_before: Iterable[int], eps: float
) -> CriticalWindow:
    r"""The window in which ``s_before`` narrows to ``s_after`` (Definition 4).

    .. math::
        T_{before} &= \inf\{t : TV(p_t^{after}, p_t^{before}) \le \varepsilon,\;
            TV(p_t^{before}, p_t^{\Theta - before}) \ge 1 - \varepsilon^2\} \\
        T_{after} &= \sup\{t : TV(p_t^{after}, p_t^{\Theta - after}) \ge 1 - \varepsilon^2\}

    All three total variations fall with t, so on a process of discrete levels the ends are found among them, and on one
    with continuous levels by bisection to 1e-12.

    Parameters
    ----------
    mix, proc
        The mixture and a Markov process.
    s_after, s_before : collections of int
        S_after strictly inside S_before; S_before may be everything.
    eps : float in (0, 1)

    Returns
    -------
    CriticalWindow
        With ``exists=False`` and NaN ends if either set of levels is empty.

    Examples
    --------
    >>> from icml25.theory.critical_windows import AutoregressiveTruncation
    >>> mix = DiscreteMixture([0.25, 0.75], [[1, 0, 0, 0], [0, 1, 0, 0]], alphabet=2, length=2)
    >>> window = critical_window(mix, AutoregressiveTruncation(2, 2), [0], [0, 1], eps=0.1)
    >>> window.t_after, window.t_before
    (0.0, 1.0)
    """
    eps = arguments.tolerance(eps)
    after, before = _nested(mix, s_after, s_before, "s_after", "s_before", strict=True)
    if not mix.rest(after):
        raise ValueError(f"s_after = {list(after)} carries all the weight: there is nothing to tell it from")

    def merged(t: float) -> bool:
        return _distances(mix, proc, after, before, t)[0] <= eps + _ROUNDING

    def separate(subset: tuple[int, ...], t: float) -> bool:
        return _distances(mix, proc, subset, subset, t)[1] >= 1.0 - eps**2 - _ROUNDING

    t_after = _last_level(proc, partial(separate, after))
    t_before = _first_level(proc, merged)
    # The levels that meet both conditions of T_before run from the first merged one to the last separate one.
    if not t_before <= _last_level(proc, partial(separate, before)):
        t_before = math.nan
    return CriticalWindow.from_ends(t_after, t_before, eps)


class Increase(NamedTuple):
    """A total variation that grew from one level to the next, which no Markov degradation allows."""

    subset: tuple[int, ...]
    other: tuple[int, ...]
    t: float
    t_next: float
    increase: float


def check_markov_monotone(
    mix: DiscreteMixture, proc: ObservationProcess, subset: Iterable[int] | None = None, tol: float = 1e-10
) -> list[Increase]:
    """Look for total variations that rise with the level: the mark of a degradation in which information comes back.

    Parameters
    ----------
    mix, proc
        The mixture and any process.
    subset : collection of int, optional
        Check this set against the rest; default: every two features.
    tol : float
        Rises up to this size are rounding.

    Returns
    -------
    list of Increase
        Empty if nothing rises, as for every Markov process. An empty list is no proof that the process is Markov.
    """
    if subset is None:
        singles = [k for k in range(mix.n_features) if mix.weights[k] > 0.0]
        pairs: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((a,), (b,)) for a, b in combinations(singles, 2)]
    else:
        chosen = mix.members(subset)
        if not mix.rest(chosen):
            raise ValueError(f"subset = {list(chosen)} leaves no rest to compare it with")
        pairs = [(chosen, mix.rest(chosen))]
    found: list[Increase] = []
    for left, right in pairs:
        laws = np.stack([mix.sub(left), mix.sub(right)])
        tv = np.array([_tv(*_push(mix, proc, laws, float(t))) for t in _levels(proc)])
        found += [
            Increase(left, right, float(proc.levels[i]), float(proc.levels[i + 1]), float(tv[i + 1] - tv[i]))
            for i in np.flatnonzero(np.diff(tv) > tol)
        ]
    return found


# Pieces ---------------------------------------------------------------------------------------------------------------


def _push(mix: DiscreteMixture, proc: ObservationProcess, law: Array, t: float) -> Array:
    """Law of Y_t for laws of X, once it is known that the process reads the mixture's strings."""
    length, alphabet = getattr(proc, "length", mix.length), getattr(proc, "alphabet", mix.alphabet)
    if (length, alphabet) != (mix.length, mix.alphabet):
        raise ValueError(
            f"proc is on strings of {length} letters out of {alphabet}, mix on {mix.length} out of {mix.alphabet}"
        )
    push = getattr(proc, "push", None)
    seen = np.asarray(push(law, t) if push is not None else law @ proc.kernel(t))
    if not (seen >= 0.0).all() or not np.allclose(seen.sum(-1), law.sum(-1), rtol=0.0, atol=1e-8):
        raise ValueError(f"proc must map laws to laws: at level {t} the rows of its kernel do not sum to 1")
    return seen


def _pull(proc: ObservationProcess, values: Array, t: float) -> Array:
    pull = getattr(proc, "pull", None)
    return np.asarray(pull(values, t) if pull is not None else proc.kernel(t) @ values)


def _tv(p: Array, q: Array) -> float:
    return float(total_variation(p, q))


def _distances(
    mix: DiscreteMixture, proc: ObservationProcess, inner: tuple[int, ...], outer: tuple[int, ...], t: float
) -> tuple[float, float]:
    """TV between two nested sets, and between the outer one and its rest, at level t."""
    rest = mix.rest(outer)
    if not rest:
        small, large = _push(mix, proc, np.stack([mix.sub(inner), mix.sub(outer)]), t)
        return _tv(small, large), 1.0
    small, large, other = _push(mix, proc, np.stack([mix.sub(inner), mix.sub(outer), mix.sub(rest)]), t)
    return _tv(small, large), _tv(large, other)


def _nested(
    mix: DiscreteMixture, inner: Iterable[int], outer: Iterable[int], name: str, around: str, *, strict: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    small, large = mix.members(inner, name), mix.members(outer, around)
    if not set(small) <= set(large) or (strict and small == large):
        raise ValueError(
            f"{name} = {list(small)} must lie {'strictly ' if strict else ''}inside {around} = {list(large)}"
        )
    return small, large


def _bound(eps: Array | np.float64, ratio: float, form: str) -> Array:
    if form not in ("paper", "sharp"):
        raise ValueError(f"form must be 'paper' or 'sharp', got {form!r}")
    if ratio == 0.0:
        return np.asarray(eps)
    leak = eps / math.sqrt(2.0) if form == "paper" else eps**2 - eps**4 / 2.0
    return np.asarray(eps + max(1.0, ratio) * leak)


def _levels(proc: ObservationProcess) -> Array:
    levels = np.asarray(proc.levels, dtype=np.float64)
    if levels.ndim != 1 or levels.size == 0 or np.isnan(levels).any() or not (np.diff(levels) > 0.0).all():
        raise ValueError(f"the levels of proc must be a non-empty, strictly increasing list, got {levels}")
    return levels


def _first_level(proc: ObservationProcess, holds: Callable[[float], bool]) -> float:
    """First level at which a condition holds that then stays true; NaN if it never does."""
    levels = _levels(proc)
    first, last = float(levels[0]), float(levels[-1])
    if not getattr(proc, "continuous", False):
        return next((float(t) for t in levels if holds(float(t))), math.nan)
    if holds(first):
        return first
    return _bisect(lambda t: not holds(t), first, last)[1] if holds(last) else math.nan


def _last_level(proc: ObservationProcess, holds: Callable[[float], bool]) -> float:
    """Last level at which a condition holds that then stays false; NaN if it never does."""
    levels = _levels(proc)
    first, last = float(levels[0]), float(levels[-1])
    if not getattr(proc, "continuous", False):
        return next((float(t) for t in levels[::-1] if holds(float(t))), math.nan)
    if holds(last):
        return last
    return _bisect(holds, first, last)[0] if holds(first) else math.nan


def _bisect(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Neighbours between which a condition turns from true, at ``low``, to false, at ``high``."""
    while high - low > 1e-12:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high
