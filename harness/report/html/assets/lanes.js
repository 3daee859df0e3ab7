// The panels of the faults (with the links that they affected) and of the nodes' lanes (with the evidence on them).
const FAULT_ROW = 20, LINK_ROW = 16, LANE = 46, RUN_ROW = 22;

const faultsPanel = {
  rows: () => Math.max(1, ...run.faults.map((fault) => fault.row + 1)),
  height: () => faultsPanel.rows() * FAULT_ROW + run.links.length * LINK_ROW + 6 + AXIS,
  draw(area) {
    const { ctx } = area;
    rowName(area, run.faults.length ? "faults" : "no faults", FAULT_ROW / 2);
    for (const fault of run.faults) {
      const begin = area.x(fault.begin), y = fault.row * FAULT_ROW + 2;
      ctx.fillStyle = fault.mends ? theme.green : fault.confirmed ? theme.orange : theme.hatch;
      const end = fault.end === null ? begin + 3 : area.x(fault.end);
      const seen = fillClipped(area, begin, y, end, FAULT_ROW - 4);
      if (seen) nameFault(area, fault, seen, y + FAULT_ROW / 2 - 2);
    }
    run.links.forEach((link, index) => {
      const y = faultsPanel.rows() * FAULT_ROW + index * LINK_ROW;
      rowName(area, link.link, y + LINK_ROW / 2);
      for (const time of link.times) {
        ctx.fillStyle = time.cut ? theme.red : theme.purple;
        fillClipped(area, area.x(time.begin), y + 3, area.x(time.end), LINK_ROW - 7);
      }
    });
  },
  hit(area, x, y) {
    const t = area.t(x), near = area.t(x + 5) - t;
    const covers = (begin, end) => t >= begin - near && t <= (end ?? begin) + near;
    const fault = run.faults.find((one) => Math.floor(y / FAULT_ROW) === one.row && covers(one.begin, one.end ?? one.begin + near));
    if (fault) return faultWords(fault);
    const link = run.links[Math.floor((y - faultsPanel.rows() * FAULT_ROW) / LINK_ROW)];
    const time = link && link.times.find((one) => covers(one.begin, one.end));
    return time ? `link ${link.link} ${time.cut ? "cut" : "disturbed"}\n${seconds(time.begin)} to ${seconds(time.end)}, ${duration(time.end - time.begin)}` : null;
  },
};

// Writes the fault's name in its bar, or next to it if there is room before the row's next bar; without the target if it is too long.
function nameFault(area, fault, [left, right], y) {
  const next = run.faults.filter((other) => other.row === fault.row && other.begin > fault.begin);
  const end = Math.min(area.right, ...next.map((other) => area.x(other.begin)));
  [fault.name, fault.name.split(" ")[0]].some(
    (name) => fitText(area.ctx, name, left, right, y, theme["on-fill"]) || fitText(area.ctx, name, right, end, y, theme.ink),
  );
}

function faultWords(fault) {
  const healed = fault.end === null ? "" : ` to ${seconds(fault.end)}, ${duration(fault.end - fault.begin)}`;
  return [`${fault.name}${fault.confirmed ? "" : ": NOT CONFIRMED"}`, seconds(fault.begin) + healed, fault.detail].filter(Boolean).join("\n");
}

const lanesPanel = {
  nodes: run.nodes.filter((node) => run.lanes.some((one) => one.node === node)), // some backends record nothing about their nodes
  height: () => RUN_ROW + lanesPanel.nodes.length * LANE + AXIS,
  top: (node) => RUN_ROW + lanesPanel.nodes.indexOf(node) * LANE,
  draw(area) {
    const { ctx } = area, groups = markGroups(area);
    rowName(area, "run", RUN_ROW / 2);
    run.milestones.forEach((one, i) => {
      const x = area.x(one.t), next = run.milestones[i + 1];
      ctx.fillStyle = theme.faint;
      if (fillClipped(area, x - 1, 4, x + 1, RUN_ROW - 10)) fitText(ctx, one.words, ...clearOf(area, groups, [x, next ? area.x(next.t) : area.right], RUN_ROW / 2), RUN_ROW / 2 - 1, theme.faint);
    });
    for (const node of lanesPanel.nodes) rowName(area, `node ${node}`, lanesPanel.top(node) + LANE / 2);
    for (const stretch of run.lanes) paintStretch(area, stretch);
    overlay(area, run.pauses, "paused");
    overlay(area, run.amnesia, "amnesiac");
    for (const stretch of run.lanes) nameStretch(area, stretch, groups);
    for (const event of run.events) paintEvent(area, event);
    for (const group of groups) paintMarks(area, group);
  },
  hit(area, x, y) {
    const group = markGroups(area).find((one) => Math.abs(middleOf(area, one) - x) < halfOf(area.ctx, one.marks) && Math.abs(one.y - y) < LANE / 2);
    if (group) return group.marks.map((mark) => `${mark.number}: ${mark.words}\nat ${seconds(mark.t)}`).join("\n");
    if (y < RUN_ROW) return nearest(area, run.milestones, x, (one) => `${one.words} at ${seconds(one.t)}`);
    const node = lanesPanel.nodes[Math.floor((y - RUN_ROW) / LANE)];
    const event = nearest(area, run.events.filter((one) => one.node === node), x, (one) => `${one.words}\nat ${seconds(one.t)}`);
    return event || stretchWords(node, area.t(x));
  },
};

function nearest(area, things, x, words) {
  const close = things.filter((one) => Math.abs(area.x(one.t) - x) <= 4);
  return close.length ? close.slice(0, 6).map(words).join("\n") + (close.length > 6 ? `\nand ${close.length - 6} more` : "") : null;
}

function fillOf(stretch) {
  if (stretch.phase === "BROADCAST") return stretch.role === "LEADING" ? theme.blue : theme.green;
  return { ELECTION: theme.orange, DISCOVERY: theme.yellow, SYNCHRONIZATION: theme.sky }[stretch.phase] || theme.line;
}

function paintStretch(area, stretch) {
  const { ctx } = area, y = lanesPanel.top(stretch.node) + 4, height = LANE - 10;
  ctx.fillStyle = stretch.state === "down" ? hatch(ctx, "down") : fillOf(stretch);
  const seen = fillClipped(area, area.x(stretch.begin), y, area.x(stretch.end), height);
  if (!seen || stretch.state === "down") return;
  if (stretch.role === "LEADING") {
    ctx.fillStyle = theme.ink;
    ctx.fillRect(seen[0], y - 3, seen[1] - seen[0], 3);
  }
  if (!stretch.phase) return;
  ctx.fillStyle = theme.series[stretch.epoch % theme.series.length];
  ctx.fillRect(seen[0], y + height - 13, seen[1] - seen[0], 13);
  ctx.fillStyle = "rgba(255, 255, 255, 0.72)"; // a tint, so that the epoch's number can be read on it
  ctx.fillRect(seen[0], y + height - 13, seen[1] - seen[0], 13);
}

// Writes the longest name that fits, on a filled background, because the segment may be hatched.
function nameStretch(area, stretch, groups) {
  const { ctx } = area, y = lanesPanel.top(stretch.node) + 4, height = LANE - 10;
  const all = [Math.max(area.x(stretch.begin), area.left), Math.min(area.x(stretch.end), area.right)];
  const seen = clearOf(area, groups, all, y + LANE / 2 - 8);
  if (stretch.state === "down") return label(ctx, "down", seen, y + height / 2);
  const fill = fillOf(stretch), colour = theme[fill === theme.blue ? "on-blue" : "on-fill"];
  label(ctx, `${stretch.role} ${stretch.phase}`, seen, y + 11, fill, colour) || label(ctx, stretch.role, seen, y + 11, fill, colour);
  if (!stretch.phase) return null;
  const names = [stretch.release && `epoch ${stretch.epoch}, release ${stretch.release}`, `epoch ${stretch.epoch}`, `${stretch.epoch}`].filter(Boolean);
  return names.some((name) => fitText(ctx, name, ...seen, y + height - 6, "#000000"));
}

function overlay(area, times, kind) {
  area.ctx.fillStyle = hatch(area.ctx, kind);
  for (const one of times) fillClipped(area, area.x(one.begin), lanesPanel.top(one.node) + 4, area.x(one.end), LANE - 23);
}

// Paints a small sign on the lane: ▲ established, ▼ truncated, ✕ stopped itself, ◆ anything else.
function paintEvent(area, event) {
  const x = area.x(event.t);
  if (x < area.left || x > area.right) return;
  area.ctx.fillStyle = theme.ink;
  area.ctx.textAlign = "center";
  area.ctx.fillText({ established: "▲", truncate: "▼", abort: "✕" }[event.kind] || "◆", x, lanesPanel.top(event.node) + LANE - 2);
}

const numbersOf = (marks) => marks.map((mark) => mark.number).join(" ");
const halfOf = (ctx, marks) => Math.max(ctx.measureText(numbersOf(marks)).width / 2 + 5, 10);

// Returns the widest part of a segment that no number of evidence covers.
function clearOf(area, groups, [begin, end], y) {
  const signs = groups.filter((one) => one.y === y).map((one) => [middleOf(area, one) - halfOf(area.ctx, one.marks), middleOf(area, one) + halfOf(area.ctx, one.marks)]);
  const edges = [[begin, begin], ...signs.filter(([left, right]) => right > begin && left < end).sort((a, b) => a[0] - b[0]), [end, end]];
  const parts = edges.slice(1).map(([left], i) => [Math.max(begin, edges[i][1]), left]);
  return parts.reduce((widest, part) => (part[1] - part[0] > widest[1] - widest[0] ? part : widest));
}

// Returns the middle of a group of evidence numbers. It stays inside the plot, because the node's name is to the left of it.
function middleOf(area, group) {
  const half = halfOf(area.ctx, group.marks);
  return Math.max(area.left + half, Math.min(group.x, area.right - half));
}

function touch(area, one, other) {
  return one.y === other.y && Math.abs(middleOf(area, one) - middleOf(area, other)) < halfOf(area.ctx, one.marks) + halfOf(area.ctx, other.marks);
}

// Groups evidence whose numbers would overlap.
function markGroups(area) {
  const groups = [];
  for (const mark of run.marks) {
    const x = area.x(mark.t), y = mark.node === null ? RUN_ROW / 2 : lanesPanel.top(mark.node) + LANE / 2 - 4;
    if (x < area.left - 1 || x > area.right + 1) continue;
    const alone = { x, y, marks: [mark] }, group = groups.find((one) => touch(area, one, alone));
    if (group) group.marks.push(mark);
    else groups.push(alone);
  }
  return groups;
}

function paintMarks(area, group) {
  const { ctx } = area, text = numbersOf(group.marks), half = halfOf(ctx, group.marks), middle = middleOf(area, group);
  line(ctx, theme.red, group.x, group.y - LANE / 2, group.x, group.y + LANE / 2);
  ctx.fillStyle = theme.red;
  ctx.strokeStyle = theme.paper;
  ctx.lineWidth = 2;
  ctx.beginPath();
  ctx.roundRect(middle - half, group.y - 10, 2 * half, 20, 10);
  ctx.fill();
  ctx.stroke();
  ctx.lineWidth = 1;
  ctx.fillStyle = "#000000";
  ctx.textAlign = "center";
  ctx.fillText(text, middle, group.y);
}

function stretchWords(node, t) {
  const during = (one) => one.node === node && one.begin <= t && t < one.end;
  const stretch = run.lanes.find(during);
  if (!stretch) return null;
  const what = stretch.state === "down" ? "down" : stretch.phase ? `${stretch.role} ${stretch.phase}, epoch ${stretch.epoch}` : "up";
  const leader = stretch.leader !== null && stretch.role !== "LEADING" ? `follows node ${stretch.leader}` : "";
  const states = [run.pauses.some(during) && "paused", run.amnesia.some(during) && "amnesiac"].filter(Boolean).join(", ");
  const times = `${seconds(stretch.begin)} to ${seconds(stretch.end)}, ${duration(stretch.end - stretch.begin)}`;
  const release = stretch.release && `release ${stretch.release}`;
  return [`node ${node}, life ${stretch.life}: ${what}`, release, leader, states, stretch.why, times].filter(Boolean).join("\n");
}
