// Client of the personal-account API: one session, shared by the tabs of a browser. The rules of a refresh are those of
// docs/api.md, "auth_refresh".

/** An error of the API, or of the way to it: code "network" if there was no response. Decide by code, show the message. */
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

/** createClient returns a client of the API at options.base. See index.d.ts for the options. */
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
// Operations that rotate the hash of a session.
const rotating = ["/password/", "/two_factor_confirm/", "/two_factor_remove/"];
// Operations that need no session, and begin one.
const signingIn = ["/auth/", "/register/", "/passkey_auth/", "/code_auth/"];

const attempts = 3;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Client {
  #base; #fetch; #storage; #key; #timeout; #refreshEvery; #signedOut; #channel;
  #session = null; // {user_id, user_hash, at}: what this tab knows, when the storage fails or there is none
  #proof = null; // {proof, until, session, asked}: never stored, never sent to other tabs
  #refreshing = null;
  #queue = Promise.resolve(); // in place of Web Locks

  constructor({ base, storage = null, fetch: send, onSignedOut, refreshEvery = 600, timeout = 15, tabs = true }) {
    this.#base = base.replace(/\/+$/, "");
    this.#fetch = send ?? ((...args) => fetch(...args));
    try {
      this.#storage = typeof storage === "function" ? storage() : storage;
    } catch {
      this.#storage = null; // blocked by the browser's settings
    }
    this.#key = "personal " + this.#base;
    this.#timeout = timeout * 1000;
    this.#refreshEvery = refreshEvery * 1000;
    this.#signedOut = onSignedOut ?? (() => {});
    if (tabs && typeof BroadcastChannel !== "undefined") {
      this.#channel = new BroadcastChannel(this.#key);
      this.#channel.onmessage = ({ data: { from, to } }) => {
        const known = this.#session;
        const now = this.#read();
        if (now?.user_hash === from) this.#store(to); // else it is in the storage that the tabs share, or is another session
        if (!to && known && !this.#read()) this.#ended("elsewhere");
      };
      this.#channel.unref?.(); // of Node: it must not keep the process alive
    }
    this.#session = this.#read();
  }

  /** userId is the id of the user who is signed in, or null. */
  get userId() {
    return this.#read()?.user_id ?? null;
  }

  /** proved tells whether the user has shown who they are a moment ago, so that the next calls need no password. */
  get proved() {
    return this.#proofFor("") !== undefined;
  }

  get(path) {
    return this.#call("GET", path);
  }

  post(path, body) {
    return this.#call("POST", path, body);
  }

  /** signIn signs in with login and password. askCode returns the code of the second factor; it is asked only if needed. */
  signIn({ login, password }, askCode) {
    return this.#withCode({ login, password }, askCode, (body) => this.post("/auth/", body));
  }

  /** signInWithPasskey lets the browser ask for a passkey. */
  async signInWithPasskey(askCode) {
    return this.#withCode(await this.#passkey("sign_in"), askCode, (body) => this.post("/passkey_auth/", body));
  }

  /** signInWithMailedCode sends a code to the e-mail of the account; askMailedCode returns what the user enters. */
  async signInWithMailedCode({ login, email }, askMailedCode, askCode) {
    const { attempt } = await this.post("/code_begin/", { login, email });
    const body = { attempt, mailed_code: await askMailedCode() };
    return this.#withCode(body, askCode, (body) => this.post("/code_auth/", body));
  }

  /** prove shows that the user is there: with {password, code}, or with the passkey that the browser asks for. */
  async prove(body) {
    return this.post("/prove/", body ?? (await this.#passkey("prove")));
  }

  /** addPasskey creates a passkey in the browser, and adds it. */
  async addPasskey(name, proof) {
    const { attempt, options } = await this.post("/passkeys_add/", proof ?? {});
    const publicKey = parse("parseCreationOptionsFromJSON", options);
    const credential = await navigator.credentials.create({ publicKey });
    return this.post("/passkeys_add_confirm/", { attempt, credential: credential.toJSON(), name });
  }

  /** signOut ends the session. This tab and the others forget it even if the API cannot be reached. */
  async signOut({ all } = {}) {
    const session = this.#read();
    if (!session) return;
    try {
      await this.#request("POST", "/logout/", all ? { all } : {}, session);
    } catch (error) {
      if (error.code !== "unauthenticated") throw error;
    } finally {
      this.#write(session, null);
      this.#ended("signed_out");
    }
  }

  /** refresh rotates the hash of the session, once for all tabs. Calls do it when it is time. */
  refresh() {
    const before = this.#read();
    if (!before) return Promise.resolve();
    this.#refreshing ??= this.#locked(() => this.#rotate(before)).finally(() => (this.#refreshing = null));
    return this.#refreshing;
  }

  async #rotate(before) {
    await pause(0); // what other tabs have sent comes first
    const session = this.#read();
    if (!session || session.user_hash !== before.user_hash) return; // another tab has refreshed it, or has signed out
    try {
      await this.#exchange("POST", "/auth_refresh/", undefined, session, true);
    } catch (error) {
      if (error.code === "unauthenticated") this.#end(session);
      throw error;
    }
  }

  async #call(method, path, body) {
    let session = this.#read();
    if (session && !signingIn.includes(path) && Date.now() - session.at > this.#refreshEvery) {
      try {
        await this.refresh();
      } catch (error) {
        if (error.code === "unauthenticated") throw error;
        // The hash that there is may still be used.
      }
      session = this.#read();
    }
    const send = async () => {
      session = this.#read();
      return this.#exchange(method, path, this.#proven(path, body), session, method === "GET");
    };
    try {
      return await (rotating.includes(path) ? this.#locked(send) : send());
    } catch (error) {
      if (error.code !== "unauthenticated" || !session) throw error;
      await pause(0);
      const now = this.#read();
      if (now && now.user_hash !== session.user_hash) return send(); // nothing was done with the old one
      this.#end(session);
      throw error;
    }
  }

  /** Sends a request, and keeps what its response says about the session. */
  async #exchange(method, path, body, session, repeat) {
    const data = await this.#request(method, path, body, session, repeat);
    if (data?.user_hash) {
      this.#write(signingIn.includes(path) ? null : session, { user_id: data.user_id, user_hash: data.user_hash, at: Date.now() });
    }
    if (data?.proof) {
      this.#proof = { proof: data.proof, until: Date.parse(data.proved_until), user: this.userId, asked: path === "/prove/" };
    }
    return data;
  }

  async #request(method, path, body, session, repeat = false) {
    const headers = { Accept: "application/json" };
    if (session) Object.assign(headers, { "User-Id": String(session.user_id), "User-Hash": session.user_hash });
    if (method === "POST") headers["Content-Type"] = "application/json";
    for (let n = 1; ; n++) {
      let error;
      try {
        const response = await this.#fetch(this.#base + path, {
          method, headers, body: method === "POST" ? JSON.stringify(body ?? {}) : undefined, signal: AbortSignal.timeout(this.#timeout),
        });
        const retryAfter = Number(response.headers.get("Retry-After")) || undefined;
        const text = await response.text();
        let envelope;
        try {
          envelope = JSON.parse(text);
        } catch {
          throw new PersonalError("unavailable", "The response is not one of the API.", { status: response.status, retryAfter });
        }
        if (envelope.success === 1) return envelope.data;
        const { CODE, MESSAGE, FIELDS = {} } = envelope.result;
        const fields = Object.fromEntries(Object.entries(FIELDS).map(([name, { CODE, MESSAGE }]) => [name, { code: CODE, message: MESSAGE }]));
        throw new PersonalError(CODE, MESSAGE, { status: response.status, fields, retryAfter });
      } catch (cause) {
        error = cause instanceof PersonalError ? cause : new PersonalError("network", "There was no response.", { cause });
      }
      if (!repeat || n === attempts || !["network", "unavailable"].includes(error.code)) throw error;
      await pause(Math.min(error.retryAfter ?? 0.3 * n, 5) * 1000);
    }
  }

  async #withCode(body, askCode, send) {
    try {
      return await send(body);
    } catch (error) {
      if (error.code !== "code_required" || !askCode) throw error;
      return send({ ...body, code: await askCode() });
    }
  }

  async #passkey(purpose) {
    const { attempt, options } = await this.post("/passkey_begin/", { purpose });
    const publicKey = parse("parseRequestOptionsFromJSON", options);
    const credential = await navigator.credentials.get({ publicKey });
    return { attempt, credential: credential.toJSON() };
  }

  #proofFor(path) {
    const p = this.#proof;
    if (!p || p.user !== this.userId || p.until <= Date.now() || (askAgain.includes(path) && !p.asked)) return undefined;
    return p.proof;
  }

  #proven(path, body) {
    const password = provable[path];
    if (!password || body?.[password] || body?.proof) return body;
    const proof = this.#proofFor(path);
    return proof ? { ...body, proof } : body;
  }

  // The session.

  #read() {
    if (!this.#storage) return this.#session;
    try {
      this.#session = JSON.parse(this.#storage.getItem(this.#key)); // null if there is none
    } catch {} // private mode, or what no client has written
    return this.#session;
  }

  #write(from, to) {
    this.#store(to);
    if (from) this.#channel?.postMessage({ from: from.user_hash, to });
  }

  #store(to) {
    this.#session = to;
    if (!to) this.#proof = null;
    try {
      if (to) this.#storage?.setItem(this.#key, JSON.stringify(to));
      else this.#storage?.removeItem(this.#key);
    } catch {
      this.#storage = null; // full, or private mode: from now on in memory
    }
  }

  #end(session) {
    if (this.#read()?.user_hash !== session.user_hash) return; // another one has taken its place
    this.#write(session, null);
    this.#ended("ended");
  }

  #ended(reason) {
    this.#proof = null;
    this.#signedOut(reason);
  }

  /** Runs one at a time, in all tabs where the browser has Web Locks, else in this tab. */
  #locked(run) {
    const locks = globalThis.navigator?.locks;
    if (locks) {
      let running = false;
      const start = () => ((running = true), run());
      // A tab that the browser has frozen may hold the lock: parallel refreshes do no harm.
      return locks.request(this.#key, { signal: AbortSignal.timeout(2 * this.#timeout) }, start).catch((error) => {
        if (running) throw error;
        return run();
      });
    }
    const next = this.#queue.then(run);
    this.#queue = next.catch(() => {});
    return next;
  }
}

function parse(method, options) {
  if (!globalThis.PublicKeyCredential?.[method]) throw new PersonalError("no_passkeys", "This browser does not know passkeys.");
  return PublicKeyCredential[method](options);
}
