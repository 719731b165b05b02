"""``adapter.yaml`` and ``metaobjects/``: reading, checking, describing them.

:func:`connector.config.loading.load` is the way in.
"""
