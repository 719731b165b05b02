"""Makes static meta-objects of their texts: the rules for what comes, and the entries for what is sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from connector.businessobjects.definition import Definitions
from connector.businessobjects.rules import (
    HANDLER_KEYS,
    OutputEntry,
    Rule,
    StaticMetaObject,
    complete_properties,
    split_rule_name,
)
from connector.config.expression_lint import lookups_of
from connector.config.handler_lint import check_handlers
from connector.config.metaobject_model import MATCH_KEYS
from connector.config.metaobjects import Collected, Document
from connector.declare.tree import Leaf
from connector.formats.catalogue import Catalogue
from connector.formats.handlers import OPTIONS_KEY
from connector.messaging.destination import parse_destination
from connector.messaging.selector import selector_text
from connector.text.names import nearest, shown

if TYPE_CHECKING:
    from connector.businessobjects.lookups import Lookups

_MQ_ONLY: Final = {
    "CollaborationName": "it left out, and a subscription with reply: true",
    "DataEncoding": "it left out, and the option charset of the data handler",
}
_READING: Final = (*HANDLER_KEYS, OPTIONS_KEY)
"""The properties that choose a data handler, for messages that come and for those that are sent."""


def make_static(
    name: str, known: Definitions, collected: Collected, catalogue: Catalogue | None, directory: Path
) -> StaticMetaObject:
    """Returns a static meta-object without the parts that are wrong. Reports these."""
    document, texts = collected.documents[name], collected.rules[name]
    check_handlers(texts.defaults, ("Default",), collected, catalogue, directory, document)
    _check_mq(texts.defaults, ("Default",), document)
    defaults = {key: str(text) for key, text in texts.defaults.items()}
    rules: list[Rule] = []
    properties: dict[str, dict[str, str]] = {}
    for rule_id, given in texts.rules.items():
        check_handlers(given, ("rules", rule_id), collected, catalogue, directory, document)
        _check_mq(given, ("rules", rule_id), document)
        rule_name, number = texts.numbers.get(rule_id, (rule_id, None))
        pair = _pair(rule_id, rule_name, document, known, collected)
        if pair is None:
            continue
        own = {key: str(text) for key, text in given.items() if key not in MATCH_KEYS}
        properties[rule_id] = complete = complete_properties(own, defaults)
        handler: dict[str, str] = {key: complete[key] for key in _READING if key in complete}
        lookups = _lookups(given.get("jmespath"), ("rules", rule_id, "jmespath"), document)
        rules.append(replace(_make_rule(rule_name, number, pair, given, handler), lookups=lookups))
    _check_ambiguity(rules, document)
    entries = tuple(_entries(rules, properties, texts.rules, document))
    return StaticMetaObject(name, tuple(rules), defaults, entries)


def _make_rule(
    name: str,
    number: int | None,
    pair: tuple[str, str],
    texts: Mapping[str, Leaf],
    handler: Mapping[str, str],
) -> Rule:
    destination = texts.get("InputDestination")
    return Rule(
        name,
        *pair,
        str(texts["InputFormat"]) if "InputFormat" in texts else None,
        parse_destination(destination) if destination is not None else None,
        handler,
        str(selector_text(texts.get("selector"))) or None,
        str(texts["jmespath"]) if "jmespath" in texts else None,
        int(texts.get("rule_priority", "0")),
        names_handler=any(key in texts for key in HANDLER_KEYS),
        number=number,
    )


def _lookups(expression: Leaf | None, where: tuple[str, ...], document: Document) -> Lookups | None:
    """Returns the tables of the expression of a rule, from files beside its own file. None = it has none."""
    if expression is None:
        return None
    try:
        return lookups_of(str(expression), Path(document.tree.position.file).parent)
    except ValueError as error:
        found, _, expected = str(error).partition(", expected ")
        document.add(where, found, expected)
        return None


def _entries(
    rules: Sequence[Rule],
    properties: Mapping[str, Mapping[str, str]],
    texts: Mapping[str, Mapping[str, Leaf]],
    document: Document,
) -> Iterator[OutputEntry]:
    """Yields what is said for sending. Of a list of rules that is the one with properties for it.

    Args:
        properties: of each rule, by its id.
        texts: the own properties of each rule, by its id.
    """
    listed: dict[str, str] = {}
    for rule in rules:
        if rule.number is not None:
            output = [key for key in texts[rule.id] if key not in (*MATCH_KEYS, *_READING, *_MQ_ONLY)]
            if not output:
                continue
            first = listed.setdefault(rule.name, rule.id)
            if first != rule.id:
                line = document.key_position("rules", first).line
                document.add(
                    ("rules", rule.id, output[0]),
                    f"{first} in line {line} says how {rule.verb} of {rule.object} is sent, too",
                    "properties for sending in one rule of the list",
                    at_key=True,
                )
                continue
        yield OutputEntry(rule.id, rule.object, rule.verb, properties[rule.id])


def _check_mq(texts: Mapping[str, Leaf], location: tuple[str, ...], document: Document) -> None:
    """Warns of properties that only adapters for WebSphere MQ had."""
    for key, instead in _MQ_ONLY.items():
        if key in texts:
            document.add(
                (*location, key), "a property of WebSphere MQ adapters has no effect", instead, warning=True
            )


def _pair(
    rule_id: str, name: str, document: Document, known: Definitions, collected: Collected
) -> tuple[str, str] | None:
    pairs = split_rule_name(name, known)
    if len(pairs) == 1:
        return pairs[0]
    if pairs:
        found = f"{name!r} can mean {' or '.join(f'{verb} of {of}' for of, verb in pairs)}"
        document.add(("rules", rule_id), found, "the name of one business object and verb", at_key=True)
    elif not collected.incomplete:
        defined = [f"{of}_{verb}" for of, definition in known.items() for verb in definition.verbs]
        document.add(
            ("rules", rule_id),
            f"no business object and verb for {shown(name)}",
            "<business object>_<verb>, both defined",
            nearest(name, defined),
            at_key=True,
        )
    return None


def _check_ambiguity(rules: Sequence[Rule], document: Document) -> None:
    first: dict[object, Rule] = {}
    for rule in rules:
        if not rule.has_match_key:
            continue
        keys = (
            rule.input_format,
            rule.input_destination,
            rule.selector,
            rule.jmespath,
            rule.rule_priority,
        )
        other = first.setdefault(keys, rule)
        if other is not rule:
            document.add(
                ("rules", rule.id),
                f"the same match keys as {other.id}: several matching rules count as none",
                "match keys of its own",
                at_key=True,
                warning=True,
            )
