package console

import (
	"net/http"

	"github.com/lumenhook/lumenhook/api/client"
)

// downloadReceipt answers with the receipt of an event's attempts, byte for byte as the API
// gives it, as a file; or with a page that says why there is none.
func (x *Console) downloadReceipt(w http.ResponseWriter, r *http.Request) {
	v := x.visiting(w, r)
	if v == nil {
		return
	}
	receipt, err := v.api.GetReceipt(r.Context(), r.PathValue("id"), client.ReceiptQuery{})
	if err != nil {
		v.answer(page{}, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", `attachment; filename="receipt-`+receipt.EventID+`.json"`)
	// #nosec G705 -- JSON as a file to keep, with nosniff: no browser shows it as a page
	_, _ = w.Write(v.backend.last) // the browser may be gone: the error concerns nobody
}
