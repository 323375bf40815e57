// Command runtime-bench measures a controller of controller-runtime once in each case, and prints one line of JSON:
// {"CASE": FIGURE}. Its cases are those of benches/src/runtime/controllers.rs.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	keys     = 50_000
	rounds   = 3
	triggers = 1_000
	pause    = 2 * time.Millisecond
)

func main() {
	// The same number of threads as the other programs.
	runtime.GOMAXPROCS(2)
	log.SetLogger(logr.Discard())
	many := 0.0
	for round := range rounds {
		if took := manyKeys(round); round == 0 || took < many {
			many = took
		}
	}
	p50, p99 := idle()
	line, err := json.Marshal(map[string]float64{
		"50,000 keys through one worker, ms":          many,
		"event to reconcile, idle controller, p50 us": p50,
		"event to reconcile, idle controller, p99 us": p99,
	})
	check(err)
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// manyKeys returns the milliseconds from the first add to the end of the last reconcile.
func manyKeys(round int) float64 {
	requests := make([]reconcile.Request, keys)
	for i := range requests {
		requests[i].NamespacedName = types.NamespacedName{Namespace: "default", Name: "key-" + strconv.Itoa(i)}
	}
	var count atomic.Int64
	var begin, end time.Time
	done := make(chan struct{})
	c, err := controller.NewUnmanaged("many-"+strconv.Itoa(round), controller.Options{
		Reconciler: reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			if count.Add(1) == keys {
				end = time.Now()
				close(done)
			}
			return reconcile.Result{}, nil
		}),
	})
	check(err)
	check(c.Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		begin = time.Now()
		for _, request := range requests {
			queue.Add(request)
		}
		return nil
	})))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	<-done
	cancel()
	check(<-ended)
	return float64(end.Sub(begin).Nanoseconds()) / 1e6
}

// idle returns the microseconds from a trigger in a channel to the start of its reconcile: p50 and p99.
func idle() (float64, float64) {
	events := make(chan event.GenericEvent, 1)
	told := make(chan time.Time, 1)
	c, err := controller.NewUnmanaged("idle", controller.Options{
		Reconciler: reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			told <- time.Now()
			return reconcile.Result{}, nil
		}),
	})
	check(err)
	check(c.Watch(source.Channel(events, &handler.EnqueueRequestForObject{})))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "idle"}}
	times := make([]float64, 0, triggers)
	for range triggers {
		time.Sleep(pause)
		sent := time.Now()
		events <- event.GenericEvent{Object: object}
		times = append(times, float64((<-told).Sub(sent).Nanoseconds())/1e3)
	}
	cancel()
	check(<-ended)
	slices.Sort(times)
	return times[triggers/2], times[triggers*99/100]
}
