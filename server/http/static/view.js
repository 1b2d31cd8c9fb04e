// The live view of runs. As a page of `planloom serve --http` it lists runs and follows one; framed
// by an MCP host (the MCP Apps extension) it shows the run of a tool call. Both draw the same report.
//
// What a report says is data from models and tools: it becomes text nodes, never markup.

const RETRY_SECONDS = [1, 2, 5, 10];
const LIST_SECONDS = 2; // between looks at the list of runs
const APP_SECONDS = 1; // between looks at a run through a host
const AGAIN_SECONDS = 5; // before a run that was interrupted is looked at again
const SILENT_SECONDS = 30; // of the server, after which the connection counts as lost
const READING_SECONDS = 0.5; // before a call can be approved: a click may be meant for what stood there
const MAX_HINT_CHARS = 500; // characters
const LONG_QUESTION = 160; // characters, from which on it is set smaller

const MIN_SPAN_WIDTH = 0.002; // of the time line's width
const SHORT_ID = 8; // characters
const SHORT_DIGEST = 12; // characters

const SVG = "http://www.w3.org/2000/svg";

// Elements. A child that is nothing (null, undefined, false, "") is left out; strings are text.

function el(name, attributes, ...children) {
  const element = ["svg", "rect"].includes(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value || value === 0 || value === "") element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child || child === 0));
  return element;
}

/** Make `old` what `fresh` is, touching only what differs: focus, selection and what is open stay.
 * Children with an id are found again wherever they stood, the others by their place. */
function morph(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  let at = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const twin = child.id ? [...old.children].find(({ id }) => id === child.id) : at;
    if (twin?.nodeName !== child.nodeName || (twin.id ?? "") !== (child.id ?? "")) {
      old.insertBefore(child, at);
      continue;
    }
    if (twin === at) at = at.nextSibling;
    else old.insertBefore(twin, at);
    morph(twin, child);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

const byId = (id) => document.getElementById(id);

function show(...children) {
  morph(byId("content"), el("div", { id: "content" }, children));
  document.querySelectorAll("details[open]").forEach(fetchText);
}

/** A line that is read out when it changes. */
function notice(text) {
  if (byId("notice").textContent !== text) byId("notice").textContent = text;
}

// Words

const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

/** As `duration` in server/text.py. */
function duration(given) {
  const seconds = Math.max(0, given); // the clock here may be behind the server's
  const whole = Math.round(seconds);
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  return whole < 120 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

function age(seconds) {
  for (const [unit, name] of [[86_400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= unit) return `${Math.floor(seconds / unit)} ${name} ago`;
  }
  return `${Math.max(0, Math.floor(seconds))} s ago`;
}

/** A project by the name of its folder. */
const folder = (project) => el("span", { class: "project", title: project }, folderName(project));
const folderName = (project) => project.split(/[\\/]/).filter(Boolean).pop() ?? project;

function moment(seconds) {
  const date = new Date(seconds * 1000);
  const today = date.toDateString() === new Date().toDateString();
  return date.toLocaleString([], {
    hour: "2-digit",
    minute: "2-digit",
    ...(today ? {} : { day: "numeric", month: "short" }),
  });
}

/** A status as every view says it. */
function stateOf({ status, approval }) {
  if (approval) return "Waits for approval";
  const word = status.replaceAll("_", " ");
  return word[0].toUpperCase() + word.slice(1);
}

const badge = (run) =>
  el("b", { class: `badge ${run.approval ? "waits" : run.status}` }, stateOf(run));

/** A text that may break between the words of a pattern. */
function breaking(text) {
  return text.split("|").flatMap((part, i) => (i ? ["|", el("wbr"), part] : [part]));
}

/** Text as paragraphs and lists; of Markdown only what a reader would miss: lists and code. */
function prose(text) {
  const blocks = text.split(/^```.*\n([^]*?)^```$/m);
  return el(
    "div",
    { class: "prose" },
    blocks.map((block, i) => {
      if (i % 2) return el("pre", { tabindex: 0 }, block.trimEnd());
      const paragraphs = block.split(/\n{2,}|\n(?=- )|(?<=^- .*)\n(?!- |\s)/m).filter((part) => part.trim());
      return withLists(paragraphs).map((part) =>
        Array.isArray(part)
          ? el("ul", { class: "plain" }, part.map((item) => el("li", null, inline(item))))
          : el("p", null, inline(part.trim())),
      );
    }),
  );
}

/** Parts of a text, those side by side that are items of a list as one list of items. */
function withLists(parts) {
  const found = [];
  for (const part of parts) {
    if (!part.startsWith("- ")) found.push(part);
    else if (Array.isArray(found.at(-1))) found.at(-1).push(part.slice(2));
    else found.push([part.slice(2)]);
  }
  return found;
}

const inline = (text) =>
  text.split(/`([^`\n]+)`/).map((part, i) => (i % 2 ? el("code", null, part) : part));

// One run

/** A run's report (server/views/report.py), with what the page is told besides (server/http/web_view.py). */
function drawRun(report) {
  const { data = null, answer, done } = report;
  const others = done.filter((each) => !answer.includes(`- ${each.replace(/…$/, "")}`));
  return [
    drawState(report),
    el(
      "article",
      { class: "run" },
      drawHead(report),
      el(
        "div",
        { class: "body" },
        drawApproval(report),
        drawAnswer(report),
        data !== null && section("data", "As data", el("pre", { tabindex: 0 }, JSON.stringify(data, null, 2))),
        list("done", others.length === done.length ? "What was done" : "Done before", others),
        list("unsupported", "No result bears this out", report.unsupported),
        list("warnings", "Warnings", report.warnings),
        list("questions", "Questions", report.questions.map(questionInWords)),
        drawPlan(report),
        drawSteering(report),
        drawEvidence(report),
        drawTimeline(report),
      ),
      el("aside", { class: "body", "aria-label": "Cost and checks" }, drawCost(report), drawAside(report)),
    ),
  ];
}

/** How the run stands; it stays in view. */
function drawState(report) {
  const { status, created, began, usage, project } = report;
  const since = status === "running" && began;
  const seconds = since ? Date.now() / 1000 - began : usage?.seconds;
  return el(
    "p",
    { class: "state" },
    el("span", { role: "status" }, badge(report)),
    project && folder(project),
    created && el("span", null, moment(created)),
    seconds !== undefined && el("time", { "data-began": since }, duration(seconds)),
    control && usage && status === "running" && el("button", { "data-do": "stop" }, "Stop"),
  );
}

function drawHead(report) {
  const { status, prompt, doing, run_id, approval } = report;
  const title = prompt || "A run";
  document.title = `${stateOf(report)}: ${title.slice(0, 60)} – Planloom`;
  return el(
    "header",
    null,
    el("h1", title.length > LONG_QUESTION && { class: "long", tabindex: 0 }, title),
    el(
      "p",
      { id: "doing", role: "status" },
      status === "running" && !approval && doing,
      status === "interrupted" && ["Its server has ended. ", el("code", null, `planloom runs resume ${run_id}`), " goes on with it."],
    ),
  );
}

function section(name, title, ...children) {
  return el(
    "section",
    { id: name, class: name, "aria-labelledby": `${name}-title` },
    el("h2", { id: `${name}-title` }, title),
    children,
  );
}

function list(name, title, items) {
  if (!items.length) return null;
  return section(name, title, el("ul", { class: "plain" }, items.map((item) => el("li", null, item))));
}

/** The call that was shown last, and whether it has been shown long enough to be read. */
let asked = {};

/** A call that waits for a person, with all that it would be made with. */
function drawApproval({ approval, run_id, project }) {
  if (!approval) return null;
  if (asked.digest !== approval.digest) {
    const fresh = { digest: approval.digest, read: false };
    asked = fresh;
    sleep(READING_SECONDS).then(() => {
      fresh.read = true;
      redraw();
    });
  }
  const command = `planloom runs approve ${run_id.slice(0, SHORT_ID)}@${approval.digest.slice(0, SHORT_DIGEST)}`;
  const button = (name, word) =>
    el("button", { class: name, "data-do": name, "data-digest": approval.digest, disabled: !asked.read }, word);
  return section(
    "approval",
    "Approval needed",
    el("p", { class: "asked" }, el("strong", null, approval.call)),
    el("pre", { tabindex: 0 }, approval.arguments),
    approval.guess && el("p", { class: "asked" }, approval.guess),
    el(
      "p",
      { class: "faint" },
      `If you approve, the call is made once, exactly as shown${project && `, in ${project}`}. If nobody answers, it is not made: `,
      el("time", { "data-lapses": approval.lapses }, left(approval.lapses)),
      ".",
    ),
    control?.decide && el("p", { class: "choice" }, button("approve", "Approve"), button("decline", "Decline")),
    el("p", { class: "faint" }, "On a terminal: ", el("code", null, command)),
  );
}

const left = (lapses) => `${Math.max(0, Math.round(lapses - Date.now() / 1000))} s left`;

function drawAnswer({ status, answer, draft, reason }) {
  if (status === "running") {
    return draft && section("answer", "Answer, being written", el("div", { class: "draft" }, prose(draft)));
  }
  const why = reason && !answer.includes(reason) && el("p", { class: "faint" }, `Why: ${reason}`);
  return (answer || why) && section("answer", "Answer", prose(answer), why);
}

function drawPlan({ objective, prompt, steps, actions, status }) {
  const next = steps.find((step) => step.status === "later");
  const gathering = actions.filter((action) => action.step === 0);
  if (!steps.length && !gathering.length) return null;
  const looking = status === "running" && !steps.length;
  return section(
    "plan",
    objective ? "Plan" : "Steps",
    objective !== prompt && objective && el("p", { class: "objective" }, objective),
    el(
      "ol",
      null,
      gathering.length > 0 &&
        drawStep({ number: 0, objective: "Look around", status: looking ? "current" : "completed" }, gathering),
      steps.map((step) =>
        drawStep(
          step,
          actions.filter((action) => action.step === step.number),
          status,
          step !== next,
        ),
      ),
    ),
  );
}

const STEPS = {
  completed: "done",
  failed: "without success",
  current: "in progress",
  unfinished: "not finished",
  later: "later",
};

/** A link to this place of the page. */
const permalink = (id, name) =>
  el("a", { class: "permalink", href: `${location.search}#${id}`, "aria-label": `Link to: ${name}` });

/** `movable`: a step that is still to come is not the next one. */
function drawStep(step, actions, status, movable = false) {
  const kind = step.status;
  const word = STEPS[kind];
  const mark = { completed: "✓", failed: "×", unfinished: "×" }[kind] ?? "";
  return el(
    "li",
    { id: `step-${step.number}`, class: `step ${kind}`, "aria-current": kind === "current" && "step" },
    el("span", { class: "knot", "aria-hidden": "true" }, mark),
    el("h3", null, step.objective, " ", el("span", { class: "faint" }, word, step.change && `, ${step.change} may change something`), permalink(`step-${step.number}`, step.objective)),
    step.status === "later" && status === "running" && control && drawChoice(step, movable),
    step.notes && el("p", { class: "note faint" }, inline(step.notes)),
    actions.length > 0 &&
      el("ul", { class: "calls" }, actions.flatMap((action) => action.tool_calls.map((call) => drawCall(action, call)))),
  );
}

function drawChoice({ number, objective }, movable) {
  const button = (name, word) =>
    el("button", { "data-do": name, "data-step": number, "aria-label": `${word}: ${objective}` }, word);
  return el("p", { class: "choice" }, button("skip", "Skip"), movable && button("order", "Do next"));
}

/** What a person may say to a run that goes on, and what was said. */
function drawSteering({ status, steering }) {
  const running = status === "running" && control;
  if (!running && !steering.length) return null;
  const late = status === "running" ? "waits for the next decision" : "came too late";
  return section(
    "steering",
    steering.length ? "Said while it ran" : "Say something to it",
    steering.length > 0 &&
      el(
        "ul",
        { class: "plain" },
        steering.map(({ hint, skip, order, by, taken }) => {
          const said = [
            hint && `“${hint}”`,
            skip.length > 0 && `skip: ${skip.join("; ")}`,
            order.length > 0 && `first: ${order.join("; ")}`,
          ];
          return el("li", null, said.filter(Boolean).join(", "), el("span", { class: "faint" }, ` (by ${by === "person" ? "hand" : "the caller"}${taken ? "" : `, ${late}`})`));
        }),
      ),
    running &&
      el(
        "form",
        { id: "hint" },
        el("label", { for: "words" }, "A hint for the next decision"),
        el("input", { id: "words", maxlength: MAX_HINT_CHARS, autocomplete: "off", required: true }),
        el("button", null, "Say"),
      ),
  );
}

function drawCall(action, call) {
  const time = call.outcome && call.upstream ? `, ${duration(call.execution_time)}` : "";
  const alarm = call.upstream && call.outcome && call.outcome !== "SUCCESS";
  const whole = texts.get(`call-${action.iteration}`);
  return el(
    "li",
    { id: `call-${action.iteration}` },
    el(
      "details",
      { class: "call", "data-fetch": call.outcome && `results/${action.iteration}`, "data-as": `call-${action.iteration}` },
      el(
        "summary",
        null,
        el("code", null, call.name),
        " ",
        el("span", { class: "with faint" }, breaking(call.in_words)),
        " ",
        el("span", { class: alarm ? "outcome alarm" : "outcome" }, call.outcome_text + time),
      ),
      el(
        "dl",
        null,
        action.prompt && [el("dt", null, "To find out"), el("dd", null, action.prompt)],
        el("dt", null, "Arguments"),
        el("dd", null, el("pre", { tabindex: 0 }, JSON.stringify(call.args, null, 2))),
        call.approval && [el("dt", null, "Approval"), el("dd", null, approval(call.approval))],
        call.outcome && [
          el("dt", null, call.upstream ? `Result, from ${call.upstream}` : "Result"),
          el("dd", null, el("pre", { tabindex: 0 }, (whole ?? call.result) || "(nothing)")),
        ],
        call.insights && [el("dt", null, "Noted"), el("dd", null, inline(call.insights))],
      ),
    ),
  );
}

/** As `asked_in_words` in server/views/report_text.py. */
function questionInWords({ upstream, tool, question, action, reason }) {
  const answers = { accept: "answered", decline: "refused", null: "not answered yet" };
  return `${upstream} asked in ${tool}: “${question}”, ${answers[action] ?? `not answered: ${reason}`}`;
}

function approval({ safety, approved, reason }) {
  const word = { true: "approved", false: "refused", null: "not decided yet" }[approved];
  return `${safety.replaceAll("_", " ")}: ${word}${reason ? `, ${reason}` : ""}`;
}

function drawEvidence({ evidence, steps }) {
  if (!evidence.length) return null;
  return section(
    "evidence",
    "Evidence",
    el(
      "ul",
      null,
      evidence.map(({ claims, lines, source, step, tool }) => {
        const objective = steps.find((each) => each.number === step)?.objective ?? "Look around";
        return el(
          "li",
          null,
          el("p", null, source && [el("code", { class: "source" }, source), " "], el("span", { class: "faint" }, el("code", null, tool), ` in “${objective}”`)),
          lines.length > 0 && el("pre", { tabindex: 0 }, lines.join("\n")),
          el("p", { class: "claims faint" }, "Supports: ", claims.map((claim) => [el("code", null, claim), " "])),
        );
      }),
    ),
  );
}

function drawCost({ usage, spared, answer }) {
  const about = usage.cached_told ? "" : "about ";
  const rows = [
    ["Model calls", usage.model_calls],
    ["Prompt tokens", usage.prompt_tokens],
    ["of them cached", about + usage.cached_tokens.toLocaleString("en")],
    ["Generated tokens", usage.generated_tokens],
    ["Models’ time", duration(usage.model_seconds)],
    ["Tool calls", usage.tool_calls],
    ["Tools’ time", duration(usage.tool_seconds)],
  ];
  return section(
    "cost",
    "Cost",
    el(
      "dl",
      null,
      rows.map(([name, value]) => [el("dt", null, name), el("dd", null, value.toLocaleString("en"))]),
    ),
    answer &&
      spared.tokens > 0 &&
      el(
        "p",
        { class: "faint" },
        `The caller got an answer of some ${counted(spared.answer_tokens, "token")} and did not have to read some ${counted(spared.tokens, "token")} of tool results.`,
      ),
  );
}

/** Where the seconds went: in sum, and call by call with what models were asked and replied. */
function drawTimeline({ timeline = [], usage, status }) {
  const spent = usage?.seconds;
  if (!spent || !timeline.length) return null;
  const sums = KINDS.map(([kind, name]) => [kind, name, covered(timeline.filter((span) => span.kind === kind))]);
  const known = covered(timeline.filter(({ kind }) => kind !== "pause")); // no pause counts as spent
  const shown = [...sums, ["other", "Everything else", Math.max(0, spent - known)]].filter(([, , sum]) => sum >= 0.05);
  const whole = Math.max(...timeline.map(({ at, seconds }) => at + seconds), 0.001);
  return section(
    "timeline",
    status === "running" ? "Where the time goes" : "Where the time went",
    el(
      "ul",
      { class: "kinds" },
      shown.map(([kind, name, sum]) =>
        el("li", null, el("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), `${name} ${duration(sum)}`),
      ),
    ),
    el("ol", { class: "spans" }, timeline.map((span) => drawSpan(span, whole, usage.calls))),
  );
}

const KINDS = [
  ["model", "Models"],
  ["tool", "Tools"],
  ["person", "You"],
  ["pause", "Interrupted"],
];

/** Seconds in which any of the spans was under way. */
function covered(spans) {
  let [sum, until] = [0, -Infinity];
  for (const { at, seconds } of [...spans].sort((one, other) => one.at - other.at)) {
    sum += Math.max(0, at + seconds - Math.max(at, until));
    until = Math.max(until, at + seconds);
  }
  return sum;
}

function drawSpan({ kind, what, at, seconds, number }, whole, calls) {
  const width = Math.max(MIN_SPAN_WIDTH, seconds / whole);
  const x = Math.min(at / whole, 1 - width);
  const line = [
    el("span", { class: "what" }, what),
    el(
      "svg",
      { class: "bar", viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" },
      el("rect", { class: kind, x: String(x), y: "0", width: String(width), height: "1" }),
    ),
    el("span", { class: "outcome" }, duration(seconds)),
  ];
  const call = kind === "model" && calls[number];
  if (!call) return el("li", { class: "span" }, el("p", null, line));
  const said = texts.get(`said-${number}`);
  return el(
    "li",
    { class: "span", id: `said-${number}` },
    el(
      "details",
      control?.text && { "data-fetch": `calls/${number}`, "data-as": `said-${number}` },
      el("summary", null, line),
      el(
        "p",
        { class: "faint" },
        `${call.model}, ${call.role}: ${counted(call.prompt_tokens, "token")} read, ${call.cached_tokens.toLocaleString("en")} of them cached; ${counted(call.generated_tokens, "token")} written. `,
        permalink(`said-${number}`, what),
      ),
      said && [
        el("h3", null, "Asked"),
        el("pre", { tabindex: 0 }, said.question),
        el("h3", null, "Replied"),
        el("pre", { tabindex: 0 }, said.reply),
      ],
    ),
  );
}

function drawAside({ upstreams, guards }) {
  const down = upstreams.filter(({ state }) => state !== "ready" && state !== "disabled");
  const held = upstreams.filter(({ held }) => held.length > 0);
  return [
    list("upstreams", "Not available", [
      ...down.map(({ name, error, state }) => `${name}: ${error ?? state}`),
      ...held.map(({ name, held }) => `${name}: ${counted(held.length, "tool")} held back until you consent; planloom tools shows why`),
    ]),
    guards.length > 0 &&
      section(
        "guards",
        "Notes of the checks",
        el(
          "details",
          null,
          el("summary", null, counted(guards.length, "note")),
          el("ul", { class: "plain" }, guards.map((guard) => el("li", null, guard))),
        ),
      ),
  ];
}

// What a person does. `control` says how: through the server, or through a host; null where neither.

let control = null;

/** Whole texts that were fetched, by the id of what they stand in. */
const texts = new Map();

const DO = {
  approve: ({ digest }) => control.decide({ digest, approve: true }),
  decline: ({ digest }) => control.decide({ digest, approve: false }),
  stop: () => control.stop(),
  skip: ({ step }) => control.steer({ skip: [Number(step)] }),
  order: ({ step }) => control.steer({ order: [Number(step)] }),
};

addEventListener("click", ({ target }) => {
  const button = target.closest("[data-do]");
  if (button) done(JSON.stringify(button.dataset), () => DO[button.dataset.do](button.dataset));
});

addEventListener("toggle", ({ target }) => fetchText(target), true);

/** A call that is open shows its whole text, once there is one. */
async function fetchText({ open, dataset: { fetch: path, as: id } }) {
  if (!open || !path || texts.has(id) || !control?.text) return;
  texts.set(id, null); // on its way
  try {
    texts.set(id, await control.text(path));
    redraw();
  } catch (error) {
    texts.delete(id);
    notice(error.message);
  }
}

/** Draw what is shown once more. */
let redraw = () => {};

/** Show the place that the address names, opened. */
function goToHash() {
  const place = location.hash.length > 1 && byId(location.hash.slice(1));
  if (!place) return false;
  const details = place.querySelector(":scope > details");
  if (details) details.open = true;
  place.scrollIntoView();
  return true;
}

addEventListener("hashchange", () => (takeToken() ? location.reload() : goToHash()));

addEventListener("input", ({ target }) => {
  if (target.closest("#filter")) redraw();
});

addEventListener("submit", (event) => {
  event.preventDefault();
  const { id } = event.target;
  const input = event.target.querySelector("input");
  if (id === "filter") return;
  if (id === "entrance") {
    sessionStorage.setItem(TOKEN, input.value.trim());
    input.value = "";
    notice("");
    return void startPage();
  }
  const words = input.value;
  done(`${id} ${words}`, async () => {
    await (id === "ask" ? ask(words) : control.steer({ hint: words }));
    if (input.value === words) input.value = "";
  });
});

/** What a person has asked for and is not done yet. */
const underWay = new Set();
let turn = Promise.resolve();

/** Do one thing after the other; what is pressed twice is done once. */
function done(what, act) {
  if (underWay.has(what)) return;
  underWay.add(what);
  turn = turn.then(async () => {
    try {
      await act();
      notice("");
    } catch (error) {
      notice(error.message);
    } finally {
      underWay.delete(what);
    }
  });
}

setInterval(() => {
  for (const time of document.querySelectorAll("[data-began]")) {
    time.textContent = duration(Date.now() / 1000 - time.dataset.began);
  }
  for (const time of document.querySelectorAll("[data-lapses]")) {
    time.textContent = left(time.dataset.lapses);
  }
}, 1000);

const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

// The page. The token comes with the address, or is asked for; it stays in this tab.

const TOKEN = "planloom token";

class Refused extends Error {}

/** Keep the token that the address has, if it has one, and take it out of there. */
function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token"); // else it names a place
  if (!token) return false;
  sessionStorage.setItem(TOKEN, token);
  history.replaceState(null, "", location.pathname + location.search);
  return true;
}

/** What is awaited of the server, which is given up when it stays silent. */
async function soon(awaited, request) {
  const timer = setTimeout(() => request.abort(), SILENT_SECONDS * 1000);
  try {
    return await awaited;
  } catch {
    throw new Error("The server does not answer.");
  } finally {
    clearTimeout(timer);
  }
}

/** What the server answers; with a `body` something is asked of it. */
async function call(path, body, request = new AbortController()) {
  const token = sessionStorage.getItem(TOKEN);
  if (!token) throw new Refused("");
  const headers = { Authorization: `Bearer ${token}` };
  const post = body && { method: "POST", body: JSON.stringify(body) };
  const { signal } = request;
  const response = await soon(fetch(`view/${path}`, { headers, signal, ...post }), request);
  if (response.ok) return response;
  const said = await response.json().catch(() => null);
  const text = said?.error?.message ?? `The server answered with status ${response.status}.`;
  if (response.status === 401) {
    sessionStorage.removeItem(TOKEN);
    throw new Refused("The server does not know this token.");
  }
  throw Object.assign(new Error(text), { status: response.status });
}

/** The JSON messages of an event stream, as they come. */
async function* messages(path) {
  const request = new AbortController();
  const { body } = await call(path, undefined, request);
  const reader = body.pipeThrough(new TextDecoderStream()).getReader(); // Safari iterates over none
  for (let rest = ""; ; ) {
    const { done, value } = await soon(reader.read(), request);
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) yield JSON.parse(event.slice("data: ".length));
  }
}

async function followRun(path) {
  const report = {};
  for await (const changes of messages(path)) {
    connected();
    const first = !report.status;
    Object.assign(report, changes);
    redraw = () => show(drawRun(report));
    redraw();
    if (first) goToHash();
  }
  return report.status !== "running" && report.status !== "interrupted";
}

async function listRuns() {
  const { runs, project } = await (await call("runs")).json();
  connected();
  const waiting = runs.filter(({ approval }) => approval).length;
  document.title = `${waiting ? `(${waiting}) ` : ""}Runs – Planloom`;
  redraw = () => show(drawList(runs, project));
  redraw();
  return false;
}

/** The runs; `served` is the project that a question here is about. */
function drawList(runs, served) {
  const value = (id) => byId(id)?.value ?? "";
  const words = value("search").toLowerCase().split(/\s+/).filter(Boolean);
  const [state, project] = [value("state"), value("project")];
  const found = runs.filter((run) => {
    const text = `${run.id} ${run.prompt} ${run.project}`.toLowerCase();
    return (
      words.every((word) => text.includes(word)) &&
      (!state || stateOf(run) === state) &&
      (!project || run.project === project)
    );
  });
  return [
    el("h1", null, "Runs"),
    el(
      "form",
      { id: "ask" },
      el("label", { for: "question" }, "Ask about ", folder(served)),
      el("input", { id: "question", autocomplete: "off", required: true }),
      el("button", null, "Ask"),
    ),
    runs.length > 0 && drawFilter(runs),
    found.length > 0 && el("ol", { class: "runs" }, found.map(drawListed)),
    !runs.length && el("p", { class: "faint" }, "No runs yet. A run that you or a client begins shows up here."),
    runs.length > 0 && !found.length && el("p", { class: "faint" }, "No run is like that."),
  ];
}

function drawFilter(runs) {
  const choice = (id, name, all, values, shown = (value) => value) =>
    el(
      "select",
      { id, "aria-label": name },
      el("option", { value: "" }, all),
      values.map((value) => el("option", { id: `${id}-${value}`, value }, shown(value))),
    );
  const different = (values) => [...new Set(values)].filter(Boolean).sort();
  const projects = different(runs.map(({ project }) => project));
  const alike = (project) => projects.filter((each) => folderName(each) === folderName(project)).length > 1;
  return el(
    "form",
    { id: "filter", role: "search" },
    el("input", { id: "search", type: "search", placeholder: "Search", "aria-label": "Search the runs", autocomplete: "off" }),
    choice("state", "State", "Every state", different(runs.map(stateOf))),
    choice("project", "Project", "Every project", projects, (each) => (alike(each) ? each : folderName(each))),
  );
}

function drawListed(run) {
  const { id, created, prompt, project, approval, doing, status } = run;
  return el(
    "li",
    { id: `run-${id}`, class: approval && "waits" },
    el(
      "p",
      { class: "state" },
      badge(run),
      project && folder(project),
      el("span", null, age(Date.now() / 1000 - created)),
      el("code", null, id.slice(0, SHORT_ID)),
    ),
    el("a", { href: `?run=${encodeURIComponent(id)}` }, prompt || "(no question)"),
    approval && el("p", null, el("strong", null, approval.call), " ", el("time", { "data-lapses": approval.lapses }, left(approval.lapses))),
    !approval && status === "running" && el("p", { class: "faint" }, doing),
  );
}

async function ask(prompt) {
  const { id } = await (await call("runs", { prompt })).json();
  location.search = `?run=${id}`;
}

let failed = 0; // looks, one after the other

function connected() {
  if (failed) notice("");
  failed = 0;
}

/** Look again and again, also after a lost connection, until `look` says that all was seen. */
async function keepLooking(look, pause) {
  for (;;) {
    try {
      if (await look()) return;
      await sleep(pause);
    } catch (error) {
      if (error instanceof Refused) return askForToken(error.message);
      if (error.status < 500) return show(el("h1", null, "Nothing to show"), el("p", null, error.message));
      notice(error.status ? error.message : "Connection lost; trying again.");
      await sleep(RETRY_SECONDS[Math.min(failed++, RETRY_SECONDS.length - 1)]);
    }
  }
}

function askForToken(why) {
  show(
    el("h1", null, "Sign in"),
    el(
      "p",
      null,
      "Enter the token of this server. ",
      el("code", null, "planloom token"),
      " prints yours on the machine that the server runs on. Or open the address that the server printed when it started: it signs you in.",
    ),
    el(
      "form",
      { id: "entrance" },
      el("label", { for: "token" }, "Token"),
      el("input", { id: "token", type: "password", autocomplete: "off", required: true }),
      el("button", null, "Sign in"),
    ),
  );
  notice(why);
  byId("token").focus();
}

function startPage() {
  takeToken();
  const run = new URLSearchParams(location.search).get("run");
  byId("all").hidden = !run;
  if (!run) return keepLooking(listRuns, LIST_SECONDS);
  const path = `runs/${encodeURIComponent(run)}`;
  control = {
    decide: (answer) => call(`${path}/approval`, answer),
    text: async (what) => {
      const response = await call(`${path}/${what}`);
      return what.startsWith("calls") ? response.json() : response.text();
    },
    stop: () => call(`${path}/stop`, {}),
    steer: (what) => call(`${path}/steer`, what),
  };
  return keepLooking(() => followRun(path), AGAIN_SECONDS);
}

// The MCP App: JSON-RPC with the host through postMessage, protocol 2026-01-26 of the extension.

function connect(told) {
  const pending = new Map();
  let last = 0;
  const send = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  addEventListener("message", ({ source, data }) => {
    if (source !== parent || data?.jsonrpc !== "2.0") return;
    const { id, method, params = {}, result, error } = data;
    if (method === undefined) pending.get(id)?.(error ? Promise.reject(new Error(error.message)) : result);
    else if (id === undefined) told[method]?.(params);
    else if (["ping", "ui/resource-teardown"].includes(method)) send({ id, result: {} });
    else send({ id, error: { code: -32601, message: `No such method: ${method}` } });
  });
  return {
    tell: (method, params) => send({ method, params }),
    ask(method, params) {
      const id = ++last;
      send({ id, method, params });
      return new Promise((resolve) => pending.set(id, resolve)).finally(() => pending.delete(id));
    },
  };
}

async function startApp() {
  document.documentElement.classList.add("app");
  const report = { status: "running", doing: "Waiting for the run to begin" };

  function take(changes) {
    Object.assign(report, changes);
    if (report.usage) report.doing = currentStep(report);
    const short = () => el("article", { class: "run" }, drawHead(report), report.answer && el("div", { class: "body" }, drawAnswer(report)));
    redraw = () => show(report.usage ? drawRun(report) : [drawState(report), short()]);
    redraw();
  }

  const { tell, ask } = connect({
    "ui/notifications/tool-input": ({ arguments: given = {} }) => take({ prompt: given.prompt, run_id: given.run_id }),
    "ui/notifications/tool-result": ({ structuredContent, content = [] }) => {
      if (structuredContent?.run_id) return ended(structuredContent);
      take({ status: "failed" });
      byId("content").append(prose(content.map(({ text = "" }) => text).join("\n\n")));
    },
    "ui/notifications/tool-cancelled": () => take({ status: "cancelled" }),
    "ui/notifications/host-context-changed": dress,
  });

  const { hostContext = {}, hostCapabilities = {} } = await ask("ui/initialize", {
    protocolVersion: "2026-01-26",
    appInfo: { name: "planloom", version: "1" },
    appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
  });
  dress(hostContext);
  tell("ui/notifications/initialized", {});
  new ResizeObserver(() => {
    const { width, height } = document.body.getBoundingClientRect();
    tell("ui/notifications/size-changed", { width: Math.ceil(width), height: Math.ceil(height) });
  }).observe(document.body);

  const callTool = async (name, given) => {
    const { structuredContent, isError, content } = await ask("tools/call", { name, arguments: given });
    if (structuredContent?.usage) take(structuredContent); // a whole report, also of a failed run
    else if (structuredContent?.run_id) await ended(structuredContent);
    else if (isError) throw new Error(content[0].text);
  };
  if (hostCapabilities.serverTools) {
    control = {
      stop: () => callTool("cancel_run", { run_id: report.run_id }),
      steer: (what) => callTool("steer_run", { run_id: report.run_id, ...what }),
    };
  }

  /** A result has a run in short; the view draws the whole of it. */
  async function ended({ run_id, status, answer }) {
    if (!hostCapabilities.serverResources && !hostCapabilities.serverTools) return take({ run_id, status, answer });
    report.run_id = run_id;
    await look();
  }

  /** The run so far. A host tells its app of a tool call only when it begins and when it ends. */
  async function look() {
    if (!hostCapabilities.serverResources) {
      if (report.run_id) await callTool("get_run", { run_id: report.run_id, wait_s: 0, whole: true });
      return;
    }
    const run_id = report.run_id ?? (await newestOf(report.prompt));
    const found = run_id && (await read(`run://${run_id}`));
    if (found && report.status === "running") take(found);
  }

  async function read(uri) {
    const { contents } = await ask("resources/read", { uri });
    return JSON.parse(contents.find(({ mimeType }) => mimeType === "application/json").text);
  }

  async function newestOf(prompt) {
    const { runs } = await read("runs://newest");
    return runs.find((run) => run.status === "running" && run.prompt === prompt)?.id;
  }

  while (control || hostCapabilities.serverResources) {
    await sleep(APP_SECONDS);
    if (report.status !== "running") return;
    try {
      if (report.run_id || report.prompt) await look();
    } catch (error) {
      return notice(`This client does not let the view read more: ${error.message}`);
    }
  }
}

/** In the host's colours and fonts. */
function dress({ theme, styles }) {
  const { style } = document.documentElement;
  if (theme) style.colorScheme = theme;
  for (const [name, value] of Object.entries(styles?.variables ?? {})) {
    if (value) style.setProperty(name, value);
  }
}

function currentStep({ steps }) {
  const step = steps.find(({ status }) => status === "current");
  return step ? `Step ${step.number} of ${steps.length}: ${step.objective}` : "Looking around";
}

// Our page is never framed: its Content-Security-Policy says so.
if (parent !== window) startApp();
else startPage();
