package onerun

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// MaxName is the greatest length of a job, namespace, lock name or partition,
// in characters (Unicode code points) after normalisation. It is far under what
// any store can hold, so every store accepts and refuses the same names; nothing
// is ever shortened, because two shortened names could become one lock.
const MaxName = 100

// NameError says which name was refused and why. It is a usage error.
type NameError struct {
	What string // "job", "namespace", "partition", "lock"
	Name string
	Why  string
}

func (e *NameError) Error() string {
	return fmt.Sprintf("%s %s: %s", e.What, quoteName(e.Name), e.Why)
}

// Is makes a NameError an ErrUsage.
func (e *NameError) Is(target error) bool { return target == ErrUsage }

// CleanName checks a job, namespace or lock name and returns it in Unicode
// Normalization Form C (UAX #15), the form in which names are compared, byte by
// byte, on every store. what names the thing in the error.
//
// Allowed are letters, marks and decimal digits of any script and ". _ -"; the
// first character is a letter or a digit.
func CleanName(what, name string) (string, error) { return clean(what, name, "._-") }

// CleanPartition checks a partition: a name that may also hold "+" and ":", as
// times with an offset do.
func CleanPartition(partition string) (string, error) {
	return clean("partition", partition, "._-+:")
}

func clean(what, name, extra string) (string, error) {
	if name == "" {
		return "", &NameError{What: what, Name: name, Why: "is empty; give it 1 to 100 letters, digits, '.', '_' or '-'"}
	}
	if !utf8.ValidString(name) {
		return "", &NameError{What: what, Name: name, Why: "is not valid UTF-8"}
	}
	n := norm.NFC.String(name)
	count := 0
	for i, r := range n {
		count++
		alnum := unicode.IsLetter(r) || unicode.Is(unicode.Nd, r)
		if i == 0 && !alnum {
			return "", &NameError{What: what, Name: name, Why: fmt.Sprintf("starts with %+q; the first character must be a letter or a digit", string(r))}
		}
		if !alnum && !unicode.IsMark(r) && !strings.ContainsRune(extra, r) {
			return "", &NameError{What: what, Name: name, Why: fmt.Sprintf("holds %+q; allowed are letters, digits and %s", string(r), spaced(extra))}
		}
	}
	if count > MaxName {
		return "", &NameError{What: what, Name: name, Why: fmt.Sprintf("has %d characters; at most %d are allowed", count, MaxName)}
	}
	return n, nil
}

func spaced(s string) string { return strings.Join(strings.Split(s, ""), " ") }

// quoteName shows a name with everything unprintable escaped, so that a refused
// name can't write to the reader's terminal, and cut so that it stays one line.
func quoteName(s string) string {
	q := fmt.Sprintf("%+q", s)
	for _, r := range s {
		if r > unicode.MaxASCII && unicode.IsPrint(r) {
			q = fmt.Sprintf("%q", s)
			break
		}
	}
	if r := []rune(q); len(r) > 140 {
		q = string(r[:140]) + `…"`
	}
	return q
}

// MakeKey joins a job and a partition; an empty partition gives an empty key,
// which is what an unkeyed run has.
func MakeKey(job, partition string) string {
	if partition == "" {
		return ""
	}
	return job + ":" + partition
}

// SplitKey splits a key at its first colon, which no job name can hold. A key
// without a colon is a bare job with an empty partition.
func SplitKey(key string) (job, partition string, err error) {
	job, partition, keyed := strings.Cut(key, ":")
	if job, err = CleanName("job", job); err != nil {
		return "", "", err
	}
	if keyed {
		if partition, err = CleanPartition(partition); err != nil {
			return "", "", err
		}
	}
	return job, partition, nil
}

// LockName names the lock that a run holds: "job/J", "key/J:P" or "name/N". The
// slash keeps the three kinds apart, since no name can hold one.
type LockName string

// JobLock is the default lock: one run of a job at a time.
func JobLock(job string) LockName { return LockName("job/" + job) }

// KeyLock lets the keys of one job run beside each other (--scope key).
func KeyLock(key string) LockName { return LockName("key/" + key) }

// NamedLock is shared by whoever names it (--lock N, and `onerun lock N`).
func NamedLock(name string) LockName { return LockName("name/" + name) }

// Kind returns "job", "key" or "name".
func (l LockName) Kind() string { k, _, _ := strings.Cut(string(l), "/"); return k }

// Name returns what follows the kind.
func (l LockName) Name() string { _, n, _ := strings.Cut(string(l), "/"); return n }

// cleanLock checks a lock's kind and brings its name into the form in which names
// are compared.
func cleanLock(l LockName) (LockName, error) {
	bad := &NameError{What: "lock", Name: string(l), Why: "is not one of job/JOB, key/JOB:PARTITION and name/NAME"}
	switch l.Kind() {
	case "job":
		n, err := CleanName("job", l.Name())
		return JobLock(n), err
	case "name":
		n, err := CleanName("lock", l.Name())
		return NamedLock(n), err
	case "key":
		job, partition, err := SplitKey(l.Name())
		if err == nil && partition == "" {
			err = bad
		}
		return KeyLock(MakeKey(job, partition)), err
	}
	return "", bad
}
