package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand"
	"reflect"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubejson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// sample is one object in both encodings, and the results of decoding and encoding it again.
type sample struct {
	// group/version/kind
	Kind string `json:"kind"`
	// The object as protobuf.
	Wire []byte `json:"wire"`
	// The JSON that Go encodes after decoding Wire.
	JSON string `json:"json"`
	// The protobuf that Go encodes after decoding JSON; absent if it equals Wire.
	Back []byte `json:"back,omitempty"`
	// The same object in JSON that no server would write: empty values, indented, members sorted.
	Loose string `json:"loose,omitempty"`
	// The protobuf that Go encodes after decoding Loose.
	LooseWire []byte `json:"looseWire,omitempty"`
	// A frame of a watch stream with Wire in it.
	Frame []byte `json:"frame,omitempty"`
}

type codecs struct{ wire, text *codec }

type codec struct {
	s       runtime.Serializer
	creator runtime.ObjectCreater
}

func (c *codec) encode(object runtime.Object) ([]byte, error) {
	var out bytes.Buffer
	err := c.s.Encode(object, &out)
	return out.Bytes(), err
}

func newCodecs(s *runtime.Scheme) codecs {
	return codecs{
		&codec{protobuf.NewSerializer(s, s), s},
		&codec{kubejson.NewSerializerWithOptions(kubejson.DefaultMetaFactory, s, s, kubejson.SerializerOptions{}), s},
	}
}

func newFiller(seed int64, name string, n, size int) *filler {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%d %s %d", seed, name, n)
	return &filler{random: rand.New(rand.NewSource(int64(hash.Sum64()))), budget: size}
}

func (k kind) name() string { return k.gvk.Group + "/" + k.gvk.Version + "/" + k.gvk.Kind }

// object fills a new object of a kind.
func (k kind) object(seed int64, n, size int) runtime.Object {
	value := reflect.New(k.typ)
	// Most budgets fill a small kind completely, but leave some fields of a large kind empty. Some budgets
	// are therefore larger.
	newFiller(seed, k.name(), n, size*(1+n%3)).fill(value.Elem())
	object := value.Interface().(runtime.Object)
	object.GetObjectKind().SetGroupVersionKind(k.gvk)
	return object
}

// corpus writes objects of each kind, except of the kinds of another catalog.
func corpus(out io.Writer, without *catalog, seed int64, count, size int) error {
	s, kinds, err := allKinds()
	if err != nil {
		return err
	}
	skip := map[string]bool{}
	for _, k := range without.Kinds {
		skip[k.Group+"/"+k.Version+"/"+k.Kind] = true
	}
	both := newCodecs(s)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for index, k := range kinds {
		if skip[k.name()] || !reflect.PointerTo(k.typ).Implements(wrapper) {
			continue
		}
		for n := 0; n < count; n++ {
			one, err := both.sample(k, k.object(seed, n, size), n == 1, n == 0 && index%16 == 0)
			if err != nil {
				return fmt.Errorf("%s: %w", k.name(), err)
			}
			if err := encoder.Encode(one); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c codecs) sample(k kind, object runtime.Object, loose, frame bool) (*sample, error) {
	wire, err := c.wire.encode(object)
	if err != nil {
		return nil, err
	}
	text, err := c.through(k, c.wire, wire, c.text)
	if err != nil {
		return nil, err
	}
	back, err := c.through(k, c.text, text, c.wire)
	if err != nil {
		return nil, err
	}
	one := &sample{Kind: k.name(), Wire: wire, JSON: string(bytes.TrimSuffix(text, []byte("\n")))}
	if !bytes.Equal(back, wire) {
		one.Back = back
	}
	if loose {
		if err := c.loose(k, object, one); err != nil {
			return nil, err
		}
	}
	if frame {
		event := meta.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: wire}}
		body, err := event.Marshal()
		if err != nil {
			return nil, err
		}
		one.Frame = append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	return one, nil
}

func (c codecs) loose(k kind, object runtime.Object, one *sample) error {
	text, err := c.text.encode(object)
	if err != nil {
		return err
	}
	var members map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&members); err != nil {
		return err
	}
	members["noSuchField"] = map[string]any{"a": []any{1, nil}}
	text, err = json.MarshalIndent(members, "", " ")
	if err != nil {
		return err
	}
	one.Loose = string(text)
	one.LooseWire, err = c.through(k, c.text, text, c.wire)
	return err
}

// through decodes one encoding and encodes the other.
func (c codecs) through(k kind, from *codec, body []byte, to *codec) ([]byte, error) {
	into := reflect.New(k.typ).Interface().(runtime.Object)
	object, _, err := from.s.Decode(body, &k.gvk, into)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", body, err)
	}
	return to.encode(object)
}
