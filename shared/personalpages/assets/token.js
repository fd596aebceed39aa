// Moves the code in a mail's link from the address into its field. The code follows
// the #, so that no server logs it; the script also removes it from the browser's
// history. It is sent when the visitor submits the form, and on the page of a recovery to ask
// what that would remove. The field is in <details>, which the script closes: the visitor need not
// see the code.
"use strict";

// preview replaces the lead of the page by what the site says about the code, if it is valid.
const preview = async (token) => {
  const lead = document.querySelector("[data-preview]");
  if (!lead) return;
  lead.ariaBusy = "true";
  try {
    const response = await fetch(lead.dataset.preview, { method: "POST", body: new URLSearchParams({ token }) });
    if (response.status !== 200) return;
    const result = await response.json();
    lead.textContent = result.lead;
    lead.hidden = result.lead === "";
  } catch {
    // The lead says it without numbers.
  } finally {
    lead.removeAttribute("aria-busy");
  }
};

const takeToken = () => {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token === null) return;
  const inputs = document.querySelectorAll('input[data-script="token"]');
  for (const input of inputs) input.value = token;
  history.replaceState(null, "", location.pathname + location.search);
  for (const input of inputs) {
    input.closest("details").open = false;
    const shown = (element) => element.getClientRects().length > 0 && !element.closest("details:not([open])");
    const next = [...input.form.elements].find((element) => shown(element) && element.matches("input, button:not([type=button])"));
    next?.focus();
  }
  preview(token);
};

takeToken();
addEventListener("hashchange", takeToken);

// A change of language reloads the page. The code is kept in the fragment of the
// form's address, which survives the redirect and is not sent.
addEventListener("submit", ({ target }) => {
  const token = document.querySelector('input[data-script="token"]').value;
  if (target.matches("form.languages") && token !== "") target.action = `${target.getAttribute("action")}#${new URLSearchParams({ token })}`;
});
