import type { Activity, Usage } from "../../app/types";

export interface TraceRow {
  traceId: string;
  surface: string;
  agent: string;
  status: string;
  executionId: string;
  title?: string | null;
  tokens?: number | null;
  costMicroUsd?: number | null;
  error?: string | null;
  startedAt: string;
  endedAt?: string | null;
}

export interface Execution {
  id: string;
  parentExecutionId?: string;
  agent: string;
  surface: string;
  subject?: string;
  title?: string;
  status: string;
  attempt: number;
  input?: unknown;
  result?: unknown;
  errorMessage?: string;
  tokenUsage: Usage;
  costUsd: number;
  traceId: string;
  createdAt: string;
  endedAt?: string;
}

export interface Message {
  role: string;
  text?: string;
  calls?: { id: string; name: string; arguments: string }[];
  results?: { callId: string; name: string; content: string; isError?: boolean }[];
}

export interface Step {
  executionId: string;
  step: number;
  kind: string;
  status: string;
  call?: string;
  system?: string;
  messages: Message[];
  createdAt: string;
}

export interface Hold {
  lane: string;
  label?: string;
  acquiredAt: string;
  endedAt?: string | null;
  expiresAt?: string;
  fence?: number;
  executionId?: string | null;
}

export interface Trace {
  traceId: string;
  surface: string;
  status: string;
  title?: string;
  startedAt: string;
  endedAt?: string | null;
  durationMs: number;
  executions: Execution[];
  activities: Activity[];
  holds: Hold[];
  usage: Usage;
  costUsd: number;
  steps?: Step[];
  truncated?: boolean;
}
