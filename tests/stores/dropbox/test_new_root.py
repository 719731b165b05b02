"""Two that connect at once to a root that does not exist yet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from connector.stores.dropbox.provider import DropboxProvider
from tests.tables import rows


@rows("recorded", [False, True])
@rows("shared", [False, True])
def test_a_root_that_another_makes_during_the_look_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: bool, shared: bool
) -> None:
    def provider() -> DropboxProvider:
        record = tmp_path / "state" / "roots" if recorded else None
        return DropboxProvider(tmp_path / "root", create=True, record=record)

    first = provider()
    other = first if shared else provider()
    look, looks = os.scandir, []

    def look_and_be_overtaken(path: Any) -> Any:
        looks.append(path)
        try:
            return look(path)
        except FileNotFoundError:
            if len(looks) == 1:
                other.connect().close()
            raise

    monkeypatch.setattr(os, "scandir", look_and_be_overtaken)
    first.connect().close()
    assert len(looks) > 1
