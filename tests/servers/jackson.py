"""Passes a body through Jackson (Java): reads it and writes it again. Arguments: the format, then the jars.

The body is on standard input, and what Jackson writes is on standard output.
"""

from __future__ import annotations

import sys

import jpype


def main() -> None:
    kind, *jars = sys.argv[1:]
    jpype.startJVM(classpath=jars)
    body = sys.stdin.buffer.read()
    jackson = "com.fasterxml.jackson"
    if kind == "json":
        mapper = jpype.JClass(f"{jackson}.databind.ObjectMapper")()
        written = mapper.writeValueAsBytes(mapper.readTree(body))
    elif kind == "xml":
        mapper = jpype.JClass(f"{jackson}.dataformat.xml.XmlMapper")()
        written = mapper.writer().withRootName("Order").writeValueAsBytes(mapper.readTree(body))
    else:
        csv_schema = jpype.JClass(f"{jackson}.dataformat.csv.CsvSchema")
        mapper = jpype.JClass(f"{jackson}.dataformat.csv.CsvMapper")()
        row = jpype.JClass("java.util.LinkedHashMap")
        reader = mapper.readerFor(row).with_(csv_schema.emptySchema().withHeader())
        rows = reader.readValues(body).readAll()
        schema = csv_schema.builder()
        for name in rows[0].keySet():
            schema.addColumn(name)
        written = mapper.writer(schema.build().withHeader()).writeValueAsBytes(rows)
    sys.stdout.buffer.write(bytes(written))
    sys.stdout.flush()


main()
