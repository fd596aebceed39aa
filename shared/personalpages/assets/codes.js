// The buttons that copy and print recovery codes. The download needs no script.
"use strict";

const button = (name, click) => {
  const element = document.querySelector(`button[data-script="${name}"]`);
  element.hidden = false;
  element.addEventListener("click", click);
};

button("print", () => print());
if (navigator.clipboard) { // absent without HTTPS
  button("copy", async () => {
    const status = document.querySelector("[role=status][data-done]");
    const codes = [...document.querySelectorAll(".codes code")].map((code) => code.textContent);
    try {
      await navigator.clipboard.writeText(codes.join("\n"));
    } catch {
      return; // the browser does not permit it
    }
    status.textContent = status.dataset.done;
  });
}
