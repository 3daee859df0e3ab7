"""What the JVM makes of Spark's classes is kept, used, and never in the way."""

import subprocess
import sys
from pathlib import Path

import pytest

SESSION = """
import sys
from pathlib import Path
from pipeline import session
place = Path(sys.argv[1])
spark = session.start("local[1]", memory="1g", small=True, words=place / "spark.log", cache=place / "cache")
gateway = spark.sparkContext._gateway
print(spark.range(3).selectExpr("sum(id) AS it").collect()[0]["it"])
print("archive used:", str(place / "cache") in Path(f"/proc/{gateway.proc.pid}/maps").read_text())
session.stop(spark)
"""


@pytest.fixture(scope="module")
def root() -> Path:
    java = pytest.importorskip("pipeline.java")
    try:
        java.version(java.find())
    except java.JavaMissing as error:
        pytest.skip(str(error))
    if not Path("/proc/self/maps").exists():
        pytest.skip("only Linux says what a process has mapped")
    return Path(__file__).resolve().parents[2]


def session(root: Path, place: Path) -> list[str]:
    """What a session of its own process says on stdout."""
    command = [sys.executable, "-c", SESSION, str(place)]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_a_session_makes_the_archive_and_the_next_one_uses_it(root: Path, tmp_path: Path) -> None:
    older = tmp_path / "cache" / "of-another-java.jsa"
    older.parent.mkdir()
    older.write_bytes(b"older")
    assert session(root, tmp_path) == ["3", "archive used: False"]
    (kept,) = older.parent.iterdir()
    assert kept != older
    made = kept.stat()
    assert session(root, tmp_path) == ["3", "archive used: True"]
    assert kept.stat().st_mtime_ns == made.st_mtime_ns
    with kept.open("r+b") as file:  # Java would not survive it
        file.truncate(made.st_size // 2)
    assert session(root, tmp_path) == ["3", "archive used: False"]
    (again,) = older.parent.iterdir()
    assert again.name == f"{again.stem.split('-')[0]}-{again.stat().st_size}.jsa"
