package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// table writes the whole table. docs/schema.md describes its grammar.
func table(out io.Writer, config, usual, servedTypes string) error {
	all, err := newPeer(config)
	if err != nil {
		return err
	}
	plain, err := newPeer(usual)
	if err != nil {
		return err
	}
	c, err := ownCatalog()
	if err != nil {
		return err
	}
	served, err := readCatalog(servedTypes)
	if err != nil {
		return err
	}
	if err := c.add(served); err != nil {
		return err
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
	fmt.Fprintln(out, row("V", "1", version, c.Version))
	if err := c.write(out, models); err != nil {
		return err
	}
	for _, k := range c.Kinds {
		line := row("K", or(k.Group, "-"), k.Version, k.Kind, k.Alias)
		if k.Since != "" {
			line += "\tsince=" + k.Since
		}
		fmt.Fprintln(out, line)
	}
	return resources(out, all, plain)
}

func row(cells ...string) string { return strings.Join(cells, "\t") }

func (c *catalog) write(out io.Writer, models map[string]*model) error {
	from, err := newSources()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Messages)) {
		m := c.Messages[name]
		published := models[m.Model]
		if published == nil {
			published = &model{}
		}
		line := row("M", m.Alias, strings.TrimSuffix(m.Model, m.Alias))
		if published.MapType != "" {
			line += "\tmap=" + published.MapType
		}
		fmt.Fprintln(out, line)
		for _, f := range m.Fields {
			p, required := published.Properties[f.Name], slices.Contains(published.Required, f.Name)
			if (f.Since != "" || m.Since != "") && f.GoName != "" && !f.Inline {
				if p, required, err = from.property(f); err != nil {
					return err
				}
			}
			fmt.Fprintln(out, f.row(p, required))
		}
	}
	return nil
}

func (f field) row(p *property, required bool) string {
	flags := ""
	for _, flag := range []struct {
		letter string
		set    bool
	}{{"e", f.OmitEmpty}, {"z", f.Zero}, {"i", f.Inline}, {"r", required}} {
		if flag.set {
			flags += flag.letter
		}
	}
	line := row("", or(f.Name, "-"), fmt.Sprint(f.Number), f.Type, or(flags, "-"))
	extra := func(key, value string) {
		if value != "" {
			line += "\t" + key + "=" + value
		}
	}
	extra("since", f.Since)
	extra("strategy", f.Strategy)
	extra("merge", f.Merge)
	if p != nil {
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
