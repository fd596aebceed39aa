// Adds a checkbox that selects all users on the page.
"use strict";

for (const form of document.querySelectorAll("form.selectable")) {
  const all = form.querySelector("input.all");
  const each = [...form.querySelectorAll("input[name=user]")];
  const show = () => {
    all.checked = each.every((box) => box.checked);
    all.indeterminate = !all.checked && each.some((box) => box.checked);
  };
  all.addEventListener("change", () => each.forEach((box) => { box.checked = all.checked; }));
  form.addEventListener("change", show);
  all.closest("label").hidden = false;
  show(); // browsers restore what was ticked when a page is reloaded
}
