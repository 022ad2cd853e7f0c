// Package app holds what every process needs: the configuration, the core, the logger and the
// Postgres connection. It is the only package that reads the configuration from the environment. It
// imports no provider of models and no SQLite, so that a function links only what it uses. Package
// app/wire builds the parts. Packages app/web, app/visit and app/hook build the handlers of HTTP,
// app/door their authentication, and app/seed the demo content.
package app
