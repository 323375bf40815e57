package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// How long the trace must be idle before a command runs, so that everything sent before has arrived.
const quiet = 150 * time.Millisecond

// entry is one entry of the trace: a handler's call, a call of the transform, or a read of the store.
type entry struct {
	Handler   string `json:"handler,omitempty"`
	Call      string `json:"call,omitempty"`
	Key       string `json:"key,omitempty"`
	Old       string `json:"old,omitempty"`
	New       string `json:"new,omitempty"`
	Initial   bool   `json:"initial,omitempty"`
	LastKnown bool   `json:"last_known,omitempty"`
	OtherUID  bool   `json:"other_uid,omitempty"`
	Transform string `json:"transform,omitempty"`
	Check     *check `json:"check,omitempty"`
}

// check is a read of the store and of the sync state.
type check struct {
	Store   []string                       `json:"store"`
	Indexes map[string]map[string][]string `json:"indexes"`
	Version string                         `json:"version"`
	Synced  map[string]bool                `json:"synced"`
}

type session struct {
	mu       sync.Mutex
	entries  []entry
	last     time.Time
	informer cache.SharedIndexInformer
	handlers map[string]cache.ResourceEventHandlerRegistration
	gates    map[string]chan struct{}
	stop     context.CancelFunc
	stopped  sync.WaitGroup
	resync   time.Duration
}

func (s *session) see(e entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = append(s.entries, e)
	s.last = time.Now()
}

func (s *session) take() []entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := s.entries
	s.entries = nil
	if entries == nil {
		entries = []entry{}
	}
	return entries
}

func (s *session) settle() {
	since := time.Now()
	for {
		s.mu.Lock()
		last := s.last
		s.mu.Unlock()
		if last.Before(since) {
			last = since
		}
		left := quiet - time.Since(last)
		if left <= 0 {
			return
		}
		time.Sleep(left)
	}
}

func (s *session) do(c command) error {
	if c.Do == "start" {
		return s.start(c)
	}
	s.settle()
	switch c.Do {
	case "check":
		s.check()
	case "add":
		return s.add(c.Handler, 0)
	case "remove":
		if err := s.informer.RemoveEventHandler(s.handlers[c.Handler]); err != nil {
			return err
		}
		delete(s.handlers, c.Handler)
	case "block":
		s.mu.Lock()
		s.gates[c.Handler] = make(chan struct{})
		s.mu.Unlock()
	case "unblock":
		s.mu.Lock()
		close(s.gates[c.Handler])
		delete(s.gates, c.Handler)
		s.mu.Unlock()
	case "index":
		return s.informer.AddIndexers(cache.Indexers{"version": byVersion})
	case "stop":
		s.stop()
		s.stopped.Wait()
		return nil
	default:
		return fmt.Errorf("unknown command %q", c.Do)
	}
	s.settle()
	return nil
}

// listMode prevents the reflector from requesting streaming lists.
type listMode struct{ *cache.ListWatch }

func (listMode) IsWatchListSemanticsUnSupported() bool { return true }

func (s *session) start(c command) error {
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: c.URL,
		QPS:  -1,
		ContentConfig: rest.ContentConfig{
			ContentType:        "application/json",
			AcceptContentTypes: "application/json",
		},
	})
	if err != nil {
		return err
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().ConfigMaps("").List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().ConfigMaps("").Watch(ctx, options)
		},
	}
	var listerWatcher cache.ListerWatcher = listMode{source}
	if c.Streaming {
		listerWatcher = cache.ToListWatcherWithWatchListSemantics(source, client)
	}
	s.handlers, s.gates = map[string]cache.ResourceEventHandlerRegistration{}, map[string]chan struct{}{}
	s.resync = time.Duration(c.ResyncMs) * time.Millisecond
	s.informer = cache.NewSharedIndexInformerWithOptions(listerWatcher, &corev1.ConfigMap{},
		cache.SharedIndexInformerOptions{ResyncPeriod: s.resync, Indexers: cache.Indexers{
			cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
			"app":                byApp,
		}})
	if err := s.informer.SetTransform(s.transform); err != nil {
		return err
	}
	periods := map[string]time.Duration{"first": 0, "removed": 0, "resync": s.resync}
	for _, name := range []string{"first", "removed", "resync"} {
		if err := s.add(name, periods[name]); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.stopped.Go(func() { s.informer.RunWithContext(ctx) })
	return nil
}

// transform marks each object and drops its data.
func (s *session) transform(object any) (any, error) {
	config, ok := object.(*corev1.ConfigMap)
	if !ok {
		return object, nil
	}
	s.see(entry{Transform: display(config)})
	if config.Labels == nil {
		config.Labels = map[string]string{}
	}
	config.Labels["seen"] = "yes"
	config.Data = nil
	return config, nil
}

// byApp indexes objects by the label "app". It skips objects that the transform has not processed.
func byApp(object any) ([]string, error) {
	config := object.(*corev1.ConfigMap)
	if app, ok := config.Labels["app"]; ok && config.Labels["seen"] == "yes" && config.Data == nil {
		return []string{app}, nil
	}
	return nil, nil
}

func byVersion(object any) ([]string, error) {
	return []string{object.(*corev1.ConfigMap).ResourceVersion}, nil
}

func display(config *corev1.ConfigMap) string {
	return keyOf(config) + "@" + config.ResourceVersion
}

func keyOf(config *corev1.ConfigMap) string {
	key, err := cache.MetaNamespaceKeyFunc(config)
	if err != nil {
		return err.Error()
	}
	return key
}

// pass waits while the handler is blocked.
func (s *session) pass(handler string) {
	s.mu.Lock()
	gate := s.gates[handler]
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

func (s *session) add(name string, resync time.Duration) error {
	registration, err := s.informer.AddEventHandlerWithOptions(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, initial bool) {
			s.pass(name)
			config := object.(*corev1.ConfigMap)
			s.see(entry{Handler: name, Call: "add", Key: keyOf(config), New: config.ResourceVersion, Initial: initial})
		},
		UpdateFunc: func(before, after any) {
			s.pass(name)
			old, new := before.(*corev1.ConfigMap), after.(*corev1.ConfigMap)
			s.see(entry{Handler: name, Call: "update", Key: keyOf(new), Old: old.ResourceVersion,
				New: new.ResourceVersion, OtherUID: old.UID != new.UID})
		},
		DeleteFunc: func(object any) {
			s.pass(name)
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				old := ""
				if config, ok := unknown.Obj.(*corev1.ConfigMap); ok {
					old = config.ResourceVersion
				}
				s.see(entry{Handler: name, Call: "delete", Key: unknown.Key, Old: old, LastKnown: true})
				return
			}
			config := object.(*corev1.ConfigMap)
			s.see(entry{Handler: name, Call: "delete", Key: keyOf(config), Old: config.ResourceVersion})
		},
	}, cache.HandlerOptions{ResyncPeriod: &resync})
	if err != nil {
		return err
	}
	s.handlers[name] = registration
	return nil
}

func (s *session) check() {
	store := s.informer.GetIndexer()
	c := &check{
		Store:   []string{},
		Indexes: map[string]map[string][]string{},
		Version: s.informer.LastSyncResourceVersion(),
		Synced:  map[string]bool{"informer": s.informer.HasSynced()},
	}
	for _, object := range store.List() {
		c.Store = append(c.Store, display(object.(*corev1.ConfigMap)))
	}
	slices.Sort(c.Store)
	for name := range store.GetIndexers() {
		values := map[string][]string{}
		for _, value := range store.ListIndexFuncValues(name) {
			keys, err := store.IndexKeys(name, value)
			if err != nil {
				keys = []string{err.Error()}
			}
			slices.Sort(keys)
			values[value] = keys
		}
		c.Indexes[name] = values
	}
	for name, registration := range s.handlers {
		c.Synced[name] = registration.HasSynced()
	}
	s.see(entry{Check: c})
}
