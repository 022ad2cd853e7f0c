package api

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/problem"
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

// badCursor refuses a cursor.
var badCursor = invalid(problem.At("query.cursor", "expected a cursor of this listing"))

// lastMicro is a time behind all listings, in the year 9999, that every engine takes.
const lastMicro = 253_370_764_800_000_000

// parseCursor reads a cursor; the empty one is the beginning.
func parseCursor(s string) (cursor, error) {
	if s == "" {
		return cursor{}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(s)
	micros, key, ok := strings.Cut(string(raw), ".")
	n, wrong := strconv.ParseInt(micros, 10, 64)
	if err != nil || wrong != nil || !ok || n < 0 || n > lastMicro || unfit(key) != "" {
		return cursor{}, badCursor
	}
	return cursor{time.UnixMicro(n).UTC(), key}, nil
}

// keyCursor is a cursor of a listing in no order of times: what it is sorted by alone.
func keyCursor(key string) string { return cursor{time.UnixMicro(0), key}.String() }

// maxSkipped is the most entries that a counting cursor skips.
const maxSkipped = 10_000

// skipped is how many entries stand before a cursor that counts them.
func (c cursor) skipped() (int, error) {
	if c.key == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(c.key)
	if err != nil || n < 0 || n > maxSkipped {
		return 0, badCursor
	}
	return n, nil
}

// part is one page of a short listing that has been read whole. Its cursor counts.
func part[T any](all []T, after string, limit int) (*answer[page[T]], error) {
	from, err := parseCursor(after)
	if err != nil {
		return nil, err
	}
	skip, err := from.skipped()
	if err != nil {
		return nil, err
	}
	all = all[min(skip, len(all)):]
	if len(all) <= limit {
		return listing(all, ""), nil
	}
	return listing(all[:limit], keyCursor(strconv.Itoa(skip+limit))), nil
}

// before reports whether c stands before an entry with this time and key.
func (c cursor) before(at time.Time, key string) bool {
	order := c.at.Compare(time.UnixMicro(at.UnixMicro()))
	return order < 0 || order == 0 && c.key < key
}

// position reads the cursor of a listing sorted by time and id; the empty one is the
// beginning, and has neither.
func position(s string) (at time.Time, id string, err error) {
	c, err := parseCursor(s)
	if err != nil || s == "" {
		return time.Time{}, "", err
	}
	key, err := uuid.Parse(c.key)
	if err != nil {
		return time.Time{}, "", badCursor
	}
	return c.at, key.String(), nil
}
