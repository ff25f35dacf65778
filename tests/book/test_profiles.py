"""Profiles select one complete table of settings."""

import pytest

from icml25.book import profiles

TABLES = {name: {"n": size} for size, name in enumerate(profiles.PROFILES)}


@pytest.mark.parametrize("name", profiles.PROFILES)
def test_selects_the_profile_s_own_table(name):
    settings = profiles.select(name, **TABLES)
    assert (settings.profile, settings.n) == (name, TABLES[name]["n"])


@pytest.mark.parametrize(
    ("profile", "changes", "message"),
    [
        ("fast", {}, "profile must be one of smoke, cpu, study, gpu, got 'fast'"),
        ("cpu", {"gpu": {}}, "profiles 'cpu' and 'gpu' differ in the settings: n"),
        ("cpu", {"smoke": {"n": 1, "m": 2}}, "profiles 'cpu' and 'smoke' differ in the settings: m"),
        ("cpu", {"tpu": {"n": 1}}, "settings need a table for each of smoke, cpu, study, gpu"),
    ],
)
def test_refuses(profile, changes, message):
    with pytest.raises(ValueError, match=message):
        profiles.select(profile, **(TABLES | changes))


def test_unknown_setting_lists_those_there_are():
    with pytest.raises(AttributeError, match="no setting 'm' in profile 'cpu'; there are: profile, n"):
        _ = profiles.select("cpu", **TABLES).m


def test_only_the_gpu_profile_asks_for_a_gpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert [profiles.device(name) for name in profiles.PROFILES] == ["cpu", "cpu", "cpu", "cuda"]
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert profiles.device("gpu") == "cpu"
