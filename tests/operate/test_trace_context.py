"""``traceparent``: the cases of the test suite of W3C Trace Context."""

from __future__ import annotations

from connector.operate.trace_context import TraceContext, new_context, parse, valid_traceparent
from tests.tables import rows

TRACE = "12345678901234567890123456789012"
SPAN = "1234567890123456"
KNOWN = f"{TRACE}-{SPAN}-01"


@rows(
    "value",
    [
        f"00-{KNOWN}",
        f"cc-{KNOWN}",
        f"cc-{KNOWN}-what-the-future-will-be-like",
        f"01-{KNOWN}-",
        f"fe-{KNOWN}-{KNOWN}",
    ],
)
def test_the_known_parts_of_each_version_are_read(value: str) -> None:
    assert parse(value) == TraceContext(TRACE, SPAN, sampled=True)
    assert valid_traceparent(value) == value
    child = new_context(parse(value), 0.0)
    assert (child.trace_id, child.sampled, str(child)[:3]) == (TRACE, True, "00-")


@rows(
    "flags, sampled", [("00", False), ("01", True), ("02", False), ("03", True), ("fe", False), ("ff", True)]
)
def test_one_flag_is_known(flags: str, sampled: bool) -> None:
    for version in ("00", "cc"):
        assert parse(f"{version}-{TRACE}-{SPAN}-{flags}") == TraceContext(TRACE, SPAN, sampled)


@rows(
    "value",
    [
        *(None, 7, b"00", "", "foo", "00-", "00", KNOWN),
        *(f"ff-{KNOWN}", f"ff-{KNOWN}-more", f"FF-{KNOWN}", f"CC-{KNOWN}", f".0-{KNOWN}", f"0-{KNOWN}"),
        *(f"00-{KNOWN}-", f"00-{KNOWN}-what-the-future-will-be-like", f"00-{KNOWN}.", f"000-{KNOWN}"),
        *(f"cc-{KNOWN}.what-the-future-will-be-like", f"cc-{KNOWN}0", f"cc-{KNOWN}-a\nb", f"00-{KNOWN}\n"),
        *(f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", f"cc-{'0' * 32}-{SPAN}-01-x"),
        *(f"00-{TRACE[1:]}-{SPAN}-01", f"00-{TRACE}0-{SPAN}-01", f"00-{TRACE}-{SPAN[1:]}-01"),
        *(f"00-{TRACE}-{SPAN}0-01", f"00-{TRACE}-{SPAN}-1", f"00-{TRACE}-{SPAN}", f"00-{TRACE}-{SPAN}-"),
        *(f"00-{TRACE}-{SPAN}-.0", f"00-{TRACE}-{SPAN}-0G", f"00-{TRACE}-{SPAN}-001"),
        *(f"00-{TRACE[:-1]}A-{SPAN}-01", f"00-{TRACE}-{SPAN[:-1]}A-01", f"00-{TRACE}-{SPAN}-0A"),
        *(f"00-{TRACE[:-1]}.-{SPAN}-01", f"00_{TRACE}-{SPAN}-01", f" 00-{KNOWN}", f"00-{KNOWN},00-{KNOWN}"),
        *(f"cc-{KNOWN},cc-{KNOWN}", "00-" + TRACE.replace("2", "٢") + f"-{SPAN}-01"),
    ],
)
def test_what_breaks_the_form_begins_a_new_trace(value: object) -> None:
    assert (parse(value), valid_traceparent(value)) == (None, "")
