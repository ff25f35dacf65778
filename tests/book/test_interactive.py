"""Interactive figures: the frames that reach the page are those that were computed."""

import json

import numpy as np
import pytest
from plotly import graph_objects

from icml25.book.interactive import MAX_FRAMES, PLOTLY_MIME, Line, Panel, slider

PANEL = Panel("x", "y", (0, 1), (0.1, 10))


def frame(scale, name="curve", **kwargs):
    x = np.linspace(0, 1, 5)
    return [Line(name, x, scale * x, **kwargs)]


def make(frames, panels=PANEL, **kwargs):
    return slider(frames, panels, **({"slider_label": "a", "title": "T", "alt": "A line that rises."} | kwargs))


def test_plotly_accepts_the_figure_and_every_frame_is_there():
    figure = make({"1": frame(1), "2": frame(2)}, start=1)
    spec = figure._repr_mimebundle_()[PLOTLY_MIME]
    drawn = graph_objects.Figure(data=spec["data"], layout=spec["layout"], frames=spec["frames"])
    assert [f.name for f in drawn.frames] == ["1", "2"]
    assert list(drawn.frames[0].data[0].y) == [0, 0.25, 0.5, 0.75, 1]
    assert drawn.data[0].y == drawn.frames[1].data[0].y
    assert drawn.layout.sliders[0].active == 1
    assert drawn.layout.meta["alt"] == "A line that rises."


def test_values_are_rounded_and_json_clean():
    y = np.array([np.pi, np.nan, np.inf])
    spec = make({"1": [Line("a", np.arange(3), y)], "2": [Line("a", np.arange(3), y)]}).spec
    assert spec["data"][0]["y"] == [3.142, None, None]
    json.dumps(spec, allow_nan=False)


def test_two_panels_share_the_width_and_log_ranges_become_exponents():
    panels = [PANEL, Panel("k", "z", (1, 100), (0.1, 10), x_log=True, y_log=True)]
    layout = make({"1": frame(1, panel=1), "2": frame(2, panel=1)}, panels).spec["layout"]
    assert layout["xaxis"]["domain"][1] < layout["xaxis2"]["domain"][0]
    assert layout["xaxis2"]["range"] == [0, 2]
    assert layout["yaxis2"]["range"] == [-1, 1]
    assert layout["meta"]["panels"] == 2


@pytest.mark.parametrize(
    ("frames", "kwargs", "message"),
    [
        ({"1": frame(1)}, {}, f"2 to {MAX_FRAMES} frames, got 1"),
        ({str(i): frame(i) for i in range(MAX_FRAMES + 1)}, {}, f"got {MAX_FRAMES + 1}"),
        ({"1": frame(1), "2": frame(1, name="other")}, {}, "frames '1' and '2' differ in their lines"),
        ({"1": frame(1, panel=1), "2": frame(1, panel=1)}, {}, "names panel 1, but there are 1"),
        ({"1": frame(1), "2": frame(1)}, {"alt": " "}, "alt must say"),
        ({"1": frame(1), "2": frame(1)}, {"start": 2}, "start must be"),
        ({"1": [Line("a", [1], [1, 2])], "2": [Line("a", [1], [1, 2])]}, {}, "1-D of one length"),
        ({str(i): [Line("a", np.zeros(20_000), np.zeros(20_000))] for i in range(2)}, {}, "subsample"),
    ],
)
def test_refuses(frames, kwargs, message):
    with pytest.raises(ValueError, match=message):
        make(frames, **kwargs)
