"""The root of a deployment is made once: what is missing, empty or another one later is an error."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from connector.testing.deployment import Deployment
from tests.cli.in_process import call
from tests.forked_command import PipedProcess

ADAPTER = """\
provider: {type: dropbox, root: "${ROOT:./data}", create: true}
connector:
  ApplicationName: test
  InputDestination: queue://orders
  ConfigurationMetaObject: MO_Config
  DataHandlerMimeType: application/json
metaobjects: ./metaobjects
subscriptions:
  - {object: Order, destination: queue://booked}
spark: {master: "local[1]"}
"""

OBJECTS = """\
business_object: Order
verbs: {Create: }
attributes: {Id: {type: String, key: true}}
---
static_metaobject: MO_Config
rules:
  Order_Create: {OutputDestination: queue://orders}
"""

BODY = '{"Id": "1"}'
WITHOUT_CREATE = ADAPTER.replace(", create: true", "")
INPUT = "  InputDestination: queue://orders\n"


class RootDeployment(Deployment):
    """A deployment whose commands make, record and refuse roots."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, adapter=ADAPTER, metaobjects=OBJECTS)
        self.root = directory / "data"
        self.record = directory / ".connector" / "root"
        self._body = directory.with_name(f"{directory.name}.json")
        self._body.write_text(BODY)

    def start(self, *arguments: str, **environment: str) -> PipedProcess:
        body = ("--body", str(self._body)) if arguments[0] == "send" else ()
        return PipedProcess(*arguments, *body, cwd=self.directory, stderr=None, **environment)

    def run(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        """Exit status, standard output, standard error."""
        if arguments[0] == "run":
            process = self.start(*arguments, **environment)
            out, err = process.communicate()
            return process.wait(), out, err
        done = call(self.directory, *arguments, data=BODY, environment=environment)
        return done.returncode, done.stdout, done.stderr

    def send_order(self, **environment: str) -> None:
        status, _, err = self.run("send", "orders", **environment)
        assert status == 0, err

    def refuses(self, text: str, *commands: Sequence[str]) -> None:
        """Commands fail with a text, and ask whether the file system is mounted."""
        for command in commands:
            status, out, err = self.run(*command)
            found = (status, text in out + err, "is the file system mounted?" in out + err)
            assert found == (1, True, True), (command, out, err)

    def is_recorded(self) -> bool:
        return self.record.read_text() == f"{self.identity} data\n"

    @property
    def identity(self) -> str:
        return (self.root / "dropboxmq/root-id").read_text().strip()

    @property
    def waiting(self) -> int:
        return len(list((self.root / "orders/incoming/target").iterdir()))


@pytest.fixture
def deployment(tmp_path: Path) -> RootDeployment:
    return RootDeployment(tmp_path / "deployment")


CONNECTING = [
    ["receive", "orders"],
    ["subscribe", "topic://t", "--subscription", "s", "--shared"],
    ["unsubscribe", "--subscription", "s"],
    ["request", "Order.Create", "--json"],
    ["run", "--drain"],
]
LOOKING = [["browse", "orders"], ["queues"]]
USUAL = [["send", "orders"], ["queues"]]


@pytest.mark.process
def test_a_root_that_is_gone_is_not_made_again(deployment: RootDeployment) -> None:
    deployment.send_order()
    away = deployment.root.rename(deployment.directory / "away")
    deployment.refuses(f"the root {deployment.root} is missing, but", *CONNECTING, *LOOKING, USUAL[0])
    assert not deployment.root.exists()
    deployment.root.mkdir()  # the mount point of a file system that is not mounted
    deployment.refuses(f"the root {deployment.root} is empty, but", *USUAL)
    assert list(deployment.root.iterdir()) == []
    deployment.root.rmdir()
    away.rename(deployment.root)
    deployment.send_order()
    assert deployment.waiting == 2


def test_a_deployment_is_known_by_every_path_that_leads_to_it(
    deployment: RootDeployment, tmp_path: Path
) -> None:
    deployment.send_order()
    deployment.root.rename(tmp_path / "away")
    link = tmp_path / "link"
    link.symlink_to(deployment.directory)
    moved = copy.copy(deployment)
    moved.directory = link
    moved.refuses("is missing, but", USUAL[0])
    moved.directory = deployment.directory.rename(tmp_path / "moved")
    moved.refuses("is missing, but", USUAL[0])


@pytest.mark.process
def test_a_deployment_for_requests_only_needs_its_root_when_it_starts(deployment: RootDeployment) -> None:
    deployment.write("adapter.yaml", ADAPTER.replace(INPUT, ""))
    deployment.send_order()
    status, _, err = deployment.run("run", "--once")
    assert (status, "] ready [" in err) == (0, True), err
    deployment.root.rename(deployment.directory / "away")
    deployment.refuses(f"the root {deployment.root} is missing, but", ["run"])
    deployment.write("adapter.yaml", WITHOUT_CREATE.replace(INPUT, ""))
    deployment.refuses(f"the root {deployment.root} is missing: ", ["run"])


def test_the_root_of_another_deployment_is_refused(deployment: RootDeployment, tmp_path: Path) -> None:
    deployment.send_order()
    other = RootDeployment(tmp_path / "other")
    other.send_order()
    deployment.root.rename(deployment.directory / "away")
    other.root.rename(deployment.root)
    deployment.refuses(f"the root {deployment.root} is another one, but", *USUAL)
    assert deployment.waiting == 1
    (deployment.root / "dropboxmq/root-id").unlink()
    deployment.refuses(f"the root {deployment.root} has no id, but", USUAL[0])


def test_a_command_that_only_looks_makes_and_records_nothing(deployment: RootDeployment) -> None:
    for command in LOOKING:
        status, _, err = deployment.run(*command)
        assert status == 1
        assert f"there is no root {deployment.root} yet; run or send makes it" in err
    assert deployment.run("check")[0] == 0, "a configuration is checked where its root need not be"
    assert sorted(os.listdir(deployment.directory)) == ["adapter.yaml", "metaobjects"]


def test_accept_root_accepts_what_is_there(deployment: RootDeployment, tmp_path: Path) -> None:
    deployment.send_order()
    first = deployment.identity
    said = f"the root {deployment.root} was recorded already; nothing is changed\n"
    assert deployment.run("accept-root")[:2] == (0, said)
    shutil.rmtree(deployment.root)
    assert deployment.run("accept-root")[:2] == (0, f"the root {deployment.root} is made and recorded\n")
    deployment.send_order()
    assert deployment.identity != first
    other = RootDeployment(tmp_path / "other")
    other.send_order()
    shutil.rmtree(deployment.root)
    shutil.copytree(other.root, deployment.root)
    status, out, _ = deployment.run("accept-root", "--json")
    assert (status, out) == (0, f'{{"root": "{deployment.root}", "done": "recorded"}}\n')
    deployment.send_order()
    assert deployment.waiting == 2
    (deployment.root / "dropboxmq/root-id").unlink()
    assert "it has an id now" in deployment.run("accept-root")[1]
    deployment.send_order()
    assert deployment.is_recorded()


@pytest.mark.process
def test_processes_that_start_at_once_make_one_root_and_agree_on_its_id(
    deployment: RootDeployment, tmp_path: Path
) -> None:
    others = [RootDeployment(tmp_path / f"other{number}") for number in range(3)]
    root = str(deployment.root)
    started = [deployment.start(*words) for words in [["send", "orders"], ["accept-root"]] * 3]
    started += [other.start("send", "orders", ROOT=root) for other in others]
    for process in started:
        _, err = process.communicate()
        assert process.wait() == 0, err
    assert (deployment.waiting, deployment.is_recorded()) == (6, True)
    assert {other.record.read_text() for other in others} == {f"{deployment.identity} {root}\n"}


def test_a_deployment_may_use_several_roots(deployment: RootDeployment) -> None:
    deployment.send_order()
    deployment.send_order(ROOT="./other")
    assert [line.split(" ")[1] for line in deployment.record.read_text().splitlines()] == ["data", "other"]
    shutil.rmtree(deployment.root)
    deployment.send_order(ROOT="./other")
    deployment.refuses("is missing, but this deployment has used one there", USUAL[0])


def test_a_root_that_was_there_before_is_taken_over(deployment: RootDeployment) -> None:
    (deployment.root / "orders/incoming/target").mkdir(parents=True)
    (deployment.root / "orders/incoming/target/1.txt").write_text("1")
    (deployment.root / "lost+found").mkdir()
    deployment.send_order()
    assert (deployment.waiting, deployment.is_recorded()) == (2, True)
    for name in ("orders", "dropboxmq"):
        shutil.rmtree(deployment.root / name)
    deployment.refuses("is empty, but", USUAL[0])  # as a fresh file system is


def test_without_create_a_root_with_content_is_used_and_nothing_is_recorded(
    deployment: RootDeployment,
) -> None:
    deployment.write("adapter.yaml", WITHOUT_CREATE)
    deployment.refuses(f"the root {deployment.root} is missing: ", *USUAL)
    status, _, err = deployment.run("accept-root")
    assert (status, "only with create: true" in err) == (2, True)
    assert not deployment.root.exists()
    deployment.root.mkdir()
    deployment.refuses("A new root is made with create: true in the section provider", USUAL[0])
    assert list(deployment.root.iterdir()) == []
    (deployment.root / "dropboxmq").mkdir()
    deployment.send_order()
    assert deployment.waiting == 1
    assert not (deployment.root / "dropboxmq/root-id").exists()
    assert not deployment.record.parent.exists()


def test_a_record_that_cannot_be_written_keeps_the_root_from_being_made(deployment: RootDeployment) -> None:
    deployment.record.parent.touch()  # in the way of everybody, of a superuser as well
    status, _, err = deployment.run("send", "orders")
    assert status == 1
    assert f"the root {deployment.root} cannot be recorded: " in err
    assert f"leave out create: true and make the root by hand: mkdir -p {deployment.root}/dropboxmq" in err
    assert not deployment.root.exists()
    (deployment.root / "dropboxmq").mkdir(parents=True)
    deployment.write("adapter.yaml", WITHOUT_CREATE)
    deployment.send_order()
