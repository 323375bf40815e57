package main

import (
	"reflect"
	"sort"
	"strings"

	admission "k8s.io/api/admission/v1"
	discovery "k8s.io/api/apidiscovery/v2"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

const metaPackage = "k8s.io/apimachinery/pkg/apis/meta/v1"

// The kinds of meta/v1 that clients and servers exchange. Each is known in every group; the table has it once.
var metaKinds = []runtime.Object{
	&meta.Status{}, &meta.APIVersions{}, &meta.APIGroup{}, &meta.APIGroupList{}, &meta.APIResourceList{}, &meta.List{},
	&meta.DeleteOptions{}, &meta.CreateOptions{}, &meta.UpdateOptions{}, &meta.PatchOptions{}, &meta.ListOptions{},
	&meta.GetOptions{}, &meta.PartialObjectMetadata{}, &meta.PartialObjectMetadataList{}, &meta.Table{},
}

type kind struct {
	gvk schema.GroupVersionKind
	typ reflect.Type
}

// allKinds lists the published kinds, sorted by group, version and kind.
func allKinds() (*runtime.Scheme, []kind, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, admission.AddToScheme, discovery.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme,
	} {
		if err := add(s); err != nil {
			return nil, nil, err
		}
	}
	var kinds []kind
	for gvk, typ := range s.AllKnownTypes() {
		internal := gvk.Version == runtime.APIVersionInternal
		if !internal && typ.PkgPath() != metaPackage && !strings.HasSuffix(typ.PkgPath(), "/watch") {
			kinds = append(kinds, kind{gvk, typ})
		}
	}
	for _, object := range metaKinds {
		typ := reflect.TypeOf(object).Elem()
		gvk := schema.GroupVersionKind{Group: "meta.k8s.io", Version: "v1", Kind: typ.Name()}
		s.AddKnownTypeWithName(gvk, object)
		kinds = append(kinds, kind{gvk, typ})
	}
	sort.Slice(kinds, func(a, b int) bool { return kinds[a].gvk.String() < kinds[b].gvk.String() })
	return s, kinds, nil
}
