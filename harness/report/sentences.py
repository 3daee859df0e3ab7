"""Describes lines of a run's folder (trace, operations, sessions, faults) as sentences. All reports use it."""

from collections.abc import Callable, Sequence
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any

from zab_chaos.model.events import LISTS, TRANSACTIONS, ZxidPair, packed
from zab_chaos.model.oracle.evidence import exit_words, loss_words, show, zxid_range
from zab_chaos.node.core import digest as dg

Line = dict[str, Any]
RANGES_SHOWN = 12  # consecutive ranges of a log
STEPS_SHOWN = 8  # steps of a multi
RANGE_LEAST = 4  # consecutive elements of a list that are shown as a range
DATA_SHOWN = 60  # characters of what a foreign system calls a transaction


def describe_line(file: str, line: Line) -> str:
    """Describe a line that a verdict may cite. A line of an unexpected form is described by its name only."""
    if file.startswith("trace/"):
        who = f"node {line.get('node', '?')} (life {line.get('life', '?')})"
        return f"{who} {_tell(EVENTS, str(line.get('event', '?')), line)}"
    if file == "ops.jsonl":
        return f"client {line.get('client', '?')} {_tell(OPERATIONS, str(line.get('type', '?')), line)}"
    if file == "sessions.jsonl":
        who = f"client {line['client']}" if line.get("client") else "the harness"
        return f"{who} {_tell(SESSIONS, str(line.get('type', '?')), line)}"
    if file == "tree.jsonl":
        return f"at the end, all servers that served showed {line.get('path', '?')}"
    if file == "faults.jsonl":
        return _tell(FAULTS, str(line.get("type", "?")), line)
    name = str(line.get("event", line.get("type", "?")))
    return _tell(MILESTONES, name, line) if name in MILESTONES else f"the run: {name}"


def _tell(sentences: dict[str, Callable[[Line], str]], name: str, line: Line) -> str:
    try:
        return sentences[name](line)
    except (KeyError, TypeError, ValueError, IndexError):
        return f"wrote `{name}`"


def _batch(line: Line) -> str:
    """Return `1:3 to 1:9 (7 transactions)`."""
    epoch, first, count = line["epoch"], line["first"], dg.count(line["digests"])
    many = f" ({count} transactions)" if count > 1 else ""
    return zxid_range((epoch << 32) | first, (epoch << 32) | (first + count - 1)) + many


def describe_log(ranges: Sequence[tuple[ZxidPair, ZxidPair]]) -> str:
    """Return `1:1 to 1:4, 2:1 to 2:9` for ranges of consecutive zxids; of many ranges only the last ones."""
    left_out = f"and {len(ranges) - RANGES_SHOWN} more, " if len(ranges) > RANGES_SHOWN else ""
    return left_out + ", ".join(zxid_range(packed(first), packed(last)) for first, last in ranges[-RANGES_SHOWN:])


def _zxid(value: Any) -> str:
    epoch, counter = value
    return show((int(epoch), int(counter)))


def _booted(line: Line) -> str:
    disk = {"fresh": "a new disk", "recovered": "the disk it had", "torn": "a disk with a torn tail"}
    held = disk.get(line["disk"], "an empty disk that may have forgotten promises (amnesiac)")
    epochs = f"f.p = {line['accepted_epoch']}, f.a = {line['current_epoch']}"
    return f"started on {held}: {epochs}, last zxid {_zxid(line['last_zxid'])}"


def _why(line: Line) -> str:
    """Return the reason that a line gives, after a colon; empty if it gives none."""
    return f": {line['why']}" if line.get("why") else ""


def _leader(line: Line) -> str:
    return f"node {line['leader']}" if line["leader"] else "nobody"


EVENTS: dict[str, Callable[[Line], str]] = {
    "boot": _booted,
    "left": lambda line: (
        f"left on its disk f.p = {line['accepted_epoch']}, f.a = {line['current_epoch']}, last zxid {_zxid(line['last_zxid'])}"
        + (f"; log {describe_log(line['log'])}" if line.get("log") else "")
    ),
    "client": lambda line: f"client {line['client']} {line['state']}" + _why(line),
    "vote": lambda line: f"votes for {_leader(line)} (round {line['round']})",
    "role": lambda line: f"became {line['role']}" + _why(line),
    "phase": lambda line: f"entered {line['phase']} in epoch {line['epoch']}",
    "accepted_epoch": lambda line: f"promised epoch {line['epoch']} (f.p, durable)",
    "current_epoch": lambda line: (
        f"adopted epoch {line['epoch']} (f.a, durable) with a history up to {_zxid(line['last_zxid'])}"
    ),
    "established": lambda line: (
        f"was established as the leader of epoch {line['epoch']} with a history up to {_zxid(line['last_zxid'])}"
    ),
    "broadcast": lambda line: f"broadcast {_batch(line)}" + _data(line),
    "accept": lambda line: f"accepted {_batch(line)} in epoch {line.get('in_epoch', '?')}, durably",
    "deliver": lambda line: f"delivered {_batch(line)}" + _data(line),
    "truncate": lambda line: loss_words(line["keep"], line["last"], line.get("followed_by")),
    "snapshot": lambda line: f"snapshot {line['kind']} at {_zxid(line['zxid'])}",
    "differs": lambda line: f"found that its tree differs from its leader's at {_zxid(line['zxid'])}",
    "misanswered": lambda line: f"sent session {line['session']:#x} {line['what']}",
    "confirmed": lambda line: f"confirmed to node {line['leader']} that it follows epoch {line['epoch']}",
    "member": lambda line: f"is a member again, in epoch {line['epoch']}, after it had lost its disk",
    "link": lambda line: f"link to node {line['peer']} {line['state']}" + _why(line),
    "channel": lambda line: (
        f"accepted frames {line['first']} to {line['last']} of session {line['session']} from node {line['peer']}, "
        + (f"and then not frame {line['last'] + 1}" if line["ended"] == "gap" else f"until it ended ({line['ended']})")
    ),
    "abort": lambda line: f"stopped itself: {line['why']}",
    "exit": lambda line: f"ended with code {line['code']}" + _why(line),
    "fault": lambda line: f"fault {line['do']} {line['state']} {line.get('detail', '')}".rstrip(),
}


def _data(line: Line) -> str:
    """Return what a foreign system calls a transaction, in brackets."""
    data = str(line.get("data") or "")
    return f" ({data[:DATA_SHOWN]}{'...' if len(data) > DATA_SHOWN else ''})" if data else ""


def _field(line: Line, name: str, words: str) -> str:
    return f", {words} {line[name]}" if line.get(name) is not None else ""


def _operation(line: Line) -> str:
    """Return `set /a`, or `multi (set /a, delete /b)`, or `transaction (get /a, set /b to 123)`, or
    `list-append (append 3 to /a, read /b)`."""
    if not line.get("steps"):
        return f"{line['op']} {line['path']}"
    told = _with_value if line["op"] in TRANSACTIONS | LISTS else itemgetter("path")
    return f"{line['op']} ({_listed([(step['op'], told(step)) for step in line['steps']])})"


def _with_value(step: Line) -> str:
    """Return the path of a step of a transaction and what the step writes."""
    path: str = step["path"]
    if step["op"] == "set":
        return f"{path} to {step['value']}"
    return f"{step['value']} to {path}" if step["op"] == "append" else path


def _value(found: int | None) -> str:
    return "no key" if found is None else str(found)


def _elements(found: Sequence[int]) -> str:
    """Return `[1, 3, 5 to 64]`: consecutive elements as a range, if they are many."""
    words: list[str] = []
    for _, pairs in groupby(enumerate(found), lambda pair: pair[1] - pair[0]):
        run = [element for _, element in pairs]
        words += [f"{run[0]} to {run[-1]}"] if len(run) >= RANGE_LEAST else map(str, run)
    return f"[{', '.join(words)}]"


def _listed(steps: Sequence[Sequence[Any]]) -> str:
    """Name the steps of a multi: each begins with its operation and its path."""
    left_out = f", and {len(steps) - STEPS_SHOWN} more" if len(steps) > STEPS_SHOWN else ""
    return ", ".join(f"{op} {path}" for op, path, *_ in steps[:STEPS_SHOWN]) + left_out


def fence_words(client: int, seq: int) -> str:
    return f"a fence for client {client}, seq {seq}"


def describe_transactions(line: Line, wanted: Sequence[int]) -> list[str]:
    """Return what a `broadcast` line says of each of the wanted zxids that it has."""
    found = []
    for at, txn in enumerate(line.get("txns") or ()):
        match txn:
            case [int(client), int(seq), [[str(), str(), *_], *_] as steps] if (
                zxid := (line["epoch"] << 32 | line["first"]) + at
            ) in wanted:
                words = f"{_listed(steps)} of client {client}, seq {seq}"
                found.append(f"{show(zxid)} is {fence_words(client, seq) if steps[0][0] == 'fence' else words}")
    return found


MILESTONES: dict[str, Callable[[Line], str]] = {
    "crash-state": lambda line: (
        f"a crash of node {line['node']} (life {line['life']}) at this sync was tried on a copy of its disk"
    ),
    "ended": lambda line: f"the process of node {line['node']} (life {line['life']}) ended: {exit_words(line['code'])}",
    "release": lambda line: f"node {line['node']} began life {line['life']} with release {line['release']}",
    "last-question": lambda line: f"from here on each client asked for a last read, for at most {line['seconds']:g} s",
}

# A value is shown as the CRC-32 that the line has.
OPERATIONS: dict[str, Callable[[Line], str]] = {
    "invoke": lambda line: f"sent {_operation(line)} to node {line['node']} (seq {line['seq']}){_argument(line)}",
    "complete": lambda line: (
        f"was answered {line['outcome']} by node {line['node']} (seq {line['seq']})"
        + (f", zxid {_zxid(line['zxid'])}" if line.get("zxid") else "")
        + _result(line)
    ),
}


def describe_request(invoke: Line, complete: Line | None) -> str:
    """Describe a request with its answer, if there is one: `set /a, value 123: ok`."""
    try:
        answer = f"{complete['outcome']}{_result(complete, _keys_read(invoke))}" if complete else "no answer"
        return f"{_operation(invoke)}{_argument(invoke)}: {answer}"
    except (KeyError, TypeError, ValueError, IndexError):
        return "a request of an unexpected form"


def _argument(line: Line) -> str:
    """Return what a request writes, and on which condition."""
    value = "" if line["op"] in TRANSACTIONS | LISTS else _field(line, "value", "value")
    return value + _field(line, "version", "if its version is")


def _result(line: Line, keys: Sequence[str] = ()) -> str:
    """Return what an answer says. `keys`: the names of those that the steps of a transaction have read."""
    shown = [*map(_value, line.get("values") or ()), *map(_elements, line.get("lists") or ())]
    found = [f"{key} {words}".lstrip() for key, words in zip(keys or repeat(""), shown, strict=False)]
    return (
        _field(line, "value", "value")
        + (f", which found {', '.join(found)}" if found else "")
        + _field(line, "version", "version")
        + (f": {line['error']}" if line.get("error") else "")
    )


def _keys_read(invoke: Line) -> list[str]:
    return [step["path"] for step in invoke.get("steps") or () if step["op"] in {"get", "read"}]


def _shown_znode(line: Line) -> str:
    state = f"with its last change at {_zxid(line['changed'])}" if line.get("changed") else "no such znode"
    watch = ", and set a watch" if line.get("watch") else ""
    return f"was shown {line['path']} by node {line['node']} at {_zxid(line['zxid'])}: {state}{watch}"


SESSIONS: dict[str, Callable[[Line], str]] = {
    "began": lambda line: f"began session {line['session']:#x}",
    "lost": lambda line: "lost its connection",
    "over": lambda line: f"learned that session {line['session']:#x} had ended: {line['why']}",
    "write": lambda line: f"sent {line['op']} {line['path']}",
    "made": lambda line: f"created {line['path']} at {_zxid(line['zxid'])}, in session {line['session']:#x}",
    "wrote": lambda line: f"wrote {line['path']} at {_zxid(line['zxid'])}, in session {line['session']:#x}",
    "removed": lambda line: f"deleted {line['path']} at {_zxid(line['zxid'])}, in session {line['session']:#x}",
    "refused": lambda line: (
        f"was refused {line['path']} by node {line['node']} at {_zxid(line['zxid'])}: {line['error']}"
    ),
    "ask": lambda line: f"asked to read {line['path']} and to watch it",
    "look": _shown_znode,
    "synced": lambda line: f"had its sync answered by node {line['node']}, at {_zxid(line['zxid'])}",
    "fired": lambda line: f"was notified that {line['path']} was {line['what']}",
    "watching": lambda line: (
        f"watches all below {line['path']} since node {line['node']} answered at {_zxid(line['zxid'])}"
    ),
    "told": lambda line: f"was notified that {line['path']} was {line['what']}",
    "heard": lambda line: f"was answered by node {line['node']} at {_zxid(line['zxid'])}",
    "again": lambda line: f"asked to have its watches on {', '.join(line['paths'])} set again",
    "stand": lambda line: f"had its watches set again by node {line['node']}, at {_zxid(line['zxid'])}",
    "ended": lambda line: f"found the end of session {line['session']:#x} in a log, at {_zxid(line['zxid'])}",
}


def _healed(line: Line) -> str:
    if line["id"] != 0:
        return f"fault {line['id']} healed"
    return "another program had changed the links" if "tampered" in line["evidence"] else "the final healing failed"


FAULTS: dict[str, Callable[[Line], str]] = {
    "inject": lambda line: f"fault {line['id']} injected: {line['do']} of {line['target']}",
    "heal": _healed,
}
