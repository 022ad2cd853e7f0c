package ratelimit_test

import (
	"testing"

	"github.com/lanekeeper/lanekeeper/shared/db/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }
