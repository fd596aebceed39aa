package main

import (
	"cmp"
	"net/http"
	"time"

	"github.com/cms-personal/personal/host-sample/traffic"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// recordCall notes an answer of the API for the administrators' chart. That the
// caller was refused is no failure.
func recordCall(r *traffic.Recorder, o personalhttp.Observation) {
	r.Count(cmp.Or(o.Operation, otherOperation), o.Status >= http.StatusInternalServerError, o.Took)
}

// recordPages notes the answers of the visitors' pages, all as one operation.
func recordPages(r *traffic.Recorder, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		began := time.Now()
		answer := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(answer, request)
		r.Count("pages", answer.status >= http.StatusInternalServerError, time.Since(began))
	})
}
