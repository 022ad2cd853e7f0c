import { serverNow } from "./api";

const units: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** moment makes "-24h" or a time of an address a time as the API takes it; undefined: there is none. Any other text stays: the API refuses it. */
export function moment(text: string | null): string | undefined {
  if (!text) return undefined;
  const relative = /^-(\d+)([smhd])$/.exec(text);
  if (relative) {
    const ago = Number(relative[1]) * units[relative[2]!]!;
    const grain = Math.max(1000, Math.floor(ago / 200)); // the same request for a while
    return new Date(Math.floor((serverNow() - ago) / grain) * grain).toISOString();
  }
  const at = new Date(text);
  return Number.isNaN(+at) ? text : at.toISOString();
}

/** ranges are what a person may choose. */
export const ranges = [["-1h", "Last hour"], ["-24h", "Last 24 h"], ["-7d", "Last 7 days"], ["-30d", "Last 30 days"]] as const;
