// Package storetest is the conformance suite of onerun's stores: every promise of
// the contract in onerun's store.go, the claim table row by row, and what remains
// of them when many processes contend or one is killed at any step.
//
// A store's test calls it once:
//
//	func TestMain(m *testing.M) {
//		storetest.Child(func(ctx context.Context, url string, hook func(step string)) (onerun.Store, error) {
//			return sqlite.Open(ctx, url, sqlite.WithHook(hook))
//		})
//		os.Exit(m.Run())
//	}
//
//	func TestConformance(t *testing.T) {
//		path := filepath.Join(t.TempDir(), "onerun.db")
//		storetest.Run(t, storetest.Harness{
//			Open:    func(ctx context.Context) (onerun.Store, error) { return sqlite.Open(ctx, path) },
//			Command: storetest.Self,
//			URL:     path,
//		})
//	}
//
// The cases return errors, so that the suite can be tested itself: on stores with a
// seeded bug it has to fail, and its own test shows that it does. Where a promise
// takes another form on a store without leases (or without other processes), the
// case asserts that form; nothing is skipped.
package storetest
