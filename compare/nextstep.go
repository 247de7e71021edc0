package compare

import "fmt"

// nextStep is step 2 of the protocol: what to do now, in this case.
func nextStep(c *Comparison) string {
	switch c.Verdict {
	case Trouble:
		return "Mend what cannot be read, then compare again."
	case Untrusted:
		for _, g := range c.Guards {
			if g.Status == Fail || dumperFaults[g.ID] && g.Status == Repaired || g.Status == NotChecked && g.Remedy != "" {
				return fmt.Sprintf("Mend the dump first, no layer can be blamed: %s.", g.Remedy)
			}
		}
		return "Mend the dump first, no layer can be blamed."
	case Divergence:
		if c.Enters != nil {
			return fmt.Sprintf("Hunt at %s: `parity explain %s %s` tests what could cause it on these tensors, before anything is recompiled.", c.Enters.Checkpoint, c.Ref.Path, c.Port.Path)
		}
		return "No single place was found: dump sub-taps of the first layer that differs, and compare again."
	}
	for _, ck := range c.Checkpoints {
		if ck.Logits != nil && ck.Logits.ArgmaxRef != ck.Logits.ArgmaxPort {
			return "Every layer agrees and the argmax differs inside the noise: do not bisect layers. If the texts differ, compare teacher-forced decode, then incremental decode, then serving (protocol step 6)."
		}
	}
	return "Every layer agrees: if the texts still differ, do not bisect layers; compare teacher-forced decode, then incremental decode, then serving (protocol step 6)."
}
