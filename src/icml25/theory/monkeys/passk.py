"""Counts of successes and what they say about pass@k: the unbiased estimator, its aggregate, and the biased plug-in."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

__all__ = [
    "OFFICIAL_K",
    "aggregate_pass_at_k",
    "as_floats",
    "as_integers",
    "check_counts",
    "check_extrapolate",
    "check_integer",
    "check_k",
    "check_number",
    "counts_from_outcomes",
    "distinct_rows",
    "merge_counts",
    "neg_log_pass",
    "pass_at_k",
    "plug_in_pass_at_k",
    "spread",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Extrapolate = Literal["raise", "official"]

OFFICIAL_K: Ints = np.array(
    [*range(1, 11), *range(12, 21, 2), *range(24, 57, 4), *range(64, 101, 4), *range(105, 151, 5)]
    + [156, 162, 168, 175, 182, 189, 193, 200, 216, 233, 267, 300, 333, 367, 400, 433, 467, *range(500, 1001, 50)]
    + [1067, 1133, 1200, 1367, 1500, 1750, 2000, 2333, 2667, 3000, 3333, 3667, 4000, 4333, 4667, 5000, 5333, 5667]
    + [6000, 6333, 6667, 7000, 7333, 7667, 8000, 8500, 9000, 9500, 10000],
    dtype=np.int64,
)
"""The values of k at which the paper's curves (Tables 1 and 2) are computed; read-only."""
OFFICIAL_K.flags.writeable = False

# One block of a (problems x k) computation, in elements: 32 MB of float64.
_BLOCK = 4_000_000


# Above it floats skip integers, and counts pass through floats.
_LARGEST = 2**53
# Up to this many factors a ratio of binomials is multiplied out; beyond, Stirling's series takes over.
_SHORT = 16
# Stirling's series for log z! with four terms is exact to rounding from here on.
_STIRLING_FROM = 32


def _as_array(name: str, values: ArrayLike) -> NDArray[Any]:
    if np.ma.is_masked(values):
        raise ValueError(f"{name} must not be masked: leave the masked entries out")
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:  # ragged lists, tensors with a gradient or on a GPU
        raise ValueError(f"{name} cannot be read as an array: {error}") from error


def as_floats(name: str, values: ArrayLike) -> Floats:
    """Return real numbers as a float64 array of any shape, or raise ``ValueError`` that names them."""
    array = _as_array(name, values)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold real numbers, got dtype {array.dtype}")
    return array.astype(np.float64)


def as_integers(name: str, values: ArrayLike) -> Ints:
    """Return whole numbers as a non-empty (M,) int64 array, or raise ``ValueError`` that names the first bad one."""
    array = _as_array(name, values)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a non-empty one-dimensional array of counts, got shape {array.shape}")
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must hold integer counts, got dtype {array.dtype}")
    # NaN and infinity compare unequal to their floor or fail the test of finiteness.
    bad = np.flatnonzero(~(np.isfinite(array) & (array == np.floor(array))))
    if bad.size:
        raise ValueError(f"{name} must hold finite integers, got {array[bad[0]]} at index {bad[0]}")
    if (bad := np.flatnonzero(array > _LARGEST)).size:
        raise ValueError(f"{name} must hold counts of at most 2^53, got {array[bad[0]]} at index {bad[0]}")
    return array.astype(np.int64)


def spread(name: str, values: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """Repeat a single value to ``shape``; arrays come back as they are."""
    array = _as_array(name, values)
    return np.full(shape, array) if array.ndim == 0 else array


def check_integer(name: str, value: float, low: int, high: int = _LARGEST) -> int:
    """Return a whole number in ``[low, high]``: an integer, or a float without a fraction such as 1e4.

    Raises
    ------
    TypeError
        If it is no real number (a bool is none here).
    ValueError
        If it has a fraction, is NaN or infinite, or lies outside the range.
    """
    check_number(name, value)
    if not (math.isfinite(value) and value == math.floor(value)):
        raise ValueError(f"{name} must be an integer, got {value}")
    if value < low:
        raise ValueError(f"{name} must be at least {low}, got {value}")
    if value > high:
        raise ValueError(f"{name} must be at most {high}, got {value}")
    return int(value)


def check_number(name: str, value: object) -> None:
    """Raise ``TypeError`` unless ``value`` is one real number (a bool is none)."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")


def check_counts(n: ArrayLike, x: ArrayLike, weights: ArrayLike | None = None) -> tuple[Ints, Ints, Floats]:
    """Validate attempts ``n``, successes ``x`` and the number of problems that each row stands for.

    Parameters
    ----------
    n, x : (P,) integers
        Attempts (at least 1) and successes (between 0 and ``n``); a single ``n`` holds for all problems.
    weights : (P,) floats >= 0, optional
        Multiplicity of each row; ones by default.

    Raises
    ------
    ValueError
        On empty or mismatched arrays, NaN, values that are not integers, ``n < 1``, or successes outside ``[0, n]``.
    """
    successes = as_integers("x (successes)", x)
    attempts = as_integers("n (attempts)", spread("n (attempts)", n, successes.shape))
    if attempts.shape != successes.shape:
        raise ValueError(f"n and x must have the same length, got {attempts.size} and {successes.size}")
    if (bad := np.flatnonzero(attempts < 1)).size:
        raise ValueError(f"n (attempts) must be at least 1, got {attempts[bad[0]]} at index {bad[0]}")
    if (bad := np.flatnonzero((successes < 0) | (successes > attempts))).size:
        i = bad[0]
        raise ValueError(f"x (successes) must lie between 0 and n={attempts[i]}, got {successes[i]} at index {i}")
    if weights is None:
        return attempts, successes, np.ones(successes.size)
    multiplicity = as_floats("weights", weights)
    if multiplicity.shape != successes.shape:
        raise ValueError(f"weights must have the shape of x {successes.shape}, got {multiplicity.shape}")
    with np.errstate(over="ignore"):
        total = multiplicity.sum()
    if not ((multiplicity >= 0).all() and 0.0 < total < math.inf):
        raise ValueError("weights must be finite (with a finite sum), at least 0 and not all 0")
    return attempts, successes, multiplicity


def check_k(k: ArrayLike) -> Ints:
    """Return ``k`` as a one-dimensional integer array, or raise ``ValueError`` if any value is below 1."""
    grid = as_integers("k", np.atleast_1d(_as_array("k", k)))
    if (grid < 1).any():
        raise ValueError(f"k must be at least 1, got {grid.min()}")
    return grid


def merge_counts(n: ArrayLike, x: ArrayLike, weights: ArrayLike | None = None) -> tuple[Ints, Ints, Floats]:
    """Merge problems with equal ``(n, x)``; everything downstream depends on the counts only through these rows.

    Rows of weight 0 are left out: they stand for no problem.

    A stream is merged by parts: merge each part, concatenate the results, merge again.

    Parameters
    ----------
    n, x, weights
        As in :func:`check_counts`.

    Returns
    -------
    n, x : (R,) int64 arrays
        The distinct rows, sorted.
    weights : (R,) float64 array
        How many problems each row stands for.

    Examples
    --------
    >>> [column.tolist() for column in merge_counts([10, 10, 10], [0, 3, 0])]
    [[10, 10], [0, 3], [2.0, 1.0]]
    """
    attempts, successes, multiplicity = check_counts(n, x, weights)
    counted = multiplicity > 0.0
    attempts, successes, multiplicity = attempts[counted], successes[counted], multiplicity[counted]
    rows, inverse = distinct_rows(attempts, successes)
    merged = np.bincount(inverse, weights=multiplicity, minlength=rows[0].size)
    return *rows, np.asarray(merged, dtype=np.float64)


def distinct_rows(n: Ints, x: Ints) -> tuple[tuple[Ints, Ints], NDArray[np.intp]]:
    """Distinct ``(n, x)`` pairs, sorted, and for each problem the index of its pair."""
    base = int(n.max()) + 1
    if base < 2**31:  # one integer key sorts several times faster than pairs
        key, inverse = np.unique(n * base + x, return_inverse=True)
        return (key // base, key % base), inverse
    rows, inverse = np.unique(np.stack([n, x], axis=1), axis=0, return_inverse=True)
    return (rows[:, 0], rows[:, 1]), inverse.ravel()


def pass_at_k(n: ArrayLike, x: ArrayLike, k: ArrayLike, *, extrapolate: Extrapolate = "raise") -> Floats:
    r"""Unbiased estimate of the probability that at least one of ``k`` tries succeeds, per problem (Eq. 12).

    .. math:: \widehat{\text{pass@}k} = 1 - \binom{n-x}{k} \Big/ \binom{n}{k}

    It is the share of the size-``k`` subsets of the ``n`` observed tries that hold a success, hence unbiased **for a
    fixed n**; where ``n`` was chosen by a stopping rule it is not. A difference of log-gamma functions would lose
    ``log10(n log n)`` digits; up to 16 factors are multiplied out instead, and longer products follow Stirling's series
    with its large terms cancelled by hand. The relative error stays below 1e-12 for n up to 10^4 and below 1e-7 for n
    up to 10^9.

    Parameters
    ----------
    n, x : (P,) integers
        Attempts and successes.
    k : int or (K,) integers
        Numbers of tries, each at least 1.
    extrapolate : {"raise", "official"}
        What to do for ``k > n``. ``"official"`` returns 1 wherever ``n - x < k``, thus for every ``k > n`` even with
        no success at all: biased, and needed only to reproduce published tables.

    Returns
    -------
    (P, K) float64 array

    Raises
    ------
    ValueError
        On bad counts (:func:`check_counts`), ``k < 1``, or ``k`` above the smallest ``n``.

    Examples
    --------
    >>> pass_at_k([10], [3], 2).round(6).tolist()
    [[0.533333]]
    """
    attempts, successes, _ = check_counts(n, x)
    grid = check_k(k)
    _check_range(attempts, grid, extrapolate)
    rows, inverse = distinct_rows(attempts, successes)
    distinct = np.empty((rows[0].size, grid.size))
    step = max(1, _BLOCK // grid.size)
    for start in range(0, rows[0].size, step):
        part = slice(start, start + step)
        distinct[part] = _pass_at_k_rows(rows[0][part, None], rows[1][part, None], grid)
    return distinct if rows[0].size == attempts.size and (np.diff(inverse) == 1).all() else distinct[inverse]


def check_extrapolate(extrapolate: Extrapolate) -> None:
    """Raise ``ValueError`` unless it is ``"raise"`` or ``"official"``."""
    if extrapolate not in ("raise", "official"):
        raise ValueError(f'extrapolate must be "raise" or "official", got {extrapolate!r}')


def _check_range(n: Ints, k: Ints, extrapolate: Extrapolate) -> None:
    check_extrapolate(extrapolate)
    if extrapolate == "raise" and k.max() > n.min():
        raise ValueError(
            f"k must not exceed the attempts: largest k={k.max()}, smallest n={n.min()} "
            '(extrapolate="official" returns a biased 1)'
        )


def _pass_at_k_rows(n: Ints, x: Ints, k: Ints) -> Floats:
    certain = n - x < k
    # Where success is certain the formula has no value; any valid argument will do.
    log_failure = _log_failure(n, x, np.where(certain, 0, k))
    # Rounding can lift the logarithm of a ratio of 1 a little above 0.
    result: Floats = np.where(certain, 1.0, np.abs(np.expm1(np.minimum(log_failure, 0.0))))
    return result


def _log_failure(n: Ints, x: Ints, k: Ints) -> Floats:
    """Logarithm of C(n-x, k) / C(n, k), the product of 1 - x/(n-j) over j < k, which is symmetric in x and k."""
    few, many, n = np.broadcast_arrays(np.minimum(x, k), np.maximum(x, k), n)
    result = np.zeros(few.shape)
    short = few <= _SHORT
    for j in range(int(few[short].max(initial=0))):
        factor = short & (few > j)
        result[factor] += np.log1p(-many[factor] / (n[factor] - j))
    result[~short] = _log_failure_long(n[~short], few[~short], many[~short])
    return result


def _log_failure_long(n: Ints, few: Ints, many: Ints) -> Floats:
    rest, left = n - many, n - many - few
    by_gamma = gammaln(rest + 1) + gammaln(n - few + 1) - gammaln(n + 1) - gammaln(left + 1)
    # log z! = (z + 1/2) log z - z + constant + remainder(z), and n + left = rest + (n - few): the large terms cancel.
    d = np.maximum(left, 1)
    by_series = few * np.log(rest / n) + (n - few + 0.5) * np.log1p(-few / n) - (d + 0.5) * np.log1p(-few / (d + few))
    for z, sign in ((rest, 1.0), (n - few, 1.0), (n, -1.0), (d, -1.0)):
        by_series += sign * _stirling_remainder(z)
    series: Floats = np.where(left >= _STIRLING_FROM, by_series, by_gamma)
    return series


def _stirling_remainder(z: Ints) -> Floats:
    inverse = 1.0 / z
    square = inverse * inverse
    series: Floats = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    return series


def plug_in_pass_at_k(n: ArrayLike, x: ArrayLike, k: ArrayLike) -> Floats:
    r"""The tempting estimate :math:`1 - (1 - x/n)^k`, kept to show its bias (Fig. 9).

    It is too low for ``k > 1``: :math:`q \mapsto (1-q)^k` is convex, so by Jensen's inequality
    :math:`\mathbb E(1 - x/n)^k \ge (1-p)^k`.

    Returns
    -------
    (P, K) float64 array
    """
    attempts, successes, _ = check_counts(n, x)
    return 1.0 - (1.0 - (successes / attempts)[:, None]) ** check_k(k)[None, :]


def aggregate_pass_at_k(
    n: ArrayLike,
    x: ArrayLike,
    k: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    extrapolate: Extrapolate = "raise",
) -> Floats:
    """Mean of :func:`pass_at_k` over problems: the benchmark's pass@k.

    Equal rows are merged first, so memory and time follow the distinct ``(n, x)``, not the number of problems.

    Returns
    -------
    (K,) float64 array

    Raises
    ------
    ValueError
        As :func:`pass_at_k` and :func:`check_counts`.
    """
    rows_n, rows_x, multiplicity = merge_counts(n, x, weights)
    share = multiplicity / multiplicity.sum()
    grid = check_k(k)
    _check_range(rows_n, grid, extrapolate)
    step = max(1, _BLOCK // grid.size)
    total = np.zeros(grid.size)
    for start in range(0, rows_n.size, step):
        part = slice(start, start + step)
        total += share[part] @ _pass_at_k_rows(rows_n[part, None], rows_x[part, None], grid)
    return np.minimum(total, 1.0)


def neg_log_pass(
    n: ArrayLike,
    x: ArrayLike,
    k: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    extrapolate: Extrapolate = "raise",
) -> Floats:
    r""":math:`y_k = -\log(\text{mean pass@}k)`, the curve of the power law; infinite where no problem was ever solved.

    The logarithm of the mean, not the mean of logarithms: the latter is infinite as soon as one problem has no success.

    Returns
    -------
    (K,) float64 array
    """
    with np.errstate(divide="ignore"):
        curve: Floats = np.abs(np.log(aggregate_pass_at_k(n, x, k, weights, extrapolate=extrapolate)))
    return curve


def counts_from_outcomes(outcomes: ArrayLike) -> tuple[Ints, Ints]:
    """Count attempts and successes in a matrix of outcomes.

    Parameters
    ----------
    outcomes : (P, N) booleans or floats
        1 for a success, 0 for a failure, NaN for a try that was not made.

    Returns
    -------
    n, x : (P,) int64 arrays

    Raises
    ------
    ValueError
        If the matrix is not two-dimensional, holds anything but 0, 1 and NaN, or a problem was never tried.

    Examples
    --------
    >>> [column.tolist() for column in counts_from_outcomes([[1, 0, 1], [0, 0, float("nan")]])]
    [[3, 2], [2, 0]]
    """
    matrix = _as_array("outcomes", outcomes)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"outcomes must be a non-empty (problems, attempts) matrix, got shape {matrix.shape}")
    if matrix.dtype == bool:
        return np.full(matrix.shape[0], matrix.shape[1], dtype=np.int64), matrix.sum(axis=1, dtype=np.int64)
    matrix = as_floats("outcomes", matrix)
    tried = ~np.isnan(matrix)
    if not np.isin(matrix[tried], (0.0, 1.0)).all():
        raise ValueError("outcomes must be 0, 1 or NaN (not attempted)")
    attempts = tried.sum(axis=1, dtype=np.int64)
    if (bad := np.flatnonzero(attempts == 0)).size:
        raise ValueError(f"outcomes must hold at least one attempt per problem, got none in row {bad[0]}")
    return attempts, np.nansum(matrix, axis=1).astype(np.int64)
