"""Finding the function behind ``module:function``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from connector.sinks.functions import ProcessNotFound, load_process
from tests.tables import rows


def write(directory: Path, name: str, text: str) -> None:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@rows(
    "file, reference",
    [
        ("processes.py", "processes:f"),
        ("package/__init__.py", "package:f"),
        ("package/module.py", "package.module:f"),
        ("processes.py", "processes:Group.f"),
    ],
)
def test_a_function_beside_the_configuration_is_found(tmp_path: Path, file: str, reference: str) -> None:
    write(tmp_path, file, "def f(bo, event): return 42\nclass Group:\n    f = staticmethod(f)\n")
    assert load_process(reference, str(tmp_path))(None, None) == 42


def test_an_installed_function_is_found(tmp_path: Path) -> None:
    assert load_process("json:dumps", str(tmp_path)) is json.dumps


def test_a_module_of_the_deployment_hides_none_that_is_installed(tmp_path: Path) -> None:
    write(tmp_path, "json.py", "def mine(bo, event): return 'mine'\n")
    assert load_process("json:mine", str(tmp_path))(None, None) == "mine"
    assert sys.modules["json"] is json
    assert sys.path.index(str(tmp_path)) == len(sys.path) - 1


def test_two_deployments_have_a_module_of_one_name_each(tmp_path: Path) -> None:
    for number in (1, 2):
        write(tmp_path / str(number), "processes.py", f"def f(bo, event): return {number}\n")
    found = [load_process("processes:f", str(tmp_path / str(n)))(None, None) for n in (1, 2)]
    assert found == [1, 2]


def test_a_package_comes_before_a_module_of_its_name_as_in_an_import(tmp_path: Path) -> None:
    write(tmp_path, "orders.py", "def f(bo, event): return 'module'\n")
    write(tmp_path, "orders/__init__.py", "def f(bo, event): return 'package'\n")
    assert load_process("orders:f", str(tmp_path))(None, None) == "package"


def test_a_module_is_run_once_for_all_its_functions(tmp_path: Path) -> None:
    write(
        tmp_path,
        "counted.py",
        "def f(bo, event): ...\ndef g(bo, event): ...\n"
        "with open(__file__ + '.ran', 'a') as m: m.write('x')\n",
    )
    for name in ("f", "g", "f"):
        load_process(f"counted:{name}", str(tmp_path))
    assert (tmp_path / "counted.py.ran").read_text() == "x"


def test_a_process_may_import_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path, "prices_of_the_house.py", "PRICE = 7\n")
    write(tmp_path, "processes.py", "from prices_of_the_house import PRICE\ndef f(bo, event): return PRICE\n")
    assert load_process("processes:f", str(tmp_path))(None, None) == 7


@rows(
    "reference, text, words",
    [
        ("processes", "", "is not module:function"),
        (":f", "", "is not module:function"),
        ("processes:", "", "is not module:function"),
        ("processes:g", "def f(bo, event): ...", "has no function g"),
        ("processes:x", "x = 3", "has no function x"),
        (
            "processes:f",
            "1 / 0",
            "importing processes raised ZeroDivisionError: division by zero (processes.py:1)",
        ),
        (
            "processes:f",
            "x = 1\nimport no_such",
            "ModuleNotFoundError: No module named 'no_such' (processes.py:2)",
        ),
        ("processes:f", "def f(:", "importing processes raised SyntaxError"),
        ("processes:f", "raise SystemExit(2)", "importing processes raised SystemExit: 2"),
        ("no_such_module_anywhere:f", "", "importing no_such_module_anywhere raised ModuleNotFoundError"),
    ],
)
def test_what_cannot_be_loaded_says_which_process_and_why(
    tmp_path: Path, reference: str, text: str, words: str
) -> None:
    write(tmp_path, "processes.py", text)
    with pytest.raises(ProcessNotFound) as raised:
        load_process(reference, str(tmp_path))
    assert reference in str(raised.value)
    assert words in str(raised.value)


def test_a_module_that_failed_runs_again_when_it_was_corrected(tmp_path: Path) -> None:
    write(tmp_path, "processes.py", "1 / 0")
    with pytest.raises(ProcessNotFound):
        load_process("processes:f", str(tmp_path))
    write(tmp_path, "processes.py", "def f(bo, event): return 'corrected by now'\n")
    os.utime(tmp_path / "processes.py", (1, 1))  # no compiled file of the first can be meant
    assert load_process("processes:f", str(tmp_path))(None, None) == "corrected by now"


@pytest.fixture(autouse=True)
def _same_path() -> object:
    """Every deployment is appended to ``sys.path``; a test leaves it as it was."""
    before = list(sys.path)
    yield
    sys.path[:] = before
