"""Passes a body through Jackson (Java): reads it and writes it again. Arguments: the format, then the jars.

The body is on standard input, and what Jackson writes is on standard output.
"""

from __future__ import annotations

import sys

import jpype
import jpype.imports  # lets Python import Java packages


def main() -> None:
    kind, *jars = sys.argv[1:]
    jpype.startJVM(classpath=jars)
    body = sys.stdin.buffer.read()
    from com.fasterxml.jackson.databind import ObjectMapper
    from com.fasterxml.jackson.dataformat.csv import CsvMapper, CsvSchema
    from com.fasterxml.jackson.dataformat.xml import XmlMapper
    from java.util import LinkedHashMap

    if kind == "json":
        mapper = ObjectMapper()
        written = mapper.writeValueAsBytes(mapper.readTree(body))
    elif kind == "xml":
        mapper = XmlMapper()
        written = mapper.writer().withRootName("Order").writeValueAsBytes(mapper.readTree(body))
    else:
        mapper = CsvMapper()
        reader = mapper.readerFor(LinkedHashMap).with_(CsvSchema.emptySchema().withHeader())
        rows = reader.readValues(body).readAll()
        schema = CsvSchema.builder()
        for name in rows[0].keySet():
            schema.addColumn(name)
        written = mapper.writer(schema.build().withHeader()).writeValueAsBytes(rows)
    sys.stdout.buffer.write(bytes(written))
    sys.stdout.flush()


main()
