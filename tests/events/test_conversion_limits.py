"""Whatever happens between claim and delivery of an event costs that event, and no other."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from connector.events.run.convert import Converter
from connector.limits import stages
from connector.limits.memory import data_memory
from connector.limits.runner_control import RunnerControl
from connector.messaging.message import Message
from tests.events.conftest import Bench, EventDeployment, handler
from tests.tables import rows

OBJECTS = """\
business_object: Work
app_specific_info: cw_mo_conn=Meta
verbs: {Create: }
attributes:
  Id: {type: String, key: true}
  At: String
  Do: String
  Meta: {type: WorkMeta}
---
business_object: WorkMeta
attributes: {MessageID: String}
---
map: Copy
from: Work
to: Work
attributes: {Id: Id}
---
static_metaobject: MO_Config
rules:
  Work_Create: {jmespath: "Id == 'nobody' || Id == 'no one'"}
---
datahandler_metaobject: MO_DataHandler_Default
handlers:
  application/json: {schema: work.json, NameHandlerClass: "key:BusinessObject"}
  text/template: {text: "{{ Id }}"}
"""

PROCESSES = """\
def reply(bo, event):
    return {"Id": bo["Id"]}
"""

SUBSCRIPTIONS = (
    {
        "object": "*",
        "destination": "queue://out",
        "mime_type": "text/template",
        "name": "out",
        "when": "Id",
        "map": "Copy",
    },
    {"object": "*", "process": "processes:reply", "name": "reply", "reply": True},
)


class OwnError(BaseException):
    """An exception that nobody expects."""


class Mute(Exception):
    def __str__(self) -> str:
        raise OwnError("not even this")


def recurse() -> None:
    recurse()


def allocate() -> None:
    kept = []
    while True:
        kept.append(bytes(128 << 20))  # zeros, which cost no time


def keep_the_interpreter() -> None:
    re.match("^([a-z]+)+$", "a" * 64 + "1")  # runs for ever, in C, without letting go of Python's lock


def throw(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


ACTIONS: dict[str, tuple[Callable[[], object], str]] = {
    "ValueError": (throw(ValueError("no")), "no"),
    "KeyError": (throw(KeyError("no")), "no"),
    "OSError": (throw(OSError(28, "No space left on device")), "No space left"),
    "StopIteration": (throw(StopIteration()), "StopIteration"),
    "SystemExit": (throw(SystemExit(3)), "SystemExit: 3"),
    "KeyboardInterrupt": (throw(KeyboardInterrupt("no")), "KeyboardInterrupt: no"),
    "GeneratorExit": (throw(GeneratorExit("no")), "GeneratorExit: no"),
    "OwnError": (throw(OwnError("no")), "OwnError: no"),
    "group": (throw(BaseExceptionGroup("all", [OwnError("no")])), "BaseExceptionGroup"),
    "mute": (throw(Mute()), "Mute"),
    "recursion": (recurse, "recursion"),
    "memory": (allocate, "MemoryError"),
    "wait": (threading.Event().wait, "convert_timeout"),
    "regex": (keep_the_interpreter, "convert_timeout"),
    "exit": (lambda: os._exit(7), "ended with status 7"),
    "exit 0": (lambda: os._exit(0), "ended with status 0"),
    "kill": (lambda: os.kill(os.getpid(), signal.SIGKILL), "was ended by SIGKILL"),
    "segv": (lambda: os.kill(os.getpid(), signal.SIGSEGV), "was ended by SIGSEGV"),
}


HANGING = ("wait", "regex")
ENDING = ("exit", "exit 0", "kill", "segv")
HARMLESS = sorted(set(ACTIONS) - {*HANGING, *ENDING, "memory"})
"""Whatever a process survives without a limit of its memory."""


@pytest.fixture
def harmful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes each stage do what the message says. The runner is a fork, and inherits this."""
    current: list[Message] = []
    convert = Converter.convert

    def remember(self: Converter, message: Message, destination: str, named: Any = None) -> Any:
        current[:] = [message]
        return convert(self, message, destination, named)

    def act(stage: str) -> None:
        body = json.loads(current[0].body) if current else {}
        if body.get("At") == stage:
            ACTIONS[body["Do"]][0]()

    monkeypatch.setattr(Converter, "convert", remember)
    monkeypatch.setattr(stages, "on_entry", act)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a worker, so no KeyboardInterrupt is real
    yield
    signal.signal(signal.SIGINT, before)


def work(identity: str, at: str = "", do: str = "") -> str:
    return json.dumps({"BusinessObject": "Work", "Id": identity, "At": at, "Do": do})


def deploy(bench: Bench, **connector: Any) -> Any:
    deployment = bench.deploy(
        objects=OBJECTS,
        processes=PROCESSES,
        subscriptions=SUBSCRIPTIONS,
        worker_memory="1GiB",
        max_attempts=2,
        **{"convert_timeout": "120s", **connector},
    )
    schema = {"type": "object", "properties": {"Id": {"type": "string"}}}
    deployment.write("work.json", json.dumps(schema))
    return deployment


def send(deployment: EventDeployment, queue: str, body: str) -> str:
    return str(deployment.send(f"queue://{queue}", body, reply_to="queue://answers"))


def expect(deployment: EventDeployment, bad: dict[str, tuple[str, str]], good: set[str], **how: Any) -> None:
    """Drains, and asserts that the bad events have failed with reason and place, and no other event."""
    found = deployment.outcomes(**how)
    assert {name for name, (outcome, _) in found.items() if outcome == "published"} == good
    assert {name for name, (outcome, _) in found.items() if outcome == "failed"} == set(bad)
    for name, (at, do) in bad.items():
        reason = found[name][1]
        # a runner without any memory left may end before it can say so
        said = ACTIONS[do][1] in reason or (do == "memory" and "its worker ended" in reason)
        assert said, (at, do, reason)
        if do in HANGING:
            assert stages.STAGES[at] in reason, (at, do, reason)
    errors = {message.message_id: message for message in deployment.messages("error")}
    assert set(errors) == set(bad)
    for name, (at, do) in bad.items():
        assert json.loads(errors[name].body) == json.loads(work("bad", at, do))
    assert len(deployment.messages("out")) == len(good)


def send_all(
    deployment: EventDeployment, harms: Iterable[tuple[str, str]]
) -> tuple[dict[str, tuple[str, str]], set[str]]:
    """Sends bad events, with good ones between. Returns the harm by the id of each bad one, and the good."""
    bad, good = {}, {send(deployment, "orders", work("other"))}
    for harm in harms:
        good.add(send(deployment, "customers", work("good")))
        bad[send(deployment, "customers", work("bad", *harm))] = harm
    return bad, good | {send(deployment, "customers", work("good"))}


def test_a_stage_may_raise_anything_and_only_its_event_fails(bench: Bench, harmful: None) -> None:
    deployment = deploy(bench)
    expect(deployment, *send_all(deployment, itertools.product(stages.STAGES, HARMLESS)))


HANGS = [(at, "wait") for at in stages.STAGES] + [("data_handler", "regex")]
ENDS = [(at, "memory") for at in stages.STAGES] + list(zip(stages.STAGES, itertools.cycle(ENDING)))
"""Each stage once and each end twice: the watcher of a process knows the stage, and not the code."""


@pytest.mark.process
@rows("harms, parallelism", [(HANGS, 6), (ENDS, 1)])
def test_a_stage_may_hang_or_end_its_process_and_only_its_event_fails(
    bench: Bench, harmful: None, harms: list[tuple[str, str]], parallelism: int
) -> None:
    hanging = {"convert_timeout": "3s", "order": "none", "PollQuantity": 3} if parallelism > 1 else {}
    deployment = deploy(bench, **hanging)
    expect(deployment, *send_all(deployment, harms), isolated=True, parallelism=parallelism)


HANDLER = handler(
    "application/x-own",
    head="""\
import os, threading
from connector.businessobjects.instance import BusinessObject

KEPT = []
SIZES = {"leak": 180 << 20, "large": 450 << 20}
""",
    reads="""\
text = body.decode()
with open(os.path.join(os.path.dirname(__file__), "converted"), "a") as file:
    file.write(f"{text} {os.getpid()}\\n")
if text == "hang":
    threading.Event().wait()
if text == "die":
    os.kill(os.getpid(), 11)
if text == "limits":
    import resource
    score = open("/proc/self/oom_score_adj").read().strip()
    text = f"{score} {resource.getrlimit(resource.RLIMIT_DATA)[0]}"
if text in SIZES:
    KEPT.append(b"x" * SIZES[text])
if text == "huge":
    KEPT.append(bytes(1 << 40))
return BusinessObject(self.definitions, "Work", "Create", {"Id": text})""",
    writes='return bo["Id"]',
)


def deploy_handler(bench: Bench, provider: str = "dropbox", **connector: Any) -> EventDeployment:
    deployment = bench.deploy(
        provider={"type": "sql", "url": "sqlite:///./messages.db"} if provider == "sqlite" else {},
        objects="business_object: Work\nverbs: {Create: }\nattributes: {Id: String}\n",
        subscriptions=[{"object": "*", "destination": "queue://out"}],
        more={"datahandlers": "./handlers"},
        InputDestination=["queue://in", "queue://other"],
        ConfigurationMetaObject=None,
        DataHandlerMimeType="application/x-own",
        **connector,
    )
    deployment.write("handlers/own.py", HANDLER)
    return deployment


def drain(deployment: EventDeployment) -> list[tuple[str, str, str]]:
    """Outcome, reason and body of each event, in the order in which they were taken."""
    outcomes = deployment.outcomes(isolated=True)
    copies = [one for queue in ("archive", "error") for one in deployment.messages(queue)]
    bodies = {message.message_id: message.body.decode() for message in copies}
    return [(bodies[identity], *outcome) for identity, outcome in outcomes.items()]


def converted(deployment: EventDeployment) -> list[str]:
    lines = (deployment.directory / "handlers" / "converted").read_text().split("\n")
    return [line.split()[0] for line in lines if line]


@pytest.mark.process
@rows("provider", ["dropbox", "sqlite"])
def test_a_conversion_that_never_ends_fails_and_one_that_ends_runs_once_more_alone(
    bench: Bench, provider: str
) -> None:
    deployment = deploy_handler(bench, provider, convert_timeout="3s", max_attempts=7, worker_memory="1GiB")
    for body in ("good", "hang", "die", "limits", "good"):
        deployment.send("queue://in", body)
    deployment.send("queue://other", "good")
    died = "its worker was ended by SIGSEGV during the conversion; it was tried alone, too"
    assert sorted(drain(deployment)) == [
        ("die", "failed", died),
        *[("good", "published", "")] * 3,
        ("hang", "failed", "data handler Own: did not end within 3 s (convert_timeout)"),
        ("limits", "published", ""),
    ]
    found = converted(deployment)
    assert (found.count("hang"), found.count("die")) == (1, 2)
    bodies = sorted(message.body.decode() for message in deployment.messages("out"))
    assert bodies == [f"500 {1 << 30}", *["good"] * 3], "a runner is what the kernel ends first"


@pytest.mark.process
def test_a_worker_that_keeps_memory_is_replaced_between_two_events(bench: Bench) -> None:
    # a runner is a fork of this process, so what this process has counts, too
    deployment = deploy_handler(bench, worker_memory=data_memory() + (768 << 20))
    bodies = ["leak"] * 4 + ["large", "leak", "leak", "huge", "leak"]
    for body in bodies:
        deployment.send("queue://in", body)
    found = drain(deployment)
    assert [event[:2] for event in found] == [
        (body, "failed" if body == "huge" else "published") for body in bodies
    ]
    ((_, _, reason),) = [event for event in found if event[0] == "huge"]
    assert "Own raised MemoryError: there is no more within worker_memory" in reason
    lines = (deployment.directory / "handlers" / "converted").read_text().splitlines()
    assert len({line.split()[1] for line in lines}) > 2


def test_a_runner_that_gives_up_has_time_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a deadline that is over, its watcher would say that the conversion took too long."""
    control = RunnerControl()
    monkeypatch.setattr(os, "_exit", lambda status: None)
    control.give_up()
    assert control.is_converting
    assert control.read().at > time.monotonic() + 30
