r"""Critical windows: the short interval of the sampling time in which a generative model decides a feature.

A sampler that undoes a Markovian degradation (diffusion, masked diffusion, next-token prediction) is a stochastic
localization: from the observation :math:`Y_t` it draws the posterior of X. With the model seen as a mixture over
features, a feature is decided between the last level t at which its component is still separated from the rest, and
the first level at which it has merged into a larger sub-mixture. Theorem 2 says so for any mixture, with constants.

- ``distances``: total variation, affinities, and the lemmas that bound the posterior's overlap.
- ``processes``: autoregressive truncation, random and ordered masking.
- ``mixtures``: forward-reverse laws, Theorem 2 with each step of its proof, Definition 4, all by exact enumeration.
- ``closed_forms``: the windows that can be written down (Examples 1 to 6, 11, Theorem 9).
- ``gaussian``: posteriors of Gaussian mixtures, two-Gaussian laws by quadrature and by streamed sampling.
- ``hierarchy``: mixture trees and their corollaries (Section 5).
- ``sparse_regression``: the all-or-nothing window of in-context regression (Theorems 5, 6).
- ``experiment``: the forward-reverse experiment with any sampler, and window detection (Section 2, Table 1).
- ``language``: small causal language models, resampling at every cut.
- ``exact_languages``: languages of known law to train them on.
- ``detector``: likelihood ratio against perplexity (Table 2).

Reference: Marvin Li, Aayush Karan, Sitan Chen, *Blink of an eye: a simple theory for feature localization in generative
models*, ICML 2025 (oral), arXiv 2502.00921.
"""

from icml25.theory.critical_windows.closed_forms import (
    branching_mixture,
    concept_walk_affinity,
    in_context_affinity,
    in_context_examples,
    masked_diracs_same,
    random_means_width_limit,
    random_walk_same_mode,
    random_walk_tv,
    speciation_time,
    two_gaussian_tv,
    window_concept_walk,
    window_masked_diracs,
    window_random_means,
    window_random_walk,
    window_two_gaussians,
)
from icml25.theory.critical_windows.detector import (
    MarkovChain,
    contaminated_log_prob,
    likelihood_ratio_scores,
    perplexity_scores,
    recall_at_fpr,
)
from icml25.theory.critical_windows.distances import (
    bhattacharyya,
    hellinger_sq,
    lemma1_bound,
    lemma7_bound,
    posterior_overlap,
    sharp_overlap_bound,
    total_variation,
)
from icml25.theory.critical_windows.exact_languages import NoisyAdder, StructuredLanguage, direct_answer_curve
from icml25.theory.critical_windows.experiment import (
    AutoregressiveSampler,
    Curve,
    ExactDenoiser,
    GaussianMixtureSampler,
    MaskingSampler,
    Sampler,
    cw_condition,
    detect_windows,
    forward_reverse_curve,
    fraction_cuts,
    window_accuracy_table,
)
from icml25.theory.critical_windows.gaussian import (
    gaussian_mixture_posterior,
    two_gaussian_distance,
    two_gaussian_monte_carlo,
    two_gaussian_same_mode,
)
from icml25.theory.critical_windows.hierarchy import (
    AncestorCheck,
    MixtureTree,
    TreeNode,
    build_mixture_tree,
    check_mixture_tree,
    corollary1_checks,
    corollary2_eps,
    discrete_distances,
    gaussian_distances,
)
from icml25.theory.critical_windows.language import (
    CausalLM,
    TinyLM,
    TinyTransformer,
    choice_jump_report,
    next_token_probabilities,
    prefix_sharing_curve,
    resample_cuts,
    suffix_curve,
    train_lm,
)
from icml25.theory.critical_windows.mixtures import (
    BayesChain,
    CriticalWindow,
    DiscreteMixture,
    Increase,
    check_markov_monotone,
    critical_window,
    data_processing_step,
    forward_reverse_law,
    leak_chain,
    observed_law,
    posterior_features,
    separation_profile,
    theorem2_bound,
    theorem2_report,
    weight_ratio,
)
from icml25.theory.critical_windows.processes import (
    MAX_STATES,
    AutoregressiveTruncation,
    CoordinateMasking,
    ObservationProcess,
    OrderedMasking,
    RandomMasking,
)
from icml25.theory.critical_windows.sparse_regression import (
    all_or_nothing_threshold,
    sparse_regression_overlap,
    window_all_or_nothing,
)

__all__ = [
    "MAX_STATES",
    "AncestorCheck",
    "AutoregressiveSampler",
    "AutoregressiveTruncation",
    "BayesChain",
    "CausalLM",
    "CoordinateMasking",
    "CriticalWindow",
    "Curve",
    "DiscreteMixture",
    "ExactDenoiser",
    "GaussianMixtureSampler",
    "Increase",
    "MarkovChain",
    "MaskingSampler",
    "MixtureTree",
    "NoisyAdder",
    "ObservationProcess",
    "OrderedMasking",
    "RandomMasking",
    "Sampler",
    "StructuredLanguage",
    "TinyLM",
    "TinyTransformer",
    "TreeNode",
    "all_or_nothing_threshold",
    "bhattacharyya",
    "branching_mixture",
    "build_mixture_tree",
    "check_markov_monotone",
    "check_mixture_tree",
    "choice_jump_report",
    "concept_walk_affinity",
    "contaminated_log_prob",
    "corollary1_checks",
    "corollary2_eps",
    "critical_window",
    "cw_condition",
    "data_processing_step",
    "detect_windows",
    "direct_answer_curve",
    "discrete_distances",
    "forward_reverse_curve",
    "forward_reverse_law",
    "fraction_cuts",
    "gaussian_distances",
    "gaussian_mixture_posterior",
    "hellinger_sq",
    "in_context_affinity",
    "in_context_examples",
    "leak_chain",
    "lemma1_bound",
    "lemma7_bound",
    "likelihood_ratio_scores",
    "masked_diracs_same",
    "next_token_probabilities",
    "observed_law",
    "perplexity_scores",
    "posterior_features",
    "posterior_overlap",
    "prefix_sharing_curve",
    "random_means_width_limit",
    "random_walk_same_mode",
    "random_walk_tv",
    "recall_at_fpr",
    "resample_cuts",
    "separation_profile",
    "sharp_overlap_bound",
    "sparse_regression_overlap",
    "speciation_time",
    "suffix_curve",
    "theorem2_bound",
    "theorem2_report",
    "total_variation",
    "train_lm",
    "two_gaussian_distance",
    "two_gaussian_monte_carlo",
    "two_gaussian_same_mode",
    "two_gaussian_tv",
    "weight_ratio",
    "window_accuracy_table",
    "window_all_or_nothing",
    "window_concept_walk",
    "window_masked_diracs",
    "window_random_means",
    "window_random_walk",
    "window_two_gaussians",
]
