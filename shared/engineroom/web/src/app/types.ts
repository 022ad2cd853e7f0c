// The shapes of the API that the frame and the panels of this folder's owners share.

import type { Tone } from "../ui/status";

export interface Page<T> {
  items: T[];
  nextCursor?: string | null;
}

export interface Me {
  kind: string;
  id: string;
  name?: string;
  email?: string;
  role?: string;
  workspaceId: string;
  workspaces?: { id: string; name: string; slug: string; role: string }[];
  permissions?: string[];
}

export interface Ref {
  kind: string;
  id: string;
  title: string;
}

export interface Overview {
  state: "working" | "idle" | "stopped" | "not_working";
  sentence: string;
  object?: Ref | null;
  verdict: { tone: Tone; text: string; lines: { key: string; tone: Tone; text: string; detail?: string; link: string | null }[] };
  stop?: { id: string; scope: string; target: string; reason: string; by: string; since: string } | null;
  beat: {
    running: boolean;
    phase?: string | null;
    done: { phase: string; durationMs: number; text: string }[];
    nextAt: string | null;
    lastAt: string | null;
    intervalSeconds: number;
    traceId: string | null;
  };
  today: { microUsd: number; tokens: number; calls: number; capTokens: number | null; capMicroUsd: number | null };
  failures: { count: number; items: { kind: string; id: string; title: string; why: string; at: string }[] };
  approvals: { count: number; items: { id: string; title: string; skill: string; agent: string; createdAt: string; expiresAt: string }[] };
  needs: { kind: string; id: string; title: string; why: string; at: string; tone: Tone }[];
  running: {
    executionId: string; traceId: string; surface: string; agent: string; title: string;
    lane: string | null; startedAt: string; step: number | null; doing: string | null;
  }[];
  lanes: {
    lane: string; label: string; holder: string; doing: string | null; surface: string | null; acquiredAt: string; expiresAt: string;
    wantedAt: string | null; waiting: number; fence: number; traceId: string | null;
  }[];
  tasks: { waiting: number; working: number; failed: number; byReason: { code: string; count: number }[] };
  at: string;
}

export interface Usage {
  promptTokens: number;
  completionTokens: number;
  totalTokens: number;
  cachedTokens?: number;
}

export interface Activity {
  id: string;
  createdAt: string;
  startedAt?: string;
  traceId: string;
  executionId?: string;
  surface: string;
  agent: string;
  skillName?: string;
  kind?: string;
  status: string;
  summary?: string;
  title?: string;
  errorMessage?: string;
  input?: unknown;
  output?: unknown;
  durationMs: number;
  tokenUsage?: Usage;
  costUsd?: number;
  costMicroUsd?: number;
  model?: string;
  step?: number;
}

/** Happened is one event of the stream. */
export interface Happened {
  id: string;
  kind: string;
  subject?: string;
  traceId?: string;
  data: Record<string, unknown>;
  createdAt: string;
}
