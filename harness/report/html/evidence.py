"""A verdict for the page: its violations with numbered evidence, each line once, placed in time and on a node's lane."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from zab_chaos.harness.report.abridged import brief
from zab_chaos.harness.report.headline import violated_or_uncertain
from zab_chaos.harness.report.html.sentences import describe_line
from zab_chaos.harness.results.source import Source
from zab_chaos.model.verdict import Evidence, Property, Verdict
from zab_chaos.node.core import digest as dg

ZXID = re.compile(r"\b(\d{1,9}):(\d{1,10})\b")
FOLLOWED = 4  # transactions at once; more of them hide each other
TRACE = re.compile(r"trace/node-(\d+)-\d+\.jsonl")


@dataclass(frozen=True, slots=True)
class Mark:
    """One cited line. `t` in nanoseconds or None; `node` None: not on a lane."""

    number: int
    file: str
    line: int
    t: int | None
    node: int | None
    words: str
    text: str  # the line itself, long lists cut short


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation in words, with the marks that show it; `follow`: what the diagram is asked for, by mark and for all."""

    words: str
    marks: list[Mark]
    follow: list[str | None]
    together: str


@dataclass(slots=True)
class ShownVerdict:
    """What the judges said; all empty for a run that was not judged."""

    verdict: Verdict | None = None
    findings: list[tuple[Property, list[Finding]]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


def read_shown_verdict(source: Source) -> ShownVerdict:
    """verdict.json; a missing one is no damage: not every run is judged."""
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
        findings = []
        for violation in item.violations:
            shown = brief([one.event for one in violation.evidence])
            marks = [
                known.setdefault((one.file, one.line), _mark(len(known) + 1, one, short))
                for one, short in zip(violation.evidence, shown, strict=True)
            ]
            follow = [_asked(one, violation.words) for one in violation.evidence]
            findings.append(Finding(violation.words, marks, follow, _together(violation.words, follow)))
        if findings:
            judged.findings.append((item, findings))
    judged.marks = list(known.values())
    return judged


def _mark(number: int, cited: Evidence, short: dict[str, Any]) -> Mark:
    lane = TRACE.fullmatch(cited.file)
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


def _asked(cited: Evidence, words: str) -> str | None:
    """The transaction or the request of a cited line, as the diagram's search wants it. Of a batch the one that the words
    name."""
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


def _together(words: str, follow: list[str | None]) -> str:
    """All transactions that the words or the lines name, at most FOLLOWED."""
    named = [":".join(one) for one in ZXID.findall(words)] + [one for one in follow if one and ZXID.fullmatch(one)]
    return " ".join(list(dict.fromkeys(named))[:FOLLOWED])
