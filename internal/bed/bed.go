// Package bed is what the packages beside it share that run real servers for tests and for the
// benchmark: as an ordinary account, with data of their own, and so that nothing is left when
// this process has gone, in whatever way.
package bed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
)

// Bed is the place of some servers. Nothing is made before the first directory is wanted.
type Bed struct {
	kind    string
	account Account
	dirs    []string

	mu   sync.Mutex
	stop []func()
	root string   // has all directories
	made int      // how many it has
	life *os.File // the keeper waits until nobody has it open any more
}

// New makes a bed for servers of a kind, which run as an account. Their data lies below the first
// of some directories in which there is a place for it; "" stands for the one for temporary files.
func New(kind string, account Account, dirs ...string) *Bed {
	return &Bed{kind: kind, account: account, dirs: dirs}
}

// Close stops what was started, the last first, and removes what it left.
func (b *Bed) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, stop := range slices.Backward(b.stop) {
		stop()
	}
	b.stop = nil
	if b.life == nil {
		return
	}
	_ = os.RemoveAll(b.root) // where a process of a server still writes there, the keeper removes it after that one's end
	_ = b.life.Close()
	b.root, b.life = "", nil
}

// AtClose has something done by Close, before what was asked for earlier.
func (b *Bed) AtClose(stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stop = append(b.stop, stop)
}

// Dir makes a directory of the servers' account, which goes with the bed.
func (b *Bed) Dir() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.life == nil {
		if err := b.open(); err != nil {
			return "", err
		}
	}
	b.made++
	dir := filepath.Join(b.root, strconv.Itoa(b.made))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	return dir, b.account.Own(dir)
}

// keeper removes the bed's directories when all who have the other end of its input are gone:
// this process, and whatever it started for a server, with all that comes from that. A test that
// was killed can also have left a file system there.
const keeper = `while read -r _; do :; done
	while read -r _ on _; do case $on in "$1"/*) umount -l "$on";; esac; done </proc/self/mounts
	rm -rf "$1"`

// open makes the directory that has all others, and starts its keeper.
func (b *Bed) open() (err error) {
	for _, place := range b.dirs {
		if b.root, err = os.MkdirTemp(place, "onerun-"+b.kind+"-"); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	cmd := exec.Command("sh", "-c", keeper, "sh", b.root)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what ends this process's whole group, as an interrupt does, doesn't end it
	end, life, err := os.Pipe()
	if err != nil {
		return errors.Join(err, os.Remove(b.root))
	}
	cmd.Stdin = end
	err = cmd.Start()
	_ = end.Close()
	if err != nil {
		return errors.Join(err, life.Close(), os.Remove(b.root))
	}
	go func() { _ = cmd.Wait() }()
	b.life = life
	return b.account.Own(b.root)
}

// command is one that the servers' account runs in a directory of the bed, for which the keeper
// waits.
func (b *Bed) command(dir string, argv ...string) (*exec.Cmd, error) {
	b.mu.Lock()
	life := b.life
	b.mu.Unlock()
	if life == nil {
		return nil, errors.New("the bed is closed")
	}
	cred, err := b.account.credential()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.ExtraFiles = []*os.File{life}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	return cmd, nil
}

// Run runs a program to its end, as the servers' account and in a directory of the bed, with env
// added to its environment.
func (b *Bed) Run(dir string, env []string, argv ...string) error {
	cmd, err := b.command(dir, argv...)
	if err != nil {
		return err
	}
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(argv[0]), err, out)
	}
	return nil
}
