// Package zkbed runs real ZooKeeper servers for tests and for the benchmark: see internal/bed.
package zkbed

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/onerun-dev/onerun/internal/bed"
)

// Bed is the place of some servers.
type Bed struct {
	*bed.Bed
	starting sync.Mutex
}

// New makes a bed whose data lies below the first of some directories in which there is a
// place for it; "" stands for the one for temporary files.
func New(dirs ...string) *Bed {
	return &Bed{Bed: bed.New("zookeeper", bed.Account{"zookeeper", "nobody"}, dirs...)}
}

// Server is a ZooKeeper server of a bed.
type Server struct {
	bed.Process
	lines []string
}

// Server starts a server alone. lines are added to its configuration; those that begin with -D are properties of the virtual
// machine.
func (b *Bed) Server(lines ...string) (*Server, error) {
	s, err := b.place(lines)
	if err != nil {
		return nil, err
	}
	b.starting.Lock() // one after the other, a start of a virtual machine takes a core
	defer b.starting.Unlock()
	return s, s.Launch()
}

// Ensemble starts a number of servers that replicate each other.
func (b *Bed) Ensemble(n int, lines ...string) ([]*Server, error) {
	lines = append(lines, "initLimit=50", "syncLimit=25")
	var all []*Server
	for i := range n {
		s, err := b.place(nil)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
		var quorum, election int
		if err := s.Place(&quorum, &election); err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, quorum, election))
	}
	errs := make(chan error, n)
	for i, s := range all {
		s.lines = lines
		id := filepath.Join(s.data(), "myid")
		if err := errors.Join(os.MkdirAll(s.data(), 0o777), os.Chmod(s.data(), 0o777), os.WriteFile(id, []byte(strconv.Itoa(i+1)), 0o644)); err != nil {
			return nil, err
		}
		go func() { errs <- s.Start() }()
	}
	var err error
	for range all {
		err = errors.Join(err, <-errs)
	}
	return all, err
}

// place makes a place for a server. It says nothing by itself when it is a member of an ensemble,
// so it is asked whether it is up.
func (b *Bed) place(lines []string) (*Server, error) {
	s := &Server{lines: lines}
	d, err := b.Daemon(bed.How{
		Argv:     func(*bed.Daemon) ([]string, error) { return s.argv() },
		Serves:   func() bool { return strings.Contains(s.Ask("srvr"), "Mode:") },
		Orphaned: syscall.SIGKILL,
		Close:    syscall.SIGKILL,
	})
	s.Process = bed.Process{Daemon: d}
	return s, err
}

func (s *Server) data() string { return filepath.Join(s.Home, "data") }

// The jars of Debian's package: the server, which names those that it needs itself, and
// somewhere for its log to go.
const classPath = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"

// argv is the command that runs the server, whose configuration it writes. Its clock ticks fast,
// so that sessions of less than a second are possible, and it doesn't wait for a disk.
func (s *Server) argv() ([]string, error) {
	if _, err := os.Stat("/usr/share/java/zookeeper.jar"); err != nil {
		return nil, errors.New("ZooKeeper is missing: make test-deps installs it")
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, fmt.Errorf("java is missing: make test-deps installs it: %w", err)
	}
	args := []string{
		java, "-Xmx128m", "-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Djava.net.preferIPv4Stack=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-Dzookeeper.4lw.commands.whitelist=*", "-Dzookeeper.admin.enableServer=false",
	}
	text := fmt.Sprintf("dataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\n", s.data(), s.Port) +
		"tickTime=100\nmaxSessionTimeout=60000\nmaxClientCnxns=0\nforceSync=no\nsnapshot.trust.empty=true\n"
	for _, l := range s.lines {
		if strings.HasPrefix(l, "-D") {
			args = append(args, l)
		} else {
			text += l + "\n"
		}
	}
	config := filepath.Join(s.Home, "zoo.cfg")
	args = append(args, "-cp", classPath, "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	return args, os.WriteFile(config, []byte(text), 0o644)
}

// Ask gives the server's answer to one of its words of four letters; "": it gives none.
func (s *Server) Ask(word string) string {
	conn, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(conn, word); err != nil {
		return ""
	}
	all, _ := io.ReadAll(conn) // what came before an error is an answer, or none
	return string(all)
}
