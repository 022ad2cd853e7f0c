// Package app holds what every process needs: the configuration, the core, the logger and the
// Postgres connection. It is the only package that reads the configuration from the environment. It
// imports no provider of models and no SQLite, so that a function links only what it uses. The
// parts are built by app/wire, the handlers of HTTP by app/web, app/visit and app/hook, who may come in
// by app/door, the demo content by app/seed.
package app
