// Two tabs that refresh and call the API at PERSONAL_URL until the input ends, while its host is swapped and restarted. Prints the login
// of each answer, or the code of the error, and at the end which errors there were, and why a tab was signed out.
import { createClient } from "../index.js";

const kept = new Map();
const storage = { getItem: (k) => kept.get(k) ?? null, setItem: (k, v) => kept.set(k, v), removeItem: (k) => kept.delete(k) };
const result = { failed: {}, signedOut: [] };
const tabs = [1, 2].map(() => createClient({
  base: process.env.PERSONAL_URL, storage, refreshEvery: 0, onSignedOut: (reason) => result.signedOut.push(reason),
}));
const password = "correct horse";
await tabs[0].post("/register/", { login: "underway", email: "underway@example.com", password, confirm_password: password });

let going = true;
process.stdin.on("end", () => (going = false)).resume();
await Promise.all(tabs.map(async (tab) => {
  while (going) {
    try {
      const { user_profile } = await tab.get("/profile/");
      console.log(user_profile.login);
    } catch (error) {
      result.failed[error.code] = error.message;
      console.log(error.code);
    }
  }
}));
console.log(JSON.stringify(result));
process.exit();
