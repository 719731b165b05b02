# ruff: noqa: E501  # a row of the table reads best as one line
"""Every mistake is found, alone, where it stands, in words that say what to do."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from connector.errors import ConfigurationError
from tests.config.mistakes import A, Edit, Mistake, O, P, R, case
from tests.tables import rows

if TYPE_CHECKING:
    from tests.config.conftest import Sample

CLASS = "DataHandlerClassName: handlers:Csv"
HANDLERS = "class Csv:\n    to_business_object = to_body = print\n"
OPTIONS = "DataHandlerConfigMO: MO_DataHandler_Default"
REPLY = f"{P}\n    reply: true"
MANAGED: Edit = (A, "PollQuantity: 25", "ContainerManagedEvents: JMS")
TO_CRM: Edit = (A, "process: processes:store_customer", "destination: queue://crm")

CASES = [
    # values
    case("integer", A, "PollQuantity: 25", "PollQuantity: §many", "connector.PollQuantity", "'many'", "whole number"),
    case("integer too small", A, "PollQuantity: 25", "PollQuantity: §0", "connector.PollQuantity", "from 1 up"),
    case("list for a number", A, "PollQuantity: 25", "PollQuantity: §[1]", "connector.PollQuantity", "a list"),
    case("frequency", A, "PollFrequency: 1000", "PollFrequency: §never", "connector.PollFrequency", "or no"),
    case("boolean", A, "PollQuantity: 25", "UseDefaults: §maybe", "connector.UseDefaults", "true or false"),
    case("duration", A, "PollQuantity: 25", "stop_timeout: §30", "connector.stop_timeout", "'30'", "30s"),
    case("duration of nothing", A, "    process: processes:store_customer", "    process: processes:store_customer\n    timeout: §0s", "subscriptions[0].timeout", "above 0"),
    case("size", A, "PollQuantity: 25", "max_body: §16MB", "connector.max_body", "16MiB"),
    case("time", A, "PollQuantity: 25", "PollStartTime: §25:00\n  PollEndTime: 06:00", "connector.PollStartTime", "HH:MM"),
    case("choice", A, "PollQuantity: 25", "order: §groups", "connector.order", "destination | group | none", nearest="group"),
    case("name of the adapter", A, "ApplicationName: demo", "ApplicationName: §../demo", "connector.ApplicationName", "name of a directory"),
    case("duration for ever", A, "PollQuantity: 25", "keep_archive: §0", "connector.keep_archive", "or forever"),
    # keys and structure
    case("unknown key", A, "PollQuantity: 25", "§PollQuanity: 25", "connector.PollQuanity", "unknown key", nearest="PollQuantity"),
    case("unknown key with nothing behind it", A, "PollQuantity: 25", "§PollQuanity:", "connector.PollQuanity", "unknown key", nearest="PollQuantity"),
    case("unknown section with nothing behind it", A, "spark:\n", "§bar:\nspark:\n", "bar", "unknown key"),
    case("unknown key with nothing behind it in a rule", R, "Customer_Create: {", "Customer_Create: {§InputFormta: , ", "MO_Config.rules.Customer_Create.InputFormta", "unknown key", nearest="InputFormat"),
    case("misspelt section with all names", A, "metaobjects: ./metaobjects", "§metaobject: ./metaobjects", "metaobject", "unknown key", nearest="metaobjects"),
    case("key of several lines", A, "spark:\n", "? §'one\n\n    zzz'\n: 1\nspark:\n", "one zzz", "unknown key"),
    case("key of a subscription", A, "    mime_type: text/xml", "    §mimetype: text/xml", "subscriptions[1].mimetype", "unknown key", nearest="mime_type"),
    case("missing key", A, "  ApplicationName: demo\n", "", "connector.ApplicationName", "missing"),
    case("missing section", A, "provider:\n  type: dropbox\n  root: ./data\n", "", "provider", "missing"),
    case("section that is a text", A, "spark:\n  master: local[*]\n", "spark: §local\n", "spark", "a mapping"),
    case("list of subscriptions", A, "subscriptions:\n  - object: Customer\n    verbs: [Create, Update]\n    process: processes:store_customer\n  - object: Order\n    destination: queue://erp-orders\n    mime_type: text/xml\n", "subscriptions: §{}\n", "subscriptions", "a list"),
    case("subscription without object", A, "  - object: Order\n    destination", "  - §destination", "subscriptions[1]", "object is missing"),
    case("misspelt object of a subscription", A, "  - object: Order", "  - §objct: Order", "subscriptions[1].objct", "unknown key", nearest="object"),
    case("duplicate key", A, "PollQuantity: 25", "PollQuantity: 25\n  §PollQuantity: 3", "", "'PollQuantity' stands twice", "lines 11 and 12"),
    case("tag", A, "ApplicationName: demo", "ApplicationName: §!!python/name:os.system demo", "", "the tag"),
    case("merge key", A, "  PollQuantity: 25", "  §<<: {PollQuantity: 25}", "", "merge key"),
    case("undefined alias", A, "PollQuantity: 25", "PollQuantity: §*quantity", "", "alias *quantity"),
    case("list as a key", A, "  PollQuantity: 25", "  ? §[a]\n  : b", "", "a list as a key"),
    case("second document", A, "  master: local[*]\n", "  master: local[*]\n---\n§logging: {level: info}\n", "", "second document"),
    # environment
    case("unset variable", A, "PollQuantity: 25", "PollQuantity: §${QUANTITY}", "connector.PollQuantity", "QUANTITY is not set", "${QUANTITY:...}"),
    case("unset variable of the provider", A, "type: dropbox", "type: §${NO_PROVIDER}", "provider.type", "NO_PROVIDER is not set"),
    case("unset variable in a list", A, "- queue://orders", "- §queue://${QUEUE}", "connector.InputDestination[0]", "QUEUE is not set"),
    case("bad reference", A, "PollQuantity: 25", 'PollQuantity: §"${A B}"', "connector.PollQuantity", "${NAME}"),
    *(
        case(f"form of the shell {mark}", A, "root: ./data", f"root: §${{NO_ROOT:{mark}./data}}", "provider.root", "a form of the shell", "${NO_ROOT:./data}")
        for mark in "-=?+"
    ),
    case("form of the shell without a colon", A, "root: ./data", "root: §${NO_ROOT-./data}", "provider.root", "a form of the shell", "${NO_ROOT:./data}"),
    case("secret in a form of the shell", A, "spark:\n", "http: {listen: 127.0.0.1:1, tokens: §\"${T:-very-secret-token}\"}\nspark:\n", "http.tokens", "'${T:-...}', a form of the shell"),
    case("missing file of a secret", A, "type: dropbox", "type: §${file:no/such}", "provider.type", "the file 'no/such' cannot be read: No such file", "relative to this file"),
    case("directory as a secret", A, "type: dropbox", "type: §${file:.}", "provider.type", "the file '.' cannot be read: Is a directory"),
    case("device as a secret", A, "type: dropbox", "type: §${file:/dev/zero}", "provider.type", "is not a regular file"),
    case("secret without a path", A, "type: dropbox", "type: §\"${file: }\"", "provider.type", "names no file", "${file:PATH}"),
    case("home of nobody", A, "type: dropbox", "type: §${file:~no-such-user/x}", "provider.type", "cannot be read"),
    # keys of other sections
    case("URL that is none of AMQP", A, "type: dropbox\n  root: ./data", "type: amqp\n  packages: []\n  classpath: client.jar\n  url: §tcp://x", "provider.url", "no URL of AMQP", "amqp://HOST:5672", more=(("client.jar", "", ""),)),
    *(
        case(f"provider {kind}", A, "type: dropbox", f"type: §{kind}", "provider.type", f"{kind!r}", nearest=near)
        for kind, near in (("sqlite", "sql"), ("postgresql", "sql"), ("directory", "dropbox"), ("ibmmq", "jms"), ("Artemis", "amqp"))
    ),
    *(
        case(f"{key} elsewhere", A, old, f"{old}\n  §{key}: {value}", path, "unknown key", *words)
        for key, value, old, path, words in (
            ("ApplicationUserName", "u", "  ApplicationName: demo", "connector.ApplicationUserName", ("under provider, of type amqp or jms",)),
            ("root", "./data", "  ApplicationName: demo", "connector.root", ("under provider, of type dropbox",)),
            ("subscriptions", "[]", "  ApplicationName: demo", "connector.subscriptions", ("as a section of its own",)),
            ("InputFormat", "F", "  ApplicationName: demo", "connector.InputFormat", ("under rules.NAME of a static meta-object in metaobjects",)),
            ("PollQuantity", "3", "  root: ./data", "provider.PollQuantity", ("under connector",)),
            ("pool_size", "3", "  root: ./data", "provider.pool_size", ("under provider, of type sql",)),
        )
    ),
    case("key of a rule like one elsewhere", R, "Customer_Create: {", "Customer_Create: {§OutputDestinaton: a, ", "MO_Config.rules.Customer_Create.OutputDestinaton", "unknown key", nearest="OutputDestination"),
    case("key that is one elsewhere in other case", R, "Customer_Create: {", "Customer_Create: {§Destination: a, ", "MO_Config.rules.Customer_Create.Destination", "unknown key", nearest="InputDestination"),
    case("key at the top", A, "spark:\n", "§PollStartTime: 1\nspark:\n", "PollStartTime", "unknown key, expected it under connector"),
    case("key of the connector in a subscription", A, P, P + "\n    §PollQuantity: 3", "subscriptions[0].PollQuantity", "it under connector"),
    case("key of the connector in a rule", R, "Customer_Create: {", "Customer_Create: {§PollQuantity: 3, ", "MO_Config.rules.Customer_Create.PollQuantity", "it under connector"),
    case("key of the connector in other case", A, "PollQuantity: 25", "§pollquantity: 25", "connector.pollquantity", "a key of this section", nearest="PollQuantity"),
    # later versions
    case("state directory", A, "spark:\n", "§state: {directory: ./state}\nspark:\n", "state", "a dropbox keeps journals, duplicate window and locks under its root", "it left out"),
    case("state without directory", A, "spark:\n", "state: §{}\nspark:\n", "state", "directory is missing"),
    case("unknown provider", A, "type: dropbox", "type: §dropbax", "provider.type", nearest="dropbox"),
    *(
        case(name, A, "metaobjects: ./metaobjects", f"metaobjects: ./metaobjects\nhttp:\n{lines}", path, text)
        for name, lines, path, text in (
            ("no address", "  listen: §8080", "http.listen", "'8080', expected an address and a port"),
            ("no port", "  listen: §127.0.0.1:65536", "http.listen", "expected an address and a port"),
            ("no IP address", "  listen: §300.0.0.1:80", "http.listen", "expected an address and a port"),
            ("open to all", "  listen: §0.0.0.0:80", "http.listen", "and there are no tokens"),
            ("a name is open to all", "  listen: §loop:80", "http.listen", "and there are no tokens"),
            ("empty token", "  tokens: §${NO_TOKEN:}", "http.tokens", "${NO_TOKEN:} is empty, expected a token"),
            ("no host", "  hosts: [§'a:80']", "http.hosts[0]", "the name of a host, without port"),
        )
    ),
    # destinations
    case("queue with one colon", A, "- queue://orders", "- §queue:orders", "connector.InputDestination[0]", "a bare name has no ':'", nearest="queue://orders"),
    case("kind of destination", A, "ErrorDestination: queue://error", "ErrorDestination: §queu://error", "connector.ErrorDestination", "neither 'queue' nor 'topic'", nearest="queue://error"),
    case("entry of a text of inputs", A, "InputDestination:\n    - queue://orders\n    - queue://customers", "InputDestination: queue://orders; §queue://a/b; customers", "connector.InputDestination", "'/'"),
    case("in progress on a topic", A, "PollQuantity: 25", "InProgressDestination: §topic://p", "connector.InProgressDestination", "a topic", "a queue"),
    case("error queue is an input", A, "ErrorDestination: queue://error", "ErrorDestination: §queue://orders", "connector.ErrorDestination", "InputDestination too (line 8)", "endless loop"),
    case("bare name of an input", A, "ArchiveDestination: queue://archive", "ArchiveDestination: §orders", "connector.ArchiveDestination", "endless loop"),
    case("sink is an input", A, "destination: queue://erp-orders", "destination: §queue://customers", "subscriptions[1].destination", "endless loop"),
    case("sink is the archive", A, "destination: queue://erp-orders", "destination: §queue://archive", "subscriptions[1].destination", "ArchiveDestination too"),
    case("copies are kept that nobody makes", A, "  ErrorDestination: queue://error\n", "  keep_error: §30d\n", "connector.keep_error", "without ErrorDestination", "ErrorDestination, or no keep_error"),
    case("archive is the error queue", A, "ErrorDestination: queue://error", "ErrorDestination: §queue://archive", "connector.ErrorDestination", "ArchiveDestination too"),
    case("in progress is an input", A, "PollQuantity: 25", "InProgressDestination: §queue://orders", "connector.InProgressDestination", "InputDestination too"),
    case("parallel in order", A, "PollQuantity: 25", "parallel: §8", "connector.parallel", "parallel: 8 with order: destination", "order: group"),
    case("parallel of an input in order", A, "- queue://customers", "- {destination: queue://customers, parallel: §8}", "connector.InputDestination[1].parallel", "parallel: 8 with order: destination"),
    case("parallel of an input with an order of its own", A, "PollQuantity: 25\n", "order: none\n", "connector.InputDestination[1].parallel", "parallel: 8 with", more=((A, "- queue://customers", "- {destination: queue://customers, order: destination, parallel: §8}"),)),
    case("too much at the same time", A, "PollQuantity: 25", "parallel: §1001", "connector.parallel", "from 1 to 1000"),
    case("input twice", A, "- queue://customers", "- §orders", "connector.InputDestination[1]", "stands twice"),
    # the provider
    case("memory", A, "type: dropbox\n  root: ./data", "type: §memory", "provider.type", "memory", "tests without Spark"),
    case("key of another provider", A, "root: ./data", "root: ./data\n  §max_bytes: 1MiB", "provider.max_bytes", "unknown key"),
    case("outgoing directory", A, "root: ./data", "root: ./data\n  outgoing_directory: §a/b", "provider.outgoing_directory", "name of a directory"),
    case("incoming directory", A, "root: ./data", "root: ./data\n  incoming_directory: §.in", "provider.incoming_directory", "'.in'", "name of a directory"),
    case("incoming directory alone", A, "root: ./data", "root: ./data\n  incoming_directory: ''\n  outgoing_directory: §out", "provider.outgoing_directory", "'out' with the incoming_directory ''", "'' for both"),
    case("outgoing directory empty", A, "root: ./data", "root: ./data\n  outgoing_directory: §''", "provider.outgoing_directory", "'' with the incoming_directory 'incoming'", "two names"),
    # inputs
    case("input as a key of its selector", A, "- queue://orders", "- §queue://orders: \"size > 1\"", "connector.InputDestination[0]", "'queue://orders' as a key", '{destination: queue://orders, selector: "size > 1"}'),
    case("input as a key of its options", A, "- queue://orders", "- §queue://orders: {selector: size > 1}", "connector.InputDestination[0]", '{destination: queue://orders, selector: "size > 1"}'),
    case("input as a key of a selector with quotes", A, "- queue://orders", "- §queue://orders: 'a = \"b\"'", "connector.InputDestination[0]", 'selector: "a = \\"b\\""}'),
    case("inputs as a mapping", A, "InputDestination:\n    - queue://orders\n    - queue://customers", "InputDestination:\n    §queue://orders: size > 1", "connector.InputDestination", "a mapping", '- {destination: queue://orders, selector: "size > 1"}'),
    case("one input as a mapping", A, "InputDestination:\n    - queue://orders\n    - queue://customers", "InputDestination: §{destination: queue://orders, selector: size > 1}", "connector.InputDestination", "a mapping", '- {destination: queue://orders, selector: "size > 1"}'),
    case("selector", A, "- queue://orders", "- {destination: orders, selector: §[a]}", "connector.InputDestination[0].selector", "a list", "message selector"),
    case("place in a selector", A, "- queue://orders", "- {destination: orders, selector: price > §AND size = 1}", "connector.InputDestination[0].selector", "no message selector", "'AND'"),
    case("place in a quoted selector", A, "- queue://orders", "- {destination: orders, selector: 'name = ''x'' AND §AND size = 1'}", "connector.InputDestination[0].selector", "no message selector"),
    case("place in a selector in double quotes", A, "- queue://orders", "- {destination: orders, selector: \"name = 'x' AND §AND size = 1\"}", "connector.InputDestination[0].selector", "no message selector"),
    case("place in a selector with escapes", A, "- queue://orders", "- {destination: orders, selector: §\"name = \\'x\\' AND AND size = 1\"}".replace("\\'", "\\x27"), "connector.InputDestination[0].selector", "no message selector"),
    case("place in a selector of several lines", A, "- queue://orders", "- destination: orders\n      selector: §>-\n        a = 1\n        AND AND", "connector.InputDestination[0].selector", "no message selector"),
    case("selector of a second input", A, "- queue://customers", "- {destination: orders, selector: a = §= 1}", "connector.InputDestination[1].selector", "no message selector"),
    case("misspelt selector of a second input", A, "- queue://customers", "- {destination: orders, §selectr: a = 1}", "connector.InputDestination[1].selectr", "unknown key", nearest="selector"),
    case("topic with an empty subscription", A, "- queue://orders", "- {destination: topic://prices, subscription: §''}", "connector.InputDestination[0].subscription", "an empty text"),
    case("subscription of a queue", A, "- queue://orders", "- {destination: orders, §subscription: s}", "connector.InputDestination[0].subscription", "of a queue", "with a topic only"),
    case("no-local of a queue", A, "- queue://orders", "- {destination: orders, §no_local: true}", "connector.InputDestination[0].no_local", "of a queue"),
    case("no-local of a shared subscription", A, "- queue://orders", "- {destination: topic://t, subscription: s, shared: true, §no_local: true}", "connector.InputDestination[0].no_local", "one of the two"),
    case("client id of an input", A, "- queue://orders", "- {destination: topic://t, subscription: s, §client_id: c}", "connector.InputDestination[0].client_id", "ApplicationName"),
    case("selector twice", A, "- queue://orders", "- {destination: customers, selector: a = 1}\n    - §{destination: customers, selector: a = 1}", "connector.InputDestination[1]", "stands twice, first in line 8"),
    case("selector twice in other white space", A, "- queue://orders", "- {destination: customers, selector: a = 1}\n    - §{destination: customers, selector: a=1}", "connector.InputDestination[1]", "stands twice, first in line 8"),
    case("selector twice in another order", A, "- queue://orders", "- {destination: customers, selector: a = 1 AND NOT b IN ('x')}\n    - §{destination: customers, selector: ((not b in ('x')) and (a=1))}", "connector.InputDestination[1]", "stands twice, first in line 8"),
    case("input twice in one text", A, "InputDestination:\n    - queue://orders\n    - queue://customers\n", "InputDestination: §orders; customers;queue://orders\n", "connector.InputDestination[2]", "queue://orders stands twice, first in line 7"),
    case("input twice with options", A, "- queue://customers", "- queue://customers\n    - §{destination: orders, rate: 5/s}", "connector.InputDestination[2]", "queue://orders stands twice, first in line 8"),
    case("subscription twice", A, "- queue://orders", "- {destination: topic://t, subscription: s}\n    - {destination: topic://t, subscription: §s, selector: a = 1}", "connector.InputDestination[1].subscription", "'s'", "first in line 8"),
    case("subscription of two topics", A, "- queue://orders", "- {destination: topic://t, subscription: s}\n    - {destination: topic://u, subscription: §s}", "connector.InputDestination[1].subscription", "a name of its own"),
    case("input that takes back what it gives", A, "- queue://orders", "- §orders~RECOVER-ERROR", "connector.InputDestination[0]", "goes back to its queue", "~REJECT-ERROR"),
    case("input that is no view", A, "- queue://orders", "- §orders~ERROR", "connector.InputDestination[0]", "RECOVER-ERROR"),
    case("archive that is a topic", A, "ArchiveDestination: queue://archive", "ArchiveDestination: §topic://archive", "connector.ArchiveDestination", "nobody subscribes", "a queue"),
    case("error topic", A, "ErrorDestination: queue://error", "ErrorDestination: §topic://error", "connector.ErrorDestination", "is lost"),
    case("view as an error queue", A, "ErrorDestination: queue://error", "ErrorDestination: §queue://error~EXPIRED", "connector.ErrorDestination", "nothing can be sent there"),
    case("view as a sink", A, "destination: queue://erp-orders", "destination: §queue://erp~EXPIRED", "subscriptions[1].destination", "nothing can be sent there"),
    case("view as in progress", A, "PollQuantity: 25", "InProgressDestination: §queue://p~EXPIRED", "connector.InProgressDestination", "nothing can be sent there"),
    # exclusions
    case("in doubt without in progress", A, "PollQuantity: 25", "InDoubtEvents: §Ignore", "connector.InDoubtEvents", "InProgressDestination"),
    case("managed with a process", A, "PollQuantity: 25", "ContainerManagedEvents: JMS", "subscriptions[0].process", "ContainerManagedEvents"),
    case("one end of the window", A, "PollQuantity: 25", "PollStartTime: §06:00", "connector.PollStartTime", "both or none"),
    # names in adapter.yaml
    case("static meta-object", A, "ConfigurationMetaObject: MO_Config", "ConfigurationMetaObject: §MO_Confg", "connector.ConfigurationMetaObject", "no static meta-object", nearest="MO_Config"),
    case("handler meta-object", A, "PollQuantity: 25", "DataHandlerConfigMO: §MO_DataHandler_Defalt", "connector.DataHandlerConfigMO", nearest="MO_DataHandler_Default"),
    case("data handler", A, "DataHandlerMimeType: application/json", "DataHandlerMimeType: §application/jsn", "connector.DataHandlerMimeType", "no data handler", nearest="application/json"),
    case("handler class", A, "PollQuantity: 25", "DataHandlerClassName: §processes:Csv", "connector.DataHandlerClassName", "no class 'Csv'"),
    case("default verb", A, "DefaultVerb: Create", "DefaultVerb: §Creat", "connector.DefaultVerb", nearest="Create"),
    case("object", A, "- object: Order\n", "- object: §Odrer\n", "subscriptions[1].object", "no business object", nearest="Order"),
    case("pattern", A, "- object: Order\n", "- object: §Invoice*\n", "subscriptions[1].object", "no business object"),
    case("verb", A, "[Create, Update]", "[Create, §Updat]", "subscriptions[0].verbs[1]", "no verb 'Updat'", nearest="Update"),
    case("single verb", A, "verbs: [Create, Update]", "verbs: §Delete", "subscriptions[0].verbs", "no verb 'Delete'"),
    case("module", A, "process: processes:store_customer", "process: §proceses:store_customer", "subscriptions[0].process", "no module 'proceses'", nearest="processes"),
    case("function", A, "process: processes:store_customer", "process: §processes:store_custmer", "subscriptions[0].process", "no function", nearest="processes:store_customer"),
    case("no reference", A, "process: processes:store_customer", "process: §processes.store_customer", "subscriptions[0].process", "module:function"),
    case("module of a package", A, "process: processes:store_customer", "process: §json.nothing:load", "subscriptions[0].process", "no module 'json.nothing'"),
    case("function of the library", A, "process: processes:store_customer", "process: §json:laods", "subscriptions[0].process", nearest="json:loads"),
    case("process and destination", A, "    process: processes:store_customer", "    process: processes:store_customer\n    destination: §queue://x", "subscriptions[0].destination", "a process and a destination", "a subscription for each"),
    case("no sink", A, "    process: processes:store_customer\n", "", "subscriptions[0]", "neither dataframe nor destination nor load nor process"),
    case("format of a process", A, "    process: processes:store_customer", "    process: processes:store_customer\n    mime_type: §text/xml", "subscriptions[0].mime_type", "expected it with reply: true"),
    case("timeout of a destination", A, "    mime_type: text/xml", "    timeout: §5s", "subscriptions[1].timeout", "with a process, a table or a webhook only"),
    case("handler of a subscription", A, "mime_type: text/xml", "mime_type: §text/html", "subscriptions[1].mime_type", "no data handler", nearest="text/xml"),
    case("same name", A, "    mime_type: text/xml", "    name: §Customer processes:store_customer", "subscriptions[1].name", "first in line 20"),
    # databases
    case("database of nobody", A, P, P + "\n    transaction: §shops", "subscriptions[0].transaction", "there is no database 'shops'", nearest="shop"),
    case("misspelt database", A, P, "    table: §shp.customer", "subscriptions[0].table", "there is no database 'shp'", nearest="shop"),
    case("reply of a transaction", A, P, P + "\n    transaction: shop\n    reply: §true", "subscriptions[0].reply", "transaction"),
    case("misspelt databases", A, P + "\n  - object: Order\n    destination: queue://erp-orders\n    mime_type: text/xml\n\nmetaobjects: ./metaobjects\n\nspark:\n  master: local[*]\n\ndatabases:", P + "\n    transaction: shop\n\nmetaobjects: ./metaobjects\n\n§database:", "database", "unknown key", nearest="databases"),
    case("URL of nothing", A, "url: \"sqlite:///./shop.db\"", "url: §secret", "databases.shop.url", "no URL"),
    *(
        case(f"PostgreSQL as {scheme}", A, "url: \"sqlite:///./shop.db\"", f"url: §\"{scheme}://u:secret@h/d\"", "databases.shop.url", f"'{scheme}'", "expected postgresql+psycopg://")
        for scheme in ("postgres", "postgresql+psycopg2", "postgresql+asyncpg", "pgsql")
    ),
    *(
        case(f"messages in PostgreSQL as {scheme}", A, "type: dropbox\n  root: ./data", f"type: sql\n  url: §\"{scheme}://u:secret@h/d\"", "provider.url", f"'{scheme}'", "expected postgresql+psycopg://")
        for scheme in ("postgres", "postgresql+psycopg2")
    ),
    case("URL of another service", A, "url: \"sqlite:///./shop.db\"", "url: §\"ftp://u:secret@h/d\"", "databases.shop.url", "'ftp'"),
    case("driver that is missing", A, "url: \"sqlite:///./shop.db\"", "url: §\"mysql+pymysql://u:secret@h/d\"", "databases.shop.url", "driver cannot be imported"),
    case("table without a database", A, P, "    table: §customer", "subscriptions[0].table", "DATABASE.TABLE"),
    case("table of a pattern", A, "  - object: Customer\n    verbs: [Create, Update]\n" + P, "  - object: §Cust*\n    table: shop.customer", "subscriptions[0].object", "the name of one business object"),
    case("column of nothing", A, P, "    table: shop.customer\n    columns: {id: §CustomerID}\n    operation: insert", "subscriptions[0].columns.id", "no attribute 'CustomerID', did you mean 'CustomerId'"),
    case("column of a child", A, P, "    table: shop.customer\n    columns: {id: CustomerId, address: §Address}", "subscriptions[0].columns.address", "not a single value"),
    case("expression of a column", A, P, "    table: shop.customer\n    columns: {id: CustomerId, city: §\"Address[\"}", "subscriptions[0].columns.city", "no JMESPath"),
    *(
        case(f"column twice {number}", A, P, f"    table: shop.customer\n    columns: {{{columns}}}", f"subscriptions[0].{path}", words, more=more)
        for number, (columns, path, words, more) in enumerate(
            (
                ("id: CustomerId, a: Name, A: §Limit", "columns.A", "two values for the column a, which is also A, expected one source of each column", ()),
                ("id: CustomerId}\n    children: {Address: {table: shop.address, key: {city: §CustomerId}, columns: {City: City}}", "children.Address.key.city", "City, which is also city", ()),
                ("id: CustomerId}\n    children: {Address: {table: shop.address, key: {city: §CustomerId}}", "children.Address.key.city", "two values for the column City, which is also city", ()),
                ("id: CustomerId}\n    children: {Address: {table: shop.address, key: {City: CustomerId}, columns: {City: §City}}", "children.Address.columns.City", "two values for the column City, expected", ((A, "sqlite:///./shop.db", "postgresql+psycopg://u:p@127.0.0.1/d"),)),
                ("id: CustomerId}\n    children: {Address: {table: §shop.customer, key: {id: CustomerId}}", "children.Address.table", "shop.customer, the table of the object, expected a table of its own", ()),
            )
        )
    ),
    case("columns of attributes in other case", A, "  - object: Customer\n    verbs: [Create, Update]\n" + P, "  - object: Order\n    table: §shop.orders", "subscriptions[0].table", "two values for the column ID, which is also Id", more=((O, "business_object: Order\nverbs: {Create: }\nattributes:\n", "business_object: Order\nverbs: {Create: }\nattributes:\n  ID: String\n"),)),
    case("child of nothing", A, P, "    table: shop.customer\n    children: {Adress: §{table: shop.address, key: {id: CustomerId}}}", "subscriptions[0].children.Adress", "no contained object", nearest="Address"),
    case("child elsewhere", A, P, "    table: shop.customer\n    children: {Address: {table: §crm.address, key: {id: CustomerId}}}", "subscriptions[0].children.Address.table", "another database"),
    case("child without a key", A, P, "    table: shop.customer\n    children: {Address: {table: shop.address, key: §{}}}", "subscriptions[0].children.Address.key", "no column"),
    *(
        case(f"child within a child {number}", A, P, "    table: shop.customer\n    children: {Address: {table: shop.address, key: {id: CustomerId}, columns: {city: City}, children: " + inner + "}}", f"subscriptions[0].children.Address.children.{path}", words, more=((O, "  City: {type: String, key: true}", "  City: {type: String, key: true}\n  Inner: {type: Inner, cardinality: n}"), (O, "business_object: Address", "business_object: Inner\nattributes: {Text: String}\n---\nbusiness_object: Address")))
        for number, (inner, path, words) in enumerate(
            (
                ("{Parts: §{table: shop.inner, key: {city: City}}}", "Parts", "Address has no contained object 'Parts'"),
                ("{Inner: {table: §crm.inner, key: {city: City}}}", "Inner.table", "another database"),
                ("{Inner: {table: shop.inner, key: §{}}}", "Inner.key", "no column"),
                ("{Inner: {table: shop.inner, key: {id: CustomerId, name: §Name}}}", "Inner.key.name", "Name, which no column of the table around has, expected one of City, CustomerId"),
                ("{Inner: {table: §shop.address, key: {city: City}}}", "Inner.table", "shop.address, the table of Address, expected a table of its own"),
                ("{Inner: {table: shop.inner, key: {city: City}, columns: {x: §Txt}}}", "Inner.columns.x", "no attribute 'Txt'"),
            )
        )
    ),
    # requests
    case("view of replies", A, "PollQuantity: 25", "ReplyToDestination: §replies~EXPIRED", "connector.ReplyToDestination", "nothing can be sent there"),
    case("replies are polled", A, "PollQuantity: 25", "ReplyToDestination: §queue://orders", "connector.ReplyToDestination", "the InputDestination too (line 8)", "endless loop"),
    case("replies are archived", A, "PollQuantity: 25", "ReplyToDestination: §queue://archive", "connector.ReplyToDestination", "the ArchiveDestination too (line 12)"),
    case("replies and what is sent on", A, "PollQuantity: 25", "ReplyToDestination: queue://erp-orders", "subscriptions[1].destination", "the ReplyToDestination too (line 11)"),
    case("property of the result", A, "PollQuantity: 25", "MessageResponseResultProperty: §my result", "connector.MessageResponseResultProperty", "it has ' '", "name of a property"),
    case("header for the result", A, "PollQuantity: 25", "MessageResponseResultProperty: §JMSType", "connector.MessageResponseResultProperty", "headers"),
    case("header for the format", A, "PollQuantity: 25", "MessageFormatProperty: §JMSTyp", "connector.MessageFormatProperty", "begins with JMS, as headers do, expected JMSType, JMSCorrelationID, or the name of a property", nearest="JMSType"),
    case("late replies nowhere", A, "ArchiveDestination: queue://archive", "late_replies: §archive", "connector.late_replies", "late_replies: archive without ArchiveDestination, expected an ArchiveDestination, or error | discard"),
    case("header of a request", A, "PollQuantity: 25", "reply_matching: {request: §JMSMesageID}", "connector.reply_matching.request", "JMSMessageID, JMSCorrelationID, or the name of a property", nearest="JMSMessageID"),
    case("message id of a reply", A, "PollQuantity: 25", "reply_matching: {reply: §JMSMessageID}", "connector.reply_matching.reply", "JMSCorrelationID, or the name of a property"),
    case("case of a header of a request", A, "PollQuantity: 25", "reply_matching: {request: §JMSMessageId}", "connector.reply_matching.request", "'JMSMessageId' is no property: it begins with JMS, as headers do, expected JMSMessageID,", nearest="JMSMessageID"),
    case("no request in flight", A, "PollQuantity: 25", "SessionPoolSizeForRequests: §0", "connector.SessionPoolSizeForRequests", "from 1 to 10000"),
    case("property that no selector can ask for", A, "PollQuantity: 25", "reply_matching: {reply: §a b}", "connector.reply_matching.reply", "'a b': it has ' ', expected JMSCorrelationID, or the name of a property: letters, digits, '_' and '$'"),
    case("property without a name", A, "PollQuantity: 25", "MessageResponseResultProperty: §''", "connector.MessageResponseResultProperty", "Property: '', expected the name of a property"),
    case("reply of a destination", A, "    mime_type: text/xml", "    reply: §true", "subscriptions[1].reply", "it with a process only"),
    case("handler of a reply", A, "    process: processes:store_customer", "    process: processes:store_customer\n    reply: true\n    mime_type: §text/html", "subscriptions[0].mime_type", "no data handler", nearest="text/xml"),
    # Spark
    case("speculation", A, "  master: local[*]", "  master: local[*]\n  conf: {§spark.speculation: true}", "spark.conf.spark.speculation", "owns", "false, or nothing"),
    case("no Spark setting", A, "  master: local[*]", "  master: local[*]\n  conf: {§executor.memory: 2g}", "spark.conf.executor.memory", "no Spark setting", nearest="spark.executor.memory"),
    case("master", A, "master: local[*]", "master: §locl[*]", "spark.master", "spark://HOST:PORT", nearest="local[*]"),
    case("meta-objects", A, "metaobjects: ./metaobjects", "metaobjects: [./metaobjects, §./more]", "metaobjects[1]", "there is no more"),
    # business objects
    case("type", O, "Name: String", "Name: §Strng", "Customer.attributes.Name.type", "no type 'Strng'", nearest="String"),
    case("type in lower case", O, "Name: String", "Name: §string", "Customer.attributes.Name.type", nearest="String"),
    case("type of a child", O, "{type: Address, cardinality: n}", "{type: §Adress, cardinality: n}", "Customer.attributes.Address.type", nearest="Address"),
    case("meta-object as a type", O, "Name: String", "Name: §MO_Config", "Customer.attributes.Name.type", "static_metaobject"),
    case("attribute without type", O, "Name: String", "Name: §{key: true}", "Customer.attributes.Name", "type is missing"),
    case("misspelt type of an attribute", O, "Name: String", "Name: {§typ: String}", "Customer.attributes.Name.typ", "unknown key", nearest="type"),
    case("alias and short name", O, "key: true, required: true", "required: true, §IsRequired: true", "Customer.attributes.CustomerId.IsRequired", "same key"),
    case("duplicate attribute", O, "  Name: String", "  Name: String\n  §Name: String", "", "'Name' stands twice", "lines 8 and 9"),
    case("name of an attribute", O, "  Name: String", "  §First Name: String", "Customer.attributes.First Name", "letters"),
    case("default", O, "{type: Double, required: true, default: 0}", "{type: Double, default: §zero}", "Customer.attributes.Limit.default", "'zero'", "a number"),
    case("default of a child", O, "{type: CustomerMeta}", "{type: CustomerMeta, default: §x}", "Customer.attributes.Meta.default", "child"),
    case("digits of a text", O, "Name: String", "Name: {type: String, digits: §5}", "Customer.attributes.Name.digits", "digits of a String", "only a Decimal"),
    case("scale of a number", O, "{type: Double, required: true, default: 0}", "{type: Double, scale: §2}", "Customer.attributes.Limit.scale", "scale of a Double", "only a Decimal"),
    case("more places than digits", O, "Name: String", "Name: {type: Decimal, digits: 2, scale: §3}", "Customer.attributes.Name.scale", "3 places of 2 digits"),
    case("default of a Decimal", O, "{type: Double, required: true, default: 0}", "{type: Decimal, required: true, scale: 2, default: §0.125}", "Customer.attributes.Limit.default", "3 places after the point", "at most 2"),
    case("key that is a list", O, "key: true, required: true", "key: true, cardinality: §n", "Customer.attributes.CustomerId.cardinality", "cardinality n of a key"),
    case("default of a list", O, "{type: Double, required: true, default: 0}", "{type: Double, cardinality: n, default: §0}", "Customer.attributes.Limit.default", "a default of a list"),
    case("list of event ids", O, "Name: String", "Name: String\n  ObjectEventId: {type: String, cardinality: §n}", "Customer.attributes.ObjectEventId.cardinality", "the id of the event"),
    case("list as a comment", O, "Name: String", "Name: {type: String, cardinality: §n, app_specific_info: type=comment}", "Customer.attributes.Name.cardinality", "type=comment"),
    case("list in a dynamic meta-object", O, "MessageID: String", "§MessageID: {type: String, cardinality: n}", "CustomerMeta.attributes.MessageID", "a list of values as MessageID"),
    case("list as a property", O, 'Region: {type: String, app', '§Region: {cardinality: n, type: String, app', "CustomerProperties.attributes.Region", "a list of values as the property 'region'"),
    case("dynamic meta-object", O, "cw_mo_conn=Meta", "cw_mo_conn=Mta", "Customer.app_specific_info", "no attribute 'Mta'", nearest="Meta"),
    case("type of a property", O, "name=region;type=String", "name=region;type=Strin", "Customer.attributes.Meta", "type=Strin"),
    case("defined twice", O, "business_object: Address\n", "business_object: §Customer\n---\nbusiness_object: Address\n", "business_object", "defined twice", "objects.yaml:1"),
    case("name of an object", O, "business_object: Order\n", "business_object: §Or-der\n", "business_object", "letters"),
    case("simple type as an object", O, "business_object: Order\n", "business_object: §Date\n---\nbusiness_object: Order\n", "Date.business_object", "simple type"),
    case("kind of document", O, "business_object: Address", "§busines_object: Address", "", "unknown kind", nearest="business_object"),
    case("key of an object", O, "attributes:\n  City: {type: String, key: true}", "§attribute:\n  City: String", "Address.attribute", "unknown key", nearest="attributes"),
    case("circle", O, "attributes:\n  City: {type: String, key: true}", "attributes:\n  §Inner: {type: Address, required: true}", "Address.attributes.Inner", "circle", "Address > Address"),
    # rules
    case("rule name", R, "Order_Create:", "§Order_Creat:", "MO_Config.rules.Order_Creat", "no business object and verb", nearest="Order_Create"),
    case("match key under Default", R, "Default:\n", "Default:\n  §InputFormat: X\n", "MO_Config.Default.InputFormat", "never matches"),
    case("selector under Default", R, "Default:\n", "Default:\n  §selector: a = 1\n", "MO_Config.Default.selector", "never matches"),
    case("selector of a rule", R, "InputFormat: CUST_IN", "selector: 'urgent =§'", "MO_Config.rules.Customer_Create.selector", "no message selector"),
    case("expression of a rule", R, "InputFormat: CUST_IN", "jmespath: §'a[?'", "MO_Config.rules.Customer_Create.jmespath", "no JMESPath expression"),
    case("priority of a rule", R, "InputFormat: CUST_IN", "rule_priority: §high", "MO_Config.rules.Customer_Create.rule_priority", "from 0 up"),
    case("second rule that says how an object is sent", R, "{InputDestination: queue://orders, DataHandlerMimeType: text/xml}", "[{InputDestination: queue://orders, OutputFormat: A}, {InputFormat: B, §OutputFormat: A}]", "MO_Config.rules.Order_Create[1].OutputFormat", "Order_Create[0] in line 6 says how Create of Order is sent, too", "in one rule of the list"),
    case("key in a list of rules", R, "{InputDestination: queue://orders, DataHandlerMimeType: text/xml}", "[{InputFormat: A}, {§InputFormt: B}]", "MO_Config.rules.Order_Create[1].InputFormt", "unknown key", nearest="InputFormat"),
    case("priority in a list of rules", R, "{InputDestination: queue://orders, DataHandlerMimeType: text/xml}", '["InputFormat=A", "InputFormat=B;§Priority=10"]', "MO_Config.rules.Order_Create[1].Priority", "from 0 to 9"),
    case("replies to one rule of a list are in error", R, "{InputDestination: queue://orders, DataHandlerMimeType: text/xml}", "[{InputFormat: A}, {ReplyToDestination: §queue://error}]", "MO_Config.rules.Order_Create[1].ReplyToDestination", "the ErrorDestination too (adapter.yaml:13)"),
    case("same match keys in a list of rules", R, "{InputDestination: queue://orders, DataHandlerMimeType: text/xml}", "[{InputFormat: A}, {InputFormat: B}, §{InputFormat: A, DataHandlerMimeType: text/xml}]", "MO_Config.rules.Order_Create[2]", "the same match keys as Order_Create[0]: several matching rules count as none", "match keys of its own", warning=True),
    case("list without rules", R, "{InputDestination: queue://orders, DataHandlerMimeType: text/xml}", "§[]", "MO_Config.rules.Order_Create", "an empty list"),
    case("list in a list of rules", R, "{InputDestination: queue://orders, DataHandlerMimeType: text/xml}", "[§[{InputFormat: A}]]", "MO_Config.rules.Order_Create[0]", "a list", "a mapping"),
    case("key with a number", R, "Order_Create: {", "§Order_Create[0]: {", "MO_Config.rules.Order_Create[0]", "no business object and verb for 'Order_Create[0]'", nearest="Order_Create"),
    case("key of a rule of a list", R, "  Order_Create: {InputDestination: queue://orders, DataHandlerMimeType: text/xml}", "  Order_Create: [{InputFormat: A}]\n  §Order_Create[0]: {InputFormat: B}", "MO_Config.rules.Order_Create[0]", "the name of a rule in the list Order_Create", "another name"),
    case("options of one format twice", R, "handlers:\n  text/xml", "handlers:\n  Text/XML: {}\n  §text/xml", "MO_DataHandler_Default.handlers.text/xml", "one format, expected one of the two"),
    case("list of data handlers", R, 'handlers:\n  text/xml: {BOPrefix: "", IgnoreUndefinedAttributes: false}', "handlers: §[text/xml]", "MO_DataHandler_Default.handlers", "a list", "MIME type: options"),
    case("class of a data handler in its options", R, "text/xml: {", "text/xml: {ClassName: §mine:Handler, ", "MO_DataHandler_Default.handlers.text/xml.ClassName", "'mine:Handler'", "DataHandlerClassName"),
    case("name handler", R, "text/xml: {", "text/xml: {NameHandlerClass: §top, ", "MO_DataHandler_Default.handlers.text/xml.NameHandlerClass", "'top'", "jmespath:EXPRESSION"),
    case("property of a rule", R, "InputFormat: CUST_IN", "§InputFormt: CUST_IN", "MO_Config.rules.Customer_Create.InputFormt", "unknown key", nearest="InputFormat"),
    case("destination of a rule", R, "OutputDestination: queue://crm", "OutputDestination: §queue://a/b", "MO_Config.rules.Customer_Create.OutputDestination", "'/'"),
    case("handler of Default", R, "DataHandlerMimeType: application/json", "DataHandlerMimeType: §application/jason", "MO_Config.Default.DataHandlerMimeType", nearest="application/json"),
    case("options of a rule", R, "InputFormat: CUST_IN", "DataHandlerConfigMO: §MO_Nothing", "MO_Config.rules.Customer_Create.DataHandlerConfigMO", "no data-handler meta-object"),
    case("replies to a rule are in error", R, "{InputFormat: CUST_IN, OutputDestination: queue://crm}", "{ReplyToDestination: §queue://error}", "MO_Config.rules.Customer_Create.ReplyToDestination", "the ErrorDestination too (adapter.yaml:13)", "a queue of its own"),
    case("replies to a rule are archived, in pairs", R, "{InputFormat: CUST_IN, OutputDestination: queue://crm}", '"OutputFormat=X;§ReplyToDestination=archive"', "MO_Config.rules.Customer_Create.ReplyToDestination", "the ArchiveDestination too (adapter.yaml:12)"),
    case("replies to a rule are sent on", R, "{InputFormat: CUST_IN, OutputDestination: queue://crm}", "{ReplyToDestination: §queue://erp-orders}", "MO_Config.rules.Customer_Create.ReplyToDestination", "the destination of a subscription too (adapter.yaml:24)"),
    case("awaited replies to a rule are polled", R, "{InputFormat: CUST_IN, OutputDestination: queue://crm}", "{ResponseTimeout: 0, ReplyToDestination: §queue://orders}", "MO_Config.rules.Customer_Create.ReplyToDestination", "the InputDestination too (adapter.yaml:8)", "polled as events"),
    case("replies by Default are in error", R, "Default:\n", "Default:\n  ReplyToDestination: §queue://error\n", "MO_Config.Default.ReplyToDestination", "the ErrorDestination too"),
    case("replies by Default are polled that one rule awaits", R, "Default:\n  DataHandlerMimeType: application/json\nrules:\n  Customer_Create: {", "Default:\n  ReplyToDestination: §queue://orders\nrules:\n  Customer_Create: {ResponseTimeout: 5000, ", "MO_Config.Default.ReplyToDestination", "polled as events"),
    case("pairs", R, "{InputFormat: CUST_IN, OutputDestination: queue://crm}", '"InputFormat=CUST_IN;§Priority"', "MO_Config.rules.Customer_Create", "name=value"),
    case("value in pairs", R, "{InputFormat: CUST_IN, OutputDestination: queue://crm}", '"InputFormat=CUST_IN;§Priority=10"', "MO_Config.rules.Customer_Create.Priority", "from 0 to 9"),
    # options of data handlers
    case("option", R, 'BOPrefix: ""', '§BOPrefx: ""', "MO_DataHandler_Default.handlers.text/xml.BOPrefx", "no such option", nearest="BOPrefix"),
    case("value of an option", R, "IgnoreUndefinedAttributes: false", "IgnoreUndefinedAttributes: §perhaps", "MO_DataHandler_Default.handlers.text/xml.IgnoreUndefinedAttributes", "true or false"),
    # two changes
    case("topic that is input and sink", A, "    destination: queue://erp-orders", "    destination: §topic://t", "subscriptions[1].destination", "endless loop", more=((A, "- queue://customers", "- {destination: topic://t, subscription: s}"),)),
    case("managed events of a topic", A, "- queue://orders", "- §{destination: topic://orders, subscription: s}", "connector.InputDestination[0]", "DuplicateEventElimination", more=(MANAGED, TO_CRM)),
    *(
        case(f"managed events and {other}", A, "PollQuantity: 25", f"ContainerManagedEvents: §JMS\n  {other}", "connector.ContainerManagedEvents", other.partition(":")[0], more=(TO_CRM,))
        for other in ("DuplicateEventElimination: true", "InProgressDestination: queue://p")
    ),
    case("shipped file that hides a module", A, "  master: local[*]", "  ship: [processes.py, lib/queue.py]", "", "lib/queue.py:1:1: hides the module queue of Python", more=(("lib/queue.py", "", ""),)),
    case("database without databases", A, 'databases:\n  shop: {url: "sqlite:///./shop.db"}\n', "", "subscriptions[0].transaction", "there is no database 'shop', expected databases: with its name and its url", more=((A, P, P + "\n    transaction: §shop"),)),
]  # fmt: skip
WARNINGS = [
    case("raw quoting", A, "PollQuantity: 25", "response_selector_quoting: §raw", "connector.response_selector_quoting", warning=True),
    case("two processes that answer the same request", A, P, f"{REPLY}\n  - object: Cust*\n{P}\n    reply: §true", "subscriptions[1].reply", "Customer.Create is answered by the subscription in line 20 too", warning=True),
    case("no input", A, "  InputDestination:\n    - queue://orders\n    - queue://customers\n", "", "connector.InputDestination", "requests only", warning=True),
    case("destination of a rule that is not polled", A, "    - queue://orders\n", "", "MO_Config.rules.Order_Create.InputDestination", "this rule never matches", nearest="queue://customers", warning=True),
    case("equal match keys", R, "InputFormat: CUST_IN,", "InputDestination: orders,", "MO_Config.rules.Order_Create", "Customer_Create", warning=True),
    case("topic in two subscriptions", A, "- queue://orders", "- queue://orders\n    - {destination: topic://p, subscription: a, selector: x IS NULL}\n    - {destination: topic://p, subscription: §b, selector: x is null}", "connector.InputDestination[2].subscription", "of topic://p (subscription 'a'), in line 9, too", "selectors that differ", warning=True),
    case("fields of a cron without the word", A, "PollFrequency: 1000", "PollFrequency: §0 6 * * 1", "connector.PollFrequency", '"cron 0 6 * * 1"'),
    case("field of a cron", A, "PollFrequency: 1000", "PollFrequency: §cron 0 25 * * 1", "connector.PollFrequency", "'25' in the hour '25'", "from 0 to 23"),
    case("window and cron", A, "PollFrequency: 1000", "PollFrequency: cron 0 6 * * 1\n  PollStartTime: §06:00\n  PollEndTime: 22:00", "connector.PollStartTime", "with a cron", "one of them"),
    case("window without polls", A, "PollFrequency: 1000", "PollFrequency: no\n  PollStartTime: §06:00\n  PollEndTime: 22:00", "connector.PollStartTime", "PollFrequency: no", "or no window", warning=True),
    case("window over midnight without polls", A, "PollFrequency: 1000", 'PollFrequency: "no"\n  PollEndTime: 06:00\n  PollStartTime: §22:00', "connector.PollStartTime", "PollFrequency: no", warning=True),
    case("expression in a rule for XML", R, "{InputDestination: queue://orders, DataHandlerMimeType: text/xml}", "{InputDestination: queue://orders, DataHandlerMimeType: text/xml, jmespath: §kind}", "MO_Config.rules.Order_Create.jmespath", "the bodies of this rule are text/xml", "never matches", warning=True),
    case("expression in a rule with a format of Default", R, "  DataHandlerMimeType: application/json\nrules:\n  Customer_Create: {", "  DataHandlerMimeType: Text/CSV; charset=utf-8\nrules:\n  Customer_Create: {jmespath: §\"a == 'b'\", ", "MO_Config.rules.Customer_Create.jmespath", "the bodies of this rule are text/csv", warning=True),
    case("expression in a rule with the format of the connector", A, "DataHandlerMimeType: application/json", "DataHandlerMimeType: application/soap+xml", "MO_Config.rules.Customer_Create.jmespath", "the bodies of this rule are application/soap+xml", warning=True, more=((R, "Default:\n  DataHandlerMimeType: application/json\n", ""), (R, "Customer_Create: {", "Customer_Create: {jmespath: §a, "))),
    *(
        case(f"property of MQ adapters, {key}", R, "{InputFormat: CUST_IN,", f"{{InputFormat: CUST_IN, {key}: §x,", f"MO_Config.rules.Customer_Create.{key}", warning=True)
        for key in ("CollaborationName", "DataEncoding")
    ),
]  # fmt: skip
RIGHT: dict[str, list[Edit]] = {
    "a process that replies may have a format of its own": [(A, P, f"{REPLY}\n    mime_type: text/xml\n    format: ANSWER")],
    "two processes may answer different verbs": [
        (A, P, f"{REPLY}\n  - object: Customer\n    verbs: [Update]\n    name: second\n{REPLY}"),
        (A, "[Create, Update]", "[Create]"),
    ],
    "a rule may name the reply destination of the connector": [
        (A, "PollQuantity: 25", "ReplyToDestination: queue://replies"),
        (R, "OutputDestination: queue://crm", "ResponseTimeout: 1, ReplyToDestination: replies"),
    ],
    "replies to a request that does not wait may be events": [(R, "OutputDestination: queue://crm", "ReplyToDestination: queue://orders")],
    "options that some handler reads": [
        ("handlers.py", "", HANDLERS),
        (A, "DataHandlerMimeType: application/json", CLASS),
        (R, "  DataHandlerMimeType: application/json\n", f"  {OPTIONS}\n"),
    ],
    "a topic may be input and sink without its own messages": [
        (A, "- queue://customers", "- {destination: topic://t, subscription: s, no_local: true}"),
        (A, "destination: queue://erp-orders", "destination: topic://t"),
    ],
    **{
        f"{file} hides no module": [(file, "", "")]
        for file in ("orders.py", "test_orders.py", "setup_orders.py", "not-a-module.py", "json/x.py")
    },
}  # fmt: skip


@rows("mistake", [*CASES, *WARNINGS])
def test_a_mistake_is_the_only_problem_and_named_with_its_place(deployment: Sample, mistake: Mistake) -> None:
    mistake.assert_alone(deployment)


@rows("name, edits", RIGHT.items())
def test_what_is_right_has_no_problem(deployment: Sample, name: str, edits: list[Edit]) -> None:
    deployment.edit(edits)
    assert deployment.check() == [], name


def test_all_mistakes_are_found_at_once_and_in_the_order_of_their_places(deployment: Sample) -> None:
    for name in ("integer", "function", "master", "type", "rule name", "option"):
        mistake = next(mistake for mistake in CASES if mistake.name == name)
        deployment.edit((file, old, new.replace("§", "")) for file, old, new in mistake.edits)
    deployment.replace(A, "PollFrequency: 1000", "PollFrequncy: 1000")
    problems = deployment.check()
    places = [(problem.file, problem.line, problem.column) for problem in problems]
    assert places == sorted(places)
    keys = [problem.path.rpartition(".")[2] for problem in problems]
    assert keys == ["PollFrequncy", "PollQuantity", "process", "master", "type", "Order_Creat", "BOPrefx"]


def test_a_mistake_in_a_list_does_not_move_the_places_of_its_other_entries(deployment: Sample) -> None:
    deployment.replace(A, "- queue://orders", "- queue://a/b\n    - {selector: x}\n    - queue://error")
    deployment.replace(A, "  - object: Customer\n", "  - object: a b\n    process: x\n  - object: Custmer\n")
    places = {problem.path: problem.line for problem in deployment.check()}
    assert places["connector.InputDestination[0]"] == 8
    assert places["connector.ErrorDestination"] == 15
    assert places["subscriptions[1].object"] == 24
    (loop,) = [problem for problem in deployment.check() if "endless loop" in problem.found]
    assert "(line 10)" in str(loop)


@rows(
    "edits, warning, words",
    [
        # the same object, verb and rule: the first is sure, the others are only possible
        ([], False, "what is sent there for Order.Create would be taken again, in an endless loop"),
        (
            [(A, "- queue://customers", "- {destination: queue://customers, selector: \"a = 'b'\"}")],
            True,
            "may be taken again",
        ),
        (
            [(R, "{InputFormat: CUST_IN,", "{InputFormat: CUST_IN, selector: \"a = 'b'\",")],
            False,
            "would be taken again",
        ),
        (
            [(R, "{InputFormat: CUST_IN,", "{InputDestination: queue://customers, selector: \"a = 'b'\",")],
            True,
            "may be taken again",
        ),
        (
            [
                (A, "destination: queue://customers", "destination: 'queue://{Id}'"),
                (A, "    mime_type: text/xml\n", "    destinations: ['queue://*']\n"),
            ],
            True,
            "may be taken again",
        ),
        # another rule, so another object
        ([(R, "{InputFormat: CUST_IN,", "{InputDestination: queue://customers,")], None, ""),
        ([(A, "    mime_type: text/xml\n", "    format: CUST_IN\n")], None, ""),
        # another verb
        (
            [
                (O, "business_object: Order\nverbs: {Create: }", "business_object: Order\nverbs: {Create: , Book: }"),
                (R, "  Customer_Create: {", "  Order_Book: {InputDestination: queue://customers}\n  Customer_Create: {"),
                (A, "  - object: Order\n", "  - object: Order\n    verbs: [Create]\n"),
            ],
            None,
            "",
        ),
        # two steps, one after the other, that come back
        (
            [
                (A, "  - object: Order\n", "  - object: Order\n    destination: queue://orders\n    verbs: [Book]\n"
                    "    format: X\n  - object: Order\n    verbs: [Create]\n"),
                (O, "business_object: Order\nverbs: {Create: }", "business_object: Order\nverbs: {Create: , Book: }"),
                (R, "  Customer_Create: {", "  Order_Book: {InputDestination: queue://customers}\n  Customer_Create: {"),
            ],
            False,
            "would be taken again, after 2 steps, in an endless loop",
        ),
    ],
)  # fmt: skip
def test_a_second_step_is_no_loop_unless_it_comes_back(
    deployment: Sample, edits: list[tuple[str, str, str]], warning: bool | None, words: str
) -> None:
    deployment.replace(A, "destination: queue://erp-orders", "destination: queue://customers")
    for edit in edits:
        deployment.replace(*edit)
    found = [one for one in deployment.check() if "endless loop" in one.found]
    assert [one.warning for one in found] == ([] if warning is None else [warning])
    assert all(words in one.found for one in found)
    others = [one for one in deployment.check() if one not in found and not one.warning]
    assert others == []


def test_a_computed_destination_that_may_be_one_of_the_adapters_own_is_a_warning(deployment: Sample) -> None:
    deployment.replace(A, "    destination: queue://erp-orders\n", TO_ALL)
    problem = deployment.problem()
    assert (problem.path, problem.warning) == ("subscriptions[1].destination", True)
    assert "queue://e{Id} may become queue://error, the ErrorDestination (line 13)" in problem.found


TO_ALL = "    destination: 'queue://e{Id}'\n    destinations: ['queue://*']\n"


RETRIES = "    process: processes:store_customer\n    retry_later: {attempts: 3}\n"


@rows(
    "edits, held",
    [
        ([], "queue://orders, queue://customers"),
        ([(A, "  PollQuantity: 25\n", "  order: destination\n")], "queue://orders, queue://customers"),
        ([(A, "  PollQuantity: 25\n", "  order: group\n")], ""),
        ([(A, "  PollQuantity: 25\n", "  order: none\n")], ""),
        ([(A, "- queue://customers", "- {destination: queue://customers, order: none}")], "queue://orders"),
        # every event of the one input is an Order, and the subscription wants a Customer
        (
            [
                (R, "  Customer_Create: {InputFormat: CUST_IN, OutputDestination: queue://crm}\n", ""),
                (A, "- queue://customers", "- {destination: queue://customers, order: none}"),
            ],
            "",
        ),
    ],
)  # fmt: skip
def test_events_that_come_again_and_hold_their_input_are_a_warning(
    deployment: Sample, edits: list[tuple[str, str, str]], held: str
) -> None:
    deployment.replace(A, P + "\n", RETRIES)
    for edit in edits:
        deployment.replace(*edit)
    found = [(one.path, one.warning, one.found) for one in deployment.check()]
    text = (
        f"retry_later with order: destination of {held}: one event that comes again later holds all events of"
    )
    expected = [("subscriptions[0].retry_later", True, f"{text} its input")]
    assert found == (expected if held else [])


def test_a_missing_section_brings_no_warning_about_what_it_lacks(deployment: Sample) -> None:
    deployment.replace(A, "connector:\n", "conector:\n")
    assert deployment.problem().path == "conector"


def test_a_format_of_one_attribute_that_an_object_lacks_is_a_warning(deployment: Sample) -> None:
    rule = "Order_Create: {InputDestination: queue://orders, DataHandlerMimeType: "
    deployment.replace(R, f"{rule}text/xml", f"{rule}text/plain")
    (problem,) = [one for one in deployment.check() if "to hold a plain text" in str(one)]
    assert problem.warning
    assert "MO_Config.rules.Order_Create: Order has no attribute 'Text'" in str(problem)
    assert "set the option 'attribute' of text/plain" in str(problem)


@rows(
    "of_connector, of_default, of_rule, path",
    [
        (CLASS, "", OPTIONS, "rules.Customer_Create"),
        ("", CLASS, OPTIONS, "rules.Customer_Create"),
        ("", "DataHandlerMimeType: text/xml", f"{CLASS}, {OPTIONS}", "rules.Customer_Create"),
        (CLASS, OPTIONS, f"{CLASS}", "Default"),
    ],
)
def test_options_of_a_handler_that_is_named_by_its_class_are_a_warning(
    deployment: Sample, of_connector: str, of_default: str, of_rule: str, path: str
) -> None:
    deployment.write("handlers.py", HANDLERS)
    deployment.replace(A, "DataHandlerMimeType: application/json", of_connector or "DefaultVerb: Update")
    if not of_connector:
        deployment.replace(A, "  DefaultVerb: Create\n", "")
    deployment.replace(R, "  DataHandlerMimeType: application/json\n", f"  {of_default}\n")
    deployment.replace(R, "InputFormat: CUST_IN", of_rule)
    deployment.replace(R, "DataHandlerMimeType: text/xml}", f"{CLASS}}}")
    problem = deployment.problem()
    assert (problem.path, problem.warning) == (f"MO_Config.{path}.DataHandlerConfigMO", True)
    assert "named by its class, handlers:Csv: these options are not read" in problem.found


@rows(
    "source, missing",
    [
        ("class Csv:\n    def __init__(self): pass\n", "to_business_object"),
        ("class Csv(object):\n    def to_business_object(self, body, hint): pass\n", "to_body"),
        ("class Base: pass\nclass Csv(Base): pass\n", ""),
        ("@with_methods\nclass Csv: pass\n", ""),
        ("class Csv(metaclass=Handler): pass\n", ""),
        ("class Csv: pass\nCsv.to_body = Csv.to_business_object = print\n", ""),
        ("class Csv: pass\nCsv = make(Csv)\n", ""),
        ("class Csv:\n    from csv_methods import *\n", ""),
        (HANDLERS, ""),
    ],
)
@rows("where", ["connector", "rules.Customer_Create", "Default"])
def test_a_handler_class_that_certainly_lacks_a_method_is_a_mistake(
    deployment: Sample, source: str, missing: str, where: str
) -> None:
    deployment.write("handlers.py", source)
    file, old = {
        "connector": (A, "DataHandlerMimeType: application/json"),
        "rules.Customer_Create": (R, "InputFormat: CUST_IN"),
        "Default": (R, "DataHandlerMimeType: application/json"),
    }[where]
    deployment.replace(file, old, f"{old}, {CLASS}" if where.startswith("rules") else CLASS)
    mistakes = [problem for problem in deployment.check() if not problem.warning]
    assert len(mistakes) == bool(missing)
    for problem in mistakes:
        assert problem.path.endswith(f"{where}.DataHandlerClassName")
        assert problem.line
        assert f"Csv has no method {missing}, expected a class with mime_types, options" in str(problem)


def test_a_module_that_a_process_imports_and_is_not_there_is_a_warning(deployment: Sample) -> None:
    imports = "import json, helper, requsts\nfrom xml.dom import minidom\nfrom nowhere.deep import x\n"
    conditional = "try:\n    import faster\nexcept ImportError:\n    faster = None\n"
    deployment.write("helper.py", "import other_that_nobody_asks_for\n")
    deployment.write("processes.py", imports + conditional + deployment.read("processes.py"))
    for problem, where in zip(
        deployment.check(), ("'requsts' in line 1", "'nowhere' in line 3"), strict=True
    ):
        assert (problem.path, problem.line, problem.warning) == ("subscriptions[0].process", 22, True)
        assert f"processes.py imports {where}, which is not installed here" in problem.found
    deployment.replace(A, "  master: local[*]", "  python: /usr/bin/env")
    assert deployment.check() == []


NAMED = "DataHandlerClassName: handlers:Csv"
HELPED = "import shutil\nfrom nowhere import deep\n"


@rows(
    "file, old, new, path",
    [
        (A, "DataHandlerMimeType: application/json", NAMED, "connector.DataHandlerClassName"),
        (R, "InputFormat: CUST_IN", f"InputFormat: CUST_IN, {NAMED}", "MO_Config.rules.Customer_Create.DataHandlerClassName"),
        (R, "DataHandlerMimeType: application/json", NAMED, "MO_Config.Default.DataHandlerClassName"),
        (R, 'BOPrefix: ""', 'NameHandlerClass: "handlers:name"', "MO_DataHandler_Default.handlers.text/xml.NameHandlerClass"),
        (A, "spark:", "datahandlers: ./plugins/handlers.py\nspark:", "datahandlers"),
        (A, "spark:", "datahandlers: ./plugins\nspark:", "datahandlers"),
        (A, "process: processes:store_customer", "load: handlers:load", "subscriptions[0].load"),
    ],
)  # fmt: skip
def test_a_module_that_any_code_imports_and_is_not_there_is_a_warning(
    deployment: Sample, file: str, old: str, new: str, path: str
) -> None:
    rest = "def name(body): ...\ndef load(dataframe, lot): ...\n"
    for place in "handlers.py", "plugins/handlers.py":
        declared = HANDLERS.replace("print", 'print\n    mime_types = ("text/x",)\n    options = ()')
        deployment.write(place, HELPED + declared + rest)
    deployment.replace(file, old, new)
    (problem,) = [one for one in deployment.check() if "handlers.py imports" in one.found]
    assert (problem.path, problem.warning) == (path, True)
    assert "handlers.py imports 'nowhere' in line 2, which is not installed here" in problem.found
    assert problem.line
    deployment.write("nowhere.py", "")
    assert not [one for one in deployment.check() if "imports" in one.found]


@rows("without", ["connector", "http", "metaobjects", "subscriptions", "spark", "databases"])
def test_a_missing_section_is_not_looked_up_in_another(deployment: Sample, without: str) -> None:
    """Keys of the missing section at the top are keys of the top, not of that section."""
    text = deployment.read(A)
    begin = text.index(f"{without}:") if f"{without}:" in text else len(text)
    end = text.find("\n\n", begin)
    deployment.write(A, text[:begin] + (text[end:] if end > 0 else ""))
    deployment.add("PollStartTime: 06:00\ntokens: [x]\nverbs: [y]")
    found = {problem.path for problem in deployment.check() if problem.found == "unknown key"}
    assert {"PollStartTime", "tokens", "verbs"} <= found
    assert not [one for one in deployment.check() if "without PollEndTime" in one.found]


@rows("name", ["queue", "json", "types", "pyspark", "yaml", "py4j", "pydantic", "connector"])
@rows("form", ["{}.py", "{}/__init__.py"])
def test_a_module_that_hides_another_is_a_mistake(deployment: Sample, name: str, form: str) -> None:
    file = form.format(name)
    deployment.write(file, "")
    problem = deployment.problem()
    shown = name if form.endswith("__init__.py") else file
    assert (problem.file, problem.line, problem.warning) == (shown, 1, False)
    assert f"module {name}" in problem.found
    with pytest.raises(ConfigurationError):
        deployment.load()


def test_the_environment_of_the_process_is_checked(
    deployment: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in ("queue", "yaml", "own"):
        (packages / f"{name}.py").touch()
    monkeypatch.setenv("PYTHONPATH", f"{os.environ.get('PYTHONPATH', '')}{os.pathsep}{packages}")
    hidden = deployment.problem()
    assert (hidden.file, hidden.warning) == (str(packages / "queue.py"), True)
    assert f"because PYTHONPATH has {packages}" in hidden.found
    monkeypatch.delenv("PYTHONPATH")
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Viena")
        time.tzset()
        zone = deployment.problem()
    time.tzset()
    assert (zone.file, zone.warning, "TZ is Europe/Viena" in zone.found) == ("adapter.yaml", True, True)


LISTED = "business_object: Listed\nverbs: {}\nattributes: {{Id: {{type: String, key: true}}}}\n"


@rows("verbs", ["[Create, Update, Retrieve]", "\n  - Create\n  - Update\n  - Retrieve"])
def test_verbs_may_be_a_list(deployment: Sample, verbs: str) -> None:
    deployment.write("metaobjects/n.yaml", LISTED.format(verbs))
    assert list(deployment.load().metaobjects.definitions["Listed"].verbs) == ["Create", "Update", "Retrieve"]


@rows(
    "verbs, found",
    [
        ("[Create, Create]", "the verb 'Create' stands twice"),
        ("[Create, {Update: }]", "a mapping, expected a verb; verbs with properties are a mapping"),
        ("[Create, ~]", "nothing, expected a verb"),
        ("[Create, a b]", "'a b'"),
    ],
)
def test_a_list_of_other_things_is_refused(deployment: Sample, verbs: str, found: str) -> None:
    deployment.write("metaobjects/n.yaml", LISTED.format(verbs))
    problem = deployment.problem()
    assert found in str(problem)
    assert (problem.file, problem.line) == ("metaobjects/n.yaml", 2)


def test_a_postgresql_url_without_a_driver_means_the_one_of_the_connector(deployment: Sample) -> None:
    deployment.replace(A, 'url: "sqlite:///./shop.db"', "url: postgresql://u@h/d")
    assert deployment.load().databases[0].url == "postgresql+psycopg://u@h/d"


def test_a_variable_that_is_no_utf_8_is_refused(deployment: Sample) -> None:
    deployment.replace(A, "ApplicationName: demo", "ApplicationName: ${NAME}")
    problem = deployment.problem(NAME="a\udcff")
    assert (problem.path, problem.line) == ("connector.ApplicationName", 6)
    assert problem.found == "the environment variable NAME is not valid UTF-8"
