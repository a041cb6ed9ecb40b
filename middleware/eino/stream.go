package eino

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"runtime"
	"strings"

	"github.com/cloudwego/eino/schema"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
)

// textStreamForm is the result of a streamable tool.
var textStreamForm = streamed(
	func(t *transcript, chunk string) { t.text.add(chunk) },
	textForm.say,
)

// partsStreamForm is the result of an enhanced streamable tool.
var partsStreamForm = streamed(
	func(t *transcript, chunk *schema.ToolResult) {
		if chunk == nil {
			return
		}
		for _, p := range chunk.Parts {
			if p.Type == schema.ToolPartTypeText {
				t.text.add(p.Text)
			} else {
				t.addPart(p)
			}
		}
	},
	textResult,
)

// streamed is the form of a stream. Every chunk goes through at once, in the goroutine of whoever reads; the outcome is all
// that was read when the stream ends, and the note is a last chunk.
//
// There is no way to learn that a reader is closed without a goroutine of one's own. Of a stream that is closed before its
// end, or is just forgotten, it is the garbage collector that tells: its call is taken back.
func streamed[T any](hear func(*transcript, T), say func(string) T) form[*schema.StreamReader[T]] {
	return form[*schema.StreamReader[T]]{
		say: func(text string) *schema.StreamReader[T] { return schema.StreamReaderFromArray([]T{say(text)}) },
		finish: func(stream *schema.StreamReader[T], l listener) (*schema.StreamReader[T], error) {
			if stream == nil {
				_, stop := l.done(middleware.Result{}, nil)
				return nil, stop
			}
			t := new(transcript) // only the functions below have it, and the reader has them
			if l.abandoned != nil {
				runtime.AddCleanup(t, func(abandoned func()) { abandoned() }, l.abandoned)
			}
			return schema.StreamReaderWithConvert(stream,
				func(chunk T) (T, error) {
					hear(t, chunk)
					return chunk, nil
				},
				schema.WithErrWrapper(func(err error) error {
					if _, merged := schema.GetSourceName(err); merged { // one of several streams ended, and not the whole
						return err
					}
					*t = transcript{}
					return l.failed(err)
				}),
				schema.WithOnEOF(func() (any, error) {
					result, search := t.result(), t.search
					*t = transcript{} // whoever keeps the reader need not keep it all
					note, stop := l.done(result, nil)
					switch {
					case stop != nil:
						return nil, stop
					case note == "" || search:
						return nil, io.EOF
					}
					return say(note), nil
				}),
			), nil
		},
	}
}

// kept is how much of a stream is held for comparison, in bytes. Of what is longer the rest is compared by a digest.
const kept = 1 << 20

// transcript is what was read of a stream.
type transcript struct {
	text   longText
	parts  []any
	size   int  // of the parts
	search bool // there is a part that has to stand alone
}

// addPart adds a part that is no text.
func (t *transcript) addPart(p schema.ToolOutputPart) {
	part := partOf(p)
	t.search = t.search || isSearch(p)
	raw, _ := json.Marshal(part) // there is nothing in it that could fail
	if t.size += len(raw); t.size > kept {
		part = fmt.Sprintf("sha256:%x", sha256.Sum256(raw))
	}
	t.parts = append(t.parts, part)
}

func (t *transcript) result() middleware.Result {
	return middleware.Result{Result: canonical.Result{Text: t.text.String(), Parts: t.parts}}
}

// longText is a text of which only the beginning is kept.
type longText struct {
	beginning strings.Builder
	rest      hash.Hash
	more      int
}

func (t *longText) add(s string) {
	n := min(len(s), kept-t.beginning.Len())
	t.beginning.WriteString(s[:n])
	if s = s[n:]; s == "" {
		return
	}
	if t.rest == nil {
		t.rest = sha256.New()
	}
	_, _ = io.WriteString(t.rest, s)
	t.more += len(s)
}

func (t *longText) String() string {
	if t.rest == nil {
		return t.beginning.String()
	}
	return fmt.Sprintf("%s\n%d more bytes, sha256:%x", t.beginning.String(), t.more, t.rest.Sum(nil))
}
