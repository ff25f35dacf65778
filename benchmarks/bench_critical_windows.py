"""The exact kernels of critical windows beside their peers, on the same input in one process.

(a) The posterior of a Gaussian mixture, as one matrix product and one exponential in cache-sized blocks, beside SciPy's
    ``cdist`` and ``softmax``.
(b) Forward-reverse laws under truncation by reshaping, beside the same laws through the sparse kernel; and how the time
    and memory grow with the number of strings.

``python benchmarks/bench_critical_windows.py`` compares, ``--large`` adds the large cases. The resampling of language
models has its own file, ``bench_critical_windows_lm.py``.
"""

from __future__ import annotations

import argparse
import math
from functools import partial

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import softmax
from timing import growth_slope, keep, median_seconds, peak_memory, ratio, seconds

from icml25.theory.critical_windows import (
    AutoregressiveTruncation,
    DiscreteMixture,
    forward_reverse_law,
    gaussian_mixture_posterior,
    theorem2_report,
    two_gaussian_monte_carlo,
    two_gaussian_same_mode,
)

T, VAR = 0.4, 0.0625
SHRINK = math.exp(-T)
SPREAD = SHRINK**2 * VAR + 1 - SHRINK**2


def digits_like(n, n_points=1797, d=64):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), rng.uniform(-1, 1, (n_points, d)), np.full(n_points, 1 / n_points)


def peer_posterior(y, means, weights):
    return softmax(np.log(weights) - cdist(y, SHRINK * means, "sqeuclidean") / (2 * SPREAD), axis=1)


def random_mixture(length, n_features=4):
    rng = np.random.default_rng(0)
    laws = rng.exponential(size=(n_features, 2**length))
    return DiscreteMixture(np.full(n_features, 1 / n_features), laws / laws.sum(1, keepdims=True), 2, length)


def all_levels(mix, proc):
    return [forward_reverse_law(mix, proc, [0], t) for t in proc.levels]


class KernelOnly:
    """A process that offers its sparse kernel alone, so that nothing is done by reshaping."""

    def __init__(self, proc):
        self.levels, self.kernel = proc.levels, proc.kernel


@pytest.mark.parametrize("n", [100, 600])
def bench_posterior(benchmark, n):
    y, means, weights = digits_like(n)
    benchmark(gaussian_mixture_posterior, y, T, means, weights, VAR)


@pytest.mark.parametrize("n", [100, 600])
def bench_posterior_peer(benchmark, n):
    benchmark(peer_posterior, *digits_like(n))


@pytest.mark.parametrize("length", [10, 14])
def bench_enumeration(benchmark, length):
    benchmark(all_levels, random_mixture(length), AutoregressiveTruncation(length, 2))


@pytest.mark.parametrize("length", [10, 14])
def bench_enumeration_peer(benchmark, length):
    benchmark(all_levels, random_mixture(length), KernelOnly(AutoregressiveTruncation(length, 2)))


def compare_posterior():
    y, means, weights = digits_like(600)
    out = np.empty((len(y), len(means)))
    ours = partial(gaussian_mixture_posterior, y, T, means, weights, VAR, out=out)
    peer = partial(peer_posterior, y, means, weights)
    np.testing.assert_allclose(ours(), peer(), rtol=1e-9, atol=1e-300)
    times, mine, other = ratio(ours, peer)
    print(
        f"posterior 600 x 1797, d=64: {mine * 1e3:.1f} ms, cdist + softmax {other * 1e3:.1f} ms: {times:.1f} x faster"
    )
    scratch = np.empty_like(out)
    exponential = median_seconds(partial(np.exp, out, out=scratch))
    product = median_seconds(partial(np.matmul, y, means.T, out=scratch))
    print(f"  of which about {product * 1e3:.1f} ms matrix product and {exponential * 1e3:.1f} ms exponential")
    print(f"  memory beyond the result: {peak_memory(ours) / 2**20:.1f} MiB, peer {peak_memory(peer) / 2**20:.1f} MiB")
    sizes = [100, 200, 400, 800, 1600, 3200]
    time, memory = [], []
    for n in sizes:
        rows, results = digits_like(n)[0], np.empty((n, len(means)))
        call = partial(gaussian_mixture_posterior, rows, T, means, weights, VAR, out=results)
        time.append(median_seconds(call, 5))
        memory.append(peak_memory(call))
    slope = growth_slope(time, sizes)
    print(f"  growth with n: time n^{slope:.2f}, memory n^{growth_slope(memory, sizes):.2f}")
    keep(
        "critical_windows",
        "posterior of a Gaussian mixture",
        size="600 x 1797, d = 64",
        ours_s=mine,
        peer="SciPy cdist + softmax",
        peer_s=other,
        slope=slope,
    )


def compare_enumeration():
    mix, proc = random_mixture(12), AutoregressiveTruncation(12, 2)
    peer_proc = KernelOnly(proc)
    for ours, peer in zip(all_levels(mix, proc), all_levels(mix, peer_proc), strict=True):
        np.testing.assert_allclose(ours, peer, rtol=1e-10)
    times, mine, other = ratio(partial(all_levels, mix, proc), partial(all_levels, mix, peer_proc))
    print(
        f"enumeration T=12, all levels: {mine * 1e3:.2f} ms, sparse kernel {other * 1e3:.1f} ms: {times:.1f} x faster"
    )
    lengths = [12, 14, 16, 18, 20]
    time, memory = [], []
    for length in lengths:
        mix, proc = random_mixture(length), AutoregressiveTruncation(length, 2)
        call = partial(forward_reverse_law, mix, proc, [0], length // 2)
        time.append(median_seconds(call, 5))
        memory.append(peak_memory(call))
    states = [2**length for length in lengths]
    grown = growth_slope(time, states), growth_slope(memory, states)
    print(f"  growth with the number of strings N: time N^{grown[0]:.2f}, memory N^{grown[1]:.2f}")
    keep(
        "critical_windows",
        "forward-reverse laws by enumeration",
        size="12 bits, all levels",
        ours_s=mine,
        peer="sparse kernel",
        peer_s=other,
        slope=grown[0],
    )
    mix, proc = random_mixture(14), AutoregressiveTruncation(14, 2)
    print(f"  Theorem 2 at T=14, K=4, all levels: {seconds(partial(theorem2_report, mix, proc, [0], [0, 1])):.3f} s")


def large():
    y, means, weights = digits_like(600)
    out = np.empty((len(y), len(means)))

    def digits():
        for t in np.linspace(0.05, 3.2, 60):
            gaussian_mixture_posterior(y, t, means, weights, VAR, out=out)

    spent = seconds(digits)
    print(f"60 levels x 600 starts x 1797 points: {spent:.2f} s")
    keep("critical_windows", "posterior of a Gaussian mixture", size="60 levels x 600 x 1797, d = 64", ours_s=spent)
    mu = np.full(4096, 5 / 64)
    t = math.log(5) + 0.14
    result = []
    memory = peak_memory(lambda: result.append(two_gaussian_monte_carlo(mu, t, 2000, seed=0)))
    spent = seconds(lambda: result.append(two_gaussian_monte_carlo(mu, t, 100_000, seed=0)))
    share, error = result[-1]
    exact = two_gaussian_same_mode(5.0, t)
    print(f"two Gaussians, d=4096, n=1e5: {spent:.1f} s, {memory / 2**20:.0f} MiB")
    print(f"  P(same) {share:.4f} +- {error:.4f}, exact {exact:.4f}")
    keep("critical_windows", "two Gaussians, sampled in blocks", size="100 000 draws, d = 4096", ours_s=spent)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="add the large cases")
    arguments = parser.parse_args()
    compare_posterior()
    compare_enumeration()
    if arguments.large:
        large()


if __name__ == "__main__":
    main()
