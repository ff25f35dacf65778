"""Compare two things fairly: in one process, interleaved, by the median of the CPU's work."""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def seconds(fn: Callable[[], Any]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    fn()
    return time.perf_counter() - start


def median_seconds(fn: Callable[[], Any], repeats: int = 7) -> float:
    """Median wall time of ``repeats`` calls, after one call that is not counted."""
    fn()
    return statistics.median(seconds(fn) for _ in range(repeats))


def ratio(fn: Callable[[], Any], peer: Callable[[], Any], repeats: int = 7) -> tuple[float, float, float]:
    """How many times faster ``fn`` is than ``peer``.

    The calls alternate, so that a busy moment of the machine falls on both.

    Returns
    -------
    (peer's median / fn's median, fn's median in s, peer's median in s)
    """
    fn()
    peer()
    ours, theirs = zip(*((seconds(fn), seconds(peer)) for _ in range(repeats)), strict=True)
    mine, other = statistics.median(ours), statistics.median(theirs)
    return other / mine, mine, other


def growth_slope(costs: Sequence[float], sizes: Sequence[float]) -> float:
    """Least-squares slope of log cost against log size: 1 is linear, 2 quadratic."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def time_slope(make: Callable[[int], Callable[[], Any]], sizes: Sequence[int], repeats: int = 5) -> float:
    """Growth slope of the time of ``make(size)()``; what ``make`` itself does is not timed."""
    return growth_slope([median_seconds(make(size), repeats) for size in sizes], sizes)


def peak_memory(fn: Callable[[], Any]) -> int:
    """Peak of the memory that Python and NumPy allocate during one call, bytes; torch's own allocator is not seen."""
    tracemalloc.start()
    try:
        fn()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
