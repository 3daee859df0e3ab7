"""The stepper of `zab replay`: all nodes of a run side by side, forward and back, on the whole terminal."""

import re
from collections.abc import Callable
from functools import partial
from io import StringIO

from prompt_toolkit.application import Application
from prompt_toolkit.application.current import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.output import Output
from prompt_toolkit.widgets import TextArea
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from zab_chaos.harness.report.messages import content_of
from zab_chaos.harness.report.steps import ReplayStep, RunSteps
from zab_chaos.model.replay import descriptions
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.recording import Stepped

NARROW = 20  # columns of the terminal that a node needs
NAMES = 20  # columns of the variables' names
MANY = 100  # steps of a long jump
FOOT = 3  # lines of the keys, or of what is to be said
TOLD = 4  # lines of what a step did
EVENT = re.compile(r"(?:trace/)?node-(\d+)-(\d+)(?:\.jsonl)?:(\d+)")
ZXID = re.compile(r"\d+:\d+")
TIME = re.compile(r"(-?\d+(?:\.\d+)?) ?s")
KEYS = (
    ("→ Space", "next step"), ("←", "step back"), ("PgDn PgUp", f"{MANY} steps"), ("Home End", "first, last"),
    ("1-9", "next message that this node takes"), ("m M", "next, last message"), ("e E", "next, last event"),
    ("g", "go to"), ("n N", "found: next, last"), ("v", "the violation"), ("↑ ↓", "scroll"), ("q", "quit"),
)  # fmt: skip
HINT = "a step: 1200   a time: 3.5s   an event: node-2-1:340   a word: PROPOSE, 1:402, node 3"


class Stepper:
    """What is shown, and what each key does. `zero`: the host's time that is 0 s; `evidence`: lines of the run's violation."""

    def __init__(self, steps: RunSteps, title: str, zero: int, evidence: list[str]) -> None:
        self._steps = steps
        self._title = title
        self._zero = zero
        self._evidence = evidence
        self._shown = -1  # of the evidence, which was gone to last
        self._wanted = ""
        self._note = "; ".join(steps.gaps)
        self._scrolled = 0
        self._asking = False
        self._line = TextArea(height=1, prompt="go to: ", multiline=False, accept_handler=lambda buffer: self._asked())
        steps.go(1)

    def run(self, terminal: Input | None = None, output: Output | None = None) -> None:
        """Until the user quits."""
        asking = Condition(lambda: self._asking)
        body = self._main = Window(FormattedTextControl(self._body, focusable=True))
        foot = Window(FormattedTextControl(self._foot), height=FOOT)
        layout = Layout(HSplit([body, ConditionalContainer(self._line, asking), foot]), focused_element=body)
        application: Application[None] = Application(
            layout=layout, key_bindings=self._keys(asking), full_screen=True, input=terminal, output=output
        )
        application.ttimeoutlen = 0.05
        application.run(handle_sigint=False)

    # ---- keys ----

    def _keys(self, asking: Condition) -> KeyBindings:
        keys = KeyBindings()
        moves: dict[str, Callable[[], object]] = {
            "right": lambda: self._go(1), "space": lambda: self._go(1), "left": lambda: self._go(-1),
            "pagedown": lambda: self._go(MANY), "pageup": lambda: self._go(-MANY),
            "home": lambda: self._steps.go(1), "end": lambda: self._steps.go(len(self._steps.all)),
            "m": lambda: self._find("a message", lambda step: step.is_message),
            "M": lambda: self._find("a message", lambda step: step.is_message, back=True),
            "e": lambda: self._find("an event", lambda step: step.events[1] > 0),
            "E": lambda: self._find("an event", lambda step: step.events[1] > 0, back=True),
            "n": self._again, "N": lambda: self._again(back=True), "v": self._violation, "g": self._ask, "/": self._ask,
        }  # fmt: skip
        for key, move in moves.items():
            self._bind(keys, asking, key, move)
        for node in self._steps.nodes[:9]:
            self._bind(keys, asking, str(node), partial(self._message_of, node))
        for key, lines in (("up", -1), ("down", 1)):
            keys.add(key, filter=~asking)(lambda event, lines=lines: self._scroll(lines))
        for key in ("q", "escape"):
            keys.add(key, filter=~asking)(lambda event: event.app.exit())
        keys.add("c-c")(lambda event: event.app.exit())
        keys.add("escape", filter=asking)(lambda event: self._answered())
        return keys

    def _bind(self, keys: KeyBindings, asking: Condition, key: str, move: Callable[[], object]) -> None:
        @keys.add(key, filter=~asking)
        def _(event: KeyPressEvent) -> None:
            self._note, self._scrolled = "", 0
            move()

    def _go(self, steps: int) -> None:
        self._steps.go(max(1, self._steps.at + steps))

    def _scroll(self, lines: int) -> None:
        self._scrolled = max(0, self._scrolled + lines)

    def _find(self, what: str, wanted: Callable[[ReplayStep], bool], *, back: bool = False) -> None:
        if not self._steps.find(wanted, back=back):
            self._note = f"there is no {'earlier' if back else 'later'} step with {what}"

    def _message_of(self, node: int) -> None:
        self._find(f"a message that node {node} takes", lambda step: step.is_message and step.node == node)

    def _violation(self) -> None:
        """Each line of its evidence in turn."""
        for _ in self._evidence:
            self._shown = (self._shown + 1) % len(self._evidence)
            if self._at_event(self._evidence[self._shown]):
                self._note = f"evidence of the violation: {self._evidence[self._shown]}"
                return
        self._note = "no line of a node's trace shows a violation of this run"

    # ---- going to a place ----

    def _ask(self) -> None:
        self._asking, self._line.text = True, ""
        get_app().layout.focus(self._line)

    def _answered(self) -> None:
        self._asking = False
        get_app().layout.focus(self._main)

    def _asked(self) -> bool:
        self.go_to(self._line.text.strip())
        self._answered()
        return False

    def go_to(self, text: str) -> None:
        """A step's number, a time, an event of a trace, or the next step that has these words."""
        if text.isdecimal():
            self._steps.go(max(1, int(text)))
        elif time := TIME.fullmatch(text):
            self._steps.at_time(self._zero + round(float(time[1]) * 1e9))
        elif EVENT.fullmatch(text):
            if not self._at_event(text):
                self._note = f"no step left {text}: it is not the core's, or there is no such line"
        elif text:
            self._wanted = text.lower()
            self._again()

    def _at_event(self, text: str) -> bool:
        found = EVENT.fullmatch(text)
        return found is not None and self._steps.at_event(int(found[1]), int(found[2]), int(found[3]))

    def _again(self, *, back: bool = False) -> None:
        what, wanted = f"the words {self._wanted!r}", re.compile(rf"(?<!\w){re.escape(self._wanted)}(?!\w)")
        if ZXID.fullmatch(self._wanted):
            self._find(f"a message of {self._wanted}", partial(_names, zxid=self._wanted), back=back)
        else:
            self._find(what, lambda step: bool(wanted.search(_line_of(step).lower())), back=back)

    # ---- what is shown ----

    def _body(self) -> ANSI:
        size = get_app().output.get_size()
        head = _rendered(self._head(), size.columns)
        table = _rendered(self._table(size.columns), size.columns)
        room = max(1, size.rows - len(head) - FOOT - 3)
        self._scrolled = min(self._scrolled, max(0, len(table) - room))
        names, rows = table[:1], table[1:]
        return ANSI("\n".join([*head, "", *names, *rows[self._scrolled : self._scrolled + room]]))

    def _head(self) -> RenderableType:
        steps, step = self._steps, self._steps.step
        if step is None:
            return Text(f"{self._title}   nothing was recorded")
        place = f"step {steps.at:,} of {len(steps.all):,}   {(step.time - self._zero) / 1e9:.6f} s"
        lines = [
            Text(f"{self._title}   {place}", "bold", no_wrap=True),
            Text(_line_of(step), "bold cyan", no_wrap=True),
        ]
        did = [*steps.trace_lines(step), *(f"to {peer}: {descriptions.message(one)}" for peer, one in step.sent)]
        if len(did) > TOLD:
            did = [*did[: TOLD - 1], f"and {len(did) - TOLD + 1} more"]
        told = [Text(f"  {words}", no_wrap=True, overflow="ellipsis") for words in did]
        return Group(*lines, *told, *[Text("")] * (TOLD - len(told)))

    def _table(self, columns: int) -> Table:
        nodes = self._fitting(columns)
        shown = {node: self._steps.variables(node) for node in nodes}
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), expand=True)
        hidden = f"{len(nodes)} of {len(self._steps.nodes)} nodes" if len(nodes) < len(self._steps.nodes) else ""
        table.add_column(hidden, width=NAMES, style="dim")
        for node in nodes:
            here = self._steps.step is not None and self._steps.step.node == node
            table.add_column(Text(f"node {node}{' *' if here else ''}", "bold reverse" if here else "bold"), ratio=1)
        for name in (name for name in self._steps.names if any(name in of for of in shown.values())):
            table.add_row(name, *(_cell(shown[node].get(name)) for node in nodes))
        return table

    def _fitting(self, columns: int) -> list[int]:
        """As many nodes as the terminal has room for, with the one of this step."""
        room = max(1, (columns - NAMES) // NARROW)
        nodes, step = self._steps.nodes, self._steps.step
        at = nodes.index(step.node) if step is not None else 0
        first = max(0, min(at - room // 2, len(nodes) - room))
        return nodes[first : first + room]

    def _foot(self) -> ANSI:
        said = HINT if self._asking else self._note or "   ".join(f"{keys}: {words}" for keys, words in KEYS)
        return ANSI("\n".join(_rendered(Text(said), get_app().output.get_size().columns)))


def _line_of(step: ReplayStep) -> str:
    return f"node {step.node} (life {step.life})  {step.words}"


def _names(step: ReplayStep, zxid: str) -> bool:
    """Whether the node took a message with this transaction, which may be one of many."""
    if not isinstance(step.entry, Stepped) or not step.is_message:
        return False
    epoch, counter = map(int, zxid.split(":"))
    said = content_of(step.entry.message)
    return said.first <= zx.zxid(epoch, counter) <= said.last


def _cell(shown: tuple[str, bool] | None) -> Text:
    """A changed value has a sign as well as a colour."""
    if shown is None:
        return Text("")
    words, changed = shown
    return Text(f"* {words}", "bold yellow") if changed else Text(words)


def _rendered(what: RenderableType, columns: int) -> list[str]:
    """The lines that rich makes of it."""
    file = StringIO()
    Console(file=file, width=columns, force_terminal=True, color_system="standard", legacy_windows=False).print(what)
    return file.getvalue().rstrip("\n").split("\n")
