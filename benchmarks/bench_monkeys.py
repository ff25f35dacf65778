"""The likelihood of a data set: one mat-vec on a shared grid, beside one hypergeometric function a problem (mpmath).

``python benchmarks/bench_monkeys.py`` checks that both give the same value on 128 problems with 10,000 attempts,
prints the ratio, how time and memory grow with rows, grid and problems, and runs the large case once.
"""

from __future__ import annotations

import time
from functools import partial

import mpmath
import numpy as np
import pytest
from timing import growth_slope, keep, median_seconds, peak_memory, seconds

from icml25.data.monkeys import counts_of, models, simulated_counts
from icml25.theory.monkeys import (
    CompoundBinomialFitter,
    CompoundLikelihood,
    ScaledBeta,
    aggregate_pass_at_k,
    merge_counts,
    pass_at_k,
    simulate_counts,
)

SHAPES = (0.25, 1.82)
LAW = ScaledBeta(0.25, 1.82, 0.24)


def hypergeometric_nll(n: np.ndarray, x: np.ndarray, alpha: float, beta: float, scale: float) -> float:
    """The same mean negative log-likelihood, problem by problem, as the textbook formula says."""
    total = mpmath.mpf(0)
    a, b, c = mpmath.mpf(alpha), mpmath.mpf(beta), mpmath.mpf(scale)
    for tries, hits in zip(n.tolist(), x.tolist(), strict=True):
        mixture = mpmath.beta(hits + a, b) / mpmath.beta(a, b) * c**hits
        mixture *= mpmath.hyp2f1(hits - tries, hits + a, hits + a + b, c, maxprec=10**6)  # cancels thousands of bits
        total += mpmath.log(mpmath.binomial(tries, hits) * mixture)
    return float(-total / len(x))


def rows_of(count: int, grid: int = 3000) -> CompoundLikelihood:
    """A kernel of ``count`` distinct rows, kept whole."""
    return CompoundLikelihood(np.full(count, 10**6), np.arange(count), scale=1.0, grid=grid, max_bytes=2**30)


@pytest.mark.parametrize("rows", [128, 1024])
@pytest.mark.parametrize("gradient", [False, True], ids=["value", "gradient"])
def bench_nll(benchmark, rows, gradient):
    objective = rows_of(rows)
    benchmark(objective.value_and_gradient if gradient else objective.value, *SHAPES)


def bench_nll_build(benchmark):
    benchmark(rows_of, 128)


def bench_peer_hypergeometric(benchmark):
    n, x = simulate_counts(LAW, 8, 1000, 0)
    benchmark(hypergeometric_nll, n, x, *SHAPES, LAW.scale)


@pytest.mark.parametrize("family", ["beta", "kumaraswamy"])
def bench_fit(benchmark, family):
    n, x = simulate_counts(LAW, 128, 10_000, 0)
    benchmark(CompoundBinomialFitter(family).fit, n, x)


@pytest.mark.parametrize("problems", [1000, 100_000])
def bench_aggregate_pass_at_k(benchmark, problems):
    n, x = simulate_counts(LAW, problems, 10_000, 0)
    benchmark(aggregate_pass_at_k, n, x, np.unique(np.logspace(0, 4, 100).astype(int)))


def compare_with_peer() -> None:
    n, x = simulate_counts(LAW, 128, 10_000, 0)
    objective = CompoundLikelihood(n, x, scale=LAW.scale)
    ours = objective.value(*SHAPES)
    start = time.perf_counter()
    theirs = hypergeometric_nll(n, x, *SHAPES, LAW.scale)
    peer_seconds = time.perf_counter() - start
    assert abs(ours - theirs) < 1e-6, f"the two likelihoods differ: {ours} and {theirs}"
    mine = median_seconds(lambda: objective.value(*SHAPES), 51)
    build = median_seconds(lambda: CompoundLikelihood(n, x, scale=LAW.scale), 7)
    print(f"one NLL of 128 problems, n=10^4: grid {mine * 1e6:.0f} us (build {build * 1e3:.1f} ms)")
    print(f"  mpmath's hypergeometric function, problem by problem: {peer_seconds:.1f} s")
    print(f"  difference {abs(ours - theirs):.1e} (target 1e-6), ratio {peer_seconds / mine:.3g} (target 1e4)")
    keep(
        "monkeys",
        "one negative log-likelihood",
        size="128 problems, n = 10,000",
        ours_s=mine,
        peer="hypergeometric function per problem (mpmath)",
        peer_s=peer_seconds,
    )


def compare_growth() -> None:
    # Kernels of 20 to 600 MB: all beyond the caches, where an element costs several times what it costs within them.
    rows = [4000, 8000, 16_000, 32_000, 64_000, 128_000]
    times, memory = [], []
    for count in rows:
        build = partial(rows_of, count, 600)
        times.append(median_seconds(partial(build().value, *SHAPES), 5))
        memory.append(peak_memory(build))
    print(
        f"growth with distinct rows, 4e3..1.3e5: time {growth_slope(times, rows):.2f}, memory "
        f"{growth_slope(memory, rows):.2f} (1 is linear); {8 * 600 * rows[-1] / times[-1] / 1e9:.1f} GB/s at the end"
    )
    keep(
        "monkeys",
        "growth with distinct rows",
        size="4,000 to 128,000 rows",
        ours_s=times[-1],
        slope=growth_slope(times, rows),
    )
    grids = [6000, 12_000, 24_000, 48_000, 96_000, 192_000]
    times = [median_seconds(partial(rows_of(400, size).value, *SHAPES), 5) for size in grids]
    print(f"growth with the grid, 6e3..1.9e5: time {growth_slope(times, grids):.2f}")
    problems = [10**4, 10**5, 10**6]
    samples = {size: simulate_counts(LAW, size, 1000, 0) for size in problems}
    merge = growth_slope([median_seconds(partial(merge_counts, *samples[size]), 5) for size in problems], problems)
    fit_memory = [peak_memory(partial(CompoundLikelihood, *samples[s])) for s in problems]
    print(
        f"growth with problems, 10^4..10^6 at n=1000: merging time {merge:.2f}; memory of the likelihood "
        f"{growth_slope(fit_memory, problems):.2f} ({fit_memory[-1] / 2**20:.0f} MiB at 10^6; a kernel per problem: "
        f"{8 * 3000 * 10**6 / 2**30:.0f} GiB)"
    )


def all_fits() -> None:
    counts = simulated_counts(0)
    names = [model for benchmark in ("MATH", "HarmBench-text") for model in models(counts, benchmark)]

    def run() -> None:
        for model in names:
            for family in ("beta", "kumaraswamy"):
                CompoundBinomialFitter(family).fit(*counts_of(counts, model))

    total = median_seconds(run, 3)
    print(f"{len(names)} models x 2 families: {total:.2f} s (target 3 s)")
    keep("monkeys", "fits of all models", size=f"{len(names)} models, 2 families", ours_s=total)


def large_case() -> None:
    n, x = simulate_counts(LAW, 10**6, 10_000, 0)
    k = np.linspace(1, 10_000, 100).astype(int)
    aggregate = seconds(lambda: aggregate_pass_at_k(n, x, k))
    each = seconds(lambda: pass_at_k(n, x, k))
    rows = merge_counts(n, x)[0].size
    fitter = CompoundBinomialFitter("beta")
    fit = seconds(lambda: fitter.fit(n, x))
    memory = peak_memory(lambda: CompoundBinomialFitter("beta").fit(n, x))
    print(f"10^6 problems, n=10^4, {rows} distinct rows; pass@k at {k.size} values of k:")
    print(f"  mean {aggregate:.2f} s, each problem {each:.1f} s (target 10 s)")
    print(f"  fit {fit:.1f} s, peak {memory / 2**20:.0f} MiB, alpha {fitter.alpha_:.4f} (true {LAW.alpha})")


def main() -> None:
    compare_with_peer()
    compare_growth()
    all_fits()
    large_case()


if __name__ == "__main__":
    main()
