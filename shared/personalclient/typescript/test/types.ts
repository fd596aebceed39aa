// What must compile, and what must not: each line below @ts-expect-error is a mistake that the compiler finds.
import { createClient, PersonalError, type Client } from "../index.js";

const client = createClient({ base: "https://www.example.com/api/v1/personal", storage: () => localStorage });

export async function conversation(): Promise<string | null> {
  const registered = await client.post("/register/", {
    login: "anna", email: "anna@example.com", password: "correct horse", confirm_password: "correct horse",
  });
  // @ts-expect-error a site may want a confirmed e-mail first
  if (registered.user_id === 1) return null;
  const signedIn = registered ?? (await client.signIn({ login: "anna", password: "correct horse" }, () => "123456"));
  const id: number = signedIn.user_id;
  await client.post("/recover/", { email: "anna@example.com" });
  await client.post("/code_begin/", { purpose: "prove" });
  await client.post("/prove/", { attempt: "a", mailed_code: "7K3M-Q9XA" });
  const { recovery_codes } = await client.addTwoFactor(({ secret, uri }) => prompt(`${secret} ${uri}`));
  if (recovery_codes.length === 0) throw new Error("no recovery codes");
  await client.post("/export/", {});
  const credential: PublicKeyCredentialJSON = { id: "a", rawId: "a", type: "public-key", response: {} };
  await client.post("/passkeys_add_confirm/", { attempt: "a", credential: { ...credential }, name: "Laptop" });
  await client.signOut();
  const { user_profile } = await client.get("/profile/");
  const { sessions } = await client.get("/sessions/");
  await client.post("/sessions_revoke/", { id: sessions[0]!.id });
  return id > 0 ? user_profile.name : null;
}

export async function mistakes(): Promise<void> {
  // @ts-expect-error unknown parameter
  await client.post("/recover/", { nonsense: 1 });
  // @ts-expect-error unknown parameter beside a known one
  await client.post("/export/", { password: "x", nonsense: 1 });
  // @ts-expect-error missing parameter
  await client.post("/auth/", { login: "anna" });
  // @ts-expect-error missing body
  await client.post("/auth/");
  // @ts-expect-error one of login and email is required
  await client.post("/recover/", {});
  // @ts-expect-error likewise; null is none
  await client.post("/code_begin/", { login: null });
  // @ts-expect-error an attempt alone proves nothing
  await client.post("/prove/", { attempt: "a" });
  // @ts-expect-error neither login nor email
  await client.signInWithMailedCode({}, () => "7K3M-Q9XA");
  // @ts-expect-error wrong type
  await client.post("/code_auth/", { attempt: 1, mailed_code: "7K3M-Q9XA" });
  // @ts-expect-error no such value
  await client.post("/passkey_begin/", { purpose: "sign-in" });
  // @ts-expect-error no such operation
  await client.get("/auth/");
  // @ts-expect-error the client has a method for it
  await client.post("/auth_refresh/");
  // @ts-expect-error a secret stays in the client
  (await client.signIn({ login: "anna", password: "x" })).user_hash;
  // @ts-expect-error no such member
  (await client.get("/profile/")).profile;
  // @ts-expect-error no such option
  createClient({ base: "/", storrage: null });
}

export function field(error: unknown): string | undefined {
  if (!(error instanceof PersonalError)) throw error;
  if (error.code === "too_many_attempts") return `Try again in ${error.retryAfter ?? 60} s.`;
  return error.fields["login"]?.message ?? error.message;
}

// The types of a site have its user fields.
interface Site {
  "/profile/": { get: { responses: { 200: { content: { "application/json": { data: { user_profile: { city: string } } } } } }; post?: never } };
}
export const city = async (site: Client<Site>): Promise<string> => (await site.get("/profile/")).user_profile.city;
