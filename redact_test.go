package onerun

import (
	"strconv"
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"":               "",
		"nothing to see": "nothing to see",
		"connect postgres://ana:hunter2@db:5432/x?sslmode=off: refused":  "connect postgres://***@db:5432/x?sslmode=off: refused",
		"postgres://ana:hun/ter2@db/x":                                   "postgres://***@db/x",
		"postgres://ana:hun@ter2@db/x":                                   "postgres://***@db/x",
		"https://ana@example.org":                                        "https://***@example.org",
		"https://example.org:8080/@ana":                                  "https://example.org:8080/@ana",
		"from a://u:p@h to b://v:q@i, c://j":                             "from a://***@h to b://***@i, c://j",
		"a://u:p@h,b://v:q@i":                                            "a://***@h,b://***@i",
		`dial "mysql://root:x@h/d"`:                                      `dial "mysql://***@h/d"`,
		"host=db password=hunter2 user=ana":                              "host=db password=*** user=ana",
		"PGPASSWORD=hunter2 psql":                                        "PGPASSWORD=*** psql",
		"password = 'hun ter2' x":                                        "password = '***' x",
		`{"password": "hun\"ter2", "user": "ana"}`:                       `{"password": "***", "user": "ana"}`,
		`curl -d "{\"password\": \"hun ter2\", \"user\": \"ana\"}"`:      `curl -d "{\"password\": \"***\", \"user\": \"ana\"}"`,
		`sh -c "curl -d \"{\\\"token\\\":\\\"a b\\\",\\\"x\\\":1}\""`:    `sh -c "curl -d \"{\\\"token\\\":\\\"***\\\",\\\"x\\\":1}\""`,
		`"{\"password\": \"hun\\\"ter2\", \"user\": 1}"`:                 `"{\"password\": \"***\", \"user\": 1}"`,
		`{"password": "ends with \\", "user": "ana"}`:                    `{"password": "***", "user": "ana"}`,
		`{"password": "never ends`:                                       `{"password": "***`,
		`{"api_token":"t0k3n"}`:                                          `{"api_token":"***"}`,
		"password: hunter2":                                              "password: ***",
		"GET /x?token=abc&b=1 failed":                                    "GET /x?token=***&b=1 failed",
		"settle --api-key abc --password hunter2 --all":                  "settle --api-key *** --password *** --all",
		"settle --token --all":                                           "settle --token --all",
		"--token=abc":                                                    "--token=***",
		"unexpected token: }":                                            "unexpected token: }",
		"if token == nil":                                                "if token == nil",
		"Authorization: Bearer abc.def-ghi\nHost: x":                     "Authorization: ***\nHost: x",
		`curl -H "Authorization: Basic YWxhZGRpbjpvcGVu" https://x`:      `curl -H "Authorization: ***" https://x`,
		"Proxy-Authorization: x y z":                                     "Proxy-Authorization: ***",
		"Cookie: a=b; c=d":                                               "Cookie: ***",
		"sent Bearer eyJhbGciOiJIUzI1NiJ9.e30.x again":                   "sent Bearer *** again",
		"a bearer certificate":                                           "a bearer certificate",
		"basic understanding":                                            "basic understanding",
		"key일일=정산 비밀번호 password=비밀":                                      "key일일=정산 비밀번호 password=***",
		"write it as mysql://USER@HOST:PORT/DATABASE?password_file=FILE": "write it as mysql://USER@HOST:PORT/DATABASE?password_file=FILE",
		"mysql://USER:hunter2@h/db?password_file=FILES":                  "mysql://***@h/db?password_file=***",
		"Access denied for user 'x'@'h' (using password: YES) (1045)":    "Access denied for user 'x'@'h' (using password: YES) (1045)",
		"(using password: YESterday) (using password: NO)":               "(using password: *** (using password: NO)",
		"password=":  "password=",
		"secret=***": "secret=***",

		// a header in quotes
		`{"Authorization": "Token CANARY", "x": 1}`:                          `{"Authorization": "***", "x": 1}`,
		`{"Authorization":"CANARY"}`:                                         `{"Authorization":"***"}`,
		`{'Authorization': 'Digest response=CANARY'}`:                        `{'Authorization': '***'}`,
		`Authorization: "CANARY"`:                                            `Authorization: "***"`,
		`{\"Authorization\": \"Token CANARY\", \"x\": 1}`:                    `{\"Authorization\": \"***\", \"x\": 1}`,
		`{"headers":{"Cookie":["a=CANARY","b=CANARY"],"Host":["x"]}}`:        `{"headers":{"Cookie":["***","***"],"Host":["x"]}}`,
		`{"Authorization"=>"Token CANARY"}`:                                  `{"Authorization"=>"***"}`,
		`{'Authorization': b'Basic CANARY'}`:                                 `{'Authorization': b'***'}`,
		`HTTP_AUTHORIZATION="Token CANARY" x`:                                `HTTP_AUTHORIZATION="***" x`,
		`curl -H 'Authorization: Digest username="a", response="CANARY"' x`:  `curl -H 'Authorization: ***' x`,
		`{"msg":"Authorization: Digest a=\"b\", response=\"CANARY\"","x":1}`: `{"msg":"Authorization: ***","x":1}`,
		`{"msg":"sent Authorization: Token a=\"b\", r=\"CANARY\"","x":"y"}`:  `{"msg":"sent Authorization: ***","x":"y"}`,
		`Authorization: Digest username="a", response="CANARY`:               `Authorization: ***`,
		"\"Authorization: CANARY\nHost: x\"":                                 "\"Authorization: ***\nHost: x\"",
		"\x1b[36mauthorization\x1b[0m=\x1b[32mToken CANARY\x1b[0m\nx":        "\x1b[36mauthorization\x1b[0m=\x1b[32m***\nx",
		`{"msg":"\u001b[36mpassword\u001b[0m=CANARY","x":"y"}`:               `{"msg":"\u001b[36mpassword\u001b[0m=***","x":"y"}`,
		"\x1b[36mpassword\x1b[0m=CANARY x":                                   "\x1b[36mpassword\x1b[0m=*** x",
		"\x1b[36mpassword: \x1b[0mCANARY x":                                  "\x1b[36mpassword: \x1b[0m*** x",

		// a value is one word
		"password=aa,CANARY x":                     "password=*** x",
		"password=a;CANARY":                        "password=***",
		"password=a&CANARY":                        "password=***",
		"password=a<CANARY>CANARY":                 "password=***",
		"password=aa,user=ana;token=CANARY":        "password=***,user=ana;token=***",
		"token=ab,CANARY==":                        "token=***",
		`password=a"CANARY`:                        `password=***`,
		`password=a'CANARY'`:                       `password=***'`,
		`password=$'CANARY' x`:                     `password=$'***' x`,
		`password='it'\''CANARY' x`:                `password='***'***' x`,
		`password="a"CANARY x`:                     `password="***"*** x`,
		`{"password"=>"CANARY", "x"=>1}`:           `{"password"=>"***", "x"=>1}`,
		`password := "CANARY"`:                     `password := "***"`,
		`{"passwords": ["CANARY", "CANARY"]}`:      `{"passwords": ["***", "***"]}`,
		`{"secret":1234,"user":"ana"}`:             `{"secret":***,"user":"ana"}`,
		`{"msg":"password=CANARY","user":"ana"}`:   `{"msg":"password=***","user":"ana"}`,
		`{"msg":"{\"a\":\"token=CANARY\"}","b":1}`: `{"msg":"{\"a\":\"token=***\"}","b":1}`,
		`["--password=CANARY","--user=ana"]`:       `["--password=***","--user=ana"]`,
		`dial "password=CANARY": refused`:          `dial "password=***": refused`,
		"X-Auth-Token: CANARY":                     "X-Auth-Token: ***",

		// a user part may hold what its writer should have escaped
		"postgres://u:p'CANARY@h/db":           "postgres://***@h/db",
		"postgres://u:p<CANARY@h/db":           "postgres://***@h/db",
		"postgres://u:12/CANARY@h/db":          "postgres://***@h/db",
		"'postgres://u:CANARY@h/db', 'a@b'":    "'postgres://***@h/db', 'a@b'",
		`["https://h/x","a@b"]`:                `["https://h/x","a@b"]`,
		"<https://h:80/x@1>, HTTP://h:80/@ana": "<https://h:80/x@1>, HTTP://h:80/@ana",

		// before a colon, a word for a secret is a whole one
		`"key":"bypass-check:2026-09-15"`:             `"key":"bypass-check:2026-09-15"`,
		"passenger: Kim, secretary: Lee":              "passenger: Kim, secretary: Lee",
		`{"compass": "north"}`:                        `{"compass": "north"}`,
		"open /run/secrets/db_password: no such file": "open /run/secrets/db_password: no such file",
		`"../etc/passwd": that is no zone`:            `"../etc/passwd": that is no zone`,
		`{"example.org/password": "CANARY"}`:          `{"example.org/password": "***"}`,
		"db.password: CANARY":                         "db.password: ***",
		"dbPass: CANARY":                              "dbPass: ***",
		"PGPASSWORD: CANARY":                          "PGPASSWORD: ***",
		"client-secret: CANARY":                       "client-secret: ***",
		`{"accessKey":"x", "access_key":"y"}`:         `{"accessKey":"***", "access_key":"***"}`,
	} {
		if got := Redact(in); got != want {
			t.Errorf("Redact(%q)\n got %q\nwant %q", in, got, want)
		}
		if once := Redact(in); Redact(once) != once {
			t.Errorf("Redact(%q) changes when it is done twice: %q", once, Redact(once))
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("x://a:b@c password=d")
	f.Fuzz(func(t *testing.T, s string) {
		got := Redact(s)
		if strings.Contains(s, "password=canary") && strings.Contains(got, "password=canary") {
			t.Errorf("Redact(%q) = %q", s, got)
		}
	})
}

// FuzzRedactQuoted: of what a quoted value holds nothing is left, and nothing after it goes.
func FuzzRedactQuoted(f *testing.F) {
	f.Add(`a"b\c`)
	f.Add(`x://a:b@c "password": 'd' [,`)
	f.Fuzz(func(t *testing.T, s string) {
		if s == "" {
			return
		}
		for _, name := range []string{"Authorization", "password", "token"} {
			in, want := `{"`+name+`": `+strconv.Quote(s)+`, "x": 1}`, `{"`+name+`": "***", "x": 1}`
			if got := Redact(in); got != want {
				t.Errorf("Redact(%q)\n got %q\nwant %q", in, got, want)
			}
		}
	})
}

// TestRedactIsLinear: each of these takes seconds for each byte looked at once for every name
// before it.
func TestRedactIsLinear(t *testing.T) {
	for _, unit := range []string{
		"a://", "a://b:c", "password=", "password='", `password=\"`, "password=a,", `password="a",`, "Authorization:", `Authorization:"`, `"Authorization: `, `Authorization: ="`,
		"\x1b[", "\x1b[0", `\`, `"`, `password=a"`, `a"\`, "bearer ", "token:[", "password=[\"", "--password ", "password \x1b[0m ",
	} {
		Redact(strings.Repeat(unit, 1<<20/len(unit)))
	}
}

// Every error that is kept goes through CutError.
func TestCutErrorRedacts(t *testing.T) {
	if got := CutError("dial redis://:canary@host"); strings.Contains(got, "canary") {
		t.Error(got)
	}
}
