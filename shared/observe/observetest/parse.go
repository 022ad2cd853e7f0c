// Package observetest reads metrics strictly, for tests.
package observetest

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Series is one line of samples.
type Series struct {
	Name   string
	Labels map[string]string
	Value  float64
}

// Text is a scrape.
type Text struct {
	Types  map[string]string // counter, gauge or histogram, by name
	Series []Series
}

// Value returns the value of the series with these labels, in pairs, and whether there is one.
func (t Text) Value(name string, labels ...string) (float64, bool) {
	at := slices.IndexFunc(t.Series, func(s Series) bool {
		if s.Name != name || len(s.Labels) != len(labels)/2 {
			return false
		}
		for i := 0; i < len(labels); i += 2 {
			if s.Labels[labels[i]] != labels[i+1] {
				return false
			}
		}
		return true
	})
	if at < 0 {
		return 0, false
	}
	return t.Series[at].Value, true
}

var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	labelName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$`)
)

// Parse reads the text format 0.0.4. It accepts less than Prometheus does: each metric has one HELP
// and one TYPE before its samples, which stand together; nothing comes twice; counters end in _total
// and are not negative; the buckets of a histogram rise to +Inf, which is its count.
func Parse(text string) (Text, error) {
	p := parser{out: Text{Types: map[string]string{}}, seen: map[string]bool{}}
	if !strings.HasSuffix(text, "\n") {
		return p.out, fmt.Errorf("the last line does not end")
	}
	for at, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if err := p.line(line); err != nil {
			return p.out, fmt.Errorf("line %d, %q: %w", at+1, line, err)
		}
	}
	return p.out, p.histograms()
}

type parser struct {
	out    Text
	seen   map[string]bool
	help   string // the metric whose HELP was last
	metric string // whose samples follow
}

func (p *parser) line(line string) error {
	if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
		name, help, _ := strings.Cut(rest, " ")
		if !metricName.MatchString(name) || help == "" || p.out.Types[name] != "" {
			return fmt.Errorf("a HELP is malformed or comes twice")
		}
		p.help = name
		return nil
	}
	if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
		name, kind, _ := strings.Cut(rest, " ")
		if name != p.help || p.out.Types[name] != "" || !slices.Contains([]string{"counter", "gauge", "histogram"}, kind) {
			return fmt.Errorf("a TYPE is malformed, or stands behind another HELP")
		}
		if (kind == "counter") != strings.HasSuffix(name, "_total") {
			return fmt.Errorf("counters, and only they, end in _total")
		}
		p.out.Types[name], p.metric = kind, name
		return nil
	}
	m := sampleLine.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("it is no sample")
	}
	labels, err := parseLabels(m[2])
	if err != nil {
		return err
	}
	name, kind := m[1], p.out.Types[p.metric]
	base := name
	if kind == "histogram" {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			base = strings.TrimSuffix(base, suffix)
		}
	}
	value, err := strconv.ParseFloat(m[3], 64)
	switch {
	case err != nil || math.IsNaN(value) || math.IsInf(value, 0):
		return fmt.Errorf("its value is no number")
	case base != p.metric:
		return fmt.Errorf("it stands among the samples of %s", p.metric)
	case kind != "gauge" && value < 0:
		return fmt.Errorf("it is negative")
	case p.seen[name+"{"+m[2]+"}"]:
		return fmt.Errorf("it comes twice")
	}
	p.seen[name+"{"+m[2]+"}"] = true
	p.out.Series = append(p.out.Series, Series{name, labels, value})
	return nil
}

func parseLabels(text string) (map[string]string, error) {
	labels := map[string]string{}
	for text != "" {
		name, rest, ok := strings.Cut(text, `="`)
		if !ok || !labelName.MatchString(name) || strings.HasPrefix(name, "__") {
			return nil, fmt.Errorf("a label is malformed at %q", text)
		}
		var value strings.Builder
		for closed := false; !closed; {
			if rest == "" {
				return nil, fmt.Errorf("the value of label %s does not end", name)
			}
			c := rest[0]
			rest = rest[1:]
			switch {
			case c == '"':
				closed = true
			case c == '\\' && rest != "" && strings.ContainsRune(`\"n`, rune(rest[0])):
				value.WriteString(map[byte]string{'\\': `\`, '"': `"`, 'n': "\n"}[rest[0]])
				rest = rest[1:]
			case c == '\\':
				return nil, fmt.Errorf("the value of label %s has a wrong escape", name)
			default:
				value.WriteByte(c)
			}
		}
		if _, twice := labels[name]; twice {
			return nil, fmt.Errorf("label %s comes twice", name)
		}
		labels[name] = value.String()
		if rest != "" && (rest[0] != ',' || len(rest) == 1) {
			return nil, fmt.Errorf("labels are not separated at %q", rest)
		}
		text = strings.TrimPrefix(rest, ",")
	}
	return labels, nil
}

// histograms checks that buckets rise, and end in the count.
func (p *parser) histograms() error {
	for name, kind := range p.out.Types {
		if kind != "histogram" {
			continue
		}
		bound, last, buckets := math.Inf(-1), 0.0, 0
		for _, s := range p.out.Series {
			switch s.Name {
			case name + "_bucket":
				le, err := strconv.ParseFloat(s.Labels["le"], 64)
				if err != nil || le <= bound || s.Value < last {
					return fmt.Errorf("the buckets of %s do not rise at le=%q", name, s.Labels["le"])
				}
				bound, last, buckets = le, s.Value, buckets+1
			case name + "_sum":
				if !math.IsInf(bound, 1) || buckets < 2 {
					return fmt.Errorf("the buckets of %s do not end at +Inf", name)
				}
			case name + "_count":
				if s.Value != last {
					return fmt.Errorf("%s has %v values and %v in its last bucket", name, s.Value, last)
				}
				bound, last, buckets = math.Inf(-1), 0, 0
			}
		}
		if buckets > 0 {
			return fmt.Errorf("%s has no count", name)
		}
	}
	return nil
}
