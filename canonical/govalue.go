package canonical

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// add adds a Go value as the JSON value that it stands for. Maps with string keys, slices, strings, booleans, numbers
// and raw JSON are read as they are; all else goes through [json.Marshal]. Raw JSON that is broken is the text that it
// consists of, and of what JSON cannot express (a channel, a value that contains itself) only the type counts.
func (t *tape) add(v any) int {
	at := len(t.nodes)
	if t.addAny(v, 0) {
		return at
	}
	t.truncate(at)
	return t.scalar(opaqueNode, fmt.Sprintf("%T", v))
}

func (t *tape) addAny(v any, depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch v := v.(type) {
	case nil:
		t.scalar(nullNode, "")
	case bool:
		if v {
			t.scalar(trueNode, "")
		} else {
			t.scalar(falseNode, "")
		}
	case string:
		t.scalar(textNode, v)
	case json.Number:
		t.scalar(numberNode, string(v))
	case int:
		t.scalar(numberNode, strconv.Itoa(v))
	case int64:
		t.scalar(numberNode, strconv.FormatInt(v, 10))
	case float64: // the shortest decimal that means it, which is how JSON writes it; NaN and Inf are no JSON number
		t.scalar(numberNode, strconv.FormatFloat(v, 'g', -1, 64))
	case json.RawMessage:
		t.addRaw(v)
	case map[string]any:
		at := t.open(objectNode)
		for name, value := range v {
			t.scalar(textNode, name)
			if !t.addAny(value, depth+1) {
				return false
			}
		}
		t.close(at)
	case []any:
		at := t.open(arrayNode)
		for _, value := range v {
			if !t.addAny(value, depth+1) {
				return false
			}
		}
		t.close(at)
	default:
		raw, err := json.Marshal(v)
		if err != nil {
			return false
		}
		t.addRaw(raw)
	}
	return true
}

// addRaw adds JSON text, or the text itself where it is not JSON.
func (t *tape) addRaw(raw []byte) {
	s := view(raw)
	if _, ok := t.parse(s); !ok {
		t.scalar(textNode, s)
	}
}
