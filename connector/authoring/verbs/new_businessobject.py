"""``connector new businessobject``: drafts the definition of a business object."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connector.authoring.drafting.draft import Draft
from connector.authoring.drafting.sample_files import Samples, read_sample
from connector.authoring.drafting.sample_reading import SampleReading, read_samples
from connector.authoring.metaobject_files import (
    SUFFIX,
    Neighbours,
    existing,
    surroundings,
    write_files,
)
from connector.authoring.metaobject_text import file_text
from connector.businessobjects.definition import SIMPLE_TYPES, Definitions
from connector.cli.common import BadArgument, answer, answer_json, note
from connector.config.metaobject_model import NAME_RULE, is_name
from connector.errors import ConfigurationError, MalformedData
from connector.formats.datahandler import charset
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


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """What the command line says of samples.

    Args:
        files: bodies of one shape, or a schema. Empty = a skeleton is written.
        format_name: of the samples. None = by suffix and content of the first.
        charset: the character set of the samples. None = as each says.
        header: ``no`` = the first record of separated values is no header. None = it is one.
        schemas: the directory with the files that a schema includes. None = the directory of the
            configuration if the schema lies there or below, else the one above that of the schema.
    """

    files: Sequence[Path] = ()
    format_name: str | None = None
    charset: str | None = None
    header: str | None = None
    schemas: Path | None = None

    def first_given(self) -> str:
        """Returns the first option that needs a sample. Empty = none is given."""
        options = {
            "--format": self.format_name,
            "--charset": self.charset,
            "--header": self.header,
            "--schema-directory": self.schemas,
        }
        return next((name for name, value in options.items() if value is not None), "")


def new_businessobject(
    name: str,
    samples: SampleOptions,
    into: Path | None,
    config: str,
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Drafts a definition and writes its file.

    Args:
        into: the directory. None = the first one of the configuration, else ``metaobjects`` beside the file.
        config: ``adapter.yaml``, which need not exist.
    """
    _check_arguments(name, samples)
    deployment = surroundings(config)
    target = (into, str(into)) if into is not None else deployment.home
    file = f"{name}{SUFFIX}"
    if not force and existing(target[0], [file]):
        raise BadArgument(f"there is {os.path.join(target[1], file)} already; --force replaces the file")
    neighbours = Neighbours(deployment, target, [file] if force else ())
    taken = neighbours.names()
    if name in taken:
        raise BadArgument(f"{name} is defined already, in {taken[name]}")
    draft, bodies = Draft(name), None
    if not samples.files:
        text = _SKELETON.format(name=name, child=f"{name[:70]}_Line")
        draft.checks.append("this is a skeleton: write the attributes")
    else:
        schemas = samples.schemas
        if schemas is None and samples.files[0].resolve().is_relative_to(deployment.directory.resolve()):
            schemas = deployment.directory
        draft, bodies = _draft(name, samples, schemas, list(taken))
        text = _text_of(draft, samples)
    mistakes = [problem for problem in neighbours.check({file: text}) if not problem.warning]
    if mistakes:
        raise ConfigurationError(mistakes)
    try:
        write_files(target[0], {file: text}, force=force)
    except OSError as error:
        raise BadArgument(f"cannot write {error.filename}: {error.strerror}") from None
    reading = None
    if bodies is not None and draft.is_of_sample:
        reading = read_samples(draft, bodies, Definitions(neighbours.definitions))
        draft.checks += reading.mistakes
    if as_json:
        _show_json(os.path.join(target[1], file), draft, reading)
    else:
        _show(os.path.join(target[1], file), draft, reading, samples)


def _check_arguments(name: str, samples: SampleOptions) -> None:
    if not is_name(name) or name in SIMPLE_TYPES:
        raise BadArgument(f"{name!r} is no name of a business object, expected {NAME_RULE}")
    given = samples.first_given()
    if given and not samples.files:
        raise BadArgument(f"{given} is for --from-sample")
    if samples.schemas is not None and not samples.schemas.is_dir():
        raise BadArgument(f"--schema-directory {samples.schemas}: there is no such directory")
    if samples.charset is not None and (expected := charset(samples.charset)):
        raise BadArgument(f"--charset {samples.charset}: expected {expected}")
    if samples.header not in (None, "yes", "no"):
        raise BadArgument(f"--header {samples.header}: expected yes or no")


def _draft(
    name: str, samples: SampleOptions, schemas: Path | None, taken: list[str]
) -> tuple[Draft, Samples]:
    """Returns the draft, and the samples."""
    from connector.authoring.drafting.samples import FORMATS, draft_of, format_of

    if samples.format_name is not None and samples.format_name not in FORMATS:
        raise BadArgument(f"--format {samples.format_name}: expected one of {', '.join(FORMATS)}")
    file, character_set = samples.files[0], samples.charset or ""
    bodies: Samples | None = None
    try:
        contents = []
        for file in samples.files:
            contents.append((file, read_sample(file)))
        file = samples.files[0]
        found = samples.format_name or format_of(*contents[0], character_set)
        _check_format(found, samples)
        bodies = Samples(contents, character_set, has_header=samples.header != "no")
        return draft_of(name, bodies, found, taken, schemas), bodies
    except MalformedData as error:
        file = file if bodies is None else bodies.current
        text = str(error).replace("the option charset", "--charset")
        raise BadArgument(f"{file}: {printable(text)}") from None


def _text_of(draft: Draft, samples: SampleOptions) -> str:
    """Returns the text of the file."""
    documents = draft.documents()
    names = ", ".join(one.name for one in samples.files)
    documents[0].head[:0] = [f"Drafted from {names}: look at the keys, the types and what is required."]
    return file_text(documents)


def _check_format(format_name: str, samples: SampleOptions) -> None:
    from connector.authoring.drafting.samples import SCHEMAS

    if format_name in SCHEMAS:
        if len(samples.files) > 1:
            raise BadArgument(
                f"--from-sample: {samples.files[0]} is a schema, expected no other file beside it"
            )
        if samples.charset is not None:
            raise BadArgument(f"--charset is for bodies, and {samples.files[0]} is a schema")
    if format_name != "csv" and samples.header is not None:
        raise BadArgument(f"--header is for the format csv, found {format_name}")


def _show_json(path: str, draft: Draft, reading: SampleReading | None) -> None:
    _note_left_out(draft)
    objects = [made.name for made in draft.objects]
    converted = {} if reading is None else {"converted": reading.objects}
    answer_json(
        {"file": path, "objects": objects, "checks": draft.checks, "left_out": draft.left_out, **converted}
    )


def _show(path: str, draft: Draft, reading: SampleReading | None, samples: SampleOptions) -> None:
    _note_left_out(draft)
    answer(f"wrote {path}: {', '.join(made.name for made in draft.objects)}")
    answer("Look at:")
    for text in draft.checks:
        answer(f"  {printable(text)}")
    if reading is not None and reading.objects:
        answer(f"{samples.files[0]}, as it is read by {printable(reading.handler)}:")
        for text in reading.lines():
            answer(f"  {printable(text)}")


def _note_left_out(draft: Draft) -> None:
    for text in draft.left_out:
        note(f"left out: {printable(text)}")
