// A shared informer of client-go on config maps that prints its view on request. Each line of standard input
// is a request. The response is one JSON line per object, then a line with their number.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

type object struct {
	Key     string `json:"key"`
	UID     string `json:"uid"`
	Version string `json:"version"`
	Hash    string `json:"hash"`
}

type end struct {
	End    int  `json:"end"`
	Synced bool `json:"synced"`
}

func hash(data map[string]string) string {
	names := make([]string, 0, len(data))
	for name := range data {
		names = append(names, name)
	}
	sort.Strings(names)
	sum := fnv.New64a()
	for _, name := range names {
		fmt.Fprintf(sum, "%s=%s\n", name, data[name])
	}
	return fmt.Sprintf("%016x", sum.Sum64())
}

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig, namespace string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	stop := make(chan struct{})
	defer close(stop)
	factory.Start(stop)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := respond(informer); err != nil {
			return err
		}
	}
	return lines.Err()
}

func respond(informer cache.SharedIndexInformer) error {
	output := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(output)
	held := informer.GetStore().List()
	for _, each := range held {
		held := each.(*corev1.ConfigMap)
		key := held.Namespace + "/" + held.Name
		line := object{Key: key, UID: string(held.UID), Version: held.ResourceVersion, Hash: hash(held.Data)}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	if err := encoder.Encode(end{End: len(held), Synced: informer.HasSynced()}); err != nil {
		return err
	}
	return output.Flush()
}
