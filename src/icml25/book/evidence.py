"""What is known about a chapter's claims: the claims file beside what each run of the chapter found.

The committed notebook holds the ``cpu`` run, the results file the recorded ``study`` and ``gpu`` runs. Verdicts are
taken again from the measured numbers, so that a pass condition that was edited after a run never shows the old verdict.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from icml25.book.chapters import Chapter
from icml25.book.claims import Claim, ClaimsError, Verdict, load_claims
from icml25.book.records import Measured, RunRecord, read_notebook, read_recorded

__all__ = ["Evidence", "Finding", "gather", "judged", "overall", "paper_of", "sources_of", "title_of"]


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """One verdict out of several: a single failure outweighs any number of successes.

    >>> str(overall([Verdict.REPRODUCED, Verdict.NOT_RUN]))
    'reproduced'
    >>> str(overall([Verdict.REPRODUCED, Verdict.NOT_REPRODUCED]))
    'not reproduced'
    """
    found = set(verdicts)
    for verdict in (Verdict.NOT_REPRODUCED, Verdict.REPRODUCED):
        if verdict in found:
            return verdict
    return Verdict.NOT_RUN


@dataclass(frozen=True)
class Finding:
    """A claim, and the outcome at each profile that the claim is checked at."""

    claim: Claim
    outcomes: Mapping[str, Measured]

    @property
    def verdict(self) -> Verdict:
        """The claim's verdict over all profiles."""
        return overall(measured.verdict for measured in self.outcomes.values())

    @property
    def out_of_reach(self) -> bool:
        """Whether the claim asks for more than this book can run."""
        return self.claim.kind == "out-of-reach"


@dataclass(frozen=True)
class Evidence:
    """All findings of a chapter, in the order of its claims file, and the recorded runs they come from."""

    chapter: Chapter
    findings: tuple[Finding, ...]
    in_notebook: frozenset[str]
    recorded: Mapping[str, RunRecord]

    def count(self, verdict: Verdict) -> int:
        """Number of claims with this overall verdict, the out-of-reach ones left out."""
        return sum(finding.verdict == verdict and not finding.out_of_reach for finding in self.findings)

    @property
    def out_of_reach(self) -> int:
        """Number of claims that this book cannot run."""
        return sum(finding.out_of_reach for finding in self.findings)


def sources_of(chapter: Chapter) -> tuple[Path, ...]:
    """The files that a chapter's evidence is read from; some may not be there yet."""
    return chapter.source, chapter.claims, chapter.notebook, chapter.results


def gather(chapter: Chapter) -> Evidence:
    """Read a chapter's claims and everything that was found about them.

    Raises
    ------
    ClaimsError
        If the claims file is malformed, or a run recorded a claim or a part that the file does not have.
    """
    claims = load_claims(chapter.claims)
    notebook = read_notebook(chapter.notebook) if chapter.notebook.is_file() else {}
    recorded = read_recorded(chapter.results)
    runs: dict[str, Mapping[str, Measured]] = {"cpu": notebook}
    runs |= {profile: run.claims for profile, run in recorded.items() if profile != "cpu"}
    for profile, found in runs.items():
        if unknown := sorted(set(found) - set(claims)):
            raise ClaimsError(
                f"{chapter.claims.name}: the {profile} run recorded {', '.join(unknown)}, which the file does not have"
            )
    findings = tuple(
        Finding(claim, {profile: _outcome(claim, runs.get(profile, {}), profile) for profile in claim.profiles})
        for claim in claims.values()
    )
    return Evidence(chapter, findings, frozenset(notebook), recorded)


def judged(claim: Claim, measured: Measured) -> Measured:
    """The outcome with its verdict taken again from the numbers.

    Raises
    ------
    ValueError
        If the numbers are not those of the claim's parts.
    """
    if measured.verdict == Verdict.NOT_RUN:
        return measured
    return Measured(claim.judge(measured.values), measured.values, measured.reason)


def _outcome(claim: Claim, found: Mapping[str, Measured], profile: str) -> Measured:
    try:
        return judged(claim, found.get(claim.id, Measured(Verdict.NOT_RUN)))
    except ValueError as error:
        raise ClaimsError(f"the {profile} run is of another claims file: {error}") from error


def title_of(chapter: Chapter) -> str:
    """The chapter's first heading, or its slug when it has none."""
    match = re.search(r"^# +(.+?)\s*$", chapter.source.read_text(encoding="utf-8"), re.MULTILINE)
    return match[1] if match else chapter.slug


def paper_of(chapter: Chapter) -> str:
    """Title of the paper: the first emphasised words of the chapter's first card; empty if there are none."""
    text = chapter.source.read_text(encoding="utf-8")
    card = re.search(r"^(:{3,}|`{3,})\{card\}.*?^\1\s*$", text, re.MULTILINE | re.DOTALL)
    title = card and re.search(r"(?<![*\w])\*([^*]+)\*(?!\*)", card[0])
    return " ".join(title[1].split()) if title else ""
