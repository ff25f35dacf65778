"""Build the wheel, install it in an empty environment without extras, and use it there."""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNWANTED = ("jupyter", "plotly", "ipykernel", "sphinx", "matplotlib", "typer", "scikit-learn")
USE = """
import importlib, pkgutil
import icml25
from icml25.theory import monkeys
assert abs(monkeys.pass_at_k([10], [3], [2])[0, 0] - 8 / 15) < 1e-12
for part in pkgutil.iter_modules(icml25.__path__):
    if not part.ispkg or part.name in ("book", "data"):
        continue
    package = importlib.import_module(f"icml25.{part.name}")
    for name in package.__all__:
        try:
            getattr(package, name)
        except ImportError as error:
            assert "pip install 'icml25[" in str(error), error
            print(error)
print("imported every other public name of", icml25.__version__)
"""


def run(*command: str, cwd: Path) -> str:
    """Run a command, show its output where it fails, return it where it does not."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def main() -> None:
    """Fail with a message unless a bare install works and stays bare."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", "dist", str(ROOT), cwd=folder)
        wheel = next((folder / "dist").glob("icml25-*.whl"))
        run(sys.executable, "-m", "venv", "empty", cwd=folder)
        python = str(folder / "empty" / "bin" / "python")
        run(python, "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), str(wheel), cwd=folder)
        print(run(python, "-W", "error", "-c", USE, cwd=folder).strip())
        installed = run(python, "-m", "pip", "list", "--format=freeze", cwd=folder).lower()
        if brought := [name for name in UNWANTED if name in installed]:
            sys.exit(f"a bare install brought {', '.join(brought)}")
        command = subprocess.run(
            [str(folder / "empty" / "bin" / "icml25"), "list"], capture_output=True, text=True, check=False
        )
        said = command.stderr
        if command.returncode != 1 or "pip install 'icml25[book]'" not in said or "Traceback" in said:
            sys.exit(f"without the book extra the command must say what to install, got: {said}")
        print(f"{wheel.name}: {wheel.stat().st_size / 1024:.0f} kB, {len(installed.splitlines())} packages in all")


if __name__ == "__main__":
    main()
