// Moves the code of a sign-in link from the address into its field. The code follows the #, so that
// no server or proxy logs it; the script also removes it from the browser's history.
"use strict";

const field = document.querySelector("#code");

const takeCode = () => {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code === null) return;
  field.value = code;
  history.replaceState(null, "", location.pathname);
};

takeCode();
addEventListener("hashchange", takeCode);

// A change of language reloads the page, and keeps the fragment of the form's address.
addEventListener("submit", ({ target }) => {
  if (target.matches("form.languages") && field.value !== "") target.action = `${target.getAttribute("action")}#${new URLSearchParams({ code: field.value })}`;
});
