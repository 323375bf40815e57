package main

import (
	"context"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applyv1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	// Owner is the field manager that applies config maps.
	Owner = "website-controller"
	// Finalizer keeps a website until it is cleaned up.
	Finalizer = "program.example.com/website"
)

// GroupVersion is the group and version of the kind.
var GroupVersion = schema.GroupVersion{Group: "program.example.com", Version: "v1"}

// WebsiteSpec is the desired state of a website.
type WebsiteSpec struct {
	Image    string `json:"image"`
	Replicas int32  `json:"replicas"`
	Theme    string `json:"theme,omitempty"`
}

// WebsiteStatus is the actual state of a website.
type WebsiteStatus struct {
	Wanted             int32 `json:"wanted"`
	ObservedGeneration int64 `json:"observedGeneration"`
}

// Website is a kind of this program.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WebsiteSpec   `json:"spec"`
	Status            WebsiteStatus `json:"status,omitempty"`
}

// WebsiteList is a list of websites.
type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Website `json:"items"`
}

// DeepCopy copies a website.
func (w *Website) DeepCopy() *Website {
	copied := *w
	w.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	return &copied
}

// DeepCopyObject implements runtime.Object.
func (w *Website) DeepCopyObject() runtime.Object { return w.DeepCopy() }

// DeepCopyObject implements runtime.Object.
func (l *WebsiteList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = make([]Website, len(l.Items))
	for index := range l.Items {
		copied.Items[index] = *l.Items[index].DeepCopy()
	}
	return &copied
}

// AddToScheme registers the kind.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Website{}, &WebsiteList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

func definition() *apiextensionsv1.CustomResourceDefinition {
	integer := apiextensionsv1.JSONSchemaProps{Type: "integer", Minimum: ptr.To(0.0), Maximum: ptr.To(100.0)}
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	theme := apiextensionsv1.JSONSchemaProps{Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"plain"`)}}
	object := func(properties map[string]apiextensionsv1.JSONSchemaProps, required ...string) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties, Required: required}
	}
	properties := map[string]apiextensionsv1.JSONSchemaProps{
		"spec": object(map[string]apiextensionsv1.JSONSchemaProps{"image": text, "replicas": integer, "theme": theme}, "image"),
		"status": object(map[string]apiextensionsv1.JSONSchemaProps{
			"wanted": {Type: "integer"}, "observedGeneration": {Type: "integer", Format: "int64"},
		}),
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "websites." + GroupVersion.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: GroupVersion.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Website", ListKind: "WebsiteList", Plural: "websites", Singular: "website"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: GroupVersion.Version, Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: ptr.To(object(properties, "spec"))},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}

// Reconciler creates the objects of a website.
type Reconciler struct {
	client.Client
	recorder events.EventRecorder
	// The number of websites whose finalizer was removed.
	finalized atomic.Int32
}

// Reconcile receives the key of a website and not the cause.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	site := &Website{}
	if err := r.Get(ctx, request.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		if controllerutil.RemoveFinalizer(site, Finalizer) {
			// The cache may still show the finalizer after it was removed. The server rejects the second update.
			if err := r.Update(ctx, site); err != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
			r.finalized.Add(1)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(site, Finalizer) {
		return ctrl.Result{}, r.Update(ctx, site)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name}}
	result, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		return r.shape(deployment, site)
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if result == controllerutil.OperationResultCreated {
		r.recorder.Eventf(site, deployment, corev1.EventTypeNormal, "Created", "Reconciling", "a deployment of %d", site.Spec.Replicas)
	}
	owner := applymetav1.OwnerReference().
		WithAPIVersion(GroupVersion.String()).WithKind("Website").WithName(site.Name).WithUID(site.UID).WithController(true)
	settings := applyv1.ConfigMap(site.Name, site.Namespace).
		WithOwnerReferences(owner).WithData(map[string]string{"theme": site.Spec.Theme})
	if err := r.Apply(ctx, settings, client.FieldOwner(Owner), client.ForceOwnership); err != nil {
		return ctrl.Result{}, err
	}
	before := site.DeepCopy()
	site.Status = WebsiteStatus{Wanted: site.Spec.Replicas, ObservedGeneration: site.Generation}
	return ctrl.Result{}, r.Status().Patch(ctx, site, client.MergeFrom(before))
}

func (r *Reconciler) shape(deployment *appsv1.Deployment, site *Website) error {
	labels := map[string]string{"website": site.Name}
	deployment.Spec.Replicas = ptr.To(site.Spec.Replicas)
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	deployment.Spec.Template.Labels = labels
	if len(deployment.Spec.Template.Spec.Containers) == 0 {
		deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web"}}
	}
	deployment.Spec.Template.Spec.Containers[0].Image = site.Spec.Image
	return controllerutil.SetControllerReference(site, deployment, r.Scheme())
}
