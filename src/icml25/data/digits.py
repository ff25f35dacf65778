r"""Handwritten digits as a mixture with an exact posterior: real images, no trained network.

The 1797 8x8 images that scikit-learn ships (UCI optical recognition of handwritten digits, CC BY 4.0; nothing is
downloaded), scaled to [-1, 1] per pixel. Each class is a Gaussian kernel density estimate over its images, so the whole
law is a mixture of 1797 Gaussians whose posterior under the Ornstein-Uhlenbeck process
:math:`Y_t = e^{-t} X + \sqrt{1 - e^{-2t}}\,Z` is a softmax over the images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from icml25 import _arguments as check
from icml25.theory.critical_windows.gaussian import gaussian_mixture_posterior

__all__ = ["DigitsCurve", "DigitsMixture", "load_digits_mixture"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DigitsCurve:
    """What :meth:`DigitsMixture.forward_reverse` measured.

    Attributes
    ----------
    levels : (L,) array
        Noise levels t.
    prob, stderr : (L,) arrays
        P(the restored image is of the start's class), and its standard error over the starts.
    confusion : (L, C, C) array
        Mean posterior mass of class j for starts of class i; rows sum to 1.
    pair_tv : (L, C, C) array
        Estimated total variation between the noised classes i and j.
    """

    levels: Array
    prob: Array
    stderr: Array
    confusion: Array
    pair_tv: Array

    def most_confused(self, level: int, n: int = 4) -> list[tuple[int, int]]:
        """The ``n`` pairs of classes with the largest confusion in either direction, at one index of ``levels``."""
        both = self.confusion[level] + self.confusion[level].T
        i, j = np.triu_indices(len(both), 1)
        first = np.argsort(-both[i, j], kind="stable")[:n]
        return [(int(a), int(b)) for a, b in zip(i[first], j[first], strict=True)]


@dataclass(frozen=True, eq=False)
class DigitsMixture:
    """Gaussian kernel density estimate of labelled points, one component law per class.

    Parameters
    ----------
    points : (N, d) float array
    labels : (N,) int array
        Classes 0..C-1, each present.
    bandwidth : float
        Standard deviation of the kernel.
    """

    points: Array
    labels: NDArray[np.int64]
    bandwidth: float

    def __post_init__(self) -> None:
        points, labels = np.array(self.points, dtype=np.float64), check.whole_numbers("labels", self.labels)
        for name, array in (("points", points), ("labels", labels)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if self.points.ndim != 2 or self.labels.shape != self.points.shape[:1] or len(self.points) == 0:
            raise ValueError(f"need (N, d) points and N labels, got {self.points.shape} and {self.labels.shape}")
        if not np.isfinite(self.points).all():
            raise ValueError("points must be finite")
        if set(self.labels.tolist()) != set(range(int(self.labels.max()) + 1)):
            raise ValueError("labels must be 0..C-1 with every class present")
        check.positive("bandwidth", self.bandwidth)

    @property
    def n_classes(self) -> int:
        """Number of classes C."""
        return int(self.labels.max()) + 1

    @property
    def class_weights(self) -> Array:
        """Share of the points in each class: the mixture's weights, (C,)."""
        return np.asarray(np.bincount(self.labels) / len(self.labels))

    def sample(self, per_class: int, seed: int | np.random.Generator) -> tuple[Array, NDArray[np.int64]]:
        """Draw from each class's density: (C * per_class, d) points and their classes."""
        check.integer("per_class", per_class, 1)
        rng = check.numpy_generator(seed)
        chosen = np.concatenate(
            [rng.choice(np.flatnonzero(self.labels == c), per_class) for c in range(self.n_classes)]
        )
        noise = rng.standard_normal((len(chosen), self.points.shape[1]))
        return self.points[chosen] + self.bandwidth * noise, self.labels[chosen]

    def class_posterior(self, y: Array, t: float) -> Array:
        """P(class | Y_t = y) under the whole mixture, (B, d) to (B, C)."""
        weights = np.full(len(self.points), 1.0 / len(self.points))
        return np.asarray(gaussian_mixture_posterior(y, t, self.points, weights, self.bandwidth**2) @ self._membership)

    def forward_reverse(
        self, levels: Sequence[float] | Array, per_class: int, seed: int | np.random.Generator
    ) -> DigitsCurve:
        r"""Noise samples of every class to every level and read the posterior of the class.

        P(same class) is averaged as the posterior mass of the start's class: drawing a class from the posterior would
        only add noise. The total variation of two classes is
        :math:`E\,|2 P(i \mid Y, \{i, j\}) - 1|` with Y from either class half the time, an average of exact
        posteriors; a distance between histograms of samples would be biased upward in 64 dimensions.

        Parameters
        ----------
        levels : (L,) sequence of float
            Noise levels t >= 0.
        per_class : int
            Starts per class, the same at every level; the noise is drawn anew at each.
        seed : int or numpy.random.Generator

        Returns
        -------
        DigitsCurve
        """
        grid = np.asarray(levels, dtype=np.float64)
        if grid.ndim != 1 or grid.size == 0 or not (grid >= 0.0).all():
            raise ValueError(f"levels must be a non-empty list of t >= 0, got {levels}")
        rng = check.numpy_generator(seed)
        starts, classes = self.sample(per_class, rng)
        n_classes = self.n_classes
        prob, stderr = np.empty(len(grid)), np.empty(len(grid))
        confusion, pair_tv = np.empty((2, len(grid), n_classes, n_classes))
        for i, t in enumerate(grid):
            noise = rng.standard_normal(starts.shape)
            y = np.exp(-t) * starts + np.sqrt(-np.expm1(-2.0 * t)) * noise
            posterior = self.class_posterior(y, float(t))
            own = posterior[np.arange(len(classes)), classes]
            prob[i], stderr[i] = own.mean(), own.std() / np.sqrt(len(own))
            confusion[i] = posterior.reshape(n_classes, per_class, n_classes).mean(1)
            pair_tv[i] = _pair_total_variation(posterior / self.class_weights, per_class)
        return DigitsCurve(grid, prob, stderr, confusion, pair_tv)

    @cached_property
    def _membership(self) -> Array:
        return np.asarray(self.labels[:, None] == np.arange(self.n_classes), dtype=np.float64)


def load_digits_mixture(bandwidth: float = 0.25) -> DigitsMixture:
    """The digits as a mixture: pixels 0..16 become (pixel - 8) / 8.

    Raises
    ------
    ImportError
        If scikit-learn, which ships the images, is not installed.

    Examples
    --------
    >>> digits = load_digits_mixture()
    >>> digits.points.shape, digits.n_classes, float(digits.points.min()), float(digits.points.max())
    ((1797, 64), 10, -1.0, 1.0)
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError(
            'load_digits_mixture needs scikit-learn, which ships the images: pip install "icml25[book]"'
        ) from error
    images = load_digits()
    return DigitsMixture((images.data - 8.0) / 8.0, images.target.astype(np.int64), bandwidth)


def _pair_total_variation(density: Array, per_class: int) -> Array:
    """Total variation of each two classes from densities (C * per_class, C), known up to a factor per row."""
    n_classes = density.shape[1]
    by_class = density.reshape(n_classes, per_class, n_classes)
    tv = np.zeros((n_classes, n_classes))
    for i in range(n_classes):
        for j in range(i):
            p, q = (np.concatenate([by_class[i, :, k], by_class[j, :, k]]) for k in (i, j))
            tv[i, j] = tv[j, i] = np.abs((p - q) / (p + q)).mean()
    return tv
