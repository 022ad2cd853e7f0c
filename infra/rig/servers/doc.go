// Package servers runs the servers that the tests use: a private PostgreSQL, a PgBouncer in front
// of it, and a Redis. Each has a free loopback port and its own directory.
//
//	set, err := servers.Start(ctx, servers.Options{Postgres: servers.PostgresOptions{Fast: true}})
//	defer set.Close()
//	cmd.Env = append(os.Environ(), set.Env()...)
//
// A test that must disturb a server, or count what it does, starts its own:
//
//	pg, err := servers.StartPostgres(ctx, "", servers.PostgresOptions{Quiet: true})
//	defer pg.Close()
//	err = pg.Restart(ctx, servers.Immediate) // a crash, and the recovery from it
//
// Programs come from the machine's packages. As root on Debian or Ubuntu, missing programs are
// installed with apt-get. Elsewhere a [MissingError] says what to install, or which variable to set
// instead. When the TEST_* variable of a server is set, that server is used as it is, and none is
// started.
//
// Three choices are deliberate. Ports are below the range from which the kernel takes ports for
// outgoing connections, so that no client can take a server's port while the server restarts. Each
// server runs in its own process group, so that Ctrl-C in a terminal reaches the tests first, and
// the servers only through Close. And on Linux the kernel ends the servers when the test process
// dies, even by kill -9; a later start removes temporary directories that are left over.
package servers
