package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
)

// catalog is the content of one release of the Go types.
type catalog struct {
	// Version is the version of the module k8s.io/api, as v0.36.3.
	Version  string
	Messages map[string]*message
	// Kinds are sorted by group, version and kind.
	Kinds []catalogKind
}

type catalogKind struct {
	Group, Version, Kind, Alias string
	// Since is the first release that has the kind, as 1.37; empty if the server has it.
	Since string
}

// ownCatalog reads the types that this program is linked with.
func ownCatalog() (*catalog, error) {
	_, kinds, err := allKinds()
	if err != nil {
		return nil, err
	}
	w := &walker{messages: map[string]*message{}, seen: map[reflect.Type]string{}}
	c := &catalog{Version: moduleVersion("k8s.io/api"), Messages: w.messages}
	for _, k := range kinds {
		alias, err := w.message(k.typ)
		if err != nil {
			return nil, err
		}
		c.Kinds = append(c.Kinds, catalogKind{k.gvk.Group, k.gvk.Version, k.gvk.Kind, alias, ""})
	}
	return c, nil
}

// types writes the catalog of this program's types, for `table --served-types` of a program with newer types.
func types(out io.Writer) error {
	c, err := ownCatalog()
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(c)
}

func readCatalog(path string) (*catalog, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var c catalog
	return &c, json.Unmarshal(text, &c)
}

// moduleVersion returns the version of a module that this program is linked with, or "-".
func moduleVersion(path string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == path {
			if dependency.Replace != nil {
				return dependency.Replace.Version
			}
			return dependency.Version
		}
	}
	return "-"
}

// release returns the Kubernetes release of a module version: v0.37.2 is of 1.37.
func release(version string) string { return "1." + strings.Split(version+"..", ".")[1] }

// add merges the types that the server is built from into the newer types of this catalog. Kinds, messages and fields
// that only the newer types have are marked with their release. Those that only the server has are added.
func (c *catalog) add(served *catalog) error {
	since := release(c.Version)
	for alias, newer := range c.Messages {
		older := served.Messages[alias]
		if older == nil {
			newer.Since = since
		} else if err := newer.add(older, since); err != nil {
			return err
		}
	}
	for alias, older := range served.Messages {
		if c.Messages[alias] == nil {
			c.Messages[alias] = older
		}
	}
	for i, k := range c.Kinds {
		if !slices.ContainsFunc(served.Kinds, k.same) {
			c.Kinds[i].Since = since
		}
	}
	for _, k := range served.Kinds {
		if !slices.ContainsFunc(c.Kinds, k.same) {
			c.Kinds = append(c.Kinds, k)
		}
	}
	slices.SortFunc(c.Kinds, func(a, b catalogKind) int { return strings.Compare(a.path(), b.path()) })
	return nil
}

func (k catalogKind) path() string { return k.Group + "/" + k.Version + ", Kind=" + k.Kind }

func (k catalogKind) same(other catalogKind) bool { return k.path() == other.path() }

// add merges the fields of the server's version of the same message. A field that both versions have is taken
// from the server's version. Its name, number and type must be the same in both, or the two releases could
// not read each other's objects.
func (m *message) add(older *message, since string) error {
	for i := range m.Fields {
		f := &m.Fields[i]
		at := slices.IndexFunc(older.Fields, f.collides)
		if at < 0 {
			f.Since = since
			continue
		}
		old := older.Fields[at]
		if old.Name != f.Name || old.Number != f.Number || old.Type != f.Type {
			return fmt.Errorf("%s: the server has %s %d %s, the newer types have %s %d %s",
				m.Model, old.Name, old.Number, old.Type, f.Name, f.Number, f.Type)
		}
		*f = old
	}
	for i, f := range older.Fields {
		if !slices.ContainsFunc(m.Fields, f.collides) {
			at := 0
			if i > 0 {
				at = 1 + slices.IndexFunc(m.Fields, older.Fields[i-1].collides)
			}
			m.Fields = slices.Insert(m.Fields, at, f)
		}
	}
	return nil
}

// collides reports whether two fields of one message have the same name or the same number on the wire. Embedded fields
// have no name, and are distinguished by their types.
func (f *field) collides(other field) bool {
	if f.Inline || other.Inline {
		return f.Inline && other.Inline && f.Type == other.Type
	}
	return f.Name == other.Name || f.Number > 0 && f.Number == other.Number
}
