r"""Ways to forget a string, one level at a time.

A string x of T letters from {0..A-1} is observed at levels t; a larger t shows less, and :math:`Y_t` may depend on x
only through :math:`Y_s` for s < t (the chain :math:`X \to Y_s \to Y_t` is Markov). A process is its kernel
:math:`k_t(x, y) = P(Y_t = y \mid X = x)`. Strings are numbered in base A, first letter most significant.

The three processes of the paper are products or sums over coordinates, so a law is pushed through them in the order of
:math:`A^T` operations, by reshaping, without ever writing the :math:`A^T \times A^T` kernel.

Reference: Li, Karan & Chen, "Blink of an eye", ICML 2025 (arXiv:2502.00921), Section 2, Examples 3, 4, 7 and 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from icml25 import _arguments as check
from icml25.theory.critical_windows import arguments

__all__ = [
    "MAX_STATES",
    "AutoregressiveTruncation",
    "CoordinateMasking",
    "ObservationProcess",
    "OrderedMasking",
    "RandomMasking",
]

Array = NDArray[np.float64]

MAX_STATES = 2**22
"""Largest sample or observation space that is enumerated."""


@runtime_checkable
class ObservationProcess(Protocol):
    """What an observation process must offer.

    A process may add ``push(law, t)``, which maps (..., A**T) laws of X to (..., n_obs) laws of Y_t, and
    ``pull(values, t)``, which maps (..., n_obs) functions of Y_t to (..., A**T), their mean given X; and
    ``continuous = True`` if t may lie between the ``levels``. Without them the kernel is used, at the levels alone.
    """

    levels: Array

    def kernel(self, t: float) -> sparse.csr_matrix:
        """P(Y_t = y | X = x), (A**T, n_obs), rows summing to 1."""


class CoordinateMasking:
    r"""Level i hides the coordinates in ``masks[i]`` and shows the rest.

    The process is Markov exactly when the sets grow: ``masks[i]`` inside ``masks[i + 1]``. Sets that do not grow are
    allowed, as an example of a degradation in which information comes back
    (:func:`~icml25.theory.critical_windows.check_markov_monotone` finds it out).

    Parameters
    ----------
    masks : sequence of collections of int
        Hidden coordinates at the levels 0, 1, ...
    length, alphabet : int
        T >= 1 letters out of A >= 2.

    Attributes
    ----------
    levels : (L,) array
        0, 1, ..., L - 1.
    """

    continuous = False

    def __init__(self, masks: Sequence[Iterable[int]], length: int, alphabet: int) -> None:
        _check_space(length, alphabet)
        self.length, self.alphabet = length, alphabet
        self.masks = tuple(
            frozenset(check.integer("a coordinate of masks", i, -(2**62)) for i in mask) for mask in masks
        )
        if not self.masks or not frozenset().union(*self.masks) <= set(range(length)):
            raise ValueError(f"masks must be a non-empty list of sets out of 0..{length - 1}, got {masks}")
        self.levels = np.arange(len(self.masks), dtype=np.float64)

    def push(self, law: Array, t: float) -> Array:
        """Law of Y_t for laws of X: (..., A**T) to (..., A**shown)."""
        hidden = self._hidden(t)
        _check_outcomes("law", law, self.alphabet**self.length)
        grid = law.reshape(-1, *(self.alphabet,) * self.length)
        summed = grid.sum(tuple(1 + coordinate for coordinate in hidden)) if hidden else grid
        return np.asarray(summed.reshape(*law.shape[:-1], -1))

    def pull(self, values: Array, t: float) -> Array:
        """Mean given X of functions of Y_t: (..., A**shown) to (..., A**T)."""
        hidden = self._hidden(t)
        _check_outcomes("values", values, self.alphabet ** (self.length - len(hidden)))
        shown = [1 if i in hidden else self.alphabet for i in range(self.length)]
        grid = np.broadcast_to(
            values.reshape(-1, *shown), (values.size // values.shape[-1], *(self.alphabet,) * self.length)
        )
        return np.asarray(grid.reshape(*values.shape[:-1], -1))

    def kernel(self, t: float) -> sparse.csr_matrix:
        """See :class:`ObservationProcess`."""
        shown = self.alphabet ** (self.length - len(self._hidden(t)))
        column = self.pull(np.arange(shown, dtype=np.float64), t).astype(np.int64)
        return sparse.csr_matrix((np.ones(len(column)), column, np.arange(len(column) + 1)), (len(column), shown))

    def _hidden(self, t: float) -> tuple[int, ...]:
        if t not in range(len(self.masks)):
            raise ValueError(f"t must be one of the levels 0..{len(self.masks) - 1}, got {t}")
        return tuple(sorted(self.masks[int(t)]))


class OrderedMasking(CoordinateMasking):
    """Coordinates are hidden one after the other, ``order[0]`` first; at level t the first t of them are hidden.

    Run backwards the coordinate hidden last is decided first (Example 7).

    Parameters
    ----------
    order : sequence of int
        A permutation of 0..T-1.
    alphabet : int
        Number of letters A.
    """

    def __init__(self, order: Sequence[int], alphabet: int) -> None:
        if sorted(order) != list(range(len(order))):
            raise ValueError(f"order must be a permutation of 0..{len(order) - 1}, got {list(order)}")
        self.order = tuple(order)
        super().__init__([self.order[:t] for t in range(len(order) + 1)], len(order), alphabet)


class AutoregressiveTruncation(OrderedMasking):
    """Level t keeps the first T - t tokens; the reversal is next-token sampling.

    Parameters
    ----------
    length, alphabet : int
        T tokens out of A.
    """

    def __init__(self, length: int, alphabet: int) -> None:
        _check_space(length, alphabet)
        super().__init__(range(length - 1, -1, -1), alphabet)

    def push(self, law: Array, t: float) -> Array:
        """See :class:`CoordinateMasking`; the hidden tokens are the last, so one reshape and one sum do it."""
        hidden = self.alphabet ** len(self._hidden(t))
        _check_outcomes("law", law, self.alphabet**self.length)
        return np.asarray(law.reshape(*law.shape[:-1], -1, hidden).sum(-1))

    def pull(self, values: Array, t: float) -> Array:
        """See :class:`CoordinateMasking`."""
        hidden = len(self._hidden(t))
        _check_outcomes("values", values, self.alphabet ** (self.length - hidden))
        return np.repeat(values, self.alphabet**hidden, axis=-1)


class RandomMasking:
    r"""Masked diffusion: at level t in [0, 1] every coordinate is hidden independently with probability t.

    Observations are strings over A + 1 letters, the last of which is the mask; they are numbered in base A + 1.

    Parameters
    ----------
    length, alphabet : int
        T letters out of A.
    n_levels : int
        Number of ``levels``, equally spaced from 0 to 1; any t between them is accepted too.
    """

    continuous = True

    def __init__(self, length: int, alphabet: int, n_levels: int = 21) -> None:
        _check_space(length, alphabet)
        _check_space(length, alphabet + 1)
        check.integer("n_levels", n_levels, 2)
        self.length, self.alphabet = length, alphabet
        self.levels = np.linspace(0.0, 1.0, n_levels)

    def push(self, law: Array, t: float) -> Array:
        """Law of Y_t for laws of X: (..., A**T) to (..., (A + 1)**T), one coordinate at a time."""
        self._check_level(t)
        a = self.alphabet
        _check_outcomes("law", law, a**self.length)
        for i in range(self.length):
            split = law.reshape(-1, a, a ** (self.length - 1 - i))
            grown = np.concatenate([(1.0 - t) * split, t * split.sum(1, keepdims=True)], 1)
            law = grown.reshape(*law.shape[:-1], -1)
        return law

    def pull(self, values: Array, t: float) -> Array:
        """Mean given X of functions of Y_t: (..., (A + 1)**T) to (..., A**T)."""
        self._check_level(t)
        a = self.alphabet
        _check_outcomes("values", values, (a + 1) ** self.length)
        for i in range(self.length):
            split = values.reshape(-1, a + 1, (a + 1) ** (self.length - 1 - i))
            shrunk = (1.0 - t) * split[:, :a] + t * split[:, a:]
            values = shrunk.reshape(*values.shape[:-1], -1)
        return values

    def kernel(self, t: float) -> sparse.csr_matrix:
        """See :class:`ObservationProcess`."""
        self._check_level(t)
        letter = np.hstack([(1.0 - t) * np.eye(self.alphabet), np.full((self.alphabet, 1), t)])
        product = sparse.csr_matrix(np.ones((1, 1)))
        for _ in range(self.length):
            product = sparse.kron(product, letter, format="csr")
        return product

    def _check_level(self, t: float) -> None:
        check.between("t", t, 0.0, 1.0)


def _check_space(length: int, alphabet: int) -> None:
    arguments.states(check.integer("alphabet", alphabet, 2), check.integer("length", length, 1), MAX_STATES)


def _check_outcomes(name: str, values: Array, count: int) -> None:
    # Another number would be cut up by the reshapes without a word.
    if values.ndim < 1 or values.shape[-1] != count:
        raise ValueError(f"{name} must have {count} outcomes along its last axis, got the shape {values.shape}")
