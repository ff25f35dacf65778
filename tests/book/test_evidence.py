import json

import pytest

from icml25.book.chapters import Chapter
from icml25.book.claims import ClaimsError, Verdict
from icml25.book.evidence import gather, overall, paper_of, title_of
from icml25.book.records import CLAIM_MIME

CLAIMS = """
- {id: C1, kind: theory, statement: s, source: t, quantity: q, pass: {at_most: 1}, must_fail: 2, profiles: [cpu, study]}
- {id: R1, kind: out-of-reach, statement: s, source: t, needs: a cluster, profiles: []}
"""


def recorded(claim="C1", value=0.5, verdict="reproduced", part="value"):
    return {"slug": "toy", "id": claim, "profile": "cpu", "verdict": verdict, "values": {part: value}, "reason": ""}


@pytest.fixture
def chapter(tmp_path):
    chapter = Chapter(tmp_path, "theory", "toy")
    chapter.folder.mkdir(parents=True)
    chapter.claims.write_text(CLAIMS)
    chapter.source.write_text("---\nx: 1\n---\n\n# A toy\n\n:::{card} Paper\nDoe, *The toy\npaper*, **New.**\n:::\n")
    return chapter


def write_notebook(chapter, *bundles):
    outputs = [{"output_type": "display_data", "metadata": {}, "data": {CLAIM_MIME: bundle}} for bundle in bundles]
    chapter.notebook.write_text(json.dumps({"cells": [{"cell_type": "code", "outputs": outputs}]}))


def write_results(chapter, profile, **claims):
    run = {"slug": "toy", "profile": profile, "seed": 0, "claims": claims}
    chapter.results.write_text(json.dumps({profile: run}))


def test_what_no_run_recorded_is_not_run(chapter):
    evidence = gather(chapter)
    assert [finding.verdict for finding in evidence.findings] == [Verdict.NOT_RUN, Verdict.NOT_RUN]
    assert evidence.count(Verdict.NOT_RUN) == 1
    assert evidence.out_of_reach == 1
    assert not evidence.in_notebook


def test_each_profile_has_its_own_outcome_and_one_failure_decides(chapter):
    write_notebook(chapter, recorded())
    write_results(chapter, "study", C1={"verdict": "not reproduced", "values": {"value": 3.0}})
    finding = gather(chapter).findings[0]
    assert {profile: str(outcome.verdict) for profile, outcome in finding.outcomes.items()} == {
        "cpu": "reproduced",
        "study": "not reproduced",
    }
    assert finding.verdict == Verdict.NOT_REPRODUCED


def test_a_run_at_a_profile_that_the_claim_does_not_list_is_no_evidence(chapter):
    write_results(chapter, "gpu", C1={"verdict": "reproduced", "values": {"value": 0.5}})
    assert gather(chapter).findings[0].verdict == Verdict.NOT_RUN


@pytest.mark.parametrize(
    ("stored", "value", "expected"), [("reproduced", 1.5, "not reproduced"), ("not reproduced", 0.5, "reproduced")]
)
def test_a_verdict_is_taken_again_from_the_number(chapter, stored, value, expected):
    write_notebook(chapter, recorded(value=value, verdict=stored))
    assert gather(chapter).findings[0].outcomes["cpu"].verdict == expected


def test_not_run_stays_not_run_whatever_number_stands_beside_it(chapter):
    write_notebook(chapter, recorded(verdict="not run"))
    assert gather(chapter).findings[0].verdict == Verdict.NOT_RUN


@pytest.mark.parametrize(("bundle", "word"), [(recorded(claim="C9"), "C9"), (recorded(part="slope"), "slope")])
def test_a_run_of_another_claims_file_is_an_error(chapter, bundle, word):
    write_notebook(chapter, bundle)
    with pytest.raises(ClaimsError, match=word):
        gather(chapter)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], "not run"),
        (["not run", "reproduced"], "reproduced"),
        (["reproduced", "not reproduced", "not run"], "not reproduced"),
    ],
)
def test_overall(verdicts, expected):
    assert overall(map(Verdict, verdicts)) == expected


def test_title_and_paper_come_from_the_page(chapter):
    assert title_of(chapter) == "A toy"
    assert paper_of(chapter) == "The toy paper"


def test_a_page_without_title_or_card(chapter):
    chapter.source.write_text("no heading, and *emphasis* outside a card")
    assert title_of(chapter) == "toy"
    assert paper_of(chapter) == ""
