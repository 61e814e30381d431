package redis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	driver "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/onerun-dev/onerun"
)

// sentinels asks each Sentinel of the URL by itself what it knows. Sentinels that name two primaries are two stores: a
// key is claimed at both.
func (x *examination) sentinels() {
	const check = "sentinels"
	name := x.s.cfg.sentinel
	if name == "" {
		return
	}
	var silent []string
	primaries := map[string][]string{} // their addresses, with who names them
	known, least := int64(0), int64(0) // Sentinels; those of them who must agree that the primary is gone
	for _, host := range x.s.cfg.hosts {
		primary, err := x.sentinel(host)
		if err != nil {
			silent = append(silent, host+": "+x.words(err))
			continue
		}
		at := primary["ip"] + ":" + primary["port"]
		primaries[at] = append(primaries[at], host)
		known, least = max(known, number(primary["num-other-sentinels"])+1), max(least, number(primary["quorum"]))
	}
	words := fmt.Sprintf("%s is watched by %d, of which %d must agree that it is gone", name, known, least)
	switch {
	case len(primaries) == 0:
		x.add(check, onerun.FindingDanger, "none answers: "+strings.Join(silent, ", "), "look at the Sentinels that the store's URL names")
	case len(primaries) > 1:
		var said []string
		for _, at := range slices.Sorted(maps.Keys(primaries)) {
			said = append(said, strings.Join(primaries[at], " and ")+" name "+at)
		}
		x.add(check, onerun.FindingDanger, "they name two primaries, and a date can run once on each: "+strings.Join(said, ", "),
			"where that is more than a failover of this moment: SENTINEL RESET on those that are wrong, or name one set of Sentinels in the URL")
	case len(silent) > 0:
		x.add(check, onerun.FindingWarning, words+"; not all of the URL answer: "+strings.Join(silent, ", "), "look at those")
	case known < 3:
		x.add(check, onerun.FindingWarning, words+": a failover needs the majority of all Sentinels, and with fewer than three of them none may go down with the primary",
			"three Sentinels or more, on machines that fail by themselves")
	default:
		x.add(check, onerun.FindingOK, words, "")
	}
}

// sentinel asks one Sentinel what it knows of the primary.
func (x *examination) sentinel(host string) (map[string]string, error) {
	c := &x.s.cfg
	client := driver.NewSentinelClient(&driver.Options{
		Addr: host, Username: c.sentinelUser, Password: c.sentinelPassword, Dialer: c.dial, DialTimeout: c.connectTimeout, DialerRetries: 1,
		ReadTimeout: patience, WriteTimeout: patience, ContextTimeoutEnabled: true, MaxRetries: -1, Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer func() { _ = client.Close() }()
	return ask(x, func() (map[string]string, error) { return client.Master(x.ctx, c.sentinel).Result() })
}
