package postgres_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestGuide: what the guide tells people to type is what the tests have tried.
func TestGuide(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/stores/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]string{"the rights of a role": grants, "the query of the chains": brokenChains} {
		if !strings.Contains(string(text), strings.TrimSpace(want)) {
			t.Errorf("%s: the guide has other words than\n%s", what, want)
		}
	}
	_, url := fresh(t)
	conn := direct(t, url)
	mustExec(t, conn, "SELECT set_config('search_path', $1, false)", schemaOf(url))
	queries := 0
	for _, m := range regexp.MustCompile("(?s)```sql\n(SELECT.*?)```").FindAllStringSubmatch(string(text), -1) {
		mustExec(t, conn, m[1])
		queries++
	}
	if queries != 2 {
		t.Errorf("the guide has %d queries, expected 2", queries)
	}
	// Every table is explained.
	rows, err := conn.Query(soon(t), "SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'v')", schemaOf(url))
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("the guide doesn't explain %s", name)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}
