"""The registration of the provider ``dropbox`` (see :mod:`connector.messaging.provider_kind`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from connector.messaging.provider_kind import AcceptedRoot, DeploymentPaths, ProviderKind, SectionProblem
from connector.own_files import open_to_others
from connector.state.file_systems import obstacle
from connector.stores.dropbox import open_provider

if TYPE_CHECKING:
    from connector.stores.dropbox.provider import DropboxProvider
    from connector.stores.dropbox.section import DropboxSection


def _section() -> type[DropboxSection]:
    from connector.stores.dropbox.section import DropboxSection

    return DropboxSection


def _make(section: DropboxSection, paths: DeploymentPaths) -> DropboxProvider:
    from connector.stores.dropbox.provider import DropboxProvider
    from connector.stores.dropbox.root import Root

    record = paths.directory / ".connector" / "root"
    return DropboxProvider(
        Root(section.root, create=section.create, record=record),
        incoming=section.incoming_directory,
        outgoing=section.outgoing_directory,
        durable=section.durability != "none",
        keep_processed=section.keep_processed,
        redelivery_limit=section.redelivery_limit,
        lease=section.lease,
    )


def _check(section: DropboxSection, paths: DeploymentPaths) -> Iterator[SectionProblem]:
    if (section.create or section.root.exists()) and (reason := obstacle(section.root)):
        yield SectionProblem(("root",), reason, "a directory, or a place for a new one")
    elif found := open_to_others(section.root):
        yield SectionProblem(("root",), *found, warning=True)
    incoming, outgoing = section.incoming_directory, section.outgoing_directory
    if outgoing is not None and (incoming == "") != (outgoing == ""):
        yield SectionProblem(
            ("outgoing_directory",),
            f"{outgoing!r} with the incoming_directory {incoming!r}",
            "two names, or '' for both",
        )


def _accept_root(section: DropboxSection, paths: DeploymentPaths) -> AcceptedRoot | None:
    if not section.create:
        return None
    root = _make(section, paths).root
    return AcceptedRoot(root.path, root.accept())


KIND: Final = ProviderKind(
    section=_section,
    make=_make,
    open=open_provider,
    check=_check,
    accept_root=_accept_root,
    own_state="under its root",
)
