// Connects the panels, the view and the controls, and redraws when something changes.
let printing = false;
const PRINTED = 1000; // width in CSS pixels for printing: paper has a fixed width
const panels = Object.entries({ faults: faultsPanel, lanes: lanesPanel, messages: messagesPanel, latency: latencyPanel, throughput: throughputPanel, lag: lagPanel })
  .map(([id, panel]) => Object.assign(panel, { canvas: document.getElementById(id) }))
  .filter((panel) => panel.canvas); // the page of a transcript has only two

function draw() {
  for (const panel of panels) {
    const width = printing ? PRINTED : Math.max(panel.canvas.clientWidth, 320);
    const area = (panel.area = prepare(panel.canvas, panel.height(), width));
    paintTime(area);
    if (panel !== faultsPanel) paintFaults(area);
    panel.draw(area);
    if (panel !== lanesPanel) for (const mark of run.marks) dashed(area, area.x(mark.t), [], theme.red);
    panel.words?.(area); // last, so that no line crosses them
  }
  document.getElementById("range").textContent = `${seconds(view.begin)} to ${seconds(view.end)}`;
  Object.assign(pictures.dataset, { begin: Math.round(view.begin), end: Math.round(view.end) });
}

let waiting = 0;
function drawSoon() {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(draw);
}

function drawAnew() {
  readTheme();
  drawSoon();
}

// Switches to printing and back. Prints use the light theme and a fixed width.
function paper(now) {
  printing = now;
  document.documentElement.classList.toggle("print", now);
  hideTip();
  readTheme();
  draw();
}

view.listeners.push(drawSoon, hideTip);
panels.forEach(listenTo);
new ResizeObserver(drawSoon).observe(pictures);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAnew);
addEventListener("beforeprint", () => paper(true));
addEventListener("afterprint", () => paper(false));

const middle = () => (view.begin + view.end) / 2;
const buttons = {
  "zoom-in": () => view.zoom(middle(), 0.5),
  "zoom-out": () => view.zoom(middle(), 2),
  "zoom-left": () => view.move(-0.25),
  "zoom-right": () => view.move(0.25),
  "zoom-all": view.all,
};
for (const [id, act] of Object.entries(buttons)) document.getElementById(id).addEventListener("click", act);
for (const button of document.querySelectorAll("button.show"))
  button.addEventListener("click", () => {
    view.show(Number(button.dataset.begin), Number(button.dataset.end));
    pictures.scrollIntoView();
  });

readTheme();
if (run.open) view.show(...run.open);
else view.all();
readExchange().then(() => {
  showLegend();
  listenToFollowing();
  pictures.dataset.exchange = "ready";
  draw();
});
