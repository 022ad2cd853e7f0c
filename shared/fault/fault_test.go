//go:build !faults

package fault_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/fault"
)

// TestShippedVariantIsEmpty: without the tag a driver that is named by the
// environment is never asked, and a point costs no allocation.
func TestShippedVariantIsEmpty(t *testing.T) {
	driver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the driver was asked: %s", r.URL.Path)
	}))
	defer driver.Close()
	t.Setenv("LK_FAULT_URL", driver.URL)

	ctx := t.Context()
	allocs := testing.AllocsPerRun(10, func() {
		if err := fault.Point(ctx, "point", "key"); err != nil {
			t.Error(err)
		}
		fault.Effect(ctx, "effect", "key")
	})
	if allocs != 0 {
		t.Errorf("a point and an effect allocate %v times, want 0", allocs)
	}
}
