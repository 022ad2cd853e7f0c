// The types of the API, from its OpenAPI description. `make web` writes this file: do not edit it.

export interface ActivityItem {
  agent: string;
  attempt?: number;
  conversationId: string;
  costUsd?: number;
  createdAt: string;
  durationMs: number;
  errorMessage?: string;
  executionId?: string;
  id: string;
  input?: unknown;
  kind: "skill" | "model" | "phase" | "beat" | "action";
  model?: string;
  output?: unknown;
  parentExecutionId?: string;
  skillId?: string;
  skillName?: string;
  startedAt: string;
  status: "success" | "error" | "pending_approval" | "skipped";
  surface: "heartbeat" | "operate" | "chat" | "webhook" | "coordinator" | "worker";
  threadId?: string;
  tokenUsage?: TokenUsage;
  traceId: string;
}

export interface AgentHealth {
  agentId: string;
  cpuPercent?: number;
  currentStep?: string;
  currentTaskId?: string;
  health?: "healthy" | "degraded" | "stale";
  heartbeats: AgentHeartbeat[];
  lastSeenAt?: string;
  memoryMb?: number;
  nextExpectedAt?: string;
  openTasks: number;
  progressPercent?: number;
  silentMs?: number;
  status: "IDLE" | "WORKING" | "DEGRADED" | "ERROR" | "DRAINING" | "TERMINATED";
}

export interface AgentHeartbeat {
  cpuPercent?: number;
  createdAt: string;
  currentStep?: string;
  currentTaskId?: string;
  memoryMb?: number;
  progressPercent?: number;
  status: "IDLE" | "WORKING" | "DEGRADED" | "ERROR" | "DRAINING";
}

export interface AgentItem {
  capabilities: string[];
  coordinatorEnabled: boolean;
  cpuPercent?: number;
  createdAt: string;
  createdBy: string;
  currentStep?: string;
  currentTaskId?: string;
  health?: "healthy" | "degraded" | "stale";
  heartbeatIntervalSeconds: number;
  id: string;
  idleSince?: string;
  lastSeenAt?: string;
  maxConcurrentTasks: number;
  memoryMb?: number;
  model?: string;
  name: string;
  nextExpectedAt?: string;
  openTasks: number;
  progressPercent?: number;
  spawner: "http" | "lambda" | "builtin" | "pull";
  spawnerTarget?: string;
  staleThresholdSeconds: number;
  status: "IDLE" | "WORKING" | "DEGRADED" | "ERROR" | "DRAINING" | "TERMINATED";
  terminatedAt?: string;
  terminationReason?: string;
  updatedAt: string;
}

export interface ApprovalHistory {
  approved: number;
  edited: number;
  rejected: number;
}

export interface ApprovalItem {
  agent: string;
  callId: string;
  decidedAt?: string;
  decidedBy?: string;
  editedInput?: unknown;
  error?: string;
  executedAt?: string;
  executionId: string;
  expiresAt: string;
  history: ApprovalHistory;
  id: string;
  input: unknown;
  inputDigest: string;
  outside: boolean;
  reason?: string;
  requestedAt: string;
  result?: unknown;
  skill: string;
  skillId?: string;
  status: "pending" | "approved" | "rejected" | "expired" | "executed";
  surface: "heartbeat" | "operate" | "chat" | "webhook" | "coordinator" | "worker";
  title: string;
  traceId: string;
  untrusted: ReadText[];
  why?: string;
}

export interface AuditItem {
  action: string;
  by: string;
  createdAt: string;
  id: string;
  subject: string;
  summary: string;
  traceId: string;
}

export interface AutomationItem {
  createdAt: string;
  createdBy: string;
  disabledAt?: string;
  disabledBy?: "human" | "self_healing";
  disabledReason?: string;
  enabled: boolean;
  id: string;
  input: unknown;
  lastRunAt?: string;
  lastStatus?: "success" | "error" | "pending_approval" | "skipped";
  lastTraceId?: string;
  name: string;
  nextRunAt: string | null;
  outside: boolean;
  schedule: Schedule;
  skill: string;
  updatedAt: string;
}

export interface BeatItem {
  done: BeatPhaseItem[];
  intervalSeconds: number;
  lastAt: string | null;
  nextAt: string | null;
  phase?: "heal" | "plan" | "automate" | "advance" | "reflect" | "remember";
  running: boolean;
  traceId: string | null;
}

export interface BeatPhaseItem {
  durationMs: number;
  phase: "heal" | "plan" | "automate" | "advance" | "reflect" | "remember";
  text: string;
}

export interface BudgetDay {
  day: string;
  microUsd: number;
  remaining: number;
  tokens: number;
}

export interface BudgetItem {
  allocated: number;
  allocatedMicroUsd?: number;
  consumed: number;
  consumedMicroUsd: number;
  createdAt: string;
  createdBy: string;
  id: string;
  overdraft: number;
  periodEnd: string;
  periodStart: string;
  remaining: number;
  reserved: number;
  reservedMicroUsd: number;
  scope: "global" | "project" | "milestone" | "task" | "agent" | "skill";
  scopeId?: string;
  scopeName?: string;
  updatedAt: string;
}

export interface BudgetSeries {
  allocated: number;
  budgetId: string;
  items: BudgetDay[];
  projection: SeriesProjection;
}

export interface CallsOfDay {
  calls: number;
  day: string;
  failed: number;
}

export interface CategoryItem {
  category: string;
  count: number;
}

export interface CircuitItem {
  name: string;
  reason: string;
  since?: string;
  state: "open" | "half_open" | "paused";
  until?: string;
}

export interface CoordinatorLogItem {
  createdAt: string;
  details?: unknown;
  event: string;
  id: string;
  level: "DEBUG" | "INFO" | "WARN" | "ERROR" | "CRITICAL";
  message: string;
  traceId?: string;
}

export interface CoordinatorStats {
  healthyAgents: number;
  pendingTasks: number;
  runningTasks: number;
  staleAgents: number;
}

export interface CoordinatorStatus {
  active: boolean;
  cycleCount: number;
  cycleDurationMs: number;
  instanceId?: string;
  lastHeartbeat?: string;
  stats: CoordinatorStats;
  wokenBy?: string;
  workspaces: number;
}

export interface CorrectionItem {
  factor: number;
  samples: number;
  taskType: string;
}

export interface CurrentUsage {
  costMicroUsd: number;
  lastUpdated: string | null;
  pace: "CONTINUE" | "THROTTLE" | "STOP";
  since: string;
  totalTokens: number;
}

export interface DeliveryItem {
  action?: string;
  attempt: number;
  attempts: number;
  conflict?: boolean;
  createdAt: string;
  deliveryId: string;
  direction: "inbound" | "outbound";
  duplicates?: number;
  durationMs?: number;
  endedAt?: string;
  endpointId?: string;
  error?: string;
  event?: string;
  executionId?: string;
  id: string;
  nextAt?: string;
  nextAttemptAt?: string;
  receivedAt?: string;
  source?: string;
  sourceId?: string;
  status: "received" | "working" | "done" | "failed" | "parked" | "delivered";
  statusCode?: number;
  subject?: string;
  traceId: string;
}

export interface EstimateItem {
  complexity: number;
  estimatedTokens: number;
  finishedAt: string;
  ratio: number;
  taskId: string;
  taskType?: string;
  usedTokens: number;
}

export interface EventItem {
  createdAt: string;
  data: unknown;
  id: string;
  kind: string;
  subject?: string;
  traceId?: string;
}

export interface EventPage {
  items: EventItem[];
  nextCursor: string;
  reset?: boolean;
}

export interface ExecutionItem {
  agent: string;
  attempt: number;
  costUsd: number;
  createdAt: string;
  endedAt?: string;
  errorMessage?: string;
  id: string;
  input?: unknown;
  parentExecutionId?: string;
  persona?: PersonaRef;
  result?: unknown;
  slot?: string;
  status: "running" | "waiting" | "parked" | "completed" | "failed" | "cancelled" | "stalled";
  subject?: string;
  surface: "heartbeat" | "operate" | "chat" | "webhook" | "coordinator" | "worker";
  title?: string;
  tokenUsage: TokenUsage;
  traceId: string;
}

export interface Explanation {
  ageMs?: number;
  doing?: string;
  executionId?: string;
  expiresAt?: string;
  fence?: number;
  held: boolean;
  holder?: string;
  lane: string;
  lockedAt?: string;
  remainingMs?: number;
  summary: string;
  traceId?: string;
  waiting: Waiter[];
}

export interface FailuresItem {
  count: number;
  items: OpenFailure[];
}

export interface GraphEdge {
  blocking: boolean;
  from: string;
  to: string;
}

export interface GraphNode {
  hops: number;
  id: string;
  reasonCode?: "dependency" | "dependency_failed" | "thread" | "no_agent" | "agents_full" | "budget" | "paused" | "backoff" | "cancelled";
  status: "PENDING" | "ASSIGNED" | "RUNNING" | "PAUSED" | "COMPLETED" | "FAILED" | "ABORTED" | "ARCHIVED";
  title: string;
}

export interface HealItem {
  automations: string[];
  code: string;
  createdAt: string;
  endedBy?: string;
  failedProbes: number;
  failures: number;
  id: string;
  probeAt?: string;
  skill: string;
  status: "active" | "probing" | "restored" | "undone" | "superseded";
  traceId: string;
  updatedAt: string;
}

export interface HealOfSkill {
  at: string;
  id: string;
  reason: string;
  status: "active" | "probing";
}

export interface HistogramAnswer {
  bucketSeconds: number;
  items: HistogramItem[];
}

export interface HistogramItem {
  at: string;
  error: number;
  pendingApproval: number;
  skipped: number;
  success: number;
}

export interface KeyItem {
  createdAt: string;
  createdBy: string;
  expiresAt?: string;
  id: string;
  key?: string;
  kind: "api" | "site";
  lastUsedAt?: string;
  name: string;
  origins: string[] | null;
  persona?: string;
  prefix: string;
  revokedAt?: string;
  role?: string;
  scopes: string[] | null;
}

export interface LaneItem {
  acquiredAt: string;
  ageMs: number;
  doing?: string;
  endedAt?: string;
  executionId?: string;
  expiresAt: string;
  fence: number;
  holder: string;
  label: string;
  lane: string;
  lockedAt: string;
  remainingMs: number;
  traceId?: string;
  wantedAt?: string;
  wantedBy?: string;
}

export interface LaneSpan {
  acquiredAt: string;
  agent: string;
  changed: boolean;
  ended: "released" | "expired" | "forced" | "running";
  endedAt: string | null;
  executionId: string | null;
  holder: string;
  label: string;
  lane: string;
  status: "running" | "waiting" | "parked" | "completed" | "failed" | "cancelled" | "stalled";
  surface: "heartbeat" | "operate" | "chat" | "webhook" | "coordinator" | "worker";
  traceId: string;
}

export interface LanesPage {
  items: LaneItem[];
  nextCursor: string | null;
  queues?: QueueItem[] | null;
}

export interface LastMessage {
  at: string;
  role: "user" | "assistant" | "system" | "tool";
  text: string;
}

export interface MeItem {
  cursor?: string;
  email?: string;
  id: string;
  kind: string;
  memberships?: MembershipItem[] | null;
  name?: string;
  permissions: string[];
  role?: string;
  scopes?: string[] | null;
  workspaceId: string;
  workspaces: MyWorkspace[];
}

export interface MemberItem {
  createdAt: string;
  email: string;
  name?: string;
  role: "OWNER" | "ADMIN" | "MEMBER";
  userId: string;
}

export interface MembershipItem {
  role: "OWNER" | "ADMIN" | "MEMBER";
  workspaceId: string;
}

export interface MemoryItem {
  agent: string;
  category: string;
  content: string;
  createdAt: string;
  expiresAt?: string;
  id: string;
  importance: number;
  traceId?: string;
  updatedAt: string;
}

export interface MessageItem {
  body: string;
  createdAt: string;
  executionId?: string;
  id: string;
  role: "user" | "assistant" | "system" | "tool";
}

export interface MilestoneItem {
  archived: boolean;
  archivedAt?: string;
  createdAt: string;
  createdBy: string;
  description?: string;
  dueAt?: string;
  id: string;
  name: string;
  projectId: string;
  tasks?: Record<string, number>;
  updatedAt: string;
}

export interface MyWorkspace {
  demo?: boolean;
  id: string;
  name: string;
  role?: string;
  script?: boolean;
  slug: string;
}

export interface NeedItem {
  at: string;
  id: string;
  kind: "approval" | "failure" | "heal" | "budget" | "lane" | "agent" | "stop" | "task";
  title: string;
  tone: "person" | "warn" | "failed";
  why: string;
}

export interface NotificationItem {
  address: string;
  channel: "http" | "slack" | "email" | "sms" | "log";
  events: ("task.status_changed" | "task.dependency_cycle" | "agent.stale" | "budget.warning" | "budget.exhausted" | "approval.requested" | "lane.wait_warning" | "heartbeat.completed" | "*")[];
}

export interface ObjectItem {
  id: string;
  kind: "objective" | "automation" | "task" | "execution";
  title: string;
}

export interface ObjectiveItem {
  completedAt?: string;
  createdAt: string;
  createdBy: string;
  description?: string;
  doneCriterion?: string;
  id: string;
  nextStep?: string;
  outside: boolean;
  planVersion: number;
  priority: number;
  status: "active" | "paused" | "completed";
  statusReason?: string;
  steps?: PlanStep[] | null;
  stepsDone: number;
  stepsTotal: number;
  summary?: string;
  title: string;
  updatedAt: string;
}

export interface OpenApprovalItem {
  agent: string;
  createdAt: string;
  expiresAt: string;
  id: string;
  skill: string;
  title: string;
}

export interface OpenApprovals {
  count: number;
  items: OpenApprovalItem[];
}

export interface OpenFailure {
  at: string;
  id: string;
  kind: "task" | "execution" | "message" | "delivery";
  threadId?: string;
  title: string;
  traceId?: string;
  why: string;
}

export interface OutgoingItem {
  attempts: number;
  body: string;
  createdAt: string;
  dueAt: string;
  executionId?: string;
  expiresAt?: string;
  id: string;
  lastError?: string;
  sentAt?: string;
  status: "queued" | "ready" | "sending" | "sent" | "failed" | "superseded" | "expired" | "uncertain" | "dead";
}

export interface OverviewAnswer {
  approvals: OpenApprovals;
  at: string;
  beat: BeatItem;
  failures: FailuresItem;
  lanes: OverviewLane[];
  needs: NeedItem[];
  object?: ObjectItem;
  running: RunningItem[];
  sentence: string;
  state: "working" | "idle" | "stopped" | "not_working";
  stop?: StopItem;
  tasks: OverviewTasksItem;
  today: TodayItem;
  verdict: VerdictItem;
}

export interface OverviewLane {
  acquiredAt: string;
  doing: string | null;
  expiresAt: string;
  fence: number;
  holder: string;
  label: string;
  lane: string;
  surface: string | null;
  traceId: string | null;
  waiting: number;
  wantedAt: string | null;
}

export interface OverviewTasksItem {
  byReason: ReasonCount[];
  failed: number;
  waiting: number;
  waitingMore: boolean;
  working: number;
}

export interface PageActivityItem {
  items: ActivityItem[];
  nextCursor: string | null;
}

export interface PageAgentItem {
  items: AgentItem[];
  nextCursor: string | null;
}

export interface PageApprovalItem {
  items: ApprovalItem[];
  nextCursor: string | null;
}

export interface PageAuditItem {
  items: AuditItem[];
  nextCursor: string | null;
}

export interface PageAutomationItem {
  items: AutomationItem[];
  nextCursor: string | null;
}

export interface PageBudgetItem {
  items: BudgetItem[];
  nextCursor: string | null;
}

export interface PageCategoryItem {
  items: CategoryItem[];
  nextCursor: string | null;
}

export interface PageCircuitItem {
  items: CircuitItem[];
  nextCursor: string | null;
}

export interface PageCoordinatorLogItem {
  items: CoordinatorLogItem[];
  nextCursor: string | null;
}

export interface PageCorrectionItem {
  items: CorrectionItem[];
  nextCursor: string | null;
}

export interface PageDeliveryItem {
  items: DeliveryItem[];
  nextCursor: string | null;
}

export interface PageEstimateItem {
  items: EstimateItem[];
  nextCursor: string | null;
}

export interface PageExecutionItem {
  items: ExecutionItem[];
  nextCursor: string | null;
}

export interface PageHealItem {
  items: HealItem[];
  nextCursor: string | null;
}

export interface PageKeyItem {
  items: KeyItem[];
  nextCursor: string | null;
}

export interface PageLaneSpan {
  items: LaneSpan[];
  nextCursor: string | null;
}

export interface PageMemberItem {
  items: MemberItem[];
  nextCursor: string | null;
}

export interface PageMemoryItem {
  items: MemoryItem[];
  nextCursor: string | null;
}

export interface PageMessageItem {
  items: MessageItem[];
  nextCursor: string | null;
}

export interface PageMilestoneItem {
  items: MilestoneItem[];
  nextCursor: string | null;
}

export interface PageObjectiveItem {
  items: ObjectiveItem[];
  nextCursor: string | null;
}

export interface PageOpenFailure {
  items: OpenFailure[];
  nextCursor: string | null;
}

export interface PageOutgoingItem {
  items: OutgoingItem[];
  nextCursor: string | null;
}

export interface PagePersonaItem {
  items: PersonaItem[];
  nextCursor: string | null;
}

export interface PagePlanStep {
  items: PlanStep[];
  nextCursor: string | null;
}

export interface PageProjectItem {
  items: ProjectItem[];
  nextCursor: string | null;
}

export interface PageSecretItem {
  items: SecretItem[];
  nextCursor: string | null;
}

export interface PageSiteKeyItem {
  items: SiteKeyItem[];
  nextCursor: string | null;
}

export interface PageSkillItem {
  items: SkillItem[];
  nextCursor: string | null;
}

export interface PageSkillsHealthItem {
  items: SkillsHealthItem[];
  nextCursor: string | null;
}

export interface PageSwitchItem {
  items: SwitchItem[];
  nextCursor: string | null;
}

export interface PageTaskItem {
  items: TaskItem[];
  nextCursor: string | null;
}

export interface PageTaskLogItem {
  items: TaskLogItem[];
  nextCursor: string | null;
}

export interface PageThreadItem {
  items: ThreadItem[];
  nextCursor: string | null;
}

export interface PageTierItem {
  items: TierItem[];
  nextCursor: string | null;
}

export interface PageTraceItem {
  items: TraceItem[];
  nextCursor: string | null;
}

export interface PageUsageItem {
  items: UsageItem[];
  nextCursor: string | null;
}

export interface PageWebhookEndpointItem {
  items: WebhookEndpointItem[];
  nextCursor: string | null;
}

export interface PageWebhookSourceItem {
  items: WebhookSourceItem[];
  nextCursor: string | null;
}

export interface PageWorkspaceItem {
  items: WorkspaceItem[];
  nextCursor: string | null;
}

export interface PersonaItem {
  createdAt?: string;
  createdBy?: string;
  displayName: string;
  instructions: string;
  language?: string;
  model?: string;
  name: string;
  outputCheck?: string;
  skills?: string[];
  surfaces: string[] | null;
  temperature?: number;
  timeZone?: string;
  version: number;
}

export interface PersonaRef {
  name: string;
  version: number;
}

export interface PlanStep {
  attempts: number;
  doneCriterion?: string;
  endedAt?: string;
  executionId?: string;
  inputs?: unknown;
  number: number;
  result?: string;
  skill?: string;
  status: "pending" | "done" | "failed";
  title: string;
}

export interface ProjectItem {
  archived: boolean;
  archivedAt?: string;
  createdAt: string;
  createdBy: string;
  description?: string;
  id: string;
  name: string;
  tasks?: Record<string, number>;
  updatedAt: string;
}

export interface Projection {
  dailyBurnRate: number;
  daysUntilExhaustion: number | null;
  projectedExhaustionDate: string | null;
  recommendation: "CONTINUE" | "THROTTLE" | "STOP";
  remainingTokens: number;
}

export interface QueueItem {
  active: number;
  completed: number;
  depth: number;
  failed: number;
  gaveUp: number;
  lane: string;
  oldestMs: number;
  refused: number;
  waited: WaitedItem[];
}

export interface ReadText {
  at: string;
  what: string;
  where: string;
}

export interface ReasonCount {
  code: string;
  count: number;
}

export interface RunningItem {
  agent: string;
  doing: string | null;
  executionId: string;
  lane: string | null;
  microUsd: number;
  startedAt: string;
  step: number | null;
  surface: "heartbeat" | "operate" | "chat" | "webhook" | "coordinator" | "worker";
  title: string;
  tokens: number;
  traceId: string;
}

export interface Savings {
  calls: number;
  costMicroUsd: number;
  savedMicroUsd: number;
  savedPercent: number;
  topTierMicroUsd: number;
  unpricedCalls: number;
}

export interface Schedule {
  cron?: string;
  event?: "approval.approved" | "approval.expired" | "approval.rejected" | "approval.requested" | "execution.failed" | "memory.saved" | "objective.completed" | "objective.created" | "objective.paused" | "objective.resumed" | "skill.disabled" | "skill.enabled";
  timeZone?: string;
}

export interface SecretItem {
  createdAt: string;
  name: string;
  updatedAt: string;
}

export interface SecretName {
}

export interface SeriesProjection {
  dailyBurnRate: number;
  daysUntilExhaustion: number | null;
  projectedExhaustionDate: string | null;
  rateWeek: number;
  rateYesterday: number;
  recommendation: "CONTINUE" | "THROTTLE" | "STOP";
  remainingTokens: number;
}

export interface SiteKeyItem {
  createdAt: string;
  createdBy: string;
  id: string;
  lastUsedAt?: string;
  name: string;
  origins: string[] | null;
  persona: string;
  prefix: string;
  revokedAt?: string;
}

export interface SkillHealth {
  calls: number;
  consecutiveFailures: number;
  days: number;
  failures: number;
  lastCallAt?: string;
  lastErrorAt?: string;
  lastErrorClass?: "input" | "ours" | "theirs" | "rate_limit" | "policy";
  name: string;
  p50Ms: number | null;
  p95Ms: number | null;
  skillId: string;
  successes: number;
}

export interface SkillItem {
  config?: unknown;
  createdAt?: string;
  description: string;
  disabledAt?: string;
  disabledBy?: "human" | "self_healing";
  disabledReason?: string;
  effect: "read" | "write";
  enabled: boolean;
  id: string;
  kind: "builtin" | "http" | "lambda" | "mcp";
  name: string;
  parameters: unknown;
  requiresApproval: boolean;
  results: "trusted" | "untrusted";
  scope: "internal" | "external" | "both";
  serial: boolean;
  timeoutSeconds: number | null;
  updatedAt?: string;
}

export interface SkillsHealthItem {
  calls: number;
  disabledBy?: "human" | "self_healing";
  effect: "read" | "write";
  enabled: boolean;
  failed: number;
  heal?: HealOfSkill;
  kind: "builtin" | "http" | "lambda" | "mcp";
  lastAt: string | null;
  lastError: string | null;
  p50Ms: number | null;
  p95Ms: number | null;
  reason: string | null;
  scope: "internal" | "external" | "both";
  series: CallsOfDay[];
  skill: string;
  streak: number;
  successRate: number | null;
}

export interface StepCall {
  arguments: string;
  id: string;
  name: string;
}

export interface StepMessage {
  calls?: StepCall[] | null;
  results?: StepResult[] | null;
  role: "user" | "assistant" | "tool" | "system";
  text?: string;
}

export interface StepResult {
  callId: string;
  content: string;
  isError?: boolean;
  name: string;
}

export interface StopItem {
  by: string;
  id: string;
  reason: string;
  scope: "workspace" | "agent" | "skill" | "model";
  since: string;
  target: string;
}

export interface SwitchItem {
  active: boolean;
  id: string;
  reason?: string;
  releasedAt?: string;
  releasedBy?: string;
  scope: "workspace" | "agent" | "skill" | "model";
  setAt: string;
  setBy: string;
  target?: string;
}

export interface TaskExplanation {
  reasons: TaskReason[];
  summary: string;
}

export interface TaskGraph {
  edges: GraphEdge[];
  nodes: GraphNode[];
  truncated: boolean;
}

export interface TaskItem {
  agentId?: string;
  assignedAt?: string;
  attempt: number;
  blocks: string[];
  cancelled: boolean;
  checkpointData?: unknown;
  completedAt?: string;
  createdAt: string;
  createdBy: string;
  currentStep?: string;
  dependsOn: string[];
  description?: string;
  estimatedCompletionAt?: string;
  estimatedDurationMinutes?: number;
  failedAt?: string;
  id: string;
  inputContext?: unknown;
  lastError?: string;
  maxRetries: number;
  metadata: unknown;
  milestoneId?: string;
  model?: string;
  nextAttemptAt?: string;
  outputResult?: unknown;
  outside: boolean;
  priority: number;
  progressPercent: number;
  projectId?: string;
  reasonCode?: "dependency" | "dependency_failed" | "thread" | "no_agent" | "agents_full" | "budget" | "paused" | "backoff" | "cancelled";
  retryBackoffSeconds: number;
  retryCount: number;
  sessionKey?: string;
  startedAt?: string;
  status: "PENDING" | "ASSIGNED" | "RUNNING" | "PAUSED" | "COMPLETED" | "FAILED" | "ABORTED" | "ARCHIVED";
  statusReason?: string;
  summary?: string;
  tags: string[];
  taskType?: string;
  threadId?: string;
  title: string;
  updatedAt: string;
  whySummary?: string;
}

export interface TaskLogItem {
  actor: string;
  agentId?: string;
  attempt?: number;
  createdAt: string;
  details?: unknown;
  event: "created" | "state_transition" | "task_assigned" | "progress_update" | "checkpoint" | "task_recovery" | "timeout" | "conflict" | "dependency_cycle" | "budget" | "error";
  id: string;
  level: "DEBUG" | "INFO" | "WARN" | "ERROR" | "CRITICAL";
  message: string;
  newStatus?: string;
  previousStatus?: string;
  sessionKey?: string;
  stackTrace?: string;
  traceId?: string;
}

export interface TaskReason {
  code: "dependency" | "dependency_failed" | "thread" | "no_agent" | "agents_full" | "budget" | "paused" | "backoff" | "cancelled" | "failed" | "ended" | "assigned" | "running";
  message: string;
  status?: string;
  taskId?: string;
  threadId?: string;
  until?: string;
}

export interface ThreadBlock {
  executionId: string;
  holder: string;
  threadId?: string;
}

export interface ThreadExplanation {
  blocking: ThreadBlock[];
  circle?: string[] | null;
  doing?: string;
  freesAt?: string;
  held: boolean;
  lock?: ThreadLock;
  queued: number;
  summary: string;
  threadId: string;
  waiting: ThreadWaiter[];
}

export interface ThreadHolder {
  agent?: string;
  executionId: string;
  expiresAt?: string;
  stale: boolean;
}

export interface ThreadItem {
  address: string;
  channel: string;
  createdAt: string;
  expiresAt?: string;
  holder?: ThreadHolder;
  id: string;
  lastMessage?: LastMessage;
  lock?: ThreadLock;
  metadata: Record<string, string>;
  policy: "queue" | "supersede" | "hand_over";
  queued: number;
  updatedAt: string;
}

export interface ThreadLock {
  ageMs: number;
  executionId: string;
  lockedAt: string;
  parkedBy?: string;
  parkedUntil?: string;
  stack: string[];
  state: "active" | "stale";
}

export interface ThreadWaiter {
  ageMs: number;
  executionId?: string;
  expiresAt?: string;
  messageId: string;
  since: string;
}

export interface TierItem {
  inputMicroUsd: number;
  model: string;
  outputMicroUsd: number;
  tier: "small" | "middle" | "top";
}

export interface TodayItem {
  calls: number;
  capMicroUsd: number | null;
  capTokens: number | null;
  cappedMicroUsd: number;
  cappedTokens: number;
  microUsd: number;
  tokens: number;
}

export interface TokenUsage {
  completionTokens: number;
  promptTokens: number;
  totalTokens: number;
}

export interface TraceAnswer {
  activities: ActivityItem[];
  costUsd: number;
  durationMs: number;
  endedAt?: string;
  executions: ExecutionItem[];
  holds: LaneItem[];
  startedAt: string;
  status: "running" | "waiting" | "parked" | "completed" | "failed" | "cancelled" | "stalled" | "skipped";
  steps?: TraceStep[];
  surface: "heartbeat" | "operate" | "chat" | "webhook" | "coordinator" | "worker";
  traceId: string;
  truncated?: boolean;
  usage: TokenUsage;
}

export interface TraceItem {
  agent: string;
  costMicroUsd: number;
  endedAt?: string;
  error: string | null;
  executionId: string;
  startedAt: string;
  status: "running" | "waiting" | "parked" | "completed" | "failed" | "cancelled" | "stalled";
  surface: "heartbeat" | "operate" | "chat" | "webhook" | "coordinator" | "worker";
  title: string;
  tokens: number;
  traceId: string;
}

export interface TraceStep {
  call?: string;
  createdAt: string;
  executionId: string;
  kind: "input" | "model" | "result" | "note";
  messages: StepMessage[];
  status: "started" | "succeeded" | "failed" | "uncertain";
  step: number;
  system?: string;
}

export interface UsageItem {
  cacheReadTokens: number;
  cacheWriteTokens: number;
  calls: number;
  costMicroUsd: number;
  inputTokens: number;
  key: string;
  keys: string[];
  outputTokens: number;
  totalTokens: number;
  unpricedCalls: number;
}

export interface VerdictItem {
  lines: VerdictLine[];
  text: string;
  tone: "done" | "warn" | "failed";
}

export interface VerdictLine {
  detail: string;
  key: "calls" | "beats" | "lanes" | "skills" | "budgets" | "coordinator";
  link: string | null;
  text: string;
  tone: "done" | "warn" | "failed";
}

export interface WaitedItem {
  jobs: number;
  untilMs?: number;
}

export interface Waiter {
  executionId?: string;
  holder: string;
  since: string;
}

export interface WebhookCatchUp {
  asked: number;
  at?: string;
  error?: string;
  missed: number;
}

export interface WebhookEndpointItem {
  createdAt: string;
  createdBy: string;
  description?: string;
  disabledReason?: string;
  enabled: boolean;
  events: string[];
  failingSince?: string;
  failures: number;
  id: string;
  oldSecretValidUntil?: string;
  ownershipChallenge: boolean;
  updatedAt: string;
  url: string;
}

export interface WebhookSourceItem {
  catchUp?: WebhookCatchUp;
  createdAt: string;
  createdBy: string;
  enabled: boolean;
  encoding?: "hex" | "base64";
  header?: string;
  hookId?: number;
  id: string;
  idPath?: string;
  kind: "github" | "stripe" | "slack" | "standard" | "hmac" | "token";
  name: string;
  oldSecretValidUntil?: string;
  owner?: string;
  path: string;
  prefix?: string;
  rejected: number;
  rejectedAt?: string;
  repo?: string;
  rules: unknown;
  token?: SecretName;
  updatedAt: string;
}

export interface WholeDelivery {
  action?: string;
  attempt: number;
  attempts: number;
  body: string;
  conflict?: boolean;
  createdAt: string;
  deliveryId: string;
  direction: "inbound" | "outbound";
  duplicates?: number;
  durationMs?: number;
  endedAt?: string;
  endpointId?: string;
  error?: string;
  event?: string;
  executionId?: string;
  headers: Record<string, string>;
  id: string;
  nextAt?: string;
  nextAttemptAt?: string;
  receivedAt?: string;
  source?: string;
  sourceId?: string;
  status: "received" | "working" | "done" | "failed" | "parked" | "delivered";
  statusCode?: number;
  subject?: string;
  traceId: string;
}

export interface WorkspaceItem {
  createdAt: string;
  id: string;
  name: string;
  role?: string;
  settings: {
    notifications?: NotificationItem[];
  };
  slug: string;
  updatedAt: string;
}

/** Answers is what each route answers to GET. */
export interface Answers {
  "/activity": PageActivityItem;
  "/activity/histogram": HistogramAnswer;
  "/agent-tasks": PageTaskItem;
  "/agent-tasks/{id}": TaskItem;
  "/agent-tasks/{id}/graph": TaskGraph;
  "/agent-tasks/{id}/logs": PageTaskLogItem;
  "/agent-tasks/{id}/why": TaskExplanation;
  "/agents": PageAgentItem;
  "/agents/{id}": AgentItem;
  "/agents/{id}/health": AgentHealth;
  "/agents/{id}/tasks": PageTaskItem;
  "/api-keys": PageKeyItem;
  "/api-keys/{id}": KeyItem;
  "/approvals": PageApprovalItem;
  "/approvals/{id}": ApprovalItem;
  "/audit": PageAuditItem;
  "/automations": PageAutomationItem;
  "/automations/{id}": AutomationItem;
  "/budgets": PageBudgetItem;
  "/budgets/{id}": BudgetItem;
  "/budgets/{id}/projection": Projection;
  "/budgets/{id}/series": BudgetSeries;
  "/chat/{thread}/messages": PageMessageItem;
  "/circuits": PageCircuitItem;
  "/coordinator/logs": PageCoordinatorLogItem;
  "/coordinator/status": CoordinatorStatus;
  "/deliveries": PageDeliveryItem;
  "/deliveries/{id}": WholeDelivery;
  "/events": EventPage;
  "/executions": PageExecutionItem;
  "/executions/{id}": ExecutionItem;
  "/failures": PageOpenFailure;
  "/heals": PageHealItem;
  "/heals/{id}": HealItem;
  "/kill-switches": PageSwitchItem;
  "/kill-switches/{id}": SwitchItem;
  "/lanes": LanesPage;
  "/lanes/history": PageLaneSpan;
  "/lanes/{lane}/why": Explanation;
  "/me": MeItem;
  "/members": PageMemberItem;
  "/members/{userId}": MemberItem;
  "/memories": PageMemoryItem;
  "/memories/{id}": MemoryItem;
  "/memory-categories": PageCategoryItem;
  "/milestones": PageMilestoneItem;
  "/milestones/{id}": MilestoneItem;
  "/model-tiers": PageTierItem;
  "/objectives": PageObjectiveItem;
  "/objectives/{id}": ObjectiveItem;
  "/objectives/{id}/steps": PagePlanStep;
  "/overview": OverviewAnswer;
  "/personas": PagePersonaItem;
  "/personas/{name}": PersonaItem;
  "/personas/{name}/versions": PagePersonaItem;
  "/projects": PageProjectItem;
  "/projects/{id}": ProjectItem;
  "/secrets": PageSecretItem;
  "/secrets/{name}": SecretItem;
  "/site-keys": PageSiteKeyItem;
  "/site-keys/{id}": SiteKeyItem;
  "/skills": PageSkillItem;
  "/skills/health": PageSkillsHealthItem;
  "/skills/{id}": SkillItem;
  "/skills/{id}/health": SkillHealth;
  "/threads": PageThreadItem;
  "/threads/{id}": ThreadItem;
  "/threads/{id}/messages": PageMessageItem;
  "/threads/{id}/outbox": PageOutgoingItem;
  "/threads/{id}/why": ThreadExplanation;
  "/traces": PageTraceItem;
  "/traces/{traceId}": TraceAnswer;
  "/usage": PageUsageItem;
  "/usage/corrections": PageCorrectionItem;
  "/usage/current": CurrentUsage;
  "/usage/estimates": PageEstimateItem;
  "/usage/savings": Savings;
  "/webhook-endpoints": PageWebhookEndpointItem;
  "/webhook-endpoints/{id}": WebhookEndpointItem;
  "/webhook-sources": PageWebhookSourceItem;
  "/webhook-sources/{id}": WebhookSourceItem;
  "/workspaces": PageWorkspaceItem;
  "/workspaces/{workspaceId}": WorkspaceItem;
}
