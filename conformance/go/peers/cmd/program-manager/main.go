// A typical manager of controller-runtime with default settings: a custom resource that owns Deployments
// and config maps, status, finalizer, server-side apply, events, an index, and leader election. It does not know the
// server that it runs against. Only its ports differ from the defaults, because several such programs share a machine.
package main

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"informer.example/peers/internal/program"
)

func main() {
	ctrl.SetLogger(zap.New())
	program.Main("manager", body)
}

// User creates, changes and deletes a website, and waits for the reaction of the manager.
type User struct {
	client.Client
	manager   ctrl.Manager
	namespace string
	sites     *Reconciler
}

func body(ctx context.Context, run *program.Run) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	user, ended := &User{namespace: run.Name}, make(chan error, 1)
	run.Step("a CRD is created", func() error { return user.define(ctx, run) })
	run.Step("a manager starts, leads, and syncs its caches", func() error {
		mgr, err := user.start(run)
		if err != nil {
			return err
		}
		go func() { ended <- mgr.Start(ctx) }()
		select {
		case <-mgr.Elected():
		case err := <-ended:
			return fmt.Errorf("the manager ended: %w", err)
		}
		return program.Want("synced", mgr.GetCache().WaitForCacheSync(ctx), true)
	})
	run.Step("a website gets a deployment and a config map", func() error { return user.creates(ctx) })
	run.Step("deleted objects are re-created", func() error { return user.repairs(ctx) })
	run.Step("a website is scaled", func() error { return user.scales(ctx) })
	run.Step("cached lists select by index, label and field", func() error { return user.reads(ctx) })
	run.Step("an invalid website is rejected", func() error { return user.refused(ctx) })
	run.Step("an event was recorded", func() error { return user.recorded(ctx) })
	run.Step("a deleted website is finalized, and its objects are garbage collected", func() error { return user.deletes(ctx) })
	run.Step("the manager stops", func() error {
		stop()
		return <-ended
	})
	run.Step("CRD and namespace are deleted", func() error { return user.leave(context.Background()) })
	run.Step("built-in kinds were transferred as protobuf", run.Protobuf)
}

// define creates the CRD, as a user would do before, and waits until it is served.
func (u *User) define(ctx context.Context, run *program.Run) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	plain, err := client.New(run.Config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	u.Client = plain
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: u.namespace}}
	if err := plain.Create(ctx, namespace); err != nil {
		return err
	}
	if err := plain.Create(ctx, definition()); err != nil {
		return err
	}
	return program.Until(ctx, func() error {
		found := &apiextensionsv1.CustomResourceDefinition{}
		if err := plain.Get(ctx, client.ObjectKey{Name: definition().Name}, found); err != nil {
			return err
		}
		for _, condition := range found.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return errors.New("the kind is not established")
	})
}

// start creates the manager and its controller.
func (u *User) start(run *program.Run) (ctrl.Manager, error) {
	mgr, err := ctrl.NewManager(run.Config, ctrl.Options{
		Scheme:                  u.Scheme(),
		Metrics:                 server.Options{BindAddress: "127.0.0.1:0"},
		HealthProbeBindAddress:  "127.0.0.1:0",
		LeaderElection:          true,
		LeaderElectionID:        "websites.program.example.com",
		LeaderElectionNamespace: u.namespace,
		// Releasing the lease when the manager stops is safe only because the program then exits.
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, err
	}
	u.manager = mgr
	u.sites = &Reconciler{Client: mgr.GetClient(), recorder: mgr.GetEventRecorder("website-controller")}
	image := func(object client.Object) []string { return []string{object.(*Website).Spec.Image} }
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &Website{}, "spec.image", image); err != nil {
		return nil, err
	}
	return mgr, ctrl.NewControllerManagedBy(mgr).
		For(&Website{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.ConfigMap{}, builder.OnlyMetadata).
		Complete(u.sites)
}

func (u *User) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: u.namespace, Name: name}
}

func (u *User) website(name string) *Website {
	return &Website{
		ObjectMeta: metav1.ObjectMeta{Namespace: u.namespace, Name: name, Labels: map[string]string{"made": "by-hand"}},
		Spec:       WebsiteSpec{Image: "registry.example.com/web:1", Replicas: 2},
	}
}

func (u *User) creates(ctx context.Context) error {
	if err := u.Create(ctx, u.website("shop")); err != nil {
		return err
	}
	return program.Until(ctx, func() error {
		site, deployment, settings := &Website{}, &appsv1.Deployment{}, &corev1.ConfigMap{}
		if err := u.Get(ctx, u.key("shop"), deployment); err != nil {
			return err
		}
		if err := u.Get(ctx, u.key("shop"), settings); err != nil {
			return err
		}
		if err := u.Get(ctx, u.key("shop"), site); err != nil {
			return err
		}
		if err := program.Want("replicas", *deployment.Spec.Replicas, 2); err != nil {
			return err
		}
		if err := program.Want("owner", metav1.IsControlledBy(settings, site), true); err != nil {
			return err
		}
		if err := program.Want("a default of the schema", site.Spec.Theme, "plain"); err != nil {
			return err
		}
		if err := program.Want("managers of the config map", manager(settings, Owner), true); err != nil {
			return err
		}
		return program.Want("status", site.Status.Wanted, 2)
	})
}

// manager reports whether a field manager has applied an object.
func manager(object client.Object, name string) bool {
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == name && entry.Operation == metav1.ManagedFieldsOperationApply {
			return true
		}
	}
	return false
}

func (u *User) repairs(ctx context.Context) error {
	deployment := &appsv1.Deployment{}
	if err := u.Get(ctx, u.key("shop"), deployment); err != nil {
		return err
	}
	if err := u.Delete(ctx, deployment); err != nil {
		return err
	}
	if err := u.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: u.namespace, Name: "shop"}}); err != nil {
		return err
	}
	return program.Until(ctx, func() error {
		again := &appsv1.Deployment{}
		if err := u.Get(ctx, u.key("shop"), again); err != nil {
			return err
		}
		if err := program.Want("a new uid", again.UID != deployment.UID, true); err != nil {
			return err
		}
		return u.Get(ctx, u.key("shop"), &corev1.ConfigMap{})
	})
}

func (u *User) scales(ctx context.Context) error {
	site := &Website{}
	if err := u.Get(ctx, u.key("shop"), site); err != nil {
		return err
	}
	before := site.DeepCopy()
	site.Spec.Replicas = 3
	if err := u.Patch(ctx, site, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	return program.Until(ctx, func() error {
		deployment := &appsv1.Deployment{}
		if err := u.Get(ctx, u.key("shop"), deployment); err != nil {
			return err
		}
		if err := program.Want("replicas", *deployment.Spec.Replicas, 3); err != nil {
			return err
		}
		if err := u.Get(ctx, u.key("shop"), site); err != nil {
			return err
		}
		if err := program.Want("generation told in the status", site.Status.ObservedGeneration, site.Generation); err != nil {
			return err
		}
		return program.Want("status", site.Status.Wanted, 3)
	})
}

func (u *User) reads(ctx context.Context) error {
	for _, name := range []string{"blog", "wiki"} {
		site := u.website(name)
		site.Spec.Image = "registry.example.com/other:1"
		site.Spec.Replicas = 0
		if err := u.Create(ctx, site); err != nil {
			return err
		}
	}
	cached := u.manager.GetClient()
	if err := program.Until(ctx, func() error {
		sites := &WebsiteList{}
		by := client.MatchingFields{"spec.image": "registry.example.com/other:1"}
		if err := cached.List(ctx, sites, client.InNamespace(u.namespace), by); err != nil {
			return err
		}
		return program.Want("websites of an image", len(sites.Items), 2)
	}); err != nil {
		return err
	}
	if err := u.DeleteAllOf(ctx, &Website{}, client.InNamespace(u.namespace), client.MatchingLabels{"made": "nowhere"}); err != nil {
		return err
	}
	metas := &metav1.PartialObjectMetadataList{}
	metas.SetGroupVersionKind(GroupVersion.WithKind("WebsiteList"))
	if err := u.List(ctx, metas, client.InNamespace(u.namespace), client.MatchingLabels{"made": "by-hand"}); err != nil {
		return err
	}
	return program.Want("websites by label", len(metas.Items), 3)
}

func (u *User) refused(ctx context.Context) error {
	site := u.website("huge")
	site.Spec.Replicas = 1000
	if err := u.Create(ctx, site); !apierrors.IsInvalid(err) {
		return fmt.Errorf("a create with 1000 replicas returned: %v", err)
	}
	err := u.Create(ctx, u.website("tried"), client.DryRunAll)
	if err != nil {
		return err
	}
	return program.Want("a dry run stores no object", apierrors.IsNotFound(u.Get(ctx, u.key("tried"), &Website{})), true)
}

func (u *User) recorded(ctx context.Context) error {
	return program.Until(ctx, func() error {
		events := &eventsv1.EventList{}
		if err := u.List(ctx, events, client.InNamespace(u.namespace)); err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Reason == "Created" && event.Regarding.Name == "shop" && event.ReportingController == "website-controller" {
				return nil
			}
		}
		return fmt.Errorf("no such event among %d", len(events.Items))
	})
}

func (u *User) deletes(ctx context.Context) error {
	if err := u.Delete(ctx, u.website("shop"), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return err
	}
	return program.Until(ctx, func() error {
		for _, object := range []client.Object{&Website{}, &appsv1.Deployment{}, &corev1.ConfigMap{}} {
			if err := u.Get(ctx, u.key("shop"), object); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%T still exists: %v", object, err)
			}
		}
		// The object may be gone before the reconciler has received the response to its update.
		return program.Want("finalized", u.sites.finalized.Load(), 1)
	})
}

func (u *User) leave(ctx context.Context) error {
	// The manager, which would remove the finalizers, has stopped. They are removed here, so that the
	// namespace can be deleted.
	sites := &WebsiteList{}
	if err := u.List(ctx, sites, client.InNamespace(u.namespace)); err != nil {
		return err
	}
	for _, site := range sites.Items {
		before := site.DeepCopy()
		controllerutil.RemoveFinalizer(&site, Finalizer)
		if err := u.Patch(ctx, &site, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	if err := u.Delete(ctx, definition()); err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: u.namespace}}
	if err := u.Delete(ctx, namespace, &client.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		return err
	}
	return program.Until(ctx, func() error {
		if err := u.Get(ctx, client.ObjectKey{Name: u.namespace}, namespace); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the namespace still exists: %v, %+v", err, namespace.Status)
		}
		return nil
	})
}
