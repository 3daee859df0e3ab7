// Painting functions that all panels share: canvas, colours of the theme, hatching, time axis, shading of faults.
const LEFT = 78, RIGHT = 14, AXIS = 20; // margins in CSS pixels; the time axis is below every panel
let theme = {};

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const names = ["paper", "ink", "faint", "line", "panel", "shade", "blue", "green", "orange", "yellow", "sky", "red", "purple", "hatch", "on-fill", "on-blue"];
  theme = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  theme.kinds = [theme.blue, theme.green, theme.orange, theme.red];
  theme.series = [theme.blue, theme.orange, theme.green, theme.purple, theme.sky, theme.red, theme.ink];
}

// Clears a canvas, sets its size (CSS pixels; the bitmap has the screen's resolution), and returns its drawing area and time scale.
function prepare(canvas, height, width) {
  const scale = Math.max(window.devicePixelRatio || 1, printing ? 2 : 1);
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = `${height}px`;
  const ctx = canvas.getContext("2d");
  ctx.setTransform(scale, 0, 0, scale, 0, 0);
  ctx.font = "12px system-ui, 'Liberation Sans', 'DejaVu Sans', sans-serif";
  ctx.textBaseline = "middle";
  const left = LEFT, right = width - RIGHT, bottom = height - AXIS;
  const perMicro = (right - left) / (view.end - view.begin);
  const x = (t) => left + (t - view.begin) * perMicro;
  return { ctx, width, height, left, right, bottom, x, t: (at) => view.begin + (at - left) / perMicro };
}

// Returns a round step (1, 2 or 5 times a power of ten) of which about `many` fit into `span`.
function roundStep(span, many) {
  const raw = span / many, power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= raw);
}

function paintTime(area) {
  const { ctx } = area;
  const step = roundStep(view.end - view.begin, Math.max(area.width / 110, 2));
  const digits = Math.max(0, Math.ceil(6 - Math.log10(step)));
  if (run.steps && step < 1e6) return;
  ctx.textAlign = "center";
  for (let t = Math.ceil(view.begin / step) * step; t <= view.end; t += step) {
    const x = Math.round(area.x(t)) + 0.5;
    line(ctx, theme.line, x, 0, x, area.bottom + 4);
    ctx.fillStyle = theme.faint;
    ctx.fillText(timeWords(t, digits), x, area.height - 8);
  }
}

function line(ctx, colour, x1, y1, x2, y2) {
  ctx.strokeStyle = colour;
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.stroke();
}

// Shades the time of each fault, behind everything else: dashed line at the injection, dotted line at the healing.
function paintFaults(area) {
  const { ctx } = area;
  for (const fault of run.faults) {
    const begin = area.x(fault.begin), end = fault.end === null ? begin : area.x(fault.end);
    ctx.fillStyle = theme.shade;
    if (!fault.mends) fillClipped(area, begin, 0, end, area.bottom);
    dashed(area, begin, [5, 4], theme.faint);
    if (fault.end !== null) dashed(area, end, [1, 4], theme.faint);
  }
}

function dashed(area, x, dashes, colour) {
  if (x < area.left || x > area.right) return;
  area.ctx.setLineDash(dashes);
  line(area.ctx, colour, x, 0, x, area.bottom);
  area.ctx.setLineDash([]);
}

// Fills a rectangle from x1 to x2, clipped to the plot. Returns its visible part [begin, end], or null.
function fillClipped(area, x1, y, x2, height) {
  const begin = Math.max(x1, area.left), end = Math.min(Math.max(x2, x1 + 1), area.right);
  if (end <= begin) return null;
  area.ctx.fillRect(begin, y, end - begin, height);
  return [begin, end];
}

// Returns a hatching that is also visible in black and white. `kind`: down, paused, amnesiac.
function hatch(ctx, kind) {
  const tile = document.createElement("canvas"), size = kind === "down" ? 8 : 5;
  tile.width = tile.height = size;
  const paint = tile.getContext("2d");
  paint.strokeStyle = kind === "down" ? theme.hatch : theme.ink;
  paint.fillStyle = theme.ink;
  paint.lineWidth = kind === "down" ? 1 : 1.6;
  if (kind === "amnesiac") paint.fillRect(1, 1, 2, 2);
  else
    for (const shift of [-size, 0, size]) line(paint, paint.strokeStyle, shift, size, shift + size, 0);
  return ctx.createPattern(tile, "repeat");
}

// Writes text inside [begin, end] if it fits. Returns whether it did.
function fitText(ctx, text, begin, end, y, colour) {
  if (ctx.measureText(text).width > end - begin - 6) return false;
  ctx.fillStyle = colour;
  ctx.textAlign = "left";
  ctx.fillText(text, begin + 3, y);
  return true;
}

// Like fitText, but on a filled background, so that it is readable on hatching.
function label(ctx, text, [begin, end], y, ground = theme.paper, colour = theme.ink) {
  const width = ctx.measureText(text).width;
  if (width > end - begin - 6) return false;
  ctx.fillStyle = ground;
  ctx.fillRect(begin + 1, y - 7, width + 4, 14);
  return fitText(ctx, text, begin, end, y, colour);
}

function rowName(area, text, y) {
  area.ctx.fillStyle = theme.ink;
  area.ctx.textAlign = "right";
  area.ctx.fillText(text, area.left - 8, y);
}

// Paints the ticks of the y axis. Returns its scale: value -> pixel.
function paintScale(area, top, from, to, transform, ticks, unit) {
  const low = transform(from), high = transform(to), height = area.bottom - top;
  const y = (value) => area.bottom - ((transform(value) - low) / (high - low || 1)) * height;
  for (const tick of ticks) {
    line(area.ctx, theme.line, area.left, Math.round(y(tick)) + 0.5, area.right, Math.round(y(tick)) + 0.5);
    area.ctx.fillStyle = theme.faint;
    area.ctx.textAlign = "right";
    area.ctx.fillText(`${tick.toLocaleString("en")}${unit}`, area.left - 6, y(tick));
  }
  return y;
}
