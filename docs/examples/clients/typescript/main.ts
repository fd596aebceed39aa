// Registers a user, signs them in, refreshes the session, and reads and changes the
// profile. The types in personal.d.ts are generated: npm run generate URL/openapi.json
//
//   node main.js URL    such as http://127.0.0.1:8080/api/v1/personal

import createClient from "openapi-fetch";
import type { components, paths } from "./personal.js";

const baseUrl = process.argv[2];
if (!baseUrl) throw new Error("usage: node main.js URL");

// The pair that identifies the user; every request carries it once it is known.
let session: components["schemas"]["credentials"] | undefined;

const api = createClient<paths>({ baseUrl });
api.use({
  onRequest({ request }) {
    if (session) {
      request.headers.set("User-Id", String(session.user_id));
      request.headers.set("User-Hash", session.user_hash);
    }
  },
});

const login = "ts" + Math.random().toString(36).slice(2, 10);
const password = "correct horse";

const registered = await api.POST("/register/", {
  body: { login, email: `${login}@example.com`, password, confirm_password: password, city: "kazan" },
});
if (!registered.data) throw new Error(`register: ${registered.error.result.CODE}`);
const account = registered.data.data;
if (!account) throw new Error(registered.data.result.MESSAGE); // the site requires a verified e-mail

// An error is a union: CODE tells which one it is.
const refused = await api.POST("/auth/", { body: { login, password: "wrong" } });
if (refused.error?.result.CODE === "validation_failed") throw new Error(Object.keys(refused.error.result.FIELDS).join());
console.log("refused:", refused.error?.result.CODE);

const signedIn = await api.POST("/auth/", { body: { login, password } });
if (!signedIn.data) throw new Error(`auth: ${signedIn.error.result.CODE}`);
session = signedIn.data.data;

const refreshed = await api.POST("/auth_refresh/");
if (!refreshed.data) throw new Error(`auth_refresh: ${refreshed.error.result.CODE}`);
session = refreshed.data.data; // from now on

const saved = await api.POST("/profile/", { body: { name: "Ada", city: null } }); // null clears a user field
if (!saved.data) throw new Error(`changing the profile: ${saved.error.result.CODE}`);

const read = await api.GET("/profile/");
if (!read.data) throw new Error(`profile: ${read.error.result.CODE}`);
const profile = read.data.data.user_profile;
console.log("registered in:", account.user_profile.city);
console.log(`name: ${profile.name}, city cleared: ${profile.city === null}`);
