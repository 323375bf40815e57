// Command workqueue-bench measures the work queue of client-go or of controller-runtime once in each case, and prints
// one line of JSON: {"CASE": FIGURE}. Its cases and their clocks are those of benches/src/workqueue.rs.
package main

import (
	"encoding/json"
	"fmt"
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

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

const (
	rounds        = 5
	keys          = 100_000
	sides         = 4
	keysAProducer = 100_000
	waiting       = 1_000_000
	handOvers     = 1_000
	pause         = time.Millisecond
)

// queue is the interface of both queues.
type queue[T comparable] interface {
	Add(item T)
	AddAfter(item T, duration time.Duration)
	Get() (item T, shutdown bool)
	Done(item T)
	Len() int
	ShutDown()
}

// addLow adds with a low priority if the queue has priorities.
func addLow[T comparable](q queue[T], item T) {
	if pq, ok := q.(priorityqueue.PriorityQueue[T]); ok {
		low := -100
		pq.AddWithOpts(priorityqueue.AddOpts{Priority: &low}, item)
		return
	}
	q.Add(item)
}

func plain[T comparable]() queue[T] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[T]())
}

func withPriorities[T comparable]() queue[T] {
	return priorityqueue.New[T]("bench")
}

type figures map[string]float64

func main() {
	var out figures
	switch strings.Join(os.Args[1:], " ") {
	case "client-go":
		out = measure(plain[string], plain[int64], plain[uint64])
	case "controller-runtime":
		out = measure(withPriorities[string], withPriorities[int64], withPriorities[uint64])
	default:
		fmt.Fprintln(os.Stderr, "usage: workqueue-bench client-go|controller-runtime")
		os.Exit(2)
	}
	line, err := json.Marshal(out)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(string(line))
}

func measure(names func() queue[string], times func() queue[int64], numbers func() queue[uint64]) figures {
	out := figures{}
	// Measure memory first, because memory freed by other cases would be reused.
	delays(numbers, out)
	var added, again, done, clock, busy []time.Duration
	for range rounds {
		a, b, c := single(names())
		added, again, done = append(added, a), append(again, b), append(done, c)
	}
	out["add of a new key, CPU ns"] = per(median(added), keys)
	out["add of a known key, CPU ns"] = per(median(again), keys)
	out["get and done, CPU ns"] = per(median(done), keys)
	var few []time.Duration
	for range rounds {
		few = append(few, fewDelays(names()))
	}
	out["add_after of 100,000 string keys, ns"] = per(median(few), keys)
	for range rounds {
		a, b := contention(names())
		clock, busy = append(clock, a), append(busy, b)
	}
	out["4 producers and 4 workers, ns a key"] = per(slices.Min(clock), sides*keysAProducer)
	out["4 producers and 4 workers, CPU ns a key"] = per(median(busy), sides*keysAProducer)
	handOver(times(), out)
	return out
}

// names creates strings one by one, so that each has its own memory.
func names(count int) []string {
	all := make([]string, count)
	for n := range all {
		all[n] = fmt.Sprintf("namespace-%d/web-%08d", n%100, n)
	}
	return all
}

func per(spent time.Duration, count int) float64 {
	return float64(spent.Nanoseconds()) / float64(count)
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// single adds every key, adds all again, then gets and finishes each.
func single(q queue[string]) (added, again, done time.Duration) {
	all := names(keys)
	runtime.GC()
	start := cpu()
	for n, key := range all {
		if n%2 == 0 {
			q.Add(key)
		} else {
			addLow(q, key)
		}
	}
	// Len makes a queue that buffers adds process them.
	q.Len()
	added = cpu() - start
	start = cpu()
	for _, key := range all {
		q.Add(key)
	}
	q.Len()
	again = cpu() - start
	start = cpu()
	for range all {
		key, _ := q.Get()
		q.Done(key)
	}
	done = cpu() - start
	q.ShutDown()
	return added, again, done
}

// contention returns wall-clock time and processor time.
func contention(q queue[string]) (time.Duration, time.Duration) {
	all := names(sides * keysAProducer)
	runtime.GC()
	var left atomic.Int64
	left.Store(sides * keysAProducer)
	var workers sync.WaitGroup
	start, busy := time.Now(), cpu()
	for range sides {
		workers.Go(func() {
			for {
				key, shutdown := q.Get()
				if shutdown {
					return
				}
				q.Done(key)
				// controller-runtime drops ready keys at shutdown, so the worker of the last key shuts the queue down.
				if left.Add(-1) == 0 {
					q.ShutDown()
				}
			}
		})
	}
	for part := range slices.Chunk(all, keysAProducer) {
		go func() {
			for _, key := range part {
				q.Add(key)
			}
		}()
	}
	workers.Wait()
	return time.Since(start), cpu() - busy
}

func handOver(q queue[int64], out figures) {
	epoch := time.Now()
	delays := make([]float64, 0, handOvers)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			sent, shutdown := q.Get()
			if shutdown {
				return
			}
			delays = append(delays, float64(int64(time.Since(epoch))-sent)/1e3)
			q.Done(sent)
		}
	}()
	for range handOvers {
		time.Sleep(pause)
		q.Add(int64(time.Since(epoch)))
	}
	time.Sleep(pause)
	q.ShutDown()
	<-done
	slices.Sort(delays)
	out["add to a waiting worker, p50 us"] = delays[len(delays)/2]
	out["add to a waiting worker, p99 us"] = delays[len(delays)*99/100]
}

// fewDelays uses wall-clock time, like the client-go result that the target is based on.
func fewDelays(q queue[string]) time.Duration {
	all := names(keys)
	runtime.GC()
	start := time.Now()
	for n, key := range all {
		spread := uint64(n) * 0x9e37_79b9_7f4a_7c15 % 3_600_000
		q.AddAfter(key, time.Hour+time.Duration(spread)*time.Millisecond)
	}
	q.Len()
	spent := time.Since(start)
	q.ShutDown()
	return spent
}

func delays(make func() queue[uint64], out figures) {
	before := resident()
	q := make()
	start, busy := time.Now(), cpu()
	for n := range uint64(waiting) {
		// Spread over an hour, in pseudo-random order.
		spread := n * 0x9e37_79b9_7f4a_7c15 % 3_600_000
		q.AddAfter(n, time.Hour+time.Duration(spread)*time.Millisecond)
	}
	q.Len()
	spent, busy := time.Since(start), cpu()-busy
	out["add_after of a million keys, ns"] = per(spent, waiting)
	out["add_after of a million keys, CPU ns"] = per(busy, waiting)
	// Wait half a second for adds that are still in a buffer.
	time.Sleep(500 * time.Millisecond)
	out["overhead of a waiting key, bytes"] = (resident()-before)/waiting - 8
	q.ShutDown()
}

// resident returns the resident bytes of this process after free memory is returned, if Linux reports them.
func resident() float64 {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		return 0
	}
	return float64(pages * os.Getpagesize())
}
