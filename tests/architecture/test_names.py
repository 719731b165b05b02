"""Names that a reader meets have one meaning each."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.architecture.test_architecture import MODULES, ROOT, folder_of, tree_of

FORMS = {
    **dict.fromkeys(("channel", "channels"), "channel"),
    **dict.fromkeys(("pause", "pauses", "paused", "pausing", "pausable"), "pause"),
    **dict.fromkeys(("plan", "plans", "planned", "planner", "planning"), "plan"),
    **dict.fromkeys(("subscription", "subscriptions"), "subscription"),
    **dict.fromkeys(("wait", "waits", "waited", "waiting", "waiter", "waiters"), "wait"),
    **dict.fromkeys(("await", "awaits", "awaited", "awaiting"), "wait"),
}
"""The forms of the words of the glossary that have folders."""

Named = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def glossary() -> list[tuple[str, set[str]]]:
    """The rows of the glossary that name the folders of a word."""
    page = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    _, _, table = page.partition("| word | folders | meaning |\n|---|---|---|\n")
    rows = (line.split("|") for line in table.partition("\n\n")[0].splitlines())
    return [(row[1].strip(), set(re.findall(r"`(\w+)`", row[2]))) for row in rows]


def words_of(name: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_", " ", name)
    return spaced.lower().split()


def names_in(module: str) -> Iterator[str]:
    yield from module.split(".")[1:]
    yield from (node.name for node in ast.walk(tree_of(module)) if isinstance(node, Named))


def test_a_public_class_has_a_name_of_its_own() -> None:
    places = defaultdict(list)
    for module in MODULES:
        for node in tree_of(module).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module)
    shared = {name: found for name, found in places.items() if len(found) > 1}
    assert shared == {}


def test_a_word_of_the_glossary_stands_in_names_of_its_folders_alone() -> None:
    said: dict[str, list[str]] = defaultdict(list)
    for word, folders in glossary():
        said[word] += folders  # a folder in two rows would have two meanings, and makes the lists differ
    found: dict[str, set[str]] = defaultdict(set)
    for module in MODULES:
        for name in names_in(module):
            for word in words_of(name):
                if word in FORMS:
                    found[FORMS[word]].add(folder_of(module))
    assert {word: sorted(folders) for word, folders in said.items()} == {
        word: sorted(folders) for word, folders in found.items()
    }


def test_a_wait_is_no_number_of_seconds() -> None:
    wrong = [
        f"{module}.{node.name}"
        for module in MODULES
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and words_of(node.name)[-1:] in (["wait"], ["waits"])
        and node.returns is not None
        and re.search(r"\b(float|int)\b", ast.unparse(node.returns))
    ]
    assert wrong == []
