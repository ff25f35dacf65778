"""Localization on finite spaces: laws against a brute-force double sum, Theorem 2 step by step, windows, bad input."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from icml25.theory.critical_windows import (
    AutoregressiveTruncation,
    CoordinateMasking,
    CriticalWindow,
    DiscreteMixture,
    ObservationProcess,
    OrderedMasking,
    RandomMasking,
    bhattacharyya,
    branching_mixture,
    check_markov_monotone,
    critical_window,
    data_processing_step,
    forward_reverse_law,
    hellinger_sq,
    leak_chain,
    lemma1_bound,
    lemma7_bound,
    observed_law,
    posterior_features,
    posterior_overlap,
    separation_profile,
    sharp_overlap_bound,
    theorem2_bound,
    theorem2_report,
    total_variation,
    weight_ratio,
    window_masked_diracs,
)

many = settings(max_examples=60, deadline=None, derandomize=True)


def random_mixture(seed, n_features=3, length=4, alphabet=2, concentration=0.3, weights=None):
    rng = np.random.default_rng(seed)
    if weights is None:
        weights = rng.dirichlet(np.full(n_features, 2.0))
    states = alphabet**length
    return DiscreteMixture(weights, rng.dirichlet(np.full(states, concentration), n_features), alphabet, length)


def processes(length=4, alphabet=2):
    return [
        AutoregressiveTruncation(length, alphabet),
        RandomMasking(length, alphabet, n_levels=6),
        OrderedMasking([2, 0, 3, 1][:length] if length == 4 else list(range(length)), alphabet),
    ]


@st.composite
def two_laws(draw, size=6):
    rows = draw(
        st.lists(st.lists(st.sampled_from([0.0, 0.1, 1.0, 3.0]), min_size=size, max_size=size), min_size=2, max_size=2)
    )
    laws = np.array(rows)
    laws[laws.sum(1) == 0] = 1.0
    return laws / laws.sum(1, keepdims=True)


# Distances ------------------------------------------------------------------------------------------------------------


@many
@given(two_laws())
def test_distances_and_lemmas_hold_on_laws_with_zeros(laws):
    p, q = laws
    tv, affinity, overlap = total_variation(p, q), bhattacharyya(p, q), posterior_overlap(p, q)
    assert 1 - affinity - 1e-12 <= tv <= math.sqrt(max(0.0, 1 - affinity**2)) + 1e-7
    assert hellinger_sq(p, q) == pytest.approx(2 - 2 * affinity, abs=1e-12)
    brute = sum(a * b / (a + b) for a, b in zip(p, q, strict=True) if a + b > 0)
    assert overlap == pytest.approx(brute, abs=1e-14)
    assert overlap <= sharp_overlap_bound(tv) + 1e-12
    assert sharp_overlap_bound(tv) <= lemma1_bound(tv) + 1e-12
    assert overlap <= lemma7_bound(affinity) + 1e-12


def test_sharp_lemma_is_attained_where_the_posterior_is_constant_in_size():
    p, q = np.array([0.8, 0.2]), np.array([0.2, 0.8])
    assert posterior_overlap(p, q) == pytest.approx(sharp_overlap_bound(total_variation(p, q)), abs=1e-15)


def test_bounds_known_values():
    assert lemma1_bound(0.6) == pytest.approx(0.4)
    assert sharp_overlap_bound([0.0, 0.6, 1.0]) == pytest.approx([0.5, 0.32, 0.0])
    assert lemma7_bound(0.5) == 0.25


def test_distances_along_an_axis_and_known_values():
    p = np.array([[0.5, 0.5], [1.0, 0.0]])
    q = np.array([0.25, 0.75])
    assert total_variation(p, q) == pytest.approx([0.25, 0.75])
    assert total_variation(p.T, q[:, None], axis=0) == pytest.approx([0.25, 0.75])
    assert bhattacharyya(p, q) == pytest.approx([math.sqrt(0.125) + math.sqrt(0.375), 0.5])


def test_hellinger_keeps_digits_for_laws_that_nearly_agree():
    h = 1e-9
    # H^2 of (1/2 + h, 1/2 - h) against (1/2, 1/2) is h^2 to leading order: 1e-18, which 2 - 2 BC rounds away.
    assert hellinger_sq([0.5 + h, 0.5 - h], [0.5, 0.5]) == pytest.approx(h**2, rel=1e-6, abs=0.0)


# Laws -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("proc", processes(), ids=lambda p: type(p).__name__)
def test_kernel_rows_sum_to_one_and_agree_with_push_and_pull(proc):
    rng = np.random.default_rng(0)
    for t in proc.levels:
        kernel = proc.kernel(t)
        assert np.asarray(kernel.sum(1)).ravel() == pytest.approx(1.0, abs=1e-14)
        laws = rng.dirichlet(np.ones(16), 3)
        values = rng.standard_normal((2, kernel.shape[1]))
        assert proc.push(laws, t) == pytest.approx(laws @ kernel, abs=1e-14)
        assert proc.pull(values, t) == pytest.approx((kernel @ values.T).T, abs=1e-13)
        assert proc.push(laws[0], t).shape == (kernel.shape[1],)


def test_processes_are_what_they_say():
    # x = 0b10 = (1, 0): truncation to one token keeps the first; the order [0, 1] hides the first.
    law = np.eye(4)[2]
    assert AutoregressiveTruncation(2, 2).push(law, 1).tolist() == [0.0, 1.0]
    assert AutoregressiveTruncation(3, 2).order == (2, 1, 0)
    assert OrderedMasking([0, 1], 2).push(law, 1).tolist() == [1.0, 0.0]
    masked = RandomMasking(2, 2).push(law, 0.25).reshape(3, 3)
    assert masked[1, 0] == pytest.approx(0.75**2)
    assert masked[2, 0] == pytest.approx(0.25 * 0.75)
    assert masked[2, 2] == pytest.approx(0.25**2)


@pytest.mark.parametrize("alphabet", [2, 3])
@pytest.mark.parametrize("process", [AutoregressiveTruncation, RandomMasking])
def test_forward_reverse_law_equals_the_double_sum(process, alphabet):
    mix = random_mixture(1, length=3, alphabet=alphabet)
    proc = process(3, alphabet)
    for t in proc.levels[[0, 1, -2, -1]]:
        kernel = proc.kernel(t).toarray()
        start, prior = mix.sub([0, 2]), mix.weights @ mix.components
        expected = np.zeros_like(prior)
        for x in range(len(prior)):
            for y in range(kernel.shape[1]):
                evidence = sum(prior[z] * kernel[z, y] for z in range(len(prior)))
                if evidence > 0:
                    expected += start[x] * kernel[x, y] * prior * kernel[:, y] / evidence
        assert forward_reverse_law(mix, proc, [0, 2], t) == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("proc", processes(), ids=lambda p: type(p).__name__)
def test_ends_and_mean_of_the_forward_reverse_law(proc):
    mix = random_mixture(2)
    first, last = proc.levels[0], proc.levels[-1]
    assert forward_reverse_law(mix, proc, [1], first) == pytest.approx(mix.sub([1]), abs=1e-13)
    assert forward_reverse_law(mix, proc, [1], last) == pytest.approx(mix.law, abs=1e-13)
    for t in proc.levels:  # Remark 2, for the partition {0, 2}, {1}
        mean = sum(mix.weight(s) * forward_reverse_law(mix, proc, s, t) for s in ([0, 2], [1]))
        assert mean == pytest.approx(mix.law, abs=1e-12)


@pytest.mark.parametrize("proc", processes(), ids=lambda p: type(p).__name__)
def test_total_variations_fall_with_the_level(proc):
    for seed in range(5):
        mix = random_mixture(seed)
        profile = separation_profile(mix, proc, [0], [0, 1])
        assert (np.diff(profile["tv_merge"]) <= 1e-12).all()
        assert (np.diff(profile["tv_separate"]) <= 1e-12).all()
        assert check_markov_monotone(mix, proc) == []
        assert check_markov_monotone(mix, proc, [0, 2]) == []


def test_posterior_of_the_features():
    mix = random_mixture(3)
    proc = AutoregressiveTruncation(4, 2)
    posterior = posterior_features(mix, proc, 2)
    evidence = np.stack([mix.weights[k] * observed_law(mix, proc, [k], 2) for k in range(3)], 1)
    assert posterior == pytest.approx(evidence / evidence.sum(1, keepdims=True), abs=1e-14)
    assert posterior_features(mix, proc, 4) == pytest.approx(mix.weights[None])


def test_unreachable_observations_get_the_prior_and_no_nan():
    mix = DiscreteMixture([0.25, 0.75], [[1, 0, 0, 0], [0, 1, 0, 0]], 2, 2)
    posterior = posterior_features(mix, AutoregressiveTruncation(2, 2), 0)
    assert posterior.tolist() == [[1.0, 0.0], [0.0, 1.0], [0.25, 0.75], [0.25, 0.75]]


def test_wrong_reverse_prior_never_forgets():
    """Negative control N1: restored with the sub-mixture as prior, the start stays in its mode at every level."""
    mix = branching_mixture(1, 3, 1, agreement=0.95)
    proc = AutoregressiveTruncation(5, 2)
    for t in proc.levels:
        wrong = forward_reverse_law(mix, proc, [0], t, reverse_prior=[0])
        assert wrong == pytest.approx(mix.sub([0]), abs=1e-13)
    assert total_variation(forward_reverse_law(mix, proc, [0], 5), mix.sub([0])) > 0.4


def test_process_with_a_kernel_alone_gives_the_same():
    class KernelOnly:
        def __init__(self, proc):
            self.levels, self.proc = proc.levels, proc

        def kernel(self, t):
            return self.proc.kernel(t)

    mix, full = random_mixture(4), AutoregressiveTruncation(4, 2)
    bare = KernelOnly(full)
    assert isinstance(bare, ObservationProcess)
    for key, values in theorem2_report(mix, full, [0], [0, 1]).items():
        assert theorem2_report(mix, bare, [0], [0, 1])[key] == pytest.approx(values, abs=1e-12)
    assert critical_window(mix, bare, [0], [0, 1, 2], 0.4) == critical_window(mix, full, [0], [0, 1, 2], 0.4)


def test_information_that_comes_back_is_reported():
    """Negative control N2: fresh, unrelated masks are no Markov degradation."""
    mix = DiscreteMixture([0.5, 0.5], np.eye(4)[[0, 1]], 2, 2)  # the modes differ in the second bit alone
    fresh = CoordinateMasking([[], [1], [0], [0, 1]], 2, 2)
    (rise,) = check_markov_monotone(mix, fresh)
    assert (rise.t, rise.t_next, rise.increase) == (1.0, 2.0, 1.0)
    assert check_markov_monotone(mix, fresh, [0])[0].increase == 1.0
    assert check_markov_monotone(mix, CoordinateMasking([[], [1], [0, 1]], 2, 2)) == []


# Theorem 2 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("proc", processes(), ids=lambda p: type(p).__name__)
def test_every_inequality_of_the_proof(proc):
    for seed in range(12):
        mix = random_mixture(seed, concentration=0.05, weights=[[0.7, 0.2, 0.1], [0.05, 0.15, 0.8]][seed % 2])
        for target in ([0], [0, 1], [0, 1, 2]):
            for t in proc.levels:
                left, right = data_processing_step(mix, proc, [0], target, t)
                assert left <= right + 1e-12
                chain = leak_chain(mix, proc, target, t)
                for smaller, larger in pairwise(chain):
                    assert smaller <= larger + 1e-12


def test_leak_is_the_posterior_mass_of_the_rest():
    mix, proc = random_mixture(5, weights=[0.1, 0.3, 0.6]), AutoregressiveTruncation(4, 2)
    for t in (1, 2, 3):
        seen = observed_law(mix, proc, [0, 1], t)
        expected = seen @ posterior_features(mix, proc, t)[:, 2]
        assert leak_chain(mix, proc, [0, 1], t).leak == pytest.approx(expected, abs=1e-14)
    assert weight_ratio(mix, [0, 1]) == pytest.approx(1.5)


@pytest.mark.parametrize("weights", [None, [0.9, 0.05, 0.05], [0.02, 0.03, 0.95]])
def test_theorem2_on_random_mixtures(weights):
    tightest = 0.0
    proc = AutoregressiveTruncation(5, 2)
    for seed in range(40):
        mix = random_mixture(seed, length=5, concentration=0.05, weights=weights)
        for target in ([0], [0, 1], [0, 1, 2]):
            report = theorem2_report(mix, proc, [0], target)
            for bound in ("paper", "sharp", "sharp_tv"):
                assert (report["lhs"] <= report[bound] + 1e-12).all()
            assert (report["sharp_tv"] <= report["sharp"] + 1e-12).all()
            if len(target) < 3:
                tightest = max(tightest, (report["lhs"][1:] / report["sharp_tv"][1:]).max())
    assert tightest > 0.5, "a bound that is never near attained would prove little"


def test_theorem2_fails_for_another_start():
    """The left-hand side of S_init = {2} breaks the bound that belongs to {0}: the check can fail."""
    proc = AutoregressiveTruncation(6, 2)
    broken = 0
    for seed in range(30):
        mix = random_mixture(seed, length=6, concentration=0.05, weights=[1 / 3] * 3)
        bound = theorem2_report(mix, proc, [0], [0, 1])["paper"]
        wrong = [total_variation(forward_reverse_law(mix, proc, [2], t), mix.sub([0, 1])) for t in proc.levels]
        broken += bool((np.array(wrong) > bound + 1e-12).any())
    assert broken > 8


@many
@given(eps=st.floats(1e-6, 1 - 1e-6), ratio=st.floats(0.0, 50.0))
def test_bound_forms(eps, ratio):
    paper, sharp = theorem2_bound(eps, ratio), theorem2_bound(eps, ratio, form="sharp")
    if ratio == 0.0:
        assert paper == sharp == eps
    else:
        scale = max(1.0, ratio)
        assert paper == pytest.approx(eps * (1 + scale / math.sqrt(2)))
        assert sharp == pytest.approx(eps + scale * (eps**2 - eps**4 / 2))
        assert sharp < paper


def test_target_of_everything():
    mix, proc = random_mixture(6), RandomMasking(4, 2)
    report = theorem2_report(mix, proc, [1], [0, 1, 2])
    assert (report["tv_separate"] == 1.0).all()
    assert report["paper"] == pytest.approx(report["eps"])
    assert report["eps"] == pytest.approx(report["tv_merge"])
    assert leak_chain(mix, proc, [0, 1, 2], 0.5)[1:] == (0.0, 0.0, 0.0, 0.0)


# Windows --------------------------------------------------------------------------------------------------------------


def brute_window(mix, proc, after, before, eps):
    """Definition 4 read off level by level."""
    rest = lambda s: [k for k in range(mix.n_features) if k not in s]
    tv = lambda a, b, t: total_variation(observed_law(mix, proc, a, t), observed_law(mix, proc, b, t))
    tight = 1e-12
    merged = [
        t
        for t in proc.levels
        if tv(after, before, t) <= eps + tight
        and (not rest(before) or tv(before, rest(before), t) >= 1 - eps**2 - tight)
    ]
    known = [t for t in proc.levels if tv(after, rest(after), t) >= 1 - eps**2 - tight]
    return (max(known), min(merged)) if known and merged else None


@pytest.mark.parametrize("process", [AutoregressiveTruncation, OrderedMasking])
def test_window_equals_definition_4_read_off(process):
    proc = process(5, 2) if process is AutoregressiveTruncation else process([3, 0, 4, 1, 2], 2)
    found = 0
    for seed in range(60):
        weights = [[0.6, 0.3, 0.1], [0.1, 0.1, 0.8], [0.45, 0.1, 0.45]][seed % 3]
        mix = random_mixture(seed, length=5, concentration=0.03, weights=weights)
        for before in ([0, 1], [0, 1, 2]):
            window = critical_window(mix, proc, [0], before, 0.35)
            expected = brute_window(mix, proc, [0], before, 0.35)
            assert window.exists == (expected is not None)
            if expected is None:
                assert math.isnan(window.t_after)
                assert math.isnan(window.t_before)
            else:
                found += 1
                assert (window.t_after, window.t_before) == expected
    assert found > 20


@pytest.mark.parametrize("weight", [0.5, 0.2, 0.7])
def test_masking_window_by_bisection_equals_the_closed_form(weight):
    strings = np.eye(3**3)[[0, 13]]  # 000 and 111: Hamming distance 3
    mix = DiscreteMixture([weight, 1 - weight], strings, 3, 3)
    window = critical_window(mix, RandomMasking(3, 3, n_levels=4), [0], [0, 1], 0.1)
    exact = window_masked_diracs(3, 0.1, form="exact", weight=weight)
    assert (window.t_after, window.t_before) == pytest.approx((exact.t_after, exact.t_before), abs=1e-9)


@pytest.mark.parametrize("split", [1, 3])
def test_critical_tokens_are_where_the_modes_split(split):
    shared, after = 2, 2
    length = shared + split + after
    mix = branching_mixture(shared, split, after)
    window = critical_window(mix, AutoregressiveTruncation(length, 2), [0], [0, 1], 0.1)
    # With certain tokens the first of the split tokens tells the modes apart.
    assert (window.t_after, window.t_before) == (length - shared - 1, length - shared)


def test_noisy_critical_tokens_need_all_of_the_split():
    # TV is 0.8 after one or two of the split tokens and 0.944 after three; the window asks for 1 - 0.3^2 = 0.91.
    proc = AutoregressiveTruncation(7, 2)
    window = critical_window(branching_mixture(2, 3, 2, agreement=0.9), proc, [0], [0, 1], 0.3)
    assert (window.t_after, window.t_before) == (2.0, 5.0)
    assert window.width == 3.0


def test_no_window_where_the_modes_never_separate():
    window = critical_window(
        branching_mixture(1, 1, 1, agreement=0.6), AutoregressiveTruncation(3, 2), [0], [0, 1], 0.1
    )
    assert window == CriticalWindow(window.t_after, window.t_before, False, 0.1)
    assert math.isnan(window.t_after)
    assert math.isnan(window.t_before)
    assert math.isnan(window.width)


def test_no_window_where_the_larger_set_has_merged_first():
    # Features 0 and 1 differ in the first token and together differ from 2 in the last: under truncation {0, 1} has
    # merged with 2 before 0 merges with 1.
    mix = DiscreteMixture([0.4, 0.3, 0.3], [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0.5, 0, 0.5]], 2, 2)
    assert critical_window(mix, AutoregressiveTruncation(2, 2), [0], [0, 1], 0.1).exists is False
    assert critical_window(mix, OrderedMasking([0, 1], 2), [0], [0, 1], 0.1).exists is True


def test_heavy_component_can_merge_while_it_still_stands_out():
    mix = DiscreteMixture([0.95, 0.05], np.eye(2), 2, 1)
    window = critical_window(mix, AutoregressiveTruncation(1, 2), [0], [0, 1], 0.1)
    assert (window.t_after, window.t_before) == (0.0, 0.0)
    late = critical_window(
        DiscreteMixture([0.95, 0.05], np.eye(4)[[0, 2]], 2, 2), AutoregressiveTruncation(2, 2), [0], [0, 1], 0.1
    )
    assert late.width == -1.0


def test_a_feature_of_weight_zero_changes_nothing():
    mix = random_mixture(7, weights=[0.4, 0.6, 0.0])
    smaller = DiscreteMixture([0.4, 0.6], mix.components[:2], 2, 4)
    proc = AutoregressiveTruncation(4, 2)
    assert critical_window(mix, proc, [0], [0, 1], 0.4) == critical_window(smaller, proc, [0], [0, 1], 0.4)
    assert weight_ratio(mix, [0, 1]) == 0.0


# Bad input ------------------------------------------------------------------------------------------------------------

MIX = DiscreteMixture([0.5, 0.3, 0.2], np.eye(4)[:3], 2, 2)
AR = AutoregressiveTruncation(2, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: DiscreteMixture([0.5, 0.6], np.eye(2), 2, 1),
            r"weights must be non-negative and sum to 1 \(got sum=1.1",
        ),
        (lambda: DiscreteMixture([1.5, -0.5], np.eye(2), 2, 1), "weights must be non-negative"),
        (lambda: DiscreteMixture([math.nan, 1.0], np.eye(2), 2, 1), "weights must be non-negative"),
        (lambda: DiscreteMixture([0.5, 0.5], np.eye(3), 2, 1), r"components must have the shape \(2, 2\)"),
        (lambda: DiscreteMixture([0.5, 0.5], np.ones((2, 2)), 2, 1), "each row of components"),
        (
            lambda: DiscreteMixture([1.0], np.ones((1, 1)), 2, 23),
            "enumeration needs 8388608 states; use the Monte Carlo",
        ),
        (lambda: DiscreteMixture([1.0], np.ones((1, 1)), 0, 1), "alphabet must be at least 1"),
        (lambda: AutoregressiveTruncation(30, 2), "enumeration needs 1073741824 states"),
        (lambda: RandomMasking(15, 2), "enumeration needs 14348907 states"),
        (lambda: RandomMasking(3, 2, n_levels=1), "n_levels must be at least 2"),
        (lambda: RandomMasking(3, 1), "alphabet must be at least 2"),
        (lambda: OrderedMasking([0, 2], 2), "order must be a permutation of 0..1"),
        (lambda: CoordinateMasking([[5]], 2, 2), "masks must be a non-empty list of sets"),
        (lambda: observed_law(MIX, AR, [], 0), "subset is empty"),
        (lambda: observed_law(MIX, AR, [3], 0), r"subset = \[3\] must name features out of 0..2"),
        (lambda: observed_law(MIX, AR, [0], 7), "t must be one of the levels 0..2"),
        (lambda: observed_law(MIX, RandomMasking(2, 2), [0], 1.5), r"t must lie in \[0, 1\]"),
        (lambda: observed_law(MIX, RandomMasking(2, 2), [0], math.nan), r"t must lie in \[0, 1\]"),
        (lambda: separation_profile(MIX, AR, [2], [0, 1]), r"s_init = \[2\] must lie inside s_target = \[0, 1\]"),
        (lambda: critical_window(MIX, AR, [0], [0], 0.1), r"s_after = \[0\] must lie strictly inside s_before = \[0\]"),
        (lambda: critical_window(MIX, AR, [0, 2], [0, 1], 0.1), "must lie strictly inside"),
        (lambda: critical_window(MIX, AR, [], [0, 1], 0.1), "s_after is empty"),
        (lambda: critical_window(MIX, AR, [0], [0, 1], 0.0), r"eps must lie in \(0, 1\), got 0.0"),
        (lambda: critical_window(MIX, AR, [0], [0, 1], 1.0), r"eps must lie in \(0, 1\)"),
        (lambda: theorem2_bound(1.5, 1.0), r"eps must lie in \(0, 1\), got 1.5"),
        (lambda: theorem2_bound(0.1, -1.0), "weight_ratio must be finite and at least 0"),
        (lambda: theorem2_bound(0.1, 1.0, form="tight"), "form must be 'paper' or 'sharp'"),
        (lambda: forward_reverse_law(MIX, AR, [0], 0, reverse_prior=[1]), "reverse_prior explains only 0 of"),
        (lambda: check_markov_monotone(MIX, AR, [0, 1, 2]), "leaves no rest"),
        (
            lambda: total_variation([0.5, 0.6], [0.5, 0.5]),
            "p must sum to 1 along axis -1 within 1e-8, it is off by 0.1",
        ),
        (lambda: total_variation([0.5, 0.5], [1.5, -0.5]), "q must be non-negative"),
        (lambda: total_variation([0.5, math.nan], [0.5, 0.5]), "p must be non-negative and not NaN"),
        (lambda: total_variation([1.0], [0.5, 0.5]), "as many outcomes, got 1 and 2"),
        (lambda: total_variation(1.0, 1.0), "has no axis"),
        (lambda: total_variation(np.full((2, 2), 0.5), np.full((3, 2), 0.5)), "must broadcast"),
        (lambda: lemma1_bound(1.2), r"tv must lie in \[0, 1\]"),
        (lambda: lemma7_bound(-0.1), r"affinity must lie in \[0, 1\]"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_set_of_weight_zero_has_no_law():
    mix = DiscreteMixture([1.0, 0.0], np.eye(2), 2, 1)
    with pytest.raises(ValueError, match=r"subset = \[1\] has weight 0"):
        mix.sub([1])
    with pytest.raises(ValueError, match="carries all the weight"):
        critical_window(mix, AutoregressiveTruncation(1, 2), [0], [0, 1], 0.1)


def test_mixtures_cannot_be_changed_from_outside():
    weights = np.array([0.5, 0.5])
    mix = DiscreteMixture(weights, np.eye(2), 2, 1)
    weights[0] = 9.0
    assert mix.weights.tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="read-only"):
        mix.weights[0] = 1.0


def test_kernels_are_sparse():
    assert sparse.issparse(RandomMasking(6, 2).kernel(0.5))
    assert AutoregressiveTruncation(10, 2).kernel(5).nnz == 2**10
