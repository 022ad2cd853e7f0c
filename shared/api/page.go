package api

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// page is one page of a listing.
type page[T any] struct {
	Items      []T     `json:"items" nullable:"false"`
	NextCursor *string `json:"nextCursor" doc:"Continues the listing; null at its end"`
}

// Paging says which page of a listing a request wants.
type Paging struct {
	Cursor string `query:"cursor" maxLength:"200"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

// listing returns a page of items. next is the cursor of the next page; empty: this is the last
// page.
func listing[T any](items []T, next string) *answer[page[T]] {
	p := page[T]{Items: items}
	if next != "" {
		p.NextCursor = &next
	}
	return answered(p)
}

// cursor is a position in a listing that is sorted by time and key. The next page begins after it.
type cursor struct {
	at  time.Time
	key string
}

func (c cursor) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(c.at.UnixMicro(), 10) + "." + c.key))
}

// badCursor refuses an invalid cursor.
var badCursor = invalid(problem.At("query.cursor", "expected a cursor of this listing"))

// lastMicro is a time in the year 9999, in microseconds since 1970. It is later than all entries,
// and every database can store it.
const lastMicro = 253_370_764_800_000_000

// parseCursor decodes a cursor. The empty text means the beginning of the listing.
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

// keyCursor returns the cursor of a listing that is sorted by key alone.
func keyCursor(key string) string { return cursor{time.UnixMicro(0), key}.String() }

// maxSkipped is the largest number of entries that a counting cursor skips.
const maxSkipped = 10_000

// skipped returns the number of entries before a counting cursor.
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

// slicePage returns one page of a short listing that was read as a whole. Its cursor counts entries.
func slicePage[T any](all []T, after string, limit int) (*answer[page[T]], error) {
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

// before reports whether c comes before an entry with this time and key.
func (c cursor) before(at time.Time, key string) bool {
	order := c.at.Compare(time.UnixMicro(at.UnixMicro()))
	return order < 0 || order == 0 && c.key < key
}

// position decodes the cursor of a listing that is sorted by time and id. The empty text means the
// beginning.
func position(s string) (db.Position, error) {
	c, err := parseCursor(s)
	if err != nil || s == "" {
		return db.Position{}, err
	}
	id, err := uuid.Parse(c.key)
	if err != nil {
		return db.Position{}, badCursor
	}
	return db.Position{At: c.at, ID: id.String()}, nil
}

// after returns the cursor of the page after the rows; empty: there are no more. at returns the position
// of a row.
func after[T any](rows []T, more bool, at func(T) db.Position) string {
	if !more {
		return ""
	}
	last := at(rows[len(rows)-1])
	return cursor{last.At, last.ID}.String()
}

// newest returns a page of a listing that is sorted by time and id. at returns the position of a row,
// show its form in the API.
func newest[T, V any](rows []T, more bool, at func(T) db.Position, show func(T) V) *answer[page[V]] {
	return listing(each(rows, show), after(rows, more, at))
}

// sorted returns a page of a listing that is sorted by key alone. rows may hold one more than limit,
// which shows that another page follows.
func sorted[T, V any](rows []T, limit int, key func(T) string, show func(T) V) *answer[page[V]] {
	rows, more := db.Page(rows, limit)
	next := ""
	if more {
		next = keyCursor(key(rows[len(rows)-1]))
	}
	return listing(each(rows, show), next)
}

func each[T, V any](rows []T, show func(T) V) []V {
	items := make([]V, len(rows))
	for i, row := range rows {
		items[i] = show(row)
	}
	return items
}
