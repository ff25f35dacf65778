"""What this method asks of its arguments beyond what every method does."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from icml25 import _arguments as check

Array = NDArray[np.float64]


def tolerance(eps: Any) -> float:
    """``eps`` as a float in (0, 1) whose square is not lost to underflow: every condition compares with 1 - eps^2."""
    found = check.open_unit("eps", eps)
    if found < 1e-150:
        raise ValueError(f"eps must lie in (0, 1) and be at least 1e-150, so that eps^2 is a number; got {eps}")
    return found


def noise_levels(t: ArrayLike) -> Array:
    """``t`` as a float array of levels in [0, inf]."""
    levels = np.asarray(t, dtype=np.float64)
    if not (levels >= 0.0).all():
        raise ValueError(f"t must be at least 0 and not NaN: it must lie in [0, inf], got {t!r}")
    return levels


def states(alphabet: int, length: int, most: int) -> int:
    """Number of strings, if it is at most ``most``; a power of millions of digits is never computed."""
    if length * math.log(alphabet) > 40.0:
        raise ValueError(f"enumeration needs {alphabet}^{length} states; use the Monte Carlo curve")
    count: int = alphabet**length
    if count > most:
        raise ValueError(f"enumeration needs {count} states; use the Monte Carlo curve")
    return count


def features(name: str, subset: Any, count: int) -> tuple[int, ...]:
    """The features in a collection, sorted and without repeats; a mask of bools is refused, not read as 0 and 1."""
    if isinstance(subset, str | bytes) or not isinstance(subset, Iterable):
        raise TypeError(f"{name} must be a collection of features, got {subset!r}")
    found = sorted({check.integer(f"a feature of {name}", k, -(2**62)) for k in subset})
    if not set(found) <= set(range(count)):
        raise ValueError(f"{name} = {found} must name features out of 0..{count - 1}")
    return tuple(found)


def tokens(name: str, values: Any, alphabet: int) -> torch.Tensor:
    """``values``, known to be an int64 tensor of symbols in 0..alphabet-1."""
    if not isinstance(values, torch.Tensor) or values.dtype != torch.int64:
        kind = values.dtype if isinstance(values, torch.Tensor) else type(values).__name__
        raise TypeError(f"{name} must be an int64 tensor, got {kind}")
    if values.numel() and (int(values.min()) < 0 or int(values.max()) >= alphabet):
        raise ValueError(f"{name} must lie in 0..{alphabet - 1}, got {int(values.min())}..{int(values.max())}")
    return values
