"""Writes the page of a protocol transcript (`zab show`): a run's pictures, with steps instead of time on the axis."""

from collections.abc import Iterator
from itertools import pairwise

from zab_chaos.harness.report.html.diagram import STEP_KINDS, Diagram, NodeStep, NodeSteps
from zab_chaos.harness.report.html.document import document
from zab_chaos.harness.report.html.lanes import LaneSegment
from zab_chaos.harness.report.html.markup import element
from zab_chaos.harness.report.html.operations import Operations
from zab_chaos.harness.report.html.page import LEGENDS, PANELS, SCRIPTS, data_script, pictures
from zab_chaos.harness.report.messages import Exchange, Messages, SentMessage, content_of
from zab_chaos.model.transcripts.drawing import DrawnEnsemble, NodeEvent
from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx

STEP = 10**9  # nanoseconds on the pictures' time axis for one step of the transcript
SHOWN = ("lanes", "messages")


def transcript_page(name: str, text: str, drawn: DrawnEnsemble) -> str:
    """Return the page as a whole HTML file. `text`: the transcript; `drawn`: what the nodes did when it was performed."""
    paragraph, _, rest = text.partition("\n\n")
    steps = NodeSteps(step for done in drawn.events if (step := _step(done)) is not None)
    diagram = Diagram(_exchange(drawn), steps)
    header = element("header", element("h1", name), element("p", paragraph.replace("\n", " ")))
    main = element(
        "main",
        pictures("Step by step", [panel for panel in PANELS if panel[0] in SHOWN], LEGENDS, diagram),
        element("section", element("h2", "The transcript"), element("pre", rest.strip())),
    )
    return document(name, header, main, data_script(_shown(drawn, diagram)), scripts=SCRIPTS)


def _shown(drawn: DrawnEnsemble, diagram: Diagram) -> dict[str, object]:
    nothing = ("alive", "pauses", "amnesia", "events", "faults", "links", "windows", "lags", "marks")
    return {
        **{name: [] for name in nothing},
        "steps": True,
        "chain": None,
        "begin": 0,
        "end": (drawn.clock + 1) * STEP // 1000,
        "nodes": list(drawn.members),
        "lanes": [segment.as_json(0) for segment in _lane_segments(drawn)],
        "milestones": [{"t": at * STEP // 1000, "words": words} for at, words in drawn.steps],
        "operations": Operations().as_json(0),
        "diagram": diagram.as_json(0),
    }


def _exchange(drawn: DrawnEnsemble) -> Exchange:
    found = [
        SentMessage(
            one.source,
            one.target,
            content_of(one.message),
            one.sent * STEP,
            None if one.received is None else one.received * STEP,
        )
        for one in drawn.arrows
    ]
    return Exchange(Messages(sorted(found, key=lambda one: one.sent)))


def _step(done: NodeEvent) -> NodeStep | None:
    fields, first, last = done.fields, 0, 0
    if done.event not in STEP_KINDS:
        return None
    if "from" in fields:
        first, last = fields["from"], fields["to"]
    elif "digests" in fields:
        first = zx.zxid(fields["epoch"], fields["first"])
        last = first + dg.count(fields["digests"]) - 1
    elif done.event == "truncate":
        first, last = zx.from_pair(fields["keep"]) + 1, zx.from_pair(fields["last"])
    return NodeStep(done.at * STEP, done.node, done.event, fields.get("epoch", 0), first, last)


def _lane_segments(drawn: DrawnEnsemble) -> Iterator[LaneSegment]:
    """Yield the segments of the nodes' lanes, from the states that each node had one after the other."""
    for node in drawn.members:
        states = [state for state in drawn.states if state.node == node]
        for life, (state, after) in enumerate(pairwise([*states, None]), 1):
            until = drawn.clock + 1 if after is None else after.at
            if state is not None and until > state.at:
                begin, end = state.at * STEP, until * STEP
                what = "up" if state.role else "down"
                yield LaneSegment(node, life, begin, end, what, state.role, state.phase, state.epoch)
