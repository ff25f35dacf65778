"""Each part offers exactly what its methods call public, and pays for none of it before it is used."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

import icml25
from icml25._lazy import lazy_exports

NOT_PARTS = {"book", "data"}
PARTS = sorted(
    module.name for module in pkgutil.iter_modules(icml25.__path__) if module.ispkg and module.name not in NOT_PARTS
)


@pytest.mark.parametrize("part", PARTS)
def test_part_exports_every_public_name_of_its_methods(part):
    package = importlib.import_module(f"icml25.{part}")
    public = set()
    for module in pkgutil.iter_modules(package.__path__):
        method = importlib.import_module(f"icml25.{part}.{module.name}")
        public |= {module.name, *method.__all__}
        for name in method.__all__:
            assert name in package.__all__, f"add {name!r} to the names of {module.name!r} in {package.__file__}"
            assert getattr(package, name) is getattr(method, name)
    assert set(package.__all__) == public
    assert dir(package) == sorted(public)


@pytest.mark.parametrize("part", PARTS)
def test_importing_a_part_imports_no_method(part):
    code = f"import sys, icml25.{part}; print([m for m in sys.modules if m.startswith(('torch', 'numpy', 'scipy'))])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"


def test_unknown_name_is_an_attribute_error():
    package = importlib.import_module("icml25.theory")
    with pytest.raises(AttributeError, match=r"'icml25.theory' has no attribute 'nonsense'"):
        _ = package.nonsense


def test_two_methods_cannot_export_one_name():
    with pytest.raises(ValueError, match="'f' is exported by both 'a' and 'b'"):
        lazy_exports("package", {"a": ("f",), "b": ("f",)})


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("import nowhere_to_be_found", ImportError, r"Thing needs nowhere_to_be_found: pip install 'icml25\[field\]'"),
        ("import icml25.nowhere", ModuleNotFoundError, "No module named 'icml25.nowhere'"),
        ("Thing = 3", None, ""),
    ],
)
def test_a_name_behind_an_extra_says_what_to_install(tmp_path, monkeypatch, body, error, message):
    package = tmp_path / "methodology"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from icml25._lazy import optional_exports\n"
        "__getattr__ = optional_exports(__name__, {'estimator': ('Thing',)}, extra='field')\n"
    )
    (package / "estimator.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.startswith("methodology")]:
        monkeypatch.delitem(sys.modules, name)
    method = importlib.import_module("methodology")
    if error is None:
        assert method.Thing == 3
    else:
        with pytest.raises(error, match=message):
            _ = method.Thing
    with pytest.raises(AttributeError, match="'methodology' has no attribute 'nonsense'"):
        _ = method.nonsense
