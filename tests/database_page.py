"""The statements that docs/reference/database.md gives to other programs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from sqlalchemy import NullPool, create_engine

from connector.stores.sql.database import Settings

PAGE: Final = (Path(__file__).resolve().parents[1] / "docs/reference/database.md").read_text("utf-8")
STATEMENTS: Final = dict(re.findall(r"```sql name=(\S+)\n(.*?)```", PAGE, re.DOTALL))


def move(url: str, number: int, queue: str) -> None:
    """Moves a reference to a queue, as an operator does."""
    kind = "sqlite" if url.startswith("sqlite") else "postgresql"
    text = STATEMENTS[f"move-{kind}"].replace("217", str(number)).replace("queue://orders", queue)
    engine = create_engine(Settings(url).parsed, poolclass=NullPool)
    with engine.begin() as other:
        for statement in text.split(";"):
            other.exec_driver_sql(statement)
