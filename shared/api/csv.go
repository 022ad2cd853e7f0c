package api

import (
	"encoding/csv"
	"encoding/json"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/capture"
)

// csvType is the media type of a listing as a table.
const csvType = "text/csv"

// columnsOf returns the names of the fields that the items of a listing have, in their order. It returns
// nil for the response of a route that is no listing.
func columnsOf(response reflect.Type) []string {
	body, ok := response.FieldByName("Body")
	if !ok || body.Type.Kind() != reflect.Struct {
		return nil
	}
	items, ok := body.Type.FieldByName("Items")
	_, pages := body.Type.FieldByName("NextCursor")
	if !ok || !pages || items.Type.Kind() != reflect.Slice || items.Type.Elem().Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for _, field := range reflect.VisibleFields(items.Type.Elem()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" && field.IsExported() {
			names = append(names, name)
		}
	}
	return names
}

// asCSV answers a request that prefers CSV with the items of a listing as a table. Each item is a line and
// each field a column. Objects and lists are JSON. The header X-Next-Cursor continues the listing. Other
// responses stay as they are.
func asCSV(resource string, columns []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		if !prefersCSV(r.Header.Get("Accept")) {
			next.ServeHTTP(w, r)
			return
		}
		r = r.Clone(r.Context())
		r.Header.Set("Accept", "application/json")
		got := capture.BufferWith(w.Header())
		next.ServeHTTP(got, r)
		got.WriteHeader(http.StatusOK) // unless it has one
		var page struct {
			Items      []map[string]json.RawMessage
			NextCursor *string
		}
		if got.Status != http.StatusOK || json.Unmarshal(got.Body.Bytes(), &page) != nil {
			w.WriteHeader(got.Status)
			_, _ = w.Write(got.Body.Bytes()) // the client may have disconnected
			return
		}
		w.Header().Set("Content-Type", csvType+"; charset=utf-8; header=present")
		w.Header().Set("Content-Disposition", `attachment; filename="`+resource+`.csv"`)
		w.Header().Del("Content-Length")
		if page.NextCursor != nil {
			w.Header().Set("X-Next-Cursor", *page.NextCursor)
		}
		table := csv.NewWriter(w)
		_ = table.Write(columns)
		for _, item := range page.Items {
			row := make([]string, len(columns))
			for i, name := range columns {
				row[i] = cell(item[name])
			}
			_ = table.Write(row)
		}
		table.Flush()
	})
}

// cell returns a value as it stands in a table. A text that a spreadsheet would compute gets an
// apostrophe in front: it may come from a visitor.
func cell(raw json.RawMessage) string {
	var text string
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return ""
	case json.Unmarshal(raw, &text) != nil:
		return string(raw)
	case text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])):
		return "'" + text
	}
	return text
}

// prefersCSV reports whether an Accept header wants CSV more than JSON.
func prefersCSV(accept string) bool {
	weights := map[string]float64{}
	for part := range strings.SplitSeq(accept, ",") {
		kind, parameters, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil || !slices.Contains([]string{csvType, "application/json"}, kind) {
			continue
		}
		weights[kind] = 1
		if q, err := strconv.ParseFloat(parameters["q"], 64); err == nil {
			weights[kind] = q
		}
	}
	return weights[csvType] > weights["application/json"]
}
