package observe

import (
	"bytes"
	"io"
	"math"
	"strconv"
	"strings"
)

// TextType is the content type of what [Meters.Write] writes.
const TextType = "text/plain; version=0.0.4; charset=utf-8"

// Write writes what was counted, and gauges, in the text format 0.0.4 of Prometheus. A nil Meters
// writes the gauges alone. Instruments stand in the order of their names, so that two scrapes can be
// compared.
func (m *Meters) Write(w io.Writer, gauges []Sample) error {
	all := New()
	all.Set(gauges)
	if m != nil {
		m.mu.Lock()
		for i, of := range m.series {
			if i.kind != gauge {
				all.series[i] = of
			}
		}
	}
	var b bytes.Buffer
	for _, i := range all.instruments() {
		i.header(&b)
		for _, s := range all.all(i) {
			s.write(&b)
		}
	}
	if m != nil {
		m.mu.Unlock() // before a client that reads slowly
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (i *instrument) header(b *bytes.Buffer) {
	b.WriteString("# HELP " + i.text() + " " + strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(i.help) + "\n")
	b.WriteString("# TYPE " + i.text() + " " + string(i.kind) + "\n")
}

func (s *series) write(b *bytes.Buffer) {
	if s.of.kind != histogram {
		s.sample(b, "", s.value)
		return
	}
	cumulated := uint64(0)
	for at, bound := range s.of.bounds {
		cumulated += s.buckets[at]
		s.sample(b, "_bucket", float64(cumulated), "le", number(bound))
	}
	s.sample(b, "_bucket", float64(s.count), "le", "+Inf")
	s.sample(b, "_sum", s.value)
	s.sample(b, "_count", float64(s.count))
}

// sample writes one line. more are the name and the value of a further label.
func (s *series) sample(b *bytes.Buffer, suffix string, value float64, more ...string) {
	b.WriteString(s.of.text() + suffix)
	separator := byte('{')
	label := func(name, value string) {
		b.WriteByte(separator)
		b.WriteString(name + `="` + strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(strings.ToValidUTF8(value, "\uFFFD")) + `"`)
		separator = ','
	}
	for at, name := range s.of.labels {
		label(name, s.values[at])
	}
	if len(more) > 0 {
		label(more[0], more[1])
	}
	if separator == ',' {
		b.WriteByte('}')
	}
	b.WriteString(" " + number(value) + "\n")
}

func number(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
