//go:build !race

package sqlite_test

// raceDetector tells whether these tests are built with it.
const raceDetector = false

// twin is the program that is started as another process: this one.
func twin() (string, error) { return "/proc/self/exe", nil }

func removeTwin() {}
