package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// otherStore is a store on this host that is not the one under examination.
type otherStore struct {
	path    string
	usual   bool     // the one that some account uses when it names none
	found   []string // where it is named
	jobs    []string // that have runs there, or are started there
	unknown string   // why its jobs are not known
}

// otherStores looks for other stores on this host: two that have the same job exclude
// nobody from running it twice.
func (d *doctor) otherStores(ctx context.Context) {
	const check = "other-stores"
	ours := d.jobNames()
	for _, o := range d.findStores(ctx) {
		d.others = append(d.others, o)
		where := o.path + " (" + strings.Join(o.found, ", ") + ")"
		const remedy = "name one store for both, in a configuration file or with --store in every crontab line"
		var both []string
		for _, job := range o.jobs {
			if slices.Contains(ours, job) && (d.job == "" || d.job == job) {
				both = append(both, job)
			}
		}
		switch {
		case len(both) > 0:
			d.add(check, onerun.FindingDanger, fmt.Sprintf("%s has the same jobs as this store: %s; each store lets one of them run", where, some(both)), remedy)
		case o.unknown != "":
			d.add(check, onerun.FindingUnknown, fmt.Sprintf("whether %s has the same jobs can't be seen: %s", where, o.unknown), "run onerun doctor as its account, or as root")
		case o.usual && (sharedByGroup(filepath.Dir(d.path)) || sharedByGroup(filepath.Dir(o.path))):
			d.add(check, onerun.FindingWarning, where+" is what an account uses that names no store, beside the shared one: its starts would not be excluded", remedy)
		}
	}
	d.fine(check, fmt.Sprintf("no other store on this host has the same jobs; looked at: %d stores, %d accounts, %d lines of crontabs and services, and %d processes of onerun",
		len(d.others), len(d.accounts), len(d.crons), len(d.procs)))
}

// jobNames are the jobs of this store: with runs, or started by a crontab that uses it.
func (d *doctor) jobNames() (names []string) {
	if d.job != "" { // asked about, whether this store knows it or not: it may be the wrong one
		names = append(names, d.job)
	}
	for _, j := range d.jobs {
		names = append(names, j.name)
	}
	for _, c := range d.crons {
		if c.job != "" && c.file(d.accounts) == d.path {
			names = append(names, c.job)
		}
	}
	return names
}

// findStores finds the other stores.
func (d *doctor) findStores(ctx context.Context) []otherStore {
	var all []otherStore
	add := func(path, found, job string, usual, mustExist bool) {
		path = realPath(path)
		if path == "" || sameFile(path, d.path) {
			return
		}
		if _, err := os.Stat(path); err != nil && mustExist { // or it can't be seen, which for a home is as usual
			return
		}
		i := slices.IndexFunc(all, func(o otherStore) bool { return sameFile(o.path, path) })
		if i < 0 {
			i = len(all)
			all = append(all, otherStore{path: path})
		}
		all[i].usual = all[i].usual || usual
		if !slices.Contains(all[i].found, found) {
			all[i].found = append(all[i].found, found)
		}
		if job != "" && !slices.Contains(all[i].jobs, job) {
			all[i].jobs = append(all[i].jobs, job)
		}
	}
	add(filepath.Join(shared, sqlite.DatabaseName), "the machine's", "", true, true)
	for _, a := range d.accounts {
		if a.home != "" {
			add(filepath.Join(usualIn(a.home), sqlite.DatabaseName), "the home of "+a.name, "", true, true)
		}
	}
	if url := os.Getenv("ONERUN_STORE"); url != "" {
		if path := storeFile(url, "."); path != "" {
			add(path, "ONERUN_STORE", "", false, true)
		}
	}
	for _, c := range d.crons {
		if path := c.file(d.accounts); path != "" {
			add(path, c.where, c.job, c.url == "", false)
		}
	}
	for _, p := range d.procs {
		if path := p.file(d.accounts); path != "" {
			add(path, fmt.Sprintf("process %d", p.pid), p.job, false, false)
		}
	}
	for i := range all {
		d.readOther(ctx, &all[i])
	}
	return all
}

// readOther reads the jobs of another store, which may not be there yet, or be out of reach.
func (d *doctor) readOther(ctx context.Context, o *otherStore) {
	if _, err := os.Stat(o.path); os.IsNotExist(err) {
		return
	}
	names, err := d.jobsOf(ctx, o.path)
	if err != nil {
		o.unknown = err.Error()
		return
	}
	for _, n := range names {
		if !slices.Contains(o.jobs, n) {
			o.jobs = append(o.jobs, n)
		}
	}
}

func (d *doctor) jobsOf(ctx context.Context, path string) ([]string, error) {
	ctx, cancel := d.env.bound(ctx)
	defer cancel()
	s, err := sqlite.Open(ctx, path, sqlite.Looking())
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	return namesIn(ctx, s, d.env.Namespace)
}

// namesIn lists the jobs that have runs in a store.
func namesIn(ctx context.Context, s onerun.Store, namespace string) ([]string, error) {
	lister, ok := onerun.Ability[jobLister](s)
	if !ok {
		return nil, nil
	}
	return lister.JobNames(ctx, namespace)
}

// jobLister is an ability of a store, which doctor asks for alone.
type jobLister interface {
	JobNames(ctx context.Context, namespace string) ([]string, error)
}

func sameFile(a, b string) bool {
	if a == b {
		return true
	}
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// some names the first few of many.
func some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
