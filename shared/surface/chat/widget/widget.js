// Lanekeeper's chat widget. A site embeds it with one tag and its site key:
//
//   <script src="https://HOST/chat/widget.js" data-key="lks_…" async></script>
//
// Attributes of the tag:
//   data-key       the site key (bin/lanekeeper site-keys create). It is public: it may chat, and no more.
//   data-title     the name of the conversation
//   data-greeting  the first words of the agent
//   data-color     the main color, as #rgb or #rrggbb
//   data-lang      en, de, es or fr; else the page's language, or the visitor's
//   data-base      the URL of the API, where it is not the one that serves this file
//
// A site with a Content-Security-Policy allows HOST in script-src and connect-src. It needs to allow
// nothing else: there is no inline style, no image and no eval here.
//
// What the agent and the visitor say is shown as text nodes. No markup is ever made of it.
(() => {
  "use strict";
  const script = document.currentScript;
  if (!script?.dataset.key || document.querySelector("lanekeeper-chat")) return;
  const key = script.dataset.key;
  const base = new URL(script.dataset.base || new URL("..", script.src), location.href).href.replace(/\/$/, "");

  // --- Texts -------------------------------------------------------------------------------------

  const languages = {
    en: {
      title: "Chat",
      greeting: "Hello! How can I help you?",
      open: "Open the chat",
      unread: "Open the chat: there is an answer",
      close: "Close the chat",
      log: "Conversation",
      message: "Your message",
      send: "Send",
      you: "You:",
      agent: "Answer:",
      answering: "An answer is being written",
      looking: "Something is being looked up",
      loading: "The conversation is loading",
      again: "Try again",
      anew: "Start a new conversation",
      note: "A program writes the answers. They can be wrong.",
      offline: "You are offline.",
      unsent: "Your message was not sent.",
      lost: "The connection was lost. Connecting again",
      many: "These were too many messages in a short time. Your message was not sent.",
      spent: "This conversation has become too long to go on.",
      closed: "The chat is not available here.",
      unfit: "This message can't be sent. Write it in other or fewer words.",
      trouble: "The chat is not available at the moment.",
      failed: "There is no answer, because something went wrong. Please ask again.",
      waiting: "A person looks at this first. The answer will be shown here.",
      parked: "The answer takes longer than usual. It will be shown here.",
      unloaded: "The answer could not be loaded.",
      history: "Earlier messages could not be loaded.",
    },
    de: {
      title: "Chat",
      greeting: "Hallo! Wie kann ich helfen?",
      open: "Chat öffnen",
      unread: "Chat öffnen: eine Antwort ist da",
      close: "Chat schließen",
      log: "Unterhaltung",
      message: "Ihre Nachricht",
      send: "Senden",
      you: "Sie:",
      agent: "Antwort:",
      answering: "Die Antwort wird geschrieben",
      looking: "Es wird etwas nachgesehen",
      loading: "Die Unterhaltung wird geladen",
      again: "Noch einmal versuchen",
      anew: "Neue Unterhaltung beginnen",
      note: "Ein Programm schreibt die Antworten. Sie können falsch sein.",
      offline: "Sie sind offline.",
      unsent: "Ihre Nachricht wurde nicht gesendet.",
      lost: "Die Verbindung ist abgebrochen. Sie wird neu aufgebaut",
      many: "Das waren zu viele Nachrichten in kurzer Zeit. Ihre Nachricht wurde nicht gesendet.",
      spent: "Diese Unterhaltung ist zu lang geworden.",
      closed: "Der Chat ist hier nicht verfügbar.",
      unfit: "Diese Nachricht kann nicht gesendet werden. Schreiben Sie sie anders oder kürzer.",
      trouble: "Der Chat ist gerade nicht verfügbar.",
      failed: "Es gibt keine Antwort, weil etwas schiefging. Bitte fragen Sie noch einmal.",
      waiting: "Zuerst sieht sich ein Mensch das an. Die Antwort erscheint hier.",
      parked: "Die Antwort dauert länger als sonst. Sie erscheint hier.",
      unloaded: "Die Antwort konnte nicht geladen werden.",
      history: "Frühere Nachrichten konnten nicht geladen werden.",
    },
    es: {
      title: "Chat",
      greeting: "¡Hola! ¿En qué puedo ayudarle?",
      open: "Abrir el chat",
      unread: "Abrir el chat: hay una respuesta",
      close: "Cerrar el chat",
      log: "Conversación",
      message: "Su mensaje",
      send: "Enviar",
      you: "Usted:",
      agent: "Respuesta:",
      answering: "Se está escribiendo una respuesta",
      looking: "Se está consultando algo",
      loading: "Se está cargando la conversación",
      again: "Intentar de nuevo",
      anew: "Empezar otra conversación",
      note: "Un programa escribe las respuestas. Pueden ser erróneas.",
      offline: "No tiene conexión.",
      unsent: "Su mensaje no se ha enviado.",
      lost: "Se perdió la conexión. Conectando de nuevo",
      many: "Demasiados mensajes en poco tiempo. Su mensaje no se ha enviado.",
      spent: "Esta conversación es demasiado larga para continuar.",
      closed: "El chat no está disponible aquí.",
      unfit: "Este mensaje no se puede enviar. Escríbalo con otras o menos palabras.",
      trouble: "El chat no está disponible en este momento.",
      failed: "No hay respuesta porque algo falló. Por favor, pregunte de nuevo.",
      waiting: "Una persona lo revisa primero. La respuesta aparecerá aquí.",
      parked: "La respuesta tarda más de lo habitual. Aparecerá aquí.",
      unloaded: "No se pudo cargar la respuesta.",
      history: "No se pudieron cargar los mensajes anteriores.",
    },
    fr: {
      title: "Chat",
      greeting: "Bonjour ! Comment puis-je vous aider ?",
      open: "Ouvrir le chat",
      unread: "Ouvrir le chat : une réponse est arrivée",
      close: "Fermer le chat",
      log: "Conversation",
      message: "Votre message",
      send: "Envoyer",
      you: "Vous :",
      agent: "Réponse :",
      answering: "Une réponse est en cours de rédaction",
      looking: "Une recherche est en cours",
      loading: "La conversation se charge",
      again: "Réessayer",
      anew: "Commencer une nouvelle conversation",
      note: "Un programme écrit les réponses. Elles peuvent être fausses.",
      offline: "Vous êtes hors ligne.",
      unsent: "Votre message n'a pas été envoyé.",
      lost: "La connexion est perdue. Nouvelle tentative",
      many: "Trop de messages en peu de temps. Votre message n'a pas été envoyé.",
      spent: "Cette conversation est devenue trop longue.",
      closed: "Le chat n'est pas disponible ici.",
      unfit: "Ce message ne peut pas être envoyé. Écrivez-le autrement ou plus court.",
      trouble: "Le chat n'est pas disponible pour le moment.",
      failed: "Il n'y a pas de réponse, car une erreur s'est produite. Veuillez redemander.",
      waiting: "Une personne regarde d'abord. La réponse apparaîtra ici.",
      parked: "La réponse prend plus de temps que d'habitude. Elle apparaîtra ici.",
      unloaded: "La réponse n'a pas pu être chargée.",
      history: "Les messages précédents n'ont pas pu être chargés.",
    },
  };
  const lang =
    [script.dataset.lang, document.documentElement.lang, ...(navigator.languages || [])]
      .map((l) => (l || "").slice(0, 2).toLowerCase())
      .find((l) => languages[l]) || "en";
  const texts = languages[lang];
  const title = script.dataset.title || texts.title;

  // --- Memory ------------------------------------------------------------------------------------

  // memory is who the visitor is and which thread is theirs. It outlives the page where the browser
  // stores anything; nothing is stored before the first message.
  const place = `lanekeeper-chat:${base}:${key}`;
  let memory = { session: "", thread: "", draft: "" };
  try {
    const stored = JSON.parse(localStorage.getItem(place) || "{}");
    for (const name in memory) if (typeof stored[name] === "string") memory[name] = stored[name];
  } catch {
    /* without storage, the memory ends with the page */
  }
  const remember = (facts) => {
    memory = { ...memory, ...facts };
    try {
      localStorage.setItem(place, JSON.stringify(memory));
    } catch {
      /* as above */
    }
  };
  // random returns 128 random bits.
  const random = () =>
    Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");

  // --- Server ------------------------------------------------------------------------------------

  const silence = 60_000; // a stream says at least every 15 seconds that it goes on

  // A Refusal is an answer that is not a success.
  class Refusal extends Error {
    constructor(response, code) {
      super(`${response.status} ${code}`);
      this.status = response.status;
      this.code = code;
      const after = Number(response.headers.get("Retry-After"));
      this.after = after > 0 ? Math.min(after, 3600) : 0; // seconds
      this.passing = [409, 429].includes(response.status) || response.status >= 500;
    }
  }

  // ask sends a request of the visitor. It throws a Refusal, or an error of the network.
  const ask = async (path, { message, last } = {}) => {
    const headers = { Authorization: `Bearer ${key}`, "X-Session-Id": memory.session };
    if (last) headers["Last-Event-ID"] = last;
    if (message) {
      headers["Content-Type"] = "application/json";
      headers["Idempotency-Key"] = message.key; // browsers may send a request again by themselves
    }
    const response = await fetch(`${base}/api/v1/chat/${path}`, {
      method: message ? "POST" : "GET",
      headers,
      credentials: "omit",
      cache: "no-store",
      body: message && JSON.stringify({ message: message.body, stream: true }),
    });
    if (response.ok) return response;
    const problem = await response.json().catch(() => ({}));
    throw new Refusal(response, problem.code || problem.error?.code || problem.error?.type || "");
  };

  // events yields the server-sent events of a response. It ends where the stream ends or says nothing
  // for too long, and throws where it breaks.
  async function* events(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let event = { id: "", name: "", data: "" };
    for (;;) {
      const hung = setTimeout(() => reader.cancel(), silence);
      const { value, done } = await reader.read().finally(() => clearTimeout(hung));
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines.map((l) => l.replace(/\r$/, ""))) {
        const [, field, text] = /^([^:]*):? ?(.*)$/.exec(line);
        if (field === "id") event.id = text;
        if (field === "event") event.name = text;
        if (field === "data") event.data += text;
        if (line === "") {
          if (event.data) yield event;
          event = { id: event.id, name: "", data: "" };
        }
      }
    }
  }

  // history reads all messages of the visitor's thread, oldest first.
  const history = async () => {
    const all = [];
    for (let cursor = ""; cursor !== null && all.length < 1000;) {
      const page = await (
        await ask(`${memory.thread}/messages?limit=200${cursor && `&cursor=${encodeURIComponent(cursor)}`}`)
      ).json();
      all.push(...page.items);
      cursor = page.nextCursor || null;
    }
    return all.filter((m) => (m.role === "user" || m.role === "assistant") && m.body);
  };

  // pause waits, in milliseconds; while the visitor is offline, until they no longer are.
  const pause = (time) =>
    new Promise((resolve) => {
      const over = () => {
        clearTimeout(timer);
        removeEventListener("online", over);
        resolve();
      };
      const timer = setTimeout(over, navigator.onLine ? time : 60_000);
      addEventListener("online", over);
    });

  // --- View --------------------------------------------------------------------------------------

  // el makes an element with attributes and children: elements, or strings that become text.
  const el = (name, attributes = {}, ...children) => {
    const e = document.createElement(name);
    for (const a in attributes) e.setAttribute(a, attributes[a]);
    e.append(...children);
    return e;
  };
  // icon makes a picture of one path.
  const icon = (d) => {
    const [svg, path] = ["svg", "path"].map((n) => document.createElementNS("http://www.w3.org/2000/svg", n));
    svg.setAttribute("viewBox", "0 0 24 24");
    svg.setAttribute("aria-hidden", "true");
    path.setAttribute("d", d);
    svg.append(path);
    return svg;
  };

  // linked returns a text as nodes: text, and links for what is an http(s) address. A link shows its
  // whole address, with the host as the browser knows it, so that it leads where it says.
  const linked = (text) =>
    text
      .split(/(\bhttps?:\/\/[^\s<>"'`\\^{|}\u200b-\u200f\u202a-\u202e\u2060-\u2069]+)/i)
      .flatMap((part, i) => {
        if (i % 2 === 0) return [part];
        const [, address, tail] = (part.includes("(") ? /^(.*?)([.,;:!?\]*]*)$/ : /^(.*?)([.,;:!?)\]*]*)$/).exec(part);
        if (!URL.canParse(address)) return [part];
        const url = new URL(address);
        if (!/^https?:$/.test(url.protocol) || url.username || url.password) return [part];
        const shown = url.host.includes("xn--") ? url.href : address;
        return [el("a", { href: url.href, target: "_blank", rel: "noopener noreferrer nofollow" }, shown), tail];
      })
      .filter((node) => node !== "");

  const style = new CSSStyleSheet();
  style.replaceSync(`
    :host { all: initial !important; }
    @media print { :host { display: none !important; } }
    .chat {
      --ink: #14171c; --quiet: #5a6270; --line: #dfe3e8; --surface: #fff; --sunken: #f1f3f5;
      --accent: #1d5fd1; --on: #fff;
      --warn: #8a3b00; color-scheme: light; color: var(--ink); text-align: start;
      font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; -webkit-text-size-adjust: 100%;
    }
    @media (prefers-color-scheme: dark) {
      .chat { --ink: #edeff2; --quiet: #a3abb8; --line: #333b46; --surface: #14181d; --sunken: #232932;
        --accent: #6ea8ff; --on: #0c0e11;
        --warn: #f0b072; color-scheme: dark; }
    }
    * { box-sizing: border-box; }
    button, textarea { font: inherit; color: inherit; margin: 0; }
    button { cursor: pointer; border: 0; background: none; padding: 0; }
    svg { width: 24px; height: 24px; fill: currentColor; display: block; }
    :focus { outline: none; }
    :focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
    .hidden {
      position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
      white-space: nowrap;
    }

    .launch {
      position: fixed; z-index: 2147483000; inset-block-end: max(20px, env(safe-area-inset-bottom));
      inset-inline-end: 20px;
      width: 60px; height: 60px; border-radius: 50%; display: grid; place-items: center;
      background: var(--accent); color: var(--on); border: 1px solid #ffffff40;
      box-shadow: 0 6px 24px #0000003d;
    }
    .launch svg { width: 28px; height: 28px; }
    .launch[data-unread]::after {
      content: ""; position: absolute; inset-block-start: 2px; inset-inline-end: 2px; width: 14px; height: 14px;
      border-radius: 50%; background: #e5484d; border: 2px solid #fff;
    }

    .panel {
      position: fixed; z-index: 2147483000; inset: auto; inset-block-end: 96px; inset-inline-end: 20px;
      margin: 0; padding: 0;
      width: 400px; max-width: calc(100vw - 40px); height: 640px; max-height: calc(100dvh - 116px);
      overflow: hidden;
      background: var(--surface); color: var(--ink); border: 1px solid var(--line); border-radius: 16px;
      box-shadow: 0 12px 48px #00000040;
    }
    .panel[open] { display: flex; flex-direction: column; }
    .panel::backdrop { background: none; }
    .head {
      display: flex; align-items: center; gap: 12px; padding: 12px 8px 12px 20px;
      border-block-end: 1px solid var(--line);
    }
    .title { flex: 1; font-weight: 600; overflow-wrap: anywhere; }
    .head button {
      width: 44px; height: 44px; display: grid; place-items: center; border-radius: 10px;
      color: var(--quiet);
    }
    .head button:hover { background: var(--sunken); }
    .log { flex: 1; overflow-y: auto; overscroll-behavior: contain; padding: 20px; }
    .log:focus-visible { outline-offset: -3px; }
    .say {
      position: relative; width: fit-content; max-width: 88%; margin: 0 0 12px; padding: 10px 14px;
      border-radius: 16px; border-end-start-radius: 4px;
      background: var(--sunken); white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: plaintext;
    }
    .user {
      margin-inline-start: auto; border-radius: 16px; border-end-end-radius: 4px; background: var(--accent);
      color: var(--on);
    }
    .say a { color: inherit; text-decoration: underline; text-underline-offset: 2px; }
    .say a:focus-visible { outline-color: currentColor; }
    .notice {
      margin: 0 0 16px; padding: 0 0 0 12px; border-inline-start: 3px solid var(--warn); font-size: 14px;
    }
    .notice button {
      display: block; margin-block-start: 8px; padding: 9px 16px; min-height: 44px;
      border: 1px solid var(--line); border-radius: 10px;
      font-weight: 600; background: var(--surface);
    }
    .notice button:hover { background: var(--sunken); }
    .notice button:disabled { color: var(--quiet); cursor: default; font-weight: 400; }
    .status {
      min-height: 22px; margin: 0; padding: 0 20px 4px; font-size: 13px; line-height: 18px;
      color: var(--quiet);
    }
    .status:not(:empty)::after { content: " …"; }

    .write { display: flex; align-items: end; gap: 8px; margin: 0; padding: 8px 12px 0; }
    .write textarea {
      flex: 1; min-width: 0; height: 46px; max-height: 160px; padding: 10px 14px; resize: none;
      border: 1px solid var(--quiet);
      border-radius: 14px; background: var(--surface); font-size: 16px; line-height: 24px; overflow-y: auto;
    }
    .write textarea::placeholder { color: var(--quiet); opacity: 1; }
    .write textarea:focus-visible { outline-offset: -1px; outline-width: 2px; }
    .write button {
      flex: none; width: 46px; height: 46px; display: grid; place-items: center; border-radius: 14px;
      background: var(--accent); color: var(--on);
    }
    .write button[aria-disabled="true"] { background: var(--sunken); color: var(--quiet); cursor: default; }
    .note {
      margin: 0; padding: 6px 20px 10px; font-size: 12px; line-height: 16px; color: var(--quiet); text-wrap: balance;
      text-align: center;
    }

    @media (max-width: 480px), (max-height: 480px) {
      .panel {
        inset: 0; width: 100%; max-width: none; height: 100dvh; max-height: none; border: 0;
        border-radius: 0;
      }
    }
    @media (prefers-reduced-motion: no-preference) {
      .panel[open] { animation: appear 0.16s ease-out; }
      .launch { transition: transform 0.12s; }
      .launch:hover { transform: scale(1.05); }
      .status:not(:empty) { animation: breathe 1.6s ease-in-out infinite; }
      @keyframes appear { from { opacity: 0; transform: translateY(12px); } }
      @keyframes breathe { 50% { opacity: 0.7; } }
    }
    @media (forced-colors: active) {
      .launch, .write button, .user { border: 1px solid; }
      svg { fill: ButtonText; }
    }
  `);

  const host = el("lanekeeper-chat", { role: "region", "aria-label": title, lang });
  const shadow = host.attachShadow({ mode: "open" });
  const launch = el(
    "button",
    { class: "launch", type: "button", "aria-label": texts.open, "aria-haspopup": "dialog" },
    icon("M4 3h16a2 2 0 0 1 2 2v11a2 2 0 0 1-2 2h-8l-5 4v-4H4a2 2 0 0 1-2-2V5a2 2 0 0 1 2-2zm3 5v2h10V8zm0 4v2h7v-2z"),
  );
  const closer = el(
    "button",
    { type: "button", "aria-label": texts.close },
    icon("M6.4 5 12 10.6 17.6 5 19 6.4 13.4 12l5.6 5.6-1.4 1.4-5.6-5.6L6.4 19 5 17.6l5.6-5.6L5 6.4z"),
  );
  const log = el("div", { class: "log", role: "log", "aria-live": "polite", "aria-label": texts.log, tabindex: "0" });
  const status = el("p", { class: "status", role: "status" });
  const input = el("textarea", {
    id: "message",
    rows: "1",
    maxlength: "4000",
    enterkeyhint: "send",
    placeholder: texts.message,
  });
  const sender = el("button", { type: "submit", "aria-label": texts.send }, icon("M3 4l19 8-19 8 3-7 9-1-9-1z"));
  const form = el(
    "form",
    { class: "write" },
    el("label", { class: "hidden", for: "message" }, texts.message),
    input,
    sender,
  );
  const panel = el(
    "dialog",
    { class: "panel", id: "panel", role: "dialog", "aria-labelledby": "title" },
    el("div", { class: "head" }, el("div", { class: "title", id: "title" }, title), closer),
    log,
    status,
    form,
    el("p", { class: "note" }, texts.note),
  );
  const chat = el("div", { class: "chat" }, launch, panel);
  shadow.adoptedStyleSheets = [style];
  shadow.append(chat);

  // The text on the main color is white or black, whichever is read more easily.
  const color = /^#([0-9a-f]{3}|[0-9a-f]{6})$/i.exec(script.dataset.color || "")?.[1];
  if (color) {
    const [r, g, b] = (color.length === 3 ? color.replace(/./g, "$&$&") : color)
      .match(/../g)
      .map((h) => parseInt(h, 16) / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    chat.style.setProperty("--accent", `#${color}`);
    chat.style.setProperty("--on", 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff");
  }

  // shown are the messages on display, oldest first: {role, body, id, execution, node}.
  let shown = [];

  // isNear says whether the end of the log is seen.
  const isNear = () => log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  // add puts a node at the end of the log, and scrolls there unless the visitor reads further up.
  const add = (node, always) => {
    const near = isNear();
    if (node.parentNode !== log) log.append(node);
    if (near || always) log.scrollTop = log.scrollHeight;
  };
  const bubble = (role, body) =>
    el(
      "div",
      { class: `say ${role}` },
      el("span", { class: "hidden" }, `${role === "user" ? texts.you : texts.agent} `),
      ...linked(body),
    );
  const show = (message) => {
    message.node = bubble(message.role, message.body);
    shown.push(message);
    add(message.node, message.role === "user");
    return message;
  };
  const say = (text = "") => {
    if (status.textContent !== text) status.textContent = text;
  };

  // There is one notice at most: what went wrong, and what the visitor can do about it.
  let notice, counting;
  const unnotice = () => {
    clearInterval(counting);
    notice?.remove();
    notice = null;
  };
  const note = (text, label, act, wait = 0) => {
    unnotice();
    notice = el("div", { class: "notice" }, text);
    if (label) {
      const button = el("button", { type: "button" });
      const count = () => {
        button.disabled = wait > 0;
        button.textContent = wait > 0 ? `${label} (${wait})` : label;
        if (wait-- <= 0) clearInterval(counting);
      };
      counting = setInterval(count, 1000);
      count();
      button.addEventListener("click", () => {
        unnotice();
        input.focus();
        act();
      });
      notice.append(button);
    }
    add(notice, true);
  };

  // --- Conversation ------------------------------------------------------------------------------

  let busy = false; // a message is being sent, or answered
  let loaded = false; // the history was read
  let awaited = ""; // the execution whose answer comes later

  const setBusy = (now) => {
    busy = now;
    mark();
    if (!now) say();
  };
  const mark = () => sender.setAttribute("aria-disabled", String(busy || !input.value.trim()));

  // merge shows those messages of the history that are not on display.
  const merge = (items) => {
    for (const item of items) {
      if (item.role === "user" && item.body === memory.draft) {
        // It was sent before the page was left.
        if (input.value === memory.draft) input.value = "";
        remember({ draft: "" });
        fit();
      }
      const same =
        shown.find((m) => m.id === item.id) ||
        shown.find(
          (m) =>
            !m.id &&
            m.role === item.role &&
            (m.role === "user" && m.execution && item.executionId
              ? m.execution === item.executionId
              : m.body === item.body),
        );
      if (same) {
        same.id = item.id;
        same.execution ||= item.executionId;
      } else {
        show({ role: item.role, body: item.body, id: item.id, execution: item.executionId });
        if (item.role === "assistant") arrived();
      }
    }
  };

  // An Answer is what has come of one message so far: its text by the step that wrote it.
  class Answer {
    constructor(execution) {
      this.execution = execution;
      this.steps = new Map();
      this.last = ""; // the id of the last event
    }
    get text() {
      return [...this.steps.values()].filter(Boolean).join("\n\n");
    }

    // take takes an event, and returns what done says.
    take({ id, name, data }) {
      this.last = id;
      const step = id.split(".")[0];
      const said = JSON.parse(data);
      if (name === "restart") this.steps.delete(step);
      if (name === "delta") this.steps.set(step, (this.steps.get(step) || "") + said.text);
      if (name === "step") say(said.status === "started" ? texts.looking : texts.answering);
      else say(texts.answering);
      return name === "done" ? said : null;
    }
  }

  // follow shows an answer while it is written, and returns what done says. A stream that breaks goes
  // on behind its last event.
  const follow = async (answer, response) => {
    const text = document.createTextNode("");
    const draft = el("div", { class: "say assistant", "aria-hidden": "true" }, text); // read out once it is whole
    try {
      for (let failures = 0; ; failures++) {
        let wait = Math.min(250 * 2 ** failures, 15_000);
        try {
          response ||= await ask(`${memory.thread}/executions/${answer.execution}/events`, { last: answer.last });
          for await (const event of events(response)) {
            failures = 0;
            const done = answer.take(event);
            if (done) return done;
            text.data = answer.text;
            if (text.data) add(draft);
          }
        } catch (error) {
          if ((error instanceof Refusal && !error.passing) || failures >= 10) throw error;
          wait = Math.max(wait, (error.after || 0) * 1000);
        }
        response = null;
        if (!answer.execution) throw new Error("the answer has no id to come back to");
        if (failures > 0) say(navigator.onLine ? texts.lost : texts.offline);
        await pause(wait);
      }
    } finally {
      draft.remove();
    }
  };

  // finish shows how an answer ended.
  const finish = (answer, done) => {
    const own = done.status === "completed" || answer.text.includes(done.answer); // else it is the server's sentence
    const body = (own && done.answer) || answer.text;
    if (body) {
      show({ role: "assistant", body, execution: answer.execution });
      arrived();
    }
    if (done.status === "waiting" || done.status === "parked") {
      awaited = answer.execution;
      note(texts[done.status]);
      poll();
    } else if (done.status !== "completed") {
      note(texts.failed);
    }
  };

  // arrived tells a visitor who has closed the panel that there is something to read.
  const arrived = () => {
    if (panel.open) return;
    launch.dataset.unread = "";
    launch.setAttribute("aria-label", texts.unread);
  };

  // send sends a message once. It is sent again only when the visitor says so.
  const send = async (message) => {
    setBusy(true);
    unnotice();
    say(texts.answering);
    if (!memory.session) remember({ session: random() });
    remember({ draft: message.body });
    try {
      if (!navigator.onLine) throw new TypeError("offline");
      const response = await ask(memory.thread ? `${memory.thread}/messages` : "messages", { message });
      await answered(message, response);
    } catch (error) {
      await unanswered(message, error);
    }
    setBusy(false);
  };

  // answered follows the answer to a message that the server has taken.
  const answered = async (message, response) => {
    const stream = /^text\/event-stream/.test(response.headers.get("Content-Type") || "");
    const done = stream ? null : await response.json();
    message.execution = response.headers.get("X-Execution-Id") || done?.executionId || "";
    message.taken = true;
    remember({ thread: response.headers.get("X-Thread-Id") || done?.threadId || memory.thread, draft: "" });
    loaded = true;
    const answer = new Answer(message.execution);
    finish(answer, done || (await follow(answer, response)));
  };

  // unanswered tells why there is no answer. Where the message may have arrived all the same, it looks
  // into the history first.
  const unanswered = async (message, error) => {
    const again = () => send(message);
    const refused = error instanceof Refusal;
    if (message.taken) return missed();
    if (refused && error.status === 404 && memory.thread) {
      // The thread is gone, or another visitor's.
      remember({ thread: "" });
      return send(message);
    }
    if (refused && error.status === 429) {
      if (error.code === "spent") return note(texts.spent, texts.anew, () => anew(message.body));
      if (error.code === "insufficient_quota") return note(`${texts.trouble} ${texts.unsent}`);
      return note(texts.many, texts.again, again, Math.ceil(error.after));
    }
    if (refused && (error.status === 401 || error.status === 403)) return note(texts.closed);
    if (refused && !error.passing) return note(texts.unfit);
    if (memory.thread && navigator.onLine) {
      try {
        const items = await history();
        const known = new Set(shown.map((m) => m.execution));
        const mine = items.filter((m) => m.role === "user").pop();
        if (mine?.body === message.body && !known.has(mine.executionId)) {
          Object.assign(message, { id: mine.id, execution: mine.executionId, taken: true });
          remember({ draft: "" });
          merge(items);
          return await goOn();
        }
      } catch {
        /* it is unknown still: the visitor decides */
      }
    }
    const why = !navigator.onLine ? texts.offline : refused ? texts.trouble : "";
    note(`${why} ${texts.unsent}`.trim(), texts.again, again, Math.ceil(error.after || 0));
  };

  // missed looks for an answer whose stream is lost in the history, and else offers to look again.
  const missed = async () => {
    try {
      merge(await history());
    } catch {
      /* as if it were not there */
    }
    if (shown[shown.length - 1]?.role !== "assistant") note(texts.unloaded, texts.again, refresh);
  };

  // goOn follows the answer to the last message, if it has none yet.
  const goOn = async () => {
    const last = shown[shown.length - 1];
    if (last?.role !== "user" || !last.execution || last.execution === awaited) return;
    const answer = new Answer(last.execution);
    try {
      say(texts.answering);
      finish(answer, await follow(answer));
    } catch {
      await missed();
    }
  };

  // refresh reads the history, and follows the answer that is being written.
  const refresh = async () => {
    if (busy || !memory.thread) return;
    setBusy(true);
    if (!loaded) say(texts.loading);
    log.setAttribute("aria-live", "off"); // what was said before is not read out
    try {
      const before = shown.length;
      merge(await history());
      loaded = true;
      if (awaited && shown.slice(before).some((m) => m.role === "assistant" && m.execution === awaited)) {
        awaited = "";
        unnotice();
      }
      setTimeout(() => log.setAttribute("aria-live", "polite"), 100);
      await goOn();
    } catch (error) {
      if (error instanceof Refusal && error.status === 404) remember({ thread: "" });
      else if (!loaded) note(texts.history, texts.again, refresh, Math.ceil(error.after || 0));
    } finally {
      log.setAttribute("aria-live", "polite");
      setBusy(false);
    }
  };

  // poll looks into the history for an answer that comes later, while the panel is open.
  let polling = false;
  const poll = async () => {
    if (polling) return;
    polling = true;
    for (let wait = 2000; awaited && panel.open; wait = Math.min(wait * 1.5, 30_000)) {
      await pause(wait);
      if (!document.hidden) await refresh();
    }
    polling = false;
  };

  // anew begins another conversation, as another visitor.
  const anew = (text) => {
    remember({ session: random(), thread: "", draft: "" });
    shown = [];
    awaited = "";
    log.replaceChildren();
    greet();
    input.value = text;
    fit();
  };
  const greet = () => add(bubble("assistant", script.dataset.greeting || texts.greeting));

  // --- Events ------------------------------------------------------------------------------------

  const narrow = matchMedia("(max-width: 480px), (max-height: 480px)"); // there the panel fills the screen
  const open = () => {
    if (panel.open) return;
    if (narrow.matches) panel.showModal();
    else panel.show();
    launch.setAttribute("aria-label", texts.close);
    delete launch.dataset.unread;
    input.focus();
    log.scrollTop = log.scrollHeight;
    fit();
    if (!busy) refresh().then(() => awaited && poll());
  };
  const close = () => {
    panel.close();
    launch.setAttribute("aria-label", texts.open);
    launch.focus();
  };
  // fit lets the input grow with its text, and the panel shrink above the keyboard of a phone.
  const fit = () => {
    const near = isNear();
    input.style.height = "auto";
    input.style.height = `${Math.min(input.scrollHeight + 2, 160)}px`;
    panel.style.height = narrow.matches && window.visualViewport ? `${visualViewport.height}px` : "";
    if (near) log.scrollTop = log.scrollHeight;
    mark();
  };

  launch.addEventListener("click", () => (panel.open ? close() : open()));
  closer.addEventListener("click", close);
  panel.addEventListener("cancel", (e) => {
    e.preventDefault();
    close();
  });
  narrow.addEventListener("change", () => {
    if (panel.open) {
      panel.close();
      open();
    }
  });
  window.visualViewport?.addEventListener("resize", fit);
  input.addEventListener("input", fit);
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    const body = input.value.trim();
    if (busy || !body) return;
    input.value = "";
    fit();
    send(show({ role: "user", body, key: random() }));
  });
  // What is typed here is no shortcut of the page.
  for (const type of ["keydown", "keyup", "keypress"]) chat.addEventListener(type, (e) => e.stopPropagation());
  panel.addEventListener("keydown", (e) => {
    if (e.key === "Escape" && !e.isComposing) {
      e.preventDefault();
      close();
    }
  });
  input.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing && e.keyCode !== 229) {
      // It does not come from an input method that composes.
      e.preventDefault();
      form.requestSubmit();
    }
  });
  addEventListener("offline", () => say(texts.offline));
  addEventListener("online", () => say(busy ? texts.answering : ""));

  greet();
  input.value = memory.draft;
  mark();
  if (document.body) document.body.append(host);
  else addEventListener("DOMContentLoaded", () => document.body.append(host));
})();
