package api

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

//go:embed idempotency.sql
var idempotencyFiles embed.FS

// keyLife is how long a response is stored. The heartbeats' purge deletes it afterwards.
const keyLife = 24 * time.Hour

// keyStore stores idempotency keys with the responses to their requests.
type keyStore struct {
	db *db.DB
	q  struct{ ClaimKey, LookAtKey, KeepAnswer, FreeKey db.Query }
}

func newKeyStore(d *db.DB) (*keyStore, error) {
	s := &keyStore{db: d}
	return s, db.Load(idempotencyFiles, &s.q)
}

// keyClaim is a claim on a key. Its token proves that the claim belongs to this request.
type keyClaim struct {
	ws                                 db.Workspace
	route, principal, keyHash, request string
	token                              string
}

// keyRecord is the stored state of a key that another request has claimed.
type keyRecord struct {
	request string
	first   time.Time // when the key was first claimed for the request
	old     bool      // it was claimed so long ago that its execution has begun by now, if its process lives
	done    bool
	status  int
	header  http.Header
	body    []byte // nil: the response was not stored
}

// claim takes the key for the given time. If another request has it, claim returns its record. If
// it returns neither, the key was freed between the two statements and may be claimed again. mine is
// when the key was first claimed for this request. begins is that of [keyed].
func (s *keyStore) claim(ctx context.Context, c keyClaim, within, begins time.Duration) (mine *time.Time, found *keyRecord, err error) {
	var b db.Batch
	b.Each(func(scan db.Scan) error { mine = new(time.Time); return scan(mine) }, s.q.ClaimKey,
		c.route, c.principal, c.keyHash, c.request, c.token, within.Milliseconds(), keyLife.Milliseconds())
	if err := s.db.Do(ctx, c.ws, &b); err != nil || mine != nil {
		return mine, nil, err
	}
	err = s.db.Each(ctx, c.ws, func(scan db.Scan) error {
		var k keyRecord
		var state string
		var status *int64
		var header *string
		if err := scan(&k.request, &state, &status, &header, &k.body, &k.first, &k.old); err != nil {
			return err
		}
		k.done = state == "done"
		if status != nil {
			k.status = int(*status)
		}
		if header != nil {
			if err := json.Unmarshal([]byte(*header), &k.header); err != nil {
				return fmt.Errorf("headers of a kept answer: %w", err)
			}
			if k.body == nil { // a database may read an empty body as NULL
				k.body = []byte{}
			}
		}
		found = &k
		return nil
	}, s.q.LookAtKey, c.route, c.principal, c.keyHash, (begins - within).Milliseconds())
	return nil, found, err
}

// keep ends a claim and stores its response; body nil: without the response. It reports whether the
// claim was still valid.
func (s *keyStore) keep(ctx context.Context, c keyClaim, status int, header http.Header, body []byte) (bool, error) {
	var kept, content any
	if body != nil {
		text, err := db.JSON(header)
		if err != nil {
			return false, err
		}
		kept, content = text, body
	}
	var b db.Batch
	op := b.Exec(s.q.KeepAnswer, c.route, c.principal, c.keyHash, c.token, status, kept, content)
	err := s.db.Do(ctx, c.ws, &b)
	return op.Affected() == 1, err
}

// free ends a claim, so that the key can be used again.
func (s *keyStore) free(ctx context.Context, c keyClaim) error {
	_, err := s.db.Exec(ctx, c.ws, s.q.FreeKey, c.route, c.principal, c.keyHash, c.token)
	return err
}
