r"""Power laws of repeated sampling: why :math:`-\log` pass@k falls as :math:`k^{-b}`, and how to predict ``b``.

On one problem with single-try success probability ``p`` the failure rate after ``k`` tries is :math:`(1-p)^k`: an
exponential. Averaged over problems it is :math:`I_k = \mathbb E_p[(1-p)^k]`, and

.. math:: -\log(1 - I_k) \sim C\,\Gamma(b)\,k^{-b} \quad\Longleftarrow\quad f(p) = C\,p^{b-1} + O(p^{b-1+t}),\ t > 0,
    \tag{Thm 3.1}

so the power law is a statement about the density of hard problems. The same view gives ``b`` from few tries: fit the
density by the compound-binomial likelihood of the counts, then read its exponent.

- ``passk``: the unbiased pass@k estimator and its aggregate (Eq. 12); counts, merged.
- ``laws``: distributions of ``p`` with their exact :math:`I_k` and leading terms (App. E).
- ``likelihood``: compound binomial and negative binomial likelihoods on one shared grid (App. F-H).
- ``estimators``: least squares, beta- and Kumaraswamy-binomial, and the two discretised fits.
- ``simulation``: counts with a fixed number of tries, and with a stopping rule.
- ``backtest``: how well each estimator does on subsamples.
- ``batched``: the compound fits of many data sets at once, on any torch device.

Reference: Schaeffer, Kazdan, Hughes, Juravsky, Price, Lynch, Jones, Kirk, Mirhoseini, Koyejo, *How Do Large Language
Monkeys Get Their Power (Laws)?*, ICML 2025, arXiv 2502.17578.
"""

from typing import TYPE_CHECKING, Any

from icml25.theory.monkeys.backtest import ESTIMATORS, backtest, backtest_uniform, estimate_exponent, subsample_counts
from icml25.theory.monkeys.estimators import (
    CompoundBinomialFitter,
    FittedLaw,
    PowerLawFit,
    discretized_fit,
    fit_power_law,
    least_squares_fit,
    local_slopes,
)
from icml25.theory.monkeys.laws import (
    ContinuousBernoulli,
    PointMass,
    PowerLawTail,
    Reciprocal,
    ScaledBeta,
    ScaledKumaraswamy,
    SuccessLaw,
    UniformInterval,
    UniformZero,
    ZeroInflated,
    power_law_tail,
)
from icml25.theory.monkeys.likelihood import (
    CompoundLikelihood,
    compound_logpmf,
    compound_negative_binomial_logpmf,
)
from icml25.theory.monkeys.passk import (
    OFFICIAL_K,
    aggregate_pass_at_k,
    counts_from_outcomes,
    merge_counts,
    neg_log_pass,
    pass_at_k,
    plug_in_pass_at_k,
)
from icml25.theory.monkeys.simulation import simulate_counts, simulate_stopped

if TYPE_CHECKING:
    from icml25.theory.monkeys.batched import fit_compound_batch

__all__ = [
    "ESTIMATORS",
    "OFFICIAL_K",
    "CompoundBinomialFitter",
    "CompoundLikelihood",
    "ContinuousBernoulli",
    "FittedLaw",
    "PointMass",
    "PowerLawFit",
    "PowerLawTail",
    "Reciprocal",
    "ScaledBeta",
    "ScaledKumaraswamy",
    "SuccessLaw",
    "UniformInterval",
    "UniformZero",
    "ZeroInflated",
    "aggregate_pass_at_k",
    "backtest",
    "backtest_uniform",
    "compound_logpmf",
    "compound_negative_binomial_logpmf",
    "counts_from_outcomes",
    "discretized_fit",
    "estimate_exponent",
    "fit_compound_batch",
    "fit_power_law",
    "least_squares_fit",
    "local_slopes",
    "merge_counts",
    "neg_log_pass",
    "pass_at_k",
    "plug_in_pass_at_k",
    "power_law_tail",
    "simulate_counts",
    "simulate_stopped",
    "subsample_counts",
]


def __getattr__(name: str) -> Any:
    # Importing torch takes longer than a fit: only the batched fits need it.
    if name == "fit_compound_batch":
        from icml25.theory.monkeys.batched import fit_compound_batch

        return fit_compound_batch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
