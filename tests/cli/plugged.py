"""A deployment whose data handlers are plug-ins: one that splits, prints and needs a module beside it."""

from __future__ import annotations

from pathlib import Path

ADAPTER = """\
provider: {type: dropbox, root: ./data, create: true}
connector:
  ApplicationName: shop
  InputDestination: [queue://orders, {destination: queue://web, selector: "region = 'EU'"}]
  ArchiveDestination: queue://archive
  ErrorDestination: queue://error
  UnsubscribedDestination: queue://unsubscribed
  ConfigurationMetaObject: MO_Config
  DataHandlerMimeType: application/json
  DefaultVerb: Create
subscriptions:
  - {object: Order, process: "processes:book", name: book}
  - {object: Order, verbs: [Create], destination: "queue://crm", mime_type: text/lines, name: crm}
metaobjects: ./metaobjects
datahandlers: ./handlers
"""
OBJECTS = """\
business_object: Order
app_specific_info: cw_mo_conn=Meta
verbs: {Create: , Cancel: }
attributes:
  OrderId: {type: String, key: true, required: true}
  Pin: Ciphertext
  Total: Double
  Line: {type: Line, cardinality: n}
  ObjectEventId: String
  Meta: Meta
---
business_object: Line
attributes: {Item: {type: String, key: true}, Code: Ciphertext}
---
business_object: Meta
attributes: {CorrelationID: String, Destination: String}
---
static_metaobject: MO_Config
rules:
  Order_Create: {InputFormat: LINES, DataHandlerMimeType: text/lines}
  Order_Cancel: {InputFormat: BROKEN, DataHandlerMimeType: text/broken}
"""
LINES = '''\
"""Orders, a line each."""

import helper

from connector.formats.datahandler import Option
from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData, UnknownBusinessObject


class Lines:
    """Lines of numbers."""

    mime_types = ("text/lines",)
    options = (Option("split", bool, True, "Each line is an object."),)

    def __init__(self, options, definitions):
        self.splits = options["split"]
        self._definitions = definitions

    def to_business_object(self, body, hint):
        return next(self.to_business_objects(body, hint))

    def to_business_objects(self, body, hint):
        print("read", helper.WORD)
        if hint is None:
            raise UnknownBusinessObject("no rule names the object")
        for number, line in enumerate(body.decode().splitlines(), 1):
            if not line.isdigit():
                raise MalformedData(f"record {number}: found {line!r}, expected digits")
            yield BusinessObject(self._definitions, hint.object, hint.verb, {"OrderId": line})

    def to_body(self, bo):
        print("written", helper.WORD)
        if bo["OrderId"] == "13":
            raise MalformedData("13 brings bad luck")
        return f"{bo['OrderId']}\\r\\n"

    def to_joint_body(self, bos):
        return "".join(self.to_body(bo) for bo in bos)


class Broken:
    mime_types = ("text/broken",)
    options = ()

    def __init__(self, options, definitions):
        pass

    def to_business_object(self, body, hint):
        return {}["nothing"]

    def to_body(self, bo):
        return None
'''


def deploy(directory: Path) -> Path:
    """Writes the deployment into a directory and returns the directory."""
    for name, text in {
        "adapter.yaml": ADAPTER,
        "metaobjects/objects.yaml": OBJECTS,
        "handlers/lines.py": LINES,
        "helper.py": "WORD = 'aloud'\n",
        "processes.py": "def book(order, event):\n    raise SystemExit('called')\n",
    }.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return directory
