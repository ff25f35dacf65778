"""Pieces of pages: verdicts, tables, links to a claim's row and to the place where it was computed."""

from __future__ import annotations

from collections.abc import Sequence

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from icml25.book.chapters import Chapter
from icml25.book.claims import Claim, Condition, Verdict
from icml25.book.records import Measured

__all__ = [
    "SYMBOLS",
    "claim_id",
    "class_of",
    "figures_text",
    "link",
    "mark",
    "needs",
    "number",
    "paragraph",
    "recorded_id",
    "resolve_link",
    "row",
    "small",
    "table",
]

SYMBOLS = {Verdict.REPRODUCED: "✓", Verdict.NOT_REPRODUCED: "✗", Verdict.NOT_RUN: "–"}

_LINK = "icml25-page"


def claim_id(slug: str, claim: str) -> str:
    """Anchor of a claim's row in its chapter's claims table."""
    return str(nodes.make_id(f"claim-{slug}-{claim}"))


def recorded_id(slug: str, claim: str) -> str:
    """Anchor of the output in which a chapter recorded a claim."""
    return str(nodes.make_id(f"recorded-{slug}-{claim}"))


def class_of(verdict: Verdict) -> str:
    """The CSS class that colours a verdict."""
    return f"icml25-{str(verdict).replace(' ', '-')}"


def mark(verdict: Verdict) -> nodes.inline:
    """A verdict in its colour, with symbol and words, so that nothing rests on colour alone."""
    return nodes.inline("", f"{SYMBOLS[verdict]} {verdict}", classes=["icml25-mark", class_of(verdict)])


def number(value: float) -> str:
    """A number for reading: four digits and a true minus sign.

    >>> number(-0.123456)
    '−0.1235'
    """
    return f"{value:.4g}".replace("-", "−")


def needs(condition: Condition) -> str:
    """What a pass condition asks for, kept on one line."""
    return f"needs {condition}".replace("-", "−").replace(" ", "\N{NO-BREAK SPACE}")


def figures_text(claim: Claim, measured: Measured) -> str:
    """Measured numbers, each with its pass condition, and the reason where there is one."""
    conditions = {part.name: part.condition for part in claim.parts}
    numbers = ", ".join(
        f"{'' if name == 'value' else f'{name}: '}{number(value)} ({needs(conditions[name])})"
        for name, value in measured.values.items()
    )
    return "; ".join(text for text in (numbers, measured.reason) if text)


def paragraph(*children: nodes.Node | str, classes: Sequence[str] = ()) -> nodes.paragraph:
    """A paragraph of nodes and plain texts."""
    made = [nodes.Text(child) if isinstance(child, str) else child for child in children]
    return nodes.paragraph("", "", *made, classes=list(classes))


def small(*children: nodes.Node | str) -> nodes.paragraph:
    """A paragraph of second rank."""
    return paragraph(*children, classes=["icml25-small"])


def table(head: Sequence[nodes.Node | str], rows: Sequence[nodes.row], widths: Sequence[int], kind: str) -> nodes.table:
    """A table with a head row."""
    group = nodes.tgroup(cols=len(widths))
    group += [nodes.colspec(colwidth=width) for width in widths]
    group += nodes.thead("", row([[paragraph(title)] for title in head]))
    group += nodes.tbody("", *rows)
    return nodes.table("", group, classes=[kind, "icml25-table"])


def row(cells: Sequence[Sequence[nodes.Node]], *, anchor: str | None = None, classes: Sequence[str] = ()) -> nodes.row:
    """A table row; ``classes`` holds one class per cell, by which the phone layout labels it."""
    entries = [nodes.entry("", *cell) for cell in cells]
    for entry, name in zip(entries, classes, strict=False):
        entry["classes"] = [name] if name else []
    return nodes.row("", *entries, ids=[anchor] if anchor else [])


def link(
    env: BuildEnvironment, chapter: Chapter, *content: nodes.Node | str, anchor: str = ""
) -> addnodes.pending_xref:
    """A link to a chapter's page or to an anchor in it, resolved when all pages are known."""
    page = f"book/{chapter.part}/{chapter.slug}"
    made = [nodes.Text(child) if isinstance(child, str) else child for child in content]
    text = nodes.inline("", "", *made)
    options = {"reftype": _LINK, "refdoc": env.docname, "reftarget": page, "anchor": anchor, "refwarn": True}
    return addnodes.pending_xref("", text, refdomain="", **options)


def resolve_link(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.TextElement
) -> nodes.reference | None:
    """Turn what :func:`link` left into a reference; Sphinx warns of a page that is not there."""
    if node.get("reftype") != _LINK or node["reftarget"] not in env.all_docs:
        return None
    uri = app.builder.get_relative_uri(node["refdoc"], node["reftarget"])
    if node["anchor"]:
        uri = f"{uri}#{node['anchor']}"
    return nodes.reference("", "", content, internal=True, refuri=uri)
