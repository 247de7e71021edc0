package diagnose

// Positional is the table of positional hypotheses, for tests outside the package.
var Positional = positional
