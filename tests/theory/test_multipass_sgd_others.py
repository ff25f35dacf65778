"""Staircase, one-pass instance, short steps, and the lift to any oracle."""

from itertools import combinations, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icml25.theory.multipass_sgd import (
    HardInstance,
    MaxCoordinate,
    MultiPassInstance,
    OnePassEmpiricalInstance,
    Staircase,
    lift_to_any_oracle,
    sgd,
)


def steps_of(instance, result, sample):
    for t in range(result.steps):
        g = (result.iterates[t] - result.iterates[t + 1]) / instance.eta
        yield result.iterates[t], sample[result.order[t]], g


# ------------------------------------------------------------------ staircase


@pytest.mark.parametrize(("p", "count"), [(1, 1), (2, 4), (3, 10), (7, 84), (14, 560), (21, 1771)])
@pytest.mark.parametrize("block", [1, 2])
def test_staircase_takes_the_tetrahedral_number_of_steps(p, count, block):
    stairs = Staircase(p, block, steps=count)
    assert stairs.full_steps == count
    result = sgd(stairs.oracle, [False], stairs.eta, w0=stairs.start, passes=count + 2)
    assert stairs.heights(result.iterates[count]) == pytest.approx(np.arange(p, 0, -1), abs=1e-9)
    assert result.w == pytest.approx(result.iterates[count], abs=1e-15)
    assert not np.allclose(stairs.heights(result.iterates[count - 1]), np.arange(p, 0, -1))
    norms = np.sum(result.iterates[: count + 1] ** 2, axis=1)
    assert (norms <= 2 * (stairs.eta * stairs.alpha) ** 2 * np.arange(count + 1) + 1e-15).all()
    assert result.projections == 0


def test_staircase_on_a_prefix_is_made_of_subgradients():
    for block in (1, 2):
        stairs = Staircase(4, block, d=10 * block, eta=0.05, alpha=1.0)
        result = sgd(stairs.oracle, [False], 0.05, w0=stairs.start, passes=stairs.full_steps)
        for t, (w, z, g) in enumerate(steps_of(stairs, result, [False])):
            assert stairs.penalty(w) == pytest.approx(0.0, abs=1e-15)
            assert stairs.is_subgradient(w, z, g, seed=t) <= 1e-12
            assert stairs.is_subgradient(w, z, 1.05 * g, seed=t) > 1e-4


def test_staircase_with_zeros_in_between_is_not():
    stairs = Staircase(4, support=[1, 2, 4, 7], eta=1.0, alpha=1.0)
    assert stairs.d == 8
    result = sgd(stairs.oracle, [False], 1.0, w0=stairs.start, passes=4, project=None)
    assert stairs.penalty(result.iterates[1]) == pytest.approx(1.0)
    worst = max(stairs.is_subgradient(w, z, g) for w, z, g in steps_of(stairs, result, [False]))
    assert worst >= 0.5


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), block=st.sampled_from([1, 2]))
def test_staircase_penalty_is_the_maximum_over_all_pairs_of_blocks(seed, block):
    stairs = Staircase(2, block, d=6)
    w = np.random.default_rng(seed).standard_normal(6)
    value = lambda c: w[list(c)].sum() / np.sqrt(block)
    blocks = list(combinations(range(6), block))
    brute = max(
        [0.0] + [-value(i) for i in blocks] + [value(j) - value(i) for i in blocks for j in blocks if max(i) < min(j)]
    )
    assert float(stairs.penalty(w)) == pytest.approx(brute, abs=1e-12)


@pytest.mark.parametrize("p", [7, 14])
def test_staircase_excess_by_hand(p):
    stairs = Staircase(p)
    result = sgd(stairs.oracle, [False], stairs.eta, w0=stairs.start, passes=stairs.full_steps)
    d = 16 * p // 7
    unit = stairs.eta * stairs.alpha
    by_hand = 0.5 * unit * (p * (p + 1) / 2 - 45 * d * d / 512) / np.sqrt(d)
    assert stairs.excess(result.w) == pytest.approx(by_hand, abs=1e-12)
    assert by_hand >= min(stairs.eta * stairs.steps**0.5, 1) / (4 * 2**0.5 * 272**0.5 * 256)
    assert stairs.empirical(result.w, [False] * 3) == pytest.approx(stairs.minimum, abs=1e-12)
    assert isinstance(stairs, HardInstance)
    assert stairs.dim == d


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"p": 0}, "p must be at least 1, got 0"),
        ({"p": 2, "block": 0}, "block must be at least 1, got 0"),
        ({"p": 2, "eta": 0.0}, "eta must be finite and positive"),
        ({"p": 2, "support": "suffix"}, 'support must be "prefix"'),
        ({"p": 2, "support": [1]}, "increasing indices"),
        ({"p": 2, "support": [3, 1]}, "increasing indices"),
        ({"p": 4, "d": 3}, "d must exceed"),
        ({"p": 2, "steps": 0}, "steps must be at least 1"),
        ({"p": 2, "alpha": 2.0}, "alpha must lie"),
    ],
)
def test_staircase_refuses(kwargs, message):
    with pytest.raises(ValueError, match=message):
        Staircase(**kwargs)


def test_staircase_toy_has_no_examples_with_u0():
    stairs = Staircase(2)
    with pytest.raises(ValueError, match="z: the toy starts after memorising"):
        sgd(stairs.oracle, [True], stairs.eta, w0=stairs.start, passes=1)


# ------------------------------------------------------------------ one pass


@pytest.mark.parametrize("n", [32, 128, 512])
@pytest.mark.parametrize("block", [1, 2])
def test_one_pass_hurts_the_training_loss_and_not_the_population(n, block):
    instance = OnePassEmpiricalInstance.lazy(n, block=block, seed=n)
    sample = instance.draw(0)
    result = sgd(instance.oracle, sample, instance.eta, w0=instance.start, order="cyclic", passes=1)
    m = n // 16
    assert instance.memorise == m
    value = m / n * 7 / 16 * np.sqrt(1 / 8)
    assert value == pytest.approx(0.0096675, abs=1e-7)
    assert instance.final_empirical_excess == pytest.approx(value, abs=1e-15)
    assert instance.empirical_excess(result.w, sample) == pytest.approx(value, abs=1e-12)
    assert instance.empirical(result.w, sample) - instance.minimum == pytest.approx(value, abs=1e-12)
    assert instance.excess(result.w) == pytest.approx(value * n / m / (4 * n**2), rel=1e-9)
    assert instance.population(result.w) - instance.minimum == pytest.approx(instance.excess(result.w), abs=1e-12)
    assert (result.iterates[: m + 1] == 0).all()
    assert np.array_equal(result.iterates[2 * m], result.w), "both halves of u0 are done after m more steps"
    assert not np.array_equal(result.iterates[2 * m - 1], result.w)
    assert result.projections == 0
    for tau in range(1, n + 2, max(1, n // 20)):
        assert instance.empirical_excess(result.suffix(tau), sample) >= instance.eta * instance.alpha * n**0.5 / 365


def test_one_pass_steps_are_subgradients():
    instance = OnePassEmpiricalInstance.lazy(64, block=2)
    sample = instance.draw(0)
    result = sgd(instance.oracle, sample, instance.eta, w0=instance.start, order="cyclic", passes=1)
    moved = 0
    for t, (w, z, g) in enumerate(steps_of(instance, result, sample)):
        assert instance.is_subgradient(w, z, g, seed=t) <= 1e-12
        if g.any():
            moved += 1
            assert instance.is_subgradient(w, z, 1.05 * g, seed=t) > 1e-4
    assert moved == 4


def test_one_pass_event_and_late_examples_with_u0():
    instance = OnePassEmpiricalInstance.lazy(32)
    assert instance.event_probability == pytest.approx((1 - 1 / 4096) ** 30)
    assert instance.event_probability >= 1 - 1 / 128
    later = np.array([instance.draw(s, condition=False)[2:].any() for s in range(4000)])
    p = 1 - instance.event_probability
    assert abs(later.mean() - p) < 5 * np.sqrt(p / 4000)
    sample = instance.draw(0)
    sample[20:] = True
    result = sgd(instance.oracle, sample, instance.eta, w0=instance.start, order="cyclic", passes=1)
    assert instance.excess(result.w) < instance.excess(result.iterates[20])
    for t, (w, z, g) in enumerate(steps_of(instance, result, sample)):
        assert instance.is_subgradient(w, z, g, seed=t) <= 1e-12
    missed = ~instance.draw(0)  # the first examples do not share u0
    assert not sgd(instance.oracle, missed, 0.1, w0=instance.start, order="cyclic", passes=1).iterates.any()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), weight=st.floats(0, 1), z=st.booleans())
def test_one_pass_loss_is_convex_and_lipschitz(seed, weight, z):
    instance, rng = OnePassEmpiricalInstance.lazy(32, block=2), np.random.default_rng(seed)
    a, b = (rng.standard_normal(instance.dim) * s for s in rng.choice([0.01, 0.1, 1.0], 2))
    middle = instance.loss(weight * a + (1 - weight) * b, z)
    assert middle <= weight * instance.loss(a, z) + (1 - weight) * instance.loss(b, z) + 1e-12
    assert abs(instance.loss(a, z) - instance.loss(b, z)) <= instance.lipschitz * np.linalg.norm(a - b) + 1e-12
    assert instance.is_subgradient(a, z, instance.subgradient(a, z), seed=seed) <= 1e-12


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"n": 24}, "n must be a multiple of 16"),
        ({"n": 16}, "at least 32"),
        ({"n": 32, "eta": -1.0}, "eta must be finite and positive"),
        ({"n": 32, "block": 0}, "block must be at least 1"),
        ({"n": 32, "alpha": 0.0}, "alpha must lie"),
    ],
)
def test_one_pass_refuses(kwargs, message):
    with pytest.raises(ValueError, match=message):
        OnePassEmpiricalInstance.lazy(**kwargs)


# ------------------------------------------------------------------ short steps


@pytest.mark.parametrize(("eta", "steps", "gap"), [(0.02, 200, 0.0625), (0.01, 1000, 0.025), (0.05, 100, 0.05)])
def test_short_steps_leave_a_gap_of_a_quarter(eta, steps, gap):
    instance = MaxCoordinate(eta, steps)
    result = sgd(instance.oracle, [None], eta, w0=instance.start, passes=steps)
    measured = instance.excess(result.average)
    assert measured == pytest.approx(gap, rel=1e-12)
    assert 3 / 16 <= measured * eta * steps <= 0.3
    for t in range(0, steps, 17):
        g = (result.iterates[t] - result.iterates[t + 1]) / eta
        assert instance.is_subgradient(result.iterates[t], None, g) <= 1e-12
    equal = np.full(instance.d, instance.d**-0.5)
    assert instance.population(equal) == pytest.approx(instance.minimum)
    assert instance.empirical(equal) == instance.population(equal)
    assert isinstance(instance, HardInstance)


def test_short_steps_dimension_and_refusals():
    assert MaxCoordinate(0.05, 100).d == 400
    assert MaxCoordinate(0.07, 25).d == 49, "16 * 1.75^2, although the product is 49.000000000000014"
    assert MaxCoordinate(0.05, 101).d == int(np.ceil(16 * 5.05**2))
    with pytest.raises(ValueError, match="eta must be finite and positive"):
        MaxCoordinate(0.0, 10)
    with pytest.raises(ValueError, match="steps must be at least 1"):
        MaxCoordinate(0.1, 0)


# ------------------------------------------------------------------ lift


@pytest.fixture(scope="module")
def lifted():
    base = MultiPassInstance.explicit(2, 16, 3, p=16, eta=0.05, passes=9, seed=0)
    sets = np.array(list(product([False, True], repeat=3)))
    return base, sets, lift_to_any_oracle(base, sets, gamma=0.5)


def test_lift_forces_the_script_on_a_plain_argmax(lifted):
    base, sets, lift = lifted
    assert lift.slopes.shape == (8, 1152, 33)
    overfit = 0
    for number, sequence in enumerate(lift.sequences):
        result = sgd(lift.oracle, list(sequence), base.eta, w0=lift.start, order="cyclic", passes=9)
        assert np.abs(result.iterates[:-1] - lift.scripted_path(number)).max() < 1e-12
        gap = base.excess(result.w[:-1])
        exists = base.bad_vector(sets[sequence]) is not None
        assert gap == pytest.approx(0.0125 if exists else 0.0, abs=1e-12)
        overfit += exists
    assert overfit == 37
    assert 37 / 64 == 1 - (3 / 4) ** 3


def test_lift_follows_autograd_too(lifted):
    base, _, lift = lifted
    slopes, offsets = torch.from_numpy(lift.slopes), torch.from_numpy(lift.offsets)

    def autograd(state):
        w = torch.from_numpy(state.w).requires_grad_()
        # amax shares the gradient among ties, which max would break: where the maximum is unique both agree.
        (slopes[state.z] @ w + offsets[state.z]).amax().backward()
        return w.grad.numpy()

    for number in range(0, 64, 9):
        result = sgd(autograd, list(lift.sequences[number]), base.eta, w0=lift.start, order="cyclic", passes=9)
        assert np.abs(result.iterates[:-1] - lift.scripted_path(number)).max() < 1e-12


def test_lift_interpolates_and_memory_encodes_the_order(lifted):
    base, _, lift = lifted
    assert lift.interpolation_error() < 1e-14
    codes = np.sqrt([2, 3, 5, 7, 11, 13, 17, 19]) / 5
    x = 0.0
    for t in range(18):
        assert lift.scripted_path(29)[t, -1] == pytest.approx(x, abs=1e-15)
        x = (1 - 0.5 * 0.05) * x + 0.5 * 0.05 * codes[lift.sequences[29][t % 2]]
    after_one_pass = lift.states.reshape(64, 18, 33)[:, 2, -1]
    assert np.unique(after_one_pass).size == 64
    assert (np.diff(np.sort(after_one_pass)) > 1e-9).all()
    assert isinstance(lift, HardInstance)
    assert lift.lipschitz <= base.lipschitz + 0.5 * (1 + codes.max())


def test_lift_oracle_is_a_subgradient_and_loss_is_a_maximum(lifted):
    _, _, lift = lifted
    rng = np.random.default_rng(0)
    for z in range(8):
        w = rng.standard_normal(33) * 0.1
        brute = max(c + s @ w for c, s in zip(lift.offsets[z], lift.slopes[z], strict=True))
        assert lift.loss(w, z) == pytest.approx(brute, abs=1e-14)
        g = lift.slopes[z, np.argmax(lift.slopes[z] @ w + lift.offsets[z])]
        assert lift.is_subgradient(w, z, g) <= 1e-12
    assert lift.population(w) == pytest.approx(np.mean([lift.loss(w, z) for z in range(8)]))
    assert lift.empirical(w, [1, 5]) == pytest.approx((lift.loss(w, 1) + lift.loss(w, 5)) / 2)


def test_a_script_that_ignores_u0_in_the_example_does_not_interpolate(lifted):
    base, sets, _ = lifted

    class Careless(MultiPassInstance):
        def oracle(self, state):
            if state.t < self.memorise:
                return np.zeros(self.dim)
            u0 = self.bad_vector(state.seen(self.memorise))
            return np.zeros(self.dim) if u0 is None else self.steering_step(state.w, u0)

    careless = Careless(base.vectors, base.n, base.eta, base.steps, base.memorise, base.p, base.alpha, base.log2_size)
    assert lift_to_any_oracle(careless, sets, gamma=0.5).interpolation_error() > 0.005


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"gamma": 0.0}, "gamma must be positive"),
        ({"gamma": 30.0}, "gamma must be positive with"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"codes": [1.0] * 8}, "codes must be 8 distinct numbers"),
        ({"max_pieces": 10}, "more than max_pieces"),
    ],
)
def test_lift_refuses(lifted, kwargs, message):
    base, sets, _ = lifted
    with pytest.raises(ValueError, match=message):
        lift_to_any_oracle(base, sets, **kwargs)
