package api

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// page is one page of a listing.
type page[T any] struct {
	Items      []T     `json:"items" nullable:"false"`
	NextCursor *string `json:"nextCursor" doc:"Continues the listing; null at its end"`
}

// listing makes a page; next is empty at the end.
func listing[T any](items []T, next string) *answer[page[T]] {
	p := page[T]{Items: items}
	if next != "" {
		p.NextCursor = &next
	}
	return answered(p)
}

// cursor is a place in a listing sorted by time and key: what is behind it goes on.
type cursor struct {
	at  time.Time
	key string
}

func (c cursor) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(c.at.UnixMicro(), 10) + "." + c.key))
}

// parseCursor reads a cursor; the empty one is the beginning.
func parseCursor(s string) (cursor, error) {
	refused := invalid(FieldError{"query.cursor", "expected a cursor of this listing"})
	if s == "" {
		return cursor{}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return cursor{}, refused
	}
	micros, key, ok := strings.Cut(string(raw), ".")
	n, err := strconv.ParseInt(micros, 10, 64)
	if !ok || err != nil {
		return cursor{}, refused
	}
	return cursor{time.UnixMicro(n), key}, nil
}

// before reports whether c stands before an entry with this time and key.
func (c cursor) before(at time.Time, key string) bool {
	order := c.at.Compare(time.UnixMicro(at.UnixMicro()))
	return order < 0 || order == 0 && c.key < key
}

// idInCursor is the id that a cursor ends with.
func idInCursor(c cursor) (string, error) {
	id, err := uuid.Parse(c.key)
	if err != nil {
		return "", invalid(FieldError{"query.cursor", "expected a cursor of this listing"})
	}
	return id.String(), nil
}
