"""Generates the tables and diagrams of the documentation that can be derived from the code.

`python docs/generate.py` rewrites the text between `<!-- generated: NAME -->` and `<!-- end -->` in each page. A test checks
that the committed pages are current.
"""

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import grimp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.against import pairs
from zab_chaos.faults import grammar
from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.defects import DEFECTS
from zab_chaos.faults.initial_and_final import DISK
from zab_chaos.faults.kind import REQUIRED
from zab_chaos.faults.registry import KINDS, LED, describe_kinds
from zab_chaos.faults.scenario import (
    LISTS,
    OPERATIONS,
    TRANSACTIONS,
    Expect,
    Nemesis,
    Scenario,
    Ticket,
    Workload,
    ZooKeeperSettings,
    load,
)
from zab_chaos.harness.backends.fitting import KEYS
from zab_chaos.harness.backends.registry import OURS, ours
from zab_chaos.harness.backends.zookeeper.points import LOCATIONS, Location
from zab_chaos.harness.bench import MEASUREMENTS
from zab_chaos.harness.cli.bench import shown
from zab_chaos.harness.runs.catalogue import shipped
from zab_chaos.model.oracle.properties import ALL, CLIENTS, RECORDED
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.oracle.properties.expected_state import ExpectedState
from zab_chaos.model.replay import replay
from zab_chaos.node import crash_points as points
from zab_chaos.node.core import messages
from zab_chaos.node.core.broadcast import Broadcasting
from zab_chaos.node.core.discovery import Choosing, Elected
from zab_chaos.node.core.following import Following
from zab_chaos.node.core.looking import Looking
from zab_chaos.node.core.messages import Phase, Role
from zab_chaos.node.core.role import RoleState
from zab_chaos.node.core.synchronization import Synchronizing
from zab_chaos.node.core.tables import EDGES, EXPECTED, FROM_LEADER, HANDLERS
from zab_chaos.pipeline.columns import LOAD, TABLES, Column, Table
from zab_chaos.pipeline.metric_columns import METRICS

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")))
MARK = re.compile(r"(<!-- generated: (?P<name>[a-z-]+)(?: (?P<of>\S+))? -->\n).*?<!-- end -->", re.DOTALL)


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Format a table in Markdown."""
    lines = [list(heads), *(list(row) for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def sentence(text: str | None) -> str:
    """Return the first paragraph of a docstring, on one line."""
    return " ".join((text or "").strip().split("\n\n")[0].split())


def phases() -> str:
    """Draw the diagram of the phases, from EDGES."""
    edges = "\n".join(f"    {a.name} --> {b.name}" for a, b in sorted(EDGES) if a != b)
    return f"```mermaid\nstateDiagram-v2\n    [*] --> ELECTION\n{edges}\n```"


STATES = (Looking, Following, Elected, Choosing, Synchronizing, Broadcasting)  # the states of a node


def expected(kind: type) -> str:
    """Return the roles and phases in which a message is handled; in all others it is dropped as a stray."""
    places = EXPECTED[kind]
    if len(places) == len(Role) * len(Phase):
        return "always"
    roles = sorted({role for role, _ in places})
    return "; ".join(
        f"{role.name}: " + ", ".join(phase.name for of, phase in sorted(places) if of == role) for role in roles
    )


def message_table() -> str:
    """List every message: its sender, where it is expected, the methods that handle it, and its meaning."""

    def sender(kind: type) -> str:
        return "leader" if kind in FROM_LEADER else "any" if expected(kind) == "always" else "follower"

    def handler(kind: type) -> str:
        roles = {role for role, _ in EXPECTED[kind]}
        methods = [getattr(state, HANDLERS[kind], None) for state in STATES if state.role in roles]
        handlers = dict.fromkeys(method for method in methods if method not in (None, RoleState.on_stray))
        return "; ".join(f"{Path(inspect.getfile(method)).stem}: `{method.__qualname__}`" for method in handlers)

    return table(
        ("message", "from", "expected in", "file of node/core: handler", "what it says"),
        (
            (f"`{name}`", sender(kind), expected(kind), handler(kind), sentence(kind.__doc__))
            for kind, name in messages.NAMES.items()
        ),
    )


def properties() -> str:
    """List the properties that the oracle checks, and the one that the replay checks."""
    return _properties_table(ALL, (replay.NAME, "zab-chaos", replay.STATEMENT))


def _properties_table(checkers: Iterable[type[Checker]], *more: tuple[str, str, str]) -> str:
    rows = [(kind.name, kind.source, kind.statement) for kind in checkers]
    return table(("property", "source", "statement"), [*rows, *more])


def imports(package: str) -> str:
    """Draw which children of a package import which, from the code.

    An arrow points to the imported package. An arrow that follows from others is left out. Packages that import each other
    share a box.
    """
    graph = grimp.build_graph("zab_chaos")
    rooms = graph.find_children(package)
    for room in rooms:
        graph.squash_module(room)
    direct = {room: graph.find_modules_directly_imported_by(room) & rooms for room in rooms}
    reached = {room: graph.find_upstream_modules(room) & rooms for room in rooms}
    box = {room: frozenset({room} | {other for other in reached[room] if room in reached[other]}) for room in rooms}
    uses = {(box[a], box[b]) for a, found in direct.items() for b in found if box[a] != box[b]}
    closer = {(a, c) for a, b in uses for one in b for other in reached[one] if (c := box[other]) != b}
    names = {one: ", ".join(sorted(room.rpartition(".")[2] for room in one)) for one in box.values()}
    lines = sorted(
        f"    {_identifier(names[a])}[{names[a]}] --> {_identifier(names[b])}[{names[b]}]" for a, b in uses - closer
    )
    return "```mermaid\nflowchart TD\n" + "\n".join(lines) + "\n```"


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


def history_properties() -> str:
    """List the properties that are judged if only the clients' history is known, and no single node's state can be read."""
    return _properties_table(kind for kind in CLIENTS if kind is not ExpectedState)


def record_properties() -> str:
    """List the properties that are judged if the nodes of a foreign system record what they deliver."""
    return _properties_table(RECORDED)


def abilities() -> str:
    """List the abilities of the built-in backends, and the faults and keys of scenarios that need them."""
    rows = []
    for one in Ability:
        kinds = [name for name, kind in KINDS.items() if one in kind.needs]
        keys = [f"{name} with {key.name}" for name, kind in KINDS.items() for key in kind.keys if key.needs is one]
        targets = [f"target = {word}" for word in LED if one is Ability.LEADER]
        tables = [f"`{what}`" for what, need, _ in KEYS if need is one]
        has = ["yes" if one in backend.abilities else "–" for backend in ours()]
        rows.append([one.value, ", ".join([*kinds, *keys, *targets, *tables]), *has])
    return table(("ability", "needed by", *OURS), rows)


def defects() -> str:
    """List the built-in defects, and the property whose checker must find each of them."""
    return table(
        ("defect", "the bug", "ticket", "caught as a violation of"),
        ((f"`{one.name}`", one.about, one.ticket or "–", one.property) for one in DEFECTS.values()),
    )


def scenarios() -> str:
    """List the shipped scenarios, except those of defects and of ZooKeeper's tickets."""
    others = ("defects/", "zookeeper/")
    found = {name: load(path) for name, path in shipped().items() if not name.startswith(others)}
    rows = (
        (
            f"`{name}`",
            str(one.nodes),
            f"{one.duration:g} s",
            one.expect.verdict,
            one.about.split(". ")[0].strip(" .") + ".",
        )
        for name, one in found.items()
    )
    return table(
        ("scenario", "nodes", "lasts", "expects", "about"),
        ([" ".join(cell.split()) for cell in row] for row in rows),
    )


def tickets() -> str:
    """List the scenarios that reproduce tickets of ZooKeeper."""
    rows = []
    for path in shipped().values():
        one = load(path)
        if one.ticket is not None:
            it = one.ticket
            about = f"{one.about} {it.note}".strip()
            seen = (", ".join(it.fails), ", ".join(it.passes) or "none")
            rows.append((f"`{one.name}`", it.id, about, ", ".join(it.violates), *seen, str(it.runs)))
    heads = ("scenario", "ticket", "what happens", "violates", "seen on", "not on", "runs")
    return table(heads, rows)


def zookeeper_points() -> str:
    """List the crash points of ZooKeeper's servers, and where they are in its code."""
    rows = [
        (
            f"`{point}`",
            f"`{location.class_name.rpartition('.')[2]}.{location.method}`",
            place_of(location),
            releases_of(location),
        )
        for point, locations in LOCATIONS.items()
        for location in locations
    ]
    return table(("point", "method", "at its", "releases"), rows)


def place_of(location: Location) -> str:
    """Return where in its method a crash point of ZooKeeper is."""
    kind, _, called = location.at.partition(" ")
    return f"call of `{called}`" if called else kind.lower()


def releases_of(location: Location) -> str:
    """Return which releases of ZooKeeper have the method of a crash point."""
    since = f"from {'.'.join(map(str, location.since))}" if location.since else ""
    before = f"before {'.'.join(map(str, location.before))}" if location.before < (99,) else ""
    return " ".join(filter(None, (since, before))) or "all"


def faults() -> str:
    """List every kind of fault with its keys. Angle brackets are escaped, since Markdown would take them for HTML."""
    return describe_kinds().replace("<", "&lt;")


def crash_points() -> str:
    """List the steps at which a node can crash, and the possible subjects after the colon."""
    return table(("step", "of"), ((f"`{step}`", ", ".join(points.subjects(step))) for step in points.STEPS))


def keys() -> str:
    """List the tables of a scenario file with their keys, the allowed values, and the defaults."""
    defaults_of: dict[str, Any] = {
        "scenario": Scenario,
        "workload": Workload,
        "nemesis": Nemesis,
        "expect": Expect,
        "zookeeper": ZooKeeperSettings,
        "ticket": Ticket,
    }
    rows = [
        (f"`[{name}]`", f"`{key}`", rule.allowed or weights(key), default_of(defaults_of[name], key))
        for name, rules in grammar.TABLES.items()
        for key, rule in rules.items()
    ]
    rows += [
        (f"`[[{name}]]`", f"`{key.name}`", key.rule.allowed, format_default(key.default))
        for name, listed in (("operation", grammar.OPERATION), ("disk", DISK))
        for key in listed
    ]
    for name, struct in grammar.STRUCTS.items():
        rows += [
            (f"`[{name}]`", f"`{key}`", rule.allowed, str(getattr(struct(), key)))
            for key, rule in grammar.rules_of(struct).items()
        ]
    return table(("table", "key", "allowed", "default"), rows)


def format_default(value: Any) -> str:
    """Format the default of a key as TOML."""
    if value is REQUIRED:
        return "required"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {weight}" for name, weight in value.items()) + " }" if value else "{}"
    return "none" if value in (None, "") else str(list(value)) if isinstance(value, tuple) else str(value)


def weights(key: str) -> str:
    """Describe the values of a key that maps names to weights."""
    if key == "points":
        return 'weights of crash points, for example { "after-sync:MEMBER" = 5 }'
    names = (*OPERATIONS, *TRANSACTIONS, *LISTS) if key == "mix" else grammar.DRAWABLE
    return "weights by name, for example { " + f"{names[0]} = 1, {names[1]} = 3" + " }; names: " + ", ".join(names)


def default_of(owner: Any, key: str) -> str:
    """Format the default of a key that is a field of a dataclass."""
    if key == "name" or (owner is Ticket and key in grammar.REQUIRED_KEYS["ticket"]):
        return "required"
    if key == "exit":
        return "the verdict's"
    field = next(field for field in fields(owner) if field.name == key)
    return format_default(field.default_factory() if callable(field.default_factory) else field.default)


def tables() -> str:
    """Document the pipeline's tables, column by column."""
    return columns(TABLES.values(), columns_of_all=(LOAD,))


def metric_tables() -> str:
    """Document the pipeline's metrics, column by column."""
    return columns(METRICS)


def columns(of: Iterable[Table], columns_of_all: tuple[Column, ...] = ()) -> str:
    """Format each table as a heading, a description and a table of its columns."""
    heads = ("column", "type", "unit", "meaning")
    return "\n\n".join(
        f"### `{one.name}`\n\n{one.about} From {one.source}.\n\n"
        + table(heads, ((f"`{it.name}`", f"`{it.type}`", it.unit, it.about) for it in (*one.columns, *columns_of_all)))
        for one in of
    )


def numbers(file: str) -> str:
    """Format a committed summary of `zab bench`: the machine, its load, and every figure.

    `file`: the path of the summary, relative to the page.
    """
    report = json.loads((ROOT / file.removeprefix("../")).read_text(encoding="utf-8"))
    rows = [
        (name, figure["name"], shown(figure["value"]), figure["unit"], spread(figure["rounds"]))
        for name, measured in report["measurements"].items()
        for figure in measured["figures"]
    ]
    heads = ("measured", "figure", "value", "unit", "lowest to highest round")
    return f"{measured_on(report, file)}\n\n{table(heads, rows)}"


def measured_on(report: dict[str, Any], file: str) -> str:
    """Describe the command, the date and the machine of a measurement."""
    machine, load = report["machine"], report["load_before"][0]
    return (
        f"`{report['command']}` on {report['started'][:10]}: {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory'] / 2**30:.0f} GiB, {machine['kernel'].split('-')[0]}, Python {report['versions']['python']}, "
        f"fdatasync of 4 KiB {machine['fdatasync_ms']:.2f} ms, load average {load:.1f} when it began ([every round]({file}))."
    )


def measurements() -> str:
    """List the measurements of `zab bench`."""
    rows = ((f"`{one.name}`", one.about, "yes" if not one.full else "with `--full`") for one in MEASUREMENTS.values())
    return table(("name", "measures", "without `--only`"), rows)


def side_by_side(file: str) -> str:
    """Format a committed summary of `zab bench --against zookeeper` as a picture and a table with a column for each system.

    `file`: the path of the summary, relative to the page.
    """
    report = json.loads((ROOT / file.removeprefix("../")).read_text(encoding="utf-8"))
    rows = pairs(report)
    names = list(rows[0][2])
    cells = [
        (what, unit, *(value_with_rounds(figures[name]) for name in names if name in figures))
        for what, unit, figures in rows
    ]
    return (
        f"{measured_on(report, file)}\n\n![{' and '.join(names)}, side by side]({Path(file).with_suffix('.svg')})\n\n"
        + table(("measured", "unit", *names), cells)
    )


SHORT = ("start", "throughput at the leader", "latency at a follower p50", "fail-over p50", "memory of the leader")


def side_by_side_short(file: str) -> str:
    """Format the same comparison with a few rows only, and without rounds. `file`: relative to the repository's root."""
    rows = pairs(json.loads((ROOT / file).read_text(encoding="utf-8")))
    names = list(rows[0][2])
    cells = [
        (what, *(f"{shown(figures[name]['value'])} {unit}" for name in names))
        for what, unit, figures in rows
        if what in SHORT
    ]
    picture = f"![{' and '.join(names)}, side by side]({Path(file).with_suffix('.svg')})"
    return f"{table(('measured', *names), cells)}\n\n{picture}"


def value_with_rounds(figure: dict[str, Any]) -> str:
    """Format a value with the lowest and highest round."""
    rounds = spread(figure["rounds"])
    return f"{shown(figure['value'])} ({rounds})" if rounds else shown(figure["value"])


def spread(rounds: list[float]) -> str:
    """Format the lowest and the highest round; "" if there is only one."""
    return f"{shown(min(rounds))} to {shown(max(rounds))}" if len(rounds) > 1 else ""


def kill_matrix(files: str) -> str:
    """Format committed outputs of `zab defects --check`, one row per defect. `files`: separated by commas."""
    reports = [json.loads((ROOT / file).read_text(encoding="utf-8")) for file in files.split(",")]
    rows: dict[str, dict[str, Any]] = {}
    for row in (row for report in reports for row in report["defects"]):
        known = rows.setdefault(row["name"], row)
        known |= {place: row[place] for place in ("sim", "processes", "swarm") if row[place] is not None}
    made = "\n".join(
        f"- `{one['command']}` on {one['started'][:10]}: {one['machine']['processor']}, {one['machine']['cores']} cores, "
        f"{one['machine']['memory'] / 2**30:.0f} GiB, Python {one['versions']['python']} ([all of it](../{file}))"
        + (f"; {one['note']}" if "note" in one else "")
        for file, one in zip(files.split(","), reports, strict=True)
    )
    heads = ("defect", "must break", "caught in the simulator", "after", "caught on processes", "without it", "swarm")
    return f"{made}\n\n" + table(heads, (defect_row(row) for row in rows.values()))


def defect_row(row: dict[str, Any]) -> list[str]:
    """Return the cells of one defect's row."""
    sim, real, swarm = row["sim"], row["processes"], row["swarm"]
    tried = [one for one in (sim, real) if one]
    passed, honest = (sum(one[name] for one in tried) for name in ("honest_passes", "honest_runs"))
    found_by_swarm = (
        f"after {swarm['first']}" if swarm and swarm["first"] else f"not in {swarm['seeds']}" if swarm else "–"
    )
    return [
        f"`{row['name']}`",
        row["property"],
        f"{sim['caught']} of {sim['runs']} seeds" if sim else "–",
        str(sim["first"]) if sim else "–",
        f"{real['caught']} of {real['runs']} runs" if real else "–",
        f"{passed} of {honest} pass",
        found_by_swarm,
    ]


PARTS: dict[str, Callable[..., str]] = {
    "imports": imports,
    "phases": phases,
    "messages": message_table,
    "properties": properties,
    "history-properties": history_properties,
    "record-properties": record_properties,
    "abilities": abilities,
    "defects": defects,
    "kill-matrix": kill_matrix,
    "scenarios": scenarios,
    "faults": faults,
    "crash-points": crash_points,
    "keys": keys,
    "tickets": tickets,
    "zookeeper-points": zookeeper_points,
    "numbers": numbers,
    "measurements": measurements,
    "side-by-side": side_by_side,
    "side-by-side-short": side_by_side_short,
    "tables": tables,
    "metric-tables": metric_tables,
}


def current(page: str) -> str:
    """Return the page's text with its generated parts rewritten. Raises KeyError for an unknown name in a mark."""

    def made(found: re.Match[str]) -> str:
        of = [found["of"]] if found["of"] else []
        return f"{found[1]}{PARTS[found['name']](*of)}\n<!-- end -->"

    return MARK.sub(made, page)


def main() -> None:
    """Rewrite the generated parts of all pages."""
    for name in PAGES:
        path = ROOT / name
        path.write_text(current(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
