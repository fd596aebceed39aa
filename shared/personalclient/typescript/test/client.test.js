// Runs against real hosts: PERSONAL_URL is the API of one with the default settings. At PERSONAL_SHORT_URL, session.grace is a second,
// so that a hash is old soon, as after an hour's sleep.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { after, describe, test } from "node:test";
import { createClient, PersonalError } from "../index.js";

// Newer Nodes have Web Locks: here is a browser without them.
if (globalThis.navigator?.locks) Object.defineProperty(globalThis.navigator, "locks", { value: undefined });

const base = process.env.PERSONAL_URL;
const short = { base: process.env.PERSONAL_SHORT_URL };
const password = "correct horse";
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const until = async (ok) => {
  for (const end = Date.now() + 30_000; !ok() && Date.now() < end; ) await pause(10);
};
const afterGrace = () => pause(2500);

/** memory is a storage that tabs may share. */
function memory(kept = new Map()) {
  return { kept, getItem: (k) => kept.get(k) ?? null, setItem: (k, v) => kept.set(k, v), removeItem: (k) => kept.delete(k) };
}

let users = 0;

/** tab returns a client, with the requests that it sends and the reasons of its sign-outs. */
function tab(options = {}) {
  const requests = [];
  const signedOut = [];
  const { send = fetch, ...rest } = options;
  const client = createClient({
    base, refreshEvery: Infinity, onSignedOut: (reason) => signedOut.push(reason), ...rest,
    fetch: (url, init) => {
      requests.push(new URL(url).pathname.split("/").at(-2));
      return send(url, init);
    },
  });
  return Object.assign(client, { requests, signedOut });
}

async function register(client) {
  const login = `client${process.pid}x${++users}`;
  await client.post("/register/", { login, email: `${login}@example.com`, password, confirm_password: password });
  return login;
}

/** failing lets some requests fail: before they are sent, or after, so that the response is lost. */
function failing(fails) {
  let n = 0;
  return async (url, init) => {
    const how = fails(++n, new URL(url).pathname);
    if (how === "before") throw new TypeError("fetch failed");
    const response = await fetch(url, init);
    if (how === "after") throw new TypeError("terminated");
    return response;
  };
}

describe("client", { concurrency: true }, () => {
  test("a conversation", async () => {
    const client = tab({ storage: memory() });
    assert.equal(client.userId, null);
    const login = await register(client);
    assert.ok(client.userId > 0);
    const { user_profile } = await client.get("/profile/");
    assert.equal(user_profile.login, login);
    await client.post("/profile/", { name: "Anna" });
    assert.equal((await client.get("/profile/")).user_profile.name, "Anna");
    await client.signOut();
    assert.equal(client.userId, null);
    assert.deepEqual(client.signedOut, ["signed_out"]);
    await assert.rejects(client.signIn({ login, password: "wrong" }), (error) => {
      assert.ok(error instanceof PersonalError);
      assert.equal(error.code, "invalid_credentials");
      assert.equal(error.status, 401);
      return true;
    });
    await assert.rejects(client.post("/register/", { login: "a b", email: "x", password: "1", confirm_password: "2" }), (error) => {
      assert.equal(error.code, "validation_failed");
      assert.equal(error.fields.email.code, "invalid_format");
      assert.ok(error.fields.login.message.length > 10);
      return true;
    });
    assert.equal((await client.signIn({ login, password })).user_id, client.userId);
    assert.deepEqual(client.signedOut, ["signed_out"], "a refused sign-in ends no session");
  });

  test("two tabs with ten calls each refresh without a sign-out", async () => {
    const storage = memory();
    const first = tab({ storage, refreshEvery: 0 });
    await register(first);
    const second = tab({ storage, refreshEvery: 0 });
    for (let round = 0; round < 5; round++) {
      await Promise.all([first, second].flatMap((t) => Array.from({ length: 10 }, () => t.get("/profile/"))));
    }
    assert.deepEqual([...first.signedOut, ...second.signedOut], []);
  });

  test("a tab refreshes once for all its calls", async () => {
    const storage = memory();
    const first = tab({ storage });
    await register(first);
    await Promise.all(Array.from({ length: 10 }, () => first.refresh()));
    assert.equal(first.requests.filter((r) => r === "auth_refresh").length, 1);
  });

  for (const when of ["before", "after"]) {
    for (const lost of [1, 2, 3, 4, 5, 6]) {
      test(`${lost} refreshes are lost ${when} the API has them`, async () => {
        let left = 0;
        const client = tab({ ...short, storage: memory(), send: failing((_, path) => (path.includes("auth_refresh") && left-- > 0 ? when : "")) });
        await register(client);
        left = lost;
        for (let n = 0; n < 3; n++) await client.refresh().catch((error) => assert.equal(error.code, "network"));
        await afterGrace();
        await client.refresh();
        assert.ok((await client.get("/profile/")).user_profile.login);
        assert.deepEqual(client.signedOut, []);
      });
    }
  }

  test("a tab that slept meets a session that others have refreshed", async () => {
    const storage = memory();
    const awake = tab({ ...short, storage });
    await register(awake);
    const asleep = tab({ ...short, storage });
    for (let n = 0; n < 3; n++) {
      await awake.refresh();
      await awake.get("/profile/");
      await afterGrace();
    }
    assert.ok((await asleep.get("/profile/")).user_profile.login);
    await asleep.refresh();
    assert.ok((await awake.get("/profile/")).user_profile.login);
    assert.deepEqual([...awake.signedOut, ...asleep.signedOut], []);
  });

  test("tabs with a storage each, as after a duplicated tab, tell each other", async () => {
    const kept = memory();
    const first = tab({ ...short, storage: kept });
    await register(first);
    const second = tab({ ...short, storage: memory(new Map(kept.kept)) });
    for (const [at, other] of [[first, second], [second, first], [first, second]]) {
      await at.refresh();
      await at.get("/profile/");
      await afterGrace();
      assert.ok((await other.get("/profile/")).user_profile.login);
    }
    assert.deepEqual([...first.signedOut, ...second.signedOut], []);
  });

  test("whoever subscribes learns of each change of the user, also in another tab", async () => {
    const storage = memory();
    const [first, second] = [tab({ storage }), tab({ storage })];
    const seen = [];
    const end = second.subscribe(() => seen.push(second.userId));
    await register(first);
    const { userId } = first;
    assert.equal(second.userId, userId); // as a page reads it that comes back
    await first.refresh();
    await second.get("/profile/");
    await first.signOut();
    await until(() => seen.length === 2);
    assert.deepEqual(seen, [userId, null]);
    end();
    await register(first);
    assert.equal(second.userId, first.userId);
    await pause(0);
    assert.equal(seen.length, 2);
  });

  test("a sign-out reaches the other tabs", async () => {
    const storage = memory();
    const first = tab({ storage });
    await register(first);
    const second = tab({ storage });
    await first.signOut();
    await until(() => second.signedOut.length > 0);
    assert.equal(second.userId, null);
    assert.deepEqual(second.signedOut, ["elsewhere"]);
  });

  test("a sign-out without a network is forgotten here, and says so", async () => {
    const storage = memory();
    const client = tab({ storage, send: failing((_, path) => (path.includes("logout") ? "before" : "")) });
    await register(client);
    await assert.rejects(client.signOut(), { code: "network" });
    assert.equal(client.userId, null);
    assert.equal(storage.kept.size, 0);
  });

  test("a session that another device ends is over, once", async () => {
    const client = tab({ storage: memory() });
    const login = await register(client);
    const other = tab({ tabs: false });
    await other.signIn({ login, password });
    await other.post("/sessions_revoke_others/");
    await Promise.allSettled([client.get("/profile/"), client.get("/sessions/"), client.refresh()]);
    assert.deepEqual(client.signedOut, ["ended"]);
    assert.equal(client.userId, null);
  });

  test("storage that throws, is full, or has garbage", async () => {
    const throws = () => { throw new Error("SecurityError"); };
    for (const storage of [throws, { getItem: throws, setItem: throws, removeItem: throws }, { ...memory(), setItem: throws }, memory(new Map([["personal " + base, "{"]]))]) {
      const client = tab({ storage });
      await register(client);
      await client.refresh();
      assert.ok((await client.get("/profile/")).user_profile.login);
      await client.signOut();
      assert.equal(client.userId, null);
    }
  });

  test("503, 429 and pages of a proxy end no session", async () => {
    const storage = memory();
    const client = tab({ storage });
    await register(client);
    for (const [status, body, code] of [
      [503, JSON.stringify({ success: 0, result: { TYPE: "ERROR", MESSAGE: "later", CODE: "unavailable" } }), "unavailable"],
      [502, "<html>Bad Gateway</html>", "unavailable"],
      [429, JSON.stringify({ success: 0, result: { TYPE: "ERROR", MESSAGE: "later", CODE: "too_many_attempts" } }), "too_many_attempts"],
      [418, JSON.stringify({ success: 0, result: { TYPE: "ERROR", MESSAGE: "new", CODE: "of_a_later_version", FIELDS: {} } }), "of_a_later_version"],
    ]) {
      const other = tab({ storage, send: async () => new Response(body, { status, headers: { "Retry-After": "1" } }) });
      await assert.rejects(other.post("/profile/", { name: "x" }), { code, status, retryAfter: 1 });
      await assert.rejects(other.refresh(), { code });
      assert.deepEqual(other.signedOut, []);
    }
    assert.ok((await client.get("/profile/")).user_profile.login);
  });

  test("a request that hangs ends", async () => {
    const client = tab({ timeout: 0.2, send: (_, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))) });
    await assert.rejects(client.post("/recover/", { login: "anna" }), { code: "network" });
  });

  test("a proof stays in the memory of its tab", async () => {
    const storage = memory();
    await register(tab({ storage }));
    const bodies = [];
    const other = tab({ storage, send: (url, init) => (bodies.push(init.body), fetch(url, init)) });
    assert.ok(!other.proved);
    await assert.rejects(other.post("/export/", {}), { code: "validation_failed" });
    await other.prove({ password });
    assert.ok(other.proved);
    assert.ok(await other.post("/export/", {}), "export/ takes the proof");
    const { proof } = JSON.parse(bodies.at(-1));
    assert.ok(proof.length > 10);
    assert.ok(!JSON.stringify([...storage.kept]).includes(proof));
    await other.signOut();
    assert.ok(!other.proved);
  });

  test("a changed password leaves both tabs signed in", async () => {
    const storage = memory();
    const first = tab({ storage });
    await register(first);
    const second = tab({ storage });
    await Promise.all([first.post("/password/", { old_password: password, password: "battery staple", confirm_password: "battery staple" }), second.refresh()]);
    for (const t of [first, second]) assert.ok((await t.get("/profile/")).user_profile.login);
    assert.deepEqual([...first.signedOut, ...second.signedOut], []);
  });

  test("a second factor is switched on by one call, and asked for only if it is needed", async () => {
    const client = tab();
    const login = await register(client);
    await client.signIn({ login, password }, () => assert.fail("there is no second factor yet"));
    const errors = [];
    const { recovery_codes } = await client.addTwoFactor((secret, error) => {
      errors.push(error?.fields.code.code);
      return error ? totp(secret.secret) : "no code";
    }, client.proved ? undefined : { password }); // a sign-in to 0.2.0 proves nothing
    assert.deepEqual(errors, [undefined, "mismatch"]);
    assert.ok(recovery_codes.length > 4);
    assert.equal((await client.get("/profile/")).user_profile.login, login, "with the new hash");
    const answers = ["wrong", recovery_codes[0]];
    const signedIn = await client.signIn({ login, password }, (error) => (errors.push(error?.code), answers.shift()));
    assert.equal(signedIn.two_factor, true);
    assert.deepEqual(errors.slice(2), [undefined, "invalid_code"]);
    assert.deepEqual(client.signedOut, []);
  });
});

/** totp returns the code of the moment (RFC 6238) of a secret in base32. */
function totp(secret) {
  const bits = [...secret].map((sign) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".indexOf(sign).toString(2).padStart(5, "0")).join("");
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000)));
  const digest = createHmac("sha1", Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)))).update(counter).digest();
  return String((digest.readUInt32BE(digest.at(-1) & 15) & 0x7fffffff) % 1e6).padStart(6, "0");
}

/** played is a server that a test plays: it holds each response back until the test gives it. */
function played() {
  const waiting = [];
  const send = (url, init) =>
    new Promise((resolve, reject) => {
      const request = { path: new URL(url).pathname.slice(1), hash: init.headers["User-Hash"], body: init.body && JSON.parse(init.body) };
      request.ok = (data) => resolve(new Response(JSON.stringify({ success: 1, result: { TYPE: "OK" }, data })));
      request.fails = (code, FIELDS) => resolve(new Response(JSON.stringify({ success: 0, result: { TYPE: "ERROR", MESSAGE: code, CODE: code, FIELDS } }), { status: 401 }));
      request.unavailable = (seconds) =>
        resolve(new Response(JSON.stringify({ success: 0, result: { TYPE: "ERROR", MESSAGE: "", CODE: "unavailable" } }), { status: 503, headers: { "Retry-After": String(seconds) } }));
      request.lost = () => reject(new TypeError("terminated"));
      waiting.push(request);
    });
  const next = async (path) => {
    for (;;) {
      const i = waiting.findIndex((r) => r.path === path);
      if (i >= 0) return waiting.splice(i, 1)[0];
      await pause(5);
    }
  };
  const open = (storage, options = {}) => {
    const signedOut = [];
    const client = createClient({ base: "http://api.example", storage, fetch: send, refreshEvery: Infinity, onSignedOut: (why) => signedOut.push(why), ...options });
    return Object.assign(client, { signedOut });
  };
  const soon = new Date(Date.now() + 60_000).toISOString();
  const signIn = async (client, user_id, user_hash) => {
    const signedIn = client.signIn({ login: "x", password });
    (await next("auth/")).ok({ user_id, user_hash, proof: "proof of " + user_hash, proved_until: soon });
    await signedIn;
  };
  return { open, next, signIn, waiting };
}

describe("in an unlucky order", { concurrency: true }, () => {
  test("a refresh whose response comes after a sign-in of someone else changes nothing", async () => {
    const { open, next, signIn } = played();
    const storage = memory();
    const anna = open(storage);
    await signIn(anna, 1, "a0");
    const refresh = anna.refresh();
    const slow = await next("auth_refresh/");
    const bob = open(storage);
    await signIn(bob, 2, "b0");
    slow.ok({ user_id: 1, user_hash: "a1" });
    await refresh;
    assert.equal(anna.userId, 2);
    await pause(0);
    assert.deepEqual(anna.signedOut, ["replaced"]);
    const profile = bob.get("/profile/");
    const request = await next("profile/");
    assert.equal(request.hash, "b0");
    request.ok({});
    await profile;
  });

  test("a refresh whose response comes after the sign-out restores no session", async () => {
    const { open, next, signIn } = played();
    const client = open(memory());
    await signIn(client, 1, "a0");
    const refresh = client.refresh();
    const slow = await next("auth_refresh/");
    const signOut = client.signOut();
    assert.equal(client.userId, null, "forgotten at once");
    (await next("logout/")).ok();
    await signOut;
    slow.ok({ user_id: 1, user_hash: "a1" });
    await refresh;
    assert.equal(client.userId, null);
    assert.deepEqual(client.signedOut, ["signed_out"]);
  });

  test("a request that is repeated has the hash of that time", async () => {
    const { open, next, signIn } = played();
    const client = open(memory());
    await signIn(client, 1, "a0");
    const profile = client.get("/profile/");
    const first = await next("profile/");
    const refresh = client.refresh();
    (await next("auth_refresh/")).ok({ user_id: 1, user_hash: "a1" });
    await refresh;
    first.lost();
    const again = await next("profile/");
    assert.equal(again.hash, "a1");
    again.ok({});
    await profile;
  });

  test("a tab that woke up does not repeat a refresh with an old hash", async () => {
    const { open, next, signIn, waiting } = played();
    const storage = memory();
    const asleep = open(storage);
    await signIn(asleep, 1, "a0");
    const refresh = asleep.refresh();
    const frozen = await next("auth_refresh/");
    const awake = open(storage);
    const other = awake.refresh();
    (await next("auth_refresh/")).ok({ user_id: 1, user_hash: "a1" });
    await other;
    frozen.lost();
    await refresh;
    assert.equal(waiting.length, 0);
  });

  test("a sign-out elsewhere is told even if the app looks first", async () => {
    const { open, next, signIn } = played();
    const storage = memory();
    const first = open(storage, { tabs: false });
    await signIn(first, 1, "a0");
    const second = open(storage, { tabs: false });
    const signOut = first.signOut();
    (await next("logout/")).ok();
    await signOut;
    assert.equal(second.userId, null);
    await pause(0);
    assert.deepEqual(second.signedOut, ["elsewhere"]);
  });

  test("a proof ends with a changed password, and stands for no empty one", async () => {
    const { open, next, signIn } = played();
    const client = open(memory());
    await signIn(client, 1, "a0");
    const empty = client.post("/delete/", { password: "" });
    const request = await next("delete/");
    assert.equal(request.body.proof, undefined);
    request.fails("validation_failed", { password: { CODE: "required", MESSAGE: "" } });
    await assert.rejects(empty, { code: "validation_failed" });
    const change = client.post("/password/", { password: "x", confirm_password: "x" });
    const password = await next("password/");
    assert.equal(password.body.proof, "proof of a0");
    password.ok({ user_id: 1, user_hash: "a1" });
    await change;
    assert.equal(client.proved, false);
    assert.equal(client.userId, 1);
  });

  test("another user's session is not used before the app knows of it, for a form of the first one", async () => {
    const { open, next, signIn, waiting } = played();
    for (const told of [undefined, () => {}]) {
      const storage = memory();
      const anna = open(storage, { onSignedOut: told });
      await signIn(anna, 1, "a0");
      await signIn(open(storage), 2, "b0"); // in another tab
      await assert.rejects(anna.post("/profile/", { name: "Anna" }), { code: "replaced" });
      assert.equal(waiting.length, 0);
      assert.equal(anna.userId, 2);
      await pause(0);
      if (told) {
        const profile = anna.get("/profile/");
        (await next("profile/")).ok({});
        await profile;
        continue;
      }
      await assert.rejects(anna.post("/profile/", { name: "Anna" }), { code: "replaced" });
      await assert.rejects(anna.signOut({ all: true }), { code: "replaced" });
      await signIn(anna, 1, "a1"); // anew
      const profile = anna.get("/profile/");
      const request = await next("profile/");
      assert.equal(request.hash, "a1");
      request.ok({});
      await profile;
    }
    assert.equal(waiting.length, 0);
  });

  test("a tab with an old hash ends no session of a tab with the new one", async () => {
    const { open, signIn } = played();
    const storage = memory();
    const client = open(storage);
    await signIn(client, 1, "a0");
    const { id, n } = JSON.parse([...storage.kept.values()][0]);
    const asleep = new BroadcastChannel("personal http://api.example");
    asleep.postMessage({ id, n: n - 1, session: null, reason: "ended" });
    const told = await new Promise((resolve) => (asleep.onmessage = ({ data }) => data.id === id && resolve(data))); // others have the same base
    asleep.close();
    assert.equal(told.session.user_hash, "a0");
    assert.equal(client.userId, 1);
    assert.deepEqual(client.signedOut, []);
  });

  test("a proof stands the clock of the machine, and one that has ended gives way to the password", async () => {
    const { open, next, waiting } = played();
    const client = open(memory());
    const signIn = client.signIn({ login: "x", password });
    (await next("auth/")).ok({ user_id: 1, user_hash: "a0", proof: "p", proved_until: new Date(Date.now() - 60_000).toISOString() }); // by a slower clock
    await signIn;
    assert.ok(client.proved);
    const email = client.post("/email/", { email: "anna@example.com" });
    const first = await next("email/");
    assert.equal(first.body.proof, "p");
    first.fails("validation_failed", { proof: { CODE: "mismatch", MESSAGE: "" } });
    const again = await next("email/");
    assert.equal(again.body.proof, undefined);
    again.fails("validation_failed", { password: { CODE: "required", MESSAGE: "Your password, please." } });
    await assert.rejects(email, (error) => error.fields.password.code === "required");
    assert.ok(!client.proved);
    assert.equal(waiting.length, 0);
  });

  test("what the API remembers is repeated, and nothing that must wait long", async () => {
    const { open, next, signIn, waiting } = played();
    const client = open(memory());
    await signIn(client, 1, "a0");
    const added = client.addTwoFactor(() => "123456");
    (await next("two_factor/")).ok({ secret: "A", uri: "otpauth://totp/x" });
    (await next("two_factor_confirm/")).lost();
    (await next("two_factor_confirm/")).ok({ user_id: 1, user_hash: "a1", recovery_codes: ["one"] });
    assert.deepEqual((await added).recovery_codes, ["one"]);
    const profile = client.get("/profile/");
    (await next("profile/")).unavailable(60);
    await assert.rejects(profile, { code: "unavailable", retryAfter: 60 });
    const change = client.post("/profile/", {});
    (await next("profile/")).lost();
    await assert.rejects(change, { code: "network" });
    assert.equal(waiting.length, 0);
  });

  test("a second click on the sign-in, a closed client, and a way in of a newer API", async () => {
    const { open, next } = played();
    const client = open(memory());
    const clicks = [client.signIn({ login: "x", password }), client.signIn({ login: "x", password })];
    for (const hash of ["a0", "a1"]) (await next("auth/")).ok({ user_id: 1, user_hash: hash });
    await Promise.all(clicks);
    client.close();
    const signOut = client.signOut();
    const request = await next("logout/");
    assert.equal(request.hash, "a1");
    request.ok();
    await signOut;
    const later = client.post("/stars_auth/", { stars: "Orion" });
    (await next("stars_auth/")).ok({ user_id: 2, user_hash: "s0" });
    await later;
    assert.equal(client.userId, 2);
  });

  test("what a newer host has reaches the app", async () => {
    const { open, next, signIn } = played();
    const client = open(memory());
    await signIn(client, 1, "a0");
    const profile = client.get("/profile/");
    (await next("profile/")).ok({ user_profile: { login: "x", planet: "Mars" }, badges: [1] });
    assert.deepEqual(await profile, { user_profile: { login: "x", planet: "Mars" }, badges: [1] });
    const unknown = client.post("/teleport/", { to: "Mars" });
    (await next("teleport/")).fails("no_oxygen", { to: { CODE: "too_far", MESSAGE: "Too far." } });
    await assert.rejects(unknown, (error) => {
      assert.equal(error.code, "no_oxygen");
      assert.deepEqual(error.fields, { to: { code: "too_far", message: "Too far." } });
      return true;
    });
    assert.equal(client.userId, 1);
    assert.deepEqual(client.signedOut, []);
  });

  test("a wrong code is asked for again", async () => {
    const { open, next } = played();
    const client = open(memory());
    const errors = [];
    const signIn = client.signInWithMailedCode({ login: "x" }, (error) => (errors.push(error?.code), "MAIL"), (error) => (errors.push(error?.code), "123456"));
    (await next("code_begin/")).ok({ attempt: "a" });
    (await next("code_auth/")).fails("invalid_code");
    (await next("code_auth/")).fails("code_required");
    (await next("code_auth/")).fails("invalid_code");
    const last = await next("code_auth/");
    assert.deepEqual(last.body, { attempt: "a", mailed_code: "MAIL", code: "123456" });
    last.ok({ user_id: 1, user_hash: "a0" });
    await signIn;
    assert.deepEqual(errors, [undefined, "invalid_code", undefined, "invalid_code"]);
    const proof = client.prove({ password }, (error) => (errors.push(error?.fields.code.code), "654321"));
    (await next("prove/")).fails("validation_failed", { code: { CODE: "required", MESSAGE: "" } });
    (await next("prove/")).fails("validation_failed", { code: { CODE: "mismatch", MESSAGE: "" } });
    (await next("prove/")).ok({ proof: "p", proved_until: new Date().toISOString() });
    await proof;
    assert.deepEqual(errors.slice(4), [undefined, "mismatch"]);
    const given = client.signIn({ login: "x", password }, () => null);
    (await next("auth/")).fails("code_required");
    await assert.rejects(given, { code: "cancelled" });
  });
});

const alive = setInterval(() => {}, 1000); // the limit of a request alone keeps no process alive
after(() => clearInterval(alive));
