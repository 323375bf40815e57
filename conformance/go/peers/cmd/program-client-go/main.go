// A typical program on client-go with default settings: writes through the clientset, shared informers,
// events, elections, and the dynamic and the metadata client. It does not know the server that it runs
// against.
package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	applyv1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"informer.example/peers/internal/program"
)

func main() {
	program.Main("client-go", body)
}

// Client is the clientset and the namespace of this run.
type Client struct {
	kubernetes.Interface
	run       *program.Run
	namespace string
}

func body(ctx context.Context, run *program.Run) {
	clientset, err := kubernetes.NewForConfig(run.Config)
	client := &Client{clientset, run, run.Name}
	run.Step("a namespace is created", func() error {
		if err != nil {
			return err
		}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: client.namespace}}
		_, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
		return err
	})
	run.Step("informers receive the writes of the clientset", func() error { return client.informers(ctx) })
	run.Step("errors distinguish existing, missing and stale objects", func() error { return client.errors(ctx) })
	run.Step("patches of each type change an object", func() error { return client.patches(ctx) })
	run.Step("two managers apply one object", func() error { return client.applies(ctx) })
	run.Step("status and scale are written as subresources", func() error { return client.subresources(ctx) })
	run.Step("a PodDisruptionBudget blocks an eviction", func() error { return client.eviction(ctx) })
	run.Step("a pager lists in pages", func() error { return client.pages(ctx) })
	run.Step("the dynamic and the metadata client see the same objects", func() error { return client.others(ctx) })
	run.Step("a service account gets a token", func() error { return client.token(ctx) })
	run.Step("equal events are counted", func() error { return client.events(ctx) })
	run.Step("one candidate leads, the other takes over", func() error { return client.election(ctx) })
	run.Step("a namespace is deleted with its content", func() error { return client.leave(ctx) })
	run.Step("built-in kinds were transferred as protobuf", run.Protobuf)
}

func (c *Client) configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "program"}},
		Data:       map[string]string{"key": "one"},
	}
}

func (c *Client) errors(ctx context.Context) error {
	maps := c.CoreV1().ConfigMaps(c.namespace)
	made, err := maps.Create(ctx, c.configMap("errors"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if _, err := maps.Create(ctx, c.configMap("errors"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("a second create returned: %v", err)
	}
	if _, err := maps.Get(ctx, "nobody", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("a read of a missing object returned: %v", err)
	}
	stale := made.DeepCopy()
	made.Data["key"] = "two"
	if _, err := maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	stale.Data["key"] = "three"
	if _, err := maps.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("a stale update returned: %v", err)
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		fresh, err := maps.Get(ctx, "errors", metav1.GetOptions{})
		if err != nil {
			return err
		}
		fresh.Data["key"] = "three"
		_, err = maps.Update(ctx, fresh, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	wrong := c.configMap("Not A Name")
	if _, err := maps.Create(ctx, wrong, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		return fmt.Errorf("a create with an invalid name returned: %v", err)
	}
	other := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("another"))}}
	if err := maps.Delete(ctx, "errors", other); !apierrors.IsConflict(err) {
		return fmt.Errorf("a delete with another uid returned: %v", err)
	}
	return maps.Delete(ctx, "errors", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &made.UID}})
}

func (c *Client) patches(ctx context.Context) error {
	pods := c.CoreV1().Pods(c.namespace)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "patched", Labels: map[string]string{"app": "program"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "a", Image: "registry.example.com/a:1"}, {Name: "b", Image: "registry.example.com/b:1"},
		}},
	}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	strategic := `{"spec":{"containers":[{"name":"b","image":"registry.example.com/b:2"}]}}`
	patched, err := pods.Patch(ctx, "patched", types.StrategicMergePatchType, []byte(strategic), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	if err := program.Want("containers", len(patched.Spec.Containers), 2); err != nil {
		return err
	}
	if err := program.Want("image", patched.Spec.Containers[1].Image, "registry.example.com/b:2"); err != nil {
		return err
	}
	json := `[{"op":"test","path":"/metadata/labels/app","value":"program"},{"op":"add","path":"/metadata/labels/json","value":"yes"}]`
	if _, err := pods.Patch(ctx, "patched", types.JSONPatchType, []byte(json), metav1.PatchOptions{}); err != nil {
		return err
	}
	merge := `{"metadata":{"labels":{"app":null,"merge":"yes"}}}`
	patched, err = pods.Patch(ctx, "patched", types.MergePatchType, []byte(merge), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	return program.Want("labels", fmt.Sprint(patched.Labels), "map[json:yes merge:yes]")
}

func (c *Client) applies(ctx context.Context) error {
	maps := c.CoreV1().ConfigMaps(c.namespace)
	ours := applyv1.ConfigMap("applied", c.namespace).WithData(map[string]string{"ours": "1", "both": "1"})
	if _, err := maps.Apply(ctx, ours, metav1.ApplyOptions{FieldManager: "one"}); err != nil {
		return err
	}
	theirs := applyv1.ConfigMap("applied", c.namespace).WithData(map[string]string{"theirs": "2", "both": "2"})
	if _, err := maps.Apply(ctx, theirs, metav1.ApplyOptions{FieldManager: "two"}); !apierrors.IsConflict(err) {
		return fmt.Errorf("an apply of another manager's field returned: %v", err)
	}
	if _, err := maps.Apply(ctx, theirs, metav1.ApplyOptions{FieldManager: "two", Force: true}); err != nil {
		return err
	}
	// Fields that the first manager no longer applies are removed, unless the second manager owns them.
	less := applyv1.ConfigMap("applied", c.namespace)
	applied, err := maps.Apply(ctx, less, metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		return err
	}
	if err := program.Want("data", fmt.Sprint(applied.Data), "map[both:2 theirs:2]"); err != nil {
		return err
	}
	extracted, err := applyv1.ExtractConfigMap(applied, "two")
	if err != nil {
		return err
	}
	return program.Want("fields of the second manager", len(extracted.Data), 2)
}

func (c *Client) deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			// Zero pods, because a controller of the server would otherwise write the status, too.
			Replicas: ptr.To[int32](0),
			Paused:   true,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "registry.example.com/web:1"}}},
			},
		},
	}
}

func (c *Client) subresources(ctx context.Context) error {
	pods := c.CoreV1().Pods(c.namespace)
	pod, err := pods.Get(ctx, "patched", metav1.GetOptions{})
	if err != nil {
		return err
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Labels["ignored"] = "here"
	pod, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	if err := program.Want("phase", pod.Status.Phase, corev1.PodRunning); err != nil {
		return err
	}
	deployments := c.AppsV1().Deployments(c.namespace)
	made, err := deployments.Create(ctx, c.deployment("scaled"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := program.Want("a default", made.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType); err != nil {
		return err
	}
	return program.Until(ctx, func() error {
		scale, err := deployments.GetScale(ctx, "scaled", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := program.Want("selector", scale.Status.Selector, "app=scaled"); err != nil {
			return err
		}
		scale.Spec.Replicas = 1
		scale, err = deployments.UpdateScale(ctx, "scaled", scale, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		return program.Want("replicas", scale.Spec.Replicas, 1)
	})
}

func (c *Client) eviction(ctx context.Context) error {
	pods := c.CoreV1().Pods(c.namespace)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "budget"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"merge": "yes"}},
		},
	}
	budgets := c.PolicyV1().PodDisruptionBudgets(c.namespace)
	if _, err := budgets.Create(ctx, budget, metav1.CreateOptions{}); err != nil {
		return err
	}
	// The status that a disruption controller would write: no pod may be evicted.
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		budget, err := budgets.Get(ctx, "budget", metav1.GetOptions{})
		if err != nil {
			return err
		}
		budget.Status.ObservedGeneration = budget.Generation
		budget.Status.DesiredHealthy = 1
		_, err = budgets.UpdateStatus(ctx, budget, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	evict := func() error {
		return pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "patched"}})
	}
	// A pending pod may always be evicted, so make it a running one.
	if err := evict(); !apierrors.IsTooManyRequests(err) {
		return fmt.Errorf("an eviction blocked by a PodDisruptionBudget returned: %v", err)
	}
	if err := budgets.Delete(ctx, "budget", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := program.Until(ctx, evict); err != nil {
		return err
	}
	// The pod was never on a node, so its deletion does not wait for a kubelet.
	return program.Until(ctx, func() error {
		_, err := pods.Get(ctx, "patched", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the pod still exists: %v", err)
		}
		return nil
	})
}

func (c *Client) pages(ctx context.Context) error {
	maps := c.CoreV1().ConfigMaps(c.namespace)
	const count = 7
	for number := range count {
		if _, err := maps.Create(ctx, c.configMap(fmt.Sprintf("page-%d", number)), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	asked, seen := 0, 0
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		asked++
		return maps.List(ctx, options)
	})
	pages.PageSize = 3
	options := metav1.ListOptions{LabelSelector: "app=program"}
	err := pages.EachListItem(ctx, options, func(runtime.Object) error { seen++; return nil })
	if err != nil {
		return err
	}
	if err := program.Want("objects", seen, count); err != nil {
		return err
	}
	if err := program.Want("pages", asked, 3); err != nil {
		return err
	}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, options); err != nil {
		return err
	}
	left, err := maps.List(ctx, options)
	if err != nil {
		return err
	}
	return program.Want("objects left", len(left.Items), 0)
}

func (c *Client) others(ctx context.Context) error {
	groups, err := restmapper.GetAPIGroupResources(c.Discovery())
	if err != nil {
		return err
	}
	mapping, err := restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"})
	if err != nil {
		return err
	}
	untyped, err := dynamic.NewForConfig(c.run.Config)
	if err != nil {
		return err
	}
	object, err := untyped.Resource(mapping.Resource).Namespace(c.namespace).Get(ctx, "scaled", metav1.GetOptions{})
	if err != nil {
		return err
	}
	replicas, _, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if err != nil {
		return err
	}
	if err := program.Want("replicas", replicas, 1); err != nil {
		return err
	}
	metas, err := metadata.NewForConfig(c.run.Config)
	if err != nil {
		return err
	}
	meta, err := metas.Resource(mapping.Resource).Namespace(c.namespace).Get(ctx, "scaled", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := program.Want("uid", meta.UID, object.GetUID()); err != nil {
		return err
	}
	version, err := c.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	return program.Want("major version", version.Major, "1")
}

// leave deletes the namespace with its content and waits until it is deleted.
func (c *Client) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, program.Patience)
	defer cancel()
	namespaces := c.CoreV1().Namespaces()
	only := metav1.ListOptions{FieldSelector: "metadata.name=" + c.namespace}
	watching, err := namespaces.Watch(ctx, only)
	if err != nil {
		return err
	}
	defer watching.Stop()
	if err := namespaces.Delete(ctx, c.namespace, metav1.DeleteOptions{}); err != nil {
		return err
	}
	began, last := time.Now(), ""
	for event := range watching.ResultChan() {
		last = fmt.Sprintf("%s %+v", event.Type, event.Object.(*corev1.Namespace).Status)
		if event.Type == "DELETED" {
			maps, err := c.CoreV1().ConfigMaps(c.namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			return program.Want("objects left", len(maps.Items), 0)
		}
	}
	return fmt.Errorf("the namespace still exists after %v: %s", time.Since(began), last)
}
