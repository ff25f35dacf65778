"""Interactive figures for static pages: precomputed frames under a slider, drawn by the book's own copy of Plotly.

Every frame is computed when the chapter is executed, so a reader needs neither a kernel nor a network, and what moves
under the slider is the output of the library, not of a second implementation in JavaScript.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from icml25.book.figures import COLORS

__all__ = ["MAX_FRAMES", "PLOTLY_MIME", "Interactive", "Line", "Panel", "slider"]

PLOTLY_MIME = "application/vnd.plotly.v1+json"
MAX_FRAMES = 40
_MAX_POINTS = 20_000
_DIGITS = 4


@dataclass(frozen=True)
class Panel:
    """One pair of axes. Ranges are in data units, also on logarithmic axes, and stay fixed while the slider moves."""

    x_title: str
    y_title: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    x_log: bool = False
    y_log: bool = False


@dataclass(frozen=True)
class Line:
    """One curve or set of points of a frame."""

    name: str
    x: ArrayLike
    y: ArrayLike
    panel: int = 0
    mode: Literal["lines", "markers", "lines+markers"] = "lines"
    color: str | None = None
    dash: Literal["solid", "dash", "dot"] = "solid"
    fill: bool = False


@dataclass(frozen=True)
class Interactive:
    """A figure that notebooks and the book's pages know how to show."""

    spec: dict[str, Any]
    alt: str

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return {PLOTLY_MIME: self.spec, "text/plain": f"Interactive figure: {self.alt}"}


def slider(
    frames: Mapping[str, Sequence[Line]],
    panels: Panel | Sequence[Panel],
    *,
    slider_label: str,
    title: str,
    alt: str,
    start: int = 0,
) -> Interactive:
    """Put precomputed frames under a slider.

    Parameters
    ----------
    frames : mapping
        From the text at the slider's stop to the lines drawn there; at most :data:`MAX_FRAMES`, each with lines of the
        same names, panels and modes in the same order. Values are rounded to four significant digits.
    panels : Panel or sequence of Panel
        The axes; several stand side by side, or one above the other on a narrow screen.
    slider_label : str
        What the slider sets, with its unit.
    title, alt : str
        The figure's title, and what a reader who cannot see it needs to know.
    start : int
        Index of the frame shown first.

    Returns
    -------
    Interactive

    Raises
    ------
    ValueError
        If there are no frames or too many, the frames differ in their lines, or the figure is too large for a page.
    """
    axes = [panels] if isinstance(panels, Panel) else list(panels)
    _check(frames, axes, alt, start)
    stops = list(frames)
    layout = {
        "title": {"text": title},
        "height": 480,
        "hovermode": "closest",
        # The frame axis of Plotly's own legend would cover the slider on a phone.
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "margin": {"l": 60, "r": 16, "t": 96, "b": 40},
        "meta": {"alt": alt, "panels": len(axes)},
        "sliders": [
            {
                "active": start,
                "currentvalue": {"prefix": f"{slider_label} = "},
                "pad": {"t": 48},
                "steps": [_step(stop) for stop in stops],
            }
        ],
    }
    for index, panel in enumerate(axes):
        layout |= _axis_layout(index, panel, len(axes))
    spec = {
        "data": _traces(frames[stops[start]], draw=True),
        "layout": layout,
        "frames": [{"name": stop, "data": _traces(lines, draw=False)} for stop, lines in frames.items()],
    }
    return Interactive(spec, alt)


def _check(frames: Mapping[str, Sequence[Line]], panels: Sequence[Panel], alt: str, start: int) -> None:
    if not 2 <= len(frames) <= MAX_FRAMES:
        raise ValueError(f"a slider takes 2 to {MAX_FRAMES} frames, got {len(frames)}")
    if not 0 <= start < len(frames):
        raise ValueError(f"start must be the index of one of {len(frames)} frames, got {start}")
    if not alt.strip():
        raise ValueError("alt must say what the figure shows")
    shapes = {stop: [(line.name, line.panel, line.mode) for line in lines] for stop, lines in frames.items()}
    first = next(iter(shapes))
    for stop, shape in shapes.items():
        if shape != shapes[first]:
            raise ValueError(f"frames {first!r} and {stop!r} differ in their lines: {shapes[first]} and {shape}")
    if bad := [panel for _, panel, _ in shapes[first] if not 0 <= panel < len(panels)]:
        raise ValueError(f"a line names panel {bad[0]}, but there are {len(panels)}")
    points = 0
    for lines in frames.values():
        for line in lines:
            if np.shape(line.x) != np.shape(line.y) or np.ndim(line.x) != 1:
                raise ValueError(f"line {line.name!r}: x and y must be 1-D of one length")
            points += np.size(line.x)
    if points > _MAX_POINTS:
        raise ValueError(f"the frames hold {points} points, more than {_MAX_POINTS}: subsample them")


def _traces(lines: Sequence[Line], *, draw: bool) -> list[dict[str, Any]]:
    traces = []
    for index, line in enumerate(lines):
        trace: dict[str, Any] = {"x": _rounded(line.x), "y": _rounded(line.y)}
        if draw:
            color = line.color or COLORS[index % len(COLORS)]
            suffix = "" if line.panel == 0 else str(line.panel + 1)
            trace |= {
                "type": "scatter",
                "name": line.name,
                "mode": line.mode,
                "xaxis": f"x{suffix}",
                "yaxis": f"y{suffix}",
            }
            trace |= {"line": {"color": color, "dash": line.dash}, "marker": {"color": color, "size": 6}}
            if line.fill:
                trace["fill"] = "tozeroy"
        traces.append(trace)
    return traces


def _rounded(values: ArrayLike) -> list[float | None]:
    array = np.asarray(values, dtype=float)
    return [float(f"{value:.{_DIGITS}g}") if np.isfinite(value) else None for value in array]


def _step(stop: str) -> dict[str, Any]:
    jump = {"mode": "immediate", "frame": {"duration": 0, "redraw": False}, "transition": {"duration": 0}}
    return {"label": stop, "method": "animate", "args": [[stop], jump]}


def _axis_layout(index: int, panel: Panel, count: int) -> dict[str, Any]:
    suffix = "" if index == 0 else str(index + 1)
    gap = 0.12 if count > 1 else 0.0
    width = (1 - gap * (count - 1)) / count
    left = index * (width + gap)
    axes: dict[str, Any] = {}
    for letter, title, bounds, log in (
        ("x", panel.x_title, panel.x_range, panel.x_log),
        ("y", panel.y_title, panel.y_range, panel.y_log),
    ):
        low, high = np.log10(bounds) if log else bounds
        axes[f"{letter}axis{suffix}"] = {
            "title": {"text": title},
            "type": "log" if log else "linear",
            "range": [round(float(low), 6), round(float(high), 6)],
            "zeroline": False,
        }
    axes[f"xaxis{suffix}"] |= {"domain": [round(left, 4), round(left + width, 4)], "anchor": f"y{suffix}"}
    axes[f"yaxis{suffix}"] |= {"anchor": f"x{suffix}"}
    return axes
