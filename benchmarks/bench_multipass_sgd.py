"""Scores of the whole packing set along a run: brought up to date column by column, or recomputed at each step.

``python benchmarks/bench_multipass_sgd.py`` checks that both give the same losses, prints the ratio at n = 14 and how
time and memory grow, and runs the large lazy case once.
"""

from __future__ import annotations

import time

import numpy as np
import pytest
from timing import growth_slope, keep, median_seconds, peak_memory, ratio

from icml25.theory.multipass_sgd import LossRecorder, MultiPassInstance, sgd

D, P = 512, 16


def random_instance(n: int, passes: int = 4) -> tuple[MultiPassInstance, np.ndarray]:
    """|U| = 4 * 2^n random vectors of the right weight (overlaps unchecked: they do not change the cost)."""
    rng, size = np.random.default_rng(0), 4 * 2**n
    vectors = np.zeros((size, D), dtype=np.int8)
    for low in range(0, size, 8192):
        ones = rng.random((min(8192, size - low), D)).argpartition(7 * D // 16, axis=1)[:, : 7 * D // 16]
        np.put_along_axis(vectors[low : low + 8192], ones, 1, axis=1)
    instance = MultiPassInstance.explicit(n, D, p=P, passes=passes, vectors=vectors)
    sample = instance.draw(1)
    sample[:, 0] = False  # u0 exists
    return instance, sample


def evaluate_path(instance: MultiPassInstance, sample: np.ndarray, path: np.ndarray, *, incremental: bool):
    """A closure that evaluates population and empirical excess along a path; tables are laid out before."""
    recorder = LossRecorder(instance, sample, incremental=incremental)
    recorder(0, path[0])
    recorder(0, path[-1])  # lays out the table of its kind

    def walk() -> np.ndarray:
        return np.array([recorder(t, w) for t, w in enumerate(path)])

    return walk


def steering_path(instance: MultiPassInstance, sample: np.ndarray) -> np.ndarray:
    result = sgd(instance.oracle, sample, instance.eta, w0=instance.start, passes=instance.steps // instance.n)
    return result.iterates[instance.n : instance.n + P + 1]


@pytest.mark.parametrize("n", [8, 11])
@pytest.mark.parametrize("incremental", [True, False], ids=["incremental", "recompute"])
def bench_losses_along_the_steering_phase(benchmark, n, incremental):
    instance, sample = random_instance(n)
    path = steering_path(instance, sample)
    benchmark(evaluate_path(instance, sample, path, incremental=incremental))


@pytest.mark.parametrize("n", [10_000, 100_000])
def bench_lazy_curve(benchmark, n):
    benchmark(lambda: MultiPassInstance.lazy(n).curve())


@pytest.mark.parametrize("n", [96, 384])
def bench_lazy_sgd(benchmark, n):
    instance = MultiPassInstance.lazy(n)
    sample = np.zeros((n, 1), dtype=bool)
    benchmark(lambda: sgd(instance.oracle, sample, instance.eta, w0=instance.start, passes=2, record=None))


def main() -> None:
    instance, sample = random_instance(14)
    path = steering_path(instance, sample)
    fast = evaluate_path(instance, sample, path, incremental=True)
    plain = evaluate_path(instance, sample, path, incremental=False)
    difference = np.abs(fast() - plain()).max()
    assert difference < 1e-12, f"the two evaluations differ by {difference}"
    times, mine, other = ratio(fast, plain, repeats=5)
    target = D / (4 * instance.block)
    print(f"n=14, |U|={len(instance.vectors)}, d={D}, B={instance.block}: the two differ by {difference:.1e} at most")
    print(f"  {P + 1} states: incremental {mine:.3f} s, recomputed {other:.3f} s: {times:.1f} x (target {target:g})")

    sizes, costs = [11, 12, 13, 14, 15, 16], []
    for n in sizes:
        small, drawn = random_instance(n)
        walk = evaluate_path(small, drawn, steering_path(small, drawn), incremental=True)
        costs.append(median_seconds(walk, 5))
    slope = growth_slope(costs, [4 * 2.0**n for n in sizes])
    print(f"  time in |U| from {4 * 2**11} to {4 * 2**16}: log-log slope {slope:.2f}")

    keep(
        "multipass_sgd",
        "losses along the steering phase, incremental scores",
        size=f"n = 14, |U| = {len(instance.vectors):,}, d = {D}",
        ours_s=mine,
        peer="all scores recomputed at each step",
        peer_s=other,
        slope=slope,
    )

    ns = [30_000, 100_000, 300_000, 1_000_000]
    lazy = lambda n: lambda: MultiPassInstance.lazy(n).curve()  # noqa: E731
    time_growth = growth_slope([median_seconds(lazy(n), 5) for n in ns], ns)
    memory_growth = growth_slope([peak_memory(lazy(n)) for n in ns], ns)
    print(f"lazy, K=2, n from {ns[0]} to {ns[-1]}: slope of time {time_growth:.2f}, of memory {memory_growth:.2f}")
    start = time.perf_counter()
    curve = MultiPassInstance.lazy(10**6).curve()
    seconds = time.perf_counter() - start
    megabytes = peak_memory(lazy(10**6)) / 2**20
    keep("multipass_sgd", "lazy curve", size="n = 1,000,000, K = 2", ours_s=seconds, slope=time_growth)
    print(f"  n=10^6 (T = 2*10^6): {seconds:.3f} s, peak {megabytes:.0f} MiB, final excess {curve.excess[-1]:.7f}")

    check = MultiPassInstance.lazy(384)
    sample = np.zeros((384, 1), dtype=bool)
    stepped = sgd(check.oracle, sample, check.eta, w0=check.start, passes=2)
    excess = np.array([check.excess(w) for w in stepped.iterates])
    difference = np.abs(excess - check.curve().at(np.arange(769))).max()
    assert difference < 1e-12, f"curve and steps differ by {difference}"
    times, mine, other = ratio(
        lambda: check.curve(),
        lambda: sgd(check.oracle, sample, check.eta, w0=check.start, passes=2, record=None),
        repeats=5,
    )
    print(f"lazy curve beside step-by-step SGD, n=384: {times:.0f} x, same excess to {difference:.1e}")


if __name__ == "__main__":
    main()
