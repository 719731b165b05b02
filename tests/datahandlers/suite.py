"""The shipped suite of data handlers, in a few words for each handler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.formats.datahandler import DataHandler
from connector.testing.datahandlers import DataHandlerSuite, Sample
from tests.datahandlers.definitions import SAMPLES


class Suite(DataHandlerSuite):
    """The shipped suite with attributes in place of its fixtures."""

    HANDLERS: ClassVar[Sequence[DataHandler]] = ()
    DEFINITIONS: ClassVar[Definitions] = SAMPLES
    OBJECTS: ClassVar[Sequence[tuple[str, str, dict[str, Any]]]] = ()
    """Type, verb and values of each object."""
    BODIES: ClassVar[Sequence[Sample]] = ()
    MALFORMED: ClassVar[Sequence[bytes]] = ()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if self.HANDLERS and "handler" in metafunc.fixturenames:
            metafunc.parametrize("handler", self.HANDLERS)

    @pytest.fixture
    def objects(self) -> Sequence[BusinessObject]:
        return [BusinessObject(self.DEFINITIONS, *one) for one in self.OBJECTS]

    @pytest.fixture
    def samples(self) -> Sequence[Sample]:
        return self.BODIES

    @pytest.fixture
    def malformed(self) -> Sequence[bytes]:
        return self.MALFORMED
