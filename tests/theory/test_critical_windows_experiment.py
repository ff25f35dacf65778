"""The forward-reverse experiment: curves of the three samplers against exact laws, and windows in curves."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import erf
from scipy.stats import kstest

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
from icml25.theory.critical_windows.gaussian import gaussian_mixture_posterior, two_gaussian_same_mode
from icml25.theory.critical_windows.language import TinyLM, suffix_curve

N = 4000


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def two_gaussians(norm=5.0, d=3, **kwargs):
    mu = torch.zeros(1, d, dtype=torch.float64)
    mu[0, 0] = norm
    return GaussianMixtureSampler(torch.cat([mu, -mu]), **kwargs)


def within(curve, expected, se=4.0):
    expected = np.asarray(expected)
    return bool((np.abs(curve.prob - expected) <= se * np.sqrt(expected * (1 - expected) / curve.n_samples)).all())


# Gaussian mixtures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "n_steps"), [("exact", 1), ("sde", 200)])
def test_two_gaussians_agree_with_the_quadrature(method, n_steps):
    """Claim C4: P(same) at three levels around ln 5."""
    sampler = two_gaussians(method=method, n_steps=n_steps)
    levels = math.log(5) + np.array([-0.57, 0.14, 0.86])
    # A start is drawn for each repetition, as the law p^+ of the forward-reverse experiment asks.
    starts = sampler.means[0] + torch.randn(N, 3, dtype=torch.float64, generator=generator(5))
    curve = forward_reverse_curve(sampler, starts, levels, 1, sampler.component, generator=3)
    mean = Curve(levels, curve.prob.mean(0), curve.prob.mean(0), N)
    assert within(mean, [two_gaussian_same_mode(5.0, t) for t in levels])
    assert within(mean, [0.9427, 0.7313, 0.5773])


@pytest.mark.parametrize("var", [0.25, 1.0, 2.0])
@pytest.mark.parametrize("method", ["exact", "sde"])
def test_restoring_from_noise_gives_the_mixture(var, method):
    """From pure noise the reverse process draws the model itself, whatever the start."""
    means = torch.tensor([[-2.0], [1.0]], dtype=torch.float64)
    weights = torch.tensor([0.3, 0.7], dtype=torch.float64)
    sampler = GaussianMixtureSampler(means, weights, var=var, method=method, n_steps=400)
    t = 6.0
    y = sampler.degrade(torch.full((N, 1), 9.0, dtype=torch.float64), t, generator(1))
    x = sampler.resample(y, t, 1, generator(2)).flatten().numpy()
    cdf = lambda z: sum(w * 0.5 * (1 + erf((z - m) / math.sqrt(2 * var))) for w, m in ((0.3, -2.0), (0.7, 1.0)))
    assert kstest(x, cdf).pvalue > 1e-3


def test_exact_and_sde_restore_the_same_posterior():
    y, t = torch.tensor([[0.7]], dtype=torch.float64), 0.8
    means, weights = torch.tensor([[-1.5], [1.0]], dtype=torch.float64), torch.tensor([0.4, 0.6])
    draws = []
    for method in ("exact", "sde"):
        sampler = GaussianMixtureSampler(means, weights, var=0.5, method=method, n_steps=400)
        draws.append(sampler.resample(y, t, 20_000, generator(4)).flatten())
    # Posterior mean and variance by quadrature over x.
    x = torch.linspace(-8, 8, 20_001, dtype=torch.float64)
    prior = sum(w * torch.exp(-((x - m) ** 2)) for w, m in ((0.4, -1.5), (0.6, 1.0)))
    density = prior * torch.exp(-((y[0, 0] - math.exp(-t) * x) ** 2) / (2 * (1 - math.exp(-2 * t))))
    density /= density.sum()
    mean = (density * x).sum()
    var = (density * (x - mean) ** 2).sum()
    for drawn in draws:
        assert drawn.mean().item() == pytest.approx(mean.item(), abs=4.5 * math.sqrt(var / 20_000) + 0.004)
        assert drawn.var().item() == pytest.approx(var.item(), rel=0.05)


@pytest.mark.parametrize("t", [0.0, 0.3, 2.0, math.inf])
def test_posterior_is_the_library_s(t):
    rng = np.random.default_rng(0)
    means, y, weights = rng.normal(size=(4, 3)), rng.normal(size=(6, 3)), np.array([0.1, 0.2, 0.3, 0.4])
    sampler = GaussianMixtureSampler(torch.tensor(means), torch.tensor(weights), var=0.6)
    expected = gaussian_mixture_posterior(y, t, means, weights, 0.6)
    np.testing.assert_allclose(sampler.posterior(torch.tensor(y), t).numpy(), expected, atol=1e-12)


def test_score_is_the_gradient_of_the_log_density():
    sampler = GaussianMixtureSampler(torch.tensor([[1.0, 0.0], [-2.0, 1.0]]).double(), var=0.7)
    y, t = torch.tensor([[0.3, -0.4]], dtype=torch.float64, requires_grad=True), 0.5
    shrink, spread = math.exp(-t), math.exp(-2 * t) * 0.7 + 1 - math.exp(-2 * t)
    density = torch.exp(-((y - shrink * sampler.means) ** 2).sum(1) / (2 * spread)).sum()
    (gradient,) = torch.autograd.grad(density.log(), y)
    torch.testing.assert_close(sampler.score(y.detach(), t), gradient)


def test_clean_and_noise_ends():
    sampler = two_gaussians()
    x = sampler.sample(10, generator())
    assert torch.equal(sampler.degrade(x, 0.0, generator()), x)
    torch.testing.assert_close(sampler.resample(x, 0.0, 2, generator()), x[:, None].expand(-1, 2, -1))
    assert sampler.degrade(x, math.inf, generator()).abs().max() < 6
    one = forward_reverse_curve(sampler, sampler.means[0], [math.inf], N, sampler.component, generator=0)
    assert within(one, [0.5])


@pytest.mark.parametrize("t", [0.2, 1.0])
def test_degraded_copy_is_the_ornstein_uhlenbeck_one(t):
    sampler = two_gaussians()
    y = sampler.degrade(torch.full((20_000, 3), 2.0, dtype=torch.float64), t, generator())
    noise = y - 2.0 * math.exp(-t)
    assert noise.mean().item() == pytest.approx(0.0, abs=4.5 / math.sqrt(60_000))
    assert noise.var().item() == pytest.approx(1 - math.exp(-2 * t), rel=4.5 * math.sqrt(2 / 60_000))


# Masking --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("h", [4, 16])
def test_two_strings_agree_with_the_closed_form(h):
    """Claim C6: P(same string) = 1 - t^h / 2."""
    strings = torch.stack([torch.zeros(h, dtype=torch.int64), torch.ones(h, dtype=torch.int64)])
    sampler = MaskingSampler(ExactDenoiser(strings, torch.tensor([0.5, 0.5]), 2), mask=2)
    levels = np.array([0.3, 0.8, 0.95, 1.0])
    curve = forward_reverse_curve(sampler, strings[0], levels, N, lambda x: x[:, 0], generator=1)
    assert within(curve, 1 - levels**h / 2)


@pytest.mark.parametrize("t", [0.5, 1.0])
def test_unmasking_draws_the_posterior_of_any_law(t):
    rng = np.random.default_rng(1)
    strings = torch.tensor(list(itertools.product(range(3), repeat=3)))
    law = rng.dirichlet(np.full(27, 0.4))
    sampler = MaskingSampler(ExactDenoiser(strings, torch.tensor(law), 3), mask=-1)
    x = strings[int(law.argmax())]
    drawn = sampler.resample(sampler.degrade(x.expand(N * 5, -1), t, generator()), t, 1, generator(1))[:, 0]
    share = np.bincount((drawn * torch.tensor([9, 3, 1])).sum(1), minlength=27) / len(drawn)
    expected = np.zeros(27)
    for hidden in itertools.product([False, True], repeat=3):
        agree = np.array([all(h or a == b for h, a, b in zip(hidden, s, x, strict=True)) for s in strings])
        weight = t ** sum(hidden) * (1 - t) ** (3 - sum(hidden))
        expected += weight * law * agree / (law * agree).sum()
    assert (np.abs(share - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / len(drawn)) + 1e-3).all()


def test_several_coordinates_at_a_time_are_drawn_as_if_independent():
    strings = torch.tensor([[0, 0], [1, 1]])
    denoiser = ExactDenoiser(strings, torch.tensor([0.5, 0.5]), 2)
    masked = torch.full((N, 2), 2)
    one = MaskingSampler(denoiser, 2).resample(masked, 1.0, 1, generator())[:, 0]
    two = MaskingSampler(denoiser, 2, per_step=2).resample(masked, 1.0, 1, generator())[:, 0]
    assert (one[:, 0] == one[:, 1]).all()
    assert (two[:, 0] == two[:, 1]).double().mean().item() == pytest.approx(0.5, abs=4.5 * 0.5 / math.sqrt(N))
    assert set(two.unique().tolist()) == {0, 1}


def test_masked_share_is_t_and_nothing_else_changes():
    sampler = MaskingSampler(lambda y: y, mask=9)
    x = torch.arange(5).expand(N, -1)
    y = sampler.degrade(x, 0.3, generator())
    hidden = y == 9
    assert hidden.double().mean().item() == pytest.approx(0.3, abs=4.5 * math.sqrt(0.21 / (5 * N)))
    assert torch.equal(y[~hidden], x[~hidden])


# Autoregression -------------------------------------------------------------------------------------------------------


class LoopSampler:
    """The experiment's plain path: one call per level, for comparison with the sweep."""

    stochastic = False

    def __init__(self, inner):
        self.degrade, self.resample = inner.degrade, inner.resample


@pytest.mark.parametrize("plain", [False, True])
def test_language_model_curve_is_the_suffix_probability(plain):
    model = TinyLM(3, 4, hidden=8)
    x = torch.tensor([[0, 2, 1, 1], [2, 2, 0, 1]])
    sampler = AutoregressiveSampler(model)
    sampler = LoopSampler(sampler) if plain else sampler
    whole = lambda s: (s * torch.tensor([27, 9, 3, 1])).sum(-1)
    curve = forward_reverse_curve(sampler, x, [4, 0, 2, 1], N, whole, generator=0)
    exact = suffix_curve(model.sequence_log_prob(x))
    assert curve.prob.shape == (2, 4)
    assert within(curve, exact[:, [0, 4, 2, 3]], se=4.5)
    assert (curve.prob[:, 1] == 1.0).all()


def test_levels_must_be_whole_numbers_of_tokens():
    sampler = AutoregressiveSampler(TinyLM(3, 4, hidden=8))
    for level in (0.5, 5, -1):
        with pytest.raises(ValueError, match=r"whole number in 0\.\.4"):
            forward_reverse_curve(sampler, torch.zeros(4).long(), [level], 2, lambda x: x[:, 0], generator=0)


# The experiment -------------------------------------------------------------------------------------------------------


def test_all_samplers_fit_the_protocol():
    for sampler in (two_gaussians(), MaskingSampler(lambda y: y, 2), AutoregressiveSampler(TinyLM(3, 4, hidden=8))):
        assert isinstance(sampler, Sampler)


def test_chunks_and_batches_change_nothing_but_the_memory():
    sampler = two_gaussians()
    x = torch.stack([sampler.means[0], sampler.means[1], sampler.means[0]])
    levels = [1.0, 2.0]
    curves = [
        forward_reverse_curve(sampler, x, levels, 2000, sampler.component, generator=7, chunk=chunk).prob
        for chunk in (2**22, 3 * 17)
    ]
    assert np.abs(curves[0] - curves[1]).max() < 6 * 0.5 / math.sqrt(2000)
    for prob in curves:
        # By symmetry the three starts share one value.
        assert np.ptp(prob, 0).max() < 6 * 0.5 / math.sqrt(2000)
        assert (prob[:, 0] > prob[:, 1] + 0.1).all()


def test_same_seed_same_curve():
    run = lambda seed: forward_reverse_curve(
        two_gaussians(), torch.ones(3).double(), [1.5], 50, lambda x: x[:, 0] > 0, generator=seed
    )
    assert run(0).prob == run(0).prob
    assert run(0).stderr == pytest.approx(np.sqrt(run(0).prob * (1 - run(0).prob) / 50))


def test_towards_clean_sorts_by_information():
    curve = Curve(np.array([2.0, 0.0, 1.0]), np.array([[0.1, 1.0, 0.6]]), np.zeros((1, 3)), 5)
    assert curve.towards_clean().tolist() == [[0.1, 0.6, 1.0]]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"x": torch.ones(1, 1, 3)}, "x must be one sample"),
        ({"levels": []}, "non-empty list"),
        ({"levels": [float("nan")]}, "list of numbers"),
        ({"n_samples": 0}, "n_samples must be at least 1"),
        ({"feature": lambda x: x}, "labels, got the shape"),
        ({"levels": [-1.0]}, r"t must lie in \[0, inf\]"),
    ],
)
def test_experiment_refuses(kwargs, message):
    args = {"x": torch.ones(3).double(), "levels": [1.0], "n_samples": 5, "feature": lambda x: x[:, 0] > 0} | kwargs
    with pytest.raises(ValueError, match=message):
        forward_reverse_curve(two_gaussians(), **args, generator=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GaussianMixtureSampler(torch.ones(3)), r"means must be a finite \(K, d\)"),
        (lambda: GaussianMixtureSampler(torch.ones(2, 3).long()), "floating"),
        (lambda: two_gaussians(weights=torch.tensor([0.5, 0.6])), r"sum to 1 \(got sum=1.1\)"),
        (lambda: two_gaussians(weights=torch.tensor([1.5, -0.5])), "non-negative"),
        (lambda: two_gaussians(var=0.0), "var must be finite and positive"),
        (lambda: two_gaussians(method="ode"), "method must be"),
        (lambda: two_gaussians(method="sde", n_steps=0), "n_steps must be"),
        (lambda: two_gaussians(method="sde").resample(torch.ones(1, 3), math.inf, 1, generator()), "finite t"),
        (lambda: MaskingSampler(lambda y: y, 2, per_step=0), "per_step must be"),
        (lambda: MaskingSampler(lambda y: y, 2).degrade(torch.ones(1, 2), 1.5, generator()), r"t must lie in \[0, 1\]"),
        (lambda: ExactDenoiser(torch.ones(2, 3).long(), torch.ones(1), 2), "N weights"),
        (lambda: ExactDenoiser(torch.ones(1, 3).long(), torch.ones(1), 1), r"strings must lie in 0\.\.0"),
        (lambda: ExactDenoiser(torch.ones(1, 3).long(), torch.tensor([0.5]), 2), r"got sum=0\.5"),
        (lambda: ExactDenoiser(torch.ones(1, 2).long(), torch.ones(1), 2)(torch.tensor([[0, 2]])), "probability 0"),
    ],
)
def test_samplers_refuse(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# Windows --------------------------------------------------------------------------------------------------------------


def test_windows_known_values():
    assert detect_windows([0.1, 0.2, 0.9, 1.0]).tolist() == [1]
    assert detect_windows([0.0, 0.6, 0.0, 0.9]).tolist() == [0, 2]
    assert detect_windows([0.0, 0.6, 0.0, 0.9], max_drop=0.3).tolist() == []
    assert detect_windows([0.0, 0.6, 0.35, 0.9], max_drop=0.3).tolist() == [0, 2]


@given(st.integers(0, 50))
@settings(max_examples=51, deadline=None)
def test_a_jump_of_exactly_half_is_no_window(hundredths):
    low = hundredths / 100
    assert detect_windows([low, (hundredths + 50) / 100]).size == 0
    assert detect_windows([low, min(1.0, (hundredths + 51) / 100)]).size == (hundredths < 50)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=9), st.sampled_from([None, 0.0, 0.3]))
@settings(max_examples=100, deadline=None)
def test_condition_is_having_a_window(prob, max_drop):
    assert bool(cw_condition(np.diff(prob), 0.5, max_drop)) == (detect_windows(prob, 0.5, max_drop).size > 0)


def test_drop_of_exactly_the_limit_is_allowed():
    assert bool(cw_condition([0.6, -0.3]))
    assert not bool(cw_condition([0.6, -0.31]))
    assert bool(cw_condition([0.6, -0.31], max_drop=None))


@pytest.mark.parametrize(
    ("prob", "message"),
    [
        ([0.5], "at least 2 levels"),
        ([], "at least 2 levels"),
        ([0.2, 1.2], r"must lie in \[0, 1\]"),
        ([-0.1, 0.5], r"must lie in \[0, 1\]"),
        ([0.1, float("nan")], r"must lie in \[0, 1\]"),
        ([[0.1, 0.2]], "must be one curve"),
    ],
)
def test_windows_refuse(prob, message):
    with pytest.raises(ValueError, match=message):
        detect_windows(prob)


def test_condition_refuses():
    with pytest.raises(ValueError, match=r"numbers in \[-1, 1\]"):
        cw_condition([float("nan")])
    with pytest.raises(ValueError, match="non-empty"):
        cw_condition(np.empty((2, 0)))


def test_table_by_hand():
    with_window, without = [0.1, 0.9], [0.4, 0.6]
    curves = [with_window] * 5 + [without] * 5
    correct = np.array([True] + [False] * 4 + [True] * 3 + [False] * 2)
    table = window_accuracy_table(curves, correct)
    assert table["counts"].tolist() == [[2, 3], [4, 1]]
    assert table["acc_with"] == pytest.approx(1 / 5)
    assert table["acc_without"] == pytest.approx(3 / 5)
    assert table["rate_wrong"] == pytest.approx(4 / 6)
    assert table["rate_right"] == pytest.approx(1 / 4)
    assert table["delta_acc"] == pytest.approx(2 / 5)
    assert table["delta_cw"] == pytest.approx(4 / 6 - 1 / 4)
    # The same from a measured curve, whose levels run the other way.
    measured = Curve(np.array([0.0, 1.0]), np.array(curves)[:, ::-1], np.zeros((10, 2)), 10)
    assert window_accuracy_table(measured, correct)["counts"].tolist() == [[2, 3], [4, 1]]


def test_table_warns_of_an_empty_group():
    with pytest.warns(UserWarning, match="no generation to average over in acc_with: NaN"):
        table = window_accuracy_table([[0.4, 0.6], [0.5, 0.6]], np.array([True, False]))
    assert math.isnan(table["delta_acc"])
    assert table["delta_cw"] == 0.0


def test_table_refuses():
    with pytest.raises(ValueError, match="B booleans"):
        window_accuracy_table([[0.1, 0.9]], np.array([1]))
    with pytest.raises(ValueError, match="B booleans"):
        window_accuracy_table([[0.1, 0.9]], np.array([True, False]))


def test_fractions():
    assert fraction_cuts(100, [0.29, 0.7]) == [29, 70]
    assert fraction_cuts(3) == [0, 1, 2]
    with pytest.raises(ValueError, match="length must be at least 1"):
        fraction_cuts(0)
    with pytest.raises(ValueError, match=r"fractions must lie in \[0, 1\]"):
        fraction_cuts(5, [1.1])
