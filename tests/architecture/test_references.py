"""Each cross reference in a docstring leads to a class, a function, a method or a constant."""

from __future__ import annotations

import ast
import builtins
import re
from functools import cache

from tests.architecture.test_architecture import MODULES, tree_of
from tests.tables import rows

_REFERENCE = re.compile(r":(?:class|meth|func|mod|data|attr|exc):`~?([^`]+)`")


def _members(body: list[ast.stmt]) -> dict[str, ast.AST]:
    """Returns the names that a module or a class binds, also those under ``if`` and in ``__init__``."""
    found: dict[str, ast.AST] = {}
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = node
            if node.name == "__init__" and isinstance(node, ast.FunctionDef):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
                        found.setdefault(inner.attr, inner)
        elif isinstance(node, ast.ImportFrom):
            found.update({one.asname or one.name: node for one in node.names})
        elif isinstance(node, ast.Assign):
            found.update({one.id: node for one in node.targets if isinstance(one, ast.Name)})
            if "__all__" in found and isinstance(node.value, ast.List):  # also names that are loaded later
                found |= {name: node for name in ast.literal_eval(node.value) if name not in found}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
        elif isinstance(node, ast.If | ast.Try):
            found |= _members([*node.body, *node.orelse])
    return found


@cache
def _members_of(module: str) -> dict[str, ast.AST]:
    return _members(tree_of(module).body)


def _is_member(module: str, names: list[str], inside: ast.ClassDef | None = None) -> bool:
    """Tells whether a path of names leads somewhere from a module, or from a class in that module."""
    members = _members(inside.body) if inside else _members_of(module)
    name, *rest = names
    node = members.get(name)
    if node is None and inside is not None:
        return any(_is_member_of_base(module, base, names) for base in inside.bases)
    if node is None and f"{module}.{name}" in MODULES and inside is None:
        return not rest or _is_member(f"{module}.{name}", rest)
    if isinstance(node, ast.ImportFrom):
        target = f"{node.module}.{name}"
        if target in MODULES:
            return not rest or _is_member(target, rest)
        if node.module in MODULES:
            return _is_member(node.module, names)
        return not rest  # a name of another distribution
    if isinstance(node, ast.ClassDef) and rest:
        return _is_member(module, rest, node)
    return node is not None and not rest


def _is_member_of_base(module: str, base: ast.expr, names: list[str]) -> bool:
    path = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
    members = _members_of(module)
    node = members.get(path)
    if isinstance(node, ast.ClassDef):
        return _is_member(module, names, node)
    if isinstance(node, ast.ImportFrom) and node.module in MODULES:
        other = _members_of(node.module).get(path)
        return isinstance(other, ast.ClassDef) and _is_member(node.module, names, other)
    return False


def _leads_somewhere(module: str, target: str, holders: list[ast.ClassDef]) -> bool:
    names = target.removesuffix("()").split(".")
    if any(_is_member(module, names, holder) for holder in holders) or _is_member(module, names):
        return True
    for length in range(len(names), 0, -1):
        prefix = ".".join(names[:length])
        if prefix in MODULES:
            return length == len(names) or _is_member(prefix, names[length:])
    return names[0] != "connector" and (len(names) > 1 or hasattr(builtins, names[0]))


def _references(module: str) -> list[tuple[str, list[ast.ClassDef]]]:
    found: list[tuple[str, list[ast.ClassDef]]] = []

    def visit(node: ast.AST, holders: list[ast.ClassDef]) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.extend((target, holders) for target in _REFERENCE.findall(node.value))
        inner = [node, *holders] if isinstance(node, ast.ClassDef) else holders
        for child in ast.iter_child_nodes(node):
            visit(child, inner)

    visit(tree_of(module), [])
    return found


@rows("module", sorted(MODULES))
def test_each_cross_reference_leads_somewhere(module: str) -> None:
    assert [
        target for target, holders in _references(module) if not _leads_somewhere(module, target, holders)
    ] == []
