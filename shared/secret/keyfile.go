package secret

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// KeyFile is a [Keeper] over a file of mode 600. Each line of the file has the id of a key and the
// key. The last key is in use; the earlier ones open older values.
//
// The first Wrap creates the file. The file is read at each use, so keys that another process has
// added are available at once. A KeyFile is safe for concurrent use, also by several processes.
type KeyFile struct{ path string }

// NewKeyFile returns a keeper for the file at path. It does not access the file.
func NewKeyFile(path string) *KeyFile { return &KeyFile{path} }

// A KeyFileError says what is wrong with a key file and how to repair it. errors.Is reports it as
// [ErrNoKey].
type KeyFileError struct{ Path, Problem string }

func (e *KeyFileError) Error() string { return "key file " + e.Path + ": " + e.Problem }

// Is reports whether target is [ErrNoKey].
func (e *KeyFileError) Is(target error) bool { return target == ErrNoKey }

const (
	keyFileHead  = "# Lanekeeper's keys: lose this file and every secret is lost. The last key is in use.\n"
	keyFileLabel = "lanekeeper key file"
	// fileKeyPrefix begins the ids of keys in a file.
	fileKeyPrefix = "file-"
	maxKeyFile    = 1 << 20
)

// fileKey is one line of the file.
type fileKey struct {
	id  string
	key []byte
}

// newFileKey derives the id from the key. The id reveals nothing about the key, and shows when a
// line was altered.
func newFileKey(key []byte) fileKey {
	sum := sha256.Sum256(append([]byte("lanekeeper key id\x00"), key...))
	return fileKey{fileKeyPrefix + hex.EncodeToString(sum[:8]), key}
}

func randomFileKey() fileKey {
	key := make([]byte, keySize)
	rand.Read(key) // never fails
	return newFileKey(key)
}

// line returns the key as a line of the file.
func (k fileKey) line() string { return k.id + " " + base64.StdEncoding.EncodeToString(k.key) + "\n" }

// Current implements [Keeper].
func (f *KeyFile) Current(context.Context) (string, error) {
	keys, err := f.read()
	if err != nil {
		return "", err
	}
	return keys[len(keys)-1].id, nil
}

// Wrap implements [Keeper]. It creates the file if it is missing.
func (f *KeyFile) Wrap(_ context.Context, dataKey []byte, at Place) (string, []byte, error) {
	keys, err := f.read()
	if errors.Is(err, fs.ErrNotExist) {
		if err = f.create(); err == nil {
			keys, err = f.read()
		}
	}
	if err != nil {
		return "", nil, err
	}
	last := keys[len(keys)-1]
	gcm, err := newGCM(last.key)
	if err != nil {
		return "", nil, fmt.Errorf("wrap a data key: %w", err)
	}
	return last.id, gcm.Seal(nil, nil, dataKey, at.bound(keyFileLabel, last.id)), nil
}

// Unwrap implements [Keeper].
func (f *KeyFile) Unwrap(_ context.Context, keyID string, wrapped []byte, at Place) ([]byte, error) {
	keys, err := f.read()
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if k.id != keyID {
			continue
		}
		gcm, err := newGCM(k.key)
		if err != nil {
			return nil, fmt.Errorf("unwrap a data key: %w", err)
		}
		dataKey, err := gcm.Open(nil, nil, wrapped, at.bound(keyFileLabel, keyID))
		if err != nil {
			return nil, ErrDamaged
		}
		return dataKey, nil
	}
	return nil, f.problem(fmt.Sprintf("it does not hold the key %.40q: put back the line that was taken out", keyID))
}

// Keys lists the ids of the keys in the file. The last one is in use.
func (f *KeyFile) Keys() ([]string, error) {
	keys, err := f.read()
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = k.id
	}
	return ids, err
}

// AddKey adds a key, makes it the one in use and returns its id. Older values can be opened as long
// as their keys stay in the file.
func (f *KeyFile) AddKey() (string, error) {
	if _, err := f.read(); errors.Is(err, fs.ErrNotExist) {
		if err := f.create(); err != nil {
			return "", err
		}
	} else if err != nil {
		return "", err
	}
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return "", f.problem(reason(err))
	}
	defer file.Close()
	if err := f.ended(file); err != nil {
		return "", err
	}
	fresh := randomFileKey()
	// A single append: if two processes add a key at the same time, both are added.
	if _, err := file.WriteString(fresh.line()); err != nil {
		return "", f.problem(reason(err))
	}
	if err := file.Sync(); err != nil {
		return "", f.problem(reason(err))
	}
	return fresh.id, nil
}

// ended refuses a file whose last line is incomplete, because appended text would become part of
// that line.
func (f *KeyFile) ended(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return f.problem(reason(err))
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, max(0, info.Size()-1)); err != nil {
		return f.problem(reason(err))
	}
	if last[0] != '\n' {
		return f.problem("its last line is not whole: take it out, nothing was sealed with it")
	}
	return nil
}

// create creates the file with a first key, unless another process has created it meanwhile. The
// file is created atomically, so a reader never sees a part of it.
func (f *KeyFile) create() error {
	dir := filepath.Dir(f.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return f.problem(reason(err))
	}
	draft, err := os.CreateTemp(dir, filepath.Base(f.path)+".new-*") // O_EXCL, mode 600
	if err != nil {
		return f.problem(reason(err))
	}
	defer os.Remove(draft.Name())
	_, err1 := draft.WriteString(keyFileHead + randomFileKey().line())
	err2 := draft.Sync()
	err3 := draft.Close()
	if err := errors.Join(err1, err2, err3); err != nil {
		return f.problem(reason(err))
	}
	if err := os.Link(draft.Name(), f.path); err != nil && !errors.Is(err, fs.ErrExist) {
		return f.problem(reason(err))
	}
	if d, err := os.Open(dir); err == nil { // so that the file's name survives a crash
		_ = d.Sync()
		_ = d.Close()
	}
	return nil
}

// read returns the keys, at least one.
func (f *KeyFile) read() ([]fileKey, error) {
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", f.problem("it is missing: put it back, or set SECRET_KEY_FILE to where it is"), fs.ErrNotExist)
	}
	if err != nil {
		return nil, f.problem(reason(err))
	}
	if !info.Mode().IsRegular() {
		return nil, f.problem("it is not a regular file")
	}
	file, err := os.Open(f.path)
	if err != nil {
		return nil, f.problem(reason(err))
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return nil, f.problem(reason(err))
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, f.problem(fmt.Sprintf("others may read it (mode %o): chmod 600 it", info.Mode().Perm()))
	}
	text, err := io.ReadAll(io.LimitReader(file, maxKeyFile+1))
	if err != nil {
		return nil, f.problem(reason(err))
	}
	return f.parse(text)
}

// parse parses the lines. It ignores an incomplete last line: that line is being written, and no
// value is sealed with its key yet.
func (f *KeyFile) parse(text []byte) ([]fileKey, error) {
	if len(text) > maxKeyFile {
		return nil, f.problem("it is too large to be a key file")
	}
	var keys []fileKey
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	lines := bufio.NewScanner(bytes.NewReader(whole))
	lines.Buffer(nil, maxKeyFile+1)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, encoded, _ := strings.Cut(line, " ")
		key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
		if k := newFileKey(key); err == nil && len(key) == keySize && k.id == id {
			keys = append(keys, k)
			continue
		}
		return nil, f.problem(fmt.Sprintf("line %d is damaged", n))
	}
	if len(keys) == 0 {
		return nil, f.problem("it holds no key")
	}
	return keys, nil
}

func (f *KeyFile) problem(what string) error { return &KeyFileError{f.path, what} }

// reason returns why a file could not be used, without the file's path.
func reason(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}
