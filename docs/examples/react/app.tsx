// A page that signs users in, with a second factor if they have one, and lets them change their name.
import { createClient, PersonalError } from "@cms-personal/client";
import { startTransition, useActionState, useEffect, useState, useSyncExternalStore, type ComponentProps, type SubmitEvent } from "react";
import { createRoot } from "react-dom/client";

const client = createClient({ base: "http://localhost:8080/api/v1/personal", storage: () => localStorage }); // see the policy in index.html
const refusal = (error: unknown) => (error instanceof PersonalError ? error : new PersonalError("unknown", String(error)));

/** A form. If the API refuses it, it shows the message, and those of its fields. It is sent once at a time. */
function Form(props: { fields: (ComponentProps<"input"> & { label: string })[]; button: string; send: (text: (name: string) => string) => Promise<unknown> }) {
  const [error, act, busy] = useActionState<PersonalError | null, FormData>(
    (_, form) => props.send((name) => String(form.get(name) ?? "")).then(() => null, refusal), null);
  const submit = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault(); // as an action, React would empty the form
    const form = new FormData(event.currentTarget);
    startTransition(() => act(form));
  };
  return <form onSubmit={submit}>
    {props.fields.map(({ label, ...input }) =>
      <p key={input.name}><label>{label} <input {...input} /></label> {error?.fields[input.name ?? ""]?.message}</p>)}
    <p><button disabled={busy}>{props.button}</button> <span role="alert">{error?.message}</span></p>
  </form>;
}

function SignIn() {
  const askCode = (error?: PersonalError) => prompt(error?.message ?? "The code of your authenticator app:");
  return <Form button="Sign in" send={(text) => client.signIn({ login: text("login"), password: text("password") }, askCode)} fields={[
    { name: "login", label: "Login or e-mail", autoComplete: "username" }, { name: "password", label: "Password", type: "password", autoComplete: "current-password" }]} />;
}

function Profile() {
  const [name, setName] = useState<string | null>(); // undefined until it is known
  const [error, setError] = useState("");
  const keep = (data: { user_profile: { name: string | null } }) => setName(data.user_profile.name);
  const fail = (error: unknown) => setError(refusal(error).message);
  useEffect(() => { client.get("/profile/").then(keep, fail); }, []);
  return <>
    {name !== undefined && <><h1>Hello, {name ?? "stranger"}!</h1>
      <Form button="Save" send={(text) => client.post("/profile/", { name: text("name") }).then(keep)} fields={[{ name: "name", label: "Your name", defaultValue: name ?? "" }]} /></>}
    <p><button onClick={() => client.signOut().catch(fail)}>Sign out</button> {error}</p>
  </>;
}

function App() {
  const userId = useSyncExternalStore(client.subscribe, () => client.userId);
  return userId === null ? <SignIn /> : <Profile key={userId} />;
}
createRoot(document.body.appendChild(document.createElement("main"))).render(<App />);
