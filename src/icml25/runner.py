"""Run chapters at a profile, several at a time, into a directory that survives whatever happens to the run.

A run directory holds, per chapter and profile, the executed notebook, the record that the ledger wrote, and an entry in
``report.json``. Every file is replaced in one step, and the entry, written last, names the files' hashes: a chapter
counts as done only if its entry belongs to the code as it is now and its files are those the entry speaks of.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import hashlib
import json
import subprocess
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from icml25 import __version__
from icml25.book.chapters import Chapter
from icml25.book.claims import load_claims
from icml25.book.files import write_json, write_text
from icml25.book.profiles import check_profile
from icml25.book.records import RunRecord, read_recorded, read_run
from icml25.execution import Fault, Job, Outcome, Pool, execute
from icml25.notebooks import PairError, code_hash, library_files, library_hash, load_source

__all__ = ["BusyError", "MissingExtraError", "Ran", "RunDirectory", "missing_claims", "record_results", "run"]

_JUDGES = ("ledger", "claims", "profiles", "records")


class BusyError(RuntimeError):
    """Another run is writing to this directory."""


class MissingExtraError(RuntimeError):
    """Something was asked for that needs an extra of the package; the message says which."""


@dataclass(frozen=True)
class Ran:
    """One chapter of a run: freshly run or kept from before, with its record unless it failed."""

    chapter: Chapter
    kept: bool
    seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    record: RunRecord | None = None
    fault: Fault | None = None

    @property
    def ok(self) -> bool:
        """Whether the chapter came to its end and handed in a record."""
        return self.fault is None


class RunDirectory:
    """A directory of results, locked while it is open.

    Parameters
    ----------
    folder : Path
        Made if it is not there.

    Raises
    ------
    BusyError
        If another process has it open.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        # The system drops the lock with the process, however that ends.
        self._lock: IO[str] = open(folder / ".lock", "w", encoding="utf-8")  # noqa: SIM115
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise BusyError(f"another run is writing to {folder}: wait for it, or give another --out") from None
        # What a killed run was about to put in place.
        for leftover in folder.glob(".*.*"):
            leftover.unlink()
        self._entries: dict[str, Any] = self._read_report()

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    @property
    def report(self) -> Path:
        """The file that says what is in here."""
        return self.folder / "report.json"

    def _read_report(self) -> dict[str, Any]:
        if not self.report.is_file():
            return {}
        try:
            entries: dict[str, Any] = json.loads(self.report.read_text(encoding="utf-8"))["chapters"]
        except (ValueError, KeyError, TypeError):
            return {}
        return entries

    def _write_report(self) -> None:
        write_json(self.report, {"chapters": dict(sorted(self._entries.items()))})

    def kept(self, chapter: Chapter, profile: str, key: str) -> Ran | None:
        """The chapter's finished run with this key, if there is one and its files are whole."""
        entry = self._entries.get(f"{chapter.slug}.{profile}")
        if not entry or not entry["ok"] or entry["key"] != key:
            return None
        if any(_file_hash(self.folder / name) != digest for name, digest in entry["files"].items()):
            return None
        record = read_run(self.folder / f"{chapter.slug}.{profile}.json")
        return Ran(
            chapter,
            kept=True,
            seconds=entry["seconds"],
            cpu_seconds=entry["cpu_seconds"],
            peak_memory_bytes=entry["peak_memory_bytes"],
            record=record,
        )

    def discard(self, chapter: Chapter, profile: str) -> None:
        """Drop what is there of a chapter that is about to be run: from now on it belongs to nothing."""
        name = f"{chapter.slug}.{profile}"
        if self._entries.pop(name, None) is not None:
            self._write_report()
        for file in (f"{name}.ipynb", f"{name}.json", f"{name}.failed.ipynb"):
            (self.folder / file).unlink(missing_ok=True)

    def store(self, chapter: Chapter, profile: str, seed: int, key: str, outcome: Outcome) -> Ran:
        """Put a chapter's outcome in place and into the report."""
        name = f"{chapter.slug}.{profile}"
        fault, record = outcome.fault, None
        if fault is None and outcome.record is None:
            fault = Fault("error", "the chapter came to its end but recorded no claim")
        if fault is None and outcome.record is not None:
            record = RunRecord.from_json(outcome.record)
            record.provenance = _provenance(chapter, outcome)
            write_text(self.folder / f"{name}.ipynb", outcome.notebook)
            write_json(self.folder / f"{name}.json", record.to_json())
        elif outcome.notebook:
            write_text(self.folder / f"{name}.failed.ipynb", outcome.notebook)
        files = [f"{name}.ipynb", f"{name}.json"] if fault is None else []
        self._entries[name] = {
            "slug": chapter.slug,
            "profile": profile,
            "seed": seed,
            "ok": fault is None,
            "key": key,
            "seconds": outcome.seconds,
            "cpu_seconds": outcome.cpu_seconds,
            "peak_memory_bytes": outcome.peak_memory_bytes,
            "files": {file: _file_hash(self.folder / file) for file in files},
            "verdicts": {k: str(m.verdict) for k, m in record.claims.items()} if record else {},
            "fault": asdict(fault) if fault else None,
        }
        self._write_report()
        return Ran(
            chapter,
            kept=False,
            seconds=outcome.seconds,
            cpu_seconds=outcome.cpu_seconds,
            peak_memory_bytes=outcome.peak_memory_bytes,
            record=record,
            fault=fault,
        )


def run(
    chapters: Sequence[Chapter],
    directory: RunDirectory,
    *,
    profile: str,
    seed: int = 0,
    jobs: int = 1,
    timeout: int | None = None,
    fresh: bool = False,
    scheduler: str | None = None,
) -> Generator[Ran]:
    """Run chapters and yield each result as it is there; what ``directory`` holds already is kept.

    Closing the iterator, or an interrupt, stops all kernels and leaves the directory with the chapters that were done.

    Parameters
    ----------
    timeout : int, optional
        Seconds that one cell may take.
    fresh : bool
        Run finished chapters again.
    scheduler : str, optional
        Address of a ``dask.distributed`` scheduler whose workers run the chapters; they need the same checkout at the
        same place. ``jobs`` then has no effect, and an interrupt leaves a chapter that has begun to its worker.
    """
    check_profile(profile)
    todo: list[tuple[Chapter, str, Job]] = []
    for chapter in chapters:
        try:
            source = load_source(chapter)
        except PairError as error:
            outcome = Outcome(chapter.slug, 0.0, fault=Fault("error", str(error)))
            yield directory.store(chapter, profile, seed, "", outcome)
            continue
        key = _key(chapter, code_hash(source), profile, seed)
        if not fresh and (kept := directory.kept(chapter, profile, key)):
            yield kept
            continue
        parameters = {"profile": profile, "seed": seed}
        todo.append((chapter, key, Job(chapter.slug, json.dumps(source), str(chapter.folder), parameters, timeout)))
    if not todo:
        return
    for chapter, *_ in todo:
        directory.discard(chapter, profile)
    queue = [job for *_, job in todo]
    outcomes = _local(queue, jobs) if scheduler is None else _remote(queue, scheduler)
    with contextlib.closing(outcomes):
        by_slug = {chapter.slug: (chapter, key) for chapter, key, _ in todo}
        for outcome in outcomes:
            chapter, key = by_slug[outcome.slug]
            yield directory.store(chapter, profile, seed, key, outcome)


def _local(jobs: Sequence[Job], parallel: int) -> Generator[Outcome]:
    pool = Pool()
    with ThreadPoolExecutor(min(parallel, len(jobs))) as threads:
        try:
            for future in as_completed([threads.submit(execute, job, pool) for job in jobs]):
                yield future.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            pool.stop()


def _remote(jobs: Sequence[Job], scheduler: str) -> Generator[Outcome]:
    try:
        import distributed
    except ModuleNotFoundError as error:
        raise MissingExtraError("--scheduler needs dask.distributed: pip install 'icml25[cluster]'") from error
    connect: Any = distributed.Client
    completed: Any = distributed.as_completed
    with connect(scheduler, timeout=10) as client:
        futures = {client.submit(execute, job, pure=False, retries=0): job for job in jobs}
        for future in completed(futures):
            try:
                yield future.result()
            except Exception as error:
                fault = Fault("broken", f"its worker failed: {type(error).__name__}: {error}")
                yield Outcome(futures[future].slug, 0.0, fault=fault)


def _key(chapter: Chapter, code: str, profile: str, seed: int) -> str:
    """What a result depends on: the chapter, its method and data, the judges, the claims, and other recorded runs."""
    judges = [chapter.root / "src" / "icml25" / "book" / f"{name}.py" for name in _JUDGES]
    library = library_hash([*library_files(chapter), *(path for path in judges if path.is_file())])
    recorded = {name: entry.to_json() for name, entry in read_recorded(chapter.results).items() if name != profile}
    claims = chapter.claims.read_text(encoding="utf-8")
    text = json.dumps([code, profile, seed, library, claims, recorded], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else ""


def _provenance(chapter: Chapter, outcome: Outcome) -> dict[str, Any]:
    commit, dirty = _commit(chapter)
    return {
        "icml25": __version__,
        "commit": commit,
        "dirty": dirty,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        **outcome.machine,
        "seconds": outcome.seconds,
        "cpu_seconds": outcome.cpu_seconds,
        "peak_memory_bytes": outcome.peak_memory_bytes,
    }


def _commit(chapter: Chapter) -> tuple[str | None, bool | None]:
    """Commit of the checkout, and whether what the result depends on differs from it; None outside of git."""
    package = chapter.root / "src" / "icml25"
    depends = [chapter.source, chapter.claims, *library_files(chapter), package / "book"]
    try:
        head = _git(chapter.root, "rev-parse", "HEAD")
        changes = _git(chapter.root, "status", "--porcelain", "--", *(str(path) for path in depends))
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return head, bool(changes)


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def record_results(chapter: Chapter, record: RunRecord) -> None:
    """Merge a run into the chapter's recorded results, under the name of its profile."""
    recorded = read_recorded(chapter.results) | {record.profile: record}
    write_json(chapter.results, {profile: recorded[profile].to_json() for profile in sorted(recorded)})


def missing_claims(chapter: Chapter, record: RunRecord) -> list[str]:
    """Claims that the claims file lists for the run's profile and the run did not record."""
    listed = (claim_id for claim_id, claim in load_claims(chapter.claims).items() if record.profile in claim.profiles)
    return [claim_id for claim_id in listed if claim_id not in record.claims]
