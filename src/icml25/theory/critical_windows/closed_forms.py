r"""Critical windows that can be written down: the paper's examples, as printed and exactly.

Levels t count lost information: noise of the Ornstein-Uhlenbeck process :math:`Y_t = e^{-t}X + \sqrt{1 - e^{-2t}}\,Z`,
the masking probability, or the number of hidden tokens. ``form="paper"`` returns the formula that the paper prints, a
guarantee with slack; ``form="exact"`` returns the ends of Definition 4 themselves.

Reference: Li, Karan & Chen, "Blink of an eye", ICML 2025 (arXiv:2502.00921), Sections 4 to 6 and Appendix B.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, erf, erfc, erfcinv, erfinv, expit, gammaln, logit

from icml25 import _arguments as check
from icml25.theory.critical_windows import arguments
from icml25.theory.critical_windows.mixtures import CriticalWindow, DiscreteMixture
from icml25.theory.critical_windows.processes import MAX_STATES

__all__ = [
    "branching_mixture",
    "concept_walk_affinity",
    "in_context_affinity",
    "in_context_examples",
    "masked_diracs_same",
    "random_means_width_limit",
    "random_walk_same_mode",
    "random_walk_tv",
    "speciation_time",
    "two_gaussian_tv",
    "window_concept_walk",
    "window_masked_diracs",
    "window_random_means",
    "window_random_walk",
    "window_two_gaussians",
]

Array = NDArray[np.float64]


# Example 1: two Gaussians ---------------------------------------------------------------------------------------------


def two_gaussian_tv(mu_norm: float, t: ArrayLike, *, complement: bool = False) -> float | Array:
    r"""TV between the noised :math:`\mathcal N(\pm\mu, I)`: :math:`\operatorname{erf}(\lVert\mu\rVert e^{-t}/\sqrt 2)`.

    The variance of a coordinate stays 1 at every t, so only the distance of the means shrinks.

    Parameters
    ----------
    mu_norm : float
        Length of mu, at least 0; the dimension plays no part.
    t : array_like
        Levels in [0, inf].
    complement : bool
        Return 1 - TV, from erfc, which keeps its digits where TV rounds to 1.
    """
    half = check.at_least_zero("mu_norm", mu_norm) * np.exp(-arguments.noise_levels(t)) / math.sqrt(2.0)
    return _shaped(erfc(half) if complement else erf(half))


def window_two_gaussians(mu_norm: float, eps: float, form: str = "paper", *, weight: float = 0.5) -> CriticalWindow:
    r"""Window of one component of :math:`w\,\mathcal N(\mu, I) + (1 - w)\,\mathcal N(-\mu, I)` (Example 1).

    ====================== ============================================== ===========================================
    form                   t_after                                        t_before
    ====================== ============================================== ===========================================
    paper                  ln|mu| - ln ln(1 / (2 eps^2))                  ln|mu| + ln 2 + ln(1/eps)
    hellinger              ln|mu| - (1/2) ln ln(1 / (2 eps^2))            the same
    exact                  ln|mu| - ln(sqrt 2 erfinv(1 - eps^2))          ln|mu| - ln(sqrt 2 erfinv(eps / (1 - w)))
    ====================== ============================================== ===========================================

    In each the width is free of mu and of the dimension. The Hellinger route bounds the overlap itself, not the total
    variation: its t_after lies above the exact one and guarantees Theorem 2's conclusion, not its condition. The same
    is true of the paper's own for eps > 0.3056; for a smaller eps it lies below the exact one.

    Parameters
    ----------
    mu_norm : float
        Length of mu, positive.
    eps : float
        In (0, 0.4289) for the paper's form (beyond, its t_after is not conservative), (0, 1/sqrt 2) for the Hellinger
        form, (0, 1 - w) for the exact one (beyond, the component is never farther than eps from the mixture).
    form : {"paper", "hellinger", "exact"}
    weight : float in (0, 1)
        Weight w of the component that the window decides. The first two forms hold for every w and do not use it.

    Returns
    -------
    CriticalWindow
        ``exists=False`` if the modes overlap so much that t_after is negative; the exact form has no ends then.

    Examples
    --------
    >>> window = window_two_gaussians(20.0, 0.1, form="exact")
    >>> round(window.t_after, 4), round(window.t_before, 4)
    (2.0496, 4.3687)
    """
    log_mu = math.log(check.positive("mu_norm", mu_norm))
    share, eps = check.open_unit("weight", weight), arguments.tolerance(eps)
    if form == "exact":
        _check_range(eps, 1.0 - share, f"t_before of form='exact' needs eps < 1 - weight = {1.0 - share:g}")
        t_after = log_mu - math.log(math.sqrt(2.0) * erfcinv(eps**2))
        t_before = log_mu - math.log(math.sqrt(2.0) * erfinv(eps / (1.0 - share)))
        return CriticalWindow.from_ends(t_after if t_after >= 0.0 else math.nan, max(0.0, t_before), eps)
    if form not in ("paper", "hellinger"):
        raise ValueError(f"form must be 'paper', 'hellinger' or 'exact', got {form!r}")
    top = 1.0 / math.sqrt(2.0 * math.e) if form == "paper" else 1.0 / math.sqrt(2.0)
    _check_range(eps, top, f"t_after of form={form!r} needs eps < {top:.4f}")
    inner = math.log(math.log(1.0 / (2.0 * eps**2)))
    t_after = log_mu - (inner if form == "paper" else 0.5 * inner)
    return CriticalWindow.from_formula(t_after, log_mu + math.log(2.0) + math.log(1.0 / eps), eps)


def speciation_time(top_eigenvalue: float) -> float:
    r"""Speciation time of statistical physics, :math:`\frac12 \ln \lambda_{max}` of the data's covariance.

    For two Gaussians at :math:`\pm\mu` with equal weights :math:`\lambda_{max} = 1 + |\mu|^2`, so it is ln|mu| to
    leading order and lies inside the window of :func:`window_two_gaussians`. (Biroli et al., 2024.)
    """
    if not check.at_least_zero("top_eigenvalue", top_eigenvalue) >= 1.0:
        raise ValueError(f"top_eigenvalue must be at least 1, the noise's variance, got {top_eigenvalue}")
    return 0.5 * math.log(top_eigenvalue)


# Example 2: random means ----------------------------------------------------------------------------------------------


def window_random_means(means: ArrayLike, i: int, eps: float) -> CriticalWindow:
    r"""Window in which component i of equal-weight :math:`\mathcal N(\mu_k, I)` is decided among K (Example 2).

    :math:`T_{before} = \max_j \ln|\mu_i - \mu_j| + \ln(1/\varepsilon)` and
    :math:`T_{after} = \min_{j \ne i} \ln|\mu_i - \mu_j| - \frac12 \ln(8 \ln(K/\varepsilon))`.

    Parameters
    ----------
    means : (K, d) array
        K >= 2 distinct means.
    i : int
        Component, 0..K-1.
    eps : float in (0, 1)

    Returns
    -------
    CriticalWindow
        ``exists=False`` if the means are so close that t_after is negative.
    """
    centres = np.asarray(means, dtype=np.float64)
    if centres.ndim != 2 or len(centres) < 2 or not np.isfinite(centres).all():
        raise ValueError(f"means must be a finite (K, d) array with K >= 2, got the shape {centres.shape}")
    i, eps = check.integer("i", i, 0, len(centres) - 1), arguments.tolerance(eps)
    distances = np.linalg.norm(np.delete(centres, i, 0) - centres[i], axis=1)
    if not distances.min() > 0.0:
        raise ValueError(f"means must be distinct: another one equals means[{i}]")
    t_before = math.log(distances.max()) + math.log(1.0 / eps)
    t_after = math.log(distances.min()) - 0.5 * math.log(8.0 * math.log(len(centres) / eps))
    return CriticalWindow.from_formula(t_after, t_before, eps)


def random_means_width_limit(n_means: int, eps: float) -> float:
    r"""Limit of the width of :func:`window_random_means` for means from N(0, I_d) as d grows.

    All distances concentrate on :math:`\sqrt{2d}`, so their logarithms cancel and
    :math:`\ln(1/\varepsilon) + \frac12 \ln(8 \ln(K/\varepsilon))` is left.

    >>> round(random_means_width_limit(8, 0.1), 4)
    4.0811
    """
    check.integer("n_means", n_means, 2)
    eps = arguments.tolerance(eps)
    return math.log(1.0 / eps) + 0.5 * math.log(8.0 * math.log(n_means / eps))


# Example 3: two strings under masking ---------------------------------------------------------------------------------


def window_masked_diracs(hamming: int, eps: float, form: str = "paper", *, weight: float = 0.5) -> CriticalWindow:
    r"""Window of one of two strings that differ in h places, under random masking (Example 3).

    The strings cannot be told apart exactly if all h places are masked, so the total variation at level t is
    :math:`1 - t^h`. T_after = :math:`(\varepsilon^2)^{1/h}` in both forms. T_before is
    :math:`(1 - \varepsilon)^{1/h}` in the paper, which bounds the distance to the mixture by the distance to the other
    string, and exactly :math:`(1 - \varepsilon/(1 - w))^{1/h}`, w the string's weight.

    Parameters
    ----------
    hamming : int
        h >= 1.
    eps : float
        In (0, 1), for the exact form in (0, 1 - w).
    form : {"paper", "exact"}
    weight : float in (0, 1)
        Weight of the string that the window decides; the paper's form holds for every one.

    Examples
    --------
    >>> window = window_masked_diracs(16, 0.1)
    >>> round(window.t_after, 6), round(window.t_before, 6)
    (0.749894, 0.993437)
    """
    check.integer("hamming", hamming, 1)
    share, eps = check.open_unit("weight", weight), arguments.tolerance(eps)
    if form == "exact":
        _check_range(eps, 1.0 - share, f"t_before of form='exact' needs eps < 1 - weight = {1.0 - share:g}")
        merged = eps / (1.0 - share)
    elif form == "paper":
        merged = eps
    else:
        raise ValueError(f"form must be 'paper' or 'exact', got {form!r}")
    # log1p keeps the digits of 1 - merged for large h, where both ends crowd towards 1.
    t_before = math.exp(math.log1p(-merged) / hamming)
    return CriticalWindow.from_ends(math.exp(2.0 * math.log(eps) / hamming), t_before, eps)


def masked_diracs_same(hamming: int, t: ArrayLike, *, weight: float = 0.5) -> float | Array:
    r"""P(the same string returns) after masking at level t: :math:`1 - (1 - w)\,t^h` for a string of weight w.

    With probability :math:`t^h` every telling place is masked and the string is drawn from the prior; else it is known.
    """
    check.integer("hamming", hamming, 1)
    level = arguments.noise_levels(t)
    if not (level <= 1.0).all():
        raise ValueError(f"t must lie in [0, 1], got {t!r}")
    return _shaped(1.0 - (1.0 - check.open_unit("weight", weight)) * level**hamming)


# Examples 4 and 5: autoregression -------------------------------------------------------------------------------------


def branching_mixture(
    shared: int, split: int, after: int, *, agreement: float = 1.0, weight: float = 0.5
) -> DiscreteMixture:
    r"""Two modes on bits that are identical, then nearly disjoint, then alike again (Example 4).

    The first ``shared`` tokens are fair coins in both modes; each of the next ``split`` tokens equals the mode's number
    with probability ``agreement``; the last ``after`` tokens are fair coins. Under autoregression the mode is decided
    in the ``split`` tokens, the *critical tokens*.

    Parameters
    ----------
    shared, split, after : int
        Numbers of tokens, at least 0, 1 and 0.
    agreement : float in (1/2, 1]
    weight : float in (0, 1)
        Weight of mode 0.
    """
    for name, count, least in (("shared", shared, 0), ("split", split, 1), ("after", after, 0)):
        check.integer(name, count, least)
    arguments.states(2, shared + split + after, MAX_STATES)  # before the laws are made, which would fill the memory
    if not 0.5 < check.number("agreement", agreement) <= 1.0:
        raise ValueError(f"agreement must lie in (0.5, 1], got {agreement}")
    fair = np.full(2, 0.5)
    rows = []
    for mode in (0, 1):
        telling = np.where(np.arange(2) == mode, agreement, 1.0 - agreement)
        law = np.ones(1)
        for token in [fair] * shared + [telling] * split + [fair] * after:
            law = np.kron(law, token)
        rows.append(law)
    share = check.open_unit("weight", weight)
    return DiscreteMixture(np.array([share, 1.0 - share]), np.stack(rows), 2, shared + split + after)


def random_walk_tv(n: ArrayLike, delta: float, *, complement: bool = False) -> float | Array:
    r"""TV between n steps of walks with P(+1) = 1/2 + D and 1/2 - D:
    :math:`\frac12 \sum_k |Bin(k; n, \frac12 + D) - Bin(k; n, \frac12 - D)|`.

    The number of upward steps is sufficient and its likelihood ratio grows with k, so the sum collapses to
    :math:`1 - TV = 2\,P_+(k < n/2) + P_+(k = n/2)`.

    Parameters
    ----------
    n : int array_like
        Numbers of steps seen, at least 0.
    delta : float in (0, 1/2)
        The bias D.
    complement : bool
        Return 1 - TV, which keeps its digits where TV rounds to 1.
    """
    steps = _counts(n)
    p = 0.5 + _bias(delta)
    # An even number of steps tells no more than the odd one before it: the last step only breaks or makes a tie.
    odd = np.where(steps % 2 == 0, steps - 1, steps).astype(np.int64)
    known = np.maximum(odd, 1)
    missing = np.where(steps == 0, 1.0, 2.0 * bdtr((known - 1) // 2, known, p))
    return _shaped(missing if complement else 1.0 - missing)


def random_walk_same_mode(n: ArrayLike, delta: float, *, weight: float = 0.5) -> float | Array:
    r"""P(the upward mode again) when a walk of the upward mode is restored from its first n steps (Example 5).

    :math:`\sum_k Bin(k; n, \frac12 + D)\,\sigma\big((2k - n)\ln\frac{1/2 + D}{1/2 - D} + \operatorname{logit} w\big)`.

    Parameters
    ----------
    n, delta
        As in :func:`random_walk_tv`.
    weight : float in (0, 1)
        Weight of the upward mode.
    """
    evidence = math.log((0.5 + _bias(delta)) / (0.5 - delta))
    offset = float(logit(check.open_unit("weight", weight)))
    steps = _counts(n)

    def one(count: int) -> float:
        k = np.arange(count + 1)
        choices = gammaln(count + 1) - gammaln(k + 1) - gammaln(count - k + 1)
        law = np.exp(choices + k * math.log(0.5 + delta) + (count - k) * math.log(0.5 - delta))
        return float(law @ expit((2 * k - count) * evidence + offset))

    return _shaped(np.array([one(int(count)) for count in steps.ravel()]).reshape(steps.shape))


def window_random_walk(
    length: int, delta: float, eps: float, form: str = "paper", *, weight: float = 0.5
) -> CriticalWindow:
    r"""Window of the walk with P(+1) = 1/2 + D against the one with 1/2 - D, in hidden steps t = T - n (Example 5).

    As printed, :math:`T_{before} = T - \varepsilon^2/D^2 + 2` and
    :math:`T_{after} = T - \ln(2/\varepsilon^2)/(2D^2)`: a width of order :math:`1/D^2` whatever T is. At the printed
    T_before the total variation is bounded by 3 eps, not by eps. Exactly, t_after hides all but the fewest steps
    with :math:`TV \ge 1 - \varepsilon^2`, and t_before all but the most steps with :math:`(1 - w) TV \le \varepsilon`.

    Parameters
    ----------
    length : int
        T >= 1 steps.
    delta : float in (0, 1/2)
        The bias D.
    eps : float in (0, 1)
    form : {"paper", "exact"}
    weight : float in (0, 1)
        Weight of the upward mode, used by the exact form.

    Returns
    -------
    CriticalWindow
        ``exists=False`` if T steps are too few to tell the modes apart; the exact form has no ends then.

    Warns
    -----
    UserWarning
        With the paper's form outside its conditions :math:`\varepsilon^2 < 10^{-3}(1/4 - D^2)` and
        :math:`\ln(2/\varepsilon^2)/(2D^2) < T`; the formula is returned all the same.

    Examples
    --------
    >>> exact = window_random_walk(3000, 0.05, 0.01, form="exact")
    >>> 3000 - exact.t_after
    1507.0
    """
    check.integer("length", length, 1)
    _bias(delta)
    share, eps = check.open_unit("weight", weight), arguments.tolerance(eps)
    if form == "paper":
        n_after = math.log(2.0 / eps**2) / (2.0 * delta**2)
        limit = 1e-3 * (0.25 - delta**2)
        if not eps**2 < limit:
            warnings.warn(f"Example 5 needs eps^2 < 1e-3 (1/4 - delta^2): {eps**2:.3g} >= {limit:.3g}", stacklevel=2)
        if not n_after < length:
            warnings.warn(f"Example 5 needs ln(2/eps^2)/(2 delta^2) < length: {n_after:.6g} >= {length}", stacklevel=2)
        n_before = eps**2 / delta**2 - 2.0
        return CriticalWindow.from_formula(length - n_after, length - n_before, eps)
    if form != "exact":
        raise ValueError(f"form must be 'paper' or 'exact', got {form!r}")
    few = _fewest(lambda n: float(random_walk_tv(n, delta, complement=True)) <= eps**2 + 1e-12, length)
    many = _fewest(lambda n: (1.0 - share) * float(random_walk_tv(n, delta)) > eps + 1e-12, length) - 1
    return CriticalWindow.from_ends(length - few if few <= length else math.nan, float(length - many), eps)


# Theorem 9 and Examples 6, 11: words and tasks ------------------------------------------------------------------------


def concept_walk_affinity(alpha: float, cos: float, t: ArrayLike) -> float | Array:
    r"""Affinity of one word at time t under the two concepts: :math:`BC = \sqrt{2\,\varphi(\alpha e^{-2t})}`.

    Words are :math:`w_t \sim \mathcal N(C_t, I)` on an OU path from
    :math:`C_0 \sim \mathcal N(0, I + \alpha\,\theta\theta^\top)` with theta one of two unit vectors of cosine c, so a
    word is :math:`\mathcal N(0, 2I + x\,\theta\theta^\top)`, :math:`x = \alpha e^{-2t}`, and

    .. math:: \varphi(x) = \frac{2 + x}{(2 + x(1 + c)/2)(2 + x(1 - c)/2)}.
    """
    strength = check.at_least_zero("alpha", alpha) * np.exp(-2.0 * arguments.noise_levels(t))
    return _shaped(np.sqrt(2.0 * _phi(np.asarray(strength), _cosine(cos))))


def window_concept_walk(alpha: float, cos: float, eps: float) -> CriticalWindow:
    r"""Window of the concept behind a text of Gaussian words, up to constants (Theorem 9).

    :math:`T_{after} = \frac12\ln(\alpha/\varphi^{-1}(\varepsilon^2))`,
    :math:`T_{before} = \frac12\ln(\alpha\sqrt{1 + \alpha^2}\sqrt{1 - c^2}/\varepsilon)`, with phi of
    :func:`concept_walk_affinity`.

    Parameters
    ----------
    alpha : float
        Strength of the concept, positive.
    cos : float in (-1, 1)
        Cosine c of the two concepts.
    eps : float in (0, 1/sqrt 2)
        phi takes values up to 1/2 alone.

    Returns
    -------
    CriticalWindow
        ``exists=False`` if the concept is too weak for t_after >= 0.
    """
    strength, c, eps = check.positive("alpha", alpha), _cosine(cos), arguments.tolerance(eps)
    _check_range(eps, math.sqrt(0.5), "phi reaches eps^2 only for eps < 1/sqrt 2 = 0.7071")
    # phi(x) = v is the quadratic v (1 - c^2)/4 x^2 + (2v - 1) x + (4v - 2) = 0 with one positive root.
    v = eps**2
    a, b, free = v * (1.0 - c**2) / 4.0, 2.0 * v - 1.0, 4.0 * v - 2.0
    inverse = (-b + math.sqrt(b * b - 4.0 * a * free)) / (2.0 * a)
    t_after = 0.5 * (math.log(strength) - math.log(inverse))
    # Sums of logarithms: alpha sqrt(1 + alpha^2) itself overflows for a strong concept.
    t_before = 0.5 * (
        math.log(strength) + math.log(math.hypot(1.0, strength)) + 0.5 * math.log(1.0 - c**2) - math.log(eps)
    )
    return CriticalWindow.from_formula(t_after, t_before, eps)


def in_context_affinity(n: ArrayLike, separation: float) -> float | Array:
    r"""Affinity of two tasks after N independent examples, each with :math:`H^2 = \delta`: :math:`(1 - \delta/2)^N`."""
    count = np.asarray(n, dtype=np.float64)
    if not (count >= 0.0).all():
        raise ValueError(f"n must be at least 0, got {n!r}")
    return _shaped((1.0 - _separation(separation) / 2.0) ** count)


def in_context_examples(separation: float, eps: float) -> float:
    r"""Examples that bring the affinity of two tasks to eps: :math:`\ln(1/\varepsilon)/\ln(1/(1 - \delta/2))`.

    From BC_N = (1 - delta/2)^N (Examples 6 and 11). The error of the task's posterior is then of order
    eps / w of the true task. (The paper's appendix prints ln((1 - delta/2)/eps), which does not follow from its proof.)

    Parameters
    ----------
    separation : float in (0, 2)
        Squared Hellinger distance delta of a single example.
    eps : float in (0, 1)

    Examples
    --------
    >>> round(in_context_examples(0.5, 0.01), 2)
    16.01
    """
    return -math.log(arguments.tolerance(eps)) / -math.log1p(-_separation(separation) / 2.0)


# Pieces ---------------------------------------------------------------------------------------------------------------


def _phi(x: Array, c: float) -> Array:
    return np.asarray((2.0 + x) / ((2.0 + x * (1.0 + c) / 2.0) * (2.0 + x * (1.0 - c) / 2.0)))


def _fewest(holds: Callable[[int], bool], most: int) -> int:
    """Smallest n in 0..most for which a condition holds that then stays true; most + 1 if none."""
    low, high = -1, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _check_range(eps: float, top: float, why: str) -> None:
    if not 0.0 < eps < top:
        raise ValueError(f"{why}, and eps > 0; got {eps}")


def _counts(n: ArrayLike) -> NDArray[np.int64]:
    steps = np.asarray(n)
    if steps.dtype == np.bool_ or not ((steps >= 0) & (steps < 2**62)).all() or not (steps == np.floor(steps)).all():
        raise ValueError(f"n must hold whole numbers >= 0, got {n!r}")
    return steps.astype(np.int64)


def _bias(delta: float) -> float:
    if not 1e-100 < check.number("delta", delta) < 0.5:  # its square is divided by
        raise ValueError(f"delta must lie in (0, 1/2), got {delta}")
    return float(delta)


def _cosine(cos: float) -> float:
    if not -1.0 < check.number("cos", cos) < 1.0:
        raise ValueError(f"cos must lie in (-1, 1), got {cos}")
    return float(cos)


def _separation(value: float) -> float:
    if not 0.0 < check.number("separation", value) < 2.0:
        raise ValueError(f"separation is a squared Hellinger distance in (0, 2), got {value}")
    return float(value)


def _shaped(values: ArrayLike) -> float | Array:
    array = np.asarray(values, dtype=np.float64)
    return float(array) if array.ndim == 0 else array
