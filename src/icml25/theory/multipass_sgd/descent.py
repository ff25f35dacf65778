r"""Projected stochastic (sub)gradient descent with every sampling order that the theory of multi-pass SGD speaks of.

.. math:: w_0 = 0, \qquad w_{t+1} = \Pi_W\bigl(w_t - \eta\, O_{z_{i_t}}(w_t)\bigr), \qquad t = 0, \dots, T-1,

where :math:`O_z(w) \in \partial f(w, z)` is a first-order oracle and :math:`i_0, \dots, i_{T-1}` is the order in which
the sample is read. The output is the mean of the last :math:`\tau` of the T + 1 iterates (Section 2 of the paper).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml25 import _arguments as check
from icml25.theory.multipass_sgd import arguments

__all__ = ["Ball", "OracleState", "SGDResult", "UnitBall", "sample_order", "sgd"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
OrderKind = Literal["single", "multi", "cyclic", "with_replacement", "fresh"]
ORDER_KINDS: tuple[str, ...] = ("single", "multi", "cyclic", "with_replacement", "fresh")


@dataclass(frozen=True)
class Ball:
    """Euclidean projection onto the ball of the given radius around the origin."""

    radius: float = 1.0

    def __post_init__(self) -> None:
        check.positive("radius", self.radius)

    def __call__(self, w: FloatArray) -> FloatArray:
        """Return the nearest point of the ball; a point inside comes back as the same object."""
        # In units of the largest entry the squares neither overflow (which would send w to 0) nor vanish.
        largest = float(np.abs(w).max(initial=0.0))
        direction = w / largest if largest > 0 else w
        norm = float(np.linalg.norm(direction))
        # A path built to end exactly on the sphere must not count as projected because of the last bit of its norm.
        return w if largest * norm <= self.radius * (1.0 + 1e-14) else direction * (self.radius / norm)


@dataclass(frozen=True)
class UnitBall(Ball):
    """The unit ball (diameter D = 2), the domain W of the paper."""

    radius: float = field(default=1.0, init=False)


@dataclass(frozen=True)
class OracleState:
    """What an oracle may look at in step t: the iterate, the current example, and the examples of earlier steps.

    Attributes
    ----------
    t : int
        Number of steps already made.
    w : (dim,) array
        Current iterate.
    z : object
        Current example, ``sample[order[t]]``.

    The sample and the order so far, from which :meth:`seen` reads, are private: they hold examples not yet met.
    In :func:`sgd` both ``w`` and an array ``z`` are copies; an oracle that writes into them changes nothing.
    """

    t: int
    w: FloatArray
    z: Any
    _sample: Any = field(repr=False)
    _past: IntArray = field(repr=False)

    def seen(self, first: int | None = None) -> Any:
        """Examples of steps 0, ..., t - 1 in the order they were read (only the ``first`` ones if given).

        Nothing of the present or the future is in it: this is the information an oracle may lawfully use.
        """
        past = self._past if first is None else self._past[: check.integer("first", first, 0)]
        if isinstance(self._sample, np.ndarray):
            return self._sample[past]
        return [self._sample[i] for i in past]


@dataclass(frozen=True)
class SGDResult:
    """The path of one run.

    Attributes
    ----------
    w : (dim,) array
        Last iterate, w_T.
    average : (dim,) array
        Mean of all T + 1 iterates.
    order : (T,) int array
        Index of the example used in each step.
    iterates : (T + 1, dim) array or None
        The whole path, kept when ``record`` named ``"iterates"``.
    history : list
        What the ``record`` callable returned at t = 0, ..., T (empty without one).
    projections : int
        Number of steps in which the projection moved the iterate.
    """

    w: FloatArray
    average: FloatArray
    order: IntArray
    iterates: FloatArray | None
    history: list[Any]
    projections: int

    @property
    def steps(self) -> int:
        """T, the number of steps."""
        return int(self.order.size)

    @cached_property
    def _prefix_sums(self) -> FloatArray:
        assert self.iterates is not None
        return np.cumsum(self.iterates, axis=0)

    def suffix(self, tau: int) -> FloatArray:
        r"""Mean of the last ``tau`` iterates, :math:`\frac1\tau\sum_{t>T-\tau} w_t`, in O(dim) after the first call.

        Raises
        ------
        ValueError
            If ``tau`` is outside [1, T + 1], or the path was not kept and 1 < tau < T + 1.
        """
        tau = check.integer("tau", tau, 1, self.steps + 1)
        if tau == 1:
            return self.w.copy()
        if tau == self.steps + 1:
            return self.average.copy()
        if self.iterates is None:
            raise ValueError(f'tau = {tau} needs the path: run sgd with record="iterates"')
        sums = self._prefix_sums
        mean: FloatArray = (sums[-1] - sums[-1 - tau]) / tau
        return mean


def sample_order(
    n: int,
    passes: int | None = None,
    kind: str = "single",
    seed: int | np.random.Generator = 0,
    *,
    steps: int | None = None,
) -> IntArray:
    """Indices of the examples in the order SGD reads them.

    Parameters
    ----------
    n : int >= 1
        Sample size.
    passes : int >= 1
        Number K of passes; T = n * passes.
    kind : {"single", "multi", "cyclic", "with_replacement", "fresh"}
        One permutation reused in each pass; a new permutation per pass; 0, ..., n - 1 in each pass; i.i.d. uniform
        indices; or each of n * passes examples once (the control that never sees an example twice).
    seed : int or numpy Generator
        Source of the permutations.
    steps : int >= 1, instead of ``passes``
        Any number of steps, for ``"with_replacement"`` and ``"fresh"`` only.

    Returns
    -------
    (T,) int64 array

    Examples
    --------
    >>> sample_order(3, 2, "cyclic")
    array([0, 1, 2, 0, 1, 2])
    """
    n = check.integer("n", n, 1)
    if kind not in ORDER_KINDS:
        raise ValueError(f"kind must be one of {ORDER_KINDS}, got {kind!r}")
    if (passes is None) == (steps is None):
        raise ValueError(f"give passes or steps, one of the two; got passes={passes}, steps={steps}")
    if steps is not None:
        total = check.integer("steps", steps, 1)
        if kind not in ("with_replacement", "fresh"):
            raise ValueError(f"steps is for kinds 'with_replacement' and 'fresh'; {kind!r} goes by passes")
    else:
        total = n * check.integer("passes", passes, 1)
    rng = check.numpy_generator(seed)
    if kind == "fresh":
        return np.arange(total, dtype=np.int64)
    if kind == "with_replacement":
        return rng.integers(0, n, size=total, dtype=np.int64)
    repeats = total // n
    if kind == "cyclic":
        return np.tile(np.arange(n, dtype=np.int64), repeats)
    if kind == "single":
        return np.tile(rng.permutation(n).astype(np.int64), repeats)
    return np.concatenate([rng.permutation(n).astype(np.int64) for _ in range(repeats)])


def _resolve_order(
    order: str | ArrayLike, n: int, passes: int | None, steps: int | None, seed: int | np.random.Generator
) -> IntArray:
    if isinstance(order, str):
        if order == "fresh" and passes not in (None, 1):
            raise ValueError(f"passes must be 1 for order 'fresh', which reads each example once, got {passes}")
        indices = sample_order(n, passes, order, seed, steps=steps)
    else:
        given = np.asarray(order)
        if not np.issubdtype(given.dtype, np.integer):
            raise TypeError(f"order must be a kind or integer indices, got dtype {given.dtype}")
        if steps is not None:
            if passes is not None:
                raise ValueError(f"give passes or steps, one of the two; got passes={passes}, steps={steps}")
            if given.shape != (check.integer("steps", steps, 1),):
                raise ValueError(f"order with steps={steps} must have shape ({steps},), got {given.shape}")
            indices = given.astype(np.int64)
        else:
            rows = np.atleast_2d(given)
            if passes is not None:
                passes = check.integer("passes", passes, 1)
            if (
                len(rows) < 1
                or rows.shape[1] != n
                or not np.array_equal(np.sort(rows, axis=1), np.tile(np.arange(n), (len(rows), 1)))
            ):
                raise ValueError(f"order must hold a permutation of 0..{n - 1} in each row, got shape {given.shape}")
            if given.ndim == 1:
                rows = np.tile(rows, (passes or 1, 1))
            elif passes is not None and passes != len(rows):
                raise ValueError(f"order holds {len(rows)} permutations, but passes = {passes}")
            indices = rows.reshape(-1).astype(np.int64)
    if indices.min() < 0 or indices.max() >= n:
        raise ValueError(f"order must index the {n} examples of the sample, got {indices.min()} to {indices.max()}")
    return indices


def _vector(name: str, returned: Any, dim: int, t: int) -> FloatArray:
    """What a callable of the user returned in step t, as a finite (dim,) array."""
    vector = np.asarray(returned)
    if vector.shape != (dim,):
        raise ValueError(f"{name} must return shape ({dim},), got {vector.shape} in step {t}")
    return arguments.point(f"what {name} returned in step {t}", vector, dim)


def sgd(
    oracle: Callable[[OracleState], FloatArray],
    sample: Sequence[Any] | NDArray[Any],
    eta: float,
    *,
    w0: ArrayLike,
    order: str | ArrayLike = "single",
    passes: int | None = None,
    steps: int | None = None,
    project: Callable[[FloatArray], FloatArray] | None = UnitBall(),
    seed: int | np.random.Generator = 0,
    record: str
    | Callable[[int, FloatArray], Any]
    | Sequence[str | Callable[[int, FloatArray], Any]]
    | None = "iterates",
    progress: bool = False,
) -> SGDResult:
    r"""Projected SGD, :math:`w_{t+1} = \Pi(w_t - \eta\,O(t, \text{seen so far}, z_{i_t}, w_t))`.

    Parameters
    ----------
    oracle : callable
        Maps an :class:`OracleState` to a (dim,) subgradient. Any rule is allowed, also one that looks at the examples
        of earlier steps; nothing later is in the state.
    sample : sequence of length n
        The examples; anything that can be indexed by an int.
    eta : float > 0
        Step size.
    w0 : (dim,) array
        Start.
    order : str or int array
        A kind of :func:`sample_order`; or one permutation (n,), reused in each pass; or permutations (K, n), one per
        pass; or, with ``steps``, any T indices. ``"fresh"`` takes the sample as the stream and reads it once.
    passes, steps : int
        K or T; one of the two. (``order="fresh"`` reads ``steps`` examples, or all of them with ``passes=1``.)
    project : callable or None
        Projection onto the domain, (dim,) to (dim,); the unit ball by default.
    seed : int or numpy Generator
        For the order.
    record : "iterates", callable ``(t, w) -> value``, a sequence of the two, or None
        What to keep; one callable at most. The path costs (T + 1) * dim floats and makes every suffix mean available.
    progress : bool
        Show a bar (needs tqdm).

    Returns
    -------
    SGDResult

    Raises
    ------
    ValueError
        If a size or the step is out of range, an order is no permutation, or the oracle or the projection returns a
        wrong shape or a non-finite number.
    TypeError
        If a number has the wrong type, or the oracle or the projection returns something that is no real array.

    Examples
    --------
    Halving the distance to the minimiser of :math:`(w - 1)^2/2` in each step:

    >>> result = sgd(lambda s: s.w - 1.0, [None], 0.5, w0=[0.0], passes=3)
    >>> result.w, result.suffix(2)
    (array([0.875]), array([0.8125]))
    """
    eta = check.positive("eta", eta)
    n = len(sample)
    if n < 1:
        raise ValueError("n must be at least 1, got an empty sample")
    indices = _resolve_order(order, n, passes, steps, seed)
    w = np.array(w0)
    if w.ndim != 1 or w.size < 1 or (np.issubdtype(w.dtype, np.floating) and not np.isfinite(w).all()):
        raise ValueError(f"w0 must be a finite vector, got shape {w.shape}")
    w = arguments.point("w0", w, w.size)
    wanted = [] if record is None else [record] if isinstance(record, str) or callable(record) else list(record)
    keep_path, hook = False, None
    for item in wanted:
        if callable(item):
            if hook is not None:
                raise ValueError("record takes one callable at most, got several: let one return a tuple")
            hook = item
        elif item == "iterates":
            keep_path = True
        else:
            raise ValueError(f'record must be "iterates", a callable, both, or None, got {item!r}')

    total = indices.size
    path = np.empty((total + 1, w.size)) if keep_path else None
    history: list[Any] = []
    running_sum, projections = np.zeros_like(w), 0
    ticks: Any = range(total + 1)
    if progress:
        from tqdm import tqdm

        ticks = tqdm(ticks, desc="sgd", unit="step")
    for t in ticks:
        running_sum += w
        if path is not None:
            path[t] = w
        if hook is not None:
            history.append(hook(t, w.copy()))
        if t == total:
            break
        z = sample[indices[t]]
        if isinstance(z, np.ndarray):
            z = z.copy()
        g = _vector("oracle", oracle(OracleState(t, w.copy(), z, sample, indices[:t])), w.size, t)
        with np.errstate(over="ignore"):  # named below
            moved = w - eta * g
        if not np.isfinite(moved).all():
            raise ValueError(f"the step {t} of length eta={eta} overflows: lower eta")
        w = moved if project is None else _vector("project", project(moved.copy()), w.size, t)
        projections += not np.array_equal(w, moved)
    return SGDResult(w, running_sum / (total + 1), indices, path, history, projections)
