// Delivery is a webhook that came in, or one attempt to send one out. A webhook keeps its deliveryId.
export interface Delivery {
  id: string;
  direction: "inbound" | "outbound";
  sourceId?: string | null;
  source?: string;
  endpointId?: string | null;
  deliveryId?: string;
  event?: string | null;
  subject?: string | null;
  status: string;
  attempt?: number;
  attempts?: number;
  statusCode?: number | null;
  error?: string | null;
  durationMs?: number | null;
  nextAt?: string | null;
  nextAttemptAt?: string | null;
  createdAt?: string;
  receivedAt?: string;
  endedAt?: string | null;
  traceId?: string;
  action?: string;
  duplicates?: number;
  conflict?: boolean;
  // of one
  headers?: Record<string, string>;
  body?: unknown;
}

export interface Source {
  id: string;
  name: string;
  kind: string;
  path: string;
  rules: unknown;
  enabled: boolean;
  rejected: number;
  rejectedAt?: string | null;
  oldSecretValidUntil?: string | null;
  createdBy: string;
}

export interface Endpoint {
  id: string;
  url: string;
  events: string[];
  description?: string;
  enabled: boolean;
  disabledReason?: string;
  failures?: number;
  failingSince?: string | null;
  oldSecretValidUntil?: string | null;
  createdBy?: string;
}

export const events = [
  "task.status_changed", "task.dependency_cycle", "agent.stale", "budget.warning", "budget.exhausted", "approval.requested", "lane.wait_warning",
  "heartbeat.completed",
];

// host is what people call an address by.
export function host(url: string | undefined): string {
  try {
    return new URL(url ?? "").host;
  } catch {
    return url ?? "–";
  }
}

export const at = (d: Delivery) => d.createdAt ?? d.receivedAt ?? "";
export const next = (d: Delivery) => d.nextAt ?? d.nextAttemptAt;
