package task

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/activity"
	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
	"github.com/lanekeeper/lanekeeper/shared/problem"
	"github.com/lanekeeper/lanekeeper/shared/redact"
)

// Limits of a task: texts in characters, JSON in bytes.
const (
	MaxTitle       = 255
	MaxDescription = 16_000
	MaxType        = 100
	MaxReason      = 500
	MaxError       = 16_000
	MaxTrace       = 32_000
	MaxStep        = 1000
	MaxTag         = 50
	MaxTags        = 20
	MaxInput       = 256 << 10
	MaxMetadata    = 16 << 10
	MaxEdges       = 100   // tasks that one depends on, and in blocks of a new one
	MaxDependents  = 1_000 // tasks that depend on one
	MaxRetries     = 100
	MaxBackoff     = 6 * 60 * 60 // seconds
)

// text normalizes a text to the form that is stored, without secrets, and checks its length.
func text(ctx context.Context, bad *problem.InvalidError, field string, s *string, shortest, longest int) {
	*s = redact.From(ctx).Values().Text(strings.TrimSpace(activity.Text(*s)))
	n := utf8.RuneCountInString(*s)
	bad.If(n < shortest || n > longest, field, fmt.Sprintf("must have %d to %d characters", shortest, longest))
}

// object checks a JSON object; an empty one becomes {}.
func object(bad *problem.InvalidError, field string, v *json.RawMessage, most int) {
	*v = activity.Storable(*v)
	if len(*v) == 0 {
		*v = json.RawMessage("{}")
	}
	var members map[string]json.RawMessage
	bad.If(len(*v) > most || json.Unmarshal(*v, &members) != nil || members == nil, field, fmt.Sprintf("must be an object of %d KiB at most", most>>10))
}

// value checks any JSON, and leaves secrets out of it.
func value(ctx context.Context, bad *problem.InvalidError, field string, v *json.RawMessage, most int) {
	*v = redact.From(ctx).Values().JSON(activity.Storable(*v))
	bad.If(len(*v) > most, field, fmt.Sprintf("may have %d KiB at most", most>>10))
}

// tellsNothing refuses a JSON value with a secret in it: it would be stored, and shown to people.
func tellsNothing(ctx context.Context, bad *problem.InvalidError, field string, v json.RawMessage) {
	bad.If(json.Valid(v) && !bytes.Equal(redact.From(ctx).Values().JSON(v), v), field,
		`holds a secret, which would be stored and shown: write {"$secret": name} in its place`)
}

// tags trims and sorts tags, and checks them.
func tags(ctx context.Context, bad *problem.InvalidError, list []string) []string {
	out := []string{}
	for _, tag := range list {
		tag = redact.From(ctx).Values().Text(strings.TrimSpace(activity.Text(tag)))
		n := utf8.RuneCountInString(tag)
		bad.If(n == 0 || n > MaxTag || strings.Contains(tag, ","), "tags", "must have 1 to 50 characters each, and no comma")
		out = append(out, tag)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	bad.If(len(out) > MaxTags, "tags", "may be 20 at most")
	return out
}

// check normalizes and validates what a caller says of a new or changed task.
func (t *Task) check(ctx context.Context) error {
	bad := &problem.InvalidError{}
	text(ctx, bad, "title", &t.Title, 1, MaxTitle)
	text(ctx, bad, "description", &t.Description, 0, MaxDescription)
	text(ctx, bad, "taskType", &t.Type, 0, MaxType)
	bad.If(t.Priority < 1 || t.Priority > 10, "priority", "must be 1 to 10")
	bad.If(t.MaxRetries < 0 || t.MaxRetries > MaxRetries, "maxRetries", "must be 0 to 100")
	bad.If(t.BackoffSeconds < 1 || t.BackoffSeconds > MaxBackoff, "retryBackoffSeconds", "must be 1 to 21600")
	bad.If(t.EstimatedMinutes < 0, "estimatedDurationMinutes", "must be positive")
	bad.If(!problem.Storable(t.EstimatedAt), "estimatedCompletionAt", problem.BadTime)
	object(bad, "inputContext", &t.Input, MaxInput)
	tellsNothing(ctx, bad, "inputContext", t.Input)
	object(bad, "metadata", &t.Metadata, MaxMetadata)
	tellsNothing(ctx, bad, "metadata", t.Metadata)
	t.Metadata = plainComplexity(t.Metadata)
	t.Tags = tags(ctx, bad, t.Tags)
	for _, edges := range []struct {
		field string
		of    *[]string
	}{{"dependsOn", &t.DependsOn}, {"blocks", &t.Blocks}} {
		*edges.of = distinct(*edges.of)
		bad.If(len(*edges.of) > MaxEdges, edges.field, "may be 100 tasks at most")
	}
	return bad.OrNil()
}

// maxComplexity is the highest complexity that counts.
const maxComplexity = 1000

// plainComplexity writes a complexity with an exponent or many digits as a whole number, because the databases read
// such a number differently. The rest of the metadata stays as it is.
func plainComplexity(metadata json.RawMessage) json.RawMessage {
	if !json.Valid(metadata) {
		return metadata
	}
	sc := jsonscan.New(string(metadata))
	var edits []jsonscan.Edit
	named := false
	for t, ok := sc.Next(); ok; t, ok = sc.Next() {
		if number := sc.Text[t.Start:t.End]; named && t.Kind == '0' && (len(number) > 9 || strings.ContainsAny(number, "eE")) {
			if n, err := strconv.ParseFloat(number, 64); err == nil && n > 0 {
				edits = append(edits, jsonscan.Edit{Start: t.Start, End: t.End, With: strconv.Itoa(int(min(math.Ceil(n), maxComplexity)))})
			}
		}
		named = t.Name && sc.Depth() == 1 && sc.Decoded(t) == "complexity"
	}
	if edits == nil {
		return metadata
	}
	return json.RawMessage(jsonscan.Apply(sc.Text, edits))
}

// distinct returns sorted ids in their usual spelling, each once.
func distinct(ids []string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = strings.ToLower(id)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
