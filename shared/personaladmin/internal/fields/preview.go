package fields

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaladmin/internal/frame"
	"github.com/cms-personal/personal/shared/personalhost/fieldstore"
	"github.com/cms-personal/personal/shared/personalweb/ui"
	"github.com/cms-personal/personal/shared/userfields"
)

// Administration is the part of [personal.Administration] that knows what a schema does to
// the users there are.
type Administration interface {
	PreviewFields(ctx context.Context, fields []personal.Field) (personal.FieldsPreview, error)
	FillFields(ctx context.Context, revision string) error
	FieldsFill(ctx context.Context) (personal.FieldsFill, error)
}

// What happens to users whose values the new schema refuses. The administrator chooses
// once they have seen how many these are.
const (
	choiceAsk     = "ask"     // they are asked at their next sign-in
	choiceDefault = "default" // missing values are filled in, and the users asked for the rest
)

// The notices of a saved schema.
const (
	noticeSaved      = "fields_saved"
	noticeFilling    = "fields_saved_filling"
	noticeNotFilling = "fields_saved_not_filling"
)

// proposal is a change that waits for the administrator's choice.
type proposal struct {
	personal.FieldsPreview
	Reasons  []reason
	Warnings []string // of fields that become read-only
	Defaults bool     // a required field has a default, which can be filled in
	Source   string   // of the schema, as JSON
	Revision string   // of the schema that it replaces
}

// reason is why the schema would refuse values of users, with some of them.
type reason struct {
	Label, Reason string
	Users         []example
}

type example struct{ URL, Login string } // URL: of their page; may be empty

// errUnavailable means that the plugin did not say what a change does to users. Nothing was
// saved.
var errUnavailable = errors.New("the plugin is not responding")

// put saves a schema if no user violates it, or keeps a value of a field that it makes read-only.
// Otherwise it asks what to do with the users,
// and returns asked. The notice says what happened. The error is errUnavailable if the plugin
// does not say what users there are. The source is the schema as JSON.
func (p *Pages) put(
	w http.ResponseWriter, r *http.Request, fields []personal.Field, source []byte, revision string,
) (notice string, asked bool, err error) {
	notice = noticeSaved
	current := p.schema()
	if revision == current.Revision && (canViolate(current.Fields, fields) || len(userfields.BecomeReadOnly(current.Fields, fields)) > 0) {
		found, err := p.Administration.PreviewFields(r.Context(), fields)
		switch personal.CodeOf(err) {
		case "":
		case personal.CodeValidationFailed: // the store says what is wrong
		default:
			return "", false, errUnavailable
		}
		if err == nil && (found.Violations > 0 || !found.Complete || len(found.Kept) > 0) {
			return "", true, p.ask(w, r, fields, proposal{FieldsPreview: found, Source: string(source), Revision: revision})
		}
	}
	_, err = p.Store.Put(source, func(current string) bool { return current == revision })
	return notice, false, err
}

// canViolate reports whether users who meet one schema may violate another one.
func canViolate(before, after []personal.Field) bool {
	return slices.ContainsFunc(after, func(f personal.Field) bool {
		i := indexOf(before, f.Name)
		return !f.Hidden && !f.ReadOnly && (i < 0 || !reflect.DeepEqual(judged(before[i]), judged(f)))
	})
}

// judged returns a field with only what its values are judged by, and the default of a
// required one, which can be filled in.
func judged(f personal.Field) personal.Field {
	f.Label, f.Hint, f.PatternMessage, f.Order, f.Group = nil, nil, nil, 0, ""
	if !f.Required {
		f.Default = personal.Input{}
	}
	f.Options = slices.Clone(f.Options)
	for i := range f.Options {
		f.Options[i].Label = nil
	}
	return f
}

// add adds a user to the reason, which it makes if it is new.
func (p *proposal) add(label, why string, user example) {
	i := slices.IndexFunc(p.Reasons, func(r reason) bool { return r.Label == label && r.Reason == why })
	if i < 0 {
		i, p.Reasons = len(p.Reasons), append(p.Reasons, reason{Label: label, Reason: why})
	}
	p.Reasons[i].Users = append(p.Reasons[i].Users, user)
}

// ask shows what saving a schema would do, and lets the administrator choose.
func (p *Pages) ask(w http.ResponseWriter, r *http.Request, fields []personal.Field, body proposal) error {
	labels := p.site.API.Labels(r)
	for _, f := range fields {
		if n := body.Kept[f.Name]; n > 0 {
			body.Warnings = append(body.Warnings, p.site.Text(r, "fields_kept", labels(f.Label, f.Name), n))
		}
	}
	for _, v := range body.FieldsPreview.Examples {
		user := example{p.site.LinkTo(frame.Users, frame.Path+"/users/"+strconv.FormatInt(v.UserID, 10)), v.Login}
		reasons := p.site.API.FieldErrors(r, v.Fields, fields)
		for _, f := range fields {
			code, invalid := v.Fields[f.Name]
			if !invalid {
				continue
			}
			why := reasons[f.Name].Message
			if code == personal.FieldErrorRequired {
				why = p.site.Text(r, "fields_no_value")
			}
			body.add(labels(f.Label, f.Name), why, user)
		}
	}
	body.Defaults = slices.ContainsFunc(fields, func(f personal.Field) bool { return f.Required && !f.Default.IsZero() })
	return p.site.Render(w, r, http.StatusOK, "fieldsask", ui.Page{Body: body})
}

// choose saves a proposed schema as the administrator has chosen.
func (p *Pages) choose(w http.ResponseWriter, r *http.Request, posted ui.Posted) error {
	choice := posted.Get("violations")
	if choice != choiceAsk && choice != choiceDefault {
		return &frame.PageError{Status: http.StatusBadRequest}
	}
	set, err := p.Store.Put([]byte(posted.Get("source")), func(current string) bool { return current == posted.Get("revision") })
	var invalid *userfields.SchemaError
	switch {
	case errors.Is(err, fieldstore.ErrChanged):
		return p.renderList(w, r, http.StatusConflict, p.site.Text(r, "fields_changed"))
	case errors.As(err, &invalid):
		return p.renderList(w, r, http.StatusUnprocessableEntity, invalid.Error())
	case err != nil:
		return err
	}
	notice := noticeSaved
	if choice == choiceDefault {
		notice = noticeFilling
		if err := p.Administration.FillFields(r.Context(), set.Schema.Revision); err != nil {
			p.site.Log.WarnContext(r.Context(), "the filling of user fields did not start", "error", err)
			notice = noticeNotFilling
		}
	}
	return p.saved(w, r, listPath, notice)
}

// fillView is the progress of the last filling.
type fillView struct {
	personal.FieldsFill
	Refresh bool // it is running: the page polls it
}

// progress returns the last filling, or an empty view: the page of the fields must work
// without the plugin.
func (p *Pages) progress(r *http.Request) fillView {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	f, err := p.Administration.FieldsFill(ctx)
	if err != nil || f.State == personal.FillDone && f.Revision != p.schema().Revision { // of an earlier schema
		return fillView{}
	}
	return fillView{FieldsFill: f, Refresh: f.State == personal.FillRunning}
}

func (p *Pages) refreshProgress(w http.ResponseWriter, r *http.Request) error {
	return p.site.RenderPart(w, r, "fields", "fill_progress", p.progress(r))
}

// removal is the field that was removed last, which can be put back while no other change
// was made.
type removal struct {
	Field    personal.Field
	at       int    // its place
	revision string // of the schema without it
}

// putBack puts the removed field back at its place. The stored values were kept.
func (p *Pages) putBack(w http.ResponseWriter, r *http.Request, posted ui.Posted) error {
	last := p.removed.Load()
	if last == nil || last.revision != posted.Get("revision") {
		return p.renderList(w, r, http.StatusConflict, p.site.Text(r, "fields_changed"))
	}
	fields := slices.Insert(slices.Clone(p.schema().Fields), min(last.at, len(p.schema().Fields)), last.Field)
	return p.replace(w, r, fields, posted, listPath+"#listed-"+last.Field.Name, "fields_put_back")
}
