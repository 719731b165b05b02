"""What ``check --connect`` loads is what ``run`` would load, each piece in a process of its own."""

from __future__ import annotations

import sys

from connector.config.loading import load
from connector.messaging.provider_kind import Finding
from connector.service.assembly import make_provider
from connector.service.import_check import check_imports
from tests.cli.conftest import call, deployment
from tests.cli.in_process import REPOSITORY, Commands
from tests.tables import rows

__all__ = ["call", "deployment"]

HANDLER = """
class Csv:
    mime_types, options = ("text/x",), ()
    def __init__(self, options, definitions): ...
    def to_business_object(self, body, hint): ...
    def to_body(self, bo): ...
"""
PROCESS = "process: processes:store_customer"
BY_CLASS = ("DataHandlerMimeType: application/json", "DataHandlerClassName: mine:Csv")
GO = "def go(a, b): ...\n"


def found(call: Commands, seconds: float = 60) -> list[Finding]:
    call.write("processes.py", "def store_customer(business_object, event): ...\n")
    configuration = load(call.directory / "adapter.yaml")
    modules = set(sys.modules)
    findings = list(check_imports(configuration, make_provider(configuration), seconds=seconds))
    assert not {one for one in set(sys.modules) - modules if one.startswith("_connector_user_")}
    return findings


def test_a_deployment_that_can_be_loaded_has_nothing_to_tell(call: Commands) -> None:
    assert found(call) == []


@rows(
    "old, new, source, name, reason",
    [
        (PROCESS, "process: mine:go", "import nowhere.deep\n" + GO, "subscription", "module named 'nowhere'"),
        (PROCESS, "process: mine:go", "1 / 0\n" + GO, "subscription", "division by zero"),
        (PROCESS, "process: mine:go", "import os\nos._exit(3)\n" + GO, "subscription", "ended with status 3"),
        (PROCESS, "process: mine:go", "import os\nos.kill(os.getpid(), 9)\n" + GO, "subscription", "SIGKILL"),
        (PROCESS, "process: mine:go", "raise SystemExit(4)\n" + GO, "subscription", "SystemExit: 4"),
        (PROCESS, "load: mine:go", "import nowhere\n" + GO, "load mine:go", "No module named 'nowhere'"),
        (*BY_CLASS, "import nowhere\n" + HANDLER, "data handler mine.py:Csv", "No module named 'nowhere'"),
        (*BY_CLASS, HANDLER.replace("...", "1 / 0", 1), "data handler mine.py:Csv", "division by zero"),
    ],
)
def test_what_run_could_not_load_is_told_with_its_reason(
    call: Commands, old: str, new: str, source: str, name: str, reason: str
) -> None:
    call.change("adapter.yaml", old, new)
    call.write("mine.py", source)
    (finding,) = found(call)
    assert not finding.able
    assert finding.needed
    assert finding.name.startswith(name)
    assert reason in finding.text
    assert "\n" not in finding.text


def test_a_wrong_name_handler_is_told_once_and_hides_no_sink(call: Commands) -> None:
    call.change("adapter.yaml", PROCESS, "process: mine:go")
    call.change("metaobjects/rules.yaml", 'BOPrefix: ""', "NameHandlerClass: 'names:name'")
    call.write("mine.py", "1 / 0\n" + GO)
    call.write("names.py", "import nowhere\ndef name(body): ...\n")
    named, sink = found(call)
    assert named.name == "data handler connector.datahandlers.xml_handler:XmlHandler"
    assert "No module named 'nowhere'" in named.text
    assert "division by zero" in sink.text


def test_code_that_does_not_come_back_is_ended(call: Commands) -> None:
    call.write("mine.py", "import threading\nthreading.Event().wait()\n" + GO)
    call.change("adapter.yaml", PROCESS, "load: mine:go")
    assert Finding("load mine:go", False, "its code: did not end within 0.2 s", True) in found(call, 0.2)


def test_the_command_reports_it_among_the_abilities(call: Commands) -> None:
    call.write("processes.py", "print('loaded')\n1 / 0\ndef store_customer(a, b): ...\n")
    assert call("check").returncode == 0
    answer = call("check", "--connect")
    assert answer.returncode == 1
    (line,) = [one for one in answer.stdout.splitlines() if one.startswith("no ")]
    assert line.startswith("no  subscription Customer processes:store_customer: ")
    assert "ZeroDivisionError" in line
    assert "loaded" not in answer.stdout
    assert str(REPOSITORY) not in line
