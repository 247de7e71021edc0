//go:build unix

// Command measure runs commands in turn, several times each, and prints one JSON
// object a command: best and median wall-clock seconds of the whole process, the
// peak of its resident memory, and its exit status. Usage:
//
//	measure -n 11 -- parity compare a b -- ceiling a b
//
// It is small because a child's peak begins at the size of the process that started
// it: started from an interpreter, the smallest program seems as large as that.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"
)

type result struct {
	Best   float64 `json:"best"`
	Median float64 `json:"median"`
	RSS    int64   `json:"rss"`
	Status int     `json:"status"`
}

func main() {
	n := flag.Int("n", 11, "runs of each command")
	flag.Parse()
	commands := split(flag.Args())
	seconds := make([][]float64, len(commands))
	results := make([]result, len(commands))
	for range *n {
		for i, c := range commands {
			s, rss, status, err := once(c)
			if err != nil {
				fmt.Fprintln(os.Stderr, "measure:", err)
				os.Exit(2)
			}
			seconds[i] = append(seconds[i], s)
			results[i].RSS, results[i].Status = max(results[i].RSS, rss), status
		}
	}
	for i, s := range seconds {
		slices.Sort(s)
		results[i].Best, results[i].Median = s[0], s[len(s)/2]
	}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(2)
	}
}

// split cuts the arguments at "--".
func split(args []string) (commands [][]string) {
	for _, a := range args {
		if a == "--" || commands == nil {
			commands = append(commands, nil)
			if a == "--" {
				continue
			}
		}
		commands[len(commands)-1] = append(commands[len(commands)-1], a)
	}
	return commands
}

// once runs a command without output. Its status may be anything but 2, trouble.
func once(command []string) (seconds float64, rss int64, status int, err error) {
	c := exec.Command(command[0], command[1:]...)
	start := time.Now()
	err = c.Run()
	seconds = time.Since(start).Seconds()
	if c.ProcessState == nil {
		return 0, 0, 0, err
	}
	status = c.ProcessState.ExitCode()
	if status == 2 {
		return 0, 0, 0, fmt.Errorf("running %v: exit status 2", command)
	}
	usage := c.ProcessState.SysUsage().(*syscall.Rusage)
	rss = int64(usage.Maxrss)
	if runtime.GOOS != "darwin" {
		rss *= 1024 // Linux and the BSDs count in KiB
	}
	return seconds, rss, status, nil
}
