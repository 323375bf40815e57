// Command informer-bench measures a shared informer of client-go once in each case, and prints one line of JSON: {"CASE": FIGURE}.
// Its cases, and their order, are those of benches/src/informers/peer.rs, on the server of benches/src/informers/serve.rs.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	settle       = time.Second
	lookupCount  = 1_000_000
	lists        = 100
	paced        = 400
	pacedASecond = 200
	handlers     = 10
	burst        = 20_000
	label        = "bench-sent"
	// Number of objects that are read repeatedly, and number of reads of each.
	hot       = 1_000
	hotRounds = 10
)

type options struct {
	server, kubeconfig, control, kind, encoding string
	objects                                     int
	dynamic, metadata, onlySync                 bool
}

func main() {
	var o options
	flag.StringVar(&o.server, "server", "", "the URL of the server")
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "how a real server is reached, which is not asked for what only the embedded one can do")
	flag.StringVar(&o.control, "control", "", "the address of its control port")
	flag.StringVar(&o.kind, "kind", "pod", "pod, crd, configmap, secret or node")
	flag.StringVar(&o.encoding, "encoding", "protobuf", "protobuf or json")
	flag.IntVar(&o.objects, "objects", 0, "how many there are")
	flag.BoolVar(&o.dynamic, "dynamic", false, "the dynamic informer")
	flag.BoolVar(&o.metadata, "metadata", false, "the informer of metadata")
	flag.BoolVar(&o.onlySync, "only-sync", false, "nothing after the first list")
	flag.Parse()
	b := bench{options: o, figures: map[string]float64{}}
	if err := b.run(); err != nil {
		fmt.Fprintln(os.Stderr, "not measured:", err)
		os.Exit(1)
	}
	line, err := json.Marshal(b.figures)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(string(line))
}

type bench struct {
	options
	control  *control
	informer cache.SharedIndexInformer
	tally    tally
	keys     []string
	figures  map[string]float64
}

func resource(kind string) schema.GroupVersionResource {
	switch kind {
	case "crd":
		return schema.GroupVersionResource{Group: "bench.informer.dev", Version: "v1", Resource: "widgets"}
	default:
		return schema.GroupVersionResource{Version: "v1", Resource: kind + "s"}
	}
}

// config returns the configuration of a client with the requested encoding.
func (b *bench) config() (*rest.Config, error) {
	config := &rest.Config{Host: b.server}
	if b.kubeconfig != "" {
		var err error
		if config, err = clientcmd.BuildConfigFromFlags("", b.kubeconfig); err != nil {
			return nil, err
		}
	}
	config.QPS = -1
	if b.encoding == "protobuf" {
		// kubernetes.NewForConfig accepts and sends these content types by default.
		config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
		config.ContentType = "application/vnd.kubernetes.protobuf"
	} else {
		config.AcceptContentTypes, config.ContentType = "application/json", "application/json"
	}
	return config, nil
}

// source returns the informer as a factory creates it, and a function that starts it.
func (b *bench) source() (cache.SharedIndexInformer, func(<-chan struct{}), error) {
	config, err := b.config()
	if err != nil {
		return nil, nil, err
	}
	switch {
	case b.dynamic:
		config.AcceptContentTypes, config.ContentType = "", ""
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, nil, err
		}
		factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
		return factory.ForResource(resource(b.kind)).Informer(), factory.Start, nil
	case b.metadata:
		config.AcceptContentTypes, config.ContentType = "", ""
		client, err := metadata.NewForConfig(config)
		if err != nil {
			return nil, nil, err
		}
		factory := metadatainformer.NewSharedInformerFactory(client, 0)
		return factory.ForResource(resource(b.kind)).Informer(), factory.Start, nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	informer, err := factory.ForResource(resource(b.kind))
	if err != nil {
		return nil, nil, err
	}
	return informer.Informer(), factory.Start, nil
}

func (b *bench) run() error {
	var err error
	if b.control, err = connect(b.options.control); err != nil {
		return err
	}
	prepare := "prepare streaming"
	if b.encoding == "protobuf" && !b.dynamic {
		prepare += " protobuf"
	}
	if b.metadata {
		prepare += " metadata"
	}
	if _, err := b.control.ask(prepare); err != nil {
		return err
	}
	for n := range b.objects {
		key := fmt.Sprintf("team-%02d/object-%07d", n/25%80, n)
		if b.kind == "node" {
			key = fmt.Sprintf("object-%07d", n)
		}
		b.keys = append(b.keys, key)
	}
	informer, start, err := b.source()
	if err != nil {
		return err
	}
	b.informer = informer
	stop := make(chan struct{})
	defer close(stop)
	if err := b.addHandlers(1); err != nil {
		return err
	}
	steps := []func() error{func() error { return b.sync(func() { start(stop) }) }}
	if !b.onlySync {
		steps = append(steps, b.lookups, b.reads)
		if b.kubeconfig == "" {
			steps = append(steps, b.relist, func() error { return b.delays(1) }, b.bursts)
		} else {
			// Relists and bursts are skipped: a real server does not compact its history on command, and does
			// not encode a burst in advance.
			steps = append(steps, func() error { return b.delays(1) })
		}
		steps = append(steps, func() error { return b.addHandlers(handlers - 1) }, func() error { return b.delays(handlers) })
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) addHandlers(count int) error {
	for range count {
		_, err := b.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { b.tally.hear(object) },
			UpdateFunc: func(_, object any) { b.tally.hear(object) },
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) sync(start func()) error {
	server, err := b.control.cpu()
	if err != nil {
		return err
	}
	before, _ := resident()
	forgetPeak()
	var allocated, then runtime.MemStats
	runtime.ReadMemStats(&allocated)
	began, busy := time.Now(), cpu()
	start()
	for !b.informer.HasSynced() {
		time.Sleep(time.Millisecond)
	}
	b.figures["initial sync, s"] = time.Since(began).Seconds()
	b.figures["initial sync, client CPU s"] = (cpu() - busy).Seconds()
	runtime.ReadMemStats(&then)
	b.figures["allocations of the initial sync, an object"] = float64(then.Mallocs-allocated.Mallocs) / float64(b.objects)
	b.figures["bytes allocated in the initial sync, an object"] = float64(then.TotalAlloc-allocated.TotalAlloc) / float64(b.objects)
	after, err := b.control.cpu()
	if err != nil {
		return err
	}
	b.figures["initial sync, server CPU s"] = after - server
	held := len(b.informer.GetStore().ListKeys())
	if held != b.objects {
		return fmt.Errorf("%d objects in the cache, %d on the server", held, b.objects)
	}
	time.Sleep(settle)
	_, peak := resident()
	b.figures["peak RSS, MB"] = (peak - before) / 1e3
	// FreeOSMemory returns free memory to the system, which Go would otherwise do some minutes later.
	debug.FreeOSMemory()
	steady, _ := resident()
	b.figures["steady RSS an object, KB"] = (steady - before) / float64(held)
	return nil
}

// reads accesses every object once; it is already decoded.
func (b *bench) reads() error {
	began, seen := time.Now(), 0
	for _, object := range b.informer.GetStore().List() {
		if touch(object) {
			seen++
		}
	}
	spent := time.Since(began).Seconds()
	b.figures["sync and every object read typed, s"] = b.figures["initial sync, s"] + spent
	runtime.KeepAlive(seen)
	reader, empty, err := b.reader()
	if err != nil {
		return err
	}
	if b.figures["typed read, cold, us"], err = b.get(reader, empty, len(b.keys), 1); err != nil {
		return err
	}
	b.figures["typed read, hot, us"], err = b.get(reader, empty, min(hot, len(b.keys)), hotRounds)
	return err
}

// running is an informer that already runs. When the cache starts it, Run only waits until the cache stops.
type running struct{ cache.SharedIndexInformer }

func (running) SetTransform(cache.TransformFunc) error { return nil }
func (running) Run(stop <-chan struct{})               { <-stop }
func (running) RunWithContext(ctx context.Context)     { <-ctx.Done() }

// reader is controller-runtime's cache over the informer, and an object to read into.
func (b *bench) reader() (client.Reader, func() client.Object, error) {
	config, err := b.config()
	if err != nil {
		return nil, nil, err
	}
	kind := schema.GroupVersionKind{Version: "v1", Kind: map[string]string{
		"pod": "Pod", "configmap": "ConfigMap", "secret": "Secret", "node": "Node", "crd": "Widget",
	}[b.kind]}
	scope := meta.RESTScopeNamespace
	switch b.kind {
	case "crd":
		kind.Group = resource(b.kind).Group
	case "node":
		scope = meta.RESTScopeRoot
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(kind, scope)
	reader, err := ctrlcache.New(config, ctrlcache.Options{
		Scheme: scheme.Scheme, Mapper: mapper, HTTPClient: http.DefaultClient,
		NewInformer: func(cache.ListerWatcher, k8sruntime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer {
			return running{b.informer}
		},
	})
	if err != nil {
		return nil, nil, err
	}
	empty := func() client.Object {
		switch {
		case b.dynamic:
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(kind)
			return object
		case b.metadata:
			object := &metav1.PartialObjectMetadata{}
			object.SetGroupVersionKind(kind)
			return object
		}
		object, err := scheme.Scheme.New(kind)
		if err != nil {
			panic(err)
		}
		return object.(client.Object)
	}
	// Reads need a running cache; this one runs as long as the process.
	go func() { _ = reader.Start(context.Background()) }()
	if !reader.WaitForCacheSync(context.Background()) {
		return nil, nil, errors.New("controller-runtime's cache did not start")
	}
	if _, err := reader.GetInformer(context.Background(), empty()); err != nil {
		return nil, nil, err
	}
	return reader, empty, nil
}

// get returns the microseconds per read of a cached object, for a number of objects and of reads of each.
func (b *bench) get(reader client.Reader, empty func() client.Object, count, rounds int) (float64, error) {
	keys := make([]client.ObjectKey, count)
	for n := range keys {
		namespace, name, err := cache.SplitMetaNamespaceKey(b.keys[(n+1)*7_919%len(b.keys)])
		if err != nil {
			return 0, err
		}
		keys[n] = client.ObjectKey{Namespace: namespace, Name: name}
	}
	began := time.Now()
	for range rounds {
		for _, key := range keys {
			if err := reader.Get(context.Background(), key, empty()); err != nil {
				return 0, err
			}
		}
	}
	return time.Since(began).Seconds() * 1e6 / float64(count*rounds), nil
}

func touch(object any) bool {
	switch object := object.(type) {
	case *corev1.Pod:
		return object.Spec.NodeName != ""
	case *unstructured.Unstructured:
		return object.Object["spec"] != nil
	default:
		return object != nil
	}
}

func (b *bench) lookupEach(count int) float64 {
	store, at := b.informer.GetStore(), 0
	began := time.Now()
	for range count {
		at = (at + 7_919) % len(b.keys)
		if _, _, err := store.GetByKey(b.keys[at]); err != nil {
			return 0
		}
	}
	return float64(time.Since(began).Nanoseconds()) / float64(count)
}

func (b *bench) lookups() error {
	b.figures["lookup, ns"] = b.lookupEach(lookupCount)
	began, listed := time.Now(), 0
	for range lists {
		err := cache.ListAllByNamespace(b.informer.GetIndexer(), "team-00", labels.Everything(), func(any) { listed++ })
		if err != nil {
			return err
		}
	}
	if listed > 0 {
		b.figures["list of a namespace, ns an object"] = float64(time.Since(began).Nanoseconds()) / float64(listed)
	}
	began = time.Now()
	for range lists {
		runtime.KeepAlive(b.informer.GetStore().List())
	}
	b.figures["snapshot, us"] = float64(time.Since(began).Nanoseconds()) / lists / 1e3
	return nil
}

func (b *bench) relist() error {
	b.tally.begin(1)
	runtime.GC()
	before, _ := resident()
	forgetPeak()
	busy := cpu()
	if _, err := b.control.ask("expire"); err != nil {
		return err
	}
	b.tally.wait(func() bool { return b.tally.relisted })
	b.figures["relist, nothing changed, client CPU s"] = (cpu() - busy).Seconds()
	_, peak := resident()
	b.figures["relist, nothing changed, peak above before, %"] = (peak - before) / before * 100
	return nil
}

func (b *bench) delays(handlers int) error {
	b.tally.begin(paced * handlers)
	response, err := b.control.ask(fmt.Sprintf("paced %d %d", paced, pacedASecond))
	if err != nil {
		return err
	}
	b.tally.wait(func() bool { return len(b.tally.delays) >= paced*handlers })
	delays := b.tally.delays
	slices.Sort(delays)
	of := "1 handler"
	if handlers > 1 {
		of = fmt.Sprintf("%d handlers", handlers)
	}
	b.figures["event to handler, "+of+", p50 us"] = float64(delays[len(delays)/2]) / 1e3
	b.figures["event to handler, "+of+", p99 us"] = float64(delays[len(delays)*99/100]) / 1e3
	// The response contains the p50 and p99 of the delays until writes are acknowledged, if the server
	// reports them.
	var p50, p99 float64
	if n, _ := fmt.Sscanf(response, "ok %g %g", &p50, &p99); n == 2 {
		b.figures["write to acknowledgement, "+of+", p50 us"] = p50
		b.figures["write to acknowledgement, "+of+", p99 us"] = p99
	}
	return nil
}

func (b *bench) bursts() error {
	count := min(burst, len(b.keys))
	for _, read := range []bool{false, true} {
		b.tally.begin(count)
		b.tally.reads.Store(read)
		if _, err := b.control.ask(fmt.Sprintf("burst %d", count)); err != nil {
			return err
		}
		b.tally.wait(func() bool { return b.tally.burst >= count })
		name := "events through one handler, a second"
		if read {
			name = "events through one handler, read typed, a second"
		}
		b.figures[name] = float64(count) / b.tally.ended.Sub(b.tally.began).Seconds()
	}
	b.tally.reads.Store(false)
	b.tally.begin(count)
	var stop atomic.Bool
	found := make(chan float64)
	go func() {
		last := 0.0
		for !stop.Load() {
			busy := b.tally.bursts() > 0
			if each := b.lookupEach(10_000); busy {
				last = each
			}
		}
		found <- last
	}()
	if _, err := b.control.ask(fmt.Sprintf("burst %d", count)); err != nil {
		return err
	}
	b.tally.wait(func() bool { return b.tally.burst >= count })
	stop.Store(true)
	b.figures["lookup beside a busy writer, ns"] = <-found
	return nil
}

type tally struct {
	sync.Mutex
	news         sync.Cond
	wanted       int
	reads        atomic.Bool
	delays       []int64
	burst        int
	began, ended time.Time
	relisted     bool
}

type labelled interface{ GetLabels() map[string]string }

func (t *tally) hear(object any) {
	sent := object.(labelled).GetLabels()[label]
	switch {
	case sent == "none" || sent == "":
		return
	case strings.HasPrefix(sent, "burst-"):
		if t.reads.Load() {
			touch(object)
		}
	}
	t.Lock()
	defer t.Unlock()
	switch {
	case strings.HasPrefix(sent, "burst-"):
		t.burst++
		t.ended = time.Now()
		if t.burst == 1 {
			t.began = t.ended
		}
	case strings.HasPrefix(sent, "relisted-"):
		t.relisted = true
	case sent[0] == 't':
		if at, err := strconv.ParseInt(sent[1:], 10, 64); err == nil {
			t.delays = append(t.delays, time.Now().UnixNano()-at)
		}
	}
	if t.news.L != nil && (t.relisted || t.burst+len(t.delays) >= t.wanted) {
		t.news.Signal()
	}
}

// begin resets the counts, and sets the number of events after which the waiter is notified.
func (t *tally) begin(wanted int) {
	t.Lock()
	defer t.Unlock()
	t.news.L, t.wanted = &t.Mutex, wanted
	t.delays, t.burst, t.relisted = nil, 0, false
}

func (t *tally) bursts() int {
	t.Lock()
	defer t.Unlock()
	return t.burst
}

func (t *tally) wait(done func() bool) {
	t.Lock()
	defer t.Unlock()
	for !done() {
		t.news.Wait()
	}
}

type control struct {
	connection net.Conn
	responses  *bufio.Scanner
}

func connect(address string) (*control, error) {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &control{connection, bufio.NewScanner(connection)}, nil
}

func (c *control) ask(command string) (string, error) {
	if _, err := fmt.Fprintln(c.connection, command); err != nil {
		return "", err
	}
	if !c.responses.Scan() {
		return "", errors.New("the server closed the control connection")
	}
	if failure, failed := strings.CutPrefix(c.responses.Text(), "error: "); failed {
		return "", fmt.Errorf("%s: %s", command, failure)
	}
	return c.responses.Text(), nil
}

// cpu returns the processor time of the server, in seconds.
func (c *control) cpu() (float64, error) {
	response, err := c.ask("cpu")
	if err != nil {
		return 0, err
	}
	nanos, err := strconv.ParseFloat(response, 64)
	return nanos / 1e9, err
}

func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// resident returns resident kilobytes: now, and the maximum since forgetPeak.
func resident() (now, peak float64) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		kilobytes, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		switch name {
		case "VmRSS":
			now = kilobytes
		case "VmHWM":
			peak = kilobytes
		}
	}
	return now, peak
}

func forgetPeak() {
	// If the process may not write this file, the peak is not reset and includes earlier cases.
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}
