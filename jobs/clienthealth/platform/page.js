// This script updates the <main> of a page in place. The scroll position, opened parts and focus stay.
// It also copies the text of the element that a button names.
"use strict";
{
  const seconds = Number(document.currentScript.dataset.seconds);

  const busy = () => document.hidden || !getSelection().isCollapsed || document.activeElement?.closest("form");

  async function renew() {
    if (busy()) return;
    const stale = document.getElementById("stale");
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = next.getElementById("fresh");
      if (!answer.ok || !fresh) throw new Error(answer.statusText);
      if (busy()) return;
      put(fresh);
      document.title = next.title;
      if (stale) stale.textContent = "";
    } catch {
      if (stale) stale.textContent = " (not since " + new Date(seen).toLocaleTimeString() + ")";
      return;
    }
    seen = Date.now();
  }

  function put(fresh) {
    const old = document.getElementById("fresh");
    const open = new Map([...old.querySelectorAll("details[id]")].map((part) => [part.id, part.open]));
    for (const part of fresh.querySelectorAll("details[id]")) part.open = open.get(part.id) ?? part.open;
    const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const [x, y] = [scrollX, scrollY];
    old.replaceWith(document.adoptNode(fresh));
    if (focused) fresh.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    scrollTo(x, y);
    offer();
  }

  function offer() {
    for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = false;
  }

  document.addEventListener("click", async ({ target }) => {
    const name = target.dataset?.copy;
    if (!name) return;
    const text = document.getElementById(name);
    if (navigator.clipboard) await navigator.clipboard.writeText(text.textContent);
    else {
      // Browsers provide navigator.clipboard only on pages from HTTPS servers or from localhost.
      getSelection().selectAllChildren(text);
      document.execCommand("copy");
    }
    target.textContent = "Copied";
  });

  let seen = Date.now();
  offer();
  if (document.getElementById("fresh")) setInterval(renew, seconds * 1000);
}
