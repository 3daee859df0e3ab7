// The space-time diagram: a line for each node and one for the clients, an arrow for each message. If there are too many
// messages for arrows, strips show how many were sent on each link.
const CLIENT_LINE = 38, FIRST_LINE = run.steps ? 38 : 90, STRIP = 9; // a transcript has no clients
const SOLID = [], ANSWERS = [2, 3], DECIDES = [9, 3], OTHERS = [9, 3, 2, 3]; // the role of a message in its phase; the colour is the phase
const LOOKS = {
  VOTE: ["faint", ANSWERS], PING: ["faint", [1, 4]],
  CEPOCH: ["orange", OTHERS], NEWEPOCH: ["orange", SOLID], "ACK-E": ["orange", ANSWERS], FETCH: ["orange", DECIDES], HISTORY: ["orange", DECIDES],
  NEWLEADER: ["sky", SOLID], "ACK-LD": ["sky", ANSWERS], "COMMIT-LD": ["sky", DECIDES], CONFIRM: ["sky", OTHERS], "ACK-CONFIRM": ["sky", OTHERS], MEMBER: ["sky", OTHERS],
  PROPOSE: ["blue", SOLID], ACK: ["green", ANSWERS], COMMIT: ["purple", DECIDES],
  request: ["ink", SOLID], answer: ["ink", ANSWERS], FORWARD: ["ink", OTHERS],
};
const LABELLED = 70; // arrows in view; with more, their names would hide them
let pings = false;

const messagesPanel = {
  gap: () => Math.max(70, 26 + STRIP * run.nodes.length),
  height: () => FIRST_LINE + (run.nodes.length - 1) * messagesPanel.gap() + 20 + STRIP * run.nodes.length + AXIS,
  y: (line) => (line === CLIENTS ? CLIENT_LINE : FIRST_LINE + run.nodes.indexOf(line) * messagesPanel.gap()),
  draw(area) {
    if (!run.steps) rowName(area, "clients", CLIENT_LINE);
    for (const node of run.nodes) rowName(area, `node ${node}`, messagesPanel.y(node));
    paintLifeLines(area);
    if (!exchange.ready) return;
    const seen = (messagesPanel.seen = inView(area));
    Object.assign(messagesPanel.canvas.dataset, { arrows: seen.many, dense: seen.dense });
    if (seen.dense) paintStrips(area, seen);
    clipped(area, () => {
      if (!seen.dense) paintArrows(area, seen);
      if (followed) paintFollowed(area);
      paintSteps(area, seen);
    });
  },
  words: (area) => exchange.ready && saySize(area),
  hit(area, x, y) {
    const found = messagesPanel.pointed(area, x, y);
    if (found.length) return found.slice(0, 3).map((one) => one.words()).join("\n\n") + (found.length > 3 ? `\n\nand ${found.length - 3} more` : "");
    const strip = exchange.ready && messagesPanel.seen?.dense && stripAt(area, x, y);
    if (strip) return strip;
    const node = run.nodes.find((one) => Math.abs(messagesPanel.y(one) - y) < 12);
    return node === undefined ? null : stretchWords(node, area.t(x));
  },
  // Returns the marks and arrows near (x, y), the nearest first. `zxid`: the transaction to follow on a click, 0 if none.
  pointed(area, x, y) {
    if (!exchange.ready || !messagesPanel.seen) return [];
    const near = [];
    for (const i of messagesPanel.seen.marks) {
      const [px, py] = markPlace(area, i), far = Math.hypot(px - x, py - y);
      if (far < 7) near.push({ far: far - 6, zxid: exchange.steps.first[i], words: () => stepWords(i) });
    }
    const drawn = messagesPanel.seen.dense ? (followed ? [...followed.arrows] : []) : messagesPanel.seen.arrows;
    for (const i of drawn) {
      const far = distance(arrowPlace(area, i), x, y);
      if (far < 6) near.push({ far, zxid: zxidOfArrow(i), request: exchange.arrows.type[i] === MESSAGE ? null : exchange.arrows.index[i], words: () => arrowWords(i) });
    }
    return near.sort((a, b) => a.far - b.far);
  },
  act(area, x, y) {
    const one = messagesPanel.pointed(area, x, y).find((it) => it.zxid || it.request !== undefined);
    if (one?.zxid) follow(zxidWords(one.zxid));
    else if (one && one.request !== null && one.request !== undefined) followRequests([one.request], 0);
  },
};

function clipped(area, paint) {
  const { ctx } = area;
  ctx.save();
  ctx.beginPath();
  ctx.rect(area.left, 0, area.right - area.left, area.bottom);
  ctx.clip();
  paint();
  ctx.restore();
}

// Returns whether an arrow is in view. A message that was never received counts at the time of its sending.
function isSeen(i) {
  const { end, sent, ping } = exchange.arrows;
  return !((end[i] || sent[i]) < view.begin) && (pings || !ping[i]);
}

// Returns the number of arrows in view, and which arrows and marks to draw: all, or, if they are too many, only rare marks.
function inView(area) {
  const { arrows: all, steps } = exchange, arrows = [], marks = [];
  const first = lowerBound(all.reach, view.begin), last = lowerBound(all.sent, view.end);
  let many = 0;
  for (let i = first; i < last; i++) if (isSeen(i)) many++;
  const dense = many > Math.max(160, (area.right - area.left) * 0.7);
  if (!dense) for (let i = first; i < last; i++) if (isSeen(i)) arrows.push(i);
  const until = lowerBound(steps.t, view.end);
  for (let i = lowerBound(steps.t, view.begin); i < until; i++) if (!dense || steps.rare[i] || followed?.steps.has(i)) marks.push(i);
  return { first, last, many, arrows, marks, dense };
}

// ---- the lines ----

function paintLifeLines(area) {
  const { ctx } = area;
  clipped(area, () => {
    if (!run.steps) line(ctx, theme.faint, area.left, CLIENT_LINE, area.right, CLIENT_LINE);
    for (const one of run.alive) line(ctx, theme.faint, area.x(one.begin), messagesPanel.y(one.node), area.x(one.end), messagesPanel.y(one.node));
    for (const stretch of run.lanes) {
      if (stretch.state === "down") continue;
      const y = messagesPanel.y(stretch.node);
      ctx.lineWidth = stretch.role === "LEADING" ? 3.5 : 1.2;
      line(ctx, theme.ink, area.x(stretch.begin), y, area.x(stretch.end), y);
    }
    ctx.lineWidth = 6;
    ctx.setLineDash([2, 4]);
    for (const one of run.pauses) line(ctx, theme.hatch, area.x(one.begin), messagesPanel.y(one.node), area.x(one.end), messagesPanel.y(one.node));
    ctx.setLineDash([]);
    ctx.lineWidth = 1;
    for (const stretch of run.lanes) if (stretch.state === "down") paintMark(ctx, "crash", area.x(stretch.begin), messagesPanel.y(stretch.node));
    for (const one of run.alive) if (one.end < run.end) paintMark(ctx, "crash", area.x(one.end), messagesPanel.y(one.node));
  });
}

// Writes how many messages are in view, in the longest sentence that fits.
function saySize(area) {
  const { dense } = messagesPanel.seen, many = messagesPanel.seen.many.toLocaleString("en");
  const sentences = dense ? [`${many} messages: how many on each link; zoom in to see the messages`, `${many} messages; zoom in to see them`, `${many}; zoom in`] : [];
  if (!messagesPanel.seen.many) sentences.push("nothing was sent in this time");
  sentences.some((words) => label(area.ctx, words, [area.left, area.right], 10));
}

// ---- arrows ----

// Returns [x1, y1, x2, y2, lost]. The arrow of a message that was never received ends half-way.
function arrowPlace(area, i) {
  const { arrows: all } = exchange, x1 = area.x(all.sent[i]), y1 = messagesPanel.y(all.from[i]), y2 = messagesPanel.y(all.to[i]);
  if (Number.isNaN(all.end[i])) return [x1, y1, x1 + 10, y1 + (y2 - y1) * 0.45, true];
  return [x1, y1, area.x(all.end[i]), y2, false];
}

function distance([x1, y1, x2, y2], x, y) {
  const dx = x2 - x1, dy = y2 - y1, along = Math.max(0, Math.min(1, ((x - x1) * dx + (y - y1) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(x - x1 - along * dx, y - y1 - along * dy);
}

function paintArrows(area, seen) {
  area.ctx.globalAlpha = followed ? 0.1 : 1;
  for (const i of seen.arrows) paintArrow(area, i);
  area.ctx.globalAlpha = 1;
  if (!followed && seen.arrows.length <= LABELLED) nameArrows(area, seen.arrows);
}

function paintArrow(area, i, width = exchange.arrows.type[i] === MESSAGE ? 1.3 : 0.7) {
  const { ctx } = area, [colour, dashes] = LOOKS[kindOf(i)] || ["ink", OTHERS], [x1, y1, x2, y2, lost] = arrowPlace(area, i);
  ctx.lineWidth = width;
  ctx.setLineDash(dashes);
  line(ctx, theme[colour], x1, y1, x2, y2);
  ctx.setLineDash([]);
  ctx.lineWidth = 1;
  if (lost) paintCross(ctx, x2, y2, 4, theme.red);
  else paintHead(ctx, x1, y1, x2, y2, theme[colour]);
}

function paintHead(ctx, x1, y1, x2, y2, colour) {
  const length = Math.hypot(x2 - x1, y2 - y1) || 1, ux = (x2 - x1) / length, uy = (y2 - y1) / length;
  ctx.fillStyle = colour;
  polygon(ctx, [[x2, y2], [x2 - 8 * ux - 3 * uy, y2 - 8 * uy + 3 * ux], [x2 - 8 * ux + 3 * uy, y2 - 8 * uy - 3 * ux]]);
  ctx.fill();
}

function paintCross(ctx, x, y, size, colour) {
  ctx.lineWidth = 2;
  line(ctx, colour, x - size, y - size, x + size, y + size);
  line(ctx, colour, x - size, y + size, x + size, y - size);
  ctx.lineWidth = 1;
}

function polygon(ctx, points) {
  ctx.beginPath();
  points.forEach(([x, y], i) => (i ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
  ctx.closePath();
}

// Writes the names of the arrows where they do not overlap.
function nameArrows(area, which) {
  const { ctx } = area, taken = run.nodes.concat(CLIENTS).map((node) => [area.left, messagesPanel.y(node) - 12, area.right, messagesPanel.y(node) + 12]);
  for (const i of which) {
    const words = shortWords(i), width = ctx.measureText(words).width + 4, [x1, y1, x2, y2] = arrowPlace(area, i);
    for (const share of [0.5, 0.35, 0.65, 0.25, 0.75]) {
      const x = x1 + (x2 - x1) * share, y = y1 + (y2 - y1) * share, box = [x - width / 2, y - 7, x + width / 2, y + 7];
      if (box[0] < area.left || box[2] > area.right || taken.some((other) => overlap(box, other))) continue;
      taken.push(box);
      label(ctx, words, [box[0] - 1, box[2] + 6], y);
      break;
    }
  }
}

const overlap = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];

// Returns a short name: `PROPOSE 1:4`, `COMMIT 1:4`, `NEWEPOCH 2`.
function shortWords(i) {
  const { arrows: all, messages } = exchange, kind = kindOf(i), index = all.index[i];
  if (all.type[i] === REQUEST || all.type[i] === ANSWER) return `${kind} ${exchange.clients[exchange.requests.client[index]]}/${exchange.requests.seq[index]}`;
  if (all.type[i] === FORWARD) return kind;
  const last = messages.last[index], first = messages.first[index];
  if (["PROPOSE", "ACK", "COMMIT"].includes(kind)) return `${kind} ${first === last ? "" : `${zxidWords(first)}–`}${zxidWords(last)}`;
  return kind === "VOTE" || kind === "PING" ? kind : `${kind} ${messages.epoch[index]}`;
}

// ---- how many on each link ----

const BIN = 3; // CSS pixels

// Returns the y of the strip for messages from `from` to `to`: below the sender's line, one strip for each receiver.
function stripPlace(from, to) {
  const others = [CLIENTS, ...run.nodes].filter((one) => one !== from && !(from === CLIENTS && one === CLIENTS));
  if (from === CLIENTS) return CLIENT_LINE + 6;
  return messagesPanel.y(from) + 11 + others.indexOf(to) * STRIP;
}

function countLinks(area, seen) {
  const { type, from, to, sent, end } = exchange.arrows, bins = Math.ceil((area.right - area.left) / BIN), links = [];
  const perMicro = (area.right - area.left) / BIN / (view.end - view.begin), size = 1 + Math.max(0, ...run.nodes), found = [];
  for (let i = lowerBound(sent, view.begin); i < seen.last; i++) {
    if (type[i] === FORWARD || !isSeen(i)) continue;
    const target = from[i] === CLIENTS ? CLIENTS : to[i], key = from[i] * size + target;
    const link = links[key] || (links[key] = found[found.push({ from: from[i], to: target, sent: new Uint32Array(bins), lost: new Uint32Array(bins) }) - 1]);
    const bin = Math.min(bins - 1, Math.floor((sent[i] - view.begin) * perMicro));
    link.sent[bin]++;
    if (end[i] !== end[i]) link.lost[bin]++; // NaN
  }
  return found;
}

function paintStrips(area, seen) {
  const { ctx } = area, links = (messagesPanel.links = countLinks(area, seen));
  const most = links.reduce((high, link) => link.sent.reduce((a, b) => Math.max(a, b), high), 1);
  const dim = followed && !followed.node ? 0.35 : 1;
  area.ctx.font = area.ctx.font.replace("12px", "9px");
  for (const link of links) {
    const y = stripPlace(link.from, link.to), lit = !followed?.node || [link.from, link.to].includes(followed.node);
    stripName(area, link, y + STRIP / 2 - 1);
    for (let bin = 0; bin < link.sent.length; bin++) {
      if (!link.sent[bin]) continue;
      const lost = link.lost[bin] > 0;
      ctx.globalAlpha = (lost ? 1 : 0.25 + 0.75 * Math.sqrt(link.sent[bin] / most)) * (lit ? dim : 0.15);
      ctx.fillStyle = lost ? theme.red : link.from === CLIENTS || link.to === CLIENTS ? theme.faint : theme.blue;
      ctx.fillRect(area.left + bin * BIN, y, BIN, STRIP - 2);
    }
  }
  ctx.globalAlpha = 1;
  area.ctx.font = area.ctx.font.replace("9px", "12px");
}

// Writes the receiver of a strip, in small letters.
function stripName(area, link, y) {
  const { ctx } = area;
  ctx.globalAlpha = 1;
  ctx.fillStyle = theme.faint;
  ctx.textAlign = "right";
  ctx.fillText(link.from === CLIENTS ? "→nodes" : link.to === CLIENTS ? "→clients" : `→${link.to}`, area.left - 8, y);
}

function stripAt(area, x, y) {
  const link = messagesPanel.links.find((one) => y >= stripPlace(one.from, one.to) - 1 && y < stripPlace(one.from, one.to) + STRIP - 1);
  if (!link) return null;
  const bin = Math.floor((x - area.left) / BIN), begin = area.t(area.left + bin * BIN), end = area.t(area.left + (bin + 1) * BIN);
  const lost = link.lost[bin] ? `, ${link.lost[bin]} of them never received` : "";
  const name = link.from === CLIENTS ? "requests of the clients" : link.to === CLIENTS ? `answers of node ${link.from}` : `node ${link.from} → node ${link.to}`;
  return `${name}: ${link.sent[bin] || 0}${lost}\nsent from ${precise(begin)} to ${precise(end)}`;
}

// ---- marks ----

const RARE = new Set(["established", "accepted_epoch", "current_epoch", "truncate", "restored", "boot"]);
const ABOVE = new Set(["broadcast", "established"]);

// Returns where a mark is painted: above the node's line what it broadcasts, below it what it delivers, on it what is durable.
function markPlace(area, i) {
  const { steps } = exchange, kind = steps.kind[i], shift = ABOVE.has(kind) ? -10 : kind === "deliver" || kind === "restored" ? 10 : 0;
  return [area.x(steps.t[i]), messagesPanel.y(steps.node[i]) + shift];
}

function paintSteps(area, seen) {
  for (const i of seen.marks) {
    const lit = !followed || followed.steps.has(i) || followed.node === exchange.steps.node[i];
    area.ctx.globalAlpha = lit ? 1 : 0.15;
    paintMark(area.ctx, exchange.steps.kind[i], ...markPlace(area, i));
  }
  area.ctx.globalAlpha = 1;
  if (followed) nameSteps(area, seen.marks.filter((i) => followed.steps.has(i)));
}

// Writes the followed transactions at the marks of their broadcast and deliveries.
function nameSteps(area, which) {
  const { steps } = exchange, taken = [];
  for (const i of which) {
    if (!["broadcast", "deliver"].includes(steps.kind[i])) continue;
    const words = followed.zxids.filter((zxid) => steps.first[i] <= zxid && zxid <= steps.last[i]).map(zxidWords).join(" ");
    const [x, y] = markPlace(area, i), width = area.ctx.measureText(words).width + 8;
    const left = x + 5 + width > area.right ? x - 5 - width : x + 5, box = [left, y - 7, left + width, y + 7];
    if (taken.some((other) => overlap(box, other))) continue;
    taken.push(box);
    label(area.ctx, words, [box[0], box[2]], y);
  }
}

const MARKS = {
  broadcast: ["blue", true, [[0, -5], [5, 4], [-5, 4]]],
  accept: ["ink", true, [[-4, -4], [4, -4], [4, 4], [-4, 4]]],
  accepted_epoch: ["ink", false, [[0, -6], [6, 0], [0, 6], [-6, 0]]],
  current_epoch: ["ink", true, [[0, -6], [6, 0], [0, 6], [-6, 0]]],
  truncate: ["red", true, [[0, 6], [6, -5], [-6, -5]]],
  boot: ["ink", true, [[-1.5, -8], [1.5, -8], [1.5, 8], [-1.5, 8]]],
  established: ["orange", true, [...Array(10).keys()].map((i) => [(i % 2 ? 3 : 7.5) * Math.sin((i * Math.PI) / 5), (i % 2 ? -3 : -7.5) * Math.cos((i * Math.PI) / 5)])],
};

function paintMark(ctx, kind, x, y) {
  if (kind === "crash") return paintCross(ctx, x, y, 6, theme.red);
  const [colour, filled, points] = MARKS[kind] || ["green", kind === "deliver", null];
  if (points) polygon(ctx, points.map(([dx, dy]) => [x + dx, y + dy]));
  else {
    ctx.beginPath();
    ctx.arc(x, y, 4.5, 0, 2 * Math.PI);
  }
  ctx.fillStyle = filled ? theme[colour] : theme.paper;
  ctx.fill();
  ctx.strokeStyle = filled ? theme.paper : theme[colour];
  return ctx.stroke();
}

// ---- the legend: only what occurs in this run ----

const SAYS = {
  broadcast: "broadcast", accept: "accepted: durable in the log", deliver: "delivered", accepted_epoch: "f.p durable (promise)", current_epoch: "f.a durable",
  established: "established", truncate: "truncated", restored: "restored from a snapshot", boot: "started",
};

function picture(inside, width = 34) {
  return `<svg width="${width}" height="16" viewBox="${-width / 2} -8 ${width} 16" aria-hidden="true">${inside}</svg>`;
}

function arrowPicture(kind) {
  const [colour, dashes] = LOOKS[kind];
  return picture(`<g class="look ${colour}"><path class="hollow" d="M-16 0H9" stroke-dasharray="${dashes.join(" ")}"/><path d="M16 0L8 -3V3Z"/></g>`);
}

function markPicture(kind) {
  const [colour, filled, points] = MARKS[kind] || ["green", kind === "deliver", null], style = filled ? "" : "hollow";
  const shape = points ? `<path class="${style}" d="M${points.map((point) => point.join(" ")).join("L")}Z"/>` : `<circle class="${style}" r="4.5"/>`;
  return picture(`<g class="look ${colour}">${shape}</g>`, 18);
}

const CROSS = picture('<path class="look red hollow" d="M-5 -5L5 5M-5 5L5 -5"/>', 18);

const STRIPS = picture(["blue faded", "blue", "red"].map((look, i) => `<path class="look ${look} strip" d="M${i * 11 - 16} 0H${i * 11 - 6}"/>`).join(""));

function showLegend() {
  const occurring = new Set([...exchange.kinds, ...(exchange.requests.sent.length ? ["request", "answer"] : []), ...(exchange.arrows.type.includes(FORWARD) ? ["FORWARD"] : [])]);
  const done = new Set(exchange.steps.kind);
  const items = [
    ...Object.keys(LOOKS).filter((kind) => occurring.has(kind)).map((kind) => arrowPicture(kind) + kind + (kind === "FORWARD" ? " (not recorded: between request and broadcast)" : "")),
    ...Object.keys(SAYS).filter((kind) => done.has(kind)).map((kind) => markPicture(kind) + SAYS[kind]),
    `${CROSS}never received; a node: down from here`,
    `${picture('<path class="look ink hollow thick" d="M-16 0H16"/>')}leads`,
    ...(run.steps ? [] : [`${STRIPS}too many for arrows: the stronger the colour, the more were sent on a link; red: some of them never received`]),
    ...(run.pauses.length ? [`${picture('<path class="look faint hollow paused" d="M-16 0H16" stroke-dasharray="2 4"/>')}paused`] : []),
  ];
  document.getElementById("kinds").innerHTML = items.map((item) => `<li>${item}</li>`).join("");
}
