package budget

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/db"
	"github.com/lanekeeper/lanekeeper/shared/llm"
	"github.com/lanekeeper/lanekeeper/shared/pattern"
)

// A price is the cost of a million tokens of each kind, in micro-dollars.
type price struct {
	model                                string // the prefix of its models' names
	input, output, cacheRead, cacheWrite int64
}

// A price is for a million tokens. It is at most a thousand dollars, and a call has at most maxCall
// tokens of a kind, so that products do not overflow.
const (
	million = 1_000_000
	maxCall = 1_000_000_000
)

// cost returns the cost of a call, rounded up to whole micro-dollars.
func (p price) cost(u llm.Usage) int64 {
	raw := sum(int64(u.PromptTokens)*p.input, int64(u.CompletionTokens)*p.output,
		int64(u.CacheReadTokens)*p.cacheRead, int64(u.CacheWriteTokens)*p.cacheWrite)
	return sum(raw, million-1) / million
}

// prices are the current prices. They are read at most once a minute.
type prices struct {
	mu    sync.Mutex
	list  []price
	until time.Time
}

const pricesLast = time.Minute

func (p *prices) stale(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !now.Before(p.until)
}

func (p *prices) set(list []price, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list, p.until = list, now.Add(pricesLast)
}

// of returns the price with the longest name that is a prefix of the model's name and ends at a
// word: claude-sonnet-4 matches claude-sonnet-4-5, but not claude-sonnet-45.
func (p *prices) of(model string) (found price, known bool) {
	model = plainName(model)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, candidate := range p.list {
		rest, ok := strings.CutPrefix(model, candidate.model)
		if ok && (rest == "" || strings.ContainsRune("-:@", rune(rest[0]))) && len(candidate.model) > len(found.model) {
			found, known = candidate, true
		}
	}
	return found, known
}

// leads matches the prefix of a model's name: a path, and words without digits for a region and a
// vendor, as in us.anthropic.
var leads = pattern.New(`^(.*/)?([a-z-]+\.)*`)

// dearest returns the maximum of the models' prices, and an error that names the first model
// without a price.
func (p *prices) dearest(models ...string) (most price, unpriced *UnpricedError) {
	for _, model := range models {
		one, known := p.of(model)
		if !known && unpriced == nil {
			unpriced = &UnpricedError{model}
		}
		most.input, most.output = max(most.input, one.input), max(most.output, one.output)
		most.cacheWrite = max(most.cacheWrite, one.cacheWrite)
	}
	return most, unpriced
}

func plainName(model string) string {
	model = strings.ToLower(strings.TrimSpace(model))
	return model[len(leads().FindString(model)):]
}

// Cost returns what a call costs in micro-dollars, rounded up, by the newest price of its model.
// Without a price the cost is unknown and zero.
func (s *Store) Cost(ctx context.Context, model string, u llm.Usage) (microUSD int64, known bool, err error) {
	if err := s.freshPrices(ctx); err != nil {
		return 0, false, err
	}
	p, known := s.prices.of(model)
	return p.cost(bounded(u)), known, nil
}

// Unpriced returns the first of the models that has no price, or "" if each has one.
func (s *Store) Unpriced(ctx context.Context, models ...string) (string, error) {
	if err := s.freshPrices(ctx); err != nil {
		return "", err
	}
	for _, model := range models {
		if _, known := s.prices.of(model); !known {
			return model, nil
		}
	}
	return "", nil
}

func (s *Store) freshPrices(ctx context.Context) error {
	var b db.Batch
	keep := s.stalePrices(&b)
	if b.Len() == 0 {
		return nil
	}
	if err := s.db.Read(ctx, "", &b); err != nil {
		return fmt.Errorf("read prices: %w", err)
	}
	keep()
	return nil
}

// freshPricesIn is freshPrices in a transaction.
func (s *Store) freshPricesIn(ctx context.Context, tx Tx) error {
	now := s.clock()
	if !s.prices.stale(now) {
		return nil
	}
	var list []price
	if err := tx.Each(ctx, collectPrices(&list), s.q.Prices); err != nil {
		return fmt.Errorf("read prices: %w", err)
	}
	s.prices.set(list, now)
	return nil
}

func collectPrices(into *[]price) func(db.Scan) error {
	return db.Append(into, func(scan db.Scan, p *price) error {
		return scan(&p.model, &p.input, &p.output, &p.cacheRead, &p.cacheWrite)
	})
}

// stalePrices adds a read of the prices to a batch when they are stale. Call keep after the batch
// was sent.
func (s *Store) stalePrices(b *db.Batch) (keep func()) {
	now := s.clock()
	if !s.prices.stale(now) {
		return func() {}
	}
	var list []price
	b.Each(collectPrices(&list), s.q.Prices)
	return func() { s.prices.set(list, now) }
}

// bounded limits the usage that a provider reports to what a call can have used.
func bounded(u llm.Usage) llm.Usage {
	within := func(n int) int { return min(max(0, n), maxCall) }
	return llm.Usage{
		PromptTokens: within(u.PromptTokens), CompletionTokens: within(u.CompletionTokens),
		CacheReadTokens: within(u.CacheReadTokens), CacheWriteTokens: within(u.CacheWriteTokens),
	}
}
