"""The compound fits of many data sets at once: batched Newton steps on any torch device, in float64."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from icml25.theory.monkeys.estimators import check_bounds
from icml25.theory.monkeys.passk import as_floats, check_counts, check_integer
from icml25.theory.monkeys.quadrature import Family, grid_size, logit_grid

__all__ = ["fit_compound_batch"]

Floats = NDArray[np.float64]


def fit_compound_batch(
    n: ArrayLike,
    x: ArrayLike,
    *,
    family: Family = "beta",
    device: str | torch.device = "cpu",
    bounds: tuple[float, float] = (0.01, 100.0),
    max_steps: int = 60,
    max_bytes: int = 2**30,
) -> dict[str, Floats]:
    r"""Maximum-likelihood shapes of S data sets, each with the scale rule ``min(1, (P+1)/P max x/n)``.

    The same optimum as :class:`~icml25.theory.monkeys.CompoundBinomialFitter` with ``scale="max"``, by damped Newton
    steps in ``(log alpha, log beta)`` from the same two starts, with all S mat-vecs in one batched product.

    Parameters
    ----------
    n, x : (S, P) integers
        Attempts and successes of S data sets with P problems each.
    family : {"beta", "kumaraswamy"}
    device : str or torch.device
    bounds : (float, float)
        Box for both shapes.
    max_steps : int
        Newton steps at most.
    max_bytes : int
        Memory for the kernel of one block of data sets.

    Returns
    -------
    dict of (S,) float64 arrays
        ``alpha, beta, scale, nll``; NaN for a data set without a success, or with one try per problem.

    Raises
    ------
    ValueError
        On shapes that differ, bad counts, or bad bounds.
    """
    matrices = as_floats("n (attempts)", n), as_floats("x (successes)", x)
    shape = matrices[0].shape
    if shape != matrices[1].shape or matrices[0].ndim != 2 or matrices[0].size == 0:
        raise ValueError(f"n and x must be two (S, P) matrices, got shapes {shape} and {matrices[1].shape}")
    flat = check_counts(matrices[0].ravel(), matrices[1].ravel())
    attempts, successes = flat[0].reshape(shape), flat[1].reshape(shape)
    check_bounds(bounds)
    max_steps, max_bytes = check_integer("max_steps", max_steps, 1), check_integer("max_bytes", max_bytes, 1)
    if family not in ("beta", "kumaraswamy"):
        raise ValueError(f'family must be "beta" or "kumaraswamy", got {family!r}')
    total, problems = matrices[0].shape
    size = grid_size(int(attempts.max()))
    step = max(1, max_bytes // (8 * problems * size))
    scale = np.minimum(1.0, (problems + 1) / problems * (successes / attempts).max(axis=1))
    result = {name: np.full(total, np.nan) for name in ("alpha", "beta", "scale", "nll")}
    # One try a problem tells the mean of p only.
    usable = np.flatnonzero((scale > 0.0) & (attempts.max(axis=1) > 1))
    for start in range(0, usable.size, step):
        block = usable[start : start + step]
        objective = _BatchObjective(attempts[block], successes[block], scale[block], family, size, device)
        theta, value = objective.minimise(bounds, max_steps)
        shapes = theta.exp().cpu().numpy()
        result["alpha"][block], result["beta"][block] = shapes.T
        result["nll"][block] = value.cpu().numpy()
    result["scale"][usable] = scale[usable]
    return result


class _BatchObjective:
    """Mean negative log-likelihood of each of S data sets at its own shapes."""

    def __init__(
        self,
        n: NDArray[np.int64],
        x: NDArray[np.int64],
        scale: Floats,
        family: Family,
        size: int,
        device: str | torch.device,
    ) -> None:
        def put(values: ArrayLike) -> Tensor:
            return torch.as_tensor(values, dtype=torch.float64, device=device)

        grid = logit_grid(size)
        self._family = family
        self._ends = put(grid.trapezoid(-grid.log_z - grid.log_1mz))
        self._log_z, self._log_1mz = put(grid.log_z), put(grid.log_1mz)
        c, tries, hits = put(scale)[:, None], put(n), put(x)
        log_p = self._log_z + c.log()
        log_q = ((1.0 - c) + c * self._log_1mz.exp()).log()
        kernel = hits[:, :, None] * log_p[:, None, :] + (tries - hits)[:, :, None] * log_q[:, None, :]
        top = kernel.amax(dim=2)
        self._kernel = kernel.sub_(top[:, :, None]).exp_()
        choose = torch.lgamma(tries + 1) - torch.lgamma(hits + 1) - torch.lgamma(tries - hits + 1)
        self._constant = (choose + top).mean(dim=1)

    def _weights(self, a: Tensor, b: Tensor) -> Tensor:
        # The formulas of quadrature.prior_weights, for (S, 1) shapes.
        low, high = self._log_z[0], self._log_1mz[-1]
        if self._family == "beta":
            log_norm = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
            log_density = (a - 1.0) * self._log_z + (b - 1.0) * self._log_1mz - log_norm
            left = (a * low - a.log() - log_norm).exp()
            right = (b * high - b.log() - log_norm).exp()
        else:
            log_rest = torch.log(-torch.expm1(a * self._log_z))
            log_density = a.log() + b.log() + (a - 1.0) * self._log_z + (b - 1.0) * log_rest
            left = -torch.expm1(b * log_rest[:, :1])
            right = torch.exp(b * log_rest[:, -1:])
        weight = self._ends * torch.exp(log_density + self._log_z + self._log_1mz)
        return torch.cat([weight[:, :1] + left, weight[:, 1:-1], weight[:, -1:] + right], dim=1)

    def value(self, theta: Tensor) -> Tensor:
        """(S,) values at (S, 2) logarithms of the shapes."""
        a, b = theta[:, :1].exp(), theta[:, 1:].exp()
        likelihood = torch.bmm(self._kernel, self._weights(a, b)[:, :, None])[:, :, 0]
        tiny = torch.finfo(torch.float64).tiny
        return -(likelihood.clamp_min(tiny).log().mean(dim=1) + self._constant)

    def derivatives(self, theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Values (S,), gradients (S, 2) and Hessians (S, 2, 2); the data sets do not interact."""
        point = theta.detach().requires_grad_(True)
        value = self.value(point)
        (slope,) = torch.autograd.grad(value.sum(), point, create_graph=True)
        rows = [torch.autograd.grad(slope[:, i].sum(), point, retain_graph=True)[0] for i in (0, 1)]
        return value.detach(), slope.detach(), torch.stack(rows, dim=1)

    def minimise(self, bounds: tuple[float, float], max_steps: int) -> tuple[Tensor, Tensor]:
        """Best of two damped Newton runs."""
        runs = [self._newton(start, bounds, max_steps) for start in ((0.35, 3.5), (0.1, 1.5))]
        first = runs[0][1] <= runs[1][1]
        return torch.where(first[:, None], runs[0][0], runs[1][0]), torch.minimum(runs[0][1], runs[1][1])

    def _newton(self, start: tuple[float, float], bounds: tuple[float, float], max_steps: int) -> tuple[Tensor, Tensor]:
        low, high = (math.log(bound) for bound in bounds)
        theta = self._kernel.new_tensor(start).log().clamp(low, high).repeat(self._kernel.shape[0], 1)
        damping = self._kernel.new_full((self._kernel.shape[0],), 1e-3)
        eye = torch.eye(2, dtype=torch.float64, device=self._kernel.device)
        for _ in range(max_steps):
            value, slope, hessian = self.derivatives(theta)
            # Shift an indefinite Hessian to positive definite, then damp until the value falls.
            shift = (-torch.linalg.eigvalsh(hessian)[:, 0]).clamp_min(0.0)
            matrix = hessian + (shift + damping)[:, None, None] * eye
            move = torch.linalg.solve(matrix, slope[:, :, None])[:, :, 0].clamp(-2.0, 2.0)
            trial = (theta - move).clamp(low, high)
            better = self.value(trial) < value
            moved = (trial - theta).abs().amax(dim=1)
            theta = torch.where(better[:, None], trial, theta)
            damping = torch.where(better, damping * 0.1, damping * 10.0).clamp(1e-12, 1e12)
            if bool((moved < 1e-7).all()):
                break
        return theta, self.value(theta).detach()
