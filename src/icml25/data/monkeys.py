"""Counts of successes in repeated sampling: 7 Pythia models on 128 MATH problems, 7 models on 159 HarmBench prompts.

Only integer counts: attempts and successes per problem, no prompts and no outputs, derived from the public releases of
Brown et al. (2024), *Large Language Monkeys*, and Hughes et al. (2024), *Best-of-N Jailbreaking*. The licence of the
counts is not settled, so they are not part of this package; see :func:`load_counts` for where they are looked for.

The label "Claude 3.5 Opus" is the source's own name for the model claude-3-opus-20240229; it is kept.
"""

from __future__ import annotations

import csv
import importlib
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml25.theory.monkeys import ScaledKumaraswamy, counts_from_outcomes, simulate_counts, simulate_stopped

__all__ = [
    "DATASET",
    "FITTED_LAWS",
    "JAILBREAK",
    "MATH",
    "DatasetInfo",
    "counts_from_matrices",
    "counts_of",
    "fetch",
    "find_counts",
    "load_counts",
    "load_or_simulate",
    "models",
    "simulated_counts",
]

Counts = dict[str, NDArray[Any]]
Seed = int | np.random.Generator

MATH = "MATH"
JAILBREAK = "HarmBench-text"
FILE_NAME = "monkeys_counts.csv"
REPOSITORY = "ScalingIntelligence/monkey_business"
# The Hub converts every data set to Parquet on this branch, as {config}/{split}/NNNN.parquet.
PARQUET_REVISION = "refs/convert/parquet"
_COLUMNS = ("benchmark", "model", "problem", "n", "c")
_PYTHIA = ("70M", "160M", "410M", "1B", "2.8B", "6.9B", "12B")


@dataclass(frozen=True)
class DatasetInfo:
    """What a person should know before fetching a data set."""

    name: str
    description: str
    source: str
    size: str
    licence: str
    files: Mapping[str, str]
    checksum: str


DATASET = DatasetInfo(
    name="monkeys",
    description="Attempts and successes of 7 Pythia models on 128 MATH problems, 10,000 attempts each (896 rows). The "
    "jailbreak half (7 models, 159 HarmBench prompts) is not on the Hub: convert the release of Hughes et al. "
    "(jplhughes/bon-jailbreaking) by hand to rows of the same file.",
    source=f"https://huggingface.co/datasets/{REPOSITORY}, configurations MATH_Pythia-*, column is_corrects",
    size="one Parquet column, about 10 MB read; the file written is about 30 kB",
    licence="not settled",
    files={FILE_NAME: "columns benchmark, model, problem, n, c (c: successes)"},
    checksum="none: the source carries no fixed release; shape and ranges are checked instead",
)

# (alpha, beta, scale) of the Kumaraswamy-binomial fits to the real counts, in the order in which the book shows them.
FITTED_LAWS: Mapping[tuple[str, str], tuple[float, float, float]] = {
    (MATH, "Pythia 70M"): (0.1056, 1.9133, 0.03487),
    (MATH, "Pythia 160M"): (0.1816, 1.4524, 0.03679),
    (MATH, "Pythia 410M"): (0.1965, 1.6110, 0.09544),
    (MATH, "Pythia 1B"): (0.2452, 1.9667, 0.13696),
    (MATH, "Pythia 2.8B"): (0.2800, 2.1207, 0.31776),
    (MATH, "Pythia 6.9B"): (0.2896, 1.9589, 0.24470),
    (MATH, "Pythia 12B"): (0.2979, 1.7117, 0.23462),
    (JAILBREAK, "Claude 3.5 Opus"): (0.3637, 1.7559, 0.51992),
    (JAILBREAK, "Claude 3.5 Sonnet"): (0.2504, 2.5582, 0.73795),
    (JAILBREAK, "GPT4o"): (0.2614, 1.6641, 0.50314),
    (JAILBREAK, "GPT4o Mini"): (0.3615, 1.9722, 0.58700),
    (JAILBREAK, "Gemini 1.5 Flash"): (0.2869, 3.4865, 0.10063),
    (JAILBREAK, "Gemini 1.5 Pro"): (0.2334, 3.3265, 0.08386),
    (JAILBREAK, "Llama 3 8B IT"): (0.7142, 3.1592, 0.26834),
}


def find_counts(path: str | os.PathLike[str] | None = None) -> Path:
    """Locate the counts file.

    Parameters
    ----------
    path : path, optional
        The file itself; if given, nothing else is tried.

    Returns
    -------
    Path
        ``path``; else ``monkeys_counts.csv`` in the folder named by ``ICML25_DATA``; else in the user's cache,
        ``$XDG_CACHE_HOME/icml25`` or ``~/.cache/icml25``.

    Raises
    ------
    FileNotFoundError
        Naming all three places.
    """
    if path is not None:
        tried = [Path(path)]
    else:
        folder = os.environ.get("ICML25_DATA")
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "icml25"
        tried = ([Path(folder) / FILE_NAME] if folder else []) + [cache / FILE_NAME]
    for candidate in tried:
        if candidate.is_file():
            return candidate
    raise FileNotFoundError(
        f"no counts at {', '.join(map(str, tried))}. Give load_counts(path=...), or set ICML25_DATA to a folder with "
        f"{FILE_NAME}, or fill the cache ($XDG_CACHE_HOME/icml25, by default ~/.cache/icml25) with "
        "'icml25 data get monkeys' (needs the extra 'hub' and the network; MATH half only)"
    )


def load_counts(
    path: str | os.PathLike[str] | None = None, benchmark: str | None = None, model: str | None = None
) -> Counts:
    """Read the real counts, optionally of one benchmark or model.

    Parameters
    ----------
    path : path, optional
        See :func:`find_counts`.
    benchmark, model : str, optional
        Keep only these rows, for instance ``"MATH"`` and ``"Pythia 12B"``.

    Returns
    -------
    dict
        ``benchmark, model`` (R,) str; ``problem, n, x`` (R,) int64.

    Raises
    ------
    FileNotFoundError
        If the counts are in none of the three places.
    ValueError
        If the file is no CSV in UTF-8 with the expected columns, holds anything but integers ``0 <= c <= n`` or the
        same problem of a model twice, or no row is left.
    """
    file = find_counts(path)
    try:
        # Spreadsheets put a byte-order mark before the first name; it is no part of it.
        with file.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream)
            header = next(reader, [])
            rows = [row for row in reader if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{file.name} must be a comma-separated file in UTF-8: {error}") from error
    if tuple(header) != _COLUMNS:
        raise ValueError(f"{file.name} must have the columns {','.join(_COLUMNS)}, got {','.join(header)}")
    if (ragged := next((i for i, row in enumerate(rows, 1) if len(row) != len(_COLUMNS)), None)) is not None:
        raise ValueError(f"{file.name}: row {ragged} must have {len(_COLUMNS)} cells, got {len(rows[ragged - 1])}")
    try:
        numbers = np.array([row[2:] for row in rows], dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{file.name}: problem, n and c must be integers ({error})") from error
    counts: Counts = {
        "benchmark": np.array([row[0] for row in rows], dtype=np.str_),
        "model": np.array([row[1] for row in rows], dtype=np.str_),
    } | dict(zip(("problem", "n", "x"), numbers.reshape(-1, 3).T, strict=True))
    if (bad := np.flatnonzero((counts["benchmark"] == "") | (counts["model"] == ""))).size:
        raise ValueError(f"{file.name}: row {bad[0] + 1} names no benchmark or no model")
    _refuse_duplicates(file.name, counts)
    if (bad := np.flatnonzero((counts["x"] < 0) | (counts["x"] > counts["n"]) | (counts["n"] < 1))).size:
        raise ValueError(f"{file.name}: row {bad[0] + 1} does not satisfy 0 <= c <= n, n >= 1")
    keep = np.ones(len(rows), dtype=bool)
    for name, wanted in (("benchmark", benchmark), ("model", model)):
        if wanted is not None:
            keep &= counts[name] == wanted
    if not keep.any():
        raise ValueError(f"{file.name} has no row with benchmark={benchmark!r}, model={model!r}")
    return {name: column[keep] for name, column in counts.items()}


def _refuse_duplicates(name: str, counts: Counts) -> None:
    """A problem that is listed twice would silently weigh double."""
    keys = [np.unique(counts[column], return_inverse=True)[1] for column in ("benchmark", "model", "problem")]
    _, first = np.unique(np.stack(keys, axis=1), axis=0, return_index=True)
    if first.size < len(counts["n"]):
        row = int(np.setdiff1d(np.arange(len(counts["n"])), first)[0])
        raise ValueError(
            f"{name}: row {row + 1} repeats problem {counts['problem'][row]} of {counts['model'][row]} "
            f"({counts['benchmark'][row]})"
        )


def models(counts: Counts, benchmark: str) -> list[str]:
    """Models of a benchmark, in the book's order (unknown ones last, by name)."""
    present = set(counts["model"][counts["benchmark"] == benchmark].tolist())
    known = [model for bench, model in FITTED_LAWS if bench == benchmark and model in present]
    return known + sorted(present - set(known))


def counts_of(counts: Counts, model: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Attempts and successes of one model."""
    rows = counts["model"] == model
    if not rows.any():
        raise ValueError(f"no counts of model {model!r}")
    return counts["n"][rows], counts["x"][rows]


def simulated_counts(seed: Seed) -> Counts:
    """Counts with the layout of :func:`load_counts`, simulated from the laws fitted to the real ones.

    MATH: 128 problems, 10,000 attempts. HarmBench: 159 prompts under the stopping rule of the original study, batches
    of 60 until one holds a success, at most 10,020. **Not data**: whatever is shown on them has to say so.
    """
    rng = np.random.default_rng(seed)
    parts: list[Counts] = []
    for (benchmark, model), shapes in FITTED_LAWS.items():
        law = ScaledKumaraswamy(*shapes)
        if benchmark == MATH:
            n, x = simulate_counts(law, 128, 10_000, rng)
        else:
            n, x = simulate_stopped(law, 159, 60, 10_020, rng)
        parts.append(_table(benchmark, model, n, x))
    return _concatenate(parts)


def load_or_simulate(seed: Seed) -> tuple[Counts, dict[str, bool]]:
    """Real counts where they are found, simulated ones in the place of a benchmark that is not there.

    Returns
    -------
    counts : dict
        As :func:`load_counts`, with both benchmarks.
    real : dict
        For each benchmark, whether its counts are real.
    """
    simulated = simulated_counts(seed)
    try:
        found = load_counts()
    except FileNotFoundError:
        return simulated, {MATH: False, JAILBREAK: False}
    real = {benchmark: bool((found["benchmark"] == benchmark).any()) for benchmark in (MATH, JAILBREAK)}
    missing = np.isin(simulated["benchmark"], [benchmark for benchmark, present in real.items() if not present])
    return _concatenate([found, {name: column[missing] for name, column in simulated.items()}]), real


def counts_from_matrices(outcomes: Mapping[str, ArrayLike]) -> Counts:
    """Turn ``is_corrects`` matrices into counts.

    Parameters
    ----------
    outcomes : mapping from configuration names to (problems, attempts) booleans
        Names as on the Hub, ``"MATH_Pythia-70M"`` and so on; the part after the first underscore becomes the model.

    Returns
    -------
    dict
        As :func:`load_counts`.

    Raises
    ------
    ValueError
        On no matrix at all, a name without an underscore, or a matrix that does not hold outcomes.
    """
    if not outcomes:
        raise ValueError("outcomes must hold at least one configuration")
    parts = []
    for config, matrix in outcomes.items():
        benchmark, separator, model = config.partition("_")
        if not separator:
            raise ValueError(f"a configuration is named BENCHMARK_MODEL, got {config!r}")
        n, x = counts_from_outcomes(matrix)
        parts.append(_table(benchmark, model.replace("-", " "), n, x))
    return _concatenate(parts)


def fetch(cache_dir: str | os.PathLike[str], progress: bool = False, *, filesystem: Any = None) -> Path:
    """Read the MATH half from the Hugging Face Hub and write ``monkeys_counts.csv`` into ``cache_dir``.

    Only the column ``is_corrects`` is read, not the gigabytes of samples beside it. Rows of other benchmarks that the
    file already holds (the jailbreak half, converted by hand) are kept.

    Parameters
    ----------
    cache_dir : path
    progress : bool
        Show a bar over the configurations.
    filesystem : fsspec file system, optional
        Where to read the repository from; by default the Hub. Paths are ``{config}/{split}/NNNN.parquet``.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    ImportError
        If the extra ``hub`` is not installed.
    ConnectionError
        If the Hub cannot be reached.
    ValueError
        If what is there is not 128 problems with 10,000 outcomes each.
    """
    parquet = _require("pyarrow.parquet")
    source = filesystem if filesystem is not None else _hub()
    configs: Iterable[str] = [f"MATH_Pythia-{size}" for size in _PYTHIA]
    if progress:
        from tqdm import tqdm

        configs = tqdm(configs, desc="monkey_business")
    matrices = {config: _read_outcomes(source, parquet, config) for config in configs}
    counts = counts_from_matrices(matrices)
    target = Path(cache_dir) / FILE_NAME
    if target.is_file():
        old = load_counts(target)
        others = {name: column[old["benchmark"] != MATH] for name, column in old.items()}
        counts = _concatenate([counts, others])
    _write(target, counts)
    return target


def _require(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"fetching the counts needs {module.partition('.')[0]}: pip install 'icml25[hub]'") from error


def _hub() -> Any:
    """The data set's Parquet branch as a file system."""
    hub = _require("huggingface_hub")
    dirfs = _require("fsspec.implementations.dirfs")
    # The branch name holds slashes, which a path on the Hub has to quote.
    root = f"datasets/{REPOSITORY}@{PARQUET_REVISION.replace('/', '%2F')}"
    return dirfs.DirFileSystem(path=root, fs=hub.HfFileSystem())


def _read_outcomes(source: Any, parquet: Any, config: str) -> NDArray[np.bool_]:
    try:
        files = sorted(source.glob(f"{config}/*/*.parquet"))
        tables = []
        for file in files:
            with source.open(file, "rb") as stream:
                tables.append(parquet.read_table(stream, columns=["is_corrects"]))
    except ValueError as error:  # pyarrow's error for a wrong format or a missing column
        raise ValueError(f"{config} is no Parquet table with a column is_corrects: {error}") from error
    except Exception as error:  # the Hub client's errors share no base class across its versions
        raise ConnectionError(
            f"could not read {REPOSITORY} ({config}) from the Hugging Face Hub: {error}. Check the network, or give "
            "load_counts a file of your own"
        ) from error
    if not files:
        raise ValueError(f"{REPOSITORY} has no Parquet files for the configuration {config}")
    columns = [row for table in tables for row in table["is_corrects"].to_pylist()]
    if len(columns) != 128 or any(row is None or len(row) != 10_000 for row in columns):
        raise ValueError(f"{config} must hold 128 problems with 10000 outcomes each, got {len(columns)} problems")
    return np.array(columns, dtype=np.bool_)


def _table(benchmark: str, model: str, n: NDArray[np.int64], x: NDArray[np.int64]) -> Counts:
    return {
        "benchmark": np.full(n.size, benchmark),
        "model": np.full(n.size, model),
        "problem": np.arange(n.size),
        "n": n,
        "x": x,
    }


def _concatenate(parts: list[Counts]) -> Counts:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _write(target: Path, counts: Counts) -> None:
    """Write the file whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=target.parent, newline="", encoding="utf-8", delete=False) as stream:
        try:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(_COLUMNS)
            columns = [counts[name].tolist() for name in ("benchmark", "model", "problem", "n", "x")]
            writer.writerows(zip(*columns, strict=True))
            stream.close()
            os.replace(stream.name, target)
        except BaseException:
            Path(stream.name).unlink(missing_ok=True)
            raise
