// Draws each figure that icml25.book.interactive made: the book's colours in both themes, panels beside each other or
// stacked, and a native slider in place of Plotly's, which neither the keyboard nor a screen reader can move.
(function () {
  "use strict";

  const STACK_BELOW = 620;
  const INK = "#222832";

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    return { ink: read("--icml25-ink"), grid: read("--icml25-grid"), line: read("--icml25-line") };
  }

  function axesOf(layout) {
    return Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key));
  }

  function themed(layout) {
    const { ink, grid, line } = colours();
    const update = {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      "font.color": ink,
      "legend.font.color": ink,
    };
    for (const axis of axesOf(layout)) {
      update[`${axis}.gridcolor`] = grid;
      update[`${axis}.linecolor`] = line;
      update[`${axis}.tickcolor`] = line;
      update[`${axis}.color`] = ink;
    }
    return update;
  }

  // Plotly's own log ticks are 2, 3, 4, ... without their decade, and SI prefixes such as 1µ.
  function logarithmic(layout) {
    const update = {};
    for (const axis of axesOf(layout)) {
      const { type, range } = layout[axis];
      if (type !== "log") continue;
      update[`${axis}.exponentformat`] = "power";
      const decades = range[1] - range[0];
      if (decades >= 1.5) update[`${axis}.dtick`] = Math.ceil(decades / 6);
    }
    return update;
  }

  // Dark ink is one of the figure colours; on a dark page it has to turn light. Both are taken from the first drawing,
  // since a restyled trace no longer says what it was.
  function inkTraces(data) {
    return data.flatMap((trace, i) => ((trace.line || {}).color || "").toUpperCase() === INK.toUpperCase() ? [i] : []);
  }

  function arranged(layout, width, traces) {
    const panels = (layout.meta || {}).panels || 1;
    if (panels < 2) return {};
    const stack = width < STACK_BELOW;
    const gap = stack ? 0.16 : 0.12;
    const share = (1 - gap * (panels - 1)) / panels;
    const update = { height: stack ? 60 + 280 * panels + 19 * traces : layout.height };
    for (let i = 0; i < panels; i++) {
      const n = i === 0 ? "" : String(i + 1);
      const from = (stack ? panels - 1 - i : i) * (share + gap);
      const domain = [from, Math.min(1, from + share)];
      update[`xaxis${n}.domain`] = stack ? [0, 1] : domain;
      update[`yaxis${n}.domain`] = stack ? domain : [0, 1];
    }
    return update;
  }

  function control(figure, plot, slider) {
    const prefix = (slider.currentvalue || {}).prefix || "";
    const label = document.createElement("label");
    const text = document.createElement("span");
    const range = document.createElement("input");
    const hint = document.createElement("p");
    range.type = "range";
    range.min = "0";
    range.max = String(slider.steps.length - 1);
    range.step = "1";
    range.value = String(slider.active || 0);
    label.className = "icml25-slider";
    hint.className = "icml25-hint";
    hint.textContent = "Drag the slider, or focus it and press ← and →.";
    const say = () => {
      const step = slider.steps[Number(range.value)];
      text.textContent = prefix + step.label;
      range.setAttribute("aria-valuetext", prefix + step.label);
      return step;
    };
    range.addEventListener("input", () => {
      const step = say();
      Plotly.animate(plot, step.args[0], step.args[1]);
    });
    say();
    label.append(text, range);
    figure.append(label, hint);
  }

  function draw(figure) {
    const spec = JSON.parse(figure.querySelector("script.icml25-spec").textContent);
    const plot = figure.querySelector(".icml25-plot");
    const { title, sliders, ...layout } = spec.layout;
    const original = { ...layout, autosize: true, margin: { l: 56, r: 12, t: 12, b: 44 } };
    const dark = inkTraces(spec.data);
    const coarse = window.matchMedia("(pointer: coarse)").matches;
    // A finger that scrolls past the figure must not zoom it.
    original.dragmode = coarse ? false : "zoom";
    const fit = () =>
      Plotly.relayout(plot, {
        ...themed(original),
        ...logarithmic(original),
        ...arranged(original, plot.clientWidth, spec.data.length),
      });
    const paint = () => {
      fit();
      if (dark.length) Plotly.restyle(plot, { "line.color": colours().ink, "marker.color": colours().ink }, dark);
    };
    let width = plot.clientWidth;
    Plotly.newPlot(plot, spec.data, structuredClone(original), {
      responsive: true,
      displaylogo: false,
      modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
    })
      .then(() => Plotly.addFrames(plot, spec.frames || []))
      .then(() => {
        paint();
        if (sliders && sliders.length) control(figure, plot, sliders[0]);
        new MutationObserver(paint).observe(document.documentElement, { attributeFilter: ["data-theme"] });
        new ResizeObserver(() => {
          if ((width < STACK_BELOW) !== (plot.clientWidth < STACK_BELOW)) fit();
          width = plot.clientWidth;
        }).observe(plot);
        figure.dataset.ready = "true";
      });
  }

  document.querySelectorAll("figure.icml25-figure").forEach(draw);
})();
