package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"

	"github.com/go-json-experiment/json/jsontext"
)

// Reader reads a transcript: one JSON object a line, as it is or compressed by gzip. Lines may be of any length.
type Reader struct {
	input   *bufio.Reader
	number  int    // of the line that was read last
	long    []byte // that line, if it was too long for the buffer of input
	decoder jsontext.Decoder
}

const bufferSize = 64 << 10

// NewReader makes a Reader of an input, which is taken as compressed if it starts like that. The error is a [*Fault].
func NewReader(input io.Reader) (*Reader, error) {
	r := &Reader{input: bufio.NewReaderSize(input, bufferSize)}
	const gzipDeflate, byteOrderMark = "\x1f\x8b\x08", "\uFEFF" // some editors write the mark
	if r.startsWith(gzipDeflate) {
		unpacked, err := gzip.NewReader(r.input)
		if err != nil {
			return nil, unreadable(1, err)
		}
		r.input = bufio.NewReaderSize(unpacked, bufferSize)
	}
	if r.startsWith(byteOrderMark) {
		_, _ = r.input.Discard(len(byteOrderMark))
	}
	return r, nil
}

// startsWith looks at the start of the input. What cannot be read comes up again where it is read.
func (r *Reader) startsWith(prefix string) bool {
	start, _ := r.input.Peek(len(prefix))
	return string(start) == prefix
}

// Next returns the next line that is not blank, and [io.EOF] at the end. Any other error is a [*Fault].
func (r *Reader) Next() (Line, error) {
	for {
		text, err := r.readLine()
		if err != nil {
			return Line{}, err
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		line, err := r.parse(text)
		if err != nil {
			return Line{}, &Fault{r.number, err.Error()}
		}
		line.Number = r.number
		return line, nil
	}
}

// parse parses one line.
func (r *Reader) parse(text []byte) (Line, error) {
	f, err := readFields(&r.decoder, text)
	if err != nil {
		return Line{}, err
	}
	return f.line()
}

// readLine returns the text of the next line, which is good until the next call.
func (r *Reader) readLine() ([]byte, error) {
	r.number++
	line, err := r.input.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		r.long = r.long[:0]
		for errors.Is(err, bufio.ErrBufferFull) {
			r.long = append(r.long, line...)
			line, err = r.input.ReadSlice('\n')
		}
		r.long = append(r.long, line...)
		line = r.long
	}
	switch {
	case err == nil, err == io.EOF && len(line) > 0: // the last line may lack its end
		return bytes.TrimRight(line, "\r\n"), nil
	case err == io.EOF:
		return nil, io.EOF
	default:
		return nil, unreadable(r.number, err)
	}
}

// unreadable returns the fault of a line that could not be read.
func unreadable(line int, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &Fault{line, "cannot be read: the compressed transcript is cut off"}
	}
	if ofFile, ok := errors.AsType[*fs.PathError](err); ok {
		err = ofFile.Err // whoever opened the file knows its name
	}
	return &Fault{line, "cannot be read: " + err.Error()}
}
