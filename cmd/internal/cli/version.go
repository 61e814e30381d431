package cli

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"
)

// version is set by the linker in a release.
var version = "dev"

type versionCmd struct {
	JSON bool `name:"json" help:"One JSON document instead of a line."`
}

func (c *versionCmd) run(_ context.Context, e *env) error {
	v := buildVersion()
	if c.JSON {
		return writeJSON(e.out, map[string]string{"version": v, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
	}
	return say(e, "onerun %s (%s, %s/%s)", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// buildVersion is the version of this program.
func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && version == "dev" && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return version
}

// isDate reports whether a partition is a business date.
func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}
