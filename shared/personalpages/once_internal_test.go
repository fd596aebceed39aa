package personalpages

import "testing"

func TestOnces_KeepsTheNewest(t *testing.T) {
	o := newOnces(nil)
	first, _ := o.begin(o.digest([]byte("first")))
	for i := range maxOnce {
		o.begin(o.digest([]byte{byte(i), byte(i >> 8)}))
	}
	if o.oldest.Len() != maxOnce || len(o.kept) != maxOnce {
		t.Errorf("got %d and %d responses, want %d", o.oldest.Len(), len(o.kept), maxOnce)
	}
	if _, again := o.begin(first.request); !again {
		t.Error("the oldest response is still kept")
	}
}
