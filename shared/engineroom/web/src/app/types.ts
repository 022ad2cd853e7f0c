// The types of the API that the frame and the panels share, by the names that they have here.

import type { ActivityItem, EventItem, MeItem, OverviewAnswer, TokenUsage } from "./api.gen";

export interface Page<T> {
  items: T[];
  nextCursor?: string | null;
}

export type Me = MeItem;

export type Overview = OverviewAnswer;

export type Usage = TokenUsage;

export type Activity = ActivityItem;

/** Happened is one event of the stream. */
export type Happened = Omit<EventItem, "data"> & { data: Record<string, unknown> };
