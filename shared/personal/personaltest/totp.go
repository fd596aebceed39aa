package personaltest

import (
	"time"

	"github.com/cms-personal/personal/shared/personal/personaltest/softkey"
)

// CodePeriod is [softkey.CodePeriod].
const CodePeriod = softkey.CodePeriod

// Code is [softkey.Code].
func Code(secret string, at time.Time) string { return softkey.Code(secret, at) }
