package redact

import (
	"slices"
	"strings"
)

// Tells reports whether a field, header or parameter with this name holds a secret.
func Tells(name string) bool { return sensitive(name) }

// sensitive reports whether a field with this name holds a secret. It splits the name into words,
// whether written like_this, like-this or likeThis. A name that only describes a secret is not
// sensitive: prompt_tokens, token_usage, secretName.
func sensitive(name string) bool {
	if len(name) > 100 {
		name = name[len(name)-100:]
	}
	if !telling(name) {
		return false
	}
	words := wordsOf(name)
	if len(words) == 0 {
		return false
	}
	last := words[len(words)-1]
	if describing(last) && (last != "id" || words[max(0, len(words)-2)] != "secret") {
		return false
	}
	for i, word := range words {
		before, after := "", ""
		if i > 0 {
			before = words[i-1]
		}
		if i+1 < len(words) {
			after = words[i+1]
		}
		if secretWord(word, before, after) {
			return true
		}
	}
	return false
}

// telling is a fast check for letters that a sensitive name must contain. It rules out most names.
func telling(name string) bool {
	for i := 0; i+3 <= len(name); i++ {
		switch uint32(name[i]|0x20)<<16 | uint32(name[i+1]|0x20)<<8 | uint32(name[i+2]|0x20) {
		case 'p'<<16 | 'a'<<8 | 's', 'p'<<16 | 'w'<<8 | 'd', 's'<<16 | 'e'<<8 | 'c', 't'<<16 | 'o'<<8 | 'k', 'k'<<16 | 'e'<<8 | 'y',
			'a'<<16 | 'u'<<8 | 't', 'c'<<16 | 'o'<<8 | 'o', 'c'<<16 | 'o'<<8 | 'n', 'c'<<16 | 'r'<<8 | 'e',
			'j'<<16 | 'w'<<8 | 't', 'b'<<16 | 'e'<<8 | 'a', 'd'<<16 | 's'<<8 | 'n':
			return true
		}
	}
	return false
}

// secretWord reports whether a word names a secret, given the words before and after it.
func secretWord(word, before, after string) bool {
	switch word {
	case "password", "passwords", "passwd", "passphrase", "passcode", "pwd", "secret", "secrets", "credential", "credentials", "creds",
		"authorization", "cookie", "cookies", "apikey", "apikeys", "jwt", "bearer", "dsn":
		return true
	case "token":
		switch before {
		case "max", "min", "prompt", "completion", "input", "output", "total", "cached", "reasoning", "per",
			"next", "page", "continuation", "sync", "eos", "bos", "pad", "stop":
			return false
		}
		return !describing(after)
	case "tokens":
		switch before {
		case "access", "refresh", "auth", "api", "session", "bearer", "csrf", "bot":
			return true
		}
		return false
	case "key", "keys":
		switch before {
		case "api", "private", "secret", "access", "signing", "encryption", "auth", "master", "shared", "account", "ssh", "deploy", "license":
			return true
		}
		return false
	case "pass":
		switch before {
		case "db", "database", "user", "smtp", "root", "admin", "mail", "ftp", "redis", "basic":
			return after == ""
		}
		return false
	case "string":
		return before == "connection"
	}
	return slices.ContainsFunc([]string{
		"password", "passwd", "passphrase", "secret", "apikey", "privatekey", "secretkey", "accesskey", "signingkey",
		"accesstoken", "authtoken", "refreshtoken", "sessiontoken", "idtoken", "apitoken", "bottoken", "credentials",
	}, func(end string) bool { return strings.HasSuffix(word, end) })
}

// describing reports whether a word describes a secret, so that the name belongs to something that
// may be shown.
func describing(word string) bool {
	switch word {
	case "name", "names", "arn", "type", "types", "kind", "usage", "used", "count", "counts", "limit", "limits", "budget", "remaining",
		"url", "uri", "endpoint", "policy", "policies", "length", "len", "size", "expires", "expiry", "expiration", "expired", "at",
		"ttl", "age", "cost", "price", "rate", "enabled", "required", "present", "configured", "valid", "rotation", "version",
		"hint", "status", "reset", "file", "path", "ref", "reference", "format", "field", "header", "prefix", "label",
		"description", "consent", "domain", "ratio", "id", "ids":
		return true
	}
	return false
}

// wordsOf splits a name into lower-case words. It drops digits at the end of a word.
func wordsOf(name string) []string {
	var words []string
	begin := 0
	take := func(end int) {
		if word := strings.TrimRight(name[begin:end], "0123456789"); word != "" {
			words = append(words, strings.ToLower(word))
		}
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case !alphanumeric(c) && c < 0x80:
			take(i)
			begin = i + 1
		case i > begin && upper(c) && (!upper(name[i-1]) || i+1 < len(name) && lower(name[i+1])):
			take(i)
			begin = i
		}
	}
	take(len(name))
	return words
}

func upper(c byte) bool { return 'A' <= c && c <= 'Z' }
func lower(c byte) bool { return 'a' <= c && c <= 'z' }
