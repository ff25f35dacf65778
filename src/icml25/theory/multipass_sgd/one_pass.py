r"""One pass, small population loss, large training loss (Theorem 4.1, Appendix C of the paper).

For U in :math:`\{\pm1/\sqrt d\}^d` with :math:`|\langle u,v\rangle|\le 1/8`, examples V that contain each u with
probability :math:`\delta = 1/(4n^2)`, and blocks of B = d/p coordinates, p = n/8,

.. math:: f(w, V) = \max\Bigl\{\tfrac9{16}\eta\alpha\sqrt{p},\ \max_{v\in V}\langle w_1 + w_2, v\rangle\Bigr\}
          + \alpha\Bigl[\max\bigl\{0, \max_{|I|\le B} w_1(I)\bigr\}
          + \max\bigl\{0, \max_{|I|\le B} -w_2(I)\bigr\}\Bigr].

The first m = ceil(n/16) steps read; u0 is a vector that all of these examples contain; the rest of the pass walks
towards u0, which raises the loss of those m examples, but not the population loss, since almost no example has u0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml25 import _arguments as check
from icml25.theory.multipass_sgd import arguments
from icml25.theory.multipass_sgd.descent import FloatArray, OracleState
from icml25.theory.multipass_sgd.hard_instance import (
    best_block_value,
    expected_max,
    subgradient_violation,
    top_block,
)

__all__ = ["OnePassEmpiricalInstance"]


@dataclass(frozen=True, eq=False)
class OnePassEmpiricalInstance:
    """The one-pass instance, lazily: u0 alone is kept, and an example is the boolean "contains u0".

    U has 2^(4 n log n) vectors: no machine stores them, and no step of SGD needs them: every other vector agrees with
    u0 on at most 9d/16 signs and so never scores above the constant. Build it with :meth:`lazy`.

    Attributes
    ----------
    signs : (d,) int8 array
        sqrt(d) u0, half of them negative.
    n, eta, block, alpha : int, float, int, float
        Sample size, step size, B, and weight of the second term.
    """

    signs: NDArray[np.int8]
    n: int
    eta: float
    block: int
    alpha: float

    @classmethod
    def lazy(
        cls,
        n: int,
        eta: float | None = None,
        *,
        block: int = 1,
        seed: int | np.random.Generator = 0,
        alpha: float | None = None,
    ) -> OnePassEmpiricalInstance:
        """Build the instance for a sample of n examples.

        Parameters
        ----------
        n : int
            A multiple of 16, at least 32, so that no block is partial.
        eta : float
            Step size, by default 1 / sqrt(n).
        block : int
            B; d = B n / 8.
        seed : int or numpy Generator
            Where the signs of u0 fall.
        alpha : float
            By default min(1, 1 / (eta sqrt n)).
        """
        n, block = check.integer("n", n, 0), check.integer("block", block, 1)
        if n < 32 or n % 16:
            raise ValueError(f"n must be a multiple of 16, at least 32, got {n}")
        step = 1.0 / float(np.sqrt(n)) if eta is None else check.positive("eta", eta)
        weight = arguments.weight(alpha, step, n)
        d = block * n // 8
        signs = np.ones(d, dtype=np.int8)
        signs[check.numpy_generator(seed).permutation(d)[: d // 2]] = -1
        return cls(signs, n, step, block, weight)

    @property
    def d(self) -> int:
        """Number of coordinates in each half of w."""
        return int(self.signs.size)

    @property
    def dim(self) -> int:
        """2d."""
        return 2 * self.d

    @property
    def start(self) -> FloatArray:
        """w_0 = 0."""
        return np.zeros(self.dim)

    @property
    def memorise(self) -> int:
        """m = ceil(n / 16), the steps that only read."""
        return -(-self.n // 16)

    @property
    def delta(self) -> float:
        """Probability 1 / (4 n^2) that an example contains a given vector."""
        return 1.0 / (4.0 * self.n**2)

    @property
    def threshold(self) -> float:
        """(9/16) eta alpha sqrt(d / B), the constant piece and the minimum of F and of F_S."""
        return 9.0 / 16.0 * self.eta * self.alpha * float(np.sqrt(self.d / self.block))

    @property
    def minimum(self) -> float:
        """F* = F_S* = F(0)."""
        return self.threshold

    @property
    def lipschitz(self) -> float:
        """sqrt 2 (1 + alpha) <= 2 sqrt 2."""
        return float(np.sqrt(2.0) * (1.0 + self.alpha))

    @property
    def event_probability(self) -> float:
        """(1 - delta)^(n - m): the chosen u0 is in none of the later examples. At least 1 - 1/(4n)."""
        return float(np.exp((self.n - self.memorise) * np.log1p(-self.delta)))

    @property
    def final_empirical_excess(self) -> float:
        """(m/n) (7/16) eta alpha sqrt(n/8)."""
        return self.memorise / self.n * 7.0 / 16.0 * self.eta * self.alpha * float(np.sqrt(self.n / 8.0))

    def draw(self, seed: int | np.random.Generator = 0, *, condition: bool = True) -> NDArray[np.bool_]:
        """Examples in the order of the pass: the first m contain u0; each later one with probability delta.

        ``condition=True`` draws on the event that none of the later ones does.
        """
        contains = check.numpy_generator(seed).random(self.n) < (0.0 if condition else self.delta)
        contains[: self.memorise] = True
        return contains

    def score(self, w: FloatArray) -> Any:
        """<w1 + w2, u0>, for one w or a batch."""
        w = arguments.point("w", w, self.dim)
        return (w[..., : self.d] + w[..., self.d :]) @ (self.signs / np.sqrt(self.d))

    def penalty(self, w: FloatArray) -> Any:
        """alpha times the second term."""
        w = arguments.point("w", w, self.dim)
        first = np.maximum(best_block_value(w[..., : self.d], self.block), 0.0)
        second = np.maximum(best_block_value(-w[..., self.d :], self.block), 0.0)
        return self.alpha * (first + second)

    def loss(self, w: FloatArray, z: Any) -> Any:
        """f(w, V), with z = True where V contains u0; one w or a batch."""
        w = arguments.point("w", w, self.dim)
        top = (
            np.maximum(self.threshold, self.score(w))
            if arguments.flag("z", z)
            else np.full(w.shape[:-1], self.threshold)
        )
        value = top + self.penalty(w)
        return float(value) if w.ndim == 1 else value

    def population(self, w: FloatArray) -> float:
        """F(w): u0 is in an example with probability delta."""
        return float(expected_max(np.atleast_1d(self.score(w)), self.threshold, inclusion=self.delta) + self.penalty(w))

    def empirical(self, w: FloatArray, sample: Any) -> float:
        """F_S(w)."""
        share = float(np.mean(arguments.flags("sample", sample)))
        return share * float(self.loss(w, True)) + (1.0 - share) * float(self.loss(w, False))

    def excess(self, w: FloatArray) -> float:
        """F(w) - F*, summed so that a surplus of 1e-7 keeps its digits."""
        surplus = max(0.0, float(self.score(w)) - self.threshold)
        return self.delta * surplus + float(self.penalty(w))

    def empirical_excess(self, w: FloatArray, sample: Any) -> float:
        """F_S(w) - F_S*."""
        surplus = max(0.0, float(self.score(w)) - self.threshold)
        return float(np.mean(arguments.flags("sample", sample))) * surplus + float(self.penalty(w))

    def subgradient(self, w: FloatArray, z: Any) -> FloatArray:
        """An honest subgradient; 0 from each constant piece that is active."""
        w, g = arguments.point("w", w, self.dim), np.zeros(self.dim)
        if arguments.flag("z", z) and float(self.score(w)) > self.threshold * (1.0 + 1e-12):
            g[: self.d] += self.signs / np.sqrt(self.d)
            g[self.d :] += self.signs / np.sqrt(self.d)
        value, block = top_block(w[: self.d], self.block)
        if value > 0.0:
            g[block] += self.alpha / np.sqrt(block.size)
        value, block = top_block(-w[self.d :], self.block)
        if value > 0.0:
            g[self.d + block] -= self.alpha / np.sqrt(block.size)
        return g

    def steering_step(self, w: FloatArray) -> FloatArray:
        """+alpha e_N (in w1) and -alpha e_P (in w2), N and P the next untouched negative and positive entries of u0."""
        w, g = arguments.point("w", w, self.dim), np.zeros(self.dim)
        negative = np.flatnonzero((self.signs < 0) & (w[: self.d] == 0.0))[: self.block]
        positive = np.flatnonzero((self.signs > 0) & (w[self.d :] == 0.0))[: self.block]
        if negative.size:
            g[negative] = self.alpha / np.sqrt(negative.size)
        if positive.size:
            g[self.d + positive] = -self.alpha / np.sqrt(positive.size)
        return g

    def _on_script(self, w: FloatArray) -> bool:
        length = self.eta * self.alpha / np.sqrt(self.block)
        w1, w2 = w[: self.d], w[self.d :]
        lowered = (self.signs < 0) & (np.abs(w1 + length) <= 1e-9 * length)
        raised = (self.signs > 0) & (np.abs(w2 - length) <= 1e-9 * length)
        return bool(np.all(lowered | (w1 == 0.0)) and np.all(raised | (w2 == 0.0)))

    def oracle(self, state: OracleState) -> FloatArray:
        """0 while reading; then towards u0, unless the example contains it or the script was left (then honest)."""
        if state.t < self.memorise or not np.all(arguments.flags("sample", state.seen(self.memorise))):
            return self.subgradient(state.w, state.z) if state.w.any() else np.zeros(self.dim)
        if arguments.flag("z", state.z) or not self._on_script(state.w):
            return self.subgradient(state.w, state.z)
        return self.steering_step(state.w)

    def is_subgradient(self, w: FloatArray, z: Any, g: FloatArray, *, n_probe: int = 200, seed: int = 0) -> float:
        """Largest violation of the subgradient inequality; see :func:`subgradient_violation`."""
        return subgradient_violation(lambda y: np.asarray(self.loss(y, z)), w, g, n_probe=n_probe, seed=seed)
