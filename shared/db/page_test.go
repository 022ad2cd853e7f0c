package db_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

func TestAPageIsCutFromOneRowMore(t *testing.T) {
	for _, c := range []struct{ asked, rows, size, want int }{
		{0, 51, 50, 50}, {-1, 50, 50, 50}, {3, 4, 3, 3}, {3, 3, 3, 3}, {3, 0, 3, 0}, {1000, 201, 200, 200},
	} {
		size := db.PageSize(c.asked)
		page, more := db.Page(make([]int, c.rows), size)
		if size != c.size || len(page) != c.want || more != (c.rows > size) {
			t.Errorf("%d of %d rows: a page of %d, %d rows, more %v", c.asked, c.rows, size, len(page), more)
		}
	}
}

func TestAListingBeginsBeforeEverything(t *testing.T) {
	if got := (db.Position{}).Args("a"); !slices.Equal(got, []any{"a", db.EndOfTime, db.LastID}) {
		t.Errorf("the beginning is %v", got)
	}
	at := time.Unix(7, 0)
	if got := (db.Position{At: at, ID: "b"}).Args(); !slices.Equal(got, []any{at, "b"}) {
		t.Errorf("a position is %v", got)
	}
	if from, to := db.Between(time.Time{}, time.Time{}); !from.Equal(time.Unix(0, 0)) || !to.Equal(db.EndOfTime) {
		t.Errorf("no bounds are %v and %v", from, to)
	}
	if from, to := db.Between(at, at.Add(time.Hour)); !from.Equal(at) || !to.Equal(at.Add(time.Hour)) {
		t.Errorf("bounds are %v and %v", from, to)
	}
}
