package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// served writes the lists of a server, in both encodings. A server has built-in objects: roles, priorities, services.
func served(out io.Writer, kubeconfig string) error {
	p, err := newPeer(kubeconfig)
	if err != nil {
		return err
	}
	found, err := p.groups()
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for _, g := range found.Items {
		for _, v := range g.Versions {
			for _, r := range v.Resources {
				if !slices.Contains(r.Verbs, "list") {
					continue
				}
				path := root(g.Metadata.Name, v.Version) + "/" + r.Resource
				name := g.Metadata.Name + "/" + v.Version + "/" + r.ResponseKind.Kind + "List"
				one, err := p.list(path, name)
				if err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				if err := encoder.Encode(one); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// list reads the same version of a list in both encodings.
func (p *peer) list(path, name string) (*sample, error) {
	text, err := p.read(path, "application/json")
	if err != nil {
		return nil, err
	}
	var list struct{ Metadata meta.ListMeta }
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	if version := list.Metadata.ResourceVersion; version != "" {
		path += "?resourceVersionMatch=Exact&resourceVersion=" + version
	}
	wire, err := p.read(path, "application/vnd.kubernetes.protobuf")
	return &sample{Kind: name, Wire: wire, JSON: string(bytes.TrimSuffix(text, []byte("\n")))}, err
}
