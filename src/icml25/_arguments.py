"""What the methods ask of their arguments, and the words in which they refuse them.

A check takes an argument's name and value and returns the value in its canonical type. ``TypeError`` is for another
kind of thing, ``ValueError`` for one out of range; both name the argument, what came and what is allowed.
"""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray


def integer(name: str, value: Any, least: int, most: int | None = None) -> int:
    """``value`` as an int in [least, most]; a bool or a float is refused, also a whole one."""
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be an integer, got the bool {value}")
    try:
        found = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if most is not None and not least <= found <= most:
        raise ValueError(f"{name} must lie in {least}..{most}, got {found}")
    if found < least:
        raise ValueError(f"{name} must be at least {least}, got {found}")
    return found


def number(name: str, value: Any) -> float:
    """``value`` as a float, which may be infinite or NaN; a bool, a string, an array or a tensor is refused."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a real number, got {value!r}")
    return float(value)


def real(name: str, value: Any) -> float:
    """``value`` as a finite float; a bool, a string, an array or a tensor is refused."""
    found = number(name, value)
    if not math.isfinite(found):
        raise ValueError(f"{name} must be finite, got {value}")
    return found


def at_least_zero(name: str, value: Any) -> float:
    """``value`` as a finite float of at least 0."""
    found = number(name, value)
    if not 0.0 <= found < math.inf:
        raise ValueError(f"{name} must be finite and at least 0, got {value}")
    return found


def positive(name: str, value: Any) -> float:
    """``value`` as a finite float above 0."""
    found = number(name, value)
    if not 0.0 < found < math.inf:
        raise ValueError(f"{name} must be finite and positive, got {value}")
    return found


def between(name: str, value: Any, low: float, high: float) -> float:
    """``value`` as a float in the closed interval [low, high]."""
    found = number(name, value)
    if not low <= found <= high:
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}], got {value}")
    return found


def open_unit(name: str, value: Any) -> float:
    """``value`` as a float in (0, 1)."""
    found = number(name, value)
    if not 0.0 < found < 1.0:
        raise ValueError(f"{name} must lie in (0, 1), got {value}")
    return found


def flag(name: str, value: Any) -> bool:
    """``value`` as a bool; a truthy string or number is refused."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """``value``, which is one of the strings in ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def finite(name: str, values: Any, ndim: int | tuple[int, ...] | None = None) -> NDArray[np.float64]:
    """``values`` (array, list or tensor) as a finite float64 array, with ``ndim`` axes where that is given."""
    found = np.asarray(values.detach().cpu() if isinstance(values, torch.Tensor) else values)
    if not np.issubdtype(found.dtype, np.floating) and not np.issubdtype(found.dtype, np.integer):
        raise TypeError(f"{name} must hold real numbers, got dtype {found.dtype}")
    allowed = (ndim,) if isinstance(ndim, int) else ndim
    if allowed is not None and found.ndim not in allowed:
        raise ValueError(f"{name} must have {' or '.join(map(str, allowed))} axes, got shape {found.shape}")
    if not (good := np.isfinite(found)).all():
        index = tuple(int(i) for i in np.argwhere(~good)[0])
        where = f" at index {', '.join(map(str, index))}" if index else ""
        raise ValueError(f"{name} must be finite, got {found[index]}{where}")
    return found.astype(np.float64, copy=False)


def law(name: str, values: ArrayLike, count: int | None = None) -> NDArray[np.float64]:
    """``values`` as a float64 copy, (count,): non-negative and summing to 1."""
    found = np.array(values, dtype=np.float64)
    right_shape = found.ndim == 1 if count is None else found.shape == (count,)
    if not right_shape or not (found >= 0.0).all() or not abs(found.sum() - 1.0) <= 1e-8:
        raise ValueError(f"{name} must be non-negative and sum to 1 (got sum={found.sum():g}, shape {found.shape})")
    return found


def whole_numbers(name: str, values: Any) -> NDArray[np.int64]:
    """``values`` as an int64 array; floats and bools are refused, not cut to integers."""
    found = np.asarray(values.detach().cpu() if isinstance(values, torch.Tensor) else values)
    if found.size and not np.issubdtype(found.dtype, np.integer):
        raise TypeError(f"{name} must hold integers, got dtype {found.dtype}")
    return found.astype(np.int64)


def numpy_generator(seed: Any) -> np.random.Generator:
    """Generator of an int seed, or the Generator itself; None, a seed that no one could repeat, is refused."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(integer("seed (an int or a numpy Generator)", seed, 0))


def torch_generator(seed: Any, device: torch.device | str = "cpu") -> torch.Generator:
    """Generator of an int seed on a device, or the Generator itself."""
    if isinstance(seed, torch.Generator):
        return seed
    return torch.Generator(device).manual_seed(integer("seed (an int or a torch.Generator)", seed, 0, 2**64 - 1))
