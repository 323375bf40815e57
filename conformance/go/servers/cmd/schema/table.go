package main

import (
	"fmt"
	"io"
	"reflect"
	"runtime/debug"
	"slices"
	"sort"
	"strings"
)

// table writes the whole table. Its grammar is told in docs/schema.md.
func table(out io.Writer, config, usual string) error {
	all, err := newPeer(config)
	if err != nil {
		return err
	}
	plain, err := newPeer(usual)
	if err != nil {
		return err
	}
	_, kinds, err := allKinds()
	if err != nil {
		return err
	}
	w := &walker{messages: map[string]*message{}, seen: map[reflect.Type]string{}}
	lines := make([]string, 0, len(kinds))
	for _, k := range kinds {
		alias, err := w.message(k.typ)
		if err != nil {
			return err
		}
		lines = append(lines, row("K", or(k.gvk.Group, "-"), k.gvk.Version, k.gvk.Kind, alias))
	}
	models, err := all.models()
	if err != nil {
		return err
	}
	version, err := all.version()
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "# Made by `cargo xtask schema`. Do not edit.")
	fmt.Fprintln(out, row("V", "1", version, apiVersion()))
	if err := w.write(out, models); err != nil {
		return err
	}
	for _, line := range lines {
		fmt.Fprintln(out, line)
	}
	return resources(out, all, plain)
}

func row(cells ...string) string { return strings.Join(cells, "\t") }

// apiVersion is the version of the module that the types are of.
func apiVersion() string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == "k8s.io/api" {
			if dependency.Replace != nil {
				return dependency.Replace.Version
			}
			return dependency.Version
		}
	}
	return "-"
}

func (w *walker) write(out io.Writer, models map[string]*model) error {
	names := make([]string, 0, len(w.messages))
	for name := range w.messages {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		m := w.messages[name]
		published := models[m.model]
		if published == nil {
			published = &model{}
		}
		line := row("M", m.alias, strings.TrimSuffix(m.model, m.alias))
		if published.MapType != "" {
			line += "\tmap=" + published.MapType
		}
		fmt.Fprintln(out, line)
		for _, f := range m.fields {
			fmt.Fprintln(out, f.row(published))
		}
	}
	return nil
}

func (f field) row(published *model) string {
	flags := ""
	for _, flag := range []struct {
		letter string
		set    bool
	}{{"e", f.omitempty}, {"z", f.zero}, {"i", f.inline}, {"r", slices.Contains(published.Required, f.name)}} {
		if flag.set {
			flags += flag.letter
		}
	}
	line := row("", or(f.name, "-"), fmt.Sprint(f.number), f.typ, or(flags, "-"))
	extra := func(key, value string) {
		if value != "" {
			line += "\t" + key + "=" + value
		}
	}
	extra("strategy", f.strategy)
	extra("merge", f.merge)
	if p := published.Properties[f.name]; p != nil {
		extra("list", p.ListType)
		extra("keys", strings.Join(p.ListKeys, ","))
		extra("map", p.MapType)
		if p.Items != nil {
			extra("enum", strings.Join(p.Items.Enum, ","))
		}
		extra("enum", strings.Join(p.Enum, ","))
		switch text := string(p.Default); text {
		case "", "{}", `""`, "0", "false", "null":
		default:
			extra("default", text)
		}
	}
	return line
}

func resources(out io.Writer, all, plain *peer) error {
	found, err := all.groups()
	if err != nil {
		return err
	}
	usual, err := plain.groups()
	if err != nil {
		return err
	}
	served := map[string]bool{}
	for _, g := range usual.Items {
		for _, v := range g.Versions {
			for _, r := range v.Resources {
				served[g.Metadata.Name+"/"+v.Version+"/"+r.Resource] = true
			}
		}
	}
	for _, g := range found.Items {
		for _, v := range g.Versions {
			path := root(g.Metadata.Name, v.Version)
			hashes, err := all.hashes(path)
			if err != nil {
				return err
			}
			fmt.Fprintln(out, row("G", or(g.Metadata.Name, "-"), v.Version))
			for _, r := range v.Resources {
				usual := served[g.Metadata.Name+"/"+v.Version+"/"+r.Resource]
				if err := r.write(out, all, path, hashes[r.Resource], usual); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (k responseKind) cells() string {
	return row(or(k.Group, "-"), or(k.Version, "-"), or(k.Kind, "-"))
}

func (r entry) write(out io.Writer, all *peer, path, hash string, usual bool) error {
	served := "default"
	if !usual {
		served = "asked"
	}
	fmt.Fprintln(out, row("R", r.Resource, or(r.SingularResource, "-"), r.Scope, r.ResponseKind.cells(), joined(r.Verbs),
		joined(r.ShortNames), joined(r.Categories), or(hash, "-"), served))
	for _, s := range r.Subresources {
		fmt.Fprintln(out, row("S", s.Subresource, s.ResponseKind.cells(), joined(s.Verbs)))
	}
	if !slices.Contains(r.Verbs, "list") {
		return nil
	}
	columns, err := all.columns(path + "/" + r.Resource)
	if err != nil {
		return err
	}
	for _, c := range columns {
		fmt.Fprintln(out, row("C", c.Name, c.Type, or(c.Format, "-"), fmt.Sprint(c.Priority)))
	}
	return nil
}
