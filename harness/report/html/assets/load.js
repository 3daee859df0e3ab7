// The panels of latency, throughput and commit lag.
const TOP = 10;

const latencyPanel = {
  height: () => 230,
  // [lowest, highest] in microseconds, of the whole run, so that zooming in time does not change the scale.
  limits: (() => {
    let low = Infinity, high = 0;
    for (const took of operations.took) if (took > 0) (low = Math.min(low, took)), (high = Math.max(high, took));
    return high ? [10 ** Math.floor(Math.log10(low)), high * 1.5] : [100, 1e6];
  })(),
  scale(area) {
    const ticks = [];
    for (let tick = latencyPanel.limits[0]; tick <= latencyPanel.limits[1]; tick *= 10) ticks.push(tick / 1000);
    const y = paintScale(area, TOP + 12, latencyPanel.limits[0] / 1000, latencyPanel.limits[1] / 1000, Math.log10, ticks, " ms");
    return (took) => y(Math.max(took, latencyPanel.limits[0]) / 1000);
  },
  // Returns where an operation is painted; one without an answer is on the upper edge.
  place: (i, area, y) => [area.x(operations.due[i]), operations.took[i] === UNANSWERED ? TOP : y(operations.took[i])],
  draw(area) {
    const y = (latencyPanel.y = latencyPanel.scale(area));
    const first = lowerBound(operations.due, view.begin), last = lowerBound(operations.due, view.end);
    const dots = new Dots(area);
    for (const rare of [false, true]) // failed ones are painted last, on top
      for (let i = first; i < last; i++)
        if (operations.kind[i] > 1 === rare) dots.stamp(operations.kind[i], ...latencyPanel.place(i, area, y));
    dots.show();
    paintQuantiles(area, y, first, last);
  },
  hit(area, x, y) {
    if (!latencyPanel.y) return null;
    let best = -1, distance = 100;
    const first = lowerBound(operations.due, area.t(x - 10)), last = lowerBound(operations.due, area.t(x + 10));
    for (let i = first; i < last; i++) {
      const [px, py] = latencyPanel.place(i, area, latencyPanel.y), far = (px - x) ** 2 + (py - y) ** 2;
      if (far < distance) (best = i), (distance = far);
    }
    return best < 0 ? null : operationWords(best);
  },
};

function operationWords(i) {
  const answer = operations.took[i] === UNANSWERED ? "never answered" : `after ${duration(operations.took[i])}`;
  return `${OPS[operations.op[i]]} at node ${operations.node[i]}: ${["ok", "failed", "unknown"][operations.outcome[i]]}, ${answer}\ndue at ${seconds(operations.due[i])}, ops.jsonl:${operations.line[i]}`;
}

// The signs as bitmaps, one CSS pixel for each character: write ●, read ○, failed ×, unknown ▲.
const SIGNS = [
  ["##", "##"],
  ["####", "#  #", "#  #", "####"],
  ["#    #", " #  # ", "  ##  ", "  ##  ", " #  # ", "#    #"],
  ["   #   ", "   #   ", "  ###  ", "  ###  ", " ##### ", "#######"],
];

// Paints hundreds of thousands of signs: sets pixels in memory and shows them at once, many times faster than drawing shapes.
class Dots {
  constructor(area) {
    this.area = area;
    this.scale = area.ctx.canvas.width / area.width;
    this.image = area.ctx.createImageData(area.ctx.canvas.width, area.ctx.canvas.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.colours = theme.kinds.map((colour) => Dots.pixel(colour));
    this.offsets = SIGNS.map((sign) => this.offsetsOf(sign));
  }
  // Returns a colour as a pixel in memory, in the byte order of the machine.
  static pixel(colour) {
    const ctx = document.createElement("canvas").getContext("2d");
    ctx.fillStyle = colour;
    ctx.fillRect(0, 0, 1, 1);
    return new Uint32Array(ctx.getImageData(0, 0, 1, 1).data.buffer)[0];
  }
  // Returns the offsets [x, y] of a sign's pixels from its middle, in pixels of the screen.
  offsetsOf(sign) {
    const found = [], step = this.scale, height = Math.round(sign.length * step), width = Math.round(sign[0].length * step);
    for (let y = 0; y < height; y++)
      for (let x = 0; x < width; x++)
        if (sign[Math.min(Math.floor(y / step), sign.length - 1)][Math.min(Math.floor(x / step), sign[0].length - 1)] === "#")
          found.push([x - (width >> 1), y - (height >> 1)]);
    return found;
  }
  stamp(kind, x, y) {
    const { width, height } = this.image, colour = this.colours[kind];
    const left = Math.round(x * this.scale), top = Math.round(y * this.scale);
    for (const [dx, dy] of this.offsets[kind]) {
      const px = left + dx, py = top + dy;
      if (px >= 0 && px < width && py >= 0 && py < height) this.pixels[py * width + px] = colour;
    }
  }
  show() {
    const layer = document.createElement("canvas");
    layer.width = this.image.width;
    layer.height = this.image.height;
    layer.getContext("2d").putImageData(this.image, 0, 0);
    this.area.ctx.drawImage(layer, 0, 0, this.area.width, this.area.height);
  }
}

// Paints p50 and p99 of the successful operations, for each 12 pixels of due time.
function paintQuantiles(area, y, first, last) {
  const bins = new Map();
  for (let i = first; i < last; i++) {
    if (operations.outcome[i]) continue;
    const bin = Math.floor(area.x(operations.due[i]) / 12);
    if (!bins.has(bin)) bins.set(bin, []);
    bins.get(bin).push(operations.took[i]);
  }
  for (const values of bins.values()) values.sort((a, b) => a - b);
  for (const [share, dashes] of [[0.5, []], [0.99, [6, 3]]]) {
    const points = [...bins].map(([bin, values]) => [bin * 12 + 6, y(values[Math.max(0, Math.ceil(share * values.length) - 1)]), bin]);
    path(area.ctx, points, theme.paper, dashes, 4);
    path(area.ctx, points, theme.ink, dashes, 1.6);
  }
}

// Paints a line through points [x, y, bin], with gaps where bins are missing.
function path(ctx, points, colour, dashes, width) {
  ctx.setLineDash(dashes);
  ctx.lineWidth = width;
  ctx.strokeStyle = colour;
  ctx.beginPath();
  points.forEach(([x, y, bin], i) => (i && points[i - 1][2] + 1 === bin ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.lineWidth = 1;
}

const throughputPanel = {
  height: () => 160,
  count(area) {
    const width = Math.max(roundStep(view.end - view.begin, (area.right - area.left) / 6), 1000);
    const first = Math.floor(view.begin / width), bins = Math.ceil(view.end / width) - first;
    const counts = [0, 1, 2].map(() => new Float64Array(bins));
    for (let i = 0; i < operations.count; i++) {
      const bin = Math.floor(operations.done[i] / width) - first;
      if (bin >= 0 && bin < bins) counts[operations.outcome[i]][bin]++;
    }
    return { width, first, bins, counts };
  },
  draw(area) {
    const counted = (throughputPanel.counted = throughputPanel.count(area)), { ctx } = area;
    const rate = 1e6 / counted.width;
    const most = Math.max(1, ...counted.counts.map((column) => column.reduce((a, b) => Math.max(a, b), 0))) * rate;
    const step = roundStep(most, 4), ticks = [];
    for (let tick = 0; tick <= most; tick += step) ticks.push(tick);
    const y = paintScale(area, TOP, 0, most, (value) => value, ticks, " /s");
    ctx.fillStyle = hatch(ctx, "paused");
    for (const one of run.windows) {
      ctx.globalAlpha = 0.3;
      const seen = fillClipped(area, area.x(one.begin), TOP, area.x(one.end), area.bottom - TOP);
      ctx.globalAlpha = 1;
      if (seen) label(ctx, duration(one.end - one.begin), seen, TOP + 10);
      ctx.fillStyle = hatch(ctx, "paused");
    }
    ctx.save();
    ctx.beginPath();
    ctx.rect(area.left, 0, area.right - area.left, area.bottom);
    ctx.clip();
    [theme.blue, theme.orange, theme.red].forEach((colour, outcome) => {
      const column = counted.counts[outcome], points = [];
      column.forEach((count, bin) => {
        const begin = area.x((counted.first + bin) * counted.width), end = area.x((counted.first + bin + 1) * counted.width);
        points.push([begin, y(count * rate), 2 * bin], [end, y(count * rate), 2 * bin + 1]);
      });
      if (outcome === 0 || column.some(Boolean)) path(ctx, points, colour, outcome ? [4, 2] : [], outcome ? 1.2 : 1.8);
    });
    ctx.restore();
  },
  hit(area, x) {
    const counted = throughputPanel.counted, t = area.t(x);
    if (!counted) return null;
    const bin = Math.floor(t / counted.width) - counted.first;
    const numbers = ["ok", "failed", "unknown"].map((name, outcome) => `${Math.round(((counted.counts[outcome][bin] || 0) * 1e6) / counted.width)} ${name}/s`);
    const from = (counted.first + bin) * counted.width;
    const gap = run.windows.find((one) => one.begin <= t && t <= one.end);
    const words = gap ? `\nno write was served from ${seconds(gap.begin)} to ${seconds(gap.end)}: ${duration(gap.end - gap.begin)}` : "";
    return `${seconds(from)}, ${duration(counted.width)} long\n${numbers.join(", ")}${words}`;
  },
};

const NAMED = 92; // width of a node's name in the legend, in CSS pixels

const lagPanel = {
  height: () => 154 + 16 * lagPanel.rows(),
  perRow: () => Math.max(1, Math.floor((lagPanel.canvas.clientWidth - LEFT - RIGHT) / NAMED)),
  rows: () => Math.ceil(run.nodes.length / lagPanel.perRow()),
  dashes: [[], [7, 3], [2, 2], [9, 3, 2, 3], [4, 4]],
  draw(area) {
    const { ctx } = area;
    const most = Math.max(10, run.lags.reduce((high, lag) => lag.before.reduce((a, b) => Math.max(a, b), high), 0));
    const ticks = [0];
    for (let tick = 1; tick <= most; tick *= 10) ticks.push(tick);
    const y = paintScale(area, TOP + 16 * lagPanel.rows(), 0, most, (value) => Math.log10(1 + value), ticks, "");
    ctx.save();
    ctx.beginPath();
    ctx.rect(area.left, 0, area.right - area.left, area.bottom);
    ctx.clip();
    for (const lag of run.lags) {
      const index = run.nodes.indexOf(lag.node), points = lagPanel.points(area, lag, y);
      path(ctx, points, theme.series[index % theme.series.length], lagPanel.dashes[index % lagPanel.dashes.length], 1.4);
    }
    ctx.restore();
  },
  // Returns a point for every delivery, or, if these are too dense, the highest lag of each 3 pixels.
  points(area, lag, y) {
    const first = Math.max(lowerBound(lag.t, view.begin) - 1, 0), last = Math.min(lowerBound(lag.t, view.end) + 1, lag.t.length);
    const points = [];
    if (last - first < area.width / 3) {
      for (let i = first; i < last; i++) {
        const x = area.x(lag.t[i]);
        points.push([x, y(lag.before[i]), 2 * i], [x, y(lag.after[i]), 2 * i + 1]);
      }
      return points;
    }
    const highest = new Map();
    for (let i = first; i < last; i++) {
      const bin = Math.floor(area.x(lag.t[i]) / 3);
      highest.set(bin, Math.max(highest.get(bin) || 0, lag.before[i], lag.after[i]));
    }
    [...highest].forEach(([bin, most], i) => points.push([bin * 3 + 1, y(most), i]));
    return points;
  },
  words({ ctx, left }) {
    run.nodes.forEach((node, index) => {
      const x = left + 6 + (index % lagPanel.perRow()) * NAMED, y = 8 + 16 * Math.floor(index / lagPanel.perRow());
      path(ctx, [[x, y, 0], [x + 26, y, 1]], theme.series[index % theme.series.length], lagPanel.dashes[index % lagPanel.dashes.length], 2);
      label(ctx, `node ${node}`, [x + 28, x + NAMED], y);
    });
  },
  hit(area, x) {
    const t = area.t(x);
    const words = run.lags.map((lag) => {
      if (!(lag.t[0] <= t && t <= lag.t[lag.t.length - 1])) return null;
      return `node ${lag.node}: ${lag.after[Math.max(0, lowerBound(lag.t, t) - 1)]} behind after its last delivery`;
    });
    const known = words.filter(Boolean);
    return known.length ? `${seconds(t)}\n${known.join("\n")}` : null;
  },
};
