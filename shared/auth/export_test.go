package auth

// SpellKey writes a key as it is written for its owner.
func SpellKey(k KeyKind, random []byte) string { return spellKey(k, random) }

// Parse takes a token apart without asking whether it is signed.
func Parse(token string) error {
	_, err := parseJWS(token)
	return err
}

// ReadKey reports whether a key is spelled right.
func ReadKey(key string) bool {
	_, _, ok := readKey(key)
	return ok
}
