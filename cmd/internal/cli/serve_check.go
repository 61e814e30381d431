package cli

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/config"
	"github.com/onerun-dev/onerun/internal/storeurl"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// check is serve --check: all that is wrong with the file, and with what it names.
func (c *serveCmd) check(ctx context.Context, e *env) error {
	wrong := mistakes{path: e.file.Path}
	unread := e.checkStore(ctx, &wrong) // first: another program may have to take this one's place for it
	jobs, err := e.scheduled()
	var more config.Errors
	if err != nil && !errors.As(err, &more) {
		return err
	}
	wrong.list = append(wrong.list, more...)
	e.checkFiles(&wrong)
	e.checkOrder(&wrong)
	if wrong.list != nil {
		return wrong.list.OrNil()
	}
	return say(e, "%s is fine: %d jobs, %d of them with a schedule%s", e.file.Path, len(e.file.Jobs), len(jobs), unread)
}

// checkStore refuses a store's URL that could not be opened, whatever else may be the store in use. That it can't be reached is no mistake of
// the file. unread says what could not be looked at.
func (e *env) checkStore(ctx context.Context, wrong *mistakes) (unread string) {
	at, ok := e.file.Top["store"]
	if !ok {
		return ""
	}
	var p place
	p.url, _ = e.storeInFile()
	err := e.follow(&p)
	if err == nil {
		err = e.understood(ctx, p.url)
	}
	if errors.Is(err, errUnread) {
		return "; " + err.Error()
	}
	if err != nil {
		wrong.put(at, "store", err)
	}
	return ""
}

var errUnread = errors.New("its store's URL can be read by its scheme alone, since another program has the driver, and this is no plain file that it could read again")

// understood refuses a store's URL as opening it would, and asks no store. This program doesn't come back from it where another has the driver.
func (e *env) understood(ctx context.Context, url string) error {
	kind, err := storeurl.KindOf(url)
	if err != nil {
		return err
	}
	if kind == storeurl.Local {
		return sqlite.CheckURL(url)
	}
	err = ErrNotLinked
	if e.remote != nil {
		var s onerun.Store
		if s, err = e.remote(ctx, url, "", true); err == nil {
			return s.Close()
		}
	}
	switch {
	case errors.Is(err, ErrNotLinked) && e.once != "":
		return errUnread
	case errors.Is(err, ErrNotLinked):
		return e.handOver(url)
	case errors.Is(err, onerun.ErrUnavailable):
		return nil
	}
	return err
}

// checkFiles reads the files in which addresses stand, as a start of each job would.
func (e *env) checkFiles(wrong *mistakes) {
	look := func(key string, at config.Value, read func(address) error) {
		if a := address(e.fileOf(at.Text)); strings.HasPrefix(string(a), "@") {
			if err := read(a); err != nil {
				wrong.put(at, key, err)
			}
		}
	}
	whom := func(a address) error { _, err := notifyFlags{Notify: addresses{a}}.read(); return err }
	ping := func(a address) error { _, err := notifyFlags{Ping: a}.read(); return err }
	for _, row := range e.file.Top["alerts"].Table {
		if v, ok := row["url"]; ok {
			look("url", v, whom)
		}
	}
	for _, values := range append(slices.Collect(maps.Values(e.file.Jobs)), e.file.Defaults) {
		for i := range values["notify"].List {
			look("notify", values["notify"].Item(i), whom)
		}
		if v, ok := values["ping"]; ok {
			look("ping", v, ping)
		}
	}
}

// checkOrder refuses an order among those who wait that the file's store keeps for nobody: it would refuse each start.
func (e *env) checkOrder(wrong *mistakes) {
	var p place
	if p.url, _ = e.storeInFile(); p.url == "" || e.follow(&p) != nil {
		return
	}
	if kind, err := storeurl.KindOf(p.url); err != nil || kind == storeurl.Local || strings.HasPrefix(p.url, "postgres") {
		return
	}
	for _, values := range append(slices.Collect(maps.Values(e.file.Jobs)), e.file.Defaults) {
		if v := values["order"]; v.Text == string(onerun.OrderFIFO) {
			wrong.add(v, "order: this store keeps no order among those that wait; the embedded one and PostgreSQL do")
		}
	}
}
