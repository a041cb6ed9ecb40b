package canonical

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// The results of tools that deliver messages. Every delivery has new ids and times, and services report them under many
// names. Without them two deliveries of the same text to the same place are the same.

// deliveryFields are the fields (folded) that change with every delivery, wherever they stand.
var deliveryFields = map[string]bool{
	"messageid": true, "messageids": true, "platformmessageid": true, "platformmessageids": true,
	"fileid": true, "filekey": true, "pollid": true, "receipt": true, "runid": true, "idempotencykey": true,
	"ts": true, "sid": true, "etag": true, "nonce": true,
	"timestamp": true, "sentat": true, "deliveredat": true, "createdat": true, "datecreated": true,
	"dateupdated": true, "datesent": true, "createddatetime": true, "lastmodifieddatetime": true,
	"editedtimestamp": true,
}

// encodeDelivery encodes the details without what changes with every delivery. The text is left out: it repeats the ids.
// It returns the mask that takes the ids out of the strings that stay.
func (s *shape) encodeDelivery(e *encoder) mask {
	d := delivery{tape: s.tape, top: s.details}
	d.strikeVolatile(s.details, false)
	mask := d.echoes()
	e.begin("message")
	e.mask = mask
	e.value(s.tape, s.details)
	return mask
}

// encodeDeliveryText encodes the result of a delivery of which there is only a text.
func (s *shape) encodeDeliveryText(e *encoder) {
	e.begin("message text")
	e.mask = maskDelivery
	s.encodeText(e)
}

// delivery strikes what changes with every delivery and collects what it said.
type delivery struct {
	*tape
	top int
	ids []string
}

// strikeVolatile goes through the details. A value stands below a message if it is the value of a key "message" or
// "messages", or an element of a list that is.
func (d *delivery) strikeVolatile(at int, isMessage bool) {
	for element := range d.elements(at) {
		d.strikeVolatile(element, isMessage)
	}
	if !d.is(at, objectNode) {
		return
	}
	ownsID := at == d.top || isMessage || d.hasBody(at)
	isSent := d.field(at, "messageid") != none || d.field(at, "platformmessageid") != none
	for name, value := range d.fields(at) {
		switch folded := foldField(d.nodes[name].text); {
		case deliveryFields[folded],
			ownsID && (folded == "id" || folded == "threadid"),
			isSent && folded == "date":
			d.strike(name)
			if folded != "receipt" {
				d.collect(value)
			}
		default:
			d.strikeVolatile(value, folded == "message" || folded == "messages")
		}
	}
}

// hasBody reports whether an object has the text of a message, so that its id is the id of a message.
func (d *delivery) hasBody(at int) bool {
	for _, name := range []string{"text", "content", "body"} {
		if _, ok := d.isText(d.field(at, name)); ok {
			return true
		}
	}
	return false
}

// collect remembers the strings of a value that was struck, except those in a receipt, which names the place too.
func (d *delivery) collect(at int) {
	const shortest = 6 // characters; anything shorter could be a word
	if said, ok := d.isText(at); ok && utf8.RuneCountInString(said) >= shortest {
		d.ids = append(d.ids, said)
	}
	for element := range d.elements(at) {
		d.collect(element)
	}
	for name, value := range d.fields(at) {
		if !foldsTo(d.nodes[name].text, "receipt") {
			d.collect(value)
		}
	}
}

// echoes returns a mask for the collected strings, the longest first, or nil if there are none.
//
// Each string costs a pass over what stays. A hostile result could hold a million of them, so there is a limit, far above
// what a delivery reports, that keeps the cost of a result in proportion to its size.
func (d *delivery) echoes() mask {
	if len(d.ids) == 0 {
		return nil
	}
	slices.SortFunc(d.ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	ids := slices.Compact(d.ids)
	size := 0
	for i := range d.nodes {
		size += 1 + len(d.nodes[i].text)
	}
	const passes, work = 64, 4 << 20
	ids = ids[:min(len(ids), passes+work/size)]
	shortest := len(ids[len(ids)-1])
	return func(r *rewriter) {
		if len(r.s) < shortest {
			return
		}
		for _, id := range ids {
			r.start(strings.ReplaceAll(r.s, id, masked))
		}
	}
}
