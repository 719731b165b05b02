"""Turns repository files of WebSphere Business Integration into ``metaobjects/*.yaml``.

:func:`connector.authoring.repository_import.reader.read_repository` reads such a file, and
:func:`connector.authoring.repository_import.conversion.convert` makes the documents.
"""
