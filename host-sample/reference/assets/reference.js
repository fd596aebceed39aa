// Sends requests to try operations. The credentials are kept in this page only.
"use strict";

const identity = [...document.querySelectorAll("[data-identity]")];

// valueOf returns a control's value for JSON, undefined if it is empty.
const valueOf = (control) => {
  const text = control.value;
  if (text === "") return undefined;
  switch (control.dataset.kind) {
    case "boolean": return text === "true";
    case "integer":
    case "number": return Number.isFinite(Number(text)) ? Number(text) : text;
    case "list": return text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
    default: return text;
  }
};

const requestOf = (form) => {
  const request = { method: form.dataset.method, headers: {}, credentials: "omit", cache: "no-store" };
  if ("identified" in form.dataset) {
    for (const input of identity) if (input.value) request.headers[input.dataset.identity] = input.value;
  }
  if (request.method === "POST") {
    const body = {};
    for (const control of form.querySelectorAll("[name]")) {
      const value = valueOf(control);
      if (value !== undefined) body[control.name] = value;
    }
    request.headers["Content-Type"] = "application/json";
    request.body = JSON.stringify(body);
  }
  return request;
};

// remember fills in the credentials of a response.
const remember = (envelope) => {
  const credentials = { "User-Id": envelope?.data?.user_id, "User-Hash": envelope?.data?.user_hash };
  for (const input of identity) {
    const value = credentials[input.dataset.identity];
    if (value !== undefined) input.value = value;
  }
};

const show = (reply, title, text) => {
  reply.hidden = false;
  reply.querySelector("h4").textContent = title;
  reply.querySelector("pre").textContent = text;
};

const send = async (form) => {
  const reply = form.parentElement.querySelector(".reply");
  const began = performance.now();
  try {
    const response = await fetch(form.dataset.url, requestOf(form));
    const text = await response.text();
    const took = Math.round(performance.now() - began);
    const headers = [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
    let body = text;
    try {
      const envelope = JSON.parse(text);
      remember(envelope);
      body = JSON.stringify(envelope, null, 2);
    } catch { /* not JSON: shown unchanged */ }
    show(reply, `${response.status} ${response.statusText} · ${took} ms`, `${headers}\n\n${body}`);
  } catch (error) {
    show(reply, String(error), "");
  }
};

// On a phone the list of operations would fill several screens.
if (matchMedia("(max-width: 32rem)").matches) document.querySelector(".side > details").open = false;

for (const form of document.querySelectorAll(".try form")) {
  const button = form.querySelector("button");
  button.disabled = false; // it does nothing without this script
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    await send(form);
    button.disabled = false;
    button.focus();
  });
}
