"""The sink ``process``: a Python function."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import ClassVar

import pytest

from connector.sinks.process.sink import ProcessSink
from connector.testing.deployment import Deployment
from connector.testing.sinks import ExternalSinkSuite, sample_event, sample_object


class TestProcess(ExternalSinkSuite):
    key = "process"
    entry = "{process: 'processes:note'}"
    files: ClassVar = {
        "processes.py": (
            "import json, os\n"
            "def note(bo, event):\n"
            "    with open(os.path.join(os.path.dirname(__file__), 'notes'), 'a') as notes:\n"
            "        notes.write(json.dumps(bo['Text']) + '\\n')\n"
        )
    }

    def arrived(self, deployment: Deployment) -> Sequence[str]:
        return [json.loads(line) for line in (deployment.directory / "notes").read_text().splitlines()]


@pytest.mark.parametrize("replies", [False, True])
def test_what_the_function_returns_is_returned_and_warned_of_once_where_nobody_gets_it(
    caplog: pytest.LogCaptureFixture, replies: bool
) -> None:
    sink = ProcessSink(lambda bo, event: bo["Text"], "s", replies=replies)
    with caplog.at_level(logging.WARNING):
        assert [sink.deliver(sample_object(), sample_event()) for _ in range(2)] == ["one", "one"]
    texts = ["a process returned a value, but its subscription does not set reply: true"]
    assert [record.message for record in caplog.records] == ([] if replies else texts)
