import { signal } from "@preact/signals";

const dark = matchMedia("(prefers-color-scheme: dark)");

function chosen(): string | null {
  try {
    return localStorage.getItem("lk-theme");
  } catch {
    return null;
  }
}

/** theme is "light" or "dark": what was chosen here, else what the system wants. */
export const theme = signal(chosen() ?? (dark.matches ? "dark" : "light"));

const show = (): void => {
  document.documentElement.dataset.theme = theme.value;
};
show();
theme.subscribe(show);
dark.addEventListener("change", () => {
  if (!chosen()) theme.value = dark.matches ? "dark" : "light";
});

/** switchTheme changes between light and dark, and keeps the choice. */
export function switchTheme(): void {
  theme.value = theme.value === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("lk-theme", theme.value);
  } catch {
    // it holds until the page is closed
  }
}
