// Shows the `data-tip` of an element as a tooltip when it is pointed at or has the focus.
const tip = document.getElementById("tip");

function say(target) {
  const place = target && target.closest ? target.closest("[data-tip]") : null;
  tip.hidden = place === null;
  if (place === null) return;
  tip.textContent = place.dataset.tip;
  const box = place.getBoundingClientRect();
  const left = Math.min(box.left + scrollX, scrollX + document.documentElement.clientWidth - tip.offsetWidth - 8);
  tip.style.left = `${Math.max(scrollX, left)}px`;
  tip.style.top = `${box.bottom + scrollY + 6}px`;
}

document.addEventListener("pointerover", (event) => say(event.target));
document.addEventListener("focusin", (event) => say(event.target));
document.addEventListener("focusout", () => say(null));
document.addEventListener("keydown", (event) => event.key === "Escape" && say(null));
