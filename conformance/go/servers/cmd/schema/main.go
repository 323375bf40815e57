// Command schema describes the built-in kinds for `cargo xtask schema`: the table, and objects in both
// encodings for tests of the transcoder.
package main

import (
	"bufio"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("usage: schema types|table|served|corpus|patches [flags]"))
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	config := flags.String("kubeconfig", "", "of a kube-apiserver that serves every version")
	usual := flags.String("default-kubeconfig", "", "of a kube-apiserver as it is without flags")
	servedTypes := flags.String("served-types", "", "output of `types` of a program with the types of the server")
	without := flags.String("without", "", "output of `types` of a program whose kinds a corpus leaves out")
	seed := flags.Int64("seed", 1, "seed of the random objects")
	count := flags.Int("count", 2, "objects of each kind")
	size := flags.Int("size", 60, "values in one object, about")
	_ = flags.Parse(os.Args[2:])
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	var err error
	switch os.Args[1] {
	case "table":
		err = table(out, *config, *usual, *servedTypes)
	case "types":
		err = types(out)
	case "served":
		err = packed(out, func(out io.Writer, _ int64, _, _ int) error { return served(out, *config) }, 0, 0, 0)
	case "corpus":
		others := &catalog{}
		if *without != "" {
			others, err = readCatalog(*without)
		}
		if err == nil {
			err = packed(out, func(out io.Writer, seed int64, count, size int) error {
				return corpus(out, others, seed, count, size)
			}, *seed, *count, *size)
		}
	case "patches":
		err = packed(out, patches, *seed, *count, *size)
	default:
		err = fmt.Errorf("unknown command %q", os.Args[1])
	}
	if err == nil {
		err = out.Flush()
	}
	fail(err)
}

// packed compresses the output of a command reproducibly.
func packed(out io.Writer, write func(io.Writer, int64, int, int) error, seed int64, count, size int) error {
	zipped, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := write(zipped, seed, count, size); err != nil {
		return err
	}
	return zipped.Close()
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "schema:", err)
		os.Exit(1)
	}
}
