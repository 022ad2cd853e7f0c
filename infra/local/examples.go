package main

import "strings"

// examples holds examples of the arguments of each resource's verb. ID stands for an id of a listing.
var examples = map[string][]string{
	"objectives": {`create '{"title": "Write a welcome text", "priority": 2}'`, `create 'Sell more ice'`, `list status=active`,
		`pause ID '{"reason": "winter"}'`},
	"projects":   {`create '{"name": "The new shop"}'`, `show ID`, `edit ID '{"archived": true}'`, `list archived=true`},
	"milestones": {`create '{"projectId": "ID", "name": "It opens", "dueAt": "2030-05-01T09:00:00Z"}'`, `list projectId=ID`},
	"tasks": {`create '{"title": "Compare three suppliers", "priority": 8, "tags": ["shop"]}'`, `list status=PENDING 'priority>=8'`,
		`create 'Compare three suppliers'`, `logs -f ID`,
		`bulk '{"filter": {"status": "FAILED"}, "action": "retry", "expectedCount": 0}'`,
		`why ID`, `dependencies ID '{"dependsOn": []}'`, `cancel ID 'not needed any more'`},
	"agents": {`register new '{"name": "builder", "capabilities": ["go"], "maxConcurrentTasks": 2}'`, `list status=WORKING`, `tasks ID`,
		`terminate ID '{"reason": "not needed any more", "graceful": false}'`},
	"coordinator": {`status`, `logs level=ERROR`, `recover`,
		`commands '{"command": "pause_agent", "agentId": "ID", "reason": "it is being repaired"}'`},
	"skills": {`run save_memory '{"input": {"category": "fact", "content": "it rains"}}'`,
		`disable shop_status '{"reason": "it is closed"}'`},
	"automations": {`create '{"name": "daily", "skill": "query_activity", "input": {"hours": 24}, ` +
		`"schedule": {"cron": "0 9 * * 1-5"}}'`, `run ID`},
	"memories":          {`list q=ice`, `create '{"category": "fact", "content": "the shop opens at nine"}'`},
	"memory-categories": {`list`},
	"personas":          {`put flowpilot '{"instructions": "Keep answers under three sentences.", "language": "en"}'`, `versions flowpilot`},
	"webhook-sources": {`create '{"name": "orders", "kind": "token", "rules": [{"event": "*", "then": {"skill": "save_memory", ` +
		`"with": {"category": "orders", "content": "{{body.id}}"}}}]}'`, `rotate-secret ID`},
	"webhook-endpoints": {`create '{"url": "https://example.com/lanekeeper", "events": ["task.status_changed"]}'`,
		`test ID`, `rotate-secret ID`},
	"failures":      {`list`, `dismiss task ID 2026-05-01T09:00:00.123456Z`},
	"outbox":        {`bulk '{"filter": {"status": "failed"}, "action": "resend", "expectedCount": 0}'`},
	"deliveries":    {`list status=parked`, `list direction=outbound status=failed`, `redeliver ID`},
	"approvals":     {`list status=pending`, `approve ID`, `reject ID 'too early'`},
	"activity":      {`list surface=heartbeat limit=20`, `histogram surface=heartbeat`},
	"audit":         {`list action=kill_switch`},
	"events":        {`follow kinds=objective.created`},
	"executions":    {`list status=running`, `events ID`, `cancel ID`},
	"traces":        {`list limit=5`, `show ID`, `replay ID`},
	"threads":       {`list lock=active`, `messages ID`, `messages ID '{"body": "Which documents do you have?"}'`},
	"lanes":         {`why operate`, `acquire report '{"holder": "me", "ttlSeconds": 60}'`},
	"heals":         {`list`, `undo ID`},
	"kill-switches": {`create '{"scope": "agent", "target": "flowpilot", "reason": "just a moment"}'`, `release ID`},
	"circuits":      {`list`, `delete openai:1a2b3c4d/gpt-4.1-mini`},
	"budgets": {`create '{"scope": "global", "allocated": 1000000, "periodStart": "2026-01-01T00:00:00Z", ` +
		`"periodEnd": "2099-01-01T00:00:00Z"}'`, `projection ID`},
	"usage":       {`list by=skill`, `estimates taskType=code`, `savings`},
	"model-tiers": {`list`, `put top '{"model": "claude-opus-4"}'`},
	"secrets":     {`set github <token.txt`, `delete github`, `rotate`},
	"workspaces":  {`create '{"slug": "shop", "name": "The shop", "owner": "you@example.com"}'`},
	"members":     {`create '{"email": "ada@example.com", "role": "MEMBER"}'`},
	"site-keys": {`create '{"name": "shop", "origins": ["https://shop.example"]}'`,
		`edit ID '{"origins": ["https://shop.example", "https://www.shop.example"]}'`},
	"api-keys": {`create '{"name": "ci", "role": "MEMBER", "scopes": ["memories:read"]}'`},
}

// exampleOf is a call with a word of a resource, or with what the word takes.
func (r resource) exampleOf(word string) string {
	for _, example := range examples[r.name] {
		if first, _, _ := strings.Cut(example, " "); first == word {
			return "lanekeeper " + r.name + " " + example
		}
	}
	takes, known := taken[word]
	if !known {
		takes = "ID"
	}
	return "lanekeeper " + r.name + " " + word + " " + takes
}
