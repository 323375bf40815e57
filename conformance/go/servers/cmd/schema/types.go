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

// Types with their own encoding, which a reader of the table must know.
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

// field is one field of a message. It is exported because it is written as JSON by the command `types`.
type field struct {
	Name            string
	Number          int
	Type            string
	OmitEmpty, Zero bool
	Inline          bool
	Strategy, Merge string
	// Since is the first release that has the field, as 1.37; empty if the server has it.
	Since string
	// Where the field is in the Go source, to find its comment markers.
	Package, Struct, GoName string
}

// message is a struct of the Go types. Alias is the last three parts of Model.
type message struct {
	Alias, Model string
	// Since is the first release that has the message, as 1.37; empty if the server has it.
	Since  string
	Fields []field
}

// walker collects the messages that kinds consist of.
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
		return "", fmt.Errorf("%s and %s have the same short name", model, other.Model)
	}
	w.seen[typ] = alias
	m := &message{Alias: alias, Model: model}
	w.messages[alias] = m
	if typ.Kind() == reflect.Slice {
		m.Fields = []field{{Name: "items", Number: 1, Type: "[]string"}}
		return alias, nil
	}
	for i := 0; i < typ.NumField(); i++ {
		f, ok, err := w.field(typ.Field(i))
		if err != nil {
			return "", fmt.Errorf("%s.%s: %w", model, typ.Field(i).Name, err)
		}
		if ok {
			f.Package, f.Struct, f.GoName = typ.PkgPath(), typ.Name(), typ.Field(i).Name
			m.Fields = append(m.Fields, f)
		}
	}
	return alias, nil
}

func (w *walker) field(f reflect.StructField) (field, bool, error) {
	tag, ok := f.Tag.Lookup("json")
	if !ok && f.Anonymous {
		tag, ok = ",inline", true
	}
	// The unions of apiextensions have no member names in JSON: the value of the set member is encoded.
	if _, onWire := f.Tag.Lookup("protobuf"); !ok && onWire {
		ok = true
	}
	if !ok || tag == "-" || !f.IsExported() {
		return field{}, false, nil
	}
	parts := strings.Split(tag, ",")
	out := field{Name: parts[0], Strategy: f.Tag.Get("patchStrategy"), Merge: f.Tag.Get("patchMergeKey")}
	for _, option := range parts[1:] {
		switch option {
		case "omitempty":
			out.OmitEmpty = true
		case "omitzero":
			out.Zero = true
		}
	}
	out.Inline = f.Anonymous && out.Name == ""
	if out.Name == "" && !out.Inline {
		out.Name = f.Name
	}
	if proto := strings.Split(f.Tag.Get("protobuf"), ","); len(proto) > 1 {
		number, err := strconv.Atoi(proto[1])
		if err != nil {
			return out, false, err
		}
		out.Number = number
	}
	var err error
	out.Type, err = w.typeOf(f.Type)
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
