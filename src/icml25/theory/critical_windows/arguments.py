"""What every public function of this package asks of its arguments, and the words in which it refuses them."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def integer(name: str, value: Any, least: int, most: int | None = None) -> int:
    """``value`` as an int in [least, most]; a bool or a float is refused, also a whole one."""
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be an integer, got the bool {value}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if most is not None and not least <= number <= most:
        raise ValueError(f"{name} must lie in {least}..{most}, got {number}")
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return number


def number(name: str, value: Any) -> float:
    """``value`` as a float, which may be infinite or NaN; a bool, a string, an array or a tensor is refused."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a real number, got {value!r}")
    return float(value)


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


def tolerance(eps: Any) -> float:
    """``eps`` as a float in (0, 1) whose square is not lost to underflow: every condition compares with 1 - eps^2."""
    found = open_unit("eps", eps)
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
    found = sorted({integer(f"a feature of {name}", k, -(2**62)) for k in subset})
    if not set(found) <= set(range(count)):
        raise ValueError(f"{name} = {found} must name features out of 0..{count - 1}")
    return tuple(found)


def law(name: str, values: ArrayLike, count: int | None = None) -> Array:
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


def tokens(name: str, values: Any, alphabet: int) -> torch.Tensor:
    """``values``, known to be an int64 tensor of symbols in 0..alphabet-1."""
    if not isinstance(values, torch.Tensor) or values.dtype != torch.int64:
        kind = values.dtype if isinstance(values, torch.Tensor) else type(values).__name__
        raise TypeError(f"{name} must be an int64 tensor, got {kind}")
    if values.numel() and (int(values.min()) < 0 or int(values.max()) >= alphabet):
        raise ValueError(f"{name} must lie in 0..{alphabet - 1}, got {int(values.min())}..{int(values.max())}")
    return values


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
