// Pointing, zooming and moving with mouse and keyboard.
const tip = document.getElementById("tip");
const pictures = document.getElementById("pictures");
const cursor = add("cursor"), selection = add("selection");

function add(id) {
  const box = document.createElement("div");
  box.id = id;
  box.hidden = true;
  box.setAttribute("aria-hidden", "true");
  return pictures.appendChild(box);
}

function hideTip() {
  tip.hidden = cursor.hidden = true;
}

// Shows the tooltip for (x, y) of a panel's canvas, and a line through all panels at that time.
function point(panel, x, y) {
  const within = x >= panel.area.left && x <= panel.area.right;
  const words = within ? panel.hit(panel.area, x, y) || seconds(panel.area.t(x)) : null;
  if (words === null) return hideTip();
  panel.at = [x, y];
  tip.textContent = words;
  tip.hidden = cursor.hidden = false;
  const outer = pictures.getBoundingClientRect(), inner = panel.canvas.getBoundingClientRect();
  const left = inner.left - outer.left + x, top = inner.top - outer.top + y;
  const first = panels[0].canvas.getBoundingClientRect().top - outer.top;
  const last = panels[panels.length - 1].canvas.getBoundingClientRect().bottom - outer.top;
  place(cursor, left, first, 1, last - first);
  tip.style.left = `${Math.max(0, left + 14 + tip.offsetWidth > outer.width ? left - 14 - tip.offsetWidth : left + 14)}px`;
  tip.style.top = `${top + 16}px`;
  return undefined;
}

function place(box, left, top, width, height) {
  Object.assign(box.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
}

function listenTo(panel) {
  const { canvas } = panel;
  let drag = null;
  canvas.addEventListener("wheel", (event) => {
    const factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY / 250)));
    if (factor === 1 || (factor > 1 && view.isWhole())) return; // the page scrolls on
    event.preventDefault();
    view.zoom(panel.area.t(event.offsetX), factor);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button || event.pointerType === "touch") return;
    drag = { x: event.offsetX, moves: event.shiftKey, begin: view.begin, end: view.end };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return point(panel, event.offsetX, event.offsetY);
    hideTip();
    if (!drag.moves) return select(panel, drag.x, event.offsetX);
    const micros = ((drag.x - event.offsetX) * (drag.end - drag.begin)) / (panel.area.right - panel.area.left);
    return view.show(drag.begin + micros, drag.end + micros);
  });
  canvas.addEventListener("pointerup", (event) => {
    selection.hidden = true;
    const [begin, end] = [drag ? drag.x : 0, event.offsetX].sort((a, b) => a - b);
    if (drag && !drag.moves && end - begin > 4) view.show(panel.area.t(begin), panel.area.t(end));
    else if (drag && !drag.moves && panel.act) panel.act(panel.area, event.offsetX, event.offsetY);
    drag = null;
  });
  canvas.addEventListener("pointercancel", () => ((drag = null), (selection.hidden = true)));
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("blur", hideTip);
  canvas.addEventListener("dblclick", view.all);
  canvas.addEventListener("keydown", (event) => onKey(panel, event));
}

function select(panel, from, to) {
  const outer = pictures.getBoundingClientRect(), inner = panel.canvas.getBoundingClientRect();
  selection.hidden = false;
  place(selection, inner.left - outer.left + Math.min(from, to), inner.top - outer.top, Math.abs(to - from), inner.height);
}

function onKey(panel, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { area } = panel, [x, y] = panel.at || [(area.left + area.right) / 2, area.bottom / 2];
  const to = (nextX, nextY) => point(panel, Math.max(area.left, Math.min(area.right, nextX)), Math.max(2, Math.min(area.bottom - 2, nextY)));
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step && event.shiftKey) view.move(step * 0.1);
  else if (step) to(x + step * 8, y);
  else if (event.key === "ArrowUp") to(x, y - 12);
  else if (event.key === "ArrowDown") to(x, y + 12);
  else if (event.key === "+" || event.key === "=") view.zoom(area.t(x), 0.5);
  else if (event.key === "-") view.zoom(area.t(x), 2);
  else if (event.key === "0" || event.key === "Home") view.all();
  else if (event.key === "Enter" && panel.act) panel.act(area, x, y);
  else if (event.key === "Escape") hideTip();
  else return;
  event.preventDefault();
}
