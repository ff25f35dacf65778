"""Back-tests: hide most of the tries, estimate the exponent from the rest, compare with a reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml25.theory.monkeys.estimators import (
    CompoundBinomialFitter,
    ExponentKind,
    FittedLaw,
    Scale,
    check_kind,
    discretized_fit,
    least_squares_fit,
)
from icml25.theory.monkeys.laws import SuccessLaw
from icml25.theory.monkeys.passk import check_counts, check_integer
from icml25.theory.monkeys.quadrature import Family
from icml25.theory.monkeys.simulation import simulate_counts

__all__ = ["ESTIMATORS", "backtest", "backtest_uniform", "estimate_exponent", "subsample_counts"]

Ints = NDArray[np.int64]
Seed = int | np.random.Generator
Reference = Literal["asymptotic", "full", "held_out"]
Estimator = Callable[[Ints, Ints], tuple[float, str]]
Row = dict[str, Any]

ESTIMATORS: tuple[str, ...] = (
    "least_squares",
    "beta_binomial",
    "kumaraswamy_binomial",
    "discretized_beta",
    "discretized_kumaraswamy",
)
"""Names of the five estimators."""

_BOUNDS = (0.01, 100.0)

TOTAL_BUDGETS: tuple[int, ...] = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
"""Tries in all, of the official ``uniform`` strategy."""


def estimate_exponent(
    name: str,
    n: ArrayLike,
    x: ArrayLike,
    *,
    kind: ExponentKind = "asymptotic",
    scale: Scale = "max",
    resolution: float = 1e-4,
) -> tuple[float, str]:
    """Exponent ``b`` by one of :data:`ESTIMATORS`, with its status.

    Parameters
    ----------
    name : str
        One of :data:`ESTIMATORS`.
    n, x : (P,) integers
        Counts.
    kind : {"asymptotic", "fitted"}
        Which exponent of a fitted law; least squares has only one.
    scale
        For the compound fits, see :class:`CompoundBinomialFitter`.
    resolution : float
        For the discretised fits.

    Returns
    -------
    b : float
        NaN where the counts cannot say.
    status : str
    """
    check_kind(kind)
    if name == "least_squares":
        line = least_squares_fit(n, x)
        return line.b, line.status
    if name in ("beta_binomial", "kumaraswamy_binomial"):
        family: Family = "beta" if name == "beta_binomial" else "kumaraswamy"
        fitter = CompoundBinomialFitter(family, scale).fit(n, x)
        return fitter.exponent(kind)[1], fitter.status_
    if name in ("discretized_beta", "discretized_kumaraswamy"):
        fitted = discretized_fit(n, x, "beta" if name == "discretized_beta" else "kumaraswamy", resolution)
        return fitted.exponent(kind)[1], fitted.status
    raise ValueError(f"estimators must be among {', '.join(ESTIMATORS)}, got {name!r}")


def subsample_counts(n: ArrayLike, x: ArrayLike, attempts: int, seed: Seed) -> tuple[Ints, Ints]:
    """Successes among ``attempts`` tries drawn without replacement from each problem's ``n``.

    Only counts are needed: the number of successes is hypergeometric. Problems with fewer tries keep them all.

    Parameters
    ----------
    n, x : (P,) integers
        Counts, with ``n`` below 10^9.
    attempts : int >= 1
    seed : int or numpy Generator

    Returns
    -------
    n, x : (P,) int64 arrays
    """
    attempts = check_integer("attempts", attempts, 1)
    tries, successes, _ = check_counts(n, x)
    if (largest := tries.max()) >= 10**9:
        raise ValueError(f"n (attempts) must be below 10^9 to be subsampled, got {largest}")
    kept = np.minimum(attempts, tries)
    drawn = np.random.default_rng(seed).hypergeometric(successes, tries - successes, kept)
    return kept, drawn.astype(np.int64)


def backtest(
    n: ArrayLike | SuccessLaw,
    x: ArrayLike | None = None,
    *,
    budgets: Sequence[int] = (100, 215, 464, 1000, 2154, 4642, 10_000),
    n_problems: int = 128,
    repeats: int = 30,
    estimators: Sequence[str] | Mapping[str, Estimator] = ESTIMATORS,
    reference: Reference = "full",
    kind: ExponentKind = "asymptotic",
    pool: tuple[int, int] = (1000, 100_000),
    device: str | None = None,
    seed: Seed = 0,
    progress: bool = False,
) -> list[Row]:
    """Estimate the exponent from few problems and few tries, and compare with a reference.

    Each repeat draws ``n_problems`` problems and, for every budget, that many tries of each, both without replacement,
    and gives the same counts to every estimator.

    Parameters
    ----------
    n, x : (P,) integers; or a SuccessLaw and None
        The full data, or a law from which each repeat simulates a pool of its own.
    budgets : sequence of int
        Tries per problem.
    n_problems, repeats : int
    estimators : sequence of names, or mapping from names to functions
        Names from :data:`ESTIMATORS`; a function takes ``(n, x)`` and returns ``(b, status)``.
    reference : {"full", "asymptotic", "held_out"}
        What counts as the true exponent. ``"full"``: least squares on all of the data (the official code's choice; the
        subsample is part of it). ``"held_out"``: least squares on the tries that the subsample left, so that no try
        serves on both sides. ``"asymptotic"``: the law's own exponent (only for a law). The first and the last differ
        even without noise: a curve on k <= 10^5 has not reached its asymptote.
    kind : {"asymptotic", "fitted"}
        Exponent that the fitted laws report.
    pool : (int, int)
        Problems and tries of a simulated pool.
    device : str, optional
        Fit the two compound estimators of all repeats together on this torch device
        (:func:`~icml25.theory.monkeys.fit_compound_batch`) instead of one by one.
    seed : int or numpy Generator
    progress : bool
        Show a bar over the subsamples.

    Returns
    -------
    list of dict
        Keys ``repeat, budget, estimator, exponent, reference, relative_error, status``.

    Raises
    ------
    ValueError
        If a budget or ``n_problems`` exceeds the data, or the reference does not exist for them.
    """
    _check_run(estimators, kind, repeats)
    rng = np.random.default_rng(seed)
    law = n if isinstance(n, SuccessLaw) else None
    data = None if isinstance(n, SuccessLaw) else check_counts(n, x if x is not None else [])[:2]
    if law is not None and x is not None:
        raise ValueError("x must be None with a law: each repeat simulates its own counts")
    budgets = _check_integers("budgets", budgets)
    n_problems = check_integer("n_problems", n_problems, 1)
    if law is not None:
        if not isinstance(pool, Sequence) or len(pool) != 2:
            raise ValueError(f"pool must be a pair (problems, tries), got {pool!r}")
        pool = (check_integer("pool", pool[0], 1), check_integer("pool", pool[1], 1))
    if reference not in ("full", "asymptotic", "held_out"):
        raise ValueError(f'reference must be "full", "asymptotic" or "held_out", got {reference!r}')
    tail = law.tail() if law is not None else None
    if reference == "asymptotic" and tail is None:
        raise ValueError('reference="asymptotic" needs a law with a power-law tail')
    available = pool if data is None else (data[0].size, int(data[0].min()))
    if n_problems > available[0]:
        raise ValueError(f"n_problems must lie in [1, {available[0]}], got {n_problems}")
    if max(budgets) > available[1] - (reference == "held_out"):
        raise ValueError(f"budgets must lie in [1, {available[1]}] (below it for held_out), got {list(budgets)}")

    trials: list[_Trial] = []
    for repeat in range(repeats):
        full_n, full_x = simulate_counts(law, *pool, rng) if law is not None else data  # type: ignore[misc]
        if reference == "full":
            truth = least_squares_fit(full_n, full_x).b
        elif reference == "asymptotic" and tail is not None:
            truth = tail.exponent
        chosen = rng.permutation(full_n.size)[:n_problems]
        for budget in budgets:
            sub_n, sub_x = subsample_counts(full_n[chosen], full_x[chosen], budget, rng)
            if reference == "held_out":
                rest_n, rest_x = full_n.copy(), full_x.copy()
                rest_n[chosen] -= sub_n
                rest_x[chosen] -= sub_x
                truth = least_squares_fit(rest_n, rest_x).b
            trials.append(_Trial(sub_n, sub_x, truth, {"repeat": repeat, "budget": budget}))
    return _score(trials, estimators, kind, device, progress)


def backtest_uniform(
    n: ArrayLike,
    x: ArrayLike,
    *,
    total_budgets: Sequence[int] = TOTAL_BUDGETS,
    n_problems: Sequence[int] = (32, 64, 128),
    repeats: int = 30,
    estimators: Sequence[str] | Mapping[str, Estimator] = ESTIMATORS,
    kind: ExponentKind = "asymptotic",
    seed: Seed = 0,
    progress: bool = False,
) -> list[Row]:
    """Spread a total budget of tries evenly over few or many problems (the official ``uniform`` strategy).

    Problems are drawn with replacement, and so are their tries: successes are binomial with probability ``x/n``. The
    reference is least squares on the full data.

    Parameters
    ----------
    n, x : (P,) integers
    total_budgets : sequence of int
        Tries in all; each problem gets the integer share. Shares below 1 are left out.
    n_problems : sequence of int
    repeats, estimators, kind, seed, progress
        As in :func:`backtest`.

    Returns
    -------
    list of dict
        Keys ``repeat, total_budget, n_problems, estimator, exponent, reference, relative_error, status``.
    """
    _check_run(estimators, kind, repeats)
    full_n, full_x, _ = check_counts(n, x)
    total_budgets = _check_integers("total_budgets", total_budgets)
    n_problems = _check_integers("n_problems", n_problems)
    rng = np.random.default_rng(seed)
    truth = least_squares_fit(full_n, full_x, extrapolate="raise").b
    trials: list[_Trial] = []
    for repeat in range(repeats):
        for problems in n_problems:
            for total in total_budgets:
                share = total // problems
                if share < 1:
                    continue
                chosen = rng.integers(full_n.size, size=problems)
                sub_x = rng.binomial(share, full_x[chosen] / full_n[chosen]).astype(np.int64)
                where = {"repeat": repeat, "total_budget": total, "n_problems": problems}
                trials.append(_Trial(np.full(problems, share, dtype=np.int64), sub_x, truth, where))
    return _score(trials, estimators, kind, None, progress)


@dataclass(frozen=True)
class _Trial:
    """One subsample: its counts, the reference it is held against, and where it belongs."""

    n: Ints
    x: Ints
    truth: float
    where: Row


def _check_integers(name: str, values: Sequence[int]) -> list[int]:
    if np.ndim(values) != 1 or len(values) == 0:
        raise ValueError(f"{name} must be a non-empty sequence of integers, got {values!r}")
    return [check_integer(name, value, 1) for value in values]


def _check_run(estimators: Sequence[str] | Mapping[str, Estimator], kind: ExponentKind, repeats: int) -> None:
    if isinstance(estimators, str) or not len(estimators):
        raise ValueError(f"estimators must be a non-empty sequence of names or a mapping, got {estimators!r}")
    check_kind(kind)
    check_integer("repeats", repeats, 1)
    if isinstance(estimators, Mapping):
        return
    if unknown := [name for name in estimators if name not in ESTIMATORS]:
        raise ValueError(f"estimators must be among {', '.join(ESTIMATORS)}, got {unknown[0]!r}")


def _score(
    trials: Sequence[_Trial],
    estimators: Sequence[str] | Mapping[str, Estimator],
    kind: ExponentKind,
    device: str | None,
    progress: bool,
) -> list[Row]:
    rows: list[Row] = []
    batched: dict[str, list[tuple[float, str]]] = {}
    if device is not None and not isinstance(estimators, Mapping):
        for name in set(estimators) & {"beta_binomial", "kumaraswamy_binomial"}:
            batched[name] = _fit_together(trials, "beta" if name == "beta_binomial" else "kumaraswamy", kind, device)
    for i, trial in enumerate(_track(trials, progress)):
        for name in estimators:
            if name in batched:
                b, status = batched[name][i]
            elif isinstance(estimators, Mapping):
                b, status = estimators[name](trial.n, trial.x)
            else:
                b, status = estimate_exponent(name, trial.n, trial.x, kind=kind)
            error = abs(b - trial.truth) / trial.truth if trial.truth != 0.0 else math.nan
            result = {"estimator": name, "exponent": b, "reference": trial.truth, "relative_error": error}
            rows.append(trial.where | result | {"status": status})
    return rows


def _fit_together(trials: Sequence[_Trial], family: Family, kind: ExponentKind, device: str) -> list[tuple[float, str]]:
    """All trials' compound fits at once, budget by budget: the grid follows the largest number of tries."""
    from icml25.theory.monkeys.batched import fit_compound_batch

    results: dict[int, tuple[float, str]] = {}
    budgets = np.array([trial.n.max() for trial in trials])
    for budget in np.unique(budgets):
        members = np.flatnonzero(budgets == budget).tolist()
        n, x = (np.stack([getattr(trials[i], name) for i in members]) for name in ("n", "x"))
        fits = fit_compound_batch(n, x, family=family, device=device, bounds=_BOUNDS)
        for row, i in enumerate(members):
            alpha, beta, scale, nll = (float(fits[name][row]) for name in ("alpha", "beta", "scale", "nll"))
            if math.isnan(alpha):
                status = "not_identified" if x[row].any() else "all_zero"
            else:
                edge = np.isclose([[alpha], [beta]], _BOUNDS, rtol=1e-6)
                status = "at_bound" if edge.any() else "ok"
            fitted = FittedLaw(family, alpha, beta, scale, nll, status)
            results[i] = (fitted.exponent(kind)[1], fitted.status)
    return [results[i] for i in range(len(trials))]


def _track(items: Sequence[_Trial], progress: bool) -> Iterable[_Trial]:
    if not progress:
        return items
    from tqdm import tqdm

    return tqdm(items, desc="back-test")
