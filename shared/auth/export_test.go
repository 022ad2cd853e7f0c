package auth

// SpellKey formats a key as its owner sees it.
func SpellKey(k KeyKind, random []byte) string { return spellKey(k, random) }

// Parse parses a token without verifying its signature.
func Parse(token string) error {
	_, err := parseJWS(token)
	return err
}

// ReadKey reports whether a key is spelled correctly.
func ReadKey(key string) bool {
	_, _, ok := readKey(key)
	return ok
}
