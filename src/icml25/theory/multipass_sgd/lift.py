r"""From a scripted oracle to any oracle (Appendix D; Livni, 2024).

The construction chooses its subgradients at ties. To take that freedom away, append one coordinate x with
:math:`h_z(x) = \tfrac\gamma2(x^2 - 2 b_z x)` and distinct codes b_z: under SGD

.. math:: x_{t+1} = (1 - \gamma\eta)\,x_t + \gamma\eta\, b_{z_{i_t}},

so x remembers which examples came in which order. Then replace f + h by the largest of its scripted tangents over all
states (S, t) that any sample S can lead to,

.. math:: \bar f((w,x), z) = \max_{(S,t)}\ f(w_t, z) + h_z(x_t) + \langle G_{S,t,z}, (w,x) - (w_t,x_t)\rangle .

It is convex, agrees with f + h at the visited states, and has there one gradient only: the scripted one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml25 import _arguments as check
from icml25.theory.multipass_sgd import arguments
from icml25.theory.multipass_sgd.descent import FloatArray, OracleState, UnitBall
from icml25.theory.multipass_sgd.hard_instance import subgradient_violation
from icml25.theory.multipass_sgd.steering import MultiPassInstance

__all__ = ["MaxAffine", "lift_to_any_oracle"]


@dataclass(frozen=True, eq=False)
class MaxAffine:
    r"""The lifted loss: for each z, a maximum of affine pieces :math:`c_j + \langle G_j, (w, x)\rangle`.

    Attributes
    ----------
    offsets : (Z, m) array
    slopes : (Z, m, 2d + 1) array
    states : (m, 2d + 1) array
        The scripted states (w_t, x_t), in the order of the pieces.
    values : (Z, m) array
        f(w_t, z) + h_z(x_t), which the maximum must take at the states.
    sequences : (Z^n, n) int array
        The samples, as indices of z.
    steps : int
        States per sample.
    """

    offsets: FloatArray
    slopes: FloatArray
    states: FloatArray
    values: FloatArray
    sequences: NDArray[np.int64]
    steps: int

    @property
    def dim(self) -> int:
        """2d + 1."""
        return int(self.states.shape[1])

    @property
    def start(self) -> FloatArray:
        """The origin."""
        return np.zeros(self.dim)

    @property
    def lipschitz(self) -> float:
        """Largest norm of a piece's slope."""
        return float(np.linalg.norm(self.slopes, axis=-1).max())

    def loss(self, w: FloatArray, z: int) -> Any:
        """fbar((w, x), z), for one point or a batch."""
        w, z = arguments.point("w", w, self.dim), check.integer("z", z, 0, len(self.offsets) - 1)
        value = (w @ self.slopes[z].T + self.offsets[z]).max(axis=-1)
        return float(value) if w.ndim == 1 else value

    def population(self, w: FloatArray) -> float:
        """Mean over the equally likely z."""
        return float(np.mean([self.loss(w, z) for z in range(len(self.offsets))]))

    def empirical(self, w: FloatArray, sample: Any) -> float:
        """Mean over the sample."""
        if len(sample) < 1:
            raise ValueError("sample must hold at least 1 example, got none")
        return float(np.mean([self.loss(w, z) for z in sample]))

    def oracle(self, state: OracleState) -> FloatArray:
        """Slope of the active piece; no look at the past, no choice (exact argmax, no tolerance)."""
        z = check.integer("z", state.z, 0, len(self.offsets) - 1)
        piece = int(np.argmax(self.slopes[z] @ arguments.point("w", state.w, self.dim) + self.offsets[z]))
        slope: FloatArray = self.slopes[z, piece].copy()
        return slope

    def is_subgradient(self, w: FloatArray, z: int, g: FloatArray, *, n_probe: int = 200, seed: int = 0) -> float:
        """Largest violation of the subgradient inequality; see :func:`subgradient_violation`."""
        return subgradient_violation(lambda y: np.asarray(self.loss(y, z)), w, g, n_probe=n_probe, seed=seed)

    def interpolation_error(self) -> float:
        """Largest excess of fbar over f + h at a scripted state; 0 up to rounding when the lift is faithful."""
        return max(
            float(np.max(np.asarray(self.loss(self.states, z)) - self.values[z])) for z in range(len(self.offsets))
        )

    def scripted_path(self, sequence: int) -> FloatArray:
        """States of one sample, (steps, 2d + 1)."""
        return self.states[sequence * self.steps : (sequence + 1) * self.steps]


def _codes(count: int) -> FloatArray:
    """sqrt(prime) / 5: no rational combination of these repeats, so no two histories share a code."""
    primes: list[int] = []
    candidate = 2
    while len(primes) < count:
        if all(candidate % prime for prime in primes):
            primes.append(candidate)
        candidate += 1
    return np.asarray(np.sqrt(np.array(primes, dtype=np.float64)) / 5.0)


def lift_to_any_oracle(
    instance: MultiPassInstance,
    samples: NDArray[np.bool_],
    steps: int | None = None,
    gamma: float = 0.5,
    *,
    codes: Sequence[float] | None = None,
    max_pieces: int = 1_000_000,
) -> MaxAffine:
    """Build the lifted loss of a tiny explicit instance by running every possible sample.

    Parameters
    ----------
    instance : MultiPassInstance
        Its oracle is the script; its n the sample size. The order of each pass is cyclic.
    samples : (Z, size) bool array
        All values an example can take, equally likely.
    steps : int
        States per run, by default the instance's T.
    gamma : float
        Curvature of the memory coordinate, with gamma * eta < 1.
    codes : sequence of Z distinct floats
        b_z, by default square roots of primes over 5.
    max_pieces : int
        Largest Z * Z^n * steps that is allowed.

    Returns
    -------
    MaxAffine

    Raises
    ------
    ValueError
        If codes repeat, gamma is out of range, or there would be too many pieces.
    """
    samples = arguments.membership("samples", samples, len(instance.vectors))
    if samples.ndim != 2 or len(samples) < 1:
        raise ValueError(f"samples must have shape (Z, {len(instance.vectors)}), got {samples.shape}")
    count, n = len(samples), instance.n
    steps = instance.steps if steps is None else check.integer("steps", steps, 1)
    if not (check.real("gamma", gamma) > 0 and gamma * instance.eta < 1):
        raise ValueError(f"gamma must be positive with gamma * eta < 1, got gamma={gamma}, eta={instance.eta}")
    if count ** (n + 1) * steps > max_pieces:
        raise ValueError(
            f"samples: {count}^{n} sequences of {steps} steps need {count ** (n + 1) * steps} pieces, "
            f"more than max_pieces = {max_pieces}"
        )
    marks = _codes(count) if codes is None else np.asarray(codes, dtype=np.float64)
    if marks.shape != (count,) or np.unique(marks).size < count or not np.isfinite(marks).all():
        raise ValueError(f"codes must be {count} distinct numbers, got {marks}")
    sequences = np.array(list(product(range(count), repeat=n)), dtype=np.int64)
    pieces, width = len(sequences) * steps, instance.dim + 1
    states, slopes = np.empty((pieces, width)), np.empty((count, pieces, width))
    values, project = np.empty((count, pieces)), UnitBall()

    for number, sequence in enumerate(sequences):
        w, x = instance.start, 0.0
        order = np.tile(sequence, -(-steps // n))
        for t in range(steps):
            row = number * steps + t
            states[row, :-1], states[row, -1] = w, x
            for z in range(count):
                slopes[z, row, :-1] = instance.oracle(OracleState(t, w, samples[z], samples, order[:t]))
                slopes[z, row, -1] = gamma * (x - marks[z])
            taken = slopes[order[t], row]
            w, x = project(w - instance.eta * taken[:-1]), x - instance.eta * float(taken[-1])
    w_all, x_all = states[:, :-1], states[:, -1]
    for z in range(count):
        values[z] = instance.loss(w_all, samples[z]) + 0.5 * gamma * (x_all**2 - 2.0 * marks[z] * x_all)
    offsets = values - np.einsum("zmk,mk->zm", slopes, states)
    return MaxAffine(offsets, slopes, states, values, sequences, steps)
