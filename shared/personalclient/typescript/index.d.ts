import type { components, paths, RequiredAny } from "./api.js";

type Codes<T> = T extends { result: { CODE: infer C } } ? C : never;

/** The codes of errors that this version of the API has. */
export type Code = Codes<components["schemas"][keyof components["schemas"]]>;

/** An error of the API, or of the way to it. */
export class PersonalError extends Error {
  /** CODE of the API; "network" if there was no response; "no_passkeys" if the browser knows none; "cancelled" if the user
   * entered no code; "replaced" if someone else has signed in, in another tab. Codes may be added. */
  code: Code | "network" | "no_passkeys" | "cancelled" | "replaced" | (string & {});
  /** The status of HTTP; 0 without a response. */
  status: number;
  /** What is wrong with which parameter; empty if no parameter is wrong. */
  fields: Partial<Record<string, { code: string; message: string }>>;
  /** For how many seconds to wait before the call is repeated. */
  retryAfter?: number;
  constructor(code: string, message: string, options?: { status?: number; fields?: PersonalError["fields"]; retryAfter?: number; cause?: unknown });
}

/** Where the session is kept: localStorage, sessionStorage, or anything with these three methods. */
export interface SessionStorage {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

/** "ended": the API says so. "signed_out": by signOut. "elsewhere": another tab has removed it. "replaced": someone else has signed
 * in, in another tab, and is the user of this tab, too. */
export type SignedOutReason = "ended" | "signed_out" | "elsewhere" | "replaced";

export interface Options {
  /** The URL of the API, such as https://www.example.com/api/v1/personal. */
  base: string;
  /** Where the session is kept. Without it: in memory, so it ends at a reload. A function is called once; it may throw. */
  storage?: SessionStorage | (() => SessionStorage) | null;
  /** Called when the session of this tab's user is gone: show the sign-in. After "replaced" another user is signed in: show their page, or load it again. */
  onSignedOut?: (reason: SignedOutReason) => void;
  /** After how many seconds a call refreshes the session; 600 by default. */
  refreshEvery?: number;
  /** How many seconds a request may take; 15 by default. A read is sent up to three times. */
  timeout?: number;
  /** False if no other tab has the storage, as in Node; true by default. */
  tabs?: boolean;
  /** The language of messages, as in Accept-Language; that of the browser by default. */
  language?: string;
  /** In place of the global fetch. */
  fetch?: typeof fetch;
}

type Method = "get" | "post";
type Operation<P, K extends keyof P, M extends Method> = P[K] extends { [m in M]: infer O extends object } ? O : never;

/** The client has methods of its own for these. */
type Own = "/auth_refresh/" | "/logout/" | "/openapi.json";

/** The paths that have an operation with the method. */
export type Path<P, M extends Method> = { [K in keyof P]: [Operation<P, K, M>] extends [never] ? never : K }[Exclude<keyof P, Own>] & string;

/** The client keeps these. */
type Public<D> = D extends object ? Omit<D, "user_hash" | "proof"> : D;

/** One of these sets of parameters is required. */
type OneOf<B, Sets> = Sets extends readonly (infer N)[] ? { [name in N & keyof B]-?: NonNullable<B[name]> } : unknown;

/** What an operation takes. */
export type Body<P, K extends keyof P> = Operation<P, K, "post"> extends { requestBody?: { content: { "application/json": infer B } } }
  ? (K extends keyof RequiredAny ? B & OneOf<B, RequiredAny[K]> : B) : undefined;

/** What an operation returns. */
export type Data<P, K extends keyof P, M extends Method> =
  Operation<P, K, M> extends { responses: { 200: { content: { "application/json": infer R } } } } ? (R extends { data: infer D } ? Public<D> : R extends { data?: infer D } ? Public<D> | undefined : undefined) : never;

type Post<P, K extends keyof P> = Operation<P, K, "post"> extends { requestBody: object } ? [body: Body<P, K>] : [body?: Body<P, K>];
type SignedIn<P> = "/auth/" extends keyof P ? Data<P, "/auth/", "post"> : never;

/** Returns the code that the user enters; null rejects the call with "cancelled". After a wrong code it is called again, with the error. */
export type AskCode = (error?: PersonalError) => string | null | undefined | Promise<string | null | undefined>;

/** A client of the API. P are the types of your site, generated from its openapi.json, so that they have its user fields. */
export interface Client<P = paths> {
  /** The id of the user who is signed in, or null. */
  readonly userId: number | null;
  /** Calls changed when userId has changed, here or in another tab, and returns a function that ends that: useSyncExternalStore of React takes both. */
  readonly subscribe: (changed: () => void) => () => void;
  /** True while password and code may be left out of calls, for some minutes after a sign-in or prove. two_factor_codes/ and
   * two_factor_remove/ need a prove of their own, also right after a sign-in. */
  readonly proved: boolean;
  /** Reads. It is repeated if the response is lost, or not of the API, and after a 503. */
  get<K extends Path<P, "get">>(path: K): Promise<Data<P, K, "get">>;
  /** Changes something. A lost response is not repeated: the change may have been made. */
  post<K extends Path<P, "post">>(path: K, ...body: Post<P, K>): Promise<Data<P, K, "post">>;
  signIn(credentials: { login: string; password: string }, askCode?: AskCode): Promise<SignedIn<P>>;
  signInWithPasskey(askCode?: AskCode): Promise<SignedIn<P>>;
  signInWithMailedCode(account: { login: string } | { email: string }, askMailedCode: AskCode, askCode?: AskCode): Promise<SignedIn<P>>;
  /** Shows that the user is there, by password or mailed code, or without a body by a passkey. The proof stays in this tab. A user with a second
   * factor needs askCode. */
  prove(body?: { password: string; code?: string } | { attempt: string; mailed_code: string }, askCode?: AskCode): Promise<{ proved_until: string }>;
  /** Switches the second factor on: ask shows the secret, as a QR code of its uri, and returns the first code of the user's app.
   * Other sessions end. The recovery codes that it returns are shown this once. */
  addTwoFactor(
    ask: (secret: Data<paths, "/two_factor/", "post">, error?: PersonalError) => ReturnType<AskCode>, proof?: { password: string },
  ): Promise<Data<paths, "/two_factor_confirm/", "post">>;
  addPasskey(name: string, proof?: { password: string; code?: string }): Promise<components["schemas"]["passkey_added"]>;
  /** Removes the session from all tabs, and then ends it; with all also those of other devices. If it rejects, this browser is signed
   * out, but the session has not ended at the site. */
  signOut(options?: { all?: boolean }): Promise<void>;
  /** Rotates the hash, once for all tabs. Calls do it when it is time. */
  refresh(): Promise<void>;
  /** Ends the messages between tabs, for programs that make many clients. */
  close(): void;
}

export function createClient<P = paths>(options: Options): Client<P>;
