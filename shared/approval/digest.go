package approval

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"

	"github.com/lanekeeper/lanekeeper/shared/activity"
)

// digest is of all that an approval binds: equal for two that ask for the same,
// however a database writes their arguments.
func (a Approval) digest() (string, error) {
	arguments, err := rewritten(a.Input(), exact)
	if err != nil {
		return "", fmt.Errorf("digest of a call of %s: %w", a.Skill, err)
	}
	h := sha256.New()
	for _, part := range []string{a.Skill, a.SkillID, string(arguments), a.Execution, a.Call, strconv.FormatInt(a.ExpiresAt.UnixMicro(), 10)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// intact reports whether the approval is for what it was made for.
func (a Approval) intact() bool {
	d, err := a.digest()
	return err == nil && d == a.Digest
}

var errArguments = errors.New("the arguments are not a JSON object")

// rewritten is a JSON object in one form: names sorted, the last of equal ones,
// each text and each number as leaf writes it.
func rewritten(object json.RawMessage, leaf func(any) any) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil || v == nil {
		return nil, errArguments
	}
	return json.Marshal(each(v, leaf))
}

func each(v any, leaf func(any) any) any {
	switch v := v.(type) {
	case string, json.Number:
		return leaf(v)
	case []any:
		for i := range v {
			v[i] = each(v[i], leaf)
		}
	case map[string]any:
		for k := range v {
			v[k] = each(v[k], leaf)
		}
	}
	return v
}

// exact writes 1, 1.0 and 1e0 alike, and nothing else that differs.
func exact(v any) any {
	n, ok := v.(json.Number)
	if !ok {
		return fmt.Sprint("text ", v)
	}
	if r, ok := rational(n); ok {
		return "number " + r.RatString()
	}
	return "number " + string(n)
}

// plain writes a whole number that every reader of JSON takes exactly as such: a
// schema takes 5.0 for an integer, Go does not.
func plain(v any) any {
	if n, ok := v.(json.Number); ok {
		if r, ok := rational(n); ok && r.IsInt() && r.Num().BitLen() <= 53 {
			return json.Number(r.Num().String())
		}
	}
	return v
}

// rational is a number that is not so large or small that only its size matters.
func rational(n json.Number) (*big.Rat, bool) {
	if !activity.Fits(n) {
		return nil, false
	}
	return new(big.Rat).SetString(string(n))
}
