"""Write the corpus: `python tests/corpus/build.py OUT` writes one run folder for each case, with an expected.json.

expected.json: `name`, `about`, `property` and its `judgement`, the run's `verdict`, and `violated`: the names of all
properties that are violated. Every judge must agree on `verdict` and on `property`'s judgement.
"""

import json
import shutil
import sys
from pathlib import Path

if __name__ == "__main__":  # as a script, this file could import from its own folder only
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.corpus import conduct, delivery, disks, edited, keeping_up, progress, promises, requests, sessions, values
from tests.corpus.cases import CASES, Case

# Importing these modules fills the register.
FILES = (delivery, promises, disks, progress, keeping_up, conduct, requests, values, sessions, edited)


def write(case: Case, out: Path) -> Path:
    """Write one case as a run folder below `out`. Return the folder."""
    folder = out / case.name
    if folder.exists():
        shutil.rmtree(folder)
    expected = {
        "name": case.name,
        "about": case.about,
        "property": case.property,
        "judgement": case.judgement,
        "verdict": case.verdict,
        "violated": sorted(case.violated),
    }
    folder.mkdir(parents=True)
    (folder / "expected.json").write_text(json.dumps(expected, indent=2) + "\n")
    case.tell().save(folder)
    return folder


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python tests/corpus/build.py OUT\n")
        return 4
    out = Path(arguments[0])
    for case in CASES:
        write(case, out)
    sys.stdout.write(f"{len(CASES)} runs in {out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
