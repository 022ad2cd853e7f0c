package event

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
)

// ErrCursor says that a text is no cursor.
var ErrCursor = errors.New("not a cursor of events")

// A Cursor is a place between two events of one database: what stands behind it
// comes next. The zero Cursor stands before the first.
type Cursor struct {
	xid, id int64 // of the event before it
}

// String is the cursor as text: opaque to whoever keeps it, and safe in a header,
// a query and a line of its own.
func (c Cursor) String() string {
	return strconv.FormatInt(c.xid, 10) + "-" + strconv.FormatInt(c.id, 10)
}

// ParseCursor reads what [Cursor.String] wrote, or reports [ErrCursor].
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

// Compare is negative where c stands before d, positive where behind it.
func (c Cursor) Compare(d Cursor) int {
	return cmp.Or(cmp.Compare(c.xid, d.xid), cmp.Compare(c.id, d.id))
}
