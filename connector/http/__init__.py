"""The HTTP server: one port, one authentication.

``POST /requests/{BusinessObject}/{Verb}`` makes a request. ``/openapi.json`` and ``/docs`` describe the
calls, and the console has a form for each. ``/health`` and ``/metrics`` tell the state of the adapter, and
``/control`` is for operators. The way of a call, file by file::

    connections    from bytes to a call. Slow clients, and clients above the limit, are cut off here
    guard          checks the host and the origin of a call, and sets the headers of every answer
    tokens         checks the caller's token
    timeout_limits limits the time that a caller may ask to wait
    calls          one request: the checks in the order of their status codes, and the answer
    idempotency    the same call twice has one effect
    health         health and metrics
    control        the table of what an operator can call
    pages          the contract of the console, which the server finds by entry point
    answers        translates a RequestResult to HTTP
"""
