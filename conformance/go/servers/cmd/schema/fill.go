package main

import (
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// filler puts random values into objects, until it has spent its budget.
type filler struct {
	random *rand.Rand
	budget int
}

var words = []string{
	"", "a", "web-0", "default", "kube-system", "app.kubernetes.io/name", "10.0.0.1", "TCP", "nginx:1.27@sha256:0f1e",
	"<script>&amp;</script>", "tab\tline\nquote\"back\\slash", "\b\f\r\x00\x1f\x7f", "caf\u00e9 \u65e5\u672c \U0001f980",
	"sep\u2028par\u2029end", "\ufffd", "/", "\u0080\u00ff\uffff",
}

var quantities = []string{
	"0", "1", "100m", "250Mi", "1.5", "1.5Gi", "0.5", "+5", "007", "-3", "12e6", "1E3", "1e-3", "1e2", "123456789012345678901234567890",
	"1025Ki", "1024Ki", "1000", "1500", "0.001", "1n", "1u", "0.1n", "-0.1n", "9Ei", "10Ei", "1k", "3M", "7G", "8T", "9P", "2E", "0.25Ki",
	"-1.5Ki", "1000000k", "100000000000000000m", "0.000", "00.5", ".5", "5.", "1e18", "1e30", "0Mi", "-0", "1.23456789012345678901",
	"9223372036854775807", "-9223372036854775808", "9223372036854775808", "0.1Ki", "1023.5Mi", "12345678.9M", "1Pi", "0.0000000001", "4.5e-5", "6e7",
}

var raws = []string{
	`{}`, `{"a":1,"b":[true,null,"x"]}`, `"text"`, `12.50`, `true`, `[ 1 , 2 ]`, "{ \"k\" :\n\t\"<&>\" }", `{"z":1,"a":{"apiVersion":"v1"}}`, `-1e10`,
}

func (f *filler) pick(from []string) string { return from[f.random.Intn(len(from))] }

func (f *filler) word() string {
	if f.random.Intn(4) > 0 {
		return fmt.Sprintf("%s%d", []string{"n", "key-", "Value", "x.y/"}[f.random.Intn(4)], f.random.Intn(1000))
	}
	return f.pick(words)
}

func (f *filler) number() int64 {
	switch f.random.Intn(5) {
	case 0:
		return 0
	case 1:
		return -f.random.Int63n(1 << 20)
	case 2:
		return f.random.Int63() >> uint(f.random.Intn(63))
	}
	return f.random.Int63n(300)
}

func (f *filler) instant() time.Time {
	switch f.random.Intn(6) {
	case 0:
		return time.Time{}
	case 1:
		return time.Unix(-f.random.Int63n(60_000_000_000), f.random.Int63n(1e9))
	}
	return time.Unix(f.random.Int63n(250_000_000_000), f.random.Int63n(1e9))
}

func (f *filler) quantity() resource.Quantity {
	text := f.pick(quantities)
	if f.random.Intn(3) == 0 {
		text = fmt.Sprintf("%d%s", f.random.Int63n(1<<uint(1+f.random.Intn(50))), f.pick([]string{"", "m", "k", "Ki", "Mi", "Gi", "u", "e3", "M"}))
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", text, err))
	}
	return q
}

// special fills types with their own encoding, and reports whether it did.
func (f *filler) special(v reflect.Value) bool {
	switch p := v.Addr().Interface().(type) {
	case *meta.TypeMeta:
	case *meta.Time:
		p.Time = f.instant()
	case *meta.MicroTime:
		p.Time = f.instant()
	case *meta.Duration:
		p.Duration = time.Duration(f.number() >> uint(f.random.Intn(20)))
	case *resource.Quantity:
		*p = f.quantity()
	case *intstr.IntOrString:
		*p = intstr.FromInt32(int32(f.number()))
		if f.random.Intn(2) == 0 {
			*p = intstr.FromString(f.word())
		}
	case *runtime.RawExtension:
		if f.random.Intn(3) > 0 {
			p.Raw = []byte(f.pick(raws))
		}
	case *meta.FieldsV1:
		if f.random.Intn(3) > 0 {
			p.SetRawBytes([]byte(`{"f:metadata":{"f:labels":{".":{},"f:` + "a<b" + `":{}}}}`))
		}
	case *apiextensions.JSON:
		if f.random.Intn(3) > 0 {
			p.Raw = []byte(f.pick(raws))
		}
	case *apiextensions.JSONSchemaPropsOrBool:
		if p.Allows = f.random.Intn(2) == 0; p.Allows && f.random.Intn(2) == 0 {
			p.Schema = &apiextensions.JSONSchemaProps{}
			f.fill(reflect.ValueOf(p.Schema).Elem())
		}
	default:
		return false
	}
	return true
}

func (f *filler) fill(v reflect.Value) {
	f.budget--
	if f.budget < 0 || f.special(v) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, i := range f.random.Perm(v.NumField()) {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i))
			}
		}
	case reflect.Pointer:
		if f.random.Intn(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem())
		}
	case reflect.Slice:
		if n := f.random.Intn(4); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n-1, n-1))
			for i := 0; i < v.Len(); i++ {
				f.fill(v.Index(i))
			}
		}
	case reflect.Map:
		if n := f.random.Intn(4); n > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for i := 0; i < n-1; i++ {
				value := reflect.New(v.Type().Elem()).Elem()
				f.fill(value)
				v.SetMapIndex(reflect.ValueOf(f.word()).Convert(v.Type().Key()), value)
			}
		}
	default:
		f.scalar(v)
	}
}

func (f *filler) scalar(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.ToValidUTF8(f.word(), ""))
	case reflect.Bool:
		v.SetBool(f.random.Intn(2) == 0)
	case reflect.Int32:
		v.SetInt(int64(int32(f.number())))
	case reflect.Int64:
		v.SetInt(f.number())
	case reflect.Uint8:
		v.SetUint(uint64(f.random.Intn(256)))
	case reflect.Float64:
		v.SetFloat([]float64{0, 1, -1.5, 1e21, 1e-7, 123456789.125, 1e20, 3.0e-6}[f.random.Intn(8)])
	}
}
