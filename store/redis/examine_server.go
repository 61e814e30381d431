package redis

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/onerun-dev/onerun"
)

// eviction looks at what the server does when its memory is full.
func (x *examination) eviction() {
	const check = "eviction"
	policy, limit := x.info["maxmemory_policy"], number(x.info["maxmemory"])
	const remedy = "set maxmemory-policy noeviction; give the ledger a server of its own if others want another policy"
	used := fmt.Sprintf("maxmemory is %s, of which %s are used", x.info["maxmemory_human"], x.info["used_memory_human"])
	if limit == 0 {
		used = "maxmemory is not set"
	}
	switch {
	case policy == "noeviction" && limit > 0 && number(x.info["used_memory"]) > limit/10*9:
		x.add(check, onerun.FindingWarning, used+": when it is full every start is refused with an error, and no end can be recorded", "prune the ledger, or raise maxmemory")
	case policy == "noeviction":
		x.add(check, onerun.FindingOK, "maxmemory-policy is noeviction; "+used, "")
	case strings.HasPrefix(policy, "volatile-"):
		x.add(check, onerun.FindingWarning, "maxmemory-policy is "+policy+": it takes only keys that expire, which none of this store's does; whoever changes it to allkeys-… makes jobs run twice; "+used, remedy)
	case limit == 0:
		x.add(check, onerun.FindingWarning, "maxmemory-policy is "+policy+": as soon as there is a maxmemory, locks and runs can vanish", remedy)
	default:
		x.add(check, onerun.FindingDanger, "maxmemory-policy is "+policy+": the server may throw away a lock or a SUCCEEDED run at any time, and its job runs twice; "+used, remedy)
	}
}

// durability looks at what a crash or a restart of the server loses.
func (x *examination) durability() {
	const check = "durability"
	const remedy = "appendonly yes and appendfsync always in redis.conf, if a start is worth waiting for a disk"
	if x.info["aof_enabled"] != "1" {
		save, err := x.setting("save")
		switch {
		case err == nil && save == "":
			x.add(check, onerun.FindingDanger, "nothing is kept on a disk: a restart forgets every run, and dates that SUCCEEDED run again", remedy)
		default:
			x.add(check, onerun.FindingDanger, "appendonly is off: a crash of the server loses what was acknowledged since its last snapshot: jobs can run twice, and dates that SUCCEEDED run again", remedy)
		}
		return
	}
	if s := x.info["aof_last_write_status"]; s != "ok" && s != "" {
		x.add(check, onerun.FindingDanger, "the server can't write its append-only file: "+s, "look at the server's log and its disk")
		return
	}
	fsync, err := x.setting("appendfsync")
	pauses := ""
	if err == nil {
		pauses, err = x.setting("no-appendfsync-on-rewrite")
	}
	if pauses == "yes" && fsync != "no" {
		x.add(check, onerun.FindingDanger, "no-appendfsync-on-rewrite is yes: while the server rewrites its file, minutes perhaps, nothing waits for the disk, whatever appendfsync says ("+fsync+")",
			"no-appendfsync-on-rewrite no in redis.conf, and CONFIG SET")
		return
	}
	switch {
	case !x.unless(err, check, "allow the user +config|get, or look at appendfsync yourself"):
	case fsync == "always":
		x.add(check, onerun.FindingOK, "appendonly is on, and appendfsync is always: what was acknowledged outlasts a crash", "")
	case fsync == "everysec":
		x.add(check, onerun.FindingWarning, "appendfsync is everysec: a crash of the server's machine loses the last second or two: a claim, and two jobs can run at once; or a SUCCEEDED, and its date runs again", remedy)
	default:
		x.add(check, onerun.FindingDanger, "appendfsync is "+fsync+": a crash of the server's machine loses what its disk wasn't given yet, half a minute perhaps", remedy)
	}
}

// replicas looks at what a failover would lose.
func (x *examination) replicas() {
	const check = "replicas"
	n := number(x.info["connected_slaves"])
	least, err := x.setting("min-replicas-to-write")
	good, told := x.info["min_slaves_good_slaves"] // only where the setting does something
	few := err == nil && told && number(good) < number(least)
	if few {
		x.add(check, onerun.FindingDanger, fmt.Sprintf("min-replicas-to-write is %s, and %s replicas keep up: every start is refused with an error, and no end can be recorded", least, good),
			"look at the replicas, or lower min-replicas-to-write")
	}
	switch {
	case n == 0 && few:
		return
	case n == 0:
		x.add(check, onerun.FindingOK, "none is connected: this server's disk alone keeps the ledger", "")
		return
	}
	var lags []string
	behind := false
	for i := range n {
		fields := map[string]string{}
		for pair := range strings.SplitSeq(x.info["slave"+strconv.FormatInt(i, 10)], ",") {
			name, v, _ := strings.Cut(pair, "=")
			fields[name] = v
		}
		lag := number(x.info["master_repl_offset"]) - number(fields["offset"])
		behind = behind || fields["state"] != "online" || number(fields["lag"]) > 10
		lags = append(lags, fmt.Sprintf("replica %s:%s is %s, %d bytes behind, last heard of %s s ago", fields["ip"], fields["port"], fields["state"], lag, fields["lag"]))
	}
	words := strings.Join(lags, ", ")
	const loses = "replication is asynchronous, whatever the settings: a failover can lose the last moments: a claim, and two jobs run at once until the first hears of it, or a SUCCEEDED, and its date runs again"
	const remedy = "min-replicas-to-write 1 and min-replicas-max-lag 1 make the moments fewer; after a failover look at what ran last"
	switch {
	case err != nil:
		x.add(check, onerun.FindingWarning, words+"; "+loses, remedy)
	case behind:
		x.add(check, onerun.FindingDanger, words+": a failover to it would lose all since then", "look at the replica")
	default:
		x.add(check, onerun.FindingWarning, fmt.Sprintf("%s; min-replicas-to-write is %s; %s", words, least, loses), remedy)
	}
}

// needed are the commands that the store uses, as ACL SETUSER takes them.
var needed = [...]string{
	"evalsha", "eval", "time", "multi", "exec", "get", "set", "del", "exists", "hget", "hset", "hdel", "hmget", "hgetall", "hvals", "hincrby",
	"lindex", "llen", "lrange", "rpush", "sadd", "srem", "smembers", "zadd", "zrem", "zrangebyscore", "zrevrange", "zrevrangebyscore",
}

// commands looks for those that the server doesn't have, or calls otherwise.
func (x *examination) commands() {
	const check = "commands"
	args := []any{"COMMAND", "INFO"}
	for _, name := range needed {
		args = append(args, name)
	}
	found, err := ask(x, func() ([]any, error) { return x.s.db.Do(x.ctx, args...).Slice() })
	if !x.unless(err, check, "allow the user +command|info") {
		return
	}
	var missing []string
	for i, v := range found {
		if v == nil {
			missing = append(missing, needed[i])
		}
	}
	if len(missing) > 0 {
		x.add(check, onerun.FindingDanger, "the server doesn't know "+strings.Join(missing, ", ")+" by that name", "take rename-command for them out of redis.conf; an ACL can keep others from using them")
		return
	}
	x.add(check, onerun.FindingOK, fmt.Sprintf("the server knows all %d that are needed", len(needed)), "")
}

// permissions asks the server what it would let this user do.
func (x *examination) permissions() {
	const check = "permissions"
	who, err := ask(x, func() (string, error) { return x.s.db.Do(x.ctx, "ACL", "WHOAMI").Text() })
	if !x.unless(err, check, "allow the user +acl|whoami and +acl|dryrun, or compare its rights with docs/stores/redis.md") {
		return
	}
	key := x.s.keys(onerun.DefaultNamespace).dir()
	var denied []string
	for _, name := range needed {
		args := []any{"ACL", "DRYRUN", who, name}
		switch name {
		case "time", "multi", "exec":
		case "evalsha", "eval":
			args = append(args, "x", "1", key)
		case "hset", "zadd":
			args = append(args, key, "1", "1")
		case "zrangebyscore", "zrevrange", "zrevrangebyscore", "lrange", "hincrby":
			args = append(args, key, "1", "1")
		case "get", "del", "exists", "hgetall", "hvals", "llen", "smembers":
			args = append(args, key)
		default:
			args = append(args, key, "1")
		}
		answer, err := ask(x, func() (string, error) { return x.s.db.Do(x.ctx, args...).Text() })
		switch {
		case err != nil && !strings.Contains(err.Error(), "wrong number of arguments"):
			x.unless(err, check, "allow the user +acl|dryrun (Redis 7 and later), or compare its rights with docs/stores/redis.md")
			return
		case err == nil && answer != "OK":
			denied = append(denied, name)
		}
	}
	if len(denied) > 0 {
		x.add(check, onerun.FindingDanger, fmt.Sprintf("user %s may not use %s on %s", who, strings.Join(denied, ", "), key), "grant what docs/stores/redis.md lists")
		return
	}
	x.add(check, onerun.FindingOK, "user "+who+" may do all that is needed", "")
}
