"""The space-time diagram in a real browser: arrows and counts, tooltips, following, searching, the keyboard."""

from collections.abc import Callable, Iterator
from itertools import pairwise, product
from pathlib import Path
from random import Random

import pytest
from selenium import webdriver
from selenium.webdriver import ActionChains, Keys

from tests.integration.test_report_html import BLUE, GREEN, RED, Report, driver, many, pytestmark
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.report.html.page import page
from zab_chaos.harness.report.html.run_data import RunData, read_run_data
from zab_chaos.harness.report.messages import Exchange, MessageContent, Messages, SentMessage
from zab_chaos.node.core import zxid as zx

__all__ = ["driver", "pytestmark"]  # the browser is the other tests'
PURPLE = (204, 121, 167)
CLIENT_LINE, FIRST_LINE, GAP = 38, 90, 70  # harness/report/html/assets/messages.js, for three nodes

SCENARIO = """
[scenario]
name = "small"
about = "A crash of the leader."
nodes = 3
duration = 2
[workload]
clients = 3
rate = 100
mix = { set = 5, get = 1 }
[[fault]]
at = 0.5
do = "crash"
target = "leader"
for = 0.6
"""


def simulated(scenario: str, results: Path, *options: str) -> Path:
    main(["run", scenario, "--on", "sim", "--results", str(results), *options])
    return (results / "latest").resolve()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated run with a crash of the leader."""
    place = tmp_path_factory.mktemp("simulated")
    (place / "small.toml").write_text(SCENARIO)
    return simulated(str(place / "small.toml"), place / "results")


@pytest.fixture(scope="module")
def written() -> dict[Path, Path]:
    """The reports that are written already, by the folders of their runs."""
    return {}


@pytest.fixture
def show(
    driver: webdriver.Chrome, tmp_path_factory: pytest.TempPathFactory, written: dict[Path, Path]
) -> Iterator[Callable[[Path], Report]]:
    """Write the report of a run and open it. At the end, the console must be empty and nothing may have been requested."""
    opened: list[Report] = []

    def show(folder: Path) -> Report:
        if folder not in written:
            out = tmp_path_factory.mktemp("report") / "report.html"
            assert main(["report", str(folder), "--out", str(out)]) == 0
            written[folder] = out
        opened.append(Report(driver, written[folder]))
        return opened[-1]

    yield show
    for report in opened:
        report.assert_quiet()


def ask(report: Report, text: str) -> None:
    wanted = report.find("wanted")
    wanted.clear()
    wanted.send_keys(text, Keys.ENTER)
    report.settle()


def escape(report: Report) -> None:
    ActionChains(report.driver).send_keys(Keys.ESCAPE).perform()
    report.settle()


def drawn(report: Report) -> dict[str, str]:
    """Return the data attributes of the diagram's canvas."""
    found: dict[str, str] = report.js("return {...document.getElementById('messages').dataset}")
    return found


def way(report: Report) -> list[str]:
    return [
        str(one) for one in report.js("return [...document.querySelectorAll('#way li')].map((it) => it.textContent)")
    ]


def y(node: int) -> int:
    return FIRST_LINE + (node - 1) * GAP


def committed(story: RunData) -> SentMessage:
    """Return a PROPOSE of one transaction that was requested at another node, and that was received."""
    owned = {zxid for zxid, index in story.diagram.owners if story.diagram.requests[index].zxid == zxid}
    return next(
        one
        for one in story.diagram.exchange.messages
        if one.content.kind == "PROPOSE"
        and one.content.last in owned
        and one.received
        and one.sent > story.zero + 100_000_000
    )


def test_many_messages_are_counted_and_few_are_arrows(run: Path, show: Callable[[Path], Report]) -> None:
    report, story = show(run), read_run_data(run)
    assert drawn(report)["dense"] == "true"
    shown = [one for one in story.diagram.exchange.messages if one.content.kind != "PING"]
    assert int(drawn(report)["arrows"]) > len(shown)  # and what the clients asked for
    kinds = [BLUE, GREEN, PURPLE]
    one = committed(story)
    ask(report, zx.show(zx.Zxid(one.content.last)))
    escape(report)
    assert drawn(report)["dense"] == "false"
    assert set(kinds) <= report.colours("messages")
    assert int(drawn(report)["arrows"]) < 100


def test_pointing_at_an_arrow_describes_it(run: Path, show: Callable[[Path], Report]) -> None:
    report, one = show(run), committed(story := read_run_data(run))
    ask(report, zx.show(zx.Zxid(one.content.last)))
    escape(report)
    assert one.received is not None
    middle = ((one.sent + one.received) / 2 - story.zero) / 1000
    report.point("messages", report.x(middle), (y(one.source) + y(one.target)) / 2)
    assert f"PROPOSE {zx.show(zx.Zxid(one.content.first))}" in report.tip
    assert f"node {one.source} → node {one.target}" in report.tip
    assert f"sent {(one.sent - story.zero) // 1000 / 1e6:.6f} s, received" in report.tip


def test_pointing_at_a_strip_shows_the_count_and_the_link(run: Path, show: Callable[[Path], Report]) -> None:
    report = show(run)
    begin, end = report.shown
    leader = next(step.node for step in read_run_data(run).diagram.steps if step.kind == "established")
    for x, row in product(range(0, 60, 3), range(1, 3)):
        report.point("messages", report.x((begin + end) / 4) + x, y(leader) + 11 + 9 * row + 3)
        if report.tip.startswith(f"node {leader} → node "):
            break
    else:
        pytest.fail("no strip told its link")


def test_following_highlights_the_whole_path_and_escape_ends_it(run: Path, show: Callable[[Path], Report]) -> None:
    report, one = show(run), committed(read_run_data(run))
    name = zx.show(zx.Zxid(one.content.last))
    ask(report, name)
    assert drawn(report)["followed"] == name
    assert f"following {name}" in report.find("followed").text
    told = way(report)
    places = [
        next(i for i, line in enumerate(told) if words in line)
        for words in (
            "request of",
            "FORWARD",
            "broadcast",
            "PROPOSE",
            "accepted, durably",
            "ACK",
            "COMMIT",
            "delivered",
            "answer",
        )
        if words != "FORWARD" or any("FORWARD" in line for line in told)
    ]
    assert places[0] == 0
    assert places[:4] == sorted(places[:4])
    assert {f"node {node} delivered" for node in (1, 2, 3)} <= {
        line.split("  ")[1][:16] for line in told if " delivered " in line
    }
    lit = report.colours("messages")
    assert {BLUE, GREEN, PURPLE} <= lit
    escape(report)
    assert drawn(report)["followed"] == ""
    assert report.find("followed").text == ""
    assert not report.find("told").is_displayed()


def test_everything_that_is_not_followed_is_dimmed(run: Path, show: Callable[[Path], Report]) -> None:
    report, one = show(run), committed(read_run_data(run))
    report.js(
        """const canvas = document.getElementById("messages"), stroke = CanvasRenderingContext2D.prototype.stroke;
        window.strokes = {};
        CanvasRenderingContext2D.prototype.stroke = function () {
          if (this.canvas === canvas) window.strokes[this.globalAlpha] = (window.strokes[this.globalAlpha] || 0) + 1;
          return stroke.call(this);
        }"""
    )
    ask(report, zx.show(zx.Zxid(one.content.last)))
    followed = report.js("const made = window.strokes; window.strokes = {}; return made")
    escape(report)
    ended = report.js("return window.strokes")
    dim = [float(alpha) for alpha in followed if float(alpha) < 0.5]
    assert dim
    assert followed["1"] >= len(way(report))  # what is lit, on the lines
    assert all(float(alpha) > 0.5 for alpha in ended)


def test_search_by_path_client_and_node(run: Path, show: Callable[[Path], Report]) -> None:
    report, story = show(run), read_run_data(run)
    request = story.diagram.requests[30]
    ask(report, f"client {request.client} seq {request.seq}")
    assert f"client {request.client}, seq {request.seq}: {request.path}" in report.find("followed").text
    begin, end = report.shown
    assert begin <= (request.sent - story.zero) / 1000 <= end
    same = [one for one in story.diagram.requests if one.path == request.path]
    ask(report, request.path)
    first = report.shown
    assert f"(1 of {len(same)}; Enter shows the next)" in report.find("followed").text
    report.find("wanted").send_keys(Keys.ENTER)
    report.settle()
    assert f"(2 of {len(same)}" in report.find("followed").text
    assert report.shown != first
    ask(report, "node 2")
    assert "what node 2 sent and received" in report.find("followed").text
    for unknown in ("77:1", "/no/such/path", "client 3 seq 999999"):
        ask(report, unknown)
        assert f"nothing is known of {unknown}" in report.find("followed").text


def test_the_keyboard_finds_an_arrow_and_enter_follows_it(run: Path, show: Callable[[Path], Report]) -> None:
    report, one = show(run), committed(read_run_data(run))
    ask(report, zx.show(zx.Zxid(one.content.last)))
    escape(report)
    canvas = report.find("messages")
    report.js("arguments[0].focus()", canvas)
    for key in [Keys.ARROW_LEFT] * 60 + [Keys.ARROW_RIGHT] * 120:
        canvas.send_keys(key)
        if "PROPOSE" in report.tip or "ACK" in report.tip or "accepted" in report.tip:
            break
    else:
        pytest.fail("the pointer met no message")
    canvas.send_keys(Keys.ENTER)
    report.settle()
    assert ":" in drawn(report)["followed"]
    canvas.send_keys(Keys.ESCAPE)
    assert drawn(report)["followed"] == ""


def test_a_click_on_an_arrow_follows_it(run: Path, show: Callable[[Path], Report]) -> None:
    report, one = show(run), committed(story := read_run_data(run))
    ask(report, zx.show(zx.Zxid(one.content.last)))
    escape(report)
    assert one.received is not None
    report.point(
        "messages", report.x(((one.sent + one.received) / 2 - story.zero) / 1000), (y(one.source) + y(one.target)) / 2
    )
    ActionChains(report.driver).click().perform()
    report.settle()
    assert ":" in drawn(report)["followed"]


def test_pings_are_hidden_by_default(run: Path, show: Callable[[Path], Report]) -> None:
    report = show(run)
    before = int(drawn(report)["arrows"])
    report.find("pings").click()
    report.settle()
    pings = [one for one in read_run_data(run).diagram.exchange.messages if one.content.kind == "PING"]
    assert int(drawn(report)["arrows"]) == before + len(pings)


def test_the_legend_lists_what_occurs(run: Path, show: Callable[[Path], Report]) -> None:
    report = show(run)
    words = report.find("kinds").text.split("\n")
    for kind in ("PROPOSE", "ACK", "COMMIT", "NEWLEADER", "VOTE", "request", "delivered", "established"):
        assert kind in words
    assert "paused" not in words
    assert "HISTORY" not in words


def test_from_the_verdict_to_the_two_writes_and_the_late_delivery_are_two_clicks(
    tmp_path: Path, show: Callable[[Path], Report]
) -> None:
    folder = simulated("defects/stale-primary", tmp_path / "results", "--defect", "stale-primary")
    report = show(folder)
    report.driver.find_element("xpath", "//summary[. = 'Also not fulfilled: values and versions']").click()
    buttons = report.driver.find_elements("css selector", "#violations .words button.follow")
    button = next(one for one in buttons if "sets /key-0" in one.find_element("xpath", "..").text)
    late, lost = str(button.get_attribute("data-follow")).split()
    button.click()
    report.settle()
    assert drawn(report)["followed"] == f"{late} {lost}"
    told = way(report)
    assert sum("request of client" in line for line in told) == 2
    broadcast = next(i for i, line in enumerate(told) if "broadcast 2:" in line)
    delivered = next(i for i, line in enumerate(told) if "delivered 1:" in line)
    assert broadcast < delivered  # of what it should have delivered before
    node = told[broadcast].split("  ")[1].split(" ")[1]
    assert f"node {node} delivered 1:" in told[delivered]
    begin, end = report.shown
    assert begin <= float(told[delivered].split(" ")[0]) * 1e6 <= end
    box = report.js(
        "const r = document.getElementById('messages').getBoundingClientRect(); return [r.top, r.bottom, innerHeight]"
    )
    assert 0 <= box[0] < box[1] <= box[2]  # the picture is on the screen
    assert {BLUE, RED} <= report.colours("messages")


def test_the_chain_leads_from_the_verdict_to_the_two_writes_and_the_late_delivery_with_one_key(
    tmp_path: Path, show: Callable[[Path], Report]
) -> None:
    """A lost update: a new primary answers before it has delivered what the old primary had broadcast."""
    report = show(simulated("defects/stale-primary", tmp_path / "results", "--defect", "stale-primary"))
    section = report.find("chain")
    assert section.location["y"] < report.find("violations").location["y"]
    faults = "that touched nodes 1 and 3: latency of leader = 3, at 1.000 s; crash of leader = 3, at 1.5"
    assert faults in section.text
    report.find("show-chain").send_keys(Keys.ENTER)
    report.settle()
    assert drawn(report)["followed"] == "the chain"
    told = way(report)
    broadcasts = [line for line in told if "broadcast 2:" in line]
    late = next(line for line in told if "node 1 delivered 1:4" in line)
    assert sum("request of client" in line for line in told) >= 2
    assert told.index(broadcasts[0]) < told.index(late)
    begin, end = report.shown
    assert begin <= 1.5e6 <= float(late.split(" ")[0]) * 1e6 <= end
    top, bottom, height = report.js(
        "const r = document.getElementById('messages').getBoundingClientRect(); return [r.top, r.bottom, innerHeight]"
    )
    assert 0 <= top < bottom <= height
    # What is lit is drawn: the late delivery's mark, in full colour, on the line of node 1.
    x = report.x(float(late.split(" ")[0]) * 1e6)
    assert GREEN in report.colours("messages", x - 4, y(1) + 6, 8, 8)
    escape(report)
    assert drawn(report)["followed"] == ""


def test_without_a_recording_it_says_why_and_draws_what_is_known(
    run: Path, tmp_path: Path, show: Callable[[Path], Report]
) -> None:
    folder = tmp_path / "bare"
    folder.mkdir()
    for part in ("run.json", "ops.jsonl", "faults.jsonl", "harness.jsonl", "trace"):
        (folder / part).symlink_to(run / part)
    report = show(folder)
    assert "Messages between nodes are missing: the run was not recorded" in report.find("pictures").text
    ask(report, "1:20")
    assert any("delivered" in line for line in way(report))
    assert GREEN in report.colours("messages")


@pytest.mark.parametrize("width", [420, 1400])
def test_it_fits_into_narrow_and_wide_windows(run: Path, show: Callable[[Path], Report], width: int) -> None:
    report = show(run)
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    report.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        report.settle()
        inner = report.js("return [document.documentElement.scrollWidth, innerWidth]")
        assert inner[0] <= inner[1]
        assert len(report.colours("messages")) > 5
    finally:
        report.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def busy(folder: Path, messages: int) -> RunData:
    """9,700 operations, and as many messages, of a run without a recording."""
    many(9_700).save(folder)
    story, draw = read_run_data(folder), Random(2)
    found = []
    for i in range(messages):
        sent = story.zero + i * (story.end - story.zero) // messages
        kind, z = draw.choice(["PROPOSE", "ACK", "COMMIT"]), zx.zxid(1, i // 6 + 1)
        source, target = draw.choice([(1, 2), (2, 1), (1, 3), (3, 1)])
        found.append(
            SentMessage(source, target, MessageContent(kind, 1, z, z), sent, sent + int(draw.expovariate(1e-6)))
        )
    story.diagram.exchange = Exchange(Messages(found))
    return story


def test_two_hundred_thousand_messages_are_a_small_page_that_opens_and_zooms(
    driver: webdriver.Chrome, tmp_path: Path
) -> None:
    file = tmp_path / "busy.html"
    file.write_text(page(busy(tmp_path / "run", 200_000)), encoding="utf-8")
    assert file.stat().st_size < 3_000_000
    report = Report(driver, file)
    assert int(drawn(report)["arrows"]) > 200_000
    frames = driver.execute_async_script(
        """const done = arguments[0], times = [], canvas = document.getElementById("messages");
        const box = canvas.getBoundingClientRect();
        const step = (now) => {
          times.push(now);
          if (times.length > 40) return done(times);
          const at = {deltaY: times.length < 20 ? -60 : 60, clientX: box.left + 500, clientY: box.top + 50};
          canvas.dispatchEvent(new WheelEvent("wheel", {...at, bubbles: true, cancelable: true}));
          return requestAnimationFrame(step);
        };
        requestAnimationFrame(step)"""
    )
    took = sorted(after - before for before, after in pairwise(frames))
    assert took[len(took) // 2] < 250  # milliseconds; a quiet machine needs 20
    assert report.driver.execute_script("return performance.getEntriesByType('navigation')[0].domComplete") < 10_000
    for _ in range(10):
        report.find("zoom-in").click()
    report.settle()
    assert drawn(report)["dense"] == "false"
    assert {BLUE, GREEN, PURPLE} <= report.colours("messages")
    report.assert_quiet()


def test_a_transcript_is_drawn_with_the_same_pictures(driver: webdriver.Chrome, tmp_path: Path) -> None:
    assert main(["show", "broadcast", "--out", str(tmp_path / "it.html")]) == 0
    report = Report(driver, tmp_path / "it.html")
    assert drawn(report)["arrows"] == "9"
    assert {BLUE, GREEN, PURPLE} <= report.colours("messages")
    assert BLUE in report.colours("lanes")
    ask(report, "1:3")
    told = way(report)
    assert any("PROPOSE 1:3" in line for line in told)
    assert not any("1:1" in line for line in told)
    assert told[0].startswith("step ")
    report.find("zoom-all").click()
    report.settle()
    report.point("messages", report.x(10_000_000), FIRST_LINE - 52 + 2 * GAP + 10)
    assert "node 3 delivered 1:1 to 1:2\nat step 10" in report.tip
    report.assert_quiet()
