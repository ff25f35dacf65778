r"""Distances between distributions, and the inequalities that turn separation into posterior certainty.

For laws P, Q on a finite set the proof of the localization theorem rests on one quantity, the *overlap*

.. math:: E_{x \sim P}\Big[\frac{Q(x)}{P(x) + Q(x)}\Big] = \sum_x \frac{P(x)\,Q(x)}{P(x) + Q(x)},

the chance that somebody who sees x ~ P, and thinks P and Q equally likely, draws Q from the posterior. It is small once
P and Q are far apart. Three bounds on it stand here: Lemma 1 and Lemma 7 of the paper and a sharper one.

Reference: Li, Karan & Chen, "Blink of an eye", ICML 2025 (arXiv:2502.00921), Section 3 and Appendix A.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "bhattacharyya",
    "hellinger_sq",
    "lemma1_bound",
    "lemma7_bound",
    "posterior_overlap",
    "sharp_overlap_bound",
    "total_variation",
]

Array = NDArray[np.float64]


def total_variation(p: ArrayLike, q: ArrayLike, axis: int = -1) -> float | Array:
    r"""Total variation :math:`\frac12 \sum_x |p(x) - q(x)|`, in [0, 1].

    Parameters
    ----------
    p, q : (..., N) arrays
        Laws along ``axis``: non-negative, summing to 1 within 1e-8. The other axes broadcast.
    axis : int
        The axis of the outcomes.

    Returns
    -------
    float, or array over the other axes

    Raises
    ------
    ValueError
        If ``p`` or ``q`` is not a law along ``axis``, or the shapes do not fit.

    Examples
    --------
    >>> total_variation([0.5, 0.5], [1.0, 0.0])
    0.5
    """
    p, q = _laws(p, q, axis)
    return _shaped(0.5 * np.abs(p - q).sum(axis))


def bhattacharyya(p: ArrayLike, q: ArrayLike, axis: int = -1) -> float | Array:
    r"""Affinity :math:`BC = \sum_x \sqrt{p(x)\,q(x)}`, in [0, 1]; parameters as in :func:`total_variation`.

    Affinities of product laws multiply: that is what makes BC the tool for sequences.

    >>> bhattacharyya([0.5, 0.5], [0.5, 0.5])
    1.0
    """
    p, q = _laws(p, q, axis)
    return _shaped(np.minimum(np.sqrt(p * q).sum(axis), 1.0))


def hellinger_sq(p: ArrayLike, q: ArrayLike, axis: int = -1) -> float | Array:
    r"""Squared Hellinger distance :math:`H^2 = \sum_x (\sqrt{p(x)} - \sqrt{q(x)})^2 = 2 - 2\,BC`, in [0, 2].

    Parameters as in :func:`total_variation`. The sum of squares is taken as it stands, which keeps its digits where
    p and q are close and 2 - 2 BC would cancel.

    >>> hellinger_sq([1.0, 0.0], [0.0, 1.0])
    2.0
    """
    p, q = _laws(p, q, axis)
    return _shaped(np.square(np.sqrt(p) - np.sqrt(q)).sum(axis))


def posterior_overlap(p: ArrayLike, q: ArrayLike, axis: int = -1) -> float | Array:
    r"""Overlap :math:`E_{x \sim p}[q / (p + q)] = \sum_x pq / (p + q)`, in [0, 1/2].

    Parameters as in :func:`total_variation`. Outcomes that both laws exclude count zero.

    >>> posterior_overlap([0.5, 0.5], [0.5, 0.5])
    0.5
    """
    p, q = _laws(p, q, axis)
    both = p + q
    return _shaped(np.divide(p * q, both, out=np.zeros_like(both), where=both > 0.0).sum(axis))


def lemma1_bound(tv: ArrayLike) -> float | Array:
    r"""Lemma 1: the overlap is at most :math:`\frac12\sqrt{1 - TV^2}`."""
    tv = _unit("tv", tv)
    return _shaped(0.5 * np.sqrt((1.0 - tv) * (1.0 + tv)))


def lemma7_bound(affinity: ArrayLike) -> float | Array:
    r"""Lemma 7: the overlap is at most :math:`\frac12 (1 - H^2/2) = \frac12 BC`."""
    return _shaped(0.5 * _unit("affinity", affinity))


def sharp_overlap_bound(tv: ArrayLike) -> float | Array:
    r"""The overlap is at most :math:`\frac12 (1 - TV^2)`, the square of what Lemma 1 has.

    With :math:`pq = \frac14[(p+q)^2 - (p-q)^2]` the overlap is
    :math:`\frac12 - \frac14 \sum (p-q)^2/(p+q)`, and by Cauchy-Schwarz
    :math:`(\sum |p-q|)^2 \le 2 \sum (p-q)^2/(p+q)`. Equality holds where :math:`|p-q|/(p+q)` is constant.
    """
    tv = _unit("tv", tv)
    return _shaped(0.5 * (1.0 - tv) * (1.0 + tv))


def _laws(p: ArrayLike, q: ArrayLike, axis: int) -> tuple[Array, Array]:
    first, second = (_law(name, values, axis) for name, values in (("p", p), ("q", q)))
    if first.shape[axis] != second.shape[axis]:
        raise ValueError(f"p and q must have as many outcomes, got {first.shape[axis]} and {second.shape[axis]}")
    try:
        np.broadcast_shapes(first.shape, second.shape)
    except ValueError:
        raise ValueError(f"p and q must broadcast, got the shapes {first.shape} and {second.shape}") from None
    return first, second


def _law(name: str, values: ArrayLike, axis: int) -> Array:
    law = np.asarray(values, dtype=np.float64)
    if law.ndim == 0 or not -law.ndim <= axis < law.ndim:
        raise ValueError(f"{name} has no axis {axis}: its shape is {law.shape}")
    if not (law >= 0.0).all():
        raise ValueError(f"{name} must be non-negative and not NaN, got a minimum of {law.min() if law.size else None}")
    worst = np.abs(law.sum(axis) - 1.0).max(initial=0.0)
    if not worst <= 1e-8:
        raise ValueError(f"{name} must sum to 1 along axis {axis} within 1e-8, it is off by {worst:.3g}")
    return law


def _unit(name: str, values: ArrayLike) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if not ((array >= 0.0) & (array <= 1.0 + 1e-12)).all():
        raise ValueError(f"{name} must lie in [0, 1], got {values!r}")
    return np.minimum(array, 1.0)


def _shaped(values: ArrayLike) -> float | Array:
    array = np.asarray(values, dtype=np.float64)
    return float(array) if array.ndim == 0 else array
