"""Parses the requests of `zab client`, on the command line and in the shell, and formats their outcomes."""

import argparse
import dataclasses
import re
import shlex
from collections.abc import Sequence
from typing import Any, NoReturn

from msgspec import structs

from zab_chaos.harness.client.session import Done, Failed, Outcome, Unknown
from zab_chaos.harness.errors import BadInput, Exit, did_you_mean
from zab_chaos.node.tree.requests import ANY, Check, Children, Create, Delete, Exists, Get, Multi, Request, Set, Step

STEPS = (Create, Set, Delete, Check)  # the requests that a multi may contain


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises BadInput instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(message)


@dataclasses.dataclass(frozen=True, slots=True)
class Verb:
    """The request of a verb, its description, and an example of its arguments, which is shown after a mistake."""

    request: type[Request]
    about: str
    example: str


VERBS = {
    "create": Verb(Create, "create a znode", "create /a hello [--sequential]"),
    "get": Verb(Get, "show a znode's data and version", "get /a"),
    "set": Verb(Set, "replace a znode's data", "set /a other [--version N]"),
    "delete": Verb(Delete, "delete a znode", "delete /a [--version N]"),
    "check": Verb(Check, "fail unless the znode exists and has that version", "check /a [--version N]"),
    "exists": Verb(Exists, "show whether the znode exists", "exists /a"),
    "ls": Verb(Children, "list the names of a znode's children", "ls /"),
    "multi": Verb(Multi, "execute several writes, all or none", "multi 'create /a/b 1' 'set /a y'"),
}


def _parser() -> _Parser:
    parser = _Parser(prog="", add_help=False, exit_on_error=True, allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb", parser_class=_Parser, prog="")
    parsers = {name: verbs.add_parser(name, add_help=False, allow_abbrev=False) for name in VERBS}
    for name, verb in parsers.items():
        if name != "multi":
            verb.add_argument("path")
    parsers["create"].add_argument("data", type=_bytes, nargs="?", default=b"")
    parsers["create"].add_argument("--sequential", action="store_true")
    parsers["set"].add_argument("data", type=_bytes)
    for name in ("set", "delete", "check"):
        parsers[name].add_argument("--version", type=_version, default=ANY)
    parsers["multi"].add_argument("steps", nargs="+")
    return parser


def _version(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at most 18 digits")
    return int(text)


def parse_request(words: Sequence[str]) -> Request:
    """Return the request of these words. Raises BadInput."""
    verb = words[0] if words else ""
    if verb not in VERBS:
        raise BadInput(f"there is no request {verb!r}. {did_you_mean(verb, VERBS)}")
    try:
        fields = vars(_parser().parse_args(list(words)))
    except BadInput as error:
        raise BadInput(f"{verb}: {error}; for example: {VERBS[verb].example}") from None
    if verb == "multi":
        fields["steps"] = _steps(fields["steps"])
    del fields["verb"]
    return VERBS[verb].request(**fields)


def _steps(lines: Sequence[str]) -> list[Step]:
    """Return the steps of a multi. Raises BadInput with the mistakes of all steps."""
    steps: list[Step] = []
    mistakes: list[str] = []
    bare = [line for line in lines if len(line.split()) < 2]
    if bare:
        mistakes.append(
            f"{shlex.join(bare)}: write each step of a multi as one argument, in quotes, such as: {VERBS['multi'].example}"
        )
    for number, line in enumerate(lines, 1):
        if line in bare:
            continue
        try:
            step = parse_request(split_line(line))
        except BadInput as error:
            mistakes.append(f"step {number}: {error}")
            continue
        if isinstance(step, STEPS):
            steps.append(step)
        else:
            mistakes.append(f"step {number}: {line}: a multi holds writes only: create, set, delete, check")
    if mistakes:
        raise BadInput("\n".join(mistakes))
    return steps


def split_line(line: str) -> list[str]:
    """Split a line into words as a shell does. Raises BadInput."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise BadInput(f"{line}: {error}") from None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")  # restores bytes of the command line that are not UTF-8


def outcome_text(outcome: Outcome) -> str:
    """Return an outcome as text for people."""
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
    """Return an outcome as JSON for programs. Data is text, with \\xNN for bytes that are not UTF-8."""
    if isinstance(outcome, Failed):
        return {"outcome": "failed", "error": outcome.error, "words": outcome.words}
    if isinstance(outcome, Unknown):
        return {"outcome": "unknown", "why": outcome.why}
    facts = {name: value for name, value in structs.asdict(outcome).items() if value is not None}
    if outcome.value is not None:
        facts["value"] = outcome.value.decode("utf-8", "backslashreplace")
    return {"outcome": "ok", **facts}


def exit_code(outcome: Outcome) -> Exit:
    """Return the exit code for an outcome: 0 done, 1 failed, 2 unknown."""
    if isinstance(outcome, Done):
        return Exit.PASS
    return Exit.VIOLATION if isinstance(outcome, Failed) else Exit.UNKNOWN
