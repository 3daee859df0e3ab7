// The data of the space-time diagram: messages, steps, requests. harness/report/html/diagram.py packs it, `unpack` unpacks it.
// All times are microseconds since the workload began. A zxid is one number: epoch * 2 ** 32 + counter.
const HIGH = 2 ** 32;
const exchange = { ready: false, gaps: run.diagram.gaps };

async function unpack(text) {
  const zipped = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  const bytes = new Uint8Array(await new Response(new Blob([zipped]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer());
  let at = 4 + new DataView(bytes.buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, at)));
  const columns = {};
  for (const [name, code, length] of head.columns) {
    const width = code === "i" ? 4 : 8, whole = new Uint8Array(width * length);
    for (let plane = 0; plane < width; plane++, at += length)
      for (let i = 0; i < length; i++) whole[i * width + plane] = bytes[at + i];
    columns[name] = code === "i" ? new Int32Array(whole.buffer) : new Float64Array(whole.buffer);
  }
  return { columns, words: head.words };
}

// Restores values from their differences.
function summed(differences) {
  const values = new Float64Array(differences.length);
  let sum = 0;
  for (let i = 0; i < values.length; i++) values[i] = sum += differences[i];
  return values;
}

// Selects the columns with a prefix, and removes it: `message.sent` becomes `sent`.
function part(columns, name) {
  const found = {};
  for (const key of Object.keys(columns)) if (key.startsWith(`${name}.`)) found[key.slice(name.length + 1)] = columns[key];
  return found;
}

// Restores the first and the last zxid of each entry.
function spans({ zepoch, counter, back, many }) {
  const epochs = summed(zepoch), counters = summed(counter), last = epochs.map((epoch, i) => epoch * HIGH + counters[i]);
  return { last, first: last.map((zxid, i) => zxid - back[i] * HIGH - many[i]) };
}

function arrivals(sent, took) {
  return sent.map((t, i) => (took[i] ? t + took[i] - 1 : NaN));
}

async function readExchange() {
  const { columns, words } = await unpack(run.diagram.packed);
  const message = part(columns, "message"), step = part(columns, "step"), request = part(columns, "request"), owner = part(columns, "owner");
  const sent = summed(message.sent), asked = summed(request.sent), epochs = summed(owner.epoch), counters = summed(owner.counter);
  const kinds = words.kinds;
  Object.assign(exchange, words, {
    messages: { ...message, sent, end: arrivals(sent, message.took), epoch: summed(message.epoch), ...spans(message) },
    steps: { ...step, t: summed(step.t), kind: Array.from(step.kind, (kind) => run.diagram.steps[kind]), ...spans(step) },
    requests: { ...request, sent: asked, end: arrivals(asked, request.took) },
    zxidOf: new Map(), requestOf: new Map(), // index of a request -> its zxid, and back
    isPing: Uint8Array.from(message.kind, (kind) => kinds[kind] === "PING"),
  });
  summed(owner.request).forEach((index, i) => {
    const zxid = epochs[i] * HIGH + counters[i];
    exchange.zxidOf.set(index, zxid);
    exchange.requestOf.set(zxid, index);
  });
  exchange.steps.rare = Uint8Array.from(exchange.steps.kind, (kind) => RARE.has(kind));
  exchange.arrows = arrows();
  exchange.ready = true;
}

// ---- arrows: everything that was sent from one line to another, in the order of sending ----

const MESSAGE = 0, REQUEST = 1, ANSWER = 2, FORWARD = 3;
const CLIENTS = 0; // the line of the clients; nodes are numbered from 1

// Returns parallel columns. `type` says whether `index` is of messages or of requests. `reach[i]`: the latest arrival of arrows 0 to i.
function arrows() {
  const { messages, requests } = exchange, passed = forwards(), asked = [...requests.sent.keys()], answered = asked.filter((i) => !Number.isNaN(requests.end[i]));
  const parts = [
    { type: MESSAGE, index: messages.sent.keys(), from: messages.source, to: messages.target, sent: messages.sent, end: messages.end },
    { type: REQUEST, index: asked, from: asked.map(() => CLIENTS), to: requests.node, sent: requests.sent, end: requests.sent },
    { type: ANSWER, index: answered, from: answered.map((i) => requests.by[i]), to: answered.map(() => CLIENTS), sent: answered.map((i) => requests.end[i]), end: answered.map((i) => requests.end[i]) },
    { type: FORWARD, index: passed.map((one) => one.index), from: passed.map((one) => requests.node[one.index]), to: passed.map((one) => one.node), sent: passed.map((one) => requests.sent[one.index]), end: passed.map((one) => one.t) },
  ];
  const count = parts.reduce((sum, one) => sum + one.sent.length, 0), all = {
    type: new Uint8Array(count), index: new Uint32Array(count), from: new Uint16Array(count), to: new Uint16Array(count), sent: new Float64Array(count), end: new Float64Array(count),
  };
  let at = 0;
  for (const one of parts) {
    all.type.fill(one.type, at, at + one.sent.length);
    for (const name of ["index", "from", "to", "sent", "end"]) all[name].set(name === "index" ? [...one.index] : one[name], at);
    at += one.sent.length;
  }
  const order = merged(all.sent, messages.sent.length), found = {};
  for (const [name, column] of Object.entries(all)) found[name] = column.map((_, i) => column[order[i]]);
  let latest = -Infinity;
  found.reach = found.sent.map((t, i) => (latest = Math.max(latest, t, found.end[i] || t)));
  found.ping = found.type.map((type, i) => (type === MESSAGE && exchange.isPing[found.index[i]] ? 1 : 0));
  return found;
}

// Returns the order by time. The first `sorted` times, which are most of them, are in order already.
function merged(times, sorted) {
  const rest = Uint32Array.from({ length: times.length - sorted }, (_, i) => sorted + i).sort((a, b) => times[a] - times[b]);
  const order = new Uint32Array(times.length);
  for (let i = 0, k = 0, at = 0; at < order.length; at++)
    order[at] = k === rest.length || (i < sorted && times[i] <= times[rest[k]]) ? i++ : rest[k++];
  return order;
}

// Returns the FORWARDs. They are not recorded; each was sent between the request and the broadcast.
function forwards() {
  const { steps, requests, requestOf } = exchange, found = [];
  for (let i = 0; i < steps.t.length; i++) {
    if (steps.kind[i] !== "broadcast") continue;
    for (let zxid = steps.first[i]; zxid <= steps.last[i]; zxid++) {
      const index = requestOf.get(zxid);
      if (index !== undefined && requests.node[index] !== steps.node[i] && requests.sent[index] <= steps.t[i]) found.push({ index, node: steps.node[i], t: steps.t[i] });
    }
  }
  return found;
}

function kindOf(i) {
  const { arrows: all } = exchange, type = all.type[i];
  return type === MESSAGE ? exchange.kinds[exchange.messages.kind[all.index[i]]] : ["", "request", "answer", "FORWARD"][type];
}

// ---- in words ----

const zxidWords = (zxid) => `${Math.floor(zxid / HIGH)}:${zxid % HIGH}`;
const spanWords = (first, last) => (first === last || !first ? zxidWords(last) : `${zxidWords(first)} to ${zxidWords(last)}`);
const lineName = (line) => (line === CLIENTS ? "clients" : `node ${line}`);

function messageWords(i) {
  const { messages, kinds, said } = exchange, kind = kinds[messages.kind[i]];
  if (messages.said[i]) return said[messages.said[i]];
  if (kind === "PING") return `PING, delivered up to ${zxidWords(messages.last[i])}, epoch ${messages.epoch[i]}`;
  const upto = kind === "PROPOSE" ? "" : "up to ";
  return `${kind} ${upto}${spanWords(messages.first[i], messages.last[i])}${kind === "PROPOSE" ? "" : `, epoch ${messages.epoch[i]}`}`;
}

function requestWords(index) {
  const { requests, clients, paths } = exchange, zxid = exchange.zxidOf.get(index);
  const became = zxid === undefined ? "" : `, which became ${zxidWords(zxid)}`;
  return `client ${clients[requests.client[index]]}, seq ${requests.seq[index]}: ${paths[requests.path[index]]}${became}`;
}

function arrowWords(i) {
  const { arrows: all } = exchange, type = all.type[i], index = all.index[i], link = `${lineName(all.from[i])} → ${lineName(all.to[i])}`;
  if (type === MESSAGE) {
    const arrived = Number.isNaN(all.end[i]) ? "never received" : `received ${precise(all.end[i])}, after ${duration(all.end[i] - all.sent[i])}`;
    return `${messageWords(index)}\n${link}\nsent ${precise(all.sent[i])}, ${arrived}`;
  }
  if (type === FORWARD) return `FORWARD of ${requestWords(index)}\n${link}\nnot recorded: after the request, ${precise(all.sent[i])}, and before the broadcast, ${precise(all.end[i])}`;
  const what = type === REQUEST ? "request of" : "answer to";
  return `${what} ${requestWords(index)}\n${link}, ${type === REQUEST ? "sent" : "received"} ${precise(all.sent[i])}`;
}

const DONE = {
  broadcast: "broadcast", accept: "accepted, durably:", deliver: "delivered", restored: "restored from a snapshot:", truncate: "truncated", established: "was established as leader of epoch",
  accepted_epoch: "promised, durably (f.p), epoch", current_epoch: "adopted, durably (f.a), epoch", boot: "started",
};

function stepWords(i) {
  const { steps } = exchange, named = steps.last[i] ? ` ${spanWords(steps.first[i], steps.last[i])}` : steps.kind[i] === "boot" ? "" : ` ${steps.epoch[i]}`;
  return `node ${steps.node[i]} ${DONE[steps.kind[i]]}${named}\nat ${precise(steps.t[i])}`;
}
