"""The ``icml25`` command: run, check and extend the book."""

from __future__ import annotations

import sys

__all__ = ["main"]

_EXTRA = ("typer", "rich", "yaml", "psutil", "papermill", "jupytext", "nbformat", "nbclient")


def main() -> None:
    """Entry point of the ``icml25`` command; without the extra ``book`` it says what to install."""
    try:
        from icml25.commands import app
        from icml25.execution import spare_grammar
    except ModuleNotFoundError as error:
        _explain(error)
        sys.exit(1)
    spare_grammar()
    app()


def _explain(error: ModuleNotFoundError) -> None:
    if (error.name or "").partition(".")[0] not in _EXTRA:
        raise error
    print(f"icml25: {error.name} is not installed; the command needs: pip install 'icml25[book]'", file=sys.stderr)
