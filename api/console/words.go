package console

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
)

type moment struct{ ISO, Text, Ago string }

// moment returns nil if there is no time.
func (x *Console) moment(t *time.Time) *moment {
	if t == nil || t.IsZero() {
		return nil
	}
	at := t.UTC()
	return &moment{
		ISO:  at.Format(time.RFC3339Nano),
		Text: at.Format("2 Jan 2006 15:04:05") + " UTC",
		Ago:  away(x.Now().Sub(at)),
	}
}

func away(d time.Duration) string {
	if d < 0 {
		return "in " + span(-d)
	}
	return span(d) + " ago"
}

func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return "a moment"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

func short(s string) string {
	if len(s) <= 16 {
		return s
	}
	return s[:6] + "…" + s[len(s)-6:]
}

// stateWord is a state in a word, and the CSS class of its colour.
type stateWord struct{ Word, Class string }

var deliveryWords = map[string]stateWord{
	"QUEUED": {"Queued", "queued"}, "WAITING": {"Waiting", "waiting"},
	"DELIVERED": {"Delivered", "delivered"}, "FAILED": {"Failed", "failed"},
	"CANCELLED": {"Cancelled", "cancelled"},
}

func wordOf(d client.Delivery) stateWord {
	if d.Held {
		return stateWord{"Held", "held"}
	}
	if word, known := deliveryWords[d.State]; known {
		return word
	}
	return stateWord{d.State, "cancelled"}
}

var typeWords = map[string]string{
	"payment.received": "Payment received",
	"payment.rejected": "Payment rejected",
	"endpoint.failing": "Endpoint failing", "endpoint.disabled": "Endpoint disabled",
	"test.ping": "Test",
}

var disabledWords = map[string]string{
	"gone":                 "the receiver responded with 410 Gone",
	"consecutive_failures": "too many consecutive deliveries failed",
	"manual":               "it was disabled manually",
}

var warningForm = regexp.MustCompile(`^[A-Z_]+(:[0-9A-Za-z_-]{1,64})?$`)

// warningWords returns the meaning of an API warning, or "" if it is unknown. Warnings come from
// the URL, which may contain any text.
func warningWords(warning string) string {
	if detail := client.WarningDetail(warning); warningForm.MatchString(warning) && detail != warning {
		return detail
	}
	return ""
}

var partWords = map[string]string{
	"directory": "Endpoints, watches and keys",
	"disk":      "Disk",
	"engine":    "Deliveries",
	"follower":  "Ledgers",
	"history":   "History",
}

// worded returns the meaning of one of the API's words, or the word itself.
func worded(words map[string]string, word string) string {
	if meaning, known := words[word]; known {
		return meaning
	}
	return word
}

// assetWords returns an asset's code and the ends of its issuer, because anybody can issue an asset
// with the same code.
func assetWords(a client.Asset) string {
	if a.Issuer == nil {
		return a.Code
	}
	return a.Code + " of " + short(*a.Issuer)
}

func rulesInWords(w client.Watch) []string {
	assets := make([]string, len(w.Assets))
	for i, a := range w.Assets {
		assets[i] = assetWords(a)
	}
	lines := []string{
		"The asset is " + orList(assets) + ".",
		amountInWords(w.AmountRule),
		memoInWords(w.MemoRule),
	}
	switch n := len(w.SenderAllowlist); n {
	case 0:
		lines = append(lines, "Anyone may send it.")
	case 1:
		lines = append(lines, "Only "+short(w.SenderAllowlist[0])+" may send it.")
	default:
		lines = append(lines, fmt.Sprintf("Only %d listed senders may send it.", n))
	}
	if w.Once {
		lines = append(lines, "Only the first such payment matches.")
	}
	return lines
}

func amountInWords(r client.AmountRule) string {
	switch r.Kind {
	case "any":
		return "Any amount is accepted."
	case "exact":
		return "The amount is exactly " + r.Amount + "."
	case "min":
		return "The amount is " + r.Amount + " or more."
	case "max":
		return "The amount is " + r.Amount + " or less."
	case "range":
		return "The amount is between " + r.Min + " and " + r.Max + ", inclusive."
	}
	return "The amount follows a rule that this console does not know: " + r.Kind + "."
}

func memoInWords(r client.MemoRule) string {
	switch r.Kind {
	case "any":
		return "A memo is optional."
	case "present":
		return "A memo is required."
	case "absent":
		return "A memo is not allowed."
	case "equals":
		return "The memo is the " + r.Type + " “" + r.Value + "”."
	}
	return "The memo follows a rule that this console does not know: " + r.Kind + "."
}

func orList(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
	return strings.Join(words, "")
}
