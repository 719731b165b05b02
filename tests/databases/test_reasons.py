"""The reasons that errors of databases and libraries become: one line, without their wrapper and its link."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

import json
import pickle
from collections.abc import Callable

import psycopg.errors
import pydantic
import pytest
import sqlalchemy
from lxml import etree
from sqlalchemy import exc

from connector.databases.urls import reason_of
from connector.testing.sinks import sample_object
from connector.tracebacks import error_text, message_of
from tests.tables import rows

MEMORY = sqlalchemy.create_engine("sqlite://")


class Order(pydantic.BaseModel):
    number: int


def on_sqlite(statement: str, **values: object) -> Callable[[], object]:
    def run() -> None:
        with MEMORY.connect() as connection:
            connection.execute(sqlalchemy.text("CREATE TEMP TABLE IF NOT EXISTS t (a INTEGER PRIMARY KEY)"))
            connection.execute(sqlalchemy.text(statement), values)

    return run


def of_psycopg(error: psycopg.Error, statement: str = "INSERT INTO s3cret") -> Callable[[], object]:
    def run() -> None:
        raise exc.DBAPIError.instance(statement, None, error, psycopg.Error)

    return run


def raises(error: BaseException) -> Callable[[], object]:
    def run() -> None:
        raise error

    return run


class Hostile(Exception):
    orig = ValueError("not asked")

    def __str__(self) -> str:
        raise KeyError


UNIQUE = psycopg.errors.UniqueViolation('duplicate key value "t_pkey"\nDETAIL:  Key (id)=(1) already exists.')
SYNTAX = psycopg.errors.SyntaxError('syntax error at or near "SELEC"\nLINE 1: SELEC s3cret\n        ^')
COLUMN = psycopg.errors.UndefinedColumn(
    'column "x" does not exist\nLINE 3:   s3cret x\n          ^\nHINT:  Perhaps you meant "y".'
)


@rows(
    "raising, expected",
    [
        (on_sqlite("SELECT s3cret FROM t"), "OperationalError: no such column: s3cret"),
        (on_sqlite("INSERT INTO t VALUES (1), (1)"), "IntegrityError: UNIQUE constraint failed: t.a"),
        (on_sqlite("INSERT INTO t VALUES (:v)", v=object()), "ProgrammingError: Error binding parameter 1"),
        (on_sqlite("INSERT INTO t VALUES (:v)"), "InvalidRequestError: A value is required for bind parameter 'v'"),
        (of_psycopg(UNIQUE), 'UniqueViolation: duplicate key value "t_pkey" DETAIL:  Key (id)=(1) already exists.'),
        (of_psycopg(SYNTAX), 'SyntaxError: syntax error at or near "SELEC"'),
        (of_psycopg(COLUMN), 'UndefinedColumn: column "x" does not exist HINT:  Perhaps you meant "y".'),
        (raises(COLUMN), 'UndefinedColumn: column "x" does not exist HINT:  Perhaps you meant "y".'),
        (raises(exc.TimeoutError("QueuePool limit", code="3o7r")), "TimeoutError: QueuePool limit"),
        (raises(exc.NoResultFound("No row was found")), "NoResultFound: No row was found"),
        (lambda: Order.model_validate({"number": "x"}), "ValidationError: 1 validation error for Order number Input should be a valid int"),
        (raises(ValueError("a\n\n  b\r\nc")), "ValueError: a b c"),
        (raises(ValueError("see https://wiki.example/errors#4")), "ValueError: see https://wiki.example/errors#4"),
        (raises(Hostile()), "Hostile"),
        (raises(KeyError()), "KeyError"),
        (lambda: json.loads("{"), "JSONDecodeError: Expecting property name"),
        (lambda: etree.fromstring("<a"), "XMLSyntaxError: Couldn't find end of Start Tag a"),
        (lambda: pickle.loads(b"x"), "UnpicklingError: "),
        (lambda: sample_object()["Txet"], "UnknownAttribute: Note has no attribute 'Txet', did you mean 'Text'?"),
    ],
)  # fmt: skip
def test_a_reason_is_one_line_in_the_words_of_its_source(
    raising: Callable[[], object], expected: str
) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011, each row has its own
        raising()
    error = raised.value
    told = error_text(error)
    assert told.startswith(expected)
    assert message_of(error) == (told.partition(": ")[2] or told)
    if isinstance(error, exc.SQLAlchemyError):
        assert reason_of(error).startswith(" ".join(expected.partition(": ")[2].split()))
        told += reason_of(error)
    for word in ("\n", "sqlalche.me", "errors.pydantic.dev", "[SQL", "INSERT INTO"):
        assert word not in told
