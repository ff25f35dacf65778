"""Entry point of the ``icml25`` command, which is in :mod:`icml25.commands` and needs the extra ``book``."""

from __future__ import annotations

import sys

__all__ = ["main"]

_EXTRA = ("jupyter_client", "jupytext", "nbclient", "nbformat", "papermill", "psutil", "rich", "typer", "yaml")


def main() -> None:
    """Run the command; where the extra is not installed, say so in one line."""
    try:
        from icml25.commands import app
        from icml25.execution import spare_grammar

        spare_grammar()
        app()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        print(
            f"icml25: {missing} is not installed; the command needs: pip install 'icml25[book]'",
            file=sys.stderr,
        )
        sys.exit(1)
