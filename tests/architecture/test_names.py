"""Names that a reader meets have one meaning each."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.architecture.test_architecture import MODULES, tree_of


def test_a_public_class_has_a_name_of_its_own() -> None:
    places = defaultdict(list)
    for module in MODULES:
        for node in tree_of(module).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module)
    shared = {name: found for name, found in places.items() if len(found) > 1}
    assert shared == {}
