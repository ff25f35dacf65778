"""Baselines: what the committed book says, with tolerances, so that a change cannot make a claim worse unnoticed.

Another processor rounds differently, and training amplifies it; so a value is held to a tolerance, and only on the side
where its pass condition lies. A verdict is held as it is. An improvement is reported too: once recorded, it is held.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from icml25.book.claims import Claim, Condition, Verdict
from icml25.book.files import write_json
from icml25.book.records import Measured, RunRecord

__all__ = [
    "IMPROVED",
    "UPDATE",
    "Baseline",
    "Expected",
    "Tolerated",
    "check_recorded",
    "compare",
    "compare_run",
    "default_tolerance",
    "read_baseline",
    "renew",
    "write_baseline",
]

UPDATE = "record it with --update-baselines"
IMPROVED = f"improved: {UPDATE}"
RELATIVE_TOLERANCE = 0.05

_RANK = {Verdict.NOT_RUN: 0, Verdict.NOT_REPRODUCED: 1, Verdict.REPRODUCED: 2}


@dataclass(frozen=True)
class Tolerated:
    """A value, and how far a later one may be from it on the bad side."""

    value: float
    tol: float


@dataclass(frozen=True)
class Expected:
    """What is expected of one claim."""

    verdict: Verdict
    values: Mapping[str, Tolerated] = field(default_factory=dict)


Baseline = dict[str, dict[str, Expected]]
"""Expectations of one profile: by chapter, then by claim."""


def read_baseline(path: Path) -> Baseline:
    """Read a baseline; empty if the file is not there."""
    if not path.is_file():
        return {}
    data = json.loads(path.read_text(encoding="utf-8"))
    return {slug: {id_: _from_json(entry) for id_, entry in claims.items()} for slug, claims in data.items()}


def write_baseline(path: Path, baseline: Mapping[str, Mapping[str, Expected]]) -> None:
    """Write a baseline, chapters in alphabetical order."""
    data = {slug: {id_: _to_json(entry) for id_, entry in baseline[slug].items()} for slug in sorted(baseline)}
    write_json(path, data)


def _from_json(entry: Mapping[str, Any]) -> Expected:
    values = {name: Tolerated(float(v["value"]), float(v["tol"])) for name, v in entry["values"].items()}
    return Expected(Verdict(entry["verdict"]), values)


def _to_json(entry: Expected) -> dict[str, Any]:
    # JSON has no NaN and no infinity: their names stand in, which float() reads back.
    values = {
        name: {"value": v.value if math.isfinite(v.value) else repr(v.value), "tol": v.tol}
        for name, v in entry.values.items()
    }
    return {"verdict": str(entry.verdict), "values": values}


def default_tolerance(condition: Condition, value: float) -> float:
    """Five per cent of the value, or half of its distance to the nearest bound if it passes and that is more.

    >>> default_tolerance(Condition.parse({"at_least": 0.5}), 0.9)
    0.2
    """
    if not math.isfinite(value):
        return 0.0
    return float(f"{max(RELATIVE_TOLERANCE * abs(value), condition.margin(value) / 2):.6g}")


def renew(
    old: Mapping[str, Expected], claims: Mapping[str, Claim], found: Mapping[str, Measured]
) -> dict[str, Expected]:
    """Expectations from what was found; an old value and its tolerance stay while the new value lies within them."""
    return {
        claim_id: Expected(
            found[claim_id].verdict,
            {
                part.name: _renewed(old.get(claim_id), part.name, part.condition, found[claim_id].values[part.name])
                for part in claim.parts
                if part.name in found[claim_id].values
            },
        )
        for claim_id, claim in claims.items()
        if claim_id in found
    }


def _renewed(old: Expected | None, name: str, condition: Condition, value: float) -> Tolerated:
    before = old.values.get(name) if old else None
    if before is not None and (before.value == value or abs(value - before.value) <= before.tol):
        return before
    return Tolerated(value, default_tolerance(condition, value))


def check_recorded(claims: Mapping[str, Claim], found: Mapping[str, Measured]) -> list[str]:
    """What is wrong with a set of recorded outcomes by itself.

    Parameters
    ----------
    claims : mapping
        The claims that should be recorded, by id.
    found : mapping
        What was recorded.
    """
    problems = []
    for claim_id, claim in claims.items():
        measured = found.get(claim_id)
        if measured is None:
            problems.append(f"{claim_id} is not recorded")
        elif measured.verdict != Verdict.NOT_RUN:
            try:
                verdict = claim.judge(measured.values)
            except ValueError as error:
                problems.append(f"{claim_id} was recorded under another claims file: {error}")
                continue
            if verdict != measured.verdict:
                problems.append(f"{claim_id} is recorded as {measured.verdict}, but its values say {verdict}")
    return problems


def compare(
    expected: Mapping[str, Expected],
    claims: Mapping[str, Claim],
    found: Mapping[str, Measured],
    *,
    absent_data_allowed: bool = False,
) -> list[str]:
    """What differs from the baseline: verdicts that turned, values that moved the wrong way, claims that came or went.

    Parameters
    ----------
    claims : mapping
        The claims that are judged at the baseline's profile.
    absent_data_allowed : bool
        Let a claim pass whose data set is not on this machine.
    """
    problems = [
        f"{claim_id} is in the baseline but no longer a claim" for claim_id in expected if claim_id not in claims
    ]
    for claim_id, claim in claims.items():
        measured, before = found.get(claim_id), expected.get(claim_id)
        if measured is None:
            if before is not None:
                problems.append(f"{claim_id} was {before.verdict} and is no longer recorded")
        elif absent_data_allowed and claim.data and _data_absent(measured):
            continue
        elif before is None:
            problems.append(f"{claim_id} is new ({measured.verdict}): {UPDATE}")
        elif _RANK[measured.verdict] != _RANK[before.verdict]:
            better = _RANK[measured.verdict] > _RANK[before.verdict]
            why = f" ({measured.reason})" if measured.reason else ""
            turned = f"{claim_id} was {before.verdict} and is {measured.verdict}{why}"
            problems.append(f"{turned}; {IMPROVED}" if better else turned)
        else:
            problems += _moved(claim, before, measured)
    return problems


def _data_absent(measured: Measured) -> bool:
    return measured.verdict == Verdict.NOT_RUN and measured.reason.startswith("data absent")


def _moved(claim: Claim, before: Expected, measured: Measured) -> Iterator[str]:
    for part in claim.parts:
        if part.name not in before.values or part.name not in measured.values:
            continue
        was, value = before.values[part.name], measured.values[part.name]
        if _worse(part.condition, was, value):
            name = claim.id if part.name == "value" else f"{claim.id} {part.name}"
            yield (
                f"{name} moved from {was.value:.6g} to {value:.6g}, beyond its tolerance {was.tol:.3g} "
                f"on the bad side of {part.condition}"
            )


def _worse(condition: Condition, was: Tolerated, value: float) -> bool:
    if math.isnan(value) or math.isnan(was.value):
        return math.isnan(value) and not math.isnan(was.value)
    return condition.margin(value) < condition.margin(was.value) - was.tol


def compare_run(
    expected: Mapping[str, Expected],
    claims: Mapping[str, Claim],
    run: RunRecord,
    *,
    absent_data_allowed: bool = False,
) -> list[str]:
    """:func:`compare` for a live run, and whether what it recomputed agrees with the recorded runs."""
    problems = [f"{claim_id} was not recorded by the run" for claim_id in claims if claim_id not in run.claims]
    known = {claim_id: entry for claim_id, entry in expected.items() if claim_id in run.claims}
    problems += compare(known, claims, run.claims, absent_data_allowed=absent_data_allowed)
    problems += [
        f"{name} is {held.live:.6g} in this run and {held.recorded:.6g} in the recorded one"
        for name, held in run.held.items()
        if not held.agrees
    ]
    return problems
