"""Execute one notebook in a process of its own, and say what came of it: time, memory, result, or what went wrong.

The caller starts a worker process; the worker runs papermill, papermill runs the kernel. The worker holds the kernel's
resources apart from everybody else's, and reads the pipe to its caller: when that closes, the caller is gone or has had
enough, and the worker takes its kernel with it. So neither an interrupt nor a kill leaves a kernel behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from icml25.book.files import write_json

__all__ = ["Fault", "Job", "Outcome", "Pool", "execute", "spare_grammar"]

KERNEL = "python3"
_SAMPLE_SECONDS = 0.1
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "ICML25_PROGRESS": "0",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}
"""What an executed chapter finds in its environment, unless (for the threads) the caller has set it."""


@dataclass(frozen=True)
class Job:
    """A notebook to execute.

    Attributes
    ----------
    slug : str
        The chapter's name, for messages.
    notebook : str
        The notebook as JSON text.
    folder : str
        Working directory of the kernel.
    parameters : dict or None
        papermill's parameters; None runs the notebook as it stands. The key ``out`` is added: a file for the ledger.
    timeout : int or None
        Seconds that one cell may take; None sets no limit.
    """

    slug: str
    notebook: str
    folder: str
    parameters: Mapping[str, Any] | None = None
    timeout: int | None = None


@dataclass(frozen=True)
class Fault:
    """Why a notebook did not come to its end.

    ``kind`` is ``"error"`` (a cell raised), ``"timeout"`` (a cell took too long), ``"dead kernel"`` (its process was
    killed, mostly for memory), ``"interrupted"`` or ``"broken"`` (papermill itself failed).
    """

    kind: str
    message: str
    cell: str = ""
    source: str = ""
    traceback: str = ""


@dataclass(frozen=True)
class Outcome:
    """What came of a job: the executed notebook as text, the ledger's record, costs, and a fault if there was one."""

    slug: str
    seconds: float
    cpu_seconds: float = 0.0
    peak_memory_bytes: int = 0
    notebook: str = ""
    record: dict[str, Any] | None = None
    machine: dict[str, Any] = field(default_factory=dict)
    fault: Fault | None = None


class Pool:
    """The workers that run at the moment, so that they can be stopped together."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def start(self, command: list[str], **options: Any) -> subprocess.Popen[bytes] | None:
        """Start a worker; None after :meth:`stop`."""
        with self._lock:
            if self._stopped:
                return None
            process = subprocess.Popen(command, **options)
            self._running.add(process)
            return process

    def forget(self, process: subprocess.Popen[bytes]) -> None:
        """A worker has ended."""
        with self._lock:
            self._running.discard(process)

    def stop(self) -> None:
        """Stop every worker and its kernel, and start no more."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            _hang_up(process)
        for process in running:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()

    @property
    def stopped(self) -> bool:
        """Whether :meth:`stop` was called."""
        return self._stopped


def execute(job: Job, pool: Pool | None = None) -> Outcome:
    """Run a job in a worker process and wait for it.

    Never raises for what the notebook does: whatever happens to it is in the outcome's ``fault``.
    """
    pool = pool or Pool()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="icml25-") as scratch, open(Path(scratch, "log"), "w+b") as log:
        folder = Path(scratch)
        write_json(folder / "job.json", asdict(job))
        process = pool.start(
            [sys.executable, "-m", "icml25.execution", scratch],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=_environment(folder),
            start_new_session=True,  # a Ctrl-C at the terminal is the caller's to handle
        )
        if process is None:
            return Outcome(job.slug, 0.0, fault=Fault("interrupted", "interrupted before it started"))
        try:
            process.wait()
        finally:
            _hang_up(process)
            pool.forget(process)
        seconds = time.perf_counter() - started
        if pool.stopped:
            return Outcome(job.slug, seconds, fault=Fault("interrupted", "interrupted"))
        outcome = folder / "outcome.json"
        if not outcome.is_file():
            fault = Fault("broken", f"the worker ended with {_ending(process.returncode)}", traceback=_tail(log))
            return Outcome(job.slug, seconds, fault=fault)
        data = json.loads(outcome.read_text(encoding="utf-8"))
        return Outcome(**data | {"fault": Fault(**data["fault"]) if data["fault"] else None})


def _environment(scratch: Path) -> dict[str, str]:
    env = ENVIRONMENT | dict(os.environ)
    env["ICML25_PROGRESS"] = "0"
    # A run hands its record in through the parameter `out`; the committed outputs are nobody's record.
    env.pop("ICML25_RECORDS", None)
    # Nobody's start-up files, nobody's history: the notebook is the same for everyone.
    env["IPYTHONDIR"] = str(scratch / "ipython")
    return env


def _hang_up(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _tail(log: IO[bytes], size: int = 4000) -> str:
    log.seek(0)
    return log.read().decode(errors="replace")[-size:]


# The worker's side.


class _Costs:
    """CPU time and peak memory of this process's descendants, which are the kernel and what it starts."""

    def __init__(self) -> None:
        self.sampled = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        import psutil

        worker = psutil.Process()
        while not self._done.wait(_SAMPLE_SECONDS):
            total = 0
            with contextlib.suppress(psutil.Error):
                for child in worker.children(recursive=True):
                    with contextlib.suppress(psutil.Error):
                        total += child.memory_info().rss
            self.sampled = max(self.sampled, total)

    def close(self) -> tuple[float, int]:
        """CPU seconds and bytes."""
        import resource

        self._done.set()
        self._thread.join()
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        unit = 1 if sys.platform == "darwin" else 1024
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # The system's own maximum sees peaks between two samples; below the worker's own size it is only what the
        # kernel process inherited before it became a Python of its own.
        exact = ended.ru_maxrss * unit if ended.ru_maxrss > own else 0
        return ended.ru_utime + ended.ru_stime, max(self.sampled, exact)


def spare_grammar() -> None:
    """Keep jsonschema from building a grammar for a text format that no notebook uses: two seconds of each process.

    For processes of our own only; it makes an optional import of jsonschema fail.
    """
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


def _worker(scratch: Path) -> None:
    spare_grammar()
    # An empty read means that the caller closed the pipe or died.
    threading.Thread(target=_leave_with_caller, args=(scratch,), daemon=True).start()
    job = Job(**json.loads((scratch / "job.json").read_text(encoding="utf-8")))
    write_json(scratch / "outcome.json", asdict(_run(job, scratch)))


def _leave_with_caller(scratch: Path) -> None:
    sys.stdin.buffer.read()
    import psutil

    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            child.kill()
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(130)


def _run(job: Job, scratch: Path) -> Outcome:
    import papermill

    source, executed, record = scratch / "in.ipynb", scratch / "out.ipynb", scratch / "record.json"
    source.write_text(job.notebook, encoding="utf-8")
    parameters = None if job.parameters is None else {**job.parameters, "out": str(record)}
    costs = _Costs()
    started = time.perf_counter()
    fault = None
    try:
        papermill.execute_notebook(
            source,
            executed,
            parameters=parameters,
            cwd=job.folder,
            kernel_name=KERNEL,
            kernel_manager_class=_kernel_manager(),
            progress_bar=False,
            log_output=False,
            start_timeout=120,
            execution_timeout=job.timeout,
        )
    except Exception as error:
        fault = _fault(error, job, executed)
    seconds = time.perf_counter() - started
    cpu_seconds, peak = costs.close()
    return Outcome(
        slug=job.slug,
        seconds=round(seconds, 2),
        cpu_seconds=round(cpu_seconds, 2),
        peak_memory_bytes=peak,
        notebook=executed.read_text(encoding="utf-8") if executed.is_file() else "",
        record=json.loads(record.read_text(encoding="utf-8")) if record.is_file() else None,
        machine=_machine(accelerator=bool(parameters and parameters.get("profile") == "gpu")),
        fault=fault,
    )


def _kernel_manager() -> type:
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    class ThisPython(AsyncKernelManager):
        """Starts the Python that runs this, whatever kernel specs the user or the system has under the name."""

        @property
        def kernel_spec(self) -> KernelSpec:
            command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
            return KernelSpec(argv=[*command, "--HistoryManager.enabled=False"], display_name="Python 3")

    return ThisPython


def _fault(error: Exception, job: Job, executed: Path) -> Fault:
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    cell, source = _last_started(job, executed)
    match error:
        case PapermillExecutionError():
            text = "\n".join(error.traceback)
            return Fault("error", f"{error.ename}: {error.evalue}", cell, source, _ANSI.sub("", text))
        case CellTimeoutError():
            return Fault("timeout", f"one cell took more than {job.timeout} s", cell, source)
        case DeadKernelError():
            return Fault("dead kernel", "the kernel's process was killed: out of memory?", cell, source)
    return Fault("broken", f"{type(error).__name__}: {error}", cell, source)


def _last_started(job: Job, executed: Path) -> tuple[str, str]:
    """Id and source of the last cell that was started, found in what papermill saved."""
    if not executed.is_file():
        return "", ""
    cells = json.loads(executed.read_text(encoding="utf-8"))["cells"]
    started = [c for c in cells if c["cell_type"] == "code" and c["metadata"].get("papermill", {}).get("start_time")]
    if not started:
        return "", ""
    source = started[-1]["source"]
    return started[-1].get("id", ""), source if isinstance(source, str) else "".join(source)


def _machine(accelerator: bool) -> dict[str, Any]:
    """Versions and kind of machine; neither its name nor its user's."""
    from importlib import metadata

    versions = {}
    for package in ("torch", "numpy", "scipy"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    name = None
    if accelerator:
        import torch

        name = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    machine = {"machine": platform.machine(), "processor": _processor(), "cores": os.cpu_count()}
    return {"python": platform.python_version(), **versions, **machine} | ({"accelerator": name} if name else {})


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(encoding="utf-8"), re.MULTILINE)
        if found:
            return found[1]
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    _worker(Path(sys.argv[1]))
