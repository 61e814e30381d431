package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// poolSize is how many connections a store opens at most, unless pool_max_conns in the URL
// says otherwise. A process that runs one job needs one.
const poolSize = 4

// parse reads a URL as pgx takes it, which is as libpq does, with one parameter of onerun's
// own: schema.
func parse(rawURL string) (cfg *pgxpool.Config, schema string, err error) {
	bad := func(err error) error {
		return &onerun.StoreError{
			Kind: onerun.ErrUsage, What: "read the URL of the store", Err: err,
			Do: "write it as postgres://USER@HOST:PORT/DATABASE?schema=NAME, the password in a file (passfile, or ~/.pgpass)",
		}
	}
	scheme, _, ok := strings.Cut(rawURL, "://")
	if !ok || scheme != "postgres" && scheme != "postgresql" {
		return nil, "", bad(errors.New("it begins neither with postgres:// nor with postgresql://"))
	}
	rest, schema, sized, err := split(rawURL)
	if err != nil {
		return nil, "", bad(err)
	}
	cfg, err = pgxpool.ParseConfig(rest)
	if err != nil {
		_, after, _ := strings.Cut(rest, "://")
		if i := strings.IndexAny(after, "/?"); i >= 0 && strings.Contains(after[i:], "@") { // else a part of it would be in the error
			return nil, "", bad(errors.New("a / or ? in its password has to be written as %2F or %3F"))
		}
		// The driver's words can hold the URL, and so a password.
		return nil, "", bad(errors.New(sqlledger.Masked(innermost(err), passwordIn(rest))))
	}
	if !sized {
		cfg.MaxConns = poolSize
	}
	// A named prepared statement belongs to a session, and behind a pooling proxy no two
	// transactions have to be of one session.
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	cfg.ConnConfig.StatementCacheCapacity, cfg.ConnConfig.DescriptionCacheCapacity = 0, 0
	// Whether a connection is still good shows when it is used: asking first would be one
	// more round trip.
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	named := cfg.ConnConfig.RuntimeParams["application_name"] != ""
	cfg.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		renew(rest, c)
		if name, ok := ctx.Value(applicationKey{}).(string); ok && !named {
			c.RuntimeParams["application_name"] = name
		}
		return nil
	}
	if !named {
		cfg.ConnConfig.RuntimeParams["application_name"] = "onerun"
	}
	if cfg.ConnConfig.ConnectTimeout == 0 || cfg.ConnConfig.ConnectTimeout == 2*time.Minute {
		cfg.ConnConfig.ConnectTimeout = 10 * time.Second
	}
	return cfg, schema, nil
}

// applicationKey is the key of a context's value that names a session.
type applicationKey struct{}

// applicationName is what a session calls itself: whoever looks at pg_stat_activity finds
// the run.
func applicationName(runID string) string {
	if runID == "" {
		return "onerun"
	}
	return "onerun/" + runID
}

// parameters are those that a URL may have: of libpq's those that the driver knows, the driver's own, and
// settings of a session that the server takes at its start. What is none of them would be told by the
// server alone, and one that is away tells nothing. Other settings go in options, or have a dot.
var parameters = []string{
	"schema",
	"host", "port", "user", "password", "passfile", "database", "dbname", "service", "servicefile", "connect_timeout", "target_session_attrs",
	"sslmode", "sslcert", "sslkey", "sslpassword", "sslrootcert", "sslcertmode", "sslnegotiation", "sslsni", "min_protocol_version", "max_protocol_version",
	"channel_binding", "require_auth", "krbspn", "krbsrvname",
	"pool_max_conns", "pool_min_conns", "pool_min_idle_conns", "pool_max_conn_lifetime", "pool_max_conn_lifetime_jitter", "pool_max_conn_idle_time",
	"pool_health_check_period", "pool_ping_timeout", "default_query_exec_mode", "statement_cache_capacity", "description_cache_capacity",
	"application_name", "options", "search_path", "role", "client_encoding", "timezone", "datestyle", "intervalstyle", "extra_float_digits", "bytea_output", "row_security",
	"client_min_messages", "client_connection_check_interval", "statement_timeout", "lock_timeout", "transaction_timeout", "idle_session_timeout",
	"idle_in_transaction_session_timeout", "default_transaction_isolation", "default_transaction_read_only", "default_transaction_deferrable", "synchronous_commit",
	"tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout", "work_mem", "temp_file_limit", "jit", "plan_cache_mode",
	"log_statement", "log_min_duration_statement", "log_min_messages",
}

// known refuses a parameter that is none.
func known(key, query string) error {
	name, err := url.QueryUnescape(key)
	switch {
	case err != nil || strings.Contains(name, ".") || slices.Contains(parameters, strings.ToLower(name)):
		return nil // the driver refuses what is escaped wrongly
	case strings.Contains(query, "@"): // else a part of a password could be in the error
		return errors.New("a / or ? in its password has to be written as %2F or %3F, or a parameter of it is unknown")
	}
	return fmt.Errorf("parameter %q is unknown; a setting of the server's goes in options=-c%%20NAME%%3DVALUE", name)
}

// split takes onerun's own parameter out of a URL. The rest stays as it was written: a URL
// with several hosts is one that net/url can't read.
func split(rawURL string) (rest, schema string, sized bool, err error) {
	base, query, _ := strings.Cut(rawURL, "?")
	var kept []string
	for pair := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		if pair != "" {
			if err := known(key, query); err != nil {
				return "", "", false, err
			}
		}
		switch key {
		case "schema":
			if schema, err = url.QueryUnescape(value); err != nil {
				return "", "", false, fmt.Errorf("schema: %w", err)
			}
			if schema == "" || strings.ContainsRune(schema, 0) || len(schema) > maxIdentifier {
				return "", "", false, fmt.Errorf("a schema's name has 1 to %d bytes", maxIdentifier)
			}
			if schema == "$user" { // in a search path that is not a name, even in quotes
				return "", "", false, errors.New("a schema can't be called $user")
			}
			continue
		case "pool_max_conns":
			sized = true
		}
		if pair != "" {
			kept = append(kept, pair)
		}
	}
	rest = base
	if len(kept) > 0 {
		rest += "?" + strings.Join(kept, "&")
	}
	return rest, schema, sized, nil
}

// maxIdentifier is the length at which the server would cut a name (NAMEDATALEN - 1): two
// schemas must not become one.
const maxIdentifier = 63

// passwordIn is the password that a URL holds.
func passwordIn(rawURL string) string {
	_, rest, _ := strings.Cut(rawURL, "://")
	authority, _, _ := strings.Cut(rest, "/")
	i := strings.LastIndexByte(authority, '@')
	if i < 0 {
		return ""
	}
	_, password, _ := strings.Cut(authority[:i], ":")
	return password
}

// placeOf names a database for people: hosts, port and name, never the password.
func placeOf(c *pgx.ConnConfig) string {
	hosts := []string{net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))}
	if strings.HasPrefix(c.Host, "/") {
		hosts[0] = c.Host
	}
	for _, f := range c.Fallbacks {
		if h := net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))); h != hosts[len(hosts)-1] && !strings.HasPrefix(f.Host, "/") {
			hosts = append(hosts, h)
		}
	}
	return "postgres://" + strings.Join(hosts, ",") + "/" + c.Database
}

// quoted is a name as an identifier in SQL.
func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

// withSchema puts a schema's name where a query says {schema}.
func withSchema(query, schema string) string {
	return strings.ReplaceAll(query, "{schema}", quoted(schema))
}
