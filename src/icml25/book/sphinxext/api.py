"""Directives that fill the reference pages by themselves: the modules of a package, and recorded benchmarks."""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx

from icml25.book.sphinxext.claims import BookDirective
from icml25.book.sphinxext.pieces import paragraph, row, table

__all__ = ["setup"]

_COLUMNS = ("kernel", "peer", "size", "ours_s", "peer_s", "ratio", "slope")


def setup(app: Sphinx) -> None:
    """Register the directives."""
    app.add_directive("api-modules", ApiModules)
    app.add_directive("benchmarks", Benchmarks)
    app.connect("autodoc-skip-member", skip_tuple_fields)


def skip_tuple_fields(app: Sphinx, kind: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Leave out a named tuple's fields, which its docstring describes: all that is said of them is their number."""
    return True if type(member).__name__ == "_tuplegetter" else None


class ApiModules(BookDirective):
    """``{api-modules} package``: one section per public module of the package, from its docstrings."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Build the sections."""
        package = importlib.import_module(self.arguments[0])
        names = [info.name for info in pkgutil.iter_modules(package.__path__) if not info.name.startswith("_")]
        self.note(*map(Path, package.__path__))
        return [self.section(f"{package.__name__}.{name}") for name in names]

    def section(self, module: str) -> nodes.section:
        """The section of one module."""
        name = f"api-{module}"
        section = nodes.section(
            "",
            nodes.title("", "", nodes.literal("", module.rpartition(".")[2])),
            ids=[nodes.make_id(name)],
            names=[name],
        )
        lines = ["```{eval-rst}", f".. automodule:: {module}", "   :members:", "```"]
        self.state.nested_parse(StringList(lines, source=module), self.content_offset, section)
        return section


class Benchmarks(BookDirective):
    """``{benchmarks}``: the table of ``benchmarks/results.json``, or a word that nothing was recorded."""

    def run(self) -> list[nodes.Node]:
        """Build one table per chapter that has measurements."""
        path = self.root / "benchmarks" / "results.json"
        self.note(path)
        if not path.is_file():
            return [
                paragraph("No measurements are recorded with this copy of the book: run the benchmarks to see yours.")
            ]
        try:
            measured = {
                slug: [[_cell(entry[column]) for column in _COLUMNS] for entry in entries]
                for slug, entries in json.loads(path.read_text(encoding="utf-8")).items()
            }
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            self.warn(f"{path.name} is not {{slug: [{{{', '.join(_COLUMNS)}}}]}}: {error!r}")
            return []
        return [node for slug, rows in measured.items() for node in self.draw(slug, rows)]

    def draw(self, slug: str, rows: list[list[str]]) -> list[nodes.Node]:
        """One chapter's table."""
        head = ["kernel", "peer", "size", "ours, s", "peer, s", "peer / ours", "growth"]
        body = [row([[paragraph(cell)] for cell in cells]) for cells in rows]
        return [
            nodes.rubric("", slug),
            table(head, body, widths=(25, 25, 10, 10, 10, 10, 10), kind="icml25-benchmarks"),
        ]


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)
