package event

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
)

// ErrCursor means that a text is not a cursor.
var ErrCursor = errors.New("not a cursor of events")

// A Cursor is a position between two events of one database. The zero Cursor is before the first
// event.
type Cursor struct {
	xid, id int64 // of the event before the cursor
}

// String returns the cursor as text. The text is opaque to clients, and safe in a header, a query
// string and a line.
func (c Cursor) String() string {
	return strconv.FormatInt(c.xid, 10) + "-" + strconv.FormatInt(c.id, 10)
}

// ParseCursor parses the result of [Cursor.String]. It returns [ErrCursor] for any other text.
func ParseCursor(text string) (Cursor, error) {
	xid, id, ok := strings.Cut(text, "-")
	c := Cursor{}
	var err, err2 error
	c.xid, err = strconv.ParseInt(xid, 10, 64)
	c.id, err2 = strconv.ParseInt(id, 10, 64)
	if !ok || err != nil || err2 != nil || c.xid < 0 || c.id < 0 || c.String() != text {
		return Cursor{}, ErrCursor
	}
	return c, nil
}

// Compare is negative when c is before d, and positive when c is after d.
func (c Cursor) Compare(d Cursor) int {
	return cmp.Or(cmp.Compare(c.xid, d.xid), cmp.Compare(c.id, d.id))
}
