package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"

	"time"

	"informer.example/peers/internal/program"
)

// informers writes while two informers run, and compares their events with the writes.
func (c *Client) informers(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactoryWithOptions(c, 0, informers.WithNamespace(c.namespace))
	maps, secrets := factory.Core().V1().ConfigMaps(), factory.Core().V1().Secrets()
	var added, updated, deleted atomic.Int32
	ours := func(object any) bool {
		meta, ok := object.(metav1.Object)
		return ok && meta.GetLabels()["app"] == "program"
	}
	_, err := maps.Informer().AddEventHandler(cache.FilteringResourceEventHandler{
		FilterFunc: ours,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { added.Add(1) },
			UpdateFunc: func(any, any) { updated.Add(1) },
			DeleteFunc: func(any) { deleted.Add(1) },
		},
	})
	if err != nil {
		cancel()
		return err
	}
	secrets.Informer()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer cancel()
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("%v is not synced", kind)
		}
	}
	client := c.CoreV1().ConfigMaps(c.namespace)
	made, err := client.Create(ctx, c.configMap("watched"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if _, err := client.Create(ctx, c.configMap("short"), metav1.CreateOptions{}); err != nil {
		return err
	}
	made.Data["key"] = "two"
	made, err = client.Update(ctx, made, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	if err := client.Delete(ctx, "short", metav1.DeleteOptions{}); err != nil {
		return err
	}
	err = program.Until(ctx, func() error {
		told := fmt.Sprint(added.Load(), updated.Load(), deleted.Load())
		return program.Want("added, updated, deleted", told, "2 1 1")
	})
	if err != nil {
		return err
	}
	held, err := maps.Lister().ConfigMaps(c.namespace).Get("watched")
	if err != nil {
		return err
	}
	if err := program.Want("version in the cache", held.ResourceVersion, made.ResourceVersion); err != nil {
		return err
	}
	selected, err := maps.Lister().List(labels.SelectorFromSet(labels.Set{"app": "program"}))
	if err != nil {
		return err
	}
	if err := program.Want("objects in the cache", len(selected), 1); err != nil {
		return err
	}
	return client.Delete(ctx, "watched", metav1.DeleteOptions{})
}

func (c *Client) token(ctx context.Context) error {
	accounts := c.CoreV1().ServiceAccounts(c.namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
	if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return err
	}
	request := &authenticationv1.TokenRequest{}
	token, err := accounts.CreateToken(ctx, "robot", request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}
	review, err = c.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return program.Want("user", review.Status.User.Username, "system:serviceaccount:"+c.namespace+":robot")
}

// events emits the same event twice with each of the two recorders; the server must have one event with a
// count.
func (c *Client) events(ctx context.Context) error {
	about, err := c.CoreV1().ServiceAccounts(c.namespace).Get(ctx, "robot", metav1.GetOptions{})
	if err != nil {
		return err
	}
	older := record.NewBroadcaster()
	defer older.Shutdown()
	older.StartRecordingToSink(&typedv1.EventSinkImpl{Interface: c.CoreV1().Events(c.namespace)})
	recorder := older.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "program"})
	newer := events.NewBroadcaster(&events.EventSinkImpl{Interface: c.EventsV1()})
	defer newer.Shutdown()
	if err := newer.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	series := newer.NewRecorder(scheme.Scheme, "program")
	for range 2 {
		recorder.Event(about, corev1.EventTypeNormal, "Older", "it happened again")
		series.Eventf(about, nil, corev1.EventTypeWarning, "Newer", "Looking", "it happened again")
	}
	if err := program.Until(ctx, func() error {
		found, err := c.CoreV1().Events(c.namespace).Search(scheme.Scheme, about)
		if err != nil {
			return err
		}
		for _, event := range found.Items {
			if event.Reason == "Older" {
				return program.Want("count", event.Count, 2)
			}
		}
		return errors.New("the event does not exist")
	}); err != nil {
		return err
	}
	return program.Until(ctx, func() error {
		found, err := c.EventsV1().Events(c.namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=Newer"})
		if err != nil {
			return err
		}
		if len(found.Items) != 1 || found.Items[0].Series == nil {
			return fmt.Errorf("expected one event with a series, found %d", len(found.Items))
		}
		return program.Want("count", found.Items[0].Series.Count, 2)
	})
}

// election runs two candidates; the first one leads, and releases its lease when it is stopped.
func (c *Client) election(ctx context.Context) error {
	firstCtx, stopFirst := context.WithCancel(ctx)
	defer stopFirst()
	secondCtx, stopSecond := context.WithCancel(ctx)
	defer stopSecond()
	leads := make(chan string, 2)
	first, err := c.candidate("first", leads)
	if err != nil {
		return err
	}
	second, err := c.candidate("second", leads)
	if err != nil {
		return err
	}
	go first.Run(firstCtx)
	if err := next(leads, "first"); err != nil {
		return err
	}
	go second.Run(secondCtx)
	if err := program.Until(ctx, func() error { return program.Want("leader seen", second.GetLeader(), "first") }); err != nil {
		return err
	}
	stopFirst()
	if err := next(leads, "second"); err != nil {
		return err
	}
	lease, err := c.CoordinationV1().Leases(c.namespace).Get(ctx, "election", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return program.Want("holder", *lease.Spec.HolderIdentity, "second")
}

func next(leads <-chan string, want string) error {
	select {
	case name := <-leads:
		return program.Want("leader", name, want)
	case <-time.After(program.Patience):
		return fmt.Errorf("%s does not lead", want)
	}
}

func (c *Client) candidate(identity string, leads chan<- string) (*leaderelection.LeaderElector, error) {
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: "election", Namespace: c.namespace},
			Client:     c.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		ReleaseOnCancel: true,
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { leads <- identity },
			OnStoppedLeading: func() {},
		},
	})
}
