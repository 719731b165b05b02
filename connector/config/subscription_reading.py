"""Reads the entries of ``subscriptions``, each with the model of its sink."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from connector.businessobjects.object_map import ObjectMap
from connector.config.sinks import SINKS
from connector.declare.problems import Problems
from connector.declare.reading import SectionReader, expected_key, field_names, join
from connector.declare.tree import Items, Leaf, Node, Table, is_absent
from connector.declare.value_types import words
from connector.plugins import PlugInError
from connector.sinks.mapped_entry import MapName, MappedEntry
from connector.sinks.subscription_model import CommonEntry, SinkEntry

NO_MAPS: Final[Mapping[str, ObjectMap]] = {}


@dataclass(frozen=True, slots=True)
class ReadEntry:
    """An entry that could be read.

    Args:
        index: the position in the file.
        key: the key of the sink. Empty = the entry names no sink.
        entry: a :class:`SinkEntry` if the sink's keys could be read.
    """

    index: int
    key: str
    entry: CommonEntry

    @property
    def name(self) -> str:
        """The name of the subscription: its own, or the object and the target of the delivery."""
        target = self.entry.target() if isinstance(self.entry, SinkEntry) else "?"
        return self.entry.name or f"{self.entry.object} {target}"


@dataclass(frozen=True, slots=True)
class SubscriptionReader:
    """Reads the entries of one file."""

    reader: SectionReader

    @property
    def problems(self) -> Problems:
        return self.reader.problems

    def read(
        self, subscriptions: Node | None, maps: Mapping[str, ObjectMap] = NO_MAPS
    ) -> Iterator[ReadEntry]:
        """Yields the entries that could be read.

        Args:
            subscriptions: the list. Values that are no list or no mapping are reported elsewhere.
            maps: by their names. Each entry with ``map`` gets to know what its map makes.
        """
        for index, node in enumerate(subscriptions.items if isinstance(subscriptions, Items) else ()):
            if isinstance(node, Table):
                key, entry = self._entry(node, f"subscriptions[{index}]")
                if isinstance(entry, MappedEntry) and (found := maps.get(entry.map or "")) is not None:
                    entry = entry.model_copy(update={"map": MapName.of(found)})
                if entry is not None:
                    yield ReadEntry(index, key, entry)

    def _entry(self, node: Table, path: str) -> tuple[str, CommonEntry | None]:
        named = [key for key in node.entries if key in SINKS.names and not is_absent(node.entries[key])]
        if not named:
            return "", self._without_sink(node, path)
        key, *others = named
        if others:
            self.problems.add(
                node.entries[named[-1]].position,
                join(path, named[-1]),
                words([f"a {one}" for one in named]).replace(" or ", " and "),
                "a subscription for each",
            )
        model = self.reader.model_of(lambda: SINKS.load(key), node.keys[key].position, join(path, key))
        if model is None:
            return "", None
        node = self._without_foreign(node, path, key, named)
        read = self.reader.read(model, node, path)
        return key, read.section or self._common(node, path, Problems())

    def _without_foreign(self, node: Table, path: str, key: str, named: list[str]) -> Table:
        """Returns the entry without the keys of other sinks, which are reported."""
        own = field_names(SINKS.load(key), ())
        foreign = {one for one in named if one not in own}
        for other, value in node.entries.items():
            if other in own or other in foreign:
                continue
            having = [
                f"a {sink}"
                for sink, entry in SINKS.usable()
                if other in field_names(entry, ()) and other not in entry.refused
            ]
            if having:
                foreign.add(other)
                if len(named) == 1 and not is_absent(value):
                    expected = f"it with {words(having)} only"
                    self.problems.add(value.position, join(path, other), f"{other} of a {key}", expected)
        return node.only(node.keys.keys() - foreign)

    def _without_sink(self, node: Table, path: str) -> CommonEntry | None:
        """Reports an entry without a sink. Returns the keys that all entries have in common."""
        known = dict.fromkeys([*SINKS.names, *field_names(CommonEntry, ())])
        known.update((key, None) for _, entry in SINKS.usable() for key in field_names(entry, ()))
        is_explained = False
        misspelt: dict[str, str] = {}
        for key, value in node.entries.items():
            position = node.keys[key].position
            if key in SINKS.names:  # a variable without a value, reported already if it is not set
                is_explained |= self.problems.is_reported(value.position)
            elif key not in known:
                expected, near = expected_key(key, [*known], self.reader.home_of)
                self.problems.add(position, join(path, key), "unknown key", expected, near)
                if near is not None and near in SINKS.names:
                    misspelt[near] = key
        if len(misspelt) == 1:
            return self._read_misspelt(node, path, *misspelt.popitem())
        if not (is_explained or misspelt):
            self.problems.add(node.position, path, *self._no_sink())
        return self._common(node, path, self.problems)

    def _read_misspelt(self, node: Table, path: str, key: str, written: str) -> CommonEntry | None:
        """Reports the other mistakes of an entry whose sink has a misspelt key."""
        try:
            model = SINKS.load(key)
        except PlugInError:
            return self._common(node, path, self.problems)
        meant = node.only(field_names(model, ()))
        as_written = node.keys[written]
        meant.put(Leaf.of(key, as_written.position, raw=as_written.raw), node.entries[written])
        self.reader.read(model, meant, path)
        return self._common(node, path, Problems())

    def _common(self, node: Table, path: str, problems: Problems) -> CommonEntry | None:
        """Returns the keys that all entries have in common, so that they are checked in spite of mistakes."""
        kept = node.only(field_names(CommonEntry, ()))
        return SectionReader(problems, self.reader.directory).read(CommonEntry, kept, path).section

    def _no_sink(self) -> tuple[str, str]:
        keys = SINKS.names
        if not keys:
            return (
                "no sink is installed, not even the connector's own",
                "the connector installed anew (script/bootstrap): its entry points are of another version",
            )
        return f"neither {' nor '.join(keys)}", "one of them: who gets the business object"
