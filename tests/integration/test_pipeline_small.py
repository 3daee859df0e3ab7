"""What little data on this machine goes without, and that it makes no difference: files looked at without Spark, few words
between Python and the JVM, Hadoop without its settings."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline import files, folders
from pipeline.analysis import analyze
from pipeline.folders import NoRuns, number_of
from tests.corpus.story import ensemble
from tests.integration.test_pipeline_ingest import NODE_1, saved, truncated
from tests.integration.test_pipeline_judge import differences, told

pytestmark = pytest.mark.timeout(600)


ODD = "a b%20c [1] {x}*?#^`|<>\\\"',;@&=+$!~()é‑中 𝔘"


def test_spark_and_python_name_files_alike(spark: Any, tmp_path: Path) -> None:
    saved(tmp_path / ODD)
    told = spark.read.text(files.located(str(tmp_path / ODD)), pathGlobFilter="run.json").select("_metadata.file_path")
    path, number = told.select("file_path", number_of(told["file_path"])).first()
    assert files.named(path) == files.uri(f"{tmp_path / ODD}/run.json")
    assert files.path_of(path) == tmp_path / ODD / "run.json"
    assert number == folders.number(files.uri(f"{tmp_path / ODD}/run.json"))


def test_a_run_is_found_and_read_alike_with_spark_and_without(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truncated(saved(tmp_path / ODD))
    (tmp_path / ODD / "run.json").write_bytes(b'{"nodes": 3, "run": "\xff"}')
    (tmp_path / ODD / "ops.jsonl").write_text("")
    saved(tmp_path / "_hidden")
    saved(tmp_path / ".hidden")
    near = folders.find(spark, [str(tmp_path)])
    held = folders.contents(spark, near)
    assert [it.path for it in near] == [str(tmp_path / ODD)]
    monkeypatch.setattr(folders, "_is_near", lambda *_: False)
    far = folders.find(spark, [str(tmp_path)])
    assert [(it.run, it.path) for it in far] == [(it.run, it.path) for it in near]
    assert {(it.path, it.size) for it in far[0].files.values()} == {(it.path, it.size) for it in near[0].files.values()}
    counted = {path: replace(it, lines=None) if it.lines else it for path, it in held.items()}
    assert folders.contents(spark, far) == counted
    lines_ = {path.rpartition("/")[2]: it.lines for path, it in held.items()}
    assert lines_["ops.jsonl"] == 0
    assert lines_["node-1-1.jsonl"] == len((tmp_path / ODD / NODE_1).read_text().splitlines())


@pytest.mark.parametrize("near", [True, False])
def test_a_trace_without_a_line_is_judged_as_the_oracle_judges_it(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, near: bool
) -> None:
    """A life that was ended before it could write its first line."""
    story = ensemble(writes=3)
    story.crash(2)
    story.boot(2)
    story.join(2)
    story.settle()
    story.save(tmp_path / "run")
    (tmp_path / "run" / "trace" / "node-2-1.jsonl").write_text("")
    monkeypatch.setattr(folders, "_is_near", lambda *_: near)
    (verdict,) = analyze(spark, [str(tmp_path / "run")], str(tmp_path / "out")).verdicts
    assert differences(verdict.json, told(tmp_path / "run")) == []


def test_links_are_followed_but_not_in_circles(spark: Any, tmp_path: Path) -> None:
    run = saved(tmp_path / "runs" / "one")
    (tmp_path / "runs" / "back").symlink_to(tmp_path / "runs")
    (tmp_path / "runs" / "one" / "trace" / "node-9-1.jsonl").symlink_to(tmp_path / "gone")
    assert [it.path for it in folders.find(spark, [str(tmp_path)])] == [str(run)]
    (run / "ops.jsonl").unlink()
    (run / "ops.jsonl").symlink_to(run / "ops.jsonl")
    with pytest.raises(NoRuns, match=r"ops\.jsonl can't be read: Too many levels of symbolic links"):
        folders.find(spark, [str(tmp_path)])


def test_a_session_for_little_data_goes_without(spark: Any, tmp_path: Path) -> None:
    """What Hadoop makes has the permissions that everything else here has, with few settings and no process for it."""
    spark.range(1).write.parquet(f"file://{tmp_path}/made/parquet")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "file").touch()
    assert (tmp_path / "made").stat().st_mode == (tmp_path / "plain").stat().st_mode
    modes = {it.stat().st_mode for it in (tmp_path / "made" / "parquet").iterdir()}
    assert modes == {(tmp_path / "plain" / "file").stat().st_mode}
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    assert settings.size() < 10
    files_ = spark.sparkContext._jvm.org.apache.hadoop.fs.FileSystem.get(settings)
    assert files_.getClass().getName() == "zab.Small$Files"
    thread = spark.sparkContext._jvm.java.lang.Thread.currentThread()
    assert "zab" not in thread.getContextClassLoader().getClass().getName()


@pytest.mark.parametrize("size", [0, 1, 10, 11, 35])
def test_a_list_of_any_length_travels_whole(spark: Any, size: int) -> None:
    names = [f"c{number}" for number in range(size)]
    assert list(spark.sparkContext._jvm.java.util.ArrayList(names)) == names
    assert list(spark.sparkContext._jvm.java.util.ArrayList([*names, None])) == [*names, None]
