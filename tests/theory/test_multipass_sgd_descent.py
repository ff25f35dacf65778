"""SGD and its orders, and the closed-form bounds and probabilities."""

from fractions import Fraction
from math import ceil, log, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml25.theory.multipass_sgd import (
    Ball,
    UnitBall,
    bad_vector_probability,
    coupon_all_seen_probability,
    coupon_unseen_law,
    excess_formula,
    optimisation_bound,
    replacement_success_probability,
    sample_order,
    sgd,
    stability_bound,
    suffix_lower_bound,
    upper_bound,
    worst_case_rate,
)


def pull(target):
    """Oracle of |w - target|^2 / 2."""
    return lambda state: state.w - target


# ------------------------------------------------------------------ orders


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 20), passes=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_each_pass_of_a_shuffle_reads_every_example_once(n, passes, seed):
    for kind in ("single", "multi", "cyclic"):
        rows = sample_order(n, passes, kind, seed).reshape(passes, n)
        assert np.array_equal(np.sort(rows, axis=1), np.tile(np.arange(n), (passes, 1)))
    single = sample_order(n, passes, "single", seed).reshape(passes, n)
    assert (single == single[0]).all()
    assert np.array_equal(sample_order(n, passes, "cyclic"), np.arange(n * passes) % n)
    assert np.array_equal(sample_order(n, passes, "fresh"), np.arange(n * passes))


def test_multi_shuffle_draws_a_new_permutation_for_each_pass():
    rows = sample_order(50, 3, "multi", 0).reshape(3, 50)
    assert not np.array_equal(rows[0], rows[1])
    assert not np.array_equal(rows[1], rows[2])


def test_with_replacement_is_uniform_and_stops_anywhere():
    order = sample_order(5, kind="with_replacement", seed=1, steps=50_000)
    assert order.shape == (50_000,)
    counts = np.bincount(order, minlength=5)
    assert np.abs(counts - 10_000).max() < 5 * np.sqrt(50_000 * 0.2 * 0.8)
    assert (np.diff(order) == 0).mean() == pytest.approx(0.2, abs=0.02), "independent draws repeat"


def test_orders_are_reproducible():
    for kind in ("single", "multi", "with_replacement"):
        assert np.array_equal(sample_order(9, 4, kind, 3), sample_order(9, 4, kind, np.random.default_rng(3)))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"n": 0, "passes": 1}, "n must be at least 1, got 0"),
        ({"n": 3, "passes": 0}, "passes must be at least 1, got 0"),
        ({"n": 3}, "give passes or steps"),
        ({"n": 3, "passes": 1, "steps": 3}, "give passes or steps"),
        ({"n": 3, "passes": 1, "kind": "random"}, "kind must be one of"),
        ({"n": 3, "steps": 4, "kind": "single"}, "goes by passes"),
        ({"n": 3, "steps": 0, "kind": "with_replacement"}, "steps must be at least 1"),
    ],
)
def test_sample_order_refuses(kwargs, message):
    with pytest.raises(ValueError, match=message):
        sample_order(**kwargs)


# ------------------------------------------------------------------ sgd


def test_sgd_is_the_recursion():
    targets = np.random.default_rng(0).standard_normal((4, 3)) * 0.1
    result = sgd(lambda s: s.w - s.z, targets, 0.3, w0=np.zeros(3), passes=2, order="cyclic")
    w, path = np.zeros(3), [np.zeros(3)]
    for t in range(8):
        w = w - 0.3 * (w - targets[t % 4])
        path.append(w)
    assert np.allclose(result.iterates, path, atol=1e-15)
    assert np.allclose(result.w, path[-1], atol=1e-15)
    assert np.allclose(result.average, np.mean(path, axis=0), atol=1e-15)
    assert result.projections == 0


@settings(max_examples=30, deadline=None)
@given(steps=st.integers(1, 30), seed=st.integers(0, 10**6), data=st.data())
def test_suffix_is_the_mean_of_the_last_tau_iterates(steps, seed, data):
    tau = data.draw(st.integers(1, steps + 1))
    noise = np.random.default_rng(seed).standard_normal((steps, 2))
    result = sgd(lambda s: s.z, noise, 0.2, w0=np.zeros(2), order="fresh", passes=1)
    assert np.allclose(result.suffix(tau), result.iterates[steps + 1 - tau :].mean(axis=0), atol=1e-12)


def test_projection_keeps_the_iterates_in_the_ball_and_is_counted():
    result = sgd(lambda s: np.array([-1.0, 0.0]), [None], 0.3, w0=np.zeros(2), passes=5)
    assert np.allclose(result.iterates[:, 0], [0, 0.3, 0.6, 0.9, 1.0, 1.0], atol=1e-15)
    assert result.projections == 2
    assert sgd(lambda s: np.array([-1.0]), [None], 0.3, w0=[0.0], passes=5, project=None).w[0] == pytest.approx(1.5)
    assert np.linalg.norm(Ball(2.0)(np.array([3.0, 4.0]))) == pytest.approx(2.0)
    inside = np.array([0.6, 0.8])
    assert UnitBall()(inside) is inside


def test_an_oracle_sees_the_past_and_the_present_and_nothing_else():
    sample, looks = [10, 11, 12], []

    def oracle(state):
        looks.append((state.t, list(state.seen()), state.z, list(state.seen(2))))
        return np.zeros(1)

    sgd(oracle, sample, 0.1, w0=[0.0], order=np.array([2, 0, 1]), passes=2)
    assert looks[0] == (0, [], 12, [])
    assert looks[1] == (1, [12], 10, [12])
    assert looks[5] == (5, [12, 10, 11, 12, 10], 11, [12, 10])


def test_record_takes_the_path_a_callable_or_both():
    kwargs = {"w0": [0.0], "passes": 3}
    hook = lambda t, w: (t, float(w[0]))
    both = sgd(pull(1.0), [None], 0.5, record=["iterates", hook], **kwargs)
    assert both.history == [(0, 0.0), (1, 0.5), (2, 0.75), (3, 0.875)]
    assert both.iterates[:, 0].tolist() == [0.0, 0.5, 0.75, 0.875]
    bare = sgd(pull(1.0), [None], 0.5, record=None, **kwargs)
    assert bare.iterates is None
    assert bare.suffix(4)[0] == pytest.approx(2.125 / 4)
    assert bare.suffix(1)[0] == 0.875
    with pytest.raises(ValueError, match="needs the path"):
        bare.suffix(2)


def test_orders_can_be_given():
    read = lambda result: result.order.tolist()
    zero = lambda s: np.zeros(1)
    run = lambda **kw: read(sgd(zero, [0, 1, 2], 0.1, w0=[0.0], **kw))
    assert run(order=[2, 0, 1], passes=2) == [2, 0, 1, 2, 0, 1]
    assert run(order=[[2, 0, 1], [0, 1, 2]]) == [2, 0, 1, 0, 1, 2]
    assert run(order=[1, 1, 1, 0], steps=4) == [1, 1, 1, 0]
    assert run(order="fresh", steps=2) == [0, 1]


@pytest.mark.parametrize("eta", [0.0, -1.0, np.nan, np.inf])
def test_sgd_refuses_a_bad_step(eta):
    with pytest.raises(ValueError, match="eta must be finite and positive"):
        sgd(pull(0.0), [None], eta, w0=[0.0], passes=1)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"sample": []}, "n must be at least 1"),
        ({"passes": 0}, "passes must be at least 1"),
        ({"order": [0, 0, 1]}, "permutation"),
        ({"order": [0, 1]}, "permutation"),
        ({"order": [[0, 1, 2]], "passes": 2}, "holds 1 permutations"),
        ({"order": [0, 1, 2], "passes": 0}, "passes must be at least 1"),
        ({"order": [0, 3], "passes": None, "steps": 2}, "index the 3 examples"),
        ({"order": [0, 1], "passes": None, "steps": 3}, r"must have shape \(3,\)"),
        ({"order": "fresh", "passes": 2}, "reads each example once"),
        ({"order": "fresh", "passes": None, "steps": 4}, "index the 3 examples"),
        ({"w0": [[0.0]]}, "w0 must be a finite vector"),
        ({"w0": [np.nan]}, "w0 must be a finite vector"),
        ({"record": "everything"}, "record must be"),
        ({"oracle": lambda s: np.zeros(2)}, "oracle must return shape"),
        ({"oracle": lambda s: np.array([np.nan])}, "what oracle returned in step 0 must be finite"),
    ],
)
def test_sgd_refuses(kwargs, message):
    given_ = {"oracle": pull(0.0), "sample": [0, 1, 2], "w0": [0.0], "passes": 1} | kwargs
    with pytest.raises(ValueError, match=message):
        sgd(given_.pop("oracle"), given_.pop("sample"), 0.1, **given_)


def test_refuses_orders_that_are_no_integers_and_wrong_suffixes():
    with pytest.raises(TypeError, match="integer indices"):
        sgd(pull(0.0), [0, 1], 0.1, w0=[0.0], order=[0.0, 1.0], passes=1)
    result = sgd(pull(0.0), [0, 1], 0.1, w0=[0.0], passes=1)
    for tau in (0, 4):
        with pytest.raises(ValueError, match=r"tau must lie in 1\.\.3"):
            result.suffix(tau)
    with pytest.raises(ValueError, match="radius must be finite and positive"):
        Ball(0.0)


# ------------------------------------------------------------------ bounds


def test_upper_bounds_with_their_constants():
    n, passes, eta, G, D = 100, 2, 0.1, 1.0, 2.0
    root = np.sqrt(n * passes)
    assert upper_bound("without_replacement", n, passes, eta) == pytest.approx(0.1 + 14.142136 + 2.4 + 0.05, abs=1e-5)
    assert upper_bound("with_replacement", n, passes, eta) == pytest.approx(0.1 + 0.05 + 0.4 * (root + passes))
    assert upper_bound("one_pass", n, 1, eta) == pytest.approx(4 / (2 * eta * n) + eta / 2)
    assert upper_bound("multi", n, passes, eta) == pytest.approx(
        0.2 * root + 0.8 + 2 * eta * np.sqrt(n) + D**2 / (2 * eta * n * passes) + eta / 2
    )
    assert upper_bound("single", n, passes, eta) == upper_bound("without_replacement", n, passes, eta)
    assert stability_bound("multi", n, passes, eta) == pytest.approx(2 * eta * root + 4 * eta * passes)
    assert stability_bound("with_replacement", n, passes, eta) == pytest.approx(4 * eta * root + 4 * eta * passes)
    assert optimisation_bound("single", n, passes, eta) == pytest.approx(
        8 * eta * (root + passes) + D**2 / (2 * eta * n * passes) + eta / 2
    )
    doubled = upper_bound("single", n, passes, eta, G=2.0) - D**2 / (2 * eta * n * passes)
    assert doubled == pytest.approx(4 * (upper_bound("single", n, passes, eta, G=G) - 0.1))
    assert upper_bound("single", n, passes, eta, D=4.0) == pytest.approx(upper_bound("single", n, passes, eta) + 0.3)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("half", 10, 2, 0.1), "kind must be one of"),
        (("single", 0, 2, 0.1), "n must be at least 1"),
        (("single", 10, 0, 0.1), "passes must be at least 1"),
        (("with_replacement", 10, 0, 0.1), "passes must be finite and positive"),
        (("single", 10, 2, 0.0), "eta must be finite and positive"),
        (("one_pass", 10, 2, 0.1), "passes must be 1"),
        (("single", 10, 2, 0.1, 0.0), "G must be finite and positive"),
        (("single", 10, 2, 0.1, 1.0, -2.0), "D must be finite and positive"),
    ],
)
def test_upper_bound_refuses(args, message):
    with pytest.raises(ValueError, match=message):
        upper_bound(*args)


def test_rate_and_excess_formula():
    assert worst_case_rate(100, 0.1) == pytest.approx(1.0)
    assert worst_case_rate(10**4, 1e-3) == pytest.approx(0.1 + 0.1)
    T = 10**8
    assert worst_case_rate(T, T**-0.75) == pytest.approx(2 * T**-0.25)
    with pytest.raises(ValueError, match="at least 1"):
        worst_case_rate(0, 0.1)
    # Two passes, p = n/3, eta = 1/sqrt n, alpha = 1/sqrt 2: the same constant for each n.
    for n in (48, 480, 48_000):
        last = excess_formula(2 * n, n, n // 3, n**-0.5, 2**-0.5)
        assert last == pytest.approx(np.sqrt(1 / 6) / 16, rel=1e-14)
    p, n = 32, 100
    curve = excess_formula(np.arange(201), n, p, 0.1, 0.5)
    assert (curve[: n + 18 + 1] == 0).all()
    assert curve[n + 19] == pytest.approx(0.05 / (7 * np.sqrt(32)))
    assert curve[n + p :] == pytest.approx(0.05 * np.sqrt(32) / 16)
    with pytest.raises(ValueError, match="steering steps"):
        excess_formula(1, 10, 24, 0.1, 1.0)
    assert suffix_lower_bound(48, 0.5, 0.5) == pytest.approx(0.25 * 4 / 64)


@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize("m", [0, 1, 4, 9, 30])
def test_coupon_probability_against_the_chain_of_distinct_counts(n, m):
    law = [Fraction(1)] + [Fraction(0)] * n  # law of the number of distinct examples seen
    for _ in range(m):
        law = [
            law[j] * Fraction(j, n) + (law[j - 1] * Fraction(n - j + 1, n) if j else Fraction(0)) for j in range(n + 1)
        ]
    assert coupon_all_seen_probability(n, m) == pytest.approx(float(law[n]), abs=1e-15)
    assert coupon_unseen_law(n, m) == pytest.approx([float(p) for p in law[::-1]], abs=1e-14)


def test_coupon_probability_values():
    exact = {24: 0.3726, 100: 0.3679, 1000: 0.3678}
    for n, value in exact.items():
        assert coupon_all_seen_probability(n, ceil(n * log(n))) == pytest.approx(value, abs=5e-5)
    for n, value in {24: 0.804, 48: 0.845, 100: 0.882, 1000: 0.954}.items():
        assert coupon_all_seen_probability(n, ceil(n * log2(n))) == pytest.approx(value, abs=5e-4)
    assert coupon_all_seen_probability(1000, 7275) == pytest.approx(0.5, abs=0.005), "n ln n - n ln ln 2"
    with pytest.raises(ValueError, match="n must be at least 1"):
        coupon_all_seen_probability(0, 3)


def test_bad_vector_probability():
    for m in (1, 3, 8, 12):
        for size in (1, 2**m, 4 * 2**m):
            assert bad_vector_probability(m, log2(size)) == pytest.approx(1 - (1 - 2.0**-m) ** size, rel=1e-9)
    assert bad_vector_probability(0, 3.0) == 1.0
    assert bad_vector_probability(10**6, 10**6) == pytest.approx(1 - np.exp(-1), rel=1e-12)
    assert bad_vector_probability(70, 5000.0) == 1.0
    assert bad_vector_probability(3, 1.0) == pytest.approx(1 - (7 / 8) ** 2)
    with pytest.raises(ValueError, match="seen"):
        bad_vector_probability(-1, 2.0)
    with pytest.raises(ValueError, match="m must be at least 0, got -1"):
        coupon_unseen_law(3, -1)


def test_replacement_success_against_simulation_of_the_event():
    n, memorise, later = 6, 12, 9
    rng, hits, trials = np.random.default_rng(0), 0, 4000
    for _ in range(trials):
        first, rest = rng.integers(0, n, memorise), rng.integers(0, n, later)
        seen = np.unique(first)
        exists = rng.random() < bad_vector_probability(seen.size, 5.0)
        contains = rng.random(n) < 0.5
        contains[seen] = False
        hits += exists and not contains[rest].any()
    p = replacement_success_probability(n, memorise, later, 5.0)
    assert abs(hits / trials - p) < 4 * np.sqrt(p * (1 - p) / trials)
    assert 0.2 < p < 0.8
