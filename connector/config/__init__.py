"""Reads, checks and describes ``adapter.yaml`` and ``metaobjects/``.

:func:`connector.config.loading.load` is the entry. In this package ``directory`` is the directory of
``adapter.yaml``. Where a ``catalogue`` is None, the data handlers are not known, and not checked.
"""
