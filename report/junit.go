package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/layerparity/parity/compare"
)

type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *junitMessage `xml:"failure,omitempty"`
		Error   *junitMessage `xml:"error,omitempty"`
		Skipped *junitMessage `xml:"skipped,omitempty"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes one test case for the verdict, for each guard and for each
// checkpoint, so that any CI shows them.
func JUnit(w io.Writer, c *compare.Comparison, _ Options) error {
	doc := junitSuites{Name: "parity", Suites: []junitSuite{verdictSuite(c), guardSuite(c), checkpointSuite(c)}}
	for i := range doc.Suites {
		s := &doc.Suites[i]
		s.Tests = len(s.Cases)
		for _, k := range s.Cases {
			switch {
			case k.Failure != nil:
				s.Failures++
			case k.Error != nil:
				s.Errors++
			case k.Skipped != nil:
				s.Skipped++
			}
		}
		doc.Tests += s.Tests
		doc.Failures += s.Failures
		doc.Errors += s.Errors
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// verdictSuite holds the comparison's verdict.
func verdictSuite(c *compare.Comparison) junitSuite {
	k := junitCase{Class: "parity.verdict", Name: "verdict", Out: clean(c.Reason + ". " + c.NextStep)}
	switch c.Verdict {
	case compare.Parity:
	case compare.Trouble:
		k.Error = message(string(c.Verdict), c.Reason, c.NextStep)
	default:
		k.Failure = message(string(c.Verdict), c.Reason, c.NextStep)
	}
	return junitSuite{Name: "verdict", Cases: []junitCase{k}}
}

// guardSuite holds the guards; those that do not apply are skipped.
func guardSuite(c *compare.Comparison) junitSuite {
	s := junitSuite{Name: "guards"}
	for _, g := range c.Guards {
		k := junitCase{Class: "parity.guards", Name: clean(guardName(g))}
		switch g.Status {
		case compare.Fail:
			k.Failure = message(g.ID, g.Evidence, g.Remedy)
		case compare.NotApplicable, compare.NotChecked:
			k.Skipped = message("", string(g.Status)+": "+g.Evidence, "")
		default:
			k.Out = clean(string(g.Status) + ": " + g.Evidence)
		}
		s.Cases = append(s.Cases, k)
	}
	return s
}

// checkpointSuite holds the checkpoints. Under an untrusted verdict none is
// blamed: what differs is skipped, with the reason.
func checkpointSuite(c *compare.Comparison) junitSuite {
	s := junitSuite{Name: "checkpoints"}
	for _, ck := range c.Checkpoints {
		k := junitCase{Class: "parity.checkpoints", Name: clean(ck.Name)}
		text := strings.Join(append(append([]string{}, ck.Repairs...), ck.Notes...), "\n")
		switch ck.Status {
		case compare.Unreadable:
			k.Error = message(string(ck.Status), ck.Reason, text)
		case compare.Enters, compare.Fails, compare.Incomparable, compare.Inherited:
			if c.Verdict == compare.Divergence {
				k.Failure = message(string(ck.Status), ck.Reason, text)
			} else {
				k.Skipped = message("", fmt.Sprintf("%s, not blamed under the verdict %s: %s", ck.Status, c.Verdict, ck.Reason), "")
			}
		default:
			k.Out = clean(string(ck.Status) + " " + ck.Reason)
		}
		s.Cases = append(s.Cases, k)
	}
	for _, u := range c.Unpaired {
		k := junitCase{Class: "parity.coverage", Name: clean(u.Checkpoint + " (" + u.Side + " only)")}
		if u.Required && !u.Allowed && u.Explained == "" {
			k.Failure = message("capture.missing", "required, and only one side has it", u.File)
		} else {
			k.Skipped = message("", "no partner", "")
		}
		s.Cases = append(s.Cases, k)
	}
	return s
}

// message builds a failure, error or skip.
func message(kind, text, more string) *junitMessage {
	return &junitMessage{Message: clean(text), Type: kind, Text: clean(more)}
}
