"""A command reads what it needs of a deployment: a mistake elsewhere does not stop an operator."""

from __future__ import annotations

from connector.service.sessions import connect_deployment
from tests.cli.in_process import Commands
from tests.tables import Table, rows

A = "adapter.yaml"
R = "metaobjects/rules.yaml"
PROCESS = "process: processes:store_customer"

ELSEWHERE = [
    (A, PROCESS, "process: nowhere:store"),
    (A, PROCESS, "process: processes:none"),
    (A, PROCESS, "proces: processes:store_customer"),
    (A, PROCESS, "process: processes:store_customer\n    timeout: soon"),
    (A, "destination: queue://erp-orders", "webhook: nowhere"),
    (A, "destination: queue://erp-orders", "table: {database: none}"),
    (A, "object: Order", "object: Ordr"),
    (A, "text/xml", "text/xlm"),
    (A, "text/xml", "${NO_SUCH_VARIABLE}"),
    (A, "master: local[*]", "master: local[many]"),
    (A, "spark:\n", "spark:\n  core: 1\n"),
    (A, "spark:\n", 'http: {listen: nowhere, tokens: ["${NO_SUCH_VARIABLE}"]}\nspark:\n'),
    (A, "spark:\n", "http:\n  lisen: 127.0.0.1:0\nspark:\n"),
    (A, "spark:\n", "logging: {level: loud}\ntracing: {endpoint: 5}\nspark:\n"),
    (A, "spark:\n", "datahandlers: ./none\nspark:\n"),
    (A, "sqlite:///./shop.db", "oracle://shop"),
    (A, "ConfigurationMetaObject: MO_Config", "ConfigurationMetaObject: MO_Confg"),
    (A, "DataHandlerMimeType: application/json", "DataHandlerMimeType: application/jsn"),
    (A, "DataHandlerMimeType: application/json", "DataHandlerClassName: nowhere:Handler"),
    (A, "DefaultVerb: Create", "DefaultVerb: Creat"),
    (A, "metaobjects: ./metaobjects", "metaobjects: ./none"),
    (R, "InputFormat: CUST_IN", "InputFormta: CUST_IN"),
    (R, "OutputDestination: queue://crm", "OutputDestination: nonsense://crm"),
    (R, "handlers:", "handlers: {text/none: {}}\nx:"),
    ("metaobjects/broken.yaml", "", "a: [b"),
    ("queue.py", "", ""),
]
"""A file, a text, and the mistake in its place. Without a text, the mistake is the whole file."""


def change(call: Commands, file: str, old: str, new: str) -> None:
    call.change(file, old, new) if old else call.write(file, new)


@rows("file, old, new", ELSEWHERE)
def test_an_operator_works_in_spite_of_a_mistake_elsewhere(
    call: Commands, file: str, old: str, new: str
) -> None:
    change(call, file, old, new)
    told = call("send", "orders", data="one")
    assert (told.returncode, told.stderr.count("\n")) == (0, 1), told.stderr
    assert told.stderr.startswith("adapter.yaml has ")
    assert "connector check" in told.stderr


def test_every_command_about_messages_works_beside_mistakes(call: Commands) -> None:
    call.send("error", "one")
    for edit in ELSEWHERE[0], ELSEWHERE[9], ELSEWHERE[14], ELSEWHERE[21]:
        change(call, *edit)
    with Table() as table:
        for verb in (
            "browse error", "errors", "replay error --to orders", "move error archive", "status",
            "pause queue://orders", "resume --all", "takeover", "receive error --json",
            "subscribe topic://t --subscription n --shared", "unsubscribe --subscription n", "queues",
        ):  # fmt: skip
            with table.row(verb):
                answer = call(*verb.split())
                assert "mistake" not in answer.stdout
                assert (answer.returncode, "has 4 mistakes" in answer.stderr) == (0, True), answer.stderr
    connect_deployment(str(call.directory / A)).close()


@rows(
    "file, old, new, word",
    [
        (A, "root: ./data", "roott: ./data", "provider.roott"),
        (A, "type: dropbox", "type: dropbx", "dropbx"),
        (A, "ApplicationName: demo", "ApplicationName: ${NO_SUCH_VARIABLE}", "NO_SUCH_VARIABLE"),
        (A, "ErrorDestination: queue://error", "ErrorDestination: nonsense://error", "nonsense://error"),
        (A, "ErrorDestination: queue://error", "ErorDestination: queue://error", "connector.ErorDestination"),
        (A, "- queue://orders", "- queue://", "connector.InputDestination[0]"),
        (A, "connector:", "conector:", "conector"),
        (A, "spark:\n", "state: nowhere\nspark:\n", "state"),
        (A, "spark:\n", "spark: [\n", "adapter.yaml"),
    ],
)
def test_a_mistake_about_where_messages_are_stops_every_command(
    call: Commands, file: str, old: str, new: str, word: str
) -> None:
    call.change(file, old, new)
    call.change(file, PROCESS, "process: nowhere:store")
    for verb in ("queues", "errors"):
        refusal = call(verb).refusal()
        assert word in refusal
        assert "nowhere:store" not in refusal


@rows("verb", [("convert", "body.json"), ("request", "Order", "--data", '{"Id": "1"}')])
def test_a_conversion_needs_definitions_and_no_subscription(call: Commands, verb: tuple[str, ...]) -> None:
    call.write("body.json", '{"Id": "1"}')
    call.change(A, "spark:\n", "http: {listen: nowhere}\nspark:\n  core: 1\n")
    call.change(A, PROCESS, "process: nowhere:store")
    assert "has 3 mistakes" in call(*verb).stderr
    call.change(R, "InputFormat: CUST_IN", "InputFormta: CUST_IN")
    assert "InputFormta" in call(*verb).refusal()
