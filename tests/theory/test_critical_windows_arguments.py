"""Hostile input is refused by name, and nothing of the caller's moves."""

import math

import numpy as np
import pytest
import torch

from icml25.data.digits import DigitsMixture
from icml25.theory import critical_windows as cw

NAN, INF = math.nan, math.inf
MIX = cw.DiscreteMixture([0.25, 0.75], [[1, 0, 0, 0], [0, 0, 0, 1]], 2, 2)
PROC = cw.AutoregressiveTruncation(2, 2)
MODEL = cw.TinyLM(3, 4, hidden=4, seed=0)
TEXT = torch.tensor([[0, 1, 2, 0]])
MEANS = torch.tensor([[1.0], [-1.0]])
ADDER = cw.NoisyAdder(n_steps=2, modulus=3)
TV = (lambda t: np.eye(2) * 0 + (1 - np.eye(2)) * (t < 1), lambda s, t: 1.0)
TREE = cw.build_mixture_tree(*TV, [0.0, 1.0], 0.0)


class Echo:
    """A sampler whose two steps return what a test tells them to."""

    def __init__(self, stochastic=True, degraded=None, drawn=None):
        self.stochastic, self.degraded, self.drawn = stochastic, degraded, drawn

    def degrade(self, x, t, generator):
        return x if self.degraded is None else self.degraded

    def resample(self, y, t, n, generator):
        return y[:, None].repeat_interleave(n, 1) if self.drawn is None else self.drawn


class Leaky:
    """A process that loses a share of every law, or all sense of it."""

    def __init__(self, kept, levels=(0.0, 1.0)):
        self.kept, self.levels = kept, np.array(levels)

    def kernel(self, t):
        return np.eye(4) * self.kept


def curve(sampler, x=None, *, levels=(0.5,), n=2, feature=lambda x: x[:, 0], generator=0):
    start = torch.zeros(3, 1) if x is None else x
    return cw.forward_reverse_curve(sampler, start, levels, n, feature, generator=generator)


def trap(*_, **__):
    raise AssertionError("the arguments were not looked at first")


REFUSED = {
    # Sets of features
    "a mask of bools is no set": (lambda: MIX.sub(np.array([False, True])), TypeError, "bool"),
    "floats are no features": (lambda: MIX.sub([0.0]), TypeError, "integer"),
    "a lone feature": (lambda: MIX.sub(0), TypeError, "subset must be a collection of features"),
    "text as a set": (lambda: MIX.sub("01"), TypeError, "subset must be a collection"),
    "weight of a feature counted from the end": (lambda: MIX.weight([-1]), ValueError, r"0\.\.1"),
    "rest of what is not there": (lambda: MIX.rest([7]), ValueError, r"0\.\.1"),
    # Mixtures and processes
    "alphabet as a float": (lambda: cw.DiscreteMixture([1.0], [[1.0, 0.0]], 2.0, 1), TypeError, "alphabet"),
    "length as a bool": (lambda: cw.DiscreteMixture([1.0], [[1.0, 0.0]], 2, True), TypeError, "length"),
    "an endless power": (lambda: cw.AutoregressiveTruncation(10**7, 3), ValueError, r"enumeration needs 3\^10000000"),
    "strings too short": (lambda: cw.observed_law(MIX, cw.AutoregressiveTruncation(1, 2), [0], 0), ValueError, "proc"),
    "strings too long": (lambda: cw.observed_law(MIX, cw.RandomMasking(3, 2), [0], 0.5), ValueError, "proc"),
    "as many states of another kind": (
        lambda: cw.critical_window(MIX, cw.OrderedMasking([0], 4), [0], [0, 1], 0.1),
        ValueError,
        "proc is on strings of 1 letters out of 4, mix on 2 out of 2",
    ),
    "a law that does not fit": (lambda: PROC.push(np.full(8, 0.125), 1), ValueError, "4 outcomes"),
    "a law that does not fit, masking": (
        lambda: cw.RandomMasking(2, 2).push(np.full(8, 0.125), 1),
        ValueError,
        "4 out",
    ),
    "values that do not fit": (lambda: PROC.pull(np.ones(4), 1), ValueError, "2 outcomes"),
    "values that do not fit, masking": (lambda: cw.RandomMasking(2, 2).pull(np.ones(4), 0.5), ValueError, "9 outcomes"),
    "levels as a float": (lambda: cw.RandomMasking(2, 2, 2.5), TypeError, "n_levels"),
    "masks of bools": (lambda: cw.CoordinateMasking([[True]], 2, 2), TypeError, "bool"),
    "a kernel that loses mass": (lambda: cw.posterior_features(MIX, Leaky(0.5), 0), ValueError, "sum to 1"),
    "a kernel of NaN": (lambda: cw.observed_law(MIX, Leaky(NAN), [0], 0), ValueError, "sum to 1"),
    "no levels": (lambda: cw.critical_window(MIX, Leaky(1.0, ()), [0], [0, 1], 0.1), ValueError, "levels of proc"),
    "levels that fall": (
        lambda: cw.separation_profile(MIX, Leaky(1.0, (1.0, 0.0)), [0], [0, 1]),
        ValueError,
        "levels of proc",
    ),
    # Numbers
    "a distance without a square": (lambda: cw.two_gaussian_distance(1e300, 0.1), ValueError, "mu_norm"),
    "a bias without a square": (lambda: cw.window_random_walk(1000, 1e-300, 0.01), ValueError, "delta"),
    "eps as text": (lambda: cw.theorem2_bound("0.1", 1.0), TypeError, "eps"),
    "eps = True": (lambda: cw.theorem2_bound(True, 1.0), TypeError, "eps"),
    "eps without a square": (lambda: cw.window_two_gaussians(5.0, 1e-170, "exact"), ValueError, "1e-150"),
    "eps without a square, words": (lambda: cw.window_concept_walk(5.0, 0.0, 1e-170), ValueError, "1e-150"),
    "NaN means": (lambda: cw.random_means_width_limit(NAN, 0.1), TypeError, "n_means"),
    "half a place": (lambda: cw.window_masked_diracs(1.5, 0.1), TypeError, "hamming"),
    "NaN places": (lambda: cw.window_masked_diracs(NAN, 0.1), TypeError, "hamming"),
    "NaN places, curve": (lambda: cw.masked_diracs_same(NAN, 0.5), TypeError, "hamming"),
    "component True": (lambda: cw.window_random_means([[0.0], [1.0]], True, 0.1), TypeError, "i must"),
    "endless steps": (lambda: cw.random_walk_tv(INF, 0.1), ValueError, "whole numbers"),
    "endless length": (lambda: cw.window_random_walk(INF, 0.1, 0.01), TypeError, "length"),
    "too many tokens": (lambda: cw.branching_mixture(30, 10, 0), ValueError, "enumeration needs"),
    "NaN tokens": (lambda: cw.branching_mixture(NAN, 1, 0), TypeError, "shared"),
    "endless variance": (lambda: cw.speciation_time(INF), ValueError, "top_eigenvalue"),
    "a sum without end": (
        lambda: cw.gaussian_mixture_posterior([[1e200]], 0.1, [[1e200], [-1e200]]),
        ValueError,
        "too large",
    ),
    "writing over the input": (
        lambda: (lambda y: cw.gaussian_mixture_posterior(y, 0.1, np.eye(2), out=y))(np.eye(2)),
        ValueError,
        "out",
    ),
    "no seed": (lambda: cw.two_gaussian_monte_carlo([1.0], 0.1, 10, seed=None), TypeError, "seed"),
    "a seed of the other kind": (
        lambda: cw.two_gaussian_monte_carlo([1.0], 0.1, 10, seed=torch.Generator()),
        TypeError,
        "numpy Generator",
    ),
    "samples as a float": (lambda: cw.two_gaussian_monte_carlo([1.0], 0.1, 10.5, seed=0), TypeError, "n_samples"),
    "supports as floats": (lambda: cw.all_or_nothing_threshold(16.5, 2, 0.05), TypeError, "size"),
    "endless supports": (
        lambda: cw.sparse_regression_overlap(10**7, 5 * 10**6, 0.1, 2, 2, seed=0),
        ValueError,
        "enumeration needs",
    ),
    # Trees
    "a tree that bites its tail": (
        lambda: cw.MixtureTree((cw.TreeNode(frozenset({0}), 0.0, 0),)),
        ValueError,
        "parent",
    ),
    "a tree without nodes": (lambda: cw.MixtureTree(()), ValueError, "at least one node"),
    "NaN distances": (
        lambda: cw.build_mixture_tree(lambda t: np.full((2, 2), NAN), TV[1], [0.0], 0.1),
        ValueError,
        "NaN",
    ),
    "distances of the wrong shape": (
        lambda: cw.build_mixture_tree(lambda t: np.ones(3), TV[1], [0.0], 0.1),
        ValueError,
        "K, K",
    ),
    "NaN levels": (lambda: cw.build_mixture_tree(*TV, [NAN], 0.1), ValueError, "levels"),
    "a negative tolerance": (lambda: cw.corollary1_checks(MIX, PROC, TREE, 0, -1.0), ValueError, "eps"),
    "a NaN tolerance": (lambda: cw.corollary1_checks(MIX, PROC, TREE, 0, NAN), ValueError, "eps"),
    # Detector
    "half a string": (lambda: cw.MarkovChain([0.5, 0.5], np.eye(2)).sample(2, 1.5, 0), TypeError, "length"),
    "no tokens": (lambda: cw.MarkovChain.random(0, 0), ValueError, "n_tokens"),
    "NaN floor": (lambda: cw.MarkovChain.random(3, 0, floor=NAN), ValueError, "floor"),
    "empty strings": (
        lambda: cw.MarkovChain([0.5, 0.5], np.eye(2)).log_prob(np.empty((2, 0), int)),
        ValueError,
        "T >= 1",
    ),
    # The experiment
    "starts as an array": (lambda: curve(Echo(), np.zeros((3, 1))), TypeError, "x must be a tensor"),
    "no starts": (lambda: curve(Echo(), torch.zeros(0, 1)), ValueError, "at least one"),
    "NaN starts": (lambda: curve(Echo(), torch.full((3, 1), NAN)), ValueError, "x must be finite"),
    "samples as a bool": (lambda: curve(Echo(), n=True), TypeError, "n_samples"),
    "no generator": (lambda: curve(Echo(), generator=None), TypeError, "seed"),
    "degrade loses rows": (lambda: curve(Echo(degraded=torch.zeros(1, 1))), ValueError, "degrade"),
    "resample loses rows": (lambda: curve(Echo(drawn=torch.zeros(1, 1, 1))), ValueError, "resample"),
    "resample forgets an axis": (lambda: curve(Echo(False, drawn=torch.zeros(3, 1))), ValueError, "resample"),
    "resample draws too few": (lambda: curve(Echo(False, drawn=torch.zeros(3, 1, 1))), ValueError, "resample"),
    "resample draws NaN": (lambda: curve(Echo(drawn=torch.full((6, 1, 1), NAN))), ValueError, "NaN"),
    "labels that are NaN": (lambda: curve(Echo(), feature=lambda x: np.full(len(x), NAN)), ValueError, "NaN"),
    "a curve without its levels": (
        lambda: cw.Curve(np.arange(2.0), np.ones((2, 3)), np.ones((2, 3)), 1),
        ValueError,
        "levels",
    ),
    "a curve of NaN": (lambda: cw.detect_windows([NAN, NAN]), ValueError, r"prob must lie in \[0, 1\]"),
    "a NaN threshold": (lambda: cw.detect_windows([0.1, 0.9], jump=NAN), ValueError, "jump"),
    "a NaN drop": (lambda: cw.cw_condition([[0.6]], max_drop=NAN), ValueError, "max_drop"),
    "no fractions": (lambda: cw.fraction_cuts(3, []), ValueError, "fractions"),
    "NaN weights": (lambda: cw.GaussianMixtureSampler(MEANS, torch.tensor([NAN, NAN])), ValueError, "weights"),
    "NaN centres": (lambda: cw.GaussianMixtureSampler(MEANS * NAN), ValueError, "means"),
    "endless spread": (lambda: cw.GaussianMixtureSampler(MEANS, var=INF), ValueError, "var"),
    "half a step": (lambda: cw.GaussianMixtureSampler(MEANS, n_steps=1.5), TypeError, "n_steps"),
    "NaN law of strings": (lambda: cw.ExactDenoiser(TEXT, torch.tensor([NAN]), 3), ValueError, "weights"),
    "strings of floats": (lambda: cw.ExactDenoiser(TEXT.float(), torch.ones(1), 3), TypeError, "strings"),
    "a letter as the mask": (
        lambda: curve(cw.MaskingSampler(cw.ExactDenoiser(TEXT, torch.ones(1), 3), mask=0), TEXT),
        ValueError,
        "mask must lie outside",
    ),
    "an endless level": (
        lambda: curve(cw.AutoregressiveSampler(MODEL), TEXT, levels=[INF]),
        ValueError,
        "whole number",
    ),
    # Language models
    "NaN temperature": (lambda: MODEL.sample(TEXT[:, :1], 2, generator=0, temperature=NAN), ValueError, "temperature"),
    "NaN logits": (lambda: cw.next_token_probabilities(torch.tensor([NAN, 0.0])), ValueError, "logits"),
    "no token possible": (lambda: cw.next_token_probabilities(torch.tensor([-INF, -INF])), ValueError, "logits"),
    "cuts as floats": (lambda: cw.resample_cuts(MODEL, TEXT, [1.7], 2, generator=0), TypeError, "cuts"),
    "the start symbol as a token": (lambda: MODEL.sample(torch.tensor([3]), 2, generator=0), ValueError, r"0\.\.2"),
    "a token below 0": (lambda: cw.resample_cuts(MODEL, TEXT - 1, [1], 2, generator=0), ValueError, r"0\.\.2"),
    "tokens as floats": (lambda: cw.resample_cuts(MODEL, TEXT.float(), [1], 2, generator=0), TypeError, "int64"),
    "an unknown last token": (lambda: MODEL.sequence_log_prob(torch.tensor([[0, 3]])), ValueError, r"0\.\.2"),
    "no strings": (lambda: cw.resample_cuts(MODEL, TEXT[:0], [1], 2, generator=0), ValueError, "at least one string"),
    "context too short": (
        lambda: cw.resample_cuts(
            cw.TinyLM(3, 4, hidden=4, context_size=3), TEXT, [1], 2, generator=0, context=TEXT[:, :2]
        ),
        ValueError,
        "context must have the shape",
    ),
    "steps as a float": (lambda: cw.train_lm(MODEL, trap, steps=1.5), TypeError, "steps"),
    "NaN step size": (lambda: cw.train_lm(MODEL, trap, steps=1, lr=NAN), ValueError, "lr"),
    "a choice twice": (lambda: cw.choice_jump_report([[-1.0, -1.0]], [1, 1]), ValueError, "twice"),
    "a choice between tokens": (lambda: cw.choice_jump_report([[-1.0, -1.0]], [0.7]), TypeError, "choices"),
    "an impossible token": (lambda: cw.choice_jump_report([[-INF, -1.0]], [1]), ValueError, "finite"),
    "half a question": (lambda: ADDER.answer_probability([[1.7, 1]], [[1, 2]]), TypeError, "addends"),
    "half a step of reasoning": (lambda: cw.NoisyAdder(n_steps=1.5), TypeError, "n_steps"),
    "a word that is not there": (lambda: cw.StructuredLanguage().decode([-1]), ValueError, r"0\.\.35"),
    "no text": (lambda: cw.StructuredLanguage().sample(0, 0), ValueError, "n must"),
    # Digits
    "endless bandwidth": (lambda: DigitsMixture(np.eye(2), np.array([0, 1]), INF), ValueError, "bandwidth"),
    "labels as floats": (lambda: DigitsMixture(np.eye(2), np.array([0.0, 1.0]), 0.1), TypeError, "labels"),
    "starts as a float": (
        lambda: DigitsMixture(np.eye(2), np.array([0, 1]), 0.1).sample(1.5, 0),
        TypeError,
        "per_class",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name):
    call, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        call()


def test_a_set_given_twice_over_weighs_once():
    assert MIX.weight([0, 0]) == MIX.weight(np.array([0])) == MIX.weight({0}) == 0.25
    assert MIX.weight([]) == 0.0


def test_a_set_that_can_be_read_only_once_is_read_once():
    once = cw.theorem2_report(MIX, PROC, iter([0]), iter([0, 1]))
    for name, values in cw.theorem2_report(MIX, PROC, [0], [0, 1]).items():
        assert np.array_equal(once[name], values)


@pytest.mark.parametrize("temperature", [1e-300, 1e-320])
def test_a_temperature_of_almost_zero_is_greedy(temperature):
    logits = torch.tensor([0.0, 2.0, 1.0])
    assert cw.next_token_probabilities(logits, temperature).tolist() == [0.0, 1.0, 0.0]


def test_a_false_positive_rate_of_almost_one_accepts_what_beats_the_lowest_negative():
    assert cw.recall_at_fpr([0.5, -1.0], [0.0, 1.0], fpr=1.0 - 1e-12) == 0.5


def test_a_chain_takes_lists_and_keeps_its_own_copy():
    rows = np.array([[0.5, 0.5], [0.0, 1.0]])
    chain = cw.MarkovChain([1.0, 0.0], rows)
    rows[:] = 7.0
    assert chain.log_prob([[0, 1]]) == pytest.approx([math.log(0.5)])
    assert chain.sample(2, 3, 0).shape == (2, 3)


@pytest.mark.parametrize("mu", [20.0, 1e3, 1e6])
def test_the_distance_of_two_gaussians_is_resolved_however_far_apart_they_are(mu):
    near = cw.two_gaussian_distance(8.0, math.log(8.0))
    assert cw.two_gaussian_distance(mu, math.log(mu)) == pytest.approx(near, rel=2e-3)


def test_next_to_no_noise_leaves_the_true_support_alone():
    mean, error = cw.sparse_regression_overlap(6, 2, 1e-320, 3, 4, seed=0)
    assert mean.tolist() == [1.0] * 3
    assert not error.any()


def test_a_strong_concept_does_not_overflow():
    window = cw.window_concept_walk(1e200, 0.0, 0.1)
    assert window.t_before == pytest.approx(200 * math.log(10) + 0.5 * math.log(10))


def test_curves_that_do_not_rise_have_no_share_elsewhere():
    report = cw.choice_jump_report(np.zeros((1, 3)), [1])
    assert report["elsewhere"].tolist() == [0.0]
    assert report["exact"].tolist() == [False]


def test_inputs_and_global_seeds_stay_as_they_were():
    weights, laws = np.array([0.25, 0.75]), np.array([[1.0, 0, 0, 0], [0, 0, 0, 1.0]])
    x, tokens, points = torch.zeros(3, 1), TEXT.clone(), np.eye(2)
    before = np.random.get_state()[1].copy(), torch.random.get_rng_state()  # noqa: NPY002
    mix = cw.DiscreteMixture(weights, laws, 2, 2)
    for proc in (PROC, cw.RandomMasking(2, 2, 3)):
        cw.theorem2_report(mix, proc, [0], [0, 1])
    curve(cw.GaussianMixtureSampler(MEANS), x)
    cw.resample_cuts(MODEL, tokens, [1], 2, generator=0)
    cw.TinyTransformer(3, 4, width=4, heads=1)
    cw.gaussian_mixture_posterior(points, 0.1, points)
    cw.StructuredLanguage().sample(2, 0)
    assert np.array_equal(before[0], np.random.get_state()[1])  # noqa: NPY002
    assert torch.equal(before[1], torch.random.get_rng_state())
    assert weights.tolist() == [0.25, 0.75]
    assert laws.sum() == 2.0
    assert not x.any()
    assert torch.equal(tokens, TEXT)
    assert np.array_equal(points, np.eye(2))
