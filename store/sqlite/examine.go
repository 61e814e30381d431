package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/onerun-dev/onerun"
)

// examination is one look at a store, for what would make it unsafe.
type examination struct {
	s        *Store
	ctx      context.Context
	findings []onerun.Finding
}

// Examine implements onerun.Examiner. It changes nothing, and takes no lock that a start
// might want. What takes longer the larger the ledger is (its integrity, the chains of
// events) is given up after a third each of the time that ctx leaves, and is unknown then.
//
// Errors: those of opening the store; a database that is corrupt or somebody else's is a
// finding.
func (s *Store) Examine(ctx context.Context) ([]onerun.Finding, error) {
	x := &examination{s: s, ctx: ctx}
	x.places()
	x.room()
	x.access()
	if err := x.lockFiles(); err != nil {
		return nil, err
	}
	if err := x.database(); err != nil {
		return nil, err
	}
	return x.findings, nil
}

func (x *examination) add(check string, status onerun.FindingStatus, evidence, remedy string) {
	x.findings = append(x.findings, onerun.Finding{Check: check, Status: status, Evidence: evidence, Remedy: remedy})
}

// about says that the last finding concerns one job alone.
func (x *examination) about(job string) { x.findings[len(x.findings)-1].Job = job }

// fine adds that a check found nothing, if it has found nothing.
func (x *examination) fine(check, evidence string) {
	for _, f := range x.findings {
		if f.Check == check {
			return
		}
	}
	x.add(check, onerun.FindingOK, evidence, "")
}

// unless adds that a check could not be made, if it could not.
func (x *examination) unless(err error, check string) bool {
	if err == nil {
		return true
	}
	x.add(check, onerun.FindingUnknown, err.Error(), "")
	return false
}

// database looks at the ledger.
func (x *examination) database() error {
	path := x.s.path
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		x.add("store", onerun.FindingUnknown, "there is no store yet at "+path, "")
		return nil
	case err != nil:
		return cantOpen(path, err)
	}
	if err := regular(path); err != nil {
		x.refused("store-file", err)
		return nil
	}
	if st.Size() == 0 {
		x.add("store", onerun.FindingUnknown, path+" is empty: the first start makes a store of it", "")
		return nil
	}
	d, err := lookDB(x.ctx, path)
	if err == nil {
		defer func() { _ = d.close() }()
		err = x.schema(d)
	}
	var refused *onerun.StoreError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused) && (errors.Is(err, onerun.ErrConfig) || errors.Is(err, onerun.ErrCreate)):
		x.refused("schema", err)
		return nil
	case errors.As(err, &refused) && errors.Is(err, onerun.ErrIO):
		x.refused("integrity", err)
		return nil
	}
	return err
}

// refused puts an error that every start would meet as a finding.
func (x *examination) refused(check string, err error) {
	var e *onerun.StoreError
	if !errors.As(err, &e) {
		x.add(check, onerun.FindingDanger, err.Error(), "")
		return
	}
	x.add(check, onerun.FindingDanger, fmt.Sprintf("%s: %v", e.Path, e.Err), e.Do)
}

// directories are those of the database and of the lock files.
func (x *examination) directories() []string {
	dir := filepath.Dir(x.s.path)
	if plain, err := filepath.EvalSymlinks(dir); err == nil {
		dir = plain
	}
	return []string{dir, x.s.lockDir}
}

// within reports whether a path is a directory, or lies below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
