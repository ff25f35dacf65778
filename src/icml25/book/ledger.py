"""The ledger: a chapter hands in what it measured, the claims file decides, the notebook's output carries both.

Each verdict is displayed as a small row whose output bundle also holds the record as JSON, so that the ledger page and
the checks read it from a notebook without running it again. With ``out`` (or ``$ICML25_RECORDS``) the whole run is
written to a file after every record, each time in one step.
"""

from __future__ import annotations

import html
import math
import numbers
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from icml25.book.chapters import book_root
from icml25.book.claims import Claim, Verdict, load_claims
from icml25.book.files import write_json
from icml25.book.profiles import check_profile
from icml25.book.records import CLAIM_MIME, Held, Measured, RunRecord, read_recorded

__all__ = ["RECORDS_VARIABLE", "Ledger"]

RECORDS_VARIABLE = "ICML25_RECORDS"

_MARK = {Verdict.REPRODUCED: "✓", Verdict.NOT_REPRODUCED: "✗", Verdict.NOT_RUN: "–"}


class Ledger:
    """Judges one chapter's measurements against its claims file.

    Parameters
    ----------
    slug : str
        The chapter; its claims are read from ``<slug>.claims.yml`` in the working directory, or in the book's folders.
    profile, seed : str, int
        The run's parameters.
    out : str
        File to which the run's record is written; empty for none.
    """

    def __init__(self, slug: str, *, profile: str, seed: int = 0, out: str = "") -> None:
        self.slug = slug
        self.profile = check_profile(profile)
        self._claims_file = _find_claims(slug)
        self.claims = load_claims(self._claims_file)
        self.run = RunRecord(slug=slug, profile=profile, seed=int(seed))
        self._out = _record_path(slug, profile, out)

    def wants(self, claim_id: str) -> bool:
        """Whether the claim is checked at this run's profile."""
        return self.profile in self._claim(claim_id).profiles

    def record(self, claim_id: str, value: float | Mapping[str, float]) -> None:
        """Judge what was measured for a claim, show the verdict, and keep both.

        Parameters
        ----------
        claim_id : str
            Id of the claim in the claims file.
        value : float or mapping
            The measured number, or one number for each of the claim's parts.

        Raises
        ------
        KeyError, ValueError, TypeError
            If the claim is unknown, was recorded before, the parts do not match, or a value is not a number.
        """
        claim = self._claim(claim_id)
        values = {
            name: _scalar(claim_id, v)
            for name, v in (value if isinstance(value, Mapping) else {"value": value}).items()
        }
        verdict, reason = claim.judge(values), ""
        if self.profile == "smoke":
            verdict, reason = Verdict.NOT_RUN, "smoke sizes judge nothing"
        elif self.profile not in claim.profiles:
            verdict, reason = Verdict.NOT_RUN, f"judged at: {', '.join(claim.profiles)}"
        self._keep(claim, Measured(verdict, values, reason))

    def not_run(self, claim_id: str, reason: str) -> None:
        """Keep that a claim could not be checked in this run, and why."""
        self._keep(self._claim(claim_id), Measured(Verdict.NOT_RUN, {}, reason))

    def save(self, name: str, series: Any) -> None:
        """Keep an array, nested list or number in the run's record, for figures drawn from a recorded run."""
        if name in self.run.series:
            raise ValueError(f"series {name!r} was saved before in this run")
        self.run.series[name] = _plain(series)
        self._write()

    def recorded(self, profile: str) -> dict[str, Any] | None:
        """The series that the recorded run at ``profile`` saved, or None if there is no such run."""
        run = read_recorded(self._claims_file.with_name(f"{self.slug}.results.json")).get(check_profile(profile))
        return None if run is None else dict(run.series)

    def hold(self, name: str, live: float, recorded: float, *, rel: float = 0.0, abs: float = 0.0) -> None:
        """State that a number computed in this run agrees with the recorded run, within a tolerance.

        A disagreement does not stop the chapter: it is shown, kept, and fails the book's checks at profile ``cpu``.
        """
        value, reference = _scalar(name, live), _scalar(name, recorded)
        agrees = math.isclose(value, reference, rel_tol=rel, abs_tol=abs)
        self.run.held[name] = Held(value, reference, agrees)
        self._write()
        text = f"{name}: {value:.4g} now, {reference:.4g} recorded: {'they agree' if agrees else 'THEY DISAGREE'}"
        mark = "✓" if agrees else "✗"
        _display(f"{mark} {text}", f'<div class="icml25-claim">{mark} {html.escape(text)}</div>')

    def verdicts(self, *, without_data: bool = False, with_data: bool = False) -> None:
        """Show the verdict of every claim recorded so far, and no digits, so that the table is the same on any machine.

        Parameters
        ----------
        without_data, with_data : bool
            Restrict the table to the claims that need no data set from outside, or to those that do.
        """
        rows = [
            (claim_id, measured.verdict)
            for claim_id, measured in self.run.claims.items()
            if not (without_data and self.claims[claim_id].data) and not (with_data and not self.claims[claim_id].data)
        ]
        lines = "\n".join(f"{claim_id:<6}{verdict}" for claim_id, verdict in rows)
        cells = "".join(f"<tr><td>{claim_id}</td>{_verdict_cell(verdict)}</tr>" for claim_id, verdict in rows)
        _display(lines, f'<table class="icml25-verdicts"><tr><th>Claim</th><th>Verdict</th></tr>{cells}</table>')

    def _claim(self, claim_id: str) -> Claim:
        if claim_id not in self.claims:
            raise KeyError(f"no claim {claim_id!r} in {self._claims_file.name}; there are: {', '.join(self.claims)}")
        return self.claims[claim_id]

    def _keep(self, claim: Claim, measured: Measured) -> None:
        if claim.id in self.run.claims:
            raise ValueError(f"claim {claim.id} was recorded before in this run")
        self.run.claims[claim.id] = measured
        self._write()
        bundle = {
            "slug": self.slug,
            "id": claim.id,
            "profile": self.profile,
            "seed": self.run.seed,
        } | measured.to_json()
        _display(_row_text(claim, measured), _row_html(claim, measured), {CLAIM_MIME: bundle})

    def _write(self) -> None:
        if self._out is not None:
            write_json(self._out, self.run.to_json())


def _find_claims(slug: str) -> Path:
    name = f"{slug}.claims.yml"
    if Path(name).is_file():
        return Path(name).resolve()
    found = sorted(book_root().glob(f"book/*/{name}"))
    if not found:
        raise FileNotFoundError(f"no {name} beside the notebook or in the book: a chapter needs its claims file")
    return found[0]


def _record_path(slug: str, profile: str, out: str) -> Path | None:
    if out:
        return Path(out)
    folder = os.environ.get(RECORDS_VARIABLE)
    return Path(folder) / f"{slug}.{profile}.json" if folder else None


def _scalar(name: str, value: object) -> float:
    array = np.asarray(value)
    if array.ndim != 0 or not (isinstance(array.item(), numbers.Real)):
        raise TypeError(f"{name}: expected one number, got {type(value).__name__} of shape {array.shape}")
    return float(array.item())


def _plain(series: Any) -> Any:
    if isinstance(series, Mapping):
        return {str(key): _plain(value) for key, value in series.items()}
    if isinstance(series, str):
        return series
    if isinstance(series, list | tuple):
        return [_plain(value) for value in series]
    array = np.asarray(series)
    if array.ndim:
        return [_plain(value) for value in array]
    value = array.item()
    if isinstance(value, float):
        # Twelve digits are more than any figure shows, and keep a re-recorded file's diff to what changed.
        return float(f"{value:.12g}") if math.isfinite(value) else None
    return value


def _values_text(claim: Claim, measured: Measured) -> str:
    conditions = {part.name: part.condition for part in claim.parts}
    shown = [
        f"{'' if name == 'value' else f'{name} '}{value:.4g} ({conditions[name]})"
        for name, value in measured.values.items()
    ]
    return ", ".join(shown)


def _row_text(claim: Claim, measured: Measured) -> str:
    detail = "; ".join(text for text in (_values_text(claim, measured), measured.reason) if text)
    return f"{_MARK[measured.verdict]} {claim.id} {measured.verdict}: {detail}"


def _row_html(claim: Claim, measured: Measured) -> str:
    detail = "; ".join(text for text in (_values_text(claim, measured), measured.reason) if text)
    return (
        f'<table class="icml25-claim"><tr><td>{html.escape(claim.id)}</td>{_verdict_cell(measured.verdict)}'
        f"<td>{html.escape(detail)}</td></tr></table>"
    )


def _verdict_cell(verdict: Verdict) -> str:
    return f'<td class="icml25-{verdict.replace(" ", "-")}">{_MARK[verdict]} {verdict}</td>'


def _display(text: str, markup: str, extra: dict[str, Any] | None = None) -> None:
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return
    if get_ipython() is None:
        return
    from IPython.display import display

    display({"text/plain": text, "text/html": markup} | (extra or {}), raw=True)  # type: ignore[no-untyped-call]
