//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/migrations"
	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

// A running runner notices that a newer build has migrated its database. It writes nothing more
// there, says so, and stops.
func TestARunnerStopsWhereItsDatabaseIsMigrated(t *testing.T) {
	t.Parallel()
	binary := built(t)
	build := migrations.Latest()
	for _, engine := range []string{dbtest.OnSQLite, dbtest.OnPostgres} {
		t.Run(engine, func(t *testing.T) {
			h := newHome(t, "LLM_PROVIDER=demo", "DEMO=0", "COORDINATOR_EVERY=1m")
			server := ""
			if engine == dbtest.OnPostgres {
				server = dbtest.NewDatabase(t)
				h.environ = append(h.environ, "STATE_BACKEND=postgres", "DATABASE_URL="+server)
			}
			cmd, r := startIn(t, binary, h)
			url, token, _ := r.started()
			upgrade := func(version, oldest int64) {
				if engine == dbtest.OnPostgres {
					upgradeServer(t, server, version, oldest)
				} else {
					upgradeFile(t, h.file(), version, oldest)
				}
			}
			create := func() (int, string) {
				t.Helper()
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/v1/objectives", strings.NewReader(`{"title": "x"}`))
				if err != nil {
					t.Fatal(err)
				}
				request.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}
				answer, err := http.DefaultClient.Do(request)
				if err != nil { // it has stopped
					return http.StatusServiceUnavailable, err.Error()
				}
				defer answer.Body.Close()
				text, _ := io.ReadAll(answer.Body)
				return answer.StatusCode, string(text)
			}
			upgrade(build+1, build)
			if status, text := create(); status != http.StatusCreated {
				t.Errorf("under a newer schema that is open to it: %d %s", status, text)
			}
			upgrade(build+7, 0)
			if status, text := create(); status != http.StatusServiceUnavailable {
				t.Errorf("under one that is closed to it: %d %s", status, text)
			}
			if end, limited := t.Deadline(); limited { // nothing else ends a runner that does not stop
				late := time.AfterFunc(time.Until(end)/2, func() { _ = cmd.Process.Kill() })
				defer late.Stop()
			}
			err := cmd.Wait()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitDatabase {
				t.Errorf("it ended with %v\n%s", err, r)
			}
			both := fmt.Sprintf("the database schema is at version %d, which needs a build of version %d or later, and this build has %d",
				build+7, build+7, build)
			says(t, r.errs.String(), both, "run a newer build")
			if n := strings.Count(r.out.String(), "stopping:"); n != 1 {
				t.Errorf("it says %d times that it stops\n%s", n, r)
			}
		})
	}
}
