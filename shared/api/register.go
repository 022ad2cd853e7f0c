package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// typed serves a route by a function whose types describe the request and the response. It retries
// a change that lost a race against another one.
func typed[I, O any](fn func(context.Context, *I) (*O, error)) handler {
	return plain(reflect.TypeFor[I](), reflect.TypeFor[O](), func(ctx context.Context, in any) (any, error) {
		return fn(ctx, in.(*I))
	})
}

// plain is [typed] without type parameters. huma.Register has them, so the compiler would make a copy of
// all its code for each route. plain describes a route in the same way.
func plain(in, out reflect.Type, fn func(context.Context, any) (any, error)) handler {
	return func(s *server, a huma.API, op huma.Operation) {
		if columns := columnsOf(out); op.Method == http.MethodGet && columns != nil {
			s.columns[op.OperationID] = columns
		}
		response := responseOf(a, &op, out)
		s.register(a, op, in, func(w http.ResponseWriter, r *http.Request, v any) error {
			answer, err := fn(r.Context(), v)
			for try := 1; try < maxTries && raced(err); try++ {
				answer, err = fn(r.Context(), v)
			}
			if err != nil {
				return err
			}
			return response.write(w, reflect.ValueOf(answer).Elem())
		})
	}
}

// register serves an operation by a function that gets a pointer to a struct of the type in, and writes
// the response unless it returns an error.
func (s *server) register(a huma.API, op huma.Operation, in reflect.Type, fn func(http.ResponseWriter, *http.Request, any) error) {
	request := requestOf(a, &op, in)
	a.OpenAPI().AddOperation(&op)
	a.Adapter().Handle(&op, func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		v, err := request.read(hc)
		if err == nil {
			err = fn(w, r, v)
		}
		if err != nil {
			s.fail(w, r, err)
		}
	})
}

// maxTries is how often plain tries a change.
const maxTries = 20

// parameter is a field that is not sent in the body.
type parameter struct {
	at        []int  // index of the field
	in, name  string // in is path, query or header
	otherwise string // its value where the request has none
	schema    *huma.Schema
	id        bool // it is an id, which the database has in small letters
}

// strictID narrows the schema of a UUID to the one form in which ids are told, and reports whether it is one. The
// format also admits forms that an engine does not find, such as the one without hyphens.
func strictID(s *huma.Schema) bool {
	if s.Format != "uuid" {
		return false
	}
	s.Format, s.Pattern = "", `^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`
	s.PatternDescription = cmp.Or(s.PatternDescription, "an id")
	s.PrecomputeMessages()
	return true
}

// strictIDs narrows each id in the schema of a body.
func strictIDs(schemas huma.Registry, s *huma.Schema) {
	for s != nil && s.Ref != "" {
		s = schemas.SchemaFromRef(s.Ref)
	}
	if s == nil {
		return
	}
	strictID(s)
	strictIDs(schemas, s.Items)
	for _, property := range s.Properties {
		strictIDs(schemas, property)
	}
}

// parametersOf returns the fields of a struct, and of those embedded in it, whose tags name one of the
// places.
func parametersOf(schemas huma.Registry, t reflect.Type, places ...string) []parameter {
	var found []parameter
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			for _, p := range parametersOf(schemas, f.Type, places...) {
				p.at = slices.Concat(f.Index, p.at)
				found = append(found, p)
			}
			continue
		}
		for _, in := range places {
			if name := f.Tag.Get(in); name != "" {
				if f.Type == reflect.TypeFor[http.Cookie]() {
					f.Type = reflect.TypeFor[string]()
				}
				schema := huma.SchemaFromField(schemas, f, "")
				found = append(found, parameter{f.Index, in, name, f.Tag.Get("default"), schema, strictID(schema)})
			}
		}
	}
	return found
}

// bodyOf returns the field Body of a struct and its schema, which is nil where there is no such field.
func bodyOf(schemas huma.Registry, t reflect.Type, name string) (reflect.StructField, *huma.Schema) {
	f, ok := t.FieldByName("Body")
	if !ok {
		return f, nil
	}
	if t.Name() != "" {
		name = t.Name() + f.Name
	}
	return f, huma.SchemaFromField(schemas, f, name)
}

// request is what a struct type says about the requests of a route.
type request struct {
	of         reflect.Type
	parameters []parameter
	body       []int        // index of the field Body
	schema     *huma.Schema // of the body; nil: there is none
	schemas    huma.Registry
}

// requestOf returns what a struct type says about requests, and describes it in the operation.
func requestOf(a huma.API, op *huma.Operation, t reflect.Type) *request {
	schemas := a.OpenAPI().Components.Schemas
	in := &request{of: t, parameters: parametersOf(schemas, t, "path", "query", "header"), schemas: schemas}
	setDefaults(reflect.New(t).Elem()) // panics at the start where a field cannot have its default
	for _, p := range in.parameters {
		described := &huma.Param{Name: p.name, In: p.in, Required: p.in == "path", Schema: p.schema, Description: p.schema.Description}
		if p.in == "query" {
			described.Explode = new(bool) // a list is one value with commas
		}
		op.Parameters = append(op.Parameters, described)
	}
	f, schema := bodyOf(schemas, t, op.OperationID+"Request")
	if schema != nil {
		schema.PrecomputeMessages()
		strictIDs(schemas, schema)
		in.body, in.schema = f.Index, schema
		op.RequestBody = &huma.RequestBody{
			Required: f.Type.Kind() != reflect.Pointer,
			Content:  map[string]*huma.MediaType{"application/json": {Schema: schema}},
		}
	}
	return in
}

// read returns a pointer to a struct that holds the request, or the problem that refuses it as an error.
func (in *request) read(hc huma.Context) (any, error) {
	v := reflect.New(in.of)
	at, found := huma.NewPathBuffer(nil, 0), &huma.ValidateResult{}
	to := hc.URL()
	for name := range to.Query() {
		if !slices.ContainsFunc(in.parameters, func(p parameter) bool { return p.in == "query" && p.name == name }) {
			goTo(at, "query", name)
			found.Add(at, "", "unknown query parameter")
		}
	}
	if len(found.Errors) > 0 {
		return nil, refusedFields(found.Errors)
	}
	for _, p := range in.parameters {
		text := cmp.Or(p.text(hc), p.otherwise)
		if text == "" {
			continue
		}
		goTo(at, p.in, p.name)
		if p.id {
			text = strings.ToLower(text)
		}
		value, err := parse(v.Elem().FieldByIndex(p.at), text)
		if err != nil {
			found.Add(at, text, err.Error())
			continue
		}
		huma.Validate(in.schemas, p.schema, at, huma.ModeWriteToServer, value, found)
	}
	if in.schema != nil {
		in.readBody(hc.BodyReader(), v.Elem().FieldByIndex(in.body), at, found)
	}
	if len(found.Errors) > 0 {
		return nil, refusedFields(found.Errors)
	}
	return v.Interface(), nil
}

func goTo(at *huma.PathBuffer, in, name string) {
	at.Reset()
	at.Push(in)
	at.Push(name)
}

// text returns the parameter as the request has it, or nothing.
func (p parameter) text(hc huma.Context) string {
	switch p.in {
	case "path":
		return hc.Param(p.name)
	case "query":
		return hc.Query(p.name)
	}
	return hc.Header(p.name)
}

// readBody reads the body, which intake.go has checked, into a field. It adds what the schema refuses to
// found.
func (in *request) readBody(from io.Reader, into reflect.Value, at *huma.PathBuffer, found *huma.ValidateResult) {
	at.Reset()
	at.Push("body")
	raw, err := io.ReadAll(from)
	var parsed any
	if err == nil {
		err = decode(raw, &parsed)
	}
	before := len(found.Errors)
	if err == nil {
		huma.Validate(in.schemas, in.schema, at, huma.ModeWriteToServer, parsed, found)
	}
	if err == nil && len(found.Errors) == before {
		err = decode(raw, into.Addr().Interface())
		setDefaults(into)
		lowerIDs(into, false)
	}
	if err != nil {
		found.Add(at, "", err.Error())
	}
}

// parse sets a field to the value that a text has in a URL, a header or a tag. It returns the value for
// the schema.
func parse(into reflect.Value, text string) (any, error) {
	if into.Type() == reflect.TypeFor[time.Time]() {
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return nil, errors.New("expected string to be RFC 3339 date-time")
		}
		into.Set(reflect.ValueOf(t))
		return text, nil
	}
	switch into.Kind() {
	case reflect.String:
		into.SetString(text)
		return text, nil
	case reflect.Int:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, errors.New("invalid integer")
		}
		into.SetInt(n)
		return n, nil
	case reflect.Bool:
		into.SetBool(text == "true")
		return text == "true", nil
	case reflect.Slice: // of strings
		values := strings.Split(text, ",")
		into.Set(reflect.MakeSlice(into.Type(), len(values), len(values)))
		for i, value := range values {
			into.Index(i).SetString(value)
		}
		return values, nil
	}
	panic(fmt.Sprintf("a parameter has the type %s", into.Type()))
}

// setDefaults sets each field that has its zero value to the value of its tag default.
func setDefaults(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			setDefaults(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			if v.Type().Elem().Kind() == reflect.Struct {
				setDefaults(v.Index(i))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f, described := v.Field(i), v.Type().Field(i)
			text := described.Tag.Get("default")
			switch {
			case !f.CanSet():
			case text == "" || !f.IsZero():
				setDefaults(f)
			case f.Kind() == reflect.Pointer:
				f.Set(reflect.New(f.Type().Elem()))
				f = f.Elem()
				fallthrough
			default:
				_, _ = parse(f, text) // huma has checked the tag
			}
		}
	}
}

// lowerIDs gives each id in a body the small letters that the database has: each text in a field whose tag says that
// it is a UUID. id says it of v.
func lowerIDs(v reflect.Value, id bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			lowerIDs(v.Elem(), id)
		}
	case reflect.Slice:
		if of := v.Type().Elem().Kind(); id || of == reflect.Struct || of == reflect.Pointer {
			for i := range v.Len() {
				lowerIDs(v.Index(i), id)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			lowerIDs(v.Field(i), v.Type().Field(i).Tag.Get("format") == "uuid")
		}
	case reflect.String:
		if id {
			v.SetString(strings.ToLower(v.String()))
		}
	}
}

// response is what a struct type says about the responses of a route.
type response struct {
	headers      []parameter
	usual        int   // the status where the struct has no field Status
	status, body []int // indexes of the fields Status and Body; nil: there are none
	tagged       bool  // a response without a version gets a digest as its ETag
}

// responseOf returns what a struct type says about responses, and describes it in the operation.
func responseOf(a huma.API, op *huma.Operation, t reflect.Type) *response {
	schemas := a.OpenAPI().Components.Schemas
	out := &response{usual: op.DefaultStatus, tagged: single(op.Method, op.Path)}
	if f, ok := t.FieldByName("Status"); ok {
		out.status = f.Index
	}
	f, schema := bodyOf(schemas, t, op.OperationID+"Response")
	described := &huma.Response{}
	switch {
	case schema != nil:
		out.usual, out.body = cmp.Or(out.usual, http.StatusOK), f.Index
		described.Content = map[string]*huma.MediaType{"application/json": {Schema: schema}}
	default:
		out.usual = cmp.Or(out.usual, http.StatusNoContent)
	}
	described.Description = http.StatusText(out.usual)
	out.headers = parametersOf(schemas, t, "header")
	for _, p := range out.headers {
		if described.Headers == nil {
			described.Headers = map[string]*huma.Header{}
		}
		described.Headers[p.name] = &huma.Header{Schema: p.schema}
	}
	op.DefaultStatus = out.usual
	op.Responses[strconv.Itoa(out.usual)] = described
	return out
}

// write answers with a struct. It returns an error if the body cannot be encoded, and then has written
// nothing. It ignores errors of the writer: the client may have disconnected.
func (out *response) write(w http.ResponseWriter, v reflect.Value) error {
	if !v.IsValid() { // a function without a response returns nil
		w.WriteHeader(out.usual)
		return nil
	}
	var body bytes.Buffer
	if out.body != nil {
		if err := encode(&body, v.FieldByIndex(out.body).Interface()); err != nil {
			return fmt.Errorf("encode a response: %w", err)
		}
		w.Header().Set("Content-Type", "application/json")
	}
	for _, p := range out.headers {
		text := v.FieldByIndex(p.at).String()
		if cookie, ok := v.FieldByIndex(p.at).Addr().Interface().(*http.Cookie); ok {
			text = cookie.String()
		}
		if text != "" {
			w.Header().Set(p.name, text)
		}
	}
	if out.tagged && w.Header().Get("ETag") == "" {
		sum := sha256.Sum256(body.Bytes())
		w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	}
	status := out.usual
	if out.status != nil {
		status = int(v.FieldByIndex(out.status).Int())
	}
	w.WriteHeader(status)
	if status != http.StatusNoContent {
		_, _ = w.Write(body.Bytes())
	}
	return nil
}

// single reports whether a route reads a single resource.
func single(method, path string) bool {
	return method == http.MethodGet && strings.HasSuffix(path, "}")
}
