"""Compare two things fairly: in one process, interleaved, by the median; and keep what came out for the book.

With ``ICML25_RECORD_BENCH=1`` each :func:`keep` puts its line into ``results.json``, which the performance page shows.
"""

from __future__ import annotations

import json
import os
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).with_name("results.json")


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


def keep(
    slug: str,
    kernel: str,
    *,
    size: str,
    ours_s: float,
    peer: str | None = None,
    peer_s: float | None = None,
    slope: float | None = None,
) -> None:
    """Put one measurement of a chapter's kernel into the recorded results, in place of the one with its name and size.

    Does nothing unless the environment asks for a record, so that a casual run does not change a tracked file.
    """
    if os.environ.get("ICML25_RECORD_BENCH") != "1":
        return
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
    line = {
        "kernel": kernel,
        "peer": peer,
        "size": size,
        "ours_s": _rounded(ours_s),
        "peer_s": _rounded(peer_s),
        "ratio": None if peer_s is None else _rounded(peer_s / ours_s),
        "slope": _rounded(slope),
    }
    others = [old for old in results.get(slug, []) if (old["kernel"], old["size"]) != (kernel, size)]
    results[slug] = [*others, line]
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.3g}")
