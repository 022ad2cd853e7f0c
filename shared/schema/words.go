package schema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// reader reads the value of a keyword into its schema.
type reader func(c *compiler, n *node, path string, v any, depth int)

// wordsOf maps each keyword to the function that reads it.
func wordsOf() map[string]reader {
	words := map[string]reader{
		"type": readType,
		"enum": func(c *compiler, n *node, path string, v any, _ int) {
			n.enums = append(n.enums, c.options(path, c.list(path, v)))
		},
		"const": func(c *compiler, n *node, path string, v any, _ int) {
			n.enums = append(n.enums, c.options(path, []any{v}))
		},
		"pattern": func(c *compiler, n *node, path string, v any, _ int) { n.pattern = c.pattern(path, c.text(path, v)) },
		"format": func(c *compiler, n *node, path string, v any, _ int) {
			if name := c.text(path, v); c.formats && formats[name] != nil {
				n.format = &format{name, formats[name]}
			}
		},
		"uniqueItems": func(c *compiler, n *node, path string, v any, _ int) { n.unique = c.flag(path, v) },
		"minContains": func(c *compiler, n *node, path string, v any, _ int) { n.least = c.count(path, v) },
		"maxContains": func(c *compiler, n *node, path string, v any, _ int) { n.most = c.count(path, v) },
		"required":    func(c *compiler, n *node, path string, v any, _ int) { n.required = c.texts(path, v) },
		"dependentRequired": func(c *compiler, n *node, path string, v any, _ int) {
			n.needs = map[string][]string{}
			for name, list := range c.object(path, v) {
				n.needs[name] = c.texts(below(path, name), list)
			}
		},
		"patternProperties": func(c *compiler, n *node, path string, v any, depth int) {
			subs := c.named(path, v, depth)
			for _, text := range slices.Sorted(maps.Keys(subs)) {
				n.patterns = append(n.patterns, patternNode{c.pattern(below(path, text), text), subs[text]})
			}
		},
		"$ref": func(c *compiler, n *node, path string, v any, depth int) { n.ref = c.resolve(path, v, depth) },
	}
	for word, kind := range map[string]string{
		"minLength": "string", "maxLength": "string", "minItems": "array", "maxItems": "array", "minProperties": "object",
		"maxProperties": "object",
	} {
		words[word] = func(c *compiler, n *node, path string, v any, _ int) {
			n.sizes = append(n.sizes, size{word, kind, c.count(path, v), strings.HasPrefix(word, "max")})
		}
	}
	for _, word := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"} {
		words[word] = func(c *compiler, n *node, path string, v any, _ int) {
			want := c.number(path, v)
			if word == "multipleOf" && want.Sign() <= 0 {
				c.refuse(path, "must be greater than 0")
			}
			text, _ := v.(json.Number)
			n.bounds = append(n.bounds, bound{word, want, numberSteps(text)})
		}
	}
	for word, to := range map[string]func(n *node) **node{
		"additionalProperties": func(n *node) **node { return &n.more }, "propertyNames": func(n *node) **node { return &n.names },
		"items": func(n *node) **node { return &n.items }, "contains": func(n *node) **node { return &n.contains },
		"not": func(n *node) **node { return &n.not }, "if": func(n *node) **node { return &n.cond },
		"then": func(n *node) **node { return &n.then }, "else": func(n *node) **node { return &n.otherwise },
	} {
		words[word] = func(c *compiler, n *node, path string, v any, depth int) { *to(n) = c.node(path, v, depth) }
	}
	for word, to := range map[string]func(n *node) *[]*node{
		"allOf": func(n *node) *[]*node { return &n.all }, "anyOf": func(n *node) *[]*node { return &n.any },
		"oneOf": func(n *node) *[]*node { return &n.one }, "prefixItems": func(n *node) *[]*node { return &n.prefix },
	} {
		words[word] = func(c *compiler, n *node, path string, v any, depth int) { *to(n) = c.nodesOf(path, v, depth) }
	}
	for word, to := range map[string]func(n *node) *map[string]*node{
		"properties": func(n *node) *map[string]*node { return &n.props }, "dependentSchemas": func(n *node) *map[string]*node { return &n.with },
		"$defs":       func(*node) *map[string]*node { return new(map[string]*node) },
		"definitions": func(*node) *map[string]*node { return new(map[string]*node) },
	} {
		words[word] = func(c *compiler, n *node, path string, v any, depth int) { *to(n) = c.named(path, v, depth) }
	}
	return words
}

func readType(c *compiler, n *node, path string, v any, _ int) {
	if one, ok := v.(string); ok {
		v = []any{one}
	}
	n.kinds = c.texts(path, v)
	if len(n.kinds) == 0 {
		c.refuse(path, "must name a type")
	}
	for _, kind := range n.kinds {
		switch kind {
		case "null", "boolean", "object", "array", "number", "string", "integer":
		default:
			c.refuse(path, "must be one of null, boolean, object, array, number, string, integer, or a list of them")
		}
	}
}

// options returns the values of enum or const.
func (c *compiler) options(path string, list []any) *options {
	o := &options{values: map[string]bool{}, told: "'enum' failed"}
	var told []string
	for _, v := range list {
		text, ok := canonical(v, func(steps int) bool { return c.step(checkSteps * steps) })
		if !ok {
			c.refuse(path, "has a number too large or too small")
		}
		o.values[text] = true
		told = append(told, display(v))
	}
	switch {
	case slices.Contains(told, ""): // not all values are simple
	case len(told) == 1:
		o.told = "value must be " + told[0]
	default:
		o.told = "value must be one of " + strings.Join(told, ", ")
	}
	return o
}
