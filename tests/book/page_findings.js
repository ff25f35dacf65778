// What a person would notice on an open page, as data: run in the page by test_pages.py.
() => {
  const rgba = (text) => (text.match(/[\d.]+/g) || []).map(Number);

  // Relative luminance and contrast as WCAG 2 defines them.
  const light = ([r, g, b]) => {
    const linear = (v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  };
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = rgba(getComputedStyle(e).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const contrast = (element) => {
    const ink = light(rgba(getComputedStyle(element).color));
    const [high, low] = [ink, light(ground(element))].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };

  const all = (selector) => [...document.querySelectorAll(selector)];
  const small = [
    ".icml25-mark", ".icml25-cell", ".icml25-small", ".icml25-totals-line", ".icml25-kind", ".icml25-hint",
    ".icml25-tile-paper", ".icml25-table th", "td.icml25-reproduced", "td.icml25-not-reproduced", "td.icml25-not-run",
    "figcaption",
  ].join();

  const raw = [];
  const walker = document.createTreeWalker(document.querySelector("article") || document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { textContent, parentElement } = walker.currentNode;
    const meant = parentElement.closest("pre, code, script, noscript, mjx-container");
    if (!meant && /\$\$|\\\(|\\\[|\\begin\{|\$\\/.test(textContent)) raw.push(textContent.trim().slice(0, 80));
  }

  return {
    theme: document.documentElement.dataset.theme,
    title: document.title,
    noAlt: all("article img").filter((image) => !image.alt.trim()).map((image) => image.src),
    broken: all("img").filter((image) => !image.complete || !image.naturalWidth).map((image) => image.src),
    unlabelled: all("[role=img]:not(svg)").filter((e) => !e.ariaLabel).map((e) => e.outerHTML.slice(0, 80)),
    raw: raw,
    mathErrors: all("mjx-merror, [data-mjx-error]").map((e) => e.textContent.slice(0, 80)),
    unset: all("article .math").filter((e) => !e.querySelector("mjx-container")).map((e) => e.textContent.slice(0, 80)),
    pale: all(small)
      .filter((e) => e.textContent.trim() && contrast(e) < 4.5)
      .map((e) => `${contrast(e).toFixed(2)} ${e.className} ${e.textContent.trim().slice(0, 40)}`)
      .slice(0, 5),
    red: all(".icml25-mark.icml25-not-reproduced").map((e) => [e.textContent, rgba(getComputedStyle(e).color)]),
  };
}
