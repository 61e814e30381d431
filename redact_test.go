package onerun

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"":               "",
		"nothing to see": "nothing to see",
		"connect postgres://ana:hunter2@db:5432/x?sslmode=off: refused": "connect postgres://***@db:5432/x?sslmode=off: refused",
		"postgres://ana:hun/ter2@db/x":                                  "postgres://***@db/x",
		"postgres://ana:hun@ter2@db/x":                                  "postgres://***@db/x",
		"https://ana@example.org":                                       "https://***@example.org",
		"https://example.org:8080/@ana":                                 "https://example.org:8080/@ana",
		"from a://u:p@h to b://v:q@i, c://j":                            "from a://***@h to b://***@i, c://j",
		"a://u:p@h,b://v:q@i":                                           "a://***@h,b://***@i",
		`dial "mysql://root:x@h/d"`:                                     `dial "mysql://***@h/d"`,
		"host=db password=hunter2 user=ana":                             "host=db password=*** user=ana",
		"PGPASSWORD=hunter2 psql":                                       "PGPASSWORD=*** psql",
		"password = 'hun ter2' x":                                       "password = '***' x",
		`{"password": "hun\"ter2", "user": "ana"}`:                      `{"password": "***", "user": "ana"}`,
		`curl -d "{\"password\": \"hun ter2\", \"user\": \"ana\"}"`:     `curl -d "{\"password\": \"***\", \"user\": \"ana\"}"`,
		`sh -c "curl -d \"{\\\"token\\\":\\\"a b\\\",\\\"x\\\":1}\""`:   `sh -c "curl -d \"{\\\"token\\\":\\\"***\\\",\\\"x\\\":1}\""`,
		`"{\"password\": \"hun\\\"ter2\", \"user\": 1}"`:                `"{\"password\": \"***\", \"user\": 1}"`,
		`{"password": "ends with \\", "user": "ana"}`:                   `{"password": "***", "user": "ana"}`,
		`{"password": "never ends`:                                      `{"password": "***`,
		`{"api_token":"t0k3n"}`:                                         `{"api_token":"***"}`,
		"password: hunter2":                                             "password: ***",
		"GET /x?token=abc&b=1 failed":                                   "GET /x?token=***&b=1 failed",
		"settle --api-key abc --password hunter2 --all":                 "settle --api-key *** --password *** --all",
		"settle --token --all":                                          "settle --token --all",
		"--token=abc":                                                   "--token=***",
		"unexpected token: }":                                           "unexpected token: }",
		"if token == nil":                                               "if token == nil",
		"Authorization: Bearer abc.def-ghi\nHost: x":                    "Authorization: ***\nHost: x",
		`curl -H "Authorization: Basic YWxhZGRpbjpvcGVu" https://x`:     `curl -H "Authorization: ***" https://x`,
		"Proxy-Authorization: x y z":                                    "Proxy-Authorization: ***",
		"Cookie: a=b; c=d":                                              "Cookie: ***",
		"sent Bearer eyJhbGciOiJIUzI1NiJ9.e30.x again":                  "sent Bearer *** again",
		"a bearer certificate":                                          "a bearer certificate",
		"basic understanding":                                           "basic understanding",
		"key일일=정산 비밀번호 password=비밀":                                     "key일일=정산 비밀번호 password=***",
		"password=":  "password=",
		"secret=***": "secret=***",
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

// Every error that is kept goes through CutError.
func TestCutErrorRedacts(t *testing.T) {
	if got := CutError("dial redis://:canary@host"); strings.Contains(got, "canary") {
		t.Error(got)
	}
}
