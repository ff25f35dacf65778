"""The arithmetic of getting worse: verdicts, tolerances, sides."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml25.baselines import (
    IMPROVED,
    UPDATE,
    Expected,
    Tolerated,
    check_recorded,
    compare,
    compare_run,
    default_tolerance,
    read_baseline,
    renew,
    write_baseline,
)
from icml25.book.claims import Condition, Verdict, parse_claims
from icml25.book.records import Held, Measured, RunRecord

OK, BAD, NONE = Verdict.REPRODUCED, Verdict.NOT_REPRODUCED, Verdict.NOT_RUN

LEAST = {"at_least": 0.5}
MOST = {"at_most": 0.5}
NEAR = {"near": 2.0, "tol": 0.5}


def claims(condition=None, **extra):
    entry = {
        "id": "C1",
        "kind": "theory",
        "statement": "s",
        "source": "s",
        "quantity": "q",
        "pass": condition or LEAST,
        "must_fail": 99 if condition in (MOST, NEAR) else -99,
        "profiles": ["cpu"],
    }
    return parse_claims([entry | extra])


def expected(value, tol, verdict=OK):
    return {"C1": Expected(verdict, {"value": Tolerated(value, tol)})}


def found(value, verdict=OK, reason=""):
    return {"C1": Measured(verdict, {} if value is None else {"value": value}, reason)}


@pytest.mark.parametrize(
    ("condition", "base", "inside", "outside", "good"),
    [
        (LEAST, 0.8, 0.71, 0.69, 5.0),
        (MOST, 0.2, 0.29, 0.31, -5.0),
        (NEAR, 2.1, 2.19, 2.21, 2.0),
        (NEAR, 2.1, 1.81, 1.79, 1.95),  # the margin counts, on whichever side
    ],
)
def test_a_value_may_move_within_its_tolerance_and_freely_to_the_good_side(condition, base, inside, outside, good):
    at = lambda value: compare(expected(base, 0.1), claims(condition), found(value))
    assert at(inside) == []
    assert at(good) == []
    (problem,) = at(outside)
    assert "on the bad side" in problem
    assert f"{outside:.6g}" in problem


@pytest.mark.parametrize(
    ("before", "now", "improved"),
    [(OK, BAD, False), (OK, NONE, False), (BAD, NONE, False), (BAD, OK, True), (NONE, OK, True), (NONE, BAD, True)],
)
def test_a_turned_verdict_is_a_problem_and_an_improvement_says_how_to_record_it(before, now, improved):
    (problem,) = compare(expected(0.8, 0.1, before), claims(), found(0.8, now, "why not"))
    assert (IMPROVED in problem) == improved
    assert f"was {before} and is {now} (why not)" in problem


def test_claims_that_come_or_go_are_problems():
    (problem,) = compare({}, claims(), found(0.8))
    assert UPDATE in problem
    assert IMPROVED not in problem
    assert "no longer recorded" in compare(expected(0.8, 0.1), claims(), {})[0]
    assert "no longer a claim" in compare(expected(0.8, 0.1) | {"C9": Expected(OK)}, claims(), found(0.8))[0]


def test_a_value_that_became_nan_is_worse_and_one_that_was_nan_is_not():
    assert compare(expected(0.8, 0.1, BAD), claims(), found(math.nan, BAD))
    assert compare(expected(math.nan, 0.0, BAD), claims(), found(math.nan, BAD)) == []
    assert compare(expected(math.inf, 0.0), claims(), found(math.inf)) == []


def test_absent_data_is_allowed_only_where_the_claim_needs_data_and_the_caller_allows():
    absent = found(None, NONE, "data absent: counts")
    base = expected(0.8, 0.1)
    assert compare(base, claims(data="counts"), absent, absent_data_allowed=True) == []
    assert compare(base, claims(data="counts"), absent)
    assert compare(base, claims(), absent, absent_data_allowed=True)
    assert compare(base, claims(data="counts"), found(None, NONE, "too slow"), absent_data_allowed=True)


@pytest.mark.parametrize(
    ("condition", "value", "tol"),
    [
        (LEAST, 0.9, 0.2),  # half the margin
        (LEAST, 0.51, 0.0255),  # five per cent
        (MOST, 1e-16, 0.25),
        (NEAR, 2.4, 0.12),
        (LEAST, 0.2, 0.01),  # fails: the margin is negative
        ({"equal": 0.0}, 0.0, 0.0),
        (LEAST, math.inf, 0.0),
        (LEAST, math.nan, 0.0),
    ],
)
def test_default_tolerance(condition, value, tol):
    assert default_tolerance(Condition.parse(condition), value) == pytest.approx(tol, rel=1e-5)


@given(st.floats(0.5, 1e6))
def test_the_default_tolerance_never_lets_a_passing_value_fail_by_margin_alone(value):
    condition = Condition.parse(LEAST)
    tol = default_tolerance(condition, value)
    assert tol <= max(0.05 * value, (value - 0.5) / 2) * (1 + 1e-5)
    assert compare(expected(value, tol), claims(), found(value)) == []


def test_renew_keeps_the_old_entry_while_the_value_stays_inside_it():
    old = expected(0.8, 0.1)
    assert renew(old, claims(), found(0.85)) == old
    assert renew(old, claims(), found(0.95))["C1"].values["value"] == Tolerated(0.95, 0.225)
    assert renew({}, claims(), found(0.8, BAD))["C1"].verdict == BAD
    assert renew(old, claims(), {}) == {}
    assert renew({}, claims(), found(None, NONE))["C1"] == Expected(NONE)


@pytest.mark.parametrize("value", [0.1 + 0.2, math.nan, -math.inf])
def test_a_baseline_survives_its_file(tmp_path, value):
    path = tmp_path / "cpu.json"
    write_baseline(path, {"z": expected(value, 0.5), "a": {}})
    json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    again = read_baseline(path)
    assert list(again) == ["a", "z"]
    assert repr(again["z"]) == repr(expected(value, 0.5))
    assert read_baseline(tmp_path / "none.json") == {}


def test_recorded_outcomes_must_be_there_and_say_what_their_values_say():
    assert check_recorded(claims(), found(0.8)) == []
    assert check_recorded(claims(), found(None, NONE, "whatever")) == []
    assert check_recorded(claims(), {}) == ["C1 is not recorded"]
    assert check_recorded(claims(), found(0.4)) == ["C1 is recorded as reproduced, but its values say not reproduced"]
    assert "another claims file" in check_recorded(claims(), {"C1": Measured(OK, {"other": 1.0})})[0]


def test_a_live_run_is_held_to_the_baseline_and_to_the_recorded_run():
    run = RunRecord("slug", "cpu", 0, found(0.8), held={"slice": Held(1.0, 1.0, True)})
    assert compare_run(expected(0.8, 0.1), claims(), run) == []
    run.held["tail"] = Held(1.0, 2.0, False)
    assert compare_run(expected(0.8, 0.1), claims(), run) == ["tail is 1 in this run and 2 in the recorded one"]
    run = RunRecord("slug", "cpu", 0, {})
    assert compare_run(expected(0.8, 0.1), claims(), run) == ["C1 was not recorded by the run"]
