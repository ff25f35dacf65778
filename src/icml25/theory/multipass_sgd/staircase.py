r"""The staircase construction for many passes, on the toy where it is valid.

.. math::
    g(w, V) = \tfrac1{\sqrt d}\max\Bigl\{\tfrac{45\,\eta\alpha d^2}{2\cdot 16^2 B^{1.5}},
    \ \max_{v\in V}\langle w, v\rangle\Bigr\}, \qquad
    h(w) = \max\Bigl\{0,\ \max_{|I|=B} -w(I),\ \max_{I<J,\,|I|=|J|=B} -(w(I) - w(J))\Bigr\},

f = g + alpha h, where I < J means max I < min J. The blocks I_1, ..., I_p of u0's ones are raised to heights p, p - 1,
..., 1 in units of eta alpha: whenever two neighbours are level, one unit goes from the right one to the left one.

Handle with care: the rule returns subgradients only when h is 0 at the iterates, and a coordinate set of size B at 0
that stands *before* a raised block makes h positive. The toy with u0 supported on a prefix is valid; with zeros in
between it is not, which :meth:`Staircase.is_subgradient` shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from icml25 import _arguments as check
from icml25.theory.multipass_sgd import arguments
from icml25.theory.multipass_sgd.descent import FloatArray, OracleState
from icml25.theory.multipass_sgd.hard_instance import subgradient_violation

__all__ = ["Staircase"]


class Staircase:
    """The staircase towards one bad vector u0; an example is the boolean "contains u0".

    Parameters
    ----------
    p : int >= 1
        Number of blocks (7d/(16B) in the paper).
    block : int >= 1
        B, coordinates in a block.
    support : "prefix" or sequence of p * block increasing indices
        Where u0 is 1.
    eta : float > 0
        Step size.
    steps : int
        T, by default the p(p+1)(p+2)/6 steps that the staircase takes.
    d : int
        Number of coordinates; by default ceil(16 p B / 7) for a prefix, and one past the last index otherwise.
    alpha : float in (0, 1]
        By default min(1, 1 / (eta sqrt(2T))), which keeps the path in the unit ball.
    """

    def __init__(
        self,
        p: int,
        block: int = 1,
        support: str | Sequence[int] = "prefix",
        *,
        eta: float = 0.01,
        steps: int | None = None,
        d: int | None = None,
        alpha: float | None = None,
    ):
        p, block = check.integer("p", p, 1), check.integer("block", block, 1)
        eta = check.positive("eta", eta)
        if isinstance(support, str):
            if support != "prefix":
                raise ValueError(f'support must be "prefix" or a sequence of indices, got {support!r}')
            ones = np.arange(p * block)
            default = -(-16 * p * block // 7)
        else:
            ones = np.asarray(support)
            if not np.issubdtype(ones.dtype, np.integer):
                raise TypeError(f'support must be "prefix" or integer indices, got dtype {ones.dtype}')
            if ones.shape != (p * block,) or (np.diff(ones) <= 0).any() or ones[0] < 0:
                raise ValueError(f"support must hold p * block = {p * block} increasing indices, got {list(support)}")
            default = int(ones[-1]) + 1
        self.d = default if d is None else check.integer("d", d, 1)
        if self.d <= ones[-1]:
            raise ValueError(f"d must exceed the last index {ones[-1]} of the support, got {self.d}")
        self.p, self.block, self.eta = p, block, eta
        self.steps = self.full_steps if steps is None else check.integer("steps", steps, 1)
        self.alpha = arguments.weight(alpha, eta, 2.0 * self.steps)
        self.blocks = ones.reshape(p, block)
        self.u0 = np.zeros(self.d)
        self.u0[ones] = 1.0

    @property
    def full_steps(self) -> int:
        """p(p+1)(p+2)/6.

        Stairs of q - 1 blocks become stairs of q in q + (q - 1) + ... + 1 steps: a unit raised at block q is carried to
        block 1, the next one to block 2, and so on.
        """
        return self.p * (self.p + 1) * (self.p + 2) // 6

    @property
    def dim(self) -> int:
        """d."""
        return self.d

    @property
    def start(self) -> FloatArray:
        """w_0 = 0."""
        return np.zeros(self.d)

    @property
    def threshold(self) -> float:
        """45 eta alpha d^2 / (512 B^1.5)."""
        return float(45.0 * self.eta * self.alpha * self.d**2 / (512.0 * self.block**1.5))

    @property
    def minimum(self) -> float:
        """F* = threshold / sqrt d."""
        return self.threshold / float(np.sqrt(self.d))

    @property
    def lipschitz(self) -> float:
        """Norm of u0 / sqrt d, plus alpha sqrt 2."""
        return float(np.sqrt(self.u0.sum() / self.d)) + float(self.alpha * np.sqrt(2.0))

    def penalty(self, w: FloatArray) -> Any:
        """h(w), for one w or a batch: for each cut, the best B entries right of it minus the least B left of it."""
        w = arguments.point("w", w, self.d)
        size, root = self.block, np.sqrt(self.block)
        least = np.sort(w, axis=-1)[..., :size].sum(axis=-1)
        value = np.maximum(0.0, -least / root)
        for cut in range(size, self.d - size + 1):
            left = np.sort(w[..., :cut], axis=-1)[..., :size].sum(axis=-1)
            right = np.sort(w[..., cut:], axis=-1)[..., -size:].sum(axis=-1)
            value = np.maximum(value, (right - left) / root)
        return value

    def loss(self, w: FloatArray, z: Any) -> Any:
        """f(w, V), z = True where V contains u0; one w or a batch."""
        w = arguments.point("w", w, self.d)
        top = (
            np.maximum(self.threshold, w @ self.u0) if arguments.flag("z", z) else np.full(w.shape[:-1], self.threshold)
        )
        value = top / np.sqrt(self.d) + self.alpha * self.penalty(w)
        return float(value) if w.ndim == 1 else value

    def population(self, w: FloatArray) -> float:
        """F(w) = (f(w, with u0) + f(w, without)) / 2."""
        return 0.5 * float(self.loss(w, True)) + 0.5 * float(self.loss(w, False))

    def empirical(self, w: FloatArray, sample: Any) -> float:
        """F_S(w)."""
        share = float(np.mean(arguments.flags("sample", sample)))
        return share * float(self.loss(w, True)) + (1.0 - share) * float(self.loss(w, False))

    def excess(self, w: FloatArray) -> float:
        """F(w) - F*."""
        return self.population(w) - self.minimum

    def heights(self, w: FloatArray) -> FloatArray:
        """w(I_1), ..., w(I_p) in units of eta alpha."""
        w = arguments.point("w", w, self.d)
        heights: FloatArray = w[self.blocks].sum(axis=1) / (np.sqrt(self.block) * self.eta * self.alpha)
        return heights

    def oracle(self, state: OracleState) -> FloatArray:
        """The printed rule, for a run whose examples all lack u0 (the sample is already memorised).

        The first level pair of positive neighbours: move a unit from right to left. Else the first block at zero: raise
        it. Else 0.
        """
        if arguments.flag("z", state.z):
            raise ValueError("z: the toy starts after memorising, its examples must not contain u0")
        level = np.rint(self.heights(state.w)).astype(int)
        g, unit = np.zeros(self.d), self.alpha / np.sqrt(self.block)
        pairs = np.flatnonzero((level[:-1] == level[1:]) & (level[1:] > 0))
        if pairs.size:
            g[self.blocks[pairs[0]]] = -unit
            g[self.blocks[pairs[0] + 1]] = unit
            return g
        empty = np.flatnonzero(level == 0)
        if empty.size:
            g[self.blocks[empty[0]]] = -unit
        return g

    def is_subgradient(self, w: FloatArray, z: Any, g: FloatArray, *, n_probe: int = 200, seed: int = 0) -> float:
        """Largest violation of the subgradient inequality; see :func:`subgradient_violation`."""
        return subgradient_violation(lambda y: np.asarray(self.loss(y, z)), w, g, n_probe=n_probe, seed=seed)
