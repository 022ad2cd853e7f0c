package activity

import (
	"context"
	"fmt"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
)

// Bucket counts the entries of a span of time by their status.
type Bucket struct {
	At                                       time.Time // where it begins
	Success, Error, PendingApproval, Skipped int
}

// MaxBuckets is the largest number of buckets of a histogram.
const MaxBuckets = 120

// widths are the widths that a bucket may have, in seconds.
var widths = []int64{1, 5, 10, 30, 60, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400}

// Width returns the smallest width of buckets by which at most [MaxBuckets] of them span the time.
func Width(span time.Duration) time.Duration {
	for _, w := range widths {
		if width := time.Duration(w) * time.Second; span <= MaxBuckets*width {
			return width
		}
	}
	return (span/MaxBuckets + time.Second).Truncate(time.Second)
}

// Histogram counts the entries that a filter matches in buckets of a width, which begin at f.Since. It
// leaves out empty buckets. The filter needs a beginning and an end.
func (l *Log) Histogram(ctx context.Context, ws db.Workspace, f Filter, width time.Duration) ([]Bucket, error) {
	out := []Bucket{}
	err := l.db.Each(ctx, ws, db.Append(&out, func(scan db.Scan, b *Bucket) error {
		var place int64
		err := scan(&place, &b.Success, &b.Error, &b.PendingApproval, &b.Skipped)
		b.At = f.Since.Add(time.Duration(place) * width)
		return err
	}), l.q.Histogram, append(f.arguments(), int64(width/time.Second))...)
	if err != nil {
		return nil, fmt.Errorf("count activity: %w", err)
	}
	return out, nil
}

// AuditFilter narrows the list of what people and programs did. Empty fields have no effect.
type AuditFilter struct {
	By     string // the principal, such as user:0198…
	Action string // such as kill_switch.set, or its resource alone
	Since  time.Time
	Until  time.Time
	Before db.Position
	Limit  int // at most 200; 50 when zero
}

// Audit lists what people and programs did, the latest first.
func (l *Log) Audit(ctx context.Context, ws db.Workspace, f AuditFilter) (Page, error) {
	f.Since, f.Until = db.Between(f.Since, f.Until)
	f.Limit = db.PageSize(f.Limit)
	var p Page
	err := l.db.Each(ctx, ws, collect(&p.Items), l.q.Audit,
		append(f.Before.Args(db.Null(f.By), db.Null(f.Action), f.Since, f.Until), f.Limit+1)...)
	if err != nil {
		return Page{}, fmt.Errorf("list what people did: %w", err)
	}
	p.Items, p.More = db.Page(p.Items, f.Limit)
	return p, nil
}
