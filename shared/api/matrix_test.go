package api_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/api"
	"github.com/lanekeeper/lanekeeper/shared/auth"
)

// right has one valid request for each route.
var right = map[string]struct {
	path, body string
	status     int
}{
	"get-health":              {"/health", "", 200},
	"get-metrics":             {"/metrics", "", 200},
	"get-coordinator-health":  {"/health/coordinator", "", 200},
	"get-coordinator-status":  {"/api/v1/coordinator/status", "", 200},
	"run-coordinator":         {"/api/v1/coordinator/recover", `{}`, 200},
	"list-coordinator-logs":   {"/api/v1/coordinator/logs", "", 200},
	"command-coordinator":     {"/api/v1/coordinator/commands", `{"command":"recover"}`, 202},
	"run-heartbeat":           {"/api/v1/heartbeat/run", `{}`, 202},
	"operate":                 {"/api/v1/operate", `{"message":"Hello."}`, 200},
	"follow-execution":        {"/api/v1/executions/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/events", "", 404},
	"get-trace":               {"/api/v1/traces/hb_0mh8c1v2q_a7x2p1k9d4", "", 404},
	"list-activity":           {"/api/v1/activity", "", 200},
	"get-activity-histogram":  {"/api/v1/activity/histogram", "", 200},
	"list-audit":              {"/api/v1/audit", "", 200},
	"get-overview":            {"/api/v1/overview", "", 200},
	"list-skills-health":      {"/api/v1/skills/health", "", 200},
	"list-lane-history":       {"/api/v1/lanes/history", "", 200},
	"get-budget-series":       {"/api/v1/budgets/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/series", "", 404},
	"list-approvals":          {"/api/v1/approvals", "", 200},
	"get-approval":            {"/api/v1/approvals/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"approve-approval":        {"/api/v1/approvals/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/approve", `{"input":{}}`, 404},
	"reject-approval":         {"/api/v1/approvals/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/reject", `{"reason":"test"}`, 404},
	"bulk-agent-tasks":        {"/api/v1/agent-tasks/bulk", `{"filter":{"taskType":"none"},"action":"cancel","expectedCount":0}`, 202},
	"bulk-approvals":          {"/api/v1/approvals/bulk", `{"filter":{},"action":"reject","reason":"test","expectedCount":0}`, 202},
	"bulk-memories":           {"/api/v1/memories/bulk", `{"filter":{"category":"none"},"action":"forget","expectedCount":0}`, 202},
	"bulk-outbox":             {"/api/v1/outbox/bulk", `{"filter":{"status":"failed"},"action":"resend","expectedCount":0}`, 202},
	"bulk-deliveries":         {"/api/v1/deliveries/bulk", `{"filter":{"status":"parked"},"action":"redeliver","expectedCount":0}`, 202},
	"list-failures":           {"/api/v1/failures", "", 200},
	"dismiss-failure":         {"/api/v1/failures/task/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/dismiss", `{"at":"2026-11-22T10:00:00Z"}`, 404},
	"list-lanes":              {"/api/v1/lanes", "", 200},
	"explain-thread":          {"/api/v1/threads/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/why", "", 404},
	"explain-lane":            {"/api/v1/lanes/a/why", "", 200},
	"acquire-lane":            {"/api/v1/lanes/a/acquire", `{"holder":"me"}`, 200},
	"renew-lane":              {"/api/v1/lanes/b/renew", `{"token":"8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f"}`, 409},
	"release-lane":            {"/api/v1/lanes/b/release", `{"token":"8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f"}`, 409},
	"force-release-lane":      {"/api/v1/lanes/a/force-release", `{"reason":"test"}`, 200},
	"list-secrets":            {"/api/v1/secrets", "", 200},
	"put-secret":              {"/api/v1/secrets", `{"name":"a","value":"b"}`, 201},
	"get-secret":              {"/api/v1/secrets/nope", "", 404},
	"delete-secret":           {"/api/v1/secrets/nope", "", 404},
	"list-skills":             {"/api/v1/skills", "", 200},
	"create-skill":            {"/api/v1/skills", `{"name":"asked","kind":"http","description":"d","config":{"url":"https://a.example/"}}`, 201},
	"get-skill":               {"/api/v1/skills/look", "", 200},
	"patch-skill":             {"/api/v1/skills/look", `{"serial":true}`, 200},
	"delete-skill":            {"/api/v1/skills/look", "", 204},
	"enable-skill":            {"/api/v1/skills/look/enable", `{}`, 200},
	"disable-skill":           {"/api/v1/skills/look/disable", `{"reason":"test"}`, 200},
	"run-skill":               {"/api/v1/skills/look/run", `{"input":{}}`, 409},
	"replay-trace":            {"/api/v1/traces/hb_0mh8c1v2q_a7x2p1k9d4/replay", `{}`, 404},
	"fork-trace":              {"/api/v1/traces/hb_0mh8c1v2q_a7x2p1k9d4/fork", `{"step":1}`, 404},
	"get-skill-health":        {"/api/v1/skills/look/health", "", 200},
	"list-objectives":         {"/api/v1/objectives", "", 200},
	"create-objective":        {"/api/v1/objectives", `{"title":"x"}`, 201},
	"get-objective":           {"/api/v1/objectives/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"patch-objective":         {"/api/v1/objectives/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", `{"title":"y"}`, 404},
	"delete-objective":        {"/api/v1/objectives/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"list-objective-steps":    {"/api/v1/objectives/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/steps", "", 404},
	"replace-objective-steps": {"/api/v1/objectives/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/steps", `{"steps":[{"title":"a"}]}`, 404},
	"pause-objective":         {"/api/v1/objectives/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/pause", `{"reason":"test"}`, 404},
	"resume-objective":        {"/api/v1/objectives/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/resume", `{}`, 404},
	"complete-objective":      {"/api/v1/objectives/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/complete", `{}`, 404},

	"list-projects":    {"/api/v1/projects", "", 200},
	"create-project":   {"/api/v1/projects", `{"name":"asked"}`, 201},
	"get-project":      {"/api/v1/projects/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"patch-project":    {"/api/v1/projects/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", `{"name":"y"}`, 404},
	"delete-project":   {"/api/v1/projects/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"list-milestones":  {"/api/v1/milestones", "", 200},
	"create-milestone": {"/api/v1/milestones", `{"projectId":"8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f","name":"x"}`, 404},
	"get-milestone":    {"/api/v1/milestones/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"patch-milestone":  {"/api/v1/milestones/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", `{"name":"y"}`, 404},
	"delete-milestone": {"/api/v1/milestones/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},

	"list-agent-tasks":            {"/api/v1/agent-tasks", "", 200},
	"create-agent-task":           {"/api/v1/agent-tasks", `{"title":"x"}`, 201},
	"get-agent-task":              {"/api/v1/agent-tasks/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"patch-agent-task":            {"/api/v1/agent-tasks/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", `{"title":"y"}`, 404},
	"set-agent-task-dependencies": {"/api/v1/agent-tasks/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/dependencies", `{"dependsOn":["8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f"]}`, 404},
	"cancel-agent-task":           {"/api/v1/agent-tasks/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/cancel", `{"reason":"test"}`, 404},
	"retry-agent-task":            {"/api/v1/agent-tasks/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/retry", `{}`, 404},
	"archive-agent-task":          {"/api/v1/agent-tasks/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/archive", `{}`, 404},
	"list-agent-task-logs":        {"/api/v1/agent-tasks/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/logs", "", 404},
	"get-agent-task-graph":        {"/api/v1/agent-tasks/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/graph", "", 404},
	"explain-agent-task":          {"/api/v1/agent-tasks/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/why", "", 404},
	"advance-agent-task":          {"/api/v1/agent-tasks/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/progress", `{"progressPercent":5}`, 404},
	"complete-agent-task":         {"/api/v1/agent-tasks/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/complete", `{"summary":"done"}`, 404},
	"report-agent-task-usage":     {"/api/v1/agent-tasks/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/usage", `{"inputTokens":1,"outputTokens":1,"model":"demo"}`, 404},
	"validate-agent-task-usage":   {"/api/v1/agent-tasks/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/validate-usage", `{"linesChanged":1}`, 404},
	"get-current-usage":           {"/api/v1/usage/current", "", 200},
	"list-usage-estimates":        {"/api/v1/usage/estimates", "", 200},
	"list-usage-corrections":      {"/api/v1/usage/corrections", "", 200},
	"get-usage-savings":           {"/api/v1/usage/savings", "", 200},
	"list-model-tiers":            {"/api/v1/model-tiers", "", 200},
	"put-model-tier":              {"/api/v1/model-tiers/top", `{"model":"claude-opus-4"}`, 200},
	"fail-agent-task":             {"/api/v1/agent-tasks/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/fail", `{"error":"it broke"}`, 404},

	"list-agents":         {"/api/v1/agents", "", 200},
	"register-agent":      {"/api/v1/agents/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4e", `{"name":"scout"}`, 201},
	"get-agent":           {"/api/v1/agents/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"get-agent-health":    {"/api/v1/agents/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/health", "", 404},
	"list-tasks-of-agent": {"/api/v1/agents/" + working + "/tasks", "", 404},
	"rotate-agent-token":  {"/api/v1/agents/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/token", `{}`, 404},
	"terminate-agent":     {"/api/v1/agents/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/terminate", `{"reason":"test"}`, 404},
	"beat-agent":          {"/api/v1/agents/" + working + "/heartbeat", `{}`, 404},
	"claim-agent-task":    {"/api/v1/agents/" + working + "/claim", `{}`, 404},

	"list-personas":           {"/api/v1/personas", "", 200},
	"get-persona":             {"/api/v1/personas/flowpilot", "", 200},
	"put-persona":             {"/api/v1/personas/flowpilot", `{"instructions":"Be brief."}`, 200},
	"list-persona-versions":   {"/api/v1/personas/flowpilot/versions", "", 200},
	"list-memories":           {"/api/v1/memories", "", 200},
	"create-memory":           {"/api/v1/memories", `{"category":"fact","content":"it rains"}`, 201},
	"get-memory":              {"/api/v1/memories/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"patch-memory":            {"/api/v1/memories/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", `{"importance":7}`, 404},
	"delete-memory":           {"/api/v1/memories/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"list-memory-categories":  {"/api/v1/memory-categories", "", 200},
	"list-workspaces":         {"/api/v1/workspaces", "", 200},
	"create-workspace":        {"/api/v1/workspaces", `{"slug":"asked","name":"Asked","owner":"a@b.example"}`, 201},
	"get-workspace":           {"/api/v1/workspaces/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"patch-workspace":         {"/api/v1/workspaces/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", `{"name":"x"}`, 404},
	"delete-workspace":        {"/api/v1/workspaces/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"list-members":            {"/api/v1/members", "", 200},
	"add-member":              {"/api/v1/members", `{"email":"a@b.example","role":"MEMBER"}`, 201},
	"get-member":              {"/api/v1/members/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"patch-member":            {"/api/v1/members/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", `{"role":"ADMIN"}`, 404},
	"remove-member":           {"/api/v1/members/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"sign-out-member":         {"/api/v1/members/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/sign-out", `{}`, 404},
	"list-api-keys":           {"/api/v1/api-keys", "", 200},
	"list-site-keys":          {"/api/v1/site-keys", "", 200},
	"create-site-key":         {"/api/v1/site-keys", `{"name":"shop","origins":["https://shop.example"]}`, 201},
	"get-site-key":            {"/api/v1/site-keys/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"patch-site-key":          {"/api/v1/site-keys/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", `{"name":"x"}`, 404},
	"revoke-site-key":         {"/api/v1/site-keys/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"create-api-key":          {"/api/v1/api-keys", `{"name":"ci","role":"MEMBER","scopes":["*"]}`, 201},
	"get-api-key":             {"/api/v1/api-keys/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"revoke-api-key":          {"/api/v1/api-keys/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"get-me":                  {"/api/v1/me", "", 200},
	"start-session":           {"/api/v1/session", `{"token":"x"}`, 401},
	"choose-workspace":        {"/api/v1/session", `{"workspaceId":"8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f"}`, 409},
	"end-session":             {"/api/v1/session", "", 204},
	"follow-events":           {"/api/v1/events", "", 200},
	"list-webhook-sources":    {"/api/v1/webhook-sources", "", 200},
	"create-webhook-source":   {"/api/v1/webhook-sources", `{"name":"asked","kind":"github"}`, 201},
	"get-webhook-source":      {"/api/v1/webhook-sources/none", "", 404},
	"patch-webhook-source":    {"/api/v1/webhook-sources/none", `{"enabled":false}`, 404},
	"delete-webhook-source":   {"/api/v1/webhook-sources/none", "", 404},
	"rotate-webhook-secret":   {"/api/v1/webhook-sources/none/rotate-secret", `{}`, 404},
	"list-webhook-endpoints":  {"/api/v1/webhook-endpoints", "", 200},
	"create-webhook-endpoint": {"/api/v1/webhook-endpoints", `{"url":"https://hooks.example/x","events":["*"]}`, 201},
	"get-webhook-endpoint":    {"/api/v1/webhook-endpoints/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"patch-webhook-endpoint":  {"/api/v1/webhook-endpoints/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", `{"enabled":false}`, 404},
	"delete-webhook-endpoint": {"/api/v1/webhook-endpoints/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"rotate-endpoint-secret":  {"/api/v1/webhook-endpoints/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/rotate-secret", `{}`, 404},
	"test-webhook-endpoint":   {"/api/v1/webhook-endpoints/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/test", `{}`, 404},
	"list-deliveries":         {"/api/v1/deliveries", "", 200},
	"get-delivery":            {"/api/v1/deliveries/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"redeliver":               {"/api/v1/deliveries/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/redeliver", `{}`, 404},
	"list-automations":        {"/api/v1/automations", "", 200},
	"create-automation":       {"/api/v1/automations", `{"name":"asked","skill":"look","schedule":{"cron":"@daily"}}`, 201},
	"get-automation":          {"/api/v1/automations/none", "", 404},
	"patch-automation":        {"/api/v1/automations/none", `{"name":"b"}`, 404},
	"delete-automation":       {"/api/v1/automations/none", "", 404},
	"enable-automation":       {"/api/v1/automations/none/enable", `{}`, 404},
	"disable-automation":      {"/api/v1/automations/none/disable", `{"reason":"test"}`, 404},
	"run-automation":          {"/api/v1/automations/none/run", `{}`, 404},
	"list-heals":              {"/api/v1/heals", "", 200},
	"get-heal":                {"/api/v1/heals/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"undo-heal":               {"/api/v1/heals/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/undo", `{}`, 404},
	"list-kill-switches":      {"/api/v1/kill-switches", "", 200},
	"get-kill-switch":         {"/api/v1/kill-switches/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"set-kill-switch":         {"/api/v1/kill-switches", `{"scope":"agent","target":"a","reason":"test"}`, 201},
	"release-kill-switch":     {"/api/v1/kill-switches/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/release", `{}`, 404},
	"delete-kill-switch":      {"/api/v1/kill-switches/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"list-circuits":           {"/api/v1/circuits", "", 200},
	"reset-circuit":           {"/api/v1/circuits/openai:0%2Fsmall", "", 404},
	"list-budgets":            {"/api/v1/budgets", "", 200},
	"create-budget":           {"/api/v1/budgets", `{"scope":"global","allocated":5,"periodStart":"2030-01-01T00:00:00Z","periodEnd":"2030-02-01T00:00:00Z"}`, 201},
	"reallocate-budgets":      {"/api/v1/budgets/reallocate", `{"from":"8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f","to":"8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4e","amount":1}`, 404},
	"get-budget":              {"/api/v1/budgets/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"patch-budget":            {"/api/v1/budgets/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", `{"allocated":5}`, 404},
	"project-budget":          {"/api/v1/budgets/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/projection", "", 404},
	"list-usage":              {"/api/v1/usage", "", 200},
	"list-traces":             {"/api/v1/traces", "", 200},
	"open-thread":             {"/api/v1/threads", `{"channel":"log","address":"ada"}`, 201},
	"list-threads":            {"/api/v1/threads", "", 200},
	"get-thread":              {"/api/v1/threads/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"list-thread-messages":    {"/api/v1/threads/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/messages", "", 404},
	"add-thread-message":      {"/api/v1/threads/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/messages", `{"body":"hello"}`, 404},
	"list-thread-outbox":      {"/api/v1/threads/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/outbox", "", 404},
	"resend-message":          {"/api/v1/threads/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/outbox/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/resend", `{}`, 404},
	"lock-thread":             {"/api/v1/threads/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/lock", `{"executionId":"8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f"}`, 404},
	"unlock-thread":           {"/api/v1/threads/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/unlock", `{"executionId":"8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f"}`, 404},
	"force-unlock-thread":     {"/api/v1/threads/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/force-unlock", `{"reason":"test"}`, 404},
	"park-thread":             {"/api/v1/threads/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/park", `{"executionId":"8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f"}`, 404},
	"send-message":            {"/api/v1/threads/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/send", `{"executionId":"8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f","body":"hello"}`, 404},
	"begin-execution":         {"/api/v1/executions", `{"agent":"scout"}`, 201},
	"complete-execution":      {"/api/v1/executions/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/complete", `{}`, 404},
	"fail-execution":          {"/api/v1/executions/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/fail", `{"reason":"test"}`, 404},
	"cancel-execution":        {"/api/v1/executions/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f/cancel", `{"reason":"test"}`, 404},
	"list-executions":         {"/api/v1/executions", "", 200},
	"get-execution":           {"/api/v1/executions/8b8f5f3e-6f1c-4c5e-9d1b-2f0a7c6d5e4f", "", 404},
	"speak-mcp":               {"/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 200},
	"get-openapi-json":        {"/openapi.json", "", 200},
	"get-openapi-yaml":        {"/openapi.yaml", "", 200},
	"get-docs":                {"/docs", "", 200},
	"get-docs-script":         {"/docs/docs.js", "", 200},
	"get-docs-style":          {"/docs/docs.css", "", 200},
	"get-sign-in":             {"/sign-in", "", 200},
	"get-sign-in-script":      {"/sign-in/sign-in.js", "", 200},
}

// TestEveryRouteForEveryPrincipal calls each route with each role's token.
func TestEveryRouteForEveryPrincipal(t *testing.T) {
	roles := map[string]auth.Role{"": "", nobody: "", member: auth.Member, admin: auth.Admin, owner: auth.Owner}
	onEach(t, func(t *testing.T, w *world) {
		seen := map[string]bool{}
		for _, route := range api.Routes() {
			ask, ok := right[route.ID]
			if !ok {
				t.Errorf("%s %s is not in this test", route.Method, route.Path)
				continue
			}
			seen[route.ID] = true
			if route.ID == "create-workspace" { // a slug is unique in the whole database
				ask.path, ask.status = right[route.ID].path, http.StatusUnprocessableEntity
				ask.body = `{"slug":"-","name":"x","owner":"a@b.example"}`
			}
			for _, token := range []string{"", nobody, member, admin, owner} {
				want := ask.status
				switch {
				case route.Least == "":
				case roles[token] == "":
					want = http.StatusUnauthorized
				case !roles[token].AtLeast(route.Least):
					want = http.StatusForbidden
				case (route.ID == "acquire-lane" || route.ID == "create-skill" || route.ID == "create-automation" || route.ID == "create-webhook-source" || route.ID == "create-budget") && token == owner,
					(route.ID == "create-memory" || route.ID == "create-project") && (token == owner || token == admin):
					want = http.StatusConflict // the admin's request has created it
				case (route.ID == "put-secret" || route.ID == "register-agent" || route.ID == "open-thread" || route.ID == "set-kill-switch") && token == owner:
					want = http.StatusOK // the admin's request has created it
				}
				got := w.call(t, route.Method, ask.path, token, ask.body)
				if got.status != want {
					t.Errorf("%s as %q: %d, want %d: %s", route.ID, token, got.status, want, got.body)
				}
				if challenge := got.header.Get("WWW-Authenticate"); (challenge != "") != (want == http.StatusUnauthorized) {
					t.Errorf("%s as %q: WWW-Authenticate %q", route.ID, token, challenge)
				}
			}
		}
		for id := range right {
			if !seen[id] {
				t.Errorf("%s is not in the table any more", id)
			}
		}
	})
}

func TestWhatIsNotInTheTable(t *testing.T) {
	w := onOne(t)
	for _, path := range []string{
		"/nope", "/api", "/api/v1", "/api/v1/", "/api/v1/lanes/a/b/acquire", "/health/", "//health", "/api/../health",
		"/docs/", "/docs/index.html", "/docs/docs.js/", "/api/v1/./lanes", "/api/v1/lanes//acquire",
	} {
		for _, token := range []string{"", owner} {
			got := w.call(t, http.MethodGet, path, token, "")
			if got.status != http.StatusNotFound {
				t.Errorf("%s: %d", path, got.status)
			}
		}
	}
	for _, token := range []string{"", owner} {
		rec := httptest.NewRecorder() // a browser is redirected to the documentation
		w.ServeHTTP(rec, request(http.MethodGet, "/", token, ""))
		if rec.Code != http.StatusFound || rec.Header().Get("Location") != "docs" {
			t.Errorf("/: %d to %q", rec.Code, rec.Header().Get("Location"))
		}
	}
	if got := w.call(t, http.MethodPost, "/", owner, "{}"); got.status != http.StatusNotFound {
		t.Errorf("POST /: %d", got.status)
	}
	for path, allow := range map[string]string{
		"/health": "GET, HEAD", "/api/v1/lanes": "GET, HEAD", "/api/v1/lanes/a/acquire": "POST", "/api/v1/heartbeat/run": "POST",
	} {
		for _, method := range []string{http.MethodDelete, http.MethodOptions, http.MethodPatch, "BREW"} {
			got := w.call(t, method, path, owner, "")
			if got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != allow {
				t.Errorf("%s %s: %d, Allow %q", method, path, got.status, got.header.Get("Allow"))
			}
		}
	}
}
