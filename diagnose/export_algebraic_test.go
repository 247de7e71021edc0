package diagnose

// Algebraic is the table of algebraic hypotheses, for tests outside the package.
var Algebraic = algebraic
