package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// onTerminal runs parity as a process whose three streams are a terminal of 100
// columns, types input, and returns its exit status and all that the terminal
// showed.
func onTerminal(t *testing.T, environ []string, input string, args ...string) (status int, screen string) {
	t.Helper()
	exe, err := exec.LookPath("parity") // put on PATH by testscript.Main
	if err != nil {
		t.Fatal(err)
	}
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ptmx.Close()
	fd := int(ptmx.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0), unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100})); err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TERM=xterm"}, environ...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	if _, err := io.WriteString(ptmx, input); err != nil {
		t.Fatal(err)
	}
	// Reading ends in EIO when the last process closes its side.
	b, err := io.ReadAll(ptmx)
	if err != nil && !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), strings.ReplaceAll(string(b), "\r\n", "\n")
}

const fault = "../../testdata/fixtures/gate-up"

func TestATerminalGetsColours(t *testing.T) {
	status, screen := onTerminal(t, nil, "", "compare", fault+"/ref", fault+"/port")
	if status != 1 || !strings.Contains(screen, "\x1b[") || !strings.Contains(screen, "layer_20.mlp_gate") {
		t.Errorf("status %d, screen:\n%q", status, screen)
	}
}

func TestNoColorAndDumbTerminalsGetNone(t *testing.T) {
	for _, env := range []string{"NO_COLOR=1", "TERM=dumb"} {
		status, screen := onTerminal(t, []string{env}, "", "compare", fault+"/ref", fault+"/port")
		if status != 1 || strings.Contains(screen, "\x1b") || !strings.Contains(screen, "layer_20.mlp_gate") {
			t.Errorf("%s: status %d, screen:\n%q", env, status, screen)
		}
	}
}

// Every line fits a terminal of 100 columns, so that none is broken by it.
func TestLinesFitTheTerminal(t *testing.T) {
	_, screen := onTerminal(t, []string{"NO_COLOR=1"}, "", "compare", fault+"/ref", fault+"/port")
	for line := range strings.Lines(screen) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 100 && !strings.Contains(line, "parity explain") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// Without flags, triage asks at a terminal: answers are typed, unknown ones are
// asked again, and the patterns that they speak for are printed; status 1 says that
// some were recognised.
func TestTriageAsksAtATerminal(t *testing.T) {
	status, screen := onTerminal(t, []string{"NO_COLOR=1"}, "nonsense\nhang\n\n\n\n\n\n\n\n\n\n", "triage")
	if status != 1 || !strings.Contains(screen, `"nonsense" is no answer`) || !strings.Contains(screen, "hang.asymmetric_collective") {
		t.Errorf("status %d, screen:\n%s", status, screen)
	}
}
