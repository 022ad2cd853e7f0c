package thread

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/execution"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// Role says who wrote a message.
type Role string

// The roles.
const (
	User      Role = "user" // the person outside
	Assistant Role = "assistant"
	System    Role = "system"
	Tool      Role = "tool"
)

// Spoken is a message of a thread that the person has sent or received.
type Spoken struct {
	ID        string // empty: Append makes one
	Seq       int64  // assigned in the order in which messages are stored
	Role      Role
	Body      string
	Execution string
	// Key makes the message idempotent: a thread has one message for each key.
	Key string
	// First says that the message is surely new, so that its key is not looked up.
	First bool
	// Earlier says that the message was spoken earlier: it is no answer to an execution that waits.
	Earlier   bool
	Data      json.RawMessage
	CreatedAt time.Time
}

// Trust returns the trust of the message's text.
func (m Spoken) Trust() execution.Trust {
	var kept struct {
		Trust execution.Trust `json:"trust"`
	}
	_ = json.Unmarshal(m.Data, &kept) // an error means that no trust is stored
	return cmp.Or(kept.Trust, execution.Trusted)
}

// TrustData returns the data with which a message stores the trust of its text.
func TrustData(trust execution.Trust) json.RawMessage {
	if trust != execution.Untrusted {
		return nil
	}
	raw, _ := json.Marshal(map[string]execution.Trust{"trust": trust}) // never fails for texts
	return raw
}

const (
	maxBody = 64 << 10
	maxKey  = 200
	longKey = "has at most 200 bytes"
)

// Storable reports whether a text can be the body of a message.
func Storable(body string) bool {
	return len(body) <= maxBody && utf8.ValidString(body) && strings.IndexByte(body, 0) < 0
}

// Append stores a message and returns its id. When the thread has a message with the same key,
// Append changes nothing and returns that message's id. It returns [ErrKey] when that is a message
// of the person with another text. When the person has spoken in a parked thread, and not earlier,
// Append resumes the execution that parked it and returns its id.
func (s *Store) Append(ctx context.Context, tx execution.Tx, thread string, m Spoken) (id, resumed string, err error) {
	var wrong problem.InvalidError
	wrong.If(!Storable(m.Body), "body", "has at most 65536 bytes of text")
	wrong.If(len(m.Key) > maxKey, "idempotencyKey", longKey)
	if err := wrong.OrNil(); err != nil {
		return "", "", err
	}
	if m.First && m.Earlier { // who has parked the thread does not matter
		m.ID = cmp.Or(m.ID, s.ids())
		tx.Later().Each(func(db.Scan) error { return nil }, s.q.Bump, thread).MustFind()
		s.say(tx.Later(), thread, m)
		return m.ID, "", nil
	}
	there := false
	var owner *string
	var known []Spoken
	bumped := func(scan db.Scan) error { there = true; return scan(&owner) }
	if m.First {
		err = tx.Each(ctx, bumped, s.q.Bump, thread)
	} else {
		tx.Later().Each(bumped, s.q.Bump, thread)
		err = tx.Each(ctx, collectSpoken(&known), s.q.Keyed, thread, m.Key)
	}
	switch {
	case err == nil && !there:
		err = db.ErrNoRows
	case len(known) > 0 && m.Role == User && known[0].Body != m.Body:
		err = ErrKey
	}
	if err != nil {
		return "", "", fmt.Errorf("append to thread %s: %w", thread, err)
	}
	if len(known) > 0 {
		return known[0].ID, "", nil
	}
	if m.Role == User && !m.Earlier && owner != nil {
		resumed = *owner
		s.resume(tx.Later(), thread, resumed)
	}
	m.ID = cmp.Or(m.ID, s.ids())
	s.say(tx.Later(), thread, m)
	return m.ID, resumed, nil
}

// say stores a message with the number that was taken last.
func (s *Store) say(b *db.Batch, thread string, m Spoken) {
	b.Exec(s.q.Say, thread, m.ID, m.Role, m.Body, db.Null(m.Execution), db.Null(m.Key), m.Data)
}

// Messages reads the messages of a thread after a message's number, oldest first: at most limit (50
// when zero, 200 at most). more says that there are more.
func (s *Store) Messages(ctx context.Context, ws db.Workspace, thread string, after int64, limit int) (items []Spoken,
	more bool, err error) {
	limit = db.PageSize(limit)
	err = s.db.Each(ctx, ws, collectSpoken(&items), s.q.Messages, thread, after, limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("list the messages of thread %s: %w", thread, err)
	}
	return items[:min(len(items), limit)], len(items) > limit, nil
}
