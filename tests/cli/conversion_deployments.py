"""Deployments for the verbs that convert: with the shipped data handlers, and with plug-ins.

One of the plug-ins splits, prints and needs a module beside it.
"""

from __future__ import annotations

PROCESSES = "def book(order, event):\n    raise SystemExit('called')\n"
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
  Total: Double
  Pin: Ciphertext
  Line: {type: Line, cardinality: n}
  Tag: {type: Integer, cardinality: n}
  Code: {type: Ciphertext, cardinality: n}
  Price: Decimal
  ObjectEventId: String
  Meta: Meta
---
business_object: Line
attributes: {Item: {type: String, key: true}, Count: Integer, Code: Ciphertext}
---
business_object: Customer
verbs: {Create: }
attributes: {CustomerId: {type: String, key: true}}
---
business_object: Meta
attributes: {CorrelationID: String, Destination: String}
---
static_metaobject: MO_Config
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

PLUGGED = {
    "adapter.yaml": ADAPTER,
    "metaobjects/objects.yaml": f"""\
{OBJECTS}rules:
  Order_Create: {{InputFormat: LINES, DataHandlerMimeType: text/lines}}
  Order_Cancel: {{InputFormat: BROKEN, DataHandlerMimeType: text/broken}}
""",
    "handlers/lines.py": LINES,
    "helper.py": "WORD = 'aloud'\n",
    "processes.py": PROCESSES,
}
"""The files of the deployment with plug-ins."""

ORDER = '{"OrderId": "1", "Total": 2.5, "Pin": "s3cret", "Line": [{"Item": "tea", "Count": 2}]}'
PLAIN = {
    "adapter.yaml": """\
provider: {type: dropbox, root: ./data, create: true}
connector:
  ApplicationName: shop
  InputDestination: [queue://orders, queue://web]
  ArchiveDestination: queue://archive
  ErrorDestination: queue://error
  ConfigurationMetaObject: MO_Config
  DataHandlerMimeType: application/json
  DefaultVerb: Create
subscriptions:
  - {object: Order, verbs: [Create], process: "processes:book", name: book}
  - {object: Cust*, destination: "queue://crm", name: crm}
metaobjects: ./metaobjects
""",
    "metaobjects/objects.yaml": f"""\
{OBJECTS}Default: {{DataHandlerMimeType: application/json}}
rules:
  Order_Create: {{InputDestination: queue://web}}
  Order_Cancel: {{InputFormat: CANCEL, DataHandlerMimeType: text/xml}}
---
datahandler_metaobject: MO_DataHandler_Default
handlers:
  application/json: {{write_type: false}}
""",
    "processes.py": PROCESSES,
    "order.json": ORDER,
}
"""The files of the deployment with the shipped data handlers, and an order."""
