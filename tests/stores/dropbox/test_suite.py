"""The dropbox passes the shipped suite. ``tests/stores/test_model.py`` tries its settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from connector.messaging.destination import Destination, parse_destination
from connector.messaging.provider import Provider
from connector.stores.dropbox.provider import DropboxProvider
from tests.provider_suite.suite import ProviderSuite


class TestDropbox(ProviderSuite):
    able = DropboxProvider.capabilities
    can_spoil = True

    @pytest.fixture
    def provider(self, root: Path) -> Provider:
        return DropboxProvider(root, create=True, durable=False)

    @pytest.fixture(params=[".soon", ".....badI=xyz", ".....JMS_dropboxmq_hdrS=gone"])
    def spoil(
        self, provider: DropboxProvider, request: pytest.FixtureRequest
    ) -> Callable[[Destination, str], None]:
        def rename(destination: Destination, identity: str) -> None:
            target = Path(provider.folders(destination).target)
            (path,) = target.glob(f"*{identity.removeprefix('ID:')}.*")
            path.rename(f"{path}{request.param}")

        return rename

    @pytest.fixture
    def unwritable(self, root: Path) -> Destination:
        (root / "blocked").write_text("a file where the queue should be")
        return parse_destination("queue://blocked")

    @pytest.fixture
    def limited(self, root: Path) -> Provider:
        return DropboxProvider(root, create=True, durable=False, redelivery_limit=2)
