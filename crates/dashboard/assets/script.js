// Live updates, the map of the fleet, and the check of an editor. Everything else works without this script.
"use strict";

// Parts of a page that change with the fleet have an id and `data-live`. When the server says that something changed, the page is read again
// and those parts are replaced, at most once a second and with pauses ten times as long as the reading took. It is also read again now and then, so that
// ages move.
const live = {
  note: document.getElementById("live"),
  source: null,
  pending: 0,
  ready: 0,
  missed: false,
  changed: false,
  skipped: false,
  aging: 30000,
  timer: 0,

  start() {
    if (!this.note || !document.querySelector("[data-live], #map")) return;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.open(true)));
    document.addEventListener("selectionchange", () => this.skipped && getSelection().isCollapsed && this.schedule());
    addEventListener("pagehide", () => this.close());
    if (!document.hidden) this.open(false);
  },

  open(missed) {
    if (this.source) return;
    if (missed) this.follow();
    this.timer = setInterval(() => this.schedule(), this.aging);
    const source = (this.source = new EventSource(this.note.dataset.stream));
    let first = true;
    source.addEventListener("counts", (event) => {
      this.note.textContent = "";
      // The first event says what is known now: the page knows it, unless it is older.
      if (!first || JSON.parse(event.data).at > this.note.dataset.made) this.follow();
      first = false;
    });
    source.onerror = () => {
      this.away();
      // The server refuses the stream: perhaps the caller must sign in again, which the page itself finds out.
      if (source.readyState === EventSource.CLOSED) {
        this.close();
        this.schedule();
        setTimeout(() => document.hidden || this.open(true), 5000);
      }
    };
  },

  away() {
    this.note.textContent = "No connection: what you see may be old.";
  },

  close() {
    if (this.source) this.source.close();
    this.source = null;
    clearInterval(this.timer);
  },

  // Something changed, perhaps also in the map.
  follow() {
    this.changed = true;
    this.schedule();
  },

  schedule() {
    this.missed = true;
    if (this.pending) return;
    this.pending = setTimeout(() => this.refresh(), Math.max(0, this.ready - Date.now()));
  },

  // What a link leads to, or a button does.
  purpose(element) {
    return element.href || (element.form ? new URLSearchParams(new FormData(element.form)) + element.textContent : element.textContent);
  },

  alike(part, element) {
    return [...part.querySelectorAll(element.tagName)].filter((one) => this.purpose(one) === this.purpose(element));
  },

  // What somebody opened stays open, what has the focus keeps it, and what is selected stays as it is until it no longer is.
  replace(old, now) {
    const active = old.contains(document.activeElement) ? document.activeElement : null;
    if (active && active.matches("input, select, textarea")) return;
    const selection = getSelection();
    if (!selection.isCollapsed && selection.getRangeAt(0).intersectsNode(old)) return void (this.skipped = true);
    const parts = now.querySelectorAll("details");
    old.querySelectorAll("details").forEach((part, n) => {
      const same = parts[n] && parts[n].firstChild.textContent === part.firstChild.textContent;
      if (same) parts[n].open = part.open;
    });
    if (now.innerHTML === old.innerHTML) return;
    const place = active ? this.alike(old, active).indexOf(active) : 0;
    old.replaceChildren(...now.childNodes);
    if (!active) return;
    const again = this.alike(old, active)[place];
    if (!again) old.tabIndex = -1;
    (again || old).focus({ preventScroll: true });
  },

  // Says beside an editor that the document is no longer the one that somebody edits.
  compare(page) {
    for (const form of document.querySelectorAll("form[data-check]")) {
      const version = (one) => one && one.querySelector("[name=if_match]")?.value;
      const now = version(page.querySelector("form[data-check]"));
      const is = now && now !== version(form);
      form.querySelector("[data-stale]").textContent = is ? "Somebody changed this document meanwhile. The plan will show how your text differs." : "";
    }
  },

  // A page that can no longer be read is loaded again, which leads to the form for signing in. Not while somebody types.
  leave() {
    const isTyped = [...document.querySelectorAll("textarea")].some((field) => field.value !== field.defaultValue);
    if (!isTyped) return location.reload();
    this.note.textContent = "Your session has ended: sign in again in another tab, and go on here.";
  },

  async refresh() {
    const begun = Date.now();
    const changed = this.changed;
    this.missed = this.changed = this.skipped = false;
    try {
      const response = await fetch(location.href, { headers: { "x-live": "1" }, signal: AbortSignal.timeout(30000) });
      const isOut = response.redirected && new URL(response.url).pathname.endsWith("/login");
      if (isOut) this.leave();
      else this.note.textContent = response.ok ? "" : "The server cannot show the page now: what you see may be old.";
      if (response.ok && !isOut) {
        const page = new DOMParser().parseFromString(await response.text(), "text/html");
        this.note.dataset.made = page.getElementById("live").dataset.made;
        for (const old of document.querySelectorAll("[data-live]")) {
          const now = page.getElementById(old.id);
          if (now) this.replace(old, now);
        }
        this.compare(page);
      }
      if (map.place && changed) await map.load();
    } catch {
      this.away();
    }
    this.pending = 0;
    this.ready = Date.now() + Math.max(900, 10 * (Date.now() - begun));
    // What changed while the page was read may not be in it.
    if (this.missed) this.schedule();
  },
};

// One cell for each cluster, in groups. The server sends a letter for each state; a name is asked for when a cell is pointed at.
const map = {
  place: document.getElementById("map"),
  groups: [],
  names: new Map(),
  letters: { f: "failing", s: "silent", n: "never", b: "behind", t: "told", c: "converged" },

  // If the map cannot be read, the page says so, and tries once more.
  show() {
    this.load().catch(() => {
      live.away();
      live.follow();
    });
  },

  async load() {
    const response = await fetch(this.place.dataset.source);
    document.getElementById("map-problem").textContent = response.ok ? "" : `The map cannot be read: ${await response.text()}`;
    if (!response.ok) return;
    const data = await response.json();
    this.names.clear();
    this.revision = data.revision;
    this.without = `without ${data.by}`;
    this.draw(data.groups);
  },

  draw(groups) {
    const total = groups.reduce((sum, group) => sum + group.states.length, 0);
    const width = Math.max(200, this.place.clientWidth);
    // As large as a map of about half a screen allows.
    const area = width * Math.min(600, Math.max(160, innerHeight * 0.5));
    const size = Math.max(2, Math.min(18, Math.floor(Math.sqrt(area / Math.max(1, total)))));
    const gap = size > 6 ? 2 : size > 3 ? 1 : 0;
    const columns = Math.max(1, Math.floor(width / size));
    const style = getComputedStyle(document.documentElement);
    const colours = {};
    for (const [letter, name] of Object.entries(this.letters)) colours[letter] = style.getPropertyValue("--cell-" + name).trim();
    groups.forEach((group, index) => {
      const known = this.groups[index];
      if (!known || known.name !== group.name) {
        this.groups.length = index;
        while (this.place.children.length > index) this.place.lastChild.remove();
        this.groups.push(this.add(group.name));
      }
      const shown = this.groups[index];
      const changed = shown.states !== group.states || shown.size !== size || shown.columns !== columns;
      Object.assign(shown, { states: group.states, size, columns });
      const counts = this.describe(group);
      const name = group.name === null ? this.without : group.name || '""';
      const note = document.createElement("span");
      note.textContent = counts;
      shown.title.replaceChildren(`${name} `, note);
      shown.canvas.setAttribute("aria-label", `${name}: ${counts}. Arrow keys choose a cluster, Enter opens it.`);
      if (changed) this.paint(shown, gap, colours);
    });
    this.groups.length = groups.length;
    while (this.place.children.length > groups.length) this.place.lastChild.remove();
    this.place.dataset.drawn = total;
    performance.mark("map-drawn");
  },

  describe(group) {
    const counts = {};
    for (const letter of group.states) counts[letter] = (counts[letter] || 0) + 1;
    return Object.entries(this.letters).filter(([letter]) => counts[letter]).map(([letter, name]) => `${counts[letter].toLocaleString("en")} ${name}`).join(", ");
  },

  add(name) {
    const section = document.createElement("div");
    const title = document.createElement("h3");
    const canvas = document.createElement("canvas");
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    section.append(title, canvas);
    this.place.append(section);
    const group = { name, title, canvas, states: "", at: -1 };
    canvas.addEventListener("mousemove", (event) => this.point(group, this.find(group, event)));
    canvas.addEventListener("mouseleave", () => this.point(group, -1));
    canvas.addEventListener("click", (event) => this.open(group, this.find(group, event)));
    canvas.addEventListener("keydown", (event) => {
      const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: group.columns, ArrowUp: -group.columns };
      if (event.key in steps) this.point(group, Math.min(group.states.length - 1, Math.max(0, group.at + steps[event.key])));
      else if (event.key === "Enter" && group.at >= 0) this.open(group, group.at);
      else return;
      event.preventDefault();
    });
    return group;
  },

  paint(group, gap, colours) {
    const { canvas, states, size, columns } = group;
    const rows = Math.ceil(states.length / columns);
    const scale = devicePixelRatio || 1;
    canvas.width = columns * size * scale;
    canvas.height = rows * size * scale;
    canvas.style.width = `${columns * size}px`;
    canvas.style.height = `${rows * size}px`;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    for (const [letter, colour] of Object.entries(colours)) {
      context.fillStyle = colour;
      for (let at = states.indexOf(letter); at >= 0; at = states.indexOf(letter, at + 1)) {
        context.fillRect((at % columns) * size, Math.floor(at / columns) * size, size - gap, size - gap);
      }
    }
  },

  find(group, event) {
    const at = Math.floor(event.offsetY / group.size) * group.columns + Math.floor(event.offsetX / group.size);
    return at < group.states.length ? at : -1;
  },

  address(group, at) {
    const query = new URLSearchParams(this.place.dataset.source.split("?")[1]);
    if (group.name !== null) query.set("group", group.name);
    query.set("place", at);
    query.set("revision", this.revision);
    return "/ui/map/cluster?" + query;
  },

  // Says which cluster a cell is. Names are asked for once the pointer rests.
  point(group, at) {
    if (group.at === at) return;
    group.at = at;
    const note = document.getElementById("map-name");
    clearTimeout(this.waiting);
    if (at < 0) return void (note.textContent = "");
    const address = this.address(group, at);
    const show = (id) => (note.textContent = `${id}: ${this.letters[group.states[at]]}`);
    if (this.names.has(address)) return void show(this.names.get(address));
    this.waiting = setTimeout(async () => {
      const response = await fetch(address).catch(() => live.away());
      if (!response || !response.ok) return;
      const { id } = await response.json();
      this.names.set(address, id);
      if (group.at === at) show(id);
    }, 80);
  },

  open(group, at) {
    if (at >= 0) location.assign(this.address(group, at) + "&open=1");
  },
};

// An editor is checked while somebody types: its form is sent as a dry run, and the answer is shown beside it.
function watchEditor(form) {
  const answer = document.getElementById(form.dataset.check);
  let timer = 0;
  let check = new AbortController();
  form.addEventListener("input", () => {
    clearTimeout(timer);
    // One check at a time: that of an older text is given up.
    check.abort();
    const { signal } = (check = new AbortController());
    timer = setTimeout(async () => {
      try {
        const response = await fetch("/ui/check", { method: "POST", body: new URLSearchParams(new FormData(form)), signal });
        const page = new DOMParser().parseFromString(await response.text(), "text/html");
        if (response.redirected) answer.textContent = "Your session has ended: sign in again in another tab, and go on here.";
        else answer.replaceChildren(...page.body.childNodes);
      } catch {
        if (!signal.aborted) answer.textContent = "No connection: the text is not checked.";
      }
    }, 300);
  });
}

// A selector is completed requirement by requirement: what is before the last comma stays.
function completeSelector(field) {
  const labels = [...field.list.options].map((option) => option.value);
  field.addEventListener("input", () => {
    const before = field.value.slice(0, field.value.lastIndexOf(",") + 1);
    field.list.replaceChildren(...labels.map((label) => new Option("", before + label)));
  });
}

document.querySelectorAll("form[data-check]").forEach(watchEditor);
document.querySelectorAll("input[list]").forEach(completeSelector);
if (map.place) {
  map.show();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    map.groups.forEach((group) => (group.states = ""));
    map.show();
  });
  let timer = 0;
  addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(() => map.show(), 200);
  });
}
live.start();
