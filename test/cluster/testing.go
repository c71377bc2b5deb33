package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
)

// shared is the one cluster of a test process: a start takes seconds and half a gigabyte, so the tests of a package
// share it and keep to namespaces of their own.
var shared struct {
	once    sync.Once
	cluster *Cluster
	err     error
}

// ForTest is the cluster that all tests of this process share, started by the first that asks. It ends with the process,
// or earlier with [ForMain]. Where the programs are not on this machine the test is skipped, unless the environment says
// WAYBILL_TEST_CLUSTER=required: then it fails.
func ForTest(t testing.TB) *Cluster {
	t.Helper()
	shared.once.Do(func() { shared.cluster, shared.err = Start(context.Background(), Options{}) })
	if errors.Is(shared.err, ErrNoPrograms) && os.Getenv("WAYBILL_TEST_CLUSTER") != "required" {
		t.Skip(shared.err)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// ForMain runs the tests of a package and stops the cluster they shared, and waits for its end. It is for a TestMain that
// wants nothing of the cluster left a moment after the process; without it the cluster ends just the same.
//
//	func TestMain(m *testing.M) { os.Exit(cluster.ForMain(m)) }
func ForMain(m interface{ Run() int }) (code int) {
	code = m.Run()
	shared.once.Do(func() { shared.err = ErrNoPrograms }) // none was started, and none will be
	if shared.cluster == nil {
		return code
	}
	if err := shared.cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the test cluster:", err)
		return max(code, 1)
	}
	return code
}
