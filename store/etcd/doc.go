// Package etcd is a store of many machines on etcd: a lock is held by a key with an etcd lease, so
// that the server's own clock ends it, and every change is a transaction that names what it
// expects to find. The ledger itself is that of package kvledger; docs/stores/etcd.md says what
// it promises here.
//
// Nothing of gRPC is used, and no connection made, before the store is first asked.
package etcd
