"""Mixture trees against prefix trees and hand-made hierarchies; the all-or-nothing posterior against a plain loop."""

import math
from itertools import combinations, permutations

import numpy as np
import pytest

from icml25.theory.critical_windows import (
    AutoregressiveTruncation,
    DiscreteMixture,
    MixtureTree,
    OrderedMasking,
    TreeNode,
    all_or_nothing_threshold,
    build_mixture_tree,
    check_mixture_tree,
    corollary1_checks,
    corollary2_eps,
    discrete_distances,
    gaussian_distances,
    sparse_regression_overlap,
    window_all_or_nothing,
)


def cube(d):
    """Every string of d bits is a feature of its own."""
    return DiscreteMixture(np.full(2**d, 2.0**-d), np.eye(2**d), 2, d)


def prefix_tree(order):
    """Sets of strings that agree on the coordinates hidden last, for each number of hidden coordinates."""
    d = len(order)
    strings = np.array([[x >> (d - 1 - i) & 1 for i in range(d)] for x in range(2**d)])
    found = {}
    for t in range(d + 1):
        for x in range(2**d):
            shown = list(order[t:])
            same = (strings[:, shown] == strings[x, shown]).all(1)
            found[frozenset(np.flatnonzero(same).tolist())] = float(t)
    return found


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_permutation_masking_gives_the_prefix_tree_for_every_order(d):
    mix = cube(d)
    for order in permutations(range(d)):
        proc = OrderedMasking(order, 2)
        pairs, separation = discrete_distances(mix, proc)
        tree = build_mixture_tree(pairs, separation, proc.levels, 0.0)
        assert {node.subset: node.level for node in tree.nodes} == prefix_tree(order)
        assert tree.depth == d
        assert check_mixture_tree(tree, pairs, separation, 0.0) == []


def two_level_gaussians(d=64, near=12.0, far=400.0):
    """Two pairs of means: within a pair ``near`` apart, the pairs ``far`` apart."""
    means = np.zeros((4, d))
    means[:2, 0], means[2:, 0] = -far / 2, far / 2
    means[[0, 2], 1], means[[1, 3], 1] = -near / 2, near / 2
    return means


def test_gaussian_pairs_of_pairs_have_a_tree_of_depth_two():
    pairs, separation = gaussian_distances(two_level_gaussians())
    tree = build_mixture_tree(pairs, separation, np.linspace(0.0, 10.0, 201), 0.1)
    assert [sorted(node.subset) for node in tree.nodes] == [[0], [1], [2], [3], [0, 1], [2, 3], [0, 1, 2, 3]]
    assert tree.depth == 2
    assert [node.parent for node in tree.nodes] == [4, 4, 5, 5, 6, 6, None]
    assert tree.nodes[tree.lowest_common_ancestor(0, 1)].subset == {0, 1}
    assert tree.nodes[tree.lowest_common_ancestor(1, 2)].subset == {0, 1, 2, 3}
    assert check_mixture_tree(tree, pairs, separation, 0.1) == []


def test_a_chain_of_neighbours_is_no_node_until_its_ends_have_merged():
    pairs, separation = gaussian_distances([[0.0], [10.0], [20.0]])
    levels = np.linspace(0.0, 8.0, 161)
    tree = build_mixture_tree(pairs, separation, levels, 0.1)
    assert tree.root.level == next(t for t in levels if pairs(t)[0, 2] <= 0.1)
    assert check_mixture_tree(tree, pairs, separation, 0.1) == []


def test_a_pair_that_merges_too_close_to_the_rest_is_no_node():
    # 0 and 1 merge while 2, at a distance only half as large again, is not far enough to be told apart.
    pairs, separation = gaussian_distances([[0.0], [8.0], [20.0]])
    tree = build_mixture_tree(pairs, separation, np.linspace(0.0, 8.0, 161), 0.1)
    assert [sorted(node.subset) for node in tree.nodes] == [[0], [1], [2], [0, 1, 2]]
    assert tree.depth == 1
    assert check_mixture_tree(tree, pairs, separation, 0.1) == []


def test_gaussian_separation_is_a_lower_bound():
    # One dimension, three means, unequal weights: the total variation by the trapezoidal rule.
    means, weights = np.array([[-3.0], [0.0], [4.0]]), np.array([0.5, 0.2, 0.3])
    pairs, separation = gaussian_distances(means, weights)
    x = np.linspace(-15, 15, 6001)
    for t in (0.0, 0.4, 1.0):
        density = np.exp(-0.5 * (x - math.exp(-t) * means) ** 2) / math.sqrt(2 * math.pi)
        left = density[0] * 5 / 7 + density[1] * 2 / 7
        exact = 0.5 * np.abs(left - density[2]).sum() * (x[1] - x[0])
        assert separation({0, 1}, t) <= exact
        pair = 0.5 * np.abs(density[0] - density[1]).sum() * (x[1] - x[0])
        assert pairs(t)[0, 1] == pytest.approx(pair, abs=1e-5)


@pytest.mark.parametrize(
    "weights", [[0.25, 0.25, 0.25, 0.25], [0.05, 0.05, 0.2, 0.7], [0.6, 0.1, 0.1, 0.2]], ids=["even", "light", "heavy"]
)
def test_corollary1_holds_along_every_path(weights):
    # A noisy prefix tree: each of two bits is shown three times and may be flipped.
    copy = np.array([[0.98, 0.02], [0.02, 0.98]])
    rows = []
    for feature in range(4):
        law = np.ones(1)
        for bit in [feature >> 1] * 3 + [feature & 1] * 3:
            law = np.kron(law, copy[bit])
        rows.append(law)
    mix, proc = DiscreteMixture(weights, np.stack(rows), 2, 6), AutoregressiveTruncation(6, 2)
    pairs, separation = discrete_distances(mix, proc)
    tree = build_mixture_tree(pairs, separation, proc.levels, 0.2)
    assert tree.depth == 2
    for feature in range(4):
        checks = corollary1_checks(mix, proc, tree, feature, 0.2)
        assert [len(c.subset) for c in checks] == [1, 2, 4]
        assert all(c.distance <= c.bound + 1e-12 for c in checks)
        ratio = 1 / sum(weights[k] for k in checks[1].subset) - 1
        assert checks[1].bound == pytest.approx(0.2 * (1 + max(1, ratio) / math.sqrt(2)))
    distances = [c.distance for c in corollary1_checks(mix, proc, tree, 0, 0.2)]
    assert max(distances) < 0.05


def test_corollary2_the_tree_survives_a_perturbed_model():
    rng = np.random.default_rng(0)
    d, mix = 3, cube(3)
    proc = OrderedMasking(range(d), 2)
    tree = build_mixture_tree(*discrete_distances(mix, proc), proc.levels, 0.0)
    noise = rng.dirichlet(np.ones(8), 8)
    delta = 0.02
    other = DiscreteMixture(mix.weights, (1 - delta / 2) * mix.components + delta / 2 * noise, 2, d)
    assert check_mixture_tree(tree, *discrete_distances(other, proc), corollary2_eps(0.0, delta)) == []
    assert check_mixture_tree(tree, *discrete_distances(other, proc), 1e-4) != []
    assert corollary2_eps(0.1, 0.04) == pytest.approx(0.3)


def test_check_names_what_is_wrong():
    pairs, separation = gaussian_distances(two_level_gaussians())
    tree = build_mixture_tree(pairs, separation, np.linspace(0.0, 10.0, 201), 0.1)
    nodes = list(tree.nodes)
    nodes[4] = TreeNode(frozenset({0, 1}), nodes[-1].level, 6)
    (level, separated) = check_mixture_tree(MixtureTree(tuple(nodes)), pairs, separation, 0.1)
    assert "is not below its parent's" in level
    assert "[0, 1] is not separated from the rest" in separated
    nodes[4] = TreeNode(frozenset({0, 1}), 0.5, 6)
    assert check_mixture_tree(MixtureTree(tuple(nodes)), pairs, separation, 0.1) == [
        "features 0 and 1 are not within eps at the level 0.5"
    ]
    nodes[4] = TreeNode(frozenset({0, 1, 2, 3}), tree.nodes[4].level, 6)
    problems = check_mixture_tree(MixtureTree(tuple(nodes)), pairs, separation, 0.1)
    assert any("not strictly inside" in problem for problem in problems)
    nodes[4] = TreeNode(frozenset({0, 1}), tree.nodes[4].level, None)
    assert check_mixture_tree(MixtureTree(tuple(nodes)), pairs, separation, 0.1) == [
        "[0, 1] has no parent and is not the root"
    ]


@pytest.mark.parametrize(
    ("means", "levels", "message"),
    [
        ([[0.0], [0.1], [50.0]], [0.0, 5.0, 9.0], r"no valid leaves: features \[0, 1\] do not stand alone"),
        ([[0.0], [50.0]], [0.0, 1.0], r"no valid root: the features do not all merge within eps=0.1"),
        ([[0.0], [50.0]], [1.0, 1.0], "levels must be a strictly increasing list"),
        ([[0.0], [50.0]], [], "levels must be a strictly increasing list"),
    ],
)
def test_refuses_what_has_no_tree(means, levels, message):
    with pytest.raises(ValueError, match=message):
        build_mixture_tree(*gaussian_distances(means), levels, 0.1)


WEIGHTLESS = DiscreteMixture([1.0, 0.0], np.eye(2), 2, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: build_mixture_tree(*gaussian_distances([[0.0], [9.0]]), [0.0, 9.0], 1.0), r"eps must lie in \[0, 1\)"),
        (lambda: gaussian_distances([1.0, 2.0]), "means must be a finite"),
        (lambda: gaussian_distances([[0.0], [1.0]], [1.0, 0.0]), "weights must be positive"),
        (lambda: corollary2_eps(0.1, 1.5), r"delta must lie in \[0, 1\]"),
        (lambda: cube_tree().leaf(9), "feature 9 is not in the tree"),
        (
            lambda: discrete_distances(DiscreteMixture([1.0, 0.0], np.eye(2), 2, 1), AutoregressiveTruncation(1, 2)),
            "posi",
        ),
        (lambda: all_or_nothing_threshold(4, 5, 0.1), "1 <= sparsity <= size"),
        (lambda: all_or_nothing_threshold(4, 2, 0.0), "noise_var must be finite and positive"),
        (lambda: window_all_or_nothing(10, 16, 2, 0.05, 1.0), r"delta must lie in \(0, 1\)"),
        (lambda: window_all_or_nothing(0, 16, 2, 0.05, 0.5), "n_examples must be at least 1"),
        (lambda: sparse_regression_overlap(300, 4, 0.1, 3, 5, seed=0), "enumeration needs 330791175 supports"),
        (lambda: sparse_regression_overlap(8, 2, 0.1, 0, 5, seed=0), "n_examples must be at least 1"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def cube_tree():
    proc = OrderedMasking([0, 1], 2)
    return build_mixture_tree(*discrete_distances(cube(2), proc), proc.levels, 0.0)


# All or nothing -------------------------------------------------------------------------------------------------------


def test_threshold_and_window():
    assert all_or_nothing_threshold(16, 2, 0.05) == pytest.approx(2.24, abs=5e-3)
    assert all_or_nothing_threshold(64, 2, 0.05) == pytest.approx(3.73, abs=5e-3)
    window = window_all_or_nothing(20, 64, 2, 0.05, 0.25)
    star = all_or_nothing_threshold(64, 2, 0.05)
    assert (window.t_after, window.t_before) == pytest.approx((22 - 1.25 * star, 22 - 0.75 * star))
    assert not window_all_or_nothing(1, 64, 2, 0.05, 0.25).exists


def test_overlap_equals_bayes_rule_by_a_plain_loop():
    size, k, var, n, draws = 6, 2, 0.1, 3, 4
    mean, _ = sparse_regression_overlap(size, k, var, n, draws, seed=5)
    rng = np.random.default_rng(5)
    x = rng.standard_normal((draws, n, size))
    y = x[..., :k].sum(-1) + math.sqrt(var) * rng.standard_normal((draws, n))
    expected = np.zeros(n)
    for draw in range(draws):
        for seen in range(1, n + 1):
            weight, shared = [], []
            for support in combinations(range(size), k):
                misfit = sum((y[draw, i] - sum(x[draw, i, j] for j in support)) ** 2 for i in range(seen))
                weight.append(math.exp(-misfit / (2 * var)))
                shared.append(len({0, 1} & set(support)) / k)
            expected[seen - 1] += np.dot(weight, shared) / sum(weight) / draws
    assert mean == pytest.approx(expected, abs=1e-12)


def test_overlap_in_blocks_is_the_same_and_rises_from_chance_to_one():
    whole, error = sparse_regression_overlap(16, 2, 0.05, 8, 60, seed=1)
    blocks, _ = sparse_regression_overlap(16, 2, 0.05, 8, 60, seed=1, chunk_bytes=8 * 8 * 120 * 60)
    assert blocks == pytest.approx(whole, abs=1e-12)
    assert whole[0] < 0.35
    assert whole[-1] > 0.99
    assert ((error > 0) & (error < 0.1)).all()


def test_overlap_is_sharper_for_sparser_features():
    small, _ = sparse_regression_overlap(16, 2, 0.05, 4, 300, seed=2)
    large, _ = sparse_regression_overlap(64, 2, 0.05, 6, 300, seed=2)

    def slope(overlap, star):
        inside = (overlap >= 0.2) & (overlap <= 0.9)
        return np.polyfit(np.flatnonzero(inside) / star, overlap[inside], 1)[0]

    ratio = slope(large, all_or_nothing_threshold(64, 2, 0.05)) / slope(small, all_or_nothing_threshold(16, 2, 0.05))
    assert ratio > 1.3


def test_progress_bar_changes_nothing(capsys):
    args = (8, 2, 0.1, 2, 4)
    plain, _ = sparse_regression_overlap(*args, seed=0)
    shown, _ = sparse_regression_overlap(*args, seed=0, progress=True)
    assert (plain == shown).all()
    assert "draws" in capsys.readouterr().err
