package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing/fstest"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/browser"
	"github.com/lanekeeper/lanekeeper/infra/rig/engineroom"
	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/db/sqlite"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

// The lists that the page is measured with.
const (
	manyActivities = 10_000
	taskRows       = 5_000
	loads          = 5 // of the overview; the median counts
	manyEvents     = 20
	scrolling      = 5 * time.Second
)

// filling writes many rows at once, as years of work would.
var filling = fstest.MapFS{"filling.sql": &fstest.MapFile{Data: []byte(`
-- name: Activities
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $2)
INSERT INTO agent_activity (workspace_id, id, agent, surface, skill_name, status, input, output, duration_ms, trace_id, created_at)
SELECT $1, printf('0198c0de-0000-7000-8000-%012d', i), 'scout', CASE i % 3 WHEN 0 THEN 'hb' WHEN 1 THEN 'op' ELSE 'wk' END,
       CASE i % 5 WHEN 0 THEN 'query_activity' ELSE 'shop_status' END, CASE i % 17 WHEN 0 THEN 'error' ELSE 'success' END,
       json_object('shop', 'number ' || i), json_object('summary', 'It looked at shop number ' || i), i % 900, 'hb_0mh8c1v2q_a7x2p1k9d4', lk_now() - i * 1000000
  FROM n;

-- name: Tasks
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $2)
INSERT INTO agent_tasks (workspace_id, id, title, status, tags, created_by, created_at, updated_at, completed_at)
SELECT $1, printf('0198c0de-0000-7000-9000-%012d', i), 'Check the links of shop number ' || i, 'COMPLETED', '["links"]', 'bench', lk_now() - i * 1000000, lk_now(), lk_now()
  FROM n;
`)}}

// page measures the Engine Room in a browser, with lists as long as they get. Times depend on the
// machine and on what else runs on it.
func page(ctx context.Context, _ int) (rows []Row, err error) {
	b, err := browser.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	product, err := engineroom.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, product.Close()) }()
	if err := fill(ctx, product.Database()); err != nil {
		return nil, err
	}
	p, err := product.Open(ctx, b, browser.Desktop, "overview")
	if err != nil {
		return nil, err
	}
	if rows, err = firstData(ctx, p); err != nil {
		return rows, err
	}
	for _, list := range []struct {
		what, path, label string
		many              int
	}{
		{"activities", "activity", "Activity", manyActivities},
		{"tasks", "tasks?view=list", "Tasks", taskRows},
	} {
		found, err := scrolled(ctx, product, p, list.path, list.label, list.many)
		rows = append(rows, found...)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", list.what, err)
		}
		if list.what == "activities" {
			took, err := events(ctx, product, p)
			rows = append(rows, Row{Name: "page: an event, with 10,000 activities on display", Value: took, Unit: "ms", Limit: 4,
				Detail: fmt.Sprintf("what %d changes made the page's thread work, each with what it reads anew", manyEvents)})
			if err != nil {
				return rows, err
			}
		}
	}
	return rows, p.Close(ctx)
}

func fill(ctx context.Context, path string) error {
	d, err := sqlite.Open(ctx, sqlite.Config{Path: path, Schema: migrations.Latest()})
	if err != nil {
		return err
	}
	var q struct{ Activities, Tasks db.Query }
	if err := db.Load(filling, &q); err != nil {
		return errors.Join(err, d.Close())
	}
	_, err = d.Exec(ctx, workspace.Default, q.Activities, manyActivities)
	_, err2 := d.Exec(ctx, workspace.Default, q.Tasks, taskRows)
	return errors.Join(err, err2, d.Close())
}

// firstData measures from the beginning of a load of the overview until it shows data.
func firstData(ctx context.Context, p *browser.Page) ([]Row, error) {
	const mark = `(() => {
		new MutationObserver((_, watch) => {
			if (!document.querySelector(".sentence")) return;
			watch.disconnect();
			window.shown = performance.now();
			window.asked = performance.getEntriesByType("resource").filter(e => /\/(me|overview)$/.test(e.name)).length;
		}).observe(document, {childList: true, subtree: true});
	})()`
	if err := p.Before(ctx, mark); err != nil {
		return nil, err
	}
	var times []float64
	var asked int
	for range loads {
		var at float64
		if err := errors.Join(p.Reload(ctx), p.Until(ctx, `window.shown`), p.Eval(ctx, `window.shown`, &at), p.Eval(ctx, `window.asked`, &asked)); err != nil {
			return nil, err
		}
		times = append(times, at)
	}
	slices.Sort(times)
	return []Row{
		{Name: "page: time to data of the overview, on loopback", Value: times[loads/2], Unit: "ms", Limit: 400, Detail: fmt.Sprintf("median of %d loads", loads)},
		{Name: "page: requests until the overview has data", Value: float64(asked), Limit: 2},
	}, nil
}

// scrolled loads a list to its end, and scrolls through it.
func scrolled(ctx context.Context, product *engineroom.Product, p *browser.Page, path, label string, many int) ([]Row, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := p.Goto(ctx, product.URL+"/engine/"+path); err != nil {
		return nil, err
	}
	rows := `(Number(document.querySelector("table[aria-label=` + label + `]")?.getAttribute("aria-rowcount") ?? 1) - 1)`
	if err := errors.Join(p.Until(ctx, rows+` > 50`), p.Eval(ctx, `(() => {
		const main = document.getElementById("main");
		window.down = setInterval(() => { main.scrollTop = main.scrollHeight; }, 30);
	})()`, nil)); err != nil {
		return nil, err
	}
	err := p.Until(ctx, fmt.Sprintf("%s >= %d", rows, many))
	if err = errors.Join(err, p.Eval(ctx, `clearInterval(window.down)`, nil)); err != nil {
		var have int
		_ = p.Eval(ctx, rows, &have)
		return nil, fmt.Errorf("%d of %d rows: %w", have, many, err)
	}
	// Three screens a frame, up and down again, for five seconds.
	var got struct{ Frames, Slow, Worst float64 }
	if err := errors.Join(p.Eval(ctx, `(() => {
		const main = document.getElementById("main"), took = [];
		let last = performance.now(), by = -120;
		const began = last;
		const step = (now) => {
			took.push(now - last);
			last = now;
			if (main.scrollTop <= 0 || main.scrollTop >= main.scrollHeight - main.clientHeight) by = -by;
			main.scrollTop += by;
			if (now - began < 5000) requestAnimationFrame(step);
			else window.scrolledThrough = {frames: took.length / ((now - began) / 1000), slow: took.filter(t => t > 34).length, worst: Math.max(...took)};
		};
		requestAnimationFrame(step);
	})()`, nil)); err != nil {
		return nil, err
	}
	work, err := p.Busy(ctx, scrolling)
	if err := errors.Join(err, p.Until(ctx, `window.scrolledThrough`), p.Eval(ctx, `window.scrolledThrough`, &got)); err != nil {
		return nil, err
	}
	heap, err := p.Heap(ctx)
	// A row's limit is the most that it may be: frames are told as the time of one.
	return []Row{
		{Name: fmt.Sprintf("page: work for a frame while %d rows of %s scroll", many, label), Value: 1000 * work.Seconds() / scrolling.Seconds() / got.Frames, Unit: "ms", Limit: 16.8,
			Detail: "of the page's thread, whatever else runs on the machine"},
		{Name: fmt.Sprintf("page: a frame while %d rows of %s scroll", many, label), Value: 1000 / got.Frames, Unit: "ms", Limit: 16.8,
			Detail: fmt.Sprintf("%.0f frames a second; %.0f longer than two, the longest %.0f ms", got.Frames, got.Slow, got.Worst)},
		{Name: fmt.Sprintf("page: memory with %d rows of %s", many, label), Value: float64(heap) / (1 << 20), Unit: "MB", Limit: 80},
	}, err
}

// events returns how long the page's thread works for one event, in milliseconds.
func events(ctx context.Context, product *engineroom.Product, p *browser.Page) (float64, error) {
	if err := errors.Join(p.Eval(ctx, `document.getElementById("main").scrollTop = 5000`, nil), p.Until(ctx, `document.querySelector(".live.live")`)); err != nil {
		return 0, err
	}
	const while = 12 * time.Second
	idle, err := p.Busy(ctx, while)
	if err != nil {
		return 0, err
	}
	failed := make(chan error, 1)
	go func() {
		var err error
		for i := range manyEvents {
			err = errors.Join(err, product.Ask(ctx, "POST", "/memories", map[string]any{"content": fmt.Sprintf("Shop number %d is open.", i), "category": "fact"}, nil))
			time.Sleep(while / (manyEvents + 5))
		}
		failed <- err
	}()
	busy, err := p.Busy(ctx, while)
	return float64((busy - idle).Microseconds()) / 1000 / manyEvents, errors.Join(err, <-failed)
}
