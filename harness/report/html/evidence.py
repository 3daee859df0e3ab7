"""Prepares a verdict for the page: each cited line gets a number, a time and the lane of its node, also if cited twice."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from zab_chaos.harness.report.abridged import brief
from zab_chaos.harness.report.headline import violated_or_uncertain
from zab_chaos.harness.report.sentences import describe_line
from zab_chaos.harness.results.source import Source
from zab_chaos.model.events import TRACE_FILE
from zab_chaos.model.verdict import Evidence, Property, Verdict, Violation
from zab_chaos.node.core import digest as dg

ZXID = re.compile(r"\b(\d{1,9}):(\d{1,10})\b")
FOLLOWED = 4  # transactions that one button highlights; more of them would hide each other


@dataclass(frozen=True, slots=True)
class Mark:
    """One cited line, with its number on the page. `t` in nanoseconds; None: without a time. `node` None: not on a lane."""

    number: int
    file: str
    line: int
    t: int | None
    node: int | None
    words: str
    text: str  # the line itself as JSON, with long lists shortened


@dataclass(frozen=True, slots=True)
class ShownViolation:
    """One violation with the marks of its evidence.

    `queries` are search texts for the diagram, one for each mark (None: nothing to follow); `query` is one for all of them.
    """

    violation: Violation
    marks: list[Mark]
    queries: list[str | None]
    query: str


@dataclass(slots=True)
class ShownVerdict:
    """The verdict as the page shows it; empty if the run was not judged."""

    verdict: Verdict | None = None
    violations: list[tuple[Property, list[ShownViolation]]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


def read_shown_verdict(source: Source) -> ShownVerdict:
    """Read verdict.json. A missing one is not damage, since not every run is judged; an unreadable one is."""
    try:
        verdict = msgspec.json.decode(source.folder.joinpath("verdict.json").read_bytes(), type=Verdict)
    except FileNotFoundError:
        return ShownVerdict()
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        source.damaged("verdict.json", 0, f"is not readable: {error}")
        return ShownVerdict()
    judged = ShownVerdict(verdict)
    known: dict[tuple[str, int], Mark] = {}
    for item in violated_or_uncertain(verdict):
        shown_violations = []
        for violation in item.violations:
            shortened = brief([one.event for one in violation.evidence])
            marks = [
                known.setdefault((one.file, one.line), _mark(len(known) + 1, one, short))
                for one, short in zip(violation.evidence, shortened, strict=True)
            ]
            queries = [_query(one, violation.words) for one in violation.evidence]
            shown_violations.append(
                ShownViolation(violation, marks, queries, _combined_query(violation.words, queries))
            )
        if shown_violations:
            judged.violations.append((item, shown_violations))
    judged.marks = list(known.values())
    return judged


def _mark(number: int, cited: Evidence, short: dict[str, Any]) -> Mark:
    lane = TRACE_FILE.fullmatch(cited.file)
    t = cited.event.get("t")
    return Mark(
        number=number,
        file=cited.file,
        line=cited.line,
        t=t if isinstance(t, int) and 0 <= t <= 2**62 else None,
        node=int(lane[1]) if lane else None,
        words=describe_line(cited.file, cited.event),
        text=json.dumps(short, ensure_ascii=False),
    )


def _query(cited: Evidence, words: str) -> str | None:
    """Return the search text for the transaction or request of a cited line; of a batch, the transaction that `words` names."""
    line = cited.event
    match line:
        case {"client": int(client), "seq": int(seq)} if cited.file == "ops.jsonl":
            return f"client {client} seq {seq}"
        case {
            "event": "broadcast" | "accept" | "deliver",
            "epoch": int(epoch),
            "first": int(first),
            "digests": str(digests),
        }:
            batch = range(first, first + dg.count(digests))
            named = (int(counter) for e, counter in ZXID.findall(words) if int(e) == epoch)
            return f"{epoch}:{next((counter for counter in named if counter in batch), first)}"
    return None


def _combined_query(words: str, queries: list[str | None]) -> str:
    """Return the search text for all transactions that the words or the lines name, at most FOLLOWED."""
    named = [":".join(one) for one in ZXID.findall(words)] + [one for one in queries if one and ZXID.fullmatch(one)]
    return " ".join(list(dict.fromkeys(named))[:FOLLOWED])
