"""The HTML report in a real browser: what is drawn, what pointing and zooming do, and that nothing leaves the page."""

import base64
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import log10
from pathlib import Path
from random import Random
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.remote.webelement import WebElement

from tests.corpus.delivery import agreement_fork
from tests.corpus.story import Story, ensemble
from tests.unit.harness.report.html.analysed import analysed
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.report.html.campaign import run_from_verdict
from zab_chaos.harness.report.html.campaign_page import campaign_page
from zab_chaos.harness.runs.judgement import judge
from zab_chaos.pipeline.campaign import summary

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs Chromium and chromedriver: `make browser` installs them where it can"
)
LEFT, RIGHT = 78, 14  # the plot's edges in a canvas, in CSS pixels (harness/report/html/assets/paint.js)
BLUE, GREEN, RED = (0, 114, 178), (0, 158, 115), (213, 94, 0)
INK, HATCH = (27, 31, 36), (138, 147, 158)
SECOND = 10**9


class Report:
    """A report that is open in the browser."""

    def __init__(self, driver: webdriver.Chrome, file: Path) -> None:
        self.driver = driver
        driver.get_log("browser")  # what an earlier page said
        driver.get_log("performance")
        driver.get(file.as_uri())
        self.settle()
        self.read()

    def settle(self) -> None:
        """Wait until what was asked for is painted."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))"
        )

    def read(self) -> None:
        """Wait until a run's messages are unpacked."""
        self.driver.execute_async_script(
            """const done = arguments[0], pictures = document.getElementById("pictures");
            const look = () => (!pictures || pictures.dataset.exchange ? done() : setTimeout(look, 5));
            look()"""
        )

    def find(self, name: str) -> WebElement:
        return self.driver.find_element("id", name)

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    @property
    def shown(self) -> tuple[int, int]:
        """The visible time in microseconds."""
        return self.js("const it = document.getElementById('pictures').dataset; return [+it.begin, +it.end]")

    @property
    def tip(self) -> str:
        return self.find("tip").text

    def x(self, t: float) -> float:
        """Return the position of a time (microseconds) in a canvas, in CSS pixels from its left edge."""
        begin, end = self.shown
        return LEFT + (t - begin) / (end - begin) * (self.find("lanes").size["width"] - LEFT - RIGHT)

    def point(self, name: str, x: float, y: float) -> None:
        """Move the mouse to a place in a canvas, in CSS pixels from its upper left corner."""
        canvas = self.find(name)
        size = canvas.size
        self.js("arguments[0].scrollIntoView({block: 'center'})", canvas)
        ActionChains(self.driver, duration=0).move_to_element_with_offset(
            canvas, round(x - size["width"] / 2), round(y - size["height"] / 2)
        ).perform()

    def colours(
        self, name: str, x: float = 0, y: float = 0, width: float = 0, height: float = 0
    ) -> set[tuple[int, ...]]:
        """The opaque colours in a canvas, or in a part of it (CSS pixels)."""
        found = self.js(
            """const [canvas, x, y, width, height] = arguments, scale = canvas.width / canvas.clientWidth;
            const part = document.createElement("canvas");
            part.width = (width || canvas.clientWidth) * scale;
            part.height = (height || canvas.clientHeight) * scale;
            const ctx = part.getContext("2d", {willReadFrequently: true});
            ctx.drawImage(canvas, -x * scale, -y * scale);
            const data = ctx.getImageData(0, 0, part.width, part.height).data;
            const found = new Set();
            for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) found.add(data.slice(i, i + 3).join());
            return [...found]""",
            self.find(name), x, y, width, height,
        )  # fmt: skip
        return {tuple(map(int, one.split(","))) for one in found}

    def assert_quiet(self) -> None:
        """Assert that the console is empty, and that nothing but the page itself was requested."""
        assert self.driver.get_log("browser") == []
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        requests = [one["params"] for one in messages if one["method"] == "Network.requestWillBeSent"]
        # The browser's own first page (chrome://newtab) may still be loading its parts.
        sent = [one["request"]["url"] for one in requests if not one["documentURL"].startswith("chrome:")]
        assert sent == [self.driver.current_url]


@contextmanager
def resized(report: Report, width: int) -> Iterator[None]:
    """Set the width of the window in CSS pixels."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    report.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        report.settle()
        yield
    finally:
        report.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    profile = tmp_path_factory.mktemp("profile")
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1300,1000"):
        options.add_argument(argument)
    options.add_argument(f"--user-data-dir={profile}")
    if os.getuid() == 0:
        options.add_argument("--no-sandbox")  # which Chromium cannot have as root
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    driver.set_script_timeout(120)
    driver.get("about:blank")
    yield driver
    driver.quit()
    shutil.rmtree(profile, ignore_errors=True)


@pytest.fixture
def show(driver: webdriver.Chrome, tmp_path: Path) -> Iterator[Callable[..., Report]]:
    """Write the report of a run and open it. At the end, the console must be empty and nothing may have been requested."""
    opened: list[Report] = []

    def show(story: Story, judged: bool = True) -> Report:
        folder = tmp_path / "run"
        story.save(folder)
        if judged:
            folder.joinpath("verdict.json").write_bytes(judge(folder).to_json())
        assert main(["report", str(folder)]) == 0
        opened.append(Report(driver, folder / "report.html"))
        return opened[-1]

    yield show
    for report in opened:
        report.assert_quiet()
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def ordinary() -> Story:
    """Node 3 leads, is killed and restarted; a link is cut; writes take 1 ms each and are 100 ms apart."""
    story = Story(verdict="PASS")
    story.start()
    story.elect(3, 1)
    story.milestone("workload-started")
    for _ in range(10):
        story.write()
        story.t += SECOND // 10
    story.crash(3, heal=False)
    story.invoke()  # a write that is never answered
    story.t += SECOND // 2
    story.elect(2, 2)
    story.heal()
    story.boot(3)
    story.join(3)
    story.inject("partition", [1], pairs=[[1, 2]])
    story.t += SECOND // 2
    story.heal()
    for _ in range(10):
        story.write()
        story.t += SECOND // 10
    story.settle()
    return story


def many(count: int) -> Story:
    """Return the given number of operations, 5,000 per second. Some fail, and some are never answered."""
    story, draw = ordinary(), Random(1)
    lines: list[tuple[int, dict[str, Any]]] = []
    for i in range(count):
        due = SECOND + i * SECOND // 5000
        key = {"client": 9, "seq": i + 1, "node": i % 3 + 1}
        lines.append(
            (due, {"type": "invoke", "t": due, "due": due, "op": draw.choice(["set", "get"]), "path": "/b", **key})
        )
        if draw.random() < 0.99:
            end = due + int(draw.lognormvariate(2.5, 0.8) * 1e6)
            lines.append((end, {"type": "complete", "t": end, "outcome": draw.choice(["ok"] * 50 + ["failed"]), **key}))
    lines.sort(key=lambda line: line[0])
    story.files["ops.jsonl"] = [json.dumps(line) + "\n" for _, line in lines]
    return story


def test_the_lanes_show_who_led_and_who_was_down(show: Callable[..., Report]) -> None:
    report = show(ordinary())
    lane = {
        node: 22 + (node - 1) * 46 + 4 for node in (1, 2, 3)
    }  # the upper edges (harness/report/html/assets/lanes.js)
    before = report.x(500_000)
    assert BLUE in report.colours("lanes", before, lane[3] + 3, 8, 20)
    assert GREEN in report.colours("lanes", before, lane[2] + 3, 8, 20)
    down = report.x(1_250_000)
    assert not {BLUE, GREEN} & report.colours("lanes", down, lane[3] + 3, 8, 20)
    after = report.x(2_500_000)
    assert BLUE in report.colours("lanes", after, lane[2] + 3, 8, 20)
    assert GREEN in report.colours("lanes", after, lane[3] + 3, 8, 20)
    bands = [report.colours("lanes", x, lane[2] + 26, 4, 6) for x in (before, after)]
    assert bands[0].isdisjoint(bands[1])  # epochs 1 and 2


def test_every_picture_is_drawn(show: Callable[..., Report]) -> None:
    report = show(ordinary())
    for name in ("faults", "lanes", "latency", "throughput", "lag"):
        assert len(report.colours(name)) > 3, name
    assert RED in report.colours("faults", report.x(1_750_000), 20, 8, 30)  # the cut link
    assert {BLUE, RED} <= report.colours("latency")  # writes, and one without an answer


def test_pointing_shows_a_tooltip(show: Callable[..., Report]) -> None:
    report = show(ordinary())
    report.point("lanes", report.x(500_000), 22 + 2 * 46 + 20)
    assert "node 3, life 1: LEADING BROADCAST, epoch 1" in report.tip
    report.point("lanes", report.x(500_000), 22 + 46 + 20)
    assert "node 2, life 1: FOLLOWING BROADCAST, epoch 1\nfollows node 3\n" in report.tip
    report.point("lanes", report.x(1_250_000), 22 + 2 * 46 + 20)
    assert "node 3, life 1: down\ncrash (fault 1)" in report.tip
    report.point("faults", report.x(1_250_000), 8)
    assert report.tip.startswith("crash one = 3")
    report.point("faults", report.x(1_750_000), 20 + 8)
    assert report.tip.startswith("link 1→2 cut")
    report.point("throughput", report.x(1_250_000), 60)
    assert "no write was served" in report.tip
    report.point("lag", report.x(2_500_000), 60)
    assert "node 1: 0 behind" in report.tip
    report.point("lanes", 5, 5)  # beside the plot
    assert not report.find("tip").is_displayed()


def test_quantiles_are_of_successful_operations_and_the_last_interval_is_counted(show: Callable[..., Report]) -> None:
    """Six of ten operations fail after 1 s. The others succeed after 10 ms, but one of 40 after 100 ms, which is the p99."""
    story = ordinary()
    lines: list[tuple[int, dict[str, Any]]] = []
    for i in range(20_000):
        due, key = SECOND + i * SECOND // 5000, {"client": 9, "seq": i + 1, "node": 1}
        took, outcome = (SECOND, "failed") if i % 10 < 6 else (SECOND // (10 if i % 100 == 6 else 100), "ok")
        lines.append((due, {"type": "invoke", "t": due, "due": due, "op": "set", "path": "/b", **key}))
        lines.append((due + took, {"type": "complete", "t": due + took, "outcome": outcome, **key}))
    story.files["ops.jsonl"] = [json.dumps(line) + "\n" for _, line in sorted(lines, key=lambda line: line[0])]
    report = show(story)
    report.find("zoom-all").click()
    report.settle()
    middle = round(report.x(2_000_000))
    y = {ms: round(210 - log10(ms / 10) / log10(150) * 188) for ms in (100, 1000)}  # the scale is from 10 ms to 1.5 s
    assert INK in report.colours("latency", middle, y[100] - 2, 60, 4)
    assert INK not in report.colours("latency", middle, y[1000] - 2, 60, 4)
    throughput = report.find("throughput")
    report.js("arguments[0].focus()", throughput)
    throughput.send_keys("+++")
    report.settle()
    report.point("throughput", throughput.size["width"] - RIGHT - 2, 60)
    assert re.search(r"\n[12],?\d{3} ok/s, [23],?\d{3} failed/s", report.tip), report.tip  # 2,000 and 3,000, about


def test_a_fault_that_was_not_confirmed_is_grey(show: Callable[..., Report]) -> None:
    story = ordinary()
    story.inject("pause", [1], confirmed=False)
    story.t += SECOND
    story.heal()
    report = show(story)
    assert HATCH in report.colours("faults", report.x(3_500_000), 4, 60, 12)
    assert HATCH not in report.colours("faults", report.x(1_250_000), 4, 20, 12)


def test_wheel_drag_and_buttons_zoom_and_show_all_resets(show: Callable[..., Report]) -> None:
    report = show(ordinary())
    whole, middle = report.shown, report.x(1_500_000)
    report.point("latency", middle, 100)
    ActionChains(report.driver).scroll_from_origin(ScrollOrigin.from_element(report.find("latency")), 0, -250).perform()
    report.settle()
    begin, end = report.shown
    assert end - begin < 0.5 * (whole[1] - whole[0])
    report.find("zoom-all").click()
    report.settle()
    assert report.shown == whole

    left, right = report.x(1_000_000), report.x(2_000_000)
    report.point("lanes", left, 60)
    ActionChains(report.driver).click_and_hold().move_by_offset(round(right - left), 0).release().perform()
    report.settle()
    assert report.shown == pytest.approx((1_000_000, 2_000_000), abs=20_000)
    report.find("zoom-right").click()
    report.settle()
    assert report.shown == pytest.approx((1_250_000, 2_250_000), abs=20_000)
    ActionChains(report.driver).double_click(report.find("lag")).perform()
    report.settle()
    assert report.shown == whole


def test_the_time_of_a_short_chain_is_shown_first_and_show_all_shows_the_run(show: Callable[..., Report]) -> None:
    story = agreement_fork()
    story.t += 60 * SECOND
    story.milestone("converged")
    report = show(story)
    begin, end = report.shown
    assert end - begin < 6_000_000
    assert "At first the pictures show only the time" in report.find("pictures").text
    report.find("zoom-all").click()
    report.settle()
    begin, end = report.shown
    assert end - begin > 60_000_000


def test_the_keyboard_does_what_the_mouse_does(show: Callable[..., Report]) -> None:
    report = show(ordinary())
    whole, lanes = report.shown, report.find("lanes")
    report.js("arguments[0].focus()", lanes)
    lanes.send_keys(Keys.ARROW_RIGHT)
    first = report.tip
    assert first
    lanes.send_keys(*[Keys.ARROW_DOWN] * 3)
    assert report.tip != first
    lanes.send_keys("++")
    report.settle()
    begin, end = report.shown
    assert end - begin == pytest.approx((whole[1] - whole[0]) / 4, rel=0.01)
    lanes.send_keys(Keys.SHIFT, Keys.ARROW_RIGHT)
    report.settle()
    assert report.shown[0] > begin
    lanes.send_keys("0")
    report.settle()
    assert report.shown == whole
    assert {one.get_attribute("tabindex") for one in report.driver.find_elements("tag name", "canvas")} == {"0"}


def test_a_violations_evidence_is_on_the_lanes_and_one_click_away(show: Callable[..., Report]) -> None:
    report = show(agreement_fork())
    text = report.find("violations").text
    assert "quorum durability is violated" in text  # the headline; what follows from it is folded
    assert "agreement is violated" not in text
    report.driver.find_element("xpath", "//summary[starts-with(., 'Also not fulfilled: agreement')]").click()
    assert "agreement is violated" in report.find("violations").text
    assert RED in report.colours("lanes")
    button = report.driver.find_element("css selector", "#violations button.show")
    button.click()
    report.settle()
    begin, end = report.shown
    assert begin <= int(button.get_attribute("data-begin") or 0) + 50_000 <= end
    at = (int(button.get_attribute("data-begin") or 0) + int(button.get_attribute("data-end") or 0)) / 2
    number = report.driver.find_element("css selector", "#violations .mark").text
    words = [(report.point("lanes", report.x(at), 22 + lane * 46 + 19), report.tip)[1] for lane in range(3)]
    assert any(f"{number}: node" in word for word in words)


def test_a_sign_of_evidence_at_the_edge_does_not_cover_the_nodes_name(show: Callable[..., Report]) -> None:
    report = show(agreement_fork())
    button = report.driver.find_element("css selector", "#violations button.show")
    button.click()
    for _ in range(2):
        report.find("zoom-right").click()
    report.settle()
    at = (int(button.get_attribute("data-begin") or 0) + int(button.get_attribute("data-end") or 0)) / 2
    assert report.x(at) == pytest.approx(LEFT, abs=2)
    assert RED in report.colours("lanes", LEFT, 0, 30, 0)
    assert RED not in report.colours("lanes", 0, 0, LEFT - 4, 0)


@pytest.mark.parametrize("width", [420, 1400])
def test_nothing_is_cut_off(show: Callable[..., Report], width: int) -> None:
    report = show(ordinary())
    with resized(report, width):
        field = report.js(
            """const field = document.getElementById("wanted"), style = getComputedStyle(field);
            const ctx = document.createElement("canvas").getContext("2d");
            ctx.font = `${style.fontSize} ${style.fontFamily}`;
            const room = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
            return [ctx.measureText(field.placeholder).width, room]"""
        )
        assert field[0] < field[1]
        wide = "return [...document.querySelectorAll('.scroll')].map((it) => it.scrollWidth - it.clientWidth)"
        assert max(report.js(wide)) <= 0


def test_the_names_of_seven_nodes_take_as_many_rows_as_they_need(show: Callable[..., Report]) -> None:
    report = show(ensemble(7, seed=1))
    wide = report.find("lag").size["height"]
    with resized(report, 420):
        assert report.find("lag").size["height"] == wide + 2 * 16


def test_the_legends_explain_every_mark(show: Callable[..., Report]) -> None:
    report = show(agreement_fork())
    told = " ".join(one.text for one in report.driver.find_elements("css selector", "figure"))
    for sign in (
        "▲ established",
        "▼ truncated",
        "✕ stopped itself",
        "◆ snapshot",
        "link cut",
        "p99 (dashed)",
        "hatched",
    ):
        assert sign in told


def test_dark_and_light_are_both_drawn(show: Callable[..., Report]) -> None:
    report = show(ordinary())
    paper = report.js("return getComputedStyle(document.body).backgroundColor")
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    report.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": dark})
    report.settle()
    assert report.js("return getComputedStyle(document.body).backgroundColor") != paper
    assert BLUE not in report.colours("lanes")  # the dark theme's is lighter
    report.js("dispatchEvent(new Event('beforeprint'))")
    assert BLUE in report.colours("lanes")  # paper is light
    report.js("dispatchEvent(new Event('afterprint'))")
    assert BLUE not in report.colours("lanes")


def test_it_prints(show: Callable[..., Report]) -> None:
    report = show(ordinary())
    printed = report.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    document = base64.b64decode(printed["data"])
    assert document.startswith(b"%PDF")
    assert document.count(b"/Subtype /Image") >= 5  # the pictures are in it


def test_a_hundred_thousand_operations_can_be_zoomed_and_pointed_at(show: Callable[..., Report]) -> None:
    report = show(many(100_000), judged=False)
    assert report.js("return document.getElementsByTagName('*').length") < 2000
    assert {BLUE, GREEN, RED} <= report.colours("latency")
    report.point("latency", report.x(9_000_000), 120)
    assert "ops.jsonl:" in report.tip
    for _ in range(8):
        report.find("zoom-in").click()
    report.settle()
    begin, end = report.shown
    assert end - begin < 200_000
    assert BLUE in report.colours("latency")


def test_empty_and_hostile_folders_are_shown_without_console_messages(show: Callable[..., Report]) -> None:
    story = Story()
    story.run = {"scenario": "<script>window.broken = 1</script><img src=x onerror='window.broken = 2'>"}
    story.event(1, "abort", why="</script><script>window.broken = 3</script>")
    report = show(story, judged=False)
    assert "<script>" in report.driver.find_element("tag name", "h1").text
    assert report.js("return window.broken") is None


def test_the_page_of_a_campaign_logs_nothing_and_requests_nothing(driver: webdriver.Chrome, tmp_path: Path) -> None:
    for name, story in (("good", ordinary()), ("bad", agreement_fork())):
        story.save(tmp_path / name)
        tmp_path.joinpath(name, "verdict.json").write_bytes(judge(tmp_path / name).to_json())
    assert main(["report", str(tmp_path)]) == 0
    report = Report(driver, tmp_path / "campaign.html")
    cell = report.driver.find_element("css selector", ".cell.violation")
    assert report.js("return getComputedStyle(arguments[0]).backgroundColor", cell) == f"rgb{RED}"
    assert report.driver.find_elements("css selector", "svg .stroke")
    report.assert_quiet()


def test_the_pipelines_page_has_tooltips(driver: webdriver.Chrome, tmp_path: Path) -> None:
    verdicts = [analysed(name, seed) for name in ("leader-crash", "power-outage") for seed in range(1, 6)]
    runs = [run_from_verdict(it.path, it.facts, it.json) for it in verdicts]
    place = tmp_path / "report.html"
    place.write_text(campaign_page(runs, "ten runs", place, summary(verdicts)))
    report = Report(driver, tmp_path / "report.html")
    said = {}
    for place in (".matrix .cell", ".numbers td span", ".numbers th span", ".hit", "svg .stroke"):
        element = report.driver.find_element("css selector", place)
        report.js("arguments[0].scrollIntoView({block: 'center'})", element)
        ActionChains(driver).move_to_element(element).perform()
        said[place] = report.tip
        if place != "svg .stroke":  # two lie on each other there
            assert said[place] == element.get_attribute("data-tip"), place
    assert said["svg .stroke"].startswith("crash: 0.100 s, ")
    ActionChains(driver).move_to_element(report.driver.find_element("tag name", "h1")).perform()
    assert not report.find("tip").is_displayed()
    width = report.js("return [document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1]  # wide tables scroll in themselves
    report.assert_quiet()


def test_the_tables_of_a_campaign_are_sorted_and_filtered(driver: webdriver.Chrome, tmp_path: Path) -> None:
    verdicts = [analysed(name, seed) for name in ("leader-crash", "power-outage") for seed in range(1, 8)]
    runs = [run_from_verdict(it.path, it.facts, it.json) for it in verdicts]
    place = tmp_path / "report.html"
    place.write_text(campaign_page(runs, "fourteen runs", place, summary(verdicts)))
    report = Report(driver, place)

    def column(index: int) -> list[str]:
        rows = driver.find_elements("css selector", "#runs tbody tr")
        return [row.find_elements("tag name", "td")[index].text for row in rows if row.is_displayed()]

    seed = driver.find_elements("css selector", "#runs th")[2]
    assert sorted(column(2), key=int) != column(2)
    seed.find_element("tag name", "button").click()
    assert column(2) == sorted(column(2), key=int)
    assert seed.get_attribute("aria-sort") == "ascending"
    seed.find_element("tag name", "button").send_keys(Keys.ENTER)
    assert column(2) == sorted(column(2), key=int, reverse=True)
    words = driver.find_element("css selector", "#runs caption .filter input")  # below the heading of its table
    words.send_keys("POWER pass")
    assert column(1) == 7 * ["power-outage"]
    assert driver.find_element("css selector", "#runs .filter [role=status]").text == "7 of 14"
    words.send_keys(Keys.CONTROL, "a")
    words.send_keys("nothing like this")
    assert column(1) == []
    report.assert_quiet()
