// A page that signs users in, with a second factor if they have one, and lets them change their name.
import { createClient, PersonalError } from "@cms-personal/client";
import { useEffect, useState, type FormEvent } from "react";
import { createRoot } from "react-dom/client";

const client = createClient({
  base: "http://localhost:8080/api/v1/personal",
  storage: () => localStorage,
  onSignedOut: (reason) => (reason === "replaced" ? location.reload() : show()),
});
const root = createRoot(document.body.appendChild(document.createElement("main")));
const show = () => root.render(client.userId === null ? <SignIn /> : <Profile />);

/** A form. If the API refuses it, it shows the message, and those of its fields. */
function Form({ fields, button, send }: { fields: string[][]; button: string; send: (text: (name: string) => string) => Promise<unknown> }) {
  const [error, setError] = useState<PersonalError | null>(null);
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    send((name) => String(new FormData(event.currentTarget).get(name))).then(() => setError(null), setError);
  };
  return <form onSubmit={submit}>
    {fields.map(([name = "", label, type, value]) =>
      <p key={name}><label>{label} <input name={name} type={type} defaultValue={value} /></label> {error?.fields[name]?.message}</p>)}
    <p><button>{button}</button> <span role="alert">{error?.message}</span></p>
  </form>;
}

function SignIn() {
  const askCode = (error?: PersonalError) => prompt(error?.message ?? "The code of your authenticator app:");
  return <Form button="Sign in" fields={[["login", "Login or e-mail", "text"], ["password", "Password", "password"]]}
    send={(text) => client.signIn({ login: text("login"), password: text("password") }, askCode).then(show)} />;
}

function Profile() {
  const [name, setName] = useState<string | null>(); // undefined until it is known
  const [error, setError] = useState<PersonalError>();
  const keep = (data: { user_profile: { name: string | null } }) => setName(data.user_profile.name);
  useEffect(() => { client.get("/profile/").then(keep, setError); }, []);
  if (name === undefined) return <p role="alert">{error?.message}</p>;
  return <>
    <h1>Hello, {name ?? "stranger"}!</h1>
    <Form button="Save" fields={[["name", "Your name", "text", name ?? ""]]}
      send={(text) => client.post("/profile/", { name: text("name") }).then(keep)} />
    <button onClick={() => client.signOut()}>Sign out</button>
  </>;
}

show();
