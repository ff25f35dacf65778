"""The contract of a hard instance, and the test that a vector really is a subgradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from icml25 import _arguments as check
from icml25.theory.multipass_sgd import arguments
from icml25.theory.multipass_sgd.descent import FloatArray, OracleState

__all__ = ["HardInstance", "expected_max", "subgradient_violation", "top_block"]


@runtime_checkable
class HardInstance(Protocol):
    """A convex learning problem with a known population loss and a subgradient oracle of its own."""

    @property
    def dim(self) -> int:
        """Length of w."""

    @property
    def lipschitz(self) -> float:
        """A Lipschitz constant of w -> f(w, z), for every z."""

    def loss(self, w: FloatArray, z: Any) -> Any:
        """f(w, z), for one w or a batch (..., dim)."""

    def population(self, w: FloatArray) -> float:
        """F(w) = E f(w, z), exactly."""

    def empirical(self, w: FloatArray, sample: Any) -> float:
        """Mean of f(w, z) over the sample."""

    def oracle(self, state: OracleState) -> FloatArray:
        """A subgradient of f(., z) at w, chosen with an eye on the examples seen so far."""

    def is_subgradient(self, w: FloatArray, z: Any, g: FloatArray, *, n_probe: int = 200, seed: int = 0) -> float:
        """Largest violation of the subgradient inequality over random probes (<= 0 up to rounding when g is valid)."""


def top_block(values: FloatArray, size: int) -> tuple[float, NDArray[np.intp]]:
    r"""Best normalised block: :math:`\max_{1\le|I|\le B} |I|^{-1/2}\sum_{i\in I} x_i` and the I that attains it.

    For each cardinality the best I takes the largest entries, so sorting and B prefix sums are enough. Ties go to
    the smallest block and to the lowest index.

    >>> top_block(np.array([3.0, -2.0, 0.0, 3.0, 3.0, 3.0]), 5)
    (6.0, array([0, 3, 4, 5]))
    """
    values = np.asarray(values)
    if values.ndim != 1:
        raise ValueError(f"values must have shape (d,), got {values.shape}")
    values, size = arguments.point("values", values, values.size), check.integer("size", size, 1, values.size)
    ranked = np.argsort(-values, kind="stable")[:size]
    sums = np.cumsum(values[ranked]) / np.sqrt(np.arange(1, size + 1))
    best = int(np.argmax(sums))
    return float(sums[best]), ranked[: best + 1]


def best_block_value(values: FloatArray, size: int) -> FloatArray:
    """Value part of :func:`top_block` for a batch (..., d)."""
    if size == 1:
        return np.asarray(values.max(axis=-1))
    top = -np.sort(np.partition(-values, size - 1, axis=-1)[..., :size], axis=-1)
    best: FloatArray = (np.cumsum(top, axis=-1) / np.sqrt(np.arange(1, size + 1))).max(axis=-1)
    return best


def expected_max(scores: FloatArray, floor: float, inclusion: float = 0.5) -> float:
    r"""Exact :math:`\mathbb E\max\{c_0, \max_{u\in V} s_u\}` when V takes each u independently with probability pi.

    With :math:`s_{(1)} \ge s_{(2)} \ge \dots` the scores above the floor, the j-th is the maximum when it is in V and
    the j - 1 above it are not:

    .. math:: \sum_j \pi (1-\pi)^{j-1} s_{(j)} + (1-\pi)^J c_0.

    Only scores that matter to double precision are sorted.

    >>> expected_max(np.array([3.0, 1.0, -1.0]), 0.0)
    1.75
    """
    if not 0 < inclusion < 1:
        raise ValueError(f"inclusion must lie in (0, 1), got {inclusion}")
    scores = np.asarray(scores)
    if scores.ndim != 1 or np.isnan(scores).any():
        raise ValueError(f"scores must be a vector without NaN, got shape {scores.shape}")
    floor = check.real("floor", floor)
    above = scores[scores > floor]
    enough = int(np.ceil(-64 * np.log(2.0) / np.log1p(-inclusion)))
    if above.size > enough:
        above = np.partition(above, above.size - enough)[-enough:]
    ranked = np.sort(above)[::-1]
    weights = inclusion * (1.0 - inclusion) ** np.arange(ranked.size)
    # Sum the surplus over the floor: the weights then need not add up to one in floating point.
    return float(floor + weights @ (ranked - floor))


def subgradient_violation(
    loss: Callable[[FloatArray], FloatArray],
    w: FloatArray,
    g: FloatArray,
    *,
    n_probe: int = 200,
    seed: int | np.random.Generator = 0,
) -> float:
    r"""Largest :math:`f(w) + \langle g, y - w\rangle - f(y)` over probes :math:`y = w + r u`.

    A subgradient keeps this at or below zero for every y. The radii r are log-uniform in [1e-4, 1]. Half of the
    directions u are uniform on the sphere; the other half run along -g, +g and single coordinates of the support of
    g, because a wrong vector is found close by and in the directions it moves, hardly ever by far random points.

    Parameters
    ----------
    loss : callable
        Maps a batch (m, dim) to (m,) losses.
    w, g : (dim,) arrays
        The point and the candidate.
    n_probe : int >= 8
        Number of probes.
    seed : int or numpy Generator

    Returns
    -------
    float
        At most a few rounding errors when g is a subgradient; clearly positive when the probes refute it.
    """
    n_probe, rng = check.integer("n_probe", n_probe, 8), check.numpy_generator(seed)
    w, g = np.asarray(w), np.asarray(g)
    if w.ndim != 1 or g.shape != w.shape:
        raise ValueError(f"g must have the shape of w, one vector, got {g.shape} and {w.shape}")
    w, g = arguments.point("w", w, w.size), arguments.point("g", g, w.size)
    directions = rng.standard_normal((n_probe, w.size))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    support = np.flatnonzero(g) if g.any() else rng.integers(0, w.size, 8)
    norm = float(np.linalg.norm(g))
    for row in range(n_probe // 2):
        turn = row % 4
        if turn < 2 and norm > 0:
            directions[row] = (g if turn else -g) / norm
        else:
            directions[row] = 0.0
            directions[row, rng.choice(support)] = 1.0 if turn % 2 else -1.0
    radii = 10.0 ** rng.uniform(-4.0, 0.0, size=(n_probe, 1))
    probes = w + radii * directions
    values = np.asarray(loss(np.concatenate([w[None, :], probes])))
    if values.shape != (n_probe + 1,) or not np.isfinite(values).all():
        raise ValueError(f"loss must return {n_probe + 1} finite numbers for as many points, got shape {values.shape}")
    return float(np.max(values[0] + (probes - w) @ g - values[1:]))
