package pluginadmin

import (
	"encoding/json"
	"net/http"

	"github.com/cms-personal/personal/shared/pluginmanager"
)

// ErrorResponse is the body of every refusal.
type ErrorResponse struct {
	Error   string                    `json:"error"`             // the whole of it, as a sentence
	Step    string                    `json:"step,omitempty"`    // of the swap, at which it was refused
	Version string                    `json:"version,omitempty"` // asked for, or uploaded
	Reason  string                    `json:"reason,omitempty"`
	Swap    *pluginmanager.SwapStatus `json:"swap,omitempty"` // the other one, which is under way
}

func refuse(w http.ResponseWriter, status int, f ErrorResponse) { writeJSON(w, status, f) }

// fail answers what is nobody's fault but ours, and keeps the cause to the log.
func (a *api) fail(w http.ResponseWriter, r *http.Request, doing string, err error) {
	a.options.Log.ErrorContext(r.Context(), "plugin administration: "+doing, "error", err)
	refuse(w, http.StatusInternalServerError, ErrorResponse{Error: doing + " failed, see the log"})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error means that nobody listens any more
}
