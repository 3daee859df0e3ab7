"""The command line `zab COMMAND ...`: the options of every command but `lab`. The module with the command's name does the work.

That module is imported only when its command runs: the help, and the completion of a shell, need none of them.
"""

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from zab_chaos import __version__
from zab_chaos.faults.seeds import SEED_MAX
from zab_chaos.harness.cli.failures import failure_message
from zab_chaos.harness.cli.lab import lab
from zab_chaos.harness.cli.output import ARGUMENTS, discard, print_text
from zab_chaos.harness.errors import BadInput, Exit, HarnessError, Interrupted
from zab_chaos.harness.extras import extra
from zab_chaos.harness.machine import file_descriptors
from zab_chaos.harness.machine.interrupt import Forced, Stopped, stoppable
from zab_chaos.harness.runs import catalogue
from zab_chaos.harness.shrink import BUDGET

# The base class of typer's usage errors has moved between modules; its public subclass has not.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="zab",
    help="Run a Zab ensemble under injected faults and check whether it kept Zab's guarantees.",
    epilog="Exit codes: 0 every property holds, 1 a property is violated, 2 unknown or interrupted, 3 the harness itself "
    "failed, 4 bad arguments or scenario, 5 a quorum of disks was lost and the nodes refused to form an ensemble, "
    "130 stopped at once by a second Ctrl-C.",
    add_completion=True,
    pretty_exceptions_enable=False,
)


def complete_scenario(incomplete: str) -> list[str]:
    """Return the shipped scenarios that begin like this, for shell completion."""
    return [name for name in catalogue.shipped() if name.startswith(incomplete)]


def complete_defect(incomplete: str) -> list[str]:
    """Return the defects that begin like this, for shell completion."""
    from zab_chaos.faults.defects import DEFECTS

    return [name for name in sorted(DEFECTS) if name.startswith(incomplete)]


def path(text: str) -> str:
    """Return a path of the command line. An empty one is a mistake: it would mean the current folder."""
    if text == "":
        raise typer.BadParameter("the path is empty. Is a variable of the shell not set?")
    return text


def seed_number(text: str) -> int:
    """Return a seed of the command line. It has no limits in the help, as that of an integer option would."""
    try:
        number = int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number.") from None
    if not 0 <= number <= SEED_MAX:
        raise typer.BadParameter(f"{number} is not in the range 0 to {SEED_MAX}.")
    return number


def out_file(words: str) -> Any:
    """Return the option --out of a command that can write a file."""
    return typer.Option("--out", metavar="FILE", help=words, show_default=False)


Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="The folder that holds the runs.", parser=path)]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout, all else on stderr.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the outcome.")]
Junit = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Also write a JUnit file, for CI.", show_default=False)
]
Times = Annotated[int, typer.Option(metavar="N", min=1, help="With --check: run each scenario this many times.")]
Backend = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="BACKEND",
        help="Where to run: processes, sim (the simulator), lockstep, containers, zookeeper, or an installed backend.",
    ),
]
ZooKeeper = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        metavar="RELEASE",
        help="Run on Apache ZooKeeper: a version, such as 3.9.4, or an unpacked distribution's folder.",
    ),
]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="RELEASE", help="The release that the nodes begin with, if they have several."),
]
To = Annotated[
    str | None, typer.Option("--to", metavar="RELEASE", help="The release that the scenario's upgrades lead to.")
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Override the scenario's seed.", parser=seed_number)]
Nodes = Annotated[int | None, typer.Option(metavar="N", min=1, help="Override the scenario's number of nodes.")]
DefectName = Annotated[
    str | None,
    typer.Option(
        "--defect", metavar="NAME", help="Build the nodes with this known bug.", autocompletion=complete_defect
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="Number of runs at a time. Default: the number of cores; 1 where nodes are real."
    ),
]
AtATime = Annotated[int, typer.Option("--jobs", metavar="N", min=1, help="Number of runs at a time.")]
EnsembleFolder = Annotated[
    Path | None,
    typer.Option(
        "--ensemble", metavar="FOLDER", help="The run folder of the ensemble, if several are running.", parser=path
    ),
]
RECORD = typer.Option("--record/--no-record", help="Record every input of the nodes for `zab replay`.")
RESULTS = Path("results")


def show_version(requested: bool) -> None:
    """Print the version and exit, if --version was given."""
    if requested:
        print_text(f"zab-chaos {__version__}\n")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    show_help_without_command(context)


def show_help_without_command(context: typer.Context) -> None:
    """Print the help of a group of commands if none of them was named."""
    if context.invoked_subcommand is None:
        print(context.get_help())  # noqa: T201


def refuse_without_check(context: typer.Context, *names: str) -> None:
    """Raise BadInput if options were given that have a meaning with --check only."""
    sources = {name: context.get_parameter_source(name) for name in names}
    given = [f"--{name}" for name, source in sources.items() if getattr(source, "name", "") == "COMMANDLINE"]
    if given:
        raise BadInput(f"{', '.join(given)}: only with --check. Without it, {context.command_path} runs nothing.")


@app.command()
def run(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO", help="The name of a shipped scenario, or a file.", autocompletion=complete_scenario
        ),
    ],
    on: Backend = "processes",
    zookeeper: ZooKeeper = None,
    from_: From = None,
    to: To = None,
    seed: Seed = None,
    nodes: Nodes = None,
    defect: DefectName = None,
    disk: Annotated[
        str | None,
        typer.Option(
            "--disk",
            metavar="DISK",
            help="Override the scenario's disk: faithful, ordinary, or fuse, a file system whose power can be cut.",
            show_default=False,
        ),
    ] = None,
    results: Results = RESULTS,
    record: Annotated[bool | None, RECORD] = None,
    keep_data: Annotated[
        bool, typer.Option("--keep-data", help="Keep the nodes' disks even if the run passes.")
    ] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="With --on lockstep: also run in the simulator and compare all bytes.")
    ] = False,
    junit: Junit = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run one scenario and judge it."""
    from zab_chaos.harness.cli.run import run_command

    return run_command(
        scenario, on=on, seed=seed, nodes=nodes, defect=defect, results=results, record=record, keep_data=keep_data,
        json=json, quiet=quiet, compare=compare, junit=junit, zookeeper=zookeeper, disk=disk, from_=from_, to=to,
    )  # fmt: skip


@app.command()
def explore(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO",
            help="The name of a shipped scenario, a file, or lab-flapping.",
            autocompletion=complete_scenario,
        ),
    ],
    seeds: Annotated[str, typer.Option(metavar="A..B", help="The range of seeds, both ends included.")] = "1..100",
    jobs: Jobs = None,
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Run on the executors of this Spark master instead of local processes."),
    ] = None,
    on: Backend = "sim",
    zookeeper: ZooKeeper = None,
    from_: From = None,
    to: To = None,
    swarm: Annotated[
        bool,
        typer.Option("--swarm", help="Also draw ensemble size, timing, limits, workload and faults from the seed."),
    ] = False,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Report what the seeds reached and what they never reached.")
    ] = False,
    guided: Annotated[
        bool,
        typer.Option(
            "--guided", help="Like --swarm --coverage. After every 100 seeds, draw more of what was seldom reached."
        ),
    ] = False,
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw with the weights that a --guided exploration stored.", show_default=False
        ),
    ] = None,
    defect: DefectName = None,
    nodes: Nodes = None,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Do not stop at the first failure.")] = False,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="all|failed|N",
            help="Keep the run folders of all seeds, of those that fail, or of the first N and those that fail. "
            "Default: of the smallest that fails. Runs on real nodes always keep theirs.",
            show_default=False,
        ),
    ] = None,
    results: Results = RESULTS,
    out: Annotated[Path | None, out_file("Write the summary to FILE, as JSON.")] = None,
    junit: Junit = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run many seeds of a scenario, by default in the simulator, and show the smallest seed that fails."""
    from zab_chaos.harness.cli.explore import explore_command

    return explore_command(
        scenario, seeds=seeds, jobs=jobs, swarmed=swarm, coverage=coverage, defect=defect, nodes=nodes,
        keep_going=keep_going, results=results, out=out, json=json, quiet=quiet, master=master, junit=junit, guided=guided,
        weights=weights, keep=keep, on=on, zookeeper=zookeeper, from_=from_, to=to,
    )  # fmt: skip


@app.command()
def shrink(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RUN|SCENARIO",
            help="The folder of a failed run, `latest`, a scenario's name or file, or lab-flapping.",
            autocompletion=complete_scenario,
            show_default=False,
            parser=path,
        ),
    ],
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="The seed that fails, if a scenario is given.", parser=seed_number)
    ] = None,
    defect: DefectName = None,
    swarm: Annotated[
        bool, typer.Option("--swarm", help="Shrink what `zab explore --swarm` draws from the seed.")
    ] = False,
    nodes: Nodes = None,
    out: Annotated[
        Path | None,
        out_file("Write the result to FILE. Default: shrunk.toml in the run's folder, or shrunk-NAME-SEED.toml here."),
    ] = None,
    budget: Annotated[
        str, typer.Option(metavar="N", help="Stop after N tries, or after a time such as 90s or 5m.")
    ] = BUDGET,
    jobs: Jobs = None,
    confirm: Annotated[
        bool, typer.Option("--confirm/--no-confirm", help="Try the result on real processes as well.")
    ] = True,
    rerun: Annotated[
        bool,
        typer.Option(
            "--rerun",
            help="Try candidates on the run's own backend, not in the simulator. Implied for ZooKeeper and other systems.",
        ),
    ] = False,
    times: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=100, help="With re-runs: run a candidate up to N times; it counts if one run fails."
        ),
    ] = 1,
    results: Results = RESULTS,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Shrink a failing run to a scenario file with the fewest faults, operations, nodes and seconds that still fail."""
    from zab_chaos.harness.cli.shrink import shrink_command

    return shrink_command(
        what, seed=seed, defect=defect, swarmed=swarm, nodes=nodes, out=out, budget=budget, jobs=jobs, confirm=confirm,
        rerun=rerun, times=times, results=results, json=json, quiet=quiet,
    )  # fmt: skip


@app.command()
def verify(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Run folders, or `latest`.", show_default=False, parser=path),
    ],
    results: Results = RESULTS,
    junit: Junit = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Judge stored runs again. The exit code is that of the worst verdict."""
    from zab_chaos.harness.cli.verify import verify_command

    return verify_command(runs, results=results, junit=junit, json=json, quiet=quiet)


@app.command()
def replay(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run folder, or `latest`.", show_default=False, parser=path)
    ],
    node: Annotated[int | None, typer.Option(metavar="N", help="Replay only this node.")] = None,
    life: Annotated[
        int | None,
        typer.Option(metavar="N", help="Replay only this life (process incarnation) of each node; 1 is the first."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="EVENT", help="Stop at trace event N, or with iN at input N.")
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print the node's protocol state at --until, and the inputs around it.")
    ] = False,
    step: Annotated[
        bool | None,
        typer.Option(
            "--step/--no-step",
            help="Step through all nodes, forward and back. Default: on a terminal.",
            show_default=False,
        ),
    ] = None,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """Re-execute a recorded run: on a terminal step through it, otherwise compare every output with the recorded one."""
    from zab_chaos.harness.cli.replay import replay_command

    return replay_command(run, node=node, life=life, until=until, show=show, results=results, json=json, step=step)


@app.command()
def report(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="A run folder, `latest`, or a folder of runs.", show_default=False, parser=path
        ),
    ],
    out: Annotated[Path | None, out_file("Write to FILE instead of report.html (or campaign.html) in RUN.")] = None,
    pages: Annotated[
        bool, typer.Option("--pages", help="With a folder of runs: also write the report of every run that has none.")
    ] = False,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """Write the HTML report of a run, or of all runs below a folder, and print its path."""
    from zab_chaos.harness.cli.report import report_command

    return report_command(run, results=results, out=out, pages=pages, json=json)


@app.command("results")
def list_results(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[NUMBER|RUN]",
            help="A run, or its number in the list: print the path of its report, which is written if needed.",
            show_default=False,
            parser=path,
        ),
    ] = None,
    scenario: Annotated[
        str | None, typer.Option(metavar="WORD", help="Only runs whose scenario has this word in its name.")
    ] = None,
    verdict: Annotated[str | None, typer.Option(metavar="VERDICT", help="Only runs with this verdict.")] = None,
    last: Annotated[int, typer.Option(metavar="N", min=1, help="List at most this many runs.")] = 20,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """List the stored runs, the newest first, with their verdicts; or print the path of a run's report."""
    from zab_chaos.harness.cli.results import results_command

    return results_command(run, scenario=scenario, verdict=verdict, last=last, results=results, json=json)


@app.command()
def show(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="What to draw, such as discovery or ladis-figure-2. Default: list all names.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path | None, out_file("Write to FILE instead of NAME.html here.")] = None,
    json: Json = False,
) -> int:
    """Draw a step of the protocol, or a figure of the papers, as an HTML file, and print its path."""
    from zab_chaos.harness.cli.show import show_command

    return show_command(name, out=out, json=json)


@app.command()
def analyze(
    places: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RESULTS...",
            help="Run folders, folders of runs, or shell patterns.",
            show_default=False,
            parser=path,
        ),
    ] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="A B", help="Compare two campaigns: what got worse from A to B.", parser=path),
    ] = None,
    fail_if_worse: Annotated[
        bool,
        typer.Option(
            "--fail-if-worse",
            help="With --compare: exit with 1 if something got worse, 2 if nothing could be compared.",
        ),
    ] = False,
    master: Annotated[str, typer.Option(metavar="URL", help="The Spark master.")] = "local[*]",
    out: Annotated[
        str,
        typer.Option(
            metavar="DIR", help="Write tables, verdicts and metrics here. Tables that exist are reused.", parser=path
        ),
    ] = "results/analysis",
    memory: Annotated[str, typer.Option(metavar="SIZE", help="The Java heap of the driver.")] = "4g",
    replay: Annotated[
        bool, typer.Option("--replay", help="Also re-execute every recording, as `zab replay` does.")
    ] = False,
    json: Json = False,
) -> int:
    """Judge and measure any number of stored runs with Spark. The exit code is that of the worst verdict."""
    from zab_chaos.harness.cli.analyze import analyze_command

    return analyze_command(
        places or [],
        compare=compare,
        fail_if_worse=fail_if_worse,
        master=master,
        out=out,
        memory=memory,
        replay=replay,
        json=json,
    )


@app.command()
def up(
    on: Annotated[
        str, typer.Option("--on", metavar="BACKEND", help="What to run: processes (our own nodes) or zookeeper.")
    ] = "processes",
    zookeeper: ZooKeeper = None,
    nodes: Annotated[int, typer.Option(metavar="N", min=1, help="The number of nodes.")] = 3,
    seed: Annotated[
        int,
        typer.Option(metavar="N", help="The seed that draws targets such as `one` and `minority`.", parser=seed_number),
    ] = 1,
    defect: DefectName = None,
    disk: Annotated[
        str,
        typer.Option(
            "--disk",
            metavar="DISK",
            help="The nodes' disk, as in a scenario. Default: faithful; on ZooKeeper ordinary, where disk faults need fuse.",
            show_default=False,
        ),
    ] = "faithful",
    results: Results = RESULTS,
    record: Annotated[bool, RECORD] = True,
    quiet: Quiet = False,
) -> int:
    """Start an ensemble that runs until Ctrl-C. Use it with `zab client` and break it with `zab inject`."""
    from zab_chaos.harness.cli.up import up_command

    return up_command(
        on=on, zookeeper=zookeeper, nodes=nodes, seed=seed, defect=defect, results=results, record=record, quiet=quiet,
        disk=disk,
    )  # fmt: skip


@app.command(context_settings={"ignore_unknown_options": True})
def client(
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="host:port of a node, or its id in the ensemble of `zab up`.")
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND...",
            help="create, get, set, delete, check, exists, ls or multi. Without a command: an interactive shell, "
            "or the lines of a pipe.",
        ),
    ] = None,
    secret: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The client key file, for an ensemble that `zab up` did not start."),
    ] = None,
    ensemble: EnsembleFolder = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Seconds until an operation counts as unknown.")
    ] = 10.0,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """Send one request to a node of a running ensemble, or open a shell.

    Exit codes: 0 done, 1 failed, 2 unknown, 4 not a valid request. Of several lines from a pipe, the highest code counts.
    """
    from zab_chaos.harness.cli.client import client_command

    return client_command(
        address, words or [], secret=secret, folder=ensemble, results=results, timeout=timeout, json=json
    )


@app.command()
def inject(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FAULT [KEY=VALUE...]",
            help="A fault as in a scenario, or heal [NUMBER]. Default: list the faults injected so far.",
        ),
    ] = None,
    ensemble: EnsembleFolder = None,
    kinds: Annotated[bool, typer.Option("--list", help="List the faults and their keys.")] = False,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """Inject a fault into the ensemble of `zab up`, as in: zab inject partition shape=isolate target=leader for=5."""
    from zab_chaos.harness.cli.inject import inject_command

    return inject_command(words or [], folder=ensemble, kinds=kinds, results=results, json=json)


@app.command()
def scenarios(
    context: typer.Context,
    check: Annotated[
        bool, typer.Option("--check", help="Run the scenarios, and compare their verdicts with the expected ones.")
    ] = False,
    on: Backend = "processes",
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this scenario. May be repeated.", autocompletion=complete_scenario),
    ] = None,
    times: Times = 1,
    jobs: AtATime = 1,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """List the shipped scenarios, or run them with --check."""
    from zab_chaos.harness.cli import scenarios as command

    if check:
        return command.check(only or [], on=on, times=times, jobs=jobs, results=results, json=json)
    refuse_without_check(context, "on", "times", "jobs", "results")
    return command.show(only or [], json=json)


@app.command()
def defects(
    context: typer.Context,
    check: Annotated[
        bool, typer.Option("--check", help="Run each defect's scenario with and without it. Fail if one is missed.")
    ] = False,
    on: Annotated[
        str, typer.Option("--on", metavar="BACKEND", help="Where to check: processes, sim or both.")
    ] = "both",
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this defect. May be repeated.", autocompletion=complete_defect),
    ] = None,
    seeds: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of seeds for each defect in the simulator.")
    ] = 10,
    times: Annotated[int, typer.Option(metavar="N", min=1, help="Number of runs for each defect on processes.")] = 1,
    swarm: Annotated[
        int, typer.Option(metavar="N", min=0, help="Also look for each defect with this many swarm seeds of long-mix.")
    ] = 0,
    jobs: Jobs = None,
    results: Results = RESULTS,
    out: Annotated[Path | None, out_file("Write the kill matrix to FILE, as JSON.")] = None,
    json: Json = False,
) -> int:
    """List the known bugs that nodes can be built with, or check with --check that each is caught."""
    from zab_chaos.harness.cli import defects as command

    if check:
        return command.check(
            only or [], on=on, seeds=seeds, times=times, swarm=swarm, jobs=jobs, results=results, out=out, json=json
        )
    refuse_without_check(context, "on", "seeds", "times", "swarm", "jobs", "results", "out")
    return command.show(only or [], json=json)


@app.command()
def image(
    base: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE",
            help="The base image. Default: zab-base if `make base-image` has built it, else python:3.11-slim.",
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Build the container image that nodes run from with `--on containers`."""
    with extra("containers", "zab image"):
        from zab_chaos.harness.cli.image import image_command

    return image_command(base, json=json)


@app.command()
def clean(
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Also remove what other machines' runs, or runs before a reboot, left on the engine."
        ),
    ] = False,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """Remove containers, networks, volumes, key files and locks of killed runs. Runs in progress are not touched."""
    from zab_chaos.harness.cli.clean import clean_command

    return clean_command(results, everything=everything, json=json)


@app.command()
def doctor(results: Results = RESULTS, json: Json = False) -> int:
    """Check this machine: what is installed, what is missing, and how to fix it."""
    from zab_chaos.harness.cli.output import console_for, print_json
    from zab_chaos.harness.doctor import as_json, examine, healthy, show

    findings = examine(results)
    if json:
        print_json(as_json(findings))
    else:
        show(findings, console_for(json=json))
    return Exit.PASS if healthy(findings) else Exit.HARNESS_ERROR


@app.command()
def bench(
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this measurement (docs/numbers.md lists them). May be repeated."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="zookeeper", help="Measure our nodes and Apache ZooKeeper's side by side, and draw both."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Measure fewer and shorter rounds.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Also measure ZooKeeper, the pipeline, ensemble sizes and payloads.")
    ] = False,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """Measure throughput, latency, fail-over, memory, the judge and more, and store the numbers."""
    if importlib.util.find_spec("benchmarks") is None:
        raise HarnessError("this installation has no benchmarks; run them from a checkout")
    from zab_chaos.harness.cli.bench import bench_command

    return bench_command(only or [], against=against, quick=quick, full=full, results=results, json=json)


app.command()(lab)

zookeeper = typer.Typer(
    help="Apache ZooKeeper's releases: list them, fetch one, or check them for the known bugs.",
)
app.add_typer(zookeeper, name="zookeeper")


@zookeeper.callback(invoke_without_command=True)
def zookeeper_without_command(context: typer.Context) -> None:
    show_help_without_command(context)


@zookeeper.command("list")
def zookeeper_list(json: Json = False) -> int:
    """List the known releases, and which of them are on this machine."""
    from zab_chaos.harness.cli.zookeeper import list_command

    return list_command(json=json)


@zookeeper.command("fetch")
def zookeeper_fetch(
    version: Annotated[str, typer.Argument(metavar="VERSION", help="A released version, for example 3.9.4.")],
    json: Json = False,
) -> int:
    """Fetch a release and its dependencies into the cache, and verify their checksums."""
    from zab_chaos.harness.cli.zookeeper import fetch_command

    return fetch_command(version, json=json)


@zookeeper.command("check")
def zookeeper_check(
    tickets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TICKET]...", help="Tickets, such as 4643. Default: all.", show_default=False),
    ] = None,
    releases: Annotated[
        str, typer.Option(metavar="VERSIONS", help="Only these of the tickets' releases, separated by commas.")
    ] = "",
    zookeeper: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Instead of the releases, run the build in this folder of an unpacked distribution. It must be as the newest "
            "release that the ticket names, up to the build's version.",
            show_default=False,
        ),
    ] = None,
    times: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Run each release this many times. Default: as the ticket says."),
    ] = None,
    jobs: AtATime = 1,
    results: Results = RESULTS,
    out: Annotated[Path | None, out_file("Also write the matrix as JSON.")] = None,
    json: Json = False,
) -> int:
    """Run the scenario of each known bug on releases that have the bug and on releases that do not."""
    from zab_chaos.harness.cli.zookeeper import check_command

    if zookeeper is not None and releases:
        raise BadInput("--releases and --zookeeper: give one of them")
    return check_command(
        tickets or [], named=releases, build=zookeeper, times=times, jobs=jobs, results=results, out=out, json=json
    )


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code. Mistakes of the user become messages, never tracebacks."""
    with stoppable():
        return _run_command(arguments)


def _run_command(arguments: list[str] | None) -> int:
    try:
        file_descriptors.require()
        ARGUMENTS.set(sys.argv[1:] if arguments is None else arguments)
        return int(app(arguments, prog_name="zab", standalone_mode=False) or 0)
    except UsageError as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else _asked_for(ARGUMENTS.get())
        return _print_error(f"{_usage_message(error)}\nTry: {command} --help", Exit.BAD_INPUT)
    except BadInput as error:
        return _print_error(str(error), Exit.BAD_INPUT)
    except Interrupted as error:
        return _print_error(str(error), Exit.UNKNOWN)
    except Stopped:
        return _print_error("interrupted", Exit.UNKNOWN)
    except Forced:
        return _print_error("stopped at once; the run in progress was not judged", Exit.FORCED)
    except typer.Abort:
        return Exit.FORCED
    except SystemExit:  # of rich, when the reader of the help has closed the pipe: its 1 means VIOLATION here
        discard(sys.stdout)
        return Exit.PASS
    except Exception as error:
        return _print_error(failure_message(error), Exit.HARNESS_ERROR)


def _asked_for(arguments: Sequence[str]) -> str:
    """Return the command that the arguments begin with. Some errors, such as an option without its value, don't name it."""
    known: Any = typer.main.get_command(app)
    words = ["zab"]
    for word in arguments:
        known = getattr(known, "commands", {}).get(word)
        if known is None:
            break
        words.append(word)
    return " ".join(words)


def _usage_message(error: Exception) -> str:
    """Return the text of a usage error, as typer would print it, but without its word for a number with limits."""
    format_message = getattr(error, "format_message", None)
    return str(format_message() if format_message else error).replace("a valid int range", "a whole number")


def _print_error(message: str, code: Exit) -> Exit:
    print(f"Error: {message}", file=sys.stderr)  # noqa: T201
    return code
