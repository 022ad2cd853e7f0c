// Package schema checks JSON against a JSON Schema (draft 2020-12) within limits. No schema and no
// value can keep it busy for long, even a malicious one.
//
// # What is supported
//
// It supports all keywords with two exceptions: those that depend on what other keywords have left
// over (unevaluatedItems, unevaluatedProperties), and those that identify schemas by anything but a
// pointer into the same document ($id below the top, $anchor, $dynamicRef and others). [Compile]
// refuses these keywords and says where they are. It ignores unknown keywords, as the standard
// says.
//
// The formats date-time, date, time, duration, email, hostname, ipv4, ipv6, uri, uri-reference,
// uuid, regex and json-pointer are checked. Other formats are ignored. Leap seconds are refused.
// Patterns are regular expressions of Go.
//
// # Limits
//
// A check takes at most [MaxSteps] steps of at most about a microsecond. One step is a schema
// applied to a value. Long texts, patterns and comparisons take more steps. Compile refuses a
// schema that may visit one value more than [MaxVisits] times, by nested alternatives or by
// recursion that branches. Compile takes at most about a tenth of a second, and refuses a schema
// that needs more.
package schema

// Limits of schemas and checks.
const (
	MaxSize       = 64 << 10  // of a schema, in bytes
	MaxSteps      = 100_000   // of a check
	MaxVisits     = 1000      // of one value: applications of schemas
	MaxViolations = 500       // that a check lists
	maxDepth      = 500       // of nested schemas during a check
	maxNesting    = 200       // of a schema's JSON
	maxWork       = 1_000_000 // steps to compile a schema, each of about a tenth of a microsecond
)
