package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cms-personal/personal/internal/transfer"
)

// progressLine is a line on a terminal that is written over and over.
type progressLine struct {
	w     io.Writer // nil: nobody looks
	size  int64     // of the file
	start time.Time
}

// newProgressLine writes on w if that is a terminal.
func newProgressLine(w io.Writer, size int64) *progressLine {
	p := &progressLine{size: size, start: time.Now()}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.w = w
		}
	}
	return p
}

// show writes how far an import is, how fast, and how long it will take.
func (p *progressLine) show(now transfer.Progress) {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K"+p.text(now, time.Since(p.start)))
	}
}

func (p *progressLine) text(now transfer.Progress, took time.Duration) string {
	text := fmt.Sprintf("%3d %%  %d rows", 100*now.Offset/max(p.size, 1), rows(now))
	if now.Offset > 0 && took > 0 {
		left := time.Duration(float64(took) / float64(now.Offset) * float64(p.size-now.Offset))
		text += fmt.Sprintf("  %.0f rows/s  %v left", float64(rows(now))/took.Seconds(), left.Round(time.Second))
	}
	return text
}

func rows(p transfer.Progress) int64 { return p.Imported + p.There + p.Refused }

// clear takes the line away, for other text.
func (p *progressLine) clear() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
