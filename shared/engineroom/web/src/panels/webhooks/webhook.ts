// Delivery is a webhook that came in, or one attempt to send one out. A webhook keeps its deliveryId.
import type { DeliveryItem, WebhookEndpointItem, WebhookSourceItem, WholeDelivery } from "../../app/api.gen";

/** Delivery is one of the list, or a whole one. */
export type Delivery = DeliveryItem & Partial<WholeDelivery>;

export type Source = WebhookSourceItem;

export type Endpoint = WebhookEndpointItem;

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
