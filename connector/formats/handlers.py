"""The picklable recipes of handlers, and the handlers of a worker."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from connector.businessobjects.definition import Definitions
from connector.businessobjects.name_handlers import NameHandler, make_name_handler
from connector.businessobjects.rules import HANDLER_KEYS
from connector.errors import ConfigurationError, Problem
from connector.formats.datahandler import DataHandler, OptionValue, resolve_options
from connector.modules import load_file
from connector.text.names import did_you_mean
from connector.tracebacks import failure_text

OPTIONS_KEY: Final = "DataHandlerConfigMO"
"""The property that names the data-handler meta-object with the options."""

_SHIPPED: Final = "connector.datahandlers."

HANDLER_METHODS: Final = ("to_business_object", "to_body")
HANDLER_CLASS: Final = "a class with mime_types, options, to_business_object and to_body"
"""The text that errors use for a valid data handler class."""


@dataclass(frozen=True, slots=True)
class HandlerSpec:
    """A recipe for a handler. Picklable. Made by :class:`~connector.formats.catalogue.Catalogue`.

    Args:
        mime_type: the key of the handler. For a handler that is named by its class
            (``DataHandlerClassName``), the key is that name: ``my_handlers:Csv``.
        class_name: the class within the module.
        module: the module to import. Empty when ``path`` is given.
        path: the plug-in's file, or directory of a package. A relative path counts from the
            deployment's directory, so that the path holds on every worker.
        options: as configured. They are checked when the handler is made.
        config: the data-handler meta-object that the options are from. Empty = the connector's.
    """

    mime_type: str
    class_name: str
    module: str = ""
    path: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    config: str = ""

    @property
    def reference(self) -> str:
        """``module:Class`` or ``file.py:Class``, for people."""
        return f"{self.path or self.module}:{self.class_name}"


def is_harmless(spec: HandlerSpec) -> bool:
    """Whether making a handler cannot fail: it is shipped, and has no options."""
    return spec.module.startswith(_SHIPPED) and not spec.options


class Handlers:
    """The handlers of one worker. Each handler is made at the first use.

    Args:
        base: the deployment's directory. Relative plug-in paths count from there.
    """

    def __init__(self, specs: Iterable[HandlerSpec], definitions: Definitions, base: Path) -> None:
        self._specs = {(spec.mime_type, spec.config): spec for spec in specs}
        self._definitions = definitions
        self._base = base
        self._made: dict[tuple[str, str], DataHandler] = {}
        self._named: dict[tuple[str, str], NameHandler | None] = {}

    @property
    def deployment(self) -> str:
        return str(self._base)

    def get(self, mime_type: str, config: str = "") -> DataHandler:
        """Returns the handler for a MIME type. Parameters of the MIME type (``; charset=...``) do not count.

        Args:
            mime_type: the MIME type, or ``module:Class`` of a handler that is named so.
            config: the data-handler meta-object. Empty = the connector's own.

        Raises:
            ConfigurationError: there is no such handler, or loading fails, or the options are wrong.
        """
        handler = self._made.get((mime_type, config))
        if handler is None:
            handler = self._made[mime_type, config] = self._make(mime_type, config)
        return handler

    def name_handler(self, mime_type: str, config: str = "") -> NameHandler | None:
        """Returns the name handler of a data handler (``NameHandlerClass``). None = the handler has none.

        Args, Raises: as :meth:`get`.
        """
        self.get(mime_type, config)
        name = (mime_type, config)
        return self._named.get(name) or self._named.get((normal_mime_type(mime_type), config))

    def is_contained(self, mime_type: str, config: str = "") -> bool:
        """Whether a data handler runs neither code nor rules of the deployment, such as a schema.

        Args: as :meth:`get`.
        """
        spec = self._spec(mime_type, config)
        if spec is None or not spec.module.startswith(_SHIPPED):
            return False
        handler = self.get(mime_type, config)
        declared = {option.name: option.type for option in handler.options}
        has_file = any(value and declared.get(name) is Path for name, value in spec.options.items())
        return not (has_file or hasattr(handler, "use_handlers"))

    def _spec(self, mime_type: str, config: str) -> HandlerSpec | None:
        return self._specs.get((mime_type, config)) or self._specs.get((normal_mime_type(mime_type), config))

    def load_all(self) -> None:
        """Makes the handlers now, so that a mistake shows at the start.

        A shipped handler without options has no mistake, so it waits for its first use.

        Raises:
            ConfigurationError: with the mistakes of all handlers.
        """
        problems: list[Problem] = []
        for (mime_type, config), spec in self._specs.items():
            if is_harmless(spec):
                continue
            try:
                self.get(mime_type, config)
            except ConfigurationError as error:
                problems.extend(error.problems)
        if problems:
            raise ConfigurationError(problems)

    def _make(self, mime_type: str, config: str) -> DataHandler:
        spec = self._spec(mime_type, config)
        if spec is None:
            names = [name for name, of in self._specs if of == config]
            found = f"no data handler for {mime_type!r}" + (f" in {config}" if config else "")
            expected = f"one of {', '.join(names) or 'none'}{did_you_mean(mime_type, names)}"
            raise ConfigurationError([Problem("data handlers", 0, 0, "", found, expected)])
        made = self._made.get((spec.mime_type, config))
        if made is not None:
            return made
        handler_class = load_class(spec, self._base)
        options = resolve_options(
            getattr(handler_class, "options", ()),
            spec.options,
            spec.config or f"data handler {spec.reference}",
            self._base,
        )
        declared = {option.name: options[option.name] for option in getattr(handler_class, "options", ())}
        handler = _instantiate(handler_class, declared, self._definitions, spec, self._base)
        text = str(options["NameHandlerClass"])
        name = make_name_handler(text, str(options.get("BOPrefix", "")), self._base) if text else None
        self._named[spec.mime_type, config] = name
        if hasattr(handler, "use_handlers"):
            try:
                handler.use_handlers(lambda inner: self.get(inner, config), name)
            except ValueError as error:
                raise _refusal(spec, str(error)) from error
        return handler


def choose_handler(levels: Iterable[Mapping[str, str]], default: str) -> tuple[str, str]:
    """Returns the data handler of an event or a request, as the two arguments of :meth:`Handlers.get`.

    The first level that names a handler counts. A handler that is named by its class has no options
    (WBI Adapter for JMS, "Data handlers"), so DataHandlerConfigMO has no effect. For a MIME type the
    first level with a DataHandlerConfigMO counts. Blank values are undefined.

    Args:
        levels: the properties of the meta-objects, in the order in which they count. The
            handler of a :class:`~connector.businessobjects.rules.Rule` has ``Default`` in them already.
        default: MIME type or class of the connector's default data handler.

    Returns:
        the MIME type or class, and the data-handler meta-object. The meta-object is empty for a class, and
        when the connector's own counts.
    """
    known = list(levels)
    named = _first((level.get(key, "") for level in known for key in HANDLER_KEYS), default)
    if ":" in named:  # a class is module:Class, and no MIME type has a colon
        return named, ""
    return named, _first((level.get(OPTIONS_KEY, "") for level in known), "")


def _first(texts: Iterable[str], default: str) -> str:
    return next((text.strip() for text in texts if text.strip()), default)


def normal_mime_type(text: str) -> str:
    """Returns a MIME type in the form of the keys of handlers: lower case, without parameters."""
    return text.partition(";")[0].strip().lower()


def load_class(spec: HandlerSpec, base: Path) -> type[DataHandler]:
    """Imports the class of a handler. Runs the module.

    Raises:
        ConfigurationError: the import fails, or the class is no data handler. The text gives the reason.
    """
    try:
        module = load_file(base / spec.path) if spec.path else importlib.import_module(spec.module)
    except (Exception, SystemExit) as error:  # a user's module may raise any exception
        raise _load_failure(spec, f"cannot be loaded: {failure_text(error, None, str(base))}") from error
    handler_class = getattr(module, spec.class_name, None)
    if handler_class is None:
        classes = [name for name, value in vars(module).items() if isinstance(value, type)]
        raise _load_failure(spec, f"has no {spec.class_name}{did_you_mean(spec.class_name, classes)}")
    if not isinstance(handler_class, type):
        raise _load_failure(spec, f"{spec.class_name} is no class")
    if getattr(handler_class, "options", None) is vars(DataHandler)["options"]:
        raise _load_failure(spec, f"{spec.class_name} inherits from DataHandler, and has no options")
    for name in HANDLER_METHODS:
        method = getattr(handler_class, name, None)
        if not callable(method) or method is vars(DataHandler)[name]:
            raise _load_failure(spec, f"{spec.class_name} has no method {name}")
    return handler_class


def _instantiate(
    handler_class: type[DataHandler],
    options: Mapping[str, OptionValue],
    definitions: Definitions,
    spec: HandlerSpec,
    base: Path,
) -> DataHandler:
    try:
        return handler_class(options, definitions)
    except ValueError as error:  # the form of a constructor for options that it cannot use
        raise _refusal(spec, failure_text(error, None, str(base)).removeprefix("ValueError: ")) from error
    except (Exception, SystemExit) as error:  # a user's constructor may raise any exception
        raise _refusal(spec, f"cannot be made: {failure_text(error, None, str(base))}") from error


def _refusal(spec: HandlerSpec, reason: str) -> ConfigurationError:
    """Returns the error for a handler that cannot be made with its options."""
    where = f"{spec.config}.handlers.{spec.mime_type}" if spec.config else ""
    return ConfigurationError([Problem(f"data handler {spec.reference}", 0, 0, where, reason, "")])


def _load_failure(spec: HandlerSpec, found: str) -> ConfigurationError:
    return ConfigurationError([Problem(f"data handler {spec.reference}", 0, 0, "", found, HANDLER_CLASS)])
