package main

import "k8s.io/apimachinery/pkg/runtime"

// The code that controller-gen generates for the types of main.go.

// DeepCopyObject copies a website.
func (w *Website) DeepCopyObject() runtime.Object {
	out := *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject copies a list of websites.
func (l *WebsiteList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Website, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Website)
	}
	return &out
}
