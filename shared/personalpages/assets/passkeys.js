// Passkeys (WebAuthn level 3): sign-in, with autofill, and proof, and a new passkey. The forms that
// take a passkey are hidden until this script runs, and are sent as the page's other forms are.
"use strict";

const part = document.querySelector("[data-passkey]");
const form = document.querySelector('form[data-script="passkey"]');
const { passkey: purpose, begin: beginPath, failed, known, longest, without } = part.dataset;

const say = (text) => { part.querySelector("[role=status]").textContent = text; };

// An attempt lasts five minutes. One that waits for the user is renewed before, so that enough is
// left for the passkey and a code.
const renewAfter = 3 * 60 * 1000;

// The JSON forms of WebAuthn are made here: a browser may lack the functions for them, and a passkey of
// an extension may inherit ones that throw.
const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (sign) => sign.charCodeAt(0));
const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");
const descriptors = (list) => list?.map((one) => ({ ...one, id: bytes(one.id) }));

const creationOptions = (options) => ({
  ...options, challenge: bytes(options.challenge), user: { ...options.user, id: bytes(options.user.id) },
  excludeCredentials: descriptors(options.excludeCredentials),
});

const requestOptions = (options) => ({
  ...options, challenge: bytes(options.challenge), allowCredentials: descriptors(options.allowCredentials),
});

// optional returns what a function returns, or otherwise if it throws or is missing.
const optional = (f, otherwise) => {
  try {
    return f() ?? otherwise;
  } catch {
    return otherwise;
  }
};

const credentialJSON = (credential) => {
  const response = {};
  for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
    if (credential.response[name]) response[name] = text(credential.response[name]);
  }
  if (response.attestationObject) response.transports = optional(() => credential.response.getTransports(), []);
  return JSON.stringify({
    id: credential.id, rawId: text(credential.rawId), type: credential.type, response,
    authenticatorAttachment: optional(() => credential.authenticatorAttachment),
    clientExtensionResults: optional(() => credential.getClientExtensionResults(), {}),
  });
};

// Refusal is an error of the site, with a message for the user.
class Refusal extends Error {}

// begin asks the site for an attempt. A page that lacks something, such as a session, asks for it
// when it is loaded again.
const begin = async (what, signal) => {
  const response = await fetch(beginPath, { method: "POST", body: new URLSearchParams({ purpose: what }), signal });
  const result = await response.json();
  if (result.reload && purpose === what) location.replace(location.origin + location.pathname + location.search); // also after a post
  if (!response.ok) throw new Refusal(result.message);
  return result;
};

let running = new AbortController(); // the ceremony of the page: there is one at a time
let pressed = false; // the user has started it
let waiting = null; // the attempt with which autofill waits for the user
let began = 0; // its time

const restart = () => {
  running.abort();
  running = new AbortController();
  return running.signal;
};

// use runs a ceremony and sends its response.
const use = async (attempt, signal, mediation) => {
  const credential = purpose === "add"
    ? await navigator.credentials.create({ publicKey: creationOptions(attempt.options), signal })
    : await navigator.credentials.get({ publicKey: requestOptions(attempt.options), signal, mediation });
  if (signal.aborted) return;
  form.elements.attempt.value = attempt.attempt;
  form.elements.credential.value = credentialJSON(credential);
  form.setAttribute("data-sent", ""); // as page.js does
  form.submit();
};

// wait offers passkeys in the field of the login. If that is not possible, the button remains.
const wait = async () => {
  const signal = restart();
  pressed = false;
  waiting = null;
  began = Date.now();
  try {
    const attempt = await begin("sign_in", signal);
    waiting = attempt;
    if (await PublicKeyCredential.isConditionalMediationAvailable?.()) await use(attempt, signal, "conditional");
  } catch {
    // Aborted, or not possible now.
  }
};

const tooOld = () => Date.now() - began > renewAfter;

const renew = () => {
  if (!document.hidden && !pressed && tooOld()) wait();
};

const offerSignIn = () => {
  wait();
  setInterval(renew, 10_000);
  document.addEventListener("visibilitychange", renew);
  addEventListener("pageshow", ({ persisted }) => { if (persisted) wait(); });
};

// misnamed says whether the site refuses the name of a new passkey. It does so before the device is asked.
const misnamed = (name) => name.trim() === "" || [...name].length > longest || /\p{Cc}/u.test(name);

// press is the button of the form.
const press = async (event) => {
  if (purpose === "add" && misnamed(form.elements.name.value)) return;
  event.preventDefault();
  if (form.hasAttribute("data-sent")) return;
  say("");
  const signal = restart();
  pressed = true;
  try {
    await use(waiting && !tooOld() ? waiting : await begin(purpose, signal), signal);
  } catch (error) {
    if (signal.aborted) return; // by another press
    say(error instanceof Refusal ? error.message : error.name === "InvalidStateError" && known ? known : failed);
    if (purpose === "sign_in") wait();
  }
};

// signal tells the browser which passkeys are left, so that it does not offer others. The options
// for a new passkey name them.
const signalRemoval = async () => {
  const { options } = await begin("add", running.signal);
  await PublicKeyCredential.signalAllAcceptedCredentials({
    rpId: options.rp.id, userId: options.user.id, allAcceptedCredentialIds: options.excludeCredentials.map(({ id }) => id),
  });
};

if (purpose === "removed") {
  if (window.PublicKeyCredential?.signalAllAcceptedCredentials) signalRemoval().catch(() => {}); // best effort
  history.replaceState(null, "", location.pathname);
} else if (window.PublicKeyCredential) {
  form.hidden = false;
  form.addEventListener("submit", press);
  form.querySelector("[autofocus]")?.focus();
  if (purpose === "sign_in") offerSignIn();
} else {
  say(without);
}
