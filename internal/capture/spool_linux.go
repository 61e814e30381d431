package capture

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// inMemory is how much is held back in memory; more goes to a file.
const inMemory = 256 << 10

// spool holds back what a job prints, piece by piece: the number of the descriptor in one
// byte, the length in four, and the bytes.
type spool struct {
	dir  string
	buf  []byte
	file *os.File // nil: all is in buf
	err  error    // no more could be held back
}

const header = 5

// write adds a piece. When there is no room for it, it and all that follows is lost.
func (s *spool) write(number int, b []byte) error {
	if s.err != nil {
		return s.err
	}
	head := binary.BigEndian.AppendUint32([]byte{byte(number)}, uint32(len(b)))
	if len(s.buf)+header+len(b) > inMemory {
		if s.err = s.flush(); s.err == nil && len(b) > inMemory/2 {
			if _, s.err = s.file.Write(head); s.err == nil {
				_, s.err = s.file.Write(b)
			}
			s.err = failed(s.err)
			return s.err
		}
	}
	if s.err == nil {
		s.buf = append(append(s.buf, head...), b...)
	}
	return s.err
}

// flush moves what is in memory to the file.
func (s *spool) flush() error {
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "onerun-output-")
		if err != nil {
			return failed(err)
		}
		_ = os.Remove(f.Name()) // it needs no name, and nobody has to clean up
		s.file = f
	}
	_, err := s.file.Write(s.buf)
	s.buf = s.buf[:0]
	return failed(err)
}

func failed(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		err = p.Err // the name of a file that is gone tells nobody anything
	}
	if err != nil {
		err = fmt.Errorf("no room to hold it back: %w", err)
	}
	return err
}

// replay gives back all pieces, in their order. After an error of pass's it goes on with
// the other descriptor.
func (s *spool) replay(pass func(number int, b []byte) error) error {
	var all io.Reader = bytes.NewReader(s.buf)
	if s.file != nil {
		if _, err := s.file.Seek(0, io.SeekStart); err != nil {
			return failed(err)
		}
		all = io.MultiReader(bufio.NewReaderSize(s.file, 64<<10), all)
	}
	var bad [3]error
	var head [header]byte
	piece := make([]byte, 0, firstRead)
	for {
		if _, err := io.ReadFull(all, head[:]); err != nil {
			break // the end, or a piece that found no room
		}
		number, n := int(head[0]), int(binary.BigEndian.Uint32(head[1:]))
		if cap(piece) < n {
			piece = make([]byte, 0, n)
		}
		got, err := io.ReadFull(all, piece[:n])
		if bad[number] == nil {
			bad[number] = pass(number, piece[:got])
		}
		if err != nil {
			break
		}
	}
	return errors.Join(bad[:]...)
}

func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}
