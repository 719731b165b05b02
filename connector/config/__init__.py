"""Reads, checks and describes ``adapter.yaml`` and ``metaobjects/``.

:func:`connector.config.loading.load` is the entry.
"""
