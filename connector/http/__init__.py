"""Requests over HTTP: one server, one port, one authentication.

``POST /requests/{BusinessObject}/{Verb}`` makes a request; ``/openapi.json`` and ``/docs`` say how. The way
of a call, file by file::

    connections    bytes to a call; slow and too many clients end here
    framing        where a call begins and ends
    guard          is it meant for this server? what is said with every answer
    tokens         who may call
    patience       how long a caller may ask to wait
    calls          one request: its checks in the order of their status codes, its answer
    idempotency    the same call twice has one effect
    answers        what a RequestResult is in HTTP
"""
