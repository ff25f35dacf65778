"""Directives that draw what is known about the claims: one chapter's table, the ledger, the map of the methods.

They read the claims files, the executed notebooks and the recorded results when the book is built. A file that cannot
be read is a warning, and with it the build fails.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.logging import getLogger

from icml25.book.chapters import Chapter, find_chapters
from icml25.book.claims import Part, Verdict
from icml25.book.evidence import Evidence, Finding, gather, paper_of, sources_of, title_of
from icml25.book.records import RunRecord
from icml25.book.sphinxext.pieces import (
    SYMBOLS,
    claim_id,
    class_of,
    link,
    mark,
    needs,
    number,
    paragraph,
    recorded_id,
    resolve_link,
    row,
    small,
    table,
)

__all__ = ["BookDirective", "setup"]

logger = getLogger(__name__)

_PROFILES = ("cpu", "study", "gpu")


def setup(app: Sphinx) -> None:
    """Register the directives."""
    app.add_directive("claims", ClaimsTable)
    app.add_directive("ledger", LedgerPage)
    app.add_directive("method-map", MethodMap)
    app.add_role("verdict", verdict_role)
    app.connect("missing-reference", resolve_link)


def verdict_role(
    name: str, rawtext: str, text: str, lineno: int, inliner: Any, options: object = None, content: object = None
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """``{verdict}`` with the name of a verdict: its mark, as the tables show it."""
    try:
        return [mark(Verdict(text))], []
    except ValueError as error:
        return [], [inliner.reporter.error(f"verdict: {error}", line=lineno)]


class BookDirective(SphinxDirective):
    """What the directives share: reading evidence with its dependencies noted, and parsing MyST in a line."""

    has_content = False

    @property
    def root(self) -> Path:
        """Root of the checkout that is being built."""
        return Path(self.env.srcdir)

    def note(self, *paths: Path) -> None:
        """Build this page again when one of the files changes, appears or goes."""
        for path in paths:
            self.env.note_dependency(str(path))

    def chapters(self) -> list[Chapter]:
        """All chapters, in the book's order."""
        self.note(self.root / "_toc.yml")
        return find_chapters(self.root)

    def evidence(self, chapters: Iterable[Chapter]) -> list[Evidence]:
        """Evidence of each chapter that can be read; a warning for each that cannot."""
        found = []
        for chapter in chapters:
            self.note(*sources_of(chapter))
            try:
                found.append(gather(chapter))
            # A record that lacks a key, or holds a word for a number, is as unusable as a malformed claims file.
            except (KeyError, TypeError, ValueError) as error:
                self.warn(f"{chapter.slug}: {error}")
        return found

    def warn(self, message: str) -> None:
        """A warning at this directive's place."""
        logger.warning(message, location=self.get_location(), type="icml25")

    def inline(self, text: str) -> list[nodes.Node]:
        """Parse Markdown with maths that fits a line."""
        parsed, messages = self.state.inline_text(" ".join(text.split()), self.lineno)
        return [*parsed, *messages]


class ClaimsTable(BookDirective):
    """``{claims} slug``: the table of a chapter's claims."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Build a line with the totals, then the table."""
        slug = self.arguments[0]
        chapters = {chapter.slug: chapter for chapter in self.chapters()}
        if slug not in chapters:
            self.warn(f"no chapter {slug!r} with a claims file; there are: {', '.join(chapters) or 'none'}")
            return []
        return [node for evidence in self.evidence([chapters[slug]]) for node in self.draw(evidence)]

    def draw(self, evidence: Evidence) -> list[nodes.Node]:
        """The nodes for one chapter."""
        rows = [self.claim_row(evidence, finding) for finding in evidence.findings]
        head = ["Claim, and its source", "Found here", "Verdict"]
        # Dozens of rows before the first sentence of a chapter would keep its reader from it.
        summary = f"<details class='icml25-fold'><summary>{escape(totals_text(evidence))}</summary>"
        return [
            nodes.raw("", summary, format="html"),
            table(head, rows, widths=(41, 37, 22), kind="icml25-claims"),
            nodes.raw("", "</details>", format="html"),
        ]

    def claim_row(self, evidence: Evidence, finding: Finding) -> nodes.row:
        """The row of one claim."""
        claim = finding.claim
        kind = nodes.inline("", f" {claim.kind.replace('-', ' ')}", classes=["icml25-kind"])
        about = [
            paragraph(nodes.strong("", claim.id), kind),
            paragraph(*self.inline(claim.statement)),
            small(*self.inline(claim.source)),
        ]
        cells = [about, [*self.paper(finding), *self.measured(finding)], self.verdicts(evidence, finding)]
        names = ["claim", "here", "verdict"]
        return row(
            cells, anchor=claim_id(evidence.chapter.slug, claim.id), classes=[f"icml25-cell-{name}" for name in names]
        )

    def paper(self, finding: Finding) -> list[nodes.Node]:
        """The paper's own number or word."""
        value = finding.claim.paper_value
        if value is None:
            return []
        text = self.inline(value) if isinstance(value, str) else [nodes.Text(number(value))]
        return [paragraph("In the paper: ", *text, classes=["icml25-paper"])]

    def measured(self, finding: Finding) -> list[nodes.Node]:
        """What is measured, the condition and the numbers found; or what a check would take."""
        if finding.out_of_reach:
            return [small(*self.inline(f"Would take: {finding.claim.needs}"))]
        return [node for part in finding.claim.parts for node in self.measured_part(finding, part)]

    def measured_part(self, finding: Finding, part: Part) -> list[nodes.Node]:
        """One measured number, at each profile that found another one."""
        found: dict[str, list[str]] = {}
        for profile, measured in finding.outcomes.items():
            if part.name in measured.values:
                found.setdefault(number(measured.values[part.name]), []).append(profile)
        line: list[nodes.Node | str] = []
        for text, profiles in found.items():
            line += [nodes.strong("", text), f" ({', '.join(profiles)}), " if len(finding.outcomes) > 1 else ", "]
        return [paragraph(*line, needs(part.condition)), small(*self.inline(part.quantity))]

    def verdicts(self, evidence: Evidence, finding: Finding) -> list[nodes.Node]:
        """Each verdict once, with the profiles that gave it, and the reason for one that is missing."""
        if finding.out_of_reach:
            where = nodes.inline("", "out of reach here", classes=["icml25-small"])
            return [paragraph(mark(Verdict.NOT_RUN), " ", where)]
        cell: list[nodes.Node] = []
        for verdict in Verdict:
            outcomes = {p: measured for p, measured in finding.outcomes.items() if measured.verdict == verdict}
            if outcomes:
                reasons = sorted({measured.reason for measured in outcomes.values() if measured.reason})
                where = nodes.inline("", ": ".join([", ".join(outcomes), *reasons]), classes=["icml25-small"])
                cell += [paragraph(mark(verdict), " ", where)]
        if finding.claim.id in evidence.in_notebook:
            anchor = recorded_id(evidence.chapter.slug, finding.claim.id)
            cell += [small(link(self.env, evidence.chapter, "where computed", anchor=anchor))]
        return cell


class LedgerPage(BookDirective):
    """``{ledger}``: totals over all chapters, then each chapter's claims with their verdict at each profile."""

    def run(self) -> list[nodes.Node]:
        """Build the totals and one section per chapter."""
        known = self.evidence(self.chapters())
        return [self.totals(known), *map(self.section, known)] if known else []

    def totals(self, known: Sequence[Evidence]) -> nodes.table:
        """The table of counts."""
        counts = [_counts(evidence) for evidence in known]
        names = [link(self.env, e.chapter, *self.inline(title_of(e.chapter))) for e in known]
        rows = [row([[paragraph(name)], *_cells(numbers)]) for name, numbers in zip(names, counts, strict=True)]
        sums = [sum(column) for column in zip(*counts, strict=True)]
        # On a phone the symbols stand alone.
        verdicts = [
            nodes.inline("", "", nodes.Text(SYMBOLS[v]), nodes.inline("", f" {v}", classes=["icml25-word"]))
            for v in Verdict
        ]
        head = ["Chapter", "Claims", *verdicts, "out of reach"]
        rows.append(row([[paragraph("All chapters")], *_cells(sums)]))
        return table(head, rows, widths=(40, 10, 14, 14, 11, 11), kind="icml25-totals")

    def section(self, evidence: Evidence) -> nodes.section:
        """One chapter's claims."""
        chapter = evidence.chapter
        name = f"ledger-{chapter.slug}"
        rows = []
        for finding in evidence.findings:
            claim = finding.claim
            to_row = link(self.env, chapter, claim.id, anchor=claim_id(chapter.slug, claim.id))
            cells = [[paragraph(to_row)], [paragraph(*self.inline(claim.statement))]]
            names = ["id", "claim"] + [f"{p}" if p in claim.profiles else "empty" for p in _PROFILES]
            cells += [
                [paragraph(mark(finding.outcomes[profile].verdict))] if profile in finding.outcomes else []
                for profile in _PROFILES
            ]
            if finding.out_of_reach:
                cells[2], names[2] = [small("out of reach here")], "reach"
            rows.append(row(cells, classes=[f"icml25-cell-{name}" for name in names]))
        return nodes.section(
            "",
            nodes.title("", "", *self.inline(title_of(chapter))),
            totals_line(evidence),
            *(self.provenance(run) for run in evidence.recorded.values()),
            table(["", "Claim", *_PROFILES], rows, widths=(8, 44, 16, 16, 16), kind="icml25-ledger"),
            ids=[nodes.make_id(name)],
            names=[name],
        )

    def provenance(self, run: RunRecord) -> nodes.paragraph:
        """Where the numbers of a recorded run come from."""
        facts = {key: value for key, value in run.provenance.items() if isinstance(value, str | int | float)}
        changed = " with changes" if facts.pop("dirty", False) else ""
        texts = [f"profile {run.profile}", f"seed {run.seed}"]
        for key, value in facts.items():
            match key, value:
                case "commit", str():
                    texts.append(f"commit {value[:9]}{changed}")
                case "peak_memory_bytes", int():
                    texts.append(f"peak memory {value / 1e6:.0f} MB")
                case "seconds" | "cpu_seconds", int() | float():
                    texts.append(f"{value:.0f} {key.replace('_', ' ')}")
                case _:
                    texts.append(f"{key.replace('_', ' ')} {value}")
        return small(f"Recorded run: {', '.join(texts)}.")


class MethodMap(BookDirective):
    """``{method-map}``: every chapter by part, with its paper and one mark per claim."""

    def run(self) -> list[nodes.Node]:
        """Build one group per part."""
        groups = []
        for part, members in itertools.groupby(self.chapters(), key=lambda chapter: chapter.part):
            tiles = [self.tile(evidence) for evidence in self.evidence(members)]
            name = paragraph(part.capitalize(), classes=["icml25-part-name"])
            groups.append(
                nodes.container(
                    "", name, nodes.container("", *tiles, classes=["icml25-tiles"]), classes=["icml25-part"]
                )
            )
        return [nodes.container("", *groups, classes=["icml25-map"])]

    def tile(self, evidence: Evidence) -> nodes.container:
        """One chapter."""
        chapter = evidence.chapter
        strip = [
            nodes.inline("", SYMBOLS[f.verdict], classes=["icml25-cell", class_of(f.verdict)])
            for f in evidence.findings
        ]
        paper = [paragraph(*self.inline(paper_of(chapter)), classes=["icml25-tile-paper"])] if paper_of(chapter) else []
        return nodes.container(
            "",
            paragraph(link(self.env, chapter, *self.inline(title_of(chapter))), classes=["icml25-tile-title"]),
            *paper,
            paragraph(*strip, classes=["icml25-strip"]),
            totals_line(evidence),
            classes=["icml25-tile"],
        )


def totals_line(evidence: Evidence) -> nodes.paragraph:
    """A line that counts a chapter's verdicts."""
    return paragraph(totals_text(evidence), classes=["icml25-totals-line"])


def totals_text(evidence: Evidence) -> str:
    """How many claims a chapter has, and what became of them."""
    total, *counts = _counts(evidence)
    names = [*map(str, Verdict), "out of reach"]
    texts = [f"{count} {name}" for count, name in zip(counts, names, strict=True) if count]
    return f"{total} claim{'s' * (total != 1)}: {', '.join(texts)}."


def _counts(evidence: Evidence) -> list[int]:
    return [len(evidence.findings), *(evidence.count(verdict) for verdict in Verdict), evidence.out_of_reach]


def _cells(counts: Sequence[int]) -> list[list[nodes.Node]]:
    return [[paragraph(str(count))] for count in counts]
