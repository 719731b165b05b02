"""``connector new types``: writes a module of classes for the definitions, for editors and type checkers."""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from connector import own_files
from connector.authoring.metaobject_files import surroundings, write_files
from connector.businessobjects.definition import Definitions, Field
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import DECIMAL, HELD_AS_TEXT, TEXTS
from connector.cli.common import BadArgument, answer, answer_json, counted
from connector.config.metaobject_lint import check_metaobjects, only_metaobjects
from connector.config.metaobjects import collect
from connector.declare.problems import Position, Problems
from connector.errors import ConfigurationError

_FILE: Final = "business_objects.py"
_HEAD: Final = '''\
"""The business objects of this deployment, for editors and type checkers.

Written by ``connector new types``. An object that a process gets is a BusinessObject, not of these classes.
"""

from __future__ import annotations

from decimal import Decimal as _Decimal
from typing import TypeAlias as _TypeAlias

from connector.businessobjects.instance import BusinessObject as _BusinessObject
'''
_TYPES: Final = {
    **dict.fromkeys(HELD_AS_TEXT, "str"),
    "Boolean": "bool",
    "Integer": "int",
    "Float": "float",
    "Double": "float",
    DECIMAL: "_Decimal",
}
_TAKEN: Final = frozenset({"str", "bool", "int", "float", "list", "None"})
"""Names that the annotations need."""


def new_types(file: str | None, config: str, *, force: bool, as_json: bool) -> None:
    """Writes the module.

    Args:
        file: path of the module. None = ``business_objects.py`` beside ``config``. ``-`` = stdout.
        config: path of ``adapter.yaml``. Need not exist; then the directory ``metaobjects`` counts.

    Raises:
        ConfigurationError: the definitions have mistakes.
        BadArgument: the file exists, or cannot be written.
    """
    definitions = _read(config)
    if not definitions:
        raise BadArgument("there is no business object; connector new businessobject drafts one")
    text = module_text(definitions)
    if file == "-":
        answer(text.removesuffix("\n"))
        return
    path = Path(file) if file is not None else Path(config).parent / _FILE
    if not path.stem.isidentifier() or path.suffix not in (".py", ".pyi"):
        raise BadArgument(f"{path}: expected the name of a Python module, such as {_FILE}")
    try:
        own_files.make_directories(path.parent)
        write_files(path.parent, {path.name: text}, force=force)
    except FileExistsError:
        raise BadArgument(f"there is {path} already; --force replaces the file") from None
    except OSError as error:
        raise BadArgument(f"cannot write {error.filename}: {error.strerror}") from None
    if as_json:
        answer_json({"file": str(path), "objects": list(definitions)})
        return
    answer(f"wrote {path}: {counted(len(definitions), 'business object')}")


def _read(config: str) -> Definitions:
    deployment = surroundings(config)
    sources = deployment.metaobjects or (deployment.home,)
    problems = Problems()
    collected = collect([(path, shown, Position(shown), "") for path, shown in sources], problems)
    found = check_metaobjects(collected, deployment.catalogue(), deployment.directory).definitions
    if problems.errors:
        raise ConfigurationError(problems.sorted())
    return found


def module_text(definitions: Definitions) -> str:
    """Returns the text of a module with a class for each definition that can have one."""
    with_class = [name for name in definitions if _is_plain(name)]
    metaobjects = only_metaobjects(definitions)
    parts = [_HEAD]
    for name in with_class:
        parts.append("\n\n" + "\n".join(_class(definitions, name, name in metaobjects)) + "\n")
    children = {
        attribute.type
        for definition in definitions.values()
        for attribute in definition.attributes.values()
        if attribute.is_child
    }
    # An attribute may have the name of its class, which an annotation then does not find.
    aliases = [f'_{name}: _TypeAlias = "{name}"\n' for name in with_class if name in children]
    return "".join(parts) + ("\n\n" if aliases else "") + "".join(aliases)


def _class(definitions: Definitions, name: str, is_metaobject: bool) -> Iterator[str]:
    schema = definitions.schema(name)
    required = () if is_metaobject else schema.required
    yield f"class {name}(_BusinessObject):"
    yield f'    """Business object {name}, version {schema.definition.version}."""'
    yield ""
    for field in schema.fields.values():
        kind = _type_of(field, is_always_set=field in required)
        if _is_plain(field.name) and not hasattr(BusinessObject, field.name):
            yield f"    {field.name}: {kind}"
        else:
            yield f'    # bo["{field.name}"]: {kind}'


def _type_of(field: Field, *, is_always_set: bool) -> str:
    attribute = field.attribute
    if attribute.is_child:
        kind = f"_{attribute.type}" if _is_plain(attribute.type) else "_BusinessObject"
    else:
        kind = _TYPES[attribute.type]
    if field.many:
        kind = f"list[{kind}]"
    reads_blank_as_none = not attribute.is_child and attribute.type not in TEXTS and field.may_be_blank
    return kind if is_always_set and not reads_blank_as_none else f"{kind} | None"


def _is_plain(name: str) -> bool:
    """Tells whether a class or an attribute in a class can have a name."""
    return name.isidentifier() and not keyword.iskeyword(name) and name[0] != "_" and name not in _TAKEN
