package api

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/auth"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/lane"
	"github.com/lanekeeper/lanekeeper/shared/overview"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/queue"
	"github.com/lanekeeper/lanekeeper/shared/trace"
	"github.com/lanekeeper/lanekeeper/shared/turn"
)

// laneItem is a hold on a lane.
type laneItem struct {
	Lane        lane.Name   `json:"lane"`
	Label       string      `json:"label" doc:"What it protects, for people"`
	Doing       string      `json:"doing,omitempty" doc:"What the holder is at; left out: it is not known"`
	Holder      lane.Holder `json:"holder"`
	Fence       int64       `json:"fence"`
	AcquiredAt  time.Time   `json:"acquiredAt" doc:"The same as lockedAt"`
	EndedAt     *time.Time  `json:"endedAt,omitempty" doc:"In a trace, of a hold that is over"`
	LockedAt    time.Time   `json:"lockedAt"`
	ExpiresAt   time.Time   `json:"expiresAt"`
	AgeMS       int64       `json:"ageMs"`
	RemainingMS int64       `json:"remainingMs"`
	WantedAt    *time.Time  `json:"wantedAt,omitempty" doc:"Since when somebody waits for it"`
	WantedBy    string      `json:"wantedBy,omitempty"`
	ExecutionID string      `json:"executionId,omitempty"`
	TraceID     string      `json:"traceId,omitempty"`
}

func laneItemOf(l lane.Info) laneItem {
	item := laneItem{
		Lane: l.Lane, Label: overview.LabelOf(l.Lane), Holder: l.Holder, AcquiredAt: l.LockedAt.UTC(), Fence: l.Fence,
		LockedAt: l.LockedAt.UTC(), ExpiresAt: l.ExpiresAt.UTC(),
		AgeMS: l.Age.Milliseconds(), RemainingMS: l.Remaining.Milliseconds(),
		WantedBy: l.WantedBy, ExecutionID: l.Execution, TraceID: l.Trace,
	}
	if l.WantedAt != nil {
		since := l.WantedAt.UTC()
		item.WantedAt = &since
	}
	return item
}

// queueItem describes one queue of this process.
type queueItem struct {
	Lane      string       `json:"lane" doc:"Empty: all that have no counts of their own"`
	Depth     int          `json:"depth" doc:"Jobs that wait"`
	Active    int          `json:"active"`
	OldestMS  int64        `json:"oldestMs" doc:"How long the first of them has waited"`
	Completed int64        `json:"completed"`
	Failed    int64        `json:"failed"`
	Refused   int64        `json:"refused" doc:"The lane was full, or it was a circle"`
	GaveUp    int64        `json:"gaveUp"`
	Waited    []waitedItem `json:"waited" nullable:"false" doc:"How long those completed and failed had waited"`
}

// waitedItem is one bucket of a histogram.
type waitedItem struct {
	UntilMS int64 `json:"untilMs,omitempty" doc:"Left out: no end"`
	Jobs    int64 `json:"jobs"`
}

func queueItems(stats []queue.Stats) []queueItem {
	items := make([]queueItem, len(stats))
	for i, s := range stats {
		items[i] = queueItem{
			Lane: s.Queue, Depth: s.Depth, Active: s.Active, OldestMS: s.Oldest.Milliseconds(),
			Completed: s.Completed, Failed: s.Failed, Refused: s.Refused, GaveUp: s.GaveUp, Waited: make([]waitedItem, len(s.Waited)),
		}
		for j, b := range s.Waited {
			items[i].Waited[j] = waitedItem{b.Until.Milliseconds(), b.Jobs}
		}
	}
	return items
}

// lanesPage is a page of holds. It also has the queues of the process that answers.
type lanesPage struct {
	Items      []laneItem  `json:"items" nullable:"false"`
	NextCursor *string     `json:"nextCursor" doc:"Continues the listing; null at its end"`
	Queues     []queueItem `json:"queues,omitempty" doc:"What waits in the process that answers for its turn. It is of all workspaces, so the local admin alone is told"`
}

// maxLanes is the largest number of holds that are read for one listing.
const maxLanes = 10_000

type lanesInput struct {
	Cursor string `query:"cursor" maxLength:"400"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

// listLanes lists the lanes that are held now, oldest hold first, and the queues. It is called by
// the Engine Room and by lanekeeper locks.
func (s *server) listLanes(ctx context.Context, in *lanesInput) (*answer[lanesPage], error) {
	after, err := parseCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	var b db.Batch
	list, about := s.Lanes.ListIn(&b, maxLanes), s.overviews.Store.Held(&b, maxLanes)
	if err := s.DB.Read(ctx, workspace(ctx), &b); err != nil {
		return nil, fmt.Errorf("list lanes: %w", err)
	}
	held := *list
	for len(held) > 0 && in.Cursor != "" && !after.before(held[0].LockedAt, string(held[0].Lane)) {
		held = held[1:]
	}
	next := ""
	if len(held) > in.Limit {
		held = held[:in.Limit]
		last := held[in.Limit-1]
		next = cursor{last.LockedAt, string(last.Lane)}.String()
	}
	holds := listing(each(held, laneItemOf), next).Body
	for i := range holds.Items {
		if at := slices.IndexFunc(*about, func(h overview.Hold) bool { return h.Lane == holds.Items[i].Lane }); at >= 0 {
			holds.Items[i].Label, holds.Items[i].Doing = (*about)[at].Label(), (*about)[at].At.Doing()
		}
	}
	page := lanesPage{Items: holds.Items, NextCursor: holds.NextCursor}
	if by, _ := auth.From(ctx); by.Kind == auth.Local {
		page.Queues = queueItems(s.Operate.Reason.Queues.Stats())
	}
	return answered(page), nil
}

// LanePath names a lane in a path, where a / in the name is written as %2F.
type LanePath struct {
	Lane string `path:"lane" pattern:"^[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,199}$" patternDescription:"1 to 200 letters, digits and ._:@/+- that begin with a letter or digit" doc:"Its name; a / in it is %2F in a URL"`
}

// name returns the lane's validated name.
func (in LanePath) name() (lane.Name, error) {
	name, err := lane.ParseName(in.Lane)
	if err != nil {
		return "", invalid(problem.At("path.lane", err.Error()))
	}
	return name, nil
}

// waiter is a holder that waits for a lane.
type waiter struct {
	Holder      string    `json:"holder" doc:"Who waits; of a turn its trace"`
	Since       time.Time `json:"since"`
	ExecutionID string    `json:"executionId,omitempty" doc:"The turn that stands in line"`
}

// inLine is how many turns in line an explanation lists.
const inLine = 20

// explanation says why a lane is free or held, as text and as data.
type explanation struct {
	Lane        lane.Name   `json:"lane"`
	Held        bool        `json:"held"`
	Summary     string      `json:"summary"`
	Holder      lane.Holder `json:"holder,omitempty"`
	Fence       int64       `json:"fence,omitempty"`
	LockedAt    *time.Time  `json:"lockedAt,omitempty"`
	ExpiresAt   *time.Time  `json:"expiresAt,omitempty"`
	AgeMS       int64       `json:"ageMs,omitempty"`
	RemainingMS int64       `json:"remainingMs,omitempty"`
	Doing       string      `json:"doing,omitempty" doc:"What the holder is at"`
	ExecutionID string      `json:"executionId,omitempty"`
	TraceID     string      `json:"traceId,omitempty"`
	Waiting     []waiter    `json:"waiting" nullable:"false" doc:"The first to have said that it waits, else the turns that stand in line"`
}

// doing describes the current work of an execution. It returns an empty text if that cannot be
// read.
func (s *server) doing(ctx context.Context, execution string) string {
	at, err := s.Runs.Doing(ctx, workspace(ctx), execution)
	if err != nil { // the explanation is useful without it
		s.Log.WarnContext(ctx, "could not read what a holder is at", "error", err)
	}
	return at
}

// explainLane says why a lane is free or held. It is called by the Engine Room and by agents that
// were refused the lane.
func (s *server) explainLane(ctx context.Context, in *LanePath) (*answer[explanation], error) {
	name, err := in.name()
	if err != nil {
		return nil, err
	}
	var doing string
	told, err := s.Lanes.Explain(ctx, workspace(ctx), name, func(execution string) string {
		doing = s.doing(ctx, execution)
		return doing
	})
	if err != nil {
		return nil, err
	}
	e := explanation{Lane: name, Held: told.Held, Summary: told.Summary, Waiting: []waiter{}}
	if told.WantedAt == nil {
		turns, err := s.Runs.OpenIn(ctx, workspace(ctx), turn.LineOf(name), told.Execution, inLine)
		if err != nil {
			return nil, err
		}
		for i, t := range turns {
			e.Waiting = append(e.Waiting, waiter{string(t.Trace), t.CreatedAt.UTC(), t.ID})
			if i == 0 {
				e.Summary += fmt.Sprintf("; the turn %s is the first in line", t.Trace)
			}
		}
	}
	if !told.Held {
		return answered(e), nil
	}
	l := laneItemOf(told.Info)
	e.Holder, e.Fence, e.LockedAt, e.ExpiresAt = l.Holder, l.Fence, &l.LockedAt, &l.ExpiresAt
	e.AgeMS, e.RemainingMS, e.Doing, e.ExecutionID, e.TraceID = l.AgeMS, l.RemainingMS, doing, l.ExecutionID, l.TraceID
	if l.WantedAt != nil {
		e.Waiting = append(e.Waiting, waiter{Holder: l.WantedBy, Since: *l.WantedAt})
	}
	return answered(e), nil
}

type acquireInput struct {
	LanePath
	Body struct {
		Holder string `json:"holder" minLength:"1" maxLength:"255" doc:"Readable, for people; it identifies nobody"`
		TTL    int    `json:"ttlSeconds,omitempty" minimum:"1" maximum:"3600" default:"300" doc:"How long the hold lives unless renewed"`
		Token  string `json:"token,omitempty" format:"uuid" patternDescription:"a UUID" doc:"A random UUID of the caller's own. The same request with the same token may be repeated when its answer was lost: it is one hold"`
	}
}

// holdAnswer is a hold that the caller has now.
type holdAnswer struct {
	Lane      lane.Name  `json:"lane"`
	Token     string     `json:"token,omitempty" doc:"Proves the hold: keep it secret"`
	Fence     int64      `json:"fence" doc:"Grows with every hold on the lane: refuse work under an older one"`
	ExpiresAt time.Time  `json:"expiresAt"`
	WantedAt  *time.Time `json:"wantedAt,omitempty" doc:"Since when somebody waits for the lane: finish the step and release"`
	WantedBy  string     `json:"wantedBy,omitempty" doc:"Who waits for it"`
}

// holdAnswerOf returns the answer for a hold, with the token if it is to be shown.
func (s *server) holdAnswerOf(ctx context.Context, h *lane.Hold, token string) (*answer[holdAnswer], error) {
	a := holdAnswer{Lane: h.Lane, Token: token, Fence: h.Fence, ExpiresAt: h.Until().UTC(), WantedBy: h.WantedBy()}
	if a.WantedBy != "" {
		now, err := s.Lanes.Peek(ctx, h.Workspace, h.Lane)
		if err != nil {
			return nil, err
		}
		a.WantedAt = utc(now.WantedAt)
	}
	return answered(a), nil
}

// acquireLane acquires a lane for exactly the requested time. It is called by agents without a
// database connection.
func (s *server) acquireLane(ctx context.Context, in *acquireInput) (*answer[holdAnswer], error) {
	name, err := in.name()
	if err != nil {
		return nil, err
	}
	h, err := s.Lanes.Acquire(ctx, lane.Request{
		Workspace: workspace(ctx), Lane: name, Holder: lane.Holder(in.Body.Holder), Token: cmp.Or(in.Body.Token, s.holdToken(ctx)),
		TTL: time.Duration(in.Body.TTL) * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return s.holdAnswerOf(ctx, h, h.Token)
}

// holdToken returns the token for a request with an Idempotency-Key: the same one each time, so that a repeated
// request gets the hold of the first, and one that nobody can compute. It is empty without such a key, and where
// the installation has no key to compute it with; then the token is a new one.
func (s *server) holdToken(ctx context.Context) string {
	id := claimedID(ctx)
	if id == "" {
		return ""
	}
	key, err := s.AgentTokens.Keys.AgentKey(ctx, workspace(ctx))
	if err != nil {
		return ""
	}
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, "lane token "+id) // never fails
	token := uuid.UUID(mac.Sum(nil)[:16])
	token[6], token[8] = token[6]&0x0f|4<<4, token[8]&0x3f|0b10<<6
	return token.String()
}

// HoldToken proves a hold.
type HoldToken struct {
	Token string `json:"token" format:"uuid" patternDescription:"the token of an acquire"`
}

// holdFrom returns the hold that a caller claims to have. The database checks the token when the
// hold is used.
func (s *server) holdFrom(ctx context.Context, in LanePath, by HoldToken) (*lane.Hold, error) {
	name, err := in.name()
	if err != nil {
		return nil, err
	}
	return &lane.Hold{Workspace: workspace(ctx), Lane: name, Token: by.Token}, nil
}

type renewInput struct {
	LanePath
	Body struct {
		HoldToken
		TTL int `json:"ttlSeconds,omitempty" minimum:"1" maximum:"3600" default:"300" doc:"How long it lives from now on unless renewed again"`
	}
}

// renewLane renews a hold. It is called by the agent that acquired it.
func (s *server) renewLane(ctx context.Context, in *renewInput) (*answer[holdAnswer], error) {
	h, err := s.holdFrom(ctx, in.LanePath, in.Body.HoldToken)
	if err != nil {
		return nil, err
	}
	if err := s.Lanes.Renew(ctx, h, time.Duration(in.Body.TTL)*time.Second); err != nil {
		return nil, err
	}
	return s.holdAnswerOf(ctx, h, "")
}

type releaseInput struct {
	LanePath
	Body struct{ HoldToken }
}

// releaseAnswer says whether a hold was ended.
type releaseAnswer struct {
	Lane     lane.Name `json:"lane"`
	Released bool      `json:"released" doc:"False where nobody held the lane"`
}

// releaseLane releases a hold. It is called by the agent that acquired it.
func (s *server) releaseLane(ctx context.Context, in *releaseInput) (*answer[releaseAnswer], error) {
	h, err := s.holdFrom(ctx, in.LanePath, in.Body.HoldToken)
	if err != nil {
		return nil, err
	}
	if err := s.Lanes.Release(ctx, h); err != nil {
		return nil, err
	}
	return answered(releaseAnswer{h.Lane, true}), nil
}

type forceInput struct {
	LanePath
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; it stands in the activity log"`
		Fence  *int64 `json:"fence,omitempty" minimum:"1" doc:"Of the hold to end: another hold stays as it is"`
	}
}

// forceReleaseLane ends another holder's hold on a lane. In the same transaction it records who did
// so, why, and whose hold it was. The execution that had the lane loses its own, too, so that another process
// continues it at once: the turns behind it would wait for it for as long as its hold lasts. It is called by the
// Engine Room and by lanekeeper locks release.
func (s *server) forceReleaseLane(ctx context.Context, in *forceInput) (*answer[releaseAnswer], error) {
	name, err := in.name()
	if err != nil {
		return nil, err
	}
	by, _ := auth.From(ctx)
	begun := s.Clock()
	var released bool
	err = s.DB.Tx(ctx, by.Workspace, func(ctx context.Context, tx *db.Tx) error {
		before := s.Lanes.PeekIn(tx.Later(), name)
		if err := tx.Flush(ctx); err != nil {
			return err
		}
		worked := lane.Execution(before.Execution)
		if before.Held() && before.Execution != "" && worked < name { // lanes are locked in the order of their names
			s.Lanes.ForceReleaseIn(tx.Later(), worked)
		}
		if in.Body.Fence != nil {
			if err := s.Lanes.ForceReleaseHold(ctx, tx, name, *in.Body.Fence); err != nil {
				return err
			}
			released = true
		} else if released, err = s.Lanes.ForceRelease(ctx, tx, name); err != nil {
			return err
		}
		if before.Held() && before.Execution != "" {
			if worked > name {
				s.Lanes.ForceReleaseIn(tx.Later(), worked)
			}
			if s.Outbox != nil {
				turn.GoOn(s.Outbox, tx.Later(), before.Execution)
			}
		}
		// ForceRelease has locked the row, which still names the former holder.
		row := s.Lanes.PeekIn(tx.Later(), name)
		if err := tx.Flush(ctx); err != nil {
			return err
		}
		s.Activity.Record(ctx, tx.Later(), forced(by, in, name, *row, released, s.Clock().Sub(begun)))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("release lane %s by force: %w", name, err)
	}
	s.Log.WarnContext(ctx, "a lane was released by force", "lane", name, "released", released, "by", by.ID)
	return answered(releaseAnswer{name, released}), nil
}

// forced returns the activity entry of a forced release.
func forced(by auth.Principal, in *forceInput, name lane.Name, row lane.Info, released bool, took time.Duration) activity.Entry {
	entry := activity.Entry{
		Agent: activity.Operator, Surface: trace.Operate, Skill: "lane.force_release", Status: activity.Skipped, Duration: took,
		Input: object("lane", name, "reason", in.Body.Reason, "by", string(by.Kind)+":"+by.ID),
	}
	output := []any{"released", released}
	if released {
		entry.Status = activity.Success
		output = append(output, "holder", row.Holder, "fence", row.Fence, "locked_at", row.LockedAt.UTC(),
			"execution_id", row.Execution, "trace_id", row.Trace)
	}
	entry.Output = object(output...)
	return entry
}

// object returns a JSON object of alternating names and values. The values must be encodable.
func object(pairs ...any) json.RawMessage {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	raw, _ := json.Marshal(m)
	return raw
}
