"""The ledger, from a chapter's call to the JSON in its outputs and in its run's file."""

import json
import math

import numpy as np
import pytest
import torch

from icml25.book.claims import Verdict
from icml25.book.ledger import Ledger
from icml25.book.records import CLAIM_MIME, Measured, RunRecord, read_notebook, read_recorded, read_run

CLAIMS = """
- {id: C1, kind: theory, statement: s, source: s, quantity: q, pass: {at_most: 0.01}, must_fail: 0.05,
   profiles: [cpu, study]}
- {id: C2, kind: theory, statement: s, source: s, quantity: q, pass: {at_least: 1}, must_fail: 0, profiles: [study]}
- {id: D1, kind: theory, statement: s, source: s, quantity: q, pass: {equal: 1}, must_fail: 0, profiles: [cpu], data: d}
- id: P1
  kind: theory
  statement: s
  source: s
  parts:
    - {name: a, quantity: q, pass: {equal: 1}, must_fail: 0}
    - {name: b, quantity: q, pass: {equal: 2}, must_fail: 0}
  profiles: [cpu]
"""


@pytest.fixture
def chapter(tmp_path, monkeypatch):
    (tmp_path / "toy.claims.yml").write_text(CLAIMS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ICML25_RECORDS", raising=False)
    return tmp_path


@pytest.fixture
def shown(monkeypatch):
    """Output bundles that a notebook would hold."""
    bundles = []
    monkeypatch.setattr("icml25.book.ledger._display", lambda text, markup, extra=None: bundles.append(
        {"text/plain": text, "text/html": markup} | (extra or {})))  # fmt: skip
    return bundles


def test_verdict_comes_from_the_claims_file(chapter, shown):
    ledger = Ledger("toy", profile="cpu")
    ledger.record("C1", 0.005)
    ledger.record("D1", np.int64(0))
    assert {claim: measured.verdict for claim, measured in ledger.run.claims.items()} == {
        "C1": Verdict.REPRODUCED,
        "D1": Verdict.NOT_REPRODUCED,
    }
    assert shown[0]["text/plain"] == "✓ C1 reproduced: 0.005 (≤ 0.01)"
    assert "icml25-not-reproduced" in shown[1]["text/html"]


@pytest.mark.parametrize(
    ("profile", "claim", "reason"), [("smoke", "C1", "smoke sizes judge nothing"), ("cpu", "C2", "judged at: study")]
)
def test_a_value_outside_its_profile_is_kept_but_not_judged(chapter, profile, claim, reason):
    ledger = Ledger("toy", profile=profile)
    assert ledger.wants(claim) is False
    ledger.record(claim, 100.0)
    assert ledger.run.claims[claim] == Measured(Verdict.NOT_RUN, {"value": 100.0}, reason)


@pytest.mark.parametrize(
    ("claim", "value", "error", "message"),
    [
        ("C9", 1.0, KeyError, "no claim 'C9' in toy.claims.yml; there are: C1, C2, D1, P1"),
        ("C1", "0.001", TypeError, "C1: expected one number"),
        ("C1", np.ones(2), TypeError, r"of shape \(2,\)"),
        ("C1", 1j, TypeError, "expected one number"),
        ("C1", None, TypeError, "expected one number"),
        ("P1", 1.0, ValueError, "takes the values"),
        ("P1", {"a": 1, "c": 2}, ValueError, "takes the values"),
    ],
)
def test_record_refuses(chapter, claim, value, error, message):
    with pytest.raises(error, match=message):
        Ledger("toy", profile="cpu").record(claim, value)


def test_a_claim_is_recorded_once(chapter):
    ledger = Ledger("toy", profile="cpu")
    ledger.record("C1", 0.0)
    with pytest.raises(ValueError, match="C1 was recorded before"):
        ledger.record("C1", 0.0)


def test_numbers_of_any_library_are_numbers(chapter):
    ledger = Ledger("toy", profile="cpu")
    ledger.record("C1", torch.tensor(0.5))
    ledger.record("D1", True)
    ledger.record("P1", {"a": np.float32(1), "b": np.array(2)})
    assert ledger.run.claims["C1"].values == {"value": 0.5}
    assert ledger.run.claims["P1"].verdict is Verdict.REPRODUCED


def test_run_file_holds_everything_and_can_be_read_back(chapter):
    ledger = Ledger("toy", profile="cpu", seed=3, out="out/run.json")
    ledger.record("C1", math.nan)
    ledger.not_run("D1", "data absent: d")
    ledger.save("curve", np.linspace(0, 1, 3))
    ledger.save("nested", {"a": [1, (2.5, math.inf)], "name": "x"})
    ledger.hold("slice", 1.0, 1.04, rel=0.05)
    ledger.hold("far", 1.0, 1.2, abs=0.1)
    ledger.hold("lost", math.nan, 1.0, rel=0.5)
    run = read_run(chapter / "out" / "run.json")
    assert run.claims["C1"].verdict is Verdict.NOT_REPRODUCED
    assert math.isnan(run.claims["C1"].values["value"])
    assert run.claims["D1"] == Measured(Verdict.NOT_RUN, {}, "data absent: d")
    assert run.series == {"curve": [0.0, 0.5, 1.0], "nested": {"a": [1, [2.5, None]], "name": "x"}}
    assert (run.held["slice"].agrees, run.held["far"].agrees) == (True, False)
    assert math.isnan(run.held["lost"].live)
    assert not run.held["lost"].agrees
    assert (run.slug, run.profile, run.seed) == ("toy", "cpu", 3)
    with pytest.raises(ValueError, match="'curve' was saved before"):
        ledger.save("curve", 1)


def test_records_folder_serves_where_no_file_is_named(chapter, monkeypatch):
    monkeypatch.setenv("ICML25_RECORDS", str(chapter / "records"))
    Ledger("toy", profile="cpu").record("C1", 0.0)
    assert read_run(chapter / "records" / "toy.cpu.json").claims["C1"].verdict is Verdict.REPRODUCED


def test_recorded_series_come_from_the_results_file(chapter):
    ledger = Ledger("toy", profile="cpu")
    assert ledger.recorded("study") is None
    run = RunRecord("toy", "study", 0, series={"curve": [1, 2]})
    (chapter / "toy.results.json").write_text(json.dumps({"study": run.to_json()}))
    assert ledger.recorded("study") == {"curve": [1, 2]}
    assert ledger.recorded("gpu") is None
    assert read_recorded(chapter / "toy.results.json") == {"study": run}


def test_verdict_table_has_no_digits_and_can_leave_out_what_needs_data(chapter, shown):
    ledger = Ledger("toy", profile="cpu")
    ledger.record("C1", 0.123456)
    ledger.record("D1", 1)
    shown.clear()
    ledger.verdicts()
    ledger.verdicts(without_data=True)
    ledger.verdicts(with_data=True)
    assert [bundle["text/plain"] for bundle in shown] == [
        "C1    not reproduced\nD1    reproduced",
        "C1    not reproduced",
        "D1    reproduced",
    ]
    assert not any("0.12" in bundle["text/html"] for bundle in shown)


def test_a_notebook_s_outputs_give_the_records_back(chapter, shown, tmp_path):
    ledger = Ledger("toy", profile="cpu", seed=1)
    ledger.record("P1", {"a": 1, "b": math.inf})
    ledger.not_run("D1", "data absent: d")
    ledger.verdicts()
    cells = [{"outputs": [{"output_type": "display_data", "data": bundle}]} for bundle in shown]
    notebook = tmp_path / "toy.ipynb"
    notebook.write_text(json.dumps({"cells": [{"cell_type": "markdown"}, *cells]}))
    assert shown[0][CLAIM_MIME]["seed"] == 1
    assert read_notebook(notebook) == ledger.run.claims


def test_shown_text_is_escaped(chapter, shown):
    Ledger("toy", profile="cpu").not_run("C1", "<script>alert(1)</script>")
    assert "<script>" not in shown[0]["text/html"]


def test_missing_claims_file_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book").mkdir()
    (tmp_path / "_toc.yml").write_text("root: intro\n")
    with pytest.raises(FileNotFoundError, match=r"no toy\.claims\.yml"):
        Ledger("toy", profile="cpu")


def test_unknown_profile_is_said(chapter):
    with pytest.raises(ValueError, match="profile must be one of smoke, cpu, study, gpu, got 'fast'"):
        Ledger("toy", profile="fast")
