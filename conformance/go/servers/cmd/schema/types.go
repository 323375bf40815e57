package main

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Types that write themselves in their own way; a reader of the table has to know them.
var special = map[reflect.Type]string{
	reflect.TypeOf(meta.Time{}):                                  "time",
	reflect.TypeOf(meta.MicroTime{}):                             "microtime",
	reflect.TypeOf(meta.Duration{}):                              "duration",
	reflect.TypeOf(meta.FieldsV1{}):                              "fields",
	reflect.TypeOf(resource.Quantity{}):                          "quantity",
	reflect.TypeOf(intstr.IntOrString{}):                         "intorstring",
	reflect.TypeOf(runtime.RawExtension{}):                       "raw",
	reflect.TypeOf(apiextensions.JSON{}):                         "json",
	reflect.TypeOf(apiextensions.JSONSchemaPropsOrArray{}):       "schemaorarray",
	reflect.TypeOf(apiextensions.JSONSchemaPropsOrBool{}):        "schemaorbool",
	reflect.TypeOf(apiextensions.JSONSchemaPropsOrStringArray{}): "schemaorstrings",
}

type field struct {
	name            string
	number          int
	typ             string
	omitempty, zero bool
	inline          bool
	strategy, merge string
}

type message struct {
	alias, model string
	fields       []field
}

// walker collects the messages that kinds are made of.
type walker struct {
	messages map[string]*message
	seen     map[reflect.Type]string
}

// modelName is the name under which a server publishes a type.
func modelName(typ reflect.Type) string {
	if named, ok := reflect.New(typ).Interface().(interface{ OpenAPIModelName() string }); ok {
		return named.OpenAPIModelName()
	}
	folder, rest, _ := strings.Cut(typ.PkgPath(), "/")
	parts := strings.Split(folder, ".")
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(parts, ".") + "." + strings.ReplaceAll(rest, "/", ".") + "." + typ.Name()
}

// message walks a struct and returns its short name.
func (w *walker) message(typ reflect.Type) (string, error) {
	if alias, ok := w.seen[typ]; ok {
		return alias, nil
	}
	model := modelName(typ)
	parts := strings.Split(model, ".")
	alias := strings.Join(parts[len(parts)-3:], ".")
	if other, ok := w.messages[alias]; ok {
		return "", fmt.Errorf("%s and %s have one short name", model, other.model)
	}
	w.seen[typ] = alias
	m := &message{alias: alias, model: model}
	w.messages[alias] = m
	if typ.Kind() == reflect.Slice {
		m.fields = []field{{name: "items", number: 1, typ: "[]string"}}
		return alias, nil
	}
	for i := 0; i < typ.NumField(); i++ {
		f, ok, err := w.field(typ.Field(i))
		if err != nil {
			return "", fmt.Errorf("%s.%s: %w", model, typ.Field(i).Name, err)
		}
		if ok {
			m.fields = append(m.fields, f)
		}
	}
	return alias, nil
}

func (w *walker) field(f reflect.StructField) (field, bool, error) {
	tag, ok := f.Tag.Lookup("json")
	if !ok && f.Anonymous {
		tag, ok = ",inline", true
	}
	// The unions of apiextensions have no names in JSON: they write the member that is set.
	if _, onWire := f.Tag.Lookup("protobuf"); !ok && onWire {
		ok = true
	}
	if !ok || tag == "-" || !f.IsExported() {
		return field{}, false, nil
	}
	parts := strings.Split(tag, ",")
	out := field{name: parts[0], strategy: f.Tag.Get("patchStrategy"), merge: f.Tag.Get("patchMergeKey")}
	for _, option := range parts[1:] {
		switch option {
		case "omitempty":
			out.omitempty = true
		case "omitzero":
			out.zero = true
		}
	}
	out.inline = f.Anonymous && out.name == ""
	if out.name == "" && !out.inline {
		out.name = f.Name
	}
	if proto := strings.Split(f.Tag.Get("protobuf"), ","); len(proto) > 1 {
		number, err := strconv.Atoi(proto[1])
		if err != nil {
			return out, false, err
		}
		out.number = number
	}
	var err error
	out.typ, err = w.typeOf(f.Type)
	return out, true, err
}

var wrapper = reflect.TypeOf((*interface{ Marshal() ([]byte, error) })(nil)).Elem()

func (w *walker) typeOf(typ reflect.Type) (string, error) {
	if name, ok := special[typ]; ok {
		if strings.HasPrefix(name, "schema") {
			_, err := w.message(typ)
			return name, err
		}
		return name, nil
	}
	prefix := map[reflect.Kind]string{reflect.Pointer: "*", reflect.Map: "{}", reflect.Slice: "[]"}[typ.Kind()]
	switch typ.Kind() {
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Uint8 {
			return "bytes", nil
		}
		if typ.Implements(wrapper) {
			name, err := w.message(typ)
			return "%" + name, err
		}
		fallthrough
	case reflect.Pointer, reflect.Map:
		inner, err := w.typeOf(typ.Elem())
		return prefix + inner, err
	case reflect.Struct:
		return w.message(typ)
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64:
		return typ.Kind().String(), nil
	case reflect.Uint8:
		return "uint32", nil
	case reflect.Interface:
		return "any", nil
	}
	return "", fmt.Errorf("no rule for %s", typ)
}
