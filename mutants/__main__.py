"""`python -m mutants`: plant one mutant after the other, explore each tree, and report which were caught.

Mutants of the judge and of the harness (`--which judge`, `harness`), and all with `--tests`, are tested instead: the tests
of their file catch them.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mutants.covering import covering_tests
from mutants.planting import HANDWRITTEN, HARNESS, PROCESSES, ROOT, Mutant, Stale, handwritten_mutants, planted_tree

SCENARIO = "long-mix"
SIM = "sim"
SEEDS = {SIM: 300, PROCESSES: 3}  # by backend; on processes after some shipped scenarios
HANG_SECONDS = 1800  # for the tests of one file, or of several: half a minute to ten minutes on a busy machine
KILLER = Path(__file__).parent / "killer.py"
CAUGHT = "VIOLATION"
STALE = "STALE"
TESTED = ("judge", HARNESS)  # samples that are tested and not explored


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one mutant. `outcome`: as in `killer`, or STALE."""

    name: str
    room: str
    outcome: str | None
    seed: int | str | None
    violated: list[str]
    why: str
    equivalent: str = ""

    @property
    def counts(self) -> bool:
        """Whether it is a bug that can be caught."""
        return not self.equivalent and self.outcome not in (STALE, "BROKEN")

    def line(self) -> str:
        """Return the result as a line for people."""
        found = ", ".join(self.violated) or self.why
        words = self.outcome or ("equivalent" if self.equivalent else "SURVIVES")
        at = f"seed {self.seed}" if isinstance(self.seed, int) else self.seed or ""
        return f"{self.room:12} {self.name:52} {words:13} {at:9} {found[:90]}"


def attempt(
    name: str,
    room: str,
    file: str,
    text: Callable[[], str],
    seeds: int,
    equivalent: str = "",
    on: str = SIM,
    tests: Sequence[str] = (),
) -> Result:
    """Plant a mutant and explore its tree on a backend, or run `tests` there if there are any (`seeds` is 0: do neither).
    `text` returns the mutated file, and may raise Stale."""
    try:
        content = text()
    except Stale as error:
        return Result(name, room, STALE, None, [], str(error), equivalent)
    with planted_tree(file, content) as tree:
        found = _test(tree, tests) if tests and seeds else _explore(tree, seeds, on)
    return Result(name, room, found["outcome"], found["seed"], found["violated"], found["why"], equivalent)


def _explore(tree: Path, seeds: int, on: str) -> dict[str, Any]:
    """Run `killer` on a tree, in a process of its own, and return its answer."""
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
    with TemporaryDirectory(prefix="zab-killer-") as folder:
        environment["TMPDIR"] = folder
        done = subprocess.run(
            [sys.executable, str(KILLER), SCENARIO, str(seeds), on],
            cwd=tree, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    lines = done.stdout.splitlines()
    if not lines:
        why = (done.stderr.splitlines() or [f"exit code {done.returncode}"])[-1]
        return {"seed": None, "outcome": "BROKEN", "violated": [], "why": why}
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def _test(tree: Path, tests: Sequence[str]) -> dict[str, Any]:
    """Run these tests on a tree until one fails, and return the same as `_explore`."""
    shutil.copytree(ROOT / "tests", tree / "tests")
    for path in ROOT.iterdir():  # tests read documents, examples and the like
        if not path.name.startswith(".") and not (tree / path.name).exists():
            (tree / path.name).symlink_to(path)
    environment = os.environ | {"PYTHONPATH": str(tree)}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
        )
    except subprocess.TimeoutExpired:
        return {"seed": None, "outcome": "HANG", "violated": [], "why": f"more than {HANG_SECONDS} s"}
    why = next((line for line in done.stdout.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))), "")
    broken = why.startswith("ERROR") and "::" not in why  # not one test can be imported
    outcome = "BROKEN" if broken else CAUGHT if done.returncode else None
    return {"seed": None, "outcome": outcome, "violated": [], "why": why}


def jobs_of(arguments: argparse.Namespace) -> list[Callable[[], Result]]:
    """Return a job for each requested mutant."""

    def seeds_for(equivalent: str) -> int:
        return arguments.seeds if arguments.equivalent or not equivalent else 0

    def written_job(mutant: Mutant) -> Callable[[], Result]:
        seeds = seeds_for(mutant.equivalent)
        return lambda: attempt(
            mutant.name, mutant.room, mutant.file, mutant.text, seeds, mutant.equivalent, backend_of(arguments),
            requested_tests(arguments, mutant.file),
        )  # fmt: skip

    jobs = [written_job(one) for one in _requested_mutants(arguments)]
    if arguments.which in ("generated", "judge") or (arguments.which == "all" and not arguments.only):
        try:
            from mutants.generated import JUDGE, NODES, Generated, equivalents, sample
        except ModuleNotFoundError as error:
            sys.exit(
                f"the generated mutants need {error.name}, which `make mutants` installs; or choose others by --which"
            )

        room, files = ("judge", JUDGE) if arguments.which == "judge" else ("generated", NODES)

        def generated_job(one: Generated) -> Callable[[], Result]:
            equivalent = equivalents().get(one.name, "")
            return lambda: attempt(
                one.name, room, one.file, lambda: one.text() or "", seeds_for(equivalent), equivalent,
                tests=requested_tests(arguments, one.file),
            )  # fmt: skip

        drawn = [one for one in sample(arguments.generated, files) if _is_requested(arguments, room, one.name)]
        jobs += [generated_job(one) for one in drawn]
    part, parts = (int(number) for number in arguments.part.split("/"))
    return jobs[part - 1 :: parts]


def backend_of(arguments: argparse.Namespace) -> str:
    """Return where the requested mutants are explored."""
    return PROCESSES if arguments.which == PROCESSES else SIM


def requested_tests(arguments: argparse.Namespace, *files: str) -> list[str]:
    """Return the tests that are run on mutants of these files; none if they are explored."""
    return covering_tests(*files) if arguments.tests or arguments.which in TESTED else []


def _changed_files(arguments: argparse.Namespace) -> list[str]:
    """Return the files that the requested mutants change; of generated ones the folder above them."""
    return [one.file for one in _requested_mutants(arguments)] or ["model/" if arguments.which == "judge" else "node/"]


def _requested_mutants(arguments: argparse.Namespace) -> list[Mutant]:
    """Return the requested hand-written mutants."""
    written = handwritten_mutants(*_folders(arguments.which))
    return [one for one in written if _is_requested(arguments, one.room, one.name)]


def _is_requested(arguments: argparse.Namespace, room: str, name: str) -> bool:
    return not arguments.only or any(word in f"{room}/{name}" for word in arguments.only)


def _folders(which: str) -> list[str]:
    """Return the folders of the requested hand-written mutants. `all`: of those that are explored in the simulator."""
    return [one for one in HANDWRITTEN if which == one or (which == "all" and one not in (PROCESSES, HARNESS))]


def _print_stale() -> int:
    """Print the mutants that no longer fit their files. Return their number, which is the exit code."""
    count = 0
    for mutant in handwritten_mutants(*HANDWRITTEN):
        try:
            mutant.text()
        except Stale as error:
            count += 1
            print(error)
    return count


def summary(results: Sequence[Result]) -> str:
    """Return the counts of all results in words."""
    counting = [one for one in results if one.counts]
    caught = sum(one.outcome == CAUGHT for one in counting)
    other = sum(one.outcome not in (CAUGHT, None) for one in counting)
    share = f"{100 * caught / len(counting):.0f} of 100" if counting else "none"
    left = len(results) - len(counting)
    return (
        f"{len(results)} mutants; {left} do not count (equivalent, stale, or no program any more). Of {len(counting)}: "
        f"{caught} caught ({share}), {other} ended the harness or hung, {len(counting) - caught - other} survive"
    )


def arguments_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("only", nargs="*", help="words: only mutants whose room/name contains one of them")
    parser.add_argument("--which", choices=(*HANDWRITTEN, "generated", "judge", "all"), default="all")
    parser.add_argument("--generated", type=int, default=100, help="number of generated mutants")
    parser.add_argument(
        "--seeds", type=int, help=f"largest number of seeds explored for each mutant; by default {SEEDS}"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--part", default="1/1", help="k/n: only every n-th mutant, from the k-th on")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "mutants.json")
    parser.add_argument(
        "--equivalent",
        action="store_true",
        help="also explore the mutants that are marked as equivalent to the original",
    )
    parser.add_argument(
        "--tests",
        action="store_true",
        help="run the tests of the mutated file instead of exploring; always for the judge and the harness",
    )
    parser.add_argument("--stale", action="store_true", help="only list the mutants that no longer fit their files")
    arguments = parser.parse_args(words)
    arguments.seeds = SEEDS[backend_of(arguments)] if arguments.seeds is None else arguments.seeds
    return arguments


def main() -> None:
    arguments = arguments_of()
    if arguments.stale:
        sys.exit(_print_stale())
    jobs = jobs_of(arguments)
    honest = attempt(
        "(none)",
        "judge" if arguments.which == "judge" else "honest",
        "scenarios/long-mix.toml",
        (ROOT / "scenarios/long-mix.toml").read_text,
        arguments.seeds,
        on=backend_of(arguments),
        tests=requested_tests(arguments, *_changed_files(arguments)),
    )
    print(honest.line(), flush=True)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        results = []
        for result in pool.map(lambda job: job(), jobs):
            results.append(result)
            print(result.line(), flush=True)
    print(summary(results))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps([asdict(one) for one in (honest, *results)], indent=1) + "\n", encoding="utf-8")
    stale = sum(one.outcome == STALE for one in results)
    sys.exit(0 if honest.outcome is None and not stale else 1)


if __name__ == "__main__":
    main()
