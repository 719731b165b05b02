"""Checks the data handlers that a configuration names, and their options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from connector.businessobjects.definition import Definitions
from connector.config.metaobjects import Collected, Document
from connector.declare.problem_reporter import ProblemReporter
from connector.declare.python_names import (
    LookupProblem,
    check_class,
    check_function,
    missing_imports,
    missing_imports_of,
    missing_methods,
)
from connector.declare.reading import Location
from connector.errors import ConfigurationError
from connector.formats.catalogue import SHIPPED, Catalogue
from connector.formats.checks import check_mime_type
from connector.formats.datahandler import DataHandler, Option, OptionText, all_options, bare
from connector.formats.handlers import HANDLER_CLASS, HANDLER_METHODS, Handlers, normal_mime_type
from connector.text.names import nearest, shown, twins


def check_handlers(
    texts: Mapping[str, str],
    location: Location,
    collected: Collected,
    catalogue: Catalogue | None,
    directory: Path,
    reporter: ProblemReporter,
) -> None:
    """Reports mistakes in the properties that name a data handler."""
    if (mime_type := texts.get("DataHandlerMimeType")) is not None:
        check_mime_type(mime_type, (*location, "DataHandlerMimeType"), catalogue, reporter)
    if (config := texts.get("DataHandlerConfigMO")) is not None:
        _check_config_mo(config, (*location, "DataHandlerConfigMO"), collected, reporter)
    if (class_name := texts.get("DataHandlerClassName")) is not None:
        _check_handler_class(class_name, (*location, "DataHandlerClassName"), directory, reporter)


def _check_config_mo(name: str, location: Location, collected: Collected, reporter: ProblemReporter) -> None:
    """Reports a data-handler meta-object that is not defined."""
    if name in collected.handler_options or collected.incomplete:
        return
    found = f"there is no data-handler meta-object {shown(name)}"
    reporter.add(location, found, "a datahandler_metaobject", nearest(name, collected.handler_options))


def _check_handler_class(
    reference: str, location: Location, directory: Path, reporter: ProblemReporter
) -> None:
    """Reports a class that does not exist or lacks a method of a data handler."""
    try:
        missing = missing_methods(check_class(reference, directory), HANDLER_METHODS)
    except LookupProblem as error:
        reporter.add(location, error.found, error.expected, error.near)
        return
    if missing:
        class_name = reference.partition(":")[2]
        reporter.add(location, f"{class_name} has no method {missing[0]}", HANDLER_CLASS)


def check_handler_imports(
    collected: Collected, catalogue: Catalogue | None, directory: Path, reporter: ProblemReporter
) -> None:
    """Warns of modules that the code of data handlers and name handlers imports and that are not there."""
    key = "DataHandlerClassName"
    named: list[tuple[ProblemReporter, Location, str | None]] = [
        (reporter, ("connector", key), reporter.leaf("connector", key))
    ]
    for name, static in collected.rules.items():
        document = collected.documents[name]
        named.append((document, ("Default", key), static.defaults.get(key)))
        named += [(document, ("rules", rule, key), texts.get(key)) for rule, texts in static.rules.items()]
    for name, handlers in collected.handler_options.items():
        for mime_type, given in handlers.items():
            function = str(given.get("NameHandlerClass", ""))
            at = ("handlers", mime_type, "NameHandlerClass")
            named.append((collected.documents[name], at, function if _is_function(function) else None))
    for where, location, reference in named:
        for found, expected in missing_imports(reference, directory) if reference else ():
            where.add(location, found, expected, warning=True)
    for info in catalogue.handlers if catalogue is not None else ():
        for found, expected in missing_imports_of(directory / info.path, directory) if info.path else ():
            reporter.add(("datahandlers",), found, expected, warning=True)


def check_made(
    collected: Collected, catalogue: Catalogue | None, definitions: Definitions, directory: Path
) -> None:
    """Makes each shipped data handler that has options, and reports what it refuses: files among others.

    Other handlers are code of users, which is never run here. Their files are looked for.
    """
    if catalogue is None or collected.incomplete:
        return
    for name, handlers in collected.handler_options.items():
        document = collected.documents[name]
        for mime_type, given in handlers.items():
            info = catalogue.find(mime_type)
            texts = {key: bare(value) for key, value in given.items()}
            if info is None or not texts or info.problems(texts):
                continue  # reported already, or nothing to refuse
            location = ("handlers", mime_type)
            function = str(texts.get("NameHandlerClass", ""))
            if _is_function(function):
                _check_name_handler(function, (*location, "NameHandlerClass"), directory, document)
                del texts["NameHandlerClass"]
            if info.origin != SHIPPED:
                _check_files(info.options or (), texts, location, directory, document)
            elif _differs(info.options or (), texts) and not _needs_others(texts, catalogue):
                _check_made(mime_type, texts, definitions, directory, catalogue, document)


def _is_function(text: str) -> bool:
    """Tells whether a name handler is a function of the deployment, ``module:function``."""
    kind, separator, _ = text.partition(":")
    return bool(separator) and kind not in ("key", "jmespath", "xpath")


def _check_name_handler(function: str, location: Location, directory: Path, document: Document) -> None:
    try:
        check_function(function, directory)
    except LookupProblem as error:
        document.add(location, error.found, error.expected, error.near)


def _check_files(
    options: Iterable[Option],
    texts: Mapping[str, OptionText],
    location: Location,
    directory: Path,
    document: Document,
) -> None:
    for option in options:
        text = str(texts.get(option.name, ""))
        if option.type is Path and text and not (directory / text).exists():
            where = (*location, option.name)
            document.add(where, f"there is no {text}", "a file of the deployment", warning=True)


def _differs(options: Iterable[Option], texts: Mapping[str, OptionText]) -> bool:
    """Tells whether an option is not its default. A shipped handler with defaults refuses nothing."""
    defaults = {option.name: option for option in all_options(tuple(options))}
    return any(defaults[name].read(text) != defaults[name].default for name, text in texts.items())


def _needs_others(texts: Mapping[str, OptionText], catalogue: Catalogue) -> bool:
    """Tells whether a handler would make other handlers that are code of users."""
    single = [text for text in texts.values() if isinstance(text, str)]
    return any(_origin(catalogue, text) not in ("", SHIPPED) for text in single if "/" in text)


def _check_made(
    mime_type: str,
    texts: Mapping[str, OptionText],
    definitions: Definitions,
    directory: Path,
    catalogue: Catalogue,
    document: Document,
) -> None:
    try:
        _make_shipped(mime_type, texts, definitions, directory, catalogue)
    except ConfigurationError as error:
        for problem in error.problems:
            option = _named_option(problem.found, texts)
            at = ("handlers", mime_type, option) if option is not None else ("handlers", mime_type)
            document.add(at, problem.found, problem.expected, problem.nearest, at_key=option is None)


def _make_shipped(
    mime_type: str,
    texts: Mapping[str, OptionText],
    definitions: Definitions,
    directory: Path,
    catalogue: Catalogue,
) -> DataHandler:
    shipped = [one for one in catalogue.mime_types if _origin(catalogue, one) == SHIPPED]
    specs = [catalogue.spec(mime_type, texts), *(catalogue.spec(one) for one in shipped if one != mime_type)]
    return Handlers(specs, definitions, directory).get(mime_type)


def shipped_handler(
    mime_type: str,
    given: Mapping[str, OptionText],
    definitions: Definitions,
    directory: Path,
    catalogue: Catalogue,
) -> DataHandler | None:
    """Returns a data handler to write objects with. None = it is code of users, or needs such code.

    Args:
        given: options by their names, as written.

    Raises:
        ConfigurationError: the handler refuses its options.
    """
    mime_type = normal_mime_type(mime_type)
    texts = {key: bare(value) for key, value in given.items() if key != "NameHandlerClass"}
    if _origin(catalogue, mime_type) != SHIPPED or _needs_others(texts, catalogue):
        return None
    return _make_shipped(mime_type, texts, definitions, directory, catalogue)


def _origin(catalogue: Catalogue, mime_type: str) -> str:
    info = catalogue.find(mime_type)
    return "" if info is None else info.origin


def _named_option(reason: str, texts: Mapping[str, OptionText]) -> str | None:
    """Returns the option that an error of a handler is about. None = not known."""
    by_name = [key for key in texts if re.search(rf"\b{re.escape(key)}\b", reason)]
    names = {key: Path(text).name for key, text in texts.items() if isinstance(text, str)}
    by_file = [key for key, name in names.items() if name and name in reason]
    return next(iter([*by_file, *by_name]), None)


def check_options(collected: Collected, catalogue: Catalogue | None) -> None:
    """Reports options that the data handlers do not have, or that have wrong values."""
    if catalogue is None:
        return
    for name, handlers in collected.handler_options.items():
        document = collected.documents[name]
        for earlier, mime_type in twins(handlers, normal_mime_type):
            found = f"{earlier} and {mime_type}, one format"
            document.add(("handlers", mime_type), found, "one of the two", at_key=True)
        for mime_type, given in handlers.items():
            info = catalogue.find(mime_type)
            if info is None:
                check_mime_type(mime_type, ("handlers", mime_type), catalogue, document, at_key=True)
                continue
            known = [option.name for option in all_options(info.options or ())]
            for problem in info.problems({key: bare(value) for key, value in given.items()}):
                is_unknown = problem.name not in known
                document.add(
                    ("handlers", mime_type, problem.name),
                    problem.found,
                    problem.expected,
                    nearest(problem.name, known) if is_unknown else None,
                    at_key=is_unknown,
                )
