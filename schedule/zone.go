package schedule

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
	_ "time/tzdata" // slim images have no zone database of their own
)

// hostZoneName is the explicit choice of the host's zone.
const hostZoneName = "local"

// LoadZone gives the zone of that name: an IANA name such as "Asia/Seoul",
// "UTC", or "local" for the host's zone (TZ, else /etc/localtime).
//
// Every failure is a *UsageError for --tz; an unreadable zone never becomes
// UTC. That holds for "local" too, where package time would fall back to UTC
// in silence: a TZ that is empty, unknown or a POSIX rule ("KST-9"), and a host
// that names no zone at all, are errors.
//
// Names are case-sensitive, unless the host keeps its own database on a file
// system that is not. Refused though some hosts have files of that name: paths, "localtime" and "posixrules" (another zone on another
// host), "Factory" (a placeholder), "right/..." (counts leap seconds, which
// instants here do not) and "posix/..." (a second spelling of every zone).
func LoadZone(name string) (*time.Location, error) {
	switch name {
	case "":
		return nil, noZone("no time zone is given")
	case hostZoneName:
		return hostZone()
	}
	return namedZone(name)
}

func noZone(why string) *UsageError {
	return &UsageError{
		Flag: "--tz",
		Why:  why,
		Do:   "name one with --tz, ONERUN_TZ or the config file, such as Asia/Seoul, or say --tz local for this host's zone",
	}
}

func namedZone(name string) (*time.Location, error) {
	if why := notZoneName(name); why != "" {
		return nil, &UsageError{"--tz", name, orForeign(name, why), "give an IANA name such as Asia/Seoul or UTC, or local"}
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, &UsageError{
			Flag:  "--tz",
			Value: name,
			Why:   "the IANA zone database has no such zone",
			Do:    "check the spelling, upper and lower case count: Asia/Seoul, UTC",
		}
	}
	return loc, nil
}

// notZoneName says why name cannot be an IANA zone name, or "". The form is
// that of the tz database's own theory.html: parts of letters, digits, "_",
// "-" and "+", parted by single slashes. Checking it first keeps every path
// out of the file system.
func notZoneName(name string) string {
	switch {
	case strings.EqualFold(name, hostZoneName):
		return `the host's zone is spelled "local"`
	case name == "localtime" || name == "posixrules" || name == "Factory":
		return "that is no zone but a stand-in for whatever a host has set"
	case strings.HasPrefix(name, "right/") || strings.HasPrefix(name, "posix/"):
		return "that is a directory of a host's zone files, not part of a zone's name"
	case len(name) > 64:
		return "that is longer than any zone name"
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || !isLetter(part[0]) {
			return "that is not the form of a zone name"
		}
		for i := range len(part) {
			if c := part[i]; !isLetter(c) && (c < '0' || c > '9') && c != '_' && c != '-' && c != '+' {
				return "that is not the form of a zone name"
			}
		}
	}
	return ""
}

func isLetter(c byte) bool { return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' }

func hostZone() (*time.Location, error) {
	if runtime.GOOS == "windows" {
		return time.Local, nil // from the registry; there is neither TZ nor a file
	}
	tz, set := os.LookupEnv("TZ")
	return unixHostZone(tz, set, "/etc/localtime")
}

// unixHostZone reads the host's zone as tzset(3) does, but refuses where
// tzset(3) and package time would go on with UTC.
func unixHostZone(tz string, set bool, localtime string) (*time.Location, error) {
	refuse := func(why string) (*time.Location, error) {
		return nil, &UsageError{"--tz", hostZoneName, why, "name the zone itself, such as --tz Asia/Seoul, or --tz UTC if that is meant"}
	}
	name := strings.TrimPrefix(tz, ":") // POSIX: a colon marks what is no rule
	file := localtime
	switch {
	case !set:
	case name == "":
		return refuse("TZ is set but empty")
	case filepath.IsAbs(name):
		file = name
	default:
		loc, err := namedZone(name)
		if err != nil {
			return refuse("TZ=" + quote(tz) + " is not in the IANA zone database")
		}
		return loc, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return refuse("this host names no zone: TZ is " + unsetOr(tz, set) + " and " + quote(file) + " cannot be read")
	}
	loc, err := time.LoadLocationFromTZData("Local", data)
	if err != nil {
		return refuse(quote(file) + " is not a zone file")
	}
	return loc, nil
}

func unsetOr(tz string, set bool) string {
	if !set {
		return "not set"
	}
	return quote(tz)
}
