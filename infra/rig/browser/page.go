package browser

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// Page is an open page. It is for one test at a time.
type Page struct {
	wire             *wire
	profile, session string
	crashed          chan struct{} // closed when the page's process has ended

	mu       sync.Mutex // guards the fields below, which the reader of the wire writes
	loads    int
	news     chan struct{} // closed and replaced when a page has loaded
	wrong    []string
	requests []string
}

// object holds the parameters of a method.
type object map[string]any

func (p *Page) open(ctx context.Context, o Options) error {
	var target struct{ TargetID string }
	var session struct{ SessionID string }
	blank := object{"url": "about:blank", "browserContextId": p.profile}
	err := p.wire.call(ctx, "", nil, "Target.createTarget", blank, &target)
	if err != nil {
		return err
	}
	err = p.wire.call(ctx, "", nil, "Target.attachToTarget", object{"targetId": target.TargetID, "flatten": true}, &session)
	if err != nil {
		return err
	}
	p.session, p.news, p.crashed = session.SessionID, make(chan struct{}), make(chan struct{})
	p.wire.hear(p.session, p.hear)
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		if err := p.call(ctx, domain+".enable", nil, nil); err != nil {
			return err
		}
	}
	// Each page takes keys as if it were in front, also while another one is.
	if err := p.call(ctx, "Emulation.setFocusEmulationEnabled", object{"enabled": true}, nil); err != nil {
		return err
	}
	if err := p.Resize(ctx, o); err != nil {
		return err
	}
	return p.Prefer(ctx, o.Media)
}

func (p *Page) call(ctx context.Context, method string, params, result any) error {
	return p.wire.call(ctx, p.session, p.crashed, method, params, result)
}

// Close closes the page and deletes its storage.
func (p *Page) Close(ctx context.Context) error {
	p.wire.hear(p.session, nil)
	return p.wire.call(ctx, "", nil, "Target.disposeBrowserContext", object{"browserContextId": p.profile}, nil)
}

// Resize shows the page on another screen. It does not change the preferences.
func (p *Page) Resize(ctx context.Context, o Options) error {
	return p.call(ctx, "Emulation.setDeviceMetricsOverride",
		object{"width": o.Width, "height": o.Height, "deviceScaleFactor": 1, "mobile": o.Mobile}, nil)
}

// Prefer replaces all preferences of the person.
func (p *Page) Prefer(ctx context.Context, media map[string]string) error {
	features := []object{}
	for name, value := range media {
		features = append(features, object{"name": name, "value": value})
	}
	return p.call(ctx, "Emulation.setEmulatedMedia", object{"features": features}, nil)
}

// Offline disconnects the page from the network, or connects it again.
func (p *Page) Offline(ctx context.Context, off bool) error {
	return p.call(ctx, "Network.emulateNetworkConditions",
		object{"offline": off, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}, nil)
}

// Before runs a script in each document that the page opens from now on, before any script of the
// document.
func (p *Page) Before(ctx context.Context, script string) error {
	return p.call(ctx, "Page.addScriptToEvaluateOnNewDocument", object{"source": script}, nil)
}

// Heap returns how many bytes the objects of the page's scripts take.
func (p *Page) Heap(ctx context.Context) (int64, error) {
	var heap struct{ UsedSize float64 }
	if err := p.call(ctx, "HeapProfiler.collectGarbage", nil, nil); err != nil {
		return 0, err
	}
	err := p.call(ctx, "Runtime.getHeapUsage", nil, &heap)
	return int64(heap.UsedSize), err
}

// Busy waits for a while, and returns how much time of a processor the page's main thread took meanwhile:
// what else runs on the machine does not count.
func (p *Page) Busy(ctx context.Context, while time.Duration) (time.Duration, error) {
	tasks := func() (time.Duration, error) {
		var found struct {
			Metrics []struct {
				Name  string
				Value float64
			}
		}
		if err := errors.Join(p.call(ctx, "Performance.enable", object{"timeDomain": "threadTicks"}, nil), p.call(ctx, "Performance.getMetrics", nil, &found)); err != nil {
			return 0, err
		}
		for _, m := range found.Metrics {
			if m.Name == "TaskDuration" {
				return time.Duration(m.Value * float64(time.Second)), nil
			}
		}
		return 0, errors.New("the browser does not tell how long its tasks took")
	}
	before, err := tasks()
	if err != nil {
		return 0, err
	}
	select {
	case <-time.After(while):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	after, err := tasks()
	return after - before, err
}

// Goto opens a URL and waits until the page and everything in it has loaded.
func (p *Page) Goto(ctx context.Context, url string) error {
	var went struct{ ErrorText string }
	return p.load(ctx, func() error {
		err := p.call(ctx, "Page.navigate", object{"url": url}, &went)
		if err == nil && went.ErrorText != "" {
			err = fmt.Errorf("open %s: %s", url, went.ErrorText)
		}
		return err
	})
}

// Reload loads the page again and waits until it has loaded.
func (p *Page) Reload(ctx context.Context) error {
	return p.load(ctx, func() error { return p.call(ctx, "Page.reload", nil, nil) })
}

func (p *Page) load(ctx context.Context, begin func() error) error {
	p.mu.Lock()
	before, news := p.loads, p.news
	p.mu.Unlock()
	if err := begin(); err != nil {
		return err
	}
	for p.loaded() == before {
		select {
		case <-news:
		case <-p.crashed:
			return errCrashed
		case <-p.wire.ended:
			return errGone
		case <-ctx.Done():
			return fmt.Errorf("the page does not load: %w", ctx.Err())
		}
	}
	return nil
}

func (p *Page) loaded() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loads
}

// Eval evaluates a JavaScript expression on the page and waits if it is a promise. It decodes the
// value into out unless out is nil. An exception is returned as an error. The page's policies do
// not restrict it.
func (p *Page) Eval(ctx context.Context, expression string, out any) error {
	var got struct {
		Result struct {
			Value json.RawMessage
		}
		ExceptionDetails *thrown
	}
	err := p.call(ctx, "Runtime.evaluate",
		object{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true}, &got)
	switch {
	case err != nil:
		return err
	case got.ExceptionDetails != nil:
		return fmt.Errorf("%s: %s", shortened(expression), got.ExceptionDetails)
	case out == nil || len(got.Result.Value) == 0:
		return nil
	}
	return json.Unmarshal(got.Result.Value, out)
}

// Until waits until an expression is truthy. An exception counts as false.
func (p *Page) Until(ctx context.Context, expression string) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var yes bool
		err := p.Eval(ctx, "!!("+expression+")", &yes)
		if yes && err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.crashed:
			return errCrashed
		case <-p.wire.ended:
			return errGone
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s does not come true: %w", shortened(expression), ctx.Err()), err)
		}
	}
}

// Screenshot writes the visible part of the page to a PNG file.
func (p *Page) Screenshot(ctx context.Context, file string) error {
	var shot struct{ Data string }
	if err := p.call(ctx, "Page.captureScreenshot", object{"format": "png"}, &shot); err != nil {
		return err
	}
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		return err
	}
	return os.WriteFile(file, png, 0o644)
}

func shortened(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
