"""The same runs, many at a time, on any torch device: a grid of lazy runs, and the scores of a large packing set."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from icml25 import _arguments as check
from icml25.theory.multipass_sgd import arguments
from icml25.theory.multipass_sgd.descent import FloatArray
from icml25.theory.multipass_sgd.steering import MultiPassInstance, default_steering_steps

__all__ = ["GemmEvaluator", "steering_grid"]


def steering_grid(
    etas: ArrayLike,
    passes: ArrayLike,
    n: int,
    *,
    steps: int | None = None,
    seed: int | np.random.Generator = 0,
    device: str | torch.device = "cpu",
    progress: bool = False,
) -> NDArray[np.float64]:
    """Final excess of the lazy hard instance for every pair of step size and number of passes.

    One instance per cell (blocks of one coordinate, p by :func:`default_steering_steps`, the default alpha), on the
    event that a bad vector exists. All cells take their steering steps together, each by the rule of
    :meth:`MultiPassInstance.steering_step` on its own coordinates, and the loss is evaluated at the end.

    Parameters
    ----------
    etas : (E,) array of floats > 0
    passes : (K,) array of ints >= 2
    n : int
        Sample size; n * (passes - 1) must be at least 16.
    steps : int
        Steering steps to make; by default all of them, the p of the longest run.
    seed : int or numpy Generator
        Where the ones of the bad vectors fall.
    device : torch device
    progress : bool

    Returns
    -------
    (E, K) float64 array

    Notes
    -----
    Memory is a handful of (E, K, max p) float64 tensors; p steps of as many operations.
    """
    step, rounds = np.atleast_1d(np.asarray(etas, dtype=np.float64)), np.atleast_1d(np.asarray(passes))
    if step.ndim != 1 or step.size < 1 or not (np.isfinite(step).all() and (step > 0).all()):
        raise ValueError(f"etas must be positive and finite, at least one in a row, got {step}")
    if rounds.ndim != 1 or rounds.size < 1 or not np.issubdtype(rounds.dtype, np.integer) or (rounds < 2).any():
        raise ValueError(f"passes must be integers of at least 2, at least one in a row, got {rounds}")
    n = check.integer("n", n, 1)
    if n * (int(rounds.min()) - 1) < 16:
        raise ValueError(f"n must leave at least 16 steps after the first pass, got n={n}, passes={rounds.min()}")
    if steps is not None:
        steps = check.integer("steps", steps, 0)
    lengths = [default_steering_steps(n * (int(k) - 1)) for k in rounds]
    width = max(lengths)
    support = np.full((len(rounds), width), -1, dtype=np.int8)  # -1: no such coordinate in this cell
    rng = check.numpy_generator(seed)
    for row, p in enumerate(lengths):
        support[row, :p] = 0
        support[row, rng.permutation(p)[: 7 * p // 16]] = 1

    kind = torch.from_numpy(support).to(device)[None].expand(len(step), -1, -1)
    ones, zeros = kind == 1, kind == 0
    eta = torch.from_numpy(step).to(device)[:, None]
    total = torch.from_numpy(n * rounds.astype(np.float64)).to(device)[None]
    p_float = torch.tensor(lengths, dtype=torch.float64, device=device)[None]
    height = eta * torch.clamp(1.0 / (eta * total.sqrt()), max=1.0)  # eta alpha
    shift, rise = height * 5.0 / 7.0, height * 2.0 / 7.0
    q = torch.where(kind >= 0, shift[..., None], torch.zeros_like(shift)[..., None]).contiguous()
    place = torch.arange(width, device=device)

    def first(mask: Tensor) -> tuple[Tensor, Tensor]:
        index = torch.where(mask, place, width).amin(dim=-1)
        return index < width, index.clamp(max=width - 1)[..., None]

    ticks: Any = range(width if steps is None else min(steps, width))
    if progress:
        from tqdm import tqdm

        ticks = tqdm(ticks, desc="steering", unit="step")
    for _ in ticks:
        down, at = first(zeros & (q > 0.5 * shift[..., None]))
        q.scatter_add_(-1, at, torch.where(down, -shift, 0.0)[..., None])
        up, at = first(ones & (q < 0.5 * (shift + height)[..., None]))
        q.scatter_add_(-1, at, torch.where(up & ~down, rise, 0.0)[..., None])
    surplus = (q * ones).sum(dim=-1) - 5.0 * height * p_float / 16.0
    result: NDArray[np.float64] = (0.5 * surplus.clamp(min=0.0) / p_float.sqrt()).cpu().numpy()
    return result


class GemmEvaluator:
    """Population and empirical excess of many iterates by one product of the packing set with them.

    Scores are computed in units of eta alpha / (7 sqrt B), in which every coordinate on the path of the script is 0, 5
    or 7: float32 (and TF32 or int8 hardware) then makes no rounding error at all on that path, and relative errors of
    1e-7 elsewhere.

    Parameters
    ----------
    instance : MultiPassInstance
        An explicit instance.
    device : torch device
        Holds the packing set as a (size, d) float table.
    dtype : torch dtype
        float32 or float64.
    """

    def __init__(
        self, instance: MultiPassInstance, *, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32
    ):
        if dtype not in (torch.float32, torch.float64):
            raise TypeError(f"dtype must be torch.float32 or torch.float64, got {dtype}")
        self.instance = instance
        self.unit = instance.height / 7.0
        self.table = torch.from_numpy(instance.vectors).to(device).to(dtype)

    def scores(self, w: FloatArray) -> Tensor:
        """(runs, size) scores in units, for (runs, 2d) iterates."""
        instance = self.instance
        w = arguments.point("w", w, instance.dim)
        q = (w[:, : instance.d] + w[:, instance.d :] + instance.shift) / self.unit
        return torch.from_numpy(q).to(self.table) @ self.table.T

    def __call__(self, w: FloatArray, samples: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """Excesses of a batch of iterates, each with its own sample.

        Parameters
        ----------
        w : (runs, 2d) array
        samples : (runs, m, size) bool array

        Returns
        -------
        population, empirical : (runs,) float64 arrays
        """
        instance = self.instance
        w = arguments.point("w", w, instance.dim)
        samples = arguments.membership("samples", samples, len(instance.vectors))
        if w.ndim != 2 or samples.ndim != 3 or len(samples) != len(w) or samples.shape[1] < 1:
            raise ValueError(f"samples must have shape ({len(w)}, m, size) for w of (runs, 2d), got {samples.shape}")
        surplus = (self.scores(w) - instance.threshold / self.unit).clamp(min=0.0)
        ranked = surplus.topk(min(64, surplus.shape[1]), dim=-1).values.double()
        weights = 0.5 ** torch.arange(1, ranked.shape[1] + 1, dtype=torch.float64, device=ranked.device)
        scale = self.unit / float(np.sqrt(instance.d))
        penalty = np.asarray(instance.penalty(w))
        population = (ranked @ weights).cpu().numpy() * scale + penalty
        empirical = np.empty(len(w))
        for run, sample in enumerate(samples):
            inside = torch.from_numpy(sample).to(surplus.device)
            worst = torch.where(inside, surplus[run], torch.zeros_like(surplus[run])).amax(dim=-1)
            empirical[run] = float(worst.double().mean()) * scale + penalty[run]
        return population, empirical
