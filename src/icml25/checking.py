"""Check the claims of a checkout: files, recorded outcomes, baselines, and a run that has just been made."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from icml25 import baselines
from icml25.book.chapters import Chapter
from icml25.book.claims import Claim, ClaimsError, load_claims
from icml25.book.records import Measured, read_notebook, read_recorded, read_run

__all__ = ["PROFILES", "Report", "baseline_path", "check", "recorded", "update_baselines"]

PROFILES = ("cpu", "study", "gpu")
"""The profiles that judge claims."""


@dataclass
class Report:
    """What a check found: problems fail it, notes do not."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)

    @property
    def summary(self) -> str:
        """How many claims were checked at each profile."""
        return ", ".join(f"{count} at {name}" for name, count in self.checked.items()) or "none"


def baseline_path(root: Path, profile: str) -> Path:
    """The baseline of a profile."""
    return root / "tests" / "baselines" / f"{profile}.json"


def recorded(chapter: Chapter, profile: str) -> Mapping[str, Measured] | None:
    """What is committed of a chapter at a profile; None if it was never run there."""
    if profile == "cpu":
        return read_notebook(chapter.notebook) if chapter.notebook.is_file() else None
    run = read_recorded(chapter.results).get(profile)
    return None if run is None else run.claims


def _judged(chapter: Chapter, profile: str) -> dict[str, Claim]:
    return {claim_id: claim for claim_id, claim in load_claims(chapter.claims).items() if profile in claim.profiles}


def check(chapters: Sequence[Chapter], records: Path | None = None, *, strict: bool = True) -> Report:
    """Check chapters.

    Parameters
    ----------
    chapters : sequence of Chapter
    records : Path, optional
        Folder with the records of a run (``<slug>.<profile>.json``), which is held to the baselines too.
    strict : bool
        The chapters are all there are: a baseline of any other chapter is a problem.

    Raises
    ------
    ClaimsError
        If a claims file is malformed.
    """
    report = Report()
    for profile in PROFILES:
        judged = {chapter: _judged(chapter, profile) for chapter in chapters}
        judged = {chapter: claims for chapter, claims in judged.items() if claims}
        if not judged:
            continue
        root = next(iter(judged)).root
        expected = baselines.read_baseline(baseline_path(root, profile))
        for chapter, claims in judged.items():
            _check_recorded(report, chapter, profile, claims, expected.get(chapter.slug, {}))
        if strict:
            gone = set(expected) - {chapter.slug for chapter in judged}
            report.problems += [
                f"{slug} ({profile}): in the baseline, but no chapter has claims there" for slug in gone
            ]
    if records is not None:
        _check_run(report, chapters, records)
    return report


def _check_recorded(
    report: Report,
    chapter: Chapter,
    profile: str,
    claims: Mapping[str, Claim],
    expected: Mapping[str, baselines.Expected],
) -> None:
    where = f"{chapter.slug} ({profile})"
    found = recorded(chapter, profile)
    if found is None:
        if profile == "cpu":
            report.problems.append(f"{where}: it has no executed notebook; icml25 sync {chapter.slug}")
        elif profile == "study" or expected:
            how = f"icml25 run {chapter.slug} --profile {profile} --record"
            report.problems.append(f"{where}: {len(claims)} claims, and no recorded run; {how}")
        else:
            # Not everyone who works on the book has a GPU; once there is a record, it is held.
            report.notes.append(f"{where}: {len(claims)} claims wait for a first recorded run on a GPU")
        return
    wrong = baselines.check_recorded(claims, found)
    if wrong:
        # A changed claims file leaves the pair in step, so a plain sync would do nothing.
        again = "icml25 sync --all {}" if profile == "cpu" else f"icml25 run {{}} --profile {profile} --record --fresh"
        wrong = [f"{text}; run it again: {again.format(chapter.slug)}" for text in wrong]
    else:
        wrong = baselines.compare(expected, claims, found)
    report.problems += [f"{where}: {text}" for text in wrong]
    report.checked[profile] += len(claims)


def _check_run(report: Report, chapters: Sequence[Chapter], records: Path) -> None:
    profiles = [profile for profile in PROFILES if any(records.glob(f"*.{profile}.json"))]
    if not profiles:
        report.problems.append(f"no record of a run at {', '.join(PROFILES)} in {records}")
    # Whoever names a folder of data means it to be used: then its absence is a fault of the run.
    absent_allowed = not os.environ.get("ICML25_DATA")
    for profile in profiles:
        for chapter in chapters:
            claims = _judged(chapter, profile)
            if not claims:
                continue
            path = records / f"{chapter.slug}.{profile}.json"
            where = f"{chapter.slug} ({profile}, this run)"
            if not path.is_file():
                report.problems.append(f"{where}: there is no {path.name}")
                continue
            run = read_run(path)
            if (run.slug, run.profile) != (chapter.slug, profile):
                report.problems.append(f"{where}: {path.name} is of {run.slug} at {run.profile}")
                continue
            expected = baselines.read_baseline(baseline_path(chapter.root, profile)).get(chapter.slug, {})
            wrong = baselines.compare_run(expected, claims, run, absent_data_allowed=absent_allowed)
            report.problems += [f"{where}: {text}" for text in wrong]
            report.checked[f"{profile} in this run"] += len(claims)


def update_baselines(chapters: Sequence[Chapter], *, replace: bool = True) -> dict[Path, int]:
    """Write what is recorded into the baselines; ``replace`` drops chapters that are not among ``chapters``.

    Returns
    -------
    dict
        Number of claims by file written.

    Raises
    ------
    ClaimsError
        If a claim lacks a recorded outcome, or one does not follow from its values; nothing is written then.
    """
    new: dict[Path, baselines.Baseline] = {}
    for profile in PROFILES:
        for chapter in chapters:
            claims, found = _judged(chapter, profile), recorded(chapter, profile)
            path = baseline_path(chapter.root, profile)
            if path not in new:
                old = baselines.read_baseline(path)
                new[path] = {} if replace else dict(old)
            if not claims or (found is None and profile == "gpu"):
                continue
            if wrong := baselines.check_recorded(claims, found or {}):
                raise ClaimsError(f"{chapter.slug} ({profile}): {wrong[0]}; record it first")
            before = baselines.read_baseline(path).get(chapter.slug, {})
            new[path][chapter.slug] = baselines.renew(before, claims, found or {})
    written = {}
    for path, baseline in new.items():
        if baseline or path.is_file():
            baselines.write_baseline(path, baseline)
            written[path] = sum(map(len, baseline.values()))
    return written
