// Moves the code of a mail's link from the address into its field. It stands
// behind the # so that no server's log has it; here it also leaves the
// browser's history. Nothing is sent before the visitor does.
"use strict";

const takeToken = () => {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token === null) return;
  for (const input of document.querySelectorAll('input[data-script="token"]')) input.value = token;
  history.replaceState(null, "", location.pathname + location.search);
};

takeToken();
addEventListener("hashchange", takeToken);

// A change of language loads the page anew. The code comes along as it came here:
// what stands behind the # of a form's address outlives the redirect, unsent.
addEventListener("submit", ({ target }) => {
  const token = document.querySelector('input[data-script="token"]').value;
  if (target.matches("form.languages") && token !== "") target.action = `/language#${new URLSearchParams({ token })}`;
});
