r"""Hierarchies of critical windows: mixture trees (Section 5).

An *eps-mixture tree* nests sets of features, the root being all of them, and gives each set u a noise level such that

1. two features whose lowest common ancestor is u are within eps in total variation at the level of u;
2. the set u is separated from the rest, :math:`TV(p_t^u, p_t^{\Theta - u}) \ge 1 - \varepsilon^2`, at the level of u;
3. levels grow towards the root.

Corollary 1: on the way from a leaf to the root, the forward-reverse law of the leaf at the level of u is within
:math:`\varepsilon\,(1 + \max(1, W_u)/\sqrt 2)` of the sub-mixture u. A sampler run backwards walks down the tree.

The paper gives no construction; ours (:func:`build_mixture_tree`) scans the levels upwards and accepts a set of
features as soon as all of it has merged while nothing else has.

Reference: Li, Karan & Chen, "Blink of an eye", ICML 2025 (arXiv:2502.00921), Section 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.special import erf

from icml25 import _arguments as check
from icml25.theory.critical_windows.distances import total_variation
from icml25.theory.critical_windows.mixtures import (
    DiscreteMixture,
    forward_reverse_law,
    observed_law,
    theorem2_bound,
    weight_ratio,
)
from icml25.theory.critical_windows.processes import ObservationProcess

__all__ = [
    "AncestorCheck",
    "MixtureTree",
    "TreeNode",
    "build_mixture_tree",
    "check_mixture_tree",
    "corollary1_checks",
    "corollary2_eps",
    "discrete_distances",
    "gaussian_distances",
]

Array = NDArray[np.float64]
PairDistances = Callable[[float], Array]
Separation = Callable[[frozenset[int], float], float]

_ROUNDING = 1e-12


class TreeNode(NamedTuple):
    """A set of features, the level at which it has merged, and the index of its parent (None at the root)."""

    subset: frozenset[int]
    level: float
    parent: int | None


@dataclass(frozen=True)
class MixtureTree:
    """A tree of sets of features.

    Attributes
    ----------
    nodes : tuple of TreeNode
        Children before parents; the last node is the root.
    """

    nodes: tuple[TreeNode, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", tuple(self.nodes))
        if not self.nodes:
            raise ValueError("a tree needs at least one node, its root")
        for index, node in enumerate(self.nodes):
            # A parent that comes later keeps every path finite.
            if node.parent is not None and not index < node.parent < len(self.nodes):
                raise ValueError(f"the parent of node {index} must come after it in the list, got {node.parent}")

    @property
    def root(self) -> TreeNode:
        """The set of all features."""
        return self.nodes[-1]

    @property
    def depth(self) -> int:
        """Edges from the root to the deepest leaf."""
        return max(len(self.path(i)) - 1 for i in range(len(self.nodes)))

    def path(self, index: int) -> list[int]:
        """Indices of the nodes from one node to the root."""
        steps = [index]
        while (parent := self.nodes[steps[-1]].parent) is not None:
            steps.append(parent)
        return steps

    def leaf(self, feature: int) -> int:
        """Index of the smallest node that holds a feature."""
        holding = [i for i, node in enumerate(self.nodes) if feature in node.subset]
        if not holding:
            raise ValueError(f"feature {feature} is not in the tree")
        return min(holding, key=lambda i: len(self.nodes[i].subset))

    def lowest_common_ancestor(self, first: int, second: int) -> int:
        """Index of the smallest node that holds two features."""
        above = set(self.path(self.leaf(second)))
        return next(i for i in self.path(self.leaf(first)) if i in above)


def build_mixture_tree(
    components_tv: PairDistances, separate_tv: Separation, levels: Sequence[float] | Array, eps: float
) -> MixtureTree:
    r"""Grow an eps-mixture tree from single features to all of them.

    At each level, upwards, join the features that are within eps of each other, and take the connected components. A
    component becomes a node at the first level where all its pairs are within eps and it is separated from the rest.

    Parameters
    ----------
    components_tv : callable
        Maps a level to the (K, K) total variations between features (or upper bounds on them).
    separate_tv : callable
        Maps a set of features and a level to its total variation from the rest (or a lower bound on it). It is not
        asked about the set of all features.
    levels : increasing sequence of float
        At the first one every feature must stand alone.
    eps : float in [0, 1)

    Returns
    -------
    MixtureTree

    Raises
    ------
    ValueError
        If the features are not separated at the first level, or do not all merge by the last.
    """
    grid = _increasing(levels)
    _check_eps(eps)
    accepted: list[tuple[frozenset[int], float]] = []
    known: set[frozenset[int]] = set()
    n_features = 0
    for t in grid:
        apart = np.asarray(components_tv(float(t)), dtype=np.float64)
        if apart.ndim != 2 or apart.shape[0] != apart.shape[1] or not (apart >= 0.0).all():
            raise ValueError(
                f"components_tv must give (K, K) distances, none NaN, got the shape {apart.shape} at {t:g}"
            )
        close = apart <= eps + _ROUNDING
        n_features = len(close)
        count, label = connected_components(csr_matrix(close), directed=False)
        for index in range(count):
            inside = np.flatnonzero(label == index)
            subset = frozenset(inside.tolist())
            if subset in known or not close[np.ix_(inside, inside)].all():
                continue
            if len(subset) < n_features and not separate_tv(subset, float(t)) >= 1.0 - eps**2 - _ROUNDING:
                continue
            known.add(subset)
            accepted.append((subset, float(t)))
        if t == grid[0] and (alone := {k for s, _ in accepted for k in s if len(s) == 1}) != set(range(n_features)):
            missing = sorted(set(range(n_features)) - alone)
            raise ValueError(f"no valid leaves: features {missing} do not stand alone at the first level {t:g}")
        if len(accepted[-1][0]) == n_features:
            break
    else:
        raise ValueError(f"no valid root: the features do not all merge within eps={eps:g} by the level {grid[-1]:g}")
    nodes = []
    for index, (subset, level) in enumerate(accepted):
        above = [j for j in range(index + 1, len(accepted)) if subset < accepted[j][0]]
        nodes.append(TreeNode(subset, level, above[0] if above else None))
    return MixtureTree(tuple(nodes))


def check_mixture_tree(
    tree: MixtureTree, components_tv: PairDistances, separate_tv: Separation, eps: float
) -> list[str]:
    """Say which conditions of an eps-mixture tree fail; empty if none does. Parameters as in the builder."""
    orphans = [node for node in tree.nodes if node.parent is None and node is not tree.root]
    if orphans:
        return [f"{sorted(node.subset)} has no parent and is not the root" for node in orphans]
    problems = []
    root = tree.root.subset
    for node in tree.nodes:
        if node.parent is None:
            continue
        parent = tree.nodes[node.parent]
        if not node.subset < parent.subset:
            problems.append(f"{sorted(node.subset)} is not strictly inside its parent {sorted(parent.subset)}")
        if not node.level < parent.level:
            problems.append(f"level {node.level:g} of {sorted(node.subset)} is not below its parent's {parent.level:g}")
        if not separate_tv(node.subset, node.level) >= 1.0 - eps**2 - _ROUNDING:
            problems.append(f"{sorted(node.subset)} is not separated from the rest at its level {node.level:g}")
    features = sorted(root)
    for i in features:
        for j in features:
            if i < j:
                level = tree.nodes[tree.lowest_common_ancestor(i, j)].level
                if not np.asarray(components_tv(level))[i, j] <= eps + _ROUNDING:
                    problems.append(f"features {i} and {j} are not within eps at the level {level:g}")
    return problems


class AncestorCheck(NamedTuple):
    """Corollary 1 at one ancestor of a feature."""

    subset: frozenset[int]
    level: float
    distance: float
    bound: float


def corollary1_checks(
    mix: DiscreteMixture, proc: ObservationProcess, tree: MixtureTree, feature: int, eps: float
) -> list[AncestorCheck]:
    r"""Corollary 1 from the leaf of a feature to the root.

    ``distance`` is :math:`TV(p^{i,t}, p^{u})` at the level t of the ancestor u, ``bound`` is Theorem 2's with the
    weights of u and the rest. For a tree with eps = 0 the bound is 0.
    """
    _check_eps(eps)
    found = []
    for index in tree.path(tree.leaf(feature)):
        node = tree.nodes[index]
        distance = float(total_variation(forward_reverse_law(mix, proc, [feature], node.level), mix.sub(node.subset)))
        bound = theorem2_bound(eps, weight_ratio(mix, node.subset)) if eps > 0.0 else 0.0
        found.append(AncestorCheck(node.subset, node.level, distance, bound))
    return found


def corollary2_eps(eps: float, delta: float) -> float:
    r"""Tolerance of the same tree for a model q with :math:`TV(p^\theta, q^\theta) \le \delta/2`: eps + sqrt(delta).

    Raises
    ------
    ValueError
        If eps or delta lies outside [0, 1].
    """
    return check.between("eps", eps, 0.0, 1.0) + math.sqrt(check.between("delta", delta, 0.0, 1.0))


# Distances to build trees from ----------------------------------------------------------------------------------------


def discrete_distances(mix: DiscreteMixture, proc: ObservationProcess) -> tuple[PairDistances, Separation]:
    """Exact pair distances and separations of a discrete mixture: the first two arguments of the builder."""
    if not (mix.weights > 0.0).all():
        raise ValueError("a tree needs features of positive weight")

    def pairs(t: float) -> Array:
        laws = np.stack([observed_law(mix, proc, [k], t) for k in range(mix.n_features)])
        return np.stack([np.asarray(total_variation(laws, law)) for law in laws])

    def separation(subset: frozenset[int], t: float) -> float:
        return float(total_variation(observed_law(mix, proc, subset, t), observed_law(mix, proc, mix.rest(subset), t)))

    return pairs, separation


def gaussian_distances(means: ArrayLike, weights: ArrayLike | None = None) -> tuple[PairDistances, Separation]:
    r"""Distances of :math:`\sum_k w_k \mathcal N(\mu_k, I)` under the OU process, for the builder.

    Pairs are exact, :math:`\operatorname{erf}(|\mu_i - \mu_j| e^{-t}/(2\sqrt 2))`. A set's separation is bounded from
    below: with a, b the weights within the set and within the rest,
    :math:`1 - TV = \int \min(p, q) \le \sum_{ij} \sqrt{a_i b_j}\,BC_{ij}`, and
    :math:`BC_{ij} = \exp(-|\mu_i - \mu_j|^2 e^{-2t}/8)`.
    """
    centres = np.asarray(means, dtype=np.float64)
    if centres.ndim != 2 or not np.isfinite(centres).all():
        raise ValueError(f"means must be a finite (K, d) array, got the shape {centres.shape}")
    equal = np.full(len(centres), 1.0 / max(1, len(centres)))
    share = check.law("weights", equal if weights is None else weights, len(centres))
    if not (share > 0.0).all():
        raise ValueError("weights must be positive: a tree has a leaf for every feature")
    apart = np.linalg.norm(centres[:, None] - centres[None], axis=-1)

    def pairs(t: float) -> Array:
        return np.asarray(erf(apart * math.exp(-t) / math.sqrt(8.0)))

    def separation(subset: Iterable[int], t: float) -> float:
        inside = np.isin(np.arange(len(centres)), list(subset))
        a, b = (np.sqrt(share[part] / share[part].sum()) for part in (inside, ~inside))
        affinity = np.exp(-np.square(apart[np.ix_(inside, ~inside)]) * math.exp(-2.0 * t) / 8.0)
        return max(0.0, 1.0 - float(a @ affinity @ b))

    return pairs, separation


def _increasing(levels: Sequence[float] | Array) -> Array:
    grid = np.asarray(levels, dtype=np.float64)
    if grid.ndim != 1 or grid.size == 0 or np.isnan(grid).any() or not (np.diff(grid) > 0.0).all():
        raise ValueError(f"levels must be a strictly increasing list, got {levels}")
    return grid


def _check_eps(eps: float) -> None:
    if not 0.0 <= check.number("eps", eps) < 1.0:
        raise ValueError(f"eps must lie in [0, 1), got {eps}")
