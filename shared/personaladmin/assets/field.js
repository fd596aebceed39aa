// Suggests the technical name of a new field from its first label, until a name is typed.
"use strict";

const LETTERS = {
  а: "a", б: "b", в: "v", г: "g", д: "d", е: "e", ё: "e", ж: "zh", з: "z", и: "i", й: "y", к: "k", л: "l", м: "m", н: "n", о: "o", п: "p",
  р: "r", с: "s", т: "t", у: "u", ф: "f", х: "kh", ц: "ts", ч: "ch", ш: "sh", щ: "shch", ъ: "", ы: "y", ь: "", э: "e", ю: "yu", я: "ya", ß: "ss",
};

// technical returns a label in lower-case letters, digits and underscores, beginning with a letter.
const technical = (label) => Array.from(label.toLowerCase(), (letter) => LETTERS[letter] ?? letter).join("")
  .normalize("NFD").replace(/\p{M}/gu, "").replace(/[^a-z0-9]+/g, "_").replace(/^[_0-9]+|_+$/g, "").slice(0, 40).replace(/_+$/, "");

const name = document.querySelector(".field-form input[name=name]");
const labels = [...document.querySelectorAll(".field-form input[name^=label_]")];
if (name && name.value === "") {
  let suggested = "";
  for (const label of labels) {
    label.addEventListener("input", () => {
      if (name.value !== suggested) return;
      name.value = suggested = technical(labels.find((one) => one.value !== "")?.value ?? "");
    });
  }
}
