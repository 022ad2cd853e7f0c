package redact

// Sensitive reports whether a field's name tells of a secret.
var Sensitive = sensitive
