// What a setting bounds, with its unit.
export const labels: Record<string, string> = {
  stepsPerRun: "Model calls of one run", toolRetries: "Tries after a call that could not be made", skillTimeout: "Seconds that a skill may take",
  approvalHours: "Hours that a call waits for a person", beatModelCalls: "Model calls of one beat", beatTokens: "Tokens of one beat",
  beatMicroUsd: "Dollars of one beat (0: no bound)", dayTokens: "Tokens of all beats of a day",
  dayMicroUsd: "Dollars of all beats of a day (0: no bound)", beatMemories: "New memories of one beat",
  reflectHours: "Hours between two reflections (0: none)", threadParkingHours: "Hours that a thread waits for a person",
  chatVisitorMessages: "Messages of one visitor in a minute", chatMessages: "Messages of all visitors in a minute",
  chatTokens: "Tokens of one conversation in 24 hours", chatOutputTokens: "Tokens of one answer to a visitor", sessionQueue: "Messages that may wait in one conversation",
  apiRate: "Requests of one caller in a second", apiBurst: "Requests of one caller at once", activityDays: "Days that activity is kept",
  eventDays: "Days that events are kept", inboxDays: "Days that the inbox is kept", outboxDays: "Days that the outbox is kept",
  deliveryDays: "Days that the ids of deliveries are kept", heartbeatHours: "Hours that agents' beats are kept", resultHours: "Hours that results are kept beside their rows",
};

export const groups: readonly (readonly [string, readonly string[]])[] = [
  ["Runs", ["stepsPerRun", "toolRetries", "skillTimeout", "approvalHours"]],
  ["Beats", ["beatModelCalls", "beatTokens", "beatMicroUsd", "dayTokens", "dayMicroUsd", "beatMemories", "reflectHours"]],
  ["Conversations", ["chatVisitorMessages", "chatMessages", "chatTokens", "chatOutputTokens", "sessionQueue", "threadParkingHours"]],
  ["API", ["apiRate", "apiBurst"]],
  ["Kept for", ["activityDays", "eventDays", "inboxDays", "outboxDays", "deliveryDays", "heartbeatHours", "resultHours"]],
];
