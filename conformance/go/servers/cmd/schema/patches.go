package main

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// merged is one strategic merge patch and its outcome.
type merged struct {
	Kind     string          `json:"kind"`
	Original json.RawMessage `json:"original"`
	Patch    json.RawMessage `json:"patch"`
	Result   json.RawMessage `json:"result,omitempty"`
	// Upstream reports a random one of several errors.
	Refused bool `json:"refused,omitempty"`
}

// patches writes patches that Go creates from two random objects, and the same patches after random damage with directives.
func patches(out io.Writer, seed int64, count, size int) error {
	s, kinds, err := allKinds()
	if err != nil {
		return err
	}
	both := newCodecs(s)
	encoder := json.NewEncoder(out)
	for _, k := range kinds {
		if !reflect.PointerTo(k.typ).Implements(wrapper) {
			continue
		}
		for n := 0; n < count; n++ {
			original, err := both.text.encode(k.object(seed, 2*n, size))
			if err != nil {
				return err
			}
			modified, err := both.text.encode(k.object(seed, 2*n+1, size))
			if err != nil {
				return err
			}
			f := newFiller(seed, k.name()+"#", n, size)
			patch, err := f.patch(k, original, modified)
			if err != nil {
				continue
			}
			if err := encoder.Encode(merge(k, original, patch)); err != nil {
				return err
			}
		}
	}
	return nil
}

func merge(k kind, original, patch []byte) (one *merged) {
	one = &merged{Kind: k.name(), Original: original, Patch: patch}
	// Upstream panics when it compares incomparable values; a server turns the panic into an error.
	defer func() {
		if recover() != nil {
			one.Refused = true
		}
	}()
	result, err := strategicpatch.StrategicMergePatch(original, patch, reflect.New(k.typ).Elem().Interface())
	if err != nil {
		one.Refused = true
	} else {
		one.Result = result
	}
	return one
}

// patch creates a patch from two objects, mostly with random damage.
func (f *filler) patch(k kind, original, modified []byte) ([]byte, error) {
	if f.random.Intn(4) == 0 {
		return f.damage(modified)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(original, modified, reflect.New(k.typ).Elem().Interface())
	if err != nil {
		return nil, err
	}
	if patch, err = settled(patch); err != nil || f.random.Intn(2) == 0 {
		return patch, err
	}
	return f.damage(patch)
}

// settled sorts the names to retain, because upstream lists them in map order.
func settled(patch []byte) ([]byte, error) {
	var tree any
	if err := json.Unmarshal(patch, &tree); err != nil {
		return nil, err
	}
	settle(tree)
	return json.Marshal(tree)
}

func settle(value any) {
	switch node := value.(type) {
	case map[string]any:
		if names, ok := node["$retainKeys"].([]any); ok {
			slices.SortFunc(names, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		for _, member := range node {
			settle(member)
		}
	case []any:
		for _, entry := range node {
			settle(entry)
		}
	}
}

func (f *filler) damage(patch []byte) ([]byte, error) {
	var tree map[string]any
	if err := json.Unmarshal(patch, &tree); err != nil {
		return nil, err
	}
	f.damageTree(tree)
	return json.Marshal(tree)
}

// retained returns names for $retainKeys: the members of a patch, and one more member.
func retained(keys []string, more string) []any {
	out := []any{more}
	for _, key := range keys {
		if key != more && !strings.HasPrefix(key, "$") {
			out = append(out, key)
		}
	}
	return out
}

func (f *filler) damageTree(value any) {
	switch node := value.(type) {
	case map[string]any:
		keys := make([]string, 0, len(node))
		for key := range node {
			keys = append(keys, key)
		}
		for _, key := range sorted(keys) {
			f.damageTree(node[key])
			switch f.random.Intn(40) {
			case 0:
				node[key] = nil
			case 1:
				delete(node, key)
			case 2:
				if list, ok := node[key].([]any); ok {
					node["$deleteFromPrimitiveList/"+key] = list
					delete(node, key)
				}
			case 3:
				node["$retainKeys"] = retained(sorted(keys), key)
			case 4:
				if list, ok := node[key].([]any); ok {
					node[key] = append(list, map[string]any{"$patch": "replace"})
				}
			}
		}
		if f.random.Intn(12) == 0 {
			node["$patch"] = f.pick([]string{"delete", "replace", "merge", "replace", "delete", "bogus"})
		}
	case []any:
		for _, item := range node {
			f.damageTree(item)
		}
	}
}
