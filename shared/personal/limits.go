package personal

import "time"

// What an account may have (HTTP contract, section 3).
const (
	MaxSessions       = 100 // above it, a new session replaces the one unused for longest
	MaxPasskeys       = 20
	MaxIdentities     = 20
	MaxKnownAddresses = 20 // above it, the one unused for longest is forgotten
	MaxRecoveryCodes  = 10 // new ones of a second factor
)

// What refused codes of a second factor lead to, away from fully known addresses (HTTP contract,
// section 5). Of someone who knows the password a hundred codes are judged. At any time three of a
// million codes are right.
const (
	RefusedCodeWindow = 30 * 24 * time.Hour // they count for so long
	CodesToNotice     = 3                   // this one and every later one have a notice
	CodeNoticeEvery   = 24 * time.Hour      // unless there was one within this time
	CodesToBlock      = 100                 // this one and every later one block the codes of the app for the window
)

// The lengths of texts, in characters.
const (
	MaxPasskeyName  = 64
	MaxMethod       = 32  // of [SignInRequest].Method
	MaxSearchLength = 254 // as many as an e-mail may have

	// MaxUnknownName is the longest name of a parameter that no operation and no user field has: a
	// request with a longer one is refused as a whole (HTTP contract, section 1).
	MaxUnknownName = 64
)

// The sizes of parts, in bytes.
const (
	MaxIdentityPart = 255     // of an [Identity]
	MaxExport       = 3 << 20 // of the JSON of an [Export]
)

// The lengths of lists.
const (
	DefaultUserLimit    = 50  // users on a page, if the request sets no limit
	MaxUserLimit        = 100 // users on a page
	MaxUsers            = 200 // ids of [Administration.Users]
	DefaultAuditLimit   = 50  // entries of the audit log on a page, if the request sets no limit
	MaxAuditLimit       = 100 // entries on a page
	MaxExplainAddresses = 10  // of an [ExplainRequest] and a [LiftLimitsRequest]
	MaxPreviewExamples  = 5   // of a [FieldsPreview]
)
