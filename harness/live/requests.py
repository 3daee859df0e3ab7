"""What can be said to an ensemble by hand, on the command line as in the shell, and what is answered."""

import argparse
import dataclasses
import shlex
from collections.abc import Sequence
from typing import Any, NoReturn

from zab_chaos.harness.client.session import Done, Failed, Outcome, Unknown
from zab_chaos.harness.errors import BadInput, Exit, did_you_mean
from zab_chaos.node.tree.requests import ANY, Check, Children, Create, Delete, Exists, Get, Multi, Request, Set, Step

STEPS = (Create, Set, Delete, Check)  # what a multi may hold
PATH = "the znode, from / on"


class _Parser(argparse.ArgumentParser):
    """argparse that raises instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(message)


@dataclasses.dataclass(frozen=True, slots=True)
class Verb:
    """A verb: what it does, and how its arguments look. `example` is shown where somebody got it wrong."""

    about: str
    example: str


VERBS = {
    "create": Verb("make a znode", "create /a hello [--sequential]"),
    "get": Verb("a znode's data and version", "get /a"),
    "set": Verb("replace a znode's data", "set /a other [--version N]"),
    "delete": Verb("remove a znode", "delete /a [--version N]"),
    "check": Verb("fail unless the znode is there, at that version", "check /a [--version N]"),
    "exists": Verb("whether there is such a znode", "exists /a"),
    "ls": Verb("the names of a znode's children", "ls /"),
    "multi": Verb("several writes, all or none", "multi 'create /a/b 1' 'check /a --version 3'"),
}


def _parser() -> _Parser:
    parser = _Parser(prog="", add_help=False, exit_on_error=True, allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb", parser_class=_Parser, prog="")
    made = {name: verbs.add_parser(name, add_help=False, allow_abbrev=False) for name in VERBS}
    for name, verb in made.items():
        if name != "multi":
            verb.add_argument("path", help=PATH)
    made["create"].add_argument("data", nargs="?", default="")
    made["create"].add_argument("--sequential", action="store_true")
    made["set"].add_argument("data")
    for name in ("set", "delete", "check"):
        made[name].add_argument("--version", type=int, default=ANY)
    made["multi"].add_argument("steps", nargs="+")
    return parser


def parse_request(words: Sequence[str]) -> Request:
    """The request that was said. Raises BadInput."""
    if not words or words[0] not in VERBS:
        said = words[0] if words else ""
        raise BadInput(f"nothing can be done by the name of {said!r}. {did_you_mean(said, VERBS)}")
    try:
        said_of = _parser().parse_args(list(words))
    except BadInput as error:
        raise BadInput(f"{words[0]}: {error}; for example: {VERBS[words[0]].example}") from None
    if words[0] == "multi":
        return Multi(_steps(said_of.steps))
    return _one(said_of)


def _one(said: argparse.Namespace) -> Request:
    match said.verb:
        case "create":
            return Create(said.path, _bytes(said.data), said.sequential)
        case "set":
            return Set(said.path, _bytes(said.data), said.version)
        case "delete":
            return Delete(said.path, said.version)
        case "check":
            return Check(said.path, said.version)
        case "get":
            return Get(said.path)
        case "exists":
            return Exists(said.path)
    return Children(said.path)


def _steps(said: Sequence[str]) -> list[Step]:
    """A multi's. Raises BadInput: all that is wrong with any of them."""
    steps: list[Step] = []
    wrong: list[str] = []
    for number, words in enumerate(said, 1):
        try:
            step = parse_request(split_line(words))
        except BadInput as error:
            wrong.append(f"step {number}: {error}")
            continue
        if isinstance(step, STEPS):
            steps.append(step)
        else:
            wrong.append(f"step {number}: {words}: a multi holds writes only: create, set, delete, check")
    if wrong:
        raise BadInput("\n".join(wrong))
    return steps


def split_line(line: str) -> list[str]:
    """A line as a shell would take it apart. Raises BadInput."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise BadInput(f"{line}: {error}") from None


def _bytes(said: str) -> bytes:
    return said.encode("utf-8", "surrogateescape")  # what the command line holds, bytes that are no UTF-8 included


def outcome_text(outcome: Outcome) -> str:
    """For people."""
    if isinstance(outcome, Failed):
        return f"failed, {outcome}"
    if isinstance(outcome, Unknown):
        return str(outcome)
    if outcome.children is not None:
        return "\n".join(outcome.children)
    if outcome.value is not None:
        return f"{outcome.value.decode('utf-8', 'backslashreplace')}\n{_at(outcome)}"
    if outcome.steps is not None:
        steps = [f"{path}" + ("" if version is None else f" version {version}") for path, version in outcome.steps]
        return "\n".join([*steps, _at(outcome)])
    return f"{outcome.path} {_at(outcome)}" if outcome.path is not None else _at(outcome)


def _at(done: Done) -> str:
    version = "" if done.version is None else f"version {done.version}, "
    return f"{version}zxid {done.zxid[0]}:{done.zxid[1]}"


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """For programs. Bytes as text, with \\xNN where they are none."""
    if isinstance(outcome, Failed):
        return {"outcome": "failed", "error": outcome.error, "words": outcome.words}
    if isinstance(outcome, Unknown):
        return {"outcome": "unknown", "why": outcome.why}
    facts = {name: value for name, value in dataclasses.asdict(outcome).items() if value is not None}
    if outcome.value is not None:
        facts["value"] = outcome.value.decode("utf-8", "backslashreplace")
    return {"outcome": "ok", **facts}


def exit_code(outcome: Outcome) -> Exit:
    """What the shell is told: 0 done, 1 failed, 2 not known."""
    if isinstance(outcome, Done):
        return Exit.PASS
    return Exit.VIOLATION if isinstance(outcome, Failed) else Exit.UNKNOWN
