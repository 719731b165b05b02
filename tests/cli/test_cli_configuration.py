"""The verbs check, config and schema, and what all verbs have in common: wrong calls, hints, the streams."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from connector.cli.hints import other_command
from connector.cli.verbs import find_verbs
from connector.messaging.provider_kind import Finding
from connector.stores.dropbox.provider import DropboxProvider
from tests.cli.in_process import REPOSITORY, Commands
from tests.distribution import install
from tests.tables import Table, rows

QUANTITY = "PollQuantity: 25"


def test_check_prints_mistakes_as_the_answer_and_fails_by_them(call: Commands) -> None:
    before = sorted(call.directory.rglob("*"))
    good = call("check")
    assert (good.returncode, good.stdout, "no mistakes" in good.stderr) == (0, "", True)
    assert sorted(call.directory.rglob("*")) == before, "it makes no file"
    call.change("adapter.yaml", "    - queue://orders\n", "")
    warned = call("check")
    assert (warned.returncode, warned.stdout.endswith("(warning)\n")) == (0, True)
    call.change("adapter.yaml", QUANTITY, "PollQuanity: 25")
    wrong = call("check")
    assert wrong.returncode == 2
    assert (
        "adapter.yaml:11:3: connector.PollQuanity: unknown key, expected a key of this section, "
        "did you mean 'PollQuantity'?\n"
    ) in wrong.stdout


def test_check_answers_in_json_one_mistake_a_line(call: Commands) -> None:
    call.change("adapter.yaml", QUANTITY, "PollQuantity: 0\n  order: x")
    done = call("check", "--json")
    problems = [json.loads(line) for line in done.stdout.splitlines()]
    assert [problem["path"] for problem in problems] == ["connector.PollQuantity", "connector.order"]
    parts = "file line column path found expected nearest warning"
    assert set(problems[0]) == set(parts.split())
    assert len(call("config").refusal().splitlines()) == 2, "config says all on stderr"


def test_the_configuration_is_found_by_option_and_by_variable_from_any_directory(
    call: Commands, tmp_path: Path
) -> None:
    elsewhere = Commands(tmp_path)
    assert elsewhere("check", "-c", "deployment/adapter.yaml").returncode == 0
    variable = {"CONNECTOR_CONFIG": str(call.directory / "adapter.yaml")}
    assert elsewhere("check", environment=variable).returncode == 0
    missing = elsewhere("check")
    assert missing.returncode == 2
    assert missing.stdout.startswith("adapter.yaml: no such file")
    call.change("adapter.yaml", QUANTITY, "PollQuantity: 0")
    call.change("metaobjects/rules.yaml", "Order_Create", "Order_Creat")
    for line in elsewhere("check", "-c", "deployment/adapter.yaml").stdout.splitlines():
        assert (tmp_path / line.partition(":")[0]).is_file(), "the path works where the command was typed"


def test_config_shows_defaults_and_masks_secrets(call: Commands) -> None:
    call.change("adapter.yaml", "local[*]", "local[*]\n  conf: {spark.ssl.keyPassword: '${KEY}'}")
    before = sorted(call.directory.rglob("*"))
    done = call("config", environment={"KEY": "hunter2"})
    assert done.returncode == 0
    assert "PollFrequency: 1000" in done.stdout
    assert "max_body: 16MiB" in done.stdout
    assert "hunter2" not in done.stdout + done.stderr
    document = call("config", "--json", environment={"KEY": "hunter2"}).document
    assert document["spark"]["conf"] == {"spark.ssl.keyPassword": "********"}
    assert sorted(call.directory.rglob("*")) == before, "it makes no file"


def test_schema_is_a_json_document_and_needs_no_configuration(tmp_path: Path) -> None:
    assert "connector" in Commands(tmp_path)("schema").document["properties"]
    assert len(Commands(tmp_path)("schema", "--json").stdout.splitlines()) == 1


@rows("arguments", [["-c", "."], ["-c", "/dev/null"], ["-c", "\udcff"], ["-c", ""]])
def test_a_file_that_is_none_is_a_problem_and_no_traceback(call: Commands, arguments: list[str]) -> None:
    done = call("check", *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 1


def test_a_missing_table_is_found_with_its_place_and_the_sql_that_makes_it(call: Commands) -> None:
    table = "table: shop.customer\n    columns: {id: CustomerId}"
    call.change("adapter.yaml", "process: processes:store_customer", table)
    done = call("check", "--connect")
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if "shop.customer" in line and "no table" in line]
    assert line.startswith("no  table shop.customer for Customer: ")
    assert "adapter.yaml:23:12: subscriptions[0].table: there is no table customer" in line
    assert "there are no tables" in line
    assert "CREATE TABLE customer (id VARCHAR(20) NOT NULL, PRIMARY KEY (id));" in line


@pytest.mark.parametrize("used", ["timers", "http.events", ""])
def test_a_server_is_asked_for_sending_once_where_that_is_used(
    plain: Commands, monkeypatch: pytest.MonkeyPatch, used: str
) -> None:
    said = Finding("queue connector.demo.sent", False, "no right", needed=True)
    found = [Finding("connection", True)]
    monkeypatch.setattr(DropboxProvider, "survey", lambda *_: found, raising=False)
    monkeypatch.setattr(DropboxProvider, "survey_once", lambda *_: [said])
    section = {
        "timers": "timers: [{name: a, every: 1m, to: queue://jobs, body: x}]",
        "http.events": "http: {events: [queue://orders], tokens: [a-token-of-enough-characters]}",
    }
    plain.write("adapter.yaml", f"{plain.read('adapter.yaml')}\n{section.get(used, '')}\n")
    done = plain("check", "--connect")
    assert done.returncode == bool(used), done.stdout
    assert ("no  queue connector.demo.sent: no right" in done.stdout) is bool(used)


@rows("arguments", [["chek"], ["check", "--jsn"], ["check", "x"], ["check", "-c"], []])
def test_a_wrong_call_is_answered_with_usage_and_status_2(call: Commands, arguments: list[str]) -> None:
    refusal = call(*arguments).refusal()
    assert "Usage: connector" in refusal or "Error: " in refusal


def test_every_verb_is_in_the_help_and_no_word_of_another_program(call: Commands) -> None:
    done = call("--help")
    assert done.returncode == 0
    for verb in find_verbs():
        assert f"\n  {verb} " in done.stdout
        assert other_command(verb) is None


def test_a_package_may_bring_a_verb_of_its_own(
    call: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = "from connector.cli.verbs import CommandVerb\nVERB = CommandVerb('Counts.', 'publish')"
    function = "from connector.cli.common import answer\ndef publish(word: str):\n    answer(word)"
    install(
        tmp_path / "site",
        monkeypatch,
        "counting",
        {"publish": "counting:VERB", "wrong": "counting:CommandVerb"},
        {"counting": listed, "publish": function},
        group="connector.verbs",
    )
    assert "\n  publish " in call("--help").stdout
    assert "publish" not in sys.modules
    assert call("publish", "a").stdout == "a\n"
    assert "the verb 'wrong' of the package counting 1.0 cannot be used" in call("wrong").refusal()


@rows(
    "line, hint",
    [
        ("start", "did you mean 'connector run'?"),
        ("validate", "did you mean 'connector check'?"),
        ("publish", "did you mean 'connector send'?"),
        ("consume", "did you mean 'connector receive'?"),
        ("peek", "did you mean 'connector browse'?"),
        ("ls", "did you mean 'connector queues'?"),
        ("stop", "SIGTERM or Ctrl-C stops the process of connector run"),
        ("help", "connector --help"),
        ("-c adapter.yaml check", "connector: the verb comes first: connector check -c adapter.yaml\n"),
        ("acept-root", "Did you mean 'accept-root'?"),
        ("send orders order.json", "connector: did you mean --body order.json?"),
        ("run other.yml", "connector: did you mean -c other.yml?"),
        ("receive orders 10", "connector: did you mean --count 10?"),
        ("browse orders 10", "connector: did you mean --limit 10?"),
        ("request Customer.Create data.json", "connector: did you mean --data data.json?"),
        ("unsubscribe --subscription a name", "connector: did you mean --subscription name?"),
    ],
)
def test_a_line_of_another_program_is_answered_with_the_right_one(
    call: Commands, line: str, hint: str
) -> None:
    refusal = call(*line.split()).refusal()
    assert hint in refusal
    if hint.startswith("did you mean"):
        assert refusal.startswith(f"connector: there is no command {line!r}")


@rows("verb", ["init", "send", "browse", "receive", "explain"])
def test_a_verb_without_its_argument_is_answered_with_an_example(call: Commands, verb: str) -> None:
    example = rf"(?m)^connector: for example: \S*connector {verb} \w+"
    assert re.search(example, call(verb).refusal())


def test_a_failure_that_nobody_expected_is_one_line_and_a_traceback_only_for_debugging(
    call: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("connector.config.loading.discover", fail)
    assert call("check").failure() == "connector: RuntimeError: two lines (--debug shows where)\n"
    with pytest.raises(RuntimeError):
        call("check", "--debug")


# --- processes ------------------------------------------------------------------------------------


@pytest.mark.process
def test_the_answer_does_not_need_a_terminal_that_shows_every_character(call: Commands) -> None:
    call.change("adapter.yaml", QUANTITY, "PollQuantity: Ж")
    done = call.process("check", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert (done.returncode, b"\\u0416" in done.stdout) == (2, True)


@pytest.mark.process
def test_the_environment_of_python_changes_nothing_or_is_named(call: Commands, tmp_path: Path) -> None:
    (tmp_path / "yaml.py").touch()
    hidden = f"{tmp_path}{os.pathsep}{REPOSITORY}"
    with Table() as table:
        for status, said, variables in (
            (0, "no mistakes", {"LC_ALL": "POSIX", "LANG": "C"}),
            (0, "no mistakes", {"PYTHONUTF8": "0", "LANG": "C"}),
            (0, "no mistakes", {"PYTHONOPTIMIZE": "2", "PYTHONHASHSEED": "7"}),
            (
                0,
                "no mistakes",
                {"PYTHONSTARTUP": "/nonexistent", "PYTHONSAFEPATH": "1", "HOME": "/nonexistent"},
            ),
            (0, "no mistakes", {"SPARK_HOME": "/nonexistent", "SPARK_CONF_DIR": "/nonexistent"}),
            (0, "TZ is Nowhere/Land", {"TZ": "Nowhere/Land"}),
            (2, "set LC_ALL=C.UTF-8", {"PYTHONUTF8": "0", "LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0"}),
            (1, f"in {tmp_path}/yaml.py", {"PYTHONPATH": hidden}),
        ):
            with table.row(variables):
                done = call.process("check", data=b"", **variables)
                told = (done.stdout + done.stderr).decode()
                assert (done.returncode, said in told) == (status, True), told


@pytest.mark.process
def test_a_reader_that_stops_early_is_no_error() -> None:
    command = [sys.executable, "-m", "connector.cli", "schema"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.process
def test_a_verb_loads_only_what_it_needs(call: Commands) -> None:
    """Above all neither Spark nor Java, nor the processes of the deployment."""
    program = """\
import sys
from connector.cli.app import run

sys.stdout = sys.stderr


def show(*names):
    print([name for name in names if name in sys.modules], file=sys.__stdout__)


run(["--help"])
show("connector.authoring.verbs", "connector.config")
for line in ("receive orders", "subscribe topic://t --subscription s --shared", "queues"):
    run(line.split())
show("lark", "pyspark", "rich", "apscheduler")
run(["browse", "orders", "--selector", "a = 1"])
show("lark")
assert run(["check"]) == 0
show("pyspark", "py4j", "rich", "lxml", "jinja2", "apscheduler", "processes")
run(["status"]), run(["takeover"])
import connector.cli.request
show("pyspark", "py4j", "numpy", "connector.spark.pipeline")
"""
    command = [sys.executable, "-c", program]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=call.directory, env=environment, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["[]", "[]", "['lark']", "[]", "[]"], done.stderr
