"""Wrong and hostile input: refused by name, never a silent number; callables of the user cannot disturb a run."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icml25.theory.multipass_sgd import (
    Ball,
    GemmEvaluator,
    LossRecorder,
    MaxCoordinate,
    MultiPassInstance,
    OnePassEmpiricalInstance,
    OracleState,
    Staircase,
    UnitBall,
    bad_vector_probability,
    coupon_all_seen_probability,
    coupon_unseen_law,
    default_steering_steps,
    excess_formula,
    expected_max,
    lift_to_any_oracle,
    optimisation_bound,
    packing_overlaps,
    packing_set,
    replacement_success_probability,
    sample_order,
    sgd,
    steering_grid,
    subgradient_violation,
    suffix_lower_bound,
    top_block,
    upper_bound,
    worst_case_rate,
)

EXPLICIT = MultiPassInstance.explicit(8, 256, 64, p=16, passes=3, seed=0)
SAMPLE = EXPLICIT.draw(0)
LAZY = MultiPassInstance.lazy(48)
ONE_PASS = OnePassEmpiricalInstance.lazy(32, block=2)
TINY = MultiPassInstance.explicit(2, 16, 3, p=16, eta=0.05, passes=9, seed=0)
SETS = np.array([[False, False, True], [True, False, False]])
LIFT = lift_to_any_oracle(TINY, SETS)
STAIRS, SHORT = Staircase(2), MaxCoordinate(0.02, 200)

still = lambda state: np.zeros(1)


def descend(**kwargs):
    given_ = {"oracle": still, "sample": [0, 1], "eta": 0.1, "w0": [0.0]} | kwargs
    if not {"passes", "steps", "order"} & kwargs.keys():
        given_["passes"] = 2
    return sgd(given_.pop("oracle"), given_.pop("sample"), given_.pop("eta"), **given_)


# ------------------------------------------------------------------ points: shape, finiteness, type

LOSSES = {
    "loss": (EXPLICIT.dim, lambda w: EXPLICIT.loss(w, SAMPLE[0])),
    "population": (EXPLICIT.dim, EXPLICIT.population),
    "excess": (EXPLICIT.dim, EXPLICIT.excess),
    "empirical": (EXPLICIT.dim, lambda w: EXPLICIT.empirical(w, SAMPLE)),
    "penalty": (EXPLICIT.dim, EXPLICIT.penalty),
    "scores": (EXPLICIT.dim, EXPLICIT.scores),
    "subgradient": (EXPLICIT.dim, lambda w: EXPLICIT.subgradient(w, SAMPLE[0])),
    "steering_step": (EXPLICIT.dim, lambda w: EXPLICIT.steering_step(w, 0)),
    "recorder": (EXPLICIT.dim, lambda w: LossRecorder(EXPLICIT, SAMPLE)(0, w)),
    "plain recorder": (EXPLICIT.dim, lambda w: LossRecorder(EXPLICIT, SAMPLE, incremental=False)(0, w)),
    "gemm": (EXPLICIT.dim, lambda w: GemmEvaluator(EXPLICIT)(np.atleast_2d(w), SAMPLE[None])),
    "lazy": (LAZY.dim, LAZY.excess),
    "one pass": (ONE_PASS.dim, ONE_PASS.excess),
    "one pass loss": (ONE_PASS.dim, lambda w: ONE_PASS.loss(w, False)),
    "one pass training": (ONE_PASS.dim, lambda w: ONE_PASS.empirical_excess(w, [True])),
    "staircase": (STAIRS.dim, lambda w: STAIRS.loss(w, False)),
    "heights": (STAIRS.dim, STAIRS.heights),
    "max coordinate": (SHORT.dim, SHORT.excess),
    "lift": (LIFT.dim, lambda w: LIFT.loss(w, 0)),
    "w of a violation": (EXPLICIT.dim, lambda w: EXPLICIT.is_subgradient(w, SAMPLE[0], np.zeros(EXPLICIT.dim))),
    "g of a violation": (EXPLICIT.dim, lambda g: EXPLICIT.is_subgradient(np.zeros(EXPLICIT.dim), SAMPLE[0], g)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_point_that_is_not_finite_or_has_the_wrong_length_is_refused(name):
    dim, evaluate = LOSSES[name]
    evaluate(np.zeros(dim))
    for place in (0, dim - 1):
        for value in (np.nan, np.inf):
            w = np.zeros(dim)
            w[place] = value
            with pytest.raises(ValueError, match="must be finite"):
                evaluate(w)
    for length in {1, dim // 2, dim // 2 + 1, dim - 1, dim + 1} - {dim}:
        with pytest.raises(ValueError, match="shape"):
            evaluate(np.zeros(length))
    with pytest.raises(TypeError, match="real numbers, got dtype"):
        evaluate(np.zeros(dim, dtype=complex))


@settings(max_examples=30, deadline=None)
@given(name=st.sampled_from(sorted(LOSSES)), seed=st.integers(0, 10**6), data=st.data())
def test_one_nan_anywhere_never_becomes_a_number(name, seed, data):
    dim, evaluate = LOSSES[name]
    w = np.random.default_rng(seed).standard_normal(dim) * 0.1
    w[data.draw(st.integers(0, dim - 1))] = np.nan
    with pytest.raises(ValueError, match="must be finite"):
        evaluate(w)


def test_points_may_be_lists_integers_or_tensors():
    zeros = [0] * LAZY.dim
    assert LAZY.excess(zeros) == LAZY.excess(torch.zeros(LAZY.dim, dtype=torch.float64)) == 0.0


# ------------------------------------------------------------------ examples


@pytest.mark.parametrize("width", [1, 5, 63, 65, 128])
def test_examples_of_another_width_are_refused(width):
    z, w = np.zeros(width, dtype=bool), EXPLICIT.start
    for call in (
        lambda: EXPLICIT.loss(w, z),
        lambda: EXPLICIT.empirical(w, np.tile(z, (3, 1))),
        lambda: EXPLICIT.subgradient(w, z),
        lambda: EXPLICIT.bad_vector(np.tile(z, (2, 1))),
        lambda: LossRecorder(EXPLICIT, np.tile(z, (3, 1))),
        lambda: GemmEvaluator(EXPLICIT)(w[None], np.tile(z, (1, 8, 1))),
    ):
        with pytest.raises(ValueError, match=r"must have shape \(\.\.\., 64\)"):
            call()


def test_examples_are_bools_and_a_sample_is_not_empty():
    w = EXPLICIT.start
    for z in (np.full(64, 0.3), np.full(64, 2), np.full(64, "a")):
        with pytest.raises(TypeError, match="z must hold bools"):
            EXPLICIT.loss(w, z)
    assert EXPLICIT.loss(w, SAMPLE[0].astype(int)) == EXPLICIT.loss(w, SAMPLE[0])
    with pytest.raises(ValueError, match="at least 1 row"):
        EXPLICIT.empirical(w, SAMPLE[:0])
    with pytest.raises(ValueError, match="at least 1 row"):
        EXPLICIT.loss(w, SAMPLE[None])
    for call in (
        lambda: ONE_PASS.empirical(ONE_PASS.start, []),
        lambda: STAIRS.empirical(STAIRS.start, []),
        lambda: LIFT.empirical(LIFT.start, []),
    ):
        with pytest.raises(ValueError, match="at least 1 example"):
            call()
    for z in (0.5, "no"):
        with pytest.raises(TypeError, match="z must hold bools"):
            ONE_PASS.loss(ONE_PASS.start, z)
        with pytest.raises(TypeError, match="z must hold bools"):
            STAIRS.loss(STAIRS.start, z)
    with pytest.raises(ValueError, match="z must be one flag"):
        ONE_PASS.loss(ONE_PASS.start, [True])
    with pytest.raises(ValueError, match=r"z must lie in 0\.\.1"):
        LIFT.loss(LIFT.start, -1)


def test_packing_sets_of_the_user_are_checked():
    build = lambda vectors: MultiPassInstance.explicit(8, 256, p=16, passes=3, vectors=vectors)
    good = packing_set(3, 256)
    assert build(good.astype(np.int64)).vectors.dtype == np.int8
    for bad in (2 * good, good.astype(float), -good, 256 * good.astype(int) + good):
        with pytest.raises(ValueError, match="vectors must hold zeros and ones"):
            build(bad)
        with pytest.raises(ValueError, match="vectors must hold zeros and ones"):
            packing_overlaps(bad)
    with pytest.raises(ValueError, match="7d/16 = 112 ones in each row, got 256 to 256"):
        build(np.ones_like(good))
    for shape in ((256,), (0, 256), (1, 3, 256)):
        with pytest.raises(ValueError, match="columns and at least 1 row"):
            build(np.zeros(shape, dtype=np.int8))


# ------------------------------------------------------------------ numbers: integers, reals, seeds

COUNTS = {
    "n": lambda v: sample_order(v, 2),
    "passes": lambda v: descend(passes=v),
    "steps": lambda v: descend(steps=v, order="with_replacement"),
    "steps ": lambda v: descend(steps=v, order=[0, 1, 0]),
    "tau": lambda v: descend(passes=2).suffix(v),
    "tau ": lambda v: LAZY.curve().suffix_excess(v),
    "first": lambda v: OracleState(1, np.zeros(1), 0, [0, 1], np.array([0])).seen(v),
    "n ": lambda v: MultiPassInstance.lazy(v),
    "n  ": lambda v: MultiPassInstance.explicit(v, 256),
    "d": lambda v: MultiPassInstance.explicit(8, v, 4, passes=3),
    "size": lambda v: MultiPassInstance.explicit(8, 256, v, passes=3),
    "p": lambda v: MultiPassInstance.lazy(48, p=v),
    "memorise": lambda v: MultiPassInstance.lazy(48, memorise=v),
    "steps  ": lambda v: MultiPassInstance.lazy(48, steps=v),
    "size ": lambda v: LAZY.draw(0, size=v),
    "free_steps": lambda v: default_steering_steps(v),
    "size  ": lambda v: top_block(np.zeros(3), v),
    "n_probe": lambda v: subgradient_violation(lambda y: y.sum(-1), np.zeros(2), np.ones(2), n_probe=v),
    "size   ": lambda v: packing_set(v, 16),
    "chunk": lambda v: packing_overlaps(np.ones((2, 3), dtype=np.int8), chunk=v),
    "block": lambda v: Staircase(2, v),
    "d ": lambda v: Staircase(2, d=v),
    "n   ": lambda v: OnePassEmpiricalInstance.lazy(v),
    "steps   ": lambda v: MaxCoordinate(0.1, v),
    "steps    ": lambda v: lift_to_any_oracle(TINY, SETS, steps=v),
    "n    ": lambda v: steering_grid([0.1], [2], v),
    "steps     ": lambda v: steering_grid([0.1], [2], 48, steps=v),
    "n     ": lambda v: upper_bound("single", v, 2, 0.1),
    "p ": lambda v: excess_formula(1, 10, v, 0.1, 1.0),
    "memorise ": lambda v: suffix_lower_bound(v, 0.1, 1.0),
    "seen": lambda v: bad_vector_probability(v, 3.0),
    "n      ": lambda v: coupon_all_seen_probability(v, 40),
    "m": lambda v: coupon_unseen_law(4, v),
    "later": lambda v: replacement_success_probability(4, 8, v, 6.0),
    "seed": lambda v: sample_order(4, 1, "single", v),
    "seed ": lambda v: EXPLICIT.draw(v),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_integers_in_range(name):
    for value in (True, np.True_, 2.5, 16.0, np.nan, "3", [3], 1j):
        with pytest.raises(TypeError, match=f"{name.strip()}.* must be an integer, got"):
            COUNTS[name](value)
    with pytest.raises(ValueError, match=rf"{name.strip()}\b.* (must|exceeds)"):
        COUNTS[name](-1)


REALS = {
    "eta": lambda v: descend(eta=v),
    "eta ": lambda v: MultiPassInstance.lazy(48, v),
    "eta  ": lambda v: OnePassEmpiricalInstance.lazy(32, v),
    "eta   ": lambda v: Staircase(2, eta=v),
    "eta    ": lambda v: MaxCoordinate(v, 10),
    "eta     ": lambda v: upper_bound("single", 10, 2, v),
    "eta      ": lambda v: excess_formula(1, 10, 16, v, 1.0),
    "eta       ": lambda v: suffix_lower_bound(48, v, 1.0),
    "G": lambda v: upper_bound("single", 10, 2, 0.1, v),
    "passes": lambda v: upper_bound("with_replacement", 10, v, 0.1),
    "alpha": lambda v: MultiPassInstance.lazy(48, alpha=v),
    "alpha ": lambda v: excess_formula(1, 10, 16, 0.1, v),
    "radius": lambda v: Ball(v),
    "gamma": lambda v: lift_to_any_oracle(TINY, SETS, gamma=v),
    "log2_size": lambda v: MultiPassInstance.lazy(48, log2_size=v),
    "log2_size ": lambda v: bad_vector_probability(3, v),
    "ones": lambda v: packing_set(2, 16, ones=v),
}


@pytest.mark.parametrize("name", REALS)
def test_reals_are_finite_and_in_range(name):
    for value in (True, "0.1", [0.1], torch.tensor(0.1), 1j):
        with pytest.raises(TypeError, match=f"{name.strip()} must be a real number"):
            REALS[name](value)
    for value in (np.nan, np.inf, -1.0):
        with pytest.raises(ValueError, match=name.strip()):
            REALS[name](value)


@pytest.mark.parametrize("seed", [None, 1.5, "a", np.random.RandomState(0)])
def test_a_seed_is_an_integer_or_a_generator(seed):
    for call in (
        lambda: sample_order(4, 1, "multi", seed),
        lambda: packing_set(2, 16, seed),
        lambda: LAZY.draw(seed),
        lambda: ONE_PASS.draw(seed),
        lambda: steering_grid([0.1], [2], 48, seed=seed),
    ):
        with pytest.raises(TypeError, match=r"seed .* must be an integer"):
            call()


def test_nothing_touches_the_global_generators():
    before, torch_before = np.random.get_state()[1].copy(), torch.get_rng_state().clone()  # noqa: NPY002
    instance = MultiPassInstance.explicit(2, 16, 3, p=16, passes=9, seed=1)
    sample = instance.draw(2)
    sgd(instance.oracle, sample, instance.eta, w0=instance.start, order="multi", passes=9, seed=3)
    instance.is_subgradient(instance.start, sample[0], instance.start)
    steering_grid([0.1], [2], 48)
    ONE_PASS.draw(0, condition=False)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    assert torch.equal(torch_before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MultiPassInstance.explicit(20_000, 16), r"size \* d = 4 \* 2\^20000 \* 16 exceeds .* use lazy"),
        (lambda: MultiPassInstance.lazy(48, 1e308), r"alpha must lie in \(0, 1\], got 0.0 with eta=1e\+308"),
        (lambda: descend(order=np.zeros((0, 2), dtype=int)), "permutation"),
        (lambda: descend(order=[0, 0], steps=2, passes=7), "give passes or steps"),
        (lambda: descend(order=[-1, 0], steps=2), "index the 2 examples of the sample, got -1 to 0"),
        (lambda: descend(w0=[]), "w0 must be a finite vector"),
        (lambda: descend(record=[lambda t, w: 1, lambda t, w: 2]), "one callable at most"),
        (lambda: expected_max(np.array([np.nan, 2.0]), 0.0), "scores must be a vector without NaN"),
        (lambda: expected_max(np.array([1.0]), np.nan), "floor must be finite"),
        (lambda: top_block(np.array([np.nan, 1.0]), 1), "values must be finite"),
        (lambda: subgradient_violation(lambda y: y.sum(-1) * np.nan, np.zeros(2), np.ones(2)), "finite numbers"),
        (lambda: subgradient_violation(lambda y: y[:, :1], np.zeros(2), np.ones(2)), "loss must return 201"),
        (lambda: lift_to_any_oracle(TINY, SETS, codes=[np.nan, 1.0]), "codes must be 2 distinct"),
        (lambda: lift_to_any_oracle(TINY, SETS[:0]), "samples must have shape"),
        (lambda: LAZY.curve().at(-1), r"t must lie in \[0, T\] = \[0, 96\]"),
        (lambda: LAZY.curve().at(97), r"t must lie in \[0, T\] = \[0, 96\]"),
        (lambda: excess_formula(np.nan, 10, 16, 0.1, 1.0), "t must hold non-negative integers"),
        (lambda: worst_case_rate(np.nan, 0.1), "steps must be at least 1"),
        (lambda: worst_case_rate(10, np.inf), "both finite"),
        (lambda: optimisation_bound("one_pass", 10, 5, 0.1), "passes must be 1"),
        (lambda: steering_grid([], [2], 48), "etas must be positive"),
        (lambda: steering_grid([0.1], np.array([], dtype=int), 48), "passes must be integers"),
        (lambda: steering_grid([[0.1]], [2], 48), "in a row"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_staircase_support_is_not_truncated_to_integers():
    with pytest.raises(TypeError, match="integer indices, got dtype float64"):
        Staircase(2, support=[0.5, 1.5])


# ------------------------------------------------------------------ callables of the user


@pytest.mark.parametrize("role", ["oracle", "project"])
@pytest.mark.parametrize(
    ("returned", "error", "message"),
    [
        (np.zeros(3), ValueError, r"must return shape \(1,\), got \(3,\) in step 0"),
        (0.0, ValueError, r"must return shape \(1,\), got \(\) in step 0"),
        (None, ValueError, r"must return shape \(1,\)"),
        ([np.nan], ValueError, "returned in step 0 must be finite"),
        ([np.inf], ValueError, "returned in step 0 must be finite"),
        ([1j], TypeError, "returned in step 0 must hold real numbers"),
        (["a"], TypeError, "returned in step 0 must hold real numbers"),
    ],
)
def test_what_a_callable_returns_is_checked(role, returned, error, message):
    with pytest.raises(error, match=f"{role} {message}"):
        descend(**{role: lambda _: returned})


def test_an_overflowing_step_is_named():
    with pytest.raises(ValueError, match=r"step 0 of length eta=10\.0 overflows"):
        descend(oracle=lambda s: np.array([1.7e308]), eta=10.0)


def test_callables_that_write_into_what_they_get_change_nothing():
    sample, w0 = np.ones((2, 1)), np.zeros(1)

    def oracle(state):
        g = state.w - state.z
        state.w[:] = 7.0
        state.z[:] = 7.0
        seen = state.seen()
        seen[:] = 7.0
        return g

    def hook(t, w):
        w[:] = 7.0

    def project(w):
        w[:] = np.clip(w, -1.0, 0.6)
        return w

    expected = sgd(lambda s: s.w - s.z, np.ones((2, 1)), 0.5, w0=[0.0], passes=2, project=lambda w: np.clip(w, -1, 0.6))
    result = sgd(oracle, sample, 0.5, w0=w0, passes=2, project=project, record=["iterates", hook])
    assert np.array_equal(result.iterates, expected.iterates)
    assert result.iterates[:, 0].tolist() == [0.0, 0.5, 0.6, 0.6, 0.6]
    assert result.projections == expected.projections == 3
    assert (sample == 1.0).all()
    assert w0[0] == 0.0


def test_an_oracle_may_return_a_view_of_the_iterate():
    result = descend(oracle=lambda s: s.w, w0=[0.5], eta=0.5)
    assert result.iterates[:, 0].tolist() == [0.5, 0.25, 0.125, 0.0625, 0.03125]


def test_projections_count_the_steps_that_were_moved_whatever_object_comes_back():
    assert descend(project=lambda w: w.copy()).projections == 0
    assert descend(oracle=lambda s: [-1.0], eta=0.4, project=lambda w: np.clip(w, -1, 1)).projections == 2


def test_the_state_shows_no_example_that_was_not_met():
    def oracle(state):
        public = {name for name in vars(state) if not name.startswith("_")}
        assert public == {"t", "w", "z"}
        return np.zeros(1)

    descend(oracle=oracle)


@settings(max_examples=50, deadline=None)
@given(scale=st.integers(-300, 300), seed=st.integers(0, 10**6), radius=st.integers(-200, 200))
def test_projection_survives_huge_and_tiny_points(scale, seed, radius):
    direction = np.random.default_rng(seed).standard_normal(4)
    w, r = direction * 10.0**scale, 10.0**radius
    projected = Ball(r)(w)
    norm = 10.0**scale * np.linalg.norm(direction)
    expected = w if norm <= r else direction / np.linalg.norm(direction) * r
    assert np.allclose(projected / r, expected / r, rtol=1e-12, atol=0)


def test_projection_keeps_zero():
    zero = np.zeros(3)
    assert UnitBall()(zero) is zero


# ------------------------------------------------------------------ sizes at which the formulas used to give up


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 40), m=st.integers(0, 200))
def test_coupon_probability_is_inclusion_exclusion_in_fractions(n, m):
    exact = sum(Fraction((-1) ** k * comb(n, k) * (n - k) ** m, n**m) for k in range(n + 1))
    got = coupon_all_seen_probability(n, m)
    assert got == pytest.approx(float(exact), abs=1e-15)
    assert got >= 0.0
    assert (got == 0.0) if m < n else True


@pytest.mark.parametrize(("n", "m"), [(100, 250), (400, 900), (400, 1500)])
def test_coupon_probability_where_the_terms_are_astronomical(n, m):
    exact = sum(Fraction((-1) ** k * comb(n, k) * (n - k) ** m, n**m) for k in range(n + 1))
    assert coupon_all_seen_probability(n, m) == pytest.approx(float(exact), rel=1e-12, abs=1e-38)


def test_coupon_probability_of_a_million_examples():
    n = 10**6
    for x in (-0.5, 0.0, 1.0):
        assert coupon_all_seen_probability(n, round(n * np.log(n) + x * n)) == pytest.approx(
            np.exp(-np.exp(-x)), abs=1e-4
        )
    assert coupon_all_seen_probability(n, 2 * n) == 0.0
    assert coupon_all_seen_probability(n, 10**12) == 1.0


def test_replacement_success_beyond_a_thousand_unseen():
    value = replacement_success_probability(2000, 10, 0, 2002.0)
    assert value == pytest.approx(1.0), "nothing is drawn later, and 10 seen examples leave a bad vector"
