"""What this method asks of its arguments beyond what every method does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml25 import _arguments as check


def weight(alpha: float | None, eta: float, steps: float) -> float:
    """The weight alpha in (0, 1]; by default min(1, 1 / (eta sqrt(steps)))."""
    value = min(1.0, 1.0 / (eta * float(np.sqrt(steps)))) if alpha is None else check.number("alpha", alpha)
    if not 0 < value <= 1:
        raise ValueError(f"alpha must lie in (0, 1], got {value} with eta={eta}")
    return value


def point(name: str, w: ArrayLike, dim: int) -> NDArray[np.float64]:
    """``w`` as a finite float array (dim,) or (..., dim).

    A wrong length would broadcast between the halves of w, and a NaN would be lost among comparisons.
    """
    array = np.asarray(w)
    if not np.issubdtype(array.dtype, np.floating) and not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if array.ndim < 1 or array.shape[-1] != dim:
        raise ValueError(f"{name} must have shape ({dim},) or (..., {dim}), got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite")
    return array.astype(np.float64, copy=False)


def membership(name: str, z: ArrayLike, width: int) -> NDArray[np.bool_]:
    """``z`` as a bool array (..., width): which of the ``width`` stored vectors an example contains."""
    array = np.asarray(z)
    if array.ndim < 1 or array.shape[-1] != width:
        raise ValueError(f"{name} must have shape (..., {width}), one entry a stored vector, got {array.shape}")
    return _booleans(name, array)


def flags(name: str, values: ArrayLike) -> NDArray[np.bool_]:
    """``values`` as a bool array (m,), m >= 1: which examples contain u0."""
    array = np.asarray(values)
    if array.ndim != 1 or array.size < 1:
        raise ValueError(f"{name} must hold one flag for each of at least 1 example, got shape {array.shape}")
    return _booleans(name, array)


def flag(name: str, value: Any) -> bool:
    """``value`` as a bool: whether an example contains u0."""
    array = np.asarray(value)
    if array.ndim:
        raise ValueError(f"{name} must be one flag, got shape {array.shape}")
    return bool(_booleans(name, array))


def _booleans(name: str, array: NDArray[Any]) -> NDArray[np.bool_]:
    if array.dtype == np.bool_:
        return array
    if not np.issubdtype(array.dtype, np.integer) or not np.isin(array, (0, 1)).all():
        raise TypeError(f"{name} must hold bools (or zeros and ones), got dtype {array.dtype}")
    return array.astype(bool)
