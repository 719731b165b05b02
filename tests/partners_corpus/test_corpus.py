"""Files as partners send them: drafted, read, written and read again, or refused with what to do."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from connector.businessobjects.instance import BusinessObject, check, finish
from connector.config.loading import load
from connector.errors import MalformedData
from connector.formats.datahandler import Hint
from connector.service.assembly import make_handlers
from tests.cli.in_process import call
from tests.partners_corpus.corpus import HERE, KINDS, OBJECT, REFUSALS, REFUSED, Kind
from tests.partners_corpus.varied import comparable, varied

ADAPTER = """\
provider: {{type: dropbox, root: ./data, create: true}}
connector:
  ApplicationName: shop
  InputDestination: queue://orders
  ErrorDestination: queue://error
  UnsubscribedDestination: queue://unsubscribed
  DataHandlerMimeType: {mime_type}
  DataHandlerConfigMO: MO_Corpus
  DefaultVerb: Create
subscriptions: [{{object: Partner, destination: "queue://out"}}]
metaobjects: ./metaobjects
"""

PLACE = re.compile(r"\b(line|record|field|character) \d")
NO_PLACE = re.compile("the body is empty|the body holds no record|: required, but not set")


def deploy(kind: Kind, directory: Path) -> Path:
    """Makes a deployment for a kind of file, with its definition or the draft of it."""
    for folder in ("metaobjects", "broken"):
        (directory / folder).mkdir()
    (directory / "adapter.yaml").write_text(ADAPTER.format(mime_type=kind.mime_type))
    options = {"datahandler_metaobject": "MO_Corpus", "handlers": {kind.mime_type: kind.options}}
    (directory / "metaobjects/options.yaml").write_text(yaml.safe_dump(options))
    shutil.copy(HERE / "good" / kind.file, directory)
    shutil.copy(HERE / "broken" / kind.file, directory / "broken")
    if kind.definition:
        shutil.copy(HERE / "definitions" / kind.definition, directory / "metaobjects")
        return directory
    sample = ("--from-sample", kind.file, *kind.drafts)
    drafted = call(directory, "new", "businessobject", OBJECT, *sample, "--json")
    assert (drafted.returncode, drafted.stderr) == (0, "")
    assert drafted.document["left_out"] == []
    for option in kind.told:  # the draft says which option the data handler needs
        assert any(option in one for one in drafted.document["checks"]), drafted.document["checks"]
    return directory


class Converter:
    """The data handler of a deployment."""

    def __init__(self, kind: Kind, directory: Path) -> None:
        handlers, _ = make_handlers(load(directory / "adapter.yaml", {}))
        self._handler: Any = handlers.get(kind.mime_type, "MO_Corpus")
        self._splits = kind.options.get("split", False)

    def read(self, body: bytes) -> list[BusinessObject]:
        hint = Hint(OBJECT, "Create")
        handler = self._handler
        found = list(handler.to_business_objects(body, hint)) if self._splits else []
        objects = found or [handler.to_business_object(body, hint)]
        for bo in objects:
            finish(bo)
            check(bo)
        return objects

    def write(self, objects: list[BusinessObject]) -> bytes:
        handler = self._handler
        body = handler.to_joint_body(objects) if self._splits else handler.to_body(objects[0])
        return body if isinstance(body, bytes) else body.encode()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.file)
def test_a_file_comes_back_and_its_broken_brother_is_refused(kind: Kind, tmp_path: Path) -> None:
    converter = Converter(kind, deploy(kind, tmp_path))
    body = (HERE / "good" / kind.file).read_bytes()
    objects = converter.read(body)
    written = converter.write(objects)
    assert converter.read(written) == objects
    assert kind.is_rewritten or comparable(written, kind) == comparable(body, kind)
    if not (kind.definition or kind.format == "flat"):
        for number in range(10):
            changed = varied(body, kind, random.Random(number))
            written = converter.write(converter.read(changed))
            assert comparable(written, kind) == comparable(changed, kind)
    refused = call(tmp_path, "convert", "--object", OBJECT, f"broken/{kind.file}")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == f"connector: broken/{kind.file}: {REFUSALS[kind.file]}\n"


@pytest.mark.parametrize("file", REFUSED)
def test_what_is_no_sample_is_refused_with_what_to_do(file: str, tmp_path: Path) -> None:
    shutil.copy(HERE / "broken" / file, tmp_path)
    refused = call(tmp_path, "new", "businessobject", OBJECT, "--from-sample", file).refusal()
    assert refused == f"connector: {file}: {REFUSALS[file]}\n"
    assert not (tmp_path / "metaobjects").exists()


def test_every_broken_file_is_tried_and_told_its_place() -> None:
    files = {path.name for path in (HERE / "broken").iterdir()}
    assert files == {*(kind.file for kind in KINDS), *REFUSED} == set(REFUSALS)
    assert {path.name for path in (HERE / "good").iterdir()} == {kind.file for kind in KINDS}
    for file, told in REFUSALS.items():
        assert file == "empty.csv" or PLACE.search(told), told


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.file)
def test_a_file_that_is_cut_off_is_refused_with_its_place(kind: Kind, tmp_path: Path) -> None:
    converter = Converter(kind, deploy(kind, tmp_path))
    body = (HERE / "good" / kind.file).read_bytes().rstrip()
    told = [refusal(converter, body[: len(body) * number // 20]) for number in range(1, 20)]
    refused = [one for one in told if one]
    assert all(PLACE.search(one) or NO_PLACE.search(one) for one in refused), refused
    # A text of lines cannot tell that its last value is shorter.
    assert len(refused) == 19 if kind.format in ("xml", "json") else refused


def refusal(converter: Converter, body: bytes) -> str:
    """Returns why a body cannot be read. Empty = it can."""
    try:
        converter.read(body)
    except MalformedData as error:
        return str(error)
    return ""
