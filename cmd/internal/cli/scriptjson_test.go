package cli

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// json [-in FILE] PATH WANT compares a value of a JSON document, by default on standard
// output. PATH is like 0.attempts.1.status, "." the whole, and len a length; in a file with
// several documents, such as a log, the first part is the line. WANT is JSON; what isn't
// JSON is a string.
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	args, doc := document(ts, args)
	if len(args) != 2 {
		ts.Fatalf("usage: json [-in FILE] PATH WANT")
	}
	got, err := follow(doc, args[0])
	ts.Check(err)
	var want any
	if json.Unmarshal([]byte(args[1]), &want) != nil {
		want = args[1]
	}
	if reflect.DeepEqual(got, want) == neg {
		text, _ := json.Marshal(got)
		ts.Fatalf("%s is %s", args[0], text)
	}
}

// fields [-in FILE] PATH SHAPE... says that an object has exactly the fields of the SHAPE
// files, each with a line for a field and its type: "key string|null".
func cmdFields(ts *testscript.TestScript, neg bool, args []string) {
	args, doc := document(ts, args)
	if neg || len(args) < 2 {
		ts.Fatalf("usage: fields [-in FILE] PATH SHAPE...")
	}
	got, err := follow(doc, args[0])
	ts.Check(err)
	object, ok := got.(map[string]any)
	if !ok {
		ts.Fatalf("%s is no object", args[0])
	}
	left := map[string]bool{}
	for name := range object {
		left[name] = true
	}
	for _, file := range args[1:] {
		for line := range strings.Lines(ts.ReadFile(file)) {
			name, types, _ := strings.Cut(strings.TrimSpace(line), " ")
			if name == "" {
				continue
			}
			v, ok := object[name]
			if !ok {
				ts.Fatalf("%s has no %s", args[0], name)
			}
			delete(left, name)
			if is := typeOf(v); !slices.Contains(strings.Split(types, "|"), is) && (is != "time" || types != "string") {
				ts.Fatalf("%s of %s is %s, want %s: %v", name, args[0], is, types, v)
			}
		}
	}
	if len(left) > 0 {
		ts.Fatalf("%s has fields that nothing documents: %v", args[0], left)
	}
}

func document(ts *testscript.TestScript, args []string) ([]string, any) {
	file := "stdout"
	if len(args) > 2 && args[0] == "-in" {
		file, args = args[1], args[2:]
	}
	docs, err := documents(ts.ReadFile(file))
	ts.Check(err)
	if len(docs) == 1 && file == "stdout" {
		return args, docs[0]
	}
	return args, docs
}

// documents are all JSON values in a text.
func documents(text string) ([]any, error) {
	var docs []any
	d := json.NewDecoder(strings.NewReader(text))
	for d.More() {
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("%w in: %s", err, text)
		}
		docs = append(docs, v)
	}
	return docs, nil
}

func follow(v any, path string) (any, error) {
	if path == "." {
		return v, nil
	}
	for part := range strings.SplitSeq(path, ".") {
		list, isList := v.([]any)
		object, isObject := v.(map[string]any)
		i, err := strconv.Atoi(part)
		switch {
		case part == "len" && isList:
			v = float64(len(list))
		case isList && err == nil && i < len(list):
			v = list[i]
		case isObject:
			found, ok := object[part]
			if !ok {
				return nil, fmt.Errorf("there is no %s at %s", part, path)
			}
			v = found
		default:
			return nil, fmt.Errorf("there is no %s at %s", part, path)
		}
	}
	return v, nil
}

// typeOf names a JSON type; a string in RFC 3339 with an offset is a time.
func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case float64:
		if v == float64(int64(v)) {
			return "int"
		}
		return "number"
	case string:
		if _, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return "time"
		}
		return "string"
	case []any:
		return "array"
	}
	return "object"
}
