"""Claims files: what is taken, what is refused, and what a verdict is made of."""

import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from icml25.book.claims import ClaimsError, Condition, Verdict, load_claims, parse_claims

finite = st.floats(-1e6, 1e6)


def entry(**changes):
    base = {
        "id": "C1",
        "kind": "theory",
        "statement": "It holds.",
        "source": "Theorem 1",
        "quantity": "a number",
        "pass": {"at_least": 0.9},
        "must_fail": 0.5,
        "profiles": ["cpu"],
    }
    return {key: value for key, value in (base | changes).items() if value is not None}


@pytest.mark.parametrize(
    ("spec", "inside", "outside", "text"),
    [
        ({"at_least": 0.9}, [0.9, 2.0, math.inf], [0.8999, -math.inf], "≥ 0.9"),
        ({"at_most": 1e-12}, [1e-12, -5.0], [1.1e-12], "≤ 1e-12"),
        ({"between": [1, 2]}, [1, 1.5, 2], [0.999, 2.001], "in [1, 2]"),
        ({"near": -2, "tol": 0.05}, [-2, -2.05, -1.95], [-2.0501, -1.9499, 2], "-2 ± 0.05"),
        ({"equal": 32}, [32], [31, 32.0001], "= 32"),
    ],
)
def test_condition(spec, inside, outside, text):
    condition = Condition.parse(spec)
    assert str(condition) == text
    assert all(condition.holds(value) for value in inside)
    assert not any(condition.holds(value) for value in outside)
    assert not condition.holds(math.nan)


@given(low=finite, width=st.floats(1e-3, 1e6), value=finite)
def test_margin_is_non_negative_exactly_where_the_condition_holds(low, width, value):
    condition = Condition.parse({"between": [low, low + width]})
    assert (condition.margin(value) >= 0) == condition.holds(value)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"at_least": 1, "at_most": 2},
        {"between": [2, 1]},
        {"between": 3},
        {"near": 1},
        {"near": 1, "tol": -0.1},
        {"at_least": math.nan},
        {"at_least": "many"},
        {"equal": None},
        "at least one",
        None,
    ],
)
def test_condition_refuses(spec):
    with pytest.raises(ValueError, match=r"pass must be|expected a"):
        Condition.parse(spec)


def test_numbers_that_yaml_reads_as_texts_are_numbers():
    claims = parse_claims(yaml.safe_load("[{id: A, kind: theory, statement: s, source: s, quantity: q, "
                                         "pass: {at_most: 1e-12}, must_fail: 1e-3, profiles: [cpu]}]"))  # fmt: skip
    assert claims["A"].parts[0].condition.high == 1e-12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"must_fail": 0.95}, "accepts the must_fail value 0.95"),
        ({"must_fail": [0.1, 0.91]}, "accepts the must_fail value 0.91"),
        ({"must_fail": []}, "at least one value"),
        ({"must_fail": None}, "needs quantity, pass and must_fail"),
        ({"kind": "guess"}, "kind must be one of"),
        ({"profiles": ["smoke"]}, "profiles must be a list out of cpu, study, gpu"),
        ({"profiles": []}, "profiles must name where"),
        ({"statement": None}, "statement must be a text"),
        ({"colour": "red"}, "unknown keys: colour"),
        ({"kind": "out-of-reach"}, "says in needs"),
        ({"parts": [{"name": "a", "quantity": "q", "pass": {"equal": 1}, "must_fail": 0}]}, "replaces quantity"),
    ],
)
def test_claim_refuses(changes, message):
    with pytest.raises(ClaimsError, match=f"x.yml: claim C1: .*{message}"):
        parse_claims([entry(**changes)], where="x.yml")


@pytest.mark.parametrize("entries", [[], {}, None, ["C1"], [{"kind": "theory"}]])
def test_file_refuses_what_is_no_list_of_claims(entries):
    with pytest.raises(ClaimsError):
        parse_claims(entries)


def test_two_claims_cannot_share_an_id():
    with pytest.raises(ClaimsError, match="claim C1 stands twice"):
        parse_claims([entry(), entry()])


def test_invalid_yaml_names_the_file(tmp_path):
    path = tmp_path / "bad.claims.yml"
    path.write_text("- id: [")
    with pytest.raises(ClaimsError, match=r"bad\.claims\.yml: not valid YAML"):
        load_claims(path)


def test_every_part_has_to_hold():
    parts = [
        {"name": "slope", "quantity": "q", "pass": {"near": -2, "tol": 0.05}, "must_fail": -1},
        {"name": "ratio", "quantity": "q", "pass": {"between": [0.5, 1]}, "must_fail": [1.2, 0.4]},
    ]
    (claim,) = parse_claims([entry(**{"parts": parts, "quantity": None, "pass": None, "must_fail": None})]).values()
    assert claim.judge({"slope": -2.01, "ratio": 0.7}) is Verdict.REPRODUCED
    assert claim.judge({"slope": -2.01, "ratio": 1.1}) is Verdict.NOT_REPRODUCED
    assert claim.judge({"slope": math.nan, "ratio": 0.7}) is Verdict.NOT_REPRODUCED
    with pytest.raises(ValueError, match=r"takes the values \['slope', 'ratio'\], got \['slope'\]"):
        claim.judge({"slope": -2})
