import type { Tone } from "./status";

/** Icon draws a symbol of the sprite in index.html. */
export const Icon = ({ name }: { name: string }) => (
  <svg class="i" aria-hidden="true"><use href={"#i-" + name} /></svg>
);

/** Glyph draws the shape of a tone. It says nothing to a screen reader: a word must stand beside it. */
export const Glyph = ({ tone }: { tone: Tone }) => (
  <span class={"gl " + tone}><svg aria-hidden="true" class={tone === "active" ? "spin" : undefined}><use href={"#s-" + tone} /></svg></span>
);
