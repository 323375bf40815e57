package main

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"
)

// The time that the goroutines of a queue need to react to an operation or to a step of the clock.
const queueSettle = 25 * time.Millisecond

// The rate limiter's waits: 5 ms, 10 ms, ... up to a second.
const (
	limiterBase = 5 * time.Millisecond
	limiterMax  = time.Second
)

type operation struct {
	Do     string `json:"do"`
	Key    string `json:"key"`
	Getter string `json:"getter"`
	Ms     int64  `json:"ms"`
}

// queueRun is a queue, its clock, and its getters.
type queueRun struct {
	clock *testingclock.FakeClock
	queue workqueue.TypedRateLimitingInterface[string]
	mu    sync.Mutex
	// The keys that getters received since the last operation.
	got []string
}

func (r *queueRun) hear(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, line)
}

// settled waits, and returns the keys that getters received meanwhile. They are sorted, because the order in which
// getters wake is undefined.
func (r *queueRun) settled() []string {
	time.Sleep(queueSettle)
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	slices.Sort(got)
	return got
}

func runQueue(operations []operation) []string {
	clock := testingclock.NewFakeClock(time.Unix(1_000_000, 0))
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](limiterBase, limiterMax)
	config := workqueue.TypedRateLimitingQueueConfig[string]{Clock: clock}
	r := &queueRun{clock: clock, queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter, config)}
	defer r.queue.ShutDown()
	lines := []string{}
	for _, o := range operations {
		line := o.Do
		if o.Getter != "" {
			line += " " + o.Getter
		}
		if o.Key != "" {
			line += " " + o.Key
		}
		if o.Ms != 0 {
			line += fmt.Sprintf(" %dms", o.Ms)
		}
		if result := r.do(o); result != "" {
			line += " = " + result
		}
		for _, got := range r.settled() {
			line += "; " + got
		}
		lines = append(lines, line)
	}
	return lines
}

func (r *queueRun) do(o operation) string {
	switch o.Do {
	case "add":
		r.queue.Add(o.Key)
	case "add-after":
		r.queue.AddAfter(o.Key, time.Duration(o.Ms)*time.Millisecond)
	case "add-rate-limited":
		r.queue.AddRateLimited(o.Key)
	case "forget":
		r.queue.Forget(o.Key)
	case "retries":
		return fmt.Sprint(r.queue.NumRequeues(o.Key))
	case "get":
		go func() {
			key, shutdown := r.queue.Get()
			if shutdown {
				r.hear(o.Getter + " got the end")
				return
			}
			r.hear(o.Getter + " got " + key)
		}()
	case "done":
		r.queue.Done(o.Key)
	case "len":
		return fmt.Sprint(r.queue.Len())
	case "advance":
		r.clock.Step(time.Duration(o.Ms) * time.Millisecond)
	case "shut-down":
		r.queue.ShutDown()
	case "drain":
		go func() {
			r.queue.ShutDownWithDrain()
			r.hear("drained")
		}()
	case "shutting-down":
		return fmt.Sprint(r.queue.ShuttingDown())
	default:
		return "unknown operation"
	}
	return ""
}
