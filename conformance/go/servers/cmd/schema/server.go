package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// peer is a real server that is queried.
type peer struct {
	address string
	client  *http.Client
}

func newPeer(kubeconfig string) (*peer, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(config)
	return &peer{strings.TrimSuffix(config.Host, "/"), client}, err
}

func (p *peer) get(path, accept string, into any) error {
	body, err := p.read(path, accept)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

func (p *peer) read(path, accept string) ([]byte, error) {
	request, err := http.NewRequest(http.MethodGet, p.address+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	response, err := p.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", path, response.Status)
	}
	return body, err
}

// model is the published schema of a type.
type model struct {
	Required   []string             `json:"required"`
	Properties map[string]*property `json:"properties"`
	MapType    string               `json:"x-kubernetes-map-type"`
}

type property struct {
	Default  json.RawMessage `json:"default"`
	Enum     []string        `json:"enum"`
	Items    *property       `json:"items"`
	ListType string          `json:"x-kubernetes-list-type"`
	ListKeys []string        `json:"x-kubernetes-list-map-keys"`
	MapType  string          `json:"x-kubernetes-map-type"`
}

// models reads every published type.
func (p *peer) models() (map[string]*model, error) {
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := p.get("/openapi/v3", "application/json", &index); err != nil {
		return nil, err
	}
	all := map[string]*model{}
	for _, path := range index.Paths {
		var document struct {
			Components struct{ Schemas map[string]*model }
		}
		if err := p.get(path.ServerRelativeURL, "application/json", &document); err != nil {
			return nil, err
		}
		for name, m := range document.Components.Schemas {
			all[name] = m
		}
	}
	return all, nil
}

type groups struct {
	Items []struct {
		Metadata struct{ Name string }
		Versions []struct {
			Version   string
			Resources []entry
		}
	}
}

type responseKind struct{ Group, Version, Kind string }

type entry struct {
	Resource, Scope, SingularResource string
	ResponseKind                      responseKind
	Verbs, ShortNames, Categories     []string
	Subresources                      []struct {
		Subresource  string
		ResponseKind responseKind
		Verbs        []string
	}
}

// groups reads discovery, the core group first.
func (p *peer) groups() (groups, error) {
	const accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	var core, rest groups
	if err := p.get("/api", accept, &core); err != nil {
		return rest, err
	}
	err := p.get("/apis", accept, &rest)
	core.Items = append(core.Items, rest.Items...)
	return core, err
}

// hashes reads the storage version hashes of one group version, by resource.
func (p *peer) hashes(root string) (map[string]string, error) {
	var list struct {
		Resources []struct{ Name, StorageVersionHash string }
	}
	if err := p.get(root, "application/json", &list); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, r := range list.Resources {
		out[r.Name] = r.StorageVersionHash
	}
	return out, nil
}

type column struct {
	Name, Type, Format string
	Priority           int
}

// columns requests a list as a table.
func (p *peer) columns(path string) ([]column, error) {
	var list struct{ ColumnDefinitions []column }
	err := p.get(path, "application/json;as=Table;v=v1;g=meta.k8s.io", &list)
	return list.ColumnDefinitions, err
}

func (p *peer) version() (string, error) {
	var v struct{ GitVersion string }
	err := p.get("/version", "application/json", &v)
	return v.GitVersion, err
}

func root(group, version string) string {
	if group == "" {
		return "/api/" + version
	}
	return "/apis/" + group + "/" + version
}

func joined(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ",")
}

func sorted(names []string) []string {
	out := append([]string(nil), names...)
	sort.Strings(out)
	return out
}

func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
