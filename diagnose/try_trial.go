package diagnose

// tryTrial runs a chain as `parity try` would and returns what it left, so that a
// finding's figures are those of its try line. ok is false where the chain cannot
// be applied to these tensors.
func tryTrial(c *Context, expr string, params int) (trial, bool) {
	chain, err := ParseTransforms(expr)
	if err != nil {
		return trial{}, false
	}
	ref, ok := c.Tensor(Ref, c.At)
	if !ok {
		return trial{}, false
	}
	port, ok := c.Tensor(Port, c.At)
	if !ok || len(port.Data) != len(ref.Data) {
		return trial{}, false
	}
	_, got, target, err := evaluateTry(c, chain)
	if err != nil {
		return trial{}, false
	}
	same := *got
	same.Rows, same.Cols = target.Rows, target.Cols
	return trial{
		before: distance(ref, port), after: distance(target, &same), floor: c.localFloor(c.At),
		params: params, values: len(target.Data),
	}, true
}
