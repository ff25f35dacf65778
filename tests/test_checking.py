"""`icml25 claims --check`: a claim that is missing, wrong or worse is a problem in each way it can be, and else not."""

import json

import pytest

from icml25 import checking
from icml25.book.claims import ClaimsError, Verdict
from icml25.book.files import write_json
from icml25.book.records import CLAIM_MIME, Held, Measured, RunRecord
from icml25.runner import record_results

OK, BAD, NONE = Verdict.REPRODUCED, Verdict.NOT_REPRODUCED, Verdict.NOT_RUN


def notebook(chapter, value=0.9, verdict=OK, reason=""):
    """What a sync would leave of the claim C1."""
    measured = Measured(verdict, {"value": value} if value is not None else {}, reason)
    bundle = {"slug": chapter.slug, "id": "C1", "profile": "cpu", "seed": 0} | measured.to_json()
    output = {"output_type": "display_data", "data": {CLAIM_MIME: bundle}}
    chapter.notebook.write_text(json.dumps({"cells": [{"cell_type": "code", "outputs": [output]}]}))


def run_record(chapter, profile="study", value=0.8, verdict=OK, reason=""):
    measured = Measured(verdict, {"value": value} if value is not None else {}, reason)
    return RunRecord(chapter.slug, profile, 0, {"C1": measured})


@pytest.fixture
def chapter(book):
    """A chapter with everything recorded and in the baselines."""
    chapter = book.add("good")
    notebook(chapter)
    record_results(chapter, run_record(chapter))
    checking.update_baselines([chapter])
    assert checking.check([chapter]).problems == []
    return chapter


def problems(chapter, records=None):
    return checking.check([chapter], records).problems


def test_baselines_hold_each_profile(chapter):
    written = json.loads(checking.baseline_path(chapter.root, "study").read_text())
    assert written == {"good": {"C1": {"verdict": "reproduced", "values": {"value": {"value": 0.8, "tol": 0.15}}}}}
    assert not checking.baseline_path(chapter.root, "gpu").exists()
    assert checking.check([chapter]).summary == "1 at cpu, 1 at study"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda c: c.notebook.unlink(), "good (cpu): it has no executed notebook; icml25 sync good"),
        (lambda c: c.notebook.write_text('{"cells": []}'), "good (cpu): C1 is not recorded"),
        (lambda c: notebook(c, 0.3), "its values say not reproduced; run it again: icml25 sync --all good"),
        (
            lambda c: record_results(c, run_record(c, value=0.3, verdict=OK)),
            "run good --profile study --record --fresh",
        ),
        (lambda c: notebook(c, 0.3, BAD), "C1 was reproduced and is not reproduced"),
        (lambda c: notebook(c, 0.6), "C1 moved from 0.9 to 0.6"),
        (lambda c: notebook(c, None, NONE, "too slow"), "C1 was reproduced and is not run (too slow)"),
        (lambda c: c.results.unlink(), "icml25 run good --profile study --record"),
        (lambda c: record_results(c, run_record(c, value=0.6)), "good (study): C1 moved from 0.8 to 0.6"),
        (
            lambda c: checking.baseline_path(c.root, "cpu").unlink(),
            "C1 is new (reproduced): record it with --update-baselines",
        ),
    ],
)
def test_what_is_missing_wrong_or_worse_is_a_problem(chapter, spoil, message):
    spoil(chapter)
    (problem,) = problems(chapter)
    assert message in problem


def test_values_may_move_within_their_tolerance(chapter):
    notebook(chapter, 0.75)
    record_results(chapter, run_record(chapter, value=5.0))
    assert problems(chapter) == []


def test_a_malformed_claims_file_is_named(chapter):
    chapter.claims.write_text(chapter.claims.read_text().replace("must_fail: 0.1", "must_fail: 0.6"))
    with pytest.raises(ClaimsError, match=r"good\.claims\.yml: claim C1: .*accepts the must_fail"):
        checking.check([chapter])


def test_a_baseline_of_a_chapter_that_is_gone_is_a_problem_unless_chapters_were_named(book, chapter):
    other = book.add("other")
    notebook(other)
    record_results(other, run_record(other))
    checking.update_baselines(book.chapters)
    assert checking.check(book.chapters).problems == []
    assert [text for text in checking.check([other]).problems if "good (cpu)" in text]
    assert checking.check([other], strict=False).problems == []


def test_a_first_gpu_run_is_waited_for_and_then_held(chapter):
    chapter.claims.write_text(chapter.claims.read_text().replace("[cpu, study]", "[cpu, study, gpu]"))
    report = checking.check([chapter])
    assert report.problems == []
    assert "good (gpu): 1 claims wait" in report.notes[0]
    record_results(chapter, run_record(chapter, "gpu"))
    assert "C1 is new" in problems(chapter)[0]
    checking.update_baselines([chapter])
    assert problems(chapter) == []
    chapter.results.unlink()
    record_results(chapter, run_record(chapter))
    assert "icml25 run good --profile gpu --record" in problems(chapter)[0]


def live(chapter, folder, **options):
    record = run_record(chapter, options.pop("profile", "cpu"), **{"value": 0.9} | options)
    write_json(folder / f"{record.slug}.{record.profile}.json", record.to_json())
    return record


def test_a_live_run_is_held_to_the_baseline(chapter, tmp_path):
    folder = tmp_path / "records"
    assert "no record of a run" in problems(chapter, folder)[0]
    live(chapter, folder, value=0.8)
    assert problems(chapter, folder) == []
    live(chapter, folder, value=0.6)
    assert "good (cpu, this run): C1 moved" in problems(chapter, folder)[0]
    record = live(chapter, folder)
    record.held["slice"] = Held(1.0, 2.0, False)
    write_json(folder / "good.cpu.json", record.to_json())
    assert "slice is 1 in this run and 2 in the recorded one" in problems(chapter, folder)[0]


def test_a_live_run_must_have_every_chapter(book, chapter, tmp_path):
    live(chapter, tmp_path)
    other = book.add("other")
    notebook(other)
    record_results(other, run_record(other))
    checking.update_baselines(book.chapters)
    assert checking.check(book.chapters, tmp_path).problems == ["other (cpu, this run): there is no other.cpu.json"]
    (tmp_path / "good.cpu.json").rename(tmp_path / "other.cpu.json")
    assert "other.cpu.json is of good" in checking.check([other], tmp_path, strict=False).problems[0]


def test_a_live_run_at_another_profile_is_held_to_that_baseline(chapter, tmp_path):
    live(chapter, tmp_path, profile="study", value=0.6)
    assert "good (study, this run): C1 moved from 0.8 to 0.6" in problems(chapter, tmp_path)[0]


@pytest.mark.parametrize(("folder", "count"), [("", 0), ("some/data", 1)])
def test_absent_data_is_excused_in_a_live_run_unless_data_was_promised(chapter, tmp_path, monkeypatch, folder, count):
    monkeypatch.setenv("ICML25_DATA", folder)
    chapter.claims.write_text(chapter.claims.read_text() + "  data: counts\n")
    live(chapter, tmp_path, value=None, verdict=NONE, reason="data absent: counts")
    assert len(problems(chapter, tmp_path)) == count


def test_absent_data_is_never_excused_in_the_committed_notebook(chapter, monkeypatch):
    monkeypatch.delenv("ICML25_DATA", raising=False)
    chapter.claims.write_text(chapter.claims.read_text() + "  data: counts\n")
    notebook(chapter, None, NONE, "data absent: counts")
    assert "data absent" in problems(chapter)[0]


def test_baselines_are_not_taken_from_what_is_wrong(chapter):
    before = checking.baseline_path(chapter.root, "cpu").read_text()
    notebook(chapter, 0.3)
    with pytest.raises(ClaimsError, match="record it first"):
        checking.update_baselines([chapter])
    assert checking.baseline_path(chapter.root, "cpu").read_text() == before


def test_a_regression_can_be_recorded_on_purpose(chapter):
    notebook(chapter, 0.3, BAD)
    checking.update_baselines([chapter])
    assert problems(chapter) == []


def test_named_chapters_leave_the_other_baselines_alone(book, chapter):
    other = book.add("other")
    notebook(other)
    record_results(other, run_record(other))
    checking.update_baselines([other], replace=False)
    assert checking.check(book.chapters).problems == []
    checking.update_baselines([other])
    assert any(text.startswith("good (cpu): C1 is new") for text in checking.check(book.chapters).problems)
