"""Whatever a configuration says, the check answers with problems."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connector.config.loading import check
from connector.declare.problems import Problems
from connector.declare.tree import parse
from connector.errors import Problem

SOURCE = Path(__file__).parent / "deployment"
FILES = {str(path.relative_to(SOURCE)): path.read_text("utf-8") for path in sorted(SOURCE.rglob("*.yaml"))}

words = sorted({word for text in FILES.values() for word in text.replace(":", " ").split()})
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=8),
    st.sampled_from(words),
    st.sampled_from(
        ["queue://x", "topic://t", "${X}", "${HOME}", "$${", "a=b;c", "*", "local[2]", "10ms", "a:b"]
    ),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(words), st.text(max_size=5)), inner, max_size=3),
    ),
    max_leaves=6,
)


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        found.extend(places(child, (*path, key)))
    return found


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, str]:
    """One of the files with some of its values replaced, taken out or renamed."""
    name = draw(st.sampled_from(sorted(FILES)))
    documents = list(yaml.safe_load_all(FILES[name]))
    for _ in range(draw(st.integers(1, 4))):
        if not documents:
            break
        where = draw(st.sampled_from(places(documents)))
        holder: Any = documents
        try:
            for step in where[:-1]:
                holder = holder[step]
            action = draw(st.sampled_from(["replace", "remove", "rename"]))
            if action == "replace":
                holder[where[-1]] = draw(values)
            elif action == "remove" or isinstance(holder, list):
                del holder[where[-1]]
            else:
                holder[draw(st.sampled_from(words))] = holder.pop(where[-1])
        except (KeyError, IndexError, TypeError):
            continue
    return name, yaml.safe_dump_all(documents, sort_keys=False)


def answers(directory: Path, name: str, text: str) -> list[Problem]:
    """What the check says about the deployment with one of its files replaced."""
    for file, content in (FILES | {name: text}).items():
        path = directory / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, "utf-8")
    before = sorted(str(path) for path in directory.rglob("*"))
    problems = check(directory / "adapter.yaml", {"HOME": "/home/x"})
    assert sorted(str(path) for path in directory.rglob("*")) == before
    for problem in problems:
        assert problem.file
        assert problem.found
        assert "\n" not in str(problem)
    return problems


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@given(change=mutated())
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_a_mutated_configuration_is_answered_with_problems_and_makes_no_file(
    directory: Path, change: tuple[str, str]
) -> None:
    answers(directory, *change)


@given(
    start=st.integers(0, 900),
    length=st.integers(0, 12),
    text=st.text(st.characters(codec="utf-8"), max_size=6),
    name=st.sampled_from(sorted(FILES)),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_a_text_with_a_slip_of_the_pen_is_answered_with_problems(
    directory: Path, start: int, length: int, text: str, name: str
) -> None:
    whole = FILES[name]
    answers(directory, name, whole[:start] + text + whole[start + length :])


@given(content=st.binary(max_size=200))
@settings(max_examples=100)
def test_bytes_of_any_kind_are_answered_with_problems(directory: Path, content: bytes) -> None:
    file = directory / "bytes.yaml"
    file.write_bytes(content)
    assert check(file, {}) != []


@given(text=st.text(alphabet=st.characters(codec="utf-8"), max_size=30))
@settings(max_examples=100)
def test_a_quoted_text_is_read_as_it_stands(text: str) -> None:
    problems = Problems()
    document = yaml.safe_dump({"key": text}, allow_unicode=False)
    tree = parse(document, os.devnull, problems)
    assert tree is not None
    assert str(tree[0].entries["key"]) == text  # type: ignore[union-attr]
