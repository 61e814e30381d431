package postgres_test

import (
	"context"
	"net/url"

	"github.com/jackc/pgx/v5/pgxpool"
)

// exampleDatabase gives an example a database of its own, with tables: the URL of its store, and
// the pool of its program.
func exampleDatabase(tables string) (storeURL string, pool *pgxpool.Pool) {
	server, err := shared()
	if err != nil {
		panic(err)
	}
	schema := newSchema()
	pool, err = pgxpool.New(context.Background(), server.URL("postgres", "search_path", schema))
	if err == nil {
		_, err = pool.Exec(context.Background(), "CREATE SCHEMA "+schema+"; "+tables)
	}
	if err != nil {
		panic(err)
	}
	return server.URL("postgres", "schema", schema), pool
}

// appURL is the URL by which database/sql reaches the tables of an example.
func appURL(storeURL string) string {
	u, err := url.Parse(withoutSchema(storeURL))
	if err != nil {
		panic(err)
	}
	q := u.Query()
	q.Set("search_path", schemaOf(storeURL))
	u.RawQuery = q.Encode()
	return u.String()
}
