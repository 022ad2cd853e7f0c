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
	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
)

// digest hashes everything that an approval is for. It is the same for equal requests, independent
// of how a database formats the arguments.
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

// sameCall reports whether another approval was requested for the same skill with equal arguments.
func (a Approval) sameCall(other Approval) bool {
	mine, err := rewritten(a.Arguments, exact)
	if err != nil {
		return false
	}
	theirs, err := rewritten(other.Arguments, exact)
	return err == nil && a.Skill == other.Skill && a.SkillID == other.SkillID && bytes.Equal(mine, theirs)
}

// intact reports whether the stored call is unchanged since the digest was made.
func (a Approval) intact() bool {
	d, err := a.digest()
	return err == nil && d == a.Digest
}

var errArguments = errors.New("the arguments are not a JSON object")

// rewritten returns a JSON object in one form: with sorted names, with the last of duplicate names,
// and with each text and number written by leaf.
func rewritten(object json.RawMessage, leaf func(any) any) (json.RawMessage, error) {
	var v map[string]any
	if err := jsonscan.Decode(object, &v); err != nil || v == nil {
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

// exact writes equal numbers such as 1, 1.0 and 1e0 in the same form. All other values stay
// different.
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

// plain writes a whole number so that every JSON reader accepts it as an integer. A schema accepts
// 5.0 as an integer, but Go does not.
func plain(v any) any {
	if n, ok := v.(json.Number); ok {
		if r, ok := rational(n); ok && r.IsInt() && r.Num().BitLen() <= 53 {
			return json.Number(r.Num().String())
		}
	}
	return v
}

// rational returns a number's exact value. It returns false for numbers that are too large or too
// small.
func rational(n json.Number) (*big.Rat, bool) {
	if !activity.Fits(n) {
		return nil, false
	}
	return new(big.Rat).SetString(string(n))
}
