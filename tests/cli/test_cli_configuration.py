"""The verbs check, config and schema."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from connector.cli.app import VERBS
from connector.cli.hints import other_command
from tests.cli.in_process import Commands
from tests.tables import rows

ROOT = Path(__file__).resolve().parents[2]


def test_check_says_nothing_on_stdout_when_there_is_nothing_wrong(call: Commands) -> None:
    done = call("check")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no mistakes" in done.stderr


def test_check_prints_each_mistake_as_a_line_of_the_answer(call: Commands) -> None:
    call.change("adapter.yaml", "PollQuantity: 25", "PollQuanity: 25")
    done = call("check")
    assert done.returncode == 2
    assert done.stdout == (
        "adapter.yaml:12:3: connector.PollQuanity: unknown key, expected a key of this section, "
        "did you mean 'PollQuantity'?\n"
    )


def test_check_answers_in_json_one_mistake_a_line(call: Commands) -> None:
    call.change("adapter.yaml", "PollQuantity: 25", "PollQuantity: 0\n  order: x")
    done = call("check", "--json")
    problems = [json.loads(line) for line in done.stdout.splitlines()]
    assert [problem["path"] for problem in problems] == ["connector.PollQuantity", "connector.order"]
    assert set(problems[0]) == {
        *("file", "line", "column", "path", "found", "expected", "nearest", "warning")
    }


def test_a_warning_is_printed_and_is_no_failure(call: Commands) -> None:
    call.change("adapter.yaml", "    - queue://orders\n", "")
    done = call("check")
    assert done.returncode == 0
    assert done.stdout.endswith("(warning)\n")


def test_the_configuration_is_found_by_option_and_by_variable_from_any_directory(
    call: Commands, tmp_path: Path
) -> None:
    assert Commands(tmp_path)("check", "-c", "deployment/adapter.yaml").returncode == 0
    assert (
        Commands(tmp_path)(
            "check", environment={"CONNECTOR_CONFIG": str(call.directory / "adapter.yaml")}
        ).returncode
        == 0
    )
    missing = Commands(tmp_path)("check")
    assert missing.returncode == 2
    assert missing.stdout.startswith("adapter.yaml: no such file")


def test_the_place_of_a_mistake_is_a_path_that_works_where_the_command_was_typed(
    call: Commands, tmp_path: Path
) -> None:
    call.change("adapter.yaml", "PollQuantity: 25", "PollQuantity: 0")
    call.change("metaobjects/rules.yaml", "Order_Create", "Order_Creat")
    done = Commands(tmp_path)("check", "-c", "deployment/adapter.yaml")
    for line in done.stdout.splitlines():
        assert (tmp_path / line.partition(":")[0]).is_file()


def test_config_shows_defaults_and_masks_secrets(call: Commands) -> None:
    call.change("adapter.yaml", "local[*]", "local[*]\n  conf: {spark.ssl.keyPassword: '${KEY}'}")
    done = call("config", environment={"KEY": "hunter2"})
    assert done.returncode == 0
    assert "PollFrequency: 1000" in done.stdout
    assert "max_body: 16MiB" in done.stdout
    assert "hunter2" not in done.stdout + done.stderr
    document = call("config", "--json", environment={"KEY": "hunter2"}).document
    assert document["spark"]["conf"] == {"spark.ssl.keyPassword": "********"}


def test_config_of_a_wrong_configuration_says_all_on_stderr(call: Commands) -> None:
    call.change("adapter.yaml", "PollQuantity: 25", "PollQuantity: 0\n  order: x")
    assert len(call("config").refusal().splitlines()) == 2


def test_schema_is_a_json_document_and_needs_no_configuration(call: Commands, tmp_path: Path) -> None:
    assert "connector" in Commands(tmp_path)("schema").document["properties"]
    assert len(Commands(tmp_path)("schema", "--json").stdout.splitlines()) == 1


@rows("arguments", [["chek"], ["check", "--jsn"], ["check", "x"], ["check", "-c"], []])
def test_a_wrong_call_is_answered_with_usage_and_status_2(call: Commands, arguments: list[str]) -> None:
    done = call(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Usage: connector" in done.stderr or "Error: " in done.stderr
    assert "Traceback" not in done.stderr


def test_every_verb_is_in_the_help(call: Commands) -> None:
    done = call("--help")
    assert done.returncode == 0
    for verb in VERBS:
        assert f"\n  {verb} " in done.stdout


@rows("arguments", [["-c", "."], ["-c", "/dev/null"], ["-c", "\udcff"], ["-c", ""]])
def test_a_file_that_is_none_is_a_problem_and_no_traceback(call: Commands, arguments: list[str]) -> None:
    done = call("check", *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.process
def test_the_answer_does_not_need_a_terminal_that_shows_every_character(call: Commands) -> None:
    call.change("adapter.yaml", "PollQuantity: 25", "PollQuantity: Ж")
    done = subprocess.run(
        [sys.executable, "-m", "connector.cli", "check"],
        cwd=call.directory,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2
    assert "\\u0416" in done.stdout


@pytest.mark.process
def test_a_reader_that_stops_early_is_no_error(call: Commands) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "connector.cli", "schema"],
        cwd=call.directory,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    process.wait(120)
    assert errors == b""


@pytest.mark.process
def test_a_check_imports_neither_spark_nor_what_only_other_verbs_need(
    interpret: Callable[[str], list[str]],
) -> None:
    program = (
        "import sys\nfrom connector.cli.app import run\nassert run(['check']) == 0\n"
        "print([name for name in ('pyspark', 'py4j', 'rich', 'lxml', 'jinja2', 'apscheduler', 'processes')"
        " if name in sys.modules])"
    )
    assert interpret(program) == ["[]"]


def test_a_check_makes_no_file(call: Commands) -> None:
    before = sorted(call.directory.rglob("*"))
    call("check")
    call("config")
    assert sorted(call.directory.rglob("*")) == before


def test_a_failure_that_nobody_expected_is_one_line_and_a_traceback_only_for_debugging(
    call: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("connector.config.loading.discover", fail)
    assert call("check").failure() == "connector: RuntimeError: two lines (--debug shows where)\n"
    with pytest.raises(RuntimeError):
        call("check", "--debug")


@rows(
    "word, hint",
    [
        ("start", "did you mean 'connector run'?"),
        ("restart", "did you mean 'connector run'?"),
        ("validate", "did you mean 'connector check'?"),
        ("publish", "did you mean 'connector send'?"),
        ("consume", "did you mean 'connector receive'?"),
        ("peek", "did you mean 'connector browse'?"),
        ("ls", "did you mean 'connector queues'?"),
        ("stop", "SIGTERM or Ctrl-C stops the process of connector run"),
        ("help", "connector --help"),
    ],
)
def test_a_word_of_another_program_names_the_command(call: Commands, word: str, hint: str) -> None:
    done = call(word)
    assert done.refusal().startswith(f"connector: there is no command {word!r}")
    assert hint in done.stderr


def test_a_configuration_before_the_verb_is_put_behind_it(call: Commands) -> None:
    assert (
        call("-c", "adapter.yaml", "check").refusal()
        == "connector: the verb comes first: connector check -c adapter.yaml\n"
    )


def test_words_of_other_programs_are_no_commands_here() -> None:
    for verb in VERBS:
        assert other_command(verb) is None


@rows(
    "line, hint",
    [
        ("send orders order.json", "--body order.json"),
        ("send orders order.yaml", "--body order.yaml"),
        ("run adapter.yaml", "-c adapter.yaml"),
        ("check adapter.yaml", "-c adapter.yaml"),
        ("config other.yml", "-c other.yml"),
        ("queues adapter.yaml", "-c adapter.yaml"),
        ("receive orders 10", "--count 10"),
        ("browse orders 10", "--limit 10"),
        ("request Customer.Create data.json", "--data data.json"),
        ("unsubscribe --subscription a name", "--subscription name"),
    ],
)
def test_an_argument_too_many_names_its_option(call: Commands, line: str, hint: str) -> None:
    assert f"connector: did you mean {hint}?" in call(*line.split()).refusal()


def test_a_missing_table_is_found_with_its_place_and_the_sql_that_makes_it(call: Commands) -> None:
    call.change(
        "adapter.yaml",
        "process: processes:store_customer",
        "table: shop.customer\n    columns: {id: CustomerId}",
    )
    done = call("check", "--connect")
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if "shop.customer" in line and "no table" in line]
    assert line.startswith("no  table shop.customer for Customer: ")
    assert "adapter.yaml:23:12: subscriptions[0].table: there is no table customer" in line
    assert "there are no tables" in line
    assert "CREATE TABLE customer (id VARCHAR(20) NOT NULL, PRIMARY KEY (id));" in line
