package redact

// Sensitive is sensitive for the tests.
var Sensitive = sensitive
