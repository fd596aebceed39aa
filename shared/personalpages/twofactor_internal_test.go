package personalpages

import (
	"strings"
	"testing"
)

// A post is read before anything is checked.
func TestEnrolment_IsNotDrawnBeforeItIsShown(t *testing.T) {
	const uri = "otpauth://totp/Site:anna?secret=JBSWY3DPEHPK3PXP&issuer=Site"
	var e *enrolment
	read := testing.AllocsPerRun(1, func() { e, _ = newEnrolment(uri) })
	drawn := testing.AllocsPerRun(1, func() { _, _ = e.QR() })
	if read > drawn/10 {
		t.Errorf("got %v allocations for reading and %v for drawing, want that reading does not draw", read, drawn)
	}
}

func BenchmarkEnrolment_Read(b *testing.B) {
	uri := "otpauth://totp/Site:anna?secret=JBSWY3DPEHPK3PXP&issuer=" + strings.Repeat("a", 2200)
	for b.Loop() {
		if _, err := newEnrolment(uri); err != nil {
			b.Fatal(err)
		}
	}
}
