package anthropic

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/loopguard-go/loopguard/middleware"
)

// remark is what the guard has to say about a call that there was no tool for; mostly nothing.
type remark struct {
	refusal string // to be read in place of the result
	note    string // to be read after it
}

// send stands between the runner and the API. There is no other place from which a run can be ended, since runners make
// results of all errors, nor one at which a call is seen that came to no tool.
func (c *conversation) send(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	if err := c.inspect(req); err != nil {
		if s, ok := req.Context().Value(stepKey{}).(step); ok {
			s.cancel(err) // or the client would try again
		}
		return nil, c.end(err)
	}
	return next(req)
}

// inspect looks at a request, and changes what the model reads of unknown tools. The error is that with which the run ends.
func (c *conversation) inspect(req *http.Request) error {
	if stop := c.stopped(); stop != nil {
		return stop
	}
	if !c.awaits() && len(c.remarks) == 0 || req.Body == nil {
		return nil
	}
	body, err := io.ReadAll(req.Body)
	_ = req.Body.Close()
	if err != nil {
		return fmt.Errorf("loopguard: reading a request: %w", err)
	}
	edited := body
	for m, message := range gjson.GetBytes(body, "messages").Array() {
		for b, block := range message.Get("content").Array() {
			if block.Get("type").String() != "tool_result" {
				continue
			}
			said, err := c.about(req.Context(), block)
			if err != nil {
				return err
			}
			edited = said.edit(edited, fmt.Sprintf("messages.%d.content.%d.content", m, b), block.Get("content"))
		}
	}
	if strings.HasPrefix(req.Header.Get("Authorization"), "AWS4-") { // signed: it cannot be changed any more
		edited = body
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(edited)), int64(len(edited))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(edited)), nil }
	return nil
}

// about returns what there is to say about a result. If that is the runner's answer to a call that came to no tool, the
// call is judged, once.
func (c *conversation) about(ctx context.Context, result gjson.Result) (remark, error) {
	id := result.Get("tool_use_id").String()
	if !result.Get("is_error").Bool() {
		return remark{}, nil
	}
	call, ok := c.remove(func(p pending) bool { return p.id == id })
	if !ok {
		return c.remarks[id], nil
	}
	said, err := c.judgeUnknown(ctx, call)
	if err == nil && said != (remark{}) {
		if c.remarks == nil {
			c.remarks = map[string]remark{}
		}
		c.remarks[id] = said
	}
	return said, err
}

// judgeUnknown takes a call of a tool that does not exist through the guard.
func (c *conversation) judgeUnknown(ctx context.Context, call pending) (remark, error) {
	ticket, err := c.guard.Begin(ctx, middleware.Call{ID: call.id, Tool: call.name, Args: string(call.input), Unknown: true})
	if err != nil {
		return remark{}, err
	}
	if text, refused := ticket.Refusal(); refused {
		return remark{refusal: text}, nil
	}
	if stop := ticket.End(ctx, middleware.Result{}, unknown(call.name)); stop != nil {
		return remark{}, stop
	}
	return remark{note: ticket.Note()}, nil
}

// unknown is the error of a call of a tool that does not exist.
func unknown(tool string) error { return fmt.Errorf("%w: %s", middleware.ErrUnknownTool, tool) }

// edit puts a remark into the JSON of a request, of which content is the result at the path.
func (r remark) edit(body []byte, path string, content gjson.Result) []byte {
	if r == (remark{}) {
		return body
	}
	said := r.refusal
	if said == "" {
		said = content.Get("0.text").String() + r.note
	}
	edited, err := sjson.SetBytes(body, path, []map[string]string{{"type": "text", "text": said}})
	if err != nil {
		return body // such as it is, the model reads the runner's own words
	}
	return edited
}
