"""What a run of a chapter measured, as data: in a notebook's outputs, in a run's file, in the recorded results."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from icml25.book.claims import Verdict

__all__ = ["CLAIM_MIME", "Held", "Measured", "RunRecord", "read_notebook", "read_recorded", "read_run"]

CLAIM_MIME = "application/vnd.icml25.claim+json"
"""Type of the JSON that a recorded claim leaves in a notebook's output."""


def _number(value: float) -> float | str:
    # JSON has no NaN and no infinity: their names stand in, which float() reads back.
    return value if math.isfinite(value) else repr(value)


@dataclass(frozen=True)
class Measured:
    """The outcome of one claim: a verdict, the measured numbers by part, and why it was not run."""

    verdict: Verdict
    values: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        values = {name: _number(value) for name, value in self.values.items()}
        return {"verdict": str(self.verdict), "values": values, "reason": self.reason}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Measured:
        """Inverse of :meth:`to_json`."""
        values = {name: float(value) for name, value in data["values"].items()}
        return cls(Verdict(data["verdict"]), values, data.get("reason", ""))


@dataclass(frozen=True)
class Held:
    """A number of this run beside the same number of the recorded run."""

    live: float
    recorded: float
    agrees: bool

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"live": _number(self.live), "recorded": _number(self.recorded), "agrees": self.agrees}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Held:
        """Inverse of :meth:`to_json`."""
        return cls(float(data["live"]), float(data["recorded"]), data["agrees"])


@dataclass
class RunRecord:
    """Everything that one run of one chapter handed in."""

    slug: str
    profile: str
    seed: int
    claims: dict[str, Measured] = field(default_factory=dict)
    series: dict[str, Any] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        held = {name: entry.to_json() for name, entry in self.held.items()}
        return {
            "slug": self.slug,
            "profile": self.profile,
            "seed": self.seed,
            "claims": {claim_id: measured.to_json() for claim_id, measured in self.claims.items()},
            "series": self.series,
            "held": held,
            "provenance": self.provenance,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunRecord:
        """Inverse of :meth:`to_json`."""
        return cls(
            slug=data["slug"],
            profile=data["profile"],
            seed=data["seed"],
            claims={claim_id: Measured.from_json(entry) for claim_id, entry in data["claims"].items()},
            series=dict(data.get("series", {})),
            held={name: Held.from_json(entry) for name, entry in data.get("held", {}).items()},
            provenance=dict(data.get("provenance", {})),
        )


def read_run(path: Path) -> RunRecord:
    """Read the file that a run wrote."""
    return RunRecord.from_json(json.loads(path.read_text(encoding="utf-8")))


def read_recorded(path: Path) -> dict[str, RunRecord]:
    """Recorded runs of a chapter by profile; empty if nothing was recorded yet."""
    if not path.is_file():
        return {}
    data = json.loads(path.read_text(encoding="utf-8"))
    return {profile: RunRecord.from_json(entry) for profile, entry in data.items()}


def read_notebook(path: Path) -> dict[str, Measured]:
    """Claims recorded in an executed notebook's outputs, in the order of the cells."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    outputs = (output for cell in notebook["cells"] for output in cell.get("outputs", []))
    bundles = (output["data"][CLAIM_MIME] for output in outputs if CLAIM_MIME in output.get("data", {}))
    return {bundle["id"]: Measured.from_json(bundle) for bundle in bundles}
