"""The stepper of `zab replay`: a full-screen view of all nodes of a run, side by side, that steps forward and back."""

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
from zab_chaos.model.verdict import Evidence
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.recording import Stepped

NODE_COLUMNS_MIN = 20  # columns of the terminal for one node
NAME_COLUMNS = 20  # columns of the terminal for the names of the variables
LONG_JUMP = 100  # steps
LONGEST = 100  # characters of where to go; far longer numbers can't be parsed
EFFECT_LINES = 4  # for what a step did
EVENT = re.compile(r"(?:trace/)?node-(\d+)-(\d+)(?:\.jsonl)?:(\d+)")
ZXID = re.compile(r"\d+:\d+")
TIME = re.compile(r"(-?\d+(?:\.\d+)?) ?s")
KEYS = (
    ("→ Space", "next step"), ("←", "step back"), ("PgDn PgUp", f"{LONG_JUMP} steps"), ("Home End", "first, last"),
    ("1-9", "next message to this node"), ("m M", "next, previous message"), ("e E", "next, previous event"),
    ("g", "go to"), ("n N", "next, previous match"), ("v", "the violation"), ("↑ ↓", "scroll"), ("q", "quit"),
)  # fmt: skip
KEY_HELP = "   ".join(f"{keys}: {effect}" for keys, effect in KEYS)
HINT = "a step: 1200   a time: 3.5s   an event: node-2-1:340   a word: PROPOSE, 1:402, node 3"


class Stepper:
    """The screen, and what each key does.

    `zero`: the time of the host, in nanoseconds, that is shown as 0 s. `evidence`: the lines that show the run's violation.
    """

    def __init__(self, steps: RunSteps, title: str, zero: int, evidence: list[Evidence]) -> None:
        self._steps = steps
        self._title = title
        self._zero = zero
        self._evidence = evidence
        self._evidence_index = -1  # of the line that was shown last
        self._search_text = ""
        self._message = "; ".join(steps.gaps.values())
        self._scrolled = 0  # lines
        self._asking = False  # whether the user is typing where to go
        self._prompt = TextArea(
            height=1, prompt="go to: ", multiline=False, accept_handler=lambda buffer: self._accept()
        )
        steps.go(1)

    def run(self, terminal: Input | None = None, output: Output | None = None) -> None:
        """Show the screen until the user quits."""
        asking = Condition(lambda: self._asking)
        body = self._main = Window(FormattedTextControl(self._body, focusable=True))
        foot = Window(FormattedTextControl(self._foot), height=_foot_lines)
        layout = Layout(HSplit([body, ConditionalContainer(self._prompt, asking), foot]), focused_element=body)
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
            "pagedown": lambda: self._go(LONG_JUMP), "pageup": lambda: self._go(-LONG_JUMP),
            "home": lambda: self._steps.go(1), "end": lambda: self._steps.go(len(self._steps.all)),
            "m": lambda: self._find("a message", lambda step: step.is_message),
            "M": lambda: self._find("a message", lambda step: step.is_message, back=True),
            "e": lambda: self._find("an event", lambda step: step.events[1] > 0),
            "E": lambda: self._find("an event", lambda step: step.events[1] > 0, back=True),
            "n": self._search, "N": lambda: self._search(back=True), "v": self._next_evidence,
            "g": self._open_prompt, "/": self._open_prompt,
        }  # fmt: skip
        for key, move in moves.items():
            self._bind(keys, asking, key, move)
        for node in self._steps.nodes[:9]:
            self._bind(keys, asking, str(node), partial(self._next_message_to, node))
        for key, lines in (("up", -1), ("down", 1)):
            keys.add(key, filter=~asking)(lambda event, lines=lines: self._scroll(lines))
        for key in ("q", "escape"):
            keys.add(key, filter=~asking)(lambda event: event.app.exit())
        keys.add("c-c")(lambda event: event.app.exit())
        keys.add("escape", filter=asking)(lambda event: self._close_prompt())
        return keys

    def _bind(self, keys: KeyBindings, asking: Condition, key: str, move: Callable[[], object]) -> None:
        @keys.add(key, filter=~asking)
        def _(event: KeyPressEvent) -> None:
            self._message, self._scrolled = "", 0
            move()

    def _go(self, steps: int) -> None:
        self._steps.go(max(1, self._steps.at + steps))

    def _scroll(self, lines: int) -> None:
        self._scrolled = max(0, self._scrolled + lines)

    def _find(self, what: str, matches: Callable[[ReplayStep], bool], *, back: bool = False) -> None:
        """Go to the next or the previous step that matches. `what`: what such a step has, for the message if there is none."""
        if not self._steps.find(matches, back=back):
            self._message = f"there is no {'earlier' if back else 'later'} step with {what}"

    def _next_message_to(self, node: int) -> None:
        self._find(f"a message to node {node}", lambda step: step.is_message and step.node == node)

    def _next_evidence(self) -> None:
        """Go to the next line that shows the violation; after the last one to the first."""
        for _ in self._evidence:
            self._evidence_index = (self._evidence_index + 1) % len(self._evidence)
            one = self._evidence[self._evidence_index]
            line = f"{one.file}:{one.line}"
            if self._go_to_event(line):
                self._message = f"evidence of the violation: {line}"
                return
            if self._go_near(one):
                self._message = f"evidence of the violation: {line}, of no step; this step is the nearest in time"
                return
        self._message = "no line with a time shows a violation of this run"

    def _go_near(self, one: Evidence) -> bool:
        """Go to the step nearest in time to a line that no step wrote; to one of its node's life, if it is of a trace."""
        t, trace = one.event.get("t"), EVENT.fullmatch(f"{one.file}:{one.line}")
        life = (int(trace[1]), int(trace[2])) if trace is not None else None
        return isinstance(t, int) and (self._steps.nearest(t, life) or self._steps.nearest(t))

    # ---- going to a step ----

    def _open_prompt(self) -> None:
        self._asking, self._prompt.text = True, ""
        get_app().layout.focus(self._prompt)

    def _close_prompt(self) -> None:
        self._asking = False
        get_app().layout.focus(self._main)

    def _accept(self) -> bool:
        """Go to what was typed. Return False, which clears the text."""
        self.go_to(self._prompt.text.strip())
        self._close_prompt()
        return False

    def go_to(self, text: str) -> None:
        """Go to the step that a text stands for: a number, a time, an event of a trace, or words of a later step."""
        if len(text) > LONGEST:
            self._message = f"there is no such step: the text has more than {LONGEST} characters"
        elif text.isdecimal():
            self._steps.go(max(1, int(text)))
        elif time := TIME.fullmatch(text):
            self._steps.at_time(self._zero + round(float(time[1]) * 1e9))
        elif EVENT.fullmatch(text):
            if not self._go_to_event(text):
                self._message = f"no step wrote {text}: there is no such line, or it is not an event of the core"
        elif text:
            self._search_text = text.lower()
            self._search()

    def _go_to_event(self, text: str) -> bool:
        found = EVENT.fullmatch(text)
        return found is not None and self._steps.at_event(int(found[1]), int(found[2]), int(found[3]))

    def _search(self, *, back: bool = False) -> None:
        """Go to the next or the previous step that has the words, or takes a message with the zxid, that were typed last."""
        text = self._search_text
        if ZXID.fullmatch(text):
            self._find(f"a message of {text}", partial(_has_transaction, zxid=text), back=back)
            return
        words = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")
        self._find(f"the words {text!r}", lambda step: bool(words.search(_title(step).lower())), back=back)

    # ---- the screen ----

    def _body(self) -> ANSI:
        size = get_app().output.get_size()
        head = _render(self._head(), size.columns)
        table = _render(self._table(size.columns), size.columns)
        height = max(1, size.rows - len(head) - _foot_lines() - 3)
        self._scrolled = min(self._scrolled, max(0, len(table) - height))
        headings, rows = table[:1], table[1:]
        return ANSI("\n".join([*head, "", *headings, *rows[self._scrolled : self._scrolled + height]]))

    def _head(self) -> RenderableType:
        """Return the number and time of the step, what it took, and what it did."""
        steps, step = self._steps, self._steps.step
        if step is None:
            return Text(f"{self._title}   nothing was recorded")
        place = f"step {steps.at:,} of {len(steps.all):,}   {(step.time - self._zero) / 1e9:.6f} s"
        lines = [
            Text(f"{self._title}   {place}", "bold", no_wrap=True),
            Text(_title(step), "bold cyan", no_wrap=True),
        ]
        effects = [*steps.trace_lines(step), *(f"to {peer}: {descriptions.message(one)}" for peer, one in step.sent)]
        if len(effects) > EFFECT_LINES:
            effects = [*effects[: EFFECT_LINES - 1], f"and {len(effects) - EFFECT_LINES + 1} more"]
        effect_lines = [Text(f"  {effect}", no_wrap=True, overflow="ellipsis") for effect in effects]
        return Group(*lines, *effect_lines, *[Text("")] * (EFFECT_LINES - len(effect_lines)))

    def _table(self, columns: int) -> Table:
        """Return a table with a column for each node and a row for each variable."""
        nodes = self._visible_nodes(columns)
        shown = {node: self._steps.variables(node) for node in nodes}
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), expand=True)
        hidden = f"{len(nodes)} of {len(self._steps.nodes)} nodes" if len(nodes) < len(self._steps.nodes) else ""
        table.add_column(hidden, width=NAME_COLUMNS, style="dim")
        for node in nodes:
            here = self._steps.step is not None and self._steps.step.node == node
            table.add_column(Text(f"node {node}{' *' if here else ''}", "bold reverse" if here else "bold"), ratio=1)
        for name in (name for name in self._steps.names if any(name in variables for variables in shown.values())):
            table.add_row(name, *(_cell(shown[node].get(name)) for node in nodes))
        return table

    def _visible_nodes(self, columns: int) -> list[int]:
        """Return as many nodes as the terminal has room for, among them the one of this step."""
        room = max(1, (columns - NAME_COLUMNS) // NODE_COLUMNS_MIN)
        nodes, step = self._steps.nodes, self._steps.step
        at = nodes.index(step.node) if step is not None else 0
        first = max(0, min(at - room // 2, len(nodes) - room))
        return nodes[first : first + room]

    def _foot(self) -> ANSI:
        text = HINT if self._asking else self._message or KEY_HELP
        return ANSI("\n".join(_render(Text(text), get_app().output.get_size().columns)))


def _foot_lines() -> int:
    """Return the lines for the keys, or for a message: as many as the keys need in a terminal of this width."""
    return len(_render(Text(KEY_HELP), get_app().output.get_size().columns))


def _title(step: ReplayStep) -> str:
    return f"node {step.node} (life {step.life})  {step.words}"


def _has_transaction(step: ReplayStep, zxid: str) -> bool:
    """Return True if the step took a message with this transaction, possibly among others."""
    if not isinstance(step.entry, Stepped) or not step.is_message:
        return False
    epoch, counter = map(int, zxid.split(":"))
    content = content_of(step.entry.message)
    return content.first <= zx.zxid(epoch, counter) <= content.last


def _cell(variable: tuple[str, bool] | None) -> Text:
    """Format the value of a variable. A change has a star as well as a colour."""
    if variable is None:
        return Text("")
    value, changed = variable
    return Text(f"* {value}", "bold yellow") if changed else Text(value)


def _render(content: RenderableType, columns: int) -> list[str]:
    """Return the content as lines of text with ANSI colours."""
    file = StringIO()
    Console(file=file, width=columns, force_terminal=True, color_system="standard", legacy_windows=False).print(content)
    return file.getvalue().rstrip("\n").split("\n")
