"""The book's Sphinx extension: claims tables, interactive figures, and pages that ask no other host for anything."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

from icml25.book.sphinxext import api, assets, claims
from icml25.book.sphinxext.mime import ClaimMime, PlotlyMime

__all__ = ["ClaimMime", "PlotlyMime", "setup"]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    for module in (api, assets, claims):
        module.setup(app)
    # The environment keeps nothing of ours, and every directive reads its own files.
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
