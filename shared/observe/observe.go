// Package observe has the instruments of a process: what it counts and how long things take. One
// set of them is written in two forms: as text for Prometheus (/metrics), and on Lambda, where
// nobody can scrape a sandbox, as lines of CloudWatch's embedded metric format. What rows tell, such
// as the number of pending tasks, is read from the database when it is asked for ([Gauges]), so that
// every process tells the same.
//
// The packages of the domain know nothing of instruments: they return figures, or call an Observe
// function that package app/wire sets, and surfaces count. No label holds an id, and the values of
// each label are few: a process that lives long does not grow, and a scrape stays small.
package observe

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// kind says how an instrument's value changes.
type kind string

const (
	counter   kind = "counter"   // only grows
	gauge     kind = "gauge"     // is set
	histogram kind = "histogram" // counts observed values by size
)

// An instrument is one thing that is measured. Its values are in base units: seconds, bytes, dollars.
type instrument struct {
	// name is the dotted name, in which CloudWatch knows it. Its last part is its unit there: "_ms"
	// for durations, ".count" for numbers.
	name   string
	help   string
	kind   kind
	labels []string
	bounds []float64 // of the buckets of a histogram, ascending
}

// text returns the name for Prometheus: underscores, and base units.
func (i *instrument) text() string {
	name := strings.TrimSuffix(i.name, ".count")
	if plain, ok := strings.CutSuffix(name, "_ms"); ok {
		name = plain + "_seconds"
	}
	name = strings.ReplaceAll(name, ".", "_")
	if i.kind == counter {
		name += "_total"
	}
	return name
}

// mostSeries is the largest number of series of one instrument. What comes after them is counted
// under the label value "other". It is a safety net: the labels in instruments.go have few values.
const mostSeries = 100

// other stands for the values of a label beyond the known ones.
const other = "other"

// series is the state of an instrument for one combination of label values.
type series struct {
	of     *instrument
	values []string // of the labels

	value   float64  // of a counter or gauge, or the sum of a histogram
	count   uint64   // of a histogram's values
	buckets []uint64 // of a histogram; not cumulated

	// What changed since the last line for CloudWatch: the growth of a counter, and the values of a
	// histogram.
	growth float64
	fresh  []float64
	set    bool // a gauge was set
}

// Meters is the set of instruments of a process. It is safe for concurrent use. A nil *Meters counts
// nothing, so that callers need not ask.
type Meters struct {
	mu     sync.Mutex
	series map[*instrument]map[string]*series
	lines  bool // values are kept for lines
}

// New returns the instruments of a process that is scraped.
func New() *Meters { return &Meters{series: map[*instrument]map[string]*series{}} }

// NewLines returns the instruments of a process that writes lines, with [Meters.Line].
func NewLines() *Meters {
	m := New()
	m.lines = true
	return m
}

// at returns the series of an instrument with label values. The caller holds the lock.
func (m *Meters) at(i *instrument, values []string) *series {
	key := strings.Join(values, "\xff")
	all := m.series[i]
	if all == nil {
		all = map[string]*series{}
		m.series[i] = all
	}
	s := all[key]
	if s == nil && len(all) >= mostSeries {
		values = slices.Repeat([]string{other}, len(values))
		key = strings.Join(values, "\xff")
		s = all[key]
	}
	if s == nil {
		s = &series{of: i, values: values, buckets: make([]uint64, len(i.bounds))}
		all[key] = s
	}
	return s
}

// add raises a counter.
func (m *Meters) add(i *instrument, by float64, values ...string) {
	if m == nil || by <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.at(i, values)
	s.value += by
	s.growth += by
}

// mostFresh is the largest number of values that an instrument keeps for a line.
const mostFresh = 100

// took observes a duration.
func (m *Meters) took(i *instrument, d time.Duration, values ...string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, v := m.at(i, values), max(0, d.Seconds())
	s.value += v
	s.count++
	if at, _ := slices.BinarySearch(i.bounds, v); at < len(s.buckets) {
		s.buckets[at]++
	}
	if m.lines && len(s.fresh) < mostFresh {
		s.fresh = append(s.fresh, v)
	}
}

// Set sets gauges. Those that it set before and that samples lacks are zero now.
func (m *Meters) Set(samples []Sample) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, all := range m.series {
		if i.kind == gauge {
			for _, s := range all {
				s.value, s.set = 0, true
			}
		}
	}
	for _, sample := range samples {
		s := m.at(sample.of, sample.values)
		s.value, s.set = sample.Value, true
	}
}

// all returns the series of an instrument, sorted by their labels. The caller holds the lock.
func (m *Meters) all(i *instrument) []*series {
	return slices.SortedFunc(maps.Values(m.series[i]), func(a, b *series) int { return slices.Compare(a.values, b.values) })
}

// instruments returns all that were used, by name. The caller holds the lock.
func (m *Meters) instruments() []*instrument {
	return slices.SortedFunc(maps.Keys(m.series), func(a, b *instrument) int { return cmp.Compare(a.text(), b.text()) })
}
