package secret

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Pairs are the secrets of a table whose rows have one each and, for some time after it was rotated, the
// previous one too. They keep what they have decrypted: that avoids a call to the key service for each use.
// They are safe for concurrent use.
type Pairs struct {
	store       *Store
	what, table string

	mu     sync.Mutex
	opened map[sealing]Value
}

// sealing is an encrypted secret with its place. A secret that was copied from another place cannot
// be decrypted.
type sealing struct {
	at     Place
	sealed string
}

const (
	maxOpened  = 500 // decrypted secrets that are kept
	resealPage = 50  // rows that are read at a time
)

// Pairs returns the secrets of a table. what names a thing that has a row, for errors.
func (s *Store) Pairs(what, table string) *Pairs {
	return &Pairs{store: s, what: what, table: table, opened: map[sealing]Value{}}
}

// At returns the place that the secrets of a row are encrypted for. The previous secret moves to another
// column and keeps this place.
func (p *Pairs) At(ws db.Workspace, id string) Place {
	return Place{Workspace: ws, Table: p.table, Column: "sealed", Row: id}
}

// Open decrypts the secrets of a row that are valid now. It may call the key service. It omits a secret
// that is damaged or whose key is lost, as long as there is another one.
func (p *Pairs) Open(ctx context.Context, ws db.Workspace, id string, sealed [][]byte) (out []Value, err error) {
	var unopened error
	for _, one := range sealed {
		v, err := p.open(ctx, sealing{p.At(ws, id), string(one)})
		switch {
		case err == nil:
			out = append(out, v)
		case Lasting(err):
			unopened = errors.Join(unopened, err)
		default:
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, unopened
	}
	return out, nil
}

func (p *Pairs) open(ctx context.Context, of sealing) (Value, error) {
	p.mu.Lock()
	v, ok := p.opened[of]
	p.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := p.store.OpenAt(ctx, of.at, []byte(of.sealed))
	if err != nil {
		return v, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.opened) >= maxOpened {
		clear(p.opened)
	}
	p.opened[of] = v
	return v, nil
}

// pair holds the encrypted secrets of a row.
type pair struct {
	id       string
	now, old []byte
}

// Reseal encrypts the secrets of a workspace with the current key if another key encrypts them. list reads
// the rows after an id, and change writes one. Rows may be used and changed at the same time; Reseal skips
// one that was changed. failed lists the ids of rows whose secrets could not be decrypted.
func (p *Pairs) Reseal(ctx context.Context, ws db.Workspace, list, change db.Query) (resealed int, failed []string, err error) {
	for after := uuid.Nil.String(); ; {
		var page []pair
		err := p.store.db.Each(ctx, ws, db.Append(&page, func(scan db.Scan, r *pair) error {
			return scan(&r.id, &r.now, &r.old)
		}), list, after, resealPage)
		if err != nil {
			return resealed, failed, fmt.Errorf("read the secrets of %ss: %w", p.what, err)
		}
		if len(page) == 0 {
			return resealed, failed, nil
		}
		for _, r := range page {
			after = r.id
			n, err := p.reseal(ctx, ws, change, r)
			switch {
			case Lasting(err):
				failed = append(failed, r.id)
			case err != nil:
				return resealed, failed, err
			}
			resealed += n
		}
	}
}

func (p *Pairs) reseal(ctx context.Context, ws db.Workspace, change db.Query, r pair) (int, error) {
	now, err := p.anew(ctx, ws, r.id, r.now)
	if err != nil {
		return 0, err
	}
	old, err := p.anew(ctx, ws, r.id, r.old)
	if err != nil || now == nil && old == nil {
		return 0, err
	}
	if now == nil {
		now = r.now
	}
	if old == nil {
		old = r.old
	}
	rows, err := p.store.db.Exec(ctx, ws, change, r.id, now, r.now, old, r.old)
	if err != nil {
		return 0, fmt.Errorf("seal the secret of %s %s anew: %w", p.what, r.id, err)
	}
	return int(rows), nil
}

// anew encrypts one secret with the current key. It returns nil if there is no secret, or if the
// current key encrypts it already.
func (p *Pairs) anew(ctx context.Context, ws db.Workspace, id string, sealed []byte) ([]byte, error) {
	if sealed == nil {
		return nil, nil
	}
	return p.store.ResealAt(ctx, p.At(ws, id), sealed)
}
