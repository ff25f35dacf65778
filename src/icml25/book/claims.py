"""Claims of a paper as data: what is claimed, what is measured, and the condition that decides.

A claims file is a YAML list beside the chapter. Reading one checks everything a typing slip could break, among it that
every pass condition rejects at least one value (``must_fail``): a condition that nothing can fail is no check.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from icml25.book.profiles import PROFILES

__all__ = ["KINDS", "Claim", "ClaimsError", "Condition", "Part", "Verdict", "load_claims", "parse_claims"]

KINDS: tuple[str, ...] = ("theory", "reproduction", "analogue", "control", "out-of-reach")

_MEASURE_KEYS = frozenset({"quantity", "pass", "must_fail"})
_PART_KEYS = _MEASURE_KEYS | {"name"}
_CLAIM_KEYS = _MEASURE_KEYS | {"id", "kind", "statement", "source", "paper_value", "parts", "profiles", "needs", "data"}


class ClaimsError(ValueError):
    """A claims file that cannot be taken at its word; the message names the file and the claim."""


class Verdict(StrEnum):
    """What came out of a claim's check."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Condition:
    """A pass condition on one number: an interval ``[low, high]``, either end of which may be infinite.

    >>> Condition.parse({"at_least": 0.9}).holds(0.95)
    True
    >>> str(Condition.parse({"near": -2, "tol": 0.05}))
    '-2 ± 0.05'
    """

    low: float
    high: float
    text: str

    @classmethod
    def parse(cls, spec: object) -> Condition:
        """Read ``{at_least: x}``, ``{at_most: x}``, ``{between: [lo, hi]}``, ``{near: x, tol: t}`` or ``{equal: x}``.

        Raises
        ------
        ValueError
            If the mapping is none of these, or a bound is not a finite number.
        """
        if not isinstance(spec, Mapping):
            raise ValueError(f"pass must be a mapping such as {{at_least: 0.9}}, got {spec!r}")
        match dict(spec):
            case {"at_least": low, **rest} if not rest:
                return cls(_number(low), math.inf, f"≥ {_number(low):g}")
            case {"at_most": high, **rest} if not rest:
                return cls(-math.inf, _number(high), f"≤ {_number(high):g}")
            case {"between": [low, high], **rest} if not rest and _number(low) < _number(high):
                return cls(_number(low), _number(high), f"in [{_number(low):g}, {_number(high):g}]")
            case {"near": centre, "tol": tol, **rest} if not rest and _number(tol) > 0:
                x, t = _number(centre), _number(tol)
                return cls(x - t, x + t, f"{x:g} ± {t:g}")
            case {"equal": x, **rest} if not rest:
                return cls(_number(x), _number(x), f"= {_number(x):g}")
        raise ValueError(
            "pass must be one of {at_least: x}, {at_most: x}, {between: [lo, hi]}, {near: x, tol: t}, {equal: x}, "
            f"got {dict(spec)!r}"
        )

    def holds(self, value: float) -> bool:
        """Whether ``value`` meets the condition; a NaN never does."""
        return self.low <= value <= self.high

    def margin(self, value: float) -> float:
        """Distance from ``value`` to the nearest bound, negative outside the interval."""
        return min(value - self.low, self.high - value)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Part:
    """One measured number of a claim; a claim with a single number has one part, named ``"value"``."""

    name: str
    quantity: str
    condition: Condition
    must_fail: tuple[float, ...]


@dataclass(frozen=True)
class Claim:
    """One entry of a claims file."""

    id: str
    kind: str
    statement: str
    source: str
    paper_value: float | str | None
    parts: tuple[Part, ...]
    profiles: tuple[str, ...]
    needs: str | None
    data: str | None

    def judge(self, values: Mapping[str, float]) -> Verdict:
        """Verdict on one value per part.

        Raises
        ------
        ValueError
            If ``values`` does not have exactly the parts of the claim.
        """
        expected = [part.name for part in self.parts]
        if set(values) != set(expected):
            raise ValueError(f"claim {self.id} takes the values {expected}, got {sorted(values)}")
        held = all(part.condition.holds(values[part.name]) for part in self.parts)
        return Verdict.REPRODUCED if held else Verdict.NOT_REPRODUCED


def load_claims(path: Path) -> dict[str, Claim]:
    """Read a claims file.

    Returns
    -------
    dict
        Claims by id, in the file's order.

    Raises
    ------
    ClaimsError
        If the file is not a list of well-formed claims with unique ids.
    """
    import yaml

    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ClaimsError(f"{path.name}: not valid YAML: {error}") from error
    return parse_claims(entries, where=path.name)


def parse_claims(entries: object, where: str = "claims") -> dict[str, Claim]:
    """Build claims from the parsed YAML list; ``where`` opens each error message. See :func:`load_claims`."""
    if not isinstance(entries, list) or not entries:
        raise ClaimsError(f"{where}: a claims file is a non-empty list")
    claims: dict[str, Claim] = {}
    for position, entry in enumerate(entries):
        if not isinstance(entry, Mapping) or not isinstance(entry.get("id"), str):
            raise ClaimsError(f"{where}: entry {position} must be a mapping with an id, got {entry!r}")
        try:
            claim = _parse_claim(entry)
        except ValueError as error:
            raise ClaimsError(f"{where}: claim {entry['id']}: {error}") from error
        if claim.id in claims:
            raise ClaimsError(f"{where}: claim {claim.id} stands twice")
        claims[claim.id] = claim
    return claims


def _parse_claim(entry: Mapping[str, Any]) -> Claim:
    if unknown := set(entry) - _CLAIM_KEYS:
        raise ValueError(f"unknown keys: {', '.join(sorted(unknown))}")
    for key in ("statement", "source"):
        if not isinstance(entry.get(key), str):
            raise ValueError(f"{key} must be a text, got {entry.get(key)!r}")
    if entry.get("kind") not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {entry.get('kind')!r}")
    profiles = entry.get("profiles", [])
    if not isinstance(profiles, list) or not set(profiles) <= set(PROFILES) - {"smoke"}:
        raise ValueError(f"profiles must be a list out of cpu, study, gpu, got {profiles!r}")
    out_of_reach = entry["kind"] == "out-of-reach"
    if out_of_reach and not (isinstance(entry.get("needs"), str) and not profiles):
        raise ValueError("an out-of-reach claim says in needs what it would take, and lists no profile")
    if not out_of_reach and not profiles:
        raise ValueError("profiles must name where the claim is checked")
    parts = () if out_of_reach else _parse_parts(entry)
    return Claim(
        id=entry["id"],
        kind=entry["kind"],
        statement=entry["statement"],
        source=entry["source"],
        paper_value=entry.get("paper_value"),
        parts=parts,
        profiles=tuple(profiles),
        needs=entry.get("needs"),
        data=entry.get("data"),
    )


def _parse_parts(entry: Mapping[str, Any]) -> tuple[Part, ...]:
    specs = entry.get("parts")
    if specs is None:
        specs = [{"name": "value"} | {key: entry[key] for key in _MEASURE_KEYS & set(entry)}]
    elif not isinstance(specs, list) or not specs or _MEASURE_KEYS & set(entry):
        raise ValueError("parts must be a non-empty list that replaces quantity, pass and must_fail")
    parts = []
    for spec in specs:
        if not isinstance(spec, Mapping) or set(spec) != _PART_KEYS:
            raise ValueError(f"a measured value needs quantity, pass and must_fail (and a name), got {spec!r}")
        condition = Condition.parse(spec["pass"])
        raw = spec["must_fail"] if isinstance(spec["must_fail"], list) else [spec["must_fail"]]
        must_fail = tuple(_number(value) for value in raw)
        if not must_fail:
            raise ValueError("must_fail needs at least one value")
        if passed := [value for value in must_fail if condition.holds(value)]:
            raise ValueError(
                f"the pass condition {condition} accepts the must_fail value {passed[0]:g}: it checks nothing"
            )
        parts.append(Part(str(spec["name"]), str(spec["quantity"]), condition, must_fail))
    if len({part.name for part in parts}) != len(parts):
        raise ValueError("two parts have one name")
    return tuple(parts)


def _number(value: object) -> float:
    # YAML 1.1 reads 1e-3 as a text: accept it as the number that its author meant.
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise ValueError(f"expected a number, got {value!r}") from None
    if not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {value!r}")
    return float(value)
