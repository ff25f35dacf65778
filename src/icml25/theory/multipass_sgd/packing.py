"""Sets of nearly orthogonal 0/1 vectors: the dictionary in which the sample is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from icml25 import _arguments as check

__all__ = ["packing_overlaps", "packing_set"]

_ROUNDS = 20


def zeros_and_ones(vectors: NDArray[Any]) -> NDArray[np.int8]:
    """The vectors as contiguous int8 rows; any entry but 0 and 1 is refused."""
    table = np.ascontiguousarray(vectors, dtype=np.int8) if vectors.dtype.kind in "iub" else None
    # Read as unsigned bytes, every int8 but 0 and 1 is above 1. A wider type could have wrapped on its way to int8.
    wrapped = table is not None and vectors.dtype.itemsize > 1 and bool((table != vectors).any())
    if table is None or wrapped or table.view(np.uint8).max(initial=0) > 1:
        raise ValueError(f"vectors must hold zeros and ones as integers, got dtype {vectors.dtype}")
    return table


def packing_overlaps(
    vectors: NDArray[np.int8], *, chunk: int = 2048, device: str | torch.device = "cpu"
) -> NDArray[np.int64]:
    """For each row, its largest inner product with an earlier row (-1 for the first).

    The Gram matrix is walked through in blocks of ``chunk`` rows, lower triangle only, in float32 (integers up to
    2^24 are exact there), so the memory is O(size * d + chunk^2).

    Parameters
    ----------
    vectors : (size, d) int8 array of zeros and ones
    chunk : int
        Rows and columns of one block.
    device : torch device
        Where the products are made.

    Returns
    -------
    (size,) int64 array
    """
    vectors, chunk = np.asarray(vectors), check.integer("chunk", chunk, 1)
    if vectors.ndim != 2:
        raise ValueError(f"vectors must have shape (size, d), got {vectors.shape}")
    table = torch.from_numpy(zeros_and_ones(vectors)).to(device)
    worst = np.full(len(vectors), -1, dtype=np.int64)
    for low in range(0, len(vectors), chunk):
        rows = table[low : low + chunk].float()
        best = torch.full((len(rows),), -1.0, device=rows.device)
        for left in range(0, low + 1, chunk):
            gram = rows @ table[left : left + chunk].float().T
            if left == low:
                gram = gram.masked_fill(torch.ones_like(gram, dtype=torch.bool).triu(), -1.0)
            best = torch.maximum(best, gram.amax(dim=1))
        worst[low : low + chunk] = best.round().long().cpu().numpy()
    return worst


def packing_set(
    size: int,
    d: int,
    seed: int | np.random.Generator = 0,
    *,
    ones: float = 7 / 16,
    max_overlap: float = 5 / 16,
    device: str | torch.device = "cpu",
) -> NDArray[np.int8]:
    r"""Random :math:`U \subset \{0,1\}^d` with ``ones * d`` ones a row and overlaps of at most ``max_overlap * d``.

    Two random rows share :math:`(7/16)^2 d \approx 0.19\,d` ones, far below the limit of :math:`0.31\,d`, so at the
    sizes of interest the first draw is good; the overlaps are checked all the same, and rows that offend are drawn
    again, at most 20 times.

    Parameters
    ----------
    size, d : int
        Number of vectors and their length; ``ones * d`` must be an integer.
    seed : int or numpy Generator
    ones, max_overlap : float
        Fractions of d.
    device : torch device
        Where the overlaps are checked (size^2 d / 2 multiplications).

    Returns
    -------
    (size, d) int8 array

    Raises
    ------
    ValueError
        If ``ones * d`` is no integer or an argument is out of range.
    RuntimeError
        If some overlap still exceeds the limit after 20 redraws; the message names it.
    """
    size, d = check.integer("size", size, 1), check.integer("d", d, 1)
    count = round(check.real("ones", ones) * d)
    if not 0 < ones <= 1 or abs(count - ones * d) > 1e-9:
        raise ValueError(f"ones * d must be an integer in [1, d], got {ones} * {d}")
    if not 0 <= max_overlap <= 1:
        raise ValueError(f"max_overlap must lie in [0, 1], got {max_overlap}")
    rng = check.numpy_generator(seed)
    limit = int(np.floor(max_overlap * d + 1e-9))

    def draw(rows: int) -> NDArray[np.int8]:
        block = np.zeros((rows, d), dtype=np.int8)
        for low in range(0, rows, 4096):
            part = rng.random((min(4096, rows - low), d)).argpartition(count - 1, axis=1)[:, :count]
            np.put_along_axis(block[low : low + 4096], part, 1, axis=1)
        return block

    vectors = draw(size)
    for _ in range(_ROUNDS):
        overlaps = packing_overlaps(vectors, device=device)
        bad = np.flatnonzero(overlaps > limit)
        if bad.size == 0:
            return vectors
        vectors[bad] = draw(bad.size)
    worst = int(packing_overlaps(vectors, device=device).max())
    if worst <= limit:
        return vectors
    raise RuntimeError(
        f"overlap {worst} after {_ROUNDS} redraws exceeds the limit {limit} = {max_overlap:g} * d, d={d}"
    )
