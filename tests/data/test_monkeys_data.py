"""Where the counts come from: the three places, the Hub's layout recorded on disk, and the simulated stand-in."""

import builtins
import importlib

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

from icml25.data import monkeys
from icml25.data.monkeys import (
    DATASET,
    FITTED_LAWS,
    counts_from_matrices,
    counts_of,
    fetch,
    find_counts,
    load_counts,
    load_or_simulate,
    models,
    simulated_counts,
)

HEADER = "benchmark,model,problem,n,c\n"
ROWS = HEADER + "MATH,Pythia 70M,0,10,3\nMATH,Pythia 12B,0,10,9\nHarmBench-text,GPT4o,0,60,1\n"


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No counts in any of the places that are looked at by default."""
    monkeypatch.delenv("ICML25_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def put(folder, text=ROWS):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "monkeys_counts.csv").write_text(text, encoding="utf-8")
    return folder / "monkeys_counts.csv"


def test_looks_at_the_path_then_the_folder_then_the_cache(nowhere, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"path=.*ICML25_DATA.*icml25 data get monkeys"):
        load_counts()
    cached = put(nowhere / "cache" / "icml25")
    assert find_counts() == cached
    monkeypatch.setenv("ICML25_DATA", str(nowhere / "data"))
    assert find_counts() == cached, "a folder without the file does not hide the cache"
    in_folder = put(nowhere / "data")
    assert find_counts() == in_folder
    explicit = put(nowhere / "mine")
    assert find_counts(explicit) == explicit
    with pytest.raises(FileNotFoundError, match=r"absent\.csv"):
        find_counts(nowhere / "absent.csv")


def test_reads_successes_as_x_and_filters(nowhere):
    file = put(nowhere)
    counts = load_counts(file)
    assert counts["x"].tolist() == [3, 9, 1]
    assert counts["n"].dtype == np.int64
    assert load_counts(file, benchmark="MATH")["model"].tolist() == ["Pythia 70M", "Pythia 12B"]
    assert load_counts(file, model="GPT4o")["n"].tolist() == [60]
    assert models(counts, "MATH") == ["Pythia 70M", "Pythia 12B"]
    assert [column.tolist() for column in counts_of(counts, "GPT4o")] == [[60], [1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "must have the columns"),
        ("", "must have the columns"),
        (HEADER + "MATH,m,0,10,11\n", "row 1 does not satisfy"),
        (HEADER + "MATH,m,0,10,-1\n", "row 1 does not satisfy"),
        (HEADER + "MATH,m,0,10,x\n", "must be integers"),
        (HEADER + "MATH,m,0,10\n", "row 1 must have 5 cells, got 4"),
        (HEADER + "MATH,m,0,10,3,9\n", "row 1 must have 5 cells, got 6"),
        (HEADER + "MATH,m,0,10.0,3\n", "must be integers"),
        (HEADER + "MATH,m,0,99999999999999999999,3\n", "must be integers"),
        (HEADER + ",,0,10,3\n", "row 1 names no benchmark or no model"),
        (HEADER + "MATH,m,0,10,3\nMATH,m,0,10,4\n", "row 2 repeats problem 0 of m"),
        (HEADER + "MATH," + "m" * 200_000 + ",0,10,3\n", "comma-separated file in UTF-8"),
        (HEADER.replace(",", ";"), "must have the columns"),
        (HEADER, "no row with"),
    ],
)
def test_refuses_a_file(nowhere, text, message):
    with pytest.raises(ValueError, match=message):
        load_counts(put(nowhere, text))


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_refuses_another_encoding(nowhere, encoding):
    file = nowhere / "monkeys_counts.csv"
    file.write_bytes((HEADER + "MATH,modèle,0,10,3\n").encode(encoding))
    with pytest.raises(ValueError, match=r"monkeys_counts\.csv must be a comma-separated file in UTF-8"):
        load_counts(file)


def test_reads_what_a_spreadsheet_saves(nowhere):
    file = nowhere / "monkeys_counts.csv"
    file.write_bytes(b"\xef\xbb\xbf" + ROWS.replace("\n", "\r\n").encode() + b"\r\n")
    assert load_counts(file)["x"].tolist() == [3, 9, 1]


def test_refuses_a_model_that_is_not_there(nowhere):
    file = put(nowhere)
    with pytest.raises(ValueError, match="no row with benchmark=None, model='Pythia'"):
        load_counts(file, model="Pythia")
    with pytest.raises(ValueError, match="no counts of model"):
        counts_of(load_counts(file), "Pythia")


def test_simulated_counts_have_the_layout_of_the_real_ones():
    counts = simulated_counts(0)
    assert set(counts) == {"benchmark", "model", "problem", "n", "x"}
    assert len(counts["n"]) == 7 * 128 + 7 * 159
    assert models(counts, "MATH") == [model for bench, model in FITTED_LAWS if bench == "MATH"]
    math_rows = counts["benchmark"] == "MATH"
    assert (counts["n"][math_rows] == 10_000).all()
    stopped = counts["n"][~math_rows]
    assert (stopped % 60 == 0).all()
    assert stopped.max() == 10_020
    assert ((counts["x"] >= 0) & (counts["x"] <= counts["n"])).all()
    again, other = simulated_counts(0), simulated_counts(1)
    assert np.array_equal(counts["x"], again["x"])
    assert not np.array_equal(counts["x"], other["x"])


def test_simulated_counts_stand_in_for_the_half_that_is_missing_and_say_so(nowhere):
    counts, real = load_or_simulate(0)
    assert real == {"MATH": False, "HarmBench-text": False}
    assert np.array_equal(counts["x"], simulated_counts(0)["x"])
    put(nowhere / "cache" / "icml25", HEADER + "MATH,Pythia 70M,0,10,3\n")
    counts, real = load_or_simulate(0)
    assert real == {"MATH": True, "HarmBench-text": False}
    assert counts["x"][counts["benchmark"] == "MATH"].tolist() == [3]
    assert (counts["benchmark"] == "HarmBench-text").sum() == 7 * 159


def test_outcome_matrices_become_counts():
    counts = counts_from_matrices({"MATH_Pythia-70M": [[True, False, True], [False, False, False]]})
    assert counts["benchmark"].tolist() == ["MATH", "MATH"]
    assert counts["model"].tolist() == ["Pythia 70M", "Pythia 70M"]
    assert (counts["n"].tolist(), counts["x"].tolist()) == ([3, 3], [2, 0])
    with pytest.raises(ValueError, match="at least one configuration"):
        counts_from_matrices({})
    with pytest.raises(ValueError, match="BENCHMARK_MODEL"):
        counts_from_matrices({"MATH": [[True]]})


def record_repository(root, problems=128, attempts=10_000, column="is_corrects"):
    """The Hub's Parquet branch: {config}/{split}/NNNN.parquet, in two shards, beside a column that is not read."""
    rng = np.random.default_rng(0)
    outcomes = {}
    for size in ("70M", "160M", "410M", "1B", "2.8B", "6.9B", "12B"):
        config = f"MATH_Pythia-{size}"
        # Few distinct rows: the point is the layout, and 9 million random draws would cost seconds.
        matrix = np.repeat(rng.random((problems, attempts // 100 + 1)) < 0.2, 100, axis=1)[:, :attempts]
        outcomes[config] = matrix
        (root / config / "test").mkdir(parents=True)
        for shard, rows in enumerate(np.array_split(matrix, 2)):
            table = pyarrow.table({"question": ["q"] * len(rows), column: list(rows)})
            pyarrow.parquet.write_table(table, root / config / "test" / f"{shard:04d}.parquet")
    return outcomes


def local(root):
    return DirFileSystem(path=str(root), fs=LocalFileSystem())


def test_fetch_reads_the_recorded_layout_and_keeps_the_jailbreak_half(tmp_path, capsys):
    outcomes = record_repository(tmp_path / "hub")
    put(tmp_path / "cache")
    file = fetch(tmp_path / "cache", progress=True, filesystem=local(tmp_path / "hub"))
    assert file == tmp_path / "cache" / "monkeys_counts.csv"
    assert "monkey_business" in capsys.readouterr().err
    counts = load_counts(file)
    assert len(counts["n"]) == 7 * 128 + 1
    _, x = counts_of(counts, "Pythia 2.8B")
    assert np.array_equal(x, outcomes["MATH_Pythia-2.8B"].sum(axis=1))
    assert counts_of(counts, "GPT4o")[0].tolist() == [60]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["monkeys_counts.csv"], "no partial file is left"


def test_fetch_refuses_what_is_not_the_data_set(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no Parquet files for the configuration MATH_Pythia-70M"):
        fetch(tmp_path / "cache", filesystem=local(tmp_path / "empty"))
    record_repository(tmp_path / "short", problems=4, attempts=100)
    with pytest.raises(ValueError, match="must hold 128 problems"):
        fetch(tmp_path / "cache", filesystem=local(tmp_path / "short"))
    record_repository(tmp_path / "other", problems=4, attempts=100, column="scores")
    with pytest.raises(ValueError, match="no Parquet table with a column is_corrects"):
        fetch(tmp_path / "cache", filesystem=local(tmp_path / "other"))
    assert not (tmp_path / "cache").exists()


def test_fetch_without_the_network_says_so(tmp_path):
    class Unplugged:
        def glob(self, pattern):
            raise RuntimeError("name resolution failed")

    with pytest.raises(ConnectionError, match=r"could not read ScalingIntelligence.*Check the network"):
        fetch(tmp_path, filesystem=Unplugged())


@pytest.mark.parametrize("missing", ["pyarrow", "huggingface_hub"])
def test_fetch_without_the_extra_names_it(tmp_path, monkeypatch, missing):
    real = importlib.import_module

    def without(name, package=None):
        if name.partition(".")[0] == missing:
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(ImportError, match=rf"needs {missing}: pip install 'icml25\[hub\]'"):
        fetch(tmp_path)


def test_importing_the_loader_needs_no_extra(monkeypatch):
    real = builtins.__import__

    def guarded(name, *args, **kwargs):
        assert name.partition(".")[0] not in ("pyarrow", "huggingface_hub", "fsspec", "tqdm"), name
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", guarded)
    importlib.reload(monkeys)


def test_the_description_names_what_a_person_has_to_know():
    assert DATASET.name == "monkeys"
    assert DATASET.licence == "not settled"
    assert "by hand" in DATASET.description
