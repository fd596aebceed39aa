// Client of the personal-account API: one session, shared by the tabs of a browser. index.d.ts describes what apps use. The
// rules of a refresh are those of docs/api.md, "auth_refresh".

export class PersonalError extends Error {
  constructor(code, message, { status = 0, fields = {}, retryAfter, cause } = {}) {
    super(message, cause ? { cause } : undefined);
    this.name = "PersonalError";
    this.code = code;
    this.status = status;
    this.fields = fields; // the messages by parameter
    this.retryAfter = retryAfter; // in seconds
  }
}

export function createClient(options) {
  return new Client(options);
}

// Operations that take a proof in place of password and code, and the parameter of the password.
const provable = {
  "/password/": "old_password", "/email/": "password", "/export/": "password", "/delete/": "password", "/two_factor/": "password",
  "/two_factor_codes/": "password", "/two_factor_remove/": "password", "/passkeys_add/": "password", "/passkeys_remove/": "password",
};
// Of these, two refuse the proof of a sign-in: the user is asked again.
const askAgain = ["/two_factor_codes/", "/two_factor_remove/"];
// Operations that rotate the hash of a session, and void its proof.
const rotating = ["/password/", "/two_factor_confirm/", "/two_factor_remove/"];
// Operations whose repeats get the first response, besides reads.
const repeatable = ["/auth_refresh/", "/two_factor_confirm/", "/two_factor_codes/", "/passkeys_add_confirm/"];
// Operations that need no session, and begin one.
const signingIn = ["/auth/", "/register/", "/passkey_auth/", "/code_auth/"];

const attempts = 3;
const minute = 60_000;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A session as it is kept: id is random per sign-in, n grows with each rotation. */
function valid(session) {
  return session?.id && session.n && session.user_id && session.user_hash ? session : null;
}

class Client {
  #base; #fetch; #storage; #key; #timeout; #refreshEvery; #signedOut; #channel; #tabs; #ready; #stop; #language;
  #session = null; // what this tab has last seen
  #proof = null; // {proof, until, id, asked}: never stored, never sent to other tabs
  #refreshing = null;
  #notBefore = 0; // when to try a refresh again
  #queue = Promise.resolve(); // in place of Web Locks
  #listeners = new Set();
  #actsFor = null; // the user for whom this tab acts: another one's session is not used before the app knows of it

  constructor({ base, storage = null, fetch: send, onSignedOut, refreshEvery = 600, timeout = 15, tabs = true, language }) {
    this.#base = base.replace(/\/+$/, "");
    this.#fetch = send ?? ((...args) => fetch(...args));
    try {
      this.#storage = typeof storage === "function" ? storage() : storage;
    } catch {
      this.#storage = null; // blocked by the browser's settings
    }
    this.#key = "personal " + this.#base;
    this.#timeout = timeout * 1000;
    this.#language = language;
    this.#refreshEvery = refreshEvery * 1000;
    this.#signedOut = onSignedOut;
    this.#tabs = tabs && this.#storage !== null; // no other tab can have a session in memory
    this.#session = this.#read();
    try {
      if (this.#tabs) this.#listen();
    } catch {} // blocked, too
  }

  #listen() {
    const look = () => this.#read();
    const looks = ["storage", "pageshow", "focus"]; // a page that comes back has missed what others have stored
    looks.forEach((event) => globalThis.addEventListener?.(event, look));
    this.#stop = () => {
      looks.forEach((event) => globalThis.removeEventListener?.(event, look));
      this.#channel?.close();
      this.#channel = undefined;
    };
    if (typeof BroadcastChannel === "undefined") return;
    this.#channel = new BroadcastChannel(this.#key);
    this.#channel.onmessage = ({ data }) => {
      const now = this.#read();
      if (!data?.id || now?.id !== data.id) return;
      if (data.ask) {
        if (now.n > data.n) this.#channel.postMessage({ id: now.id, session: now });
      } else if (!data.session) {
        if (data.reason === "ended" && now.n > data.n) this.#channel.postMessage({ id: now.id, session: now }); // that tab had an old hash
        else this.#store(null, data.reason);
      } else if (valid(data.session)?.n > now.n) {
        this.#store(data.session);
      }
    };
    this.#channel.unref?.(); // of Node: it must not keep the process alive
    const { id, n } = this.#session ?? {};
    if (!id || this.#storage === globalThis.localStorage) return;
    // A storage of this tab alone may have an old hash, as that of a tab which was opened again.
    this.#channel.postMessage({ id, n, ask: true });
    this.#ready = pause(100);
  }

  close() {
    this.#stop?.();
  }

  get userId() {
    return this.#read()?.user_id ?? null;
  }

  subscribe = (changed) => {
    this.#listeners.add(changed);
    return () => this.#listeners.delete(changed);
  };

  get proved() {
    return this.#proofFor("") !== undefined;
  }

  get(path) {
    return this.#call("GET", path);
  }

  post(path, body) {
    return this.#call("POST", path, body);
  }

  signIn({ login, password }, askCode) {
    return this.#asking({ login, password }, (body) => this.post("/auth/", body), askCode);
  }

  async signInWithPasskey(askCode) {
    return this.#asking(await this.#passkey("sign_in"), (body) => this.post("/passkey_auth/", body), askCode);
  }

  async signInWithMailedCode({ login, email }, askMailedCode, askCode) {
    const { attempt } = await this.post("/code_begin/", { login, email });
    const body = { attempt, mailed_code: await answer(askMailedCode) };
    return this.#asking(body, (body) => this.post("/code_auth/", body), askCode, askMailedCode);
  }

  async prove(body, askCode) {
    return this.#asking(body ?? (await this.#passkey("prove")), (body) => this.post("/prove/", body), askCode);
  }

  async addPasskey(name, proof) {
    const { attempt, options } = await this.post("/passkeys_add/", proof ?? {});
    return this.post("/passkeys_add_confirm/", { attempt, credential: await ceremony("create", options), name });
  }

  async addTwoFactor(ask, proof) {
    const secret = await this.post("/two_factor/", proof ?? {});
    for (let wrong; ; ) {
      const code = await answer((error) => ask(secret, error), wrong);
      try {
        return await this.post("/two_factor_confirm/", { code });
      } catch (error) {
        if (!error.fields?.code) throw error;
        wrong = error;
      }
    }
  }

  async signOut({ all } = {}) {
    const session = this.#own();
    if (!session) return;
    this.#end(session, "signed_out");
    this.#actsFor = null;
    try {
      await this.#request("POST", "/logout/", all ? { all } : {}, session, { keepalive: true });
    } catch (error) {
      if (error.code !== "unauthenticated") throw error;
    }
  }

  refresh() {
    const before = this.#read();
    if (!before) return Promise.resolve();
    this.#refreshing ??= this.#locked(() => this.#rotate(before)).finally(() => (this.#refreshing = null));
    return this.#refreshing;
  }

  async #rotate(before) {
    await this.#ready;
    const session = this.#read();
    if (session?.id !== before.id || session.user_hash !== before.user_hash) return; // another tab has refreshed it, or has signed out
    try {
      await this.#exchange("POST", "/auth_refresh/", undefined, session);
    } catch (error) {
      if (error.code === "unauthenticated") {
        if (!(await this.#over(session))) return; // another tab has changed it
      } else this.#notBefore = Date.now() + Math.max(minute, (error.retryAfter ?? 0) * 1000);
      throw error;
    }
  }

  async #call(method, path, body) {
    await this.#ready;
    const begins = signingIn.includes(path);
    let session = begins ? this.#read() : this.#own();
    if (session && !begins && Date.now() - session.at > this.#refreshEvery && Date.now() > this.#notBefore) {
      this.refresh().catch(() => {}); // a session needs no refresh to live
    }
    let sent;
    const send = () => {
      session = begins ? this.#read() : this.#own();
      sent = this.#proven(path, body);
      return this.#exchange(method, path, sent, session);
    };
    try {
      return await (rotating.includes(path) ? this.#locked(send) : send());
    } catch (error) {
      if (error.fields?.proof && sent !== body) {
        this.#proof = null; // it has ended
        return this.#call(method, path, body);
      }
      if (error.code !== "unauthenticated" || !session || begins) throw error;
      const used = session;
      if (await this.#locked(() => this.#over(used))) throw error;
      return send(); // with the new hash: nothing was done with the old one
    }
  }

  /** Sends a request, and keeps what its response says about the session. */
  async #exchange(method, path, body, session) {
    const result = await this.#request(method, path, body, session, { repeat: method === "GET" || repeatable.includes(path) });
    if (!result) return undefined; // another tab has refreshed in the time between
    const { data, used } = result;
    if (!data || typeof data !== "object") return data;
    const { user_hash, proof, ...rest } = data;
    let id = used?.id;
    if (user_hash) {
      const now = this.#read();
      const begins = signingIn.includes(path) || data.user_id !== used?.user_id; // the latter of a newer API
      if (begins) {
        if (now && now.id !== session?.id && now.user_id !== data.user_id) throw replaced(); // in the time between
        this.#actsFor = data.user_id;
        id = crypto.getRandomValues(new Uint32Array(4)).join("-"); // randomUUID needs HTTPS, also in a private network
      }
      const current = path === "/auth_refresh/" ? now?.user_hash === used.user_hash : now?.id === used?.id;
      if (begins || current) {
        this.#store({ id, n: Math.max((now?.n ?? 0) + 1, Date.now()), user_id: data.user_id, user_hash, at: Date.now() });
        if (!begins) this.#channel?.postMessage({ id, session: this.#session });
      }
    }
    if (rotating.includes(path)) this.#proof = null;
    if (proof && this.#read()?.id === id) {
      // The clock here may be fast. If it is slow, the API refuses the proof.
      this.#proof = { proof, until: Math.max(Date.parse(data.proved_until), Date.now() + 4 * minute), id, asked: path === "/prove/" };
    }
    return rest;
  }

  async #request(method, path, body, session, { repeat = false, keepalive = false } = {}) {
    const headers = { Accept: "application/json" };
    if (method === "POST") headers["Content-Type"] = "application/json";
    if (this.#language) headers["Accept-Language"] = this.#language;
    for (let n = 1; ; n++) {
      if (session) Object.assign(headers, { "User-Id": String(session.user_id), "User-Hash": session.user_hash });
      let error;
      try {
        const response = await this.#fetch(this.#base + path, {
          method, headers, keepalive, body: method === "POST" ? JSON.stringify(body ?? {}) : undefined, signal: AbortSignal.timeout(this.#timeout),
        });
        const retryAfter = Number(response.headers.get("Retry-After")) || undefined;
        const text = await response.text();
        let envelope = null;
        try {
          envelope = JSON.parse(text);
        } catch {}
        if (envelope?.success === 1) return { data: envelope.data, used: session };
        if (!envelope?.result?.CODE) {
          throw new PersonalError("unavailable", "The response is not one of the API.", { status: response.status, retryAfter });
        }
        const { CODE, MESSAGE, FIELDS = {} } = envelope.result;
        const fields = Object.fromEntries(Object.entries(FIELDS).map(([name, { CODE, MESSAGE }]) => [name, { code: CODE, message: MESSAGE }]));
        throw new PersonalError(CODE, MESSAGE, { status: response.status, fields, retryAfter });
      } catch (cause) {
        error = cause instanceof PersonalError ? cause : new PersonalError("network", "There was no response.", { cause });
      }
      if (!repeat || n === attempts || !["network", "unavailable"].includes(error.code) || error.retryAfter > 5) throw error;
      await pause((error.retryAfter ?? 0.3 * n) * 1000);
      // Another hash may be the current one by now: an old one, sent late, would be taken for stolen.
      const now = this.#read();
      if (now?.id !== session?.id) throw error;
      if (path === "/auth_refresh/" && now.user_hash !== session.user_hash) return undefined;
      session = now;
    }
  }

  /** Sends, and asks the user for codes until they are right, or there is no answer. */
  async #asking(body, send, askCode, askMailedCode) {
    for (;;) {
      try {
        return await send(body);
      } catch (error) {
        const wrong = error.code === "invalid_code";
        const needed = error.code === "code_required" || error.fields?.code || (wrong && body.code !== undefined);
        const [name, ask] = needed ? ["code", askCode] : wrong ? ["mailed_code", askMailedCode] : [];
        if (!ask) throw error;
        body = { ...body, [name]: await answer(ask, body[name] === undefined ? undefined : error) };
      }
    }
  }

  async #passkey(purpose) {
    const { attempt, options } = await this.post("/passkey_begin/", { purpose });
    return { attempt, credential: await ceremony("get", options) };
  }

  #proofFor(path) {
    const p = this.#proof;
    if (!p || p.id !== this.#read()?.id || p.until <= Date.now() || (askAgain.includes(path) && !p.asked)) return undefined;
    return p.proof;
  }

  #proven(path, body) {
    const password = provable[path];
    if (!password || body?.[password] != null || body?.proof != null) return body;
    const proof = this.#proofFor(path);
    return proof ? { ...body, proof } : body;
  }

  // The session.

  #read() {
    let now = this.#session;
    try {
      if (this.#storage) now = valid(JSON.parse(this.#storage.getItem(this.#key)));
    } catch {} // private mode, or what no client has written
    this.#see(now, "elsewhere");
    return now;
  }

  /** Returns the session of the user for whom this tab acts. */
  #own() {
    const session = this.#read();
    if (session && session.user_id !== this.#actsFor) throw replaced();
    return session;
  }

  /** Notes which session there is, and tells the app if it is that of another user, or of none. */
  #see(now, reason) {
    const before = this.#session;
    this.#session = now;
    if (before?.id !== now?.id) this.#proof = null;
    if (before?.user_id === now?.user_id) return;
    if (this.#actsFor === null && now) this.#actsFor = now.user_id;
    queueMicrotask(() => {
      if (before) this.#signedOut?.(now ? "replaced" : reason);
      this.#listeners.forEach((changed) => changed());
      if (this.#signedOut || this.#listeners.size) this.#actsFor = this.#session?.user_id ?? null;
    });
  }

  #store(session, reason) {
    this.#see(session, reason);
    try {
      if (session) this.#storage?.setItem(this.#key, JSON.stringify(session));
      else this.#storage?.removeItem(this.#key);
    } catch {
      const full = this.#storage;
      this.#storage = null; // from now on in memory
      try {
        full.removeItem(this.#key); // an old hash must not be read again
      } catch {}
    }
  }

  /** Forgets a session, unless it has another hash by now. */
  #end(session, reason) {
    const now = this.#read();
    if (now?.id !== session.id || now.user_hash !== session.user_hash) return;
    this.#store(null, reason);
    this.#channel?.postMessage({ id: session.id, n: session.n, session: null, reason: reason === "ended" ? reason : "elsewhere" });
  }

  /** Forgets a session that the API has refused, and tells whether it is over. */
  async #over(session) {
    // A password that another tab changes voids the hash before the new one is known.
    this.#channel?.postMessage({ id: session.id, n: session.n, ask: true });
    const end = Date.now() + (this.#tabs ? (this.#locks ? 200 : 1000) : 0);
    while (this.#read()?.user_hash === session.user_hash && Date.now() < end) await pause(50);
    this.#end(session, "ended");
    return this.#read()?.id !== session.id;
  }

  get #locks() {
    return this.#tabs ? globalThis.navigator?.locks : undefined;
  }

  /** Runs one at a time, in all tabs where the browser has Web Locks, else in this tab. */
  #locked(run) {
    if (this.#locks) {
      let running = false;
      const start = () => ((running = true), run());
      // A tab that the browser has frozen may hold the lock: parallel refreshes do no harm.
      return this.#locks.request(this.#key, { signal: AbortSignal.timeout(2 * this.#timeout) }, start).catch((error) => {
        if (running) throw error;
        return run();
      });
    }
    const next = this.#queue.then(run);
    this.#queue = next.catch(() => {});
    return next;
  }
}

/** Asks the user for a code. */
async function answer(ask, error) {
  const code = await ask(error);
  if (!code) throw new PersonalError("cancelled", "No code was entered.");
  return code;
}

function replaced() {
  return new PersonalError("replaced", "Someone else has signed in, in another tab.");
}

// Passkeys in JSON (WebAuthn level 3). Browsers of 2024 lack the functions for it, and passkeys of some extensions have ones that throw.

const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (sign) => sign.charCodeAt(0));
const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");

/** Lets the browser create or get a passkey. */
async function ceremony(method, options) {
  if (!globalThis.PublicKeyCredential) throw new PersonalError("no_passkeys", "This browser does not know passkeys.");
  const publicKey = { ...options, challenge: bytes(options.challenge) };
  if (options.user) publicKey.user = { ...options.user, id: bytes(options.user.id) };
  for (const list of ["excludeCredentials", "allowCredentials"]) {
    if (options[list]) publicKey[list] = options[list].map((one) => ({ ...one, id: bytes(one.id) }));
  }
  const { id, rawId, type, response: from } = await navigator.credentials[method]({ publicKey });
  const response = {};
  for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
    if (from[name]) response[name] = text(from[name]);
  }
  try {
    if (method === "create") response.transports = from.getTransports();
  } catch {} // optional
  return { id, rawId: text(rawId), type, response, clientExtensionResults: {} };
}
