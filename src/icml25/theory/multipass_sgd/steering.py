r"""The hard instance: pass one writes the sample into the oracle's choices, pass two steers towards a bad vector.

For w = (w1, w2) in R^{2d} and an example V, a random subset of a packing set U,

.. math::
    f(w, V) = \underbrace{\tfrac1{\sqrt d}\max\Bigl\{c_0,\ \max_{v\in V}\langle w_1+w_2+s\mathbf 1, v\rangle\Bigr\}}_{g}
    + \alpha\underbrace{\Bigl[\tfrac57\max\bigl\{0,\max_{|I|\le B} w_1(I)\bigr\}
    + \tfrac27\max\bigl\{0,\max_{|I|\le B} -w_2(I)\bigr\}\Bigr]}_{h}

with :math:`w(I) = |I|^{-1/2}\sum_{i\in I}w_i`, shift :math:`s = 5\eta\alpha/(7\sqrt B)` and threshold
:math:`c_0 = 5\eta\alpha d/(16\sqrt B)` (Appendix B of the paper). Everything about it is known exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml25 import _arguments as check
from icml25.theory.multipass_sgd import arguments
from icml25.theory.multipass_sgd.bounds import bad_vector_probability
from icml25.theory.multipass_sgd.descent import FloatArray, OracleState
from icml25.theory.multipass_sgd.hard_instance import (
    best_block_value,
    expected_max,
    subgradient_violation,
    top_block,
)
from icml25.theory.multipass_sgd.packing import packing_set, zeros_and_ones

__all__ = ["LossRecorder", "MultiPassInstance", "SteeringCurve", "default_steering_steps"]

BoolArray = NDArray[np.bool_]

# Scores that equal the threshold in exact arithmetic come out a few ulp above or below it: within this relative
# distance the constant piece counts as active.
_TIE = 1e-12


def default_steering_steps(free_steps: int) -> int:
    """p = 16 floor(free / 48): the largest multiple of 16 that is at most a third of the steps after memorising.

    Never less than 16, the smallest p for which the blocks come out whole.

    >>> default_steering_steps(96)
    32
    """
    return max(16, 16 * (check.integer("free_steps", free_steps, 0) // 48))


@dataclass(frozen=True)
class SteeringCurve:
    """Population excess along a lazy run, in closed memory: only the p + 1 states of the steering phase are kept.

    Attributes
    ----------
    memorise, steps : int
        Length of the memorising phase and T.
    excess : (p + 1,) array
        F(w_t) - F* at t = memorise, ..., memorise + p.
    squared_norm : (p + 1,) array
        Squared norm of these iterates.
    w : (2d,) array
        Last iterate.
    """

    memorise: int
    steps: int
    excess: FloatArray
    squared_norm: FloatArray
    w: FloatArray

    def at(self, t: Any) -> FloatArray:
        """Excess after t steps (scalar or array of ints in [0, T])."""
        t = np.asarray(t)
        if not np.issubdtype(t.dtype, np.integer):
            raise TypeError(f"t must be an integer or integers, got dtype {t.dtype}")
        if t.size and (t.min() < 0 or t.max() > self.steps):
            raise ValueError(f"t must lie in [0, T] = [0, {self.steps}], got {t.min()} to {t.max()}")
        values: FloatArray = self.excess[np.clip(t - self.memorise, 0, self.excess.size - 1)]
        return values

    def suffix_excess(self, tau: int) -> float:
        """Excess of the mean of the last ``tau`` iterates.

        Along the path the score of u0 never falls below the threshold and h is 0, both also for averages, so f is
        linear there and the excess of a mean is the mean of the excesses.
        """
        tau = check.integer("tau", tau, 1, self.steps + 1)
        first = self.steps + 1 - tau
        settled = self.memorise + self.excess.size  # from here on w_t is constant
        moving = self.excess[max(0, first - self.memorise) : max(0, settled - self.memorise)]
        constant = self.steps + 1 - max(first, settled)
        return float((moving.sum() + max(0, constant) * self.excess[-1]) / tau)


@dataclass(frozen=True, eq=False)
class MultiPassInstance:
    """The multi-pass hard instance; build it with :meth:`explicit` or :meth:`lazy`.

    An example V is a boolean row over the stored vectors. The lazy instance stores one vector, the future u0, and an
    example then says only whether it contains u0: on the path of SGD no other vector's score exceeds the threshold
    (their overlap with u0 is at most 5d/16), so nothing else about V ever enters the loss. A batch of examples (a
    matrix of rows) is accepted wherever one is, and means their average: that is full-batch gradient descent.

    Attributes
    ----------
    vectors : (size, d) int8 array
        The packing set U, or u0 alone.
    n : int
        Sample size.
    eta : float
        Step size for which the instance is built.
    steps : int
        T, the number of steps for which it is built.
    memorise : int
        Number of steps in which the oracle only reads.
    p : int
        Number of steering steps; blocks have B = d / p coordinates.
    alpha : float
        Weight of h, by default min(1, 1 / (eta sqrt T)).
    log2_size : float
        log2 of the size of U, also where U is not stored.
    """

    vectors: NDArray[np.int8]
    n: int
    eta: float
    steps: int
    memorise: int
    p: int
    alpha: float
    log2_size: float

    # ---------------------------------------------------------------- construction

    @classmethod
    def explicit(
        cls,
        n: int,
        d: int,
        size: int | None = None,
        p: int | None = None,
        eta: float | None = None,
        passes: int = 2,
        seed: int | np.random.Generator = 0,
        *,
        vectors: NDArray[np.int8] | None = None,
        steps: int | None = None,
        memorise: int | None = None,
        alpha: float | None = None,
        max_entries: int = 2**28,
    ) -> MultiPassInstance:
        """Instance with the whole packing set in memory.

        Parameters
        ----------
        n, d : int
            Sample size and number of coordinates in each of the two blocks.
        size : int
            Size of U, by default 4 * 2^n, which makes the bad vector exist with probability 0.98.
        p : int
            Steering steps: a multiple of 16 that divides d and is at most T - memorise; by default the largest
            multiple of 16 up to a third of T - memorise (at least 16).
        eta : float
            Step size, by default 1 / sqrt(n).
        passes, steps : int
            T = n * passes, unless ``steps`` is given.
        seed : int or numpy Generator
            For the packing set.
        vectors : (size, d) int8 array
            A packing set already drawn, to share between instances. Entries and weights (7d/16 ones) are checked; that
            no two rows share more than 5d/16 ones is the caller's word (:func:`packing_overlaps` checks it).
        memorise : int
            Reading steps, by default n. (1 for full-batch gradient descent.)
        alpha : float
            Weight of h.
        max_entries : int
            Largest size * d that is allowed.

        Raises
        ------
        ValueError
            If an argument is out of range or the set would be too large.
        RuntimeError
            If the packing set violates its overlap limit.
        """
        n, d = check.integer("n", n, 1), check.integer("d", d, 1)
        if vectors is not None:
            vectors = np.asarray(vectors)
            if vectors.ndim != 2 or len(vectors) < 1 or vectors.shape[1] != d:
                raise ValueError(f"vectors must have d = {d} columns and at least 1 row, got shape {vectors.shape}")
            rows = len(vectors)
        else:
            rows = 4 * 2**n if size is None else check.integer("size", size, 1)
        if rows * d > max_entries:
            name = f"4 * 2^{n}" if vectors is None and size is None else rows  # the number may have 10^5 digits
            raise ValueError(f"size * d = {name} * {d} exceeds max_entries = {max_entries}: use lazy")
        steps, memorise, eta, alpha = _resolve(n, passes, steps, memorise, eta, alpha)
        p = _check_steering(p, d, steps, memorise)
        if vectors is None:
            vectors = packing_set(rows, d, seed)
        else:
            vectors = zeros_and_ones(vectors)
            weights = vectors.sum(axis=1, dtype=np.int64)
            if (weights != 7 * d // 16).any():  # at w = 0 the pieces would not tie, and the oracle's 0 would be wrong
                raise ValueError(
                    f"vectors must have 7d/16 = {7 * d // 16} ones in each row, got {weights.min()} to {weights.max()}"
                )
        return cls(vectors, n, eta, steps, memorise, p, alpha, float(np.log2(rows)))

    @classmethod
    def lazy(
        cls,
        n: int,
        eta: float | None = None,
        passes: int = 2,
        *,
        p: int | None = None,
        d: int | None = None,
        log2_size: float | None = None,
        seed: int | np.random.Generator = 0,
        steps: int | None = None,
        memorise: int | None = None,
        alpha: float | None = None,
    ) -> MultiPassInstance:
        """Instance that stores u0 only: memory O(d) for any n.

        Parameters are those of :meth:`explicit`; d defaults to p (blocks of one coordinate) and ``log2_size``, the
        logarithm of the size of the packing set that is not stored, to n + 2.
        """
        n, d = check.integer("n", n, 1), None if d is None else check.integer("d", d, 1)
        steps, memorise, eta, alpha = _resolve(n, passes, steps, memorise, eta, alpha)
        if p is None and d is None:
            p = default_steering_steps(steps - memorise)
        d = d if d is not None else p
        assert d is not None
        p = _check_steering(p, d, steps, memorise)
        u0 = np.zeros((1, d), dtype=np.int8)
        u0[0, check.numpy_generator(seed).permutation(d)[: 7 * d // 16]] = 1
        log2_size = float(n + 2) if log2_size is None else check.real("log2_size", log2_size)
        if log2_size < 0:
            raise ValueError(f"log2_size must be at least 0, got {log2_size}")
        return cls(u0, n, eta, steps, memorise, p, alpha, log2_size)

    # ---------------------------------------------------------------- constants

    @property
    def d(self) -> int:
        """Number of coordinates in each half of w."""
        return int(self.vectors.shape[1])

    @property
    def dim(self) -> int:
        """Length 2d of w."""
        return 2 * self.d

    @property
    def block(self) -> int:
        """B = d / p, the number of coordinates one steering step moves."""
        return self.d // self.p

    @property
    def is_lazy(self) -> bool:
        """Whether u0 alone is stored."""
        return len(self.vectors) == 1

    @property
    def shift(self) -> float:
        r"""s = 5 eta alpha / (7 sqrt B)."""
        return 5.0 * self.eta * self.alpha / (7.0 * float(np.sqrt(self.block)))

    @property
    def height(self) -> float:
        """Where a raised coordinate of w1 + w2 + s ends: eta alpha / sqrt B."""
        return self.eta * self.alpha / float(np.sqrt(self.block))

    @property
    def threshold(self) -> float:
        """c0 = 5 eta alpha d / (16 sqrt B), which is s times the 7d/16 ones of a vector."""
        return 5.0 * self.eta * self.alpha * self.d / (16.0 * float(np.sqrt(self.block)))

    @property
    def minimum(self) -> float:
        """F* = F(0) = F_S* = c0 / sqrt d: g never falls below it and h is non-negative."""
        return self.threshold / float(np.sqrt(self.d))

    @property
    def lipschitz(self) -> float:
        r"""sqrt(2 * 7/16) + alpha sqrt(29) / 7, at most 1.71."""
        return float(np.sqrt(7.0 / 8.0) + self.alpha * np.sqrt(29.0) / 7.0)

    @property
    def start(self) -> FloatArray:
        """w_0 = 0."""
        return np.zeros(self.dim)

    @property
    def final_excess(self) -> float:
        """eta alpha sqrt(p) / 16, the excess after the steering phase."""
        return self.eta * self.alpha * float(np.sqrt(self.p)) / 16.0

    @property
    def event_probability(self) -> float:
        """Probability that n random examples leave a bad vector."""
        return bad_vector_probability(self.n, self.log2_size)

    # ---------------------------------------------------------------- examples

    def draw(
        self, seed: int | np.random.Generator = 0, *, size: int | None = None, seen: NDArray[np.bool_] | None = None
    ) -> BoolArray:
        """Draw i.i.d. examples: each contains each u with probability 1/2.

        Parameters
        ----------
        seed : int or numpy Generator
        size : int
            Number of examples, by default n.
        seen : (size,) bool array, lazy instance only
            Which examples the memorising phase will have shown (all by default). Lazily only u0's membership is drawn,
            and u0 is defined by those: it exists with the exact probability and is in none of them (else a column
            of True says that it does not exist); each other example contains it with probability 1/2.

        Returns
        -------
        (examples, vectors) bool array, or (examples, 1) for a lazy instance
        """
        rng = check.numpy_generator(seed)
        count = self.n if size is None else check.integer("size", size, 1)
        if not self.is_lazy:
            if seen is not None:
                raise ValueError("seen is for lazy instances: explicit examples do not depend on the order")
            fair: BoolArray = rng.random((count, len(self.vectors)), dtype=np.float32) < 0.5
            return fair
        shown = np.ones(count, dtype=bool) if seen is None else arguments.flags("seen", seen)
        if shown.shape != (count,):
            raise ValueError(f"seen must have shape ({count},), got {shown.shape}")
        exists = rng.random() < bad_vector_probability(int(shown.sum()), self.log2_size)
        contains: BoolArray = np.asarray(rng.random(count) < 0.5)
        contains[shown] = not exists
        return contains[:, None]

    def bad_vector(self, seen: BoolArray) -> int | None:
        """Index of u0, the first vector outside every example in ``seen`` (rows), or None."""
        rows = arguments.membership("seen", seen, len(self.vectors)).reshape(-1, len(self.vectors))
        covered: BoolArray = np.any(rows, axis=0)
        first = int(np.argmin(covered))
        return None if covered[first] else first

    def _examples(self, name: str, z: Any) -> BoolArray:
        """One example or a batch of them as rows (m, vectors), m >= 1."""
        examples = np.atleast_2d(arguments.membership(name, z, len(self.vectors)))
        if examples.ndim != 2 or len(examples) < 1:
            raise ValueError(
                f"{name} must be an example ({len(self.vectors)},) or at least 1 row of them, got shape {np.shape(z)}"
            )
        return examples

    # ---------------------------------------------------------------- losses

    def scores(self, w: FloatArray, rows: Any = slice(None)) -> FloatArray:
        """<w1 + w2 + s 1, u> for the chosen vectors; w is (2d,) or (m, 2d), the result (size,) or (m, size)."""
        w = arguments.point("w", w, self.dim)
        q = w[..., : self.d] + w[..., self.d :] + self.shift
        table = self.vectors[rows]
        out = np.empty((*w.shape[:-1], len(table)))
        for low in range(0, len(table), 4096):
            out[..., low : low + 4096] = q @ table[low : low + 4096].T.astype(np.float64)
        return out

    def penalty(self, w: FloatArray) -> Any:
        """alpha h(w), for one w or a batch (..., 2d)."""
        w = arguments.point("w", w, self.dim)
        first = np.maximum(best_block_value(w[..., : self.d], self.block), 0.0)
        second = np.maximum(best_block_value(-w[..., self.d :], self.block), 0.0)
        return self.alpha * (5.0 * first + 2.0 * second) / 7.0

    def loss(self, w: FloatArray, z: BoolArray) -> Any:
        """f(w, V); for a batch of examples (m, vectors), the mean over them.

        Parameters
        ----------
        w : (2d,) or (k, 2d) array
        z : (vectors,) or (m, vectors) bool array

        Returns
        -------
        float, or (k,) array
        """
        w, examples = arguments.point("w", w, self.dim), self._examples("z", z)
        relevant = np.flatnonzero(examples.any(axis=0))
        scores = self.scores(w, relevant)
        total = np.zeros(w.shape[:-1])
        for example in examples:
            inside = scores[..., example[relevant]]
            total += np.maximum(self.threshold, inside.max(axis=-1, initial=-np.inf))
        value = total / len(examples) / np.sqrt(self.d) + self.penalty(w)
        return float(value) if w.ndim == 1 else value

    def population(self, w: FloatArray) -> float:
        """F(w), exactly: :func:`expected_max` of the scores, plus alpha h(w).

        For a lazy instance this is exact where every vector but u0 scores at most the threshold, which holds on the
        path of SGD and for averages of it.
        """
        surplus = expected_max(self.scores(w), self.threshold)
        return float(surplus / np.sqrt(self.d) + self.penalty(w))

    def empirical(self, w: FloatArray, sample: BoolArray) -> float:
        """F_S(w): mean of f(w, V) over the rows of the sample."""
        return float(self.loss(w, self._examples("sample", sample)))

    def excess(self, w: FloatArray) -> float:
        """F(w) - F*."""
        return self.population(w) - self.minimum

    # ---------------------------------------------------------------- oracles

    def subgradient(self, w: FloatArray, z: BoolArray) -> FloatArray:
        """An honest subgradient of f(., z): where a constant piece is active it takes 0 from it.

        At w = 0 all pieces tie, so this oracle returns 0, the subgradient of least norm, and never moves.
        """
        g = np.zeros(self.dim)
        w, examples = arguments.point("w", w, self.dim), self._examples("z", z)
        scores = self.scores(w)
        for example in examples:
            inside = np.where(example, scores, -np.inf)
            best = int(np.argmax(inside))
            if inside[best] > self.threshold * (1.0 + _TIE):
                direction = self.vectors[best] / (np.sqrt(self.d) * len(examples))
                g[: self.d] += direction
                g[self.d :] += direction
        value, block = top_block(w[: self.d], self.block)
        if value > 0.0:
            g[block] += self.alpha * 5.0 / 7.0 / np.sqrt(block.size)
        value, block = top_block(-w[self.d :], self.block)
        if value > 0.0:
            g[self.d + block] -= self.alpha * 2.0 / 7.0 / np.sqrt(block.size)
        return g

    def steering_step(self, w: FloatArray, u0: int) -> FloatArray:
        """The scripted step: zero the next block where u0 is 0; when none is left, raise the next where u0 is 1."""
        w = arguments.point("w", w, self.dim)
        g = np.zeros(self.dim)
        q = w[: self.d] + w[self.d :] + self.shift
        ones = self.vectors[u0] == 1
        # Half way between the two values a coordinate takes: rounding cannot make it move twice.
        to_zero = np.flatnonzero(~ones & (q > 0.5 * self.shift))[: self.block]
        if to_zero.size:
            g[to_zero] = self.alpha * 5.0 / 7.0 / np.sqrt(to_zero.size)
            return g
        to_raise = np.flatnonzero(ones & (q < 0.5 * (self.shift + self.height)))[: self.block]
        if to_raise.size:
            g[self.d + to_raise] = -self.alpha * 2.0 / 7.0 / np.sqrt(to_raise.size)
        return g

    def _on_script(self, w: FloatArray, u0: int) -> bool:
        """Whether w is a state of the script for u0; its steps are then subgradients of f(., V) if V lacks u0."""
        ones = self.vectors[u0] == 1
        w1, w2 = w[: self.d], w[self.d :]
        slack = 1e-9 * self.height
        zeroed = ~ones & (np.abs(w1 + self.shift) <= slack)
        raised = ones & (np.abs(w2 - (self.height - self.shift)) <= slack)
        return bool(np.all(zeroed | (w1 == 0.0)) and np.all(raised | (w2 == 0.0)))

    def oracle(self, state: OracleState) -> FloatArray:
        """The sample-dependent first-order oracle; always a subgradient of f(., state.z) at state.w.

        1. While fewer than ``memorise`` steps are made, and when no bad vector exists: 0, valid at w = 0.
        2. The current example contains u0 (it was not seen before): an honest subgradient.
        3. Otherwise the next step of the script. If an honest step has led away from it, honest for good: that step
           lowered all of u0's coordinates in w2 below 0 or below the height the script gave them, and there the
           scripted vector is no subgradient any more.
        """
        w = state.w
        u0 = self.bad_vector(state.seen(self.memorise)) if state.t >= self.memorise else None
        z = self._examples("z", state.z)
        if u0 is None:
            return self.subgradient(w, z) if w.any() else np.zeros(self.dim)
        if z[..., u0].any() or not self._on_script(w, u0):
            return self.subgradient(w, z)
        return self.steering_step(w, u0)

    def honest_oracle(self, state: OracleState) -> FloatArray:
        """Control: the subgradient of :meth:`subgradient`, which knows nothing of the past."""
        return self.subgradient(state.w, state.z)

    def is_subgradient(self, w: FloatArray, z: BoolArray, g: FloatArray, *, n_probe: int = 200, seed: int = 0) -> float:
        """Largest violation of f(y) >= f(w) + <g, y - w> over random probes; see :func:`subgradient_violation`."""
        return subgradient_violation(lambda y: np.asarray(self.loss(y, z)), w, g, n_probe=n_probe, seed=seed)

    # ---------------------------------------------------------------- the whole curve at once

    def curve(self) -> SteeringCurve:
        """Run the script on its event without visiting the d coordinates at each step: O(d) time and memory in all.

        The same steps as :meth:`oracle`, with the blocks listed once instead of searched for each time; works for any
        n, since the memorising phase and the time after the last block cost nothing.
        """
        ones = self.vectors[0] == 1
        step_zero = self.eta * self.alpha * 5.0 / 7.0 / np.sqrt(self.block)
        step_raise = self.eta * self.alpha * 2.0 / 7.0 / np.sqrt(self.block)
        raising = np.arange(self.p) >= np.count_nonzero(~ones) // self.block
        score = self.shift * np.count_nonzero(ones) + np.cumsum(raising * self.block * step_raise)
        surplus = 0.5 * np.maximum(score - self.threshold, 0.0) / np.sqrt(self.d)
        norm = np.cumsum(self.block * np.where(raising, step_raise, step_zero) ** 2)
        w = np.concatenate([np.where(ones, 0.0, -step_zero), np.where(ones, step_raise, 0.0)])
        return SteeringCurve(
            self.memorise, self.steps, np.concatenate([[0.0], surplus]), np.concatenate([[0.0], norm]), w
        )


def _resolve(
    n: int, passes: int, steps: int | None, memorise: int | None, eta: float | None, alpha: float | None
) -> tuple[int, int, float, float]:
    passes = check.integer("passes", passes, 1)
    total = n * passes if steps is None else check.integer("steps", steps, 1)
    read = check.integer("memorise", n if memorise is None else memorise, 1, total)
    step = 1.0 / float(np.sqrt(n)) if eta is None else check.positive("eta", eta)
    return total, read, step, arguments.weight(alpha, step, total)


def _check_steering(p: int | None, d: int, steps: int, memorise: int) -> int:
    if p is None:
        p = min(default_steering_steps(steps - memorise), d)
    p = check.integer("p, the number of steering steps,", p, 0)
    if p < 16 or p % 16 or d % p:
        raise ValueError(f"p, the number of steering steps, must be a multiple of 16 that divides d = {d}, got {p}")
    if p > steps - memorise:
        raise ValueError(f"p, the number of steering steps, must be at most T - memorise = {steps - memorise}, got {p}")
    return p


class LossRecorder:
    """A ``record`` callable for :func:`sgd`: exact population and empirical excess of every iterate.

    The scores of all N vectors of U are kept and only the columns that a step moved are added up again: O(N B) instead
    of O(N d) per step. ``incremental=False`` recomputes them, the plain way.

    Parameters
    ----------
    instance : MultiPassInstance
    sample : (m, vectors) bool array
        For the empirical excess; None records the population excess only.
    incremental : bool

    Raises
    ------
    ValueError
        If the sample has another width than the instance, or an iterate another length, or is not finite.
    """

    def __init__(self, instance: MultiPassInstance, sample: BoolArray | None = None, *, incremental: bool = True):
        self.instance, self.incremental = instance, incremental
        self.sample = None if sample is None else instance._examples("sample", sample)
        self._q = np.full(instance.d, instance.shift)
        self._scores = instance.vectors.sum(axis=1, dtype=np.int64) * instance.shift

    @cached_property
    def _columns(self) -> NDArray[np.int8]:
        """U transposed, so that the column of a coordinate is contiguous."""
        return np.ascontiguousarray(self.instance.vectors.T)

    @cached_property
    def _dense(self) -> FloatArray:
        """U as float64, what a recomputation multiplies by."""
        return self.instance.vectors.astype(np.float64)

    def scores(self, w: FloatArray) -> FloatArray:
        """Scores at w, brought up to date from the previous call."""
        w = arguments.point("w", w, self.instance.dim)
        if w.ndim != 1:
            raise ValueError(f"w must be one iterate, got shape {w.shape}")
        q = w[: self.instance.d] + w[self.instance.d :] + self.instance.shift
        if not self.incremental:
            return np.asarray(self._dense @ q)
        moved = np.flatnonzero(q != self._q)
        if moved.size:
            self._scores = self._scores + self._change(moved, (q - self._q)[moved])
            self._q = q
        return np.asarray(self._scores)

    def _change(self, moved: NDArray[np.intp], delta: FloatArray) -> FloatArray:
        amounts, group = np.unique(delta, return_inverse=True)
        if amounts.size > 4:
            return np.asarray(delta @ self._columns[moved].astype(np.float64))
        # The coordinates of a block move by one amount: count ones in int8 (never more than 127 rows), then scale once.
        change = np.zeros(len(self.instance.vectors))
        for index, amount in enumerate(amounts):
            rows = moved[group == index]
            for low in range(0, rows.size, 127):
                change += amount * self._columns[rows[low : low + 127]].sum(axis=0, dtype=np.int8)
        return change

    def __call__(self, t: int, w: FloatArray) -> tuple[float, float]:
        """(population excess, empirical excess) of w; the second is nan without a sample."""
        instance, scores = self.instance, self.scores(w)
        floor, root = instance.threshold, np.sqrt(instance.d)
        penalty = float(instance.penalty(w))
        population = (expected_max(scores, floor) - floor) / root + penalty
        if self.sample is None:
            return population, float("nan")
        above = np.flatnonzero(scores > floor)
        surplus = (self.sample[:, above] * (scores[above] - floor)).max(axis=1, initial=0.0)
        return population, float(surplus.mean() / root) + penalty
