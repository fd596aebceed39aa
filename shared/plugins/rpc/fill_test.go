package rpc_test

import (
	"net/netip"
	"reflect"
	"strconv"
	"time"
)

// filled returns a value of type t without zero values and without equal texts or
// numbers, so that a field that a converter forgets or confuses makes a difference.
func filled(t reflect.Type) any { return new(filler).value(t).Interface() }

type filler struct {
	n      int
	texts  int // so far
	broken int // the number of the text that is not valid UTF-8, from 1; 0 for none
}

func (f *filler) value(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	f.n++
	switch t {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2020, 1, 1, 0, 0, f.n, f.n, time.UTC)))
		return v
	case reflect.TypeFor[netip.Addr]():
		v.Set(reflect.ValueOf(netip.AddrFrom4([4]byte{192, 0, 2, byte(f.n)})))
		return v
	}
	switch t.Kind() {
	case reflect.String:
		v.SetString("text " + strconv.Itoa(f.n))
		if f.texts++; f.texts == f.broken {
			v.SetString("text \xff")
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		f.integer(v)
	case reflect.Uint8:
		v.SetUint(uint64(f.n%255 + 1))
	case reflect.Float64:
		v.SetFloat(float64(f.n) + 0.5)
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		v.Elem().Set(f.value(t.Elem()))
	case reflect.Slice:
		v.Set(reflect.Append(v, f.value(t.Elem()), f.value(t.Elem())))
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(f.value(t.Key()), f.value(t.Elem()))
		v.SetMapIndex(f.value(t.Key()), f.value(t.Elem()))
	case reflect.Struct:
		for i := range t.NumField() {
			v.Field(i).Set(f.value(t.Field(i).Type))
		}
	case reflect.Interface:
		v.Set(reflect.ValueOf(f.any()))
	default:
		panic("cannot fill type " + t.String())
	}
	return v
}

// any returns a value of one of the types that values of user fields have.
func (f *filler) any() any {
	text := "any " + strconv.Itoa(f.n)
	return []any{true, int64(f.n), float64(f.n) + 0.5, text, []string{text}}[f.n%5]
}

// integer uses only the named values of an enumeration.
func (f *filler) integer(v reflect.Value) {
	if v.Type().Name() == "InputKind" {
		v.SetInt(int64(f.n%6 + 1))
		return
	}
	v.SetInt(int64(f.n))
}
