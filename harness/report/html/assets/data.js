// The data of the run, written into the page by harness/report/html/run_data.py. All times are microseconds since the workload began.
const run = JSON.parse(document.getElementById("data").textContent);

const OPS = ["create", "set", "delete", "check", "multi", "get", "exists", "children", "transaction", "multi-get", "list-append", "list-read"];
const WRITES = new Set(["create", "set", "delete", "multi", "transaction", "list-append"].map((op) => OPS.indexOf(op)));
const UNANSWERED = -1;

// The operations as columns, in the order of their due times. `done` is the time of the answer, NaN if there was none.
const operations = (() => {
  const packed = run.operations;
  const sums = (differences) => {
    let sum = 0;
    return Float64Array.from(differences, (difference) => (sum += difference));
  };
  const due = sums(packed.due), line = sums(packed.line);
  const order = Uint32Array.from(due.keys()).sort((a, b) => due[a] - due[b]);
  const column = (Type, value) => Type.from(order, value);
  const outcome = column(Uint8Array, (i) => Number(packed.outcome[i]));
  const op = column(Uint8Array, (i) => parseInt(packed.op[i], 16));
  const took = column(Float64Array, (i) => packed.took[i]);
  return {
    count: due.length,
    due: column(Float64Array, (i) => due[i]),
    took,
    done: column(Float64Array, (i) => (packed.took[i] === UNANSWERED ? NaN : due[i] + packed.took[i])),
    outcome,
    op,
    node: column(Uint32Array, (i) => packed.node[i]),
    line: column(Float64Array, (i) => line[i]),
    kind: Uint8Array.from(outcome, (value, i) => (value ? value + 1 : WRITES.has(op[i]) ? 0 : 1)),
  };
})();

// Returns the first index of an ascending column whose value is not below `value`.
function lowerBound(column, value) {
  let low = 0, high = column.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Formats a time. A transcript has no time: there, each second of the axis is one step.
function timeWords(micros, digits) {
  return run.steps ? `step ${Math.max(0, Math.round(micros / 1e6))}` : `${(micros / 1e6).toFixed(digits)} s`;
}

const seconds = (micros) => timeWords(micros, 3);
const precise = (micros) => timeWords(micros, 6);

function duration(micros) {
  if (run.steps) return `${Math.round(micros / 1e6)} steps`;
  return Math.abs(micros) >= 1e6 ? `${(micros / 1e6).toFixed(2)} s` : `${(micros / 1e3).toFixed(micros < 1e4 ? 2 : 0)} ms`;
}
