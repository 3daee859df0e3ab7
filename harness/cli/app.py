"""The command line: `zab COMMAND ...`. Here are the options; what a command does is in the module of its name."""

import errno
import importlib.util
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Annotated

import typer

from zab_chaos import __version__
from zab_chaos.harness.cli.lab import lab
from zab_chaos.harness.errors import BadInput, Exit, HarnessError, Interrupted
from zab_chaos.harness.extras import extra
from zab_chaos.harness.machine import file_descriptors
from zab_chaos.harness.machine.interrupt import Forced, Stopped, stoppable
from zab_chaos.harness.runs import catalogue

# typer's base of all usage errors has had several homes; its public subclass has not.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="zab",
    help="Breaks a Zab ensemble of real processes on purpose, and judges whether Zab's promises held.",
    epilog="Exit codes: 0 all properties hold, 1 a property is violated, 2 unknown or interrupted, 3 the harness itself "
    "failed, 4 bad arguments or scenario, 5 a quorum of disks was lost and the nodes refused to invent history, "
    "130 ended at once by a second Ctrl-C.",
    add_completion=True,
    pretty_exceptions_enable=False,
)


def complete_scenario(incomplete: str) -> list[str]:
    return [name for name in catalogue.shipped() if name.startswith(incomplete)]


def complete_defect(incomplete: str) -> list[str]:
    from zab_chaos.faults.defects import DEFECTS

    return [name for name in sorted(DEFECTS) if name.startswith(incomplete)]


Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="Where the folders of runs are.")]
Json = Annotated[bool, typer.Option("--json", help="The answer as JSON on stdout; everything else on stderr.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the outcome.")]
Junit = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Also as a JUnit file, for a CI.", show_default=False)
]
Times = Annotated[int, typer.Option(min=1, help="How often to run each.")]
World = Annotated[
    str,
    typer.Option("--on", metavar="WORLD", help="Where: processes, sim (the simulated world), lockstep, or containers."),
]
RESULTS = Path("results")


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"zab-chaos {__version__}")  # noqa: T201
        raise typer.Exit


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())  # noqa: T201


@app.command()
def run(
    scenario: Annotated[
        str, typer.Argument(help="A shipped scenario's name, or a file.", autocompletion=complete_scenario)
    ],
    on: World = "processes",
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**63 - 1, help="Instead of the scenario's (or a drawn one).")
    ] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="Instead of the scenario's number of nodes.")] = None,
    defect: Annotated[
        str | None, typer.Option(help="Build the nodes with this known bug.", autocompletion=complete_defect)
    ] = None,
    results: Results = RESULTS,
    record: Annotated[
        bool | None, typer.Option("--record/--no-record", help="Record every input of the nodes, for replay.")
    ] = None,
    keep_data: Annotated[bool, typer.Option("--keep-data", help="Keep the nodes' disks of a run that passes.")] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="With --on lockstep: compare with the simulated run, byte for byte.")
    ] = False,
    junit: Junit = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run one scenario and judge it."""
    from zab_chaos.harness.cli.run import run_command

    return run_command(
        scenario, on=on, seed=seed, nodes=nodes, defect=defect, results=results, record=record, keep_data=keep_data,
        json=json, quiet=quiet, compare=compare, junit=junit,
    )  # fmt: skip


@app.command()
def explore(
    scenario: Annotated[
        str,
        typer.Argument(help="A shipped scenario's name, or a file; or lab-flapping.", autocompletion=complete_scenario),
    ],
    seeds: Annotated[str, typer.Option(metavar="A..B", help="The seeds, both ends included.")] = "1..100",
    jobs: Annotated[int | None, typer.Option(min=1, help="Worker processes; as many as cores if not given.")] = None,
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Not in worker processes here, but on a Spark cluster's executors."),
    ] = None,
    swarm: Annotated[
        bool, typer.Option("--swarm", help="Draw ensemble, timing, limits, workload and faults from the seed as well.")
    ] = False,
    coverage: Annotated[bool, typer.Option("--coverage", help="Say what was reached, and what never.")] = False,
    guided: Annotated[
        bool,
        typer.Option("--guided", help="Like --swarm --coverage; every 100 seeds, draw more of what was not reached."),
    ] = False,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw with the weights that --guided has kept.", show_default=False),
    ] = None,
    defect: Annotated[
        str | None, typer.Option(help="Build the nodes with this known bug.", autocompletion=complete_defect)
    ] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="Instead of the scenario's number of nodes.")] = None,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Do not stop at the first failure.")] = False,
    results: Results = RESULTS,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the summary there, as JSON.", show_default=False)
    ] = None,
    junit: Junit = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run many seeds of a scenario in the simulated world; show the smallest that fails."""
    from zab_chaos.harness.cli.explore import explore_command

    return explore_command(
        scenario, seeds=seeds, jobs=jobs, swarmed=swarm, coverage=coverage, defect=defect, nodes=nodes,
        keep_going=keep_going, results=results, out=out, json=json, quiet=quiet, master=master, junit=junit, guided=guided,
        weights=weights,
    )  # fmt: skip


@app.command()
def shrink(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RUN|SCENARIO",
            help="A failed run's folder or `latest`; a scenario's name or file; lab-flapping.",
            autocompletion=complete_scenario,
            show_default=False,
        ),
    ],
    seed: Annotated[int | None, typer.Option(min=0, max=2**63 - 1, help="Of a scenario: the seed that fails.")] = None,
    defect: Annotated[
        str | None, typer.Option(help="Build the nodes with this known bug.", autocompletion=complete_defect)
    ] = None,
    swarm: Annotated[bool, typer.Option("--swarm", help="The scenario that `zab explore --swarm` draws.")] = False,
    nodes: Annotated[int | None, typer.Option(min=1, help="Instead of the scenario's number of nodes.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Instead of beside the run, or shrunk-NAME-SEED.toml here.", show_default=False
        ),
    ] = None,
    budget: Annotated[str, typer.Option(metavar="N", help="At most so many tries, or so long: 90s, 5m.")] = "2000",
    jobs: Annotated[int | None, typer.Option(min=1, help="Worker processes; as many as cores if not given.")] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm/--no-confirm", help="Run the result on real processes as well.")
    ] = True,
    results: Results = RESULTS,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Make a failing run small: the fewest faults, operations, nodes and seconds that still fail, as a scenario's file."""
    from zab_chaos.harness.cli.shrink import shrink_command

    return shrink_command(
        what, seed=seed, defect=defect, swarmed=swarm, nodes=nodes, out=out, budget=budget, jobs=jobs, confirm=confirm,
        results=results, json=json, quiet=quiet,
    )  # fmt: skip


@app.command()
def verify(
    runs: Annotated[list[str], typer.Argument(help="Folders of runs, or `latest`.", show_default=False)],
    results: Results = RESULTS,
    junit: Junit = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Judge stored runs again; the worst verdict is the answer."""
    from zab_chaos.harness.cli.verify import verify_command

    return verify_command(runs, results=results, junit=junit, json=json, quiet=quiet)


@app.command()
def replay(
    run: Annotated[str, typer.Argument(help="The folder of a run, or `latest`.", show_default=False)],
    node: Annotated[int | None, typer.Option(help="Only this node.")] = None,
    life: Annotated[int | None, typer.Option(help="Only this life.")] = None,
    until: Annotated[
        str | None, typer.Option(metavar="EVENT", help="Stop at this event of the trace; iN: at the N-th input.")
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="The core's whole state there, and the inputs around it.")
    ] = False,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """Re-execute a recorded run in the model: every output must be equal."""
    from zab_chaos.harness.cli.replay import replay_command

    return replay_command(run, node=node, life=life, until=until, show=show, results=results, json=json)


@app.command()
def report(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's folder, `latest`, or a folder with runs.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Instead of report.html (campaign.html) there.", show_default=False),
    ] = None,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """Write the HTML report of a run, or of all runs below a folder, and print where it is."""
    from zab_chaos.harness.cli.report import report_command

    return report_command(run, results=results, out=out, json=json)


@app.command()
def analyze(
    places: Annotated[
        list[str] | None,
        typer.Argument(metavar="RESULTS...", help="Runs, folders of runs, or patterns.", show_default=False),
    ] = None,
    compare: Annotated[
        tuple[str, str] | None, typer.Option(metavar="A B", help="Two campaigns: what got worse from A to B.")
    ] = None,
    fail_if_worse: Annotated[
        bool, typer.Option("--fail-if-worse", help="With --compare: exit code 1 if something got worse.")
    ] = False,
    master: Annotated[str, typer.Option(metavar="URL", help="Any Spark master.")] = "local[*]",
    out: Annotated[
        str, typer.Option(metavar="DIR", help="Where the tables, verdicts and metrics go; what is there is used again.")
    ] = "results/analysis",
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Java heap of the driver.")] = "4g",
    replay: Annotated[
        bool, typer.Option("--replay", help="Replay every recorded life in the model too, on the executors.")
    ] = False,
    json: Json = False,
) -> int:
    """Judge and measure any number of stored runs at once, with Spark; the worst verdict is the answer."""
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
    nodes: Annotated[int, typer.Option(min=1, help="How many.")] = 3,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="For whoever is hit by `one` or `minority`.")] = 1,
    defect: Annotated[
        str | None, typer.Option(help="Build the nodes with this known bug.", autocompletion=complete_defect)
    ] = None,
    results: Results = RESULTS,
    record: Annotated[
        bool, typer.Option("--record/--no-record", help="Record every input of the nodes, for replay.")
    ] = True,
    quiet: Quiet = False,
) -> int:
    """Start an ensemble that stands until Ctrl-C: to be used with `zab client`, and broken with `zab inject`."""
    from zab_chaos.harness.cli.up import up_command

    return up_command(nodes=nodes, seed=seed, defect=defect, results=results, record=record, quiet=quiet)


@app.command(context_settings={"ignore_unknown_options": True})
def client(
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="host:port of a node, or its number in the ensemble of `zab up`.")
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND...", help="create, get, set, delete, check, exists, ls, multi; a shell if none."
        ),
    ] = None,
    secret: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The client key file of an ensemble that `zab up` did not start."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds after which an operation is unknown.")] = 10.0,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """Talk to one node of a standing ensemble: one request, or a shell. Answers 0 done, 1 failed, 2 not known."""
    from zab_chaos.harness.cli.client import client_command

    return client_command(address, words or [], secret=secret, results=results, timeout=timeout, json=json)


@app.command()
def inject(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FAULT [KEY=VALUE...]", help="As a scenario says it; or heal [NUMBER]; what was done if none."
        ),
    ] = None,
    ensemble: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Which one, if several stand: the folder of its run.")
    ] = None,
    kinds: Annotated[bool, typer.Option("--list", help="What there is to inject, and its keys.")] = False,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """Break the ensemble of `zab up` by hand: zab inject partition shape=isolate target=leader for=5."""
    from zab_chaos.harness.cli.inject import inject_command

    return inject_command(words or [], folder=ensemble, kinds=kinds, results=results, json=json)


@app.command()
def scenarios(
    check: Annotated[bool, typer.Option("--check", help="Run them all, and compare with what they expect.")] = False,
    on: World = "processes",
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this one.", autocompletion=complete_scenario)
    ] = None,
    times: Times = 1,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """List the shipped scenarios."""
    from zab_chaos.harness.cli import scenarios as command

    if check:
        return command.check(only or [], on=on, times=times, results=results, json=json)
    return command.show(only or [], json=json)


@app.command()
def defects(
    check: Annotated[
        bool, typer.Option("--check", help="Run every defect's scenario with and without it: all must be caught.")
    ] = False,
    on: Annotated[str, typer.Option("--on", metavar="WORLD", help="Where: processes, sim, or both.")] = "both",
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this one.", autocompletion=complete_defect)
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds of each in the simulated world.")] = 10,
    times: Annotated[int, typer.Option(min=1, help="How often to run each on processes.")] = 1,
    swarm: Annotated[
        int, typer.Option(min=0, help="And look for each among so many swarm seeds of long-mix; 0: do not.")
    ] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Worker processes; as many as cores if not given.")] = None,
    results: Results = RESULTS,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the kill matrix there, as JSON.", show_default=False)
    ] = None,
    json: Json = False,
) -> int:
    """List the known bugs that nodes can be built with, or prove that each is caught (the kill matrix)."""
    from zab_chaos.harness.cli import defects as command

    if check:
        return command.check(
            only or [], on=on, seeds=seeds, times=times, swarm=swarm, jobs=jobs, results=results, out=out, json=json
        )
    return command.show(only or [], json=json)


@app.command()
def image(
    base: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE", help="Instead of zab-base (`make base-image`), or where there is none python:3.11-slim."
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
        bool, typer.Option("--all", help="Also of runs of which it can't be seen from here whether they are over.")
    ] = False,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """Remove what killed runs have left: containers, networks, volumes, key files, locks; nothing of runs that go on."""
    from zab_chaos.harness.cli.clean import clean_command

    return clean_command(results, everything=everything, json=json)


@app.command()
def doctor(results: Results = RESULTS, json: Json = False) -> int:
    """Check this machine: what is there, what is missing, what mends it."""
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
        list[str] | None, typer.Option(metavar="NAME", help="Only this measurement; may be repeated.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and shorter rounds.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Also against the ensemble's size and the payload.")] = False,
    results: Results = RESULTS,
    json: Json = False,
) -> int:
    """Measure throughput, latency, fail-over, memory, the oracle and the links, and keep the numbers."""
    if importlib.util.find_spec("benchmarks") is None:
        raise HarnessError("this installation has no benchmarks; run them from a checkout")
    from zab_chaos.harness.cli.bench import bench_command

    return bench_command(only or [], quick=quick, full=full, results=results, json=json)


app.command()(lab)

zookeeper = typer.Typer(help="Apache ZooKeeper's releases: which are known, and getting one.", no_args_is_help=True)
app.add_typer(zookeeper, name="zookeeper")


@zookeeper.command("list")
def zookeeper_list(json: Json = False) -> int:
    """List the known releases, and which of them are on this machine."""
    from zab_chaos.harness.cli.zookeeper import list_command

    return list_command(json=json)


@zookeeper.command("fetch")
def zookeeper_fetch(
    version: Annotated[str, typer.Argument(help="A released version, for example 3.9.4.")], json: Json = False
) -> int:
    """Fetch a release into the cache, with all that it needs, and check it by its sums."""
    from zab_chaos.harness.cli.zookeeper import fetch_command

    return fetch_command(version, json=json)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; its exit code. The user's mistakes and the machine's shortcomings are messages, never traces."""
    with stoppable():
        return _main(arguments)


def _main(arguments: list[str] | None) -> int:
    try:
        file_descriptors.require()
        return int(app(arguments, prog_name="zab", standalone_mode=False) or 0)
    except UsageError as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "zab"
        return _complain(f"{_message(error)}\nTry: {path} --help", Exit.BAD_INPUT)
    except BadInput as error:
        return _complain(str(error), Exit.BAD_INPUT)
    except HarnessError as error:
        return _complain(str(error), Exit.HARNESS_ERROR)
    except Interrupted as error:
        return _complain(str(error), Exit.UNKNOWN)
    except Stopped:
        return _complain("interrupted", Exit.UNKNOWN)
    except Forced:
        return _complain("ended at once; the run was not judged, its folder is where `latest` points", Exit.FORCED)
    except typer.Abort:
        return Exit.FORCED
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return _complain(f"the disk is full: {error}. Free some space, or use --results DIR.", Exit.HARNESS_ERROR)
        return _complain(_internal(error), Exit.HARNESS_ERROR)
    except Exception as error:
        return _complain(_internal(error), Exit.HARNESS_ERROR)


def _message(error: Exception) -> str:
    """A usage error's own words, as typer would have printed them."""
    words = getattr(error, "format_message", None)
    return str(words() if words else error)


def _internal(error: Exception) -> str:
    """An error of ours: one line, and where the trace is."""
    try:
        with tempfile.NamedTemporaryFile("w", prefix="zab-error-", suffix=".log", delete=False) as file:
            traceback.print_exception(error, file=file)
    except OSError as full:
        return f"internal error: {type(error).__name__}: {error}\nThe trace could not be written: {full}"
    return f"internal error: {type(error).__name__}: {error}\nThe trace is in {file.name}. Please report it."


def _complain(words: str, code: Exit) -> Exit:
    print(f"Error: {words}", file=sys.stderr)  # noqa: T201
    return code
