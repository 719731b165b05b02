"""The configuration of a subscription with the sink ``process``."""

from __future__ import annotations

from pydantic import Field

from connector.declare.python_names import LookupProblem, check_process, missing_imports
from connector.declare.value_types import Text
from connector.sinks.process.sink import ProcessSpec
from connector.sinks.subscription_model import EntryCheck, ExternalEntry


class ProcessEntry(ExternalEntry):
    """A business process: a Python function that is called with the object and the event."""

    process: Text = Field(description="The function, `module:function`, beside `adapter.yaml` or installed.")

    transaction: Text | None = Field(
        default=None,
        description="Key of `databases`. `event.transaction` is an open connection of that database. Its "
        "commit holds the outcome of the event, too, so the process has its effects there exactly once.",
    )

    def sink(self) -> ProcessSpec:
        """Returns the recipe, which loads the function in the worker."""
        return ProcessSpec(self.process, self.reply, self.transaction)

    @property
    def database(self) -> str | None:
        return self.transaction

    def target(self) -> str:
        return self.process

    def check(self, check: EntryCheck) -> None:
        """Reports a missing function, and missing imports of the module, without running the module."""
        try:
            check_process(self.process, check.directory, may_wait=True)
        except LookupProblem as error:
            check.add("process", error.found, error.expected, error.near)
        else:
            for found, expected in missing_imports(self.process, check.directory) if check.runs_here else ():
                check.add("process", found, expected, warning=True)
        if self.transaction is not None and self.reply:
            check.add(
                "reply",
                "reply: true with a transaction, which a crash after its commit would leave unanswered",
                "one of the two; send the reply from another subscription",
            )
        super().check(check)
