"""How two kinds of notebook output become part of a page: interactive figures and recorded claims."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes

from icml25.book.claims import Claim, load_claims
from icml25.book.evidence import judged
from icml25.book.interactive import PLOTLY_MIME
from icml25.book.records import CLAIM_MIME, Measured
from icml25.book.sphinxext.pieces import claim_id, figures_text, mark, recorded_id

__all__ = ["ClaimMime", "PlotlyMime", "content_of"]


class PlotlyMime:
    """Draw a Plotly specification with the book's own copy of Plotly; only pages with such a figure load it."""

    mime_priority_overrides: ClassVar[list[tuple[str, str, int]]] = [("html", PLOTLY_MIME, 5)]

    @staticmethod
    def handle_mime(renderer: Any, data: Any, inline: bool) -> list[nodes.Node] | None:
        """Return the figure's nodes, or None for output of another kind (the protocol of MyST-NB)."""
        if inline or data.mime_type != PLOTLY_MIME:
            return None
        renderer.add_js_file("plotly_lib", "plotly.min.js", {"defer": "defer"})
        renderer.add_js_file("plotly_boot", "plotly-boot.js", {"defer": "defer"})
        return [nodes.raw("", figure_html(content_of(data)), format="html", classes=["output", "plotly-output"])]


def figure_html(spec: Mapping[str, Any]) -> str:
    """The markup that ``plotly-boot.js`` turns into a figure; without JavaScript it is the figure's description."""
    figure = {key: spec[key] for key in ("data", "layout", "frames") if key in spec}
    layout = figure.get("layout", {})
    title = layout.get("title", {}).get("text", "Interactive figure")
    alt = layout.get("meta", {}).get("alt", title)
    # "</script>" inside a text would end the element.
    payload = json.dumps(figure, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
    return (
        f'<figure class="icml25-figure">\n<figcaption>{html.escape(title)}</figcaption>\n'
        f'<div class="icml25-plot" role="img" aria-label="{html.escape(alt)}"></div>\n'
        f'<script type="application/json" class="icml25-spec">{payload}</script>\n'
        f"<noscript><p>This figure moves when JavaScript is on. {html.escape(alt)}</p></noscript>\n</figure>\n"
    )


class ClaimMime:
    """A recorded claim as one line that can be linked to, and that links to its row in the claims table."""

    mime_priority_overrides: ClassVar[list[tuple[str, str, int]]] = [("html", CLAIM_MIME, 5)]

    @staticmethod
    def handle_mime(renderer: Any, data: Any, inline: bool) -> list[nodes.Node] | None:
        """Return the line's nodes, or None for output of another kind (the protocol of MyST-NB)."""
        if inline or data.mime_type != CLAIM_MIME:
            return None
        bundle = content_of(data)
        slug = bundle["slug"]
        try:
            claim = _claims_beside(Path(renderer.renderer.document["source"]))[bundle["id"]]
            measured = judged(claim, Measured.from_json(bundle))
        except (KeyError, OSError, ValueError):
            # MyST-NB then warns of an output that nothing can draw, and the claims table says what is wrong with it.
            return None
        line = nodes.paragraph(
            "",
            "",
            nodes.reference("", claim.id, internal=True, refid=claim_id(slug, claim.id), classes=["icml25-id"]),
            nodes.Text(" "),
            mark(measured.verdict),
            nodes.inline("", f" {figures_text(claim, measured)}", classes=["icml25-detail"]),
        )
        return [nodes.container("", line, ids=[recorded_id(slug, claim.id)], classes=["output", "icml25-recorded"])]


def _claims_beside(page: Path) -> Mapping[str, Claim]:
    path = page.with_name(f"{page.name.split('.')[0]}.claims.yml")
    return _load(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=32)
def _load(path: Path, changed: int) -> Mapping[str, Claim]:
    return load_claims(path)


def content_of(data: Any) -> dict[str, Any]:
    """The JSON of an output, which MyST-NB hands over parsed or as text."""
    return dict(data.content) if isinstance(data.content, Mapping) else dict(json.loads(data.content))
