"""The multi-pass hard instance against brute force, closed forms, and the definition of a subgradient."""

from itertools import combinations, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icml25.theory.multipass_sgd import (
    GemmEvaluator,
    HardInstance,
    LossRecorder,
    MultiPassInstance,
    default_steering_steps,
    excess_formula,
    expected_max,
    packing_overlaps,
    packing_set,
    sample_order,
    sgd,
    steering_grid,
    subgradient_violation,
    suffix_lower_bound,
    top_block,
    upper_bound,
)


@pytest.fixture(scope="module")
def small():
    """n = 8, |U| = 2^10, d = 256, p = 16 (blocks of 16), three passes."""
    return MultiPassInstance.explicit(8, 256, 2**10, p=16, passes=3, seed=0)


def run(instance, sample, **kwargs):
    kwargs = {"passes": instance.steps // len(sample), "order": "single", "seed": 1} | kwargs
    return sgd(instance.oracle, sample, instance.eta, w0=instance.start, **kwargs)


def event_sample(instance, start=0):
    """First seed from ``start`` whose sample leaves a bad vector."""
    return next(s for s in (instance.draw(k) for k in range(start, start + 50)) if instance.bad_vector(s) is not None)


# ------------------------------------------------------------------ packing set


def test_packing_set_has_the_weights_and_the_overlaps_it_promises():
    vectors = packing_set(300, 256, seed=3)
    gram = vectors.astype(int) @ vectors.T.astype(int)
    assert set(np.unique(vectors)) == {0, 1}
    assert (gram.diagonal() == 112).all()
    off = gram[~np.eye(300, dtype=bool)]
    assert off.max() <= 80
    assert off.mean() == pytest.approx((7 / 16) ** 2 * 256, rel=0.01)


def test_overlaps_in_chunks_are_those_of_the_gram_matrix():
    vectors = packing_set(37, 64, seed=1, max_overlap=1.0)
    gram = np.tril(vectors.astype(int) @ vectors.T.astype(int), k=-1)
    expected = [-1] + [gram[i, :i].max() for i in range(1, 37)]
    for chunk in (5, 16, 100):
        assert packing_overlaps(vectors, chunk=chunk).tolist() == expected


def test_packing_set_redraws_offenders_and_gives_up_with_the_reached_overlap():
    # With d = 16 two random rows of 7 ones overlap in more than 5 about one time in twenty: redraws are needed.
    tight = packing_set(12, 16, seed=0)
    gram = tight.astype(int) @ tight.T.astype(int)
    assert gram[~np.eye(12, dtype=bool)].max() <= 5
    with pytest.raises(RuntimeError, match=r"overlap \d+ after 20 redraws exceeds the limit"):
        packing_set(400, 16, seed=0)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"size": 0, "d": 16}, "size must be at least 1, got 0"),
        ({"size": 2, "d": 20}, r"ones \* d must be an integer"),
        ({"size": 2, "d": 16, "ones": 1.5}, r"ones \* d must be an integer"),
        ({"size": 2, "d": 16, "max_overlap": 2.0}, "max_overlap must lie"),
    ],
)
def test_packing_set_refuses(kwargs, message):
    with pytest.raises(ValueError, match=message):
        packing_set(**kwargs)


# ------------------------------------------------------------------ the loss, by brute force


@settings(max_examples=60, deadline=None)
@given(d=st.integers(1, 9), data=st.data())
def test_top_block_is_the_maximum_over_all_subsets(d, data):
    size = data.draw(st.integers(1, d))
    values = np.array(data.draw(st.lists(st.floats(-2, 2), min_size=d, max_size=d)))
    brute = max(sum(values[list(c)]) / np.sqrt(k) for k in range(1, size + 1) for c in combinations(range(d), k))
    value, block = top_block(values, size)
    assert value == pytest.approx(brute, abs=1e-12)
    assert values[block].sum() / np.sqrt(len(block)) == pytest.approx(value, abs=1e-12)
    with pytest.raises(ValueError, match="size must lie"):
        top_block(values, d + 1)


@settings(max_examples=60, deadline=None)
@given(
    scores=st.lists(st.floats(-3, 3), min_size=1, max_size=7),
    floor=st.floats(-2, 2),
    inclusion=st.sampled_from([0.5, 0.01, 0.9]),
)
def test_expected_max_is_the_average_over_all_subsets(scores, floor, inclusion):
    total = 0.0
    for keep in product([False, True], repeat=len(scores)):
        chance = np.prod([inclusion if k else 1 - inclusion for k in keep])
        total += chance * max([floor] + [s for s, k in zip(scores, keep, strict=True) if k])
    assert expected_max(np.array(scores), floor, inclusion) == pytest.approx(total, abs=1e-12)


def test_expected_max_forgets_only_what_doubles_cannot_hold():
    scores = np.random.default_rng(0).random(5000)
    ranked = np.sort(scores)[::-1]
    direct = sum(0.5 ** (j + 1) * s for j, s in enumerate(ranked))
    assert expected_max(scores, 0.0) == pytest.approx(direct, abs=1e-15)
    with pytest.raises(ValueError, match="inclusion"):
        expected_max(scores, 0.0, 1.0)


def brute_loss(instance, w, z):
    d, B = instance.d, instance.block
    w1, w2 = w[:d], w[d:]
    best = lambda x: max(sum(x[list(c)]) / np.sqrt(k) for k in range(1, B + 1) for c in combinations(range(d), k))
    inside = [float((w1 + w2 + instance.shift) @ u) for u, k in zip(instance.vectors, z, strict=True) if k]
    top = max([instance.threshold, *inside])
    return top / np.sqrt(d) + instance.alpha * (5 / 7 * max(0, best(w1)) + 2 / 7 * max(0, best(-w2)))


def tiny():
    """d = 16 with 7 vectors; blocks of 1 coordinate by p = 16."""
    return MultiPassInstance.explicit(2, 16, 7, p=16, eta=0.3, passes=9, seed=2)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_loss_and_population_are_the_definitions(seed):
    instance, rng = tiny(), np.random.default_rng(seed)
    w = rng.standard_normal(32) * rng.choice([0.01, 0.1, 0.5])
    sets = [np.array(z) for z in product([False, True], repeat=7)]
    losses = [instance.loss(w, z) for z in sets]
    for index in rng.integers(0, 128, 4):
        assert losses[index] == pytest.approx(brute_loss(instance, w, sets[index]), abs=1e-12)
    assert min(losses) >= instance.minimum - 1e-12
    assert instance.population(w) == pytest.approx(np.mean(losses), abs=1e-12)
    sample = np.array(sets)[rng.integers(0, 128, 5)]
    assert instance.empirical(w, sample) == pytest.approx(np.mean([instance.loss(w, z) for z in sample]), abs=1e-12)


def test_blocks_of_two_coordinates_by_brute_force():
    vectors = packing_set(5, 32, seed=0)
    instance = MultiPassInstance.explicit(4, 32, p=16, eta=0.2, passes=8, vectors=vectors)
    assert instance.block == 2
    rng = np.random.default_rng(5)
    w = rng.standard_normal(64) * 0.2
    z = np.array([True, False, True, True, False])
    assert instance.loss(w, z) == pytest.approx(brute_loss(instance, w, z), abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), weight=st.floats(0, 1))
def test_loss_is_convex_and_lipschitz(seed, weight):
    instance, rng = tiny(), np.random.default_rng(seed)
    z = rng.random(7) < 0.5
    a, b = (rng.standard_normal(32) * s for s in rng.choice([0.01, 0.1, 1.0], 2))
    middle = instance.loss(weight * a + (1 - weight) * b, z)
    assert middle <= weight * instance.loss(a, z) + (1 - weight) * instance.loss(b, z) + 1e-12
    assert abs(instance.loss(a, z) - instance.loss(b, z)) <= instance.lipschitz * np.linalg.norm(a - b) + 1e-12
    assert instance.lipschitz <= 1.71


def test_population_is_the_mean_over_fresh_examples(small):
    sample = event_sample(small)
    w = run(small, sample).w
    fresh = small.draw(99, size=4000)
    losses = np.array([small.loss(w, z) for z in fresh])
    assert small.population(w) == pytest.approx(losses.mean(), abs=5 * losses.std() / np.sqrt(len(losses)))
    assert losses.std() > 0.01


# ------------------------------------------------------------------ the run


@pytest.mark.parametrize("order", ["single", "multi", "cyclic"])
def test_explicit_run_follows_the_formula_and_keeps_the_training_loss(small, order):
    sample = event_sample(small)
    result = run(small, sample, order=order, record=["iterates", LossRecorder(small, sample)])
    population, empirical = np.array(result.history).T
    formula = excess_formula(np.arange(25), 8, 16, small.eta, small.alpha)
    assert np.abs(population - formula).max() < 1e-12
    assert formula[-1] == pytest.approx(small.final_excess, rel=1e-14)
    assert np.abs(empirical).max() < 1e-12
    assert result.projections == 0
    assert (result.iterates[:9] == 0).all()
    assert np.sum(result.w**2) == pytest.approx(253 / 784 * (small.eta * small.alpha) ** 2 * 16, rel=1e-12)
    for t in (0, 8, 12, 20, 24):
        assert small.excess(result.iterates[t]) == pytest.approx(population[t], abs=1e-12)
        assert small.empirical(result.iterates[t], sample) == pytest.approx(small.minimum, abs=1e-12)


def test_alpha_default_and_shift_and_threshold(small):
    assert small.alpha == pytest.approx(1 / (8**-0.5 * 24**0.5))
    ones = small.vectors[0].sum()
    assert small.threshold == pytest.approx(small.shift * ones)
    assert small.minimum == pytest.approx(small.population(small.start), abs=1e-15)
    assert MultiPassInstance.lazy(48, 1e-4, 2).alpha == 1.0


def test_final_excess_is_the_same_for_every_permutation(small):
    sample, rng = event_sample(small, 7), np.random.default_rng(0)
    finals = [
        small.excess(run(small, sample, order=np.array([rng.permutation(8) for _ in range(3)])).w) for _ in range(5)
    ]
    assert np.ptp(finals) < 1e-12
    assert finals[0] == pytest.approx(small.final_excess, abs=1e-12)


@pytest.mark.parametrize("n", [48, 96, 384])
def test_lazy_run_is_independent_of_n(n):
    instance = MultiPassInstance.lazy(n, passes=2, seed=n)
    sample = np.zeros((n, 1), dtype=bool)
    recorder = LossRecorder(instance, sample)
    result = run(instance, sample, record=["iterates", recorder])
    population = np.array(result.history)[:, 0]
    formula = excess_formula(np.arange(2 * n + 1), n, n // 3, n**-0.5, 2**-0.5)
    assert instance.p == n // 3
    assert np.abs(population - formula).max() < 1e-12
    assert population[-1] == pytest.approx(np.sqrt(1 / 6) / 16, abs=1e-12)
    curve = instance.curve()
    assert np.abs(curve.at(np.arange(2 * n + 1)) - population).max() < 1e-12
    assert np.abs(curve.w - result.w).max() < 1e-15
    assert np.abs(curve.squared_norm[-1] - np.sum(result.w**2)) < 1e-12
    for tau in (1, 2, n // 2, n, n + n // 2, 2 * n, 2 * n + 1):
        exact = instance.excess(result.suffix(tau))
        assert curve.suffix_excess(tau) == pytest.approx(exact, abs=1e-12)
        assert exact == pytest.approx(population[-tau:].mean(), abs=1e-12)
        assert exact >= suffix_lower_bound(n, instance.eta, instance.alpha)
        assert exact <= upper_bound("single", n, 2, instance.eta, G=instance.lipschitz)


@pytest.mark.parametrize(("n", "d", "p"), [(8, 256, 16), (10, 256, 16), (12, 512, 16), (10, 128, 32)])
def test_lazy_agrees_with_explicit(n, d, p):
    passes = 5
    explicit = MultiPassInstance.explicit(n, d, 4 * 2 ** min(n, 8), p=p, passes=passes, seed=4)
    sample = np.zeros((n, len(explicit.vectors)), dtype=bool)
    sample[:, 1:] = np.random.default_rng(0).random((n, len(explicit.vectors) - 1)) < 0.5
    assert explicit.bad_vector(sample) == 0
    lazy = MultiPassInstance.lazy(n, passes=passes, p=p, d=d)
    one = run(explicit, sample, record=LossRecorder(explicit, sample))
    two = run(lazy, sample[:, :1], record=LossRecorder(lazy, sample[:, :1]))
    assert np.abs(np.array(one.history) - np.array(two.history)).max() < 1e-12
    assert lazy.final_excess == pytest.approx(explicit.final_excess, rel=1e-15)


@pytest.mark.parametrize(("passes", "value"), [(2, 0.02552), (3, 0.02946), (5, 0.03227), (9, 0.03402), (17, 0.03501)])
def test_small_steps_grow_like_eta_sqrt_t(passes, value):
    instance = MultiPassInstance.lazy(48, 1e-3, passes)
    curve = instance.curve()
    assert instance.alpha == 1.0
    assert curve.excess[-1] / (1e-3 * np.sqrt(48 * passes)) == pytest.approx(value, abs=5e-6)
    assert curve.excess[-1] == pytest.approx(1e-3 * np.sqrt(48 * passes) * np.sqrt((passes - 1) / (3 * passes)) / 16)


def test_weight_one_and_n_steering_steps_reach_one_sixteenth():
    instance = MultiPassInstance.lazy(48, passes=2, p=48, alpha=1.0)
    result = run(instance, np.zeros((48, 1), dtype=bool))
    assert instance.excess(result.w) == pytest.approx(1 / 16, abs=1e-12)
    assert result.projections == 0


def test_no_bad_vector_no_step(small):
    everything = np.ones((8, len(small.vectors)), dtype=bool)
    assert small.bad_vector(everything) is None
    assert not run(small, everything).iterates.any()


def test_bad_vector_is_the_first_that_no_example_contains(small):
    seen = np.ones((3, len(small.vectors)), dtype=bool)
    seen[:, [5, 9]] = False
    assert small.bad_vector(seen) == 5
    seen[1, 5] = True
    assert small.bad_vector(seen) == 9


def test_honest_oracle_never_moves(small):
    result = sgd(small.honest_oracle, small.draw(0), small.eta, w0=small.start, passes=3)
    assert not result.iterates.any()


def test_fresh_examples_undo_the_harm(small):
    finals = []
    for seed in range(6):
        stream = small.draw(seed, size=small.steps)
        result = run(small, stream, order="fresh", passes=1)
        finals.append(small.excess(result.w))
    assert np.mean(finals) <= 0.25 * small.final_excess


def test_full_batch_descent_needs_one_step_to_memorise():
    instance = MultiPassInstance.explicit(8, 256, 2**10, p=16, steps=18, memorise=1, seed=0)
    sample = event_sample(instance)
    result = sgd(instance.oracle, sample[None], instance.eta, w0=instance.start, passes=18)
    excess = [instance.excess(w) for w in result.iterates]
    assert np.abs(excess - excess_formula(np.arange(19), 1, 16, instance.eta, instance.alpha)).max() < 1e-12
    assert instance.loss(result.w, sample) == pytest.approx(instance.minimum, abs=1e-12)


def test_an_example_met_late_that_contains_u0_is_answered_honestly():
    instance = MultiPassInstance.lazy(48, passes=3, p=16)
    late = np.zeros((48, 1), dtype=bool)
    late[0] = True
    order = np.concatenate([np.arange(1, 48), [1], np.full(40, 2), [0], np.full(7, 3), np.arange(48)])
    result = run(instance, late, order=order, passes=None, steps=144)
    before, after = instance.excess(result.iterates[88]), instance.excess(result.iterates[89])
    assert before == pytest.approx(instance.final_excess, abs=1e-12)
    assert after < before
    for t in range(80, 144):
        state_w = result.iterates[t]
        g = (state_w - result.iterates[t + 1]) / instance.eta
        assert instance.is_subgradient(state_w, late[order[t]], g) < 1e-12


# ------------------------------------------------------------------ valid oracle


def visited(instance, sample, seed=0):
    result = run(instance, sample, seed=seed)
    for t in range(result.steps):
        g = (result.iterates[t] - result.iterates[t + 1]) / instance.eta
        yield t, result.iterates[t], sample[result.order[t]], g


def test_every_step_is_a_subgradient_and_a_wrong_length_is_found(small):
    sample = event_sample(small)
    worst, scaled = -np.inf, -np.inf
    for t, w, z, g in visited(small, sample):
        worst = max(worst, small.is_subgradient(w, z, g, n_probe=200, seed=t))
        scaled = max(scaled, small.is_subgradient(w, z, 1.05 * g, n_probe=200, seed=t))
    assert worst <= 1e-12
    assert scaled > 1e-4


def test_every_step_is_a_subgradient_lazily_with_single_coordinates():
    instance = MultiPassInstance.lazy(48, passes=3)
    sample = np.zeros((48, 1), dtype=bool)
    for t, w, z, g in visited(instance, sample):
        if g.any():
            assert instance.is_subgradient(w, z, g, seed=t) <= 1e-12
            assert instance.is_subgradient(w, z, -g, seed=t) > 1e-4


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_honest_subgradient_is_one_anywhere(seed):
    instance, rng = tiny(), np.random.default_rng(seed)
    w = rng.standard_normal(32) * rng.choice([0.01, 0.1, 0.5])
    z = rng.random(7) < 0.5
    assert instance.is_subgradient(w, z, instance.subgradient(w, z), seed=seed) <= 1e-12


def test_violation_of_a_known_function():
    loss = lambda y: np.abs(y).sum(axis=-1)
    w = np.array([0.5, 0.0])
    assert subgradient_violation(loss, w, np.array([1.0, 0.3])) <= 1e-15
    assert subgradient_violation(loss, w, np.array([1.0, 1.2])) > 0.05
    assert subgradient_violation(loss, w, np.array([0.0, 0.0])) > 0.1
    with pytest.raises(ValueError, match="n_probe"):
        subgradient_violation(loss, w, w, n_probe=2)
    with pytest.raises(ValueError, match="shape of w"):
        subgradient_violation(loss, w, np.zeros(3))


# ------------------------------------------------------------------ the event


def test_lazy_draw_has_the_probability_of_the_event():
    instance = MultiPassInstance.lazy(8, passes=3, p=16, log2_size=8.0)
    hits = sum(not instance.draw(seed).any() for seed in range(400))
    p = 1 - (1 - 2.0**-8) ** 256
    assert instance.event_probability == pytest.approx(p)
    assert abs(hits / 400 - p) < 4 * np.sqrt(p * (1 - p) / 400)


def test_lazy_draw_leaves_unseen_examples_free():
    instance = MultiPassInstance.lazy(48, passes=2)
    seen = np.ones(48, dtype=bool)
    seen[:20] = False
    draws = np.array([instance.draw(s, seen=seen)[:, 0] for s in range(300)])
    exists = ~draws[:, 20:].any(axis=1)
    assert exists.all(), "28 seen examples and 2^50 vectors: u0 exists"
    assert draws[:, :20].mean() == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(6000))
    with pytest.raises(ValueError, match="seen must have shape"):
        instance.draw(0, seen=np.ones(3, dtype=bool))


def test_explicit_draw_is_fair_and_reproducible(small):
    sample = small.draw(5)
    assert sample.shape == (8, 1024)
    assert sample.mean() == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(sample.size))
    assert np.array_equal(sample, small.draw(5))
    assert small.draw(5, size=3).shape == (3, 1024)
    with pytest.raises(ValueError, match="seen is for lazy"):
        small.draw(0, seen=np.ones(8, dtype=bool))
    with pytest.raises(ValueError, match="size must be at least 1"):
        small.draw(0, size=0)


def test_with_replacement_succeeds_when_the_unseen_lack_u0():
    n, tau = 48, 269
    instance = MultiPassInstance.lazy(n, passes=2, steps=2 * tau, memorise=tau)
    success = 0
    for seed in range(60):
        order = sample_order(n, kind="with_replacement", seed=seed, steps=2 * tau)
        seen = np.isin(np.arange(n), order[:tau])
        sample = instance.draw(seed + 1000, seen=seen)
        final = instance.excess(run(instance, sample, order=order, passes=None, steps=2 * tau).w)
        on_script = not sample[order].any()
        if on_script:
            assert final == pytest.approx(instance.final_excess, abs=1e-12)
        success += on_script
    assert success / 60 >= 0.25


# ------------------------------------------------------------------ recorder, grid, GEMM


def test_incremental_scores_are_the_recomputed_ones(small):
    sample = event_sample(small)
    path = run(small, sample).iterates
    rng = np.random.default_rng(0)
    path = np.concatenate([path, rng.standard_normal((4, small.dim)) * 0.1, path[:2]])
    fast, plain = LossRecorder(small, sample), LossRecorder(small, sample, incremental=False)
    for t, w in enumerate(path):
        assert np.allclose(fast(t, w), plain(t, w), atol=1e-12)
        assert np.allclose(fast.scores(w), small.scores(w), atol=1e-12)
        assert plain(t, w)[1] == pytest.approx(small.empirical(w, sample) - small.minimum, abs=1e-12)
    assert np.isnan(LossRecorder(small)(0, small.start)[1])


def test_grid_of_batched_runs_is_the_lazy_runs():
    etas, passes = [1e-3, 0.02, 0.3], [2, 3, 5]
    grid = steering_grid(etas, passes, 48, seed=3)
    for i, eta in enumerate(etas):
        for j, k in enumerate(passes):
            instance = MultiPassInstance.lazy(48, eta, k)
            result = run(instance, np.zeros((48, 1), dtype=bool))
            assert grid[i, j] == pytest.approx(instance.excess(result.w), abs=1e-12)
            for steps in (0, 9, 10, 40):
                early = steering_grid([eta], [k], 48, seed=3, steps=steps)[0, 0]
                assert early == pytest.approx(instance.excess(result.iterates[48 + steps]), abs=1e-12)
    with pytest.raises(ValueError, match="steps must be at least 0"):
        steering_grid([0.1], [2], 48, steps=-1)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (([0.0], [2], 48), "etas must be positive"),
        (([0.1], [1], 48), "passes must be integers of at least 2"),
        (([0.1], [2.5], 48), "passes must be integers"),
        (([0.1], [2], 8), "at least 16 steps"),
    ],
)
def test_grid_refuses(args, message):
    with pytest.raises(ValueError, match=message):
        steering_grid(*args)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gemm_evaluator_is_exact_on_the_path(small, dtype):
    samples = np.stack([event_sample(small), event_sample(small, 20)])
    paths = [run(small, s, record=["iterates", LossRecorder(small, s)]) for s in samples]
    evaluate = GemmEvaluator(small, dtype=dtype)
    for t in (0, 8, 20, 24):
        population, empirical = evaluate(np.stack([r.iterates[t] for r in paths]), samples)
        assert population == pytest.approx([r.history[t][0] for r in paths], abs=1e-12)
        assert empirical == pytest.approx([r.history[t][1] for r in paths], abs=1e-12)
    away = np.random.default_rng(0).standard_normal((2, small.dim)) * 0.1
    population, empirical = evaluate(away, samples)
    assert population == pytest.approx([small.excess(w) for w in away], rel=1e-5)
    assert empirical[1] == pytest.approx(small.empirical(away[1], samples[1]) - small.minimum, rel=1e-5)
    with pytest.raises(ValueError, match="samples must have shape"):
        evaluate(away, samples[0])
    with pytest.raises(TypeError, match="dtype must be"):
        GemmEvaluator(small, dtype=torch.float16)


# ------------------------------------------------------------------ refused input, contract


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"n": 0}, "n must be at least 1"),
        ({"p": 24}, "steering steps, must be a multiple of 16"),
        ({"p": 48, "d": 256, "passes": 9}, "steering steps, must be a multiple of 16 that divides d = 256"),
        ({"p": 32}, "steering steps, must be at most T - memorise = 16"),
        ({"p": 0}, "steering steps"),
        ({"passes": 0}, "passes must be at least 1"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"memorise": 25}, "memorise must lie in"),
        ({"eta": 0.0}, "eta must be finite and positive"),
        ({"eta": np.inf}, "eta must be finite and positive"),
        ({"alpha": 1.5}, "alpha must lie"),
        ({"max_entries": 1000}, "use lazy"),
        ({"vectors": np.zeros((4, 32), dtype=np.int8)}, "vectors must have d = 256 columns"),
    ],
)
def test_explicit_refuses(kwargs, message):
    given_ = {"n": 8, "d": 256, "size": 8, "p": 16, "passes": 3} | kwargs
    with pytest.raises(ValueError, match=message):
        MultiPassInstance.explicit(**given_)


def test_lazy_refuses_what_explicit_refuses():
    for kwargs, message in [({"n": 0}, "n must be"), ({"n": 48, "p": 20}, "steering steps"), ({"n": 8}, "at most")]:
        with pytest.raises(ValueError, match=message):
            MultiPassInstance.lazy(**kwargs)
    curve = MultiPassInstance.lazy(48).curve()
    with pytest.raises(ValueError, match="tau must lie"):
        curve.suffix_excess(0)


def test_default_steering_steps():
    assert [default_steering_steps(k) for k in (1, 47, 48, 95, 96, 48 * 32)] == [16, 16, 16, 16, 32, 512]
    assert MultiPassInstance.lazy(50, passes=3).p == 32
    assert MultiPassInstance.explicit(8, 256, 8, passes=9, eta=0.1).p == 16


def test_instance_keeps_the_contract(small):
    assert isinstance(small, HardInstance)
    assert small.dim == 512
    assert not small.is_lazy
    assert MultiPassInstance.lazy(48).is_lazy
