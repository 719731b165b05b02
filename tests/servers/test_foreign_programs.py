"""Programs that know nothing of the adapter ask it and answer it, in Java, and in JavaScript with rhea."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import connector
from tests.requests.world import done
from tests.servers.asking import asking, is_named, serving
from tests.servers.conftest import in_turn
from tests.servers.java_programs import java_command
from tests.servers.rhea import ask_by_rhea, rhea_answers

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy

pytestmark = pytest.mark.process

_IDS: Final = [
    "'one'",
    "'ID:two'",
    "t.wrap_ulong(77)",
    "t.wrap_uuid(Buffer.alloc(16, 7))",
    "t.wrap_binary(Buffer.from([1, 2, 255]))",
]
"""Message ids of every type of AMQP. JMS has one of them."""


def check_answers(lines: list[str], count: int) -> None:
    """Checks that each request has its own answer, found by correlation id."""
    found = sorted(line.split(" ", 2) for line in lines)
    assert [(number, result) for number, result, _ in found] == [(str(n), "VALCHANGE") for n in range(count)]
    for number, _, body in found:
        answer = json.loads(body)
        assert (answer["CustomerId"], answer["Name"]) == (number, f"name of {number}")


def test_foreign_programs_ask_the_adapter(broker: Broker, deploy: Deploy, tmp_path: Path) -> None:
    server = serving(broker, deploy)
    service = server.start()
    check_answers(ask_by_rhea(broker, server.input, f"[{', '.join(_IDS)}]"), len(_IDS))
    command = java_command("Foreign", tmp_path, broker, server.input, "5", "ask")
    answer = subprocess.run(command, check=True, timeout=120, stdout=subprocess.PIPE, text=True)
    check_answers(answer.stdout.splitlines(), 5)
    service.stop()
    assert server.messages(server.error) == []
    assert len(server.messages(server.archive)) == len(_IDS) + 5


@in_turn("program", "java", "rhea")
def test_foreign_programs_answer_the_adapter(
    broker: Broker, deploy: Deploy, tmp_path: Path, program: str
) -> None:
    """Three requests have a temporary queue, and three a ReplyToDestination."""
    questions = deploy(broker).input
    askers = (
        asking(broker, deploy, questions),
        asking(broker, deploy, questions, ReplyToDestination="queue://NAME.replies"),
    )
    files = [one.directory / "adapter.yaml" for one in askers]
    if program == "java":
        command = java_command("Foreign", tmp_path, broker, questions, "6", "answer")
    else:
        command = rhea_answers(broker, questions, 6)
    with subprocess.Popen(command) as process:
        try:
            with connector.Adapter.from_file(files[0]) as one, connector.Adapter.from_file(files[1]) as other:
                futures = [
                    (one, other)[number % 2].request_async("Customer.Retrieve", {"CustomerId": str(number)})
                    for number in range(6)
                ]
                assert all(is_named(result, number) for number, result in enumerate(done(futures)))
            assert process.wait(120) == 0
        finally:
            process.kill()
