package api

import (
	"net/http"

	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/trace"
)

// public is the role of a route that requires no token.
const public auth.Role = ""

// route is one operation of the API.
type route struct {
	method, path string
	id           string    // operation id
	least        auth.Role // lowest role of the caller
	handler      handler
	caller       string // who calls it
	summary      string
	also         []int // further statuses with the same body as 200
	refusals     []int // statuses of problems, beside those that any route may return

	surface  trace.Surface // surface of the traces that it begins; empty: operate
	patient  bool          // it may take longer than the API's time limit
	outlasts bool          // its work continues if the client disconnects
	stream   bool          // the client chooses between JSON and a stream

	kinds     []auth.Kind // kinds of callers without a role that may call it
	persons   bool        // people and the local admin only; no key may call it, whatever its role
	sensitive bool        // its response shows a secret once, so the response is not stored
	ours      bool        // a page of another origin may not call it
	front     bool        // its requests go to other routes, which check scopes; no page may call it, no cookie counts
}

// routes returns the table of all routes. Nothing else is served.
func routes(s *server) []route {
	const (
		get  = http.MethodGet
		post = http.MethodPost
		v1   = "/api/v1"
	)
	agents := []auth.Kind{auth.Agent}
	return []route{
		{method: get, path: "/health", id: "get-health", least: public, handler: typed(s.health), also: []int{503},
			caller: "load balancers, alarms, lanekeeper doctor; with a token the Engine Room", summary: "Is it working?"},

		{method: post, path: v1 + "/heartbeat/run", id: "run-heartbeat", least: auth.Admin, handler: typed(s.runHeartbeat), also: []int{202}, refusals: []int{409},
			surface: trace.Heartbeat, patient: true,
			caller: "the Engine Room, lanekeeper trigger heartbeat, scripts", summary: "Run a beat by hand, every phase of it"},

		{method: post, path: v1 + "/operate", id: "operate", least: auth.Member, handler: talked, refusals: []int{404, 409}, patient: true, outlasts: true,
			caller: "the Engine Room's console, lanekeeper ask, scripts", summary: "Talk with the agent: one turn; a member's goes without the skills that need an approval"},
		{method: get, path: v1 + "/executions/{id}/events", id: "follow-execution", least: auth.Member, handler: runFollowed, refusals: []int{404}, patient: true, stream: true,
			caller: "the Engine Room, whoever comes back to a stream", summary: "What happens in an execution, as it happens; from any event on"},

		{method: get, path: v1 + "/traces", id: "list-traces", least: auth.Member, handler: typed(s.listTraces),
			caller: "the Engine Room, lanekeeper traces, scripts", summary: "The traces in which something was executed, newest first"},
		{method: get, path: v1 + "/traces/{traceId}", id: "get-trace", least: auth.Member, handler: typed(s.getTrace), refusals: []int{404},
			caller: "the Engine Room, lanekeeper trace, whoever follows an X-Trace-Id", summary: "The whole story of one trace"},
		{method: post, path: v1 + "/traces/{traceId}/replay", id: "replay-trace", least: auth.Admin, handler: typed(s.replayTrace), refusals: []int{404, 409, 502}, patient: true,
			caller: "the Engine Room, whoever tries another prompt or model", summary: "Ask the model anew for each recorded step, and compare; nothing is done"},
		{method: post, path: v1 + "/traces/{traceId}/fork", id: "fork-trace", least: auth.Admin, handler: typed(s.forkTrace), also: []int{202}, refusals: []int{404, 409},
			caller: "the Engine Room", summary: "Go on from a step in another way; what stands before it is not run again"},
		{method: get, path: v1 + "/activity", id: "list-activity", least: auth.Member, handler: typed(s.listActivity),
			caller: "the Engine Room's feed, scripts", summary: "What agents did, newest first"},

		{method: get, path: v1 + "/approvals", id: "list-approvals", least: auth.Member, handler: typed(s.listApprovals),
			caller: "the Engine Room", summary: "Calls that wait for a person, or waited, the latest first"},
		{method: get, path: v1 + "/approvals/{id}", id: "get-approval", least: auth.Member, handler: typed(s.getApproval), refusals: []int{404},
			caller: "the Engine Room", summary: "One of them"},
		{method: post, path: v1 + "/approvals/{id}/approve", id: "approve-approval", least: auth.Admin, persons: true, handler: typed(s.approve), refusals: []int{404, 409},
			caller: "the Engine Room", summary: "Have the call made, once, as it was asked for or edited"},
		{method: post, path: v1 + "/approvals/{id}/reject", id: "reject-approval", least: auth.Admin, persons: true, handler: typed(s.reject), refusals: []int{404, 409},
			caller: "the Engine Room", summary: "Deny the call"},

		{method: get, path: v1 + "/lanes", id: "list-lanes", least: auth.Member, handler: typed(s.listLanes),
			caller: "the Engine Room, lanekeeper locks", summary: "The lanes held now, longest held first"},
		{method: get, path: v1 + "/lanes/{lane}/why", id: "explain-lane", least: auth.Member, kinds: agents, handler: typed(s.explainLane),
			caller: "the Engine Room, agents that were refused a lane", summary: "Why a lane is free or not"},
		{method: post, path: v1 + "/lanes/{lane}/acquire", id: "acquire-lane", least: auth.Admin, kinds: agents, handler: typed(s.acquireLane), refusals: []int{409},
			caller: "agents without a database connection", summary: "Take a lane"},
		{method: post, path: v1 + "/lanes/{lane}/renew", id: "renew-lane", least: auth.Admin, kinds: agents, handler: typed(s.renewLane), refusals: []int{409},
			caller: "whoever acquired the lane", summary: "Keep a lane"},
		{method: post, path: v1 + "/lanes/{lane}/release", id: "release-lane", least: auth.Admin, kinds: agents, handler: typed(s.releaseLane), refusals: []int{409},
			caller: "whoever acquired the lane", summary: "Give a lane back"},
		{method: post, path: v1 + "/lanes/{lane}/force-release", id: "force-release-lane", least: auth.Admin, handler: typed(s.forceReleaseLane),
			caller: "the Engine Room, lanekeeper locks release", summary: "End somebody else's hold on a lane"},

		{method: get, path: v1 + "/secrets", id: "list-secrets", least: auth.Admin, handler: typed(s.listSecrets),
			caller: "the Engine Room, scripts", summary: "The secrets by name, without their values"},
		{method: post, path: v1 + "/secrets", id: "put-secret", least: auth.Admin, handler: typed(s.putSecret), also: []int{201},
			caller: "the Engine Room, scripts", summary: "Keep a secret under a name, new or not; nothing reads it back"},
		{method: get, path: v1 + "/secrets/{name}", id: "get-secret", least: auth.Admin, handler: typed(s.getSecret), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "One secret, without its value"},
		{method: http.MethodDelete, path: v1 + "/secrets/{name}", id: "delete-secret", least: auth.Admin, handler: typed(s.deleteSecret), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "Delete a secret"},

		{method: get, path: v1 + "/skills", id: "list-skills", least: auth.Member, handler: typed(s.listSkills),
			caller: "the Engine Room, scripts", summary: "The skills by name, the built-in ones among them"},
		{method: post, path: v1 + "/skills", id: "create-skill", least: auth.Admin, handler: created(s.createSkill), refusals: []int{409},
			caller: "the Engine Room, scripts", summary: "Register a skill"},
		{method: get, path: v1 + "/skills/{id}", id: "get-skill", least: auth.Member, handler: typed(s.getSkill), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "One skill, by its id or its name"},
		{method: http.MethodPatch, path: v1 + "/skills/{id}", id: "patch-skill", least: auth.Admin, handler: typed(s.patchSkill), refusals: []int{404, 409, 412},
			caller: "the Engine Room, scripts", summary: "Change the given fields of a skill"},
		{method: http.MethodDelete, path: v1 + "/skills/{id}", id: "delete-skill", least: auth.Admin, handler: typed(s.deleteSkill), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "Delete a skill; of a built-in one, what was changed of it"},
		{method: post, path: v1 + "/skills/{id}/enable", id: "enable-skill", least: auth.Admin, handler: typed(s.enableSkill), refusals: []int{404, 409},
			caller: "the Engine Room, scripts", summary: "Put a skill back into use"},
		{method: post, path: v1 + "/skills/{id}/disable", id: "disable-skill", least: auth.Admin, handler: typed(s.disableSkill), refusals: []int{404, 409},
			caller: "the Engine Room, scripts", summary: "Take a skill out of use"},
		{method: post, path: v1 + "/skills/{id}/run", id: "run-skill", least: auth.Admin, handler: typed(s.runSkill), refusals: []int{404, 409}, patient: true,
			caller: "the Engine Room, scripts", summary: "Make one call of a skill by hand"},
		{method: get, path: v1 + "/skills/{id}/health", id: "get-skill-health", least: auth.Member, handler: typed(s.getSkillHealth), refusals: []int{404},
			caller: "the Engine Room", summary: "How a skill has done lately"},

		{method: get, path: v1 + "/objectives", id: "list-objectives", least: auth.Member, handler: typed(s.listObjectives),
			caller: "the Engine Room, scripts", summary: "What agents work towards, the latest first"},
		{method: post, path: v1 + "/objectives", id: "create-objective", least: auth.Member, handler: created(s.createObjective),
			caller: "the Engine Room, scripts", summary: "Set an objective; the next beat plans it"},
		{method: get, path: v1 + "/objectives/{id}", id: "get-objective", least: auth.Member, handler: typed(s.getObjective), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "One objective, with its plan"},
		{method: http.MethodPatch, path: v1 + "/objectives/{id}", id: "patch-objective", least: auth.Member, handler: typed(s.patchObjective), refusals: []int{404, 412},
			caller: "the Engine Room, scripts", summary: "Change the given fields of an objective"},
		{method: http.MethodDelete, path: v1 + "/objectives/{id}", id: "delete-objective", least: auth.Member, handler: typed(s.deleteObjective), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "Take an objective away, with its plan; who works on it stops"},
		{method: get, path: v1 + "/objectives/{id}/steps", id: "list-objective-steps", least: auth.Member, handler: typed(s.listSteps), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "The steps of its plan"},
		{method: http.MethodPut, path: v1 + "/objectives/{id}/steps", id: "replace-objective-steps", least: auth.Member, handler: typed(s.replaceSteps), refusals: []int{404, 409, 412},
			caller: "the Engine Room, scripts", summary: "Give it another plan; who works on the old one stops"},
		{method: post, path: v1 + "/objectives/{id}/pause", id: "pause-objective", least: auth.Member, handler: typed(s.pauseObjective), refusals: []int{404, 409},
			caller: "the Engine Room, scripts", summary: "Take an objective out of the beats"},
		{method: post, path: v1 + "/objectives/{id}/resume", id: "resume-objective", least: auth.Member, handler: typed(s.resumeObjective), refusals: []int{404, 409},
			caller: "the Engine Room, scripts", summary: "Give it back to them"},
		{method: post, path: v1 + "/objectives/{id}/complete", id: "complete-objective", least: auth.Member, handler: typed(s.completeObjective), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "End an objective as reached"},

		{method: get, path: v1 + "/memories", id: "list-memories", least: auth.Member, handler: typed(s.listMemories),
			caller: "the Engine Room, scripts", summary: "What agents remember, also by full text"},
		{method: post, path: v1 + "/memories", id: "create-memory", least: auth.Member, handler: created(s.createMemory), refusals: []int{409},
			caller: "the Engine Room, scripts", summary: "Have an agent remember something"},
		{method: get, path: v1 + "/memories/{id}", id: "get-memory", least: auth.Member, handler: typed(s.getMemory), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "One memory"},
		{method: http.MethodPatch, path: v1 + "/memories/{id}", id: "patch-memory", least: auth.Member, handler: typed(s.patchMemory), refusals: []int{404, 409, 412},
			caller: "the Engine Room, scripts", summary: "Change the given fields of a memory"},
		{method: http.MethodDelete, path: v1 + "/memories/{id}", id: "delete-memory", least: auth.Member, handler: typed(s.deleteMemory), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "Forget it"},
		{method: get, path: v1 + "/memory-categories", id: "list-memory-categories", least: auth.Member, handler: typed(s.listCategories),
			caller: "the Engine Room", summary: "The categories of memories, with how many there are"},

		{method: get, path: v1 + "/personas", id: "list-personas", least: auth.Member, handler: typed(s.listPersonas),
			caller: "the Engine Room, scripts", summary: "By whose words agents work: the newest version of each persona"},
		{method: get, path: v1 + "/personas/{name}", id: "get-persona", least: auth.Member, handler: typed(s.getPersona), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "One persona, in its newest version"},
		{method: http.MethodPut, path: v1 + "/personas/{name}", id: "put-persona", least: auth.Admin, handler: typed(s.putPersona), refusals: []int{409, 412},
			caller: "the Engine Room, scripts", summary: "Store a new version of a persona; executions that run keep theirs"},
		{method: get, path: v1 + "/personas/{name}/versions", id: "list-persona-versions", least: auth.Member, handler: typed(s.listPersonaVersions), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "All versions of a persona, the newest first"},

		{method: get, path: v1 + "/workspaces", id: "list-workspaces", least: auth.Member, handler: typed(s.listWorkspaces),
			caller: "the Engine Room, scripts", summary: "The workspaces that the caller belongs to"},
		{method: post, path: v1 + "/workspaces", id: "create-workspace", least: auth.Admin, persons: true, handler: created(s.createWorkspace), refusals: []int{409},
			caller: "the Engine Room, lanekeeper workspaces create", summary: "Make a workspace, whose owner the caller is"},
		{method: get, path: v1 + "/workspaces/{workspaceId}", id: "get-workspace", least: auth.Member, handler: typed(s.getWorkspace), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "The workspace, with its settings"},
		{method: http.MethodPatch, path: v1 + "/workspaces/{workspaceId}", id: "patch-workspace", least: auth.Admin, handler: typed(s.patchWorkspace), refusals: []int{404, 412},
			caller: "the Engine Room, scripts", summary: "Change its name or settings"},
		{method: http.MethodDelete, path: v1 + "/workspaces/{workspaceId}", id: "delete-workspace", least: auth.Owner, persons: true, handler: typed(s.deleteWorkspace), refusals: []int{404, 409}, patient: true,
			caller: "the Engine Room, lanekeeper workspaces delete", summary: "Delete a workspace with all that it has, while nothing in it is at work"},

		{method: get, path: v1 + "/members", id: "list-members", least: auth.Member, handler: typed(s.listMembers),
			caller: "the Engine Room, scripts", summary: "Who belongs to the workspace"},
		{method: post, path: v1 + "/members", id: "add-member", least: auth.Owner, persons: true, handler: created(s.addMember), refusals: []int{409},
			caller: "the Engine Room, scripts", summary: "Add a person by e-mail"},
		{method: get, path: v1 + "/members/{userId}", id: "get-member", least: auth.Member, handler: typed(s.getMember), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "One of them"},
		{method: http.MethodPatch, path: v1 + "/members/{userId}", id: "patch-member", least: auth.Owner, persons: true, handler: typed(s.patchMember), refusals: []int{404, 409, 412},
			caller: "the Engine Room, scripts", summary: "Give a member another role"},
		{method: http.MethodDelete, path: v1 + "/members/{userId}", id: "remove-member", least: auth.Owner, persons: true, handler: typed(s.removeMember), refusals: []int{404, 409},
			caller: "the Engine Room, scripts", summary: "Take a member out of the workspace; an owner always remains"},
		{method: post, path: v1 + "/members/{userId}/sign-out", id: "sign-out-member", least: auth.Owner, persons: true, handler: typed(s.signOutMember), refusals: []int{404},
			caller: "the Engine Room, lanekeeper members sign-out", summary: "End all sessions of a member, on every device and in every workspace"},

		{method: get, path: v1 + "/api-keys", id: "list-api-keys", least: auth.Member, handler: typed(s.listKeys),
			caller: "the Engine Room, scripts", summary: "The keys of programs and of web sites, without the keys themselves"},
		{method: post, path: v1 + "/api-keys", id: "create-api-key", least: auth.Admin, persons: true, handler: created(s.createKey), refusals: []int{409}, sensitive: true,
			caller: "the Engine Room, scripts", summary: "Make a key; it is shown this once"},
		{method: get, path: v1 + "/api-keys/{id}", id: "get-api-key", least: auth.Member, handler: typed(s.getKey), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "One of them"},
		{method: http.MethodDelete, path: v1 + "/api-keys/{id}", id: "revoke-api-key", least: auth.Admin, handler: typed(s.revokeKey), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "Revoke a key, from the next request on"},
		{method: get, path: v1 + "/site-keys", id: "list-site-keys", least: auth.Member, handler: typed(s.listSiteKeys),
			caller: "the Engine Room, lanekeeper site-keys", summary: "The keys of web sites, newest first, without the keys themselves"},
		{method: post, path: v1 + "/site-keys", id: "create-site-key", least: auth.Admin, persons: true, handler: created(s.createSiteKey), refusals: []int{409}, sensitive: true,
			caller: "the Engine Room, lanekeeper site-keys", summary: "Let the visitors of a web site chat; the key is shown this once"},
		{method: get, path: v1 + "/site-keys/{id}", id: "get-site-key", least: auth.Member, handler: typed(s.getSiteKey), refusals: []int{404},
			caller: "the Engine Room, lanekeeper site-keys", summary: "One of them"},
		{method: http.MethodPatch, path: v1 + "/site-keys/{id}", id: "patch-site-key", least: auth.Admin, handler: typed(s.patchSiteKey), refusals: []int{404},
			caller: "the Engine Room, lanekeeper site-keys", summary: "Change the given fields of a site key"},
		{method: http.MethodDelete, path: v1 + "/site-keys/{id}", id: "revoke-site-key", least: auth.Admin, handler: typed(s.revokeSiteKey), refusals: []int{404},
			caller: "the Engine Room, lanekeeper site-keys", summary: "Revoke a site key, from the next request on"},

		{method: get, path: v1 + "/me", id: "get-me", least: auth.Member, handler: typed(s.me),
			caller: "the Engine Room", summary: "Who sends this request, and where it belongs"},
		{method: post, path: v1 + "/session", id: "start-session", least: public, ours: true, handler: typed(s.startSession), refusals: []int{401, 429},
			caller: "the page at /sign-in", summary: "Sign in with a link's token, or with the admin token, for a cookie"},
		{method: http.MethodPut, path: v1 + "/session", id: "choose-workspace", least: auth.Member, persons: true, handler: typed(s.chooseWorkspace), refusals: []int{404, 409},
			caller: "the Engine Room", summary: "Go on with the session in another workspace"},
		{method: http.MethodDelete, path: v1 + "/session", id: "end-session", least: public, handler: typed(s.endSession),
			caller: "the Engine Room", summary: "Sign out: all sessions of who is signed in by the cookie end"},

		{method: get, path: v1 + "/events", id: "follow-events", least: auth.Member, handler: followed, patient: true, stream: true,
			caller: "the Engine Room, whoever follows", summary: "What happens, as it happens"},

		{method: get, path: v1 + "/webhook-sources", id: "list-webhook-sources", least: auth.Member, handler: typed(s.listWebhookSources),
			caller: "the Engine Room, scripts", summary: "Who may send webhooks, by name"},
		{method: post, path: v1 + "/webhook-sources", id: "create-webhook-source", least: auth.Admin, handler: created(s.createWebhookSource), refusals: []int{409}, sensitive: true,
			caller: "the Engine Room, scripts", summary: "Let somebody send webhooks, and say what they do"},
		{method: get, path: v1 + "/webhook-sources/{id}", id: "get-webhook-source", least: auth.Member, handler: typed(s.getWebhookSource), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "One source of webhooks, by its id or its name"},
		{method: http.MethodPatch, path: v1 + "/webhook-sources/{id}", id: "patch-webhook-source", least: auth.Admin, handler: typed(s.patchWebhookSource), refusals: []int{404, 409, 412},
			caller: "the Engine Room, scripts", summary: "Change the given fields of a source of webhooks"},
		{method: http.MethodDelete, path: v1 + "/webhook-sources/{id}", id: "delete-webhook-source", least: auth.Admin, handler: typed(s.deleteWebhookSource), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "Delete a source of webhooks"},
		{method: post, path: v1 + "/webhook-sources/{id}/rotate-secret", id: "rotate-webhook-secret", least: auth.Admin, handler: typed(s.rotateWebhookSecret), refusals: []int{404}, sensitive: true,
			caller: "the Engine Room, scripts", summary: "Give a source a new secret; the one before is valid for 24 hours more"},
		{method: get, path: v1 + "/deliveries", id: "list-deliveries", least: auth.Member, handler: typed(s.listDeliveries),
			caller: "the Engine Room, scripts", summary: "The webhooks that came, newest first"},
		{method: get, path: v1 + "/deliveries/{id}", id: "get-delivery", least: auth.Member, handler: typed(s.getDelivery), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "One webhook, with its headers and its body"},
		{method: post, path: v1 + "/deliveries/{id}/redeliver", id: "redeliver", least: auth.Admin, handler: typed(s.redeliver), refusals: []int{404, 409},
			caller: "the Engine Room, scripts", summary: "Have a webhook done again, by the rules as they are now"},

		{method: get, path: v1 + "/automations", id: "list-automations", least: auth.Member, handler: typed(s.listAutomations),
			caller: "the Engine Room, scripts", summary: "The automations by name"},
		{method: post, path: v1 + "/automations", id: "create-automation", least: auth.Admin, handler: created(s.createAutomation), refusals: []int{409},
			caller: "the Engine Room, scripts", summary: "Have a skill run by itself, at times or when something happens"},
		{method: get, path: v1 + "/automations/{id}", id: "get-automation", least: auth.Member, handler: typed(s.getAutomation), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "One automation, by its id or its name"},
		{method: http.MethodPatch, path: v1 + "/automations/{id}", id: "patch-automation", least: auth.Admin, handler: typed(s.patchAutomation), refusals: []int{404, 409, 412},
			caller: "the Engine Room, scripts", summary: "Change the given fields of an automation"},
		{method: http.MethodDelete, path: v1 + "/automations/{id}", id: "delete-automation", least: auth.Admin, handler: typed(s.deleteAutomation), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "Delete an automation"},
		{method: post, path: v1 + "/automations/{id}/enable", id: "enable-automation", least: auth.Admin, handler: typed(s.enableAutomation), refusals: []int{404, 412},
			caller: "the Engine Room, scripts", summary: "Let an automation run again"},
		{method: post, path: v1 + "/automations/{id}/disable", id: "disable-automation", least: auth.Admin, handler: typed(s.disableAutomation), refusals: []int{404, 412},
			caller: "the Engine Room, scripts", summary: "Keep an automation from running"},
		{method: post, path: v1 + "/automations/{id}/run", id: "run-automation", least: auth.Admin, handler: typed(s.runAutomation), refusals: []int{404, 409}, patient: true,
			caller: "the Engine Room, scripts", summary: "Make an automation's call now, by hand"},

		{method: get, path: v1 + "/heals", id: "list-heals", least: auth.Member, handler: typed(s.listHeals),
			caller: "the Engine Room", summary: "What self-healing took out of use, newest first"},
		{method: get, path: v1 + "/heals/{id}", id: "get-heal", least: auth.Member, handler: typed(s.getHeal), refusals: []int{404},
			caller: "the Engine Room", summary: "One of them"},
		{method: post, path: v1 + "/heals/{id}/undo", id: "undo-heal", least: auth.Admin, handler: typed(s.undoHeal), refusals: []int{404, 409},
			caller: "the Engine Room", summary: "Give back at once what it took"},
		{method: get, path: v1 + "/kill-switches", id: "list-kill-switches", least: auth.Member, handler: typed(s.listSwitches),
			caller: "the Engine Room", summary: "The kill switches, the latest first, also those that were released"},
		{method: post, path: v1 + "/kill-switches", id: "set-kill-switch", least: auth.Admin, handler: typed(s.setSwitch), also: []int{201},
			caller: "the Engine Room, scripts", summary: "Stop the workspace, an agent, a skill or a model until a person lets it go on"},
		{method: get, path: v1 + "/kill-switches/{id}", id: "get-kill-switch", least: auth.Member, handler: typed(s.getSwitch), refusals: []int{404},
			caller: "the Engine Room", summary: "One of them"},
		{method: post, path: v1 + "/kill-switches/{id}/release", id: "release-kill-switch", least: auth.Admin, handler: typed(s.releaseSwitch), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "Let go on what a switch stopped"},
		{method: http.MethodDelete, path: v1 + "/kill-switches/{id}", id: "delete-kill-switch", least: auth.Admin, handler: typed(s.deleteSwitch), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "Release a switch; the record of it stays"},

		{method: get, path: v1 + "/circuits", id: "list-circuits", least: auth.Member, handler: typed(s.listCircuits),
			caller: "lanekeeper circuits, scripts", summary: "The models that are not asked for now, or on trial, and why"},
		{method: http.MethodDelete, path: v1 + "/circuits/{name}", id: "reset-circuit", least: auth.Admin, handler: typed(s.resetCircuit), refusals: []int{404},
			caller: "lanekeeper circuits, scripts", summary: "Have a model asked again, within half a minute: what was wrong is put right"},

		{method: get, path: v1 + "/budgets", id: "list-budgets", least: auth.Member, handler: typed(s.listBudgets),
			caller: "the Engine Room, scripts", summary: "The budgets, the latest made first"},
		{method: post, path: v1 + "/budgets", id: "create-budget", least: auth.Admin, handler: created(s.createBudget), refusals: []int{409},
			caller: "the Engine Room, scripts", summary: "Bound what may be used in a scope and a period"},
		{method: post, path: v1 + "/budgets/reallocate", id: "reallocate-budgets", least: auth.Admin, handler: typed(s.reallocate), refusals: []int{409},
			caller: "the Engine Room, scripts", summary: "Move tokens from one budget to another"},
		{method: get, path: v1 + "/budgets/{id}", id: "get-budget", least: auth.Member, handler: typed(s.getBudget), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "One budget: what is allocated, consumed, reserved and left"},
		{method: http.MethodPatch, path: v1 + "/budgets/{id}", id: "patch-budget", least: auth.Admin, handler: typed(s.patchBudget), refusals: []int{404, 412},
			caller: "the Engine Room, scripts", summary: "Allocate another number of tokens"},
		{method: get, path: v1 + "/budgets/{id}/projection", id: "project-budget", least: auth.Member, handler: typed(s.projectBudget), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "How long a budget lasts"},
		{method: get, path: v1 + "/usage", id: "list-usage", least: auth.Member, handler: typed(s.listUsage),
			caller: "the Engine Room, scripts", summary: "What model calls used, added up; at most 400 keys"},

		{method: post, path: v1 + "/threads", id: "open-thread", least: auth.Admin, handler: typed(s.openThread), also: []int{201},
			caller: "scripts", summary: "The conversation with an address, new or not"},
		{method: get, path: v1 + "/threads", id: "list-threads", least: auth.Member, handler: typed(s.listThreads),
			caller: "the Engine Room, scripts", summary: "The conversations, newest first"},
		{method: get, path: v1 + "/threads/{id}", id: "get-thread", least: auth.Member, handler: typed(s.getThread), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "One conversation, and who has it"},
		{method: get, path: v1 + "/threads/{id}/why", id: "explain-thread", least: auth.Member, handler: typed(s.explainThread), refusals: []int{404},
			caller: "the Engine Room, lanekeeper threads why", summary: "Why a conversation is free or not, and who waits for it"},
		{method: get, path: v1 + "/threads/{id}/messages", id: "list-thread-messages", least: auth.Member, handler: typed(s.listMessages), refusals: []int{404},
			caller: "the Engine Room, scripts", summary: "What was spoken, oldest first"},
		{method: post, path: v1 + "/threads/{id}/messages", id: "add-thread-message", least: auth.Admin, handler: created(s.addMessage), refusals: []int{404},
			caller: "what receives messages for a channel", summary: "Store what the person has said; who waits for it goes on"},
		{method: get, path: v1 + "/threads/{id}/outbox", id: "list-thread-outbox", least: auth.Member, handler: typed(s.listThreadOutbox), refusals: []int{404},
			caller: "the Engine Room, lanekeeper threads outbox", summary: "What was sent or waits to be, newest first"},
		{method: post, path: v1 + "/threads/{id}/outbox/{messageId}/resend", id: "resend-message", least: auth.Admin, handler: typed(s.resendMessage), also: []int{202}, refusals: []int{404, 409},
			caller: "the Engine Room, lanekeeper threads resend", summary: "Send a message again that has failed, or is uncertain, behind those that wait"},
		{method: post, path: v1 + "/threads/{id}/lock", id: "lock-thread", least: auth.Admin, kinds: agents, handler: typed(s.lockThread), refusals: []int{404, 409},
			caller: "agents", summary: "Take a conversation for an execution"},
		{method: post, path: v1 + "/threads/{id}/unlock", id: "unlock-thread", least: auth.Admin, kinds: agents, handler: typed(s.unlockThread), refusals: []int{404, 409},
			caller: "agents", summary: "Let go of it; its queue goes on"},
		{method: post, path: v1 + "/threads/{id}/force-unlock", id: "force-unlock-thread", least: auth.Admin, handler: typed(s.forceUnlockThread), refusals: []int{404, 409},
			caller: "the Engine Room", summary: "Take it from whoever has it"},
		{method: post, path: v1 + "/threads/{id}/park", id: "park-thread", least: auth.Admin, kinds: agents, handler: typed(s.parkThread), refusals: []int{404, 409},
			caller: "agents", summary: "Keep it while the execution waits for the person's answer"},
		{method: post, path: v1 + "/threads/{id}/send", id: "send-message", least: auth.Admin, kinds: agents, handler: typed(s.sendMessage), also: []int{202}, refusals: []int{404, 409},
			caller: "agents", summary: "Speak, or queue what is to be said"},

		{method: post, path: v1 + "/executions", id: "begin-execution", least: auth.Admin, kinds: agents, handler: created(s.beginExecution), refusals: []int{404, 409}, surface: trace.Worker,
			caller: "agents", summary: "Begin the execution of an agent elsewhere"},
		{method: post, path: v1 + "/executions/{id}/complete", id: "complete-execution", least: auth.Admin, kinds: agents, handler: typed(s.completeExecution), refusals: []int{404, 409},
			caller: "agents", summary: "End it as done; its threads are let go of"},
		{method: post, path: v1 + "/executions/{id}/fail", id: "fail-execution", least: auth.Admin, kinds: agents, handler: typed(s.failExecution), refusals: []int{404, 409},
			caller: "agents", summary: "End it as failed; its threads are let go of"},
		{method: post, path: v1 + "/executions/{id}/cancel", id: "cancel-execution", least: auth.Admin, kinds: agents, handler: typed(s.cancelExecution), refusals: []int{404, 409},
			caller: "agents, the Engine Room", summary: "Give it up; its threads are let go of"},
		{method: get, path: v1 + "/executions", id: "list-executions", least: auth.Member, handler: typed(s.listExecutions),
			caller: "the Engine Room, scripts", summary: "The executions, newest first, without their inputs and results"},
		{method: get, path: v1 + "/executions/{id}", id: "get-execution", least: auth.Member, kinds: agents, handler: typed(s.getExecution), refusals: []int{404},
			caller: "the Engine Room, scripts, agents", summary: "One execution; to an agent, of its own"},

		{method: post, path: mcpPath, id: "speak-mcp", least: auth.Member, handler: speaksMCP, refusals: []int{404}, patient: true, outlasts: true, front: true,
			caller: "an operator's own coding assistant", summary: "Model Context Protocol, stateless: routes of this API as tools"},

		{method: get, path: "/openapi.json", id: "get-openapi-json", least: public, handler: file(&s.docs.json),
			caller: "client generators, the page at /docs", summary: "This description, as JSON"},
		{method: get, path: "/openapi.yaml", id: "get-openapi-yaml", least: public, handler: file(&s.docs.yaml),
			caller: "client generators", summary: "This description, as YAML"},
		{method: get, path: "/docs", id: "get-docs", least: public, handler: file(&s.docs.page),
			caller: "people", summary: "This description, as a page"},
		{method: get, path: "/docs/docs.js", id: "get-docs-script", least: public, handler: file(&s.docs.script),
			caller: "the page at /docs", summary: "Its script"},
		{method: get, path: "/docs/docs.css", id: "get-docs-style", least: public, handler: file(&s.docs.style),
			caller: "the pages at /docs and /sign-in", summary: "Its style"},
		{method: get, path: "/sign-in", id: "get-sign-in", least: public, handler: file(&s.docs.signIn),
			caller: "people, by a link of lanekeeper token", summary: "The page that exchanges the token of a link for a session"},
		{method: get, path: "/sign-in/sign-in.js", id: "get-sign-in-script", least: public, handler: file(&s.docs.signInScript),
			caller: "the page at /sign-in", summary: "Its script"},
	}
}
