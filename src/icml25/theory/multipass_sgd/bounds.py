"""Closed forms: upper bounds, the exact excess of the hard instance, and the two probabilities of its event."""

from __future__ import annotations

from math import ceil, comb, log, log1p

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln
from scipy.stats import binom

from icml25 import _arguments as check
from icml25.theory.multipass_sgd import arguments

__all__ = [
    "bad_vector_probability",
    "coupon_all_seen_probability",
    "coupon_unseen_law",
    "excess_formula",
    "optimisation_bound",
    "replacement_success_probability",
    "stability_bound",
    "suffix_lower_bound",
    "upper_bound",
    "worst_case_rate",
]

_KINDS = ("single", "multi", "without_replacement", "with_replacement", "one_pass")


def _check(kind: str, n: int, passes: float, eta: float, **scales: float) -> None:
    if kind not in _KINDS:
        raise ValueError(f"kind must be one of {_KINDS}, got {kind!r}")
    check.integer("n", n, 1)
    # With replacement a run may stop anywhere, so there K = T / n need not be an integer, nor reach one.
    if kind == "with_replacement":
        check.positive("passes", passes)
    elif check.real("passes", passes) < 1:
        raise ValueError(f"passes must be at least 1, got {passes}")
    if kind == "one_pass" and passes != 1:
        raise ValueError(f"passes must be 1 for kind 'one_pass', got {passes}")
    for name, value in {"eta": eta, **scales}.items():
        check.positive(name, value)


def stability_bound(kind: str, n: int, passes: float, eta: float, *, G: float = 1.0) -> float:
    r"""Uniform stability of the average iterate on convex G-Lipschitz losses (Bassily et al., 2020).

    :math:`2G^2\eta\sqrt T + 4G^2\eta K` without replacement, :math:`4G^2\eta\sqrt T + 4G^2\eta K` with, T = nK. One
    pass never sees an example twice and needs no stability: 0.
    """
    _check(kind, n, passes, eta, G=G)
    if kind == "one_pass":
        return 0.0
    root = 4.0 if kind == "with_replacement" else 2.0
    return float(G**2 * eta * (root * np.sqrt(n * passes) + 4.0 * passes))


def optimisation_bound(kind: str, n: int, passes: float, eta: float, *, G: float = 1.0, D: float = 2.0) -> float:
    r"""Expected training suboptimality of the average iterate (Koren et al., 2022).

    .. math:: \frac{D^2}{2\eta nK} + \frac{\eta G^2}{2} + \begin{cases} 0 & \text{i.i.d. steps}\\
              2\eta G^2\sqrt n & \text{multi-shuffle} \\
              8G^2\eta(\sqrt{nK} + K) & \text{single-shuffle, and any mixture.}\end{cases}
    """
    _check(kind, n, passes, eta, G=G, D=D)
    base = D**2 / (2 * eta * n * passes) + eta * G**2 / 2
    if kind in ("with_replacement", "one_pass"):
        return float(base)
    if kind == "multi":
        return float(base + 2 * eta * G**2 * np.sqrt(n))
    return float(base + 8 * G**2 * eta * (np.sqrt(n * passes) + passes))


def upper_bound(kind: str, n: int, passes: float, eta: float, G: float = 1.0, D: float = 2.0) -> float:
    r"""Upper bound on the expected population excess of the average iterate (Theorems 3.3 and 3.4, with constants).

    The sum of :func:`stability_bound` and :func:`optimisation_bound`; for ``"without_replacement"``

    .. math:: \frac{D^2}{2\eta T} + 10G^2\eta\sqrt T + 12G^2\eta K + \frac{G^2\eta}{2},

    for ``"with_replacement"`` :math:`D^2/(2\eta T) + G^2\eta/2 + 4G^2\eta(\sqrt T + K)`, and for ``"one_pass"`` (K = 1)
    the classical :math:`D^2/(2\eta n) + G^2\eta/2`.

    Parameters
    ----------
    kind : {"single", "multi", "without_replacement", "with_replacement", "one_pass"}
    n : int
        Sample size.
    passes : float
        K = T / n.
    eta : float
        Step size.
    G, D : float
        Lipschitz constant of the loss and diameter of the domain (2 for the unit ball).

    Examples
    --------
    >>> round(upper_bound("without_replacement", n=100, passes=2, eta=0.1), 4)
    16.6921
    """
    return stability_bound(kind, n, passes, eta, G=G) + optimisation_bound(kind, n, passes, eta, G=G, D=D)


def worst_case_rate(steps: ArrayLike, eta: ArrayLike) -> NDArray[np.float64]:
    r"""The tight order from the second pass on, :math:`\min\{\eta\sqrt T + 1/(\eta T), 1\}`, without constants."""
    T, step = np.asarray(steps, dtype=np.float64), np.asarray(eta, dtype=np.float64)
    if not ((T >= 1) & np.isfinite(T)).all() or not ((step > 0) & np.isfinite(step)).all():
        raise ValueError(f"steps must be at least 1 and eta positive, both finite, got steps={T}, eta={step}")
    rate: NDArray[np.float64] = np.minimum(step * np.sqrt(T) + 1.0 / (step * T), 1.0)
    return rate


def excess_formula(t: ArrayLike, n: int, p: int, eta: float, alpha: float) -> NDArray[np.float64]:
    r"""Exact population excess of the iterate :math:`w_t` of the hard instance, on the event that u0 exists.

    Zero while the sample is memorised (t <= n) and while the 9p/16 zeroing steps last, then
    :math:`\eta\alpha j/(7\sqrt p)` after j raising steps, and :math:`\eta\alpha\sqrt p/16` from t = n + p on.

    Parameters
    ----------
    t : int or array of ints
        Number of steps made.
    n : int
        Length of the memorising phase (the sample size; with replacement, :math:`\lceil n\log_2 n\rceil`).
    p : int
        Number of steering steps, a multiple of 16.
    eta, alpha : float
        Step size and weight of the steering term.

    Examples
    --------
    >>> excess_formula([48, 57, 58, 64, 96], n=48, p=16, eta=0.1, alpha=1.0)
    array([0.        , 0.        , 0.00357143, 0.025     , 0.025     ])
    """
    n, p = check.integer("n", n, 0), check.integer("p, the number of steering steps,", p, 0)
    eta = check.positive("eta", eta)
    alpha = arguments.weight(alpha, eta, 1.0)
    time = np.asarray(t)
    if not np.issubdtype(time.dtype, np.integer) or (time < 0).any():
        raise ValueError(f"t must hold non-negative integers, got {time}")
    if p < 16 or p % 16:
        raise ValueError(f"p, the number of steering steps, must be a positive multiple of 16, got {p}")
    raised = np.clip(time - n - 9 * p // 16, 0, 7 * p // 16)
    excess: NDArray[np.float64] = eta * alpha * raised / (7.0 * np.sqrt(p))
    return excess


def suffix_lower_bound(memorise: int, eta: float, alpha: float) -> float:
    r"""The paper's bound for every suffix average of the two-pass run, :math:`\frac{\eta\alpha}{64}\sqrt{\tau_e/3}`."""
    memorise, eta = check.integer("memorise", memorise, 1), check.positive("eta", eta)
    return float(eta * arguments.weight(alpha, eta, 1.0) / 64.0 * np.sqrt(memorise / 3.0))


def bad_vector_probability(seen: int, log2_size: float) -> float:
    r"""Probability that some u lies outside ``seen`` random half-subsets, :math:`1 - (1 - 2^{-m})^{|U|}`.

    Computed through log1p and expm1, so that a set of 2^n vectors with n in the thousands is no problem.

    >>> round(bad_vector_probability(8, 8), 4), round(bad_vector_probability(10**6, 10**6 + 2), 4)
    (0.6328, 0.9817)
    """
    seen, log2_size = check.integer("seen", seen, 0), check.real("log2_size", log2_size)
    if log2_size < 0:
        raise ValueError(f"log2_size must be at least 0, got {log2_size}")
    if seen == 0:
        return 1.0
    # |U| log(1 - 2^-m); beyond m = 60 the logarithm is -2^-m to double precision, and only m - log2|U| counts.
    log_miss_one = np.log1p(-(2.0**-seen)) * 2.0**seen if seen <= 60 else -1.0
    return float(-np.expm1(log_miss_one * 2.0 ** min(log2_size - seen, 1000.0)))


def coupon_all_seen_probability(n: int, m: int) -> float:
    r"""Probability that m i.i.d. uniform draws from n examples have shown every one of them.

    Inclusion-exclusion, :math:`\sum_k (-1)^k \binom nk (1 - k/n)^m`. The terms alternate and can be as large as
    :math:`\binom n{n/2}`, so doubles would cancel: they are added in integers, as multiples of a power of two that is
    finer than 1e-40 by the largest coefficient. The sum stops when the next term, which bounds the rest (Bonferroni),
    is below 1e-40. The result is right to 1e-16.

    >>> coupon_all_seen_probability(2, 3)
    0.75
    """
    n, m = check.integer("n", n, 1), check.integer("m", m, 0)
    if m < n:
        return 0.0
    if n == 1:
        return 1.0
    # The events "example i was drawn" are negatively associated: the product of their chances bounds the answer. Below
    # 1e-100 it is 0 here; past this line some thousand terms are enough for any n.
    if n * log1p(-((1.0 - 1.0 / n) ** m)) < -230.0:
        return 0.0
    k = np.arange(1, min(n, 20_000))
    coefficients = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    vanishing = np.flatnonzero(coefficients + m * np.log1p(-k / n) < log(1e-40))
    last = int(k[vanishing[0]]) if vanishing.size else n
    bits = 200 + 2 * m.bit_length() + ceil(coefficients[: last - 1].max(initial=0.0) / log(2.0))
    total = 1 << bits
    for j in range(1, min(last, n)):
        term = comb(n, j) * _fixed_power(((n - j) << bits) // n, m, bits)
        total += -term if j % 2 else term
    return float(max(0, total) / (1 << bits))


def _fixed_power(base: int, exponent: int, bits: int) -> int:
    """base^exponent for a base in [0, 1], both in units of 2^-bits; off by at most 2 exponent units."""
    power = 1 << bits
    while exponent:
        if exponent & 1:
            power = power * base >> bits
        base, exponent = base * base >> bits, exponent >> 1
    return power


def coupon_unseen_law(n: int, m: int) -> NDArray[np.float64]:
    """Law of the number of examples that m i.i.d. draws out of n leave unseen, (n + 1,) array.

    By the chain of distinct counts, whose terms are all positive: nothing cancels. O(n m) time.

    >>> coupon_unseen_law(2, 3)
    array([0.75, 0.25, 0.  ])
    """
    n, m = check.integer("n", n, 1), check.integer("m", m, 0)
    law = np.zeros(n + 1)
    law[n] = 1.0
    share = np.arange(n + 1) / n  # chance that the next draw is one of the unseen
    for _ in range(m):
        found = law * share
        law -= found
        law[:-1] += found[1:]
    return law


def replacement_success_probability(n: int, memorise: int, later: int, log2_size: float) -> float:
    r"""Probability that a with-replacement run keeps to its script, by counting.

    With j examples unseen after ``memorise`` draws, u0 exists by :func:`bad_vector_probability` of n - j, is in
    each unseen one with probability 1/2, and the run is undisturbed if the ``later`` draws miss those that contain it:

    .. math:: \sum_j P(j)\,P(u_0\mid n-j)\; 2^{-j}\sum_{a=0}^{j}\binom ja (1 - a/n)^{\text{later}} .

    A run that meets such an example while it still zeroes comes to no harm, because u0's score is at the tie then and
    the honest answer is 0; it is counted as disturbed here, so that the value is a lower bound, by less than 0.001 at
    the sizes of the example.

    >>> round(replacement_success_probability(48, 269, 269, 50), 3)
    0.904
    """
    later, total = check.integer("later", later, 0), 0.0
    missed = (1.0 - np.arange(n + 1) / n) ** later
    law = coupon_unseen_law(n, memorise)
    for j in np.flatnonzero(law > 0.0).tolist():
        undisturbed = float(binom.pmf(np.arange(j + 1), j, 0.5) @ missed[: j + 1])
        total += float(law[j]) * bad_vector_probability(n - j, log2_size) * undisturbed
    return total
