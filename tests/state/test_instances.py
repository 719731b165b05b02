"""Every process of one ApplicationName has a name of its own, the same after a restart."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from connector.errors import ProviderError
from connector.state.instances import InstanceLock


def instance(path: Path, wanted: str | None = None) -> InstanceLock:
    return InstanceLock(str(path), wanted, lambda name: name.replace("/", "%2F"))


def test_several_on_one_host_get_numbers_and_free_ones_are_used_again(tmp_path: Path) -> None:
    host = socket.gethostname()
    first, second, third = instance(tmp_path), instance(tmp_path), instance(tmp_path)
    assert [i.name for i in (first, second, third)] == [host, f"{host}-2", f"{host}-3"]
    second.close()
    again = instance(tmp_path)
    assert again.name == f"{host}-2"
    for each in (first, third, again):
        each.close()


def test_a_configured_name_is_kept_over_restarts(tmp_path: Path) -> None:
    for _ in range(3):
        held = instance(tmp_path, "host/a")
        assert held.name == "host/a"
        held.close()
        held.close()


def test_a_configured_name_belongs_to_one_living_process(tmp_path: Path) -> None:
    held = instance(tmp_path, "a")
    with pytest.raises(ProviderError, match="an instance 'a' runs already; give this one another `instance`"):
        instance(tmp_path, "a")
    held.close()


def test_a_directory_that_cannot_be_used_is_an_error_of_the_provider(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ProviderError, match="cannot write"):
        instance(tmp_path / "file")
