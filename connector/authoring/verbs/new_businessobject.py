"""``connector new businessobject``: drafts the definition of a business object."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from connector.authoring.metaobject_files import (
    SUFFIX,
    Neighbours,
    existing,
    surroundings,
    write_files,
)
from connector.authoring.metaobject_text import file_text
from connector.businessobjects.definition import SIMPLE_TYPES
from connector.cli.common import BadArgument, answer, answer_json, note
from connector.config.metaobject_model import NAME_RULE, is_name
from connector.errors import ConfigurationError, MalformedData
from connector.printable import printable

_SKELETON: Final = """\
# A business object. The keys stand in docs/reference/configuration.md.
business_object: {name}
version: 1.0.0
# app_specific_info: cw_mo_conn=Meta      # the attribute that holds the dynamic meta-object
verbs:                                    # what can happen to it
  Create:
  Update:
  Delete:
  Retrieve:
attributes:                               # in the order of a body
  Id: {{type: String, key: true, required: true, max_length: 20}}
  # Name: String                          # short for {{type: String}}
  # Amount: Double                        # or LongText, Ciphertext, Boolean, Integer, Float, Date
  # Line: {{type: {child}, cardinality: n}}  # a list of another business object
# ---
# business_object: {child}
# attributes:
#   Article: {{type: String, key: true}}
"""


def new_businessobject(
    name: str,
    sample: Path | None,
    format_name: str | None,
    schemas: Path | None,
    into: Path | None,
    config: str,
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Drafts a definition and writes its file.

    Args:
        sample: a body or a schema. None = a skeleton is written.
        format_name: of the sample. None = by its suffix and content.
        schemas: the directory with the files that a schema includes. None = the directory of ``config`` if
            the schema lies there or below, else the one above that of the schema.
        into: the directory. None = the first one of the configuration, else ``metaobjects`` beside the file.
        config: ``adapter.yaml``, which need not exist.
    """
    _check_arguments(name, sample, format_name, schemas)
    deployment = surroundings(config)
    target = (into, str(into)) if into is not None else deployment.home
    file = f"{name}{SUFFIX}"
    if not force and existing(target[0], [file]):
        raise BadArgument(f"there is {os.path.join(target[1], file)} already; --force replaces the file")
    neighbours = Neighbours(deployment, target, [file] if force else ())
    taken = neighbours.names()
    if name in taken:
        raise BadArgument(f"{name} is defined already, in {taken[name]}")
    if sample is None:
        text, objects = _SKELETON.format(name=name, child=f"{name[:70]}_Line"), [name]
        checks, left_out = ["this is a skeleton: write the attributes"], list[str]()
    else:
        if schemas is None and sample.resolve().is_relative_to(deployment.directory.resolve()):
            schemas = deployment.directory
        text, objects, checks, left_out = _draft(name, sample, format_name, schemas, list(taken))
    mistakes = [problem for problem in neighbours.check({file: text}) if not problem.warning]
    if mistakes:
        raise ConfigurationError(mistakes)
    try:
        write_files(target[0], {file: text}, force=force)
    except OSError as error:
        raise BadArgument(f"cannot write {error.filename}: {error.strerror}") from None
    path = os.path.join(target[1], file)
    _show(path, objects, checks, left_out, as_json=as_json)


def _check_arguments(name: str, sample: Path | None, format_name: str | None, schemas: Path | None) -> None:
    if not is_name(name) or name in SIMPLE_TYPES:
        raise BadArgument(f"{name!r} is no name of a business object, expected {NAME_RULE}")
    for option, given in (("--format", format_name), ("--schema-directory", schemas)):
        if sample is None and given is not None:
            raise BadArgument(f"{option} is for --from-sample")
    if schemas is not None and not schemas.is_dir():
        raise BadArgument(f"--schema-directory {schemas}: there is no such directory")


def _draft(
    name: str, sample: Path, format_name: str | None, schemas: Path | None, taken: list[str]
) -> tuple[str, list[str], list[str], list[str]]:
    """Returns the text of the file, the names of its objects, what to look at, and what was left out."""
    from connector.authoring.drafting.samples import FORMATS, draft_of, format_of, read_sample

    if format_name is not None and format_name not in FORMATS:
        raise BadArgument(f"--format {format_name}: expected one of {', '.join(FORMATS)}")
    try:
        content = read_sample(sample)
        draft = draft_of(name, sample, content, format_name or format_of(sample, content), taken, schemas)
    except MalformedData as error:
        raise BadArgument(f"{sample}: {printable(str(error))}") from None
    documents = draft.documents()
    documents[0].head[:0] = [f"Drafted from {sample.name}: look at the keys, the types and what is required."]
    return file_text(documents), [made.name for made in draft.objects], draft.checks, draft.left_out


def _show(path: str, objects: list[str], checks: list[str], left_out: list[str], *, as_json: bool) -> None:
    for text in left_out:
        note(f"left out: {printable(text)}")
    if as_json:
        answer_json({"file": path, "objects": objects, "checks": checks, "left_out": left_out})
        return
    answer(f"wrote {path}: {', '.join(objects)}")
    answer("Look at:")
    for text in checks:
        answer(f"  {printable(text)}")
