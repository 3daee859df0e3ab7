// The time range that all panels show. The functions in `listeners` are called after each change.
const view = {
  begin: 0,
  end: 0,
  listeners: [],
  // The whole run with a margin, so that events at its ends are visible.
  whole() {
    const air = Math.max((run.end - run.begin) * 0.01, 1000);
    return [run.begin - air, run.end + air];
  },
  show(begin, end) {
    const [first, last] = view.whole();
    const length = Math.min(Math.max(end - begin, 100), last - first); // at least 0.1 ms, at most the whole run
    view.begin = Math.min(Math.max((begin + end - length) / 2, first), last - length);
    view.end = view.begin + length;
    view.listeners.forEach((tell) => tell());
  },
  all() {
    view.show(...view.whole());
  },
  isWhole() {
    const [first, last] = view.whole();
    return view.end - view.begin >= last - first - 1;
  },
  zoom(at, factor) {
    view.show(at - (at - view.begin) * factor, at + (view.end - at) * factor);
  },
  move(share) {
    const step = (view.end - view.begin) * share;
    view.show(view.begin + step, view.end + step);
  },
};
