r"""The other half of the rate: steps that are too short, :math:`1/(\eta T)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from icml25 import _arguments as check
from icml25.theory.multipass_sgd import arguments
from icml25.theory.multipass_sgd.descent import FloatArray, OracleState
from icml25.theory.multipass_sgd.hard_instance import subgradient_violation

__all__ = ["MaxCoordinate"]


class MaxCoordinate:
    r""":math:`f(w) = \max_i(-w_i)` on R^d with :math:`d = \lceil 16\eta^2T^2\rceil`; the example is ignored.

    The minimum over the unit ball is :math:`-1/\sqrt d`, at equal coordinates, but a subgradient raises one coordinate
    at a time: T < d steps leave some coordinate at 0, so the average iterate still has f = 0 and a gap of
    :math:`1/\sqrt d = 1/(4\eta T)`.

    Parameters
    ----------
    eta, steps : float > 0, int >= 1
        Step size and T of the run the instance is built against.

    Examples
    --------
    >>> MaxCoordinate(0.02, 200).d, MaxCoordinate(0.02, 200).minimum
    (256, -0.0625)
    """

    lipschitz = 1.0

    def __init__(self, eta: float, steps: int):
        self.eta, self.steps = check.positive("eta", eta), check.integer("steps", steps, 1)
        # The guard keeps 16 eta^2 T^2 = 400.00000000000006 from becoming 401.
        self.d = max(1, int(np.ceil(16.0 * (self.eta * self.steps) ** 2 * (1 - 1e-12))))

    @property
    def dim(self) -> int:
        """d."""
        return self.d

    @property
    def start(self) -> FloatArray:
        """w_0 = 0."""
        return np.zeros(self.d)

    @property
    def minimum(self) -> float:
        """Minimum over the unit ball."""
        return -1.0 / float(np.sqrt(self.d))

    def loss(self, w: FloatArray, z: Any = None) -> Any:
        """max_i(-w_i) for one w or a batch."""
        w = arguments.point("w", w, self.d)
        value = (-w).max(axis=-1)
        return float(value) if w.ndim == 1 else value

    def population(self, w: FloatArray) -> float:
        """The loss itself: it does not depend on the example."""
        return float(self.loss(w))

    def empirical(self, w: FloatArray, sample: Any = None) -> float:
        """The loss itself."""
        return float(self.loss(w))

    def excess(self, w: FloatArray) -> float:
        """F(w) minus the minimum over the unit ball."""
        return self.population(w) - self.minimum

    def oracle(self, state: OracleState) -> FloatArray:
        """-e_i for the first smallest coordinate."""
        g = np.zeros(self.d)
        g[int(np.argmin(state.w))] = -1.0
        return g

    def is_subgradient(self, w: FloatArray, z: Any, g: FloatArray, *, n_probe: int = 200, seed: int = 0) -> float:
        """Largest violation of the subgradient inequality; see :func:`subgradient_violation`."""
        return subgradient_violation(lambda y: np.asarray(self.loss(y)), w, g, n_probe=n_probe, seed=seed)
