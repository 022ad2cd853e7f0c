package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
)

// An Error says what is wrong or not supported in a schema, and where.
type Error struct {
	Path    string // JSON pointer into the schema; empty: the whole schema
	Problem string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Path == "" {
		return e.Problem
	}
	return e.Path + ": " + e.Problem
}

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct{ root *node }

// node is a schema or a part of one.
type node struct {
	path        string
	never       bool // the schema false
	kinds       []string
	enums       []*options
	bounds      []bound
	sizes       []size
	pattern     *pattern
	format      *format
	unique      bool
	required    []string
	needs       map[string][]string
	props       map[string]*node
	patterns    []patternNode
	more, names *node // of properties
	prefix      []*node
	items       *node
	contains    *node
	least, most int // how often contains must match; most < 0: no limit

	ref, not, cond, then, otherwise *node
	all, any, one                   []*node
	with                            map[string]*node // dependentSchemas
}

// options are the values of enum and const.
type options struct {
	values map[string]bool // in canonical form
	told   string
}

// bound is a limit for a number; size is a limit for a length.
type bound struct {
	word  string
	want  *big.Rat
	steps int
}

type size struct {
	word, kind string
	want       int
	most       bool
}

type patternNode struct {
	*pattern
	node *node
}

// Compile compiles a schema. An error is an [*Error].
func Compile(raw []byte) (*Schema, error) { return compile(raw, true) }

func compile(raw []byte, formats bool) (*Schema, error) {
	if len(raw) > MaxSize {
		return nil, &Error{"", fmt.Sprintf("has more than %d KiB", MaxSize>>10)}
	}
	doc, err := Decode(raw)
	if err != nil {
		return nil, &Error{"", "is not JSON"}
	}
	c := newCompiler(doc, formats)
	root := c.node("", doc, 0)
	if c.err == nil {
		c.bounded(root)
	}
	if c.err != nil {
		return nil, c.err
	}
	return &Schema{root}, nil
}

// Decode reads one JSON value. It keeps numbers as they are written.
func Decode(raw []byte) (v any, err error) {
	err = jsonscan.Decode(raw, &v)
	return v, err
}

// compiler keeps the first error. Results after an error are meaningless.
type compiler struct {
	doc     any
	words   map[string]reader
	nodes   map[string]*node // by pointer
	formats bool
	program int // size of all patterns
	legacy  bool
	work    int // steps used
	err     error
}

func newCompiler(doc any, formats bool) *compiler {
	return &compiler{doc: doc, words: wordsOf(), nodes: map[string]*node{}, formats: formats}
}

// The cost of operations, in steps of the compiler.
const (
	pathBytes  = 16 // bytes of a written path per step
	matchSteps = 10 // steps per instruction of a pattern, for each byte of a name
	setSteps   = 10 // to make a set
	checkSteps = 10 // per step of a check
	parseSteps = 20 // per microsecond of parsing a pattern, which is parsed twice
)

// step uses n steps. It returns false if too few are left, or if compiling has failed.
func (c *compiler) step(n int) bool {
	if c.work += n; c.work > maxWork {
		c.refuse("", "takes too long to read: fewer schemas that apply to the same names, fewer patterns, shorter ones, shorter names")
	}
	return c.err == nil
}

// refuse records what is wrong at a path. The first call counts.
func (c *compiler) refuse(path, message string) {
	if c.err == nil {
		c.err = &Error{path, message}
	}
}

var escapes, unescapes = strings.NewReplacer("~", "~0", "/", "~1"), strings.NewReplacer("~1", "/", "~0", "~")

func below(path, token string) string { return path + "/" + escapes.Replace(token) }

// node compiles the schema at a path, once per path.
func (c *compiler) node(path string, v any, depth int) *node {
	if n := c.nodes[path]; n != nil {
		return n
	}
	n := &node{path: path, least: 1, most: -1}
	if c.nodes[path] = n; !c.step(1 + len(path)/pathBytes) {
		return n
	}
	if depth > maxNesting {
		c.refuse("", "is nested too deeply")
		return n
	}
	switch v := v.(type) {
	case bool:
		n.never = !v
	case map[string]any:
		if path == "" {
			c.dialect(v)
		}
		beside := false // words that a reference of an old draft overrides
		for _, word := range slices.Sorted(maps.Keys(v)) {
			if c.err != nil {
				break
			}
			if read := c.words[word]; read != nil {
				beside = beside || word != "$ref" && word != "$defs" && word != "definitions"
				read(c, n, below(path, word), v[word], depth+1)
			} else if unsupported[word] && (word != "$id" || path != "") {
				c.refuse(below(path, word), "is not supported")
			}
		}
		if c.legacy && n.ref != nil && beside {
			c.refuse(below(path, "$ref"), "stands beside other keywords, which its draft passes over: leave $schema out")
		}
	default:
		c.refuse(path, "must be an object or a boolean")
	}
	return n
}

// dialect refuses drafts in which a schema may have another meaning.
func (c *compiler) dialect(top map[string]any) {
	said, there := top["$schema"]
	text, _ := said.(string)
	switch strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(text, "#"), "https:"), "http:") {
	case "//json-schema.org/draft/2020-12/schema", "//json-schema.org/draft/2019-09/schema":
	case "//json-schema.org/draft-07/schema", "//json-schema.org/draft-06/schema":
		c.legacy = true
	default:
		if there {
			c.refuse("/$schema", "must be https://json-schema.org/draft/2020-12/schema")
		}
	}
}

// unsupported lists keywords that must be refused. Ignoring them would change the schema's meaning.
var unsupported = map[string]bool{
	"$id": true, "$anchor": true, "$dynamicRef": true, "$dynamicAnchor": true, "$recursiveRef": true,
	"$recursiveAnchor": true, "$vocabulary": true,
	"unevaluatedItems": true, "unevaluatedProperties": true, "additionalItems": true, "dependencies": true,
}

// resolve returns the schema that a reference points to.
func (c *compiler) resolve(path string, v any, depth int) *node {
	text, ok := v.(string)
	pointer, local := strings.CutPrefix(text, "#")
	pointer, err := url.PathUnescape(pointer)
	if !ok || !local || err != nil || pointer != "" && pointer[0] != '/' {
		c.refuse(path, "must be a pointer into this schema, such as #/$defs/name")
		return &node{}
	}
	at, clean := c.doc, ""
	for _, token := range strings.Split(pointer, "/")[1:] {
		token = unescapes.Replace(token)
		clean = below(clean, token)
		switch v := at.(type) {
		case map[string]any:
			if at, ok = v[token]; ok {
				if inner, _ := at.(map[string]any); inner["$id"] != nil {
					c.refuse(path, "leads through an $id, which is not supported")
				}
				continue
			}
		case []any:
			if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(v) && strconv.Itoa(i) == token {
				at = v[i]
				continue
			}
		}
		c.refuse(path, "leads to nothing")
		return &node{}
	}
	return c.node(clean, at, depth)
}

func (c *compiler) list(path string, v any) []any {
	list, ok := v.([]any)
	if !ok {
		c.refuse(path, "must be an array")
	}
	return list
}

func (c *compiler) object(path string, v any) map[string]any {
	object, ok := v.(map[string]any)
	if !ok {
		c.refuse(path, "must be an object")
	}
	return object
}

func (c *compiler) nodesOf(path string, v any, depth int) (out []*node) {
	for i, sub := range c.list(path, v) {
		if out = append(out, c.node(below(path, strconv.Itoa(i)), sub, depth)); c.err != nil {
			break
		}
	}
	if len(out) == 0 {
		c.refuse(path, "must have a schema")
	}
	return out
}

func (c *compiler) named(path string, v any, depth int) map[string]*node {
	out := map[string]*node{}
	object := c.object(path, v)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if out[name] = c.node(below(path, name), object[name], depth); c.err != nil {
			break
		}
	}
	return out
}

func (c *compiler) text(path string, v any) string {
	text, ok := v.(string)
	if !ok {
		c.refuse(path, "must be a string")
	}
	return text
}

func (c *compiler) texts(path string, v any) (out []string) {
	seen := map[string]bool{}
	for i, v := range c.list(path, v) {
		text := c.text(below(path, strconv.Itoa(i)), v)
		if seen[text] {
			c.refuse(path, "must not name one twice")
		}
		if out, seen[text] = append(out, text), true; !c.step(1 + len(path)/pathBytes) {
			break
		}
	}
	return out
}

func (c *compiler) flag(path string, v any) bool {
	flag, ok := v.(bool)
	if !ok {
		c.refuse(path, "must be true or false")
	}
	return flag
}

func (c *compiler) number(path string, v any) *big.Rat {
	text, ok := v.(json.Number)
	if !ok {
		c.refuse(path, "must be a number")
		return new(big.Rat)
	}
	n, ok := rat(text)
	if !ok {
		c.refuse(path, "is a number too large or too small")
		return new(big.Rat)
	}
	return n
}

func (c *compiler) count(path string, v any) int {
	n := c.number(path, v)
	if !n.IsInt() || n.Sign() < 0 {
		c.refuse(path, "must be a whole number from 0")
		return 0
	}
	if !n.Num().IsInt64() || n.Num().Int64() > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(n.Num().Int64())
}
