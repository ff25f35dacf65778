"""One style for the static figures: colour-blind safe, legible on a light and a dark page, sized for the column."""

from __future__ import annotations

from typing import Any

__all__ = [
    "BLUE",
    "COLORS",
    "GREEN",
    "INK",
    "ORANGE",
    "PURPLE",
    "SKY",
    "VERMILION",
    "YELLOW",
    "size",
    "subplots",
    "use_style",
]

# The palette of Okabe and Ito (2008), "Color Universal Design".
BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, YELLOW, INK = "#56B4E9", "#CC79A7", "#F0E442", "#222832"
# Yellow comes last: as a thin line on white it is hard to see.
COLORS: tuple[str, ...] = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, INK, YELLOW)

COLUMN = 6.8
"""Width of the text column, inches."""


def size(ratio: float = 0.58, width: float = COLUMN) -> tuple[float, float]:
    """Figure size in inches for a height-to-width ratio.

    >>> size(0.5, width=4.0)
    (4.0, 2.0)
    """
    if not (ratio > 0 and width > 0):
        raise ValueError(f"ratio and width must be positive, got {ratio} and {width}")
    return width, width * ratio


def use_style() -> None:
    """Set Matplotlib's defaults to the book's style."""
    import matplotlib as mpl
    from cycler import cycler

    mpl.rcParams.update(
        {
            # An opaque page keeps black axes legible when the theme turns dark.
            "figure.facecolor": "white",
            "figure.figsize": size(),
            "figure.dpi": 120,
            "figure.constrained_layout.use": True,
            "savefig.dpi": 120,
            "axes.prop_cycle": cycler(color=COLORS),
            "axes.edgecolor": INK,
            "axes.labelcolor": INK,
            "axes.titlesize": "medium",
            "axes.grid": True,
            "axes.axisbelow": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "grid.color": "#d1d5da",
            "grid.linewidth": 0.6,
            "text.color": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "font.size": 10,
            "legend.frameon": False,
            "legend.fontsize": "small",
            "lines.linewidth": 1.8,
            "image.cmap": "cividis",
        }
    )


def subplots(nrows: int = 1, ncols: int = 1, *, ratio: float | None = None, **kwargs: Any) -> Any:
    """``matplotlib.pyplot.subplots`` at the column's width; ``ratio`` is the whole figure's height over its width."""
    import matplotlib.pyplot as plt

    if ratio is None:
        ratio = 0.58 * nrows / ncols if ncols > 1 else 0.58 * nrows
    kwargs.setdefault("figsize", size(ratio))
    return plt.subplots(nrows, ncols, **kwargs)
