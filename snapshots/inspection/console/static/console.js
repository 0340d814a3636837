// Keeps a page up to date, counts its timers down, and remembers the token of this tab.
// Every page works without it: it only fetches the same page again and puts its parts in place.
"use strict";

const TOKEN = "snapshots-token";
const body = document.body;
const line = document.getElementById("line");
const said = document.getElementById("line-text");

let source = null;
let isFetching = false;
let isStale = false;

function tell(state, words) {
  if (line.dataset.state !== state) {
    line.dataset.state = state;
    said.textContent = words;
  }
}

// What is being typed is not taken away: its part is put in place with the next news.
function isInUse(part) {
  const field = document.activeElement;
  if (field && part.contains(field) && field.matches("input, textarea, select")) return true;
  return [...part.querySelectorAll("textarea, input:not([type=hidden]):not([data-token])")].some(
    (each) => each.value !== each.defaultValue,
  );
}

// Its content without what the clock alone changes.
function bare(part) {
  return part.innerHTML.replace(/>[^<]*<\/time>/g, "></time>");
}

function keptOpen(part) {
  const open = new Map();
  for (const each of part.querySelectorAll("details[id]")) open.set(each.id, each.open);
  return open;
}

function replace(old, fresh) {
  const open = keptOpen(old);
  const focused = document.activeElement && old.contains(document.activeElement) ? pathTo(old, document.activeElement) : null;
  const places = [...old.querySelectorAll(".canvas, .scroll")].map((each) => [each.scrollLeft, each.scrollTop]);
  const next = document.importNode(fresh, true);
  for (const each of next.querySelectorAll("details[id]")) {
    if (open.has(each.id)) each.open = open.get(each.id);
  }
  old.replaceWith(next);
  next.querySelectorAll(".canvas, .scroll").forEach((each, at) => {
    if (places[at]) [each.scrollLeft, each.scrollTop] = places[at];
  });
  if (focused) {
    let at = next;
    for (const step of focused) at = at && at.children[step];
    if (at && at.focus) at.focus({ preventScroll: true });
  }
}

function pathTo(part, element) {
  const path = [];
  for (let at = element; at !== part; at = at.parentElement) path.unshift([...at.parentElement.children].indexOf(at));
  return path;
}

async function refresh() {
  if (isFetching || document.hidden) {
    isStale = true;
    return;
  }
  isFetching = true;
  isStale = false;
  try {
    const answer = await fetch(location.pathname + location.search, { cache: "no-store" });
    if (!answer.ok) {
      // What is shown is older than the file. One that is gone is not asked for again.
      isStale = answer.status !== 404;
      tell("lost", isStale ? "cannot be read now" : "not there any more");
      return;
    }
    if (source && source.readyState === EventSource.OPEN) tell("live", "live");
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const fresh of page.querySelectorAll("[data-live][id]")) {
      const old = document.getElementById(fresh.id);
      if (!old) {
        // A part that the page did not have yet: all of it is made anew.
        location.reload();
        return;
      }
      if (isInUse(old)) isStale = true;
      else if (bare(old) !== bare(fresh)) replace(old, fresh);
    }
    body.dataset.poll = page.body.dataset.poll || "";
    fillTokens();
    tick();
  } catch {
    isStale = true;
  } finally {
    isFetching = false;
  }
}

function listen() {
  if (source || !body.dataset.events || document.hidden) return;
  source = new EventSource(body.dataset.events);
  source.onopen = () => tell("live", "live");
  source.addEventListener("changed", refresh);
  source.onerror = () => {
    tell("lost", "not connected");
    if (source && source.readyState === EventSource.CLOSED) {
      source = null;
      setTimeout(listen, 5000);
    }
  };
}

function stop() {
  if (source) source.close();
  source = null;
}

// A hidden tab lets go of its connection: a browser has few of them for one address.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return stop();
  listen();
  if (isStale) refresh();
});
window.addEventListener("pagehide", stop);
window.addEventListener("pageshow", listen);

const UNITS = [["d", 86400000], ["h", 3600000], ["m", 60000], ["s", 1000]];

// As the server writes it: the two largest units.
function span(ms) {
  let left = Math.floor(Math.abs(ms) / 1000) * 1000;
  if (left < 1000) return "0 s";
  const parts = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count || parts.length) parts.push([count, unit]);
  }
  return parts.slice(0, 2).filter(([count]) => count).map(([count, unit]) => `${count} ${unit}`).join(" ");
}

function tick() {
  const now = Date.now();
  for (const each of document.querySelectorAll("time[data-due]")) {
    const left = Number(each.dataset.due) - now;
    each.textContent = left < 0 ? `overdue by ${span(left)}` : `in ${span(left)}`;
    each.classList.toggle("late", left < 0);
  }
  for (const each of document.querySelectorAll("time[data-at]")) {
    const left = Number(each.dataset.at) - now;
    each.textContent = Math.abs(left) < 1000 ? "now" : left > 0 ? `in ${span(left)}` : `${span(left)} ago`;
  }
}

// With a token in this tab its fields are filled in and put away; a button forgets it.
function fillTokens() {
  const token = sessionStorage.getItem(TOKEN);
  body.classList.toggle("has-token", Boolean(token));
  if (!token) return;
  if (!document.querySelector(".forget")) {
    const forget = document.createElement("button");
    forget.type = "button";
    forget.className = "forget";
    forget.textContent = "forget the token";
    forget.addEventListener("click", () => {
      sessionStorage.removeItem(TOKEN);
      location.reload();
    });
    line.after(forget);
  }
  for (const each of document.querySelectorAll("input[data-token]")) {
    if (!each.value) each.value = token;
  }
}

// A link may bring the token in its fragment, which no request ever carries; it does not stay there.
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!given) return;
  sessionStorage.setItem(TOKEN, given);
  history.replaceState(null, "", location.pathname + location.search);
}

document.addEventListener("submit", (event) => {
  const field = event.target.querySelector("input[data-token]");
  if (field && field.value) sessionStorage.setItem(TOKEN, field.value);
});

body.classList.add("is-scripted");
takeToken();
fillTokens();
listen();
setInterval(tick, 1000);
setInterval(() => {
  if (body.dataset.poll || isStale) refresh();
}, 2000);
