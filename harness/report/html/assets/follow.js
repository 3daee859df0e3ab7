// Following: the whole path of a transaction is highlighted, everything else is dimmed. Search box and buttons use the same texts.
let followed = null; // { text, zxids, arrows and steps: sets of highlighted indices, node: all of its messages are highlighted }
let turn = { text: "", at: -1 }; // the last text, and which of its several requests was shown

const CARRIES = new Set(["PROPOSE", "NEWLEADER", "HISTORY"]);
const ACKNOWLEDGES = new Set(["ACK", "ACK-LD"]), COMMITS = new Set(["COMMIT", "COMMIT-LD"]);

function zxidOfArrow(i) {
  const { arrows: all, messages } = exchange, index = all.index[i];
  if (all.type[i] !== MESSAGE) return exchange.zxidOf.get(index) || 0;
  return ["PROPOSE", "ACK", "COMMIT"].includes(kindOf(i)) ? messages.first[index] : 0;
}

// Returns the indices of all arrows and steps that concern a transaction.
function wayOf(zxid) {
  const { arrows: all, messages, steps, requestOf } = exchange, found = { arrows: new Set(), steps: new Set() };
  const request = requestOf.get(zxid), later = [];
  for (let i = 0; i < all.sent.length; i++) {
    const index = all.index[i];
    if (all.type[i] !== MESSAGE) {
      if (index === request) found.arrows.add(i);
    } else if (CARRIES.has(kindOf(i)) && messages.first[index] && messages.first[index] <= zxid && zxid <= messages.last[index]) {
      found.arrows.add(i);
      if (!Number.isNaN(all.end[i])) later.push(i);
    }
  }
  for (const i of later) {
    const epoch = messages.epoch[all.index[i]], from = all.from[i], to = all.to[i];
    const first = (kinds, source, target, since) => {
      for (let k = lowerBound(all.sent, since); k < all.sent.length; k++) {
        const index = all.index[k];
        if (all.type[k] === MESSAGE && all.from[k] === source && all.to[k] === target && messages.epoch[index] === epoch && messages.last[index] >= zxid && kinds.has(kindOf(k))) return found.arrows.add(k);
      }
      return null;
    };
    first(ACKNOWLEDGES, to, from, all.end[i]);
    first(COMMITS, from, to, all.sent[i]);
  }
  for (let i = 0; i < steps.t.length; i++) if (steps.first[i] && steps.first[i] <= zxid && zxid <= steps.last[i]) found.steps.add(i);
  return found;
}

function light(text, zxids, ways, words) {
  followed = { text, zxids, arrows: new Set(ways.flatMap((way) => [...way.arrows])), steps: new Set(ways.flatMap((way) => [...way.steps])), node: 0 };
  const [begin, end, later] = stretchOf(followed), air = Math.max((end - begin) * 0.08, 200);
  tellWay();
  say(later ? `${words}. It continues at ${seconds(later)}` : words);
  view.show(begin - air, end + air);
}

// Returns [begin, end, continuation]. A node that was down may deliver much later; that part is left out, or the rest would be too small.
function stretchOf({ arrows, steps }) {
  const times = [...arrows].flatMap((i) => [exchange.arrows.sent[i], exchange.arrows.end[i] || exchange.arrows.sent[i]]);
  const delivered = Math.min(...[...steps].filter((i) => exchange.steps.kind[i] === "deliver").map((i) => exchange.steps.t[i]));
  times.push(...[...steps].map((i) => exchange.steps.t[i]));
  times.sort((a, b) => a - b);
  const pause = times.findIndex((t, i) => i && times[i - 1] >= delivered && t - times[i - 1] > 3 * (times[i - 1] - times[0]));
  return pause < 0 ? [times[0], times[times.length - 1], 0] : [times[0], times[pause - 1], times[pause]];
}

// Lists what is highlighted in words, in order of time, for readers who cannot see the picture or want the times.
function tellWay() {
  const { arrows: all, steps } = exchange, list = document.getElementById("way");
  const told = [...followed.arrows].map((i) => [all.sent[i], [3, 0, 4, 1][all.type[i]], arrowLine(i)]);
  told.push(...[...followed.steps].map((i) => [steps.t[i], 2, stepWords(i).split("\n")[0]]));
  told.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  list.replaceChildren(...told.slice(0, 200).map(([t, , words]) => Object.assign(document.createElement("li"), { textContent: `${precise(t)}  ${words}` })));
  document.getElementById("told").hidden = false;
}

function arrowLine(i) {
  const { arrows: all } = exchange, index = all.index[i], link = `${lineName(all.from[i])} → ${lineName(all.to[i])}`;
  if (all.type[i] !== MESSAGE) return `${link}: ${["", "request of", "answer to", "FORWARD (not recorded) of"][all.type[i]]} ${requestWords(index)}`;
  return `${link}: ${messageWords(index)}, ${Number.isNaN(all.end[i]) ? "never received" : `received after ${duration(all.end[i] - all.sent[i])}`}`;
}

function say(words) {
  document.getElementById("followed").textContent = words;
  messagesPanel.canvas.dataset.followed = followed ? followed.text : "";
}

function followZxids(text, zxids) {
  const ways = zxids.map(wayOf), isKnown = (i) => ways[i].arrows.size + ways[i].steps.size > 0;
  const known = zxids.filter((_, i) => isKnown(i)), unknown = zxids.filter((_, i) => !isKnown(i)).map(zxidWords).join(" and ");
  if (!known.length) return say(`nothing is known of ${unknown}`);
  return light(text, known, ways, `following ${known.map(zxidWords).join(" and ")}${unknown && `, nothing is known of ${unknown}`}; Escape ends it`);
}

// Follows one of several requests; repeating the same search shows the next one.
function followRequests(which, at, text = `${exchange.clients[exchange.requests.client[which[at]]]}`) {
  const index = which[at], zxid = exchange.zxidOf.get(index), { arrows: all } = exchange;
  const own = { arrows: new Set(), steps: new Set() };
  for (let i = 0; i < all.sent.length; i++) if (all.type[i] !== MESSAGE && all.index[i] === index) own.arrows.add(i);
  const more = which.length > 1 ? ` (${at + 1} of ${which.length}; Enter shows the next)` : "";
  light(text, zxid === undefined ? [] : [zxid], zxid === undefined ? [own] : [own, wayOf(zxid)], `following ${requestWords(index)}${more}; Escape ends it`);
}

function requestsOf(text) {
  const { requests, clients, paths } = exchange, all = [...requests.sent.keys()];
  const named = /^client\s+(\S+)(?:\s+seq\s+(\d+))?$/i.exec(text);
  if (named) return all.filter((i) => clients[requests.client[i]] === named[1] && (!named[2] || requests.seq[i] === Number(named[2])));
  const path = paths.indexOf(text.startsWith("/") ? text : `/${text}`);
  return path < 0 ? [] : all.filter((i) => requests.path[i] === path);
}

function followNode(text, node) {
  if (!run.nodes.includes(node)) return say(`there is no node ${node}`);
  const { arrows: all } = exchange, lit = new Set();
  for (let i = 0; i < all.sent.length; i++) if (all.from[i] === node || all.to[i] === node) lit.add(i);
  followed = { text, zxids: [], arrows: lit, steps: new Set(), node };
  say(`what node ${node} sent and received; Escape ends it`);
  return drawSoon();
}

// Follows what was asked for: `1:402`, several of these, `/a/path`, `client 3`, `client 3 seq 35`, `node 2`.
function follow(asked) {
  const text = asked.trim(), zxids = [...text.matchAll(/(\d+):(\d+)/g)].map((it) => Number(it[1]) * HIGH + Number(it[2]));
  if (!text) return endFollowing();
  document.getElementById("wanted").value = text;
  if (zxids.length) return followZxids(text, zxids);
  const node = /^node\s+(\d+)$/i.exec(text);
  if (node) return followNode(text, Number(node[1]));
  const which = requestsOf(text);
  if (!which.length) return say(`nothing is known of ${text}; search for a zxid (1:402), a path, client 3, client 3 seq 35, node 2`);
  turn = { text, at: turn.text === text ? (turn.at + 1) % which.length : 0 };
  return followRequests(which, turn.at, text);
}

// Highlights the events that led to the violation (harness/report/chain.py).
function followChain() {
  const { chain } = run, { arrows: all } = exchange, messages = new Set(chain.messages), requests = new Set(chain.requests);
  const arrows = new Set([...all.sent.keys()].filter((i) => (all.type[i] === MESSAGE ? messages : requests).has(all.index[i])));
  const zxids = chain.zxids.map(([epoch, counter]) => epoch * HIGH + counter), air = Math.max((chain.end - chain.begin) * 0.08, 200);
  followed = { text: "the chain", zxids, arrows, steps: new Set(chain.steps), node: 0 };
  tellWay();
  say("what led to the violation; Escape ends it");
  view.show(chain.begin - air, chain.end + air);
  messagesPanel.canvas.closest("figure").scrollIntoView();
}

function endFollowing() {
  followed = null;
  turn = { text: "", at: -1 };
  document.getElementById("told").hidden = true;
  say("");
  drawSoon();
}

function paintFollowed(area) {
  const { arrows: all } = exchange, seen = [];
  for (const i of followed.arrows)
    if (all.sent[i] <= view.end && (all.end[i] || all.sent[i]) >= view.begin && (pings || !followed.node || !all.ping[i])) seen.push(i);
  if (followed.node && messagesPanel.seen.dense) return;
  for (const i of seen) paintArrow(area, i, 2.2);
  if (seen.length <= LABELLED) nameArrows(area, seen);
}

function listenToFollowing() {
  const wanted = document.getElementById("wanted"), search = () => follow(wanted.value);
  document.getElementById("search").addEventListener("click", search);
  wanted.addEventListener("keydown", (event) => event.key === "Enter" && search());
  document.getElementById("pings").addEventListener("change", (event) => {
    pings = event.target.checked;
    drawSoon();
  });
  for (const button of document.querySelectorAll("button.follow"))
    button.addEventListener("click", () => {
      follow(button.dataset.follow);
      document.getElementById("messages").closest("figure").scrollIntoView();
    });
  document.getElementById("show-chain")?.addEventListener("click", followChain);
  addEventListener("keydown", (event) => event.key === "Escape" && followed && endFollowing());
}
