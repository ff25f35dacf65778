"""Ways to install agree with each other, and the files that name versions agree too."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import icml25

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
PINS = {
    requirement.name.lower().replace("_", "-"): requirement.specifier
    for requirement in map(Requirement, (ROOT / "constraints.txt").read_text().splitlines())
}
EXTRAS = PROJECT["optional-dependencies"]
REQUIREMENTS = [Requirement(text) for group in [PROJECT["dependencies"], *EXTRAS.values()] for text in group]


def test_core_is_torch_numpy_scipy_and_nothing_else():
    assert {Requirement(text).name for text in PROJECT["dependencies"]} == {"torch", "numpy", "scipy"}


@pytest.mark.parametrize("requirement", [r for r in REQUIREMENTS if r.name != "icml25"], ids=lambda r: r.name)
def test_every_dependency_is_pinned_within_its_range(requirement):
    pin = PINS[requirement.name.lower().replace("_", "-")]
    (exact,) = pin
    assert exact.operator == "=="
    assert requirement.specifier.contains(exact.version)


def test_pins_name_plain_versions():
    assert not [name for name, pin in PINS.items() if "+" in str(pin)], "a local version such as +cpu is not everywhere"


def test_environment_file_installs_the_same_thing():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    (pip,) = (entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    assert environment["name"] == PROJECT["name"]
    assert [entry.split("=")[0] for entry in conda] == ["python", "pip"]
    version = conda[0].split("=")[1]
    assert SpecifierSet(PROJECT["requires-python"]).contains(f"{version}.0")
    constraints, install = pip
    assert constraints == "-c constraints.txt"
    extras = re.fullmatch(r"-e \.\[([a-z,]+)\]", install).group(1).split(",")
    assert set(extras) <= set(EXTRAS)
    makefile = (ROOT / "Makefile").read_text()
    assert f"-e '.[{','.join(extras)}]'" in makefile, "make book and environment.yml must install the same extras"


def test_one_version_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert icml25.__version__ == PROJECT["version"] == str(citation["version"])


def test_classifiers_cover_the_permitted_pythons():
    permitted = SpecifierSet(PROJECT["requires-python"])
    named = {c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)}
    assert named == {f"3.{minor}" for minor in range(30) if permitted.contains(f"3.{minor}.1")}


def test_methods_import_only_their_field_and_never_the_book():
    """The arrows of the house: a method imports no other part of ours, and no tool of the book.

    ``estimator.py`` of a method is where its scikit-learn estimator stands, behind the extra of that name.
    """
    for path in (ROOT / "src" / "icml25").glob("*/**/*.py"):
        part, *rest = path.relative_to(ROOT / "src" / "icml25").parts
        if part in {"book", "data"} or rest == ["__init__.py"]:
            continue
        method = f"icml25.{part}.{rest[0].removesuffix('.py')}"
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                foreign = name.startswith("icml25.") and not name.startswith((method, "icml25._"))
                assert not foreign, f"{path.name} imports {name}"
                tools = {"matplotlib", "plotly", "IPython"} | ({"sklearn"} if path.name != "estimator.py" else set())
                assert name.split(".")[0] not in tools, path.name
