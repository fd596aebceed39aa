package personaltest

import (
	"context"
	"reflect"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
)

// Contract is everything that a module may offer.
type Contract interface {
	personal.Service
	personal.Administration
}

// Fake is a fake of everything that a module may offer, see [HandledBy].
type Fake struct {
	Service
	Administration
}

var _ Contract = (*Fake)(nil)

// HandledBy returns a fake whose operations all call handle, with a nil request if they take
// none. They return its result if that has the operation's result type, and else the zero
// value. Functions of the fake may be replaced before the first
// call.
func HandledBy(handle func(ctx context.Context, operation personal.OperationName, request any) (result any, err error)) *Fake {
	f := &Fake{}
	for _, part := range []any{&f.Service, &f.Administration} {
		fields := reflect.ValueOf(part).Elem()
		for i := range fields.NumField() {
			operation := personal.OperationName(strings.TrimSuffix(fields.Type().Field(i).Name, "Func"))
			function := fields.Field(i).Type()
			fields.Field(i).Set(reflect.MakeFunc(function, func(in []reflect.Value) []reflect.Value {
				var request any
				if len(in) == 2 {
					request = in[1].Interface()
				}
				result, err := handle(in[0].Interface().(context.Context), operation, request)
				out := make([]reflect.Value, function.NumOut())
				for i, returned := range []any{result, err}[2-len(out):] {
					out[i] = reflect.Zero(function.Out(i))
					if v := reflect.ValueOf(returned); v.IsValid() && v.Type().AssignableTo(function.Out(i)) {
						out[i] = v
					}
				}
				return out
			}))
		}
	}
	return f
}

// callAs calls an operation that needs credentials, with no other parameter.
func callAs(ctx context.Context, s personal.Service, operation personal.OperationName, c personal.Credentials) error {
	method := reflect.ValueOf(s).MethodByName(string(operation))
	request := reflect.New(method.Type().In(1)).Elem()
	if request.Type() == reflect.TypeOf(c) {
		request.Set(reflect.ValueOf(c))
	} else {
		request.FieldByName("Credentials").Set(reflect.ValueOf(c))
	}
	out := method.Call([]reflect.Value{reflect.ValueOf(ctx), request})
	err, _ := out[len(out)-1].Interface().(error)
	return err
}
