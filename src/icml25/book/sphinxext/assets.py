"""Serve from the book itself what pages would otherwise fetch, and keep out what would fetch it."""

from __future__ import annotations

import html
import importlib.util
import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

__all__ = ["setup"]

# What a page with maths loads, out of the 24 MB that the package holds.
_MATHJAX = ("output/chtml", "input/tex", "ui", "a11y")


def setup(app: Sphinx) -> None:
    """Connect the handlers."""
    app.connect("config-inited", exclude_twins)
    app.connect("html-page-context", drop_thebe, priority=900)
    app.connect("build-finished", copy_assets)
    app.connect("build-finished", write_front_door)


def exclude_twins(app: Sphinx, config: Config) -> None:
    """Leave the ``.md`` half of each pair to its executed ``.ipynb``: two files for one page are a warning."""
    root = Path(app.srcdir)
    for notebook in sorted(root.glob("book/*/*.ipynb")):
        twin = notebook.with_suffix(".md")
        if twin.is_file():
            config.exclude_patterns.append(twin.relative_to(root).as_posix())


def drop_thebe(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Remove the live-code scripts that Jupyter Book always adds: they come from a CDN and break each page's script."""

    def wanted(script: Any) -> bool:
        body = getattr(script, "attributes", {}).get("body") or ""
        return "THEBE_JS_URL" not in body and "sphinx-thebe" not in str(getattr(script, "filename", script))

    context["script_files"] = [script for script in context.get("script_files", []) if wanted(script)]


def copy_assets(app: Sphinx, error: Exception | None) -> None:
    """Copy Plotly and MathJax into the pages."""
    if error is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    static.mkdir(parents=True, exist_ok=True)
    plotly = _package("plotly") / "package_data" / "plotly.min.js"
    shutil.copyfile(plotly, static / plotly.name)
    mathjax = _package("sphinx-mathjax-offline") / "static" / "mathjax"
    for name in _MATHJAX:
        shutil.copytree(mathjax / name, static / "mathjax" / name, dirs_exist_ok=True)
    shutil.copyfile(mathjax / "tex-mml-chtml.js", static / "mathjax" / "tex-mml-chtml.js")


def write_front_door(app: Sphinx, error: Exception | None) -> None:
    """Lead ``index.html`` to the first page; Jupyter Book's own has no icon, so that browsers ask for a missing one."""
    if error is not None or app.builder.format != "html" or app.config.root_doc == "index":
        return
    first = app.builder.get_target_uri(app.config.root_doc)
    title = html.escape(app.config.html_title)
    page = (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f'<link rel="icon" type="image/svg+xml" href="_static/favicon.svg">\n'
        f'<meta http-equiv="refresh" content="0; url={first}">\n<p><a href="{first}">{title}</a></p>\n</html>\n'
    )
    (Path(app.outdir) / "index.html").write_text(page, encoding="utf-8")


def _package(name: str) -> Path:
    # One of the names has hyphens, so that it can be found but not imported.
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"the book needs the package {name}: pip install 'icml25[book]'")
    return Path(spec.origin).parent
