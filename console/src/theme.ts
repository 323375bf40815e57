// The choice between the light and the dark theme, which the browser keeps.
import { useEffect, useState } from "preact/hooks";

const THEMES = ["auto", "light", "dark"];
const NAME = "informer-theme";

function kept(): string | null {
  try {
    return localStorage.getItem(NAME);
  } catch {
    return null;
  }
}

export function nextTheme(choice: string): string {
  return THEMES[(THEMES.indexOf(choice) + 1) % THEMES.length] ?? "auto";
}

/** Returns the choice, a function that changes it, and the theme that results from it. */
export function useTheme(): [string, (choice: string) => void, string] {
  const [choice, setChoice] = useState(kept() ?? "auto");
  const [system, setSystem] = useState(matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const media = matchMedia("(prefers-color-scheme: dark)");
    const dark = () => setSystem(media.matches);
    media.addEventListener("change", dark);
    return () => media.removeEventListener("change", dark);
  }, []);
  const theme = choice === "auto" ? (system ? "dark" : "light") : choice;
  // The theme is set before the charts read their colors from the style sheet.
  document.documentElement.dataset.theme = theme;
  const change = (next: string) => {
    try {
      localStorage.setItem(NAME, next);
    } catch {
      // The choice is then kept for this visit only.
    }
    setChoice(next);
  };
  return [choice, change, theme];
}
