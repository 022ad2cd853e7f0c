// Package schema checks JSON against a JSON Schema (draft 2020-12), within bounds: no
// schema and no value keeps it busy for long, whoever wrote them.
//
// # What is supported
//
// All keywords but those that look at what other keywords have left over
// (unevaluatedItems, unevaluatedProperties) and those that name schemas otherwise than
// by a pointer into the same document ($id below the top, $anchor, $dynamicRef and
// others). [Compile] refuses them, and says where; it passes over no keyword that it
// knows to be one. Unknown keywords are remarks, as the standard says.
//
// The formats date-time, date, time, duration, email, hostname, ipv4, ipv6, uri,
// uri-reference, uuid, regex and json-pointer are demands, others are remarks. Leap
// seconds are refused. Patterns are regular expressions of Go's.
//
// # Bounds
//
// A check takes [MaxSteps] steps at most, each of about a microsecond at most: one for
// a schema at a value, more for long texts, patterns and comparisons. Compile refuses a
// schema by which one value would have to be looked at more than [MaxVisits] times:
// alternatives of alternatives, or recursion that branches. It takes about a tenth of a
// second at most, and refuses a schema for which that is not enough.
package schema

// Bounds of schemas and checks.
const (
	MaxSize       = 64 << 10  // of a schema, in bytes
	MaxSteps      = 100_000   // of a check
	MaxVisits     = 1000      // of one value, by as many schemas
	MaxViolations = 500       // that a check lists
	maxDepth      = 500       // of schemas within schemas while checking
	maxNesting    = 200       // of a schema's JSON
	maxWork       = 1_000_000 // steps to read a schema, each of about a tenth of a microsecond
)
