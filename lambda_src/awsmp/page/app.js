"use strict";
(() => {
  // First of all: the token leaves the address bar, and with it the history. It stays in this variable alone,
  // so that no other page, storage or log can hold it; the price is that a reload cannot keep it.
  const fragment = new URLSearchParams(location.hash.slice(1));
  const arrived = fragment.has("t") || fragment.has("e");
  const earlier = arrived ? null : history.state?.registration;
  const remember = (step) => history.replaceState({ registration: step }, "", location.pathname + location.search);
  let token = decoded(fragment.get("t") ?? "");
  if (arrived) remember("arrived");

  // Every text of the page. `messages` of the configuration replaces any of them by its key; a code of the
  // service is the key of its text.
  const TEXTS = {
    title: "Register for {product}",
    soldBy: "Sold by {seller} through AWS Marketplace.",
    supportLead: "Questions?",
    supportSite: "Support website",
    signIn: "Sign in to an existing account",
    signInUrl: "",
    marketplaceLink: "Open AWS Marketplace",
    marketplaceUrl: "https://console.aws.amazon.com/marketplace/home#/subscriptions",
    intro: "Fill in this form to connect your AWS Marketplace subscription to {product}.",
    required: "Every field is needed unless it is marked optional.",
    optional: "(optional)",
    choose: "Choose one",
    telHint: "With the country code, for example +1 206 555 0100.",
    lengthHint: "Up to {max} characters.",
    residency: "Where should your registration data be kept?",
    residencyHint: "What you enter here is stored in the place that you choose.",
    submit: "Complete registration",
    submitting: "Sending your registration…",
    retry: "Try again",
    wait: "You can try again in {seconds} seconds.",
    waitOver: "You can try again now.",
    errorTitle: "Error",
    summaryTitle: "Check your answers",
    Required: "{label}: an answer is needed.",
    RequiredTick: "{label}: tick this box to go on.",
    TooLong: "{label}: at most {max} characters; this has {count}.",
    InvalidEmail: "{label}: enter an address like name@example.com.",
    InvalidTel: "{label}: enter 5 to 32 digits, with spaces, brackets, dots or hyphens if you like.",
    InvalidChoice: "{label}: choose one of the options.",
    InvalidType: "{label}: this answer cannot be used.",
    ControlCharacters: "{label}: there are invisible characters in it. Type it instead of pasting it.",
    registeredTitle: "You are registered",
    registered: "{seller} has your registration for {product}.",
    nextTitle: "What happens next",
    nextAccess: "{seller} prepares your access and writes to {email} how to get started.",
    nextSupport: "If you have heard nothing after one business day, contact {support}.",
    nextBilling: "Your subscription and its charges stay in AWS Marketplace; there is nothing to pay here.",
    alreadyTitle: "You are already registered",
    already: "{seller} had this subscription on record. Your first registration stands; nothing more is needed.",
    alreadySupport: "To change what you entered then, contact {support}.",
    continue: "Continue to {product}",
    redirect: "You will be taken to {product} in {seconds} seconds.",
    stay: "Stay on this page",
    missingTitle: "Start in AWS Marketplace",
    missing: "Buyers of {product} register here after they have subscribed. AWS Marketplace has to open this page: it tells us which subscription is yours.",
    reloadedTitle: "This page was reloaded",
    reloaded: "For your security, the link from AWS Marketplace is not kept when you reload or leave this page. Your subscription is safe: open the page from AWS Marketplace once more.",
    stepsTitle: "How to get here",
    stepOpen: "Open AWS Marketplace and go to your subscriptions.",
    stepChoose: "Choose {product}.",
    stepSetUp: "Choose “Set up your account”.",
    previewTitle: "The form that you will see",
    ExpiredTokenTitle: "This link has expired",
    ExpiredToken: "Links from AWS Marketplace work for a limited time. Your subscription is safe: you do not have to subscribe again, and if you have registered before, that stands.",
    InvalidTokenTitle: "This link does not work",
    InvalidToken: "AWS Marketplace does not recognize the link that you came with. Your subscription is safe: you do not have to subscribe again.",
    WrongProductTitle: "This link belongs to another product",
    WrongProduct: "The link that you came with is not for {product}, so nothing was registered.",
    MissingLicenseTitle: "Your subscription cannot be registered yet",
    MissingLicense: "AWS Marketplace did not name a license for your subscription, so nothing was registered. Come back in a few minutes; if that does not help, contact {support}.",
    ThrottledTitle: "Too many requests",
    Throttled: "Your registration did not get through. Your answers are kept; please wait a moment.",
    UnavailableTitle: "The registration could not be completed",
    Unavailable: "The fault is on our side. Your answers are kept. Trying again is safe: nothing is registered twice.",
    OfflineTitle: "No connection",
    Offline: "The registration service cannot be reached. Check your connection. Your answers are kept. Trying again is safe: nothing is registered twice.",
    MisconfiguredTitle: "Registration does not work at the moment",
    Misconfigured: "{seller} has to repair a fault on our side. Your subscription is safe and your answers are kept. Contact {support}, or try again later.",
    RefusedTitle: "A security check stopped the registration",
    Refused: "Take out of your answers what looks like program code, wait a minute and try again. If that does not help, contact {support}.",
    TooLargeTitle: "The answers are too long",
    TooLarge: "Shorten your answers and try again.",
    MalformedRequestTitle: "The registration was not accepted",
    MalformedRequest: "The form and the registration service do not fit together. Your subscription is safe; contact {support}.",
  };

  const configuration = JSON.parse(byId("configuration").textContent);
  const { fields, regions = [], messages = {} } = configuration;
  const support = configuration.supportEmail || configuration.supportUrl;
  const page = document.documentElement;
  const main = byId("main");
  const app = byId("app");

  function byId(id) {
    return document.getElementById(id);
  }

  function decoded(encoded) {
    try {
      const bytes = Uint8Array.from(atob(encoded.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      return "";
    }
  }

  // ---- Texts and elements. Nothing is ever written as HTML. ----

  function text(key, values = {}) {
    const known = { product: configuration.productName, seller: configuration.sellerName, support, ...values };
    return (messages[key] ?? TEXTS[key]).replace(/\{(\w+)\}/g, (whole, name) => {
      if (!Object.hasOwn(known, name)) return whole;
      // A name in another script must not turn the sentence around it.
      return page.dir === "rtl" ? `\u2068${known[name]}\u2069` : known[name];
    });
  }

  function say(element, key, values) {
    element.textContent = text(key, values);
    // What is not translated is marked as English, for the voice that reads it and for its direction.
    const foreign = messages[key] === undefined && !/^en\b/i.test(page.lang);
    set(element, { lang: foreign && "en", dir: foreign && "ltr" });
    return element;
  }

  /** Set the attributes, and remove those without a value. */
  function set(element, attributes) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === false || value === "") element.removeAttribute(name);
      else element.setAttribute(name, value === true ? "" : value);
    }
    return element;
  }

  function make(tag, attributes = {}, ...children) {
    const element = set(document.createElement(tag), attributes);
    element.append(...children.filter(Boolean));
    return element;
  }

  const write = (tag, key, values, attributes) => say(make(tag, attributes), key, values);
  const announce = (key, values) => say(byId("status"), key, values);
  const titled = (before) => (document.title = before ? `${before}: ${text("title")}` : text("title"));
  const spelled = (number) => new Intl.NumberFormat(page.lang || undefined).format(number);

  /** A configured address, if it has this page's scheme or https: never javascript:, never a weaker one. */
  function address(value) {
    try {
      const url = new URL(value);
      return ["https:", location.protocol].includes(url.protocol) ? url.href : null;
    } catch {
      return null;
    }
  }

  function linkTo(url, key, attributes) {
    const href = address(url);
    return href && write("a", key, {}, { href, rel: "noreferrer", ...attributes });
  }

  // ---- The rules of a field: the service has the same, and one table of cases holds both together. ----

  const EMAIL = /^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$/;
  const MAX_EMAIL_LENGTH = 254;
  const TEL = /^\+?[0-9 ().-]{5,32}$/;
  const CONTROL = /[\u0000-\u001f\u007f-\u009f\ud800-\udfff]/u;
  const CONTROL_IN_TEXTAREA = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\ud800-\udfff]/u;

  const optionOf = (option) => (typeof option === "string" ? { value: option, label: option } : option);
  const limitOf = ({ type, maxLength }) => (type === "email" ? Math.min(maxLength, MAX_EMAIL_LENGTH) : maxLength);
  // Code points, as the service counts them; `length` would count an emoji twice.
  const lengthOf = (value) => [...value].length;

  /** The code of what is wrong with a field's value, or null. */
  function validate(field, value) {
    const { type, required } = field;
    const given = value !== null && value !== undefined;
    if (given && typeof value !== (type === "checkbox" ? "boolean" : "string")) return "InvalidType";
    if (type === "checkbox") return required && value !== true ? "Required" : null;
    const answer = given ? value.trim() : "";
    if ((type === "textarea" ? CONTROL_IN_TEXTAREA : CONTROL).test(answer)) return "ControlCharacters";
    if (!answer) return required ? "Required" : null;
    if (type === "select") {
      return field.options.some((option) => optionOf(option).value === answer) ? null : "InvalidChoice";
    }
    if (lengthOf(answer) > limitOf(field)) return "TooLong";
    if (type === "email" && !EMAIL.test(answer)) return "InvalidEmail";
    if (type === "tel" && !TEL.test(answer)) return "InvalidTel";
    return null;
  }

  window.awsmpRegistration = Object.freeze({ validate });

  // ---- The form. ----

  // What browsers and password managers can fill in, by the names that such fields commonly have.
  const AUTOFILL = {
    name: /^(full|contact|your)?name$/,
    "given-name": /^(first|given)name$/,
    "family-name": /^(last|family|sur)name$/,
    organization: /^(company|organi[sz]ation)(name)?$/,
    "organization-title": /^(job)?title$|^role$/,
    "country-name": /^country$/,
    "postal-code": /^(zip|postal|post)(code)?$/,
    "street-address": /^(street)?address$/,
    "address-level2": /^city$/,
    url: /^(company)?(website|url)$/,
  };

  function autofillOf({ name, type }) {
    if (type === "email" || type === "tel") return type;
    const plain = name.toLowerCase().replace(/[^a-z]/g, "");
    return Object.keys(AUTOFILL).find((token) => AUTOFILL[token].test(plain)) ?? null;
  }

  const controlOf = ({ name }) => byId(`field-${name}`);
  const valueOf = (field) => (field.type === "checkbox" ? controlOf(field).checked : controlOf(field).value);
  const hintOf = ({ type }) => ({ tel: "telHint", textarea: "lengthHint" })[type] ?? null;

  function control(field) {
    const { name, type, required } = field;
    const attributes = {
      id: `field-${name}`,
      name,
      required,
      autocomplete: autofillOf(field),
      "aria-describedby": hintOf(field) && `hint-${name}`,
      dir: { text: "auto", textarea: "auto", email: "ltr", tel: "ltr" }[type] ?? null,
    };
    if (type === "textarea") return make("textarea", attributes);
    if (type !== "select") return make("input", { ...attributes, type });
    const select = make("select", attributes, say(new Option("", ""), "choose"));
    for (const option of field.options.map(optionOf)) select.append(new Option(option.label ?? option.value, option.value));
    return select;
  }

  function row(field) {
    const { name, type, label, required } = field;
    const hint = hintOf(field);
    const caption = make("label", { for: `field-${name}` }, `${label} `, !required && write("span", "optional", {}, { class: "optional" }));
    const error = make("p", { class: "error", id: `error-${name}`, hidden: true });
    if (type === "checkbox") return make("div", { class: "field choice" }, control(field), caption, error);
    const hinted = hint && write("p", hint, { max: limitOf(field) }, { class: "hint", id: `hint-${name}` });
    return make("div", { class: "field" }, caption, hinted, error, control(field));
  }

  function residencyChoice() {
    const choices = regions.map(({ label }, index) => {
      const id = `residency-${index}`;
      const radio = make("input", { type: "radio", name: "residency", id, value: String(index), checked: index === 0 });
      return make("div", { class: "choice" }, radio, make("label", { for: id }, label));
    });
    const hint = write("p", "residencyHint", {}, { class: "hint", id: "hint-residency" });
    return make("fieldset", { class: "field", "aria-describedby": hint.id }, write("legend", "residency"), hint, ...choices);
  }

  function buildForm(disabled) {
    const content = make(
      "fieldset",
      { disabled },
      write("p", "required", {}, { class: "quiet" }),
      ...fields.map(row),
      regions.length > 1 && residencyChoice(),
      write("button", "submit", {}, { id: "submit" }),
    );
    // The browser's own bubbles are in its language, not the page's, and vanish: the page says it itself.
    const form = make("form", { id: "form", novalidate: true }, content);
    form.addEventListener("submit", submit);
    form.addEventListener("input", ({ target }) => {
      const field = fields.find((candidate) => controlOf(candidate) === target);
      // An error goes as soon as it is mended; a new one waits until the form is sent.
      if (field && target.hasAttribute("aria-invalid") && !validate(field, valueOf(field))) showFault(field, null);
    });
    return form;
  }

  function fault(element, field, code) {
    const known = /^[A-Z]/.test(code) && Object.hasOwn(TEXTS, code) ? code : "InvalidType";
    const key = known === "Required" && field.type === "checkbox" ? "RequiredTick" : known;
    const count = lengthOf(String(valueOf(field)).trim());
    return say(element, key, { label: field.label, max: limitOf(field), count });
  }

  function showFault(field, code) {
    const error = byId(`error-${field.name}`);
    error.hidden = !code;
    if (code) fault(error, field, code);
    const described = [code && error.id, hintOf(field) && `hint-${field.name}`].filter(Boolean).join(" ");
    set(controlOf(field), { "aria-invalid": Boolean(code) && "true", "aria-describedby": described });
  }

  function showFaults(faults) {
    const links = make("ul", { id: "notice-text" });
    for (const field of fields) {
      const code = faults.get(field.name) ?? null;
      showFault(field, code);
      if (!code) continue;
      const link = fault(make("a", { href: `#field-${field.name}` }), field, code);
      link.addEventListener("click", (event) => {
        event.preventDefault();
        controlOf(field).focus();
      });
      links.append(make("li", {}, link));
    }
    show("ready", "summary", links);
  }

  // ---- What stands above the form, and what takes its place. ----

  let busy = false;
  let held = false;
  let timer = 0;

  /** Call `every` with the seconds that are left, each second, until 0. A sleeping tab does not stretch it. */
  function countDown(seconds, every) {
    const end = Date.now() + seconds * 1000;
    const tick = () => {
      const left = Math.max(0, Math.ceil((end - Date.now()) / 1000));
      if (left === 0) clearInterval(timer);
      every(left);
    };
    clearInterval(timer);
    timer = setInterval(tick, 1000);
    tick();
  }

  /** Put a notice above the form, which stays with all answers in it. */
  function show(state, key, ...content) {
    const heading = write("h2", `${key}Title`, {}, { id: "notice-title" });
    const attributes = { id: "notice", class: "notice bad", tabindex: "-1", role: "group", "aria-labelledby": heading.id };
    byId("notice")?.remove();
    byId("form").before(make("div", { ...attributes, "aria-describedby": "notice-text" }, heading, ...content));
    main.dataset.state = state;
    titled(text("errorTitle"));
    byId("notice").focus();
  }

  /** Hold the buttons that send. Not by `disabled`: that throws the keyboard's focus off the pressed button. */
  function hold(on) {
    for (const button of document.querySelectorAll("#submit, #retry")) set(button, { "aria-disabled": on && "true" });
  }

  function showRetry(code, seconds) {
    const retry = write("button", "retry", {}, { type: "button", id: "retry" });
    const waiting = make("p");
    retry.addEventListener("click", () => byId("form").requestSubmit());
    show(code, code, write("p", code, {}, { id: "notice-text" }), waiting, make("div", { class: "actions" }, retry));
    if (!seconds) return;
    announce("wait", { seconds: spelled(seconds) });
    countDown(seconds, (left) => {
      held = left > 0;
      hold(held);
      say(waiting, held ? "wait" : "waitOver", { seconds: spelled(left) });
      if (!held) announce("waitOver");
    });
  }

  /** Put a panel in the form's place, and forget the token: no state behind this one needs it. */
  function finish(state, key, ...content) {
    const heading = write("h2", `${key}Title`, {}, { tabindex: "-1" });
    const loading = main.dataset.state === "loading";
    token = "";
    main.dataset.state = state;
    titled(heading.textContent);
    app.replaceChildren(make("section", {}, heading, ...content.filter(Boolean)));
    if (!loading) heading.focus();
  }

  /** Say what is the matter with the link, and how to get a good one. */
  function sendBack(state) {
    const steps = make("ol", {}, write("li", "stepOpen"), write("li", "stepChoose"), write("li", "stepSetUp"));
    const link = linkTo(text("marketplaceUrl"), "marketplaceLink");
    finish(state, state, write("p", state), write("h3", "stepsTitle"), steps, link && make("p", {}, link));
  }

  function showRegistered(state, ...content) {
    const key = state === "registered" ? state : "already";
    const onward = linkTo(configuration.successUrl, "continue", { class: "button" });
    remember("registered");
    finish(state, key, write("p", key), ...content, onward && make("div", { class: "actions" }, onward));
    return onward;
  }

  const showNext = (email) =>
    showRegistered(
      "registered",
      write("h3", "nextTitle"),
      make("ul", {}, email && write("li", "nextAccess", { email }), write("li", "nextSupport"), write("li", "nextBilling")),
    );

  /** Go on to the seller's page, unless the buyer stays: 20 seconds and a way to stop (WCAG 2.2.1). */
  function goOn(link) {
    if (!link) return;
    const counter = make("p");
    const stay = write("button", "stay", {}, { type: "button", class: "plain" });
    const stop = () => {
      clearInterval(timer);
      counter.remove();
      stay.remove();
    };
    stay.addEventListener("click", () => {
      stop();
      link.focus();
    });
    // A page that the back button restores must not send the buyer away again.
    addEventListener("pagehide", stop);
    link.after(stay);
    link.parentElement.before(counter);
    announce("redirect", { seconds: spelled(20) });
    countDown(20, (left) => {
      say(counter, "redirect", { seconds: spelled(left) });
      if (left === 0) location.replace(link.href);
    });
  }

  // ---- Sending. ----

  const LINK_CODES = ["ExpiredToken", "InvalidToken", "WrongProduct", "MissingLicense"];
  const RETRY_CODES = ["Throttled", "Unavailable", "Misconfigured", "TooLarge", "MalformedRequest"];
  // API Gateway and the web ACL answer without the service's codes.
  const CODE_OF_STATUS = { 200: "Unavailable", 403: "Refused", 413: "TooLarge", 429: "Throttled" };
  // A little more than the 29 seconds after which API Gateway gives up.
  const TIME_OUT_MS = 35000;
  const DEFAULT_WAIT_SECONDS = 10;
  const MAX_WAIT_SECONDS = 300;

  async function submit(event) {
    event.preventDefault();
    if (busy || held || !token) return;
    const values = fields.map((field) => [field, valueOf(field)]);
    const faults = new Map(values.map(([field, value]) => [field.name, validate(field, value)]).filter(([, code]) => code));
    if (faults.size) {
      showFaults(faults);
      return;
    }
    for (const field of fields) showFault(field, null);
    const answers = values.filter(([, value]) => typeof value !== "string" || value.trim());
    setBusy(true);
    const answer = await send(Object.fromEntries(answers.map(([field, value]) => [field.name, value])));
    setBusy(false);
    conclude(answer, answers.find(([{ type }]) => type === "email")?.[1].trim());
  }

  function setBusy(on) {
    busy = on;
    if (on) {
      if (!byId("notice")?.contains(document.activeElement)) byId("notice")?.remove();
      main.dataset.state = "submitting";
      titled();
      announce("submitting");
    } else {
      byId("status").textContent = "";
    }
    set(byId("form"), { "aria-busy": String(on) });
    say(byId("submit"), on ? "submitting" : "submit");
    hold(on);
  }

  async function send(answers) {
    const chosen = document.querySelector("[name=residency]:checked")?.value ?? 0;
    try {
      const response = await fetch(new URL(regions[chosen]?.registrationUrl ?? "register", document.baseURI), {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ token, offerType: fragment.get("o"), fields: answers }),
        credentials: "omit",
        referrerPolicy: "no-referrer",
        cache: "no-store",
        redirect: "error",
        signal: AbortSignal.timeout(TIME_OUT_MS),
      });
      const body = (await response.json().catch(() => null)) ?? {};
      return { status: response.status, wait: Number(response.headers.get("Retry-After")), body };
    } catch {
      // No answer: offline, cut off or too slow. Where the request did arrive, the next try is told so.
      return { status: 0 };
    }
  }

  function conclude({ status, wait, body = {} }, email) {
    const code = body.error;
    const faults = new Map(Object.entries(body.fields ?? {}));
    if (status === 200 && body.outcome === "registered") {
      goOn(showNext(email));
    } else if (status === 200 && body.outcome === "already-registered") {
      goOn(showRegistered("already-registered", write("p", "alreadySupport")));
    } else if (status === 0) {
      showRetry("Offline");
    } else if (code === "InvalidFields" && fields.some(({ name }) => faults.has(name))) {
      showFaults(faults);
    } else if (LINK_CODES.includes(code)) {
      sendBack(code);
    } else {
      const guessed = CODE_OF_STATUS[status] ?? (status < 500 ? "MalformedRequest" : "Unavailable");
      const known = RETRY_CODES.includes(code) ? code : guessed;
      const asked = wait > 0 ? Math.min(Math.ceil(wait), MAX_WAIT_SECONDS) : 0;
      showRetry(known, asked || (known === "Throttled" ? DEFAULT_WAIT_SECONDS : 0));
    }
  }

  // ---- The start. ----

  say(document.querySelector("h1"), "title");
  say(byId("sold-by"), "soldBy");
  say(byId("support-lead"), "supportLead");
  say(byId("support-site"), "supportSite");
  byId("support").append(linkTo(text("signInUrl"), "signIn") ?? "");

  if (token) {
    app.replaceChildren(write("p", "intro"), buildForm(false));
    main.dataset.state = "ready";
    titled();
  } else if (fragment.get("t") || fragment.get("e") === "invalid") {
    sendBack("InvalidToken");
  } else if (earlier === "registered") {
    showNext("");
  } else if (earlier) {
    sendBack("reloaded");
  } else {
    sendBack("missing");
    // Who looks at the page without a subscription, a reviewer above all, sees what it asks for.
    app.append(write("h3", "previewTitle"), buildForm(true));
  }

  // The same tab is given a new link: start over with it.
  addEventListener("hashchange", () => {
    if (/^#[te]=/.test(location.hash)) location.reload();
  });
})();
