// Command schema says what the built-in kinds are made of, for `cargo xtask schema`: the table, and objects in both
// encodings to hold a transcoder against.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("usage: schema table|corpus|patches [flags]"))
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	server := flags.String("server", "", "address of a kube-apiserver that serves every version")
	token := flags.String("token", "", "bearer token of an administrator")
	servedToken := flags.String("default-token", "", "bearer token of an administrator of the other")
	served := flags.String("default-server", "", "address of a kube-apiserver as it is without flags")
	seed := flags.Int64("seed", 1, "seed of the random objects")
	count := flags.Int("count", 2, "objects of each kind")
	size := flags.Int("size", 60, "values in one object, about")
	_ = flags.Parse(os.Args[2:])
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	var err error
	switch os.Args[1] {
	case "table":
		err = table(out, &peer{*server, *token}, &peer{*served, *servedToken})
	case "corpus":
		err = corpus(out, *seed, *count, *size)
	case "patches":
		err = patches(out, *seed, *count, *size)
	default:
		err = fmt.Errorf("unknown command %q", os.Args[1])
	}
	if err == nil {
		err = out.Flush()
	}
	fail(err)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "schema:", err)
		os.Exit(1)
	}
}
