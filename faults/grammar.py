"""The grammar of scenario files: the tables and keys with their rules, and a reader that reports all mistakes at once."""

import dataclasses
import itertools
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from zab_chaos.faults.consistency import contradictions
from zab_chaos.faults.initial_and_final import DISK, LEVELS, PROPERTIES, disk_mistakes, znode_values
from zab_chaos.faults.kind import REQUIRED, Key, Kind
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.rules import (
    InvalidValueError,
    Rule,
    boolean,
    choice,
    either,
    integer,
    list_of,
    matching,
    number,
    number_range,
    shown,
    suggest,
    text,
    text_table,
    weights,
)
from zab_chaos.faults.scenario import (
    AT_ROOT,
    BAD_PATH,
    EXITS,
    LISTS,
    NUMBERED,
    OPERATIONS,
    REPLACE,
    TRANSACTIONS,
    Expect,
    FaultStep,
    InitialDisk,
    Mistake,
    Nemesis,
    Operation,
    Scenario,
    ScenarioError,
    Ticket,
    Workload,
    ZooKeeperSettings,
)
from zab_chaos.faults.seeds import SEED_MAX
from zab_chaos.faults.targets import NAME as LABEL
from zab_chaos.faults.targets import read_target
from zab_chaos.faults.toml_lines import LineIndex, Path
from zab_chaos.node.config import Limits, Timing
from zab_chaos.node.crash_points import POINTS


def label() -> Rule:
    """Return the rule for a name given with `as` to nodes or to an operation."""
    allowed = "a capital, then letters, digits and -"

    def read(value: object, _nodes: int) -> str:
        if not isinstance(value, str) or not LABEL.fullmatch(value):
            raise InvalidValueError(f"{shown(value)} is no name", allowed)
        return value

    return Rule(allowed, read)


def known_defect() -> Rule:
    """Return the rule for the name of a defect."""

    def read(value: object, nodes: int) -> Any:
        from zab_chaos.faults.defects import DEFECTS  # imports the whole node, which few scenarios need

        return choice(*DEFECTS).read(value, nodes)

    return Rule("a name that `zab defects` lists", read)


MAX_NODES = 15
NAME_MAX = 100  # characters
# The results folder has a folder for each name; `latest` there is a link to the newest run.
NAME = rf"(?=.{{1,{NAME_MAX}}}\Z)(?!latest(/|\Z))[a-z0-9][a-z0-9-]*(/[a-z0-9][a-z0-9-]*)*"
VERSION = r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?"
MAX_SECONDS = 24 * 3600.0
DRAWABLE: tuple[str, ...] = tuple(name for name, kind in KINDS.items() if kind.draw is not None)

TABLES: dict[str, dict[str, Rule]] = {
    "scenario": {
        "name": matching(NAME, f"1 to {NAME_MAX} small letters, digits, - and /, but not latest"),
        "about": text(),
        "nodes": integer(1, MAX_NODES, "nodes"),
        "observers": integer(0, MAX_NODES - 1, "nodes that do not vote"),
        "seed": integer(0, SEED_MAX),
        "duration": number(0.5, MAX_SECONDS, "seconds"),
        "record": boolean(),
        "disk": choice("faithful", "ordinary", "fuse"),
        "crash_states": boolean(),
        "erratic_network": boolean(),
        "defect": known_defect(),
    },
    "workload": {
        "clients": integer(1, 1000, "clients"),
        "rate": number(0.1, 1_000_000, "operations a second"),
        "keys": integer(1, 1_000_000, "znodes"),
        "payload_bytes": integer(16, 1_000_000, "bytes"),
        "mix": weights((*OPERATIONS, *TRANSACTIONS, *LISTS), "an operation"),
        "max_outstanding": integer(1, 100_000, "operations a client"),
        "burst": integer(1, 1000, "operations at once"),
        "moves": number(0.0, 10_000, "moves a second"),
        "visits": number(0.0, 10_000, "new sessions a second"),
        "stalls": number(0.0, 1000, "stalls a second"),
        "timeout": number(0.1, MAX_SECONDS, "seconds"),
        "sessions": integer(0, 100, "clients with sessions, ephemeral znodes and watches"),
    },
    "nemesis": {
        "every": number_range(0.1, MAX_SECONDS, "seconds"),
        "burst": integer(1, 1000, "faults"),
        "faults": weights(DRAWABLE, "a fault that can be drawn"),
        "heal_after": number_range(0.1, MAX_SECONDS, "seconds"),
        "keep_quorum": boolean(),
        "points": weights(POINTS, "a crash point", others=1),
    },
    "expect": {
        "verdict": choice(*EXITS),
        "exit": integer(0, 5),
        "violates": choice(*PROPERTIES),
        "converges_within": number(0.1, 3600, "seconds"),
        "unavailable_at_most": number(0.0, 3600, "seconds"),
        "progress_within": number(0.1, 3600, "seconds"),
        "answered_within": number(0.1, 3600, "seconds"),
        "min_acked": integer(0, 10**9, "writes"),
        "isolation": choice(*LEVELS),
        "state": znode_values(),
    },
    "zookeeper": {
        "release": matching(VERSION, "a released version, for example 3.9.4"),
        "to": matching(VERSION, 'a released version, to which faults with release = "new" upgrade'),
        "settings": text_table('lines of the servers\' configuration, for example { snapCount = "10" }'),
        "java": text_table(
            'system properties and Xmx, the heap, for example { "zookeeper.snapshotSizeFactor" = "-1", Xmx = "1g" }'
        ),
        "names": choice("folder", "journal"),
        "synced": boolean(),
    },
    "ticket": {
        "id": text(100),
        "violates": list_of(choice(*PROPERTIES), "properties", fewest=1),
        "fails": list_of(matching(VERSION, "a released version"), "releases", fewest=1),
        "passes": list_of(matching(VERSION, "a released version"), "releases"),
        "runs": integer(1, 1000, "runs"),
        "note": text(),
    },
}
REQUIRED_KEYS = {"ticket": ("id", "violates", "fails")}
STRUCTS: dict[str, type[Timing] | type[Limits]] = {"timing": Timing, "limits": Limits}
OPERATION: tuple[Key, ...] = (
    Key(name="at", rule=number(0, MAX_SECONDS, "seconds"), doc="when the operation is due, from the start of the load"),
    Key(name="do", rule=choice(*OPERATIONS, *TRANSACTIONS, *LISTS), doc="the operation", default="set"),
    Key(name="client", rule=integer(1, 1000), doc="which of the workload's clients sends it", default=1),
    Key(
        name="key",
        rule=integer(0, 999_999),
        doc="which of the workload's keys, from 0; the number after the last one names a znode that does not exist",
        default=0,
    ),
    Key(name="version", rule=integer(0, 2**31 - 1), doc="the version that the znode must have", default=None),
    Key(name="value", rule=text(1_000_000, as_it_is=True), doc="the value to write", default=None),
    Key(
        name="node",
        rule=either(integer(1, MAX_NODES), label()),
        doc="the node to which the client connects first",
        default=None,
    ),
    Key(name="anew", rule=boolean(), doc="the client ends its session before, and begins another one", default=False),
    Key(name="awaits", rule=text(100), doc="wait until the fault of this name has taken effect", default=None),
    Key(name="as", rule=label(), doc="what faults that await the answer call it", default=None),
)
USED_BY = {  # which operations have a use for these keys
    "version": ("set", "cas", "delete", "check", "multi", REPLACE),
    "value": ("create", "sequential", "set", "cas", "multi", BAD_PATH, NUMBERED, REPLACE, AT_ROOT),
}
ALL_TABLES = (
    "scenario", "workload", "operation", "disk", "timing", "limits", "fault", "nemesis", "expect", "zookeeper", "ticket",
)  # fmt: skip
LEAST = {"frame_bytes": 1024}  # in a much smaller frame there is no room for a vote
STEP_KEYS = ("at", "do", "target", "for", "until", "as", "awaits")


def read(source: str, file: str, nodes: int | None, disk: str | None = None) -> Scenario:
    """Read a scenario from the text of a file (see `zab_chaos.faults.scenario.parse`)."""
    try:
        document = tomllib.loads(source)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"at line (\d+)", str(error))
        line = int(place[1]) if place else source.count("\n") + 1
        hint = 'A text needs straight quotes: "like this".' if str(error).startswith("Invalid value") else ""
        raise ScenarioError(file, [Mistake(line, "", f"this is not TOML: {error}", suggestion=hint)]) from None
    except (ValueError, RecursionError):
        wrong = "a number has too many digits, or lists are nested too deeply"
        raise ScenarioError(file, [Mistake(1, "", wrong)]) from None
    return _Reader(document, LineIndex(source), file).scenario(source, nodes, disk)


def build(document: Mapping[str, Any], what: str) -> Scenario:
    """Make a scenario from values, by the rules of a file. `what`: what the messages call it instead of a file name.

    Raises ScenarioError with all mistakes.
    """
    scenario = _Reader(dict(document), LineIndex(""), what).scenario("", None, None)
    return dataclasses.replace(scenario, source=scenario.to_toml())


def read_fault(table: Mapping[str, Any], nodes: int, names: Collection[str] = ()) -> FaultStep:
    """Read a single fault from the keys of a `[[fault]]` table. `names`: given to nodes by earlier faults.

    Raises ScenarioError with all mistakes.
    """
    earlier = [{"at": -1.0, "as": name} for name in names]
    reader = _Reader({"fault": [*earlier, table]}, LineIndex(""), str(table.get("do")))
    reader.nodes = nodes
    step = reader._read_fault(("fault", len(earlier)), dict(table))
    if step is None or reader.mistakes:
        raise ScenarioError(reader.file, reader.mistakes)
    return step


class _Reader:
    """Reads one document and collects all mistakes. A wrong value is replaced by its default, so that reading can go on."""

    def __init__(self, document: dict[str, Any], lines: LineIndex, file: str) -> None:
        self.document = document
        self.lines = lines
        self.file = file
        self.nodes = 3
        self.mistakes: list[Mistake] = []

    def scenario(self, source: str, nodes: int | None, disk: str | None) -> Scenario:
        self._report_unknown_keys((), self.document, ALL_TABLES, "table")
        head = self._read_head(nodes, disk)
        self.nodes = head.get("nodes", self.nodes)
        faults, places = self._read_faults()
        disks = self._read_disks()
        nemesis = self._read_object("nemesis", Nemesis) if "nemesis" in self.document else None
        scenario = Scenario(
            **head,
            workload=self._read_object("workload", Workload),
            operations=tuple(sorted(self._read_operations(), key=lambda one: one.at)),
            disks=tuple(disks.values()),
            timing=self._read_object("timing", Timing),
            limits=self._read_object("limits", Limits),
            faults=tuple(faults),
            nemesis=nemesis,
            expect=self._read_expect(),
            zookeeper=self._read_object("zookeeper", ZooKeeperSettings),
            ticket=self._read_object("ticket", Ticket) if "ticket" in self.document else None,
            source=source,
            file=self.file,
        )
        self._check_across_tables(scenario, places)
        for index, wrong, allowed in disk_mistakes(disks, scenario.nodes):
            self._report(("disk", index), wrong, allowed)
        if self.mistakes:
            raise ScenarioError(self.file, self.mistakes)
        return dataclasses.replace(scenario, faults=tuple(sorted(scenario.faults, key=lambda step: step.at)))

    def _read_head(self, nodes: int | None, disk: str | None) -> dict[str, Any]:
        head = self._read_table("scenario")
        if "name" not in self._raw_table("scenario"):
            self._report(("scenario",), "the key name is missing", TABLES["scenario"]["name"].allowed)
        if nodes is not None:
            self._read_value((), "--nodes", TABLES["scenario"]["nodes"], nodes)
            head["nodes"] = nodes if 1 <= nodes <= MAX_NODES else 3
        if disk is not None:
            head["disk"] = self._read_value((), "--disk", TABLES["scenario"]["disk"], disk) or "faithful"
        return {"name": "?", **head}

    def _read_expect(self) -> Expect:
        given = self._read_table("expect")
        verdict = given.setdefault("verdict", "VIOLATION" if "violates" in given else "PASS")
        if "violates" in given and verdict != "VIOLATION":
            wrong = f"a run that is {verdict} violates nothing"
            self._report(("expect", "violates"), wrong, 'verdict = "VIOLATION" (or leave one of them out)')
        if given.setdefault("exit", EXITS[verdict]) != EXITS[verdict]:
            allowed = f"{EXITS[verdict]} (or leave it out)"
            self._report(("expect", "exit"), f"a run that is {verdict} does not exit with {given['exit']}", allowed)
        return Expect(**given)

    def _read_faults(self) -> tuple[list[FaultStep], list[Path]]:
        """Return the steps that have no mistakes, and their places."""
        steps: list[FaultStep] = []
        places: list[Path] = []
        for index, table in enumerate(self._raw_tables("fault")):
            step = self._read_fault(("fault", index), table)
            if step is not None:
                steps.append(step)
                places.append(("fault", index))
        return steps, places

    def _raw_tables(self, name: str) -> list[dict[str, Any]]:
        """Return the tables of a list, [[name]]; none if it is not a list of tables."""
        listed = self.document.get(name, [])
        if isinstance(listed, list) and all(isinstance(one, dict) for one in listed):
            return listed
        self._report((name,), f"{name}s are written as [[{name}]] tables")
        self.document[name] = []
        return []

    def _read_operations(self) -> list[Operation]:
        """Return the listed operations that have no mistakes."""
        tables = self._raw_tables("operation")
        for key in ("rate", "mix") if tables else ():
            if key in self._raw_table("workload"):
                wrong = f"{key} draws operations, but the [[operation]] tables list them"
                self._report(("workload", key), wrong, "either")
        rows = self._read_rows("operation", OPERATION, "key of an operation")
        for (index, values), (key, kinds) in itertools.product(rows.items(), USED_BY.items()):
            if values[key] is not None and values["do"] not in kinds:
                self._report(("operation", index, key), f"{values['do']} has no {key}", ", ".join(kinds))
        return [Operation(name=values.pop("as"), **values) for values in rows.values()]

    def _read_disks(self) -> dict[int, InitialDisk]:
        """Return the initial disks that have no mistakes, by their index in the file."""
        rows = self._read_rows("disk", DISK, "key of a disk")
        return {index: InitialDisk(**values) for index, values in rows.items()}

    def _read_rows(self, name: str, keys: Sequence[Key], what: str) -> dict[int, dict[str, Any]]:
        """Return the values of the tables of a list that have no mistakes, by index. `what`: what its keys are called."""
        rows = {}
        for index, table in enumerate(self._raw_tables(name)):
            self._report_unknown_keys((name, index), table, tuple(key.name for key in keys), what)
            values = self._read_keys((name, index), keys, table)
            if REQUIRED not in values.values():
                rows[index] = values
        return rows

    def _read_keys(self, path: Path, keys: Sequence[Key], table: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of these keys in a table; defaults for those that are missing."""
        return {key.name: self._read_value(path, key.name, key.rule, table.get(key.name, key.default)) for key in keys}

    def _read_fault(self, path: Path, table: dict[str, Any]) -> FaultStep | None:
        before = len(self.mistakes)
        at = self._read_value(path, "at", number(0, MAX_SECONDS, "seconds"), table.get("at", REQUIRED))
        do = self._read_value(path, "do", choice(*KINDS), table.get("do", REQUIRED))
        awaits = self._read_awaits(path, table, self._names_before(at) | self._operation_names())
        lasts = self._read_value(path, "for", number(0.01, MAX_SECONDS, "seconds"), table.get("for"))
        if do is REQUIRED:  # the other keys depend on the kind
            self._report_impossible_target(path, table, self._names_before(at))
            return None
        kind = KINDS[do]
        self._report_unknown_keys(path, table, (*STEP_KEYS, *(key.name for key in kind.keys)), f"key of {do}")
        params = self._read_keys(path, kind.keys, table)
        if "for" in table and not kind.heals:
            self._report((*path, "for"), f"{kind.name} is over at once, so it has no duration", "leave `for` out")
        until = self._read_until(path, kind, table, at)
        target = self._read_target(path, kind, table, params, self._names_before(at))
        name = self._read_as(path, kind, table, target)
        if len(self.mistakes) == before and kind.check is not None:
            for wrong in kind.check(params, target, self.nodes):
                self._report(path, wrong)
        if len(self.mistakes) > before:
            return None
        return FaultStep(at=at, do=do, target=target, lasts=lasts, until=until, name=name, awaits=awaits, params=params)

    def _names_before(self, at: Any) -> set[str]:
        """Return the names that faults before `at` give to their nodes."""
        return {name for name, when in self._fault_names() if isinstance(at, float | int) and when < at}

    def _fault_names(self) -> list[tuple[str, float]]:
        tables = [one for one in self._raw_tables("fault") if isinstance(one.get("at"), int | float)]
        return [(str(one["as"]), one["at"]) for one in tables if "as" in one]

    def _operation_names(self) -> set[str]:
        return {str(one["as"]) for one in self._raw_tables("operation") if "as" in one}

    def _read_awaits(self, path: Path, table: dict[str, Any], names: set[str]) -> str | None:
        if "awaits" not in table:
            return None
        name = table["awaits"]
        if not isinstance(name, str) or name not in names:
            self._report_unknown_name((*path, "awaits"), name, names, "earlier fault and no operation")
            return None
        return str(name)

    def _read_as(self, path: Path, kind: Kind, table: dict[str, Any], target: Any) -> str | None:
        if "as" not in table:
            return None
        if target is None:
            self._report(
                (*path, "as"), f"{kind.name} affects links here, so there are no nodes to name", "leave `as` out"
            )
            return None
        name = table["as"]
        if not isinstance(name, str) or not LABEL.fullmatch(name):
            self._report((*path, "as"), f"{shown(name)} is no name for nodes", "a capital, then letters, digits and -")
            return None
        return name

    def _read_until(self, path: Path, kind: Kind, table: dict[str, Any], at: Any) -> str | None:
        if "until" not in table:
            return None
        if not kind.heals or "for" in table:
            wrong = f"{kind.name} is over at once" if not kind.heals else "`for` says already when it heals"
            self._report((*path, "until"), wrong, "leave `until` out")
        later = sorted({name for name, when in self._fault_names() if isinstance(at, float | int) and when > at})
        name = table["until"]
        if name not in later:
            self._report_unknown_name((*path, "until"), name, later, "later fault")
            return None
        return str(name)

    def _read_target(
        self, path: Path, kind: Kind, table: dict[str, Any], params: Mapping[str, Any], names: set[str]
    ) -> Any:
        default = kind.default_target(params) if kind.default_target else REQUIRED
        if "target" in table and default is None:
            self._report((*path, "target"), "here the shape or the pairs say which links are meant", "leave it out")
            return None
        if "target" not in table and default is None:
            return None
        allowed = f"{', '.join(kind.target_words)}, node-N, or a list of such"
        rule = Rule(allowed, lambda value, nodes: read_target(value, kind, nodes, names))
        return self._read_value(path, "target", rule, table.get("target", default))

    def _report_impossible_target(self, path: Path, table: dict[str, Any], names: set[str]) -> None:
        """Report a target that no kind of fault may have."""
        if "target" not in table:
            return
        for kind in KINDS.values():
            try:
                read_target(table["target"], kind, self.nodes, names)
                return
            except InvalidValueError as error:
                wrong = error
        self._report((*path, "target"), wrong.wrong, wrong.allowed, wrong.suggestion)

    def _read_table(self, name: str) -> dict[str, Any]:
        """Return the valid values of a table. Unknown keys and invalid values become mistakes."""
        raw, rules = self._raw_table(name), TABLES.get(name) or rules_of(STRUCTS[name])
        self._report_unknown_keys((name,), raw, tuple(rules), "key")
        values = {key: self._read_value((name,), key, rules[key], value) for key, value in raw.items() if key in rules}
        return {key: value for key, value in values.items() if value is not REQUIRED}

    def _read_object(self, name: str, make: Callable[..., Any]) -> Any:
        values = self._read_table(name)
        for key in REQUIRED_KEYS.get(name, ()):
            if key not in self._raw_table(name):
                self._report((name,), f"the key {key} is missing", TABLES[name][key].allowed)
            values.setdefault(key, "")
        return make(**values)

    def _raw_table(self, name: str) -> dict[str, Any]:
        raw = self.document.get(name, {})
        if isinstance(raw, dict):
            return raw
        self._report((name,), f"{name} is not a table", f"[{name}] with keys below it")
        self.document[name] = {}
        return {}

    def _read_value(self, path: Path, name: str, rule: Rule, value: Any) -> Any:
        """Return the value as its rule reads it; REQUIRED if it is missing or wrong, which becomes a mistake."""
        if value is REQUIRED:
            self._report(path, f"the key {name} is missing", rule.allowed)
            return REQUIRED
        if value is None:
            return None
        try:
            return rule.read(value, self.nodes)
        except InvalidValueError as error:
            self._report((*path, name), error.wrong, error.allowed, error.suggestion)
            return REQUIRED

    def _report_unknown_keys(self, path: Path, table: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
        for name in table:
            if name not in known:
                home = next((table for table, keys in TABLES.items() if name in keys and len(path) < 2), None)
                hint = f"{name} is a key of [{home}]." if home is not None else suggest(name, known)
                self._report((*path, name), f"{name!r} is no {what}", ", ".join(known), hint)

    def _report_unknown_name(self, path: Path, name: object, known: Collection[str], which: str) -> None:
        """Report a name that nothing has. `which`: the kind of fault that the key may name."""
        wrong = f"no {which} is called {shown(name)}"
        if isinstance(name, str) and name in dict(self._fault_names()):
            self._report(path, wrong, "", "There is a fault of this name: compare the two times (`at`).")
        elif known:
            self._report(path, wrong, ", ".join(sorted(known)), suggest(name, known))
        else:
            possible = str(name).capitalize()
            example = possible if LABEL.fullmatch(possible) else "Old"
            self._report(path, wrong, "", f'No {which} has a name yet; give one with `as = "{example}"`.')

    def _report(self, path: Path, wrong: str, allowed: str = "", suggestion: str = "") -> None:
        line = 0 if path and str(path[0]).startswith("--") else self.lines.line_of(path)
        self.mistakes.append(Mistake(line, _where(path), wrong, allowed, suggestion))

    def _check_across_tables(self, scenario: Scenario, places: list[Path]) -> None:
        """Check what depends on several tables."""
        if scenario.observers >= scenario.nodes:
            allowed = f"at most {scenario.nodes - 1}: one of {scenario.nodes} nodes must vote"
            self._report(("scenario", "observers"), f"{scenario.observers} observers are too many", allowed)
        if scenario.timing.timeout_ms < 2 * scenario.timing.heartbeat_ms:
            allowed = f"at least twice the heartbeat of {scenario.timing.heartbeat_ms} ms"
            self._report(("timing",), f"a timeout of {scenario.timing.timeout_ms} ms misses heartbeats", allowed)
        for step, place in zip(scenario.faults, places, strict=True):
            if step.at > scenario.duration:
                self._report((*place, "at"), f"{step.at:g} s is after the end", f"up to {scenario.duration:g} s")
            if step.do == "power-cut" and not scenario.faithful:
                self._report(
                    (*place, "do"), "a power cut loses unsynced bytes", '[scenario] disk = "faithful" or "fuse"'
                )
            if step.do == "crash-at" and step.params["variant"] != "plain" and scenario.disk != "faithful":
                wrong = f'a part of what was not synced can be left on a faithful disk only, not with disk = "{scenario.disk}"'
                self._report((*place, "variant"), wrong, 'plain, or [scenario] disk = "faithful"')
        self._check_operations(scenario)
        self._check_names()
        for index, wrong in contradictions(scenario.faults, scenario.nodes):
            self._report(places[index], wrong)
        if scenario.nemesis is not None:
            self._check_nemesis(scenario)

    def _check_operations(self, scenario: Scenario) -> None:
        """Check that each operation has a client and a key of the workload, and is due before the end."""
        limits = {
            "at": (scenario.duration, f"up to {scenario.duration:g} s"),
            "client": (scenario.workload.clients, f"1 to {scenario.workload.clients} ([workload] clients)"),
            "key": (
                scenario.workload.keys,
                f"0 to {scenario.workload.keys} ([workload] keys, and one that is not there)",
            ),
            "node": (scenario.nodes, f"1 to {scenario.nodes}"),
        }
        named = [str(one["as"]) for one in self._raw_tables("fault") if "as" in one]
        for index, table in enumerate(self._raw_tables("operation")):
            for name, (most, allowed) in limits.items():
                value = table.get(name)
                if isinstance(value, int | float) and value > most:
                    self._report(("operation", index, name), f"{shown(value)} is too much", allowed)
            for key in ("awaits", "node"):
                asked = table.get(key)
                if (isinstance(asked, str) or key == "awaits") and asked is not None and asked not in named:
                    self._report_unknown_name(("operation", index, key), asked, named, "fault")

    def _check_names(self) -> None:
        """Check that all faults and operations have different names."""
        kinds = ("fault", "operation")
        tables = [(kind, index, one) for kind in kinds for index, one in enumerate(self._raw_tables(kind))]
        places = [(kind, index, "as") for kind, index, table in tables if "as" in table]
        used: dict[str, Path] = {}
        for place in sorted(places, key=self.lines.line_of):
            name = str(self.document[place[0]][place[1]]["as"])
            first = used.setdefault(name, place)
            if first != place:
                wrong = f"the name {name} is already used in line {self.lines.line_of(first)}, by {_where(first[:2])}"
                self._report(place, wrong, "a name of its own")

    def _check_nemesis(self, scenario: Scenario) -> None:
        assert scenario.nemesis is not None
        if scenario.faults:
            self._report(("nemesis",), "a schedule is either written, [[fault]], or drawn, [nemesis], not both")
        if "faults" not in self._raw_table("nemesis"):
            self._report(("nemesis",), "the key faults is missing", "{ crash = 3, partition = 2, ... }")
        if scenario.nemesis.every[0] >= scenario.duration:
            wrong = f"the first fault would come after the end: {scenario.nemesis.every[0]:g} s is too long"
            self._report(("nemesis", "every"), wrong, f"less than the duration of {scenario.duration:g} s")
        if "power-cut" in scenario.nemesis.faults and not scenario.faithful:
            self._report(
                ("nemesis", "faults"), "a power cut loses unsynced bytes", '[scenario] disk = "faithful" or "fuse"'
            )
        if "remove-member" in scenario.nemesis.faults and not scenario.nemesis.keep_quorum:
            wrong = "without a quorum of the members nobody can add those again that remove-member has removed"
            self._report(("nemesis", "faults"), wrong, "remove-member with keep_quorum = true")


def rules_of(struct: type[Timing] | type[Limits]) -> dict[str, Rule]:
    """Return the rules for a table with the fields of a struct of `zab_chaos.node.config`: integers, most of them from 1 on."""
    return {field.name: integer(LEAST.get(field.name, 1), 2**31 - 1) for field in msgspec.structs.fields(struct)}


def _where(path: Path) -> str:
    """Return the place of a key in words: `[workload] rate`, `[[fault]] number 3, at`."""
    match path:
        case ():
            return ""
        case (str(table), int(index), *rest):
            return ", ".join([f"[[{table}]] number {index + 1}", *(str(part) for part in rest)])
        case (str(table),):
            return table if table.startswith("--") else f"[{table}]"
        case (table, *rest):
            return f"[{table}] " + ".".join(str(part) for part in rest)
    raise AssertionError(path)
